"""Draw the times of ours and of the peers from the figures that `everything.py` has kept.

``python benchmarks/picture.py docs/performance.json docs/images/performance.png``
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# The work of a panel, as the figures name it, its heading, and the unit of its bars.
PANELS = (
    (
        "Lanczos, CSR Laplacian, n = 1e+06, float64, 8 probes",
        "Lanczos, sparse 10⁶, 8 probes\nms per step and probe",
        "ms",
    ),
    ("Lanczos, CSR Laplacian, n = 1e+06, float64, 1 probe", "Lanczos, sparse 10⁶, one probe\nms per step", "ms"),
    (
        "KPM, square lattice, n = 1e+06, 8 probes, per moment",
        "KPM, square lattice 10⁶, 8 probes\nms per moment and probe",
        "ms",
    ),
    ("vector work of a step, n = 2e+07, float64", "vector work alone, n = 2·10⁷\nns per element", "ns / element"),
)
OURS, THEIRS = "#0b6e99", "#b8b8b8"


def panel(ax: Any, rows: list[dict[str, Any]], heading: str) -> None:
    """Draw the medians, the slowest on top, with the least and the largest as lines."""
    rows = sorted(rows, key=lambda row: -float(row["median"]))
    medians = [row["median"] for row in rows]
    spread = [[row["median"] - row["low"] for row in rows], [row["high"] - row["median"] for row in rows]]
    colours = [OURS if row["what"].startswith("specdens") else THEIRS for row in rows]
    names = [row["what"] for row in rows]
    ax.barh(names, medians, xerr=spread, color=colours, ecolor="#555555", error_kw={"linewidth": 0.8})
    for place, row in enumerate(rows):
        ax.annotate(f"{row['median']:.2g}", (row["high"], place), (4, 0), textcoords="offset points", va="center")
    ax.set_title(heading, fontsize=10, loc="left")
    ax.set_xlim(0, 1.15 * max(row["high"] for row in rows))
    ax.spines[["top", "right"]].set_visible(False)
    ax.invert_yaxis()


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw all panels that there are figures for."""
    rows = [row for result in figures["results"] for row in result["rows"]]
    chosen = {
        (work, heading): [r for r in rows if r["work"] == work and r["unit"] == unit] for work, heading, unit in PANELS
    }
    chosen = {key: found for key, found in chosen.items() if found}
    if not chosen:
        raise SystemExit("there are no figures to draw: run benchmarks/everything.py with --json first")
    figure, axes = plt.subplots(-(-len(chosen) // 2), 2, figsize=(11, 5.2), squeeze=False, layout="constrained")
    for ax in axes.flat[len(chosen) :]:
        ax.remove()
    for ax, ((_, heading), found) in zip(axes.flat, chosen.items(), strict=False):
        panel(ax, found, heading)
    figure.suptitle("Less is better. Bars: median of the rounds; lines: the least and the largest.", fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, help="the JSON file that everything.py has written")
    parser.add_argument("picture", type=Path, help="where to draw")
    arguments = parser.parse_args()
    draw(json.loads(arguments.figures.read_text(encoding="utf-8")), arguments.picture)


if __name__ == "__main__":
    main()
