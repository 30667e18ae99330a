"""The ten tasks with specdens."""

import numpy as np
import specdens_torch as sdt
from setup import A, H, disorder, loss, model, n, site, x, y

import specdens as sd

# task: draw the density of a Hessian
curv = sdt.Curvature(model, loss, (x, y))
curv.density("Hess").plot(log_y=True)
# task: ten largest eigenvalues of a Hessian, with residuals
curv = sdt.Curvature(model, loss, (x, y))
print(sd.top_eigenpairs(curv.Hess, rank=10))
# task: log-determinant, with its error
print(sd.fast_lanczos(A, num_probes=10).logdet())
# task: how many eigenvalues lie below x, with the error
print(sd.fast_lanczos(H, num_probes=10).count(-np.inf, -2.0))
# task: local density of states
sd.spectral_density(H, probes=np.eye(n)[site]).plot()
# task: average over disorder
sd.average([sd.fast_lanczos(H + V) for V in disorder]).plot()
# task: Hessian spectra per layer
curv = sdt.Curvature(model, loss, (x, y))
curv.layer_densities("Hess").plot()
# task: draw the Gauss–Newton spectrum
curv = sdt.Curvature(model, loss, (x, y))
curv.density("G").plot(log_y=True)
# task: weights' power laws, layer by layer
print(sdt.weight_densities(model))
# task: a run that goes on after a kill
sd.spectral_density(A, num_steps=100, num_probes=8, checkpoint="run.npz")
