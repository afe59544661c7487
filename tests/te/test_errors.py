"""Errors of index notation: in the words of the definition, where an index is wrong, and what to write."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.errors import ArgumentTypeError, IndexingError, IversonError

X = np.ones((4, 3))
ROW = iv.asarray(np.ones(4))
AT = np.array([[0, 0, 0], [0, 0, 9]])


def gathered(x: te.Tensor, at: te.Tensor) -> te.Tensor:
    return te.compute(at.shape, lambda i, j: x[at[i, j], j])


def stored(x: te.Tensor, at: te.Tensor) -> te.Tensor:
    return te.scatter((4, 3), at.shape, lambda i, j: ((at[i, j], j), x[i, j]))


def walked(x: te.Tensor, at: te.Tensor) -> te.Tensor:
    return te.scan(at.shape, lambda s: te.compute(at.shape, lambda t, j: s[t - 1, at[t, j]] + x[0, 0]))


#: Of an op with a wrong index: what the message says.
AT_A_POINT = {
    gathered: r"te.gathered: argument 'x': got index 9 at axis 0 of x\[at\[i, j\], j\], where i = 1, j = 2; "
    "expected indices from 0 to 3",
    stored: r"argument 'stored': got index 9 at axis 0 of stored\[at\[i, j\], j\], where i = 1, j = 2",
    walked: r"argument 'walked': got index 9 at axis 1 of walked\[t - 1, at\[t, j\]\], where t = 1, j = 2",
}


@pytest.mark.parametrize("define", AT_A_POINT)
@pytest.mark.parametrize("way", [lambda f: f, iv.jit, lambda f: iv.jit(lambda x, at: f(2.0 * x, at) + 1.0)])
def test_an_index_that_is_wrong_names_tensor_point_and_value(define: Any, way: Any) -> None:
    """Compiled with others, too."""
    with pytest.raises(IndexingError, match=AT_A_POINT[define]):
        way(te.op(define))(X, AT)


def test_so_does_one_in_a_derivative() -> None:
    op = te.op(gathered)
    with pytest.raises(IndexingError, match=r"x\[at\[i, j\], j\], where i = 1, j = 2"):
        iv.grad(lambda x: op(x, AT).sum())(X)
    with pytest.raises(IndexingError, match=r"x\[e, at\[e, i, j\], j\], where e = 1, i = 1, j = 2"):
        iv.vmap(op)(np.stack([X, X]), np.stack([0 * AT, AT]))


def _inner_scan(s: te.Tensor) -> te.Compute:
    inner = te.scan((4,), lambda q: te.compute((4,), lambda t: q[t - 1] + s[t - 1]))
    return te.compute((4,), lambda t: inner[t])


#: What is written by mistake, and what the message says to write.
INSTEAD: dict[str, tuple[Any, str]] = {
    "a function of arrays": (lambda x: te.compute((4,), lambda i: iv.exp(x[i, 0])), r"te\.exp\(x\)"),
    "a function of numbers": (
        lambda x: te.compute((4,), lambda i: math.exp(x[i, 0])),
        r"te\.exp\(x\), not math",
    ),
    "a branch": (lambda x: te.compute((4,), lambda i: 1.0 if x[i, 0] > 0 else 0.0), r"te\.select"),
    "a chain": (
        lambda x: te.compute((4,), lambda i: te.select(0 < x[i, 0] < 1, 1, 0)),
        r"\(x > 0\) & \(x < 1\)",
    ),
    "and": (lambda x: te.compute((4,), lambda i: te.select(i < 3 and i > 0, 1, 0)), "with &, | and ~"),
    "a maximum": (lambda x: te.compute((4,), lambda i: max(x[i, 0], 0.0)), r"te\.maximum"),
    "an array": (lambda x: te.compute((4,), lambda i: x[i, 0] * np.ones(4)), r"A\[i, j\]"),
    "an array at an index": (
        lambda x: te.compute((4,), lambda i: X[i, 0] * x[i, 0]),
        r"A\[i\] of an array that",
    ),
    "a list at an index": (lambda x: te.compute((4,), lambda i: [1.0, 2.0][i]), r"A\[i\] of an array that"),
    "a range": (lambda x: te.compute((4,), lambda i: range(5)[i]), r"te\.reduce_axis\(n\) in place of range"),
    "a loop": (lambda x: te.compute((4,), lambda i: sum(x[k, 0] for k in range(i))), r"te\.reduce_axis\(n\)"),
    "round": (lambda x: te.compute((4,), lambda i: round(x[i, 0])), r"use te\.round\(x\)"),
    "floor": (lambda x: te.compute((4,), lambda i: math.floor(x[i, 0])), r"use te\.floor\(x\)"),
    "ceil": (lambda x: te.compute((4,), lambda i: math.ceil(x[i, 0])), r"use te\.ceil\(x\)"),
    "trunc": (lambda x: te.compute((4,), lambda i: math.trunc(x[i, 0])), r"use te\.trunc\(x\)"),
    "divmod": (lambda x: te.compute((4,), lambda i: divmod(i, 2)[0]), r"use x // n and x % n"),
    "sum of an entry": (lambda x: te.compute((4,), lambda i: sum(x[i, 0])), r"te\.sum\(A\[i, k\], axis=k\)"),
    "sum of a tensor": (lambda x: te.compute((4,), lambda i: sum(x)), r"index it: t\[i, j\]"),
    "sorted": (
        lambda x: te.compute((4,), lambda i: sorted([x[i, 0], x[i, 1]])[0]),
        r"te\.maximum or te\.minimum",
    ),
    "a format": (lambda x: te.compute((4,), lambda i: len(f"{x[i, 0]:.2f}")), r"use str\(x\)"),
    "int": (lambda x: te.compute((4,), lambda i: x[int(x[i, 0]), 0]), r"use x\.astype\('int64'\)"),
    "complex": (lambda x: te.compute((4,), lambda i: complex(x[i, 0])), r"use x\.astype\('complex128'\)"),
    "len": (lambda x: te.compute((len(x),), lambda i: x[i, 0]), r"use t\.shape\[0\]"),
    "len of an entry": (
        lambda x: te.compute((4,), lambda i: len(x[i, 0])),
        r"use the extents .*A\.shape\[0\]",
    ),
    "two brackets": (lambda x: te.compute((4,), lambda i: x[i, 0][0]), r"A\[i, j\], not A\[i\]\[j\]"),
    "a condition on data": (lambda x: te.compute((4,), lambda i: x[i, 0] and x[i, 1]), "with &, | and ~"),
    "a comparison": (lambda x: te.compute((4,), lambda i: 1.0 if i == 0 else x[i, 0]), r"te\.select"),
    "in": (lambda x: te.compute((4,), lambda i: te.select(i in (1, 2), x[i, 0], 0)), r"te\.select"),
    "in a tensor": (
        lambda x: te.compute((4,), lambda i: te.select(1.0 in x, x[i, 0], 0)),
        r"te\.max\(t\[k\] == x",
    ),
    "whole tensors": (lambda x: te.compute((4,), lambda i: (x + 1)[i, 0]), r"index it: t\[i, j\] \+ 1"),
    "a method": (lambda x: te.compute((4,), lambda i: x[i, 0].exp()), r"in index notation it is te\.exp"),
    "another method": (lambda x: te.compute((4,), lambda i: x[i, 0].item()), r"te\.exp\(x\)"),
    "a part": (lambda x: te.compute((4,), lambda i: x[i, 0].real), r"in index notation it is te\.real"),
    "numpy's name": (lambda x: te.compute((4,), lambda i: te.arcsin(x[i, 0])), r"it is te\.asin"),
    "a slip": (lambda x: te.reduceaxis(x.shape[0]), r"te\.reduce_axis"),
    "two results": (
        lambda x: (te.compute((4,), lambda i: x[i, 0]), te.compute((4,), lambda i: x[i, 1])),
        r"@te\.op\(results=2\)",
    ),
    "a maximum of two": (
        lambda x: te.compute((4,), lambda i: te.max(x[i, 0], x[i, 1])),
        r"te\.maximum\(a, b\)",
    ),
    "a minimum of two": (lambda x: te.compute((4,), lambda i: te.min(x[i, 0], 0.0)), r"te\.minimum\(a, b\)"),
    "an axis that is a number": (
        lambda x: te.compute((4,), lambda i: te.sum(x[i, 0], 1)),
        r"k = te\.reduce_axis\(n\)",
    ),
    "an index as axis": (lambda x: te.compute((4,), lambda i: te.sum(x[i, 0], i)), r"has an axis of its own"),
    "a tensor around": (lambda x: te.compute((4,), lambda i: ROW[i] * x[i, 0]), r"a parameter of the op"),
    "a whole tensor around": (lambda x: te.compute((4,), lambda i: ROW * x[i, 0]), r"a parameter of the op"),
    "a function of tensors": (
        lambda x: te.compute((4,), lambda i: iv.exp(x)[i, 0]),
        r"functions of te: te\.exp",
    ),
    "a remainder by 0": (lambda x: te.compute((4,), lambda i: x[i % 0, 0]), r"divide by max\(n, 1\)"),
    "a scan of a scan's state": (lambda x: te.scan((4,), _inner_scan), r"the states of both in one scan"),
    "an op of an array in an op": (
        lambda x: te.op(lambda a, b: te.compute((4,), lambda i: a[i, 0] * b[i]))(x, X[:, 0]),
        r"make it a parameter of the op around it",
    ),
    "a mean": (lambda x: te.compute((), lambda: te.mean(x, 0)), r"te\.sum\(x\[k\], k\) / n"),
    "a cast": (lambda x: te.compute((4,), lambda i: te.cast(x[i, 0], "int64")), r"x\.astype\(dtype\)"),
    "an assignment": (lambda x: x.__setitem__((0, 0), 1.0), r"te\.select chooses, te\.scatter adds up"),
    "two bounds": (lambda x: te.reduce_axis(0, 4), r"te\.reduce_axis\(\(0, 4\)\)"),
    "bounds of a range": (lambda x: te.reduce_axis(range(4)), r"a pair, \(lo, hi\)"),
    "a fraction": (lambda x: te.compute((x.shape[0] / 2,), lambda i: x[i, 0]), "divide with //"),
    "an extent that is data": (lambda x: te.compute((x,), lambda i: i), r"x\.shape\[0\], or x after \*"),
    "a method of a tensor": (lambda x: te.compute((4,), lambda i: x.sum()), r"te\.sum\(t\[i, k\], axis=k\)"),
    "numpy's arrays": (
        lambda x: te.compute((4,), lambda i: np.array([x[i, 0], 1.0])),
        r"use functions of te",
    ),
    "a size": (lambda x: te.compute((te.var("n"),), lambda i: x[i, 0]), r"te.var n; .*x\.shape\[0\]"),
}


@pytest.mark.parametrize("name", INSTEAD)
def test_mistakes_are_told_what_to_write_instead(name: str) -> None:
    define, message = INSTEAD[name]
    with pytest.raises(IversonError, match=message):
        te.op(define)(X)


@pytest.mark.parametrize("value", [np.ones(3), iv.ones(3)])
def test_an_array_is_no_constant(value: Any) -> None:
    op = te.op(lambda x, *, weight: te.compute((4,), lambda i: x[i, 0]))
    with pytest.raises(
        ArgumentTypeError, match=r"'weight': got .* expected a constant.*positional parameter"
    ):
        op(X, weight=value)


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32"), iv.float32])
def test_a_dtype_is_a_constant(dtype: Any) -> None:
    def total(x: te.Tensor, *, dtype: Any) -> te.Tensor:
        k = te.reduce_axis(x.shape[0])
        return te.compute((), lambda: te.sum(x[k], axis=k, dtype=dtype))

    op = te.op(total)
    for call in (lambda x: op(x, dtype=dtype), iv.jit(lambda x: op(x, dtype=dtype))):
        found = call(np.full(300, 100, "int8"))
        assert (found.dtype, float(found)) == (iv.float32, 30000.0)


def test_no_module_of_te_stands_where_a_function_is_looked_for() -> None:
    """``te.where`` was one, in place of the function of the table of scalars."""
    found = {n for n in iv.__all__ if inspect.ismodule(getattr(te, n, None))}
    assert found == {"derivatives"}  # of functions, not of numbers: none looks for it in te
    op = te.op(lambda x: te.compute((4,), lambda i: te.where(i < 2, x[i, 0], -1.0)))
    assert op(X).tolist() == [1.0, 1.0, -1.0, -1.0]
