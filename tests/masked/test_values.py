"""Values and masks against numpy.ma, over shapes, masks and garbage where nothing is specified."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.core.scalars import SCALARS
from iverson.masked.rules import rule_of, whole
from iverson.ops import TABLE, F
from tests.conformance.product import examples, ops, samples_of
from tests.masked.oracle import assert_same, broadcasting, masked, of_numpy, pairs, with_garbage

quick = settings(max_examples=examples(60), deadline=None)


@pytest.mark.parametrize("name", [n for n, s in SCALARS.items() if n != "where" and not s.orders])
def test_every_elementwise_op(name):
    """Values, masks, gradients and tangents of an op are those of the plain op at the common entries."""
    op, rng = TABLE[name], np.random.default_rng(0)
    for sample in samples_of(op, "float64"):
        masks = [rng.random(np.shape(a)) < 0.6 for a in sample.args]
        both = np.broadcast_arrays(*masks)
        mask = np.logical_and.reduce(both)
        xs = [masked(a, m) for a, m in zip(sample.args, masks, strict=True)]
        expected = getattr(F, name)(*sample.args).numpy()
        assert_same(getattr(F, name)(*xs), np.ma.MaskedArray(expected, ~mask))
        if not op.differentiable:
            continue
        plain = [iv.asarray(a, requires_grad=True) for a in sample.args]
        for x in xs:
            x.requires_grad_()
        g = np.where(mask, rng.standard_normal(mask.shape), 0.0)
        grads = iv.autograd.grad(getattr(F, name)(*xs), xs, iv.asarray(with_garbage(g, mask)))
        wanted = iv.autograd.grad(getattr(F, name)(*plain), plain, iv.asarray(g))
        for found, dense, own in zip(grads, wanted, masks, strict=True):
            assert_same(found, np.ma.MaskedArray(dense.numpy(), ~own))


def takes_arrays_first(name):
    return any(isinstance(a, np.ndarray) for a in samples_of(TABLE[name], "float64")[0].args[:1])


@pytest.mark.parametrize("name", [*filter(takes_arrays_first, ops())])
def test_an_op_where_all_is_specified(name):
    """There a masked tensor is computed with as a plain one is; without a rule, nowhere else."""
    op = TABLE[name]
    sample = samples_of(op, "float64")[0]
    args = (iv.masked_tensor(sample.args[0]), *sample.args[1:])
    found = getattr(F, name)(*args, **sample.params)
    expected = getattr(F, name)(*sample.args, **sample.params)
    if not op.multiple:
        found, expected = (found,), (expected,)
    for x, plain in zip(found, expected, strict=True):
        if name == "searchsorted":  # every entry of a plain v has a place
            np.testing.assert_array_equal(x.numpy(), plain.numpy())
            continue
        mask = x.get_mask().numpy()
        # No entry goes to some of the result.
        assert mask.all() or name in ("scatter_add", "segment_max")
        assert_same(x, np.ma.MaskedArray(plain.to_dense().numpy(), ~mask))
    if rule_of(op) is whole:
        args = list(sample.args)
        k = next(k for k, a in enumerate(args) if a.size)
        args[k] = iv.masked_tensor(args[k], np.arange(args[k].size).reshape(args[k].shape) > 0)
        with pytest.raises(iv.errors.ArgumentTypeError, match=rf"{name}: got a MaskedTensor.*to_tensor"):
            getattr(F, name)(*args, **sample.params)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "lt", "eq"])
@given(broadcasting())
@quick
def test_operators_intersect_broadcast_masks(name, both):
    (a, ma), (b, mb) = both
    act = getattr(operator, name)
    assert_same(act(masked(a, ma), masked(b, mb)), act(of_numpy(a, ma), of_numpy(b, mb)))
    assert_same(act(masked(a, ma), iv.asarray(b)), act(of_numpy(a, ma), b))
    assert_same(act(iv.asarray(a), masked(b, mb)), act(of_numpy(a, np.ones_like(ma)), of_numpy(b, mb)))
    assert_same(act(2.0, masked(b, mb)), act(of_numpy(2.0, True), of_numpy(b, mb)))


def axes_of(values):
    return st.one_of(
        st.none(), st.sets(st.integers(0, values.ndim - 1)).map(tuple) if values.ndim else st.just(())
    )


def over_lines(function, values, mask, axis, keepdims):
    """A reduction, line by line, over what is specified."""
    axes = tuple(range(values.ndim)) if axis is None else axis
    keep = [k for k in range(values.ndim) if k not in axes]
    shape = tuple(values.shape[k] for k in keep)
    out, there = np.zeros(shape), np.zeros(shape, bool)
    for i in np.ndindex(*shape):
        key = [slice(None)] * values.ndim
        for k, n in zip(keep, i, strict=True):
            key[k] = n
        entries = values[tuple(key)][mask[tuple(key)]]
        there[i] = entries.size > 0
        out[i] = function(entries) if entries.size else 0
    if keepdims:
        shape = tuple(1 if k in axes else n for k, n in enumerate(values.shape))
        out, there = out.reshape(shape), there.reshape(shape)
    return np.ma.MaskedArray(out, ~there)


REDUCTIONS = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
    "all": lambda x: np.all(x > 0),
    "any": lambda x: np.any(x > 0),
    "count_nonzero": np.count_nonzero,
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
    "vector_norm": np.linalg.norm,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@given(pairs(), st.data(), st.booleans())
@quick
def test_reductions_are_over_specified_entries(name, pair, data, keepdims):
    values, mask = pair
    axis = data.draw(axes_of(values))
    function = getattr(iv, name, None) or getattr(iv.linalg, name)
    x = masked(values, mask)
    x = x > 0 if name in ("all", "any") else x
    found = function(x, axis=axis, keepdims=keepdims)
    assert_same(found, over_lines(REDUCTIONS[name], values, mask, axis, keepdims), rtol=1e-9)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@given(pairs(), st.data())
@quick
def test_positions_of_extrema(name, pair, data):
    values, mask = pair
    assume(values.size)
    axis = data.draw(st.one_of(st.none(), st.integers(0, values.ndim - 1))) if values.ndim else None
    extreme = -np.inf if name == "argmax" else np.inf
    filled = np.where(mask, values, extreme)
    expected = np.ma.MaskedArray(getattr(np, name)(filled, axis=axis), ~np.any(mask, axis=axis))
    assert_same(getattr(iv, name)(masked(values, mask), axis=axis), expected)


def test_what_is_infinite_is_found_beside_what_is_not_there():
    x = iv.masked_tensor([9.0, -np.inf, -np.inf], [False, False, True])
    assert x.argmax().item() == 2
    x = iv.masked_tensor([[0.0, -np.inf, -np.inf, 1.0]], [[False, True, True, False]], requires_grad=True)
    y = x.max(axis=1)
    assert y.tolist() == [-np.inf]
    assert iv.autograd.grad(y, x, iv.ones(1)).tolist() == [[None, 0.5, 0.5, None]]
    a = iv.masked_tensor([[np.inf, 1.0]], [[True, True]])
    b = iv.masked_tensor([[5.0], [2.0]], [[False], [True]])
    assert (a @ b).tolist() == [[2.0]]


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod", "softmax", "log_softmax", "sort"])
@given(pairs(), st.data())
@quick
def test_along_an_axis(name, pair, data):
    values, mask = pair
    assume(values.ndim)
    axis = data.draw(st.integers(0, values.ndim - 1))
    expected = np.ma.MaskedArray(np.zeros(values.shape), ~mask)
    functions = {
        "cumulative_sum": np.cumsum,
        "cumulative_prod": np.cumprod,
        "softmax": lambda x: np.exp(x) / np.exp(x).sum(),
        "log_softmax": lambda x: x - np.log(np.exp(x).sum()),
        "sort": np.sort,
    }
    lead = tuple(n for k, n in enumerate(values.shape) if k != axis)
    for i in np.ndindex(*lead):
        key = (*i[:axis], slice(None), *i[axis:])
        line, there = values[key], mask[key]
        out = functions[name](line[there]) if there.any() else 0.0
        if name == "sort":
            there = np.arange(line.size) < np.count_nonzero(there)
        part = np.ma.MaskedArray(np.zeros(line.shape), ~there)
        part[there] = out
        expected[key] = part
    assert_same(getattr(iv, name)(masked(values, mask), axis=axis), expected)


def test_sort_and_argsort():
    x = iv.masked_tensor([3.0, np.nan, 1.0, 2.0], [True, False, True, True])
    assert repr(iv.sort(x)) == "iverson.MaskedTensor([1., 2., 3., --])"
    assert repr(iv.sort(x, descending=True)) == "iverson.MaskedTensor([3., 2., 1., --])"
    order = iv.argsort(x)
    assert order.tolist() == [2, 3, 0, None]
    assert repr(iv.take_along_axis(x, order)) == repr(iv.sort(x))
    assert iv.searchsorted(iv.asarray([1.0, 2.0]), x).tolist() == [2, None, 0, 1]


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.data())
@quick
def test_matmul_counts_products_of_specified_factors(m, k, n, data):
    (a, ma), (b, mb) = (data.draw(pairs(st.just(s))) for s in ((m, k), (k, n)))
    there = ma[:, :, None] & mb[None]
    expected = np.ma.MaskedArray(
        np.where(there, a[:, :, None] * b[None], 0.0).sum(axis=1), ~there.any(axis=1)
    )
    assert_same(masked(a, ma) @ masked(b, mb), expected)
    rows = np.broadcast_to(ma.any(axis=1)[:, None], (m, n))
    assert_same(masked(a, ma) @ iv.asarray(b), np.ma.MaskedArray(np.where(ma, a, 0) @ b, ~rows))


def test_products_of_other_kinds():
    x = iv.masked_tensor([1.0, np.nan, 3.0], [True, False, True])
    w = iv.asarray([2.0, 2.0, 2.0])
    assert (x @ w).item() == iv.vecdot(x, w).item() == iv.tensordot(x, w, axes=1).item() == 8.0
    assert iv.outer(x, w).tolist() == [[2.0] * 3, [None] * 3, [6.0] * 3]
    assert iv.einsum("i,i->", x, w).item() == 8.0


@given(broadcasting(), st.integers(0, 9))
@quick
def test_where_takes_what_it_chooses(both, seed):
    (a, ma), (b, mb) = both
    shape = np.broadcast_shapes(a.shape, b.shape)
    rng = np.random.default_rng(seed)
    c, mc = rng.random(shape) < 0.5, rng.random(shape) < 0.7
    expected = np.ma.MaskedArray(np.where(c, a, b), ~(mc & np.where(c, ma, mb)))
    condition = iv.masked_tensor(c, mc)
    assert_same(iv.where(condition, masked(a, ma), masked(b, mb)), expected)
    plain = np.ma.MaskedArray(np.where(c, a, 0.0), ~(np.where(c, ma, True)))
    assert_same(iv.where(c, masked(a, ma), 0.0), plain)
    assert_same(iv.where(condition, 1.0, 0.0), np.ma.MaskedArray(c.astype(float), ~mc))


MOVES = {
    "reshape": lambda x: x.reshape(6, 2),
    "permute": lambda x: (
        iv.permute_dims(x, (2, 0, 1)) if not isinstance(x, np.ndarray) else x.transpose(2, 0, 1)
    ),
    "T": lambda x: x[0].T,
    "index": lambda x: x[1],
    "slice": lambda x: x[:, ::-2, None],
    "ellipsis": lambda x: x[..., 0],
    "integers": lambda x: x[[1, 0, 1]],
    "pairs": lambda x: x[[0, 1], :, [1, 0]],
    "bools": lambda x: x[np.array([True, False])],
}


@pytest.mark.parametrize("name", MOVES)
def test_entries_move_with_their_masks(name):
    rng = np.random.default_rng(0)
    values, mask = rng.standard_normal((2, 3, 2)), rng.random((2, 3, 2)) < 0.6
    act = MOVES[name]
    assert_same(act(masked(values, mask)), np.ma.MaskedArray(act(values), ~act(mask)))


FUNCTIONS = {
    "squeeze": (lambda x: iv.squeeze(iv.expand_dims(x, axis=1), 1), lambda x: x),
    "broadcast_to": (lambda x: iv.broadcast_to(x, (2, 2, 3)), lambda x: np.broadcast_to(x, (2, 2, 3))),
    "flip": (lambda x: iv.flip(x, axis=1), lambda x: np.flip(x, 1)),
    "roll": (lambda x: iv.roll(x, 1, axis=0), lambda x: np.roll(x, 1, 0)),
    "tile": (lambda x: iv.tile(x, (1, 2)), lambda x: np.tile(x, (1, 2))),
    "repeat": (lambda x: iv.repeat(x, 2, axis=0), lambda x: np.repeat(x, 2, 0)),
    "take": (lambda x: iv.take(x, np.array([2, 0]), axis=1), lambda x: np.take(x, [2, 0], 1)),
    "diagonal": (iv.diagonal, np.diagonal),
    "split": (lambda x: iv.split(x, [1], axis=1)[1], lambda x: x[:, 1:]),
    "unstack": (lambda x: iv.unstack(x)[1], lambda x: x[1]),
    "moveaxis": (lambda x: iv.moveaxis(x, 0, 1), lambda x: np.moveaxis(x, 0, 1)),
    "concat": (lambda x: iv.concat([x, x]), lambda x: np.concatenate([x, x])),
    "stack": (lambda x: iv.stack([x, x], axis=1), lambda x: np.stack([x, x], 1)),
    "wrap": (lambda x: iv.pad(x, 1, "wrap"), lambda x: np.pad(x, 1, "wrap")),
    "broadcast": (lambda x: iv.broadcast_arrays(x, iv.zeros((2, 1, 1)))[0], lambda x: np.stack([x, x])),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_shape(name):
    rng = np.random.default_rng(1)
    values, mask = rng.standard_normal((2, 3)), rng.random((2, 3)) < 0.6
    ours, theirs = FUNCTIONS[name]
    assert_same(ours(masked(values, mask)), np.ma.MaskedArray(theirs(values), ~theirs(mask)))


def test_what_is_joined_or_padded_with_is_specified():
    x = iv.masked_tensor([1.0, np.nan], [True, False])
    assert iv.concat([x, iv.zeros(1)]).tolist() == [1.0, None, 0.0]
    assert iv.pad(x, 1).tolist() == [0.0, 1.0, None, 0.0]
    assert iv.pad(x, 1, constant_values=7).tolist() == [7.0, 1.0, None, 7.0]
    assert iv.cumulative_sum(x, include_initial=True).tolist() == [0.0, 1.0, None]
    assert iv.diff(x, prepend=iv.zeros(1)).tolist() == [1.0, None]


def test_bool_integer_and_complex_data():
    b = iv.masked_tensor([True, False, True], [True, True, False])
    assert (~b).tolist() == [False, True, None]
    assert (b & iv.asarray(True)).tolist() == [True, False, None]
    assert b.to_tensor(True).tolist() == [True, False, True]
    i = iv.masked_tensor([1, 2, 3], [True, False, True])
    assert (i.sum().item(), i.mean().item(), i.max(axis=0).item()) == (4, 2.0, 3)
    assert i.to_tensor(-1).tolist() == [1, -1, 3]
    c = iv.masked_tensor([1 + 2j, np.nan, 2j], [True, False, True])
    assert c.conj().tolist() == [1 - 2j, None, -2j]
    assert c.real.tolist() == [1.0, None, 0.0]
    assert abs(c).sum().item() == pytest.approx(5**0.5 + 2)


def test_python_numbers_are_those_of_a_plain_tensor():
    m = iv.masked_tensor([[1.5, 2.0]], [[True, False]])
    assert (float(m[0, 0]), int(m[0, 0]), f"{m[0, 0]:.2f}") == (1.5, 1, "1.50")
    with pytest.raises(TypeError, match=r"float: argument 'x': got dtype complex128"):
        float(iv.masked_tensor([1j], [True]))
    assert [10, 20][iv.masked_tensor([1], [True])[0]] == 20
    with pytest.raises(ValueError, match="in-place add"):
        m += iv.zeros((3, 2))
    plain = iv.ones(2)
    with pytest.raises(TypeError, match="in-place add: argument 'other': got a MaskedTensor as the result"):
        plain += m[0]
