"""The interface for adapters: what a package needs that brings operators of another library to specdens.

Most operators need no adapter: anything with ``shape``, ``dtype`` and ``@`` is a `specdens.LinearOperator`, and
`specdens.as_operator` takes matrices, functions and arrays of every library that follows the array API standard. Write
an adapter where an operator knows something that a plain product does not tell:

- that its products with blocks are cheaper than column by column (``has_block_products``),
- that it can fuse its product with the vector work that follows (``three_term``),
- that part of its spectrum is known (``known_atoms``, ``bulk_dimension``, ``project``),
- that another operator has the same spectrum and costs less (``cheaper_form``).

Derive a class from `Operator`, call ``super().__init__(n, vectors)`` with the `Vectors` of the array library, device
and dtype (`vectors_like` of any array), and define ``apply(x)``, which returns the product with x of shape (n,) and
(n, k) as new memory. All else has defaults. ``A @ x`` checks the product's shape, dtype and device.

Everything here is public and follows semantic versioning. An adapter imports ``specdens`` and ``specdens.adapters``,
and nothing else of the package. ``docs/howto/write_an_adapter.md`` has a complete example; ``specdens_torch`` is an
adapter of full size.
"""

from specdens._distributions.atoms import Atoms
from specdens._eigenpairs.result import EigenPairs
from specdens._eigenpairs.result import denominators as residual_denominators
from specdens._operators.base import CheaperForm, Operator
from specdens._operators.wrappers import Wrapper
from specdens._typing import Array, LinearOperator
from specdens._validate import as_choice, as_count, as_positive
from specdens._vectors.base import Terms, Vectors
from specdens._vectors.distributed import DistributedVectors
from specdens._vectors.factory import vectors_like
from specdens._vectors.memory import available_bytes
from specdens._vectors.probes import probe_block, probe_rng

__all__ = [
    "Array",
    "Atoms",
    "CheaperForm",
    "DistributedVectors",
    "EigenPairs",
    "LinearOperator",
    "Operator",
    "Terms",
    "Vectors",
    "Wrapper",
    "as_choice",
    "as_count",
    "as_positive",
    "available_bytes",
    "probe_block",
    "probe_rng",
    "residual_denominators",
    "vectors_like",
]
