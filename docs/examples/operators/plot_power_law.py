r"""
Zeros and a power law on one logarithmic axis
=============================================

**Finding:** a covariance of Pareto variables has half of its eigenvalues at zero, and the fitted exponent of its tail
depends on where the fit begins: it approaches the law's :math:`\lambda^{-3/2}` only in the far tail.
"""

import matplotlib.pyplot as plt
import numpy as np

import specdens as sd

rng = np.random.default_rng(0)
Z = rng.pareto(1.0, (1000, 500)) + 1
A = Z @ Z.T / 1000  # the second synthetic example of the paper: 500 of 1,000 eigenvalues are zero
measure = sd.slow_lanczos(A, num_steps=501, num_probes=4)
exact = np.linalg.eigvalsh(A)

# %%
# The number of zeros; the truth is 500.
print("eigenvalues below 1e-6:", measure.count(-1e-6, 1e-6))

# %%
# The exponent for every beginning of the range, with the same end. The law holds where an eigenvalue is the square of a
# single entry of Z, here above 3e4: that is the fit to quote. The errors of the others do not contain the bend.
for start in (3e2, 1e3, 3e3, 1e4, 3e4):
    print(sd.analysis.fit_power_law(measure, range=(start, 1e7)))

# %%
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
tail = exact[exact > 1]
values, edges = np.histogram(tail, np.geomspace(tail.min(), tail.max(), 30))
sd.plot_loglog(measure, ax=ax, fit="positive", range=(3e4, 1e7))
ax.stairs(values / 1000 / np.diff(edges), edges, color="0.5", label="exact eigenvalues")
ax.legend()
