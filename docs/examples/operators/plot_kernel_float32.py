"""
A kernel matrix in float32
==========================

**Finding:** float32 halves the memory of a kernel matrix and gives the log-determinant with a noise term within its
error bar, but the density ends at the rounding of the matrix, 10⁻⁷ of its largest eigenvalue. Here 84 % of the
eigenvalues lie below.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_digits

import specdens as sd

# %%
# The Gaussian kernel of 1,797 digits (scikit-learn), in both precisions, and all of its eigenvalues:
squared = squareform(pdist(load_digits().data / 16, "sqeuclidean"))
kernels = {dtype: np.exp(-squared / 400).astype(dtype) for dtype in ("float64", "float32")}
exact = np.linalg.eigvalsh(kernels["float64"])
floor = np.finfo("float32").eps * exact[-1]
print(f"eigenvalues from {exact[0]:.1e} to {exact[-1]:.1e}; {np.mean(exact < floor):.0%} below {floor:.1e}")
print("negative eigenvalues of the matrix in float32:", (np.linalg.eigvalsh(kernels["float32"]) < 0).sum())

# %%
# log det(K + I), as in a Gaussian process with noise of variance 1. The wider error of float32 has a reason: whether an
# eigenvalue is isolated, and then counts as one, shows at residuals that float32 does not reach.
measures = {dtype: sd.slow_lanczos(K, num_steps=300, num_probes=8) for dtype, K in kernels.items()}
print(f"exact    {np.log1p(exact).sum():.2f}")
for dtype, measure in measures.items():
    value, stderr = measure.logdet(shift=1.0)
    print(f"{dtype}  {value:.2f} ± {stderr:.2f}, {kernels[dtype].nbytes / 1e6:.0f} MB")

# %%
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
bins = np.geomspace(exact[0], exact[-1], 50)
ax.hist(
    exact, bins, weights=np.full(exact.size, 1 / exact.size / np.log(bins[1] / bins[0])), color="0.8", label="exact"
)
for dtype, style in {"float64": "-", "float32": "--"}.items():
    density = measures[dtype].log_density(epsilon=1e-9)
    ax.plot(np.exp(density.grid), density.values, style, label=f"specdens, {dtype}")
ax.axvline(floor, color="k", ls=":", label="rounding of float32")
ax.set(xscale="log", xlabel="eigenvalue |λ|", ylabel="density per unit log|λ|", xlim=(bins[0] / 3, bins[-1] * 3))
ax.legend()
