"""Searches for eigenvalues that do not stand apart: they end early, and say so."""

import numpy as np
import pytest
import scipy.sparse as sp

import specdens as sd
from specdens._eigenpairs.forecast import is_hopeless


def chain(n):
    return sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()


def test_a_search_at_a_dense_edge_ends_early_and_says_so():
    with pytest.warns(sd.SpecdensWarning, match=r"do not stand apart from the rest.*give `max_products` to go on"):
        pairs = sd.top_eigenpairs(chain(20000), rank=5, trial=False)
    assert pairs.num_products < 700  # 1,500 before
    assert not pairs.converged.any()


def test_a_budget_that_is_asked_for_is_spent():
    with pytest.warns(sd.SpecdensWarning, match=r"in 800 products.*Raise `max_products`"):
        pairs = sd.top_eigenpairs(chain(20000), rank=5, max_products=800)
    assert pairs.num_products == 800


def test_a_search_that_ended_early_goes_on_from_its_checkpoint(tmp_path):
    def search(**options):
        with pytest.warns(sd.SpecdensWarning):
            return sd.top_eigenpairs(chain(8000), rank=3, monitor=sd.Monitor(checkpoint=tmp_path / "c.npz"), **options)

    early = search()
    more = search(max_products=early.num_products + 100)
    assert more.num_products == early.num_products + 100
    assert np.all(more.residuals < early.residuals)


@pytest.mark.parametrize("rate", [0.01, 0.03, 0.3])
def test_geometric_convergence_is_never_given_up(rate):
    looks = [(t, 1e4 * np.exp(-rate * t)) for t in range(30, 1000, 7)]
    assert not any(is_hopeless(looks[:k], 1500) for k in range(1, len(looks)))


def test_a_power_law_is_given_up_before_half_of_the_budget():
    looks = [(t, 1e6 / t) for t in range(30, 1500, 7)]
    ends = [looks[k - 1][0] for k in range(1, len(looks)) if is_hopeless(looks[:k], 1500)]
    assert 300 <= ends[0] < 750


def test_the_report_of_a_density_names_the_products_for_its_eigenpairs():
    eigenvalues = np.append(np.linspace(0, 1, 2000), [5.0, 7.0])
    density = sd.spectral_density(sp.diags_array(eigenvalues).tocsr(), rank=2, num_steps=16, num_probes=1)
    assert f"2 deflated, found with {density.outliers.num_products} products" in repr(density)
