"""Spectra of the masked language model of rxnmapper (ALBERT, 0.74 million parameters) on chemical reactions.

The model comes with the wheel ``rxnmapper`` (MIT licence), the two reactions are those of its README. Every seventh
token is masked, with three different starts, and the loss is that of the masked tokens.

    pip install "specdens[torch]" transformers && pip install --no-deps rxnmapper
    python reactions.py --steps 48 --group-steps 24

Stores one measure per spectrum and ``reactions.json``: Hess, G and H of all parameters, and Hess of embeddings,
attention, feed-forward layers, norms and the head, with the distances between these spectra and the share of Hess
between the groups. ``--steps 0`` keeps what is stored of all parameters.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import time
from pathlib import Path
from typing import Any

import specdens_torch as sdt
import torch
from transformers import AlbertForMaskedLM

import specdens as sd

HERE = Path(__file__).parent
FILE = HERE / "reactions.json"
REACTIONS = (
    "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F",
    "C1COCCO1.CC(C)(C)OC(=O)CONC(=O)NCc1cccc2ccccc12.Cl>>O=C(O)CONC(=O)NCc1cccc2ccccc12",
)
TOKEN = re.compile(
    r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]"
)
STRIDE, STARTS = 7, 3


def model_and_batch() -> tuple[Any, dict[str, torch.Tensor]]:
    """Return the model and one batch: every reaction with STARTS choices of masked tokens."""
    spec = importlib.util.find_spec("rxnmapper")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install the model first: pip install --no-deps rxnmapper")
    folder = next((Path(spec.submodule_search_locations[0]) / "models").rglob("config.json")).parent
    words = {word: k for k, word in enumerate((folder / "vocab.txt").read_text().split("\n"))}
    rows = [[words["[CLS]"], *(words[t] for t in TOKEN.findall(reaction)), words["[SEP]"]] for reaction in REACTIONS]
    length = max(map(len, rows))
    ids = torch.zeros((len(rows) * STARTS, length), dtype=torch.long)
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    for k, row in enumerate(row for row in rows for _ in range(STARTS)):
        ids[k, : len(row)], mask[k, : len(row)] = torch.tensor(row), 1
        hidden = torch.arange(1 + 2 * (k % STARTS), len(row) - 1, STRIDE)
        labels[k, hidden] = ids[k, hidden]
        ids[k, hidden] = words["[MASK]"]
    model = AlbertForMaskedLM.from_pretrained(folder).eval()
    return model, {"input_ids": ids, "attention_mask": mask, "labels": labels}


def described(measure: sd.SpectralMeasure, file: str) -> dict[str, Any]:
    """Store a measure and return what the manifest says of it."""
    sd.save(HERE / file, measure)
    trace, square = measure.trace(lambda x: x), measure.trace(lambda x: x**2)
    return {
        "file": file,
        "dimension": measure.dimension,
        "steps": len(measure.alphas[0]),
        "probes": measure.num_probes,
        "smallest": float(min(nodes.min() for nodes in measure.nodes)),
        "largest": float(max(nodes.max() for nodes in measure.nodes)),
        "trace": [trace.value, trace.stderr],
        "frobenius_squared": [square.value, square.stderr],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--group-steps", type=int, default=24)
    arguments = parser.parse_args()
    model, batch = model_and_batch()
    curv = sdt.Curvature(model, "model", [batch], jvp_route="double backward")
    print(curv, curv.loss, flush=True)
    stored = json.loads(FILE.read_text())["spectra"] if FILE.exists() else {}
    manifest: dict[str, Any] = {
        "model": "AlbertForMaskedLM of rxnmapper 0.4.3",
        "parameters": curv.Hess.shape[0],
        "text": "two reactions of rxnmapper's README",
        "tokens": list(batch["input_ids"].shape),
        "predicted": int((batch["labels"] != -100).sum()),
        "loss": curv.loss,
        "torch": torch.__version__,
        "spectra": stored,
    }
    for name in ("Hess", "G", "H") if arguments.steps else ():
        density = curv.density(name, dual=False, method="fast_lanczos", num_steps=arguments.steps, num_probes=1)
        manifest["spectra"][name] = described(density.measure, f"reactions_{name}.npz")
        store(manifest)
        print(time.strftime("%H:%M:%S"), name, manifest["spectra"][name], flush=True)
    groups = curv.layer_densities(
        "Hess", by="role", method="fast_lanczos", num_steps=arguments.group_steps, num_probes=4
    )
    for name, density in groups.items():
        manifest["spectra"][f"Hess of {name}"] = described(density.measure, f"reactions_Hess_of_{name}.npz")
    found = sdt.heterogeneity(groups)
    manifest["jensen_shannon"] = pairs(found.names, found.jensen_shannon, found.jensen_shannon_stderr)
    manifest["w1"] = pairs(found.names, found.w1, found.w1_stderr)
    store(manifest)
    share = curv.off_diagonal("Hess", by="role").frobenius_share(num_probes=16)
    manifest["share_off_the_block_diagonal"] = list(share)
    store(manifest)
    print(found, share, sep="\n", flush=True)


def pairs(names: tuple[str, ...], values: Any, errors: Any) -> dict[str, list[float]]:
    """Return the values and errors of all pairs of groups."""
    numbered = list(enumerate(names))
    return {f"{a}, {b}": [float(values[i, j]), float(errors[i, j])] for i, a in numbered for j, b in numbered[i + 1 :]}


def store(manifest: dict[str, Any]) -> None:
    FILE.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
