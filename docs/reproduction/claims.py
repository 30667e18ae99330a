"""Write the tables of claims and of figures into README.md, from what is stored."""

from __future__ import annotations

from experiment import spectrum_claims, structure_claims  # noqa: F401 (they register their claims)
from experiment.claim import CLAIMS
from experiment.study import HERE, NETWORK_CHOICES, Study, parse

NETWORKS = dict(zip(NETWORK_CHOICES, ("VGG11", "quarter"), strict=True))
FIGURES = {
    "synthetic": (
        "Verification on synthetic matrices",
        "Exact eigenvalues in blue, the estimates over them in red: (a) spikes on a Wishart matrix, (b) the log "
        "spectrum of a Pareto matrix.",
    ),
    "hessian": (
        "Hessian of VGG11, with and without deflation",
        "Above, the ten eigenvalues of largest magnitude are computed to their residuals and taken out; below, one run "
        "of 128 steps sees everything. Bars are eigenvalues that stand alone.",
    ),
    "attribution": (
        "Outliers belong to G, the bulk to H",
        "Hess, G and H above each other, and their bulks in one panel. G is exact. Bands are two standard errors.",
    ),
    "tail": (
        "Tail of H",
        "Both signs on doubly logarithmic axes with power laws fitted to the straight part, and the share of "
        "eigenvalues beyond |λ| beside the semicircle of the same variance.",
    ),
    "deflation": (
        "Benefits of deflation, ResNet18",
        "The training Hessian with and without deflation, whole and zoomed in on the bulk. Without, two close pairs of "
        "eigenvalues are not told apart from a low slab.",
    ),
    "class-components": (
        "Class components of G",
        "All eigenvalues of G and of what is left without each component; the black line is G.",
    ),
    "dynamics": (
        "Hess, G and H through epochs and sample sizes",
        "In units of the bulk edge of H, with the largest eigenvalue of G in the corner.",
    ),
    "class-dynamics": (
        "Class structure of G through epochs and sample sizes",
        "All eigenvalues of G, with marks for those of A1 + A2 + B1 and for the mean eigenvalue of every B2c.",
    ),
    "training-curves": (
        "Training curves, with the apex of G",
        "Circles mark the epoch of the grid in which the trace of G was largest.",
    ),
    "corrections": (
        "κ = 3 and the factor 1/θ beside ours",
        "κ = 3 draws the sampling noise of single Ritz values. With the factor 1/θ the mass of a log density is not 1.",
    ),
    "language-model": (
        "A pretrained language model",
        "Hess, G and H of SmolLM2-135M on a text: not part of the paper.",
    ),
}


def claims_table(study: Study) -> str:
    """Return the claims with their verdicts, in Markdown."""
    rows = [claim.row(study, NETWORKS) for claim in CLAIMS]
    return "\n".join(["| claim | verdict | measured | caveat |", "|---|---|---|---|", *rows])


def figures_section(study: Study) -> str:
    """Return the figures that are drawn, each with its script and a caption, in Markdown."""
    parts = []
    for name, (title, caption) in FIGURES.items():
        drawn = [each for each in (name, f"{name}-vgg11-quarter") if (study.figures / f"{each}.png").exists()]
        pictures = "\n\n".join(f"![{title}{_network(each)}](figures/{each}.png)" for each in drawn)
        script = f"`fig_{name.replace('-', '_')}.py`"
        parts.append(f"### {title}\n\n{script}. {caption}\n\n{pictures or 'Not computed.'}")
    return "\n\n".join(parts)


def _network(figure: str) -> str:
    return ", VGG11 with a quarter of the channels" if figure.endswith("quarter") else ""


def replace_block(page: str, name: str, text: str) -> str:
    """Return the page with another text between the marks of a block."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, rest = page.split(begin)
    return f"{head}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    study, options = parse(__doc__)
    study.store.compute = False
    tables = {"claims": claims_table(study), "figures": figures_section(study)}
    print("\n\n".join(tables.values()))
    if not study.tiny:
        page = (HERE / "README.md").read_text()
        for name, text in tables.items():
            page = replace_block(page, name, text)
        (HERE / "README.md").write_text(page)
