"""Reports of work: counts against products counted by hand, costs against what kernels count, the text."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import iverson as iv
from iverson.core.aval import Aval
from iverson.core.counting import cost
from iverson.core.counting.cost import Cost
from iverson.core.dispatch import bind, make_handle, value_of
from iverson.core.op import Sampler
from iverson.core.region import Region
from iverson.core.table import TABLE
from iverson.explain import report
from iverson.layouts import Box, Zero, support_of

BATCH, WIDTHS = 5, (7, 16, 12, 3)
RNG = np.random.default_rng(0)
WEIGHTS = [iv.asarray(RNG.standard_normal((m, n))) for m, n in pairwise(WIDTHS)]
FORWARD = sum(m * n for m, n in pairwise(WIDTHS))


def mlp(x, weights=WEIGHTS):
    for w in weights:
        x = iv.relu(x @ w)
    return x.sum()


@pytest.mark.parametrize("tracked", [False, True])
def test_an_mlp_differentiated_in_its_input_alone(tracked: bool) -> None:
    """A product per layer forward and one back; those of the weights are not needed, tracked or not."""
    weights = [w.detach().requires_grad_(tracked) for w in WEIGHTS]
    x = iv.asarray(RNG.standard_normal((BATCH, WIDTHS[0])))
    for f in (iv.grad(lambda x: mlp(x, weights)), iv.jit(iv.grad(lambda x: mlp(x, weights)))):
        found = report(f)(x)
        assert (found.done.products, found.done.multiply_adds) == (6, 2 * BATCH * FORWARD)
        assert found.avoided["not needed"].products == 3
        assert found.avoided["not needed"].multiply_adds == BATCH * FORWARD
        assert found.avoided["dead"].products == 0


def test_the_hessian_of_a_relu_network_takes_no_product() -> None:
    x = iv.asarray(RNG.standard_normal(WIDTHS[0]))
    found = report(iv.hessian(mlp))(x)
    assert not found.done.products
    assert (found.avoided["dead"].products, found.avoided["dead"].multiply_adds) == (6, 2 * FORWARD)
    assert found.avoided["not needed"].products == 3


def sparse(rows: int, columns: int, share: float) -> tuple[iv.Tensor, int]:
    dense = np.where(RNG.random((rows, columns)) < share, 1.0, 0.0)
    return iv.asarray(dense).to_layout("csr"), int(dense.sum())


def test_a_sparse_product_and_its_gradients() -> None:
    s, count = sparse(20, 30, 0.1)
    b = iv.asarray(RNG.standard_normal((30, 4)))
    found = report(lambda s, b: s @ b)(s, b)
    assert found.done == Cost(1, count * 4, 0, 20 * 4 * 8)
    assert found.avoided == {"pattern": Cost(multiply_adds=(20 * 30 - count) * 4)}
    # In the values, the cotangent is read where they are: as many products of rows.
    found = report(iv.grad(lambda v: ((s.with_values(v) @ b) ** 2).sum()))(s.values())
    assert found.done.multiply_adds == 2 * count * 4
    assert found.avoided["pattern"].multiply_adds == 2 * (20 * 30 - count) * 4


def test_a_masked_loss() -> None:
    """Elementwise work on masked entries alone; none is done for the others in the gradient either."""
    mask = RNG.random((6, 8)) < 0.3
    m = iv.masked_tensor(RNG.standard_normal((6, 8)), mask)
    u = iv.asarray(RNG.standard_normal((6, 8)))
    absent = mask.size - mask.sum()
    found = report(lambda u: iv.sin(m * u).sum().to_tensor(0))(u)
    assert found.avoided["mask"] == Cost(entries=3 * absent, bytes=3 * absent * 8)
    assert found.avoided.keys() == {"mask", "algebra"}  # a number that is stored needs no copy
    assert found.done.entries <= 2 * mask.sum() + 2 * mask.size


def test_an_entry_of_a_stack_has_one_cotangent() -> None:
    a, b = (iv.asarray(RNG.standard_normal((4, 4))) for _ in "ab")
    f = iv.grad(lambda x: iv.sin(iv.stack([x @ a, (x @ b) @ b]))[0].sum())
    found = report(f)(iv.ones((3, 4)))
    assert found.done.products == 2  # with a, and back through it
    assert found.avoided["dead"].products == 2  # with b
    assert found.avoided["undefined"].products == 2  # back through b


def test_a_box_bounds_what_is_computed() -> None:
    found = report(iv.grad(lambda x: iv.exp(iv.sin(x))[3].sum()))(iv.ones((50, 4)))
    assert found.avoided["box"].entries == 3 * 49 * 4  # one product for exp, two factors for sin


@pytest.mark.parametrize("checkpoint", [False, True])
def test_steps_of_a_loop_that_nobody_reads(checkpoint: bool) -> None:
    w = iv.asarray(RNG.standard_normal((4, 4)))

    def last_read(h: iv.Tensor, xs: iv.Tensor) -> iv.Tensor:
        step = lambda h, x: (iv.tanh(h @ w + x), h)
        return iv.scan(iv.checkpoint(step) if checkpoint else step, h, xs)[1][3].sum()

    found = report(last_read)(iv.ones((2, 4)), iv.ones((12, 2, 4)))
    assert found.done.products == 4
    assert found.avoided["not needed"].products == 8
    assert found.avoided["not needed"].multiply_adds == 8 * 2 * 4 * 4
    assert "8 steps of scan" in found.text(steps=True)


def test_what_is_computed_once() -> None:
    found = report(lambda x: iv.sin(x) * iv.exp(iv.sin(x)))(iv.ones(7))
    assert found.avoided["common"] == Cost(entries=7, bytes=56)


def test_pieces_are_of_the_equation_whose_cotangent_they_are() -> None:
    """Calls on one line of code, in a loop: each has its own."""
    biases = [iv.ones(n) for n in (3, 3, 1)]

    def f(x):
        for b in biases:
            x = iv.sin(x + b)
        return x.sum()

    found = report(iv.grad(f))(iv.ones((2, 3)))._found
    adds = [e for e in found.traced.equations if e.op.name == "add"]
    of = [p.equation for p in found.pieces if p.reason == "not needed"]
    assert len(of) == len(adds) == 3
    assert set(of) == set(adds)


def _layouts(shape: tuple[int, int]) -> list:
    """A matrix in several layouts."""
    dense = np.where(RNG.random(shape) < 0.4, RNG.standard_normal(shape), 0.0)
    region = Region((1, 0), (shape[0] - 1, shape[1] - 1))
    made = [value_of(iv.asarray(dense).to_layout(name)) for name in ("coo", "csr", "csc")]
    return [
        dense,
        Box(shape, region, np.ascontiguousarray(dense[region.slices])),
        Zero(shape, dense.dtype),
        *made,
    ]


def test_products_cost_what_kernels_count() -> None:
    """The cost worked out from supports is what the kernels do, in every pair of layouts."""
    for a in _layouts((6, 9)):
        for b in _layouts((9, 5)):
            with iv.explain.count() as work:
                out = value_of(bind(TABLE["matmul"], (make_handle(a), make_handle(b))))
            avals = [Aval(x.shape, x.dtype, support_of(x)) for x in (a, b)]
            found = cost.of(TABLE["matmul"], avals, [Aval(out.shape, out.dtype)], {})
            assert found.multiply_adds == work.multiply_adds, (type(a), type(b))
            assert found.products == work.products + work.sparse_products, (type(a), type(b))


@pytest.mark.parametrize(
    ("name", "shapes", "flops"),
    [  # Flops as printed in Golub and Van Loan, for m = 60 and n = 30 (square: n).
        ("solve", ((30, 30), (30, 60)), 2 * 30**3 / 3 + 2 * 30**2 * 60),
        ("solve_triangular", ((30, 30), (30, 60)), 30**2 * 60),
        ("inv", ((30, 30),), 2 * 30**3),
        ("det", ((30, 30),), 2 * 30**3 / 3),
        ("slogdet", ((30, 30),), 2 * 30**3 / 3),
        ("cholesky", ((30, 30),), 30**3 / 3),
        ("qr", ((60, 30),), 4 * 30**2 * (60 - 10)),
        ("qr", ((30, 60),), 2 * 30**2 * (60 - 10) + 4 * 30**3 / 3),
        ("qr_complete", ((60, 30),), 2 * 30**2 * (60 - 10) + 4 * (60**2 * 30 - 60 * 30**2 + 30**3 / 3)),
        ("eigh", ((30, 30),), 9 * 30**3),
        ("eigvalsh", ((30, 30),), 4 * 30**3 / 3),
        ("eig", ((30, 30),), 25 * 30**3),
        ("svd", ((60, 30),), 14 * 60 * 30**2 + 8 * 30**3),
        ("svd", ((30, 60),), 14 * 60 * 30**2 + 8 * 30**3),
        ("svd_full", ((60, 30),), 4 * 60**2 * 30 + 8 * 60 * 30**2 + 9 * 30**3),
        ("svdvals", ((60, 30),), 4 * 60 * 30**2 - 4 * 30**3 / 3),
        ("eigen_spectral", ((30, 30), (1, 30)), 9 * 30**3 + 2 * 30**3),
        ("singular_spectral", ((60, 30), (1, 30)), 14 * 60 * 30**2 + 8 * 30**3 + 2 * 60 * 30**2),
        ("lu", ((60, 30),), 60 * 30**2 - 30**3 / 3),
        ("lu", ((30, 30),), 2 * 30**3 / 3),
    ],
)
def test_factorisations_cost_the_textbooks_flops(name, shapes, flops) -> None:
    params = {"lower": True, "check": True} if name == "solve_triangular" else {}
    with iv.explain.count() as work:
        bind(TABLE[name], tuple(np.eye(*s) for s in shapes), params)
    assert work.multiply_adds == flops / 2
    assert not work.products
    assert not work.total_entrywise


def test_factorisations_that_are_avoided_have_the_price_of_those_that_are_done() -> None:
    a, b = iv.asarray(np.eye(6) * 2), iv.ones((6, 4))
    once, column = 6**3 // 3, 6**2 * 4
    found = report(lambda a, b: iv.linalg.solve(a, b).sum())(a, b)
    assert found.done.multiply_adds == once + column
    gradient = report(iv.grad(lambda a, b: iv.linalg.solve(a, b).sum(), 1))(a, b)
    assert gradient.done.multiply_adds == once + column  # back
    assert gradient.avoided["dead"].multiply_adds == once + column  # forward
    assert gradient.avoided["not needed"].multiply_adds == 6 * 4 * 6  # a product for that of a
    batch = report(iv.linalg.cholesky)(iv.asarray(np.stack([np.eye(6)] * 3)))
    assert batch.done.multiply_adds == 3 * 6**3 // 6


def test_ops_cost_what_is_counted() -> None:
    """On the samples of every op: products, multiply-adds, and entries computed one by one."""
    for op in TABLE.values():
        for sample in op.samples(Sampler()) if op.samples else ():
            with iv.explain.count() as work:
                out = bind(op, sample.args, dict(sample.params))
            results = [Aval(x.shape, x.dtype) for x in (out if op.multiple else (out,))]
            operands = [Aval(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in sample.args]
            found = cost.of(op, operands, results, sample.params, dense=True)
            assert found.products == work.products + work.sparse_products, op.name
            assert found.multiply_adds == work.multiply_adds, op.name
            if work.total_bytes:  # else it gave what it was given
                assert found.entries == work.total_entrywise, op.name


TEXT = """\
grad of f: 4 steps
                products   multiply-adds       entries         bytes
done                   2              48             8           176
avoided                1              24            24           232
  not needed           1              24             0            96
  dead                 0               0            16            72
  algebra              0               0             8            64

lines                share  products   multiply-adds       entries         bytes
  test_report.py:000  100%         2              48             8           176  \
return iv.sin(x @ w).sum()  avoided 1 product, 24 multiply-adds, 24 entries, 232 bytes

steps
  %3 = matmul(%0, %1): float64[2, 4]; 1 product, 24 multiply-adds, 64 bytes
  %4 = cos(%3): float64[2, 4]; 8 entries, 64 bytes
  %5 = permute_dims[axes=(1, 0)](%1): float64[4, 3]; no work
  %6 = matmul(%4, %5): float64[2, 3]; 1 product, 24 multiply-adds, 48 bytes

avoided
  not needed  the cotangent of input 1 of matmul: 1 product, 24 multiply-adds, 96 bytes
  dead        sin of (2, 4): 8 entries, 64 bytes
  dead        sum of (2, 4): 8 entries, 8 bytes
  algebra     multiply of (2, 4) and (2, 4): 8 entries, 64 bytes"""


def test_functions_of_modules_without_a_name_are_reported() -> None:
    made: dict[str, object] = {"iv": iv}
    exec("def f(x): return iv.sin(x).sum()", made)
    assert str(report(iv.grad(made["f"]))(iv.ones(3))).startswith("grad of f:")


def test_the_text_of_a_report() -> None:
    def f(x, w):
        return iv.sin(x @ w).sum()

    found = report(iv.grad(f))(iv.ones((2, 3)), iv.ones((3, 4)))
    text = re.sub(r"  # \w+\.py:\d+", "", found.text(steps=True))
    assert re.sub(r"_report\.py:\d+", "_report.py:000", text) == TEXT
    assert str(found) == found.text() == found.text(steps=True).partition("\n\nsteps")[0]
    # Forward and backward, a step has the line of the call that it computes or differentiates.
    assert {s.line.text for s in found._found.steps if s.line} == {"return iv.sin(x @ w).sum()"}
    assert all(s.line for s in found._found.steps)


def test_the_work_of_a_line_is_that_of_its_steps() -> None:
    """Forward and backward, in the order of the source; shares are of all work, or of the time."""

    def f(x, w):
        y = iv.sin(x)
        for _ in range(3):
            y = y @ w
        return (y * y).sum()

    for time in (False, True):
        found = report(iv.grad(f, (0, 1)), time=time)(iv.ones((5, 4)), iv.ones((4, 4)))
        totals = found._found.by_line()
        assert [t.line.text for t in totals if t.line] == [
            "y = iv.sin(x)",
            "y = y @ w",
            "return (y * y).sum()",
        ]
        assert sum((t.cost for t in totals), Cost()) == found.done
        assert sum((t.avoided for t in totals), Cost()) == sum(found.avoided.values(), Cost())
        assert totals[1].cost.products == 9
        np.testing.assert_allclose(sum(t.share for t in totals), 1.0)
        assert all((t.seconds is None) == (not time) for t in totals if t.cost)
        for text in (str(found), found.html()):
            assert [text.index(t.address) for t in totals] == sorted(text.index(t.address) for t in totals)
        assert str(found).count("%") == len(totals)


def test_steps_are_timed_where_that_is_asked_for() -> None:
    timed, untimed = (report(mlp, time=t)(iv.ones((2, 7))) for t in (True, False))
    assert timed.text(steps=True).count(" us") == 1 + len(timed._found.steps) + 1
    assert " us" not in untimed.text(steps=True)


def test_a_compiled_function_lists_its_program() -> None:
    found = str(report(iv.jit(mlp))(iv.ones((2, 7))))
    assert "program: 1 step" in found
    assert "native" in found
    assert "library" not in found


def test_what_runs_inside_of_a_step_is_listed() -> None:
    """Of a loop's body and of branches, in compiled code too, with the library steps of their programs."""
    a = iv.asarray(2 * np.eye(4)).requires_grad_()
    inner = iv.jit(lambda x: iv.linalg.solve(a, x))
    step = lambda c, x: (iv.tanh(inner(c) + x), None)

    def f(c: iv.Tensor, xs: iv.Tensor) -> iv.Tensor:
        return iv.scan(step, c, xs)[0]

    args = iv.ones((4, 2)), iv.ones((3, 4, 2))
    each = 4**3 // 3 + 4**2 * 2
    for function in (f, iv.jit(f)):
        found = report(function)(*args)
        (scan,) = (s for s in found._found.steps if s.bodies)
        (body,) = scan.bodies
        names = [s.equation.op.name for s in body.steps]
        assert names == ["solve", "add", "tanh"]
        assert body.steps[0].done.multiply_adds == each
        assert found.done.multiply_adds == 3 * each
        assert all(s.text in found.text(steps=True) and s.text in found.html() for s in body.steps)
    (program,) = found._found.program
    assert program.kind == "native"
    assert {"loops: 1", "routines: 2"} <= set(program.what.split(", "))


def test_a_function_that_calls_compiled_ones_lists_their_programs() -> None:
    inner = iv.jit(iv.linalg.solve)
    a, x = iv.asarray(2 * np.eye(4)), iv.ones((4, 2))
    f = lambda a, x: iv.sin(inner(a, inner(a, x))).sum()
    found = report(f)(a, x)
    assert [s.equation.op.name for s in found._found.steps] == ["solve", "solve", "sin", "sum"]
    program = [(s.depth, s.kind, s.what) for s in found._found.program]
    assert program == [
        (0, "program", "solve, 2 calls"),
        (1, "native", "routines: 1, checks: 1, arena: 64 bytes"),
    ]
    assert "solve, 2 calls" in str(found)
    back = [(s.kind, s.what) for s in report(iv.grad(f, 1))(a, x)._found.program]
    assert ("program", "solve, forward, 2 calls") in back
    assert ("program", "solve, backward, 2 calls") in back
    assert all(kind != "library" for kind, _ in back)
    assert not report(iv.vmap(f, (None, 0)))(a, iv.ones((3, 4, 2)))._found.program  # op by op


def test_what_a_report_raises() -> None:
    with pytest.raises(iv.errors.ArgumentTypeError, match="report: argument 'function'"):
        report(3)
    with pytest.raises(iv.errors.GraphError):
        report(lambda x: x if x.sum() > 0 else -x)(iv.ones(3))
