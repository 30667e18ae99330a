"""
Covariance of real data against Marchenko–Pastur
================================================

**Finding:** the standardised pixels of FashionMNIST (of the digits, where that is not installed), shuffled, have the
spectrum of Marchenko and Pastur; unshuffled, 35 eigenvalues lie above its edge and hold 77 % of the variance.
"""

import gzip
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import specdens as sd

path = Path("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz")  # Debian's dataset-fashion-mnist
if path.exists():
    X = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16).reshape(10_000, 784)[:2000]
else:
    X = load_digits().data
X = X[:, X.std(axis=0) > 0]
X = (X - X.mean(axis=0)) / X.std(axis=0)
N, p = X.shape
rng = np.random.default_rng(0)
shuffled = rng.permuted(X, axis=0)  # every column on its own: no correlations are left

# %%
# The covariance is never formed: an operator from two products. The edge of the noise is that of Marchenko–Pastur,
# lifted by what chance alone does to the largest eigenvalue.
noise = sd.fast_lanczos(sd.gram(shuffled, divisor=N), num_steps=60, num_probes=8)
data = sd.slow_lanczos(sd.gram(X, divisor=N), num_steps=min(p, 150), num_probes=2)
of_noise = sd.analysis.significant_components(noise, gamma=p / N, scale=1.0)
of_data = sd.analysis.significant_components(data, gamma=p / N, scale=1.0)
print(f"{N} images, {p} pixels")
print("shuffled data:", of_noise)
print("data:         ", of_data)
print("dense:        ", (np.linalg.eigvalsh(X.T @ X / N) > of_data.edge).sum())

# %%
fig, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(10, 3.8))
of_noise.plot(left)
left.set_title("shuffled data")
of_data.plot(right, x="symlog", log_y=True)
right.set_title("data; dotted: the edge of the noise")
left.legend(fontsize="x-small")
