"""Write the tables of claims and of figures into README.md, from what is stored."""

from __future__ import annotations

from experiment import spectrum_claims, structure_claims  # noqa: F401 (they register their claims)
from experiment.claim import CLAIMS
from experiment.study import HERE, NETWORK_CHOICES, Study, parse

NETWORKS = dict(zip(NETWORK_CHOICES, ("VGG11", "quarter"), strict=True))
FIGURES = {
    "synthetic": "verification on synthetic matrices",
    "hessian": "Hessian of VGG11, with and without deflation",
    "attribution": "outliers belong to G, the bulk to H",
    "tail": "tail of H",
    "deflation": "benefits of deflation, ResNet18",
    "class-components": "class components of G",
    "dynamics": "Hess, G, H through epochs × sample sizes",
    "class-dynamics": "class structure of G through epochs × sample sizes",
    "training-curves": "training curves, with the apex of G",
    "corrections": "κ = 3 and the factor 1/θ beside ours",
}


def claims_table(study: Study) -> str:
    """Return the claims with their verdicts, in Markdown."""
    rows = [claim.row(study, NETWORKS) for claim in CLAIMS]
    return "\n".join(["| claim | verdict | measured | caveat |", "|---|---|---|---|", *rows])


def figures_table(study: Study) -> str:
    """Return the figures with links to those that are drawn, in Markdown."""
    rows = []
    for name, title in FIGURES.items():
        drawn = [each for each in (name, f"{name}-vgg11-quarter") if (study.figures / f"{each}.png").exists()]
        links = ", ".join(f"[{each}](figures/{each}.png)" for each in drawn) or "not computed"
        rows.append(f"| {title} | `fig_{name.replace('-', '_')}.py` | {links} |")
    return "\n".join(["| figure | script | picture |", "|---|---|---|", *rows])


def replace_block(page: str, name: str, text: str) -> str:
    """Return the page with another text between the marks of a block."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, rest = page.split(begin)
    return f"{head}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    study, options = parse(__doc__)
    study.store.compute = False
    tables = {"claims": claims_table(study), "figures": figures_table(study)}
    print("\n\n".join(tables.values()))
    if not study.tiny:
        page = (HERE / "README.md").read_text()
        for name, text in tables.items():
            page = replace_block(page, name, text)
        (HERE / "README.md").write_text(page)
