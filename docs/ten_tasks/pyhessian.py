"""What PyHessian has of the ten tasks; `get_esd_plot` is a file of its repository, not of the package."""

import numpy as np
from density_plot import get_esd_plot
from pyhessian import hessian
from setup import loss, model, x, y

# task: draw the density of a Hessian
nodes, weights = hessian(model, loss, data=(x, y), cuda=False).density()
get_esd_plot(nodes, weights)
# task: ten largest eigenvalues of a Hessian, with residuals
print(hessian(model, loss, data=(x, y), cuda=False).eigenvalues(top_n=10)[0])
# task: log-determinant, with its error
nodes, weights = hessian(model, loss, data=(x, y), cuda=False).density(n_v=10)
samples = [np.sum(w * np.log(np.abs(t) + 1)) for t, w in zip(np.real(nodes), np.real(weights), strict=True)]
p = sum(each.numel() for each in model.parameters())
print(p * np.mean(samples), p * np.std(samples, ddof=1) / np.sqrt(10))
# task: how many eigenvalues lie below x, with the error
nodes, weights = hessian(model, loss, data=(x, y), cuda=False).density(n_v=10)
samples = [np.sum(np.real(w)[np.real(t) < 0]) for t, w in zip(nodes, weights, strict=True)]
p = sum(each.numel() for each in model.parameters())
print(p * np.mean(samples), p * np.std(samples, ddof=1) / np.sqrt(10))
# task: Hessian spectra per layer
for layer in (model[0], model[2]):
    model.requires_grad_(False)
    layer.requires_grad_(True)
    nodes, weights = hessian(model, loss, data=(x, y), cuda=False).density(iter=50)
    get_esd_plot(nodes, weights)
