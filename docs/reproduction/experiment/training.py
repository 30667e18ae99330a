"""Training by the paper's recipe, resumable after every epoch."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from experiment import networks
from experiment.datasets import Dataset, Examples
from experiment.files import replacing

_WRITE_INTERVAL = 20.0  # seconds between two checkpoints, at least
_EVALUATED = 1000  # examples per forward pass


@dataclass(frozen=True)
class Recipe:
    """Everything that the weights of a trained network depend on, but for versions and rounding."""

    network: str
    dataset: str
    per_class: int
    learning_rate: float
    epochs: int = 200
    batch_size: int = 128
    momentum: float = 0.9
    weight_decay: float = 5e-4
    seed: int = 0

    @property
    def name(self) -> str:
        """A name for files."""
        return (
            f"{self.network}-{self.dataset}-{self.per_class}-epochs{self.epochs}-lr{self.learning_rate:.3g}"
            f"-seed{self.seed}"
        )

    def learning_rate_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, from 1: divided by ten after one and after two thirds of them."""
        return self.learning_rate * 0.1 ** sum(epoch > self.epochs * third / 3 for third in (1, 2))


@dataclass(frozen=True)
class Trained:
    """A network in eval mode with what was recorded while it was trained."""

    network: nn.Module
    recipe: Recipe
    history: list[dict[str, float]]

    @property
    def test_error(self) -> float:
        """The share of misclassified test examples after the last epoch."""
        return self.history[-1]["test_error"]


def train(
    recipe: Recipe,
    examples: Examples,
    dataset: Dataset,
    *,
    cache: Path,
    keep: tuple[int, ...] = (),
    at: int | None = None,
    num_test: int = 10_000,
    curve: bool = True,
) -> Trained:
    """Train a network, or continue, or load it if it has been trained.

    Parameters
    ----------
    recipe
        What to train and how.
    examples
        The training examples.
    dataset
        For the number of classes and the test examples, on which the error is recorded at some epochs.
    cache
        The folder of checkpoints and weights.
    keep
        Epochs of which to keep the weights, beside the last. Epoch 0 is the initialisation.
    at
        The kept epoch to return; by default the last.
    num_test
        How many test examples the error after the last epoch is measured on, from the first; 500 along the way.
    curve
        Whether to record errors at about 20 epochs along the way.
    """
    folder = cache / "training" / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    at = recipe.epochs if at is None else at
    if not all(_weights(folder, epoch).exists() for epoch in {*keep, recipe.epochs, at}):
        _Run(recipe, examples, dataset, folder, {*keep, recipe.epochs, at}, num_test, curve).run()
    network = _fresh(recipe, dataset)
    network.load_state_dict(torch.load(_weights(folder, at), weights_only=True))
    history = json.loads((folder / "history.json").read_text())
    return Trained(network.eval(), recipe, history)


def sweep_errors(
    recipe: Recipe, rates: tuple[float, ...], examples: Examples, dataset: Dataset, *, cache: Path, num_test: int
) -> dict[float, float]:
    """Train with each learning rate and return the test errors after the last epoch.

    A choice by test error, as in the paper, makes the error of the chosen one optimistic.
    """
    return {
        rate: train(
            replace(recipe, learning_rate=rate), examples, dataset, cache=cache, num_test=num_test, curve=False
        ).test_error
        for rate in rates
    }


def batches_of_epoch(num_examples: int, *, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Return the indices of the batches of an epoch: at most `batch_size` each, of equal sizes up to one.

    A last batch of two examples (130 in batches of 128) would ruin the statistics of batch norm.
    """
    order = np.random.default_rng([seed, epoch]).permutation(num_examples)
    return np.array_split(order, -(-num_examples // batch_size))


def error_and_loss(network: nn.Module, examples: Examples) -> tuple[float, float]:
    """Return the share of misclassified examples and the mean loss, in eval mode."""
    network.eval()
    wrong, loss = 0, 0.0
    with torch.no_grad():
        for x, y in zip(examples.images.split(_EVALUATED), examples.labels.split(_EVALUATED), strict=True):
            z = network(x)
            wrong += int((z.argmax(1) != y).sum())
            loss += float(nn.functional.cross_entropy(z, y, reduction="sum"))
    return wrong / len(examples), loss / len(examples)


class _Run:
    def __init__(
        self, recipe: Recipe, examples: Examples, dataset: Dataset, folder: Path, keep: set[int], num_test: int,
        curve: bool,
    ) -> None:  # fmt: skip
        self.recipe, self.examples, self.dataset, self.folder, self.keep = recipe, examples, dataset, folder, keep
        self.num_test = num_test
        self.network = _fresh(recipe, dataset)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=recipe.learning_rate, momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
        )  # fmt: skip
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0
        along = np.unique(np.geomspace(1, recipe.epochs, 24).round().astype(int)).tolist() if curve else []
        self.evaluated = {*keep, *along}

    def run(self) -> None:
        start = self._resume()
        if start == 0:
            self._record(0)
        began = written = time.perf_counter()
        before = self.seconds
        for epoch in range(start + 1, self.recipe.epochs + 1):
            self._epoch(epoch)
            self.seconds = before + time.perf_counter() - began
            self._record(epoch)
            if time.perf_counter() - written > _WRITE_INTERVAL:
                self._write(epoch)
                written = time.perf_counter()
        (self.folder / "checkpoint.pt").unlink(missing_ok=True)

    def _epoch(self, epoch: int) -> None:
        recipe = self.recipe
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.learning_rate_at(epoch)
        for index in batches_of_epoch(len(self.examples), batch_size=recipe.batch_size, seed=recipe.seed, epoch=epoch):
            chosen = torch.as_tensor(index)
            self.optimizer.zero_grad()
            z = self.network(self.examples.images[chosen])
            nn.functional.cross_entropy(z, self.examples.labels[chosen]).backward()
            self.optimizer.step()

    def _record(self, epoch: int) -> None:
        if epoch in self.evaluated:
            error, loss = error_and_loss(self.network, self.examples)
            test = _first(self.dataset.test, self.num_test if epoch == self.recipe.epochs else 500)
            test_error, test_loss = error_and_loss(self.network, test)
            row = {"epoch": epoch, "train_error": error, "train_loss": loss, "test_error": test_error}
            self.history.append({**row, "test_loss": test_loss, "test_examples": len(test), "seconds": self.seconds})
            print(
                f"{self.recipe.name}: epoch {epoch}, train {error:.3f}, loss {loss:.2e}, test {test_error:.3f}",
                flush=True,
            )
        if epoch in self.keep:
            with replacing(self.folder / "history.json") as temporary:
                temporary.write_text(json.dumps(self.history, indent=1))
            with replacing(_weights(self.folder, epoch)) as temporary:
                torch.save(self.network.state_dict(), temporary)

    def _write(self, epoch: int) -> None:
        state: dict[str, Any] = {"epoch": epoch, "network": self.network.state_dict(), "history": self.history}
        state |= {"optimizer": self.optimizer.state_dict(), "seconds": self.seconds}
        with replacing(self.folder / "checkpoint.pt") as temporary:
            torch.save(state, temporary)

    def _resume(self) -> int:
        path = self.folder / "checkpoint.pt"
        if not path.exists():
            return 0
        state = torch.load(path, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.history, self.seconds = state["history"], state["seconds"]
        return int(state["epoch"])


def _first(examples: Examples, number: int) -> Examples:
    return Examples(examples.images[:number], examples.labels[:number])


def _fresh(recipe: Recipe, dataset: Dataset) -> nn.Module:
    channels = dataset.train.images.shape[1]
    return networks.build(recipe.network, channels=channels, num_classes=dataset.num_classes, seed=recipe.seed)


def _weights(folder: Path, epoch: int) -> Path:
    return folder / f"weights-{epoch}.pt"
