"""``specdens info``: what is in a result."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from specdens._cli.failures import Command
from specdens._cli.terminal import say
from specdens._cross.density import CrossDensity
from specdens._cross.measure import CrossMeasure
from specdens._density.density import Density
from specdens._eigenpairs.result import EigenPairs
from specdens._measure.base import Measure
from specdens._measure.chebyshev_moments import ChebyshevMoments
from specdens._storage.save_load import Result, load, read_header

_HELP = """Say what is in RESULT, an .npz file that sd.save, specdens density or specdens hessian wrote.

\b
Examples:
  specdens info density.npz
  specdens info density.npz --json | jq .measure.convergence
"""


@click.command("info", cls=Command, help=_HELP, short_help="Say what is in a result.")
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def info(result: Path, as_json: bool, debug: bool) -> None:
    header, content = read_header(result), load(result)
    file = {name: header[name] for name in ("kind", "format_version", "written_by")}
    summary = summarize(content)
    if as_json:
        say(json.dumps({"path": str(result), **file, **summary}, ensure_ascii=False, indent=2, allow_nan=False))
        return
    versions = ", ".join(f"{name} {version}" for name, version in header["written_by"].items())
    say(f"{result}: {header['kind']}, {result.stat().st_size / 1000:.1f} kB, written by {versions}")
    say(repr(content))
    measure = summary.get("measure", summary)
    if "convergence" in measure:
        say("  spectrum      within [{:.6g}, {:.6g}]".format(*measure["bounds"]))
        say(f"  converged to  {_words(measure['convergence'])}")
        say(f"  spent         {measure['num_products']} products, {measure['seconds']:.3g} s")
    if outliers := summary.get("outliers"):
        say(f"  outliers      {_outliers(outliers)}")


def summarize(content: Result) -> dict[str, Any]:
    """Return what a result says, in values that JSON can hold."""
    if isinstance(content, EigenPairs):
        names = ("values", "residuals", "converged")
        arrays = {name: getattr(content, name).tolist() for name in names}
        return {**arrays, "num_products": content.num_products, "seconds": content.seconds}
    if isinstance(content, Density):
        return _summarize_density(content)
    if isinstance(content, CrossMeasure | CrossDensity):
        cross = content.measure if isinstance(content, CrossDensity) else content
        total = cross.total()
        return {
            "form": cross.form,
            "total": [total.value.real, total.value.imag],
            "total_stderr": total.stderr,
            "measure": _summarize_measure(cross.run),
        }
    return _summarize_measure(content)


def _summarize_density(density: Density) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "axis": density.axis,
        "kernel": density.kernel,
        "num_points": density.grid.size,
        "grid": [float(density.grid[0]), float(density.grid[-1])],
        "mass": density.mass(),
        "mass_outside": density.mass_outside,
        "atoms": {"positions": density.atoms.positions.tolist(), "masses": density.atoms.masses.tolist()},
        "notes": list(density.notes),
        "measure": summarize(density.measure),  # type: ignore[arg-type]
    }
    if density.outliers is not None:
        summary["outliers"] = summarize(density.outliers)
    return summary


def _summarize_measure(measure: Measure) -> dict[str, Any]:
    names = ("dimension", "bulk_dimension", "dtype", "num_probes", "probes", "seed", "num_products", "seconds")
    length = "num_moments" if isinstance(measure, ChebyshevMoments) else "num_steps"
    return {
        "method": measure.settings.get("method", "average"),
        length: getattr(measure, length),
        **{name: getattr(measure, name) for name in names},
        "bounds": list(measure.bounds()),
        "convergence": {name: _finite(value) for name, value in measure.convergence()._asdict().items()},
    }


def _finite(value: float) -> float | None:
    """Return a number that JSON knows."""
    return value if math.isfinite(value) else None


def _words(convergence: dict[str, float | None]) -> str:
    """Return the parts of the error of the distribution, as shares of the width of the spectrum."""
    parts = [("steps", "to more steps"), ("sampling", "for the probes' sampling")]
    shares = [f"{convergence[name]:.2g} {words}" for name, words in parts if convergence[name] is not None]
    return ", ".join(shares) + " (W1 / width)"


def _outliers(outliers: dict[str, Any]) -> str:
    found = zip(outliers["values"], outliers["residuals"], strict=True)
    shown = [f"{value:.6g} (residual {residual:.0e})" for value, residual in found]
    return ", ".join([*shown[:5], "…"] if len(shown) > 5 else shown)
