"""Operators: the protocol, conversion, matrices, functions, sums, wrappers, deflation and checks."""
