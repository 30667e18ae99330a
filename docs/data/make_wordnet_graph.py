"""Make wordnet_nouns.npz: which noun is a kind of which, from WordNet 3.0 (Debian's package ``wordnet-base``).

A node is a set of synonyms, an edge joins it with each of its hypernyms ("is a kind of"; instances are left out, as
Paris is not a kind of capital). Stored are the edges, sorted, as differences, and the first word of every node.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np


def main(source: str = "/usr/share/wordnet/data.noun") -> None:
    """Read WordNet's file of nouns and write the graph."""
    parents: dict[int, list[int]] = {}
    for line in Path(source).read_text(encoding="ascii").splitlines():
        if line.startswith("  "):
            continue  # the licence
        fields = line.split(" | ")[0].split()
        offset, words = int(fields[0]), int(fields[3], 16)
        pointers = fields[5 + 2 * words :]  # symbol, offset, part of speech, source and target, four for each pointer
        parents[offset] = [int(pointers[k + 1]) for k in range(0, len(pointers) - 3, 4) if pointers[k] == "@"]
    used = sorted({node for child, found in parents.items() for node in (child, *found) if found})
    number = {offset: k for k, offset in enumerate(used)}
    edges = sorted({tuple(sorted((number[c], number[p]))) for c, found in parents.items() for p in found})
    i, j = np.array(edges).T
    path = Path(__file__).parent / "wordnet_nouns.npz"
    np.savez_compressed(path, n=len(number), i=np.diff(i, prepend=0).astype("uint32"), j=(j - i).astype("uint32"))
    print(len(number), "nouns,", len(edges), "edges,", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
