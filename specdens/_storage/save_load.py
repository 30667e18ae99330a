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

from specdens._cross.density import CrossDensity
from specdens._cross.measure import CrossMeasure
from specdens._density.density import Density
from specdens._distributions.atoms import Atoms
from specdens._distributions.interval import Interval
from specdens._eigenpairs.result import EigenPairs
from specdens._measure.chebyshev_moments import ChebyshevMoments
from specdens._measure.ensemble import EnsembleMeasure
from specdens._measure.lanczos import SpectralMeasure
from specdens._running.checkpoint import FORMAT as CHECKPOINT_FORMAT
from specdens._storage.npz import Arrays, DamagedFileError, ForeignFileError, NpzReader, open_npz, write_npz
from specdens._storage.schema import check_fields
from specdens._vectors.factory import vectors_like

Result: TypeAlias = (
    SpectralMeasure | ChebyshevMoments | Density | EigenPairs | CrossMeasure | CrossDensity | EnsembleMeasure
)

FORMAT = "specdens"
FORMAT_VERSION = 1
_OLDEST_VERSION = 1  # a field with a default may be added within a version; what else changes makes a new one

_KINDS: dict[str, type[Result]] = {
    kind.__name__: kind
    for kind in (SpectralMeasure, ChebyshevMoments, Density, EigenPairs, CrossMeasure, CrossDensity, EnsembleMeasure)
}


_MEASURES = (SpectralMeasure, ChebyshevMoments, EnsembleMeasure)


def save(path: str | os.PathLike[str], obj: Result) -> None:
    """Write a measure, a density or eigenpairs to a file.

    The file is an ``.npz`` without pickled content: `numpy.load` opens it, the arrays have the names of the
    attributes (``measure.alphas`` within a density; what differs in length from probe to probe is concatenated, with
    the lengths beside it), and ``metadata`` is a string of JSON with all the rest. It appears under its name when it
    is complete, and replaces a former one only then.

    Parameters
    ----------
    path : str or path
        Where to write: a name that ends in ``.npz``, in a folder that exists.
    obj : Measure, Density, EigenPairs, CrossMeasure or CrossDensity
        A `SpectralMeasure`, `ChebyshevMoments`, `EnsembleMeasure`, `Density` (with its measure and outliers),
        `EigenPairs`, `CrossMeasure` or `CrossDensity`. Eigenvectors of any array library are written, and come back, as
        NumPy arrays. The vectors that ``keep_vectors=True`` holds for `extend` are not written.

    Raises
    ------
    TypeError
        If `obj` is none of these.
    ValueError
        If `path` does not end in ``.npz``.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, specdens as sd
    >>> measure = sd.fast_lanczos(np.diag(np.linspace(-1, 1, 100)), num_steps=10)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.npz"
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
    header["arrays"] = sorted(arrays)  # so that one that is missing is not taken for a field with its default
    text = json.dumps(header, ensure_ascii=False, default=_as_plain)
    write_npz(path, {"metadata": np.array(text), **arrays})


def load(path: str | os.PathLike[str], *, max_bytes: float | None = None) -> Result:
    """Read what `save` wrote.

    Parameters
    ----------
    path : str or path
        The file. Nothing in it is executed: pickled content is refused. Shapes, dtypes, ranges and sizes are checked
        before anything is computed.
    max_bytes : float, optional
        How many bytes compressed arrays may take in memory; by default 20 times the size of the file, and 256 MiB at
        least. Files that `save` wrote are not compressed.

    Returns
    -------
    SpectralMeasure, ChebyshevMoments, Density, EigenPairs, CrossMeasure, CrossDensity or EnsembleMeasure
        As it was saved, with NumPy arrays for eigenvectors.

    Raises
    ------
    ValueError
        If it is not a file that `save` wrote, or is damaged, or holds impossible values.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, specdens as sd
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "density.npz"
    >>> sd.save(path, sd.spectral_density(np.diag([1.0, 2.0, 2.0])))
    >>> density = sd.load(path)
    >>> density.atoms.positions.round(12) if isinstance(density, sd.Density) else None
    array([1., 2.])
    """
    header = read_header(path)
    with open_npz(path, max_bytes=max_bytes) as file:
        try:
            missing = set(header.get("arrays", ())) - file.names
            if missing:
                raise ValueError(f"it lacks {', '.join(sorted(missing))}")
            return _unpack(header, _Saved(file))
        except DamagedFileError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"{os.fspath(path)} is damaged: {error}") from None


# -- objects to arrays and plain values, and back --------------------------------------------------------------


class _Saved:
    """The arrays of a file that belong to one object. Those that nothing asks for are not read."""

    def __init__(self, file: NpzReader, prefix: str = "") -> None:
        self._file, self._prefix = file, prefix

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._file.names

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._file.read(self._prefix + name)

    def within(self, name: str) -> _Saved:
        """Return the arrays of an object within this one."""
        return _Saved(self._file, f"{self._prefix}{name}.")


class _Codec(NamedTuple):
    """How one kind of field is written as named arrays, and made again from them."""

    write: Callable[[str, Any], Arrays]
    read: Callable[[str, _Saved], Any]


def _write_ragged(name: str, rows: tuple[NDArray[Any], ...]) -> Arrays:
    lengths = np.array([row.size for row in rows], dtype=np.int64)
    return {name: np.concatenate([np.empty(0), *rows]), f"{name}_lengths": lengths}


def _read_ragged(name: str, arrays: _Saved) -> tuple[NDArray[Any], ...]:
    lengths, whole = arrays[f"{name}_lengths"], arrays[name]
    if lengths.dtype != np.int64 or lengths.ndim != 1 or whole.ndim != 1 or np.any(lengths < 0):
        raise ValueError(f"{name}_lengths must be counts; got {lengths.dtype} of shape {lengths.shape}")
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
    "overlaps": _RAGGED,
    "square_overlaps": _RAGGED,
    "atoms": _ATOMS,
    "known_atoms": _ATOMS,
    "interval": _INTERVAL,
    "vectors": _VECTORS,
}
_LEFT_OUT = ("recurrences",)  # with the vectors of a run, which belong into a checkpoint


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
        elif name == "members":
            parts = [_pack(each) for each in value]
            arrays |= {f"{name}{i}.{key}": array for i, (inner, _) in enumerate(parts) for key, array in inner.items()}
            plain[name] = [each for _, each in parts]
        else:
            plain[name] = value
    return arrays, plain


def _unpack(plain: Mapping[str, Any], arrays: _Saved) -> Result:
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
    check_fields(kind.__name__, values)
    _check_parts(kind, values)
    return kind(**values)


def _check_parts(kind: type[Result], values: Mapping[str, Any]) -> None:
    """Raise if what must be a measure or eigenpairs is something else."""
    measure, outliers = values.get("measure"), values.get("outliers")
    if kind is Density and not isinstance(measure, _MEASURES):
        raise ValueError(f"measure must be a measure; got {type(measure).__name__}")
    if kind is EnsembleMeasure and not all(isinstance(each, _MEASURES) for each in values["members"]):
        raise ValueError("members must be measures")
    if kind is CrossDensity and not isinstance(measure, CrossMeasure):
        raise ValueError(f"measure must be a CrossMeasure; got {type(measure).__name__}")
    if kind is CrossMeasure and not isinstance(values["run"], SpectralMeasure):
        raise ValueError(f"run must be a SpectralMeasure; got {type(values['run']).__name__}")
    if not (outliers is None or isinstance(outliers, EigenPairs)):
        raise ValueError(f"outliers must be eigenpairs; got {type(outliers).__name__}")


def _unpack_plain(name: str, value: Any, arrays: _Saved) -> Any:
    if isinstance(value, dict) and value.get("kind") in _KINDS:
        return _unpack(value, arrays.within(name))
    if name == "members" and isinstance(value, list):
        return tuple(_unpack(each, arrays.within(f"{name}{i}")) for i, each in enumerate(value))
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
    try:
        with open_npz(path) as file:
            texts = {key: file.read(key) for key in {"metadata", "header"} & file.names}
    except ForeignFileError as error:
        raise ValueError(f"`path` must name a file that sd.save wrote; {error}") from None
    try:
        header = json.loads(str(texts["metadata"]))
        is_ours = header["format"] == FORMAT
        header["written_by"] = {str(key): str(value) for key, value in header.get("written_by", {}).items()}
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        is_ours = False
    if not is_ours and CHECKPOINT_FORMAT in str(texts.get("header")):
        raise ValueError(f"{name} is the checkpoint of a run. Repeat the call that made it, and save its result.")
    if not is_ours:
        raise ValueError(f"{name} was not written by sd.save")
    version, writer = header.get("format_version"), header["written_by"].get("specdens", "unknown")
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
    if str(header.get("kind")) not in _KINDS:
        raise ValueError(f"{name} holds a {header.get('kind')}; sd.load knows {', '.join(_KINDS)}")
    return dict(header)
