"""Class components of AntiBERTy (BERT, 26 million parameters) on antibody sequences: the classes are amino acids.

The model comes with the wheel ``antiberty`` 0.1.3 (MIT licence; later ones hold no weights). The sequences are the two
of its README and the variable domains of trastuzumab and adalimumab. Every fifth residue is masked, and the loss is
that of the masked residues.

    pip install "specdens[torch]" transformers && pip install --no-deps antiberty==0.1.3
    python antibodies.py --steps 32 --rank 12

Stores one measure per spectrum and ``antibodies.json``; what is there already is not computed again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import specdens_torch as sdt
import torch
from transformers import BertConfig, BertForMaskedLM

import specdens as sd

HERE = Path(__file__).parent
FILE = HERE / "antibodies.json"
SEQUENCES = {
    "README, heavy": (
        "EVQLVQSGPEVKKPGTSVKVSCKASGFTFMSSAVQWVRQARGQRLEWIGWIVIGSGNTNYAQKFQERVTITRDMSTSTAYMELSSLRSEDTAVYYCAAPYCSSISCNDGFDIW"
        "GQGTMVTVS"
    ),
    "README, light": (
        "DVVMTQTPFSLPVSLGDQASISCRSSQSLVHSNGNTYLHWYLQKPGQSPKLLIYKVSNRFSGVPDRFSGSGSGTDFTLKISRVEAEDLGVYFCSQSTHVPYTFGGGTKLEIK"
    ),
    "trastuzumab, heavy": (
        "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQ"
        "GTLVTVSS"
    ),
    "trastuzumab, light": (
        "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPPTFGQGTKVEIK"
    ),
    "adalimumab, heavy": (
        "EVQLVESGGGLVQPGRSLRLSCAASGFTFDDYAMHWVRQAPGKGLEWVSAITWNSGHIDYADSVEGRFTISRDNAKNSLYLQMNSLRAEDTAVYYCAKVSYLSTASSLDYWG"
        "QGTLVTVSS"
    ),
    "adalimumab, light": (
        "DIQMTQSPSSLSASVGDRVTITCRASQGIRNYLAWYQQKPGKAPKLLIYAASTLQSGVPSRFSGSGSGTDFTLTISSLQPEDVATYYCQRYNRAPYTFGQGTKVEIK"
    ),
}
STRIDE = 5


def model_and_batch() -> tuple[Any, dict[str, torch.Tensor], list[str]]:
    """Return the model, one batch with every fifth residue masked, and the names of the tokens."""
    spec = importlib.util.find_spec("antiberty")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install the model first: pip install --no-deps antiberty==0.1.3")
    folder = Path(spec.submodule_search_locations[0]) / "trained_models"
    tokens = (folder / "vocab.txt").read_text().split()
    number = {token: k for k, token in enumerate(tokens)}
    rows = [[number["[CLS]"], *(number[residue] for residue in s), number["[SEP]"]] for s in SEQUENCES.values()]
    ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    for k, row in enumerate(rows):
        ids[k, : len(row)], mask[k, : len(row)] = torch.tensor(row), 1
        hidden = torch.arange(1 + k % STRIDE, len(row) - 1, STRIDE)
        labels[k, hidden] = ids[k, hidden]
        ids[k, hidden] = number["[MASK]"]
    return masked_language_model(folder / "AntiBERTy_md_smooth"), {
        "input_ids": ids, "attention_mask": mask, "labels": labels,
    }, tokens  # fmt: skip


def masked_language_model(folder: Path) -> BertForMaskedLM:
    """Return AntiBERTy without its heads for species, chain and graft, which masked residues do not lead through."""
    weights = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    model = BertForMaskedLM(BertConfig.from_pretrained(folder)).eval()
    missing, left = model.load_state_dict(weights, strict=False)
    known = ("bert.pooler.", "cls.species.", "cls.chain.", "cls.graft.", "bert.embeddings.position_ids")
    if missing or [name for name in left if not name.startswith(known)]:
        raise SystemExit(f"the weights do not fit: {missing} are missing, {left} are left over")
    return model


def described(measure: sd.SpectralMeasure, file: str) -> dict[str, Any]:
    """Store a measure and return what the manifest says of it."""
    sd.save(HERE / file, measure)
    trace, square = measure.trace(lambda x: x), measure.trace(lambda x: x**2)
    return {
        "file": file,
        "steps": len(measure.alphas[0]),
        "smallest": float(measure.nodes[0].min()),
        "largest": float(measure.nodes[0].max()),
        "trace": [trace.value, trace.stderr],
        "frobenius_squared": [square.value, square.stderr],
    }


def traces(curv: sdt.Curvature, tokens: list[str], num_probes: int) -> dict[str, list[float]]:
    """Return Tr(B2c) for every amino acid c that occurs, with its error and its number of residues."""
    found = curv.class_traces(num_probes=num_probes)
    rows = zip(found.values, found.stderr, found.counts, strict=True)
    return {tokens[c]: [float(x), float(error), int(n)] for c, (x, error, n) in enumerate(rows) if n}


def largest(curv: sdt.Curvature, rank: int) -> list[dict[str, Any]]:
    """Return the largest eigenvalues of A1 + A2 + B1 with their labels and overlaps."""
    found = curv.class_spectrum(rank=rank)
    rows = zip(found.eigenvalues, found.labels, found.overlap, strict=True)
    return [{"eigenvalue": float(x), "label": label, "overlap": float(share)} for x, label, share in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--rank", type=int, default=12)
    parser.add_argument("--num-probes", type=int, default=8, help="of the traces")
    arguments = parser.parse_args()
    model, batch, tokens = model_and_batch()
    curv = sdt.Curvature(model, "model", [batch], jvp_route="double backward")
    print(curv, curv.loss, flush=True)
    manifest: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    manifest |= {
        "model": "AntiBERTy of antiberty 0.1.3, masked language model",
        "parameters": curv.Hess.shape[0],
        "text": list(SEQUENCES),
        "tokens": list(batch["input_ids"].shape),
        "predicted": int((batch["labels"] != -100).sum()),
        "loss": curv.loss,
        "torch": torch.__version__,
    }

    def computed(name: str, compute: Callable[[], Any]) -> None:
        if name not in manifest:
            manifest[name] = compute()
            FILE.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
            print(time.strftime("%H:%M:%S"), name, manifest[name], flush=True)

    def spectrum(name: str) -> dict[str, Any]:
        measure = sd.fast_lanczos(curv.operator(name), num_steps=arguments.steps, seed=0)
        return described(measure, f"antibodies_{name}.npz")

    computed("Tr(B2c)", lambda: traces(curv, tokens, arguments.num_probes))
    for name in ("Hess", "G", "A1", "B1"):
        computed(name, lambda name=name: spectrum(name))  # type: ignore[misc]
    computed("largest of A1 + A2 + B1", lambda: largest(curv, arguments.rank))


if __name__ == "__main__":
    main()
