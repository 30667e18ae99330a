"""More Chebyshev moments or probes of a run that has ended."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spectra import diagonal, rotated, semicircle

import specdens as sd

pytestmark = pytest.mark.usefixtures("_both_paths")

E = semicircle(80)


@given(st.integers(2, 24), st.integers(0, 24), st.booleans(), st.booleans(), st.integers(1, 5))
def test_more_moments_are_those_of_one_long_run_bit_for_bit(first, more, sparse, automatic, num_probes):
    A = diagonal(E).tocsr() if sparse else rotated(E)
    options = {"num_probes": num_probes, "bounds": None if automatic else (-2.1, 2.1), "block_size": 3}
    short = sd.kpm(A, num_moments=first, keep_vectors=True, **options)
    mus = short.mus.copy()
    long = sd.extend(short, A, num_moments=first + more)
    np.testing.assert_array_equal(long.mus, sd.kpm(A, num_moments=first + more, **options).mus)
    np.testing.assert_array_equal(short.mus, mus)
    again = sd.extend(short, A, num_moments=first + more)  # the first extension has not touched the vectors
    np.testing.assert_array_equal(again.mus, long.mus)
    assert long.num_products - short.num_products == num_probes * ((first + more) // 2 - first // 2)


@pytest.mark.parametrize("keep", [False, True])
def test_more_probes_that_fill_blocks_are_those_of_one_run_bit_for_bit(keep):
    A = rotated(E)
    few = sd.kpm(A, num_moments=21, num_probes=2, block_size=2, keep_vectors=keep)
    many = sd.extend(few, A, num_probes=5)
    np.testing.assert_array_equal(many.mus, sd.kpm(A, num_moments=21, num_probes=5, block_size=2).mus)
    assert many.num_products == few.num_products + 3 * 10


def test_more_probes_within_a_block_agree_to_rounding():
    A = rotated(E)
    many = sd.extend(sd.kpm(A, num_moments=40, num_probes=2, block_size=8), A, num_probes=5)
    np.testing.assert_allclose(many.mus, sd.kpm(A, num_moments=40, num_probes=5, block_size=8).mus, atol=1e-12)


def test_an_extension_can_be_extended_in_turn(tmp_path):
    A = rotated(E)
    moments = sd.kpm(A, num_moments=10, keep_vectors=True, block_size=1)
    moments = sd.extend(sd.extend(moments, A, num_moments=20), A, num_probes=3)
    whole = sd.kpm(A, num_moments=32, num_probes=3, block_size=1)
    np.testing.assert_array_equal(sd.extend(moments, A, num_moments=32).mus, whole.mus)
    sd.save(tmp_path / "moments.npz", moments)
    more = sd.extend(sd.load(tmp_path / "moments.npz"), A, num_probes=4)
    np.testing.assert_array_equal(more.mus, sd.kpm(A, num_moments=20, num_probes=4, block_size=1).mus)


def test_given_complex_vectors_can_go_on():
    A, v = rotated(E), np.exp(1j * np.arange(80))
    short = sd.kpm(A, num_moments=10, probes=v, keep_vectors=True)
    np.testing.assert_array_equal(sd.extend(short, A, num_moments=30).mus, sd.kpm(A, num_moments=30, probes=v).mus)
    with pytest.raises(ValueError, match="`num_probes` cannot grow for given start vectors"):
        sd.extend(short, A, num_probes=2)


def test_what_cannot_be_continued_is_refused():
    A = rotated(E)
    with pytest.raises(ValueError, match="more moments need the vectors of the run"):
        sd.extend(sd.kpm(A, num_moments=10), A, num_moments=20)
    kept = sd.kpm(A, num_moments=10, keep_vectors=True)
    with pytest.raises(ValueError, match="`A` must be the operator of the moments"):
        sd.extend(kept, np.eye(79), num_moments=20)
    with pytest.raises(ValueError, match="`num_moments` must be at least 10"):
        sd.extend(kept, A, num_moments=9)
    with pytest.raises(ValueError, match="`num_steps` must be left out"):
        sd.extend(kept, A, num_steps=9)
    with pytest.raises(ValueError, match="`num_moments` must be left out"):
        sd.extend(sd.fast_lanczos(A, num_steps=3), A, num_moments=9)
    with pytest.raises(TypeError, match="`measure` must come from fast_lanczos or kpm"):
        sd.extend(A, A)


def test_a_spectrum_that_leaves_the_interval_later_is_named():
    """Twelve moments do not show an eigenvalue just outside the bounds; a thousand do."""
    e = np.append(np.linspace(-1, 1, 200), 1.0001)
    short = sd.kpm(diagonal(e), num_moments=12, bounds=(-1, 1), keep_vectors=True)
    with pytest.raises(ValueError, match=r"the spectrum leaves the interval of these moments: .* Call kpm anew"):
        sd.extend(short, diagonal(e), num_moments=3000)
