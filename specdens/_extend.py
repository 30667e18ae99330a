"""`extend`: more steps, moments or probes of a run that has ended."""

from __future__ import annotations

from typing import Any, overload

from specdens._kpm.kpm import extend_moments
from specdens._lanczos.fast import extend_lanczos
from specdens._measure.chebyshev_moments import ChebyshevMoments
from specdens._measure.lanczos import SpectralMeasure


@overload
def extend(
    measure: SpectralMeasure,
    A: Any,
    *,
    num_steps: int | None = None,
    num_probes: int | None = None,
    keep_vectors: bool = True,
) -> SpectralMeasure: ...


@overload
def extend(
    measure: ChebyshevMoments,
    A: Any,
    *,
    num_moments: int | None = None,
    num_probes: int | None = None,
    keep_vectors: bool = True,
) -> ChebyshevMoments: ...


def extend(
    measure: SpectralMeasure | ChebyshevMoments,
    A: Any,
    *,
    num_steps: int | None = None,
    num_moments: int | None = None,
    num_probes: int | None = None,
    keep_vectors: bool = True,
) -> SpectralMeasure | ChebyshevMoments:
    """Return the measure with more steps, moments or probes, as if it had been asked for them at first.

    More steps or moments are the same bit for bit as those of one long run. More probes are too, where they fill
    blocks of their own; else they agree to rounding, as other blocks round differently.

    Parameters
    ----------
    measure : SpectralMeasure or ChebyshevMoments
        A result of `fast_lanczos` or `kpm`. More steps need its vectors (``keep_vectors=True``); more probes do not.
    A : operator
        The operator that it was made from, not a multiple or another version of it: only dimension and dtype are
        compared.
    num_steps : int, optional
        The new number of steps of a `SpectralMeasure`; by default what it has.
    num_moments : int, optional
        The new number of `ChebyshevMoments`; by default what there are.
    num_probes : int, optional
        The new number of probes; by default what the measure has.
    keep_vectors : bool, default True
        Whether the result can be extended in turn.

    Returns
    -------
    SpectralMeasure or ChebyshevMoments
        A measure of the same class.

    Raises
    ------
    ValueError
        If the vectors were not kept, the operator has another dimension or dtype, or later moments show that the
        spectrum leaves the interval.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> A = np.diag(np.linspace(-1, 1, 1000))
    >>> short = sd.fast_lanczos(A, num_steps=20, keep_vectors=True)
    >>> long = sd.extend(short, A, num_steps=50)
    >>> bool(np.array_equal(long.alphas[0], sd.fast_lanczos(A, num_steps=50).alphas[0]))
    True
    >>> few = sd.kpm(A, num_moments=64, keep_vectors=True)
    >>> many = sd.extend(few, A, num_moments=200)
    >>> bool(np.array_equal(many.mus, sd.kpm(A, num_moments=200).mus))
    True
    """
    if isinstance(measure, ChebyshevMoments):
        if num_steps is not None:
            raise ValueError("`num_steps` must be left out for Chebyshev moments; give `num_moments`, two per step")
        return extend_moments(measure, A, num_moments=num_moments, num_probes=num_probes, keep_vectors=keep_vectors)
    if not isinstance(measure, SpectralMeasure):
        raise TypeError(f"`measure` must come from fast_lanczos or kpm; got {type(measure).__name__}")
    if num_moments is not None:
        raise ValueError("`num_moments` must be left out for a Lanczos measure; give `num_steps`")
    return extend_lanczos(measure, A, num_steps=num_steps, num_probes=num_probes, keep_vectors=keep_vectors)
