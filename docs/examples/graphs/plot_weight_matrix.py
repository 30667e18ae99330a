"""
A weight matrix of a pretrained transformer
===========================================

**Finding:** the squared singular values of a feed-forward layer of rxnmapper's ALBERT are far from Marchenko–Pastur; a
power law fits the tail, and the density agrees with a full SVD.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import specdens as sd

folder = Path("../../data")  # docs/data, seen from the folder of this file
with np.load(folder / "rxnmapper_ffn.npz") as file:
    W = file["W"].astype("float64")
W /= np.sqrt((W**2).mean() * W.shape[0])  # entries of variance 1 / rows

# %%
# The Gram matrix by products, against the SVD:
A = sd.as_operator(lambda v: W.T @ (W @ v), shape=W.shape[1], dtype="float64")
measure = sd.slow_lanczos(A, num_steps=128, num_probes=20)
exact = np.linalg.svd(W, compute_uv=False) ** 2
print(W.shape, "distance to the SVD:", sd.analysis.distance(measure, exact))
print("largest:", sd.top_eigenpairs(A, rank=3).values, exact[:3])

# %%
fit = sd.analysis.fit_power_law(measure, range=(np.quantile(exact, 0.7), exact.max() * 0.6))
print(fit)
print("follows Marchenko–Pastur:", sd.analysis.fit_marchenko_pastur(measure).follows)

# %%
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
ax.hist(exact, bins=np.geomspace(exact.min(), exact.max(), 40), density=True, color="0.8", label="full SVD")
density = measure.log_density(per="lambda")
ax.plot(density.grid, density.values, label="specdens")
ax.set(xscale="log", yscale="log", ylim=(1e-4, 5), xlabel="squared singular value", ylabel="density")
ax.legend()
