"""
Hofstadter butterfly from densities
===================================

**Finding:** sixty densities of a lattice of 1,600 sites in a magnetic field, with complex Hermitian operators, draw the
butterfly with its gaps.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import specdens as sd

m = 40
x = np.repeat(np.arange(m), m)
i = np.arange(m * m)
up, right = i[i % m < m - 1], i[x < m - 1]


def hamiltonian(flux):
    """Hopping on an m × m lattice; in y-direction with the phase of the field (Landau gauge)."""
    phase = np.exp(2j * np.pi * flux * x[up])
    one = sp.coo_array((phase, (up, up + 1)), shape=(m * m, m * m))
    two = sp.coo_array((np.ones(right.size), (right, right + m)), shape=(m * m, m * m))
    half = sp.csr_array(one + two)
    return sp.csr_array(half + half.conj().T)


fluxes = np.linspace(0, 1, 60)
grid = np.linspace(-4.2, 4.2, 300)
image = np.array(
    [sd.fast_lanczos(hamiltonian(f), num_steps=120, num_probes=1).density(grid=grid, width=0.04).values for f in fluxes]
)

fig, ax = plt.subplots(layout="constrained", figsize=(6, 5))
mesh = ax.pcolormesh(grid, fluxes, np.sqrt(image), cmap="magma_r", shading="nearest")
ax.set(xlabel="energy E / t", ylabel="flux per cell / flux quantum")
fig.colorbar(mesh, label="√ density of states")
