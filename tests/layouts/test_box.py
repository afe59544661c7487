"""The box layout: regions, keys, kernels and sums, against the same entries held densely."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson.autograd import grad
from iverson.autograd.accumulate import Sum
from iverson.core.counting import work
from iverson.core.region import Region
from iverson.handles import Tensor
from iverson.kernels import index_keys, strided
from iverson.layouts import Box, Zero, layout_of, to_strided
from iverson.ops import F
from tests.conformance.product import examples, in_layout, some


@st.composite
def regions(draw, shape):
    corners = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    return Region(tuple(a for a, _ in corners), tuple(b for _, b in corners))


@st.composite
def boxes(draw, shape=None):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)) if shape is None else shape
    region = draw(regions(shape))
    inner = np.random.default_rng(draw(st.integers(0, 9))).standard_normal(region.shape)
    return Box(shape, region, inner)


def dense(value):
    return to_strided(value)


@given(boxes(), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_keys_move_regions_and_place_is_the_adjoint(box, data):
    shape = box.shape
    raw = data.draw(hnp.basic_indices(shape, allow_ellipsis=False, allow_newaxis=True))
    raw = raw if isinstance(raw, tuple) else (raw,)
    used = sum(item is not None for item in raw)
    key, axis = [], 0
    for item in (*raw, *[slice(None)] * (len(shape) - used)):
        if isinstance(item, slice):
            key.append(index_keys.canonical_slice(item, shape[axis]))
        else:
            key.append(item if item is None else item % shape[axis])
        axis += item is not None
    key = tuple(key)
    x = dense(box)
    part = x[key]
    assert index_keys.key_shape(key, shape) == part.shape
    region = index_keys.region_through_key(box.region, key, shape)
    if region is None:
        assert not part.any()
    else:
        np.testing.assert_array_equal(
            box.inner[index_keys.key_within(box.region, key, shape)], part[region.slices]
        )
        outside = np.ones(part.shape, bool)
        outside[region.slices] = False
        assert not part[outside].any()
    found = Tensor(box)[raw]
    np.testing.assert_array_equal(found.numpy(), part)
    g = np.random.default_rng(0).standard_normal(part.shape)
    placed = strided.embed(g, key, shape)
    layout_of(placed).check(placed)
    np.testing.assert_allclose(np.vdot(dense(placed), x), np.vdot(g, part), rtol=1e-12, atol=1e-12)


TERMS = ("strided", "zero", "box", "coo", "packed", "bracket")
UNARY = {
    "negative": np.negative,
    "sin": np.sin,
    "square": np.square,
    "exp": np.exp,
    "abs": np.abs,
}


@given(boxes(), st.sampled_from(sorted(UNARY)))
@settings(max_examples=examples(60), deadline=None)
def test_unary(box, name):
    out = getattr(F, name)(Tensor(box))
    np.testing.assert_array_equal(out.numpy(), UNARY[name](dense(box)))
    if name != "exp" and box.region.size:
        assert out.layout in ("box", "strided")
        assert out.layout == ("strided" if box.region.covers(box.shape) else "box")


@given(st.data(), st.sampled_from(["add", "subtract", "multiply", "maximum", "divide"]))
@settings(max_examples=examples(150), deadline=None)
def test_binary_with_broadcasting(data, name):
    result = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=3, max_side=3))
    a = data.draw(boxes(result.input_shapes[0]))
    array = st.just(np.random.default_rng(1).uniform(0.5, 2, result.input_shapes[1]))
    others = (boxes(result.input_shapes[1]), st.just(Zero(result.input_shapes[1], "float64")))
    b = data.draw(array if name == "divide" else st.one_of(*others, array))
    for x, y in ((a, b), (b, a)) if name != "divide" else ((a, b),):
        out = getattr(F, name)(Tensor(x), Tensor(y))
        layout_of(out._value).check(out._value)
        np.testing.assert_allclose(out.numpy(), getattr(np, name)(dense(x), dense(y)), rtol=1e-15)


def test_what_lies_outside_is_never_multiplied():
    box = Box((4,), Region((1,), (2,)), np.array([2.0]))
    bad = np.array([np.inf, 3.0, np.nan, -np.inf])
    product = F.multiply(Tensor(box), bad)
    assert product.layout == "box"
    assert product.tolist() == [0.0, 6.0, 0.0, 0.0]
    assert F.matmul(F.zero((2, 4), "float64"), np.full((4, 3), np.nan)).layout == "zero"


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")  # sparse beside packed
def test_sums():
    """Of terms in any layouts, in any order, the entries are added up, and no term is written to."""
    rng = np.random.default_rng(0)
    values = {k: in_layout(rng.standard_normal((3, 4)), k, rng)[0] for k in TERMS}
    arrays = {k: dense(value).copy() for k, value in values.items()}
    for k, first in enumerate(itertools.product(TERMS, repeat=3)):
        for kinds in some("sums", (first, (*first, "strided", "box")), 1, k):
            total = Sum(Tensor(values[kinds[0]]), recording=False)
            for k in kinds[1:]:
                total.add(Tensor(values[k]))
            found, expected = dense(total.total()._value), sum(arrays[k] for k in kinds)
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15, err_msg=str(kinds))
            for k in kinds:
                np.testing.assert_array_equal(dense(values[k]), arrays[k], err_msg=f"{k} of {kinds}")


@st.composite
def cuts(draw):
    """Boxes that nearly partition a region: cut along one axis, in any order, one of them perhaps moved."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=4))
    whole, axis = draw(regions(shape)), draw(st.integers(0, len(shape) - 1))
    low, high = whole.start[axis], whole.stop[axis]
    at = sorted({low, high, *draw(st.lists(st.integers(low, high), max_size=3))})
    parts = draw(st.permutations([whole.on(axis, a, b) for a, b in itertools.pairwise(at)]))
    if parts and draw(st.booleans()):
        parts[0] = draw(regions(shape))
    dtypes = draw(st.lists(st.sampled_from(["f4", "f8"]), min_size=len(parts), max_size=len(parts)))
    rng = np.random.default_rng(0)
    return [Box(shape, r, rng.integers(1, 9, r.shape).astype(d)) for r, d in zip(parts, dtypes, strict=True)]


@given(cuts().filter(lambda terms: len(terms) > 1))
@settings(max_examples=examples(150), deadline=None)
def test_boxes_side_by_side(terms):
    arrays = [dense(t).copy() for t in terms]
    found, expected = F.add_n(*map(Tensor, terms))._value, sum(arrays)
    np.testing.assert_array_equal(dense(found), expected)
    assert found.dtype == expected.dtype
    for term, array in zip(terms, arrays, strict=True):
        np.testing.assert_array_equal(dense(term), array)


@pytest.mark.parametrize("count", [4, 64])
def test_many_boxes_take_one_buffer(count):
    x = iv.asarray(np.ones((count, 100)), requires_grad=True)
    rows = [x[k] for k in range(count)]
    total = iv.concat(rows)
    with work.counting() as done:
        g = grad(total.sum(), x)
    np.testing.assert_array_equal(g.numpy(), np.ones((count, 100)))
    assert done.bytes["add_n"] == count * 100 * 8


def test_split_unstack_concat_and_pad_have_box_cotangents():
    x = iv.asarray(np.arange(6.0), requires_grad=True)
    assert grad(iv.split(x, 3)[1].sum(), x).layout == "box"
    assert grad(iv.unstack(x)[2] * 1.0, x).layout == "box"
    a, b = (iv.asarray(np.ones(2), requires_grad=True) for _ in range(2))
    joined = iv.concat([a, b])
    seen = []
    joined.register_hook(lambda g: seen.append(g.layout))
    ga, gb = grad(joined[:2].sum(), [a, b])
    assert seen == ["box"]
    assert ga.tolist() == [1.0, 1.0]
    assert gb.layout == "zero"
    padded = iv.pad(x, ((1, 2),))
    np.testing.assert_array_equal(grad(padded[0] + padded[1], x).numpy(), [1.0, 0, 0, 0, 0, 0])


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_matmul_of_boxes_computes_the_part_that_matters(data):
    m, k, n = (data.draw(st.integers(1, 4)) for _ in range(3))
    a, b = data.draw(boxes((m, k))), data.draw(boxes((k, n)))
    with work.counting() as done:
        out = F.matmul(Tensor(a), Tensor(b))
    np.testing.assert_allclose(out.numpy(), dense(a) @ dense(b), rtol=1e-13, atol=1e-14)
    for rows, inner, columns in done.product_shapes:
        assert rows <= a.region.shape[0]
        assert inner <= min(a.region.shape[1], b.region.shape[0])
        assert columns <= b.region.shape[1]


def test_what_waits_in_a_sum_and_what_is_added_in_place():
    """Strided terms go into one buffer; boxes wait, up to twice the full size."""
    half = lambda k: Tensor(Box((100,), Region((50 * k,), (50 * k + 50,)), np.ones(50)))
    with work.counting() as done:
        total = Sum(Tensor(np.ones(100)), recording=False)
        assert done.calls["add_n"] == 0
        for added in range(1, 4):
            total.add(Tensor(np.ones(100)))
            assert done.calls["add_n"] == 1  # the first two make the buffer
            assert total._owned[0] == 1 + added
    assert total.total().tolist() == [4.0] * 100
    total = Sum(half(0), recording=False)
    for round_ in range(2):
        for k in range(4):  # of 400 bytes each
            total.add(half(k % 2))
            assert len(total._pending) == k + 1 + (round_ == 0)
        total.add(half(0))
        assert total._pending == []
    assert total.total().tolist() == [7.0] * 50 + [4.0] * 50
    total = Sum(half(1), recording=False)
    for _ in range(5):
        total.add(half(1))
    assert [h._value.region for h in total._pending] == [Region((50,), (100,))]
    assert total.total().tolist() == [0.0] * 50 + [6.0] * 50
    tracked = iv.asarray(np.ones(3), requires_grad=True)
    for terms in ((tracked, Tensor(np.ones(3))), (Tensor(np.ones(3)), Tensor(np.ones(3)), tracked)):
        total = Sum(terms[0], recording=True)
        for term in terms[1:]:
            total.add(term)
        assert grad(total.total().sum(), tracked).tolist() == [1.0] * 3
