"""The command line: `specdens hessian`, with and without torch."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import fail, run

import specdens as sd


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of one's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_problem(text):
    with open("problem.py", "w") as file:
        file.write(text)


class FakeCurvature:
    """The torch adapter's names, without torch: diagonal matrices whose size tells operator and split apart."""

    def __init__(self, model, loss, data, params=None):
        self.given = (model, loss, data, params)
        for size, name in enumerate(("Hess", "G", "H", "A1", "A2", "B1", "B2"), start=data):
            setattr(self, name, np.diag(np.arange(float(size))))

    def B2c(self, c):
        return np.diag(np.arange(100.0 + c))


@pytest.fixture
def adapter(monkeypatch):
    """Put the fake in the place of the adapter."""
    monkeypatch.setitem(
        sys.modules, "specdens_torch", SimpleNamespace(Curvature=FakeCurvature, shard=lambda data: data)
    )
    monkeypatch.setattr("specdens._cli.hessian.need", lambda *_: None)


def test_hessian_writes_one_file_per_operator_and_split(adapter, folder):
    write_problem("import neighbour\ndef problem():\n    return 'model', 'loss', neighbour.TRAIN, 30\n")
    (folder / "neighbour.py").write_text("TRAIN = 20\n")
    printed = run("hessian", "problem.py", "--operator", "Hess,G,B2c:3", "--steps", 5, "-o", "out.npz", "-o", "out.csv")
    sizes = {"Hess-train": 20, "G-train": 21, "B2c3-train": 103, "Hess-test": 30, "G-test": 31, "B2c3-test": 103}
    for name, size in sizes.items():
        assert sd.load(f"out-{name}.npz").measure.dimension == size
        assert os.path.exists(f"out-{name}.csv")
        assert f"Wrote out-{name}.npz" in printed
    assert "Hess, train: 20 parameters" in printed


@pytest.mark.parametrize(
    "returned",
    [
        "('m', 'l', 20)",
        "{'model': 'm', 'loss': 'l', 'data': 20}",
        "{'model': 'm', 'loss': 'l', 'train': 20, 'test': None, 'params': None}",
    ],
)
def test_a_problem_is_a_tuple_or_a_dict(adapter, returned):
    write_problem(f"def problem():\n    return {returned}\n")
    run("hessian", "problem.py", "--steps", 5, "-o", "out.npz", "--checkpoint", "run.npz")
    assert sorted(name for name in os.listdir() if name.startswith(("out", "run"))) == [
        "out-Hess-train.npz",
        "run-Hess-train.npz",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\n1 / 0\n", "problem.py, line 2: ZeroDivisionError: division by zero"),
        (
            "def problem():\n    import no_such_module\n",
            "line 2: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("def problem():\n    return int('x',\n        'y')\n", "line 2: TypeError: 'str' object cannot be interp"),
        ("def problem(:\n", "problem.py, line 1: SyntaxError: "),
        ("import json\ndef problem():\n    json.loads('{')\n", "problem.py, line 3: JSONDecodeError: Expecting"),
        ("raise SystemExit('no data')", "problem.py, line 1: SystemExit: no data"),
        ("import os\n", "problem.py: must define a function problem() that returns (model, loss, train), "),
        ("def problem():\n    return 1\n", "problem.py: problem() must return (model, loss, train), .*; got a int"),
        ("def problem():\n    return 1, 2\n", "got a tuple of length 2"),
        ("def problem():\n    return {'model': 1, 'lost': 2}\n", "got the keys model, lost"),
    ],
)
def test_a_problem_that_raises_is_one_line_with_file_and_line(adapter, text, line):
    write_problem(text)
    printed = fail(1, "hessian", "problem.py", "-o", "out.npz")
    for part in line.split(".*"):
        assert part in printed


# torch says it of itself, the first time that some of its derivatives are taken
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_what_the_model_itself_raises_is_one_line_too():
    pytest.importorskip("torch")
    write_problem(
        "import torch\n"
        "class Model(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x[:, 1:])\n"
        "def problem():\n"
        "    model = Model(3, 2) if SHAPE else torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout())\n"
        "    return model, torch.nn.CrossEntropyLoss(), (torch.randn(5, 3), torch.zeros(5).long())\n"
        "SHAPE = True\n"
    )
    assert "problem.py, line 4: RuntimeError: mat1 and mat2 shapes" in fail(1, "hessian", "problem.py", "-o", "out.npz")
    with open("problem.py", "a") as file:
        file.write("SHAPE = False\n")
    line = fail(1, "hessian", "problem.py", "-o", "out.npz")
    assert line.startswith("Error: problem.py: dropout `1` (Dropout) is in training mode")


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_a_network_of_ones_own():
    pytest.importorskip("torch")
    write_problem(
        "import torch\n"
        "def problem():\n"
        "    torch.manual_seed(0)\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))\n"
        "    x, y = torch.randn(20, 3), torch.randint(2, (20,))\n"
        "    return model, torch.nn.CrossEntropyLoss(), [(x, y)]\n"
    )
    run("hessian", "problem.py", "--operator", "Hess,G,H", "--steps", 20, "-o", "out.npz")
    Hess, G, H = (sd.load(f"out-{name}-train.npz").measure for name in ("Hess", "G", "H"))
    assert Hess.dimension == G.dimension == 26
    assert G.bounds().lo > -1e-4
    traces = [float(measure.weights[0] @ measure.nodes[0]) for measure in (Hess, G, H)]
    assert traces[0] == pytest.approx(traces[1] + traces[2], rel=1e-3)  # the same probe, in float32
