"""The grid of epochs × sample sizes on which the dynamics are followed.

It uses VGG11 with a quarter of the channels (1,772,202 parameters) on FashionMNIST: 24 networks with three spectra each
at full width would take days on two cores. Everything else is the paper's recipe.
"""

from __future__ import annotations

from experiment.spectra import Spectra
from experiment.study import Case, Study

NETWORK, DATASET = "vgg11-quarter", "fashion"
SIZES = (5, 10, 19, 36)
EPOCHS = (2, 6, 15, 35, 66, 200)


def sizes(study: Study) -> tuple[int, ...]:
    """Return the numbers of examples per class."""
    return (2, 4) if study.tiny else SIZES


def epochs(study: Study) -> tuple[int, ...]:
    """Return the epochs."""
    return (2, 6) if study.tiny else EPOCHS


def case(study: Study, size: int) -> Case:
    """Return the network with so many examples per class."""
    return study.case(NETWORK, DATASET, size)


def panel(study: Study, size: int, epoch: int) -> Spectra:
    """Return the spectra on the training examples after an epoch."""
    return Spectra(case(study, size), "train", epoch=epoch, keep=epochs(study))


def grid(study: Study) -> dict[tuple[int, int], Spectra]:
    """Return all panels as (epoch, size) -> spectra, the cheap ones first."""
    return {(epoch, size): panel(study, size, epoch) for size in sizes(study) for epoch in epochs(study)}
