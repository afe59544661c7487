"""Rules of passes: each is applied to operands of all dtypes, and -0, inf and nan stay as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iverson.core.aval import aval_of
from iverson.core.dispatch import make_handle, value_of
from iverson.core.table import F
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import Graph
from iverson.graph.ir.verify import check
from iverson.graph.passes import PASSES
from iverson.graph.passes.product_merging import folding
from iverson.graph.passes.rewriting import Rewriting
from iverson.graph.tracing.trace import trace_flat
from iverson.layouts import Zero, to_strided

TABLES = {t.__name__: t for t in PASSES if isinstance(t, Rewriting)}
MASK = np.array([[True, False, True], [False, True, True]])
A, B = (2, 3), (3, 3)
ROWS = (slice(0, 2, 1), slice(0, 3, 1))


def zero_of(x):
    return make_handle(Zero(x.shape, x.dtype))


def placed(x, at):
    return F.embed(x, key=(slice(at, at + 2, 1), slice(0, 3, 1)), shape=(6, 3))


#: For each rule of each table, functions to which it applies, and the shapes of their operands.
CASES = {
    "algebra": {
        "identity(x) -> x": [(F.identity, [A])],
        "copy(x) -> x": [(F.copy, [A])],
        "positive(x) -> x": [(F.positive, [A])],
        "astype(x) -> x": [(lambda x: F.astype(x, dtype=x.dtype), [A])],
        "broadcast_to(x) -> x": [(lambda x: F.broadcast_to(x, shape=A), [A])],
        "reshape(x) -> x": [(lambda x: F.reshape(x, shape=A), [A])],
        "reshape(reshape(x)) -> reshape(x)": [
            (lambda x: F.reshape(F.reshape(x, shape=(6,)), shape=(3, 2)), [A]),
            (lambda x: F.reshape(F.reshape(x, shape=(6,)), shape=A), [A]),
        ],
        "permute_dims(x) -> x": [(lambda x: F.permute_dims(x, axes=(0, 1)), [A])],
        "permute_dims(permute_dims(x)) -> permute_dims(x)": [
            (lambda x: F.permute_dims(F.permute_dims(x, axes=(1, 0)), axes=(1, 0)), [A]),
            (lambda x: F.permute_dims(F.permute_dims(x, axes=(1, 2, 0)), axes=(0, 2, 1)), [(2, 3, 4)]),
        ],
        "selected(x) -> x": [(F.selected, [A])],
        "to_dense(x) -> x": [(F.to_dense, [A])],
        "multiply(1, x) -> x": [(lambda x: F.multiply(1, x), [A])],
        "multiply(x, 1) -> x": [
            (lambda x: F.multiply(x, 1), [A]),
            (lambda x: F.multiply(x, np.ones(A, x.dtype)), [A]),
        ],
        "divide(x, 1) -> x": [(lambda x: F.divide(x, 1), [A])],
        "pow(x, 1) -> x": [(lambda x: F.pow(x, 1), [A])],
        "negative(negative(x)) -> x": [(lambda x: F.negative(F.negative(x)), [A])],
        "add(*terms) -> add(*terms)": [
            (lambda x: F.add(x, zero_of(x)), [A]),
            (lambda x: F.add(zero_of(x), x), [A]),
        ],
        "add_n(*terms) -> add_n(*terms)": [
            (lambda x, y: F.add_n(x, zero_of(x), y), [A, A]),
            (lambda x: F.add_n(zero_of(x), x), [A]),
        ],
        "subtract(x, zero) -> x": [(lambda x: F.subtract(x, zero_of(x)), [A])],
        "index_basic(x) -> x": [(lambda x: F.index_basic(x, key=ROWS), [A])],
        "index_basic(stack(*xs)) -> index_basic(x)": [
            (lambda x, y: F.index_basic(F.stack(x, y, axis=0), key=(1, *ROWS)), [A, A]),
            (lambda x, y: F.index_basic(F.stack(x, y, axis=1), key=(ROWS[0], 0, 2)), [A, A]),
        ],
        "index_basic(concat(*xs)) -> index_basic(x)": [
            (
                lambda x, y: F.index_basic(F.concat(x, y, axis=0, offsets=(0, 2)), key=(slice(2, 4, 1), 1)),
                [A, B],
            ),
        ],
    },
    "halves": {"op(*xs) -> astype(op(*astype(xs)))": [(lambda x, y: F.add(F.sin(x), y), [A, A])]},
    "packing": {
        "pack(x, mask) -> gather(reshape(x), places(mask))": [
            (lambda x: F.pack(x, F.logical_not(F.logical_not(MASK)), count=4), [A]),
            (lambda x: F.pack(x, np.zeros(A, bool), count=0), [A]),
        ],
        "unpack(x, mask) -> where(mask, gather(x, ranks(mask)), 0)": [
            (lambda x: F.unpack(x, MASK, count=4), [(4,)]),
            (lambda x: F.unpack(x, np.zeros(A, bool), count=0), [(0,)]),
        ],
    },
    "constants": {
        "multiply(*xs) -> multiply(*factors)": [
            (lambda x: F.multiply(x, np.full(A, -2, x.dtype)), [A]),
            (lambda x: F.multiply(np.full((3,), 0.5, x.dtype), x), [A]),
            (lambda x: F.multiply(x, np.full((4, *A), 3, x.dtype)), [A]),
            (lambda x: F.multiply(x, 0.0), [A]),
            (lambda x: F.multiply(-0.0, x), [A]),
        ],
        "add(*xs) -> add(*arrays)": [(lambda x: F.add(x, 0.0), [A]), (lambda x: F.add(-0.0, x), [A])],
        "subtract(*xs) -> subtract(*arrays)": [(lambda x: F.subtract(0.0, x), [A])],
        "op(*xs) -> constant": [(lambda x, constant: F.add(x, F.negative(constant)), [A, A])],
    },
    "collapsing": {
        "sum(x) -> op(*sums)": [
            (lambda a, b: F.sum(F.matmul(a, b), axis=(0,), keepdims=False), [A, B]),
            (lambda a, b: F.sum(F.matmul(a, b), axis=(0, 1), keepdims=True), [A, B]),
            (lambda a, b: F.sum(F.matmul(a, b), axis=(0,), keepdims=False), [(4, *A), B]),
            (lambda a, b: F.sum(F.matmul(a, b), axis=(0, 2), keepdims=False), [A, (4, *B)]),
            (
                lambda a, b, c: F.sum(F.add(F.multiply(2, F.matmul(a, b)), c), axis=(0,), keepdims=False),
                [A, B, (3,)],
            ),
            (
                lambda a, b, c: F.sum(F.multiply(c, F.multiply(F.matmul(a, b), 3)), axis=(0,), keepdims=True),
                [A, B, (3,)],
            ),
            (
                lambda a, b, c: F.sum(F.subtract(F.divide(F.matmul(a, b), 2), c), axis=(0,), keepdims=False),
                [A, B, A],
            ),
            (
                lambda a, b, c: F.sum(F.where(MASK[:1], F.matmul(a, b), c), axis=(0,), keepdims=False),
                [A, B, (3,)],
            ),
            (
                lambda a, b: F.sum(
                    F.permute_dims(F.negative(F.matmul(a, b)), axes=(1, 0)), axis=(1,), keepdims=False
                ),
                [A, B],
            ),
            (
                lambda a, b: F.sum(
                    F.squeeze(F.matmul(F.expand_dims(a, axis=(1,)), b), axis=(1,)), axis=(0,), keepdims=False
                ),
                [A, B],
            ),
            (
                lambda a, b: F.sum(
                    F.broadcast_to(F.matmul(a, b), shape=(4, *A)), axis=(0, 1), keepdims=False
                ),
                [A, B],
            ),
            (
                lambda a, b: F.sum(
                    F.sum(F.matmul(a, b), axis=(1,), keepdims=False), axis=(0,), keepdims=False
                ),
                [A, B],
            ),
            (
                lambda a, b: F.sum(F.add_n(F.matmul(a, b), 1, F.matmul(a, b)), axis=(0,), keepdims=False),
                [A, B],
            ),
            (lambda a, b: F.sum(F.matmul(F.multiply(a, a), b), axis=(0,), keepdims=False), [A, B]),
        ],
    },
    "placing": {
        "add(*terms) -> embed(add_n(*parts))": [(lambda x, y: F.add(placed(x, 1), placed(y, 1)), [A, A])],
        "add_n(*terms) -> add_n(*terms, embed(add_n(*parts)))": [
            (lambda x, y, z: F.add_n(placed(x, 1), z, placed(y, 1)), [A, A, (6, 3)]),
            (lambda x, y, z: F.add_n(placed(x, 0), placed(z, 3), placed(y, 0)), [A, A, A]),
        ],
    },
    "folding": {
        "add(*products) -> matmul(a, add_n(*factors))": [
            (lambda a, x, y: F.add(F.matmul(a, x), F.matmul(a, y)), [A, B, B]),
            (lambda a, x, y: F.add(F.matmul(x, a), F.matmul(y, a)), [B, A, A]),
        ],
        "add_n(*products) -> matmul(a, add_n(*factors))": [
            (lambda a, x, y, z: F.add_n(F.matmul(a, x), z, F.matmul(a, y)), [A, B, B, A]),
        ],
        "matmul(a, b) -> broadcast_to(matmul(line, b))": [
            (lambda x, b: F.matmul(F.broadcast_to(x, shape=A), b), [(1, 3), B]),
            (lambda a, x: F.matmul(a, F.broadcast_to(x, shape=B)), [A, (3, 1)]),
        ],
        "matmul(a, b) -> reshape(matmul(vectors, permute_dims(a)))": [(F.matmul, [A, (4, 3, 1)])],
    },
}
#: Tables whose rules add in another order.
REORDERED = ("folding", "collapsing")
DTYPES = ["float64", "float32", "float16", "complex128", "int64"]


def entries_of(shape, dtype, seed):
    """Random entries, and among floats -0, inf and nan."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, shape).astype(dtype)
    if x.dtype.kind in "fc" and x.size > 2:
        x = x * x.dtype.type(0.7)
        x.ravel()[:3] = -0.0, np.inf, np.nan
        rng.shuffle(x.ravel())
    return x


def bits(x):
    """What tells the entries of an array apart, -0 from 0 too; nans are all alike."""
    x = np.ascontiguousarray(x)
    if x.dtype.kind == "c":
        return np.stack([bits(x.real), bits(x.imag)])
    if x.dtype.kind != "f":
        return x
    return np.where(np.isnan(x), np.uint64(7), x.astype(np.float64).view(np.uint64))


def test_every_rule_of_every_table_has_a_case():
    assert {name: [r.text for r in table.rules] for name, table in TABLES.items()} == {
        name: list(cases) for name, cases in CASES.items()
    }


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("table", "text"), [(t, text) for t, cases in CASES.items() for text in cases])
def test_a_rule_applies_and_changes_no_bit(table, text, dtype):
    (only,) = [r for r in TABLES[table].rules if r.text == text]
    run = Rewriting(table, only)
    applied = 0
    for f, shapes in CASES[table][text]:
        args = [entries_of(s, dtype, k) for k, s in enumerate(shapes)]
        if table in REORDERED:  # sums in another order: no infinities, and up to rounding
            args = [np.where(np.isfinite(a), a, 2).astype(dtype) for a in args]
        graph, _, _ = trace_flat(lambda *h, f=f: ([f(*h)], None), [aval_of(a) for a in args])
        if text.endswith("constant"):
            constants = (*graph.constants, (graph.inputs[-1], args.pop()))
            graph = replace(graph, inputs=graph.inputs[:-1], constants=constants)
        after = check(run(check(graph)))
        applied += str(after) != str(graph)
        expected, found = (value_of(interpret(g, list(map(make_handle, args)))[0]) for g in (graph, after))
        expected, found = to_strided(expected), to_strided(found)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if table in REORDERED:
            tolerance = 2e-2 if dtype == "float16" else 1e-5 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        elif table == "placing":  # sums of what is placed start from 0, which makes 0 of -0
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_array_equal(bits(found), bits(expected))
        assert str(check(run(after))) == str(after) or table in REORDERED
    never = (
        (dtype == "int64" and text.startswith("divide"))  # its result is no integer
        or (dtype == "complex128" and "1" in text)  # an infinite part times 1 is nan
        or (table == "halves" and dtype != "float16")
        or (table == "collapsing" and dtype == "int64")
    )
    assert bool(applied) != never


def test_no_rule_looks_into_a_value_that_is_read_elsewhere():
    """Of a sum of products of which one is read again, that one stays."""

    def f(a, x, y):
        product = F.matmul(a, x)
        return [F.add(product, F.matmul(a, y)), product]

    avals = [aval_of(np.ones(s)) for s in (A, B, B)]
    graph, _, _ = trace_flat(lambda *h: (f(*h), None), avals)
    assert [e.op.name for e in folding(graph).equations] == ["matmul", "matmul", "add"]


def test_the_documents_show_the_tables():
    """The chapter on graphs lists the rules as they are."""
    text = (Path(__file__).parents[2] / "docs/design/graph.md").read_text()
    lines = [line for t in TABLES.values() for line in (t.__name__, *(f"    {r.text}" for r in t.rules))]
    assert "\n".join(["```none", *lines, "```"]) in text


def test_equal_terms_of_a_body_are_computed_once():
    """Of a scan of 16 steps whose body multiplies twice alike: 16 products, also without jit."""
    import iverson as iv

    w, x = iv.asarray(np.eye(3)), iv.asarray(np.ones((3, 3)))

    def loop(x):
        return iv.scan(lambda c, _: (c @ w + (c @ w) * 2, None), x, iv.zeros((16, 1)))[0]

    for f in (loop, iv.jit(loop), iv.checkpoint(loop), lambda x: iv.cond(x[0, 0] > 0, loop, loop, x)):
        f(x)
        with iv.explain.count() as done:
            f(x)
        assert done.products == 16


def test_passes_run_on_bodies():
    """What a body computes and nobody reads, or what is simpler, is not in the graph that runs."""
    import iverson as iv
    from iverson.graph.ir.nodes import subgraphs
    from iverson.graph.passes import simplified

    def f(x):
        return [iv.fori_loop(0, 4, lambda _, c: iv.negative(iv.negative(c * 1.0)) + iv.sin(c), x)]

    graph, _, _ = trace_flat(lambda h: (f(h), None), [aval_of(np.ones(3))])
    bodies: list[Graph] = [body for e in simplified(graph).equations for _, body in subgraphs(e)]
    names = [e.op.name for body in bodies for e in body.equations]
    assert names.count("sin") == 1
    assert not {"negative", "multiply"} & set(names)
