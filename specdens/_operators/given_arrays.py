"""Arrays as people have them: lists, tables, matrices with nan, names of files."""

from __future__ import annotations

from os import PathLike
from typing import Any

import array_api_compat as aac
import numpy as np
import scipy.sparse
from numpy.typing import NDArray


def plain_array(name: str, A: Any) -> Any:
    """Return lists, ``np.matrix`` and tables (pandas, polars, xarray: whatever has ``to_numpy``) as NumPy arrays.

    Anything else is returned as it is, but for the name of a file, which is refused.
    """
    if isinstance(A, str | PathLike):
        raise TypeError(
            f"`{name}` must be a matrix or an operator; got the name of a file, {str(A)!r}. Read it first, with "
            "scipy.io.mmread, scipy.sparse.load_npz or np.load, for instance, or call "
            f'"specdens density {A}" on the command line.'
        )
    if isinstance(A, list | tuple | np.matrix):
        return np.asarray(A)
    if not hasattr(A, "to_numpy") or aac.is_array_api_obj(A) or scipy.sparse.issparse(A):
        return A
    A = np.asarray(A.to_numpy())
    if A.dtype.kind not in "biufc":
        raise TypeError(
            f"`{name}` must hold numbers; got entries of dtype {A.dtype}. Select the numeric columns and convert them, "
            f'for instance with {name}.select_dtypes("number").to_numpy(dtype=float).'
        )
    return A


def check_finite(name: str, entries: NDArray[Any]) -> None:
    """Refuse entries that are nan or infinite; a sum tells most arrays to be finite without further memory."""
    if entries.dtype.kind not in "fc":
        return
    with np.errstate(all="ignore"):
        if np.isfinite(np.sum(entries)):
            return
    wrong = entries[~np.isfinite(entries)]
    if wrong.size:
        kind = "nan" if np.any(np.isnan(wrong)) else "inf"
        raise ValueError(
            f"`{name}` must be finite; got {wrong.size} entries that are {kind}. Drop or replace them first."
        )
