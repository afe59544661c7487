"""A lowered program as one native call: numbers, errors and counts as by steps, in few Python calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.codegen.launches import compiled_program
from iverson.core.counting.work import counting
from iverson.core.errors import IndexingError, ShapeError
from iverson.te.lowering import lowered_program
from iverson.te.lowering.lowered_program import Lowered
from iverson.te.lowering.statement_lowering import lower
from tests.tools.entered import python_calls


def lowered(*outputs: te.Tensor, inputs: Any = None) -> Lowered:
    return lower(te.eliminate(te.program_of(outputs, inputs)))


def recurrence(steps: int, n: int) -> Lowered:
    """A linear recurrence and its gradients: a forward and four loops more."""
    x, a = te.placeholder((steps, n), name="x"), te.placeholder((n,), name="a")

    def step(s: Any) -> Any:
        return te.compute(x.shape, lambda t, i: a[i] * s[t - 1, i] + x[t, i])

    s = te.scan(x.shape, step, dtype="float64")
    head = te.placeholder(x.shape, name="head")
    return lowered(s, *te.differentiate(s, [x, a], head), inputs=[x, a, head])


def test_few_python_functions_are_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many loops there are: the call, the check of its arrays, and the program's."""
    monkeypatch.setattr(compiled_program, "np", np)
    monkeypatch.setattr(lowered_program, "np", np)
    code = recurrence(30, 4)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=s) for s in ((30, 4), (4,), (30, 4))]
    assert len(code.calls()) == 1
    for a, b in zip(code(*given), code(*given, threads=1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert python_calls(lambda: code(*given)) <= 5


@te.op
def weighed(x, w):
    return te.compute(x.shape, lambda i: w * x[i])


def test_an_op_called_as_before_enters_few_python_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call, that of its interpreter, the looks at its operands and at what it closes over (its code and a
    module here), its code's and the program's."""
    monkeypatch.setattr(compiled_program, "np", np)
    x, w = iv.asarray(np.arange(5.0)), iv.asarray(2.0)
    assert python_calls(lambda: weighed(x, w)) <= 14


def test_an_op_is_called_on_operands_of_other_kinds_in_turns() -> None:
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=5), rng.normal(size=3), rng.normal(size=5).astype("float32"), rng.normal(size=0)]
    ws = [2.0, np.asarray(3.0), np.float64(4.0), np.asarray(5.0, "float32")]
    for turn in rng.integers(4, size=(100, 2)):
        x, w = xs[turn[0]], ws[turn[1]]
        found, expected = weighed(iv.asarray(x), w), x * np.asarray(w)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6 if x.dtype == "float32" else 1e-15)


@pytest.mark.parametrize("way", ["strided", "read only", "other dtype", "reversed", "lists"])
def test_arrays_of_any_kind(way: str) -> None:
    x = te.placeholder((4, 6), name="x")
    code = lowered(te.compute((6,), lambda j: x[1, j] + 2.0 * x[3, j]))
    given: Any = np.arange(24.0).reshape(4, 6)
    expected = given[1] + 2 * given[3]
    if way == "strided":
        given = np.repeat(given, 2, 1)[:, ::2]
    elif way == "read only":
        given.flags.writeable = False
    elif way == "other dtype":
        given = given.astype("int32")
    elif way == "reversed":
        given = np.ascontiguousarray(given[::-1])[::-1]
    else:
        given = given.tolist()
    for threads in (None, 1):
        np.testing.assert_array_equal(code(given, threads=threads)[0], expected)
    with pytest.raises(ShapeError, match=r"argument 'x': got shape \(6, 4\); expected shape \(4, 6\)"):
        code(np.zeros((6, 4)))


@pytest.mark.parametrize("order", ["ij", "ji", "bij", "ibj", "ijb"])
def test_products_are_counted_and_take_their_arrays_as_they_lie(order: str) -> None:
    """As BLAS takes them; where it does not, they are copied."""
    n, m, k, b = 40, 48, 56, 3
    sizes = {"i": n, "j": m, "k": k, "b": b}
    batch = "b" if "b" in order else ""
    left, right = (
        te.placeholder([sizes[c] for c in batch + "ki"]),
        te.placeholder([sizes[c] for c in batch + "kj"]),
    )
    r = te.reduce_axis(k)

    def entry(*given: Any) -> Any:
        at = dict(zip(order, given, strict=True)) | {"k": r}
        a, c = ([at[v] for v in batch + own] for own in ("ki", "kj"))
        return te.sum(left[tuple(a)] * right[tuple(c)], r)

    code = lowered(te.compute([sizes[c] for c in order], entry), inputs=[left, right])
    rng = np.random.default_rng(0)
    given = [rng.normal(size=x.shape) for x in (left, right)]
    with counting() as work:
        (found,) = code(*given)
    expected = np.einsum(f"{batch}ki,{batch}kj->{order}", *given)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert work.products == (b if batch else 1)


def test_an_error_is_that_of_the_definition() -> None:
    x, at = te.placeholder((5,), name="x"), te.placeholder((3,), "int64", "at")
    code = lowered(te.compute((3,), lambda i: x[at[i]] * 2.0), inputs=[x, at])
    assert len(code.calls()) == 1
    with pytest.raises(IndexingError, match=r"got index 7 at axis 0 of x\[at\[i\]\], where i = 2"):
        code(np.zeros(5), np.array([0, 4, 7]))
    np.testing.assert_array_equal(code(np.arange(5.0), np.array([0, 4, 1]))[0], [0.0, 8.0, 2.0])


def test_long_scatters_and_sizes_of_a_call_are_part_of_it() -> None:
    n = 1 << 22
    x, at = te.placeholder((n,), name="x"), te.placeholder((n,), "int64", "at")
    assert len(lowered(te.scatter((64,), (n,), lambda e: (at[e], x[e]))).calls()) == 1
    v = te.var("n")
    y = te.placeholder((v,), name="y")
    code = lowered(te.compute((v,), lambda i: y[i] * 2.0))
    (size,) = code.program.sizes
    for n in (5, 0, 1, 9):
        own = code.at({size: n})
        assert len(own.calls()) == 1
        np.testing.assert_array_equal(own(np.arange(float(n)))[0], 2 * np.arange(float(n)))
    assert code.at({size: 9}) is own


def test_an_input_as_an_output_and_one_that_nobody_reads() -> None:
    x, y = te.placeholder((3,), name="x"), te.placeholder((2,), name="y")
    given = np.arange(3.0), np.ones(2)
    twice = te.compute((3,), lambda i: 2.0 * x[i])
    for outputs in ([x, twice], [twice, twice], [twice]):
        for found in lower(te.eliminate(te.program_of(outputs, [x, y])))(*given)[-1:]:
            np.testing.assert_array_equal(found, [0.0, 2.0, 4.0])


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)])
def test_of_no_entries(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    code = lowered(te.compute(shape, lambda *i: 2.0 * x[i]), te.compute((), lambda: 1.0))
    found, one = code(*[np.zeros(shape)] * len(code.program.inputs))
    assert found.shape == shape
    assert one == 1.0
