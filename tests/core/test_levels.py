"""Levels: contexts that give handles a meaning nest, and each call goes to the innermost that it concerns.

Two toys: a batch, which maps over the first axis, and a trace, which writes down what is called.
"""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import iverson as iv
from iverson import layouts
from iverson.autograd import grad
from iverson.core.dispatch import Level, LevelValue, created, levels, make_handle, value_of
from iverson.core.errors import ArgumentError
from iverson.layouts import Layout
from iverson.ops import F


class Mapped(LevelValue):
    """One operand for each step of a batch."""

    __slots__ = ("items",)

    def __init__(self, level, items):
        super().__init__(level)
        self.items = items

    shape = property(lambda self: self.items[0].shape)
    dtype = property(lambda self: self.items[0].dtype)


class Batch(Level):
    def __init__(self, size):
        super().__init__("batch")
        self.size = size

    def bind(self, op, args, params):
        def at(k):
            return [a.items[k] if isinstance(a, Mapped) and a._level is self else a for a in args]

        return Mapped(self, [getattr(F, op.name)(*at(k), **params) for k in range(self.size)])


class Written(LevelValue):
    __slots__ = ("value",)

    def __init__(self, level, value):
        super().__init__(level)
        self.value = value

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)


class Trace(Level):
    def __init__(self):
        super().__init__("trace")
        self.calls = []

    def bind(self, op, args, params):
        self.calls.append(op.name)
        own = [a.value if isinstance(a, Written) and a._level is self else a for a in args]
        return Written(self, getattr(F, op.name)(*own, **params))

    def created(self, handle):
        self.calls.append("created")
        return make_handle(Written(self, handle))


@pytest.fixture(autouse=True)
def registered():
    """Values of levels are held in handles as those of layouts are."""
    for kind in (Mapped, Written):
        layouts.register(
            Layout(
                name=kind.__name__,
                kind=kind,
                to_strided=lambda value: pytest.fail("entries were read"),
                check=lambda value: None,
                buffers=lambda value: (),
                rebuild=lambda value, buffers: value,
            )
        )
    yield
    for kind in (Mapped, Written):
        del layouts.layouts_by_type[kind]


def mapped(f, x):
    """f of each row of x."""
    with Batch(x.shape[0]) as level:
        rows = [F.index_basic(x, key=(k, *[slice(0, n, 1) for n in x.shape[1:]])) for k in range(level.size)]
        y = value_of(f(make_handle(Mapped(level, rows))))
        assert y._level is level
    return F.stack(*y.items, axis=0)


X = np.arange(6.0).reshape(2, 3)
Y = np.arange(3.0) + 1


def test_levels_nest_and_a_call_goes_to_the_innermost_one_it_concerns():
    """The outer batch's rows times each entry of the inner batch: an outer product by two levels."""
    x, y = iv.asarray(X), iv.asarray(Y)
    seen = []

    def rows(row):
        def of_entry(entry):
            product = F.multiply(row, entry)  # one of each level
            assert value_of(product)._level is levels()[-1]
            outside = F.multiply(row, 2.0)  # of the outer level alone
            assert value_of(outside)._level is levels()[0]
            seen.append(len(levels()))
            return F.add(product, outside)

        return mapped(of_entry, y)

    found = mapped(rows, x)
    np.testing.assert_array_equal(found.numpy(), (X[:, None, :] * Y[None, :, None]) + 2 * X[:, None, :])
    assert set(seen) == {2}
    assert levels() == ()


def test_a_trace_of_a_batch_and_a_batch_of_a_trace():
    x = iv.asarray(X)
    with Trace() as trace:
        mapped(F.exp, make_handle(Written(trace, x)))
        assert trace.calls.count("exp") == len(X)  # the batch called the trace
    with Batch(2) as batch, Trace() as trace:
        rows = make_handle(Mapped(batch, [iv.asarray(row) for row in X]))
        y = value_of(F.exp(make_handle(Written(trace, rows))))
        assert trace.calls == ["exp"]  # the trace called the batch
        inner = value_of(y.value)
        assert isinstance(inner, Mapped)
        np.testing.assert_array_equal(inner.items[1].numpy(), np.exp(X[1]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: iv.zeros((2, 3)),
        lambda: iv.ones(3),
        lambda: iv.arange(4),
        lambda: iv.eye(2),
        lambda: iv.random.default_rng(0).normal(size=(2,)),
        lambda: iv.random.default_rng(0).integers(5, size=(2,)),
        lambda: iv.fft.fftfreq(4),
    ],
)
def test_what_no_operand_leads_to_reaches_the_innermost_level(make):
    plain = make()
    with Trace() as outer, Trace() as inner:
        made = value_of(make())
        assert made._level is inner
        assert inner.calls
        assert not outer.calls
    np.testing.assert_array_equal(made.value.numpy(), plain.numpy())


def test_without_a_level_what_is_created_is_as_it_is():
    x = iv.asarray(1.0)
    assert created(x) is x
    with Batch(2):
        assert created(x) is x  # the default: a constant


def test_levels_see_through_the_engine():
    """A level carries through a graph that was recorded on what its handles stand for."""
    x = iv.asarray(X, requires_grad=True)
    y = mapped(lambda row: F.multiply(F.sin(row), row), x)
    g = grad(y.sum(), x)
    np.testing.assert_allclose(g.numpy(), np.cos(X) * X + np.sin(X))


def test_gradients_are_taken_inside_of_a_level_and_through_it():
    """A gradient in a batch of a function that closes over what is differentiated outside."""
    w = iv.asarray(Y, requires_grad=True)

    def loss(row):
        return (iv.sin(row * w) * row).sum()

    y = mapped(iv.grad(loss), iv.asarray(X))
    expected = X * Y * np.cos(X * Y) + np.sin(X * Y)
    np.testing.assert_allclose(y.detach().numpy(), expected)
    g = grad(y.sum(), w)
    np.testing.assert_allclose(g.numpy(), (2 * X * np.cos(X * Y) - X**2 * Y * np.sin(X * Y)).sum(0))


def test_a_value_that_leaves_its_level_says_so():
    with Trace() as level:
        x = make_handle(Written(level, iv.asarray(Y)))
        with ThreadPoolExecutor(1) as pool, pytest.raises(ArgumentError, match=r"trace.*thread"):
            pool.submit(F.exp, x).result()
    with pytest.raises(ArgumentError, match=r"trace.*after its end"):
        F.exp(x)
    with level, pytest.raises(ArgumentError, match="entered already"), level:
        pass
    assert levels() == ()


def test_a_level_ends_with_an_error_too():
    level = Trace()
    for _ in range(2):  # and may be entered again
        with pytest.raises(ZeroDivisionError), level, Batch(1):
            1 // 0
        assert levels() == ()


INSIDE = {"autograd", "handles", "core"}
FIELDS = {"_value", "_node", "_index", "_place"}


def test_nothing_else_looks_into_a_handle():
    """Elsewhere a handle is read by `value_of`, `slot_of` and `is_tracked`: a tracer has no entries."""
    found = []
    for path in Path(iv.__file__).parent.rglob("*.py"):
        if path.relative_to(Path(iv.__file__).parent).parts[0] in INSIDE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Attribute) and node.attr in FIELDS
            own = named and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            asked = isinstance(node, ast.Constant) and node.value in FIELDS
            if (named and not own) or asked:
                found.append(f"{path}:{node.lineno}")
    assert not found
