"""Claims about Hess, G and H of a trained network."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

import specdens as sd
from experiment.claim import Finding, all_or_part, claim
from experiment.spectra import LOG_STEPS, STEPS, TAIL_STEPS, Spectra
from experiment.store import Missing
from experiment.study import Study

SPLITS = ("train", "test")


def spectra(study: Study, network: str, split: str, *, dataset: str = "mnist") -> Spectra:
    """Return the spectra at 13 examples per class."""
    return Spectra(study.case(network, dataset, 13), split)


def widest_gap(each: Spectra) -> tuple[int, float]:
    """Return after which of the 2C largest eigenvalues of Hess the widest gap is, and λ_k/λ_{k+1} there."""
    measure, pairs = each.deflated()
    values = list(np.sort(pairs["values"])[::-1])
    for node in measure.nodes[0][::-1]:
        if node < 0.99 * values[-1]:  # copies of a converged Ritz value agree to rounding
            values.append(float(node))
    ratios = np.array(values[: 2 * each.num_classes]) / np.array(values[1 : 2 * each.num_classes + 1])
    k = int(np.argmax(ratios))
    return k + 1, float(ratios[k])


def _gaps(study: Study, network: str) -> dict[str, tuple[int, float]]:
    """Return the gaps of the Hessians that are stored, at least one."""
    found = {}
    for dataset in ("mnist", "fashion"):
        for split in SPLITS:
            with suppress(Missing):
                found[f"{dataset} {split}"] = widest_gap(spectra(study, network, split, dataset=dataset))
    if not found:
        raise Missing("no Hessian")
    return found


def _on_splits(test: Callable[[Spectra], tuple[bool, str]], study: Study, network: str) -> Finding:
    """Apply a test to the splits that are stored, at least one."""
    found = {}
    for split in SPLITS:
        with suppress(Missing):
            found[split] = test(spectra(study, network, split))
    if not found:
        raise Missing("neither split")
    shown = "; ".join(f"{split}: {number}" for split, (_, number) in found.items())
    return Finding(all_or_part(ok for ok, _ in found.values()), shown)


def _rounding(measure: sd.SpectralMeasure, scale: float) -> float:
    """Return what a hundred roundings may move an eigenvalue by; the recurrence's residuals do not know of them."""
    return float(100 * np.finfo(measure.dtype).eps * abs(scale))


@claim(
    "The Hessian has a bulk and outliers", where="Fig. 2",
    caveat="they fall off gradually, more so in test. CIFAR not tested; 13 per class, not 5,000",
)  # fmt: skip
def bulk_and_outliers(study: Study, network: str) -> Finding:
    """Require that the widest gap among the 2C largest eigenvalues is a factor of 1.5 or more."""
    gaps = _gaps(study, network)
    number = "widest gap: " + ", ".join(f"{name} λ{k}/λ{k + 1} = {ratio:.2f}" for name, (k, ratio) in gaps.items())
    for split in SPLITS:
        with suppress(Missing):
            each = spectra(study, network, split)
            above = float(np.min(each.deflated()[1]["values"]) / each.lanczos("H").nodes[0][-1])
            number += f"; λ10(Hess)/λ1(H), mnist {split}: {above:.3g}"
    return Finding(all_or_part(ratio > 1.5 for _, ratio in gaps.values()), number)


@claim(
    "Arguably the number of outliers is the number of classes, 10", where="Fig. 2",
    caveat="those above the widest gap; from 8 to 12 pass. One training run each",
)  # fmt: skip
def as_many_as_classes(study: Study, network: str) -> Finding:
    """Require that from 8 to 12 eigenvalues lie above the widest gap."""
    gaps = _gaps(study, network)
    number = ", ".join(f"{name} {k}" for name, (k, _) in gaps.items())
    return Finding(all_or_part(8 <= k <= 12 for k, _ in gaps.values()), number)


@claim("The training Hessian has negative eigenvalues", where="Fig. 2")
def negative(study: Study, network: str) -> Finding:
    """Require that the least Ritz value is negative by more than its residual."""
    measure, pairs = spectra(study, network, "train").deflated()
    lowest, top = measure.nodes[0][0], pairs["values"][0]
    bound = measure.residuals[0][0] + _rounding(measure, top)
    return Finding(
        bool(lowest + bound < 0), f"least {lowest:.3g} ± {bound:.1g}, {abs(lowest) / top:.1%} of the largest"
    )


@claim("Most eigenvalues are concentrated at zero", where="Fig. 2")
def concentration(study: Study, network: str) -> Finding:
    """Require that 99 % are within 0.1 % of the largest."""
    measure, pairs = spectra(study, network, "train").deflated()
    size = 1e-3 * float(pairs["values"][0])
    inside = measure.count(-size, size)
    share, error = inside.value / measure.dimension, inside.stderr / measure.dimension
    return Finding(share > 0.99, f"all but {1 - share:.2g} ± {error:.1g} are within 0.1 % of λ₁")


@claim("Train and test Hessian differ clearly in magnitude", where="Fig. 2")
def magnitude(study: Study, network: str) -> Finding:
    """Require that the largest eigenvalues differ by a factor of two."""
    train, test = (spectra(study, network, split).deflated()[1]["values"][0] for split in SPLITS)
    return Finding(
        max(test / train, train / test) > 2, f"λ₁ train {train:.3g}, test {test:.3g}: ratio {test / train:.3g}"
    )


@claim("H has no outliers where Hess has them", where="Fig. 3a")
def no_outliers_in_H(study: Study, network: str) -> Finding:
    """Require that the largest eigenvalue of H is below half of the ninth of Hess."""

    def test(each: Spectra) -> tuple[bool, str]:
        ninth = np.sort(each.deflated()[1]["values"])[::-1][each.num_classes - 2]
        h = each.lanczos("H")
        largest = h.nodes[0][-1]
        bound = h.residuals[0][-1] + _rounding(h, largest)
        number = f"{len(sd.analysis.outliers(h))} outliers, λ₁(H) = {largest:.3g} ± {bound:.1g}, λ₉(Hess) = {ninth:.3g}"
        return bool(largest < 0.5 * ninth), number

    return _on_splits(test, study, network)


@claim("The outliers of Hess are those of G, at about the same places", where="Fig. 3a")
def same_places(study: Study, network: str) -> Finding:
    """Require that the top C − 1 eigenvalues agree to 25 % in the median, and their eigenspaces to 80 %."""

    def test(each: Spectra) -> tuple[bool, str]:
        top = np.sort(each.deflated()[1]["values"])[::-1][: each.num_classes - 1]
        apart = float(np.median(np.abs(each.gauss_newton()["G"][: len(top)] / top - 1)))
        shared = each.overlap()[: len(top)].sum(1)
        number = f"{apart:.1%} apart; {shared.min():.1%} or more of every eigenvector of Hess is in G's top ten"
        return apart < 0.25 and float(shared.mean()) > 0.8, number

    return _on_splits(test, study, network)


@claim("Most of the energy of the bulk of Hess is that of H", where="Fig. 3b")
def bulk_energy(study: Study, network: str) -> Finding:
    """Require that Tr H² is at least half of Tr Hess² without the top C eigenvalues of Hess."""

    def test(each: Spectra) -> tuple[bool, str]:
        hess, pairs = each.deflated()
        whole, h = (measure.trace(np.square) for measure in (hess, each.lanczos("H")))
        bulk = whole.value - float(np.sum(pairs["values"] ** 2))
        g = float(np.sum(each.gauss_newton()["G"][each.num_classes :] ** 2)) / bulk
        ratio = h.value / bulk
        error = np.hypot(h.stderr, ratio * whole.stderr) / bulk
        return ratio > 0.5, f"Tr H² is {ratio:.2f} ± {error:.2f} of it, Tr G² without the top ten {g:.2f}"

    return _on_splits(test, study, network)


@claim("In train the bulk of G is much smaller than that of H, in test comparable", where="Fig. 3a")
def bulk_of_G(study: Study, network: str) -> Finding:
    """Require that λ₁₁(G) is below a quarter of λ₁(H) in train, and above in test."""

    def test(each: Spectra) -> tuple[bool, str]:
        ratio = float(each.gauss_newton()["G"][each.num_classes] / each.lanczos("H").nodes[0][-1])
        return (ratio < 0.25) == (each.split == "train"), f"λ₁₁(G)/λ₁(H) = {ratio:.3g}"

    return _on_splits(test, study, network)


@claim("The upper tail of the bulk is due to H in train, to G in test", where="Fig. 3b")
def upper_tail(study: Study, network: str) -> Finding:
    """Require that what is left of Hess ends nearer to the end of H in train, and to that of G in test."""

    def test(each: Spectra) -> tuple[bool, str]:
        hess, h = (float(measure.nodes[0][-1]) for measure in (each.deflated()[0], each.lanczos("H")))
        g = float(each.gauss_newton()["G"][each.num_classes])
        nearer = abs(np.log(hess / h)) < abs(np.log(hess / g))
        return bool(nearer) == (each.split == "train"), f"Hess ends at {hess:.3g}, H at {h:.3g}, G at {g:.3g}"

    return _on_splits(test, study, network)


@claim("The upper eigenvalues of the test Hess and of G interlace", where="Fig. 3b")
def interlacing(study: Study, network: str) -> Finding:
    """Require that λ_{k+1}(G) ≤ λ_k(Hess) ≤ λ_{k−1}(G) for 9 of the top ten."""
    each = spectra(study, network, "test")
    top = np.sort(each.deflated()[1]["values"])[::-1]
    g = np.concatenate([[np.inf], each.gauss_newton()["G"]])
    kept = int(sum(g[k + 2] <= value <= g[k] for k, value in enumerate(top)))
    return Finding(kept >= len(top) - 1, f"{kept} of {len(top)}")


def _tails(study: Study) -> dict[str, sd.SpectralMeasure]:
    """Return H on test examples, as in the paper: of every network the longest run that is stored."""
    found = {}
    for network, name in (("vgg11", "VGG11"), ("vgg11-quarter", "quarter")):
        each = spectra(study, network, "test")
        for steps in (LOG_STEPS, TAIL_STEPS, STEPS):
            try:
                found[f"{name}, {steps:,} steps"] = each.lanczos("H", num_steps=steps)
                break
            except Missing:
                continue
    if not found:
        raise Missing("no H")
    return found


def _on_tails(test: Callable[[sd.SpectralMeasure], tuple[bool | None, str]], study: Study) -> Finding:
    """Apply a test to all tails; those that leave it open do not count."""
    found = {name: test(measure) for name, measure in _tails(study).items()}
    return Finding(
        all_or_part(ok for ok, _ in found.values() if ok is not None),
        "; ".join(f"{name}: {n}" for name, (_, n) in found.items()),
    )


@claim(
    "The spectrum of H is almost symmetric about zero", where="Fig. 4", per_network=False,
    caveat="test examples, as in the paper",
)  # fmt: skip
def symmetric(study: Study, network: str) -> Finding:
    """Require that positive and negative eigenvalues have the same second moment to 10 %, where it is known to 20 %."""

    def test(measure: sd.SpectralMeasure) -> tuple[bool | None, str]:
        plus, minus = (measure.trace(lambda x, s=s: np.where(s * x > 0, x**2, 0.0)) for s in (1, -1))
        ratio = plus.value / minus.value
        error = ratio * np.hypot(plus.stderr / plus.value, minus.stderr / minus.value)
        shown = f"Σλ² over λ > 0 to that over λ < 0: {ratio:.3f} ± {error:.2g}"
        return (abs(ratio - 1) < 0.1, shown) if error < 0.2 else (None, f"{shown}, which leaves it open")

    return _on_tails(test, study)


def upper_decade(measure: sd.SpectralMeasure) -> tuple[float, float]:
    """Return the range of the power laws: from 7 % to 60 % of the largest eigenvalue."""
    end = measure.bounds().hi
    return 0.07 * end, 0.6 * end


def _laws(measure: sd.SpectralMeasure, range_: tuple[float, float] | None) -> list[sd.analysis.PowerLaw]:
    return [sd.analysis.fit_power_law(measure, part=part, range=range_) for part in ("positive", "negative")]


@claim(
    "The tails of H follow a power law, R² = 0.99", where="Fig. 4a", per_network=False,
    caveat="from 7 % to 60 % of the largest eigenvalue; the paper does not state its range. 13 per class, not 1,351",
)  # fmt: skip
def power_law(study: Study, network: str) -> Finding:
    """Require that the upper decade of both signs has R² > 0.98."""

    def test(measure: sd.SpectralMeasure) -> tuple[bool, str]:
        laws = _laws(measure, upper_decade(measure))
        shown = [f"R² {law.r_squared:.3f} ({law.part})" for law in laws]
        span = f"on {laws[0].range.lo:.2g} … {laws[0].range.hi:.2g}"
        return all(law.r_squared > 0.98 for law in laws), f"{', '.join(shown)} {span}"

    return _on_tails(test, study)


@claim(
    "The exponent per unit |λ| is −2.7", where="Fig. 4a", per_network=False,
    caveat="the range was chosen after a look at the picture; the spectrum bends further in",
)  # fmt: skip
def exponent(study: Study, network: str) -> Finding:
    """Require that both exponents of the upper decade agree with −2.7 to two standard errors."""

    def test(measure: sd.SpectralMeasure) -> tuple[bool, str]:
        laws = _laws(measure, upper_decade(measure))
        shown = [f"{law.exponent:.2f} ± {law.stderr:.2f} ({law.part})" for law in laws]
        widest = " and ".join(f"{law.exponent:.2f} ± {law.stderr:.2f}" for law in _laws(measure, None))
        shown.append(f"on the widest straight range {widest}")
        return all(abs(law.exponent + 2.7) < 2 * law.stderr for law in laws), ", ".join(shown)

    return _on_tails(test, study)


@claim("H follows neither the semicircle nor Marchenko–Pastur", where="Fig. 4", per_network=False)
def no_random_matrix_law(study: Study, network: str) -> Finding:
    """Require that the semicircle is refused; Marchenko–Pastur has no negative eigenvalues to begin with."""

    def test(measure: sd.SpectralMeasure) -> tuple[bool, str]:
        fit = sd.analysis.fit_semicircle(measure)
        return not fit.follows, f"W1 to the semicircle {fit.distance:.2g} of its width, {fit.limit:.2g} would pass"

    return _on_tails(test, study)
