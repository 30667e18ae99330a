"""
Disorder: average and local density of states
=============================================

**Finding:** in a disordered chain the average density of states is smooth, while the local one at a site is a handful
of peaks: the states are localised.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import specdens as sd

n, W = 20_000, 4.0
hopping = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[1, -1])


def chain(seed):
    return sp.csr_array(hopping + sp.diags_array(np.random.default_rng(seed).uniform(-W / 2, W / 2, n)))


# %%
# The average over eight realisations, with another seed for each: its error holds both the disorder and the probes.
ensemble = sd.average([sd.fast_lanczos(chain(seed), num_steps=150, seed=seed) for seed in range(8)])

# %%
# The local density of states at the middle of one realisation: the start vector is the site.
site = np.zeros(n)
site[n // 2] = 1.0
local = sd.fast_lanczos(chain(0), num_steps=400, probes=site)
order = np.argsort(local.weights[0])[::-1][:8]
share = local.weights[0][order].sum()

fig, (top, bottom) = plt.subplots(2, 1, layout="constrained", figsize=(7, 5), sharex=True)
ensemble.density().plot(ax=top)
top.set(xlabel="", ylabel="density of states", title="average over 8 realisations")
bottom.vlines(local.nodes[0], 0, local.weights[0])
bottom.set(
    xlabel="energy E / t", ylabel="weight at the site", title=f"one site: 8 states hold {share:.0%} of the weight"
)
