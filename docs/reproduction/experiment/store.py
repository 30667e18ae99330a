"""Results as small files with a manifest, computed once and continued where they were interrupted."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import specdens as sd
from experiment.files import locked, replacing

Named = Mapping[str, NDArray[Any]]


class Missing(LookupError):
    """A result that has not been computed."""


class Store:
    """Results by name.

    Parameters
    ----------
    results
        The folder of what is kept: ``name.npz`` and ``manifest.json``.
    cache
        The folder of checkpoints, trained weights and data, which may grow large.
    compute
        Whether to compute what is missing; otherwise asking for it raises `Missing`.
    """

    def __init__(self, *, results: Path, cache: Path, compute: bool = True) -> None:
        self.results, self.cache, self.compute = results, cache, compute
        for folder in (results, cache / "checkpoints"):
            folder.mkdir(parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """Return whether a result is stored."""
        return (self.results / f"{name}.npz").exists()

    def measure(self, name: str, run: Callable[[sd.Monitor], sd.SpectralMeasure], **facts: Any) -> sd.SpectralMeasure:
        """Return a stored measure, or compute it.

        Parameters
        ----------
        name
            Of the result.
        run
            Computes it, with a monitor that writes checkpoints.
        **facts
            What the manifest should say about it.
        """
        path = self.results / f"{name}.npz"
        if not self.has(name):
            self._refuse(name)
            began = time.perf_counter()
            measure = run(self.monitor(name))
            with replacing(path) as temporary:
                sd.save(temporary, measure)
            said = {"steps": measure.num_steps, "probes": measure.num_probes, "products": measure.num_products}
            said |= {"method": measure.method, "dimension": measure.dimension, "seed": measure.seed}
            # a resumed run counts the seconds of all its parts; the rest is setting up
            self._note(name, {**said, "seconds": round(max(measure.seconds, time.perf_counter() - began), 1), **facts})
            self.checkpoint(name).unlink(missing_ok=True)
        return sd.load(path)

    def arrays(self, name: str, run: Callable[[], Named], **facts: Any) -> dict[str, NDArray[Any]]:
        """Return stored arrays by name, or compute them; for anything that is not a measure."""
        path = self.results / f"{name}.npz"
        if not self.has(name):
            self._refuse(name)
            began = time.perf_counter()
            arrays = run()
            with replacing(path) as temporary:
                np.savez_compressed(temporary, **arrays)
            self._note(name, {"seconds": round(time.perf_counter() - began, 1), **facts})
        with np.load(path, allow_pickle=False) as content:
            return {key: content[key] for key in content.files}

    def checkpoint(self, name: str) -> Path:
        """Return where the checkpoint of a run is."""
        return self.cache / "checkpoints" / f"{name}.npz"

    def monitor(self, name: str) -> sd.Monitor:
        """Return a monitor that prints now and then and writes checkpoints."""
        return sd.Monitor(progress=_Printer(name), checkpoint=self.checkpoint(name))

    @property
    def manifest(self) -> dict[str, dict[str, Any]]:
        """What is known of every stored result."""
        path = self.results / "manifest.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def _note(self, name: str, facts: dict[str, Any]) -> None:
        with locked(self.cache / "manifest.lock"):  # two processes may store at once
            content = {**self.manifest, name: {**facts, "versions": versions()}}
            with replacing(self.results / "manifest.json") as temporary:
                temporary.write_text(json.dumps(dict(sorted(content.items())), indent=1) + "\n")
        print(f"{name}: stored after {facts.get('seconds')} s", flush=True)

    def _refuse(self, name: str) -> None:
        if not self.compute:
            raise Missing(f"{name} has not been computed: run without --draw-only")


def versions() -> dict[str, str]:
    """Return the versions of what results depend on."""
    try:
        own = metadata.version("specdens")
    except metadata.PackageNotFoundError:
        own = "source"
    return {
        "specdens": own, "numpy": np.__version__, "torch": torch.__version__, "python": platform.python_version()
    }  # fmt: skip


class _Printer:
    """Prints the progress of a run every half minute."""

    def __init__(self, name: str) -> None:
        self.name, self.printed = name, time.perf_counter()

    def __call__(self, progress: sd.Progress) -> None:
        if time.perf_counter() - self.printed > 30:
            self.printed = time.perf_counter()
            print(f"{self.name}: {progress.stage} {progress.num_products}/{progress.total}", flush=True)
