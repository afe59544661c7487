"""Reading and writing parts of a tensor, against NumPy, by hypothesis; and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson.autograd import grad
from iverson.core.counting import work
from iverson.core.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from iverson.testing import gradcheck
from tests.conformance.product import examples


@st.composite
def arrays_and_keys(draw):
    """An array of up to three axes and a key of any kind that NumPy would take."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    kind = draw(st.sampled_from(["basic", "arrays", "mask"]))
    if kind == "mask":
        return shape, draw(hnp.arrays(bool, shape[: draw(st.integers(1, len(shape)))]))
    basic = draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    if kind == "basic":
        return shape, basic
    count = draw(st.just(len(shape)) | st.integers(1, len(shape)))
    index_shape = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    whole, one = st.just(slice(None)), lambda n: st.integers(-n, n - 1)
    some = lambda n: hnp.arrays(np.int64, index_shape, elements=one(n))
    # Wherever an ellipsis or None stands, the ellipsis also for no axis, it may keep index arrays apart.
    before = draw(st.integers(0, count))
    extents = shape[:before] + shape[len(shape) - count + before :]
    items = [draw(st.one_of(some(n), some(n), whole, one(n))) for n in extents]
    if before < count or draw(st.booleans()):
        items.insert(before, ...)
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return shape, tuple(items)


@given(arrays_and_keys())
@example(((3, 4), (None, np.arange(3), ..., 3)))
@settings(max_examples=examples(200), deadline=None)
def test_reading_is_numpys(case):
    shape, key = case
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    np.testing.assert_array_equal(iv.asarray(x)[key].numpy(), x[key])


@given(arrays_and_keys(), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_writing_is_numpys_and_both_differentiate(case, tracked):
    shape, key = case
    start = np.arange(np.prod(shape), dtype=float).reshape(shape)
    expected = start.copy()
    value = np.random.default_rng(0).standard_normal(expected[key].shape)
    expected[key] = value
    leaf = iv.asarray(start.copy(), requires_grad=tracked)
    x = leaf * 1.0
    v = iv.asarray(value, requires_grad=True)
    x[key] = v
    np.testing.assert_array_equal(x.detach().numpy(), expected)
    # The gradient: every place of the result comes from the last value written there, or from x.
    weights = np.random.default_rng(1).standard_normal(shape)
    loss = (x * iv.asarray(weights)).sum()
    owner = np.full(shape, -1)
    owner[key] = np.arange(value.size).reshape(value.shape)
    gv = np.zeros(value.size)
    np.add.at(gv, owner[owner >= 0], weights[owner >= 0])
    np.testing.assert_allclose(grad(loss, v).numpy(), gv.reshape(value.shape), rtol=1e-14)
    if tracked:
        np.testing.assert_array_equal(grad(loss, leaf).numpy(), np.where(owner < 0, weights, 0))


@given(arrays_and_keys())
@settings(max_examples=examples(60), deadline=None)
def test_reading_differentiates_twice(case):
    shape, key = case
    x = iv.asarray(np.random.default_rng(0).standard_normal(shape), requires_grad=True)
    part = x[key]
    g = np.random.default_rng(1).standard_normal(part.shape)
    expected = np.zeros(shape)
    np.add.at(expected, key, g)
    np.testing.assert_allclose(grad(part, x, iv.asarray(g)).numpy(), expected, atol=1e-15)
    squares = (part * part * part).sum()
    first = grad(squares, x, create_graph=True)
    second = grad(first.sum(), x)
    again = np.zeros(shape)
    np.add.at(again, key, 6 * x.detach().numpy()[key])
    np.testing.assert_allclose(second.numpy(), again, rtol=1e-13)


def test_gradcheck_of_a_mixed_program():
    x = iv.asarray(np.random.default_rng(0).standard_normal((4, 5)), requires_grad=True)
    v = iv.asarray(np.random.default_rng(1).standard_normal(3), requires_grad=True)

    def f(x, v):
        y = x * 2.0
        y[1, 1:4] = v * v
        y[[0, 3], :2] = y[[2, 2], 3:]
        y[y.detach() > 1.5] = v[0]
        return y[::2] + y[::-2]

    assert gradcheck(f, (x, v))


def test_augmented_assignment_of_a_part():
    x = iv.asarray(np.arange(4.0), requires_grad=True)
    y = x * 1.0
    y[1:3] *= 10.0
    y[0] += x[3]
    np.testing.assert_array_equal(y.detach().numpy(), [3.0, 10.0, 20.0, 3.0])
    np.testing.assert_array_equal(grad(y.sum(), x).numpy(), [1.0, 10.0, 10.0, 2.0])


def test_iteration_and_length():
    x = iv.asarray(np.arange(6.0).reshape(2, 3))
    assert [row.tolist() for row in x] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert len(x) == 2
    with pytest.raises(ShapeError, match="rank 0"):
        len(iv.asarray(1.0))


ERRORS = [
    (np.s_[5], "index 5 on axis 0; expected one in \\[-3, 3\\)"),
    (np.s_[-4], "index -4 on axis 0"),
    (np.s_[0, 0, 0], "3 indices; expected at most 2"),
    (np.s_[..., ...], "several ellipses"),
    (np.s_[1.5], "1.5 \\(float\\); expected integers, slices"),
    (np.s_["a"], "'a'"),
    (np.array([0, 7]), "index 7 on axis 0"),
    (np.array([0.5]), "dtype float64"),
    (np.array([True, False]), "mask.*shape \\(2,\\); expected shape \\(3,\\)"),
    ((np.array([0, 1]), np.array([0, 1, 2])), "shapes \\(2,\\), \\(3,\\)"),
    (np.s_[::0], "slice"),
]


@pytest.mark.parametrize(("key", "message"), ERRORS, ids=[str(k) for k in range(len(ERRORS))])
def test_bad_indices_are_errors_before_any_kernel(key, message):
    x = iv.zeros((3, 4))
    with pytest.raises(IndexingError, match=message) as caught:
        x[key]
    assert isinstance(caught.value, IndexError)
    with pytest.raises(IndexError):
        x[key] = 1.0


def test_bad_values_are_errors_and_change_nothing():
    x = iv.zeros((3, 4))
    with pytest.raises(ShapeError, match=r"assignment.*\(5,\)"):
        x[0] = iv.zeros(5)
    with pytest.raises(ShapeError, match="assignment"):
        x[0, 0] = iv.zeros((1, 1))
    with pytest.raises(DTypeError, match="assignment: argument 'value': got dtype complex128"):
        x[0] = 1j
    with pytest.raises(DTypeError, match="float64"):
        iv.zeros(3, dtype=iv.int64)[0] = 0.5
    assert not x.numpy().any()


@pytest.mark.parametrize(
    "key",
    [True, False, np.array(False), (slice(None), True), (0, True), (True, [0, 1]), ([0, 1], True, [1, 0])],
)
def test_masks_of_rank_0_take_all_or_nothing(key):
    array = np.arange(6.0).reshape(2, 3)
    x = iv.asarray(array, requires_grad=True)
    part = x[key]
    np.testing.assert_array_equal(part.detach().numpy(), array[key])
    expected = np.zeros((2, 3))
    np.add.at(expected, key, 1.0)
    np.testing.assert_array_equal(grad(part.sum(), x).numpy(), expected)
    y = iv.asarray(x, copy=True)
    y[key] = 7.0
    array[key] = 7.0
    np.testing.assert_array_equal(y.detach().numpy(), array)


def test_ragged_and_overflowing_values_are_our_errors():
    x = iv.zeros((2, 3), dtype="int8")
    with pytest.raises(ArgumentError, match="index: argument 'key': got"):
        x[[[0, 1], [1]]]
    with pytest.raises(ArgumentError, match="assignment: argument 'value': got"):
        x[0] = [1, [2]]
    with pytest.raises(ArgumentError, match="got 300; expected a number that int8 can hold"):
        x[0] = 300


def test_what_was_overwritten_asks_nothing_of_what_was_there():
    w = iv.asarray(np.eye(3), requires_grad=True)
    value = iv.asarray(np.full(3, 2.0), requires_grad=True)
    y = iv.asarray(np.ones((4, 3))) @ w
    y[1] = value
    for loss in (y[1].sum(), (y[1:2, :2] * 3.0).sum()):
        with work.counting() as done:
            gw, gv = grad(loss, [w, value])
        assert done.products == 0
        assert gw.layout == "zero"
        assert gv.numpy().any()
    y[:] = 0.0
    with work.counting() as done:
        gw = grad((y * 1.0).sum(), w)
    assert done.products == 0
    assert gw.layout == "zero"
