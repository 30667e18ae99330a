"""What tests of pictures share: densities to draw, and no figure is left open."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import spectra
from pictures import hess_g_h

mpl.use("Agg")

import matplotlib.pyplot as plt

import specdens as sd


@pytest.fixture(autouse=True)
def _no_figures_left():
    plt.close("all")  # those of tests elsewhere that ran in this process before
    settings = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == settings


@pytest.fixture(scope="module")
def measure():
    return sd.fast_lanczos(spectra.diagonal(np.append(spectra.semicircle(1000), 4.0)), num_steps=64, num_probes=2)


@pytest.fixture(scope="module")
def deflated():
    eigenvalues = np.concatenate([spectra.semicircle(997), [4.0, 5.0, 5.1]])
    return sd.spectral_density(spectra.diagonal(eigenvalues), num_steps=64, rank=3)


@pytest.fixture(scope="module")
def named():
    return hess_g_h()
