"""Models of Hugging Face: the loss that they compute themselves, against dense Hessians in float64."""

from __future__ import annotations

import functools

import pytest
import specdens_torch as sdt
import torch
import torch.nn.functional as F
from torch import nn
from torch_cases import assert_close

transformers = pytest.importorskip("transformers")

from language_models import CASES, dense_hessian, dense_operator, make_case, shifted, tokens  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

# Norms of these models compute in float32, whatever the dtype of the model.
ROUNDED = {"Llama", "Mixtral", "T5", "Mamba"}


@functools.cache
def reference(name):
    case = make_case(name)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        H = dense_hessian(case.loss(case.model), list(case.model.parameters()))
    return case, (H + H.T) / 2


@pytest.mark.parametrize("name", CASES)
def test_the_models_own_loss_has_the_dense_hessian(name):
    case, expected = reference(name)
    curv = sdt.Curvature(case.model, "model", case.batches)
    rtol = 1e-6 if name in ROUNDED else 1e-10
    assert curv.loss == pytest.approx(float(case.loss(case.model).detach()), rel=1e-7 if name in ROUNDED else 1e-12)
    found = dense_operator(curv.Hess)
    assert_close(found, expected, rtol)
    G = dense_operator(curv.G)
    assert float(torch.linalg.eigvalsh((G + G.T) / 2)[0]) > -1e-6 * float(G.norm())
    assert_close(G + dense_operator(curv.H), found, rtol)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"Mixtral"}))
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_cross_entropy_takes_the_targets_that_the_model_takes(name, cache):
    case, expected = reference(name)
    curv = sdt.Curvature(case.model, nn.CrossEntropyLoss(), case.batches, cache=cache)
    x = torch.randn(expected.shape[0], 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(curv.Hess @ x, expected @ x, 1e-6 if name in ROUNDED else 1e-10)


def test_a_router_loss_beside_cross_entropy_is_refused_by_its_value():
    case = make_case("Mixtral")
    with pytest.raises(ValueError, match=r'is not that alone; .* shifted by one place. Use loss="model"'):
        sdt.Curvature(case.model, nn.CrossEntropyLoss(), case.batches)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_smoothing_agrees_with_the_trainer(smoothing):
    from transformers.trainer_pt_utils import LabelSmoother

    case = make_case("GPT-2")
    (batch, *_) = case.batches
    curv = sdt.Curvature(case.model, nn.CrossEntropyLoss(label_smoothing=smoothing), [batch])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        output = case.model(**batch)
    theirs = LabelSmoother(epsilon=smoothing)(output, batch["labels"], shift_labels=True)
    assert curv.loss == pytest.approx(float(theirs.detach()), rel=1e-6)
    expected = dense_hessian(shifted(output, batch, smoothing) / 6, list(case.model.parameters()))
    assert_close(dense_operator(curv.Hess), expected, 1e-10)


def test_parts_of_a_batch_with_its_number_of_items_are_one_batch():
    case = make_case("GPT-2")
    number = sum(case.count(batch) for batch in case.batches)
    parts = [{**batch, "num_items_in_batch": torch.tensor(number)} for batch in case.batches]
    curv, whole = (sdt.Curvature(case.model, "model", data) for data in (parts, case.batches))
    total = sum(float(case.model(**part).loss.detach()) for part in parts)  # what the Trainer accumulates
    assert curv.loss == pytest.approx(total, rel=1e-6)
    x = torch.randn(curv.Hess.shape[0], dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(curv.Hess @ x, whole.Hess @ x, 1e-12)


def test_logits_and_labels_of_the_same_place_are_refused_for_a_causal_model():
    case = make_case("GPT-2")

    def logits(model, batch):
        return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits

    with pytest.raises(ValueError, match=r"labels of the same place .* Leave out forward="):
        sdt.Curvature(case.model, nn.CrossEntropyLoss(), case.batches, forward=logits)
    with pytest.raises(ValueError, match="labels of the same place"):
        sdt.Curvature(case.model, lambda f, y: F.cross_entropy(f.mT, y), case.batches[:1], forward=logits)
    batch = tokens(2, 4, 0, padded=False)
    with pytest.raises(ValueError, match="the targets are the inputs themselves"):
        sdt.Curvature(case.model, nn.CrossEntropyLoss(), [(batch["input_ids"], batch["input_ids"])])


def test_targets_that_are_shifted_already_are_taken_as_they_are():
    case = make_case("GPT-2")
    ids = tokens(2, 6, 0, padded=False)["input_ids"]
    curv = sdt.Curvature(case.model, nn.CrossEntropyLoss(), [(ids[:, :-1], ids[:, 1:])])
    whole = sdt.Curvature(case.model, "model", [{"input_ids": ids, "labels": ids}])
    x = torch.randn(curv.Hess.shape[0], dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert_close(curv.Hess @ x, whole.Hess @ x, 1e-10)


def test_a_half_precision_model_keeps_its_logits_in_its_own_dtype():
    case = make_case("GPT-2")
    case.model.bfloat16()
    curv = sdt.Curvature(case.model, "model", case.batches)
    graph = next(iter(curv._engine.cache))[0]
    assert graph.evaluate().residual.dtype == torch.float64
    assert graph._dtype == torch.bfloat16


def test_two_losses_in_one_model_are_kept():
    config = transformers.BertConfig(
        vocab_size=7, hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=4,
        max_position_embeddings=6,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.BertForPreTraining(config).double().eval()
    ids = torch.arange(10).reshape(2, 5) % 7
    batch = {"input_ids": ids, "labels": ids, "next_sentence_label": torch.tensor([0, 1])}
    curv = sdt.Curvature(model, "model", [batch])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = dense_hessian(model(**batch).loss, list(model.parameters()))
    assert_close(dense_operator(curv.Hess), expected, 1e-10)
    assert_close(dense_operator(curv.G) + dense_operator(curv.H), expected, 1e-10)
