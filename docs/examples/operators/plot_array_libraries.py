"""
NumPy, torch and JAX in one call
================================

**Finding:** the library of the operator decides where vectors live; the same seed gives the same measure to rounding.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import specdens as sd

rng = np.random.default_rng(0)
M = rng.standard_normal((1000, 1000)).astype("float32")
M = (M + M.T) / np.sqrt(2 * 1000)
matrices = {"NumPy": M, "torch": torch.asarray(M)}
try:
    import jax.numpy as jnp
except ImportError:
    print("JAX is not installed")
else:
    matrices["JAX"] = jnp.asarray(M)

measures = {name: sd.fast_lanczos(A, num_steps=40, num_probes=16) for name, A in matrices.items()}
for name, measure in measures.items():
    print(f"{name:6} {measure.count(-1, 1)}  distance to NumPy {sd.analysis.distance(measure, measures['NumPy']):.1e}")

# %%
# The matrix is a Wigner matrix; its law is a semicircle.
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
ax.hist(np.linalg.eigvalsh(M), bins=80, density=True, color="0.8", label="exact eigenvalues")
measures["torch"].density().plot(ax=ax, label="torch")
ax.legend()
