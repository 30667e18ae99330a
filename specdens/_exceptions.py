"""Warnings that specdens raises."""

from __future__ import annotations


class SpecdensWarning(UserWarning):
    """A result is doubtful: the message says which, by how much, and what to do."""
