"""
The dependency graph of Debian
==============================

**Finding:** the mass at 0 counts the connected components of the graph of 63,651 packages, and 28 % of all eigenvalues
or more sit at 1: packages that compete for the same neighbours, counted by a matching. The measure finds 29 ± 2 %
there. A full decomposition would take hours.
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
# The mass near 0 against the exact number of components. At 1 the graph has at least as many eigenvalues as packages
# with dependencies that no matching with neighbours can cover:
components = sp.csgraph.connected_components(W)[0]
covered = (sp.csgraph.maximum_bipartite_matching(W, perm_type="column") >= 0).sum()
at_one = (W.sum(axis=1) > 0).sum() - covered
for where, width, exact in ((0.0, 1e-3, components), (1.0, 1e-2, at_one)):
    found = measure.count(where - width, where + width)
    print(f"share within {width:g} of {where:g}: {found / n}; {exact / n:.4f} by counting")

# %%
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
measure.density().plot(ax=ax, log_y=True)
ax.set_xlabel("eigenvalue of the normalised Laplacian")
