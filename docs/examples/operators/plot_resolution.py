"""
Too little, right, too much
===========================

**Finding:** with too few steps two bands merge, with too narrow bumps the picture is a comb; the default width is
between the two, and the band says what to trust.
"""

import matplotlib.pyplot as plt
import numpy as np

import specdens as sd

rng = np.random.default_rng(0)
eigenvalues = np.sort(np.r_[rng.beta(2, 2, 6000) - 1.2, rng.beta(2, 2, 4000) * 0.8 + 0.1])
A = sd.as_operator(lambda x: eigenvalues * x, shape=eigenvalues.size, dtype="float64")

pictures = {
    "too little: 8 steps": sd.fast_lanczos(A, num_steps=8).density(kernel="gaussian"),
    "right: 80 steps": sd.fast_lanczos(A, num_steps=80).density(kernel="gaussian"),
    "too much: 80 steps, κ = 10": sd.fast_lanczos(A, num_steps=80).density(kernel="gaussian", kappa=10),
}
fig, axes = plt.subplots(1, 3, layout="constrained", figsize=(10, 3), sharey=True, sharex=True)
for ax, (title, density) in zip(axes, pictures.items(), strict=True):
    ax.hist(eigenvalues, bins=120, density=True, color="0.8")
    density.plot(ax=ax)
    ax.set(title=title, ylim=(0, 2.2), xlim=(-1.5, 1.2))

# %%
# The distance to the exact distribution, and what `convergence` says without knowing it:
for steps in (8, 20, 80):
    measure = sd.fast_lanczos(A, num_steps=steps)
    error, estimate = sd.analysis.distance(measure, eigenvalues), measure.convergence()
    print(f"{steps:2} steps: {error:.4f}; estimated: steps {estimate.steps:.4f}, sampling {estimate.sampling:.4f}")
