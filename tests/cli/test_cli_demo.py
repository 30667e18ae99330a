"""The command line: `specdens demo`, on small matrices and a small network."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from command_line import run

from specdens._cli import demo_digits as _demo_digits
from specdens._cli import demo_pictures as _demo


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Work in a folder of one's own, with matrices that take no time."""
    monkeypatch.chdir(tmp_path)
    spiked, pareto = _demo.spiked_covariance(200), _demo.pareto_covariance(60)
    monkeypatch.setattr(_demo, "spiked_covariance", lambda: spiked)
    monkeypatch.setattr(_demo, "pareto_covariance", lambda: pareto)
    return tmp_path


def is_picture(path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_demo_finds_the_outliers_and_leaves_a_picture(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "specdens_torch", None)
    (small / "pictures").mkdir()
    printed = run("demo", "--output-dir", "pictures")
    assert is_picture(small / "pictures" / "specdens-demo.png")
    exact = np.linalg.eigvalsh(_demo.spiked_covariance())[-3:]
    assert "found " + ", ".join(f"{value:.6f}" for value in exact) in printed
    assert 'The network trained on digits is left out: it needs torch: pip install "specdens[torch]"' in printed


def test_demo_says_what_is_missing(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    printed = run("demo")
    assert 'For a picture: pip install "specdens[plot]"' in printed
    assert (
        "left out: the digits come with scikit-learn: pip install scikit-learn" in printed
        or "specdens[torch]" in printed
    )
    assert not list(small.iterdir())


@pytest.mark.slow
def test_a_quiet_demo_leaves_its_pictures(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "specdens_torch", None)
    assert run("demo", "--quiet") == ""
    assert is_picture(small / "specdens-demo.png")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_demo_draws_the_curvature_of_a_network(small, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("specdens._cli.demo.missing_for_digits", lambda: None)

    def tiny_network():
        generator = torch.Generator().manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
        x, y = torch.randn(40, 4, generator=generator), torch.arange(40) % 3
        return model, torch.nn.CrossEntropyLoss(), [(x, y)], 0.5

    monkeypatch.setattr(_demo_digits, "_trained_network", tiny_network)
    threads = torch.get_num_threads()
    printed = run("demo")
    assert is_picture(small / "specdens-demo-digits.png")
    assert "A network of 51 parameters on 40 digits, 50.0 % right" in printed
    assert all(f"\n{name}: Density per unit λ" in printed for name in ("Hess", "G", "H"))
    assert torch.get_num_threads() == threads
