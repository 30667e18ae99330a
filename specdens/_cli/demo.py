"""``specdens demo``: what specdens does, without any input."""

from __future__ import annotations

from pathlib import Path

import click

from specdens._cli.demo_digits import missing_for_digits, run_digits
from specdens._cli.demo_pictures import run_demo
from specdens._cli.failures import Command
from specdens._cli.options import Talk, talk_options

_HELP = """Show what specdens does, in about a minute: reports on the screen, and pictures.

First the paper's synthetic verification: two matrices whose eigenvalues can be computed, with the densities drawn over
them (specdens-demo.png). Then the Hessian of a small network trained on real digits, and its parts G and H
(specdens-demo-digits.png), if torch and scikit-learn are installed.

\b
Examples:
  specdens demo
  specdens demo --output-dir pictures
"""


@click.command("demo", cls=Command, help=_HELP, short_help="Show what specdens does, in about a minute.")
@click.option(
    "--output-dir",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=".",
    show_default=True,
    help="Folder for the pictures.",
)
@talk_options
def demo(output_dir: Path, talk: Talk) -> None:
    talk.say(run_demo(output_dir / "specdens-demo.png"))
    if missing := missing_for_digits():
        talk.say(f"\nThe network trained on digits is left out: {missing}")
    else:
        talk.say("\n" + run_digits(output_dir / "specdens-demo-digits.png"))
