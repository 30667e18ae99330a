"""
Before and after deflation
==========================

**Finding:** with ten outliers taken out, the same number of products resolves the bulk of the Hessian: the peak at zero
is four times as sharp, and the shoulders on both sides of it appear.
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
plain = sd.spectral_density(curv.Hess, num_steps=80, num_probes=2)
deflated = sd.spectral_density(curv.Hess, rank=10, num_steps=80, num_probes=2)
print("drawn as stems, the ten deflated ones among them:", deflated.atoms.positions.round(3))
for name, density in {"plain": plain, "deflated": deflated}.items():
    print(f"{name:9} height of the peak at zero {density.values.max():.0f}")

# %%
# The same piece of the axis, the bulk, in both:
fig, axes = plt.subplots(2, 1, layout="constrained", figsize=(8, 6), sharex=True)
for ax, (title, density) in zip(axes, {"before": plain, "after": deflated}.items(), strict=True):
    density.plot(ax=ax, log_y=True, annotate_outliers=False)
    ax.set(title=f"{title}: 80 products per probe", xlim=(deflated.grid[0], deflated.grid[-1]))
