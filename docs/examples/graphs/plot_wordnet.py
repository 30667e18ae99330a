"""
WordNet: a graph that is almost a tree
======================================

**Finding:** 58 % of the eigenvalues of the graph of 74,401 nouns of WordNet sit at 1. They belong to words that compete
for the same neighbours, and their number is what no matching of words with neighbours can cover: 42,985 by
combinatorics, 43,000 within the error of 8 × 200 products.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import specdens as sd

folder = Path("../../data")  # docs/data, seen from the folder of this file
with np.load(folder / "wordnet_nouns.npz") as file:  # made from Debian's wordnet-base by make_wordnet_graph.py
    n, i = int(file["n"]), np.cumsum(file["i"], dtype=np.int64)
    j = i + file["j"].astype(np.int64)
W = sp.coo_array((np.ones(i.size), (i, j)), shape=(n, n)).tocsr()
W = W + W.T
degree = W.sum(axis=1)
print(n, "nouns,", i.size, 'edges "is a kind of"; a tree on as many nodes has', n - 1)
print(f"{np.mean(degree == 1):.0%} of the nouns have one edge; the largest number is {degree.max():.0f}")

# %%
# Two leaves of one node, a dog and a wolf, give an eigenvector: +1 on one, −1 on the other. Its eigenvalue of the
# normalised Laplacian is 1. In a forest the number of these is n less twice the size of the largest matching.
measure = sd.fast_lanczos(sd.graph_laplacian(W), num_steps=200, num_probes=8)
matched = (sp.csgraph.maximum_bipartite_matching(W, perm_type="column") >= 0).sum()
print("eigenvalues at 1:", measure.count(1 - 1e-6, 1 + 1e-6), "left over by the largest matching:", n - matched)

# %%
# A noun with k kinds that have no kinds of their own gives the peaks at 1 ± √(k/(k + 1)): 0.293, 0.184, 0.134 and their
# mirror images. The spectrum of a tree is symmetric about 1; this one cannot be told from its mirror image.
mirrored = sd.fast_lanczos(2 * sp.eye_array(n) - sd.graph_laplacian(W), num_steps=200, num_probes=8, seed=1)
apart = sd.analysis.distance(measure, mirrored)
print(f"distance from the mirror image {apart:.5f}, noise of two runs {apart.noise:.5f}")

# %%
fig, ax = plt.subplots(layout="constrained", figsize=(7, 4.5))
measure.density().plot(ax=ax, log_y=True, annotate_outliers=False)
ax.set_xlabel("eigenvalue of the normalised Laplacian")
