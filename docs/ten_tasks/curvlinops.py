"""What curvlinops has of the ten tasks."""

import curvlinops
import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.linalg import eigsh
from setup import loss, model, params, x, y

# task: draw the density of a Hessian
hess = curvlinops.HessianLinearOperator(model, loss, params, [(x, y)])
grid, density = curvlinops.lanczos_approximate_spectrum(hess, 100)
plt.semilogy(grid, density)
# task: ten largest eigenvalues of a Hessian, with residuals
hess = curvlinops.HessianLinearOperator(model, loss, params, [(x, y)]).to_scipy()
values, vectors = eigsh(hess, k=10)
print(values, np.linalg.norm(hess @ vectors - vectors * values, axis=0))
# task: how many eigenvalues lie below x, with the error
hess = curvlinops.HessianLinearOperator(model, loss, params, [(x, y)])
grid, density = curvlinops.lanczos_approximate_spectrum(hess, 100, num_repeats=10)
print(hess.shape[0] * np.trapezoid(density[grid < 0], grid[grid < 0]))
# task: Hessian spectra per layer
for layer in (model[0], model[2]):
    hess = curvlinops.HessianLinearOperator(model, loss, list(layer.parameters()), [(x, y)])
    grid, density = curvlinops.lanczos_approximate_spectrum(hess, 50)
    plt.semilogy(grid, density)
# task: draw the Gauss–Newton spectrum
ggn = curvlinops.GGNLinearOperator(model, loss, params, [(x, y)])
grid, density = curvlinops.lanczos_approximate_spectrum(ggn, 100)
plt.semilogy(grid, density)
