"""
Covariance of real data against Marchenko–Pastur
================================================

**Finding:** of 784 standardised pixels of FashionMNIST (64 of the digits, where that is not installed), the spectrum of
shuffled data follows Marchenko–Pastur, and the eigenvalues above its edge are the significant components.
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
# The covariance is never formed: an operator from two products.
def covariance(X):
    return sd.as_operator(lambda v: X.T @ (X @ v) / len(X), shape=X.shape[1], dtype="float64")


law = sd.analysis.MarchenkoPastur(gamma=p / N, scale=1.0)
edge = (1 + np.sqrt(p / N)) ** 2
noise = sd.fast_lanczos(covariance(shuffled), num_steps=60, num_probes=8)
data = sd.slow_lanczos(covariance(X), num_steps=min(p, 150), num_probes=2)
print(f"{N} images, {p} pixels, edge {edge:.2f}")
print("shuffled data, above 1.1 × edge:", noise.count(1.1 * edge, np.inf))
print("data, above the edge:           ", data.count(edge, np.inf), (np.linalg.eigvalsh(X.T @ X / N) > edge).sum())

# %%
fig, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(9, 3.5))
noise.density().plot(ax=left, label="shuffled data")
x = np.linspace((1 - np.sqrt(p / N)) ** 2, edge, 400)
left.plot(x, law.density(x), "k:", label="Marchenko–Pastur")
left.legend()
data.log_density().plot(ax=right)
right.axvline(np.log(edge), color="k", ls=":")
right.set_title("data; dotted: the edge of the noise")
