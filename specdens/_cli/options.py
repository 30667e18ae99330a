"""Options that several commands share, as one value per group."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click

from specdens._cli.outputs import Output
from specdens._cli.terminal import say
from specdens._density.density import Density
from specdens._density.estimators import DEFAULT_KAPPA
from specdens._density_request import METHODS
from specdens._measure.base import Measure
from specdens._measure.drawings import DENSITY_KERNELS
from specdens._plotting.single import SCALES
from specdens._spectral_density import spectral_density

Callback: TypeAlias = Callable[..., None]


class FiniteRange(click.FloatRange):
    """A range of numbers without nan and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or refuse it."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


@dataclass(frozen=True)
class Run:
    """What the products are made with."""

    method: Literal["fast_lanczos", "slow_lanczos", "kpm"] | None
    steps: int | None
    probes: int | None
    rank: int
    tol: float | None
    max_products: int | None
    seed: int
    checkpoint_interval: float

    def check(self) -> None:
        """Refuse options that do not go together."""
        is_adaptive = self.tol is not None or self.max_products is not None
        if is_adaptive and self.method not in (None, "fast_lanczos"):
            name = "--tol" if self.tol is not None else "--max-products"
            raise click.UsageError(
                f"{name} goes with --method fast_lanczos, whose runs can be extended; got {self.method}."
            )

    def density(self, A: Any, function: Literal["log"] | None, *, checkpoint: Path | None, quiet: bool) -> Density:
        """Make the products, with a progress bar on a terminal."""
        return spectral_density(
            A,
            method=self.method,
            num_steps=self.steps,
            num_probes=self.probes,
            rank=self.rank,
            function=function,
            tol=self.tol,
            max_products=self.max_products,
            seed=self.seed,
            checkpoint=checkpoint,
            checkpoint_interval=self.checkpoint_interval,
            progress=False if quiet else None,
        )


_RUN = (
    click.option(
        "--method",
        type=click.Choice(METHODS),
        help="Three vectors per probe; full reorthogonalisation; Chebyshev moments.  [default: all eigenvalues where "
        "that is cheap, else fast_lanczos with what is known of the matrix]",
    ),
    click.option(
        "--steps",
        type=click.IntRange(1),
        help="Products per probe.  [default: 128, or 2048 with --function log; the dimension if less]",
    ),
    click.option(
        "--probes",
        type=click.IntRange(1),
        help="Random start vectors.  [default: 1 to 8, fewer the larger the matrix]",
    ),
    click.option(
        "--rank",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Outliers to find first, and to take out of the bulk.",
    ),
    click.option(
        "--tol",
        type=FiniteRange(0, min_open=True),
        help="Error to reach, as a share of the spectrum's width (W1): steps and probes are added until then.",
    ),
    click.option(
        "--max-products",
        type=click.IntRange(1),
        help="Budget of products, split between steps and probes; 2048 with --tol.",
    ),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random vectors."),
    click.option(
        "--checkpoint-interval",
        type=FiniteRange(0),
        default=60.0,
        show_default=True,
        help="Seconds between two writes of --checkpoint.",
    ),
)


@dataclass(frozen=True)
class Drawing:
    """How a measure is drawn: no further product, whatever is chosen."""

    function: Literal["log"] | None
    kernel: Any
    kappa: float | None
    points: int | None
    epsilon: float | None

    def check(self, method: str | None) -> None:
        """Refuse options that do not go together, before the first product."""
        kernel = self.kernel or ("jackson" if method == "kpm" and not self.function else "gaussian")
        if self.function and self.kernel:
            raise click.UsageError("--kernel does not go with --function log, which is drawn with Gaussian bumps.")
        if self.kappa is not None and kernel != "gaussian":
            raise click.UsageError(f"--kappa is the width of --kernel gaussian; the kernel is {kernel}.")
        if self.epsilon is not None and not self.function:
            raise click.UsageError("--epsilon goes with --function log.")

    def draw(self, measure: Measure) -> Density:
        """Draw a measure as asked for."""
        points = 1024 if self.points is None else self.points
        if self.function == "log":
            epsilon, kappa = 1e-5 if self.epsilon is None else self.epsilon, self.kappa or DEFAULT_KAPPA
            return measure.log_density(epsilon, num_points=points, kappa=kappa)
        return measure.density(points, kernel=self.kernel, kappa=self.kappa)

    def redraw(self, density: Density) -> Density:
        """Return a density drawn anew from its measure, with all that the run had to say."""
        drawn = self.draw(density.measure)
        return replace(drawn, outliers=density.outliers, notes=density.notes)

    def redrawn(self, density: Density) -> Density:
        """Return the density as asked for; if that cannot be drawn, as it is, with a warning."""
        if self.is_default:
            return density
        try:
            return self.redraw(density)
        except Exception as error:  # what took hours is not lost for a picture
            warnings.warn(f"it cannot be drawn as asked for, and is drawn by default: {error}", stacklevel=2)
            return density

    @property
    def is_default(self) -> bool:
        """Whether the front door's picture is the one that was asked for, on whichever axis."""
        return all(choice is None for choice in (self.kernel, self.kappa, self.points, self.epsilon))


_DRAWING = (
    click.option(
        "--function", type=click.Choice(["log"]), help="log: the density of log(|λ| + ε), for small eigenvalues."
    ),
    click.option(
        "--kernel", type=click.Choice(DENSITY_KERNELS), help="[default: local; kpm: jackson; with --kappa: gaussian]"
    ),
    click.option(
        "--kappa",
        type=FiniteRange(1, min_open=True),
        help=f"Width of the kernel gaussian: larger is narrower.  [default: {DEFAULT_KAPPA}]",
    ),
    click.option("--points", type=click.IntRange(2, 10**7), help="Points of the grid.  [default: 1024]"),
    click.option(
        "--epsilon", type=FiniteRange(0, min_open=True), help="ε of --function log.  [default: 1e-5]"
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Scales:
    """The options that choose the axes of a picture."""

    log_y: bool
    x: Literal["linear", "symlog"]

    def check(self, drawing: Drawing) -> None:
        """Refuse, before any work, two scales of the eigenvalues at once."""
        if self.x == "symlog" and drawing.function:
            raise click.UsageError("--x symlog goes with densities of λ; --function log has its own axis.")


_SCALES = (
    click.option("--log-y", is_flag=True, help="Draw the density on a logarithmic axis."),
    click.option(
        "--x",
        type=click.Choice(SCALES),
        default="linear",
        help="Scale of the eigenvalues; symlog shows bulk and outliers of both signs.  [default: linear]",
    ),
)


@dataclass(frozen=True)
class Talk:
    """The verbosity options."""

    quiet: bool
    debug: bool

    def say(self, text: str) -> None:
        """Print, unless asked not to."""
        if not self.quiet:
            say(text)


_TALK = (
    click.option("-q", "--quiet", is_flag=True, help="Print warnings and errors only."),
    click.option("--debug", is_flag=True, help="Show the traceback of an error."),
)

outputs_option = click.option(
    "-o",
    "--output",
    "outputs",
    type=Output(),
    multiple=True,
    help="File to write: .npz (for sd.load, plot and info), .csv, .png, .svg or .pdf. May be repeated.",
)
checkpoint_option = click.option(
    "--checkpoint",
    type=Output((".npz",)),
    help="File (.npz) to save the state of the run in. The same command goes on from there.",
)


def grouped(name: str, group: type[Any], options: tuple[Callable[[Any], Any], ...]) -> Callable[[Callback], Callback]:
    """Return a decorator that adds options to a command and passes them as one value."""

    def decorate(command: Callback) -> Callback:
        @wraps(command)
        def collect(**given: Any) -> None:
            value = group(**{field.name: given.pop(field.name) for field in fields(group)})
            command(**given, **{name: value})

        decorated: Callback = collect
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


run_options = grouped("run", Run, _RUN)
drawing_options = grouped("drawing", Drawing, _DRAWING)
talk_options = grouped("talk", Talk, _TALK)
scales_options = grouped("scales", Scales, _SCALES)
