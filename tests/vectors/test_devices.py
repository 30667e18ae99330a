"""Everything stays on the device: no stray CPU tensor, even of shape (), and one wait for the device per step.

The `meta` device stands in for a GPU. PyTorch itself lets CPU tensors of shape () mix with those of any device, which
costs a transfer each time; the mode below does not.
"""

from __future__ import annotations

import numpy as np
import pytest

import specdens as sd
from specdens._lanczos.recurrence import Recurrence
from specdens._operators.consistency import check_determinism
from specdens._running.start_vectors import start_block
from specdens._vectors.base import Terms, Vectors, dtype_name
from specdens._vectors.factory import vectors_like
from specdens._vectors.probes import gaussian_probe_block

torch = pytest.importorskip("torch")
TorchDispatchMode = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode
tree_leaves = pytest.importorskip("torch.utils._pytree").tree_leaves

N, K = 50, 3
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
COLUMNS = pytest.mark.parametrize("columns", [(), (K,)], ids=["vector", "block"])


class OneDevice(TorchDispatchMode):
    """Refuse operations whose tensors lie on different devices; note the operations that wait for the device."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        devices = {leaf.device.type for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        if len(devices) > 1:
            raise AssertionError(f"{func} mixes {sorted(devices)}")
        if "local_scalar_dense" in str(func) or "nonzero" in str(func):
            self.waits.append(str(func))
        return func(*args, **kwargs)


@pytest.fixture
def transfers(monkeypatch):
    """Answer every transfer to the host with ones of the right shape, and list the shapes."""
    seen = []

    def to_host(self, x):
        if isinstance(x, np.ndarray):
            return x
        assert x.device.type == "meta"
        seen.append(tuple(x.shape))
        return np.ones(x.shape, dtype=dtype_name(x.dtype))

    monkeypatch.setattr(Vectors, "to_host", to_host)
    return seen


def on_meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def assert_all_on_meta(*arrays):
    assert [x.device.type for x in arrays] == ["meta"] * len(arrays)


def test_the_mode_refuses_a_cpu_scalar_that_torch_would_take():
    assert (on_meta(2) * torch.tensor(2.0)).device.type == "meta"
    with OneDevice(), pytest.raises(AssertionError, match=r"mul.Tensor mixes \['cpu', 'meta'\]"):
        on_meta(2) * torch.tensor(2.0)


@DTYPES
@COLUMNS
def test_all_arithmetic_stays_on_the_device(dtype, columns):
    x, y, z = (on_meta(N, *columns, dtype=dtype) for _ in range(3))
    Q = on_meta(N, 4, dtype=dtype)
    vectors = vectors_like(x)
    with OneDevice() as mode:
        a = vectors.from_host(np.ones(columns), vectors.wide)
        c = vectors.coefficients(Q, x)
        assert_all_on_meta(a, c, vectors.zeros((N,)), vectors.copy(x), vectors.combine(Q, c))
        assert_all_on_meta(vectors.dot(x, y), vectors.norm(x), vectors.axpy(-a, x, y))
        assert_all_on_meta(*vectors.three_term(y, x, z, Terms(a, a, a)))
        assert_all_on_meta(vectors.scale(a, x), vectors.scale(vectors.dot(x, y), x), vectors.subtract(Q, c, x))
        assert_all_on_meta(vectors.assign(x, (slice(0, 2), ...), y[:2]))
    assert mode.waits == []


@DTYPES
@pytest.mark.parametrize("num_probes", [1, K])
def test_lanczos_steps_stay_on_the_device(dtype, num_probes, transfers):
    A = sd.as_operator(on_meta(N, N, dtype=dtype))
    indices = tuple(range(num_probes))
    with OneDevice() as mode:
        run = Recurrence.start(A, indices, start_block(A, "gaussian", indices, seed=0))
        del transfers[:]
        for _ in range(3):
            run.step(A, check=False)
            assert_all_on_meta(run.v, run.v_prev)
    assert transfers == [(2, num_probes) if num_probes > 1 else (2,)] * 3
    assert mode.waits == []
    assert run.num_products == 3 * num_probes


@pytest.mark.parametrize("kind", ["gaussian", "rademacher"])
def test_start_vectors_are_sent_to_the_device(kind, transfers):
    A = sd.as_operator(on_meta(N, N))
    with OneDevice():
        assert_all_on_meta(start_block(A, kind, (0, 1), seed=0), gaussian_probe_block(A.vectors, N, (0, 1), seed=0))
        assert_all_on_meta(start_block(A, np.ones((N, 2)), (0, 1), seed=0))
        assert_all_on_meta(start_block(A, on_meta(N, 2), (0, 1), seed=0))


@COLUMNS
def test_the_determinism_check_stays_on_the_device(columns, monkeypatch):
    norms = iter([1.0, 0.0, 1.0])  # of the start vector, of the difference of two products, of a product
    monkeypatch.setattr(Vectors, "to_host", lambda self, x: np.full(x.shape, next(norms)))
    A = sd.as_operator(on_meta(N, N))
    v = on_meta(N, *columns)
    with OneDevice():
        assert_all_on_meta(check_determinism(A, v, A @ v))


@COLUMNS
def test_operators_made_from_operators_stay_on_the_device(columns):
    A = sd.as_operator(on_meta(N, N))
    Q = on_meta(N, 2)
    pairs = sd.EigenPairs(np.ones(2), Q, np.zeros(2), np.ones(2, dtype=bool), num_products=0, seconds=0.0)
    x = on_meta(N, *columns)
    deflated = sd.deflate(A, pairs)
    with OneDevice() as mode:
        for B in (2 * A - A, sd.Combination([(1.0, A)], shift=3.0), sd.Projected(A, Q), sd.Counted(A), deflated):
            assert_all_on_meta(B @ x, B.project(x), B.apply_within(x))
        B = sd.normalize(deflated, bounds=(-1, 2))
        assert_all_on_meta(B @ x, B.project(x), B.apply_within(x))
    assert mode.waits == []


def test_half_precision_matrices_become_float32_on_their_device():
    for dtype in (torch.bfloat16, torch.float16):
        A = sd.as_operator(on_meta(N, N, dtype=dtype))
        assert (A.vectors.name, A.device.type) == ("float32", "meta")
        assert_all_on_meta(A @ on_meta(N))


def test_a_function_and_a_class_answer_on_the_device_that_is_named():
    class Identity:
        shape, dtype, device = (N, N), torch.float32, "meta"

        def __matmul__(self, x):
            return x

    f = sd.as_operator(lambda x: 2 * x, shape=N, dtype="float32", like=on_meta(1))
    for A in (f, sd.as_operator(Identity())):
        assert A.device.type == "meta"
        with OneDevice():
            assert_all_on_meta(A @ on_meta(N), A @ on_meta(N, K))


@pytest.mark.parametrize("num_probes", [1, K])
def test_a_step_waits_for_the_device_once(num_probes, monkeypatch):
    """The checks of the first two steps wait, too; from the third on only α and β come to the host, together."""
    counts, original = [], Vectors.to_host
    monkeypatch.setattr(Vectors, "to_host", lambda self, x: counts.append(1) or original(self, x))
    A = sd.as_operator(torch.diag(torch.linspace(-1, 1, N)))
    indices = tuple(range(num_probes))
    run = Recurrence.start(A, indices, start_block(A, "gaussian", indices, seed=0))
    run.step(A, check=True)
    run.step(A, check=True)
    del counts[:]
    with OneDevice() as mode:
        for _ in range(10):
            run.step(A, check=True)
    assert len(counts) == 10
    assert mode.waits == []
