"""matmul, tensordot, vecdot, outer and einsum against NumPy, and how many products they take; errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import linalg
from iverson.core.errors import ArgumentError, ArgumentTypeError, AxisError, ShapeError
from iverson.explain import count
from tests.array_api.common import draw, same
from tests.conformance.product import examples

NUMERIC = ("int32", "float32", "float64", "complex64", "complex128")
MATMULS = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((4, 2, 3), (3, 2)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((4, 2, 3), (3,)),
    ((0, 2, 3), (3, 2)),
]


@pytest.mark.parametrize("dtype", NUMERIC)
def test_matmul(dtype):
    for a, b in MATMULS:
        x, y = draw(a, dtype), draw(b, dtype, 1)
        for call in (
            iv.matmul,
            linalg.matmul,
            lambda p, q: iv.asarray(p) @ q,
            lambda p, q: iv.asarray(p).matmul(q),
        ):
            same(call(x, y), np.matmul(x, y))


@pytest.mark.parametrize("dtype", NUMERIC)
def test_tensordot(dtype):
    x, y = draw((2, 3, 4), dtype), draw((3, 4, 2), dtype, 1)
    for axes, other in ((2, y), (1, y[0]), (0, y[0, 0])):
        same(iv.tensordot(x, other, axes=axes), np.tensordot(x, other, axes))
    for axes in (((1,), (0,)), ((1, 2), (0, 1)), ((-1, 0), (1, -1)), (0, 2)):
        same(iv.tensordot(x, y, axes=axes), np.tensordot(x, y, axes))
    same(iv.asarray(x).tensordot(y, axes=2), np.tensordot(x, y))


@pytest.mark.parametrize("dtype", NUMERIC)
def test_vecdot_and_outer(dtype):
    x, y = draw((2, 3), dtype), draw((4, 1, 3), dtype, 1)
    same(iv.vecdot(x, y), np.vecdot(x, y))
    same(iv.vecdot(x, x, axis=-2), np.vecdot(x, x, axis=-2))
    same(iv.vecdot(x, x, axis=0), np.vecdot(x, x, axis=0))
    same(iv.asarray(x).vecdot(x[0]), np.vecdot(x, x[0]))
    same(iv.outer(x[0], y[0, 0]), np.outer(x[0], y[0, 0]))
    assert iv.vecdot(np.ones((2, 0)), np.ones((2, 0))).shape == (2,)


SUBSCRIPTS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "ij,jk": [(2, 3), (3, 4)],
    "ij->ji": [(2, 3)],
    "ba": [(2, 3)],
    "ii->i": [(3, 3)],
    "ii": [(3, 3)],
    "iij->j": [(2, 2, 3)],
    "i,i->": [(3,), (3,)],
    "i,j->ij": [(3,), (2,)],
    "ij,ij->ij": [(2, 3), (2, 3)],
    "ij,ij->": [(2, 3), (2, 3)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bi,bi->b": [(2, 3), (2, 3)],
    "ij->": [(2, 3)],
    "ij,kl->": [(2, 3), (4, 2)],
    "...ij,...jk->...ik": [(5, 2, 3), (3, 4)],
    "...i->...": [(2, 3)],
    "i...,i...": [(2, 3), (2, 3)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 2)],
    "a,ab,b->": [(2,), (2, 3), (3,)],
    "ab,bc,cd,de->ae": [(2, 3), (3, 4), (4, 3), (3, 2)],
    "abc,cd,b->da": [(2, 3, 4), (4, 5), (3,)],
    "...a,...a->...": [(2, 1, 3), (4, 3)],
    "ij,j->ij": [(2, 3), (3,)],
    "ij,ij->i": [(2, 1), (2, 3)],
    "iji->j": [(2, 3, 2)],
    "ij,jj->i": [(2, 3), (3, 3)],
    "a,a,a->a": [(3,), (3,), (3,)],
    "->": [()],
    ",i->i": [(), (3,)],
    " i j , j k -> i k ": [(2, 3), (3, 4)],
    "ij,jk->ki": [(0, 3), (3, 2)],
    "ij,jk->ik ": [(2, 0), (0, 3)],
    "bqhd,bkhd->bhqk": [(2, 3, 2, 4), (2, 5, 2, 4)],
    "...,...": [(2, 3), (3,)],
    "aab,b": [(2, 2, 3), (3,)],
}


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_einsum(subscripts):
    for dtype in NUMERIC:
        xs = [draw(shape, dtype, k) for k, shape in enumerate(SUBSCRIPTS[subscripts])]
        same(iv.einsum(subscripts, *map(iv.asarray, xs)), np.einsum(subscripts, *xs))


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_any_einsum(data):
    extents = {label: data.draw(st.integers(1, 3)) for label in "abcd"}
    terms = data.draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=4))
    used = sorted(set("".join(terms)))
    output = "".join(data.draw(st.permutations(used))[: data.draw(st.integers(0, len(used)))])
    subscripts = ",".join(terms) + "->" + output
    xs = [draw(tuple(extents[c] for c in term), seed=k) for k, term in enumerate(terms)]
    same(iv.einsum(subscripts, *xs), np.einsum(subscripts, *xs), tolerance=1e-9)


def test_einsum_takes_few_products():
    x, y = draw((4, 2, 3)), draw((4, 3, 5))
    with count() as work:
        iv.einsum("bij,bjk->bik", x, y)
    assert work.products == 4
    with count() as work:
        iv.einsum("bij,bjk->ik", x, y)
    assert work.products == 1
    with count() as work:
        iv.einsum("ij,kj->ik", draw((50, 2)), draw((60, 2)))
        iv.tensordot(draw((2, 3, 4)), draw((3, 4, 2)))
    assert work.products == 2
    with count() as work:
        iv.einsum("i,j->ij", draw((3,)), draw((2,)))
    assert work.products == 0


ONE, TWO = np.ones(3), np.ones((2, 3))
ERRORS = [
    (lambda: iv.matmul(TWO, TWO), ShapeError, r"matmul.*\(2, 3\) for a of shape \(2, 3\)"),
    (lambda: iv.matmul(TWO, 2.0), ShapeError, "rank 0"),
    (lambda: iv.matmul(TWO, [1.0]), ArgumentTypeError, "matmul: argument 'x2': got a list"),
    (lambda: iv.matmul(np.ones((2, 2, 3)), np.ones((3, 3, 2))), ShapeError, "matmul.*shapes"),
    (lambda: iv.tensordot(TWO, TWO, axes=3), ArgumentError, "at most 2 axes"),
    (lambda: iv.tensordot(TWO, TWO, axes=((0,), (1,))), ShapeError, "got extent 3 on axis 1; expected 2"),
    (lambda: iv.tensordot(TWO, TWO, axes=((0, 1), (1,))), ArgumentError, "as many axes"),
    (lambda: iv.tensordot(TWO, TWO, axes=((5,), (1,))), AxisError, "tensordot"),
    (lambda: iv.vecdot(TWO, np.ones(2)), ShapeError, "vecdot: argument 'x2'"),
    (lambda: iv.vecdot(TWO, ONE, axis=-2), AxisError, "vecdot"),
    (lambda: iv.outer(TWO, ONE), ShapeError, "outer: argument 'x1'"),
    (lambda: iv.einsum("ij,jk->ik", TWO), ArgumentError, "2 terms .*one for each of 1 operands"),
    (lambda: iv.einsum("ij", ONE), ArgumentError, "'ij' for an operand of rank 1"),
    (lambda: iv.einsum("i->ij", ONE), ArgumentError, "result 'ij'"),
    (lambda: iv.einsum("i->ii", ONE), ArgumentError, "at most once"),
    (lambda: iv.einsum("i1->i", TWO), ArgumentError, "letters and at most one ellipsis"),
    (
        lambda: iv.einsum("ij,jk->ik", TWO, TWO),
        ShapeError,
        r"operands\[1\].*extent 2 for label 'j'; expected 3",
    ),
    (lambda: iv.einsum(TWO, "ij"), ArgumentError, "a string such as"),
    (lambda: iv.einsum("i,i", ONE, [1.0]), ArgumentTypeError, r"operands\[1\]"),
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
