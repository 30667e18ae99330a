"""Spectral measures: what a run leaves behind and everything that is read from it."""
