"""Substitutes for layers whose gradients can be accumulated in place."""
