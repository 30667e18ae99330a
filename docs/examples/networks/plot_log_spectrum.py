r"""
Log spectrum and power law of a network
=======================================

**Finding:** the spectrum of H follows no single power law. Its density falls as :math:`|\lambda|^{-0.8}` up to 10⁻³ and
as :math:`|\lambda|^{-2.2}` above 3·10⁻³ (:math:`\lambda > 0`): the exponent of a fit is that of its range.
"""

import matplotlib.pyplot as plt
import specdens_torch as sdt
import torch
from sklearn.datasets import load_digits

import specdens as sd

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X / 16), torch.tensor(y)  # float64: small eigenvalues are the question
model = torch.nn.Sequential(
    torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)
).double()
loss = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    loss(model(X), y).backward()
    optimizer.step()
curv = sdt.Curvature(model.eval(), loss, (X, y))
n = curv.H.shape[0]
print(n, "parameters, loss", float(loss(model(X), y).detach()))

# %%
# Lanczos converges from the ends of the spectrum inwards: a log density needs many steps. With full
# reorthogonalisation 600 of them cost little more than their products.
measure = sd.slow_lanczos(curv.H, num_steps=600, num_probes=2)
fits = []
for part in ("positive", "negative"):
    fits.append(sd.analysis.fit_power_law(measure, part=part, range=(3e-3, 3e-2)))
    print("tail", fits[-1])
    print("core", sd.analysis.fit_power_law(measure, part=part, range=(1e-5, 1e-3)))

# %%
# With 600 nodes on a logarithmic axis the paper's width draws a comb: a smaller κ makes wider bumps.
fig, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(11, 4))
measure.log_density(epsilon=1e-5, kappa=1.02).plot(ax=left, annotate_outliers=False)
left.set_title("per unit log|λ|")
sd.plot_loglog(measure, ax=right, fit=fits)
right.set(title="per unit |λ|: a power law is a line", ylim=(1e-3, 1e6))
