"""Densities on a grid: the result, its estimators and their smoothing."""
