"""Deprecated: import `Curvature` from `specdens_torch`."""

from __future__ import annotations

import warnings
from typing import Any

from specdens_torch import _curvature


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    value = getattr(_curvature, name)
    warnings.warn(
        f"specdens_torch.curvature.{name} is deprecated; use specdens_torch.{name}", DeprecationWarning, stacklevel=2
    )
    return value
