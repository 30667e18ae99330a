"""Claims of the paper, each with a test against the stored results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from experiment.store import Missing
from experiment.study import Study


class Finding(NamedTuple):
    """What a test found."""

    holds: bool | None
    """None if it holds in some of the cases."""
    number: str
    """The number behind the verdict, with its uncertainty."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper."""

    text: str
    where: str
    """The figure or section that makes it."""
    test: Callable[[Study, str], Finding]
    """Called with the study and the network's name; raises `Missing` where nothing is stored."""
    caveat: str
    per_network: bool = True
    """Whether it is tested on a network at 13 examples per class, rather than on the grid or a synthetic matrix."""

    def row(self, study: Study, networks: dict[str, str]) -> str:
        """Return the claim as a row of a table, tested on the first network that has been computed."""
        for network, name in networks.items() if self.per_network else [("", "")]:
            try:
                finding = self.test(study, network)
            except Missing:
                continue
            verdict = {True: "holds", False: "**does not hold**", None: "holds in part"}[finding.holds]
            where = f"{name}: " if name else ""
            return _row(f"{self.text} ({self.where})", verdict, f"{where}{finding.number}", self.caveat)
        return _row(f"{self.text} ({self.where})", "not tested", "", self.caveat)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def all_or_part(passed: Iterable[bool]) -> bool | None:
    """Return whether all cases pass, or none does; None if some do."""
    found = set(map(bool, passed))
    return found.pop() if len(found) == 1 else None


CLAIMS: list[Claim] = []


def claim(
    text: str, *, where: str, caveat: str = "", per_network: bool = True
) -> Callable[[Callable[[Study, str], Finding]], Callable[[Study, str], Finding]]:
    """Register a function as the test of a claim."""

    def register(test: Callable[[Study, str], Finding]) -> Callable[[Study, str], Finding]:
        CLAIMS.append(Claim(text, where, test, caveat, per_network))
        return test

    return register
