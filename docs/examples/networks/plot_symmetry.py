"""
The spectrum of H is symmetric
==============================

**Finding:** the eigenvalues of H = Hess − G of a network with two layers of weights come in pairs ±λ, to eight digits:
away from the kinks of ReLU, H couples the layers and nothing else. They do not follow a semicircle.
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
for _ in range(10):
    optimizer.zero_grad()
    loss(model(X), y).backward()
    optimizer.step()
curv = sdt.Curvature(model.eval(), loss, (X, y))

# %%
# The six eigenvalues of largest magnitude:
print(sd.top_eigenpairs(curv.H, rank=6).values)

# %%
# Each layer on its own has no curvature of this kind:
for name in ("0.*", "2.*"):
    H = curv.subset(name).H
    print(name, float((H @ torch.ones(H.shape[0])).abs().max()))

# %%
measure = sd.fast_lanczos(curv.H, num_steps=150, num_probes=2)
print("follows a semicircle:", sd.analysis.fit_semicircle(measure).follows)
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
measure.density().plot(ax=ax, log_y=True)
