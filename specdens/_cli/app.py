"""The group of all commands."""

from __future__ import annotations

import click

from specdens._cli.demo import demo
from specdens._cli.density import density
from specdens._cli.failures import Group
from specdens._cli.hessian import hessian
from specdens._cli.info import info
from specdens._cli.plot import plot
from specdens._storage.save_load import own_version

_HELP = """The density of the eigenvalues of anything that can multiply a vector.

\b
Examples:
  specdens demo                                        what it does, in a minute
  specdens density A.mtx --probes 8 -o density.png     a matrix in a file
  specdens hessian problem.py --operator Hess,G,H      a network's Hessian and its parts
  specdens plot a.npz b.npz -o both.svg                results on shared axes
  specdens info a.npz                                  what is in a result
"""


@click.group(
    cls=Group,
    help=_HELP,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(own_version(), message="specdens %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for command in (density, hessian, plot, info, demo):
    app.add_command(command)
