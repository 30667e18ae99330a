"""Claims about the class structure of G, the dynamics, deflation, and the method itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import specdens as sd
from experiment import dynamics
from experiment.claim import Finding, all_or_part, claim
from experiment.spectra import Spectra
from experiment.spectrum_claims import spectra
from experiment.store import Missing
from experiment.study import Study

Floats = NDArray[np.float64]


@claim("The outliers of G are due to A1", where="Fig. 1", caveat="136 per class on CIFAR10 in the paper")
def outliers_of_A1(study: Study, network: str) -> Finding:
    """Require that at most one eigenvalue of G − A1 reaches the C-th of G."""
    found = spectra(study, network, "train").gauss_newton()
    C = len(found["within"])
    left = int(np.sum(found["G-A1"] >= found["G"][C - 1]))
    apart = float(np.max(np.abs(found["A1+A2+B1"][:C] / found["G"][:C] - 1)))
    number = f"{left} eigenvalues of G − A1 reach λ₁₀(G), the largest {found['G-A1'][0] / found['G'][0]:.2f} of λ₁(G)"
    return Finding(left <= 1, f"{number}; without B2 the top ten move by {apart:.1%} at most")


@claim("A2 is negligible", where="Fig. 1")
def A2_negligible(study: Study, network: str) -> Finding:
    """Require that it has less than 1 % of the trace, and no eigenvalue of G − A2 differs by more than 1 % of λ₁."""
    found = spectra(study, network, "train").gauss_newton()
    share = float(found["traces"][1] / found["traces"].sum())
    moved = float(np.max(np.abs(found["G-A2"] - found["G"])) / found["G"][0])
    return Finding(share < 0.01 and moved < 0.01, f"{share:.1e} of Tr G; eigenvalues move by {moved:.1e} of λ₁ at most")


@claim(
    "G has two bulks, that of B1 and that of B2", where="Fig. 1",
    caveat="the paper saw them at 136 per class on CIFAR10",
)  # fmt: skip
def two_bulks(study: Study, network: str) -> Finding:
    """Require that most eigenvalues of G in the range of B1's, 10th to 90th percentile, vanish without B1."""
    found = spectra(study, network, "train").gauss_newton()
    C = len(found["within"])
    b1 = found["A1+A2+B1"][C : C * (C - 1)]
    lo, hi = np.quantile(b1, [0.1, 0.9])
    before, after = (int(np.sum((found[name] > lo) & (found[name] < hi))) for name in ("G", "G-B1"))
    number = f"{before} eigenvalues of G in B1's range, {lo:.1g} … {hi:.1g}; without B1 {after}: the bulks overlap"
    return Finding(after < before / 2, number if after >= before / 2 else number.split(":")[0])


def _grid(study: Study) -> dict[tuple[int, int], Spectra]:
    return dynamics.grid(study)


def _separations(study: Study) -> Floats:
    """Return log₁₀ of the ratio of B1's bulk to B2's, epochs × sizes, nan where it has not been computed."""
    from fig_class_dynamics import separation

    found = np.full((len(dynamics.EPOCHS), len(dynamics.SIZES)), np.nan)
    for (epoch, size), each in _grid(study).items():
        try:
            place = dynamics.EPOCHS.index(epoch), dynamics.SIZES.index(size)
            found[place] = separation(each.gauss_newton(), size)
        except Missing:
            continue
    if np.isfinite(found).sum() < 4:
        raise Missing("too few panels")
    return found


@claim("Training separates the bulks of B1 and B2", where="Fig. 7", caveat="quarter, Fashion", per_network=False)
def training_separates(study: Study, network: str) -> Finding:
    """Require that |log₁₀ B1/B2| is larger at the last epoch than at its least before, for every sample size."""
    values = np.abs(_separations(study))
    columns = [column for column in values.T if np.isfinite(column).all()]
    if not columns:
        raise Missing("no complete column")
    rows = [f"{column[0]:.2f} → {column[-1]:.2f}" for column in columns]
    grows = all(column[-1] > column[0] for column in columns)
    return Finding(grows, f"decades between the bulks, epoch {dynamics.EPOCHS[0]} → 200: " + ", ".join(rows))


@claim(
    "More examples draw the bulks together",
    where="Fig. 7",
    caveat="quarter, Fashion, 5 to 36 per class",
    per_network=False,
)
def examples_join(study: Study, network: str) -> Finding:
    """Require that the distance falls from the least to the largest sample size at the last epoch."""
    values = np.abs(_separations(study))
    last = values[-1][np.isfinite(values[-1])]
    if len(last) < 2:
        raise Missing("one sample size only")
    shown = ", ".join(f"{value:.2f}" for value in last)
    return Finding(bool(last[-1] < last[0]), f"decades at epoch 200, from 5 per class on: {shown}")


def _ratios(study: Study) -> dict[tuple[int, int], tuple[float, float]]:
    """Return λ₁(G) / λ₁(H) and ‖H‖_F / ‖G‖_F of all computed panels."""
    found = {}
    for place, each in _grid(study).items():
        try:
            h, g = each.lanczos("H"), each.gauss_newton()["G"]
        except Missing:
            continue
        edge = sd.analysis.outliers(h).bulk.hi
        found[place] = float(g[0] / edge), float(np.sqrt(max(h.trace(np.square).value, 0) / np.sum(g**2)))
    if len(found) < len(dynamics.EPOCHS):
        raise Missing("too few panels")
    return found


@claim(
    "G grows to a peak and then falls until it is negligible beside H",
    where="Fig. 6",
    caveat="quarter, Fashion",
    per_network=False,
)
def peak_of_G(study: Study, network: str) -> Finding:
    """Require that λ₁(G) peaks before the last epoch, and ends below the edge of H: the half of it is a part."""
    found, shown, peaks, ends = _ratios(study), [], [], []
    for size in dynamics.SIZES:
        places = [(epoch, size) for epoch in dynamics.EPOCHS if (epoch, size) in found]
        if len(places) < len(dynamics.EPOCHS):
            continue
        top = [float(dynamics.panel(study, *place[::-1]).gauss_newton()["G"][0]) for place in places]
        peak = int(np.argmax(top))
        peaks.append(peak < len(top) - 1)
        ends.append(found[places[-1]][0])
        shown.append(f"{size}: {top[peak]:.3g} at epoch {dynamics.EPOCHS[peak]}, {top[-1]:.3g} at 200")
    if not shown:
        raise Missing("no complete column")
    number = f"λ₁(G) by sample size, {'; '.join(shown)}. In units of the edge of H it ends at "
    number += ", ".join(f"{end:.3g}" for end in ends)
    return Finding(all_or_part([*peaks, all(end < 1 for end in ends)]), number)


@claim("H is never negligible beside G", where="Sec. 4, Fig. 6", caveat="quarter, Fashion", per_network=False)
def H_matters(study: Study, network: str) -> Finding:
    """Require that ‖H‖_F is at least a tenth of ‖G‖_F everywhere."""
    ratios = [ratio for _, ratio in _ratios(study).values()]
    number = f"‖H‖_F/‖G‖_F from {min(ratios):.2g} to {max(ratios):.2g} over {len(ratios)} panels"
    return Finding(min(ratios) > 0.1, number)


@claim(
    "The covariance of the gradients varies during training",
    where="Sec. 4",
    caveat="quarter, Fashion",
    per_network=False,
)
def covariance_varies(study: Study, network: str) -> Finding:
    """Require that Tr B2 changes by a factor of two or more, for every sample size."""
    factors = []
    for size in dynamics.SIZES:
        try:
            traces = [dynamics.panel(study, size, epoch).gauss_newton()["traces"][3] for epoch in dynamics.EPOCHS]
        except Missing:
            continue
        factors.append(max(traces) / min(traces))
    if not factors:
        raise Missing("no complete column")
    shown = ", ".join(f"{factor:.3g}" for factor in factors)
    return Finding(min(factors) > 2, f"largest over least Tr B2 through the epochs: {shown}")


@claim(
    "The apex of G is where the training error stops falling fast",
    where="App., training curves",
    caveat="quarter, Fashion; epochs of the grid only",
    per_network=False,
)
def apex_at_transition(study: Study, network: str) -> Finding:
    """Require that the training error is above 2 % before the apex and below 20 % at the epoch after it."""
    from fig_training_curves import apex, history

    shown, ok = [], True
    for size in dynamics.SIZES:
        top = apex(study, size)
        if top is None:
            continue
        curve = history(study, size)
        after = [epoch for epoch in dynamics.EPOCHS if epoch > top[0]] or [dynamics.EPOCHS[-1]]
        at, then = (float(np.interp(epoch, curve["epoch"], curve["train_error"])) for epoch in (top[0], after[0]))
        ok &= then < 0.2 and at > then
        shown.append(f"{size}: epoch {top[0]}, error {at:.0%}, {then:.0%} at epoch {after[0]}")
    if not shown:
        raise Missing("no complete column")
    return Finding(ok, "; ".join(shown))


@claim(
    "Deflation finds the outliers precisely and resolves the bulk better",
    where="Fig. 5",
    caveat="ResNet18 with 136 per class in the paper",
    per_network=False,
)
def deflation(study: Study, network: str) -> Finding:
    """Require that all deflated eigenvalues agree with Ritz values found without, and the range to resolve shrinks."""
    for network, name in (("resnet18", "ResNet18"), ("vgg11", "VGG11")):
        each = Spectra(study.case(network, "mnist", 13), "train")
        try:
            measure, pairs = each.deflated()
            nodes = each.lanczos("Hess").nodes[0]
        except Missing:
            continue
        apart = max(float(np.min(np.abs(nodes - value)) / abs(value)) for value in pairs["values"])
        finer = float(np.ptp(nodes) / np.ptp(measure.nodes[0]))
        number = f"{name}: they agree to {apart:.1e}; residuals up to {pairs['residuals'].max():.1e}"
        return Finding(apart < 0.05 and finer > 1, f"{number}; bumps {finer:.2g} times narrower")
    raise Missing("neither network")


@claim(
    "FastLanczos approximates the spectra of synthetic matrices well",
    where="App., synthetic (a), (b)",
    per_network=False,
)
def synthetic(study: Study, network: str) -> Finding:
    """Require that W1 to the exact spectrum is below 1 % of its width, for (b) on the axis log(λ + ε)."""
    from fig_synthetic import compute, log_distance, width_distance

    found = compute(study)
    linear, log = width_distance(*found["spikes"]), log_distance(*found["pareto"])
    return Finding(linear < 0.01 and log < 0.01, f"W1: (a) {linear:.1e} of the width, (b) {log:.1e} of the log-width")


@claim(
    "Lanczos is effective, KPM temperamental", where="Sec. 5", per_network=False,
    caveat="synthetic matrices (a) and (b), as many products each",
)  # fmt: skip
def kpm(study: Study, network: str) -> Finding:
    """Require that KPM is at least twice as far from the exact spectra."""
    from fig_synthetic import compare_kpm

    found = compare_kpm(study)
    shown = [
        f"{part} Lanczos {found[name][0]:.1e}, KPM {found[name][1]:.1e}"
        for part, name in (("(a)", "spikes"), ("(b), log,", "pareto"))
    ]
    return Finding(all_or_part(ours < theirs / 2 for ours, theirs in found.values()), f"W1: {'; '.join(shown)}")


@claim(
    "All of it holds on CIFAR10 and CIFAR100",
    where="Figs. 1, 2, 6, 7",
    caveat="the data could not be had",
    per_network=False,
)
def cifar(study: Study, network: str) -> Finding:
    """Not tested here."""
    raise Missing("no data")
