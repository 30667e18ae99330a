"""Files made by hand: impossible shapes, dtypes and values are refused before anything is computed."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from dataclasses import fields

import numpy as np
import pytest

import specdens as sd
from specdens._storage.schema import has_rule

MATRIX = np.diag(np.concatenate([np.linspace(-1, 1, 38), [5.0, -7.0]]))
RESULTS = {
    "measure": lambda: sd.fast_lanczos(MATRIX, num_steps=9, num_probes=2),
    "moments": lambda: sd.kpm(MATRIX, num_moments=20, num_probes=2),
    "density": lambda: sd.spectral_density(MATRIX, num_steps=12, rank=2),
    "pairs": lambda: sd.top_eigenpairs(MATRIX, rank=2),
    "ensemble": lambda: sd.average([sd.fast_lanczos(k * MATRIX, num_steps=9) for k in (1, 2)]),
    "cross": lambda: sd.cross_measure(MATRIX, np.arange(40.0), 1j * np.ones(40), num_steps=9).density(50),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One file of every kind."""
    folder = tmp_path_factory.mktemp("files")
    for name, make in RESULTS.items():
        sd.save(folder / f"{name}.npz", make())
    return folder


def changed(files, tmp_path, name, changes):
    """Write a file again with other arrays, or with another value in its metadata."""
    with np.load(files / f"{name}.npz") as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays["metadata"]))
    for key, value in changes.items():
        if key in arrays:
            arrays[key] = np.asarray(value)
        else:
            inner = metadata
            *path, last = key.split(".")
            for part in path:
                inner = inner[part]
            inner[last] = value
    arrays["metadata"] = np.array(json.dumps(metadata))
    path = tmp_path / f"{name}.npz"
    np.savez(path, **arrays)
    return path


NAN, INF = float("nan"), float("inf")
IMPOSSIBLE = [
    ("measure", {"alphas": np.full(18, NAN)}, "alphas must be finite"),
    ("measure", {"alphas": np.ones(18, "float32")}, "alphas must be an array of float64"),
    ("measure", {"alphas": np.ones((18, 1))}, "alphas_lengths must be counts"),
    ("measure", {"betas": np.full(16, -1.0)}, "betas must be 0 or more"),
    ("measure", {"betas_lengths": [16, 0]}, "one α more than β"),
    ("measure", {"alphas_lengths": [19, -1]}, "alphas_lengths must be counts"),
    ("measure", {"alphas_lengths": [9.0, 9.0]}, "alphas_lengths must be counts"),
    ("measure", {"last_betas": [1.0]}, "same length"),
    ("measure", {"last_betas": [INF, 1.0]}, "last_betas must be finite"),
    ("measure", {"dimension": 0}, "dimension must be an integer from 1"),
    ("measure", {"dimension": "40"}, "dimension must be an integer"),
    ("measure", {"dimension": 1e3}, "dimension must be an integer"),
    ("measure", {"bulk_dimension": 41}, "bulk_dimension must be at most 40"),
    ("measure", {"dtype": "object"}, "dtype must be one of"),
    ("measure", {"probes": "\x1b[2J"}, "probes must be a word"),
    ("measure", {"seed": -1}, "seed must be"),
    ("measure", {"seconds": NAN}, "seconds must be a finite number"),
    ("measure", {"seconds": True}, "seconds must be"),
    ("measure", {"num_products": None}, "num_products must be"),
    ("measure", {"exact_probes": [1, 0]}, "exact_probes must be"),
    ("measure", {"notes": [1]}, "notes must be texts"),
    ("measure", {"known_atoms_positions": [1.0]}, "as many masses as positions"),
    ("moments", {"mus": np.full((2, 20), NAN)}, "mus must be finite"),
    ("moments", {"mus": np.full((2, 20), 1e9)}, "mus must be moments of a measure"),
    ("moments", {"mus": np.ones((2, 1))}, "two or more moments"),
    ("moments", {"mus": np.ones(20)}, "2 dimensions"),
    ("moments", {"interval": [1.0, -1.0]}, "interval must be finite and increasing"),
    ("moments", {"interval": [NAN, 1.0]}, "interval must be finite"),
    ("moments", {"interval": [0.0, 1.0, 2.0]}, "damaged"),
    ("density", {"grid": np.zeros(0)}, "damaged: fields must be of the same length"),
    ("density", {"values": np.full(1024, INF)}, "values must be finite"),
    ("density", {"edges": np.zeros(5)}, "edges must be one more than points"),
    ("density", {"atoms_masses": [2.0, 2.0]}, "atoms must be of mass 1 at most"),
    ("density", {"mass_outside": "much"}, "mass_outside must be a finite number"),
    ("density", {"measure": {"kind": "EigenPairs"}}, "damaged"),
    ("density", {"measure": 3}, "measure must be a measure"),
    ("density", {"outliers": 3}, "outliers must be eigenpairs"),
    ("density", {"epsilon": -1.0}, "epsilon must be positive"),
    ("density", {"measure.dimension": 2**70}, "dimension must be"),
    ("pairs", {"vectors": np.ones((40, 3))}, "vectors must be as many as values"),
    ("pairs", {"vectors": np.ones(40)}, "vectors must be vectors as columns"),
    ("pairs", {"vectors": np.full((40, 2), NAN)}, "vectors must be finite"),
    ("pairs", {"values": np.ones(2, int)}, "values must be an array of float64"),
    ("pairs", {"converged": np.ones(2)}, "converged must be an array of bool"),
    ("pairs", {"residuals": [-1.0, 0.0]}, "residuals must be 0 or more"),
    ("ensemble", {"shares": [0.5, 0.1]}, "shares must be of sum 1"),
    ("ensemble", {"shares": [1.0]}, "same length"),
    ("ensemble", {"members": []}, "members must be one measure or more"),
    ("ensemble", {"members": [3, 4]}, "damaged"),
    ("ensemble", {"members1.alphas": np.full(9, NAN)}, "alphas must be finite"),
    ("cross", {"values": np.full(50, NAN * 1j)}, "values must be finite"),
    ("cross", {"values": np.ones(50, "float32")}, "values must be an array of float64 or complex128"),
    ("cross", {"edges": np.zeros(5)}, "edges must be one more than points"),
    ("cross", {"measure.overlaps": np.full(9, NAN)}, "overlaps must be finite"),
    ("cross", {"measure.overlaps_lengths": [8]}, "overlaps has 9 entries"),
    ("cross", {"measure.form": "\x1b[2J"}, "form must be one of"),
    ("cross", {"measure.factor": None}, "factor must be a finite number"),
    ("cross", {"measure.run": 3}, "damaged"),
    ("cross", {"measure": 3}, "measure must be a CrossMeasure"),
    ("pairs", {"kind": ["EigenPairs"]}, "holds a"),
    ("pairs", {"written_by": 3}, "not written by sd.save"),
]


def test_every_field_of_a_result_has_a_rule():
    parts = {"measure", "outliers", "recurrences", "run"}  # results of their own, and what is not saved
    for kind in (
        sd.SpectralMeasure,
        sd.ChebyshevMoments,
        sd.Density,
        sd.EigenPairs,
        sd.CrossMeasure,
        sd.CrossDensity,
        sd.EnsembleMeasure,
    ):
        assert [each.name for each in fields(kind) if each.name not in parts and not has_rule(each.name)] == []


@pytest.mark.parametrize(("name", "changes", "message"), IMPOSSIBLE)
def test_impossible_values_are_refused(name, changes, message, files, tmp_path):
    path = changed(files, tmp_path, name, changes)
    with pytest.raises(ValueError, match=message) as caught:
        sd.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.slow
def test_moments_that_are_not_finite_do_not_hang_the_command_line(files, tmp_path):
    pytest.importorskip("click")
    path = changed(files, tmp_path, "moments", {"mus": np.full((2, 20), NAN)})
    command = [sys.executable, "-m", "specdens", "info", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "mus must be finite" in done.stderr


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": "specdens", "x": ' + "9" * 10_000 + "}", "", "null", "3"])
def test_metadata_that_is_no_object_is_refused(text, tmp_path):
    np.savez(tmp_path / "x.npz", metadata=np.array(text))
    with pytest.raises(ValueError, match=r"x.npz was not written by sd.save"):
        sd.load(tmp_path / "x.npz")


def deflated(path, source, name, array_header, num_bytes):
    """Copy a file with one member replaced, or added, by compressed zeros."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            if member != name:
                new.writestr(member, old.read(member))
        with new.open(name, "w", force_zip64=True) as entry:
            buffer = io.BytesIO()
            np.lib.format.write_array_header_1_0(buffer, array_header)
            entry.write(buffer.getvalue())
            for _ in range(num_bytes // 2**20):
                entry.write(bytes(2**20))


@pytest.mark.slow
def test_a_bomb_is_refused_by_its_size_and_the_limit_can_be_raised(files, tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (300 * 2**17,)}
    deflated(tmp_path / "bomb.npz", files / "measure.npz", "alphas.npy", header, 300 * 2**20)
    assert os.path.getsize(tmp_path / "bomb.npz") < 2**20
    with pytest.raises(ValueError, match=r"would take 0.293 GiB of memory for alphas.* raise `max_bytes`"):
        sd.load(tmp_path / "bomb.npz")
    with pytest.raises(ValueError, match="alphas has 39321600 entries, not the 18"):
        sd.load(tmp_path / "bomb.npz", max_bytes=2**30)


@pytest.mark.slow
def test_members_that_nothing_asks_for_are_not_read(files, tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (300 * 2**17,)}
    deflated(tmp_path / "extra.npz", files / "measure.npz", "extra.npy", header, 300 * 2**20)
    assert isinstance(sd.load(tmp_path / "extra.npz"), sd.SpectralMeasure)


def test_a_missing_array_is_not_taken_for_a_default(files, tmp_path):
    with np.load(files / "pairs.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "scales"}
    np.savez(tmp_path / "pairs.npz", **arrays)
    with pytest.raises(ValueError, match=r"pairs.npz is damaged: it lacks scales"):
        sd.load(tmp_path / "pairs.npz")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions(mode, tmp_path):
    path = tmp_path / "result.npz"
    sd.save(path, RESULTS["pairs"]())
    path.chmod(mode)
    sd.save(path, RESULTS["pairs"]())
    assert stat.S_IMODE(path.stat().st_mode) == mode
