"""Laplacians of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from specdens._operators.given_arrays import check_finite, plain_array


def graph_laplacian(G: Any, *, normalized: bool = True) -> scipy.sparse.csr_array[Any]:
    """Return the Laplacian of an undirected graph as a sparse array.

    Parameters
    ----------
    G : graph or sparse or dense array
        A networkx or igraph graph, a symmetric adjacency matrix with non-negative weights, or a list of edges
        ``(u, v)`` or ``(u, v, weight)`` between vertices 0, 1, … Weights of a graph are its edge attribute "weight".
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
        If the graph is empty or directed, its adjacency matrix is not symmetric, or a weight is negative or not finite.

    Examples
    --------
    >>> import numpy as np, specdens as sd
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> np.linalg.eigvalsh(sd.graph_laplacian(path).toarray()).round(12) + 0.0
    array([0., 1., 2.])
    """
    A = _adjacency(G)
    check_finite("G", A.data)
    if not A.shape[0]:
        raise ValueError("`G` must have vertices; got an empty graph")
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


def _is_edge_list(G: Any) -> bool:
    """Return whether G is a list or set of tuples (u, v) or (u, v, weight) of vertices 0, 1, …; else it is a matrix."""
    if not isinstance(G, list | set | frozenset) or not G:
        return False
    if not all(isinstance(edge, tuple) and len(edge) in (2, 3) for edge in G):
        return False
    return all(isinstance(vertex, int | np.integer) and vertex >= 0 for edge in G for vertex in edge[:2])


def _from_edges(edges: list[Any], num_vertices: int) -> Any:
    """Return the adjacency matrix of edges (u, v, weight), each given once; edges given twice add up."""
    rows, columns = (np.array([edge[k] for edge in edges], dtype=np.int64) for k in (0, 1))
    weights = np.array([edge[2] for edge in edges], dtype=np.float64)
    shape, loops = (num_vertices,) * 2, rows == columns
    half = scipy.sparse.coo_array((weights, (rows, columns)), shape=shape)
    mirrored = scipy.sparse.coo_array((weights[~loops], (columns[~loops], rows[~loops])), shape=shape)
    return scipy.sparse.csr_array(half + mirrored)


def _adjacency(G: Any) -> Any:
    """Return the adjacency matrix of a graph in float64."""
    is_directed = getattr(G, "is_directed", None)
    if is_directed is not None and is_directed():
        raise ValueError("`G` must be undirected; got a directed graph. Use G.to_undirected(), or as_undirected().")
    if hasattr(G, "get_adjacency_sparse"):  # igraph
        weights = G.es["weight"] if "weight" in G.es.attributes() else [1.0] * G.ecount()
        edges = [(*edge, weight) for edge, weight in zip(G.get_edgelist(), weights, strict=True)]
        return _from_edges(edges, G.vcount())
    if hasattr(G, "adjacency") and hasattr(G, "nodes"):  # networkx
        index = {node: i for i, node in enumerate(G.nodes)}
        return _from_edges([(index[u], index[v], d.get("weight", 1)) for u, v, d in G.edges(data=True)], len(index))
    if _is_edge_list(G):
        edges = [(int(u), int(v), *(weight or (1.0,))) for u, v, *weight in G]
        return _from_edges(edges, 1 + max(max(edge[:2]) for edge in edges))
    G = plain_array("G", G)
    if scipy.sparse.issparse(G) or isinstance(G, np.ndarray):
        A: Any = scipy.sparse.csr_array(G, dtype=np.float64)  # type: ignore[arg-type]
        A.eliminate_zeros()
        return A
    raise TypeError(f"`G` must be a networkx or igraph graph or an adjacency matrix; got {type(G).__name__}")
