"""Measure what the page "What is verified, and how" states in numbers, and store it in ``docs/verified.json``.

``python docs/verified.py [--cases 1000] [--kills 40] [--only kills files peers]``: kills of real runs, damaged files,
silent errors of other tools, each by the command that the page names. Minutes; specdens[test] must be installed.
The documentation's build makes the tables from the file (``tables``). What the file holds under "once" was measured at
another time by the command beside it, and is not renewed here.
"""

from __future__ import annotations

import argparse
import datetime
import io
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
STORE = DOCS / "verified.json"
METHODS = ("fast_lanczos", "slow_lanczos", "kpm")
FORMATS = {
    "result": "results",
    "by-hand": "results made by hand, with right checksums",
    "checkpoint": "checkpoints",
    "sparse": "sparse `.npz`",
    "mtx": "`.mtx`",
    "mtx.gz": "`.mtx.gz`",
    "npy": "`.npy`",
}


def _json_of(*command: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def kills(num: int) -> list[dict[str, Any]]:
    """Kill and resume real runs."""
    rows = []
    for method in METHODS:
        with tempfile.TemporaryDirectory() as folder:
            report = _json_of("tests/fuzz/kill_runs.py", folder, method, str(num))
        rows.append({"method": method, **report, "command": f"python tests/fuzz/kill_runs.py FOLDER {method} {num}"})
    return rows


def files(num: int) -> list[dict[str, Any]]:
    """Damage files of every format and read them."""
    rows = []
    for kind in FORMATS:
        report = _json_of("tests/fuzz/files.py", kind, str(num))
        rows.append({**report, "command": f"python tests/fuzz/files.py {kind} {num}"})
    return rows


def peers() -> list[dict[str, str]]:
    """Return errors of other tools that give no warning, each seen now."""
    import scipy.io

    rows = []
    for entry, meant in (("1.5D+03", 1500.0), ("2,5", 2.5)):
        text = f"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 {entry}\n"
        try:
            got = f"reads {float(scipy.io.mmread(io.BytesIO(text.encode())).toarray()[0, 0]):g}"
        except ValueError as error:
            got = f"refuses: {error}"
        case = f"entry `{entry}` in a Matrix Market file, {meant:g} meant"
        tool = f"SciPy {version('scipy')}, `mmread`"
        rows.append({"tool": tool, "case": case, "there": got, "here": "refused, with the line"})
    return rows + _layer_norm()


def _layer_norm() -> list[dict[str, str]]:
    """Return the error of a Hessian product through a layer norm, ours and curvlinops's."""
    import curvlinops
    import numpy as np
    import specdens_torch as sdt
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 3)).double().eval()
    x, y, loss = torch.randn(12, 5, dtype=torch.float64), torch.arange(12) % 3, torch.nn.CrossEntropyLoss()
    params = dict(net.named_parameters())
    p = sum(value.numel() for value in params.values())

    def gradient() -> torch.Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss(net(x), y), list(params.values()))])

    v = torch.randn(p, dtype=torch.float64)
    start = torch.nn.utils.parameters_to_vector(params.values()).detach().clone()
    exact = torch.zeros(p, dtype=torch.float64)
    for k, weight in {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}.items():  # central differences of sixth order
        for sign in (1, -1):
            torch.nn.utils.vector_to_parameters(start + sign * k * 1e-3 * v, params.values())
            exact += sign * weight / 1e-3 * gradient().detach()
    torch.nn.utils.vector_to_parameters(start, params.values())
    ours = sdt.Curvature(net, loss, (x, y)).Hess @ v
    theirs = curvlinops.HessianLinearOperator(net, loss, list(params.values()), [(x, y)]) @ v
    errors = [float(np.linalg.norm(found.numpy() - exact.numpy()) / exact.norm()) for found in (theirs, ours)]
    return [{
        "tool": f"curvlinops {version('curvlinops-for-pytorch')}, torch {torch.__version__.split('+')[0]}",
        "case": "Hessian product of a network with a layer norm, float64",
        "there": f"off by {errors[0]:.1%}", "here": f"off by {errors[1]:.0e}, the error of the reference",
    }]  # fmt: skip


def tables(store: dict[str, Any]) -> str:
    """Return the tables of the page."""
    measured, parts = store["measured"], []
    rows = []
    for run in measured["kills"]["rows"]:
        number = run["in a write"] + run["between"] + run["before the first"]
        result = "equal bit for bit" if run["equal"] else "**differs**"
        work = f"`{run['method']}`, rank 3, 2 × 80 steps"
        rows.append([work, str(number), str(run["in a write"]), result, f"`{run['command']}`"])
    title = f"Kills, measured {measured['kills']['date']}"
    parts.append(_table(title, "", ["run", "kills", "inside a write", "resumed result", "command"], rows))

    counts = ("cases", "refused", "same", "read", "failed")
    rows = [
        [FORMATS[run["format"]], *(f"{run[count]:,}" for count in counts), f"`{run['command']}`"]
        for run in measured["files"]["rows"]
    ]
    about = (
        "Refused in words, or read as before the damage (same), or read as the valid file that the damage made, as an "
        "independent reader does. A crash, a hang, a raw exception or a wrong value has failed."
    )
    title = f"Damaged files, measured {measured['files']['date']}"
    parts.append(_table(title, about, ["file", *counts, "command"], rows))

    columns = ["tool", "case", "there", "here"]
    rows = [[run[column] for column in columns] for run in measured["peers"]["rows"]]
    about = "Wrong values without a warning; `python docs/verified.py --only peers`."
    parts.append(_table(f"Silent errors elsewhere, measured {measured['peers']['date']}", about, columns, rows))

    for each in store["once"]:
        about = f"{each['about']} `{each['command']}`"
        parts += [_table(each["title"], about, each["columns"], each["rows"])]
    return "\n".join(parts)


def _table(title: str, about: str, columns: list[str], rows: list[list[str]]) -> str:
    lines = [f"## {title}", "", about, "", *(f"| {' | '.join(row)} |" for row in [columns, *rows]), ""]
    lines.insert(5, "|" + "---|" * len(columns))
    return "\n".join(lines)


def main() -> None:
    """Renew the stored figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--only", nargs="*", choices=("kills", "files", "peers"), default=("kills", "files", "peers"))
    arguments = parser.parse_args()
    store = json.loads(STORE.read_text(encoding="utf-8"))
    work = {"kills": lambda: kills(arguments.kills), "files": lambda: files(arguments.cases), "peers": peers}
    for name in arguments.only:
        store["measured"][name] = {"date": str(datetime.date.today()), "rows": work[name]()}
        STORE.write_text(json.dumps(store, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(name, *store["measured"][name]["rows"], sep="\n  ")


if __name__ == "__main__":
    main()
