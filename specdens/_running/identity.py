"""The identity of a run: what a checkpoint compares before it continues.

Settings must be equal, but for counts that may grow. An operator is known by its product with one fixed vector: equal
bytes are the same operator; otherwise the entries must agree to rounding. The machine may differ (threads, versions,
kernels): that is noted, as the resumed run is then not equal bit for bit.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specdens._operators.base import Operator
from specdens._operators.consistency import tolerance
from specdens._vectors import dispatch
from specdens._vectors.probes import probe_block
from specdens._vectors.threads import num_threads

_GROWING = ("num_steps", "num_probes", "num_moments")  # settings of which more may be asked for than was saved


class AnotherRunError(ValueError):
    """A checkpoint belongs to another run; the message says in what they differ."""


def first_product(A: Operator) -> NDArray[Any]:
    """Return the product with a fixed vector of signs, in the operator's subspace, on the host.

    All entries have the same size, so that a change of any diagonal entry, or of any eigenvalue, shows equally.
    """
    vectors, n = A.vectors, A.shape[0]
    signs = probe_block(vectors, n, (0,), 0, kind="rademacher")[:, 0]
    v = A.project(vectors.scale(vectors.from_host(np.asarray(vectors.whole_length(n) ** -0.5), vectors.wide), signs))
    return np.ascontiguousarray(vectors.to_host(A.apply_within(v)))


def describe_operator(A: Operator, product: NDArray[Any]) -> dict[str, Any]:
    """Return what is kept of an operator beside its first product."""
    return {
        "n": A.shape[0],
        "dtype": A.vectors.name,
        "num_known": int(A.known_atoms.positions.size),
        "known": A.known_atoms.positions.tolist(),
        "norm": float(np.linalg.norm(_wide(product))),
        "digest": hashlib.sha256(product.tobytes()).hexdigest(),
    }


def compare_operators(
    saved: Mapping[str, Any], now: Mapping[str, Any], stored: Iterable[NDArray[Any]], product: NDArray[Any], A: Operator
) -> str | None:
    """Raise if the operator is another one; return a note if its products differ by rounding.

    Parameters
    ----------
    saved, now
        The descriptions of the operator in the file and of this one.
    stored
        The first product in the file, in chunks; empty if it was lost.
    product
        The first product now.
    A
        The operator.
    """
    words = {"n": "n=", "dtype": "dtype=", "num_known": "number of deflated eigenvalues "}
    for key, word in words.items():
        if saved[key] != now[key]:
            raise AnotherRunError(f"it was made with {word}{saved[key]}; the operator has {now[key]}")
    known = float(np.max(np.abs(A.known_atoms.positions), initial=0.0))
    if known and not np.allclose(saved["known"], now["known"], rtol=0.0, atol=tolerance(A) * known):
        raise AnotherRunError("it was made with other deflated eigenvalues")
    if saved["digest"] == now["digest"]:
        return None
    size = max(saved["norm"], now["norm"], known)
    difference, worst = _difference(stored, product, max(size, np.finfo(np.float64).tiny))
    if difference is None:  # the product was lost with a damaged file: norms are all that is left
        difference, worst = abs(saved["norm"] - now["norm"]), 0.0
    # ε^⅔ of the norm: far above rounding, and a share of ε^⅔ √n in the movement of one eigenvalue of n
    allowed = A.vectors.eps ** (2 / 3)
    if not (difference <= allowed * size and worst <= tolerance(A)):
        raise AnotherRunError(
            f"it belongs to another operator (a product that had the norm {saved['norm']:.6g} has {now['norm']:.6g} "
            f"now, and differs by {difference / size:.2g} of it; rounding explains {allowed:.0e})"
        )
    return f"products differ by {difference / size:.1g} of their norm"


def _difference(
    stored: Iterable[NDArray[Any]], product: NDArray[Any], size: float
) -> tuple[float, float] | tuple[None, float]:
    """Return the norm of the difference, and the largest one of an entry relative to that entry or the typical one."""
    squares, worst, start, typical = 0.0, 0.0, 0, size / max(1, product.size) ** 0.5
    with np.errstate(invalid="ignore", over="ignore"):
        for chunk in stored:
            now = _wide(product[start : start + chunk.size])
            if now.shape != chunk.shape:
                raise AnotherRunError("its first product has another length")
            apart = np.abs(_wide(chunk) - now)
            squares += float(np.sum(np.square(apart)))
            worst = max(worst, float(np.max(apart / np.maximum(np.abs(now), typical))))
            start += chunk.size
    return (float(np.sqrt(squares)), worst) if start == product.size else (None, 0.0)


def _wide(x: NDArray[Any]) -> NDArray[Any]:
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64, copy=False)


def compare_settings(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise if settings differ, apart from counts that may grow."""
    differing = [key for key in now if key not in _GROWING and saved.get(key) != now[key]]
    if differing:
        raise AnotherRunError(
            f"it was made with {', '.join(f'{key}={saved.get(key)}' for key in differing)}; asked for "
            f"{', '.join(f'{key}={now[key]}' for key in differing)}. More steps or probes are fine; "
            f"another {differing[0]} is another run"
        )


def environment() -> dict[str, str]:
    """Return what may change results in their last digits, by name."""
    libraries: list[str] = [name for name in ("specdens", "numpy", "scipy", "torch", "jax") if name in sys.modules]
    versions = {name: _version(name) for name in libraries}
    kernels = "on" if dispatch.serves(sys.maxsize) else "off"
    blas = os.environ.get("OMP_NUM_THREADS", "unset")
    return {
        "python": platform.python_version(),
        **versions,
        "threads": str(num_threads()),
        "OMP_NUM_THREADS": blas,
        "compiled kernels": kernels,
    }


def compare_environments(saved: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what has changed, in words."""
    return [f"{key} {saved[key]}, now {value}" for key, value in now.items() if saved.get(key, value) != value]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"
