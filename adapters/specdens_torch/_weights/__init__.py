"""Spectra of the weight matrices of a model."""
