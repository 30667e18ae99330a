"""Distributions on the real line: intervals, point masses and piecewise linear distribution functions."""
