"""Losses and their derivatives with respect to the outputs."""
