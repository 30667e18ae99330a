"""``specdens plot``: pictures of results, drawn anew without a product."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path

import click

from specdens._cli.failures import Command
from specdens._cli.options import Drawing, Scales, Talk, drawing_options, scales_options, talk_options
from specdens._cli.outputs import (
    PICTURES,
    Output,
    check_outputs,
    draw_density,
    literal,
    write_density,
    write_outputs,
    write_picture,
)
from specdens._cross.density import CrossDensity
from specdens._cross.measure import CrossMeasure
from specdens._density.density import Density
from specdens._eigenpairs.result import EigenPairs
from specdens._plotting.many import plot_densities
from specdens._storage.save_load import load

_HELP = """Draw one or several RESULTs on shared axes.

RESULTs are .npz files of densities or measures. Kernel, width and axis can be chosen anew, which
costs no product; then the axis is that of the eigenvalues unless --function log is given.

\b
Examples:
  specdens plot density.npz -o density.png
  specdens plot result-Hess-train.npz result-G-train.npz --log-y -o shared.svg
  specdens plot density.npz --x symlog --log-y -o outliers.png
  specdens plot density.npz --function log -o log.pdf
  specdens plot density.npz --kernel jackson --points 4000 -o density.csv
"""


@click.command("plot", cls=Command, help=_HELP)
@click.argument("results", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    "outputs",
    type=Output(),
    multiple=True,
    required=True,
    help="Picture to write: .png, .svg or .pdf; for a single RESULT also .csv or .npz. May be repeated.",
)
@scales_options
@drawing_options
@talk_options
def plot(
    results: tuple[Path, ...],
    outputs: tuple[Path, ...],
    scales: Scales,
    drawing: Drawing,
    talk: Talk,
) -> None:
    scales.check(drawing)
    check_outputs(outputs, inputs=results)
    if len(results) > 1 and any(path.suffix not in PICTURES for path in outputs):
        raise click.UsageError("-o .npz and .csv hold one density: give one RESULT.")
    densities = dict(zip(names_apart(results), (_density(path, drawing) for path in results), strict=True))
    name, density = next(iter(densities.items()))
    drawn = {literal(name): each for name, each in densities.items()}

    def write(path: Path) -> None:
        if path.suffix not in PICTURES:
            write_density(path, density, scales)
        elif len(densities) == 1:
            write_picture(path, lambda ax: draw_density(density, ax, scales), title=name)
        else:
            write_picture(path, lambda ax: plot_densities(drawn, ax=ax, log_y=scales.log_y, x=scales.x))

    write_outputs({path: partial(write, path) for path in outputs}, talk)


def names_apart(paths: Sequence[Path]) -> list[str]:
    """Return what tells files apart: result-Hess-train.npz and result-G-train.npz are Hess and G."""
    parts = [path.stem.split("-") for path in paths]
    start = _num_shared(parts)
    end = _num_shared([part[start:][::-1] for part in parts])
    candidates = [
        ["-".join(part[start : len(part) - end]) for part in parts],
        [path.stem for path in paths],
        [str(path) for path in paths],
        [f"{path} ({i})" for i, path in enumerate(paths, start=1)],
    ]
    return next(names for names in candidates if all(names) and len(set(names)) == len(names))


def _num_shared(parts: Sequence[Sequence[str]]) -> int:
    """Return with how many equal parts all begin."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False)))


def _density(path: Path, drawing: Drawing) -> Density:
    content = load(path)
    if isinstance(content, EigenPairs):
        raise ValueError(f"{path}: holds eigenpairs, which have no density. See specdens info.")
    if isinstance(content, CrossMeasure | CrossDensity):
        raise ValueError(f"{path}: holds a signed measure. Draw it in Python: sd.load(path).plot()")
    measure = content.measure if isinstance(content, Density) else content
    drawing.check(getattr(measure, "method", "kpm"))
    if not isinstance(content, Density):
        return drawing.draw(content)
    return content if drawing.is_default and not drawing.function else drawing.redraw(content)
