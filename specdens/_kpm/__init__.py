"""The kernel polynomial method: the Chebyshev recurrence and the function `kpm`."""
