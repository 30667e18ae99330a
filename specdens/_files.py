"""Results in files: ``.npz`` that plain NumPy can read, and densities as CSV."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from importlib import metadata
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from specdens._atomic import replacing
from specdens._atoms import Atoms
from specdens._bounds import Interval
from specdens._chebyshev_moments import ChebyshevMoments
from specdens._checkpoint import FORMAT as CHECKPOINT_FORMAT
from specdens._density import Density
from specdens._eigenpairs import EigenPairs
from specdens._measure import SpectralMeasure
from specdens._npz import Arrays, read_npz, write_npz
from specdens._vectors import vectors_like

Result: TypeAlias = SpectralMeasure | ChebyshevMoments | Density | EigenPairs

FORMAT = "specdens"
FORMAT_VERSION = 1
_OLDEST_VERSION = 1  # a field with a default may be added within a version; what else changes makes a new one

_KINDS: dict[str, type[Result]] = {
    kind.__name__: kind for kind in (SpectralMeasure, ChebyshevMoments, Density, EigenPairs)
}


def save(path: str | os.PathLike[str], obj: Result) -> None:
    """Write a measure, a density or eigenpairs to a file.

    The file is an ``.npz`` without pickled content: `numpy.load` opens it, the arrays have the names of the
    attributes (``measure.alphas`` within a density; what differs in length from probe to probe is concatenated, with
    the lengths beside it), and ``metadata`` is a string of JSON with all the rest. It appears under its name when it
    is complete, and replaces a former one only then.

    Parameters
    ----------
    path
        Where to write: a name that ends in ``.npz``, in a folder that exists.
    obj
        A `SpectralMeasure`, `ChebyshevMoments`, `Density` (with its measure and outliers) or `EigenPairs`. Eigenvectors
        of any array library are written, and come back, as NumPy arrays. The vectors that ``keep_vectors=True`` holds
        for `extend` are not written.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> measure = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 100)), num_steps=10)
    >>> path = getfixture("tmp_path") / "run.npz"
    >>> sd.save(path, measure)
    >>> sd.load(path)
    SpectralMeasure(fast_lanczos, dimension=100, probes=1 gaussian, steps=10, products=11, float64)
    >>> np.load(path)["alphas"].shape
    (10,)
    """
    if not isinstance(obj, tuple(_KINDS.values())):
        raise TypeError(f"`obj` must be one of {', '.join(_KINDS)}; got {type(obj).__name__}. The path comes first.")
    if not os.fspath(path).endswith(".npz"):
        raise ValueError(f"`path` must end in .npz; got {os.fspath(path)}")
    arrays, plain = _pack(obj)
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "written_by": _versions(), **plain}
    text = json.dumps(header, ensure_ascii=False, default=_as_plain)
    write_npz(path, {"metadata": np.array(text), **arrays})


def load(path: str | os.PathLike[str]) -> Result:
    """Read what `save` wrote.

    Parameters
    ----------
    path
        The file. Nothing in it is executed: pickled content is refused.

    Returns
    -------
    SpectralMeasure, ChebyshevMoments, Density or EigenPairs
        As it was saved, with NumPy arrays for eigenvectors.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> density = sd.spectral_density(np.diag([1.0, 2.0, 2.0]))
    >>> path = getfixture("tmp_path") / "density.npz"
    >>> sd.save(path, density)
    >>> sd.load(path).atoms.positions.round(12)
    array([1., 2.])
    """
    header = read_header(path)
    arrays = read_npz(path, lambda name: name != "metadata")
    try:
        return _unpack(header, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} is damaged: {error}") from None


# -- objects to arrays and plain values, and back --------------------------------------------------------------


class _Codec(NamedTuple):
    """How one kind of field is written as named arrays, and made again from them."""

    write: Callable[[str, Any], Arrays]
    read: Callable[[str, Arrays], Any]


def _write_ragged(name: str, rows: tuple[NDArray[Any], ...]) -> Arrays:
    lengths = np.array([row.size for row in rows], dtype=np.int64)
    return {name: np.concatenate([np.empty(0), *rows]), f"{name}_lengths": lengths}


def _read_ragged(name: str, arrays: Arrays) -> tuple[NDArray[Any], ...]:
    lengths, whole = arrays[f"{name}_lengths"], arrays[name]
    if np.sum(lengths) != whole.size:
        raise ValueError(f"{name} has {whole.size} entries, not the {np.sum(lengths)} of {name}_lengths")
    return tuple(np.split(whole, np.cumsum(lengths)[:-1])) if lengths.size else ()


_RAGGED = _Codec(_write_ragged, _read_ragged)
_ATOMS = _Codec(
    lambda name, atoms: {f"{name}_positions": atoms.positions, f"{name}_masses": atoms.masses},
    lambda name, arrays: Atoms(arrays[f"{name}_positions"], arrays[f"{name}_masses"]),
)
_INTERVAL = _Codec(
    lambda name, interval: {name: np.array(interval)},
    lambda name, arrays: Interval(*(float(end) for end in arrays[name])),
)
_VECTORS = _Codec(
    lambda name, vectors: {name: vectors_like(vectors).to_host(vectors)},
    lambda name, arrays: arrays[name],
)
_CODECS = {
    "alphas": _RAGGED,
    "betas": _RAGGED,
    "atoms": _ATOMS,
    "known_atoms": _ATOMS,
    "interval": _INTERVAL,
    "vectors": _VECTORS,
}
_LEFT_OUT = ("runs",)  # the vectors of a run, which belong into a checkpoint


def _pack(obj: Result) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of an object and the rest of it as a value that JSON can hold."""
    arrays: Arrays = {}
    plain: dict[str, Any] = {"kind": type(obj).__name__}
    for name in (field.name for field in fields(obj) if field.name not in _LEFT_OUT):
        value = getattr(obj, name)
        if name in _CODECS:
            arrays |= _CODECS[name].write(name, value)
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        elif type(value) in _KINDS.values():
            inner, plain[name] = _pack(value)
            arrays |= {f"{name}.{key}": array for key, array in inner.items()}
        else:
            plain[name] = value
    return arrays, plain


def _unpack(plain: Mapping[str, Any], arrays: Arrays) -> Result:
    """Make the object again; a field that the file does not have takes its default."""
    kind = _KINDS[plain["kind"]]
    values: dict[str, Any] = {}
    for field in fields(kind):
        name = field.name
        if name in _LEFT_OUT:
            continue
        if name in _CODECS:
            values[name] = _CODECS[name].read(name, arrays)
        elif name in arrays:
            values[name] = arrays[name]
        elif name in plain:
            values[name] = _unpack_plain(name, plain[name], arrays)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"it lacks {name}")
    return kind(**values)


def _unpack_plain(name: str, value: Any, arrays: Arrays) -> Any:
    if isinstance(value, dict) and value.get("kind") in _KINDS:
        prefix = f"{name}."
        return _unpack(value, {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)})
    return tuple(value) if isinstance(value, list) else value


def _as_plain(value: Any) -> Any:
    """Return a NumPy scalar as a number; JSON knows the rest."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"cannot save a {type(value).__name__}")


def own_version() -> str:
    """Return the version of specdens that is installed; "unknown" if it runs from its source without installation."""
    try:
        return metadata.version("specdens")
    except metadata.PackageNotFoundError:
        return "unknown"


def _versions() -> dict[str, str]:
    return {"specdens": own_version(), "numpy": np.__version__, "python": platform.python_version()}


# -- which files can be read -----------------------------------------------------------------------------------------


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the metadata of a file, if it is one that this version of specdens can read."""
    name = os.fspath(path)
    texts = read_npz(path, lambda key: key in ("metadata", "header"))
    try:
        header = json.loads(str(texts["metadata"]))
        is_ours = header["format"] == FORMAT
    except (KeyError, TypeError, json.JSONDecodeError):
        is_ours = False
    if not is_ours and CHECKPOINT_FORMAT in str(texts.get("header")):
        raise ValueError(f"{name} is the checkpoint of a run. Repeat the call that made it, and save its result.")
    if not is_ours:
        raise ValueError(f"{name} was not written by sd.save")
    version, writer = header.get("format_version"), header.get("written_by", {}).get("specdens", "unknown")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ValueError(
            f"{name} has format version {version}, written by specdens {writer}; this specdens reads up to version "
            f"{FORMAT_VERSION}. Upgrade: pip install -U specdens"
        )
    if version < _OLDEST_VERSION:
        raise ValueError(
            f"{name} has format version {version}, written by specdens {writer}, which was never released; this "
            f"specdens reads versions from {_OLDEST_VERSION}. Make it again, or read its arrays with numpy.load."
        )
    if header.get("kind") not in _KINDS:
        raise ValueError(f"{name} holds a {header.get('kind')}; sd.load knows {', '.join(_KINDS)}")
    return dict(header)


# -- CSV -------------------------------------------------------------------------------------------------------------


def write_csv(path: str | os.PathLike[str], density: Density) -> None:
    """Write grid, values and standard errors of a density as CSV, with all else in comment lines at the top."""
    lines = [
        f"# specdens: density of eigenvalues per unit {density.axis}, averaged over the cell around each point",
        f"# axis: {density.axis}",
        f"# kernel: {density.kernel}",
        *([] if density.epsilon is None else [f"# epsilon: {density.epsilon!r}"]),
        f"# mass_outside: {density.mass_outside!r}",
        *(f"# atom: {x!r}, {mass!r}" for x, mass in zip(*(part.tolist() for part in density.atoms), strict=True)),
        "grid,values,stderr",
    ]
    columns = (density.grid.tolist(), density.values.tolist(), density.stderr.tolist())
    lines += [f"{x!r},{value!r},{stderr!r}" for x, value, stderr in zip(*columns, strict=True)]
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
