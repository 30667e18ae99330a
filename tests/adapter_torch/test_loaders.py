"""Loaders: kept or streamed, shuffling, augmenting, dropping; what is not one data set is named with its remedy."""

from __future__ import annotations

import pytest
import specdens_torch as sdt
import torch
from specdens_torch._data import batches as _batches
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset, WeightedRandomSampler
from torch_cases import assert_close, dense_hessian, make, some, split

LOSS = nn.CrossEntropyLoss()


class Flipped(Dataset):
    """A data set that turns half of its inputs around, or none."""

    def __init__(self, x, y, probability=0.5):
        self.x, self.y, self.probability = x, y, probability

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return (self.x[i].flip(0) if torch.rand(()) < self.probability else self.x[i]), self.y[i]


def mixed(examples):
    """Collate examples into mixtures of each other."""
    x, y = (torch.stack(part) for part in zip(*examples, strict=True))
    share = torch.rand(()).item()
    return share * x + (1 - share) * x.roll(1, 0), y


# -- kept ----------------------------------------------------------------------------------------------------------


def test_a_shuffling_loader_is_read_once_and_kept():
    model, x, y = make()
    loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)
    curv = sdt.Curvature(model, LOSS, loader)
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: LOSS(model(x), y))))
    assert "5 batches kept" in repr(curv)


# workers are forked, which JAX, loaded by other tests, warns of
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_augmenting_data_set_is_refused(shuffle, num_workers):
    model, x, y = make()
    loader = DataLoader(Flipped(x, y), batch_size=16, shuffle=shuffle, num_workers=num_workers)
    with pytest.raises(
        ValueError, match=r"same 16 examples differently.*augments.*random transforms off.*list\(loader\)"
    ):
        sdt.Curvature(model, LOSS, loader)


def test_an_augmenting_collate_function_is_refused():
    model, x, y = make()
    loader = DataLoader(TensorDataset(x, y), batch_size=16, collate_fn=mixed)
    with pytest.raises(ValueError, match=r"augments its data.*collate_fn"):
        sdt.Curvature(model, LOSS, loader)


def test_what_one_pass_gives_can_be_taken():
    model, x, y = make()
    batches = list(DataLoader(Flipped(x, y), batch_size=16))
    curv = sdt.Curvature(model, LOSS, batches)
    x = torch.cat([x for x, _ in batches])
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: LOSS(model(x), y))))


def test_transforms_that_are_not_random_are_welcome():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, DataLoader(Flipped(x, y, probability=1.0), batch_size=16, shuffle=True))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: LOSS(model(x.flip(1)), y))))


@pytest.mark.parametrize("num_examples", [30, 8])  # of eight, one is left out: the same one in every eighth trial
def test_a_loader_that_drops_random_examples_is_refused(num_examples):
    model, x, y = make()
    loader = DataLoader(TensorDataset(x[:num_examples], y[:num_examples]), batch_size=7, shuffle=True, drop_last=True)
    left_out = rf"drop_last=True: it leaves out {num_examples % 7} of {num_examples} examples, others.*drop_last=False"
    for _ in range(30):
        with pytest.raises(ValueError, match=left_out):
            sdt.Curvature(model, LOSS, loader)
    for fine in ({"shuffle": False, "batch_size": 7}, {"shuffle": True, "batch_size": 10}):
        sdt.Curvature(model, LOSS, DataLoader(TensorDataset(x, y), drop_last=True, **fine))


@pytest.mark.parametrize(
    "sampler",
    [lambda data: WeightedRandomSampler([1.0] * 30, 30), lambda data: RandomSampler(data, replacement=True)],
    ids=["WeightedRandomSampler", "RandomSampler"],
)
def test_a_sampler_that_draws_anew_is_refused(sampler, request):
    model, x, y = make()
    data = TensorDataset(x, y)
    with pytest.raises(ValueError, match=rf"other examples in every pass \({request.node.callspec.id}\).*list\(loader"):
        sdt.Curvature(model, LOSS, DataLoader(data, batch_size=7, sampler=sampler(data)))


def test_random_states_are_left_as_they_were_found():
    model, x, y = make()
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True, generator=generator)
    states = torch.get_rng_state(), generator.get_state()
    sdt.Curvature(model, LOSS, loader)
    curv = sdt.Curvature(model, LOSS, DataLoader(TensorDataset(x, y), batch_size=7), keep_data=False)
    _ = curv.G @ torch.ones(95, dtype=torch.float64)
    assert torch.equal(states[0], torch.get_rng_state())
    assert torch.equal(states[1], generator.get_state())


# -- any iterable ----------------------------------------------------------------------------------------------------


class Changing:
    """A loader that changes from pass to pass."""

    def __init__(self, batches, change):
        self.batches, self.change, self.passes = batches, change, 0

    def __iter__(self):
        self.passes += 1
        return iter(self.change(self.batches, self.passes))


CHANGES = {
    "shifts": (lambda b, k: [(x + k, y) for x, y in b], "the loader augments its data.*random transforms off"),
    "flips": (lambda b, k: [(x.flip(1) if k > 1 else x, y) for x, y in b], "the loader augments its data"),
    "mixes": (lambda b, k: [(x / k + x.roll(1, 0) * (1 - 1 / k), y) for x, y in b], "the loader augments its data"),
    "differs": (lambda b, k: [(x + k, (y + k) % 3) for x, y in b], r"different data on a second pass.*list\(loader\)"),
    "shrinks": (lambda b, k: b[k - 1 :], "different data on a second pass"),
}


@pytest.mark.parametrize("keep", [False, True], ids=["streamed", "kept"])
@pytest.mark.parametrize(("change", "match"), CHANGES.values(), ids=CHANGES)
def test_a_loader_must_repeat_itself(change, match, keep):
    model, x, y = make()
    with pytest.raises(ValueError, match=match):
        sdt.Curvature(model, LOSS, Changing(split(x, y, 20, 9, 1), change), keep_data=keep)


def test_another_order_is_refused_where_batches_are_streamed_alone():
    model, x, y = make()
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))

    def shuffled(batches, k):
        return batches if k == 1 else split(x[order], y[order], 11, 19)

    with pytest.raises(ValueError, match=r"in another order on a second pass: the loader shuffles.*shuffle=False"):
        sdt.Curvature(model, LOSS, Changing(split(x, y, 11, 19), shuffled), keep_data=False)
    curv = sdt.Curvature(model, LOSS, Changing(split(x, y, 11, 19), shuffled))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: LOSS(model(x), y))))


class Stream(IterableDataset):
    def __init__(self, x, y, noise):
        self.x, self.y, self.noise = x, y, noise

    def __iter__(self):
        return ((a + self.noise * torch.randn_like(a), b) for a, b in zip(self.x, self.y, strict=True))


def test_data_sets_without_indices_are_read_twice():
    model, x, y = make()
    curv = sdt.Curvature(model, LOSS, DataLoader(Stream(x, y, 0.0), batch_size=7))
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: LOSS(model(x), y))))
    with pytest.raises(ValueError, match="the loader augments its data"):
        sdt.Curvature(model, LOSS, DataLoader(Stream(x, y, 0.1), batch_size=7))
    unchecked = sdt.Curvature(model, LOSS, DataLoader(Stream(x, y, 0.1), batch_size=7), check=False)
    assert "5 batches kept" in repr(unchecked)


def test_inputs_that_are_not_numbers_are_compared_too():
    model, x, y = make()
    x[3, 2] = float("nan")
    curv = sdt.Curvature(model, LOSS, Changing(split(x, y, 20, 10), lambda b, k: b), check=True)
    assert len(curv._engine.batches) == 2


# -- streamed ----------------------------------------------------------------------------------------------------------


def test_a_shuffling_loader_cannot_be_streamed():
    model, x, y = make()
    loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)
    with pytest.raises(ValueError, match=r"shuffles, and its batches are streamed.*shuffle=False"):
        sdt.Curvature(model, LOSS, loader, keep_data=False)


def test_an_augmenting_loader_cannot_be_streamed():
    model, x, y = make()
    with pytest.raises(ValueError, match=r"augments its data.*list\(loader\)"):
        sdt.Curvature(model, LOSS, DataLoader(Flipped(x, y), batch_size=7), keep_data=False)


def test_a_streamed_loader_gives_the_same_products():
    model, x, y = make()
    data = DataLoader(TensorDataset(x, y), batch_size=7)
    curv = sdt.Curvature(model, LOSS, data, keep_data=False)
    expected = sdt.Curvature(model, LOSS, (x, y))
    assert "streamed" in repr(curv)
    for name in ("Hess", "G", "H", "A1", "B2"):
        assert_close(some(getattr(curv, name)), some(getattr(expected, name)))


def test_bad_data_is_refused_in_words():
    model, x, y = make()
    with pytest.raises(ValueError, match="can be read only once"):
        sdt.Curvature(model, LOSS, iter([(x, y)]), keep_data=False)
    with pytest.raises(ValueError, match="`data` must have at least one batch"):
        sdt.Curvature(model, LOSS, [])
    with pytest.raises(TypeError, match="Wrap it in a DataLoader"):
        sdt.Curvature(model, LOSS, TensorDataset(x, y))
    with pytest.raises(TypeError, match=r"tuples .* or dicts; got Tensor"):
        sdt.Curvature(model, LOSS, [x, y, y])
    with pytest.raises(TypeError, match="`data` must be a DataLoader"):
        sdt.Curvature(model, LOSS, 3)


# -- transfers -------------------------------------------------------------------------------------------------------


class Recorded(torch.Tensor):
    """A tensor that writes down how it is sent elsewhere."""

    log: list

    def is_pinned(self):
        return "pinned" in self.log

    def pin_memory(self):
        self.log.append("pinned")
        return self

    def to(self, device, non_blocking=False):
        self.log.append(f"to {device}, {non_blocking=}")
        return self.as_subclass(torch.Tensor).to(device)


@pytest.mark.parametrize("accelerator", [True, False])
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "streamed"])
def test_batches_are_pinned_for_accelerators_alone_and_never_waited_for(accelerator, keep, monkeypatch):
    monkeypatch.setattr(_batches, "_is_accelerator", lambda device: accelerator)
    log = []
    x, y = (torch.ones(4, 2).as_subclass(Recorded) for _ in range(2))
    x.log = y.log = log
    batches = _batches.Batches([(x, y)], torch.device("meta"), keep=keep, budget=10**9)
    assert all(t.device.type == "meta" for t in next(iter(batches)).raw)
    assert log.count("pinned") == (1 if accelerator else 0)  # the second finds the log and is pinned already
    assert log.count("to meta, non_blocking=True") == 2
    log.clear()
    _ = next(iter(batches))
    assert len(log) == (0 if keep else 3 if accelerator else 2)


def test_what_is_on_the_device_is_not_sent():
    x = torch.ones(3)
    assert _batches._sent(x, torch.device("cpu"), pin=False) is x
