"""Draw every figure whose results are stored, and write the table of claims anew. Computes nothing."""

from __future__ import annotations

import runpy
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
from experiment.store import Missing
from experiment.study import HERE, NETWORK_CHOICES

PER_NETWORK = ("fig_attribution.py", "fig_hessian.py", "fig_tail.py", "fig_class_components.py")


def main() -> None:
    """Run all figure scripts with --draw-only, then claims.py."""
    mpl.use("Agg")
    for path in sorted(HERE.glob("fig_*.py")):
        for network in NETWORK_CHOICES if path.name in PER_NETWORK else ("",):
            _run(path.name, "--draw-only", *(["--network", network] if network else []))
    _run("claims.py")


def _run(script: str, *options: str) -> None:
    sys.argv = [script, *options]
    try:
        runpy.run_path(str(HERE / script), run_name="__main__")
    except Missing as missing:
        print(f"{script}: {missing}")
    finally:
        plt.close("all")


if __name__ == "__main__":
    main()
