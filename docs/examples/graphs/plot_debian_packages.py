"""
The dependency graph of Debian
==============================

**Finding:** the mass at 0 counts the connected components of the graph of 63,651 packages, and 29 % of all eigenvalues
sit at 1: packages with the same dependencies. A full decomposition would take hours.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import specdens as sd

folder = Path("../../data")  # docs/data, seen from the folder of this file
with np.load(folder / "debian_dependencies.npz") as file:
    n, i, j = int(file["n"]), np.cumsum(file["i"], dtype=np.int64), file["j"].astype(np.int64)
W = sp.coo_array((np.ones(i.size), (i, j)), shape=(n, n)).tocsr()
W = W + W.T
print(n, "packages,", i.size, "dependencies")

# %%
# The normalised Laplacian I − D^{-1/2} W D^{-1/2} has its spectrum in [0, 2]. Rows of isolated packages are zero.
measure = sd.fast_lanczos(sd.graph_laplacian(W), num_steps=200, num_probes=8)

# %%
# The mass near 0 against the exact number of components, and the mass near 1:
components = sp.csgraph.connected_components(W)[0]
for where in (0.0, 1.0):
    number, stderr = measure.count(where - 1e-3, where + 1e-3)
    print(f"share of eigenvalues within 1e-3 of {where:g}: {number / n:.4f} ± {stderr / n:.4f}")
print(f"components: {components}, share {components / n:.4f}")

# %%
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
measure.density().plot(ax=ax, log_y=True)
ax.set_xlabel("eigenvalue of the normalised Laplacian")
