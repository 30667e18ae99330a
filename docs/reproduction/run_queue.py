"""Compute everything that is stored, one script after the other.

Every script skips what is stored and continues what was interrupted: this can be killed and started again at any time.
A second process ends at once while a first one is running.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

from experiment.study import CACHE_VARIABLE, HERE

SMALL = "--network vgg11-quarter"
QUEUE = (
    "fig_synthetic.py",
    # a quarter of the width first: a twelfth of the time, and the scripts have run once
    f"fig_attribution.py {SMALL}",
    f"fig_class_components.py {SMALL}",
    f"fig_hessian.py {SMALL} --dataset mnist",
    "train_networks.py --network vgg11 --dataset mnist",
    "fig_class_components.py",
    "fig_attribution.py --split train",
    "fig_attribution.py --split test",
    "fig_hessian.py --dataset mnist",
    f"fig_tail.py {SMALL}",
    "fig_class_dynamics.py",
    "fig_dynamics.py",
    "fig_training_curves.py",
    "fig_corrections.py",
    f"fig_hessian.py {SMALL} --dataset fashion",
    "fig_hessian.py --dataset fashion",
    "fig_tail.py",
    "fig_deflation.py",
)


def main() -> int:
    """Run the queue and return the number of scripts that failed."""
    cache = Path(os.environ.get(CACHE_VARIABLE, "~/.cache/specdens-reproduction")).expanduser()
    (cache / "logs").mkdir(parents=True, exist_ok=True)
    with open(cache / "queue.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("the queue is running already")
            return 0
        return sum(_run(command, cache / "logs") for command in QUEUE)


def _run(command: str, logs: Path) -> bool:
    print(f"{time.strftime('%H:%M:%S')} {command}", flush=True)
    name = command.replace(".py", "").replace(" --", "-").replace(" ", "-")
    with open(logs / f"{name}.log", "a") as log:
        script, *options = command.split()
        # threads that wait without spinning: the queue shares its machine with others
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
        call = [sys.executable, str(HERE / script), *options, "--compute-only"]
        status = subprocess.run(call, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False).returncode
    print(f"{time.strftime('%H:%M:%S')} ended with status {status}", flush=True)
    return status != 0


if __name__ == "__main__":
    sys.exit(main())
