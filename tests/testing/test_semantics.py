"""What gradcheck says of sparse and masked inputs: both contracts, other semantics, projections, memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import iverson as iv
from iverson.core.errors import ArgumentError
from iverson.testing import GradcheckError, gradcheck, gradgradcheck
from iverson.testing.failure_report import OFF_PATTERN, ON_PATTERN
from tests.testing.mutations import constant

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
DENSE = np.array([[0.0, 1.0], [2.0, 3.0]])

pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")


def sparse(layout, dense=DENSE):
    blocks = {"blocksize": (1, 1)} if layout[0] == "b" else {}
    return iv.to_layout(iv.asarray(dense), layout, **blocks).detach().requires_grad_()


class Scaled(iv.autograd.Function):
    """x times w, densely, with a gradient that is off by a factor in the entries where ``wrong`` holds."""

    @staticmethod
    def forward(ctx, x, wrong):
        ctx.wrong = wrong
        return x.to_dense() * 2.0

    @staticmethod
    def backward(ctx, g):
        return g * iv.asarray(np.where(ctx.wrong, 3.0, 2.0)), None


def failure(fn, inputs, **options):
    with pytest.raises(GradcheckError) as caught:
        gradcheck(fn, inputs, check_forward=False, **options)
    return caught.value


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("stored", "contract"), [(True, ON_PATTERN), (False, OFF_PATTERN)])
def test_a_failure_says_which_contract_broke(layout, fast, stored, contract):
    wrong = (DENSE != 0) == stored
    error = failure(lambda x: Scaled.apply(x, wrong), (sparse(layout),), fast=fast)
    assert error.finding.contract == contract
    assert f"the contract that broke is the {contract}" in str(error)
    assert ("is stored" in str(error)) == stored
    assert wrong[error.finding.input_index]


def test_a_failure_of_the_other_semantics_is_told():
    """Regular: d (x @ x)[0, 0] / dx[0, 0] = 2 x[0, 0] = 0 and off the pattern. Masked: no such entry."""

    class Square(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g @ x.mT + x.mT @ g).to_dense() + iv.asarray([[1.0, 0.0], [0.0, 0.0]])

    error = failure(
        lambda x: Square.apply(x) if not isinstance(x, iv.MaskedTensor) else x @ x, (sparse("csr"),)
    )
    assert error.finding.input_index == (0, 0)
    assert error.finding.other_semantics is None
    assert "in the masked semantics it would be absent (masked=True" in str(error)


def test_the_other_semantics_has_its_own_number():
    """mean: over 4 entries in the regular semantics, over the 3 stored ones in the masked one."""
    mean = lambda x: Quarter.apply(x) if not isinstance(x, iv.MaskedTensor) else iv.mean(x)

    class Quarter(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.to_dense().mean()

        @staticmethod
        def backward(ctx, g):
            return g * iv.asarray(np.where(DENSE == 3, 1.0, 0.25))

    error = failure(mean, (sparse("coo"),))
    assert error.finding.numerical == pytest.approx(1 / 4)
    assert error.finding.other_semantics == pytest.approx(1 / 3)
    assert "in the masked semantics it would be 0.333333333" in str(error)


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize(
    "there",
    [
        iv.sum,
        lambda m: iv.reshape(m.to_tensor(0).to_dense(), (4,))[:2],
        lambda m: m.to_tensor(0).to_dense() * 1j,
        lambda m: m.to_tensor(0).to_dense() / 0 + iv.asarray([1.0, 2.0, 3.0]),
        lambda m: (m, m),
        lambda m: None,
    ],
    ids=["rank 0", "another shape", "complex", "fails", "two outputs", "nothing"],
)
def test_results_that_differ_between_the_semantics_do_not_hide_the_report(there, check):
    """The entry at fault need not be there in the other semantics."""

    class Wrong(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.to_dense() ** 3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (3 * constant(x) * x).to_dense() * iv.asarray([[1.0, 1.0], [1.0, 1.5]])

    fn = lambda x: there(x) if isinstance(x, iv.MaskedTensor) else Wrong.apply(x)
    with pytest.raises(GradcheckError) as caught:
        check(fn, (sparse("csr"),))
    assert "the contract that broke" in str(caught.value)


def test_a_masked_input_hears_of_the_regular_semantics():
    class WrongMean(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum() / 3

        @staticmethod
        def backward(ctx, g):
            return g * iv.ones((2, 2))

    def mean(x):
        if isinstance(x, iv.MaskedTensor):
            return WrongMean.apply(x.to_tensor(0).to_dense())
        return x.to_dense().mean()

    error = failure(mean, (iv.masked_tensor(sparse("csr").detach(), requires_grad=True),))
    assert error.finding.contract == ON_PATTERN
    assert error.finding.numerical == pytest.approx(1 / 3)
    assert error.finding.other_semantics == pytest.approx(1 / 4)
    assert "the input is masked" in str(error)


def test_dense_inputs_have_no_contracts():
    wrong = DENSE != 0
    error = failure(lambda x: Scaled.apply(x, wrong), (iv.asarray(DENSE, requires_grad=True),))
    assert error.finding.contract == ""
    assert "contract" not in str(error)


# -- the masked contract on results ----------------------------------------------------------------


def test_a_result_that_depends_on_how_the_mask_is_held_is_caught():
    x = sparse("csr")
    assert gradcheck(lambda m: m * 2, (x,), masked=True)
    error = failure(lambda m: m * (2 if m.layout == "csr" else 3), (x,), masked=True)
    assert error.finding.mode == "masked contract"
    assert "changes when unspecified entries hold nan" in str(error)


def test_a_mask_that_moves_is_caught():
    x = iv.masked_tensor(np.array([1.0, 2.0, 5.0]), [True, True, False], requires_grad=True)

    def fn(m):
        return iv.masked_tensor(m, m.get_data().detach().numpy() >= 1.0)

    error = failure(fn, (x,))
    assert error.finding.mode == "mask"
    assert error.finding.contract == OFF_PATTERN
    assert "a mask of output that moves" in str(error)


def test_the_jvp_of_a_masked_result_is_absent_off_its_mask():
    mask = np.array([[True, False], [True, True]])
    m = iv.masked_tensor(DENSE, mask)
    y, dy = iv.jvp(lambda m: m @ m, (m,), (iv.masked_tensor(np.ones((2, 2)), mask),))
    assert (dy.get_mask().numpy() == y.get_mask().numpy()).all()
    assert isinstance(dy, iv.MaskedTensor)


# -- projections -----------------------------------------------------------------------------------


def symmetric(a):
    return (a + a.mT) / 2


SYMMETRIC = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 5.0]])


class UpperTriangle(iv.autograd.Function):
    """sum of a * a read from the upper triangle alone: right for symmetric matrices."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return (iv.triu(a) ** 2).sum() + (iv.triu(a, k=1) ** 2).sum()

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return 2 * g * a


@pytest.mark.parametrize("fast", [False, True])
def test_a_rule_that_holds_on_a_set_passes_with_its_projection(fast):
    a = iv.asarray(SYMMETRIC, requires_grad=True)
    options = {"fast": fast, "check_forward": False}
    with pytest.raises(GradcheckError):
        gradcheck(UpperTriangle.apply, (a,), **options)
    assert gradcheck(UpperTriangle.apply, (a,), project=symmetric, **options)
    wrong = lambda a: UpperTriangle.apply(a) + UpperTriangle.apply(a).detach()
    with pytest.raises(GradcheckError, match=r"inputs\[0\]"):
        gradcheck(wrong, (a,), project=symmetric, **options)


@pytest.mark.parametrize("fast", [False, True])
def test_a_projection_works_in_both_modes_to_second_order(fast):
    a = iv.asarray(SYMMETRIC, requires_grad=True)
    b = iv.asarray(np.arange(9.0).reshape(3, 3), requires_grad=True)
    both = lambda a, b: (symmetric(a), b)
    assert gradcheck(lambda a, b: a @ a @ b, (a, b), fast=fast, project=both)
    assert gradgradcheck(lambda a, b: a @ a @ b, (a, b), fast=fast, project=both)


def test_a_fixed_rank():
    """A formula for matrices of rank one, refused for all others."""

    def rank_one(a):
        u, s, v = np.linalg.svd(a.numpy())
        return iv.asarray(s[0] * np.outer(u[:, 0], v[0]))

    def pseudo_inverse(a):
        """a^+ = a^T / ||a||^2."""
        s = np.linalg.svd(a.detach().numpy(), compute_uv=False)
        assert s[1] < 1e-9 * s[0]
        return a.mT / (a * a).sum()

    a = iv.asarray(np.outer([1.0, 2.0], [3.0, -1.0]), requires_grad=True)
    assert gradcheck(pseudo_inverse, (a,), project=rank_one)
    with pytest.raises(GradcheckError, match="perturbed"):
        gradcheck(pseudo_inverse, (a,))


def test_a_projection_of_masked_inputs():
    mask = np.array([[True, False], [True, True]])
    m = iv.masked_tensor(np.array([[1.0, np.nan], [2.0, -3.0]]), mask, requires_grad=True)
    centred = lambda m: m - m.mean()
    m = iv.masked_tensor(np.array([[0.0, np.nan], [3.0, -3.0]]), mask, requires_grad=True)
    assert gradcheck(lambda m: (m * m).sum(axis=0), (m,), project=centred)


def test_bad_projections():
    a = iv.asarray([[1.0, 2.0], [0.0, 1.0]], requires_grad=True)
    with pytest.raises(ArgumentError, match=r"inputs\[0\]': got a point that project moves by up to 1"):
        gradcheck(lambda a: a * 2, (a,), project=symmetric)
    with pytest.raises(ArgumentError, match="'project': got results of another structure"):
        gradcheck(lambda a: a * 2, (a,), project=lambda a: a[0])


# -- inputs of all kinds ---------------------------------------------------------------------------

HYBRID = lambda: iv.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, -1.0]], (3, 2), requires_grad=True)
REPEATED = lambda: iv.sparse_coo_tensor([[0, 2, 0], [1, 0, 1]], [1.0, 2.0, 4.0], (3, 2), requires_grad=True)
EMPTY = lambda: iv.sparse_csr_tensor([0, 0, 0, 0], np.zeros(0, int), np.zeros(0), (3, 2), requires_grad=True)
NONE = lambda: iv.sparse_coo_tensor(np.zeros((2, 0), int), np.zeros(0), (0, 2), requires_grad=True)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "make", [HYBRID, REPEATED, EMPTY, NONE], ids=["hybrid", "repeated", "empty", "no rows"]
)
def test_sparse_inputs_of_all_kinds_in_both_semantics(make, fast):
    x = make()
    b = iv.asarray(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)
    assert gradcheck(lambda x, b: x @ b + (x * x).sum(), (x, b), fast=fast)
    assert gradgradcheck(lambda x, b: x @ b, (x, b), fast=fast)
    if x._value.pattern.distinct:
        assert gradcheck(lambda x, b: x @ b, (x, b), fast=fast, masked=True)
        assert gradcheck(lambda x: x * x, (x,), fast=fast, masked=True)  # sparse results


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_results(layout, dtype):
    x = sparse(layout, DENSE.astype(dtype))
    assert gradcheck(lambda x: (x * x, x.mT, x @ x), (x,))
    assert gradcheck(lambda x: (x * x, x.mT, x @ x), (x,), masked=True)


@pytest.mark.parametrize("fast", [False, True])
def test_memory_in_the_masked_semantics_grows_with_what_is_specified(fast):
    n = 200_000
    s = iv.sparse_coo_tensor([[5, 7, n - 1], [n - 1, 0, 3]], [1.0, 2.0, 3.0], (n, n), requires_grad=True)
    gradcheck(lambda m: m * m, (s,), masked=True, fast=fast)
    tracemalloc.start()
    assert gradcheck(lambda m: (m * m, m.sum(), m.exp()), (s,), masked=True, fast=fast)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000 < n * n
