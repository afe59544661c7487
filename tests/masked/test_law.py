"""The masked layout law: a layout changes neither values nor masks nor gradients, for any op of the table."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.ops import TABLE, F
from tests.conformance.product import EXHAUSTIVE, by_turns, ops, paired, samples_of

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")


def held_as(values, mask, layout):
    """The masked tensor in a layout that can hold it (matrices and batches in all, vectors in COO)."""
    if layout == "rows":  # COO with dense trailing axes
        there = np.flatnonzero(mask.all(axis=tuple(range(1, mask.ndim))))[None]
        pattern = iv.sparse_coo_tensor(there, np.ones((there.size, *mask.shape[1:]), bool), mask.shape)
        return iv.masked_tensor(iv.asarray(values), pattern, requires_grad=True)
    pattern = iv.to_layout(iv.asarray(mask), layout, **({"blocksize": (1, 1)} if layout[0] == "b" else {}))
    return iv.masked_tensor(iv.asarray(values), pattern, requires_grad=values.dtype.kind in "fc")


def parts(x):
    """Of a result, whatever it is: its mask and its entries where that holds, as NumPy arrays."""
    if isinstance(x, tuple):
        return [p for y in x for p in parts(y)]
    if not isinstance(x, iv.MaskedTensor):
        return [x.detach().numpy()]
    if x.layout != "strided":
        x._mask.pattern.check()
    mask = x.get_mask().numpy()
    return [mask, x.detach().get_data().numpy()[mask]]


def derivatives(name, args, params):
    """The results, and the gradients to first and second order."""
    leaves = [a for a in args if isinstance(a, iv.MaskedTensor) and a.requires_grad]
    y = getattr(F, name)(*args, **params)
    ys = y if isinstance(y, tuple) else (y,)
    found = list(ys)
    for _ in range(2):
        ys = [iv.real(z * iv.conj(z)).sum() for z in ys if z.requires_grad]
        # A derivative that is structurally zero is zero.
        ys = iv.autograd.grad(ys, leaves, create_graph=True) if ys else [x * 0 for x in leaves]
        found += ys
    return found


def outcome(name, args, params):
    """The parts of the result and of the gradients to first and second order, or the error."""
    try:
        return parts(tuple(derivatives(name, args, params)))
    except iv.errors.IversonError as error:
        return [type(error), str(error)]


#: What needs the number of entries, or all of them.
UNKNOWN = {"from_values", "searchsorted", "to_layout", "unpack"}


def maskable(sample):
    """The arguments that a mask makes sense of."""
    of = enumerate(sample.args)
    return [k for k, a in of if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.ndim]


MASKABLE = [n for n in ops() if any(map(maskable, samples_of(TABLE[n], "float64")))]


@pytest.mark.parametrize("name", by_turns(MASKABLE, 3))
@given(st.integers(0, 99), st.sampled_from((0.0, 0.6, 0.6, 1.0)), st.data())
@settings(max_examples=50 if EXHAUSTIVE else 3)
def test_every_op(name, seed, share, data):
    op, rng = TABLE[name], np.random.default_rng(seed)
    sample = data.draw(st.sampled_from([s for s in samples_of(op, "float64") if maskable(s)]))
    chosen = data.draw(st.sets(st.sampled_from(maskable(sample)), min_size=1))
    masks = {k: rng.random(sample.args[k].shape) < share for k in chosen}
    layouts = {k: data.draw(st.sampled_from(LAYOUTS if masks[k].ndim > 1 else ("coo",))) for k in chosen}
    for k in [k for k in chosen if masks[k].ndim > 1 and data.draw(st.integers(0, 3)) == 0]:
        rows = rng.random((len(masks[k]),) + (1,) * (masks[k].ndim - 1)) < share
        masks[k], layouts[k] = np.array(np.broadcast_to(rows, masks[k].shape)), "rows"
    strided, stored = [], []
    for k, a in enumerate(sample.args):
        strided.append(iv.masked_tensor(a, masks[k], requires_grad=True) if k in chosen else a)
        stored.append(held_as(a, masks[k], layouts[k]) if k in chosen else a)
    with np.errstate(all="ignore"):
        expected, found = (outcome(name, args, sample.params) for args in (strided, stored))
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
        else:
            assert a == b


def computed(name, args, masks, params, way):
    """`outcome` of masks that are arguments of a function: compiled, or of one example."""

    def f(arrays, masks):
        given = list(args)
        for k, mask in masks.items():
            given[k] = iv.masked_tensor(arrays[k], mask, requires_grad=True)
        return derivatives(name, given, params)

    arrays = {k: args[k] for k in masks}
    try:
        if way == "mapped":
            found = iv.vmap(f)(*({k: a[None] for k, a in of.items()} for of in (arrays, masks)))
            return parts(tuple(y[0] for y in found))
        return parts(tuple(iv.jit(f, interpret=way == "interpreted")(arrays, masks)))
    except iv.errors.IversonError as error:
        return error


@pytest.mark.parametrize(
    ("name", "way"),
    paired(by_turns(MASKABLE, 3, 1), ["interpreted", "mapped", *(["compiled"] if EXHAUSTIVE else [])]),
)
def test_every_op_of_masks_that_are_computed(name, way):
    """As of masks that are known, to second order; or an error that says what is not known."""
    rng = np.random.default_rng(3)
    for sample in [s for s in samples_of(TABLE[name], "float64") if maskable(s)][: None if EXHAUSTIVE else 2]:
        masks = {k: rng.random(sample.args[k].shape) < 0.6 for k in maskable(sample)}
        known = [iv.masked_tensor(a, masks[k], requires_grad=True) if k in masks else a
                 for k, a in enumerate(sample.args)]  # fmt: skip
        with np.errstate(all="ignore"):
            expected = outcome(name, known, sample.params)
            found = computed(name, sample.args, masks, sample.params, way)
        if isinstance(found, iv.errors.IversonError):
            if not isinstance(expected[0], type):
                assert name in UNKNOWN, (expected, found)
                assert re.search(r"test_law\.py:\d+|to_tensor|computed", str(found))
            continue
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


def _in_place(name):
    def act(a, b):
        return getattr(a * 1.0, name)(b)

    return act


def _set(key, value):
    def act(a, b):
        x = a * 1.0
        x[key] = value(b) if callable(value) else value
        return x

    return act


def tangent(act, a, b):
    return iv.jvp(act, (a.detach(),), (b.detach(),))[1]


#: What users write, on two masked matrices of one shape.
ACTS = {
    **{f"in place {n}": _in_place(f"__i{n}__") for n in ("add", "sub", "mul", "truediv", "pow", "mod")},
    **{f"operator {n}": lambda a, b, n=n: getattr(a, f"__{n}__")(b) for n in ("add", "lt", "eq", "matmul")},
    "reflected": lambda a, b: 2.0 - a / 3.0,
    "scaled": lambda a, b: a.add(b, alpha=2),
    "row": lambda a, b: a[1] * b[0],
    "entry": lambda a, b: a[0, 1],
    "slices": lambda a, b: a[::-1, 1:] + b[:, :-1],
    "new axes": lambda a, b: a[:, None, 1:2, None],
    "chosen": lambda a, b: a[a > 0],
    "chosen by another": lambda a, b: a[b > 0],
    "chosen rows": lambda a, b: a[np.array([True, False, True])],
    "rows": lambda a, b: a[[2, 0, 2]],
    "pairs": lambda a, b: a[[0, 2], [1, 3]],
    "columns": lambda a, b: a[:, [[0, 1], [3, 3]]],
    "set entry": _set((0, 0), 5.0),
    "set row": _set(1, lambda b: b[0]),
    "set column": _set((slice(None), 2), lambda b: b[:, 0]),
    "set slices": _set((slice(0, 2), slice(None, None, 2)), lambda b: b[1:, :2]),
    "set all": _set(..., 1.0),
    "set rows": _set([2, 0], lambda b: b[:2]),
    "set twice": _set(([1, 1, 0], [2, 2, 3]), lambda b: b[0, :3]),
    "set chosen": lambda a, b: _set(a.detach() > 0, -1.0)(a, b),
    "iteration": lambda a, b: sum(row.sum() * k for k, row in enumerate(a)),
    "unstacked": lambda a, b: iv.stack(iv.unstack(a, axis=1)[::-1]),
    "masked further": lambda a, b: iv.masked_tensor(a, b > 0),
    "all axes": lambda a, b: a.max() + b.prod() * a.mean(),
    "no axes": lambda a, b: a.sum(axis=()) * b,
    "lines": lambda a, b: a.sum(axis=1, keepdims=True) * b.max(axis=0),
    "lines of lines": lambda a, b: (a - a.mean(axis=1, keepdims=True)).var(axis=0, correction=1).sum(),
    "chosen by where": lambda a, b: iv.where(a > 0, a, b) + iv.where(b > 0, 1.0, a),
    "where rows": lambda a, b: iv.where(a[:1] > 0, a, b[:, :1]),
    "gram": lambda a, b: a @ b.T @ a,
    "vector": lambda a, b: a @ b[0],
    "outer": lambda a, b: iv.outer(a[0], b[:, 1]),
    "folded": lambda a, b: iv.einsum("ij,kj->ik", a, b),
    "reshaped": lambda a, b: a.reshape(2, 6).sum(axis=0) * b.reshape(2, 6)[1],
    "transposed": lambda a, b: a.T * b.T + (a.mT * 2),
    "broadcast": lambda a, b: iv.broadcast_to(a, (2, 3, 4)) * b,
    "joined": lambda a, b: iv.concat([a, b, iv.zeros((1, 4))]),
    "stacked": lambda a, b: iv.stack([a, b, a], axis=2).max(axis=2),
    "padded": lambda a, b: iv.pad(a, ((0, 1), (2, 0))) ** 2,
    "repeated": lambda a, b: iv.tile(a, (2, 1)) * iv.repeat(b, 2, axis=0),
    "differences": lambda a, b: iv.diff(a, axis=0) * b[1:],
    "initial": lambda a, b: iv.cumulative_sum(a, axis=1, include_initial=True),
    "sorted": lambda a, b: iv.sort(a, axis=0, descending=True) + iv.sort(b, axis=1),
    "ordered": lambda a, b: iv.take_along_axis(b, iv.argsort(a, axis=1), axis=1),
    "fill": lambda a, b: a.to_tensor(b.to_tensor(2.0)) * a.to_tensor(0),
    "filled by row": lambda a, b: a.to_tensor(b.detach().to_tensor(3.0)[:1]),
    "converted": lambda a, b: a.to_layout("csc") * b.to_layout("strided"),
    "smooth": lambda a, b: a.softmax(axis=0) * b.log_softmax(axis=1) + a.logsumexp(axis=1)[:, None],
    "norms": lambda a, b: iv.linalg.norm(a, axis=1) + iv.linalg.norm(b, axis=1, ord=iv.inf),
    "extrema": lambda a, b: iv.maximum(a, b) + iv.minimum(a, b.mean(axis=0)),
    "complex": lambda a, b: iv.abs((a + 1j * b) ** 2).sum(axis=1),
    "integers": lambda a, b: (a * 8).astype("int32").sum(axis=0) + (b * 8).astype("int8").max(axis=0),
    "counted": lambda a, b: (a > 0).count_nonzero(axis=0) + (b > 0).any(axis=0),
    "segments": lambda a, b: iv.segment_sum(a, [1, 0, 1], 3) * iv.segment_max(b, [1, 0, 1], 3),
    "looked up": lambda a, b: iv.embedding(iv.asarray([[0, 2]]), a * b),
    "copied": lambda a, b: copy.deepcopy(a.detach()) * copy.copy(b.detach()),
    "pickled": lambda a, b: pickle.loads(pickle.dumps(a.detach())) * b,
    "a tree": lambda a, b: optree.tree_map(lambda x: x * 2, {"a": a})["a"] + b,
    "contained": lambda a, b: iv.asarray([a.detach()[1].to_tensor(0)[0].item() in a, 17.0 in b]),
    "tangents": lambda a, b: tangent(lambda x: x.softmax(axis=1) * x.max(axis=0), a, b),
    "sorted tangents": lambda a, b: tangent(lambda x: iv.sort(x, axis=0).cumulative_prod(axis=1), a, b),
    "hessian": lambda a, b: iv.hessian(lambda x: (x**3 + x.prod(axis=0)).sum())(a.detach()),
    "pulled back": lambda a, b: iv.vjp(lambda x: x @ x.T, a.detach())[1]((b @ b.T).detach())[0],
    "listed": lambda a, b: iv.asarray(np.array(a.detach().tolist(), float)),
}  # fmt: skip


def outcome_of(act, leaves):
    """As `outcome`, of a function of leaves; and what it is under the strict policy."""
    try:
        y = act(*leaves)
    except iv.errors.IversonError as error:
        return [type(error), str(error)]
    found = parts(y)
    if y.requires_grad:
        total = iv.real(y * iv.conj(y)).sum()
        gs = iv.autograd.grad(total, leaves, create_graph=True)
        found += parts(tuple(gs))
    try:
        with iv.masked.policy("strict"):
            found += parts(act(*leaves))
    except iv.errors.ArgumentError as error:
        found += [str(error)]
    return found


@pytest.mark.parametrize("name", by_turns(ACTS))
@given(st.integers(0, 99), st.sampled_from(("some", "none", "all", "a line", "rows", "the same")), st.data())
@settings(max_examples=60 if EXHAUSTIVE else 4)
def test_what_users_write(name, seed, kind, data):
    rng = np.random.default_rng(seed)
    values = rng.permutation(24).reshape(2, 3, 4) / 8 - 1.3
    masks = rng.random((2, 3, 4)) < 0.6
    if kind in ("none", "all"):
        masks[0] = kind == "all"
    elif kind == "a line":
        masks[:, 1], masks[:, :, 2] = False, False
    elif kind == "the same":
        masks[1] = masks[0]
    elif kind == "rows":
        masks[0] = masks[0, :, :1]
    layouts = [data.draw(st.sampled_from(LAYOUTS)), data.draw(st.sampled_from((*LAYOUTS, "strided")))]
    layouts[0] = data.draw(st.sampled_from(("rows", layouts[0]))) if kind == "rows" else layouts[0]
    strided = [iv.masked_tensor(v, m, requires_grad=True) for v, m in zip(values, masks, strict=True)]
    stored = [held_as(v, m, layout) for v, m, layout in zip(values, masks, layouts, strict=True)]
    with np.errstate(all="ignore"):
        expected, found = (outcome_of(ACTS[name], leaves) for leaves in (strided, stored))
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
        else:
            assert a == b


BINARY = [
    name
    for name, op in TABLE.items()
    if op.elementwise and [np.ndarray] * 2 == [type(a) for a in samples_of(op, "float64")[0].args]
]


@pytest.mark.parametrize(("name", "layout"), paired(BINARY, ["strided", "coo", "csr"]))
def test_strict(name, layout):
    """Equal masks are let through, in any layouts; others are an error that names the op."""
    sample = samples_of(TABLE[name], "float64")[0]
    rng = np.random.default_rng(0)
    values = [
        np.broadcast_to(a, (3, 4)).copy() for a in np.broadcast_arrays(*(a.ravel()[:1] for a in sample.args))
    ]
    mask = rng.random((3, 4)) < 0.6
    a, b = iv.masked_tensor(values[0], mask), held_as(values[1], mask, layout)
    act = getattr(F, name)
    with iv.masked.policy("strict"):
        for x, y in ((a, b), (b, a), (a, iv.asarray(values[1])), (values[0], b), (b, b)):
            np.testing.assert_array_equal(act(x, y, **sample.params).get_mask().numpy(), mask)
        other = held_as(values[1], mask ^ (rng.random((3, 4)) < 0.3), layout)
        for x, y in ((a, other), (other, b), (b, other[:1])):
            with pytest.raises(
                iv.errors.ArgumentError, match=rf"{name}: argument 'mask': got operands with diff"
            ):
                act(x, y, **sample.params)
