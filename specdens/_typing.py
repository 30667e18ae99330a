"""Types that stand in signatures, and nothing else: arrays, operands and the protocol of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""An array of any library that follows the array API standard."""

Floats: TypeAlias = NDArray[np.float64]
"""A NumPy array of float64."""


@runtime_checkable
class LinearOperator(Protocol):
    """Anything with a square shape, a dtype and products ``A @ x`` for x of shape (n,) and (n, k).

    There is nothing to inherit from. Objects may have further attributes; of these, ``device`` says where the vectors
    live.

    Attributes
    ----------
    shape : tuple of int
        (n, n).
    dtype : dtype
        The dtype of the vectors: float32, float64, complex64 or complex128, in the terms of any array library.

    Examples
    --------
    >>> from typing import Any
    >>> import numpy as np, specdens as sd
    >>> class Doubling:
    ...     shape, dtype = (3, 3), np.dtype("float64")
    ...
    ...     def __matmul__(self, x: Any) -> Any:
    ...         return 2 * x
    >>> isinstance(Doubling(), sd.LinearOperator)
    True
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, n)."""

    @property
    def dtype(self) -> Any:
        """The dtype of the vectors: float32, float64, complex64 or complex128."""

    def __matmul__(self, x: Any, /) -> Any:
        """Return the product with a vector (n,) or with the columns of a block (n, k)."""


OperatorLike: TypeAlias = LinearOperator | Sequence[Sequence[complex]] | Callable[[Any], Any]
"""What `as_operator` takes. Arrays, sparse matrices and SciPy's operators are `LinearOperator` by their attributes."""
