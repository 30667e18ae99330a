import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

SCRIPTS = Path(__file__).parents[2] / "docs" / "reproduction"

FIGURES = sorted(path.stem for path in SCRIPTS.glob("fig_*.py"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def _run(monkeypatch, script, *options):
    monkeypatch.setattr(sys, "argv", [script, *options])
    try:
        runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    finally:
        plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_from_a_tiny_computation(name, cache, monkeypatch):
    before = {path.name for path in (cache / "tiny" / "figures").glob("*.png")}
    _run(monkeypatch, f"{name}.py", "--tiny", "--cache", str(cache))
    drawn = {path.name for path in (cache / "tiny" / "figures").glob("*.png")} - before
    assert len(drawn) == 1
    _run(monkeypatch, f"{name}.py", "--tiny", "--cache", str(cache), "--draw-only")


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_what_is_stored_can_be_drawn(name, tmp_path, monkeypatch):
    from experiment.store import Missing

    try:
        _run(monkeypatch, f"{name}.py", "--draw-only", "--cache", str(tmp_path), "--figures", str(tmp_path))
    except Missing as missing:
        pytest.skip(str(missing))
    assert list(tmp_path.rglob("*.png"))
