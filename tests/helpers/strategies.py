"""Hypothesis strategies that several tests share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

_magnitudes = st.one_of(st.just(0.0), st.floats(0.01, 1.0), st.integers(-7, 0).map(lambda k: 10.0**k))


@st.composite
def spectra(draw, *, max_distinct: int = 12, max_multiplicity: int = 4) -> np.ndarray:
    """Return sorted eigenvalues: repeated, clustered, zero, negative, of widely different sizes, at any scale."""
    values = draw(st.lists(st.tuples(_magnitudes, st.booleans()), min_size=1, max_size=max_distinct))
    centres = np.array([-x if negative else x for x, negative in values])
    copies = draw(st.lists(st.integers(1, max_multiplicity), min_size=centres.size, max_size=centres.size))
    eigenvalues = np.repeat(centres, copies)
    cluster = draw(st.sampled_from([0.0, 1e-12, 1e-8, 1e-4]))
    scale = 10.0 ** draw(st.integers(-6, 6))
    return np.sort(scale * (eigenvalues + cluster * np.arange(eigenvalues.size)))


@st.composite
def separated_spectra(draw, *, max_distinct: int = 12, max_multiplicity: int = 4) -> np.ndarray:
    """Return sorted eigenvalues, repeated, zero or negative, at any scale, that differ by 1 % of it if at all."""
    values = np.array(draw(st.lists(st.integers(-100, 100), min_size=1, max_size=max_distinct, unique=True)))
    copies = draw(st.lists(st.integers(1, max_multiplicity), min_size=values.size, max_size=values.size))
    return np.sort(np.repeat(values, copies) * 10.0 ** draw(st.integers(-6, 6)))


seeds = st.integers(0, 2**16)
