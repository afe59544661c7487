"""Nothing is computed past plans (what they say: `test_plan_steps`), nor outside of inferred supports."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.autograd.demand_propagation import known_inputs
from iverson.autograd.plan import Kind, demanded, parts_of, pullback
from iverson.core.aval import Aval
from iverson.core.dispatch import make_handle
from iverson.core.entries import FULL, NOTHING, Box, Stored, covers
from iverson.core.errors import IversonError, LinearAlgebraError
from iverson.core.op import Sampler, frozen
from iverson.core.region import Region
from iverson.core.table import TABLE, override_vjp
from iverson.layouts import from_strided, support_of, to_strided
from iverson.ops import F
from iverson.transforms import jvp
from tests.conformance.product import each, floating, in_layout, samples_of, some

FLOAT = np.dtype("float64")
DIFFERENTIABLE = [name for name, op in TABLE.items() if op.differentiable and op.samples]


def aval(*shape, support=FULL):
    return Aval(shape, FLOAT, support)


def calls(name):
    """The first sample of an op, as handles that are tracked where they can be."""
    sample = samples_of(TABLE[name], "float64")[0]
    xs = list(sample.args)
    for k in floating(sample):
        xs[k] = iv.asarray(xs[k], requires_grad=True)
    return xs, sample


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.filterwarnings("ignore")
def test_every_backward_goes_through_the_plan(name, monkeypatch):
    """With the plan gone, no rule of any op runs."""

    class GoneError(Exception):
        pass

    def gone(*_, **__):
        raise GoneError

    op = TABLE[name]
    xs, sample = calls(name)
    with np.errstate(all="ignore"):
        y = getattr(F, name)(*xs, **sample.params)
    results = [r for r in (y if op.multiple else (y,)) if r.requires_grad]
    assert results or all(k in op.constant_in for k in floating(sample))
    leaves = [x for k, x in enumerate(xs) if isinstance(x, iv.Tensor) and k not in op.constant_in]
    for module in ("engine", "plan"):
        monkeypatch.setattr(f"iverson.autograd.{module}.pullback", gone)
    op.plans.clear()
    for r in results:
        with pytest.raises(GoneError):
            grad(r, leaves, grad_outputs=iv.ones(r.shape, dtype=r.dtype))


@pytest.mark.parametrize("name", [name for name, op in TABLE.items() if op.samples])
@pytest.mark.filterwarnings("ignore")
def test_a_result_is_tracked_where_something_flows_through_it(name):
    """Through numbers that are not whole, of ops that have derivatives, in inputs that are not constant."""
    op = TABLE[name]
    xs, sample = calls(name)
    with np.errstate(all="ignore"):
        y = getattr(F, name)(*xs, **sample.params)
    moving = op.differentiable and any(k not in op.constant_in for k in floating(sample))
    for r in y if op.multiple else (y,):
        assert r.requires_grad is (moving and r.dtype.kind in "fcV")
    with iv.no_grad():
        y = getattr(F, name)(*xs, **sample.params)
    assert not any(r.requires_grad for r in (y if op.multiple else (y,)))


def test_every_tangent_goes_through_the_plan(monkeypatch):
    monkeypatch.setattr("iverson.autograd.forward.pushforward", lambda *_: ())
    assert jvp(iv.sin, (iv.asarray(0.0),), (iv.asarray(1.0),))[1].item() == 0


def test_a_replaced_rule_is_used_where_a_plan_was_kept():
    x = iv.asarray(0.0, requires_grad=True)
    assert grad(iv.sin(x), x).item() == 1
    with override_vjp("sin", lambda F, g, y, x: 10 * g):
        assert grad(iv.sin(x), x).item() == 10
    assert grad(iv.sin(x), x).item() == 1


# -- what is inferred of results --------------------------------------------------------------------


def handed(value):
    """What is known of a value, or the value where maps read it (index arrays)."""
    if not hasattr(value, "shape") or (type(value) is np.ndarray and value.dtype.kind not in "fc"):
        return value
    return Aval(value.shape, value.dtype, support_of(value))


@pytest.mark.parametrize("name", [n for n, op in TABLE.items() if op.samples])
@pytest.mark.filterwarnings("ignore")
def test_the_inferred_support_holds_the_result(name):
    """Shape and dtype as computed; nothing nonzero outside of the support."""
    each(lambda layout: inferred_support_holds(name, layout), some(name, ("zero", "box", "coo", "csr")))


def inferred_support_holds(name, layout):
    op, rng = TABLE[name], np.random.default_rng(0)
    for sample in samples_of(op, "float64"):
        for k in floating(sample):
            xs = list(sample.args)
            try:
                xs[k] = in_layout(np.asarray(xs[k]), layout, rng)[0]
            except (AssertionError, KeyError, IversonError):  # not held by this layout
                continue
            found = op.infer(*map(handed, xs), **sample.params)
            handles = [make_handle(x) if hasattr(x, "shape") else x for x in xs]
            try:
                with np.errstate(all="ignore"):
                    y = getattr(F, name)(*handles, **sample.params)
            except LinearAlgebraError:  # zeros made a matrix singular
                continue
            for r, inferred in zip(*((y, found) if op.multiple else ((y,), (found,))), strict=True):
                assert (r.shape, r.dtype) == (inferred.shape, inferred.dtype)
                outside = inferred.support
                if not (op.zero_preserving or op.linear_in or op.entry_map.converts):
                    assert outside is FULL
                assert covers(outside, support_of(r._value), r.shape) or holds(outside, F.to_numpy(r))


def holds(entries, array):
    """Whether an array is zero outside of a box or pattern."""
    rest = np.array(array)
    if entries is NOTHING:
        return not rest.any()
    if isinstance(entries, Box):
        rest[entries.region.slices] = 0
    elif isinstance(entries, Stored):
        rest[tuple(entries.pattern.coordinates)] = 0
    return not rest.any()


def test_parameters_can_be_frozen():
    """Equal parameters, drawn again, are equal and hash alike; patterns are by identity."""
    each(parameters_can_be_frozen, [name for name, op in TABLE.items() if op.samples])


def parameters_can_be_frozen(name):
    draws = (TABLE[name].samples(Sampler(0, "float64")) for _ in range(2))
    for a, b in zip(*draws, strict=True):
        assert hash(frozen(a.params)) == hash(frozen(dict(a.params)))
        if not any(hasattr(v, "arrays") for v in b.params.values()):
            assert frozen(a.params) == frozen(b.params)
            assert hash(frozen(a.params)) == hash(frozen(b.params))


@pytest.mark.parametrize(
    ("name", "shape", "params", "at", "expected"),
    [
        ("stack", (2, 3), {"axis": 0}, Box(Region((1, 0, 0), (2, 2, 3))), (1,)),
        ("stack", (2, 3), {"axis": 2}, Box(Region((0, 0, 1), (1, 1, 3))), (1, 2)),
        ("concat", (2, 3), {"axis": 1, "offsets": (0, 3, 6, 9)}, Box(Region((0, 4), (2, 7))), (1, 2)),
        ("concat", (2, 3), {"axis": 0, "offsets": (0, 2, 4, 6)}, Box(Region((7, 0), (8, 1))), (3,)),
    ],
)
def test_operands_of_a_join_that_the_cotangent_is_not_of_have_no_rule_run(name, shape, params, at, expected):
    """Of steps that are stacked, a loss that reads one has a cotangent for that alone."""
    op, known = TABLE[name], [aval(*shape)] * 4
    out = op.abstract(*known, **params)

    def steps(*demands):
        return pullback(op, demands, parts_of(op, demands, at, known, out, params)).steps

    (step,) = steps(*[FULL] * 4)
    assert (step.kind, step.positions) == (Kind.TOGETHER, expected)
    assert not steps(*[NOTHING] * 4)
    assert not steps(*[NOTHING if k in expected else FULL for k in range(4)])


# -- ops whose operands are all on one pattern ------------------------------------------------------

ON_VALUES = [
    name
    for name in DIFFERENTIABLE
    if TABLE[name].entry_map.elementwise
    and TABLE[name].vjp_at is not None
    and name not in ("bracket", "where")
]


@pytest.mark.parametrize("name", ON_VALUES)
@pytest.mark.filterwarnings("ignore")
def test_rules_on_values_give_what_rules_give(name, monkeypatch):
    """Of an elementwise op whose operands are on one pattern, rules run on what is stored, and only there.

    Held against a recorded pass, which cuts tensors to the pattern, in which operands are asked for.
    """
    op, rng = TABLE[name], np.random.default_rng(0)
    assert not callable(op.vjp)
    held = from_strided(np.where(rng.random((4, 5)) < 0.5, rng.uniform(0.2, 0.8, (4, 5)), 0), "csr")
    sample = samples_of(op, "float64")[0]
    moving = floating(sample)
    xs, params = list(sample.args), sample.params
    leaves = {}
    for k in moving:
        leaves[k] = iv.asarray(held.values + rng.uniform(0, 0.1, held.values.shape), requires_grad=True)
        xs[k] = F.from_values(leaves[k], pattern=held.pattern)
    y = getattr(F, name)(*xs, **params)
    if not y.requires_grad or getattr(y._value, "pattern", None) is not held.pattern:
        return  # it is not 0 at 0
    head = F.from_values(rng.standard_normal(held.values.shape).astype(y.dtype), pattern=held.pattern)
    rolled = from_strided(np.roll(to_strided(held), 1, axis=1), "csr").pattern
    other = F.from_values(rng.standard_normal(held.values.shape).astype(y.dtype), pattern=rolled)
    heads = [head, other]  # one as long, on another pattern: its entries are of other places
    expected = [g for h in heads for g in grad(y, list(leaves.values()), h, create_graph=True)]
    found = grad(y, list(leaves.values()), other)
    monkeypatch.setattr("iverson.autograd.engine._part", None)
    found = (*grad(y, list(leaves.values()), head), *found)
    for g, e in zip(found, expected, strict=True):
        assert g.dtype == e.dtype
        np.testing.assert_array_equal(g.to_dense().numpy(), e.detach().to_dense().numpy())


@pytest.mark.parametrize("dtypes", ["float64 complex128", "complex128 float64", "float32 float64"])
@pytest.mark.parametrize("name", ["multiply", "add", "subtract"])
def test_rules_on_values_give_cotangents_of_their_inputs_dtypes(name, dtypes):
    rng = np.random.default_rng(0)
    pattern = from_strided(np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]), "csr").pattern
    drawn = lambda dtype: (rng.standard_normal(3) + (1j if dtype[0] == "c" else 0)).astype(dtype)
    on_pattern = lambda x: F.from_values(x, pattern=pattern)
    values = [drawn(dtype) for dtype in dtypes.split()]
    dense, sparse = ([iv.asarray(x).requires_grad_() for x in xs] for xs in (values, map(on_pattern, values)))
    y = getattr(F, name)(*dense)
    head = drawn(str(y.dtype))
    expected = grad(y, dense, iv.asarray(head))
    for g, e, x in zip(
        grad(getattr(F, name)(*sparse), sparse, on_pattern(head)), expected, dense, strict=True
    ):
        assert g.dtype == e.dtype == x.dtype
        np.testing.assert_array_equal(g.values().numpy(), e.numpy())


@pytest.mark.filterwarnings("ignore")
def test_what_is_moved_is_demanded_where_the_result_is_stored():
    """As recorded, and as it is found by moving a value on the demanded pattern."""
    moving = [n for n in DIFFERENTIABLE if TABLE[n].entry_map.by_moving]
    seen, dense_results = set(), set()
    for name, layout in itertools.product(moving, ("coo", "csr", "csc", "bsr")):
        op = TABLE[name]
        for x, *others, params in [(*s.args, s.params) for s in samples_of(op, "float64")]:
            if np.ndim(x) != 2 or (layout == "bsr" and np.shape(x)[0] % 2):
                continue
            dense = np.where(np.random.default_rng(0).random(np.shape(x)) < 0.5, x, 0)
            blocks = (2, 1) if layout == "bsr" else None
            s = iv.asarray(dense).to_layout(layout, blocksize=blocks).requires_grad_()
            node = getattr(F, name)(s, *others, **params)._node
            if node.op is not op or type(node.reads[0]) is not Stored:
                continue
            (asked, own), whole = node.reads, s._value.pattern
            assert asked.pattern is whole
            if (
                own is not asked and node.out.shape == s.shape
            ):  # a cotangent on the operand's pattern, by chance
                held = s.detach()
                y = getattr(F, name)(s, *others, **params)
                (found,), (expected,) = (grad([y], [s], [g]) for g in (held, held.to_dense()))
                np.testing.assert_array_equal(found.to_dense().numpy(), expected.to_dense().numpy())
            demands = (asked, *[NOTHING] * len(others))
            found = demanded(op, demands, node.args, Aval(node.out.shape, node.out.dtype), node.params)
            assert type(own) is type(found)
            if own is FULL:
                dense_results.add(name)
                continue
            assert own.pattern.shape == found.pattern.shape
            np.testing.assert_array_equal(np.sort(own.pattern.keys), np.sort(found.pattern.keys))
            seen.add(name)
    assert len(seen) >= 8, seen
    assert dense_results, "entries that are read one by one"


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_what_is_read_of_a_result_is_where_it_is_stored(layout):
    """Of operands that are demanded where they are stored: the entries that they reach, all and no others."""
    rng = np.random.default_rng(1)
    a, b = (
        iv.asarray(np.where(rng.random((4, 5)) < 0.4, 1.0, 0)).to_layout(layout).requires_grad_()
        for _ in "ab"
    )
    stored = {x: set(x._value.pattern.keys.tolist()) for x in (a, b)}
    either, both = stored[a] | stored[b], stored[a] & stored[b]
    own = [Stored(x._value.pattern) for x in (a, b)]
    joined = (iv.concat([a, b]), {*stored[a], *(k + 20 for k in stored[b])}, stored[a])
    for y, of_both, of_a in (
        (a + b, either, stored[a]),
        (iv.maximum(a, b), either, stored[a]),
        (a * b, both, both),
        joined,
    ):
        node = y._node
        for demands, expected in ((own, of_both), ((own[0], NOTHING), of_a)):
            found = demanded(node.op, tuple(demands), known_inputs(node, False), node.out, node.params)
            assert set(found.pattern.keys.tolist()) == expected
            assert y is not joined[0] or found.pattern.shape == y.shape
    # What may be nonzero later is read, too.
    node = (a * b)._node
    recorded = demanded(node.op, tuple(own), known_inputs(node, True), node.out, node.params)
    assert recorded is FULL or set(recorded.pattern.keys.tolist()) >= either
