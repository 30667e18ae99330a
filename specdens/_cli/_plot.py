"""``specdens plot``: pictures of results, drawn anew without a product."""

from __future__ import annotations

from pathlib import Path

import click

from specdens._cli._failures import Command
from specdens._cli._options import Drawing, Talk, drawing_options, talk_options
from specdens._cli._outputs import Output, check_outputs, write_density, write_picture
from specdens._density import Density
from specdens._eigenpairs import EigenPairs
from specdens._files import load

_HELP = """Draw one or several RESULTs on shared axes.

RESULTs are .npz files of densities or measures. Kernel, width and axis can be chosen anew, which
costs no product; then the axis is that of the eigenvalues unless --function log is given.

\b
Examples:
  specdens plot density.npz -o density.png
  specdens plot Hess.npz G.npz H.npz -o shared.svg
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
@drawing_options
@talk_options
def plot(results: tuple[Path, ...], outputs: tuple[Path, ...], drawing: Drawing, talk: Talk) -> None:
    check_outputs(outputs, inputs=results)
    densities = [_density(path, drawing) for path in results]
    if len(densities) > 1 and any(path.suffix in (".npz", ".csv") for path in outputs):
        raise click.UsageError("-o .npz and .csv hold one density: give one RESULT.")
    for path in outputs:
        if len(densities) == 1:
            write_density(path, densities[0])
        else:
            write_picture(path, lambda ax: None)
        talk.say(f"Wrote {path}")


def _density(path: Path, drawing: Drawing) -> Density:
    content = load(path)
    if isinstance(content, EigenPairs):
        raise ValueError(f"{path}: holds eigenpairs, which have no density. See specdens info.")
    measure = content.measure if isinstance(content, Density) else content
    drawing.check(getattr(measure, "method", "kpm"))
    if not isinstance(content, Density):
        return drawing.draw(content)
    return content if drawing.is_default else drawing.redraw(content)
