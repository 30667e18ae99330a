"""The settings of the reproduction: which networks, data and sizes, in full and for quick runs."""

from __future__ import annotations

import argparse
import copy
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import specdens_torch as sdt
import torch
from torch import nn

from experiment import datasets
from experiment.store import Store
from experiment.training import Recipe, Trained, sweep_errors, train

HERE = Path(__file__).resolve().parent.parent
CACHE_VARIABLE = "SPECDENS_REPRODUCTION_CACHE"
NETWORK_CHOICES = ("vgg11", "vgg11-quarter")
TITLES = {"vgg11": "VGG11", "vgg11-quarter": "VGG11 with a quarter of the channels"}
DATA_TITLES = {"mnist": "MNIST", "fashion": "FashionMNIST"}
RATES = (0.004, 0.0159, 0.063)  # the paper has 100 from 0.0001 to 0.25
SWEEP_EPOCHS, SWEEP_TESTS = 40, 2000
SUBSET_SEED = 0
NUM_CLASSES = {"mnist": 10, "fashion": 10, "digits": 4, "cifar10": 10, "cifar100": 100}


@dataclass(frozen=True)
class Study:
    """Where results are, and how large the computations are.

    Parameters
    ----------
    store
        Results and checkpoints.
    figures
        The folder of the pictures.
    tiny
        Whether to use small networks, scikit-learn's digits and few steps, so that a script runs in seconds.
    """

    store: Store
    figures: Path
    tiny: bool = False

    def steps(self, number: int) -> int:
        """Return the number of Lanczos steps: as asked for, or few."""
        return min(number, 16) if self.tiny else number

    def case(self, network: str, dataset: str, per_class: int, *, epochs: int = 200) -> Case:
        """Return a network on a data set with so many examples per class."""
        if self.tiny:
            network, dataset, per_class, epochs = f"{network.split('-')[0]}-tiny", "digits", min(per_class, 4), 6
        return Case(self, network, dataset, per_class, epochs)

    def save(self, figure: Any, name: str, *, network: str = "vgg11") -> Path:
        """Write a figure and return its path; a network other than the paper's is part of the name."""
        name = name if network == "vgg11" else f"{name}-{network}"
        self.figures.mkdir(parents=True, exist_ok=True)
        path = self.figures / f"{name}.png"
        figure.savefig(path, dpi=110)
        print(f"wrote {path}")
        return path


@dataclass(frozen=True)
class Case:
    """A network on so many training examples per class of a data set, and as many test examples."""

    study: Study
    network: str
    dataset: str
    per_class: int
    epochs: int

    @property
    def name(self) -> str:
        """A name for results."""
        return f"{self.network}-{self.dataset}-{self.per_class}"

    @cached_property
    def data(self) -> datasets.Dataset:
        """The whole data set."""
        return datasets.load(self.dataset, folder=self.study.store.cache / "data")

    def examples(self, split: str) -> datasets.Examples:
        """Return the balanced subset of the "train" or "test" examples."""
        return datasets.balanced(getattr(self.data, split), per_class=self.per_class, seed=SUBSET_SEED)

    @cached_property
    def learning_rate(self) -> float:
        """The learning rate of least test error after a short training, stored with the results."""
        rates, epochs = (RATES[1:3], 2) if self.study.tiny else (RATES, SWEEP_EPOCHS)

        def sweep() -> dict[str, np.ndarray]:
            recipe = replace(self._recipe(rates[0]), epochs=epochs)
            errors = sweep_errors(
                recipe, rates, self.examples("train"), self.data, cache=self.study.store.cache, num_test=SWEEP_TESTS
            )
            return {"learning_rates": np.array(list(errors)), "test_errors": np.array(list(errors.values()))}

        facts = {**self.facts("train"), "epochs": epochs, "test_examples": SWEEP_TESTS}
        found = self.study.store.arrays(f"{self.name}-sweep", sweep, **facts)
        return float(found["learning_rates"][np.argmin(found["test_errors"])])

    def trained(self, *, keep: tuple[int, ...] = (), at: int | None = None, rate: float | None = None) -> Trained:
        """Return the trained network, with the learning rate of the sweep unless one is given."""
        recipe = self._recipe(self.learning_rate if rate is None else rate)
        cache = self.study.store.cache
        return train(recipe, self.examples("train"), self.data, cache=cache, keep=keep, at=at)

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return NUM_CLASSES[self.dataset]

    def copy_of(self, network: nn.Module) -> nn.Module:
        """Return a copy of a network in eval mode."""
        return copy.deepcopy(network).eval()

    def curvature(self, split: str, network: nn.Module) -> sdt.Curvature:
        """Return the curvature of a trained network on the "train" or "test" examples."""
        examples = self.examples(split)
        batches = list(zip(examples.images.split(256), examples.labels.split(256), strict=True))
        return sdt.Curvature(network, torch.nn.CrossEntropyLoss(), batches)

    def facts(self, split: str) -> dict[str, Any]:
        """Return what the manifest says about a result."""
        return {
            "network": self.network, "dataset": self.dataset, "per_class": self.per_class, "split": split,
            "epochs": self.epochs, "training_seed": 0, "subset_seed": SUBSET_SEED, "tiny": self.study.tiny,
        }  # fmt: skip

    def _recipe(self, rate: float) -> Recipe:
        return Recipe(self.network, self.dataset, self.per_class, rate, epochs=self.epochs)


def parse(description: str, *, choices: dict[str, tuple[str, ...]] | None = None) -> tuple[Study, argparse.Namespace]:
    """Read the command line that all scripts share.

    Parameters
    ----------
    description
        What the script does.
    choices
        Further options of the script, name -> values; the first is the default.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tiny", action="store_true", help="a small network and few steps: seconds instead of hours")
    parser.add_argument("--draw-only", action="store_true", help="draw from stored results; compute nothing")
    parser.add_argument("--compute-only", action="store_true", help="compute and store; draw nothing")
    parser.add_argument("--cache", type=Path, help=f"checkpoints, weights, data (or ${CACHE_VARIABLE})")
    parser.add_argument("--results", type=Path, help="stored results")
    parser.add_argument("--figures", type=Path, help="pictures")
    for name, values in (choices or {}).items():
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    options = parser.parse_args()
    default = os.environ.get(CACHE_VARIABLE, "~/.cache/specdens-reproduction")
    cache = (options.cache or Path(default)).expanduser()
    base = cache / "tiny" if options.tiny else HERE  # a quick run must not replace what is stored
    store = Store(results=options.results or base / "results", cache=cache, compute=not options.draw_only)
    if options.tiny:
        torch.set_num_threads(1)  # threads cost more than they save
    return Study(store, options.figures or base / "figures", tiny=options.tiny), options
