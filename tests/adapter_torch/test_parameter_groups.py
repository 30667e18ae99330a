"""Groups of parameters that a person recognises: roles and blocks over the names of real models."""

from __future__ import annotations

import pytest
from specdens_torch._parameter_groups import parameter_groups
from specdens_torch._parameter_roles import role_of_names
from torch import nn

# name of a parameter, class of its module (and of modules around it, by their name), role
NAMES = [
    # nn.TransformerEncoder and nn.TransformerDecoder
    ("layers.0.self_attn.in_proj_weight", {"": "MultiheadAttention"}, "attention"),
    ("layers.0.self_attn.out_proj.weight", {"": "NonDynamicallyQuantizableLinear"}, "attention"),
    ("layers.0.multihead_attn.out_proj.weight", {"": "NonDynamicallyQuantizableLinear"}, "attention"),
    ("layers.0.linear1.weight", {"": "Linear"}, "mlp"),
    ("layers.0.norm2.weight", {"": "LayerNorm"}, "norm"),
    # GPT-2
    ("transformer.h.0.attn.c_attn.weight", {"": "Conv1D"}, "attention"),
    ("transformer.h.0.attn.c_proj.weight", {"": "Conv1D"}, "attention"),
    ("transformer.h.0.mlp.c_fc.weight", {"": "Conv1D"}, "mlp"),
    ("transformer.h.0.mlp.c_proj.weight", {"": "Conv1D"}, "mlp"),
    ("transformer.h.0.ln_1.weight", {"": "LayerNorm"}, "norm"),
    ("transformer.wte.weight", {"": "Embedding"}, "embedding"),
    ("lm_head.weight", {"": "Linear"}, "head"),
    # Llama, Mixtral, GPT-NeoX
    ("model.layers.0.self_attn.q_proj.weight", {"": "Linear"}, "attention"),
    ("model.layers.0.mlp.gate_proj.weight", {"": "Linear"}, "mlp"),
    ("model.layers.0.input_layernorm.weight", {"": "LlamaRMSNorm"}, "norm"),
    ("model.layers.0.block_sparse_moe.gate.weight", {"": "Linear"}, "router"),
    ("model.layers.0.block_sparse_moe.experts.3.w1.weight", {"": "Linear"}, "mlp"),
    ("gpt_neox.layers.0.attention.query_key_value.weight", {"": "Linear"}, "attention"),
    ("gpt_neox.layers.0.attention.dense.weight", {"": "Linear"}, "attention"),
    ("embed_out.weight", {"": "Linear"}, "head"),
    ("score.weight", {"": "Linear"}, "head"),
    # BERT, T5, BART
    ("bert.embeddings.word_embeddings.weight", {"": "Embedding"}, "embedding"),
    ("bert.encoder.layer.0.attention.self.query.weight", {"": "Linear"}, "attention"),
    ("bert.encoder.layer.0.attention.output.dense.weight", {"": "Linear"}, "attention"),
    ("bert.encoder.layer.0.attention.output.LayerNorm.weight", {"": "LayerNorm"}, "norm"),
    ("bert.encoder.layer.0.intermediate.dense.weight", {"": "Linear"}, "mlp"),
    ("bert.encoder.layer.0.output.dense.weight", {"": "Linear"}, "mlp"),
    ("bert.pooler.dense.weight", {"": "Linear"}, "head"),
    ("classifier.weight", {"": "Linear"}, "head"),
    ("cls.predictions.transform.dense.weight", {"": "Linear"}, "head"),
    ("qa_outputs.weight", {"": "Linear"}, "head"),
    ("encoder.block.0.layer.0.SelfAttention.q.weight", {"": "Linear"}, "attention"),
    ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", {"": "Embedding"}, "embedding"),
    ("encoder.block.0.layer.1.DenseReluDense.wi.weight", {"": "Linear"}, "mlp"),
    ("model.decoder.layers.0.encoder_attn.out_proj.weight", {"": "Linear"}, "attention"),
    ("model.decoder.layers.0.fc1.weight", {"": "Linear"}, "mlp"),
    # vision transformers
    ("class_token", {"": "VisionTransformer"}, "embedding"),
    ("encoder.pos_embedding", {"": "Encoder"}, "embedding"),
    ("encoder.layers.encoder_layer_0.self_attention.in_proj_weight", {"": "MultiheadAttention"}, "attention"),
    ("encoder.layers.encoder_layer_0.mlp.0.weight", {"": "Linear"}, "mlp"),
    ("heads.head.weight", {"": "Linear"}, "head"),
    ("patch_embed.proj.weight", {"": "Conv2d"}, "embedding"),
    ("blocks.0.attn.qkv.weight", {"": "Linear"}, "attention"),
    ("vit.embeddings.patch_embeddings.projection.weight", {"": "Conv2d"}, "embedding"),
    ("mlp_head.1.weight", {"": "Linear"}, "head"),
    ("transformer.layers.0.1.net.1.weight", {"": "Linear", "1": "FeedForward"}, "mlp"),
    # convolutional networks
    ("layer1.0.conv1.weight", {"": "Conv2d"}, "convolution"),
    ("layer2.0.downsample.0.weight", {"": "Conv2d"}, "convolution"),
    ("layer2.0.downsample.1.weight", {"": "BatchNorm2d"}, "norm"),
    ("fc.weight", {"": "Linear"}, "head"),
    ("fc1.weight", {"": "Linear"}, "mlp"),
    ("features.0.weight", {"": "Conv2d"}, "convolution"),
    ("features.0.0.weight", {"": "Conv2d", "features.0": "Conv2dNormActivation"}, "convolution"),
    ("features.1.0.block.3.weight", {"": "Linear"}, "mlp"),
    ("classifier.6.weight", {"": "Linear"}, "head"),
    ("stages.0.blocks.0.mlp.fc1.weight", {"": "Linear"}, "mlp"),
    ("head.fc.weight", {"": "Linear"}, "head"),
    # written by hand
    ("blocks.0.sa.heads.1.key.weight", {"": "Linear", "sa": "MultiHeadAttention"}, "attention"),
    ("blocks.0.sa.proj.weight", {"": "Linear", "sa": "MultiHeadAttention"}, "attention"),
    ("attn_head.weight", {"": "Linear"}, "attention"),
    ("lstm.weight_ih_l0", {"": "LSTM"}, "recurrent"),
    ("backbone.layers.0.mixer.in_proj.weight", {"": "Linear"}, "mixer"),
    ("0.weight", {"": "Linear"}, "mlp"),
    ("0.weight", {"": "Conv2d"}, "convolution"),
    ("scale", {"": "Mine"}, "other"),
]


@pytest.mark.parametrize(("name", "classes", "role"), NAMES, ids=[f"{name} {kind['']}" for name, kind, _ in NAMES])
def test_roles_are_those_that_a_person_would_name(name, classes, role):
    *path, leaf = name.split(".")
    paths = [".".join(path[: k + 1]) for k in range(len(path))]
    found = (classes.get(where, classes.get(part, "Module")) for where, part in zip(paths, path, strict=True))
    kinds = ["Model", *found]
    kinds[-1] = classes[""]
    assert role_of_names(path, kinds, leaf) == role


def test_attention_of_torch_is_not_the_head():
    model = nn.ModuleDict({
        "tokens": nn.Embedding(9, 8),
        "decoder": nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2),
        "lm_head": nn.Linear(8, 9),
    })  # fmt: skip
    names = [name for name, _ in model.named_parameters()]
    groups = parameter_groups(model, names, "role")
    assert list(groups) == ["embedding", "attention", "mlp", "norm", "head"]
    assert groups["head"] == ["lm_head.weight", "lm_head.bias"]
    both = parameter_groups(model, names, "block role")
    assert {"decoder block 0 attention", "decoder block 1 mlp", "head", "embedding"} < set(both)


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("encoder.layer.3.output.dense.weight", "encoder block 3"),
        ("encoder.layers.encoder_layer_3.mlp.0.weight", "encoder block 3"),
        ("layer1.0.conv1.weight", "block 1.0"),
        ("layer2.0.conv1.weight", "block 2.0"),
        ("transformer.h.11.mlp.c_fc.weight", "block 11"),
    ],
)
def test_blocks_of_other_stages_have_other_names(name, block):
    model = nn.Module()
    *path, leaf = name.split(".")
    where = model
    for part in path:
        where.add_module(part, nn.Module())
        where = getattr(where, part)
    where.register_parameter(leaf, nn.Parameter(nn.Linear(1, 1).weight))
    assert list(parameter_groups(model, [name], "block")) == [block]
