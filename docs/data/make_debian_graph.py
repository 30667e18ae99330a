"""Make debian_dependencies.npz: who depends on whom among the packages that apt knows here.

Run it on a Debian system. The graph is undirected; an edge joins a package with each that it depends on (``Depends``
and ``Pre-Depends``, every alternative), as far as that is a real package. Stored are the edges, sorted, as differences.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np


def main() -> None:
    """Read apt's lists and write the graph."""
    text = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    needs: dict[str, str] = {}
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", block, re.MULTILINE))
        if "Package" in fields:
            needs[fields["Package"]] = ", ".join(fields.get(name, "") for name in ("Pre-Depends", "Depends"))
    number = {name: i for i, name in enumerate(sorted(needs))}
    edges = set()
    for name, line in needs.items():
        for other in re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", line):
            if other in number and other != name:
                edges.add(tuple(sorted((number[name], number[other]))))
    i, j = np.array(sorted(edges)).T
    print(len(number), "packages,", len(i), "edges")
    path = Path(__file__).parent / "debian_dependencies.npz"
    np.savez_compressed(path, n=len(number), i=np.diff(i, prepend=0).astype("uint16"), j=j.astype("uint16"))
    assert len(number) < 2**16
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
