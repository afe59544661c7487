"""Ops that move entries keep boxes: of values, of cotangents and of what is demanded of them.

The smallest region that can be known follows from the op alone: that of the nonzero entries of its result for
an input that is positive in the box and zero elsewhere.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson.autograd import grad
from iverson.autograd.demand_propagation import find_needs
from iverson.autograd.engine import reverse
from iverson.core.counting import work
from iverson.core.dispatch import bind
from iverson.core.entries import FULL, NOTHING
from iverson.core.entries import Box as Demand
from iverson.core.region import Region
from iverson.handles import Tensor
from iverson.kernels import index_keys, region_images
from iverson.layouts import Box, Bracket, Zero, layout_of, support_of, to_strided
from iverson.ops import TABLE
from tests.conformance.product import examples
from tests.layouts.test_box import regions as drawn_regions


def shapes(least=0):
    return hnp.array_shapes(min_dims=least, max_dims=4, min_side=1, max_side=4)


@st.composite
def reshaped(draw):
    """Two shapes of one size, of factors that are grouped in two ways, with extents of 1 among them."""
    factors = draw(st.lists(st.integers(1, 4), max_size=5))

    def grouped():
        cuts = sorted(draw(st.lists(st.integers(0, len(factors)), max_size=4)))
        parts = itertools.pairwise([0, *cuts, len(factors)])
        shape = [int(np.prod(factors[a:b])) for a, b in parts]
        return tuple(shape) if draw(st.booleans()) else tuple(n for n in shape if n != 1)

    old, new = grouped(), grouped()
    size = int(np.prod(old))
    divisors = [n for n in range(1, size + 1) if size % n == 0]
    if draw(st.booleans()):  # a split that no group of factors gives
        n = draw(st.sampled_from(divisors))
        new = (n, size // n)
    return old, {"shape": new}


@st.composite
def some_axes(draw, shape):
    return tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1))))) if shape else ()


@st.composite
def moves(draw):
    """An op that has an image, a shape, its other inputs and its parameters."""
    name = draw(st.sampled_from(sorted(op.name for op in TABLE.values() if op.entry_map.image is not None)))
    others: tuple = ()
    if name == "reshape":
        shape, params = draw(reshaped())
        return name, shape, others, params
    shape = draw(shapes(2 if name in ("tril", "triu", "diagonal") else 1))
    axes = draw(some_axes(shape))
    if name in ("coalesce", "copy", "identity", "to_dense"):
        params = {}
    elif name == "permute_dims":
        params = {"axes": tuple(draw(st.permutations(range(len(shape)))))}
    elif name == "expand_dims":
        params = {"axis": tuple(sorted(draw(st.sets(st.integers(0, len(shape)), max_size=2))))}
        if params["axis"] == (0, len(shape)):
            params = {"axis": (0, len(shape) + 1)}
    elif name == "squeeze":
        shape = tuple(1 if k in axes else n for k, n in enumerate(shape))
        params = {"axis": axes}
    elif name == "broadcast_to":
        lead = draw(shapes())[:2]
        params = {"shape": (*lead, *shape)}
        shape = tuple(1 if k in axes else n for k, n in enumerate(shape))
    elif name in ("sum", "sum_of_stored"):
        params = {"axis": axes, "keepdims": draw(st.booleans())}
    elif name == "flip":
        params = {"axis": axes}
    elif name == "roll":
        params = {"axis": axes, "shift": tuple(draw(st.integers(-9, 9)) for _ in axes)}
    elif name in ("tril", "triu"):
        params = {"k": draw(st.integers(-4, 4))}
    elif name == "diagonal":
        params = {"offset": draw(st.integers(1 - shape[-2], shape[-1] - 1))}
    elif name == "diag_embed":
        offset = draw(st.integers(-2, 2))
        down, right = max(-offset, 0), max(offset, 0)
        rows, columns = shape[-1] + down, shape[-1] + right
        params = {"offset": offset, "shape": (*shape[:-1], rows, columns)}
    elif name in ("index_basic", "embed"):
        raw = draw(hnp.basic_indices(shape, allow_ellipsis=False, allow_newaxis=True))
        raw = raw if isinstance(raw, tuple) else (raw,)
        rest = len(shape) - sum(item is not None for item in raw)
        extents = iter(shape)
        key = tuple(
            item
            if item is None
            else index_keys.canonical_slice(item, next(extents))
            if isinstance(item, slice)
            else item % next(extents)
            for item in (*raw, *[slice(None)] * rest)
        )
        params = {"key": key}
        if name == "embed":
            params["shape"] = shape
            shape = index_keys.key_shape(key, shape)
    else:
        assert name in ("gather", "scatter_add"), f"{name}: say how to draw its parameters"
        axes = axes or (0,)
        lead = draw(shapes())[:2]
        others = tuple(draw(hnp.arrays(np.int64, lead, elements=st.integers(0, shape[k] - 1))) for k in axes)
        params = {"axes": axes}
        if name == "scatter_add":
            params["shape"] = shape
            shape = (*lead, *(n for k, n in enumerate(shape) if k not in axes))
    return name, shape, others, params


def support(x):
    """The smallest region that holds the nonzero entries, or None."""
    at = np.argwhere(x).T
    if not x.any():
        return None
    return Region(tuple(int(n.min()) for n in at), tuple(int(n.max()) + 1 for n in at))


def in_box(shape, region):
    inner = np.asarray(np.random.default_rng(0).uniform(1, 2, region.shape))
    return inner if region.covers(shape) else Box(shape, region, inner)


def check(found, expected, given):
    """The value; of a box, held as a box of what may be nonzero and not more."""
    layout_of(found).check(found)
    np.testing.assert_allclose(to_strided(found), expected, rtol=1e-14)
    if isinstance(given, np.ndarray):
        return
    region = support(expected)
    if region is None:
        assert type(found) is Zero
    elif not region.covers(expected.shape):
        box = found.values if type(found) is Bracket else found  # indices may leave some of it out
        assert type(box) is Box
        assert box.region == region


LSTM_STACK = ("reshape", (2, 16, 4), (), {"shape": (2, 64)})


@given(moves(), st.data())
@example(LSTM_STACK, None)
@settings(max_examples=examples(250), deadline=None)
def test_a_box_stays_the_smallest_box(call, data):
    name, shape, others, params = call
    op = TABLE[name]
    region = Region((0, 3, 0), (2, 4, 4)) if data is None else data.draw(drawn_regions(shape))
    box = in_box(shape, region) if region.size else Zero(shape, np.dtype("float64"))
    forward = bind(op, (box, *others), params)
    dense = op.forward(to_strided(box), *others, **params)
    dense = to_strided(dense) if type(dense) in (Box, Zero) else np.asarray(dense)
    check(forward._value, dense, dense if name == "to_dense" else box)

    x = iv.asarray(np.zeros(shape), requires_grad=True)
    y = bind(op, (x, *others), params)
    needs = find_needs([x._node, y._node], {(x._node, 0): Demand(region)})
    expected = support(dense)
    demanded = needs.result(y._node, 0)
    if expected is None:
        assert demanded is NOTHING
    else:
        assert demanded == (FULL if expected.covers(dense.shape) else Demand(expected))

    own = Region.full(y.shape) if data is None else data.draw(drawn_regions(y.shape))
    if own.size:
        g = in_box(y.shape, own)
        whole = reverse([((y._node, 0), Tensor(to_strided(g)))], {(x._node, 0): FULL}, create_graph=False)
        part = reverse([((y._node, 0), Tensor(g))], {(x._node, 0): FULL}, create_graph=False)
        if whole:
            expected = to_strided(whole[x._node, 0]._value)
            check(part[x._node, 0]._value if part else Zero(shape, np.dtype("float64")), expected, g)


@given(reshaped())
@settings(max_examples=examples(100), deadline=None)
def test_groups_hold_the_same_entries_and_are_the_finest(call):
    old, new = call[0], call[1]["shape"]
    found = region_images.groups(old, new)
    assert [k for own, _ in found for k in own] == list(range(len(old)))
    assert [k for _, own in found for k in own] == list(range(len(new)))
    ends = set(np.cumprod(old).tolist()) & set(np.cumprod(new).tolist()) - {1}
    assert len(found) == max(len(ends), 1)
    for source, target in found:
        assert np.prod([old[k] for k in source]) == np.prod([new[k] for k in target])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("turn", ["reshape", "permute", "split", "roll", "flat"])
def test_a_loss_in_one_step_computes_only_what_leads_there(axis, turn):
    """Steps of a recurrence are stacked, the stack is turned, and one of them is read."""
    x, w = (iv.asarray(np.full(s, 0.1), requires_grad=True) for s in ((8, 2, 3), (3, 3)))
    h, steps = iv.zeros((2, 3)), []
    for k in range(8):
        h = iv.tanh(x[k] + h @ w)
        steps.append(h)
    stack = iv.stack(steps, axis=axis)
    if turn == "reshape":
        lead = stack.shape[:axis]
        stack = stack.reshape((*lead, 2, 4, *stack.shape[axis + 1 :]))
        read = stack[(slice(None),) * axis + (0, 2)]
    elif turn == "permute":
        read = iv.moveaxis(stack, axis, -1)[..., 2]
    elif turn == "split":
        read = iv.split(stack, 4, axis=axis)[1][(slice(None),) * axis + (0,)]
    elif turn == "roll":
        read = iv.roll(stack, 3, axis=axis)[(slice(None),) * axis + (5,)]
    else:
        flat = stack.reshape((*stack.shape[:axis], -1))
        each = flat.shape[-1] // 8
        read = flat[..., 2 * each : 3 * each]
    with work.counting() as done:
        g = grad((read * read).sum(), x)
    assert done.products == 2
    assert support_of(g._value) == Demand(Region((0, 0, 0), (3, 2, 3)))
