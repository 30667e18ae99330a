"""What `spectral_density` was asked for: checks, defaults, and the run that answers it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from numpy.typing import ArrayLike

from specdens._distributions.cdf import Floats
from specdens._eigenpairs.exact import LARGEST_MATRIX, exact_measure, is_explicit
from specdens._kpm.kpm import kpm
from specdens._lanczos.bounds import spectral_bounds
from specdens._lanczos.fast import DEFAULT_STEPS, fast_lanczos, steps_within
from specdens._lanczos.slow import slow_lanczos
from specdens._lanczos.to_tolerance import lanczos_to_tolerance
from specdens._measure.base import Measure
from specdens._measure.quadrature import check_takes_arrays
from specdens._operators.base import CheaperForm, Operator
from specdens._operators.csr import SparseMatrix
from specdens._operators.wrappers import Wrapper
from specdens._running.executor import ExecutorLike
from specdens._running.monitor import Monitor
from specdens._running.start_vectors import as_probes
from specdens._validate import as_choice, as_count, as_positive, as_seed

METHODS = ("fast_lanczos", "slow_lanczos", "kpm")
DEFAULT_LOG_STEPS = 2048

_ENOUGH_SAMPLES = 8000  # eigenvalues times probes: the noise of a picture is then below a tenth
_MOST_PROBES = 8
_CHEAP_PROBES = 4  # of a matrix whose products are cheap
_CHEAP = 2**27  # multiplications in all that take half a second
_PASSES = 10  # multiplications per entry of a vector and step


@dataclass(frozen=True)
class DensityRequest:
    """The arguments of `spectral_density` that shape its result."""

    method: str | None
    num_steps: int | None
    num_probes: int | None
    rank: int
    function: Literal["log"] | Callable[[Floats], ArrayLike] | None
    tol: float | None
    max_products: int | None
    seed: int
    known_moments: tuple[float, ...] | None = None
    start_vectors: Any = None
    energy_resolution: float | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with."""
        function: Any = self.function
        if callable(function):
            function = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', 'function')}"
        method = self.method or "fast_lanczos"
        return {"method": method, "rank": int(self.rank), "function": function, "seed": int(self.seed)}

    @property
    def arguments(self) -> dict[str, Any]:
        """What processes that compute together must agree on, under the names of the arguments."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        start = fields.pop("start_vectors")
        return {**fields, "probes": start if start is None or isinstance(start, str) else "given"}

    # -- checks --------------------------------------------------------------------------------------------------

    def check(self, A: Operator) -> None:
        """Refuse what cannot be done, before the first product."""
        as_seed(self.seed)
        if self.method is not None:
            as_choice("method", self.method, METHODS)
        if self.num_probes is not None:
            as_count("num_probes", self.num_probes)
        as_count("rank", self.rank, minimum=0, maximum=A.bulk_dimension)
        if self.num_steps is not None:
            as_count("num_steps", self.num_steps)
        is_log = isinstance(self.function, str) and self.function == "log"
        if not (self.function is None or callable(self.function) or is_log):
            raise ValueError(f'`function` must be None, "log" or a function; got {self.function!r}')
        if callable(self.function):
            check_takes_arrays("function", self.function)
        if self.known_moments is not None and self.method == "kpm":
            raise ValueError('`known_moments` needs a Lanczos method; got method="kpm"')
        self._check_effort()
        self._check_start_vectors(A)
        self._check_resolution()

    def _check_start_vectors(self, A: Operator) -> None:
        if self.start_vectors is None:
            return
        if self.rank or self._is_adaptive:
            name = "rank" if self.rank else "tol" if self.tol is not None else "max_products"
            raise ValueError(f"`{name}` must be left out with given `probes`: their density is not that of eigenvalues")
        as_probes(A, self.start_vectors, self.num_probes or 1)

    def _check_resolution(self) -> None:
        if self.energy_resolution is None:
            return
        as_positive("energy_resolution", self.energy_resolution)
        if self.num_steps is not None or self._is_adaptive or self.function is not None:
            raise ValueError(
                "`energy_resolution` must come without `num_steps`, `tol`, `max_products` and `function`: it chooses "
                "the steps of a density of λ"
            )

    def _check_effort(self) -> None:
        if self.tol is not None:
            as_positive("tol", self.tol)
        if self.max_products is not None:
            as_count("max_products", self.max_products)
        name = "tol" if self.tol is not None else "max_products"
        if self._is_adaptive and self.method not in (None, "fast_lanczos"):
            raise ValueError(f'`{name}` needs method="fast_lanczos", whose runs can be extended; got {self.method!r}')
        if self.max_products is not None and self.max_products < (self.num_probes or 1) + 1:
            raise ValueError(
                f"`max_products` must allow {(self.num_probes or 1) + 1}, one step of every probe and a check; "
                f"got {self.max_products}"
            )

    @property
    def _is_adaptive(self) -> bool:
        return self.tol is not None or self.max_products is not None

    def within(self, A: Operator) -> tuple[DensityRequest, tuple[str, ...]]:
        """Return the request with no more steps than there are eigenvalues to find, and a remark if that changes it."""
        most = A.bulk_dimension - self.rank
        if self.num_steps is None or not 0 < most < self.num_steps:
            return self, ()
        left = f"the {A.bulk_dimension} eigenvalues" + (f", of which {self.rank} were deflated" if self.rank else "")
        return replace(self, num_steps=most), (f"{most} steps instead of {self.num_steps}: no more than {left}",)

    # -- defaults ------------------------------------------------------------------------------------------------

    def steps(self, A: Operator) -> int:
        """Return the number of steps on an operator: what was asked for, or the default, within its dimension."""
        if not A.bulk_dimension:
            return 0
        if self.energy_resolution is not None:
            return self._steps_for_resolution(A, self.energy_resolution)
        default = DEFAULT_LOG_STEPS if self.function == "log" and not self._is_adaptive else DEFAULT_STEPS
        num_steps = None if self.num_steps is None else min(self.num_steps, A.bulk_dimension)
        return steps_within(A, num_steps, default)

    def _steps_for_resolution(self, A: Operator, resolution: float) -> int:
        """Return the steps after which the nodes are as far apart as the resolution, in the middle of the spectrum."""
        width = spectral_bounds(A, seed=self.seed, margin=0.0).width
        # nodes lie as densely as those of Chebyshev: πw/2K apart in the middle
        return min(max(2, math.ceil(math.pi / 2 * width / resolution)), A.bulk_dimension)

    def probes(self, A: Operator) -> int:
        """Return the number of probes: what was asked for, or enough for a picture without much noise.

        Of explicit matrices more are taken where their products are cheap: half a second in all.
        """
        if self.num_probes is not None:
            return self.num_probes
        enough = math.ceil(_ENOUGH_SAMPLES / max(A.bulk_dimension, 1))
        inner = A
        while isinstance(inner, Wrapper):
            inner = inner.A
        if isinstance(inner, SparseMatrix) and not self._is_adaptive:
            work = self.steps(A) * (inner.A.nnz + _PASSES * A.shape[0])
            enough = max(enough, min(_CHEAP_PROBES, _CHEAP // max(work, 1)))
        return max(1, min(_MOST_PROBES, enough))

    def _is_exact(self, A: Operator) -> bool:
        """Return whether to compute all eigenvalues: where that is cheap, or no dearer than what was asked for."""
        n = A.shape[0]
        is_free = self.method is None and self.num_steps is None and self.num_probes is None and not self.rank
        is_free = is_free and self.start_vectors is None and (self.energy_resolution is None or is_explicit(A))
        if not is_free or A.bulk_dimension < A.dimension or A.dimension != n:
            return False
        if is_explicit(A):
            return n <= LARGEST_MATRIX
        budget = self.steps(A) * self.probes(A) if self.tol is None else DEFAULT_STEPS
        return n <= min(budget if self.max_products is None else self.max_products, LARGEST_MATRIX)

    # -- the run -------------------------------------------------------------------------------------------------

    def run(
        self,
        A: Operator,
        form: CheaperForm | None,
        monitor: Monitor,
        *,
        spent: int,
        executor: ExecutorLike | None,
    ) -> tuple[Measure, tuple[str, ...]]:
        """Return the measure that was asked for, and remarks on the run; `spent` products were made before."""
        notes: tuple[str, ...] = () if form is None else (form.note,)
        if form is None and self._is_exact(A):
            exact = exact_measure(A)
            if exact is not None:
                return exact, (f"all {A.dimension} eigenvalues were computed: there is no sampling error",)
        num_steps, num_probes = self.steps(A), self.probes(A)
        if self._is_adaptive and A.bulk_dimension:
            found, note = lanczos_to_tolerance(
                A, tol=self.tol, max_products=self.max_products, num_steps=self.num_steps,
                num_probes=self.num_probes, seed=self.seed, monitor=monitor, spent=spent, executor=executor,
                known_moments=self.known_moments,
            )  # fmt: skip
            return found, (*notes, note)
        if self.num_probes is None and num_probes > 1 and self.start_vectors is None:
            notes += (f"{num_probes} probes of {num_steps} steps were chosen for {A.bulk_dimension} eigenvalues",)
        if self.energy_resolution is not None:
            notes += (f"{num_steps} steps were chosen for a resolution of ± {self.energy_resolution:g}",)
        common: dict[str, Any] = {"num_probes": num_probes, "seed": self.seed, "monitor": monitor, "executor": executor}
        if self.start_vectors is not None:
            kind, number = as_probes(A, self.start_vectors, 1 if self.num_probes is None else self.num_probes)
            common |= {"probes": self.start_vectors, "num_probes": number if kind == "given" else num_probes}
        if self.method == "kpm":
            return kpm(A, num_moments=2 * max(num_steps, 1), **common), notes
        reorthogonalise = self.method == "slow_lanczos" or (form is not None and num_steps <= form.full_steps)
        lanczos = slow_lanczos if reorthogonalise else fast_lanczos
        measure = lanczos(A, num_steps=num_steps or None, **common)
        return replace(measure, known_moments=self.known_moments), notes
