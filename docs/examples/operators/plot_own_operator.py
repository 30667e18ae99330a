"""
A hand-written operator
=======================

**Finding:** a class with ``shape``, ``dtype`` and ``@`` is all it takes; the density of a Laplacian on 512,000 points,
never stored, agrees with the exact eigenvalues within its error of two per cent.
"""

import matplotlib.pyplot as plt
import numpy as np

import specdens as sd


class Laplacian3D:
    """The Laplacian on an m × m × m grid with zero boundary values."""

    def __init__(self, m):
        self.m, self.shape, self.dtype = m, (m**3, m**3), np.dtype("float64")

    def __matmul__(self, x):
        m = self.m
        u = x.reshape(m, m, m, -1)
        y = 6 * u
        y[1:] -= u[:-1]
        y[:-1] -= u[1:]
        y[:, 1:] -= u[:, :-1]
        y[:, :-1] -= u[:, 1:]
        y[:, :, 1:] -= u[:, :, :-1]
        y[:, :, :-1] -= u[:, :, 1:]
        return y.reshape(x.shape)


A = Laplacian3D(80)
print(sd.check_operator(A))
density = sd.spectral_density(A, num_steps=80)
print(density)

# %%
# The exact eigenvalues are sums of three cosines. The histogram is theirs, the line is the estimate.
one = 2 - 2 * np.cos(np.arange(1, A.m + 1) * np.pi / (A.m + 1))
exact = (one[:, None, None] + one[:, None] + one).ravel()

fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
ax.hist(exact, bins=200, density=True, color="0.8", label="exact eigenvalues")
density.plot(ax=ax, label="specdens, 80 products")
ax.legend()

# %%
# Counts have error bars. The last column is the truth.
for lo, hi in [(0, 1), (0, 3), (5, 7)]:
    print(lo, hi, density.measure.count(lo, hi), ((exact > lo) & (exact <= hi)).sum())
