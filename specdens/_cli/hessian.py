"""``specdens hessian``: the curvature of a network of one's own."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from specdens._cli.failures import Command, need
from specdens._cli.options import (
    Drawing,
    Run,
    Scales,
    Talk,
    checkpoint_option,
    drawing_options,
    outputs_option,
    run_options,
    scales_options,
    talk_options,
)
from specdens._cli.outputs import OutputsFailed, check_outputs, write_density, write_outputs
from specdens._cli.problem import failures_of, load_problem
from specdens._cli.torchrun import process_group

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

Under torchrun every process takes a part of the data, and the first one talks and writes.

\b
Examples:
  specdens hessian problem.py --rank 10 -o result.npz -o result.png
  specdens hessian problem.py --operator Hess,G,H,B2c:3 --function log -o result.npz
  specdens hessian problem.py --option epoch=5 --log-y -o epoch5.png
  torchrun --nproc-per-node 2 -m specdens hessian problem.py -o result.npz
  specdens plot result-*-train.npz -o train.png
"""


def _operators(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the names that a comma-separated list holds, once each, or refuse one that is not known."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if name not in OPERATORS and not re.fullmatch(r"B2c:\d+", name):
            raise click.BadParameter(f"{name!r} is not one of {', '.join(OPERATORS)}, B2c:0, B2c:1, …", ctx, param)
    return names


def _problem_options(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Return NAME=VALUE pairs as keyword arguments, with the values of Python literals."""
    options: dict[str, Any] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", ctx, param)
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    return options


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
@click.option(
    "--option",
    "options",
    callback=_problem_options,
    metavar="NAME=VALUE",
    multiple=True,
    help="Passed on to problem() as a keyword argument: a Python literal, or else a string. May be repeated.",
)
@run_options
@checkpoint_option
@drawing_options
@scales_options
@outputs_option
@talk_options
def hessian(
    problem: Path,
    operators: tuple[str, ...],
    options: dict[str, Any],
    run: Run,
    drawing: Drawing,
    scales: Scales,
    outputs: tuple[Path, ...],
    checkpoint: Path | None,
    talk: Talk,
) -> None:
    run.check()
    drawing.check(run.method)
    scales.check(drawing)
    check_outputs(outputs, inputs=[problem], checkpoint=checkpoint)
    need("torch", "torch", "specdens hessian")
    with process_group() as rank:
        if rank > 0:  # the first rank talks and writes for all
            outputs, talk = (), replace(talk, quiet=True)
        _run(problem, operators, options, run, drawing, scales, outputs, checkpoint, talk)


def _run(
    problem: Path,
    operators: tuple[str, ...],
    options: dict[str, Any],
    run: Run,
    drawing: Drawing,
    scales: Scales,
    outputs: tuple[Path, ...],
    checkpoint: Path | None,
    talk: Talk,
) -> None:
    """Draw every operator on every split, and write what was asked for."""
    from specdens_torch import Curvature, shard

    given, failed = load_problem(problem, options), False
    for split, data in given.splits.items():
        with failures_of(problem):
            curvature = Curvature(given.model, given.loss, shard(data), **given.options)
            parts = {name: _operator(curvature, name) for name in operators}
        for name, A in parts.items():
            talk.say(f"{name}, {split}: {A.shape[0]} parameters")
            place = _named(checkpoint, name, split) if checkpoint else None
            result = run.density(A, drawing.function, checkpoint=place, quiet=talk.quiet)
            result = drawing.redrawn(result)
            paths = [_named(output, name, split) for output in outputs]
            writers = {path: partial(write_density, path, result, scales, title=f"{name}, {split}") for path in paths}
            try:
                write_outputs(writers, talk, before=[repr(result)])
            except OutputsFailed:  # the other operators have outputs of their own
                failed = True
    if failed:
        raise OutputsFailed(some_written=True)


def _operator(curvature: Any, name: str) -> Any:
    head, _, index = name.partition(":")
    return curvature.B2c(int(index)) if index else getattr(curvature, head)


def _named(path: Path, operator: str, split: str) -> Path:
    """Return the path with the operator and the split in its name."""
    return path.with_name(f"{path.stem}-{operator.replace(':', '')}-{split}{path.suffix}")
