"""
A weight matrix of a pretrained transformer
===========================================

**Finding:** of the 256 eigenvalues of a feed-forward layer of rxnmapper's ALBERT about fifty lie beyond what a random
matrix could have, and their tail is a power law; products alone find the same spectrum as a full SVD.
"""

from pathlib import Path

import numpy as np
import specdens_torch as sdt

import specdens as sd

folder = Path("../../data")  # docs/data, seen from the folder of this file
with np.load(folder / "rxnmapper_ffn.npz") as file:
    W = file["W"]
shuffled = np.random.default_rng(0).permuted(W.ravel()).reshape(W.shape)

# %%
# The trained matrix, beside its own entries in random order. Eigenvalues are those of WᵀW / N, N = 512:
weights = sdt.weight_densities({"trained": W, "shuffled": shuffled})
print(weights)

# %%
# A panel for each: the random law fits the shuffled entries, and only the bulk of the trained ones.
axes = weights.plot()

# %%
# Next to a full SVD, and as a layer too large for one is measured, by products alone (``max_svd=0``):
exact = np.linalg.svd(W.astype("float64"), compute_uv=False) ** 2 / max(W.shape)
free = sdt.weight_densities({"trained": W}, max_svd=0, num_probes=8)["trained"]
print("largest:", weights["trained"].largest, free.largest, exact[0])
print("beyond a random matrix:", weights["trained"].outliers, free.outliers)
print("distance of the products' spectrum to the SVD:", sd.analysis.distance(free.measure, exact))
print(weights["trained"].power_law)
