"""What users of three fields stumbled on, as it was reported and as it is now, in numbers.

``python benchmarks/trial.py`` prints a table. Every line computes its answer; none is a stored value.
"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib as mpl
import networkx as nx
import numpy as np
import scipy.sparse as sp

mpl.use("Agg")
from contact_sheet import deepnet, semicircle

import specdens as sd


def outliers_stretch_the_axis() -> str:
    measure = sd.fast_lanczos(sp.diags_array(deepnet()), num_probes=4)
    shares = [float(np.diff(each.cdf([-0.1, 0.1]))[0]) for each in (measure, measure.density(), gaussian(measure))]
    return "within ±0.1: measure {:.1%}, picture {:.1%}, the paper's Gaussian {:.1%}".format(*shares)


def gaussian(measure: sd.SpectralMeasure) -> sd.Density:
    return measure.density(kernel="gaussian")


def mass_below_zero() -> str:
    X = np.random.default_rng(0).standard_normal((3000, 1500))
    X[:, 0] *= 30
    measure = sd.fast_lanczos(sd.gram(X, divisor=3000), num_steps=64)
    below = [float(each.cdf(-1e-9)) for each in (measure.density(), gaussian(measure))]
    return "drawn below zero: {:.1%}; the paper's Gaussian {:.1%}".format(*below)


def resolution_is_visible() -> str:
    density = sd.fast_lanczos(sp.diags_array(semicircle()), num_probes=4).density()
    lines = [line.strip() for line in repr(density).splitlines() if "resolution" in line or "typical error" in line]
    return "; ".join(" ".join(line.split()) for line in lines)


def nothing_hides() -> str:
    e = deepnet()
    density = sd.fast_lanczos(sp.diags_array(e), num_probes=4).density()
    floor = density.plot(log_y=True).get_ylim()[0]
    widest = float(np.max(density.resolution[density.values > 0]))
    single = 1 / (e.size * np.sqrt(2 * np.pi) * widest)
    return f"floor / lowest height of a single eigenvalue: {floor / single:.2f}"


def what_was_deflated_is_named() -> str:
    e = np.concatenate([semicircle(1990), np.arange(20.0, 201.0, 20.0)])
    density = sd.spectral_density(sp.diags_array(e), rank=10, num_probes=2)
    ax = density.plot(log_y=True)
    named = {text.get_text() for text in ax.texts}
    return f"{sum(f'{x:g}' in named for x in range(20, 201, 20))} of 10 named"


def one_picture_for_both_signs() -> str:
    density = sd.fast_lanczos(sp.diags_array(deepnet()), num_probes=4).density()
    ax = density.plot(x="symlog")
    x, y = ax.lines[0].get_data()
    width = ax.xaxis.get_transform().linear_width
    mass = float(np.sum(y * np.diff(np.arcsinh(density.edges / width)))) + density.atoms.mass()
    sides = [int(np.sum(np.sign(density.atoms.positions) == sign)) for sign in (-1, 1)]
    return f"symlog: mass {mass:.6f}, {sides[0]} negative and {sides[1]} positive outliers as stems, {x.size} points"


def limits_stay() -> str:
    ax = sd.fast_lanczos(sp.diags_array(semicircle(1000))).plot()
    before = ax.get_xlim(), ax.get_ylim()
    ax.plot([0, 100], [0, 50])
    return f"limits after adding a line to x = 100: unchanged {before == (ax.get_xlim(), ax.get_ylim())}"


def zero_is_zero() -> str:
    A = np.random.default_rng(0).standard_normal((400, 100))
    density = sd.spectral_density(A @ A.T, rank=3, method="fast_lanczos")
    words = next(line for line in repr(density).splitlines() if "atoms  " in line)
    return " ".join(words.split())


def degenerate_eigenvalues() -> str:
    tree = nx.barabasi_albert_graph(5000, 1, seed=0)
    L = sd.graph_laplacian(tree)
    exact = int(np.sum(np.abs(np.linalg.eigvalsh(L.toarray()) - 1) < 1e-9))
    density = sd.fast_lanczos(L, num_probes=8).density()
    at = int(np.argmin(np.abs(density.atoms.positions - 1)))
    found, error = (5000 * x[at] for x in (density.atoms.masses, density.atom_stderr))
    return f"a tree: {exact} of 5000 are 1; atom at {density.atoms.positions[at]:.9f} with {found:.0f} ± {error:.0f}"


def disorder() -> str:
    n, measures, exact = 1500, [], []
    hop = sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1])
    for seed in range(8):
        A = hop + sp.diags_array(np.random.default_rng(seed).uniform(-1, 1, n))
        measures.append(sd.fast_lanczos(A, seed=seed))
        exact.append(np.sum(np.abs(np.linalg.eigvalsh(A.toarray())) <= 1))
    found = sd.average(measures).count(-1, 1)
    return f"average of 8: {found.value:.1f} ± {found.stderr:.1f} in ±1; these samples have {np.mean(exact):.1f}"


def resolution_in_units_of_energy() -> str:
    density = sd.spectral_density(sp.diags_array(semicircle()), energy_resolution=0.05)
    return f"energy_resolution=0.05: ± {np.max(density.resolution):g} with {density.measure.num_steps} steps"


def greens_function() -> str:
    n, z = 401, np.linspace(-2.5, 2.5, 21) + 1e-4j
    chain = sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1])
    found = sd.slow_lanczos(chain, probes=np.eye(n)[n // 2], num_steps=30).resolvent(z, terminator="sqrt").value
    exact = 1 / (np.sqrt(z - 2) * np.sqrt(z + 2))
    return f"infinite chain, 30 steps, η = 1e-4: largest relative error {np.max(np.abs(found / exact - 1)):.0e}"


def complex_vectors() -> str:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 200))
    A, v = A + A.T, np.exp(1j * 0.3 * np.arange(200)) * rng.random(200)
    v /= np.linalg.norm(v)
    found = sd.fast_lanczos(A, probes=v).mean(np.asarray).value
    return f"mean of a complex vector: {found:.6f}; exact {(v.conj() @ A @ v).real:.6f}"


def local_weights() -> str:
    measure = sd.fast_lanczos(np.diag(np.linspace(0, 1, 400)), probes=np.eye(400)[100])
    return f"a site at 0.2506: weight(0.2, 0.3) = {measure.weight(0.2, 0.3).value:.3f}, weight(0.5, 1) = " + (
        f"{measure.weight(0.5, 1).value:.3f}"
    )


def weighted_densities() -> str:
    n = 400
    A = sp.diags_array([np.ones(n - 1), np.tile([-1.0, 1.0], n // 2), np.ones(n - 1)], offsets=[-1, 0, 1])
    B = np.tile([1.0, 0.0], n // 2)
    e, U = np.linalg.eigh(A.toarray())
    exact = float(np.sum(((U**2).T @ B)[e < 0]))
    found = sd.weighted_measure(A, sp.diags_array(B), num_probes=16).weight(-3, 0)
    return f"tr B δ below 0: {found.value:.1f} ± {found.stderr:.1f}; exact {exact:.1f}"


def components() -> str:
    X = np.random.default_rng(0).standard_normal((2000, 500))
    X[:, :5] *= [4, 3.5, 3, 2.5, 2]
    measure = sd.fast_lanczos(sd.gram(X, divisor=2000), num_probes=8)
    found = sd.analysis.significant_components(measure, gamma=0.25)
    return f"five planted: {found.count.value:.2f} ± {found.count.stderr:.2f}"


def distances() -> str:
    graphs = [nx.gnp_random_graph(800, 0.01, seed=seed) for seed in (0, 1)]
    laplacians = [sd.graph_laplacian(G) for G in (*graphs, nx.watts_strogatz_graph(800, 8, 0.1, seed=0))]
    first, same, other = (sd.fast_lanczos(L, num_probes=8) for L in laplacians)
    words = [f"{float(found):.4f} ± {found.stderr:.4f}" for found in (
        sd.analysis.distance(first, same), sd.analysis.distance(first, other))]  # fmt: skip
    return f"two random graphs {words[0]}; random and small world {words[1]}"


def bounds_of_positive_operators() -> str:
    X = np.random.default_rng(0).standard_normal((2000, 300)) * np.geomspace(1, 10, 300)
    A = sd.gram(X, divisor=2000)
    plain, known = sd.spectral_bounds(X.T @ X / 2000), sd.spectral_bounds(A)
    e = np.linalg.eigvalsh(X.T @ X / 2000)
    return "exact ({:.3g}, {:.4g}): matrix ({:.3g}, {:.4g}), gram ({:.3g}, {:.4g})".format(
        e[0], e[-1], *plain, *known
    )  # fmt: skip


def directed_graphs() -> str:
    A = nx.to_scipy_sparse_array(nx.gnp_random_graph(50, 0.2, directed=True, seed=0), dtype=float)
    messages = []
    for given in (A, nx.path_graph(3)):
        try:
            sd.spectral_density(given)
        except (TypeError, ValueError) as error:
            messages.append(str(error))
    return f"{messages[0][:28]}… {messages[0][messages[0].index('. A matrix') + 2 :][:71]}…; {messages[1][:58]}…"


LINES: list[tuple[str, str, Callable[[], str]]] = [
    ("the picture is the kernel", "98.5 % known, 39.7 % drawn", outliers_stretch_the_axis),
    ("mass where no eigenvalue is", "40 % of a covariance below 0", mass_below_zero),
    ("resolution not shown", "error without smoothing", resolution_is_visible),
    ("outliers hide on a log axis", "floor 3 × a single eigenvalue", nothing_hides),
    ("deflated eigenvalues", "0 of 10 named", what_was_deflated_is_named),
    ("bulk and outliers of both signs", "no such axis", one_picture_for_both_signs),
    ("limits", "destroyed by the next line", limits_stay),
    ("zero", "labelled −6.9e-16", zero_is_zero),
    ("degenerate eigenvalues", "2,046 of 5,000 smoothed away", degenerate_eigenvalues),
    ("disorder", "by hand", disorder),
    ("resolution in units of λ", "κ only", resolution_in_units_of_energy),
    ("Green's functions", "none", greens_function),
    ("complex start vectors", "1.5 where 1.0099 is right", complex_vectors),
    ("local densities", "speak of n eigenvalues", local_weights),
    ("operator-weighted densities", "none", weighted_densities),
    ("significant components", "by hand", components),
    ("distance of two spectra", "no error bar", distances),
    ("bounds of a positive operator", "(−5, 105) where (0.09, 100.2) is known", bounds_of_positive_operators),
    ("directed graphs and networkx", "told about dropout; TypeError", directed_graphs),
]


def main() -> None:
    for name, before, after in LINES:
        print(f"{name}\n  before  {before}\n  now     {after()}", flush=True)
        mpl.pyplot.close("all")


if __name__ == "__main__":
    main()
