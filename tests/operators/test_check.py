"""`check_operator` and the cheaper checks of `fast_lanczos` accept what is Hermitian and say in numbers what is not."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spectra import rotated

import specdens as sd


def number_in(error) -> float:
    """Return the first number that a message gives."""
    return float(re.search(r"\d+(\.\d+)?(e[+-]\d+)?", str(error.value)).group())


def operator(f, n=50, dtype="float64"):
    return sd.as_operator(f, shape=n, dtype=dtype)


def shifted_diagonal(n):
    """Return a diagonal plus a cyclic shift: far from symmetric, but x·Ay − y·Ax falls like 1/√n."""
    d = np.linspace(-1, 1, n)
    return operator(lambda x: d * x + np.roll(x, 1), n)


def dropout(n=50):
    rng = np.random.default_rng(0)
    return operator(lambda x: x * (rng.random(n) > 0.5) * 2, n)


def spoiled(value, calls_before=0, n=50):
    """Return a diagonal operator that answers with a nan or inf after some calls."""
    calls = []

    def matvec(x):
        y = np.linspace(-1, 1, n) * x
        if len(calls) >= calls_before:
            y[n // 2] = value
        calls.append(1)
        return y

    return operator(matvec, n)


class WrongBlocks:
    """Right for vectors, twice as large for blocks."""

    shape, dtype = (50, 50), "float64"

    def __matmul__(self, x):
        return x if x.ndim == 1 else 2 * x


# -- check_operator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
def test_hermitian_matrices_of_every_library_pass(library, is_complex):
    A = library.array(rotated(np.linspace(-3, 5, 30), is_complex=is_complex))
    report = sd.check_operator(A)
    assert report
    assert report.problems == ()
    measured = [report.nonlinearity, report.asymmetry, report.randomness, report.block_difference]
    assert max(measured) < library.rtol


@given(
    st.integers(1, 20),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["float32", "float64", "complex64", "complex128"]),
    st.floats(1e-6, 1e6),
)
def test_any_hermitian_matrix_of_any_size_scale_and_dtype_passes(n, seed, dtype, scale):
    values = scale * np.random.default_rng(seed).standard_normal(n)
    A = rotated(values, seed, is_complex="complex" in dtype)
    assert sd.check_operator(A.astype(dtype), seed=seed)


def test_the_zero_operator_passes():
    assert sd.check_operator(np.zeros((4, 4)))


def test_deflated_and_combined_operators_pass():
    A = np.diag(np.concatenate([[50.0], np.linspace(-1, 1, 40)]))
    assert sd.check_operator(sd.deflate(A, sd.top_eigenpairs(A, rank=1)))
    assert sd.check_operator(2 * sd.as_operator(A) - A)


def test_the_check_costs_seven_products():
    A = sd.Counted(np.eye(10))
    sd.check_operator(A)
    assert A.num_products == 7


@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_what_is_not_symmetric_is_found_at_every_size(n):
    with pytest.raises(
        ValueError, match=r"the operator is not symmetric: ⟨u, Av⟩ and ⟨Au, v⟩ differ by .* of ‖Av‖"
    ) as e:
        sd.check_operator(shifted_diagonal(n))
    assert number_in(e) > 0.1


@pytest.mark.parametrize("factor", [1j, np.exp(1j)])
def test_a_complex_matrix_that_is_not_hermitian_is_found(factor):
    with pytest.raises(ValueError, match=r"the operator is not Hermitian: .* differ by ") as e:
        sd.check_operator(factor * rotated(np.linspace(-1, 1, 30), is_complex=True))
    assert number_in(e) > 0.1


def test_a_symmetric_complex_matrix_is_not_hermitian():
    Z = np.random.default_rng(0).standard_normal((2, 30, 30))
    with pytest.raises(ValueError, match="the operator is not Hermitian"):
        sd.check_operator((Z[0] + 1j * Z[1]) + (Z[0] + 1j * Z[1]).T)


def test_what_is_random_is_said_to_be_random_and_nothing_else():
    message = "the operator is not deterministic: two products with one vector differ by .* of their size"
    with pytest.raises(ValueError, match=message) as e:
        sd.check_operator(dropout())
    assert number_in(e) > 0.1
    assert "not linear" not in str(e.value)


@pytest.mark.parametrize("f", [lambda x: x + 1, lambda x: x**2, np.abs, lambda x: x / np.linalg.norm(x)])
def test_what_is_not_linear_is_found(f):
    message = "the operator is not linear: A(2x − 3y) differs from 2Ax − 3Ay by "
    with pytest.raises(ValueError, match=re.escape(message)):
        sd.check_operator(operator(f))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_found(bad):
    with pytest.raises(ValueError, match="the operator is not finite: A @ x contains nan or inf"):
        sd.check_operator(spoiled(bad))


def test_blocks_that_differ_from_columns_are_found_with_the_difference():
    with pytest.raises(ValueError, match=r"the product with a block differs from the products with its columns by 1$"):
        sd.check_operator(WrongBlocks())


def test_several_problems_are_all_named():
    with pytest.raises(ValueError, match=r"not linear: .*; the operator is not symmetric: "):
        sd.check_operator(operator(lambda x: np.roll(x, 1) + 1))


def test_an_operator_that_answers_from_one_buffer_passes():
    buffer = np.empty(50)
    report = sd.check_operator(operator(lambda x: np.multiply(x, np.arange(50.0), out=buffer)))
    assert report.randomness == report.block_difference == 0


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_entries_whose_squares_leave_the_range_are_refused(scale):
    with pytest.raises(
        ValueError, match=r"entries of size \de.\d+, whose squares leave the range of float64. Scale it"
    ):
        sd.fast_lanczos(np.diag(np.linspace(1, 2, 60)) * scale)


@pytest.mark.parametrize("A", [shifted_diagonal(50), dropout(), spoiled(np.nan), WrongBlocks()])
def test_an_inspection_reports_what_a_check_raises(A):
    report = sd.inspect_operator(A)
    assert not report
    with pytest.raises(ValueError, match=re.escape(report.problems[0].split(" by ")[0])):
        sd.check_operator(A)


def test_an_inspection_of_a_good_operator_is_the_report_of_its_check():
    A = rotated(np.linspace(-3, 5, 30))
    assert sd.inspect_operator(A, seed=3) == sd.check_operator(A, seed=3)


@pytest.mark.parametrize("run", [sd.fast_lanczos, sd.slow_lanczos, sd.kpm, sd.check_operator, sd.inspect_operator])
@pytest.mark.parametrize(("factor", "word"), [(1.0, "symmetric"), (1j, "Hermitian")])
def test_every_symmetry_check_says_the_same_words(run, factor, word):
    A = factor * (np.diag(np.linspace(1, 2, 50)) + np.roll(np.eye(50), 1, axis=0))
    try:
        message = run(A).problems[0]
    except ValueError as error:
        message = str(error)
    assert message.startswith(f"the operator is not {word}: ⟨")


# -- the checks within fast_lanczos ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 1000, 100_000])
@pytest.mark.parametrize("num_probes", [1, 3])
def test_fast_lanczos_refuses_what_is_not_symmetric_at_every_size(n, num_probes):
    message = "the operator is not symmetric: ⟨v₁, Av₂⟩ = .* but β₁ = .*. Dropout or batch statistics make products"
    with pytest.raises(ValueError, match=message):
        sd.fast_lanczos(shifted_diagonal(n), num_steps=3, num_probes=num_probes, block_size=num_probes)


class Noted(sd.Operator):
    """An operator that is slightly asymmetric, and says of its products that they are rounded."""

    notes = ("products are rounded",)

    def __init__(self, matrix):
        super().__init__(len(matrix), sd.as_operator(matrix).vectors)
        self.matrix = matrix

    def apply(self, x):
        return self.matrix @ x


def test_asymmetry_is_told_with_the_digits_that_differ_and_the_notes_of_the_operator():
    rng = np.random.default_rng(0)
    matrix = np.diag(np.linspace(1.0, 2.0, 50)) + 1e-5 * np.triu(rng.standard_normal((50, 50)), 1)
    with pytest.raises(ValueError, match=r"not symmetric: .* Note: products are rounded\.") as raised:
        sd.top_eigenpairs(Noted(matrix), rank=2)
    first, second = re.findall(r"= (-?[\d.e-]+)(?= but|\. )", str(raised.value))
    assert first != second


def test_the_symmetry_check_costs_no_product_beyond_the_second():
    A = sd.Counted(shifted_diagonal(1000))
    with pytest.raises(ValueError, match="the operator is not symmetric"):
        sd.fast_lanczos(A, num_steps=100)
    assert A.num_products == 2 + 1  # two steps, and the repeated product of the determinism check


@pytest.mark.parametrize(("num_probes", "block_size"), [(1, 1), (4, 4), (5, 2)])
def test_checks_cost_one_product_in_all_and_none_when_switched_off(num_probes, block_size):
    for check in (True, False):
        A = sd.Counted(np.diag(np.linspace(-1, 1, 100)))
        run = sd.fast_lanczos(A, num_steps=7, num_probes=num_probes, block_size=block_size, check=check)
        assert A.num_products == run.num_products == 7 * num_probes + check


@pytest.mark.parametrize("num_probes", [1, 3])
def test_fast_lanczos_refuses_what_is_random(num_probes):
    message = "not deterministic: two products with the same vector differ by .* of their size. Dropout, batch stat"
    with pytest.raises(ValueError, match=message):
        sd.fast_lanczos(dropout(), num_probes=num_probes, block_size=num_probes)


def test_fast_lanczos_refuses_what_is_not_hermitian():
    message = r"the operator is not Hermitian: ⟨v, Av⟩ = .*j is not real \(step 1 of probe 0\)"
    with pytest.raises(ValueError, match=message):
        sd.fast_lanczos(np.diag(np.linspace(1, 2, 50)) * (1 + 1j))


@pytest.mark.parametrize("check", [True, False])
def test_without_checks_a_run_goes_through(check):
    A = shifted_diagonal(50)
    if check:
        with pytest.raises(ValueError, match="not symmetric"):
            sd.fast_lanczos(A, num_steps=5, check=True)
    else:
        assert sd.fast_lanczos(A, num_steps=5, check=False).num_steps == 5


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_nan_and_inf_are_reported_with_step_and_probe(bad, step, check):
    # a function is called once per step, and once more for the determinism check
    calls = step - 1 + (check if step > 1 else 0)
    message = rf"A @ x returned (nan|inf) at step {step} of probe 0: the operator, or the model behind it, is not fin"
    with pytest.raises(ValueError, match=message):
        sd.fast_lanczos(spoiled(bad, calls), num_steps=10, check=check)


def test_the_probe_of_a_block_that_is_not_finite_is_named():
    class SecondColumn:
        shape, dtype = (50, 50), "float64"

        def __matmul__(self, x):
            y = np.linspace(-1, 1, 50)[:, None] * x if x.ndim == 2 else np.linspace(-1, 1, 50) * x
            if x.ndim == 2:
                y[:, 1] = np.nan
            return y

    with pytest.raises(ValueError, match="A @ x returned nan at step 1 of probe 1: "):
        sd.fast_lanczos(SecondColumn(), num_probes=3)


def test_start_vectors_must_have_a_direction():
    message = r"`probes` must be finite and not within the deflated subspace; got norms \[0.\]"
    with pytest.raises(ValueError, match=message):
        sd.fast_lanczos(np.eye(3), probes=np.zeros(3))
    with pytest.raises(ValueError, match=r"`probes` must be finite .* got norms \[nan\]"):
        sd.fast_lanczos(np.eye(3), probes=np.array([1.0, np.nan, 1.0]))


def test_an_operator_that_overwrites_its_argument_is_refused():
    def in_place(x):
        x *= np.linspace(0, 1, 50)
        return x

    with pytest.raises(ValueError, match=r"A @ x overwrites x: the norm of a unit vector is 0\.\d+ after the product"):
        sd.fast_lanczos(sd.as_operator(in_place, shape=50, dtype="float64"))
