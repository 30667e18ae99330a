"""Draw landing.png: the six lines of the landing page, over the exact eigenvalues."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import specdens as sd

one = sp.diags_array([2 * np.ones(1000), -np.ones(999), -np.ones(999)], offsets=[0, 1, -1])
A = sp.kron(one, sp.eye_array(1000)) + sp.kron(sp.eye_array(1000), one)
density = sd.spectral_density(A, num_probes=4)
print(density.measure.count(0, 1))

exact = np.add.outer(*2 * [2 - 2 * np.cos(np.arange(1, 1001) * np.pi / 1001)]).ravel()
fig, ax = plt.subplots(layout="constrained", figsize=(9, 3.4))
ax.hist(exact, bins=400, density=True, color="0.82", label="all 1,000,000 eigenvalues")
density.plot(ax=ax, label="specdens, 514 products, ± 2 standard errors")
ax.set(xlim=(-0.3, 8.3), ylim=(0, 0.42), xlabel="eigenvalue λ of the Laplacian on a 1000 × 1000 grid")
ax.legend(loc="upper right")
fig.savefig(Path(__file__).parent / "landing.png", dpi=150)
