"""Text from files and names, made safe to print."""

from __future__ import annotations

import unicodedata

# Control characters begin terminal escapes; formats and surrogates reorder or hide text.
_UNSAFE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def printable(text: str, *, keep: str = "\n\t") -> str:
    r"""Return the text with control characters as escapes, ``\x1b`` for instance, but for those to keep."""
    return "".join(
        char if char in keep or unicodedata.category(char) not in _UNSAFE else ascii(char)[1:-1] for char in text
    )
