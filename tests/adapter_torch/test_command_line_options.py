"""Options of ``specdens hessian`` that reach the problem and the picture."""

from __future__ import annotations

from command_line import fail, run

import specdens as sd


def test_options_reach_the_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.py").write_text(
        "import torch\n"
        "def problem(epoch=0, name='none'):\n"
        "    torch.manual_seed(epoch)\n"
        "    assert isinstance(epoch, int) and name == 'wide'\n"
        "    x, y = torch.randn(12, 4), torch.arange(12) % 3\n"
        "    return torch.nn.Linear(4, 3), torch.nn.CrossEntropyLoss(), [(x, y)]\n"
    )
    arguments = ("hessian", "problem.py", "--option", "name=wide", "--steps", 3, "--log-y")
    run(*arguments, "--option", "epoch=1", "-o", "one.npz", "-o", "one.png")
    run(*arguments, "--option", "epoch=2", "-o", "two.npz")
    one, two = (sd.load(f"{name}-Hess-train.npz") for name in ("one", "two"))
    assert (tmp_path / "one-Hess-train.png").exists()
    assert one.measure.alphas[0][0] != two.measure.alphas[0][0]
    assert "'epoch' is not of the form NAME=VALUE" in fail(2, *arguments, "--option", "epoch")
