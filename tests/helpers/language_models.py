"""Tiny random models of Hugging Face in float64, batches for them, and their losses written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 11


@dataclass(frozen=True)
class Case:
    """A model, batches of unequal lengths for it, and its loss as the sum over a batch's targets."""

    model: nn.Module
    batches: list[dict[str, Any]]
    total: Callable[[Any, dict[str, Any]], Tensor]
    """(output, batch) -> the summed loss, in float64."""
    count: Callable[[dict[str, Any]], int]

    def loss(self, call: Callable[..., Any]) -> Tensor:
        """Return the loss over all batches, `call` being the model."""
        total = sum(self.total(call(**batch), batch) for batch in self.batches)
        return total / sum(self.count(batch) for batch in self.batches)


def summed(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    rows = logits.double().reshape(-1, logits.shape[-1])
    return F.cross_entropy(rows, labels.reshape(-1), reduction="sum", label_smoothing=smoothing)


def shifted(output: Any, batch: dict[str, Any], smoothing: float = 0.0) -> Tensor:
    return summed(output.logits[:, :-1], batch["labels"][:, 1:], smoothing)


def aligned(output: Any, batch: dict[str, Any]) -> Tensor:
    return summed(output.logits, batch["labels"])


def tokens(rows: int, length: int, seed: int, *, padded: bool = True) -> dict[str, Any]:
    """Return random tokens with labels; the last row is padded with -100."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (rows, length), generator=generator)
    labels, mask = ids.clone(), torch.ones_like(ids)
    if padded:
        labels[-1, -2:], mask[-1, -2:] = -100, 0
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def next_tokens(batch: dict[str, Any]) -> int:
    return int((batch["labels"][:, 1:] != -100).sum())


def own_tokens(batch: dict[str, Any]) -> int:
    return int((batch["labels"] != -100).sum())


def _decoder(name: str, **options: Any) -> Case:
    import transformers

    config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, pad_token_id=0, **options)
    cls = {"GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM")
    model = getattr(transformers, cls)(config)
    return Case(model, [tokens(2, 5, 0), tokens(3, 4, 1)], shifted, next_tokens)


def _mixtral() -> Case:
    options = {"hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
    case = _decoder(
        "Mixtral", num_key_value_heads=1, num_local_experts=2, num_experts_per_tok=1, output_router_logits=True,
        router_aux_loss_coef=0.5, experts_implementation="eager", **options,
    )  # fmt: skip

    def total(output: Any, batch: dict[str, Any]) -> Tensor:
        return shifted(output, batch) + next_tokens(batch) * 0.5 * output.aux_loss

    return Case(case.model, case.batches, total, next_tokens)


def _llama() -> Case:
    return _decoder(
        "Llama", hidden_size=4, intermediate_size=6, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )


def _gpt2() -> Case:
    return _decoder("GPT2", n_embd=4, n_layer=1, n_head=2, n_positions=6, bos_token_id=1, eos_token_id=2)


def _mamba() -> Case:
    case = _decoder("Mamba", hidden_size=4, state_size=2, num_hidden_layers=1, time_step_rank=1, use_mambapy=False)
    return Case(case.model, [tokens(2, 4, 0), tokens(1, 3, 1)], shifted, next_tokens)


def _bert() -> Case:
    import transformers

    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=4,
        max_position_embeddings=6, pad_token_id=0,
    )  # fmt: skip
    return Case(transformers.BertForMaskedLM(config), [tokens(2, 5, 0), tokens(3, 4, 1)], aligned, own_tokens)


def _t5() -> Case:
    import transformers

    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=4, d_kv=2, d_ff=4, num_layers=1, num_heads=2, decoder_start_token_id=0,
        pad_token_id=0, relative_attention_num_buckets=4,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    return Case(model, [tokens(2, 5, 0), tokens(3, 4, 1)], aligned, own_tokens)


def _bart() -> Case:
    import transformers

    config = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=4, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=4, decoder_ffn_dim=4, max_position_embeddings=6, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
    )  # fmt: skip
    model = transformers.BartForConditionalGeneration(config)
    return Case(model, [tokens(2, 5, 0), tokens(3, 4, 1)], aligned, own_tokens)


def _vit() -> Case:
    import transformers

    config = transformers.ViTConfig(
        hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=4, image_size=4, patch_size=2,
        num_channels=1, num_labels=3,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    batches = [
        {"pixel_values": torch.randn(n, 1, 4, 4, generator=generator).double(), "labels": torch.arange(n) % 3}
        for n in (4, 3)
    ]
    return Case(transformers.ViTForImageClassification(config), batches, aligned, own_tokens)


CASES: dict[str, Callable[[], Case]] = {
    "GPT-2": _gpt2, "Llama": _llama, "Mixtral": _mixtral, "BERT": _bert, "T5": _t5, "BART": _bart, "ViT": _vit,
    "Mamba": _mamba,
}  # fmt: skip


def make_case(name: str) -> Case:
    """Return a case with its model in float64, in eval mode, with weights that are not all small."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        case = CASES[name]()
        with torch.no_grad():
            for p in case.model.parameters():
                p.add_(0.3 * torch.randn_like(p))
    case.model.double().eval()
    return case


def dense_hessian(loss: Tensor, parameters: list[Tensor]) -> Tensor:
    """Return the Hessian by plain double backward, one row after the other."""
    gradient = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True)
    rows = []
    for entry in _flat(gradient, parameters):
        row: Any = [None] * len(parameters)
        if entry.requires_grad:
            row = torch.autograd.grad(entry, parameters, retain_graph=True, allow_unused=True)
        rows.append(_flat(row, parameters))
    return torch.stack(rows)


def _flat(tensors: Any, parameters: list[Tensor]) -> Tensor:
    pairs = zip(tensors, parameters, strict=True)
    return torch.cat([torch.zeros_like(p).reshape(-1) if t is None else t.reshape(-1) for t, p in pairs])


def dense_operator(operator: Any) -> Tensor:
    """Return an operator as a matrix."""
    return operator @ torch.eye(operator.shape[0], dtype=torch.float64)
