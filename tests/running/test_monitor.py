"""Progress: a function, a bar, or silence."""

from __future__ import annotations

import logging
from itertools import pairwise

import numpy as np
import pytest

import specdens as sd

MATRIX = np.diag(np.concatenate([[-50.0], np.linspace(-1, 1, 99)]))


@pytest.mark.parametrize("method", ["fast_lanczos", "slow_lanczos", "kpm"])
def test_a_function_sees_every_step_of_every_stage(method):
    seen: list[sd.Progress] = []
    sd.spectral_density(MATRIX, method=method, num_steps=10, num_probes=3, rank=1, progress=seen.append)
    stages = [each.stage for each in seen]
    assert stages == sorted(stages, reverse=True)  # "top_eigenpairs" comes first
    assert set(stages) == {"top_eigenpairs", method}
    last = seen[-1]
    assert last.num_products == last.total
    assert all(a.num_products <= b.num_products for a, b in pairwise(seen) if a.stage == b.stage)


def test_the_largest_eigenvalue_is_told_with_its_sign():
    seen: list[sd.Progress] = []
    sd.fast_lanczos(MATRIX, num_steps=20, monitor=sd.Monitor(progress=seen.append))
    assert seen[-1].largest == pytest.approx(-50.0)


def test_a_bar_can_be_asked_for(capsys):
    sd.fast_lanczos(MATRIX, num_steps=20, monitor=sd.Monitor(progress=True))
    assert "fast_lanczos: 100%" in capsys.readouterr().err


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_where_nobody_watches(progress, capsys):
    sd.spectral_density(MATRIX, num_steps=20, rank=1, progress=progress)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_stages_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="specdens"):
        sd.spectral_density(MATRIX, num_steps=20, num_probes=1)
    assert "fast_lanczos begins: num_steps=20" in caplog.text
    assert "fast_lanczos ends after 21 products" in caplog.text


def test_what_is_neither_a_function_nor_a_bool_is_refused():
    with pytest.raises(TypeError, match="`progress` must be None, True, False or a function; got 'yes'"):
        sd.spectral_density(MATRIX, progress="yes")
    with pytest.raises(ValueError, match=r"`checkpoint_interval` must be .*; got -1"):
        sd.spectral_density(MATRIX, checkpoint="run.npz", checkpoint_interval=-1)
