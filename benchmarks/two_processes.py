"""Products of the CNN's Hessian on one process and on two, one thread each, and what they send.

Run by itself, it starts the processes and prints one row for each number of them. On a machine that is shared with
others the wall time means little: the table also has the CPU time per rank, which is the work that is left to each.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from statistics import median

from networks import cnn


def measure(num_examples: int, batch_size: int, num_products: int) -> dict[str, float]:
    """Return times per product and the payload on this rank."""
    import specdens_torch as sdt
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    size = int(os.environ["WORLD_SIZE"])
    if size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = cnn().eval()
    x, y = torch.randn(num_examples, 1, 28, 28), torch.arange(num_examples) % 10
    data = [(x[i : i + batch_size], y[i : i + batch_size]) for i in range(0, num_examples, batch_size)]
    curv = sdt.Curvature(model, torch.nn.CrossEntropyLoss(), sdt.shard(data), cache="off", jvp_route="double backward")
    A, n = curv.Hess, curv.Hess.shape[0]
    v = torch.randn(n, generator=torch.Generator().manual_seed(1))
    wall, cpu, waits = [], [], []
    ranks = curv._engine.ranks
    add = ranks.add_

    def timed(out):  # type: ignore[no-untyped-def]
        started = time.perf_counter()
        result = add(out)
        waits.append(time.perf_counter() - started)
        return result

    ranks.add_ = timed  # type: ignore[method-assign]
    _ = A @ v
    waits.clear()
    for _ in range(num_products):
        started, cpu_started = time.perf_counter(), time.process_time()
        _ = A @ v
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - cpu_started)
    found = {
        "p": n, "wall": median(wall), "fastest": min(wall), "cpu": median(cpu), "all_reduce": median(waits),
        "num_reduced": len(getattr(ranks, "num_reduced", [])),
    }  # fmt: skip
    if size > 1:
        dist.destroy_process_group()
    return found


def start(size: int, arguments: list[str]) -> list[dict[str, float]]:
    """Run this file on so many ranks, and return what each of them measured."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    common["OMP_NUM_THREADS"] = "1"
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", *arguments],
            env={**common, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    return [json.loads(rank.communicate()[0].splitlines()[-1]) for rank in ranks]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--worker", action="store_true")
    tiny = parser.parse_args().tiny
    settings = (64, 16, 2) if tiny else (1024, 128, 9)
    if parser.parse_args().worker:
        print(json.dumps(measure(*settings)))
        return
    print("processes  wall/product (s)  fastest (s)  CPU/product/rank (s)  all-reduce (s)  entries reduced per product")
    for size in (1, 2):
        found = start(size, ["--tiny"] if tiny else [])
        worst = {key: max(each[key] for each in found) for key in found[0]}
        payload = f"{worst['p']:,.0f}" if size > 1 else "0"
        print(
            f"{size:9d}  {worst['wall']:16.3f}  {worst['fastest']:11.3f}  {worst['cpu']:20.3f}  "
            f"{worst['all_reduce']:14.4f}  {payload:>27}"
        )


if __name__ == "__main__":
    main()
