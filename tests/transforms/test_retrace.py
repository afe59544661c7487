"""What a compiled function was traced for: other arguments and surroundings are never taken for the same."""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import itertools
import operator
import os
import sys
import threading
import types
import weakref
from importlib.util import find_spec

import numpy as np
import pytest

import iverson as iv
from iverson.core.errors import ArgumentError, ArgumentTypeError
from iverson.graph.calls.compiled_ops import Compiled
from iverson.layouts import Zero, to_strided
from tests.tools.entered import entered_by

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]])


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, iv.masked.MaskedTensor):
        same(found.get_mask(), expected.get_mask())
        found, expected = found.to_tensor(0.0), expected.to_tensor(0.0)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    a, b = to_strided(found.detach()._value), to_strided(expected.detach()._value)
    np.testing.assert_allclose(a, b, rtol=1e-12)
    assert not (np.signbit(a) ^ np.signbit(b)).any()


# --- arguments ---------------------------------------------------------------------------------------


def box(row):
    x = iv.asarray(X, requires_grad=True)
    found = iv.autograd.grad((x[row] ** 2).sum(), x)
    assert found.layout == "box"
    return found


SPARSE = [np.where(m, X, 0) for m in (X > 0, X < 0)]
ARGUMENTS = {
    "numbers": (lambda x, k: x.astype("int64") * k + iv.atan2(x, k), [1, 1.0, 0.0, -0.0]),
    "numbers that are static": (lambda x, k: x.astype("int64") * k + iv.atan2(x, k), [1, 1.0, 0.0, -0.0]),
    "tuples": (lambda x, k: x.astype("int64") * k[0][0], [((1,),), ((1.0,),), ((2,),)]),
    "sets": (lambda x, k: x.astype("int64") * max(k), [frozenset([1]), frozenset([1.0])]),
    "boxes": (lambda x, k: x * k + k.sum(axis=0), [box(0), box(1), box((0, slice(0, 2))), iv.asarray(X)]),
    "zeros": (lambda x, k: x + k, [iv.Tensor(Zero((2, 3), np.dtype("float64"))), iv.asarray(X)]),
    "patterns": (
        lambda x, k: (k * x) @ x.mT,
        [iv.asarray(s).to_layout(layout) for s in SPARSE for layout in ("csr", "coo", "csc")],
    ),
    "masks": (lambda x, k: k.sum(axis=1) * 2, [iv.masked_tensor(X, X > 0), iv.masked_tensor(X, X < 1)]),
    "dtypes and shapes": (lambda x, k: x * k, [X, X.astype("float32"), X[:1], X[0], X[0, 0], 3]),
    "trees": (lambda x, k: x * sum(v for v in k.values()), [{"a": 1.0}, {"b": 1.0, "a": X}, {"a": X[0]}]),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_differ_are_traced_apart(name):
    f, given = ARGUMENTS[name]
    static = (1,) if name in ("numbers that are static", "tuples", "sets") else ()
    compiled = iv.jit(f, static=static)
    x = iv.asarray(X)
    for first, second in itertools.permutations(given, 2):
        compiled.clear_cache()
        same(compiled(x, first), f(x, first))
        same(compiled(x, second), f(x, second))
        same(compiled(x, first), f(x, first))
        assert compiled.cache_size == 2


def test_static_arguments_by_position_and_name():
    def f(x, n=2, *, how="sum"):
        return getattr(x[:n], how)()

    x = iv.asarray(X)
    for static, args, kwargs in [
        (1, (x, 1), {}),
        (-1, (x, 1), {}),
        ((-1, "n"), (x,), {"n": 1}),
        (1, (x,), {"n": 1}),
        ("n", (x, 1), {}),
        ("n", (x,), {"n": 1}),
        (("n", "how"), (x,), {"n": 1, "how": "mean"}),
        ((1, "how"), (x, 1), {"how": "mean"}),
        (1, (), {"n": 1, "x": x}),
        (("n", "how"), (), {"how": "mean", "n": 1, "x": x}),
        ((), (x,), {}),
    ]:
        same(iv.jit(f, static=static)(*args, **kwargs), f(*args, **kwargs))
    last = iv.jit(lambda *xs: xs[-1] ** xs[0], static=-2)  # of as many as there are
    same(last(2, x), x**2)
    first = iv.jit(lambda n, x: x**n, static=-2)
    same(first(2, x), x**2)
    hidden = iv.jit(lambda n, /, **named: named["n"] ** n, static=0)  # which only a position means
    same(hidden(2, n=x), x**2)
    for static in (True, 1.5, (1, None), iv.asarray(1), [iv.asarray(1)]):
        with pytest.raises(ArgumentTypeError, match=r"jit.*static"):
            iv.jit(f, static=static)
    with pytest.raises(ArgumentTypeError, match=r"got a bytearray;"):
        iv.jit(f)(x, bytearray(b"a"))
    with pytest.raises(ArgumentTypeError, match=r"got a list;"):
        iv.jit(f, static=1)(x, [1])


def test_a_rule_that_replaces_another_is_traced_apart():
    compiled = iv.jit(iv.grad(lambda x: iv.sin(x).sum()))
    inner = iv.grad(iv.jit(lambda x: iv.sin(x).sum()))
    x = iv.asarray(X)
    for f in (compiled, inner):
        for _ in range(2):
            np.testing.assert_allclose(f(x).numpy(), np.cos(X))
            with iv.ops.override_vjp("sin", lambda F, g, y, x: g * 7):
                np.testing.assert_array_equal(f(x).numpy(), np.full(X.shape, 7.0))
                np.testing.assert_array_equal(f(x).numpy(), np.full(X.shape, 7.0))
            with iv.ops.override_vjp("sin", lambda F, g, y, x: g * 8):
                np.testing.assert_array_equal(f(x).numpy(), np.full(X.shape, 8.0))
    assert compiled.cache_size == 5  # one for each block, which is entered anew


def test_policies_of_masks_are_traced_apart():
    a, b = iv.masked_tensor([1.0, 2.0], [True, False]), iv.masked_tensor([3.0, 4.0], [True, True])
    given, closed = iv.jit(lambda a, b: a + b), iv.jit(lambda x: x * (a + b))
    for f, args in ((given, (a, b)), (closed, (iv.ones(2),))):
        for _ in range(2):
            same(f(*args), a + b)
            with iv.masked.policy("strict"), pytest.raises(ArgumentError, match="different masks"):
                f(*args)
        with iv.masked.policy("intersect"):
            f(*args)
        assert f.cache_size == 1


def test_inside_of_another_it_is_a_part_of_that(monkeypatch):
    calls = []
    plain = Compiled.__call__
    monkeypatch.setattr(Compiled, "__call__", lambda self, x: calls.append(self) or plain(self, x))
    inner = iv.jit(lambda x: x * 2 + 1)
    outer = iv.jit(lambda x: inner(x) * inner(x))
    same(outer(X), iv.asarray((2 * X + 1) ** 2))
    same(iv.vmap(inner)(iv.asarray(X)), iv.asarray(2 * X + 1))
    assert len(calls) == 1


# --- surroundings --------------------------------------------------------------------------------------

tail = {"tor": "tor", "ht": "ht", "le": "le"}  # ends of names that no code has whole
scale = 2.0
name_of_it = "weight"
settings = types.ModuleType("settings")


def times_scale(x):
    return x * scale


def steps(x, n=3):
    """Calls itself."""
    return x if not n else steps(x * scale, n - 1)


class Layer:
    factor = 1.5

    def __init__(self, weight):
        self.weight = weight

    @property
    def half(self):
        return self.weight / 2

    @staticmethod
    def shifted(x):
        return x + scale

    def __call__(self, x):
        return x * self.half

    def __mul__(self, x):
        return x * self.weight


class Scaled(iv.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * scale

    @staticmethod
    def backward(ctx, g):
        return g * scale


def doubled(function):
    """A decorator, whose wrapper reads a global itself."""

    @functools.wraps(function)
    def call(x):
        return function(x) * scale

    return call


def total(x):
    return (x * x).sum() * scale


#: What stands for a function that it is given, by name.
AROUND = {
    "grad": iv.grad,
    "value and gradient": lambda f: lambda x: iv.stack([g.sum() for g in iv.value_and_grad(f)(x)]),
    "jacobian": iv.jacobian,
    "hessian": iv.hessian,
    "vmap": iv.vmap,
    "checkpoint": iv.checkpoint,
    "gradient of a compiled one": lambda f: iv.grad(iv.jit(f)),
    "gradient of a partial": lambda f: iv.grad(functools.partial(f)),
    "gradients of gradients": lambda f: iv.jacobian(iv.grad(f)),
}


class Slots:
    __slots__ = ("weight",)


class Model:
    def __init__(self):
        self.layer = Layer(3.0)
        self.layers = [Layer(2.0), Layer(5.0)]

    def run(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.layer.shifted(x) * self.layer.factor


def readers():
    """By name: a function, and what is done to what it reads."""
    layer, model, slots = Layer(2.0), Model(), Slots()
    slots.weight = 4.0
    options, weights, nested = {"a": 2.0}, [2.0, 3.0], {"p": [{"w": iv.asarray(2.0)}]}
    cell, numbers, fixed = 2.0, iv.asarray([1.0, 2.0]), iv.asarray(3.0)
    queue = collections.deque([2.0])
    settings.factor = 2.0

    def rebind():
        nonlocal cell
        cell = 5.0

    def given(x, by=options):
        return x * by["a"]

    def of_partial(by, x):
        return x * by.weight

    def with_default(x, by=2.0, *, and_by=2.0):
        return x * by * and_by

    def importing(x):
        import iverson_test_settings

        return x * iverson_test_settings.factor

    def importing_from(x):
        from iverson_test_settings import factor as by

        return x * by

    def replaced(x):
        return x * 2.0

    class Dynamic:
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return options["a"]

    sys.modules["iverson_test_settings"] = settings
    by_name, loose, local = Layer(2.0), types.SimpleNamespace(weight=2.0), threading.local()
    local.weight = 2.0
    current, unset = contextvars.ContextVar("current"), contextvars.ContextVar("unset", default=2.0)
    current.set(2.0)
    user_dict, user_list = collections.UserDict(a=2.0), collections.UserList([2.0, 3.0])
    chained, proxy = collections.ChainMap({}, options), types.MappingProxyType(options)
    numbers_of = array.array("d", [2.0, 3.0])
    kind = type("Kind", (dict,), {})(a=2.0)
    kind.weight = 2.0
    dynamic, reference = Dynamic(), weakref.ref(layer)
    os.environ["IVERSON_TEST_FACTOR"] = "2"
    add_option = lambda: options.update(a=options["a"] + 1)
    add_setting = lambda: setattr(settings, "factor", settings.factor + 1)
    add_to = lambda x: lambda: setattr(x, "weight", x.weight + 1)

    def set_name():
        globals()["name_of_it"] = "factor" if name_of_it == "weight" else "weight"

    set_global = lambda: globals().__setitem__("scale", scale + 1)
    set_class = lambda: setattr(Layer, "factor", Layer.factor + 1)
    set_weight = lambda: setattr(layer, "weight", layer.weight + 1)
    return {
        "global": (times_scale, set_global),
        "global of a function that is called": (lambda x: times_scale(x) + 1, set_global),
        "global of itself": (steps, set_global),
        "cell": (lambda x: x * cell, rebind),
        "default": (given, lambda: options.update(a=options["a"] + 1)),
        "attribute": (lambda x: x * layer.weight, set_weight),
        "by a property": (lambda x: x * layer.half, set_weight),
        "by a call": (lambda x: layer(x) + 0, set_weight),
        "by an operator": (lambda x: layer * x, set_weight),
        "of the class": (lambda x: x * Layer.factor + layer.factor, set_class),
        "shadowed": (lambda x: x * layer.factor, lambda: setattr(layer, "factor", 9.0)),
        "static method": (lambda x: Layer.shifted(x) + 0, set_global),
        "method": (model.run, lambda: setattr(model.layers[1], "weight", 7.0)),
        "method of a list": (model.run, lambda: model.layers.append(Layer(11.0))),
        "method's global": (model.run, set_global),
        "slot": (lambda x: x * slots.weight, lambda: setattr(slots, "weight", slots.weight + 1)),
        "item": (lambda x: x * options["a"], lambda: options.update(a=options["a"] + 1)),
        "item of a list": (lambda x: x * weights[0], lambda: weights.__setitem__(0, weights[0] + 1)),
        "more items": (lambda x: x * sum(weights), lambda: weights.append(1.0)),
        "key": (lambda x: x * len("".join(options)), lambda: options.update(other=1.0)),
        "nested": (lambda x: x * nested["p"][0]["w"], lambda: nested["p"][0].update(w=iv.asarray(8.0))),
        "tensor in place": (lambda x: x * nested["p"][0]["w"], lambda: nested["p"][0]["w"].__iadd__(1.0)),
        "entries that are read": (lambda x: x * numbers.sum().item(), lambda: numbers.__iadd__(1.0)),
        "partial": (functools.partial(of_partial, layer), set_weight),
        "module": (lambda x: x * settings.factor, lambda: setattr(settings, "factor", settings.factor + 1)),
        "compiled": (iv.jit(times_scale), set_global),
        "wrapper": (doubled(lambda x: x + 1), set_global),
        "by the name of an attribute": (lambda x: x * getattr(layer, "weight"), set_weight),  # noqa: B009
        "by a name in a global": (lambda x: x * getattr(by_name, name_of_it), set_name),
        "by a name that is computed": (
            lambda x: x * getattr(by_name, "weig" + tail["ht"]),
            add_to(by_name),
        ),
        "by a name that is computed, with a default": (
            lambda x: x * getattr(by_name, f"weig{tail['ht']}", 1.0),
            add_to(by_name),
        ),
        "by a name of a module": (lambda x: x * getattr(settings, "fac" + tail["tor"]), add_setting),
        "by the dictionary of an object": (
            lambda x: x * by_name.__dict__["weig" + tail["ht"]],
            add_to(by_name),
        ),
        "by vars": (lambda x: x * vars(by_name)["weig" + tail["ht"]], add_to(by_name)),
        "by attrgetter": (lambda x: x * operator.attrgetter("weight")(by_name), add_to(by_name)),
        "by an attrgetter around": (
            lambda x, read=operator.attrgetter("weight"): x * read(by_name),
            add_to(by_name),
        ),
        "by getattr under another name": (
            lambda x, read=getattr: x * read(by_name, "weig" + tail["ht"]),
            add_to(by_name),
        ),
        "by globals": (lambda x: x * globals()["sca" + tail["le"]], set_global),
        "by eval": (lambda x: x * eval("sca" + tail["le"]), set_global),
        "by a class that answers to any name": (lambda x: x * dynamic.anything, add_option),
        "defaults": (
            with_default,
            lambda: setattr(with_default, "__defaults__", (with_default.__defaults__[0] + 1,)),
        ),
        "keyword defaults": (
            lambda x: with_default(x) + 0,
            lambda: setattr(
                with_default, "__kwdefaults__", {"and_by": with_default.__kwdefaults__["and_by"] + 1}
            ),
        ),
        "code": (replaced, lambda: setattr(replaced, "__code__", (lambda x: x * 5.0).__code__)),
        "a module imported inside": (importing, add_setting),
        "a name imported inside": (importing_from, add_setting),
        "context": (lambda x: x * current.get(), lambda: current.set(current.get() + 1)),
        "context by default": (lambda x: x * unset.get(), lambda: unset.set(unset.get() + 1)),
        "of this thread": (lambda x: x * local.weight, add_to(local)),
        "namespace": (lambda x: x * loose.weight, add_to(loose)),
        "UserDict": (lambda x: x * user_dict["a"], lambda: user_dict.update(a=user_dict["a"] + 1)),
        "UserList": (lambda x: x * user_list[0], lambda: user_list.insert(0, user_list[0] + 1)),
        "ChainMap": (lambda x: x * chained["a"], add_option),
        "MappingProxyType": (lambda x: x * proxy["a"], add_option),
        "array.array": (lambda x: x * numbers_of[0], lambda: numbers_of.insert(0, numbers_of[0] + 1)),
        "attribute of a dict": (lambda x: x * kind.weight, add_to(kind)),
        "weak reference": (lambda x: x * reference().weight, set_weight),
        "environment": (
            lambda x: x * float(os.environ["IVERSON_TEST_FACTOR"]),
            lambda: os.environ.update(IVERSON_TEST_FACTOR=os.environ["IVERSON_TEST_FACTOR"] + "1"),
        ),
        "item of a deque": (lambda x: x * queue[0], lambda: queue.appendleft(queue[0] + 1)),
        "forward of a Function": (lambda x: Scaled.apply(x) + 0, set_global),
        "backward of a Function": (iv.grad(lambda x: Scaled.apply(x).sum()), set_global),
        "that a constant is a variable": (lambda x: x * fixed, lambda: fixed.requires_grad_(True)),
    } | {name: (around(total), set_global) for name, around in AROUND.items()}


@pytest.mark.parametrize("name", readers())
def test_surroundings_that_change_are_seen(name):
    f, change = readers()[name]
    compiled, x = iv.jit(f), iv.asarray(X)
    before = scale, Layer.factor
    try:
        for _ in range(2):
            expected = f(x)
            same(compiled(x), expected)
            (entry,) = compiled._entries.values()
            same(compiled(x), expected)
            assert list(compiled._entries.values()) == [entry]  # not traced again for nothing
            change()
    finally:
        globals()["scale"], Layer.factor = before


@pytest.mark.parametrize("static", [(), 0])
def test_attributes_of_arguments_that_change_are_seen(static):
    layer = Layer(2.0)
    compiled = iv.jit(lambda layer, x: layer(x) * layer.weight, static=static)
    for weight in (2.0, 3.0, iv.asarray(4.0), iv.asarray(5.0)):
        layer.weight = weight
        same(compiled(layer, X), layer(iv.asarray(X)) * weight)


def test_what_the_interpreter_changes_is_no_change(monkeypatch):
    """Neither what is imported nor the path, though a name that is computed may mean any attribute."""
    kind = types.SimpleNamespace(weight=2.0)

    def f(x):
        known = find_spec("numpy") is not None and sys.maxsize > 0
        return x * getattr(kind, "wei" + "ght" if known else "")

    compiled, x = iv.jit(f), iv.asarray(X)
    same(compiled(x), f(x))
    entries = list(compiled._entries.values())
    monkeypatch.setitem(sys.modules, "module_of_a_test", types.ModuleType("module_of_a_test"))
    monkeypatch.setattr(sys, "path", [*sys.path, "elsewhere"])
    same(compiled(x), f(x))
    assert list(compiled._entries.values()) == entries
    kind.weight = 3.0
    same(compiled(x), f(x))


def test_what_a_function_puts_down_while_it_is_traced_is_no_change():
    seen = []
    compiled = iv.jit(lambda x: seen.append(x.shape) or x * 2)
    for _ in range(3):
        compiled(X)
    assert seen == [(2, 3)]


def read_by_name(c, d):
    return lambda x: x * d if c.sum() > 0 else x - d


def read_in_a_list(c, d):
    held = [c]
    return lambda x: x * d if held[0].sum() > 0 else x - d


def read_as_a_number(c, d):
    return lambda x: x * d + c.sum().item()


@pytest.mark.parametrize("make", [read_by_name, read_in_a_list, read_as_a_number])
def test_entries_that_a_trace_followed_from_are_seen_to_change(make):
    """Beside a variable, which is an input of the graph and may change."""
    c, d = iv.asarray(X.copy()), iv.asarray(X + 1, requires_grad=True)
    f = make(c, d)
    compiled = iv.jit(f)
    for entry in (9.0, -9.0, 8.0):
        c[0, 0] = entry
        same(compiled(iv.asarray(X)), f(iv.asarray(X)))
        with iv.no_grad():
            d[1, 1] = entry
        same(compiled(iv.asarray(X)), f(iv.asarray(X)))


def test_what_is_closed_over_costs_a_call_no_more_than_arguments_do():
    """Python functions entered: for each tensor that a list in the surroundings holds, as for an argument."""

    def entered(n, closed):
        weights = [iv.asarray(np.ones(3), requires_grad=True) for _ in range(n)]
        if closed:
            f = iv.jit(lambda x: sum((x * w).sum() for w in weights))
        else:
            f = iv.jit(lambda x, weights: sum((x * w).sum() for w in weights))
        given = (iv.asarray(np.ones(3)), *([] if closed else [weights]))
        f(*given), f(*given)
        return entered_by(lambda: f(*given))

    each = [entered(16, closed) - entered(8, closed) for closed in (True, False)]
    assert each[0] <= each[1]
