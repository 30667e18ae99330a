"""Laplacians of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse


def graph_laplacian(G: Any, *, normalized: bool = True) -> scipy.sparse.csr_array[Any]:
    """Return the Laplacian of an undirected graph as a sparse array.

    Parameters
    ----------
    G : graph or sparse or dense array
        A networkx or igraph graph, or a symmetric adjacency matrix with non-negative weights. Weights of a networkx
        graph are its edge attribute "weight".
    normalized : bool, default True
        I − D^(−½) A D^(−½), with spectrum in [0, 2], or else D − A. The row of a vertex without neighbours is zero.

    Returns
    -------
    scipy.sparse.csr_array
        The Laplacian. Its attribute `known_bounds`, (0, 2) or (0, twice the largest degree), tells `spectral_bounds`
        and `kpm` where the spectrum ends.

    Raises
    ------
    TypeError
        If G is neither a graph nor a matrix.
    ValueError
        If the graph is directed, its adjacency matrix is not symmetric, or a weight is negative.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> np.linalg.eigvalsh(sd.graph_laplacian(path).toarray()).round(12) + 0.0
    array([0., 1., 2.])
    """
    A = _adjacency(G)
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"`G` must be a square adjacency matrix; got shape {A.shape}. See sd.gram for data.")
    if abs(A - A.T).max() > 0:
        raise ValueError(
            "`G` must be undirected; got an adjacency matrix that is not symmetric. Use A + A.T to forget directions."
        )
    if A.nnz and A.data.min() < 0:
        raise ValueError(f"`G` must have weights that are not negative; got {A.data.min():g}")
    degrees = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
    if not normalized:
        largest = float(np.max(degrees, initial=0.0))
        return _with_bounds(scipy.sparse.csr_array(scipy.sparse.diags_array(degrees) - A), 2 * largest)
    root = np.divide(1.0, np.sqrt(degrees), out=np.zeros(degrees.size), where=degrees > 0)
    scale = scipy.sparse.diags_array(root)
    identity = scipy.sparse.diags_array((degrees > 0).astype(np.float64))
    return _with_bounds(scipy.sparse.csr_array(identity - scale @ A @ scale), 2.0)


def is_graph(G: Any) -> bool:
    """Return whether G is a graph of networkx or igraph."""
    return hasattr(G, "get_adjacency_sparse") or (hasattr(G, "adjacency") and hasattr(G, "nodes"))


def _with_bounds(L: scipy.sparse.csr_array[Any], largest: float) -> scipy.sparse.csr_array[Any]:
    """Return a Laplacian that says where its spectrum lies; sums and multiples of it do not inherit this."""
    setattr(L, "known_bounds", (0.0, largest))  # noqa: B010 (SciPy's type has no such attribute)
    return L


def _adjacency(G: Any) -> Any:
    """Return the adjacency matrix of a graph in float64."""
    is_directed = getattr(G, "is_directed", None)
    if is_directed is not None and is_directed():
        raise ValueError("`G` must be undirected; got a directed graph. Use G.to_undirected(), or as_undirected().")
    if hasattr(G, "get_adjacency_sparse"):  # igraph
        return scipy.sparse.csr_array(G.get_adjacency_sparse(), dtype=np.float64)
    if hasattr(G, "adjacency") and hasattr(G, "nodes"):  # networkx
        index = {node: i for i, node in enumerate(G.nodes)}
        edges = [(index[u], index[v], d.get("weight", 1)) for u, v, d in G.edges(data=True)]
        rows, columns, weights = (np.array([edge[k] for edge in edges]) for k in range(3))
        loops = rows == columns
        half = scipy.sparse.coo_array((weights.astype(np.float64), (rows, columns)), shape=(len(index),) * 2)
        mirrored = scipy.sparse.coo_array(
            (weights[~loops].astype(np.float64), (columns[~loops], rows[~loops])), shape=half.shape
        )
        return scipy.sparse.csr_array(half + mirrored)
    if scipy.sparse.issparse(G) or isinstance(G, np.ndarray | list | tuple):
        A: Any = scipy.sparse.csr_array(G, dtype=np.float64)  # type: ignore[arg-type]
        A.eliminate_zeros()
        return A
    raise TypeError(f"`G` must be a networkx or igraph graph or an adjacency matrix; got {type(G).__name__}")
