"""What a saved result may hold: dtypes, shapes, finiteness and ranges, checked before anything is computed from it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

CROSS_FORMS = ("⟨a|δ(λ − A)|b⟩", "tr B δ(λ − A)")
VECTOR_DTYPES = ("float32", "float64", "complex64", "complex128")
_WORD = re.compile(r"[\w ().,=-]{0,100}", re.ASCII)
_LARGEST = 2**63


def has_rule(name: str) -> bool:
    """Return whether a field is checked."""
    return name in _FIELDS


def check_fields(kind: str, values: Mapping[str, Any]) -> None:
    """Raise ValueError with the first field of a result that is impossible; fields without a rule are left alone."""
    for name, value in values.items():
        rule = _numbers if (kind, name) == ("CrossDensity", "values") else _FIELDS.get(name)
        if rule is not None:
            rule(name, value)
    together = _TOGETHER.get(kind)
    if together is not None:
        together(values)


# -- single fields -----------------------------------------------------------------------------------------------------


def _need(condition: bool, name: str, what: str, value: Any) -> None:
    if not condition:
        shown = f"dtype {value.dtype} and shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)[:80]
        raise ValueError(f"{name} must be {what}; got {shown}")


def _floats(name: str, x: Any, *, ndim: int = 1) -> None:
    is_floats = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == ndim
    _need(is_floats, name, f"an array of float64 in {ndim} dimensions", x)
    _need(bool(np.all(np.isfinite(x))), name, "finite", x)


def _not_negative(name: str, x: Any) -> None:
    _floats(name, x)
    _need(bool(np.all(x >= 0)), name, "0 or more", x)


def _increasing(name: str, x: Any) -> None:
    _floats(name, x)
    _need(bool(np.all(np.diff(x) >= 0)), name, "increasing", x)


def _rows(rule: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    def check(name: str, rows: Any) -> None:
        _need(isinstance(rows, tuple), name, "one array per probe", rows)
        for row in rows:
            rule(name, row)

    return check


def _count(least: int) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        is_count = isinstance(value, int) and not isinstance(value, bool) and least <= value
        _need(is_count and (value < _LARGEST or name == "seed"), name, f"an integer from {least} on", value)

    return check


def _number(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    _need(is_number and math.isfinite(value), name, "a finite number", value)


def _duration(name: str, value: Any) -> None:
    _number(name, value)
    _need(value >= 0, name, "0 or more", value)


def _positive_or_none(name: str, value: Any) -> None:
    if value is not None:
        _number(name, value)
        _need(value > 0, name, "positive", value)


def _text(name: str, value: Any) -> None:
    _need(isinstance(value, str), name, "a text", value)


def _word(name: str, value: Any) -> None:
    _need(isinstance(value, str) and _WORD.fullmatch(value) is not None, name, "a word", value)


def _texts(name: str, value: Any) -> None:
    _need(isinstance(value, tuple) and all(isinstance(each, str) for each in value), name, "texts", value)


def _dtype(name: str, value: Any) -> None:
    _need(value in VECTOR_DTYPES, name, f"one of {', '.join(VECTOR_DTYPES)}", value)


def _atoms(name: str, atoms: Any) -> None:
    _increasing(f"{name}_positions", atoms.positions)
    _not_negative(f"{name}_masses", atoms.masses)
    _need(atoms.positions.shape == atoms.masses.shape, name, "as many masses as positions", atoms.masses)
    _need(float(np.sum(atoms.masses)) <= 1 + 1e-6, name, "of mass 1 at most", atoms.masses)


def _interval(name: str, interval: Any) -> None:
    finite = all(math.isfinite(end) for end in interval)
    _need(finite and interval.lo < interval.hi, name, "finite and increasing", tuple(interval))


def _moments(name: str, mus: Any) -> None:
    _floats(name, mus, ndim=2)
    _need(mus.shape[1] >= 2, name, "two or more moments per probe", mus)
    _need(bool(np.all(np.abs(mus) <= 2)), name, "moments of a measure on the interval", mus)


def _vectors(name: str, x: Any) -> None:
    _need(isinstance(x, np.ndarray) and x.dtype.name in VECTOR_DTYPES and x.ndim == 2, name, "vectors as columns", x)
    _need(bool(np.all(np.isfinite(x))), name, "finite", x)


def _numbers(name: str, x: Any) -> None:
    is_numbers = isinstance(x, np.ndarray) and x.dtype in (np.float64, np.complex128) and x.ndim == 1
    _need(is_numbers, name, "an array of float64 or complex128", x)
    _need(bool(np.all(np.isfinite(x))), name, "finite", x)


def _results(name: str, value: Any) -> None:
    _need(isinstance(value, tuple) and len(value) > 0, name, "one measure or more", value)


def _form(name: str, value: Any) -> None:
    _need(value in CROSS_FORMS, name, f"one of {', '.join(CROSS_FORMS)}", value)


def _bools(name: str, x: Any) -> None:
    _need(isinstance(x, np.ndarray) and x.dtype == np.bool_ and x.ndim == 1, name, "an array of bool", x)


def _bools_or_none(name: str, x: Any) -> None:
    is_bools = isinstance(x, tuple) and all(isinstance(each, bool) for each in x)
    _need(x is None or is_bools, name, "one bool per probe", x)


def _numbers_or_none(name: str, value: Any) -> None:
    if value is not None:
        _need(isinstance(value, tuple), name, "numbers", value)
        for each in value:
            _number(name, each)


def _bool(name: str, value: Any) -> None:
    _need(isinstance(value, bool), name, "a bool", value)


def _not_negative_or_none(name: str, x: Any) -> None:
    """Check sizes or errors that a file may leave out; infinity is one that is not known."""
    if x is not None:
        is_floats = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 1
        _need(is_floats and bool(np.all(x >= 0)), name, "an array of float64, 0 or more", x)


_FIELDS: dict[str, Callable[[str, Any], None]] = {
    "alphas": _rows(_floats), "betas": _rows(_not_negative), "last_betas": _not_negative,
    "dimension": _count(1), "bulk_dimension": _count(0), "seed": _count(0), "block_size": _count(1),
    "num_products": _count(0), "seconds": _duration, "dtype": _dtype, "probes": _word, "method": _word,
    "known_atoms": _atoms, "atoms": _atoms, "interval": _interval, "mus": _moments, "exact_probes": _bools_or_none,
    "notes": _texts, "grid": _increasing, "values": _floats, "stderr": _not_negative, "edges": _increasing,
    "axis": _text, "kernel": _text, "mass_outside": _number, "epsilon": _positive_or_none, "vectors": _vectors,
    "residuals": _not_negative, "converged": _bools, "scales": _not_negative_or_none,
    "resolution": _not_negative_or_none, "atom_stderr": _not_negative_or_none, "is_simple": _bool,
    "known_moments": _numbers_or_none, "overlaps": _rows(_numbers), "square_overlaps": _rows(_numbers),
    "factor": _number, "form": _form, "members": _results, "shares": _not_negative,
}  # fmt: skip


# -- fields that belong together ---------------------------------------------------------------------------------------


def _same_length(names: Sequence[str], values: Mapping[str, Any]) -> None:
    lengths = {name: len(values[name]) for name in names if values.get(name) is not None}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"fields must be of the same length; got {listed}")


def _check_dimensions(values: Mapping[str, Any]) -> None:
    if values["bulk_dimension"] > values["dimension"]:
        raise ValueError(f"bulk_dimension must be at most {values['dimension']}; got {values['bulk_dimension']}")


def _check_lanczos(values: Mapping[str, Any]) -> None:
    _check_dimensions(values)
    _same_length(("alphas", "betas", "last_betas", "exact_probes"), values)
    for alphas, betas in zip(values["alphas"], values["betas"], strict=True):
        if alphas.size == 0 or betas.size != alphas.size - 1:
            raise ValueError(f"a probe must have one α more than β; got {alphas.size} and {betas.size}")


def _check_density(values: Mapping[str, Any]) -> None:
    _same_length(("grid", "values", "stderr", "resolution"), values)
    if values.get("atom_stderr") is not None and len(values["atom_stderr"]) != values["atoms"].positions.size:
        raise ValueError("atom_stderr must be as many as atoms")
    if values["grid"].size == 0 or values["edges"].size != values["grid"].size + 1:
        raise ValueError(f"edges must be one more than points; got {values['edges'].size} and {values['grid'].size}")


def _check_ensemble(values: Mapping[str, Any]) -> None:
    _same_length(("members", "shares"), values)
    _need(abs(float(np.sum(values["shares"])) - 1) < 1e-9, "shares", "of sum 1", values["shares"])
    if len({each.dimension for each in values["members"]}) > 1:
        raise ValueError("members must be of one dimension")


def _check_cross(values: Mapping[str, Any]) -> None:
    steps = [alphas.size for alphas in values["run"].alphas]
    for name in ("overlaps", "square_overlaps"):
        if values[name] and [row.size for row in values[name]] != steps:
            raise ValueError(f"{name} must be as many as the steps of the run")
    if not values["overlaps"]:
        raise ValueError("overlaps must be as many as the steps of the run")


def _check_cross_density(values: Mapping[str, Any]) -> None:
    _same_length(("grid", "values", "stderr", "resolution"), values)
    if values["grid"].size == 0 or values["edges"].size != values["grid"].size + 1:
        raise ValueError(f"edges must be one more than points; got {values['edges'].size} and {values['grid'].size}")


def _check_eigenpairs(values: Mapping[str, Any]) -> None:
    _same_length(("values", "residuals", "converged", "scales"), values)
    if values["vectors"].shape[1] != values["values"].size:
        raise ValueError(f"vectors must be as many as values; got {values['vectors'].shape}")


_TOGETHER: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "SpectralMeasure": _check_lanczos,
    "ChebyshevMoments": _check_dimensions,
    "Density": _check_density,
    "EigenPairs": _check_eigenpairs,
    "CrossMeasure": _check_cross,
    "EnsembleMeasure": _check_ensemble,
    "CrossDensity": _check_cross_density,
}
