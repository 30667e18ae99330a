"""Spectra of weight matrices: against a full SVD, with planted outliers and tails, and on every kind of layer."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from hypothesis import given
from hypothesis import strategies as st
from one_device import OneDevice
from slow_cases import slow_after
from specdens_torch._weights.spectrum import singular_values
from torch import nn
from torch.nn.utils import parametrizations, prune

import specdens as sd


def spiked(rows, columns, strengths, seed=0):
    """Return a random matrix of variance 1 with singular values of the given sizes (in units of √rows) added."""
    generator = torch.Generator().manual_seed(seed)
    W = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    k = len(strengths)
    U, V = (torch.linalg.qr(torch.randn(n, k, generator=generator, dtype=torch.float64)).Q for n in (rows, columns))
    return W + U @ torch.diag(torch.tensor(strengths, dtype=torch.float64) * rows**0.5) @ V.T


def eigenvalues(tensor, groups=1):
    """Return the squared singular values of a weight, divided by the larger side, by NumPy in double precision."""
    blocks = tensor.detach().double().reshape(groups, tensor.shape[0] // groups, -1).numpy()
    return np.sort(np.linalg.svd(blocks, compute_uv=False).ravel() ** 2 / max(blocks.shape[1:]))


def assert_spectrum(spectrum, tensor, groups=1, rtol=1e-10):
    exact = eigenvalues(tensor, groups)
    assert spectrum.method == "svd"
    assert spectrum.measure.dimension == exact.size
    nodes, weights = spectrum.measure.nodes[0], spectrum.measure.weights[0]
    copies = np.rint(weights * exact.size).astype(int)
    np.testing.assert_allclose(np.repeat(nodes, copies), exact, rtol=0, atol=rtol * exact.max())


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10**6))
def test_all_eigenvalues_are_those_of_a_full_svd(rows, columns, seed):
    W = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    spectrum = sdt.weight_densities({"w": W})["w"]
    assert_spectrum(spectrum, W)
    assert spectrum.mean.value == pytest.approx(float(W.double().square().mean()))
    assert spectrum.density.mass() + spectrum.density.mass_outside == pytest.approx(1)


class Everything(nn.Module):
    """Every kind of layer that holds a matrix, some that hold none, and two that share theirs."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 24)
        self.conv = nn.Conv2d(3, 8, 3)
        self.grouped = nn.Conv1d(8, 16, 5, groups=4)
        self.up = nn.ConvTranspose2d(8, 6, 2, groups=2)
        self.norm = nn.BatchNorm2d(8)
        self.attention = nn.MultiheadAttention(24, 4)
        self.rnn = nn.LSTM(24, 10)
        self.bilinear = nn.Bilinear(4, 5, 6)
        self.head = nn.Linear(24, 50, bias=False)
        self.head.weight = self.embed.weight
        self.free = nn.Parameter(torch.randn(7, 5))
        self.scale = nn.Parameter(torch.ones(5))


def test_every_layer_has_its_spectrum_and_tied_weights_are_listed_once():
    torch.manual_seed(0)
    model = Everything()
    weights = sdt.weight_densities(model)
    expected = {
        "embed": (model.embed.weight, 1),
        "conv": (model.conv.weight, 1),
        "grouped": (model.grouped.weight, 4),
        "up": (model.up.weight, 2),
        "attention.in_proj_weight": (model.attention.in_proj_weight, 1),
        "attention.out_proj": (model.attention.out_proj.weight, 1),
        "rnn.weight_ih_l0": (model.rnn.weight_ih_l0, 1),
        "rnn.weight_hh_l0": (model.rnn.weight_hh_l0, 1),
        "bilinear": (model.bilinear.weight, 1),
        "free": (model.free, 1),
    }
    assert set(weights) == set(expected)
    for name, (tensor, groups) in expected.items():
        assert_spectrum(weights[name], tensor, groups)
    assert weights["conv"].shape == (8, 27)
    assert weights["grouped"].shape == (4, 10)
    assert weights["grouped"].groups == 4
    assert weights["embed"].aliases == ("head",)
    assert "  head: tied to embed" in str(weights)
    assert list(sdt.weight_densities(model.state_dict()))[:2] == ["free", "embed"]
    assert set(sdt.weight_densities(model, layers=["rnn.*", "conv"])) == {
        "rnn.weight_ih_l0",
        "rnn.weight_hh_l0",
        "conv",
    }


def test_weights_that_share_memory_are_tied():
    weight = torch.randn(20, 30)
    weights = sdt.weight_densities({"a.weight": weight, "b.weight": weight.view(20, 30), "c.weight": weight.clone()})
    assert list(weights) == ["a", "c"]


@pytest.mark.parametrize(("rows", "columns"), [(400, 400), (200, 500), (600, 100), (64, 64)])
@pytest.mark.parametrize("seed", range(3))
def test_planted_outliers_are_counted(rows, columns, seed):
    # the law's edge in units of √rows is 1 + √γ; singular values show beyond it from γ^(1/4) on, clearly at 2
    random = spiked(rows, columns, [], seed)
    three = spiked(rows, columns, [2.5, 3.0, 6.0] if rows >= columns else [4.0, 5.0, 9.0], seed)
    weights = sdt.weight_densities({"random": random, "three": three})
    assert [spectrum.outliers for spectrum in weights.values()] == [(0, 0), (3, 0)]
    gamma = min(rows, columns) / max(rows, columns)
    for spectrum in weights.values():
        assert spectrum.law.gamma == pytest.approx(gamma)
        assert spectrum.edge == pytest.approx((1 + gamma**0.5) ** 2, rel=0.25 if columns < 100 else 0.05)
        assert spectrum.threshold > spectrum.edge
        assert spectrum.power_law is None


@pytest.mark.slow
def test_a_random_matrix_rarely_has_outliers():
    counts = [sdt.weight_densities({"w": spiked(120, 60, [], seed)})["w"].outliers.value for seed in range(150)]
    assert np.count_nonzero(counts) <= 6  # 2 % are expected at most: 6 or fewer in 98.8 % of such tests


def test_the_heavy_tail_of_a_layer_is_found_with_its_error():
    # W = Q √(Nλ) with λ from a density ∝ λ^(−2.5)
    n = 600
    values = ((np.arange(n) + 0.5) / n) ** (-1 / 1.5)
    Q = torch.linalg.qr(torch.randn(800, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    law = sdt.weight_densities({"w": Q * torch.from_numpy(np.sqrt(800 * values))})["w"].power_law
    assert abs(law.exponent + 2.5) < 3 * law.stderr < 0.5


@pytest.mark.parametrize("dtype", slow_after(1, [torch.float32, torch.float64, torch.bfloat16]))
def test_the_matrix_free_way_agrees_with_the_svd_within_its_error(dtype):
    W = spiked(700, 500, [3.0, 4.0, 8.0]).to(dtype)
    exact = sdt.weight_densities({"w": W})["w"]
    free = sdt.weight_densities({"w": W}, max_svd=499, num_probes=8)["w"]
    assert (exact.method, free.method) == ("svd", "fast_lanczos")
    assert free.largest == pytest.approx(exact.largest, rel=1e-5)
    assert free.mean.value == pytest.approx(exact.mean.value, rel=1e-4)
    assert abs(free.outliers.value - 3) < 3 * free.outliers.stderr < 10
    for lo, hi in ((0.0, 0.5), (0.5, 2.0), (2.0, 100.0)):
        count, truth = free.measure.count(lo, hi), exact.measure.count(lo, hi).value
        assert abs(count.value - truth) < 4 * count.stderr + 1
    assert free.edge == pytest.approx(exact.edge, rel=0.1)
    again = sdt.weight_densities({"w": W}, max_svd=0, num_probes=8)["w"]
    assert again.outliers == free.outliers


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_outliers_without_a_gap_are_counted_alike_by_products(seed):
    # a continuous tail, where the count depends on the edge, and the edge on the median that the probes saw
    W = spiked(600, 400, list(np.linspace(1.0, 6.0, 60)), seed)
    exact, free = (sdt.weight_densities({"w": W}, max_svd=size, seed=seed)["w"].outliers for size in (400, 0))
    assert exact.value > 40
    assert abs(free.value - exact.value) < 4 * free.stderr < 40


def test_tall_matrices_are_reduced_piece_by_piece():
    W = torch.randn(2001, 30, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(
        np.sort(singular_values(W[None]).numpy() ** 2 / 2001), eigenvalues(W), rtol=1e-12, atol=0
    )


def test_singular_values_stay_on_their_device():
    with OneDevice():
        for shape in ((1, 30, 20), (3, 30, 20), (1, 300, 20)):
            for dtype in (torch.float32, torch.complex64):
                values = singular_values(torch.ones(shape, device="meta", dtype=dtype))
                assert values.device.type == "meta"
                assert values.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
def test_weights_of_other_precisions_are_converted(dtype):
    W = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)).to(dtype)
    wide = W.to(torch.complex128) if dtype.is_complex else W.double()
    exact = np.linalg.svd(wide.numpy(), compute_uv=False) ** 2 / 40
    np.testing.assert_allclose(sdt.weight_densities({"w": W})["w"].measure.nodes[0], np.sort(exact), rtol=1e-8)


def test_computed_weights_are_taken_as_the_module_computes_them():
    torch.manual_seed(0)
    norm = parametrizations.weight_norm(nn.Linear(20, 30))
    spectral = parametrizations.spectral_norm(nn.Linear(20, 30))
    pruned = nn.Linear(20, 30)
    prune.random_unstructured(pruned, "weight", amount=0.5)
    old = nn.utils.spectral_norm(nn.Linear(20, 30))
    model = nn.Sequential(norm, spectral, pruned, old)
    before = copy.deepcopy(model.state_dict())
    weights = sdt.weight_densities(model)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert list(weights) == ["0", "1", "2", "3"]
    model.eval()
    for name, module in model.named_children():
        module(torch.zeros(1, 20))
        assert_spectrum(weights[name], module.weight, rtol=1e-6)


def test_the_model_is_left_as_it_was_found():
    model = nn.Sequential(nn.Linear(30, 40), nn.BatchNorm1d(40), nn.Dropout(), nn.Linear(40, 30)).train()
    model[0].weight.grad = torch.ones(40, 30)
    state = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    sdt.weight_densities(model)
    assert model.training
    assert torch.equal(model[0].weight.grad, torch.ones(40, 30))
    assert model[3].weight.grad is None
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)


def test_it_prints_as_a_table():
    weights = sdt.weight_densities(
        {"one": spiked(300, 200, [4.0]), "few": torch.randn(3, 5), "int": torch.ones(3, 3).int()}
    )
    lines = str(weights).splitlines()
    assert lines[0] == "WeightDensities(2 layers)"
    assert lines[1].split()[:3] == ["layer", "kind", "matrix"]
    assert lines[2].split()[:6] == ["one", "tensor", "300", "×", "200", "svd"]
    assert lines[2].split()[-1] == "1"
    assert lines[3].split()[-3:] == ["—", "—", "—"]
    assert lines[-1] == "  int: left out, dtype torch.int32: quantised weights must be dequantised first"
    assert len({len(line) for line in lines[1:4]}) == 1
    assert weights._repr_html_().count("<tr>") == 3
    assert "1 ± 0 beyond the edge" in repr(weights["one"])
    assert set(weights.densities) == {"one", "few"}


def test_it_draws_a_grid_in_which_no_eigenvalue_hides():
    pytest.importorskip("matplotlib")
    model = {f"layer {k}": spiked(120, 80, [4.0] * (k > 0), seed=k) for k in range(5)}
    model |= {"zero": torch.zeros(30, 20), "low rank": torch.ones(40, 30), "one": torch.ones(1, 4)}
    axes = sdt.weight_densities(model).plot(num_columns=3)
    assert axes.shape == (8,)
    for ax, number in zip(axes[:5], [0, 1, 1, 1, 1], strict=True):
        assert ax.get_title().endswith(f"{number} beyond")
        heights = [bar.get_height() for bar in ax.patches if hasattr(bar, "get_height")]
        cut = [int(text.get_text().split()[1]) for text in ax.texts]
        assert sum(heights) + sum(cut) == pytest.approx(80, abs=1)
        assert ax.get_ylim()[0] < 1
        assert ax.get_xlim()[1] > max(bar.get_x() for bar in ax.patches if hasattr(bar, "get_height"))


def test_progress_names_the_layers():
    seen = []
    sdt.weight_densities({"a": torch.randn(20, 20), "b": torch.randn(60, 50)}, max_svd=40, progress=seen.append)
    stages = [state.stage for state in seen]
    assert stages[0] == "a (1 of 2)"
    assert stages[1] == "b (2 of 2)"
    assert all(stage.startswith("b (2 of 2): fast_lanczos") for stage in stages[2:])
    assert len(stages) > 3


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (3, {}, TypeError, "`model` must be a torch.nn.Module or a mapping from names to tensors; got int"),
        (nn.ReLU(), {}, ValueError, "`model` must have at least one weight matrix; got ReLU without"),
        (nn.LayerNorm(4), {}, ValueError, "got LayerNorm without"),
        ({"q": torch.ones(2, 2).int()}, {}, ValueError, "without; q has dtype torch.int32: quantised"),
        (
            {"w": torch.full((3, 3), torch.nan)},
            {},
            ValueError,
            "`model` must have finite weights; 'w' holds nan or inf",
        ),
        (nn.Linear(3, 3, device="meta"), {}, ValueError, "must hold its weights; 'weight' is on the meta device"),
        (nn.Sequential(nn.LazyLinear(3)), {}, ValueError, "must be initialised; '0' has no shape yet. Run it once"),
        (nn.Linear(3, 3), {"layers": "fc"}, ValueError, "`layers` must name layers .* got 'fc'. There are weight."),
        (nn.Linear(3, 3), {"layers": [nn.ReLU()]}, TypeError, "`layers` must be names of layers or patterns"),
        (nn.Linear(3, 3), {"max_svd": -1}, ValueError, "`max_svd` must be"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_what_has_no_weights_is_refused_in_words(model, options, error, message):
    with pytest.raises(error, match=message):
        sdt.weight_densities(model, **options)


def test_readings_of_a_layer_are_those_of_its_measure():
    W = spiked(300, 200, [5.0])
    spectrum = sdt.weight_densities({"w": W})["w"]
    assert spectrum.stable_rank == pytest.approx(float((W**2).sum() / torch.linalg.matrix_norm(W, 2) ** 2))
    assert spectrum.measure.count(spectrum.threshold, np.inf).value == pytest.approx(1)
    assert isinstance(spectrum.density, sd.Density)


def test_a_mapping_with_other_entries_is_refused_by_name():
    state = nn.Linear(20, 30).state_dict()
    with pytest.raises(TypeError, match=r"'state_dict' is of type OrderedDict. Pass the state dict itself"):
        sdt.weight_densities({"epoch": 3, "state_dict": state})
    found = sdt.weight_densities({"fc.weight": torch.randn(20, 20), "fc": torch.randn(30, 30)})
    assert list(found) == ["fc.weight", "fc"]
    assert list(sdt.weight_densities({"a": np.random.default_rng(0).standard_normal((20, 20))[::-1]})) == ["a"]


def test_the_table_says_what_lies_beyond_what_and_why_a_number_is_missing():
    table = repr(sdt.weight_densities(nn.MultiheadAttention(64, 4)))
    assert "threshold" in table.splitlines()[1]
    assert "beyond it: eigenvalues beyond the threshold" in table
    assert "tail exponent —: too few eigenvalues" in table
    assert "NonDynamically" not in table
