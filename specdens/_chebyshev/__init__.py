"""Chebyshev moments and the kernels of the kernel polynomial method."""
