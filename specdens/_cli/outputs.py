"""Where results go: one function per kind of file, and refusals before any work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specdens._cli.failures import need, one_line
from specdens._cli.terminal import say
from specdens._density.density import Density
from specdens._plotting.single import add_legend
from specdens._printable import printable
from specdens._storage.atomic_write import replacing
from specdens._storage.csv import write_csv
from specdens._storage.save_load import save

if TYPE_CHECKING:
    from specdens._cli.options import Scales, Talk

    _PathType = click.ParamType[Path]
else:
    _PathType = click.ParamType  # generic since click 8.4

PICTURES = (".png", ".svg", ".pdf")
SUFFIXES = (".npz", ".csv", *PICTURES)


class Output(_PathType):
    """A file to write: its suffix says what, and its folder must be there."""

    name = "file"

    def __init__(self, suffixes: tuple[str, ...] = SUFFIXES) -> None:
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, or refuse it."""
        path = Path(value)
        if path.suffix not in self.suffixes:
            self.fail(f"{value}: the name must end in {', '.join(self.suffixes)}.", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"{value}: the folder {path.parent} does not exist.", param, ctx)
        if path.is_dir():
            self.fail(f"{value}: is a folder.", param, ctx)
        if not os.access(path.parent, os.W_OK):
            self.fail(f"{value}: the folder {path.parent} is not writable.", param, ctx)
        return path


def check_outputs(outputs: Sequence[Path], *, inputs: Sequence[Path], checkpoint: Path | None = None) -> None:
    """Refuse, before any work, pictures without matplotlib, and files that would overwrite an input or one another."""
    if any(path.suffix in PICTURES for path in outputs):
        need("matplotlib", "plot", "a picture")
    taken = {os.path.realpath(path): "the input" for path in inputs}
    for path in [*([checkpoint] if checkpoint else []), *outputs]:
        place = os.path.realpath(path)
        if place in taken:
            raise click.UsageError(f"{path} would overwrite {taken[place]}.")
        taken[place] = "the checkpoint" if path is checkpoint else "another output"


def write_outputs(writers: Mapping[Path, Callable[[], None]], talk: Talk, *, before: Sequence[str] = ()) -> None:
    """Write every output before anything is printed; one that fails does not keep the others from being written."""
    failed: dict[Path, Exception] = {}
    for path, write in writers.items():
        try:
            write()
        except Exception as error:
            failed[path] = error
    for line in (*before, *(f"Wrote {path}" for path in writers if path not in failed)):
        talk.say(line)
    for path, failure in failed.items():
        message = one_line(failure)
        say(f"Error: {message if str(path) in message else f'{path}: {message}'}", err=True)
    if failed:
        raise OutputsFailed(some_written=len(failed) < len(writers))


class OutputsFailed(click.exceptions.Exit):
    """Outputs could not be written: all of them, or some."""

    def __init__(self, *, some_written: bool) -> None:
        super().__init__(3 if some_written else 1)
        self.some_written = some_written


def write_density(path: Path, density: Density, scales: Scales, *, title: str | None = None) -> None:
    """Write a density as the suffix says."""
    if path.suffix == ".npz":
        save(path, density)
    elif path.suffix == ".csv":
        write_csv(path, density)
    else:
        write_picture(path, lambda ax: draw_density(density, ax, scales), title=title)


def draw_density(density: Density, ax: Any, scales: Scales) -> None:
    """Draw a density with a legend."""
    density.plot(ax, log_y=scales.log_y, x=scales.x)
    add_legend(ax, [density])


def write_picture(path: Path, draw: Callable[[Any], Any], *, title: str | None = None) -> None:
    """Draw on new Axes, without a window and whatever the backend, and write the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    ax = figure.add_subplot()
    draw(ax)
    if title:
        ax.set_title(literal(title))
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=150)


def literal(text: str) -> str:
    """Return text that matplotlib draws as it is: a dollar sign does not begin a formula."""
    return printable(text, keep="").replace("$", r"\$")
