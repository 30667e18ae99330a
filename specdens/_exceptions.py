"""Warnings that specdens raises."""

from __future__ import annotations


class SpecdensWarning(UserWarning):
    """A result is doubtful: the message says which, by how much, and what to do.

    Examples
    --------
    >>> import warnings, specdens as sd
    >>> warnings.simplefilter("error", sd.SpecdensWarning)  # end a script where a result is doubtful
    >>> warnings.simplefilter("default", sd.SpecdensWarning)
    """
