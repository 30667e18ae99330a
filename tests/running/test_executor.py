"""Probes on executors: the same numbers wherever they ran, and nothing lost with a worker."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg
from spectra import rotated
from worker_operators import Diagonal, DiesAlways, DiesOnce, Locked, NotFinite

import specdens as sd

ENTRIES = np.concatenate([np.linspace(-1, 2, 198), [5.0, 9.0]])
MATRIX = rotated(ENTRIES)
processes = partial(ProcessPoolExecutor, 2, mp_context=multiprocessing.get_context("forkserver"))


class Inline(Executor):
    """The smallest executor: it runs what it is given at once, and loses the tasks with the given numbers."""

    def __init__(self, lose=()) -> None:
        self.lose, self.num_submitted = set(lose), 0

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        self.num_submitted += 1
        if self.num_submitted in self.lose:
            future.set_exception(OSError("the machine is gone"))
        else:
            future.set_result(pickle.loads(pickle.dumps(fn))(*args, **kwargs))
        return future


def coefficients(result) -> list[np.ndarray]:
    return [result.mus] if isinstance(result, sd.ChebyshevMoments) else [*result.alphas, *result.betas]


def assert_equal(found, expected) -> None:
    assert found.num_products == expected.num_products
    for x, y in zip(coefficients(found), coefficients(expected), strict=True):
        np.testing.assert_array_equal(x, y)


METHODS = {
    "fast_lanczos": partial(sd.fast_lanczos, num_steps=30),
    "slow_lanczos": partial(sd.slow_lanczos, num_steps=30),
    "kpm": partial(sd.kpm, num_moments=60),
}


@pytest.fixture(scope="module")
def pool():
    with processes() as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_results_are_those_of_one_process_bit_for_bit(name, pool):
    run = partial(METHODS[name], MATRIX, num_probes=5, seed=3)
    block_size = {} if name == "slow_lanczos" else {"block_size": 2}
    expected = run(**block_size)
    with ThreadPoolExecutor(3) as threads:
        for executor in (Inline(), threads, pool, lambda: ThreadPoolExecutor(2)):
            assert_equal(run(**block_size, executor=executor), expected)


def test_one_probe_is_a_block_unless_told_otherwise():
    executor = Inline()
    assert_equal(
        sd.fast_lanczos(MATRIX, num_steps=9, num_probes=4, executor=executor),
        sd.fast_lanczos(MATRIX, num_steps=9, num_probes=4, block_size=1),
    )
    assert executor.num_submitted == 4


@pytest.mark.parametrize("settings", [{}, {"rank": 2}, {"method": "kpm"}, {"tol": 0.01, "num_probes": 1}])
def test_the_front_door_takes_an_executor(settings):
    A = Diagonal(ENTRIES)
    A.has_block_products = False  # as one of several columns would round differently
    run = partial(sd.spectral_density, A, **{"num_steps": 40, "num_probes": 3, "progress": False, **settings})
    np.testing.assert_array_equal(run(executor=Inline()).values, run().values)


@pytest.mark.parametrize(("lose", "num_trials"), [([1], 1), ([3], 1), ([1, 2, 3, 4], 1), ([2, 6], 2)])
def test_only_lost_blocks_run_again(lose, num_trials):
    executor = Inline(lose)
    found = sd.fast_lanczos(MATRIX, num_steps=20, num_probes=4, executor=executor)
    assert_equal(found, sd.fast_lanczos(MATRIX, num_steps=20, num_probes=4, block_size=1))
    assert executor.num_submitted == 4 + len(lose) + num_trials  # the executor is tried after every round with a loss
    assert (
        "of 4 blocks of probes were lost (OSError: the machine is gone) and ran again on the executor" in found.notes[0]
    )


def test_blocks_that_are_lost_every_time_run_in_this_process():
    found = sd.fast_lanczos(MATRIX, num_steps=20, num_probes=2, executor=Inline(lose=[1, 2, 4, 5, 7, 8]))
    assert_equal(found, sd.fast_lanczos(MATRIX, num_steps=20, num_probes=2, block_size=1))
    assert "lost 3 times: run in this process" in found.notes[-1]


@pytest.mark.slow
@pytest.mark.parametrize("renewable", [True, False])
def test_a_killed_worker_costs_its_own_probes_only(renewable, tmp_path):
    A = DiesOnce(ENTRIES, tmp_path)
    run = partial(sd.fast_lanczos, num_steps=30, num_probes=6)
    if renewable:
        found = run(A, executor=processes)
    else:
        with processes() as pool:
            found = run(A, executor=pool)
    num_made = len(list(tmp_path.iterdir())) - 1
    assert_equal(found, run(Diagonal(ENTRIES), block_size=1))
    assert len(found.notes) == 1
    assert ("on the executor" if renewable else "in this process") in found.notes[0]
    assert "BrokenProcessPool" in found.notes[0]
    # 39 products before the death, which hit the worker's second probe (9 or, after a check, 8 of its products), and at
    # most another probe in the other worker
    assert found.num_products + 8 <= num_made <= found.num_products + 9 + 31


@pytest.mark.slow
def test_an_operator_that_kills_every_worker_runs_in_this_process():
    found = sd.fast_lanczos(DiesAlways(ENTRIES), num_steps=10, num_probes=2, executor=processes)
    assert_equal(found, sd.fast_lanczos(Diagonal(ENTRIES), num_steps=10, num_probes=2, block_size=1))
    assert "lost 3 times" in found.notes[-1]


def test_a_pool_that_was_shut_down_is_replaced_by_this_process():
    with ThreadPoolExecutor(1) as executor:
        pass
    found = sd.fast_lanczos(MATRIX, num_steps=5, num_probes=2, executor=executor)
    assert_equal(found, sd.fast_lanczos(MATRIX, num_steps=5, num_probes=2, block_size=1))
    assert "cannot schedule new futures after shutdown" in found.notes[0]


def test_what_the_operator_raises_in_a_worker_is_raised_here(pool):
    with pytest.raises(ValueError, match="A @ x returned nan at step 5 of probe 0"):
        sd.fast_lanczos(NotFinite(ENTRIES), num_steps=9, executor=pool)
    with pytest.raises(ValueError, match="`bounds` must contain the spectrum"):
        sd.kpm(MATRIX, bounds=(-1, 2), executor=pool)


def test_an_operator_that_cannot_be_pickled_is_refused_before_any_work(tmp_path):
    A = Locked(ENTRIES)
    A.folder = tmp_path
    with pytest.raises(TypeError, match=r"`A` must be picklable .* got TypeError: cannot pickle '_thread.lock'"):
        sd.fast_lanczos(A, num_steps=5, executor=Inline())
    assert not list(tmp_path.iterdir())
    with ThreadPoolExecutor(2) as threads:
        sd.fast_lanczos(A, num_steps=5, num_probes=2, executor=threads)


def test_what_is_no_executor_is_refused():
    for run in (sd.spectral_density, sd.fast_lanczos, sd.slow_lanczos, sd.kpm):
        with pytest.raises(TypeError, match=r"`executor` must follow concurrent.futures.Executor, .* got 4"):
            run(MATRIX, executor=4)
    with pytest.raises(TypeError, match=r"`executor` must return a concurrent.futures.Executor .* got 4"):
        sd.fast_lanczos(MATRIX, executor=lambda: 4)


# -- checkpoints and progress ------------------------------------------------------------------------------------------


class Interrupted(Inline):
    """Runs all but some tasks, then presses Control-C."""

    def submit(self, fn, /, *args, **kwargs):
        future = super().submit(fn, *args, **kwargs)
        return Future() if self.num_submitted in (2, 3) else future  # which never end


@pytest.mark.parametrize("resume_with", [Inline, lambda: None])
def test_finished_blocks_are_saved_when_a_run_is_interrupted(resume_with, tmp_path):
    def press(state: sd.Progress) -> None:
        seen.append(state.num_products)
        if len(seen) == 3:
            raise KeyboardInterrupt

    seen: list[int] = []
    monitor = partial(sd.Monitor, checkpoint=tmp_path / "run.npz", checkpoint_interval=0)
    run = partial(sd.fast_lanczos, MATRIX, num_steps=20, num_probes=10, block_size=2)
    with pytest.raises(KeyboardInterrupt):
        run(executor=Interrupted(), monitor=monitor(progress=press))
    assert len(seen) == 3
    counted = sd.Counted(MATRIX)
    found = sd.fast_lanczos(
        counted, num_steps=20, num_probes=10, block_size=2, executor=resume_with(), monitor=monitor(progress=False)
    )
    assert_equal(found, run())
    if resume_with() is None:
        assert counted.num_products == 1 + 2 * 40  # the product that tells the operator, and two blocks of five


def test_moments_of_a_checkpoint_go_on_within_its_interval(tmp_path):
    run = partial(sd.kpm, MATRIX, num_moments=40, block_size=1)
    monitor = partial(sd.Monitor, checkpoint=tmp_path / "run.npz", checkpoint_interval=0, progress=False)
    run(num_probes=1, monitor=monitor())
    more = run(num_probes=3, monitor=monitor(), executor=Inline())
    np.testing.assert_array_equal(more.mus, run(num_probes=3).mus)


def test_steps_of_a_checkpoint_go_on_in_a_worker(tmp_path):
    run = partial(sd.fast_lanczos, MATRIX, num_probes=2, block_size=1)
    monitor = partial(sd.Monitor, checkpoint=tmp_path / "run.npz", checkpoint_interval=0, progress=False)
    run(num_steps=10, monitor=monitor())
    assert_equal(run(num_steps=25, monitor=monitor(), executor=Inline()), run(num_steps=25))


# -- what is sent ------------------------------------------------------------------------------------------------------


OPERATORS = {
    "dense": sd.as_operator,
    "csr": lambda matrix: sd.as_operator(sp.csr_array(matrix)),
    "dia": lambda matrix: sd.as_operator(sp.dia_array(matrix)),
    "scipy operator": lambda matrix: sd.as_operator(scipy.sparse.linalg.aslinearoperator(matrix)),
    "sum": lambda matrix: 2 * sd.as_operator(matrix) - sp.csr_array(matrix),
    "shifted": lambda matrix: sd.as_operator(matrix).shifted(1.0),
    "normalized": lambda matrix: sd.normalize(matrix, bounds=(-2, 10)),
    "deflated": lambda matrix: sd.deflate(matrix, sd.top_eigenpairs(matrix, rank=2)),
    "counted": sd.Counted,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_can_be_pickled(name):
    A = OPERATORS[name](MATRIX[:50, :50])
    x = np.linspace(-1, 1, 50)
    expected = A @ x  # which leaves traces in the operator
    again = pickle.loads(pickle.dumps(A))
    np.testing.assert_array_equal(again @ x, expected)
    assert repr(again) == repr(A)
    assert again.bulk_dimension == A.bulk_dimension


def test_operators_of_every_library_can_be_pickled(library):
    A = sd.as_operator(library.array(MATRIX[:20, :20]))
    again = pickle.loads(pickle.dumps(A))
    found = sd.fast_lanczos(again, num_steps=8)
    assert_equal(found, sd.fast_lanczos(A, num_steps=8))
    assert again.vectors.xp is A.vectors.xp
