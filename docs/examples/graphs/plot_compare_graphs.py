"""
Comparing two graphs by their spectra
=====================================

**Finding:** the roads of Minnesota differ from a random graph with the same degrees by four times what
the random probes of two runs cause; two random graphs do not differ.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import specdens as sd

folder = Path("../../data")  # docs/data, seen from the folder of this file
with np.load(folder / "minnesota_roads.npz") as file:
    edges = np.stack([file["i"], file["j"]], axis=1).astype(np.int64)
n = edges.max() + 1


def laplacian(edges):
    """Return the normalised Laplacian."""
    W = sp.coo_array((np.ones(len(edges)), edges.T), shape=(n, n)).tocsr()
    return sd.graph_laplacian(((W + W.T) != 0).astype(float))


def shuffled(edges, seed):
    """Return random edges with the same degrees: ends are drawn anew."""
    ends = np.random.default_rng(seed).permutation(edges.ravel()).reshape(-1, 2)
    return ends[ends[:, 0] != ends[:, 1]]


graphs = {"roads": edges, "random": shuffled(edges, 0), "random again": shuffled(edges, 1)}
measures = {name: sd.fast_lanczos(laplacian(e), num_steps=100, num_probes=100) for name, e in graphs.items()}

# %%
# The distance W1 between two spectra has a standard error, and a noise: how far two runs on one graph would be apart.
for pair in (("roads", "random"), ("random", "random again")):
    apart = sd.analysis.distance(*(measures[name] for name in pair))
    print(f"{' – '.join(pair):22} {apart:.4f} ± {apart.stderr:.4f}, noise {apart.noise:.4f}")

# %%
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
sd.plot_densities({name: measures[name].density() for name in ("roads", "random")}, ax=ax)
ax.set_xlabel("eigenvalue of the normalised Laplacian")
