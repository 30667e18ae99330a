"""Results in files: what is saved comes back, plain NumPy can read it, and a bad file is refused in words."""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds, spectra

import specdens as sd
from specdens._storage.atomic_write import replacing
from specdens._storage.save_load import FORMAT_VERSION, read_header

SMALL_DENSITY = sd.slow_lanczos(np.diag([1.0, 2.0])).density(num_points=4)


def outlying(n: int = 60) -> np.ndarray:
    """Return a diagonal matrix with a bulk and two outliers."""
    return np.diag(np.concatenate([np.linspace(-1, 1, n - 2), [5.0, -7.0]]))


def same(a, b) -> bool:
    """Whether two values are equal bit for bit, dtypes included."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "__dataclass_fields__"):
        names = [field.name for field in fields(a) if field.name != "recurrences"]
        return type(a) is type(b) and all(same(getattr(a, name), getattr(b, name)) for name in names)
    return type(a) is type(b) and a == b


def round_trip(folder, obj):
    path = folder / "result.npz"
    sd.save(path, obj)
    assert os.listdir(folder) == ["result.npz"]
    return sd.load(path)


RESULTS = {
    "measure": lambda: sd.fast_lanczos(outlying(), num_steps=9, num_probes=3),
    "measure of one probe that kept its vectors": lambda: sd.fast_lanczos(outlying(), num_steps=9, keep_vectors=True),
    "exact measure": lambda: sd.slow_lanczos(np.diag([1.0, 2.0, 2.0]), num_probes=2),
    "deflated measure": lambda: sd.fast_lanczos(
        sd.deflate(outlying(), sd.top_eigenpairs(outlying(), rank=2)), num_steps=9
    ),
    "complex measure": lambda: sd.fast_lanczos(outlying().astype("complex64"), num_steps=9),
    "moments": lambda: sd.kpm(outlying(), num_moments=20, num_probes=2),
    "density": lambda: sd.spectral_density(outlying(), num_steps=20),
    "density with outliers": lambda: sd.spectral_density(outlying(), num_steps=20, rank=2, num_probes=2),
    "density with a note": lambda: sd.spectral_density(outlying(), tol=0.5),
    "density of moments": lambda: sd.spectral_density(outlying(), method="kpm", num_steps=20, rank=1),
    "log density": lambda: sd.spectral_density(outlying(), function="log", num_steps=20),
    "density of a function": lambda: sd.fast_lanczos(outlying(), num_steps=9).density_of(np.square, axis="λ²"),
    "all eigenvalues deflated": lambda: sd.spectral_density(np.diag([1.0, 2.0, 3.0]), rank=3),
    "eigenpairs": lambda: sd.top_eigenpairs(outlying(), rank=3),
    "complex eigenpairs": lambda: sd.top_eigenpairs(outlying().astype(complex), rank=2),
}


@pytest.fixture(params=RESULTS, ids=list(RESULTS))
def result(request):
    """Every kind of result in turn."""
    return RESULTS[request.param]()


def test_every_result_comes_back_bit_for_bit(result, tmp_path):
    again = round_trip(tmp_path, result)
    assert same(result, again)
    assert repr(result) == repr(again)


@given(spectra(), seeds, st.integers(1, 4), st.integers(1, 30))
def test_every_measure_comes_back_bit_for_bit(tmp_path_factory, eigenvalues, seed, num_probes, num_steps):
    steps = min(num_steps, len(eigenvalues))
    measure = sd.fast_lanczos(np.diag(eigenvalues), num_steps=steps, num_probes=num_probes, seed=seed)
    again = round_trip(tmp_path_factory.mktemp("files"), measure)
    assert same(measure, again)
    assert same(measure.nodes, again.nodes)


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_and_number_comes_back(tmp_path_factory, note, axis, mass):
    density = replace(SMALL_DENSITY, notes=(note, "λ"), axis=axis, mass_outside=mass)
    assert same(density, round_trip(tmp_path_factory.mktemp("files"), density))


def test_readings_of_a_loaded_result_are_those_of_the_saved_one(tmp_path):
    measure = sd.fast_lanczos(outlying(), num_steps=9, num_probes=3)
    again = round_trip(tmp_path, measure)
    assert again.count(-1, 0) == measure.count(-1, 0)
    assert again.convergence() == measure.convergence()
    assert np.array_equal(again.log_density().values, measure.log_density().values)


def test_eigenvectors_of_any_library_come_back_as_numpy_arrays(library, tmp_path):
    pairs = sd.top_eigenpairs(library.array(outlying()), rank=2)
    again = round_trip(tmp_path, pairs)
    assert type(again.vectors) is np.ndarray
    assert again.vectors.dtype == library.real
    assert np.array_equal(again.vectors, np.asarray(pairs.vectors))
    assert same(again.values, pairs.values)


def test_plain_numpy_reads_the_file(tmp_path):
    measure = sd.slow_lanczos(np.diag([1.0, 2.0, 2.0, 3.0]), num_probes=2)
    density = measure.density()
    sd.save(tmp_path / "density.npz", density)
    with np.load(tmp_path / "density.npz", allow_pickle=False) as file:
        assert np.array_equal(file["values"], density.values)
        assert np.array_equal(file["atoms_positions"], density.atoms.positions)
        first, second = np.split(file["measure.alphas"], np.cumsum(file["measure.alphas_lengths"])[:-1])
        assert np.array_equal(first, measure.alphas[0])
        assert np.array_equal(second, measure.alphas[1])
        header = json.loads(str(file["metadata"]))
    assert header["format"] == "specdens"
    assert header["format_version"] == FORMAT_VERSION
    assert header["kind"] == "Density"
    assert header["written_by"]["numpy"] == np.__version__
    assert header["axis"] == "λ"
    assert header["measure"]["dtype"] == "float64"
    assert read_header(tmp_path / "density.npz") == header


def test_the_same_result_gives_the_same_bytes(tmp_path):
    measure = sd.fast_lanczos(outlying(), num_steps=9)
    for name in ("a.npz", "b.npz"):
        sd.save(tmp_path / name, measure)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


# -- what is refused ---------------------------------------------------------------------------------------------


def measure_file(tmp_path):
    path = tmp_path / "measure.npz"
    sd.save(path, replace(sd.fast_lanczos(outlying(), num_steps=9), seconds=0.5))
    return path


def change(path, **changes):
    """Write the file again with other arrays, or, where a value is None, without them; a dict changes the metadata."""
    with np.load(path) as file:
        arrays = dict(file)
    for name, value in changes.items():
        if isinstance(value, dict):
            value = json.dumps(json.loads(str(arrays[name])) | value)
        arrays[name] = value
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"metadata": {"format_version": 999}},
            r"format version 999, written by specdens .*reads up to version 1. Upg",
        ),
        ({"metadata": {"format_version": 0}}, r"format version 0, written by specdens .*reads versions from 1"),
        ({"metadata": {"format_version": "new"}}, r"format version new"),
        ({"metadata": {"kind": "Spectrogram"}}, r"holds a Spectrogram; sd.load knows SpectralMeasure, Chebyshev"),
        ({"metadata": {"format": "other"}}, r"was not written by sd.save"),
        ({"metadata": "not JSON"}, r"was not written by sd.save"),
        ({"metadata": "[1]"}, r"was not written by sd.save"),
        ({"metadata": None}, r"was not written by sd.save"),
        ({"last_betas": None}, r"damaged: it lacks last_betas"),
        ({"alphas": None}, r"damaged: .*alphas"),
        ({"alphas_lengths": np.array([3])}, r"damaged: alphas has 9 entries, not the 3 of alphas_lengths"),
        ({"alphas": np.array([object()])}, r"holds pickled objects, which specdens neither writes nor reads"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_words(tmp_path, changes, message):
    path = measure_file(tmp_path)
    change(path, **changes)
    with pytest.raises(ValueError, match=message) as error:
        sd.load(path)
    assert str(path) in str(error.value)


def test_a_file_without_a_field_that_has_a_default_loads(tmp_path):
    path = tmp_path / "density.npz"
    sd.save(path, sd.spectral_density(outlying(), num_steps=20))
    with np.load(path) as file:
        header = json.loads(str(file["metadata"]))
    del header["notes"]
    change(path, metadata=json.dumps(header))
    assert sd.load(path).notes == ()


@pytest.mark.parametrize("content", [b"", b"grid,values\n1,2\n", b"\x80\x04N.", b"\x93NUMPY"], ids=repr)
def test_a_foreign_file_is_refused(tmp_path, content):
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"must name a file that sd.save wrote; .*foreign.npz is (not an .npz|empty)"):
        sd.load(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path, share):
    path = measure_file(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"measure.npz is truncated or damaged"):
        sd.load(path)


@given(st.data())
def test_a_file_with_a_changed_byte_is_refused_or_loads_as_it_was(tmp_path_factory, data):
    path = measure_file(tmp_path_factory.mktemp("files"))
    measure, content = sd.load(path), bytearray(path.read_bytes())
    position = data.draw(st.integers(4, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        again = sd.load(path)
    except ValueError:
        return
    assert same(measure, again)


def test_a_checkpoint_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "run.npz"
    sd.spectral_density(outlying(), num_steps=9, checkpoint=path)
    with pytest.raises(ValueError, match=r"run.npz is the checkpoint of a run. Repeat the call"):
        sd.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing.npz"):
        sd.load(tmp_path / "nothing.npz")


@pytest.mark.parametrize("obj", ["x.npz", np.eye(2), None])
def test_what_is_no_result_is_refused(tmp_path, obj):
    with pytest.raises(TypeError, match=r"`obj` must be one of SpectralMeasure, .*; got .*\. The path comes first"):
        sd.save(tmp_path / "x.npz", obj)


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`path` must end in .npz; got .*run.dat"):
        sd.save(tmp_path / "run.dat", sd.fast_lanczos(outlying(), num_steps=3))


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`path` must be in a folder that exists; got .*missing"):
        sd.save(tmp_path / "missing" / "run.npz", sd.fast_lanczos(outlying(), num_steps=3))


# -- writing ------------------------------------------------------------------------------------------------------


def test_a_write_that_fails_leaves_the_former_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("former")
    with pytest.raises(RuntimeError, match="half way"), replacing(path) as file:  # noqa: PT012
        file.write(b"half")
        raise RuntimeError("half way")
    assert path.read_text() == "former"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = measure_file(tmp_path)
    content = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*measure.npz"):
        measure_file(tmp_path)
    assert os.listdir(tmp_path) == ["measure.npz"]
    assert path.read_bytes() == content


def test_a_write_goes_through_a_symbolic_link(tmp_path):
    (tmp_path / "target").write_text("former")
    (tmp_path / "link").symlink_to("target")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_written_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "new"):
        pass
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="must name a file"), replacing(tmp_path):
        pass


def test_nothing_is_pickled(tmp_path):
    path = measure_file(tmp_path)
    with zipfile.ZipFile(path) as archive:
        arrays = [np.lib.format.read_array(io.BytesIO(archive.read(name))) for name in archive.namelist()]
    assert arrays
    assert not any(array.dtype.hasobject for array in arrays)


# -- CSV ------------------------------------------------------------------------------------------------------------


def test_csv_holds_grid_values_and_errors_to_the_last_digit(tmp_path):
    density = sd.spectral_density(outlying(), num_steps=20, rank=2)
    density.to_csv(tmp_path / "density.csv")
    lines = (tmp_path / "density.csv").read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert "# axis: λ" in comments
    assert f"# mass_outside: {density.mass_outside!r}" in comments
    atoms = [tuple(map(float, line.removeprefix("# atom: ").split(", "))) for line in comments if "atom:" in line]
    assert atoms == list(zip(*density.atoms, strict=True))
    assert lines[len(comments)] == "grid,values,stderr"
    columns = np.loadtxt(lines[len(comments) + 1 :], delimiter=",").T
    assert np.array_equal(columns, [density.grid, density.values, density.stderr])


def test_an_average_and_its_density_come_back(tmp_path):
    measures = [sd.fast_lanczos(np.diag(k * np.linspace(1, 2, 60)), num_steps=9, seed=k) for k in (1, 2)]
    measures.append(sd.kpm(np.diag(np.linspace(1, 2, 60)), num_moments=20))
    ensemble = sd.average(measures, weights=[1, 2, 3])
    for obj in (ensemble, ensemble.density()):
        sd.save(tmp_path / "it.npz", obj)
        again = sd.load(tmp_path / "it.npz")
        assert repr(again) == repr(obj)
        measure = again if obj is ensemble else again.measure
        assert measure.count(1, 1.5) == ensemble.count(1, 1.5)
        np.testing.assert_array_equal(measure.shares, ensemble.shares)
