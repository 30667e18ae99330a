"""
Class components of G
=====================

**Finding:** the largest eigenvalues of G come from the class means: taking out A1, a matrix of rank ten, takes a third
off the largest one; A1 + A2 + B1 + B2 add up to G product by product.
"""

import matplotlib.pyplot as plt
import specdens_torch as sdt
import torch
from sklearn.datasets import load_digits

import specdens as sd

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X[:600] / 16, dtype=torch.float32), torch.tensor(y[:600])
model = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.ReLU(), torch.nn.Linear(40, 10))
loss = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(40):
    optimizer.zero_grad()
    loss(model(X), y).backward()
    optimizer.step()
curv = sdt.Curvature(model.eval(), loss, (X, y))

# %%
# The four components sum to G:
v = torch.randn(curv.G.shape[0])
total = curv.A1 @ v + curv.A2 @ v + curv.B1 @ v + curv.B2 @ v
print("relative difference:", float((total - curv.G @ v).norm() / (curv.G @ v).norm()))

# %%
# Log spectra of G and of G without each component. A difference of operators is one product.
operators = {"G": curv.G, "G − A1": curv.G - curv.A1, "G − B1": curv.G - curv.B1, "G − B2": curv.G - curv.B2}
fig, axes = plt.subplots(4, 1, layout="constrained", figsize=(7, 8), sharex=True)
for ax, (name, A) in zip(axes, operators.items(), strict=True):
    measure = sd.fast_lanczos(A, num_steps=120)
    measure.log_density(epsilon=1e-6).plot(ax=ax, log_y=True)
    ax.set(ylabel=name, xlabel="" if ax is not axes[-1] else ax.get_xlabel())
    print(f"{name:7} largest eigenvalue {sd.top_eigenpairs(A, rank=1).values[0]:.3f}")
