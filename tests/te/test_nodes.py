"""Expressions: interning, promotion, what folds, keys, printing, and the verifier."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace

import numpy as np
import pytest

from iverson import expr, te
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, IndexingError
from iverson.expr.build import as_expr, promote, select
from iverson.expr.nodes import Apply, Cast, Const, Expr, postorder
from iverson.expr.print import text
from iverson.te.ir.expressions import Var, substitute
from iverson.te.ir.nodes import Program
from iverson.te.ir.verify import check


def test_equal_expressions_are_the_same_object() -> None:
    i = Var("i", 0, 4)
    A = te.placeholder((4,), name="A")
    assert (A[i] * 2 + i) is (A[i] * 2 + i)
    assert A[i] is not te.placeholder((4,), name="A")[i]
    assert as_expr(0.0) is not as_expr(-0.0)
    assert as_expr(1) is not as_expr(1.0)
    assert as_expr(1) is not as_expr(True)
    assert as_expr(float("nan")) is as_expr(float("nan"))


def test_equality_is_an_expression_with_a_truth_value() -> None:
    i, j = Var("i", 0, 4), Var("j", 0, 4)
    assert isinstance(i == j, Apply)
    assert i + 1 == i + 1
    assert i != j
    with pytest.raises(ArgumentTypeError, match=r"te\.select"):
        bool(i < j)


@pytest.mark.parametrize(
    ("build", "dtype"),
    [
        (lambda x, i: x * 2.5, "float32"),
        (lambda x, i: x * i, "float32"),
        (lambda x, i: x + 1j, "complex64"),
        (lambda x, i: i / 2, "float64"),
        (lambda x, i: i // 2, "int64"),
        (lambda x, i: te.bracket(i < 2) * x, "float32"),
        (lambda x, i: x < i, "bool"),
        (lambda x, i: te.F.sin(i), "float64"),
        (lambda x, i: x.astype("float64") * x, "float64"),
    ],
)
def test_promotion(build: object, dtype: str) -> None:
    x = te.placeholder((4,), "float32", "x")
    i = Var("i", 0, 4)
    e = build(x[i], i)  # type: ignore[operator]
    assert e.dtype == np.dtype(dtype)
    for node in postorder([e]):
        if isinstance(node, Apply):
            assert len({a.dtype for a in node.args}) == 1


def test_strong_operands_promote_as_in_numpy() -> None:
    x, n = te.placeholder((), "float32", "x"), te.placeholder((), "int64", "n")
    assert promote([as_expr(x), as_expr(n)]) == np.float64


def test_simplifications() -> None:
    x, i = te.placeholder((4,), name="x"), Var("i", 0, 4)
    v = x[i]
    assert v + 0 is v
    assert 1 * v is v
    assert isinstance(v * 0, Const)
    assert -(-v) is v  # noqa: B002
    assert text(te.bracket(i < 2) * te.bracket(i > 0) * v) == "select(i < 2 and i > 0, x[i], 0.0)"
    assert select(True, v, 0) is v
    assert as_expr(2) * 3 is as_expr(6)
    assert text((v + i) * (v - 1)) == "(x[i] + float64(i)) * (x[i] - 1.0)"
    assert isinstance(as_expr(i).astype("float32"), Cast)


def test_long_chains_do_not_recurse() -> None:
    """Chains longer than the stack may be deep, which is set low: longer ones would show no more."""
    deep, limit = 150, sys.getrecursionlimit()
    _chains(2)  # what is imported on the way needs more
    sys.setrecursionlimit(len(inspect.stack(0)) + deep)
    try:
        _chains(2 * deep)
    finally:
        sys.setrecursionlimit(limit)


def _chains(n: int) -> None:
    """Expressions, stages and conditions of n steps each, through all that takes programs."""
    x = te.placeholder((4,), name="x")
    e = x[0]
    for k in range(n):
        e = e * 1.5 + k
    assert len(postorder([e])) > n
    (moved,) = substitute([e], {x[0]: x[1]})
    assert moved is not e
    assert len(repr(e)) < 10_000
    tensor = te.compute((), lambda: e, "y")
    chain = te.compute((4,), lambda i: x[i], "c0")
    for k in range(n):
        previous = chain
        chain = te.compute((4,), lambda i, previous=previous: previous[i] * 1.01, f"c{k}")
    program = te.program_of([chain, tensor])
    check(program)
    assert program.key()
    assert len(te.eliminate(te.differentiate(chain, x)[0]).statements) > n
    te.jvp(chain, {x: te.placeholder((4,), name="t")})
    te.eliminate(te.differentiate(tensor, x)[0])
    i = Var("i", 0, 4)
    condition = i < 0
    for k in range(n):
        condition = condition | (i == k * 7)
    many = te.compute((4,), lambda j: te.select(substitute([condition], {i: j})[0], 0, x[j]), "many")
    te.eliminate(te.differentiate(many, x)[0])


def _matmul(names: str, n: int = 3) -> Program:
    A, B = te.placeholder((n, 4), name=names[0]), te.placeholder((4, 5), name=names[1])
    k = te.reduce_axis((0, 4), names[2])
    return te.program_of([te.compute((n, 5), lambda i, j: te.sum(A[i, k] * B[k, j], k), names)])


def test_structural_key() -> None:
    assert _matmul("ABk").key() == _matmul("XYz").key()
    assert _matmul("ABk").key() != _matmul("ABk", 6).key()
    x = te.placeholder((6,), name="x")
    keys = {
        te.program_of([te.compute((6,), f)]).key()
        for f in (lambda i: x[i], lambda i: x[5 - i], lambda i: x[i] * 2, lambda i: x[i] * 3, lambda i: -x[i])
    }
    assert len(keys) == 5
    walked = te.eliminate(_matmul("ABk"))
    assert walked.key() == te.eliminate(_matmul("XYz")).key()


def test_reads_are_checked() -> None:
    A = te.placeholder((3, 4), name="A")
    with pytest.raises(IndexingError, match="got 1 indices; expected 2"):
        A[0]
    with pytest.raises(ArgumentTypeError, match="index of dtype float64"):
        A[0, 1.5]
    with pytest.raises(ArgumentTypeError, match=r"t\[i, j\]"):
        iter(A)
    with pytest.raises(DTypeError, match="float"):
        te.F.bitwise_and(A[0, 0], 1)
    with pytest.raises(ArgumentError, match=r"te\.F"):
        te.F.nonsense
    with pytest.raises(ArgumentTypeError, match="index a tensor to read it"):
        te.compute((3,), lambda i: A)


def test_verifier_refuses_broken_programs() -> None:
    program = _matmul("ABk")
    (s,) = program.statements
    for broken, message in [
        (replace(s, combine="mean"), "combine"),
        (replace(s, write=s.write[:1]), "write indices"),
        (replace(s, body=s.body.astype("float32")), "body of float32"),
        (replace(s, domain=te.ir.nodes.Domain(s.domain.axes[:2])), "index k"),
        (replace(s, combine="argmax"), "position"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            check(replace(program, statements=(broken,)))
    with pytest.raises(ArgumentError, match="before it is complete"):
        check(replace(program, inputs=program.inputs[:1]))


def test_operands_of_the_same_dtypes_are_not_promoted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where axes are put in place of others, all over a body."""
    i, j = Var("i", 0, 4), Var("j", 0, 4)
    x = te.placeholder((4,), name="x")

    def body(e: Expr) -> Expr:
        return te.F.exp(e) * 2.0 + te.F.maximum(e / 3, 0.0) - e

    given, expected = body(x[i]), body(x[j])
    promoted = []
    monkeypatch.setattr(expr.build, "promote", promoted.append)
    (found,) = substitute([given], {x[i]: x[j]})
    assert not promoted
    assert found is expected
    monkeypatch.undo()
    (number,) = substitute([x[i] * 2 + x[i]], {x[i]: as_expr(1.5)})
    assert isinstance(number, Const)
    assert number.value == 4.5
