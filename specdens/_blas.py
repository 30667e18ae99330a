"""Vector updates by BLAS, in place, for long vectors in float64: what there is without compiled kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

Vector = NDArray[Any]


def three_term(w: Vector, v: Vector, z: Vector | None, a: Any, b: Any, c: Any, *, squares: bool) -> tuple[Any, Any]:
    """Turn w into a w + b v + c z in place; return ⟨v, w⟩ and ⟨w, w⟩, or None for the latter."""
    if a is not None:
        _function("scal", w)(a, w)
    if b is not None:
        _add(b, v, w)
    if c is not None and z is not None:
        _add(c, z, w)
    return _dot(v, w), _dot(w, w) if squares else None


def add_scale(b: Any, v: Vector, a: Any, w: Vector) -> Any:
    """Turn w into a (w + b v) in place; return ⟨w, w⟩."""
    _add(b, v, w)
    _function("scal", w)(a, w)
    return _dot(w, w)


def _add(a: Any, x: Vector, y: Vector) -> None:
    _function("axpy", y)(x, y, a=a)


def _dot(x: Vector, y: Vector) -> Any:
    return np.asarray(_function("dotc" if np.iscomplexobj(x) else "dot", x)(x, y))


def _function(name: str, x: Vector) -> Any:
    return get_blas_funcs(name, (x,))
