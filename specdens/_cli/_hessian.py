"""``specdens hessian``: the curvature of a network of one's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from specdens._cli._failures import Command, need
from specdens._cli._options import (
    Drawing,
    Run,
    Talk,
    checkpoint_option,
    drawing_options,
    outputs_option,
    run_options,
    talk_options,
)
from specdens._cli._outputs import check_outputs, write_density
from specdens._cli._problem import failures_of, load_problem

OPERATORS = ("Hess", "G", "H", "A1", "A2", "B1", "B2")

_HELP = """Draw the densities of the Hessian of a network, and of its parts.

PROBLEM is a Python file with a function problem() that returns (model, loss, train) or (model, loss, train, test): a
torch module in eval mode, a loss, and batches of (inputs, targets). Or it returns a dict with these keys, which may
also have params, forward, reduction and count for specdens_torch.Curvature. Every operator is drawn on every split,
and -o result.npz becomes result-Hess-train.npz, result-Hess-test.npz and so on.

\b
Example of problem.py:
  import torch
  def problem():
      model = torch.nn.Linear(64, 10)
      model.load_state_dict(torch.load("model.pt"))
      return model, torch.nn.CrossEntropyLoss(), [(x, y) for x, y in my_batches()]

\b
Examples:
  specdens hessian problem.py --rank 10 -o result.npz -o result.png
  specdens hessian problem.py --operator Hess,G,H,B2c:3 --function log -o result.npz
  specdens plot result-*-train.npz -o train.png
"""


def _operators(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the names that a comma-separated list holds, once each, or refuse one that is not known."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if name not in OPERATORS and not re.fullmatch(r"B2c:\d+", name):
            raise click.BadParameter(f"{name!r} is not one of {', '.join(OPERATORS)}, B2c:0, B2c:1, …", ctx, param)
    return names


@click.command("hessian", cls=Command, help=_HELP)
@click.argument("problem", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--operator",
    "operators",
    callback=_operators,
    metavar="NAMES",
    default="Hess",
    show_default=True,
    help=f"Comma-separated names: {', '.join(OPERATORS)}, and B2c:3 for the class 3.",
)
@run_options
@checkpoint_option
@drawing_options
@outputs_option
@talk_options
def hessian(
    problem: Path,
    operators: tuple[str, ...],
    run: Run,
    drawing: Drawing,
    outputs: tuple[Path, ...],
    checkpoint: Path | None,
    talk: Talk,
) -> None:
    run.check()
    drawing.check(run.method)
    check_outputs(outputs, inputs=[problem], checkpoint=checkpoint)
    need("torch", "torch", "specdens hessian")
    from specdens_torch import Curvature

    given = load_problem(problem)
    for split, data in given.splits.items():
        with failures_of(problem):
            curvature = Curvature(given.model, given.loss, data, **given.options)
            parts = {name: _operator(curvature, name) for name in operators}
        for name, A in parts.items():
            talk.say(f"{name}, {split}: {A.shape[0]} parameters")
            place = _named(checkpoint, name, split) if checkpoint else None
            result = run.density(A, drawing.function, checkpoint=place, quiet=talk.quiet)
            if not drawing.is_default:
                result = drawing.redraw(result)
            talk.say(repr(result))
            for path in (_named(output, name, split) for output in outputs):
                write_density(path, result, title=f"{name}, {split}")
                talk.say(f"Wrote {path}")


def _operator(curvature: Any, name: str) -> Any:
    head, _, index = name.partition(":")
    return curvature.B2c(int(index)) if index else getattr(curvature, head)


def _named(path: Path, operator: str, split: str) -> Path:
    """Return the path with the operator and the split in its name."""
    return path.with_name(f"{path.stem}-{operator.replace(':', '')}-{split}{path.suffix}")
