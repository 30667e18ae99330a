import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from experiment import datasets, gradient_gram, networks, training
from experiment.class_components import COMPONENTS, ClassComponents
from experiment.gradient_gram import dual_of_G
from experiment.store import Missing, Store

import specdens as sd


@pytest.mark.parametrize(
    ("name", "channels", "count"),
    [("vgg11", 1, 28_156_554), ("vgg11", 3, 28_157_706), ("resnet18", 1, 11_172_810), ("resnet18", 3, 11_173_962)],
)
def test_the_networks_have_the_parameters_of_the_paper(name, channels, count):
    assert networks.count_parameters(networks.build(name, channels=channels)) == count


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return datasets.load("digits", folder=tmp_path_factory.mktemp("data"))


def _trained(digits, folder, *, epochs=3, keep=()):
    recipe = training.Recipe("vgg11-tiny", "digits", 3, 0.01, epochs=epochs)
    return training.train(recipe, datasets.balanced(digits.train, per_class=3, seed=0), digits, cache=folder, keep=keep)


def test_training_that_was_killed_ends_with_the_same_weights(digits, tmp_path, monkeypatch):
    whole = _trained(digits, tmp_path / "a")
    monkeypatch.setattr(training, "_WRITE_INTERVAL", 0.0)
    epoch = training._Run._epoch

    def killed(self, number):
        if number == 3:
            raise KeyboardInterrupt
        epoch(self, number)

    monkeypatch.setattr(training._Run, "_epoch", killed)
    with pytest.raises(KeyboardInterrupt):
        _trained(digits, tmp_path / "b")
    monkeypatch.setattr(training._Run, "_epoch", epoch)
    resumed = _trained(digits, tmp_path / "b")
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, resumed.network.state_dict()[name]), name
    assert [row["epoch"] for row in resumed.history] == [row["epoch"] for row in whole.history]


def test_learning_rates_fall_after_one_and_two_thirds():
    recipe = training.Recipe("vgg11", "mnist", 13, 0.1, epochs=200)
    rates = [recipe.learning_rate_at(epoch) for epoch in (1, 66, 67, 133, 134, 200)]
    assert np.allclose(rates, [0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_batches_are_of_equal_size():
    batches = training.batches_of_epoch(130, batch_size=128, seed=0, epoch=1)
    assert [len(batch) for batch in batches] == [65, 65]
    assert sorted(np.concatenate(batches)) == list(range(130))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vgg11-tiny", "resnet18-tiny"])
def test_the_exact_spectra_of_G_are_those_of_the_library(digits, name):
    network = networks.build(name, num_classes=4).double().eval()
    generator = torch.Generator().manual_seed(0)
    for buffer in network.buffers():
        if buffer.is_floating_point():
            buffer += 0.3 * torch.rand(buffer.shape, generator=generator, dtype=buffer.dtype)
    examples = datasets.balanced(digits.train, per_class=2, seed=0)
    images = examples.images.double()
    gram, p = dual_of_G(network, images)
    components = ClassComponents(gram.numpy(), p.numpy(), examples.labels.numpy())
    curv = sdt.Curvature(network, torch.nn.CrossEntropyLoss(), [(images, examples.labels)])
    operators = {part: getattr(curv, part) for part in COMPONENTS}
    for left_out in ((), *((part,) for part in COMPONENTS)):
        kept = [operators[part] for part in COMPONENTS if part not in left_out]
        dual = sum(kept[1:], start=kept[0]).dual()
        matrix = torch.stack([dual @ unit for unit in torch.eye(dual.shape[0], dtype=torch.float64)])
        exact = torch.linalg.eigvalsh(matrix).flip(0).numpy()
        values = components.eigenvalues(without=left_out)
        assert np.allclose(values, exact[: len(values)], atol=1e-12 * exact[0]), left_out
    assert np.isclose(sum(components.traces().values()), np.trace(gram.numpy()))
    within = [float(np.trace(_dense(curv.B2c(c).dual()))) for c in range(4)]
    assert np.allclose(components.within_traces(), within, atol=1e-12 * np.trace(gram.numpy()))


def test_a_gram_matrix_continues_from_its_checkpoint(digits, tmp_path, monkeypatch):
    network = networks.build("vgg11-tiny", num_classes=4).double().eval()
    images = datasets.balanced(digits.train, per_class=1, seed=0).images.double()
    whole, _ = dual_of_G(network, images)
    contributions = gradient_gram._contributions
    calls = []

    def killed(layer, a, b):
        calls.append(layer)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return contributions(layer, a, b)

    monkeypatch.setattr(gradient_gram, "_contributions", killed)
    with pytest.raises(KeyboardInterrupt):
        dual_of_G(network, images, checkpoint=tmp_path / "gram.npz")
    resumed, _ = dual_of_G(network, images, checkpoint=tmp_path / "gram.npz")
    assert torch.equal(whole, resumed)


def _dense(dual):
    return torch.stack([dual @ unit for unit in torch.eye(dual.shape[0], dtype=torch.float64)]).numpy()


def test_results_are_computed_once_and_say_what_made_them(tmp_path):
    store = Store(results=tmp_path / "results", cache=tmp_path / "cache")
    A = np.diag(np.linspace(-1, 1, 50))
    calls = []

    def run(monitor):
        calls.append(1)
        return sd.fast_lanczos(A, num_steps=5, monitor=monitor)

    first, second = (store.measure("one", run, network="none") for _ in range(2))
    assert len(calls) == 1
    assert np.array_equal(first.alphas[0], second.alphas[0])
    noted = json.loads((tmp_path / "results" / "manifest.json").read_text())["one"]
    assert {"steps", "products", "seconds", "seed", "versions", "network"} <= set(noted)
    with pytest.raises(Missing, match="two has not been computed"):
        Store(results=tmp_path / "results", cache=tmp_path / "cache", compute=False).measure("two", run)


def test_results_stored_at_the_same_time_are_all_in_the_manifest(tmp_path, monkeypatch):
    monkeypatch.setattr("experiment.store.versions", lambda: time.sleep(0.005) or {})  # between reading and writing

    def fill(worker):
        store = Store(results=tmp_path / "results", cache=tmp_path / "cache")
        for number in range(5):
            store.arrays(f"{worker}-{number}", lambda: {"x": np.zeros(1)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, range(8)))
    manifest = json.loads((tmp_path / "results" / "manifest.json").read_text())
    assert len(manifest) == 40
