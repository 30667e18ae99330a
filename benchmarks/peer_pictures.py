"""The pictures of the peers beside ours, on the same operators, for the eye.

``python benchmarks/peer_pictures.py pictures.png`` draws a row for every peer that can be imported: PyHessian (with the
`density_plot` module of its repository on the path) and curvlinops on the Hessian of a convolutional network trained on
digits, kwant on a square lattice. Each is called and drawn as its own documentation does it, with its defaults; ours is
the default picture, with as many products.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import scipy.special
from harness import peer
from lattices import square_lattice

mpl.use("Agg")
import matplotlib.pyplot as plt

import specdens as sd

NUM_STEPS = 100
NUM_MOMENTS, NUM_VECTORS = 100, 10  # kwant's defaults
Panel = Callable[[Any], None]


def network() -> tuple[Any, Any, Any, Any]:
    """Return a convolutional network trained on digits for a few epochs, its loss, and its data."""
    import torch
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    X, y = load_digits(return_X_y=True)
    x, labels = torch.tensor(X[:1000] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(y[:1000])
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(256, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10),
    )  # fmt: skip
    loss = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(4):
        for batch in torch.randperm(len(x)).split(50):
            optimizer.zero_grad()
            loss(model(x[batch]), labels[batch]).backward()
            optimizer.step()
    return model.eval(), loss, x, labels


def pyhessian_panels() -> tuple[Panel, Panel] | None:
    """Return PyHessian's picture of a Hessian, and ours."""
    pyhessian, drawing = peer("pyhessian"), peer("density_plot")
    if pyhessian is None or drawing is None:
        return None
    model, loss, x, y = network()

    def theirs(ax: Any) -> None:
        nodes, weights = pyhessian.hessian(model, loss, data=(x, y), cuda=False).density()
        plt.sca(ax)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it also saves its picture
            drawing.get_esd_plot(nodes, weights)
        ax.set_title("PyHessian")

    return theirs, lambda ax: our_hessian(ax, model, loss, x, y)


def curvlinops_panels() -> tuple[Panel, Panel] | None:
    """Return the picture of a Hessian by curvlinops, and ours."""
    curvlinops = peer("curvlinops")
    if curvlinops is None:
        return None
    model, loss, x, y = network()

    def theirs(ax: Any) -> None:
        params = [p for p in model.parameters() if p.requires_grad]
        H = curvlinops.HessianLinearOperator(model, loss, params, [(x, y)])
        grid, density = curvlinops.lanczos_approximate_spectrum(H, NUM_STEPS)
        ax.semilogy(grid.cpu(), density.cpu())
        ax.set(title="curvlinops", xlabel="Eigenvalue", ylabel="Spectral density")

    return theirs, lambda ax: our_hessian(ax, model, loss, x, y)


def our_hessian(ax: Any, model: Any, loss: Any, x: Any, y: Any) -> None:
    """Draw our picture of a Hessian."""
    import specdens_torch as sdt

    density = sdt.Curvature(model, loss, (x, y)).density("Hess", num_steps=NUM_STEPS, num_probes=1)
    density.plot(ax, log_y=True)
    ax.set_title("specdens")


def kwant_panels() -> tuple[Panel, Panel] | None:
    """Return the picture of a square lattice by kwant, and ours, both with the density of the infinite lattice."""
    kpm = peer("kwant.kpm")
    if kpm is None:
        return None
    H = square_lattice(100).astype(complex)
    E = np.linspace(-4, 4, 2000)
    exact = scipy.special.ellipk(1 - (E / 4) ** 2) / (2 * np.pi**2)

    def theirs(ax: Any) -> None:
        energies, densities = kpm.SpectralDensity(H, rng=0)()
        ax.plot(energies, densities.real)
        ax.plot(E, H.shape[0] * exact, color="0.6", linewidth=1, zorder=0, label="infinite lattice")
        ax.legend()
        ax.set(title="kwant.kpm", xlabel="energy [t]", ylabel="DoS [a.u.]")

    def ours(ax: Any) -> None:
        sd.spectral_density(H, num_steps=NUM_MOMENTS // 2, num_probes=NUM_VECTORS).plot(ax)
        ax.plot(E, exact, color="0.6", linewidth=1, zorder=0)
        ax.set_title("specdens")

    return theirs, ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", nargs="?", default="peer_pictures.png")
    output = parser.parse_args().output
    pairs = {"PyHessian": pyhessian_panels, "curvlinops": curvlinops_panels, "kwant": kwant_panels}
    rows = {name: panels for name, make in pairs.items() if (panels := make()) is not None}
    print("drawn:", ", ".join(rows) or "nothing", "| not importable:", ", ".join(set(pairs) - set(rows)) or "none")
    if not rows:
        return
    figure, axes = plt.subplots(len(rows), 2, figsize=(12, 4 * len(rows)), squeeze=False)
    for (left, right), panels in zip(axes, rows.values(), strict=True):
        for ax, draw in zip((left, right), panels, strict=True):
            np.random.seed(0)  # noqa: NPY002 -- peers draw from the global generator
            draw(ax)
    figure.tight_layout()
    figure.savefig(output, dpi=90)


if __name__ == "__main__":
    main()
