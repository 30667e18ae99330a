"""``specdens density``: the density of a matrix in a file."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import click

from specdens._cli.failures import Command
from specdens._cli.matrices import check_matrix, is_sparse, read_matrix
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
from specdens._cli.outputs import check_outputs, write_density, write_outputs
from specdens._operators.convert import as_operator

_HELP = """Draw the density of the eigenvalues of MATRIX.

MATRIX is a symmetric or Hermitian matrix: .mtx or .mtx.gz (Matrix Market), .npz (scipy.sparse.save_npz) or .npy
(numpy.save). It is read into memory; only products with vectors are made.

\b
Examples:
  specdens density A.mtx
  specdens density A.mtx.gz --probes 8 -o density.npz -o density.png
  specdens density A.npz --rank 10 --function log -o log.svg
  specdens density A.npz --x symlog --log-y -o outliers.png
  specdens density A.npy --tol 1e-3 --checkpoint run.npz -o density.csv
"""


@click.command("density", cls=Command, help=_HELP)
@click.argument("matrix", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@run_options
@checkpoint_option
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64", "complex64", "complex128"]),
    help="Precision of the vectors.  [default: the matrix's]",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    help="Memory that the matrix may take.  [default: 20 times its file, 256 MiB at least, what is free at most]",
)
@drawing_options
@scales_options
@outputs_option
@talk_options
def density(
    matrix: Path,
    run: Run,
    dtype: str | None,
    max_bytes: int | None,
    drawing: Drawing,
    scales: Scales,
    outputs: tuple[Path, ...],
    checkpoint: Path | None,
    talk: Talk,
) -> None:
    run.check()
    drawing.check(run.method)
    scales.check(drawing)
    check_outputs(outputs, inputs=[matrix], checkpoint=checkpoint)
    started = time.perf_counter()
    A = read_matrix(matrix, max_bytes=max_bytes)
    check_matrix(matrix, A)
    seconds = time.perf_counter() - started
    stored = f"{A.nnz} stored entries, " if is_sparse(A) else ""
    talk.say(f"{matrix}: {A.shape[0]} × {A.shape[1]}, {stored}{A.dtype}, read and checked in {seconds:.1f} s")
    result = run.density(as_operator(A, dtype=dtype), drawing.function, checkpoint=checkpoint, quiet=talk.quiet)
    result = drawing.redrawn(result)
    writers = {path: partial(write_density, path, result, scales, title=matrix.name) for path in outputs}
    write_outputs(writers, talk, before=[repr(result)])
