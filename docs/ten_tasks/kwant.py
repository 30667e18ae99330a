"""What kwant.kpm has of the ten tasks."""

import matplotlib.pyplot as plt
import numpy as np
from kwant.kpm import SpectralDensity
from setup import A, H, disorder, n, site

# task: log-determinant, with its error
print(SpectralDensity(A).integrate(np.log))
# task: how many eigenvalues lie below x, with the error
print(SpectralDensity(H).integrate(lambda e: 1.0 * (e < -2.0)))
# task: local density of states
rho = SpectralDensity(H, num_vectors=1, vector_factory=[np.eye(n)[site].astype(complex)])
plt.plot(*rho())
# task: average over disorder
energies = np.linspace(-5, 5, 500)
rhos = [SpectralDensity(H + V, bounds=(-5.1, 5.1))(energies) for V in disorder]
plt.plot(energies, np.mean(rhos, axis=0))
