"""The scripts of docs/reproduction import their shared library by its own name."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("sklearn")

SCRIPTS = Path(__file__).parents[2] / "docs" / "reproduction"
sys.path.insert(0, str(SCRIPTS))
