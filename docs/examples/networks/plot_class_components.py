"""
Class components of G
=====================

**Finding:** nine eigenvalues of G stand apart, one less than there are classes. They come from the class means: without
A1 the largest one is half as large, without B2 they stay and the tail goes. A1 + A2 + B1 + B2 is G, product by product.
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
# The sixty largest eigenvalues of G and of G without each component. A difference of operators is one product.
operators = {"G": curv.G, "G − A1": curv.G - curv.A1, "G − B1": curv.G - curv.B1, "G − B2": curv.G - curv.B2}
fig, ax = plt.subplots(layout="constrained", figsize=(7, 4))
for (name, A), marker in zip(operators.items(), "osv^", strict=True):
    values = sd.top_eigenpairs(A, rank=60, tol=1e-3).values
    ax.plot(range(1, 61), values, marker, ms=4, label=name)
    print(f"{name:7} λ1 {values[0]:.3f}  λ9 {values[8]:.3f}  λ10 {values[9]:.3f}  λ60 {values[59]:.4f}")
ax.set(xscale="log", yscale="log", xlabel="rank", ylabel="eigenvalue")
ax.legend()

# %%
# The traces say how much of G each component is, and need one run each:
for name in ("A1", "A2", "B1", "B2"):
    measure = sd.fast_lanczos(getattr(curv, name), num_steps=30, num_probes=4)
    print(f"{name} {measure.trace(lambda x: x).value:6.3f} ± {measure.trace(lambda x: x).stderr:.3f}")
