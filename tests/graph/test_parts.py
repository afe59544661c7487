"""Random programs of parts and selections: passes keep what they compute; run again, they change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.codegen.nests.nodes import If, Update, statements
from iverson.core.table import TABLE
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.parse import parse
from iverson.graph.ir.print import show
from iverson.graph.ir.verify import check
from iverson.graph.lowering.graph_lowering import lower
from iverson.graph.passes import simplified
from iverson.graph.passes.demand_analysis import demands
from iverson.graph.passes.support_and_demand import entries
from iverson.layouts import Zero
from tests.conformance.product import EXHAUSTIVE, SEED
from tests.graph.programs import calls_of, close, matrices, traced
from tests.graph.ways import RTOL, agree, derivative, interpreted, pushed

COUNT = 400 if EXHAUSTIVE else 14
#: Functions of two 3x3 matrices, and of a number that says which part is taken.
STEPS: tuple[Callable[[Any, Any, int], Any], ...] = (
    lambda x, y, k: iv.where(x > 0.1 * (k % 3), x, y),
    lambda x, y, k: iv.where(x > 0, 0, x) * y,
    lambda x, y, k: iv.relu(x) @ y,
    lambda x, y, k: iv.concat([x[k % 3 :], y[: k % 3]]),
    lambda x, y, k: iv.flip(iv.where(x > 0, x, y), axis=k % 2),
    lambda x, y, k: iv.stack([x, y, iv.relu(y)], axis=k % 3).reshape(9, 3)[k % 7 : k % 7 + 3],
    lambda x, y, k: x.reshape(9)[k % 5 : k % 5 + 3] + y.T,
    lambda x, y, k: iv.where(x > y, x, 1.0)[k % 3] * y,
    lambda x, y, k: iv.broadcast_to(iv.sum(iv.where(x > 0, x, y), axis=k % 2), (3, 3)),
    lambda x, y, k: iv.where(y[k % 3] > 0, x, y),
    lambda x, y, k: iv.tanh(x) * iv.maximum(x, y),
    lambda x, y, k: iv.roll(x, 1, axis=k % 2)[::-1] - iv.abs(y),
    lambda x, y, k: x[:, k % 3][:, None] * y[::2][k % 2],
    lambda x, y, k: iv.cumulative_prod(x[:, : 1 + k % 3], axis=1)[:, :1] + y,
    lambda x, y, k: iv.vmap(lambda a, b: iv.cumulative_sum(a * b)[k % 3 :].sum() * b)(x, y),
    lambda x, y, k: iv.concat([x[:, :0], y], axis=1) + iv.sum(x[:, : k % 2], axis=1, keepdims=True),
    lambda x, y, k: iv.sort(iv.tril(x, k=k % 2), axis=1) + iv.triu(y),
)


def parts_program(seed: int, steps: int = 6) -> Callable[..., tuple[Any, ...]]:
    """A function of two matrices, of whose results only parts are read."""
    rng = np.random.default_rng(seed)
    plan, last = rng.integers(0, 1 << 20, (steps, 4)).tolist(), rng.integers(0, 3, 2).tolist()

    def program(x: Any, y: Any) -> tuple[Any, ...]:
        made = [x, y]
        for kind, a, b, k in plan:
            made.append(STEPS[kind % len(STEPS)](made[-1 - a % 2], made[b % len(made)], k))
        return made[-1][last[0]], made[-2][:, last[1] :]

    return program


@pytest.mark.parametrize("seed", range(SEED * COUNT, SEED * COUNT + COUNT))
def test_derivatives_of_parts(seed: int) -> None:
    program = parts_program(seed)
    f = pushed(program) if seed % 2 else derivative(program, 1, 2)
    args = list(map(iv.asarray, matrices(seed)))
    expected = f(*args)
    for _, found in interpreted(f, args):
        agree(found, expected if isinstance(expected, tuple) else (expected,), RTOL[1])


def test_a_value_of_which_all_that_it_holds_is_read_stays_one() -> None:
    text = """\
graph(%0: float64[4], %1: float64[2], %2: float64[3]) {
  %3: float64[4] box (1,) (3,) = embed[key=(slice(1, 3, 1),), shape=(4,)](%1)
  %4: float64[4] box (1,) (4,) = linear_recurrence[axis=0, reverse=False](%0, %3)
  %5: float64[3] box (1,) (3,) = index_basic[key=(slice(0, 3, 1),)](%4)
  %6: float64[3] = add_n(%5, %2)
  return (%6)
}"""
    assert show(entries(check(parse(text)))).strip() == text


def test_both_factors_of_a_product_that_is_zero_are_unread() -> None:
    text = """\
graph(%0: float64[2, 2]) {
  %1: float64[2, 2] nothing = constant @0
  %2: float64[2, 2] nothing = multiply(%1, %0)
  %3: float64[2, 2] = matmul(%0, %2)
  %4: float64[2, 2] = add(%3, %0)
  %5: float64[2] = index_basic[key=(0, slice(0, 2, 1))](%4)
  return (%5)
}"""
    once = demands(check(parse(text, [Zero((2, 2), np.dtype(float))])))
    assert show(demands(once)) == show(once)


@pytest.mark.parametrize(
    ("made", "read", "left"),
    [
        (  # of an op that knows nothing of its entries, either
            "%4: float64[2, 2] = inv(%3)\n  %5: float64[2, 2, 2] = stack[axis=0](%4, %3)",
            "index_basic[key=(1, 0, slice(0, 2, 1))](%5)",
            ["stack[axis=0](%0, %3)", "stack[axis=0](%4, %5)"],
        ),
        (  # by a product of what is in a box, of which all is read
            (
                "%4: float64[2, 2] box (0, 0) (2, 1) ="
                " embed[key=(slice(0, 2, 1), slice(0, 1, 1)), shape=(2, 2)](%2)\n"
                "  %5: float64[2, 2] = matmul(%4, %3)"
            ),
            "sum[axis=(0,), keepdims=False](%5)",
            ["stack[axis=0](%0, %3)"],
        ),
    ],
)
def test_what_is_unread_is_zero(made: str, read: str, left: list[str]) -> None:
    """%3 is two rows, of which the second is not read."""
    text = f"""\
graph(%0: float64[2], %1: float64[2], %2: float64[2, 1]) {{
  %3: float64[2, 2] = stack[axis=0](%0, %1)
  {made}
  %6: float64[2] = {read}
  return (%6)
}}"""
    found = show(demands(check(parse(text))))
    assert all(line in found for line in left)


@pytest.mark.parametrize("name", [name for name, op in TABLE.items() if op.multiple and op.samples])
@pytest.mark.filterwarnings("ignore")
def test_one_of_several_results_is_read_alone(name):
    """Whichever it is, in full or a part of it, its operands are not taken for unread."""
    call = calls_of(name)[0]
    for k in range(len(call.function(*call.args))):

        def f(*args, k=k):
            y = call.function(*args)[k]
            return y, y[:1] if y.ndim else y

        for way in range(2):
            graph = traced(lambda *args, way=way, f=f: f(*args)[way] * 1, call.args)
            (found,) = interpret(simplified(graph), list(map(iv.asarray, call.args)))
            close(found, f(*map(iv.asarray, call.args))[way] * 1)


def test_zeros_around_a_value_that_is_read_often_are_stored():
    """The edge is tested where the zeros are written, not in the sums; inf meets them as in eager code."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 9, 9)), rng.standard_normal((4, 3, 3, 3))
    w[0, 0, 0, 0] = np.inf

    def f(x, w):
        return iv.nn.conv2d(x, w, padding=1)

    graph = simplified(iv.jit(f).graph(iv.asarray(x), iv.asarray(w)))
    (native,) = lower(graph).steps
    kernels = [s.kernel for s in native.compiled.program.steps]
    sums = [k for k in kernels if any(isinstance(s, Update) for p in k.phases for s in statements((p,)))]
    assert len(sums) == 1
    assert not any(isinstance(s, If) for p in sums[0].phases for s in statements((p,)))
    eager, compiled = (np.asarray(g(iv.asarray(x), iv.asarray(w))) for g in (f, iv.jit(f)))
    np.testing.assert_allclose(compiled, eager, rtol=1e-12)


def test_zeros_around_a_value_that_is_read_once_are_not_stored():
    graph = simplified(iv.jit(lambda x: iv.exp(iv.pad(x, 2))).graph(iv.asarray(np.ones((9, 9)))))
    (native,) = lower(graph).steps
    assert len(native.compiled.program.steps) == 1
