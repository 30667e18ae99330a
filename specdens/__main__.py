"""Run the demonstration: ``python -m specdens``."""

from pathlib import Path

from specdens._demo import run_demo

if __name__ == "__main__":
    print(run_demo(Path("specdens-demo.png")))
