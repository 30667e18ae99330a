"""
The spectral function of a disordered chain
===========================================

**Finding:** 81 plane waves in one run show the band −2 cos k. Disorder broadens it and pushes its edges outwards, while
the mean energy of every wave stays on the band and its spread is that of the disorder.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import specdens as sd

n = 2000
k = 2 * np.pi / n * np.round(np.linspace(-n / 2, n / 2, 81))  # momenta of the ring
ring = -sp.diags_array([np.ones(n - 1), np.ones(n - 1), [1.0], [1.0]], offsets=[1, -1, n - 1, 1 - n], format="csr")
disorder = sp.diags_array(np.random.default_rng(0).uniform(-1, 1, n))
waves = np.exp(1j * np.outer(np.arange(n), k)) / np.sqrt(n)

# %%
# Given start vectors have a measure each, ``measure[j]``, without sampling error. On the clean ring a wave is an
# eigenvector and its run ends after one step.
clean = sd.fast_lanczos(ring, probes=waves, num_steps=120)
dirty = sd.fast_lanczos(sp.csr_array(ring + disorder), probes=waves, num_steps=120)
means = np.array([dirty[j].mean(np.asarray).value for j in range(k.size)])
widths = np.array([dirty[j].mean(np.square).value - means[j] ** 2 for j in range(k.size)]) ** 0.5
print(f"mean energies are within {np.max(np.abs(means + 2 * np.cos(k))):.2g} of −2 cos k")
print(f"the spread of a wave is {widths.min():.3f} to {widths.max():.3f}; that of the disorder is {(1 / 3) ** 0.5:.3f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for ax, measure, title in zip(axes, (clean, dirty), ("clean", "disorder within ±1"), strict=True):
    sd.plot_map(measure, k, ax=ax, width=0.06, label="k")
    ax.plot(k, -2 * np.cos(k), "w:", linewidth=0.8)
    ax.set_facecolor(plt.get_cmap("viridis")(0.0))  # no density where nothing is drawn
    ax.set_title(title)
