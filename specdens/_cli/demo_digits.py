"""The Hessian of a small network trained on real digits, and its two parts: the paper's central picture in seconds."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specdens._density.density import Density
from specdens._plotting.many import plot_densities
from specdens._spectral_density import spectral_density
from specdens._storage.atomic_write import replacing

OPERATORS = ("Hess", "G", "H")

_NUM_CLASSES = 10


def missing_for_digits() -> str | None:
    """Return how to install what this part needs, or None if all is there."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("specdens_torch") is None:
        return 'it needs torch: pip install "specdens[torch]"'
    if importlib.util.find_spec("sklearn") is None:
        return "the digits come with scikit-learn: pip install scikit-learn"
    return None


def run_digits(picture: Path) -> str:
    """Train a network, draw the densities of Hess, G and H; return a report, and save a picture if possible."""
    import specdens_torch as sdt

    with _one_thread():
        started = time.perf_counter()
        model, loss, data, accuracy = _trained_network()
        trained = time.perf_counter()
        curvature = sdt.Curvature(model, loss, data)
        densities = {
            name: spectral_density(getattr(curvature, name), rank=_NUM_CLASSES, num_probes=4) for name in OPERATORS
        }
    size = sum(p.numel() for p in model.parameters())
    lines = [
        f"A network of {size} parameters on {len(data[0][0])} digits, {100 * accuracy:.1f} % right, "
        f"trained in {trained - started:.1f} s",
        *(f"{name}: {densities[name]!r}" for name in OPERATORS),
        f"  largest       {_largest(densities)}",
        "",
        f"{time.perf_counter() - trained:.1f} s for the three densities.",
    ]
    if importlib.util.find_spec("matplotlib") is None:
        return "\n".join([*lines, 'For a picture: pip install "specdens[plot]"'])
    _draw(densities, picture)
    return "\n".join([*lines, f"Picture: {picture}"])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread: for a network this small two are slower, and far slower on a busy machine."""
    import torch

    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def _trained_network() -> tuple[Any, Any, list[tuple[Any, Any]], float]:
    """Return model, loss, data and the share of digits that it gets right."""
    import torch
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.Tanh(), torch.nn.Linear(48, _NUM_CLASSES))
        loss = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
        for _ in range(15):
            for batch in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                loss(model(x[batch]), y[batch]).backward()
                optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = float((model(x).argmax(dim=1) == y).double().mean())
    return model, loss, [(x, y)], accuracy


def _largest(densities: dict[str, Density]) -> str:
    parts = []
    for name, density in densities.items():
        values = sorted(density.outliers.values, key=abs, reverse=True) if density.outliers else []
        parts.append(f"{name} {', '.join(f'{value:.3g}' for value in values[:4])}")
    return "; ".join(parts)


def _draw(densities: dict[str, Density], picture: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot_densities(densities, ax=left, log_y=True, band=False)
    left.set_title("Hess = G + H of a network trained on digits")
    logs = {name: density.measure.log_density(kappa=1.05) for name, density in densities.items()}
    plot_densities(logs, ax=right, band=False)
    right.set_title("The same measures on a logarithmic axis")
    with replacing(picture) as file:
        figure.savefig(file, format="png", dpi=150)
