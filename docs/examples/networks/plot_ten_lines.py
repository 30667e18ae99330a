"""
Hess, G and H of a network in ten lines
=======================================

**Finding:** the outliers of the Hessian are those of G; H is symmetric about zero and makes the negative eigenvalues.
"""

import gzip
from pathlib import Path

import numpy as np
import specdens_torch as sdt
import torch
from sklearn.datasets import load_digits

import specdens as sd

folder = Path("/usr/share/datasets/fashion-mnist")  # Debian's package dataset-fashion-mnist; else scikit-learn's digits
if folder.exists():
    X = np.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    y = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    X, y = X.reshape(-1, 28, 28)[:1000, ::2, ::2].reshape(1000, -1) / 255.0, y[:1000]
else:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.int64)

# %%
# A small network, trained for a few seconds:
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(X.shape[1], 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
loss = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(30):
    optimizer.zero_grad()
    loss(model(X), y).backward()
    optimizer.step()

# %%
# And its curvature:
curv = sdt.Curvature(model.eval(), loss, (X, y))
densities = curv.densities("Hess", "G", "H", num_steps=80)
axes = sd.plot_densities(densities, x="symlog", log_y=True, band=False)
axes.figure.set_size_inches(8, 4.5)
for name, density in densities.items():
    print(f"{name:5} from {density.measure.nodes[0].min():8.3f} to {density.measure.nodes[0].max():8.3f}")
