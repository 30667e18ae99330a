"""
Layer by layer
==============

**Finding:** the last layer holds few of the parameters and most of the trace of G.
"""

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
densities = curv.layer_densities("G", num_steps=50, num_probes=4)
sizes = {"0": 64 * 40 + 40, "2": 40 * 10 + 10}
for name, density in densities.items():
    trace = density.measure.trace(lambda x: x)
    print(f"layer {name}: {sizes[name]:5} parameters, tr G = {trace.value:.2f} ± {trace.stderr:.2f}")

# %%
# On an axis that is logarithmic away from zero, with the null spaces and the largest eigenvalues as stems:
named = {f"layer {name}": density for name, density in densities.items()}
axes = sd.plot_densities(named, x="symlog", log_y=True)
axes.figure.set_size_inches(8, 4.5)
