"""Validation of SciPy's sparse formats, whose compiled products do not check indices."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_indices(A: Any) -> None:
    """Raise ValueError if an index of a sparse matrix lies outside of it: a product would read memory of others.

    Formats that index by Python objects (dok, lil) and diagonals check themselves.
    """
    if A.format in ("csr", "csc", "bsr"):
        A.check_format(full_check=True)
    elif A.format == "coo":
        for name, index, length in zip(("row", "column"), A.coords, A.shape, strict=True):
            if index.size and (int(index.min()) < 0 or int(index.max()) >= length):
                raise ValueError(f"{name} indices must lie from 0 to {length - 1}; got {index.min()} to {index.max()}")
        if any(index.shape != np.shape(A.data) for index in A.coords):
            raise ValueError("row and column indices must be as many as the entries")
