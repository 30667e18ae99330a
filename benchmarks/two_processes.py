"""One process against two: time per product of the CNN's Hessian, what is sent, and memory where ranks share rows.

Run by itself, it starts the processes, one thread each, and prints two tables: less than two minutes on two free cores.
On a machine that is shared with others the wall time means little: the table also has the CPU time per rank, which is
the work that is left to each. Runs of one and of two processes alternate, and the fastest round counts.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from networks import cnn

NO_HOLES = {"MALLOC_MMAP_THRESHOLD_": "1048576"}  # glibc then gives freed layers back at once


def join() -> int:
    """Join the process group where there is one, and return the number of ranks."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    size = int(os.environ["WORLD_SIZE"])
    if size > 1:
        dist.init_process_group("gloo")
    return size


def resident_peak() -> float:
    """Return the largest resident memory since `forget_peak`, in MiB; Linux only."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def forget_peak() -> None:
    """Set the peak of resident memory to what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def products(*, tiny: bool) -> dict[str, float]:
    """Return times per product, the payload and the peak of memory on this rank, which has a part of the data."""
    import specdens_torch as sdt
    import torch

    size = join()
    num_examples, batch_size, num_products = (64, 16, 2) if tiny else (1024, 128, 7)
    torch.manual_seed(0)
    model = cnn().eval()
    x, y = torch.randn(num_examples, 1, 28, 28), torch.arange(num_examples) % 10
    data = [(x[i : i + batch_size], y[i : i + batch_size]) for i in range(0, num_examples, batch_size)]
    curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), sdt.shard(data), cache="off", jvp_route="double backward")
    A, ranks = curv.Hess, curv._engine.ranks
    v = torch.randn(A.shape[0], generator=torch.Generator().manual_seed(1))
    wall, cpu, waits = [], [], []
    add = ranks.add_

    def timed(out):  # type: ignore[no-untyped-def]
        started = time.perf_counter()
        result = add(out)
        waits.append(time.perf_counter() - started)
        return result

    ranks.add_ = timed  # type: ignore[method-assign]
    _ = A @ v
    waits.clear()
    sent: list[int] = getattr(ranks, "num_reduced", [])
    sent.clear()
    forget_peak()
    for _ in range(num_products):
        started, cpu_started = time.perf_counter(), time.process_time()
        _ = A @ v
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - cpu_started)
    messages = len(sent) / num_products
    return {
        "p": A.shape[0], "wall": median(wall), "cpu": median(cpu), "all_reduce": median(waits) if size > 1 else 0.0,
        "messages": messages, "entries": sum(sent) / num_products, "peak": resident_peak(),
    }  # fmt: skip


def rows(*, tiny: bool) -> dict[str, float]:
    """Return the rise of resident memory in a run on this rank, which has some rows of parameters and vectors."""
    import specdens_torch as sdt
    import torch
    from torch import nn

    import specdens as sd

    size = join()

    def curvature(width: int, depth: int) -> Any:
        torch.manual_seed(0)
        layers = [each for _ in range(depth) for each in (nn.Linear(width, width, bias=False), nn.Tanh())]
        model = nn.Sequential(*layers).eval()
        model = sdt.shard_parameters(model) if size > 1 else model
        loss = nn.CrossEntropyLoss()
        forget_peak()
        before = resident_peak()
        return sdt.Curvature(model, loss, [(torch.randn(8, width), torch.arange(8))], cache="off"), before

    settings: dict[str, Any] = {"num_steps": 4, "check": False}
    sd.fast_lanczos(curvature(16, 2)[0].Hess, **settings)  # imports are no part of the rise
    sd.fast_lanczos(sd.as_operator(lambda x: 2 * x, shape=2**20, dtype="float32", like=torch.zeros(1)), **settings)
    curv, before = curvature(64 if tiny else 1024, 24)
    made = resident_peak()
    sd.fast_lanczos(curv.Hess, **settings)
    return {"p": curv.Hess.dimension, "made": made - before, "rise": resident_peak() - before}


def start(work: str, size: int, arguments: list[str], environment: Mapping[str, str]) -> dict[str, float]:
    """Run this file on so many ranks, and return the largest of what they measured."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    common = {**os.environ, **environment, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    common["OMP_NUM_THREADS"] = "1"
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", work, *arguments],
            env={**common, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    found = [json.loads(rank.communicate()[0].splitlines()[-1]) for rank in ranks]
    return {key: max(each[key] for each in found) for key in found[0]}


def print_products(arguments: list[str], num_rounds: int) -> None:
    """Print the times of one and of two processes, and their ratios."""
    rounds = [[start("products", size, arguments, {}) for size in (1, 2)] for _ in range(num_rounds)]
    best = [
        {key: min(each[k][key] for each in rounds) for key in rounds[0][0]}  # the least disturbed of each
        for k in (0, 1)
    ]
    print("processes  wall/product (s)  CPU/product/rank (s)  all-reduce (s)  messages  entries sent  peak (MiB)")
    for size, each in enumerate(best, 1):
        print(
            f"{size:9d}  {each['wall']:16.3f}  {each['cpu']:20.3f}  {each['all_reduce']:14.4f}  "
            f"{each['messages']:8.0f}  {each['entries']:12,.0f}  {each['peak']:10.0f}"
        )
    pairs = [f"{a['wall'] / b['wall']:.2f}, {a['cpu'] / b['cpu']:.2f}" for a, b in [best, *rounds]]
    print(f"speed-up from 1 to 2, wall and CPU: {pairs[0]} (p = {best[0]['p']:,}; rounds: {'; '.join(pairs[1:])})")


def print_rows(arguments: list[str]) -> None:
    """Print the rise of resident memory, with glibc's defaults and without holes in its heap."""
    print("\nprocesses  allocator                        rise when made (MiB)  rise in the run (MiB)")
    for name, environment in {"defaults": {}, **{f"{k}={v}": {k: v} for k, v in NO_HOLES.items()}}.items():
        for size in (1, 2):
            each = start("rows", size, arguments, environment)
            print(f"{size:9d}  {name:31}  {each['made']:20.0f}  {each['rise']:21.0f}")
    print(f"p = {each['p']:,.0f}: a vector is {each['p'] * 4 / 2**20:.1f} MiB; three are held")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--worker", choices=("products", "rows"))
    given = parser.parse_args()
    if given.worker:
        print(json.dumps({"products": products, "rows": rows}[given.worker](tiny=given.tiny)), flush=True)
        os._exit(0)  # gloo's threads may abort an ordinary exit
    arguments = ["--tiny"] if given.tiny else []
    print_products(arguments, 1 if given.tiny else 2)
    print_rows(arguments)


if __name__ == "__main__":
    main()
