"""Custom Functions in every mode, alone and nested, against the same function written with ops.

A row is a way to write the Function, a nest of constructs around a call of it, and where the other tensor of
the call comes from: tracked from outside, which a compiled function has to read anew; a value of a trace or a
batch around. The oracle is the same nest around ops, which know nothing of Functions.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function
from iverson.errors import GraphError
from tests.conformance.product import EXHAUSTIVE, paired

X, W = np.array([0.3, 0.7]), np.array([1.5, -0.5])
YES = iv.asarray(True)

#: By name, a construct around a body of one tensor.
CONSTRUCTS = {
    "jit": iv.jit,
    "vmap": lambda body: lambda v: iv.vmap(lambda u: body(v * u))(iv.asarray([1.0, 0.5])).sum(axis=0),
    "vmap around": lambda body: lambda v: iv.vmap(lambda u: body(v) * u)(iv.asarray([1.0, 0.5])).sum(axis=0),
    "checkpoint": iv.checkpoint,
    "scan": lambda body: lambda v: iv.scan(lambda c, _: (body(c), None), v, length=2)[0],
    "fori_loop": lambda body: lambda v: iv.fori_loop(0, 2, lambda _, c: body(c), v),
    "cond": lambda body: lambda v: iv.cond(YES, body, lambda v: v, v),
    "grad": lambda body: iv.grad(lambda v: iv.sin(body(v)).sum()),
    "jvp": lambda body: lambda v: iv.jvp(body, (v,), (iv.cos(v),))[1],
    "hessian": lambda body: lambda v: iv.hessian(lambda v: iv.sin(body(v)).sum())(v).sum(axis=0),
}


class Product(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b if ctx.needs_input_grad[0] else None, g * a if ctx.needs_input_grad[1] else None


class Holder:
    w = None


def argument(w):
    return lambda x: Product.apply(w, x), lambda x: w * x


def saved_result(w):
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = iv.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    return lambda x: Exp.apply(iv.sin(x * w)), lambda x: iv.exp(iv.sin(x * w))


def in_a_closure(w):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return iv.sin(x) * w

        @staticmethod
        def backward(ctx, g):
            return g * iv.cos(ctx.saved_tensors[0]) * w

        @staticmethod
        def jvp(ctx, t):
            return t * iv.cos(ctx.saved_tensors[0]) * w

    return Scaled.apply, lambda x: iv.sin(x) * w


def in_a_holder(w):
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return iv.sin(x) * (Holder.w * 2)

        @staticmethod
        def backward(ctx, g):
            return g * iv.cos(ctx.saved_tensors[0]) * (Holder.w * 2)

    def call(x):
        Holder.w = w
        return Scaled.apply(x)

    return call, lambda x: iv.sin(x) * (w * 2)


def in_backward(w):
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g * x * (iv.sin(w) / iv.sin(w))

    return Square.apply, lambda x: x * x


def several_results(w):
    class Several(Function):
        @staticmethod
        def forward(x, y, n, name="a"):
            return x * y, n * x, None

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, n, *_ = inputs
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x, y)
            ctx.n = n

        @staticmethod
        def backward(ctx, g, h, _):
            x, y = ctx.saved_tensors
            a = [*([] if g is None else [g * y]), *([] if h is None else [ctx.n * h])]
            return sum(a[1:], a[0]) if a else None, None if g is None else g * x, None

    def call(x):
        a, b, nothing = Several.apply(x, w, 3)
        assert nothing is None
        return iv.sin(a) + iv.cos(b)

    return call, lambda x: iv.sin(x * w) + iv.cos(3 * x)


def in_containers(w):
    class Parts(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.parts = [x, {"y": y}]
            return iv.sin(x) * y

        @staticmethod
        def backward(ctx, g):
            x, parts = ctx.parts
            return g * iv.cos(x) * parts["y"], g * iv.sin(x), None  # of an argument that was not given

    return lambda x: Parts.apply(x, w), lambda x: iv.sin(x) * w


def functions_in_functions(w):
    class Outer(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return Product.apply(Product.apply(x, y), x)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return Product.apply(g, 2 * Product.apply(x, y)), g * Product.apply(x, x)

    return lambda x: iv.sin(Outer.apply(x, w)), lambda x: iv.sin(x * w * x)


def transforms_in_functions(w):
    class Sine(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return iv.jit(lambda a, b: iv.sin(a) * b)(x, y)

        @staticmethod
        def backward(ctx, g):
            return iv.vjp(lambda a, b: iv.sin(a) * b, *ctx.saved_tensors)[1](g)

    return lambda x: Sine.apply(x, w), lambda x: iv.sin(x) * w


WRITTEN = (
    argument,
    saved_result,
    in_a_closure,
    in_a_holder,
    in_backward,
    several_results,
    in_containers,
    functions_in_functions,
    transforms_in_functions,
)
#: What is constant in these: forward reads the other tensor from around it.
AROUND = (in_a_closure, in_a_holder, in_backward)


def entries(x):
    return x.detach().to_dense().numpy()


def tracked_from_outside(nest, written):
    """Value, and the gradients of both."""
    x, w = iv.tensor(X, requires_grad=True), iv.tensor(W, requires_grad=True)
    y = nest(lambda: w)(x)
    iv.sin(y).sum().backward()
    grads = [x.grad] if written in AROUND else [x.grad, w.grad]
    return [y, *(iv.zeros(2) if g is None else g for g in grads)]


def compiled(nest, written):
    """A compiled call, and another one after the tensor from outside was written."""
    w = iv.tensor(W, requires_grad=True)
    f = iv.jit(nest(lambda: w))
    before = f(iv.asarray(X))
    with iv.no_grad():
        w[0] = 2.5  # of more, nested sines make digits that are compared of rounding
    return [before, f(iv.asarray(X))]


def value_of_a_trace(nest, written):
    f = iv.jit(lambda x, w: nest(lambda: w)(x))
    return [f(iv.asarray(X), iv.asarray(w)) for w in (W, W + 1)]


def value_of_a_batch(nest, written):
    x, w = iv.asarray(np.stack([X, -X])), iv.asarray(np.stack([W, W + 1]))

    def f(x, w):
        return nest(lambda: w)(x)

    return [
        iv.vmap(f)(x, w),
        iv.grad(lambda x: iv.vmap(f)(x, w).sum())(x),
        iv.vmap(iv.grad(lambda x, w: f(x, w).sum()))(x, w),
    ]


def second_order(nest, written):
    def squares(x, w):
        return (iv.grad(lambda x: iv.sin(nest(lambda: w)(x)).sum())(x) ** 2).sum()

    found = iv.grad(squares, argnums=(0, 1))(iv.asarray(X), iv.asarray(W))
    return found[:1] if written in AROUND else found


FROM = (tracked_from_outside, compiled, value_of_a_trace, value_of_a_batch, second_order)


def refused(written, origin):
    """What forward reads of a batch by an attribute of a global has no meaning outside of it (GraphError)."""
    return written is in_a_holder and origin is value_of_a_batch


def rows():
    """All nests of up to two constructs and some of three where all are asked for; else some of each."""
    nests = [n for d in (1, 2, 3) for n in itertools.product(CONSTRUCTS, repeat=d)]
    found = [
        (w, n, f)
        for w, n, f in itertools.product(WRITTEN, nests, FROM)
        if not refused(w, f) and n.count("hessian") < 2
    ]
    rng = random.Random(20)
    rng.shuffle(found)
    depths = {d: [r for r in found if len(r[1]) == d] for d in (1, 2, 3)}
    counts = {1: None, 2: None, 3: 1000} if EXHAUSTIVE else {1: 8, 2: 7, 3: 3}
    return [r for d, many in depths.items() for r in many[: counts[d]]]


@pytest.mark.parametrize(
    ("written", "names", "origin"),
    rows(),
    ids=lambda x: "/".join(x) if isinstance(x, tuple) else x.__name__,
)
def test_a_function_in_a_nest_is_the_same_as_ops_in_it(written, names, origin):
    found = []
    for which in (0, 1):

        def nest(w, which=which):
            def body(x):
                return written(w())[which](x)

            for name in reversed(names):
                body = CONSTRUCTS[name](body)
            return body

        try:
            found.append(list(map(entries, origin(nest, written))))
        except GraphError as error:
            # The holder has another tensor when forward runs again: no number is given then.
            if (written, which) != (in_a_holder, 0) or "which it did not read" not in str(error):
                raise
            return
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * max(1.0, np.abs(b).max(initial=0.0)))


def slope_of(f):
    return iv.grad(lambda x: f(x).sum())


def tangent_of(f):
    return lambda x: iv.jvp(f, (x,), (x,))[1]


#: Ways to call a function again after a tensor around it was changed.
AGAIN = {
    "jit": iv.jit,
    "jit of grad": lambda f: iv.jit(iv.grad(lambda x: f(x).sum())),
    "grad of jit": lambda f: slope_of(iv.jit(f)),
    "grad of jit of checkpoint": lambda f: slope_of(iv.jit(iv.checkpoint(f))),
    "jvp of jit": lambda f: tangent_of(iv.jit(f)),
}


def reading(where, in_forward):
    """A Function that reads the tensor of the holder, or which it was, in both methods or in backward."""
    w = Holder.w
    read = (lambda: w) if where == "closure" else (lambda: Holder.w)

    class Reads(Function):
        @staticmethod
        def forward(ctx, x):
            return x * (iv.sin(read()) if in_forward else 1.0)

        @staticmethod
        def backward(ctx, g):
            return g * iv.sin(read())

    return Reads.apply


CHANGES = [
    *itertools.product(["closure"], [True, False], ["write"]),
    *itertools.product(["holder"], [True, False], ["write", "rebind"]),
]


@pytest.mark.parametrize(
    ("where", "tracked", "change", "in_forward", "way"),
    [(*c, *w) for c, w in paired(CHANGES, itertools.product([True, False], AGAIN), 4)],
)
def test_what_methods_read_from_outside_is_read_anew(where, tracked, change, in_forward, way):
    """What they compute of it alone is, too: no compiled derivative keeps the value of a tracked one."""
    Holder.w = iv.tensor([3.0, 4.0], requires_grad=tracked)
    f, x = AGAIN[way](reading(where, in_forward)), iv.asarray([1.0, 2.0])
    f(x)
    if change == "write":
        with iv.no_grad():
            Holder.w[0] = 10.0
    else:
        Holder.w = iv.tensor([10.0, 5.0], requires_grad=tracked)
    factor = np.sin(entries(Holder.w)) if in_forward or way != "jit" else 1.0
    expected = factor * entries(x) if way in ("jit", "jvp of jit") else factor
    np.testing.assert_allclose(entries(f(x)), expected, rtol=1e-13)


#: Constructs that carry out a Function later than its call, of a body of one tensor.
LATER = {
    "compiled": iv.jit,
    "interpreted": lambda f: iv.jit(f, interpret=True),
    "recomputed": iv.checkpoint,
    "in steps": lambda f: lambda x: iv.scan(lambda c, _: (f(c), None), x, length=1)[0],
    "compiled steps": lambda f: iv.jit(lambda x: iv.scan(lambda c, _: (f(c), None), x, length=1)[0]),
}


@pytest.mark.parametrize("way", LATER)
@pytest.mark.parametrize("where", ["closure", "holder"])
def test_what_is_written_before_a_call_is_read_as_it_is_then(where, way):
    """Where the write is one of the compiled function itself; a derivative is right or raises."""
    x = iv.asarray([1.0, 2.0])

    def written():
        Holder.w = iv.tensor([3.0, 4.0])
        apply = reading(where, True)

        def f(x):
            Holder.w[0] = Holder.w[0] * 2
            return apply(x)

        return f

    eager, later = written(), LATER[way]
    expected = [entries(eager(x)) for _ in range(2)]
    f = later(written())
    for y in expected:
        np.testing.assert_allclose(entries(f(x)), y, rtol=1e-13)
    slope = iv.grad(lambda x: later(written())(x).sum())
    if where == "closure":
        np.testing.assert_allclose(entries(slope(x)), np.sin([6.0, 4.0]), rtol=1e-13)
    else:
        with pytest.raises(iv.errors.GraphError, match="make it an argument of the Function"):
            slope(x)


def written_after(kind, in_forward, where):
    """A function that writes, after the call, into a tensor that the methods read."""
    w = iv.tensor([3.0, 4.0])

    def f(x):
        Holder.w = w if kind == "outside" else 0.0 * x.detach() + iv.asarray([3.0, 4.0])
        made = reading(where, in_forward)(x)
        Holder.w[0] = 10.0
        return made

    return f


def value_or_error(f, x):
    try:
        return entries(f(x))
    except iv.errors.IversonError as error:
        return error


@pytest.mark.parametrize(
    ("way", "where", "in_forward"),
    [
        (way, *w)
        for way, w in paired(
            ["eager", *LATER, "vmap"], itertools.product(["closure", "holder"], [True, False]), 2
        )
    ],
)
def test_what_is_written_between_call_and_derivative(way, where, in_forward):
    """Rules read closures as they are when they run, as in PyTorch. Compiled, they do so too, or raise."""
    x, new = iv.asarray([1.0, 2.0]), np.sin([10.0, 4.0])
    later = {
        "eager": lambda f: f,
        "vmap": lambda f: lambda x: iv.vmap(f)(iv.stack([x, x]))[0],
        **LATER,
    }[way]
    for tracked in (True, False):  # outside of what is compiled
        Holder.w = iv.tensor([3.0, 4.0], requires_grad=tracked)
        for of_call in (lambda y, x: y.backward() or x.grad, iv.autograd.grad):
            with iv.no_grad():
                Holder.w[0] = 3.0
            leaf = iv.asarray(x, requires_grad=True)
            y = later(reading(where, in_forward))(leaf).sum()
            with iv.no_grad():
                Holder.w[0] = 10.0
            np.testing.assert_allclose(entries(of_call(y, leaf)), new, rtol=1e-13)
    for kind in ("outside", "computed"):  # in it
        for derivative in (slope_of, lambda f: iv.jit(slope_of(f))):
            found = value_or_error(derivative(later(written_after(kind, in_forward, where))), x)
            if not isinstance(found, iv.errors.IversonError):
                np.testing.assert_allclose(found, new, rtol=1e-13)
            elif where == "closure":
                assert way != "eager"
                assert kind == "computed"
                assert "a write into a tensor" in str(found)
            else:
                assert way != "eager"
