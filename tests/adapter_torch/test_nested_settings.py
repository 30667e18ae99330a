"""Settings at any depth: operators follow them, passes leave them as they were, and graphs are kept meanwhile."""

from __future__ import annotations

import enum
import functools
import logging
import types
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field

import numpy as np
import pytest
import specdens_torch as sdt
import torch
from slow_cases import slow_after
from torch import nn
from torch_cases import assert_close, dense, dense_hessian, make, some, split

LOSS = nn.CrossEntropyLoss()
Pair = namedtuple("Pair", "a b")


@dataclass
class Part:
    scale: object = 1.0
    parts: list = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    values: dict


class Slotted:
    __slots__ = ("__hidden", "scale")

    def __init__(self):
        self.scale, self.__hidden = 1.0, [1.0]

    @property
    def hidden(self):
        return self.__hidden


class Subclass(dict):
    """A dict whose methods mislead, with attributes beside its entries."""

    def __iter__(self):
        return iter(())

    def values(self):
        return []

    def items(self):
        return []


class Odd:
    """An object that is equal to everything, or to nothing, and whose comparison may fail."""

    def __init__(self, answer):
        self.answer, self.scale = answer, 1.0

    def __eq__(self, other):
        if self.answer is None:
            raise RuntimeError("not comparable")
        return self.answer

    __hash__ = object.__hash__


class Kind(enum.Enum):
    ONE = 1.0
    TWO = 2.0


class ClassSettings:
    scale = 1.0
    table = {"scale": 1.0}  # noqa: RUF012


def closure():
    inner = {"scale": 1.0}
    return lambda: inner["scale"]


def one():
    return torch.ones(()).double()


def put(key):
    def change(owner, value):
        owner[key] = value

    return change


def attribute(name="scale"):
    return lambda owner, value: setattr(owner, name, value)


# name -> (what the model holds, where the number is, how another number is put there)
HELD = {
    "dict in a dict": (lambda: {"a": {"b": 1.0}}, lambda h: h["a"]["b"], lambda h, x: put("b")(h["a"], x)),
    "list of dicts": (lambda: [{}, {"s": 1.0}], lambda h: h[1]["s"], lambda h, x: put("s")(h[1], x)),
    "dataclass in a dict": (lambda: {"a": Part()}, lambda h: h["a"].scale, lambda h, x: attribute()(h["a"], x)),
    "attribute of an attribute": (lambda: Part(Part()), lambda h: h.scale.scale, lambda h, x: attribute()(h.scale, x)),
    "four levels": (
        lambda: Part(parts=[{"x": Part()}]), lambda h: h.parts[0]["x"].scale,
        lambda h, x: attribute()(h.parts[0]["x"], x),
    ),
    "deque": (lambda: deque([1.0, 5.0], maxlen=2), lambda h: h[-1] / 5.0, lambda h, x: h.append(5.0 * x)),
    "deque in a list": (lambda: [deque([1.0])], lambda h: h[0][0], lambda h, x: put(0)(h[0], x)),
    "tensor in a dict in a list": (
        lambda: [{"t": one()}], lambda h: h[0]["t"], lambda h, x: h[0]["t"].data.fill_(x)
    ),
    "tensor put there": (lambda: [{"t": one()}], lambda h: h[0]["t"], lambda h, x: put("t")(h[0], x * one())),
    "NumPy array": (lambda: {"a": np.ones(3)}, lambda h: float(h["a"].mean()), lambda h, x: h["a"].fill(x)),
    "slots": (Slotted, lambda h: h.scale, attribute()),
    "hidden slot": (Slotted, lambda h: h.hidden[0], lambda h, x: put(0)(h.hidden, x)),
    "frozen with slots": (lambda: Frozen({"s": 1.0}), lambda h: h.values["s"], lambda h, x: put("s")(h.values, x)),
    "named tuple": (lambda: Pair({"s": 1.0}, 2), lambda h: h.a["s"], lambda h, x: put("s")(h.a, x)),
    "subclass of dict": (lambda: Subclass(s=1.0), lambda h: h["s"], lambda h, x: dict.__setitem__(h, "s", x)),
    "attribute of a subclass of dict": (
        lambda: attribute("t")(d := Subclass(), 1.0) or d, lambda h: h.t, attribute("t"),
    ),
    "ordered dict": (lambda: OrderedDict(a=1.0, b=2.0), lambda h: next(iter(h.values())), put("a")),
    "order of a dict": (
        lambda: OrderedDict(a=1.0, b=2.0), lambda h: next(iter(h.values())),
        lambda h, x: h.move_to_end("a") if x == 2.0 else h.move_to_end("a", last=False),
    ),
    "default dict": (lambda: defaultdict(lambda: 1.0), lambda h: h["a"], put("a")),
    "UserDict": (lambda: UserDict(a={"s": 1.0}), lambda h: h["a"]["s"], lambda h, x: put("s")(h["a"], x)),
    "namespace": (lambda: types.SimpleNamespace(n=Part()), lambda h: h.n.scale, lambda h, x: attribute()(h.n, x)),
    "set": (lambda: {1.0}, lambda h: max(h), lambda h, x: (h.clear(), h.add(x))),
    "enum": (lambda: [Kind.ONE], lambda h: h[0].value, lambda h, x: put(0)(h, Kind(x))),
    "partial": (
        lambda: functools.partial(dict, s=1.0), lambda h: h.keywords["s"], lambda h, x: put("s")(h.keywords, x),
    ),
    "closure": (closure, lambda h: h(), lambda h, x: put("scale")(h.__closure__[0].cell_contents, x)),
    "method": (lambda: Part({"a": 1.0}).__eq__, lambda h: h.__self__.scale["a"],
               lambda h, x: put("a")(h.__self__.scale, x)),
    "equal to everything": (lambda: {"o": Odd(True)}, lambda h: h["o"].scale, lambda h, x: attribute()(h["o"], x)),
    "equal to nothing": (lambda: {"o": Odd(False)}, lambda h: h["o"].scale, lambda h, x: attribute()(h["o"], x)),
    "class": (lambda: ClassSettings, lambda h: h.scale, attribute()),
    "dict of a class": (lambda: ClassSettings, lambda h: h.table["scale"], lambda h, x: put("scale")(h.table, x)),
    "long list": (lambda: [1.0] * 5000, lambda h: h[4321], put(4321)),
    "cycle": (
        lambda: h[0].update(me=h) or h if (h := [{"s": 1.0}]) else h, lambda h: h[0]["me"][0]["s"],
        lambda h, x: put("s")(h[0], x),
    ),
}  # fmt: skip


class Model(nn.Module):
    def __init__(self, held, read):
        super().__init__()
        self.linear, self.head = nn.Linear(5, 6), nn.Linear(6, 4)
        self.held, self.read = held, read

    def forward(self, x):
        return self.head(torch.tanh(self.linear(x))) * self.read(self.held)


class WritingModel(Model):
    """Puts another number there in every pass, and uses the former one."""

    def __init__(self, held, read, write):
        super().__init__(held, read)
        self.write = write

    def forward(self, x):
        outputs = super().forward(x)
        self.write(self.held, 2.0)
        return outputs


@pytest.fixture(autouse=True)
def class_settings():
    yield
    ClassSettings.scale, ClassSettings.table["scale"] = 1.0, 1.0


def build(kind, *parts):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(*parts).double().eval()


def changes(caplog):
    return [r for r in caplog.records if "has changed" in r.message]


@pytest.mark.parametrize("name", slow_after(8, HELD))
def test_operators_follow_settings_at_any_depth(name, caplog):
    make_held, read, write = HELD[name]
    _, x, y = make()
    model = build(Model, make_held(), read)
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    before = some(curv.Hess)
    with caplog.at_level("INFO", logger="specdens"):
        assert_close(some(curv.Hess), before)
        assert not changes(caplog)
    write(model.held, 2.0)
    expected = dense_hessian(model, lambda: LOSS(model(x), y))
    assert float((some(expected) - before).norm() / some(expected).norm()) > 0.1
    assert_close(some(curv.Hess), some(expected))
    write(model.held, 1.0)
    assert_close(some(curv.Hess), before)


@pytest.mark.parametrize("name", slow_after(8, [name for name in HELD if name != "closure"]))
def test_what_a_pass_writes_is_restored_and_graphs_are_kept(name, caplog):
    make_held, read, write = HELD[name]
    _, x, y = make()
    model = build(WritingModel, make_held(), read, write)
    with caplog.at_level("INFO", logger="specdens"):
        curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
        for A in (curv.Hess, curv.G, curv.Hess):
            some(A)
        assert not changes(caplog)
    assert read(model.held) == 1.0
    plain = build(Model, make_held(), read)
    assert_close(some(curv.Hess), some(dense_hessian(plain, lambda: LOSS(plain(x), y))))


def test_setting_an_equal_number_changes_nothing(caplog):
    _, x, y = make()
    model = build(Model, {"a": {"b": 1234.5, "c": (1, "x")}}, lambda h: h["a"]["b"] / 1234.5)
    curv = sdt.Curvature(model, LOSS, (x, y))
    some(curv.Hess)
    model.held["a"].update(b=float("1234.5"), c=(1, "".join(["x"])))
    with caplog.at_level("INFO", logger="specdens"):
        some(curv.Hess)
    assert not changes(caplog)


@pytest.mark.slow
def test_loggers_locks_and_large_trees_of_objects_are_no_hindrance(caplog):
    _, x, y = make()
    tree = [Part(parts=[Part(k)]) for k in range(30_000)]
    model = build(Model, [logging.getLogger("some"), tree, Odd(None), np.random.default_rng(0)], lambda h: 1.0)
    curv = sdt.Curvature(model, LOSS, (x, y))
    some(curv.Hess)
    with caplog.at_level("INFO", logger="specdens"):
        some(curv.G)
    assert not changes(caplog)


class Checkpointed(nn.Module):
    """Counts passes within a part that backward passes evaluate again."""

    def __init__(self):
        super().__init__()
        self.linear, self.head, self.state = nn.Linear(5, 6), nn.Linear(6, 4), {"counts": [0]}

    def body(self, x):
        self.state["counts"][0] += 1
        return torch.tanh(self.linear(x))

    def forward(self, x):
        return self.head(torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False))


def test_what_a_backward_pass_evaluates_again_is_restored(caplog):
    _, x, y = make()
    model = build(Checkpointed)
    with caplog.at_level("INFO", logger="specdens"):
        curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
        some(curv.Hess)
        some(curv.G)
    assert not changes(caplog)
    assert model.state == {"counts": [0]}
    assert_close(dense(curv.Hess), dense_hessian(model, lambda: LOSS(model(x), y)))


class InPlace(nn.Module):
    """Writes to tensors that are no buffers."""

    def __init__(self):
        super().__init__()
        self.linear, self.memory = nn.Linear(5, 4), {"last": torch.zeros(4).double()}

    def forward(self, x):
        outputs = self.linear(torch.tanh(x))
        self.memory["last"].copy_(outputs.detach().mean(0))
        return outputs


def test_tensors_that_a_pass_writes_to_are_restored(caplog):
    _, x, y = make()
    model = build(InPlace)
    last = model.memory["last"]
    with caplog.at_level("INFO", logger="specdens"):
        curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
        some(curv.Hess)
        some(curv.G)
    assert not changes(caplog)
    assert model.memory["last"] is last
    assert torch.equal(last, torch.zeros(4).double())
    assert_close(dense(curv.Hess), dense_hessian(model, lambda: LOSS(model(x), y)))


SETTINGS = {"scale": 1.0}
SCALE = 1.0


def scaled(x):
    return x * SETTINGS["scale"] * SCALE


class WithGlobals(Model):
    def forward(self, x):
        return scaled(super().forward(x))


@pytest.mark.parametrize("kind", ["number", "dict"])
def test_operators_follow_global_variables(kind, monkeypatch):
    _, x, y = make()
    model = build(WithGlobals, None, lambda h: 1.0)
    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10))
    before = some(curv.Hess)
    if kind == "number":
        monkeypatch.setitem(globals(), "SCALE", 2.0)
    else:
        monkeypatch.setitem(SETTINGS, "scale", 2.0)
    expected = some(dense_hessian(model, lambda: LOSS(model(x), y)))
    assert float((expected - before).norm() / expected.norm()) > 0.1
    assert_close(some(curv.Hess), expected)


class Tanh(nn.Module):
    def forward(self, x):
        return 2.0 * torch.tanh(x)


def test_a_cache_of_parametrizations_around_products_is_not_used():
    model, x, y = make()
    nn.utils.parametrize.register_parametrization(model[0], "weight", Tanh())
    expected = some(dense_hessian(model, lambda: LOSS(model(x), y)))
    with nn.utils.parametrize.cached():
        model(x)
        curv = sdt.Curvature(model, LOSS, (x, y))
        assert_close(some(curv.Hess), expected)
        assert nn.utils.parametrize._cache
    assert_close(some(curv.Hess), expected)


class Remembering(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.known = inner, {}

    def forward(self, x):
        if len(x) not in self.known:
            self.known[len(x)] = torch.tanh(self.inner[0](x))
        return self.inner[2:](self.known[len(x)])


def test_tensors_kept_from_an_earlier_pass_are_refused_by_name():
    inner, x, y = make()
    model = Remembering(inner)
    sdt.Curvature(model, LOSS, (x, y))  # forgets what its own passes keep
    model(x)
    with pytest.raises(ValueError, match=r"the outputs lead to `inner\.0\.weight` through a tensor .* earlier pass"):
        sdt.Curvature(model, LOSS, (x, y))


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_autocast_around_products_changes_nothing(cache):
    model, x, y = make()
    model, x = model.float(), x.float()
    curv = sdt.Curvature(model, LOSS, (x, y), cache=cache, jvp_route="double backward")
    v = torch.ones(curv.Hess.shape[0])
    expected = curv.Hess @ v
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(curv.Hess @ v, expected)
        assert_close(curv.G @ v + curv.H @ v, expected, 1e-6)
        again = sdt.Curvature(model, LOSS, (x, y), cache=cache, jvp_route="double backward")
    assert torch.equal(again.Hess @ v, expected)


class Clamped(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 4)

    def forward(self, x):
        with torch.no_grad():
            self.linear.weight.clamp_(-0.1, 0.1)
        return self.linear(torch.tanh(x))


def test_a_model_that_writes_to_its_parameters_is_refused_by_name():
    _, x, y = make()
    with pytest.raises(ValueError, match=r"the model writes to its parameter `linear\.weight` in its forward"):
        sdt.Curvature(build(Clamped), LOSS, (x, y))


# -- the loss and the forward --------------------------------------------------------------------------------------


class Focal(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings = {"gamma": 1.0}

    def forward(self, output, target):
        log_p = output.log_softmax(1).gather(1, target[:, None])[:, 0]
        return -((1 - log_p.exp()) ** self.settings["gamma"]) * log_p


def function_with_default(focal):
    def loss(output, target, *, made=focal):
        return made(output, target)

    return loss


@pytest.mark.parametrize("make_loss", [lambda f: f, lambda f: f.forward, function_with_default],
                         ids=["module", "method", "function"])  # fmt: skip
def test_operators_follow_settings_of_the_loss(make_loss):
    model, x, y = make()
    focal = Focal()
    loss = make_loss(focal)
    curv = sdt.Curvature(model, loss, split(x, y, 20, 10))
    before = some(curv.Hess)
    focal.settings["gamma"] = 3.0
    expected = some(dense_hessian(model, lambda: loss(model(x), y).mean()))
    assert float((expected - before).norm() / expected.norm()) > 0.1
    assert_close(some(curv.Hess), expected)


def test_operators_follow_settings_of_torchs_losses_without_a_closed_form():
    model, x, _ = make()
    loss, target = nn.HuberLoss(delta=1.0), torch.randn(30, 4).double()
    curv = sdt.Curvature(model, loss, split(x, target, 20, 10))
    some(curv.Hess)
    loss.delta = 0.2
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: loss(model(x), target))))


@pytest.mark.parametrize("name", ["label_smoothing", "weight", "reduction"])
def test_settings_of_a_loss_that_were_taken_are_not_changed_in_silence(name):
    model, x, y = make()
    loss = nn.CrossEntropyLoss()
    curv = sdt.Curvature(model, loss, (x, y))
    some(curv.Hess)
    setattr(loss, name, {"label_smoothing": 0.1, "weight": torch.arange(1.0, 5.0).double(), "reduction": "sum"}[name])
    with pytest.raises(ValueError, match="`loss` has other settings than when the Curvature was made"):
        some(curv.Hess)


def test_operators_follow_settings_of_the_forward_and_leave_its_counters_alone(caplog):
    model, x, y = make()
    settings, calls = {"scale": 1.0}, []

    def forward(model, batch):
        calls.append(1)
        return model(batch[0]) * settings["scale"]

    curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10), forward=forward)
    with caplog.at_level("INFO", logger="specdens"):
        some(curv.Hess)
        some(curv.G)
    assert calls
    assert not changes(caplog)
    settings["scale"] = 2.0
    assert_close(some(curv.Hess), some(dense_hessian(model, lambda: LOSS(2.0 * model(x), y))))


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_what_a_hook_collects_is_the_users(cache, caplog):
    model, x, y = make()
    seen = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    with caplog.at_level("INFO", logger="specdens"):
        curv = sdt.Curvature(model, LOSS, split(x, y, 20, 10), cache=cache)
        some(curv.Hess)
        before = len(seen)
        some(curv.Hess)
    assert before
    assert (len(seen) > before) == (cache == "off")
    assert not changes(caplog)
