"""The lines of the README about torch models run as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.slow
def test_the_lines_of_the_readme_run_as_written(tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    text = README.read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- test: curvature -->\n```python\n(.*?)```", text, re.DOTALL)
    lines = [line for line in block.splitlines() if line.strip()]
    assert len(lines) <= 10
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        exec(compile(block, str(README), "exec"), names)
    plt.close("all")
    densities = names["densities"]
    assert list(densities) == ["Hess", "G", "H"]
    for density in densities.values():
        assert density.mass() + density.mass_outside == pytest.approx(1)
    assert (tmp_path / "curvature.png").stat().st_size > 10_000
