"""
Through training
================

**Finding:** the trace of G rises during the first steps of training, while the classes move apart, and then falls with
the loss.
"""

import matplotlib.pyplot as plt
import numpy as np
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

# %%
# The operators follow the model: one `Curvature` serves every epoch.
curv = sdt.Curvature(model, loss, (X, y))
epochs, traces, losses = [0, 1, 2, 4, 8, 16, 32, 64, 128], [], []
done = 0
for epoch in epochs:
    for _ in range(epoch - done):
        optimizer.zero_grad()
        loss(model(X), y).backward()
        optimizer.step()
    done = epoch
    measures = {name: sd.fast_lanczos(getattr(curv, name), num_steps=20, num_probes=3) for name in ("G", "H")}
    traces.append([measures[name].trace(np.abs).value for name in ("G", "H")])
    losses.append(float(loss(model(X), y).detach()))
traces = np.array(traces)

# %%
fig, ax = plt.subplots(layout="constrained", figsize=(7, 3.5))
for name, column, style in zip(("tr G", "tr |H|"), traces.T, ("o-", "s--"), strict=True):
    ax.plot(np.array(epochs) + 0.5, column, style, label=name)
ax.plot(np.array(epochs) + 0.5, losses, "^:", label="loss")
ax.set(xscale="log", yscale="log", xlabel="steps of training + ½")
ax.legend()
for epoch, (g, h), value in zip(epochs, traces, losses, strict=True):
    print(f"{epoch:3} steps: tr G {g:5.2f}, tr |H| {h:5.2f}, loss {value:.3f}")
