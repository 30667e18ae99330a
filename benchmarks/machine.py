"""What the figures were measured on: the processor, its memory, and the versions of the libraries."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

import numpy as np

from specdens._vectors.threads import num_threads

LIBRARIES = (
    "specdens",
    "numpy",
    "scipy",
    "numba",
    "torch",
    "imate",
    "scikit-primate",
    "curvlinops-for-pytorch",
    "kwant",
)


def processor() -> str:
    """Return the name of the processor and how many cores there are."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.machine()}, {os.cpu_count()} cores"


def caches() -> str:
    """Return the sizes of the second and third cache, where the system tells them."""
    found: dict[str, str] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, size = ((folder / name).read_text().strip() for name in ("level", "size"))
        except OSError:
            continue
        if level in ("2", "3"):
            found[f"L{level}"] = size
    return ", ".join(f"{level} {size}" for level, size in found.items())


def memory() -> str:
    """Return the size of the memory, where the system tells it."""
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.3g} GB"
    except (AttributeError, OSError, ValueError):
        return ""


def blas() -> str:
    """Return the name and the version of NumPy's BLAS."""
    found = dict(np.show_config(mode="dicts") or {}).get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', '')} {found.get('version', '')}".strip()


def version(library: str) -> str:
    """Return the version of a library, or that it is not there."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:  # perhaps built from its source and not by pip
        module = importlib.import_module(library) if importlib.util.find_spec(library) else None
        return str(getattr(module, "__version__", "not installed"))


def machine() -> dict[str, str]:
    """Return everything that is known, without names of hosts or folders."""
    found = {"processor": processor(), "caches": caches(), "memory": memory(), "threads used": str(num_threads())}
    found |= {"system": platform.system(), "python": platform.python_version()}
    found |= {library: version(library) for library in LIBRARIES} | {"BLAS of NumPy": blas()}
    return {name: value for name, value in found.items() if value}
