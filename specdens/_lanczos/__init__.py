"""Lanczos: the recurrence, with and without reorthogonalisation, to a tolerance, and spectral bounds."""
