"""Eigenpairs: the result, top_eigenpairs and subspace_iteration."""
