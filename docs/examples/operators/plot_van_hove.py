"""
Van Hove singularities of two lattices
======================================

**Finding:** 150 products show the logarithmic peak of the square lattice, and both peaks and the Dirac point of
graphene; half of the points of the square lattice lie within two percent of the exact law, an elliptic integral.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.special import ellipk

import specdens as sd


def ring(m):
    return sp.csr_array(sp.coo_array((np.ones(m), (np.arange(m), (np.arange(m) + 1) % m)), shape=(m, m)))


m = 400
hop, eye = ring(m), sp.eye_array(m)
square = sp.csr_array(sp.kron(hop + hop.T, eye) + sp.kron(eye, hop + hop.T))

# graphene: two sites per cell; a site is joined with the other one of its cell and of two neighbouring cells
cell = sp.eye_array(m * m) + sp.kron(hop, eye) + sp.kron(eye, hop)
graphene = sp.csr_array(sp.block_array([[None, cell], [cell.T, None]]))

densities = {
    name: sd.fast_lanczos(A, num_steps=150, num_probes=2).density(kernel="jackson")
    for name, A in {"square lattice": square, "graphene": graphene}.items()
}

# %%
fig, axes = plt.subplots(1, 2, layout="constrained", figsize=(9, 3.5))
E = np.linspace(-3.99, 3.99, 801)
exact = ellipk(1 - (E / 4) ** 2) / (2 * np.pi**2)
for ax, (name, density) in zip(axes, densities.items(), strict=True):
    density.plot(ax=ax, label="specdens")
    ax.set(title=name, xlabel="energy E / t")
axes[0].plot(E, exact, "k:", label="exact law")
axes[0].legend()

# %%
# The relative difference from the law for energies between −3.9 and 3.9, median and 95 % quantile:
density = densities["square lattice"]
inside = abs(density.grid) < 3.9
law = ellipk(1 - (density.grid[inside] / 4) ** 2) / (2 * np.pi**2)
print(np.quantile(abs(density.values[inside] / law - 1), [0.5, 0.95]).round(4))
