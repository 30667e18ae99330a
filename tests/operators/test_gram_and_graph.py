"""Gram matrices of data and Laplacians of graphs, against dense linear algebra."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg

import specdens as sd

RNG = np.random.default_rng(0)
DATA = {"tall": RNG.standard_normal((60, 25)) + 1, "wide": RNG.standard_normal((25, 60)) + 1}


def forms(X):
    torch = pytest.importorskip("torch")
    return {
        "numpy": X,
        "sparse": sp.csr_array(X),
        "matrix-free": scipy.sparse.linalg.aslinearoperator(X),
        "torch": torch.from_numpy(X),
    }


@pytest.mark.slow
@pytest.mark.parametrize("shape", DATA)
@pytest.mark.parametrize("form", ["numpy", "sparse", "matrix-free", "torch"])
@pytest.mark.parametrize("center", [False, True])
def test_a_gram_matrix_has_the_squared_singular_values(shape, form, center):
    X = DATA[shape]
    Y = X - X.mean(axis=0) if center else X
    m, n = X.shape
    eigenvalues = np.linalg.svd(Y, compute_uv=False)[::-1] ** 2 / m  # but for zeros
    A = sd.gram(forms(X)[form], center=center, divisor=m)
    assert A.dimension == n
    assert A.shape == (min(m, n),) * 2
    measure = sd.slow_lanczos(A, num_probes=40)
    assert measure.dimension == n
    zeros = measure.count(-1e-9, 1e-9).value
    assert zeros >= max(n - m, 0) - 1e-6
    for f in (np.square, np.sqrt):
        value, stderr = measure.trace(lambda x, f=f: f(np.maximum(x, 0)))
        assert abs(value - np.sum(f(np.maximum(eigenvalues, 0)))) <= 4 * stderr + 2e-7
    assert measure.bounds().hi == pytest.approx(eigenvalues[-1])


def test_complex_data_have_a_hermitian_gram_matrix():
    X = DATA["tall"] + 1j * RNG.standard_normal((60, 25))
    measure = sd.slow_lanczos(sd.gram(X))
    assert measure.bounds().hi == pytest.approx(np.linalg.norm(X, 2) ** 2)


def test_what_is_no_data_is_refused():
    with pytest.raises(ValueError, match=r"`X` must be data of shape \(m, n\); got shape \(3,\)"):
        sd.gram(np.ones(3))
    with pytest.raises(ValueError, match="`divisor` must be positive"):
        sd.gram(np.ones((3, 2)), divisor=0)


@pytest.mark.parametrize("normalized", [False, True])
def test_the_laplacian_of_a_graph_is_that_of_networkx(normalized):
    G = nx.gnp_random_graph(60, 0.05, seed=1)  # with vertices alone
    G.add_edge(3, 3)
    ours = sd.graph_laplacian(G, normalized=normalized)
    theirs = nx.normalized_laplacian_matrix(G) if normalized else nx.laplacian_matrix(G)
    assert np.allclose(ours.toarray(), theirs.toarray())
    adjacency = nx.to_scipy_sparse_array(G, dtype=float)
    for given in (adjacency, adjacency.toarray()):
        assert np.allclose(sd.graph_laplacian(given, normalized=normalized).toarray(), theirs.toarray())
    bounds = sd.fast_lanczos(ours).bounds()
    assert bounds.lo > -1e-6


class IgraphLike:
    """The part of igraph's interface that is used."""

    def __init__(self, num_vertices, edges, weights=None):
        self.edges, self.num_vertices = edges, num_vertices
        self.es = {} if weights is None else {"weight": weights}
        self.es = type("Edges", (dict,), {"attributes": dict.keys})(self.es)

    def is_directed(self):
        return False

    def get_adjacency_sparse(self):
        raise AssertionError("knows no weights")

    def get_edgelist(self):
        return self.edges

    def vcount(self):
        return self.num_vertices

    def ecount(self):
        return len(self.edges)


EDGES, WEIGHTS = [(0, 1), (1, 2), (2, 3), (3, 3), (0, 2)], [2.0, 0.5, 3.0, 1.5, 1.0]


def networkx_laplacian(weights):
    G = nx.Graph()
    G.add_nodes_from(range(5))  # one of them alone
    G.add_weighted_edges_from([(*edge, weight) for edge, weight in zip(EDGES, weights, strict=True)])
    return nx.normalized_laplacian_matrix(G).toarray()


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_weights_of_igraph_count(weights):
    """Igraph keeps them in g.es["weight"], of which its adjacency matrix knows nothing unless asked."""
    expected = networkx_laplacian(weights or [1.0] * len(EDGES))
    assert np.allclose(sd.graph_laplacian(IgraphLike(5, EDGES, weights)).toarray(), expected)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_graphs_of_igraph_itself_are_read_alike(weights):
    igraph = pytest.importorskip("igraph")
    G = igraph.Graph(5, EDGES)
    if weights is not None:
        G.es["weight"] = weights
    assert np.allclose(sd.graph_laplacian(G).toarray(), networkx_laplacian(weights or [1.0] * len(EDGES)))


def test_a_list_of_edges_is_a_graph_and_not_a_matrix():
    for edges in ([(0, 1), (1, 2)], {(0, 1), (1, 2)}, [(0, 1, 1.0), (1, 2, 1.0)], [(np.int64(0), 1), (1, 2)]):
        expected = nx.normalized_laplacian_matrix(nx.path_graph(3)).toarray()
        assert np.allclose(sd.graph_laplacian(edges).toarray(), expected)
    weighted = [(u, v, w) for (u, v), w in zip(EDGES, WEIGHTS, strict=True)]
    assert np.allclose(sd.graph_laplacian(weighted).toarray(), networkx_laplacian(WEIGHTS)[:4, :4])
    rows = [[0, 1], [1, 0]]  # lists are the rows of a matrix
    assert np.allclose(sd.graph_laplacian(rows).toarray(), [[1, -1], [-1, 1]])


@pytest.mark.parametrize("G", [nx.Graph(), np.zeros((0, 0)), IgraphLike(0, [])], ids=["networkx", "matrix", "igraph"])
def test_an_empty_graph_has_no_spectrum(G):
    with pytest.raises(ValueError, match="`G` must have vertices; got an empty graph"):
        sd.graph_laplacian(G)


def test_a_graph_without_edges_has_zeros_only():
    assert sd.graph_laplacian(nx.empty_graph(4)).nnz == 0


@pytest.mark.parametrize(
    "A", [nx.to_scipy_sparse_array(nx.gnp_random_graph(60, 0.2, seed=0, directed=True), dtype=float)]
)
@pytest.mark.parametrize("form", ["csr", "bsr", "dense", "wrapped"])
@pytest.mark.parametrize("call", [sd.spectral_density, sd.fast_lanczos, sd.slow_lanczos, sd.kpm, sd.spectral_bounds])
def test_a_matrix_that_is_not_symmetric_is_told_so_without_a_word_of_models(A, form, call):
    given = {"csr": A, "bsr": A.tobsr(), "dense": A.toarray(), "wrapped": 2 * sd.as_operator(A)}[form]
    message = (
        r"the operator is not symmetric: .* A matrix that differs from A.T, as that of a directed graph, .* sd.gram"
    )
    with pytest.raises(ValueError, match=message) as caught:
        call(given)
    assert "ropout" not in str(caught.value)


@pytest.mark.parametrize("directed", [False, True])
def test_graphs_are_named_with_their_conversion(directed):
    G = nx.gnp_random_graph(10, 0.3, directed=directed)
    with pytest.raises(TypeError, match=r"got a graph \(networkx\). Its Laplacian is sd.graph_laplacian"):
        sd.spectral_density(G)
    with pytest.raises(ValueError, match=r"`A` must be square; got shape \(3, 5\). For rectangular data see sd.gram"):
        sd.spectral_density(np.ones((3, 5)))


def test_directed_graphs_and_other_things_are_refused_in_words():
    with pytest.raises(ValueError, match="`G` must be undirected; got a directed graph"):
        sd.graph_laplacian(nx.path_graph(2, create_using=nx.DiGraph))
    with pytest.raises(ValueError, match="got an adjacency matrix that is not symmetric"):
        sd.graph_laplacian(np.array([[0.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="weights that are not negative; got -1"):
        sd.graph_laplacian(np.array([[0.0, -1.0], [-1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"square adjacency matrix; got shape \(2, 3\)"):
        sd.graph_laplacian(np.ones((2, 3)))
    with pytest.raises(TypeError, match="`G` must be a networkx or igraph graph or an adjacency matrix; got int"):
        sd.graph_laplacian(3)


@pytest.mark.parametrize("rows", [((0, 1), (1, 0)), ((0, 1, 0), (1, 0, 1), (0, 1, 0))])
def test_a_tuple_of_rows_is_a_matrix_and_no_list_of_edges(rows):
    expected = sd.graph_laplacian(np.array(rows), normalized=False)
    assert np.array_equal(sd.graph_laplacian(rows, normalized=False).toarray(), expected.toarray())
