"""Guards of the reverse pass: what may be left out, and when it must not be.

A pass cuts what is zero. Where a cotangent is tracked, an entry of it that is zero now has a derivative, so
nothing may be cut there: gradients are linear in cotangents, and their derivative in one is the same wherever
it happens to be zero, and in whatever layout it is held.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function, densify_watch, grad, no_grad
from iverson.autograd.api import variable
from iverson.autograd.demand_propagation import find_needs
from iverson.autograd.engine import _part
from iverson.autograd.forward import push
from iverson.autograd.node import reachable
from iverson.core.entries import FULL, NOTHING, Stored
from iverson.core.entries import Box as Demand
from iverson.core.errors import DensifyWarning, DTypeError, GradientError, ShapeError
from iverson.core.region import Region
from iverson.layouts import Box, Zero
from iverson.ops import override_vjp

pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")

RNG = np.random.default_rng(0)
W = iv.asarray(RNG.uniform(0.5, 1.5, (3, 3)))
FUNCTIONS = {
    "identity": lambda x: x * 1.0,
    "exp": iv.exp,
    "product": lambda x: x * W,
    "row by column": lambda x: x[:, :1] * x[1:2],
    "quotient": lambda x: W / x,
    "matmul left": lambda x: x @ W,
    "matmul right": lambda x: W @ x,
    "both": lambda x: x @ x,
    "transposed": lambda x: iv.exp(x).mT,
    "reshaped": lambda x: iv.reshape(iv.reshape(iv.exp(x), (9,)), (3, 3)),
    "flipped": lambda x: iv.flip(x * x, axis=0),
    "rolled": lambda x: iv.roll(x * x, 1, axis=1),
    "sum": lambda x: iv.broadcast_to(iv.sum(x * x, axis=0), (3, 3)),
    "mean": lambda x: x - iv.mean(x * x, axis=1, keepdims=True),
    "softmax": lambda x: iv.softmax(x, axis=1),
    "cumulative": lambda x: iv.cumulative_sum(x * x, axis=0),
    "rows": lambda x: (x * x)[[2, 0, 0]],
    "slices": lambda x: iv.concat([(x * x)[1:], (x * 2)[:1]]),
    "stacked": lambda x: iv.stack([x[0] * x[1], x[2], x[1]]),
    "where": lambda x: iv.where(W > 1, x * x, 3 * x),
    "maximum": lambda x: iv.maximum(x * x, W),
    "permuted": lambda x: iv.permute_dims(x @ W, (1, 0)),
    "sorted": lambda x: iv.sort(x, axis=1) ** 2,
    "einsum": lambda x: iv.einsum("ij,jk,kl->il", x, W, x),
    "triangle": lambda x: iv.tril(x * x),
    "clip": lambda x: iv.clip(x * x, 0.5, 1.5),
    "inverse": lambda x: iv.linalg.inv(x + 4 * iv.eye(3)),
}
STORED = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])


def cotangents():
    """One cotangent in every layout that can leave entries out."""
    for layout in ("coo", "csr", "csc", "bsr", "bsc"):
        blocks = {"blocksize": (1, 1)} if layout[0] == "b" else {}
        yield layout, iv.to_layout(iv.asarray(STORED), layout, **blocks).detach().requires_grad_()
    yield "box", variable(Box((3, 3), Region((0, 1), (1, 2)), np.array([[2.0]])))
    yield "zero", variable(Zero((3, 3), np.dtype("float64")))


def pulled(fn, x, g):
    (gx,) = grad([fn(x)], [x], [g], create_graph=True)
    return gx


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tracked_cotangent_is_cut_nowhere(name):
    """d <J^T g, v> / dg = J v, whatever g is and where it is stored; so is the second derivative in x."""
    fn = FUNCTIONS[name]
    x = iv.asarray(RNG.uniform(0.5, 1.5, (3, 3)), requires_grad=True)
    v = iv.asarray(RNG.standard_normal((3, 3)))
    _, tangent = iv.jvp(fn, (x.detach(),), (v,))
    for layout, g in cotangents():
        gx = pulled(fn, x, g)
        dense = iv.asarray(g.detach().to_dense().numpy(), requires_grad=True)
        np.testing.assert_allclose(
            gx.to_dense().detach().numpy(), pulled(fn, x, dense).detach().numpy(), atol=1e-12
        )
        if gx._node is None:  # nothing of it depends on g, or on x
            np.testing.assert_array_equal(tangent.to_dense().numpy(), 0)
            continue
        found = grad([iv.sum(gx * v)], [g])[0].to_dense().numpy()
        np.testing.assert_allclose(found, tangent.to_dense().numpy(), atol=1e-12, err_msg=layout)


OF_TWO = {
    "product": lambda s, d: s * d,
    "squares": lambda s, d: s * s * d * d,
    "matmul": lambda s, d: s @ d,
    "matmul right": lambda s, d: d @ s,
    "between": lambda s, d: d @ s @ d,
    "of itself": lambda s, d: (s @ s) * d,
    "moved": lambda s, d: s.mT * d,
    "rows": lambda s, d: s[[2, 0, 1]] @ d,
    "sliced": lambda s, d: iv.concat([s[1:] * d[:2], s[:1]]),
    "product, sliced": lambda s, d: iv.concat([(s * d)[:2], s[:1]]),
    "matmul, sliced": lambda s, d: iv.concat([(s @ d)[:2], (d @ s)[1:2]]),
    "scaled": lambda s, d: iv.sum(s * d, axis=0) * s,
    "entries": lambda s, d: iv.sum(s) * d * s,
}


@pytest.mark.parametrize("name", OF_TWO)
def test_zeros_of_a_tracked_input_do_not_last(name):
    """The gradient in d, recorded, is differentiated in s at entries where s is zero, and in d again."""
    fn = OF_TWO[name]
    w, v = (iv.asarray(RNG.standard_normal((3, 3))) for _ in range(2))

    def second(s, first):
        d = iv.asarray(np.arange(1.0, 10.0).reshape(3, 3) / 5, requires_grad=True)
        given = [d, s] if first == "d" else [s, d]
        (found,) = grad([iv.sum(fn(s, d) * w)], [given[0]], create_graph=True)
        again = grad([iv.sum(found * v)], [s, d])
        return [found.detach().to_dense().numpy(), *(g.to_dense().numpy() for g in again)]

    for _, s in cotangents():
        dense = iv.asarray(s.detach().to_dense().numpy(), requires_grad=True)
        for first in ("d", "s"):
            for got, expected in zip(second(s, first), second(dense, first), strict=True):
                np.testing.assert_allclose(got, expected, atol=1e-12)


def test_a_cotangent_is_brought_to_its_inputs_dtype_and_shape():
    class Wider(Function):
        @staticmethod
        def forward(ctx, x, given):
            ctx.given = given
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return ctx.given(g), None

    single = iv.asarray(np.ones(2, "float32"), requires_grad=True)
    for given in (
        lambda g: iv.astype(g, iv.float64),
        lambda g: g * 1j,
        lambda g: iv.astype(g, iv.complex128),
    ):
        (found,) = grad([Wider.apply(single, given)], [single], [iv.ones(2, dtype=iv.float32)])
        assert found.dtype == np.float32
    for given, message in (
        (lambda g: g[:1], r"a gradient of shape \(1,\)"),
        (lambda g: 1.0, "a gradient of type float"),
    ):
        with pytest.raises(GradientError, match=message):
            grad([Wider.apply(single, given)], [single], [iv.ones(2, dtype=iv.float32)])
    both = iv.asarray(np.ones(2, "complex128"), requires_grad=True)
    (found,) = grad([Wider.apply(both, iv.real)], [both], [iv.ones(2, dtype=iv.complex128)])
    assert found.dtype == np.complex128
    narrow = iv.asarray(np.ones(2, "complex64"), requires_grad=True)
    wide = lambda g: iv.astype(g, iv.complex128) * 1j
    (found,) = grad([Wider.apply(narrow, wide)], [narrow], [iv.ones(2, dtype=iv.complex64)])
    assert found.dtype == np.complex64
    np.testing.assert_array_equal(found.numpy(), [1j, 1j])


def test_a_hook_that_gives_something_else_is_named():
    for given, message in ((lambda g: 1.0, "type float from hook on"), (lambda g: g[:1], "from hook on")):
        x = iv.asarray(np.ones(2), requires_grad=True)
        y = x * 2
        y.register_hook(given)
        with pytest.raises(GradientError, match=message):
            grad([iv.sum(y)], [x])


def test_an_overriding_rule_is_trusted_with_its_whole_cotangent():
    """What is known of an op's support and of what its rules share does not hold for another rule."""
    x = iv.asarray(np.ones(4), requires_grad=True)
    everywhere = lambda F, g, y, x: F.broadcast_to(F.sum(g, axis=(0,), keepdims=True), shape=(4,))
    with override_vjp("sin", everywhere):
        np.testing.assert_array_equal(grad([iv.sum(iv.sin(x)[:1])], [x])[0].numpy(), np.ones(4))
    of_all = lambda F, wanted, g, *_, **__: [
        F.broadcast_to(F.sum(g, axis=(0,), keepdims=True), shape=(4,)) for _ in wanted
    ]
    with override_vjp("concat", of_all):
        np.testing.assert_array_equal(grad([iv.sum(iv.concat([x, x])[:1])], [x])[0].numpy(), 2 * np.ones(4))
    with override_vjp("exp", lambda F, g, y, x: g * x * y):  # and may read what the op's own rule does not
        np.testing.assert_array_equal(
            grad([iv.sum(iv.exp(3 * x))], [x])[0].numpy(), 9 * np.exp(3 * np.ones(4))
        )
    a, b = iv.eye(2), iv.asarray(np.ones((2, 1)), requires_grad=True)
    with override_vjp("solve", (None, lambda F, g, y, a, b: g * 7.0)):
        np.testing.assert_array_equal(grad([iv.sum(iv.linalg.solve(a, b))], [b])[0].numpy(), [[7.0], [7.0]])


def test_a_tangent_is_of_its_results_shape_and_dtype():
    class Pushed(Function):
        @staticmethod
        def forward(ctx, x, given):
            ctx.given = given
            return x * 1

        @staticmethod
        def jvp(ctx, t, _):
            return ctx.given(t)

    def pushed(given, dtype):
        x, t = (iv.asarray(np.ones(2, dtype)) for _ in range(2))
        return iv.jvp(lambda x: Pushed.apply(x, given), (x,), (t,))[1]

    for given, message in ((lambda t: t[:1], r"a tangent of shape \(1,\)"), (lambda t: 1.0, "type float")):
        with pytest.raises(GradientError, match=message):
            pushed(given, "float64")
    for wide in (lambda t: iv.astype(t, iv.float64), lambda t: iv.astype(t, iv.complex128) * (1 + 1j)):
        found = pushed(wide, "float32")
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.numpy(), [1, 1])
    found = pushed(lambda t: iv.astype(t, iv.complex128) * 1j, "complex64")
    assert found.dtype == np.complex64
    np.testing.assert_array_equal(found.numpy(), [1j, 1j])
    assert pushed(iv.real, "complex64").dtype == np.complex64


def test_seeds_are_of_their_outputs_shape_and_kind():
    x = iv.asarray([1.0, 2.0], requires_grad=True)
    with pytest.raises(ShapeError, match="never broadcast"):
        grad([x * x], [x], [iv.asarray([1.0])])
    with pytest.raises(DTypeError, match="real dtype"):
        grad([x * x], [x], [iv.asarray([1j, 1.0])])
    z = iv.asarray([1.0 + 1j, 2.0], requires_grad=True)
    # A real cotangent of something complex is one with no imaginary part.
    for seed in (np.array([1j, 1.0]), np.array([1.0, 1.0]), np.array([1j, 1.0], "complex64")):
        (found,) = grad([z * z], [z], [iv.asarray(seed)])
        assert found.dtype == z.dtype
        np.testing.assert_allclose(found.numpy(), seed * np.conj(2 * z.detach().numpy()))


def test_a_pass_counts_its_rules_and_what_it_leaves_out():
    class NoGradient(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x, w = (iv.asarray(np.ones(2), requires_grad=True) for _ in range(2))
    y = iv.sum(x * w * W[0, :2]) + iv.sum(NoGradient.apply(x * x * w))
    with iv.explain.count() as work:
        grad([y], [x])
    ran = {"multiply": 2, "sum": 2, "add": 1, "NoGradient": 1}
    assert {name: n for name, n in work.rules.items() if n} == ran
    # w is not asked for; what has no gradient is, but no cotangent gets there.
    assert {name: n for name, n in work.unneeded_of.items() if n} == {"multiply": 2}
    assert {name: n for name, n in work.undefined_of.items() if n} == {"multiply": 3}
    assert not work.casts


def test_a_cotangent_that_is_zero_ends_there():
    """Unless the pass is recorded: its derivative need not be zero."""
    x, z = iv.asarray(np.ones(2), requires_grad=True), variable(Zero((2,), np.dtype("float64")))
    y = iv.sum(iv.exp(x) * z)
    for recorded, count in ((False, 0), (True, 1)):
        with iv.explain.count() as work:
            first, _ = grad([y], [x, z], create_graph=recorded)
        assert work.rules["exp"] == count
        np.testing.assert_array_equal(first.to_dense().detach().numpy(), 0)
    np.testing.assert_allclose(grad([iv.sum(first)], [z])[0].numpy(), np.exp(np.ones(2)))


def test_a_rule_in_another_dtype_than_its_input_is_reported():
    single = iv.asarray(np.ones(2, "float32"), requires_grad=True)
    y = iv.sum(single * iv.ones(2, dtype=iv.float64))
    with iv.explain.count() as work:
        grad([y], [single])
    (((_, *dtypes), count),) = work.casts.items()
    assert (dtypes, count) == (["float64", "float32", ("float64",)], 1)


def test_a_pass_counts_what_leads_to_no_target():
    x, w = (iv.asarray(np.ones(2), requires_grad=True) for _ in range(2))
    y = iv.sum(x * iv.exp(w * 2))
    with iv.explain.count() as work:
        grad([y], [x])
    assert {name: n for name, n in work.unneeded_of.items() if n} == {"multiply": 2, "exp": 1}


@pytest.mark.parametrize("recorded", [True, False])
def test_what_a_cotangent_does_not_reach_is_not_computed(recorded):
    """A cotangent that is a constant, or that nothing differentiates, bounds the work."""
    x = iv.asarray(np.ones(100), requires_grad=True)
    box = Box((100,), Region((3,), (5,)), np.ones(2))
    g = iv.Tensor(box) if recorded else variable(box)
    y = iv.sin(x)
    grad([y], [x], [iv.ones(100)], create_graph=recorded)  # whose plan is of no use here
    with iv.explain.count() as work:
        grad([y], [x], [g], create_graph=recorded)
    assert work.bytes["cos"] == 2 * 8


def test_on_one_pattern_too_what_is_not_demanded_is_not_computed():
    rows = iv.to_layout(iv.asarray(STORED[:1]), "csr").detach().requires_grad_()
    x = iv.concat([rows, iv.to_layout(iv.asarray(STORED[1:]), "csr")])
    y = x * iv.exp(x.detach().values()[0]) * x.detach()
    g = iv.ops.F.from_values(np.ones(2), pattern=y._value.pattern)
    with iv.explain.count() as work:
        (found,) = grad([y], [rows], [g])
    assert work.entries["multiply"] == 2 * found.nnz == 2


class _Of:
    """An op of one input that does not know how to compute a part."""

    vjp_at = None


def test_what_is_computed_whole_is_cut_to_its_part():
    x, part = iv.asarray(np.ones(4)), Demand(Region((1,), (3,)))
    cut = lambda ct, part=part: _part(_Of, lambda F, g, y, x: ct, part, 0, None, None, (x,), {})
    assert cut(None) is None
    other, stored = iv.asarray(np.ones(3)), Stored(iv.to_layout(iv.eye(4)[0], "coo")._value.pattern)
    assert cut(other) is other  # of a wrong shape, which is said elsewhere
    whole, own = iv.asarray(np.ones(4)), variable(Box((4,), Region((1,), (2,)), np.ones(1)))
    assert cut(whole, stored) is whole
    assert cut(whole)._value.region == part.region
    with no_grad():
        assert cut(own) is own
    assert cut(own.detach())._value.region == Region((1,), (2,))
    # An entry of a tracked one that is 0 now has a derivative, outside of the part too.
    (found,) = grad([iv.sum(cut(own))], [own])
    assert found.to_dense().numpy().tolist() == [0, 1, 1, 0]


def test_a_dense_gradient_of_a_large_sparse_leaf_warns(monkeypatch):
    monkeypatch.setattr(densify_watch, "LARGE_GRADIENT", 1)
    s = iv.to_layout(iv.asarray(STORED), "csr").detach().requires_grad_()
    message = "3, 3\\) with 2 stored entries is nonzero everywhere"
    with pytest.warns(DensifyWarning, match=message):
        grad([iv.sum(iv.broadcast_to(iv.sum(s), (2,)))], [s])
    with pytest.warns(DensifyWarning, match=message):
        grad([iv.sum(iv.concat([s, W]) * 2)], [s])
    with warnings.catch_warnings(), iv.explain.count() as work:
        warnings.simplefilter("error")
        y = iv.sum(s)
        with pytest.raises(DensifyWarning, match=message):  # before there is anything dense
            grad([y], [s])
        assert work.total_bytes <= 8
        dense = iv.asarray(STORED, requires_grad=True)
        dense.register_hook(lambda g: None)
        grad([iv.sum(dense)], [dense])


def test_needs_follow_from_demands():
    part = Demand(Region((1,), (3,)))
    x = iv.asarray(np.ones(5), requires_grad=True)
    held = Box((5,), Region((2,), (4,)), np.ones(2))

    def need(y, demand, recording=False):
        order = reachable([y._node], 0)
        return find_needs(order, {(x._node, 0): demand}, recording).result(y._node, 0)

    assert need(iv.exp(x), part) == part
    assert need(iv.exp(x), FULL) is FULL
    y, own = iv.exp(x), Demand(Region((0,), (2,)))
    for targets, expected in (
        ({(y._node, 0): own}, own),
        ({(x._node, 0): part, (y._node, 0): own}, Demand(Region((0,), (3,)))),
    ):
        assert find_needs([x._node, y._node], targets).result(y._node, 0) == expected
    padded = iv.pad(x, ((1, 2),))
    assert need(padded, FULL) == Demand(Region((1,), (6,)))
    assert need(padded, part) == Demand(Region((2,), (4,)))
    both = Demand(Region((2,), (3,)))
    assert need(x * iv.Tensor(held), part) == need(x * iv.Tensor(held), part, True) == both
    assert need(x * variable(held), part) == both
    assert need(x * variable(held), part, True) == part


@pytest.mark.parametrize("demand", [FULL, Demand(Region((1, 0), (3, 2)))])
def test_needs_count_on_the_zeros_of_an_operand_that_stay(demand):
    """While a pass is recorded those of a constant do, and of a variable none: as if it were held densely."""
    held = iv.to_layout(iv.asarray(STORED), "csr")._value

    def needed(factor, recording):
        x = iv.asarray(np.ones((3, 3)), requires_grad=True)
        y = x * factor
        return find_needs(reachable([y._node], 0), {(x._node, 0): demand}, recording).result(y._node, 0)

    of_its_own = iv.sqrt(variable(held))  # kept by the call that made it
    kept = [(factor, False) for factor in (iv.Tensor(held), variable(held), of_its_own)]
    for factor, recording in (*kept, (iv.Tensor(held), True)):
        there = np.zeros(STORED.shape, bool)
        there[(demand.region if demand is not FULL else Region.full(there.shape)).slices] = True
        found = needed(factor, recording).pattern.coordinates
        np.testing.assert_array_equal(found, np.nonzero(there & (STORED != 0)))
    for factor, recording in ((variable(held), True), (of_its_own, True), (W, False)):
        assert needed(factor, recording) == demand


def test_needs_of_several_results_are_each_of_its_own():
    a = iv.asarray(np.eye(3) + W.numpy(), requires_grad=True)
    u, s, _ = iv.linalg.svd(a)
    order, box = [a._node, s._node], Demand(Region((0,), (1,)))
    of = lambda targets: [find_needs(order, targets).result(s._node, k) for k in range(3)]
    assert of({(s._node, 1): box}) == [NOTHING, box, NOTHING]
    assert of({(s._node, 1): box, (u._node, 0): FULL}) == [FULL, box, NOTHING]
    assert of({(a._node, 0): FULL, (s._node, 1): box}) == [FULL, FULL, FULL]
    assert of({}) == [NOTHING] * 3


def test_what_follows_one_of_several_results_is_needed_where_that_is():
    a = iv.asarray(np.eye(3) + W.numpy(), requires_grad=True)
    u, s, _ = iv.linalg.svd(a)
    of_u, of_s = iv.exp(u), iv.exp(s)
    both = u * s
    order, box = reachable([x._node for x in (of_u, of_s, both)], 0), Demand(Region((0,), (1,)))
    for targets, expected in (
        ({(s._node, 1): box}, (NOTHING, box, FULL)),
        ({(u._node, 0): FULL}, (FULL, NOTHING, FULL)),
        ({(a._node, 0): FULL}, (FULL, FULL, FULL)),
        ({}, (NOTHING, NOTHING, NOTHING)),
    ):
        needs = find_needs(order, targets)
        found = tuple(needs.result(x._node, 0) for x in (of_u, of_s))
        assert found == expected[:2]
        assert (of_s._node in needs.of_args) is (expected[1] is not NOTHING)
        assert (needs.result(both._node, 0) is NOTHING) is (expected[2] is NOTHING)


OF_BROADCAST = {
    "add": iv.add,
    "subtract": iv.subtract,
    "multiply": iv.multiply,
    "divide": iv.divide,
    "maximum": iv.maximum,
    "hypot": iv.hypot,
    "copysign": iv.copysign,
    "where": lambda a, b: iv.where(W[0] > 1, a, b),
    "add_n": lambda a, b: a + b + a,
}


@pytest.mark.parametrize("name", OF_BROADCAST)
def test_tangents_of_what_is_broadcast_are_the_transpose_of_cotangents(name):
    fn = OF_BROADCAST[name]
    for shapes in (((1,), (3,)), ((3,), (1,)), ((), (3,)), ((2, 1), (1, 3))):
        a, b, s, t = (iv.asarray(RNG.uniform(0.5, 1.5, n)) for n in (*shapes, *shapes))
        for f, x, v in ((lambda x, b=b: fn(x, b), a, s), (lambda x, a=a: fn(a, x), b, t)):
            y, tangent = iv.jvp(f, (x,), (v,))
            assert tangent.shape == y.shape
            assert tangent.dtype == y.dtype
            own = iv.asarray(x.numpy(), requires_grad=True)
            g = iv.asarray(RNG.standard_normal(y.shape))
            (found,) = grad([f(own)], [own], [g])
            np.testing.assert_allclose(iv.sum(tangent * g).item(), iv.sum(found * v).item(), rtol=1e-12)


def test_a_function_without_a_jvp_is_transposed_twice():
    class Two(Function):
        @staticmethod
        def forward(ctx, a, b, c):
            ctx.save_for_backward(a, b)
            return a * b, a * a * c

        @staticmethod
        def backward(ctx, g, h):
            a, b = ctx.saved_tensors
            return g * b + 2 * h * a, g * a, None

    a, b, c, t = (iv.asarray(RNG.uniform(0.5, 1.5, 3)) for _ in range(4))
    _, (first, second) = iv.jvp(lambda a: Two.apply(a, b, 1.0), (a,), (t,))
    np.testing.assert_allclose(first.numpy(), (t * b).numpy(), rtol=1e-14)
    np.testing.assert_allclose(second.numpy(), (2 * a * t).numpy(), rtol=1e-14)
    _, (first, second) = iv.jvp(lambda b: Two.apply(a, b, 1.0), (b,), (t,))
    np.testing.assert_allclose(first.numpy(), (t * a).numpy(), rtol=1e-14)
    np.testing.assert_array_equal(second.to_dense().numpy(), np.zeros(3))
    outer = lambda a: iv.jvp(lambda a: Two.apply(a, b, 1.0)[1], (a,), (t,))[1]
    _, again = iv.jvp(outer, (a,), (c,))
    np.testing.assert_allclose(again.numpy(), (2 * c * t).numpy(), rtol=1e-14)


def test_a_function_of_one_result_is_transposed_twice_too():
    class Cube(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a**3

        @staticmethod
        def backward(ctx, g):
            return 3 * g * ctx.saved_tensors[0] ** 2

    a, t = (iv.asarray(RNG.uniform(0.5, 1.5, 3)) for _ in range(2))
    _, found = iv.jvp(Cube.apply, (a,), (t,))
    np.testing.assert_allclose(found.numpy(), (3 * a * a * t).numpy(), rtol=1e-14)
    _, again = iv.jvp(lambda a: iv.jvp(Cube.apply, (a,), (t,))[1], (a,), (t,))
    np.testing.assert_allclose(again.numpy(), (6 * a * t * t).numpy(), rtol=1e-14)


def test_tangents_go_only_where_they_lead_and_start_where_they_are_given():
    class Counted(Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def jvp(ctx, t):
            Counted.calls += 1
            return t

    x, w = (iv.asarray(np.ones(2), requires_grad=True) for _ in range(2))
    y = 2 * x
    z = 3 * y + Counted.apply(w)
    slot = lambda x: (x._node, x._index)
    tangents = {slot(x): iv.ones(2), slot(y): 5 * iv.ones(2)}
    found = push([slot(y), slot(z), slot(w)], tangents, create_graph=False)
    assert {s: t.tolist() for s, t in found.items()} == {slot(y): [5, 5], slot(z): [15, 15]}
    assert Counted.calls == 0
    assert push([slot(z)], {}, create_graph=False) == {}
