"""Reductions, norms and assignments of sparse tensors: zeros that are not stored count, and cost nothing."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special

import iverson as iv
from iverson.autograd import grad
from iverson.core.aval import Aval
from iverson.core.counting import work
from iverson.core.dispatch import value_of
from iverson.core.errors import DTypeError
from iverson.core.table import TABLE
from iverson.kernels import line_rules
from iverson.kernels.kernel_registry import run
from iverson.kernels.sparse import sparse_reductions
from iverson.layouts import Sparse, to_strided
from iverson.transforms import jvp
from tests.conformance.product import EXHAUSTIVE, paired, some, turn
from tests.sparse.common import LAYOUTS, checked, held

REDUCTIONS = {
    "max": iv.max,
    "min": iv.min,
    "argmax": iv.argmax,
    "argmin": iv.argmin,
    "any": iv.any,
    "all": iv.all,
    "prod": iv.prod,
    "sum": iv.sum,
    "mean": iv.mean,
    "var": iv.var,
    "std": iv.std,
    "norm": iv.linalg.vector_norm,
    "norm of order 1": lambda x, **k: iv.linalg.vector_norm(x, ord=1, **k),
    "norm of order 3": lambda x, **k: iv.linalg.vector_norm(x, ord=3, **k),
    "norm of order inf": lambda x, **k: iv.linalg.vector_norm(x, ord=float("inf"), **k),
}
CONSTANT = ("argmax", "argmin", "any", "all")


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(("layout", "axis"), paired(LAYOUTS, [0, 1, None]))
def test_gradients_of_extrema_store_a_few_whole_lines(layout, axis, create_graph):
    """Lines without entries and those of one sign share among all their zeros; the rest stays as stored."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((30, 60)) * (rng.random((30, 60)) < 0.3)
    dense[4], dense[:, 10] = 0, 0
    dense[7], dense[:, 14] = -abs(dense[7]), -abs(dense[:, 14])
    for f in (iv.max, iv.min):
        leaves = [held(dense, layout, True), iv.asarray(dense, requires_grad=True)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            y = f(leaves[0], axis=axis)
            weight = rng.standard_normal(y.shape)
            found = grad((y * weight).sum(), leaves[0], create_graph=create_graph)
        expected = grad((f(leaves[1], axis=axis) * weight).sum(), leaves[1])
        np.testing.assert_allclose(checked(found.detach()), expected.numpy(), rtol=1e-12)
        assert found.layout == (layout if layout[0] != "b" else "coo")  # parts of blocks are no blocks
        assert found._value.pattern.count < dense.size / 2


@pytest.mark.parametrize(
    ("f", "length", "options"),
    [(iv.max, 40, {}), (iv.min, 40, {}), (iv.prod, 8, {"create_graph": True})],
    ids=["max", "min", "prod"],
)
@pytest.mark.parametrize("stored", ["one entry", "an entry of each row"])
def test_gradients_that_are_dense_by_definition_say_so_in_the_words_of_the_user(f, length, options, stored):
    dense = np.zeros((40, length))
    if stored == "one entry":
        dense[3, 5] = 1.0
    else:
        dense[np.arange(40), np.arange(40) % length] = 1.0 if f is iv.min else -1.0
    leaves = [held(dense, "csr", True), iv.asarray(dense, requires_grad=True)]
    y = f(leaves[0], axis=1).sum()
    with pytest.warns(iv.errors.DensifyWarning) as seen:
        found = grad(y, leaves[0], **options)
    own = [str(w.message) for w in seen if not str(w.message).startswith("gradient")]
    assert own
    assert all(text.startswith(f"{f.__name__}: ") for text in own), own
    expected = grad(f(leaves[1], axis=1).sum(), leaves[1]).numpy()
    np.testing.assert_array_equal(found.to_dense().detach().numpy(), expected)


def test_recorded_derivatives_of_products_read_lines_that_store_nearly_all_entries():
    """To third order, where up to two entries of a line are 0, without anything of the dense size."""
    rng = np.random.default_rng(0)
    dense = rng.uniform(0.5, 1.5, (200, 12)) * (np.arange(200) < 5)[:, None]
    for row, zeros in enumerate(([], [3], [1, 4], [0, 1, 2], [0, 5, 6, 7, 8])):
        dense[row, zeros] = 0.0
    weights = [rng.standard_normal(dense.shape) for _ in range(2)]

    def derivatives(x: Any) -> list[Any]:
        found = [grad(iv.prod(x, axis=1).sum(), x, create_graph=True)]
        for w in weights:
            found.append(grad((found[-1] * w).sum(), x, create_graph=True))
        return found

    with warnings.catch_warnings(), work.counting() as done:
        warnings.simplefilter("error")
        found = derivatives(held(dense, "csr", True))
    assert max(done.bytes.values()) < dense.nbytes  # of one op, in all its calls
    expected = derivatives(iv.asarray(dense, requires_grad=True))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f.detach().to_dense().numpy(), e.detach().numpy(), rtol=1e-12, atol=1e-14)
        assert np.count_nonzero(e.detach().numpy()) > 12


SHAPES = (1, 1), (2, 3), (3, 2), (4, 4), (1, 5), (5, 1), (0, 3), (3, 0)
#: Of which the entries of a matrix are drawn: so there are ties, full lines, empty lines, lines of one sign.
NUMBERS = (
    (-2, -1, 0),
    (0, 1, 2),
    (-1, 0, 1),
    (1, 2),
    (-1, 0, 0, 0, 2),
    (-2, -1),
    (0,),
    (np.nan, -1, 0),
    (1, 2, np.nan),
)


def matrices(name: str, nan: bool) -> Any:
    """Of each shape, one of each kind of numbers, each with a layout, axes and a flag, by turns."""
    rng = np.random.default_rng(turn(name, 1 << 30))
    for k, (shape, numbers) in enumerate(itertools.product(SHAPES, NUMBERS)):
        if nan or not np.isnan(numbers).any():
            axis = AXES[(k + rng.integers(2)) % len(AXES)]
            yield (
                rng.choice(numbers, shape).astype(float),
                LAYOUTS[rng.integers(5)],
                axis,
                bool(rng.integers(2)),
            )


@pytest.mark.parametrize("largest", [True, False])
def test_shares_of_extrema_at_other_patterns(largest):
    """Of what ties with an extremum, at entries that are stored and at others: those of the dense matrix."""
    F, rng = iv.ops.F, np.random.default_rng(0)
    for seed, (x, layout, _, _) in enumerate(matrices("shares", nan=False)):
        if x.ndim != 2 or not x.size:
            continue
        s = in_layout(x, layout, seed)
        at = held(np.where(rng.random(x.shape) < 0.6, 1.0, 0.0), "coo")._value.pattern
        for axis in ((0,), (1,), (0, 1)):
            found = F.extremum_shares_at(s, axis=axis, largest=largest, pattern=at)
            expected = F.extremum_shares(iv.asarray(x), axis=axis, largest=largest)
            np.testing.assert_allclose(found.numpy(), expected.numpy()[tuple(at.coordinates)], rtol=1e-15)


def in_layout(x: Any, layout: str, seed: int) -> Any:
    """x, of whose zeros some are stored."""
    rng = np.random.default_rng(seed)
    kept = held(np.where((x != 0) | (rng.random(x.shape) < 0.2), 1.0, 0.0), layout)
    at = tuple(kept._value.pattern.coordinates)
    return iv.with_values(kept, x[at].reshape(kept._value.pattern.stored_shape))


AXES: Any = None, 0, 1, -1, (0, 1), ()


def outcome(f: Any, *args: Any, **options: Any) -> Any:
    """A result, or the error that was raised."""
    try:
        return f(*args, **options)
    except iv.errors.IversonError as error:
        return type(error)


#: What complex numbers have, too.
OF_COMPLEX = "any", "all", "prod", "sum", "mean", "norm"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*REDUCTIONS, *(f"{name}, complex" for name in OF_COMPLEX)])
def test_values(name):
    """A zero that is not stored annihilates nan in a product."""
    name, _, is_complex = name.partition(", ")
    f = REDUCTIONS[name]
    for seed, (x, layout, axis, keepdims) in enumerate(matrices(name, nan=name != "prod" and not is_complex)):
        if is_complex:
            x = x * np.random.default_rng(seed).choice([1, 1j, 2 - 1j], x.shape)
        along = 1 if "arg" in name and isinstance(axis, tuple) else axis
        s = in_layout(x, layout, seed)
        found, expected = (outcome(f, v, axis=along, keepdims=keepdims) for v in (s, iv.asarray(x)))
        if isinstance(expected, type):
            assert found is expected
            continue
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(
            checked(found), expected.numpy(), rtol=1e-12, atol=1e-12, err_msg=f"{x}, {layout}, {axis}"
        )


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [n for n in REDUCTIONS if n not in CONSTANT])
def test_gradients_to_second_order_and_tangents(name):
    cases = list(enumerate(matrices(name, nan=False)))
    start = turn(name, 8)
    for seed, case in cases if EXHAUSTIVE else cases[start::8]:
        if isinstance(outcome(REDUCTIONS[name], iv.asarray(case[0]), axis=case[2]), type):
            continue
        gradients_agree(name, seed, *case)


def gradients_agree(name: str, seed: int, x: Any, layout: str, axis: Any, keepdims: bool) -> None:
    """In all entries, and in the stored values alone."""

    def f(s: Any) -> Any:
        y = REDUCTIONS[name](s, axis=axis, keepdims=keepdims)
        return (y * y).sum() + (y * np.cos(np.arange(y.size)).reshape(y.shape)).sum()

    rng = np.random.default_rng(seed)
    t = rng.standard_normal(x.shape)
    s = in_layout(x, layout, seed)
    pattern = s._value.pattern
    leaf, dense = s.detach().requires_grad_(), iv.asarray(x, requires_grad=True)
    found = list(grad(f(leaf), (leaf,), create_graph=True))
    expected = list(grad(f(dense), (dense,), create_graph=True))
    found.append(grad((found[0] * t).sum(), leaf))
    expected.append(grad((expected[0] * t).sum(), dense))
    at = tuple(pattern.coordinates)
    values = s.values().detach().requires_grad_()
    (alone,) = grad(f(iv.with_values(s, values)), (values,))
    np.testing.assert_allclose(alone.numpy().ravel(), expected[0].detach().numpy()[at], rtol=1e-9, atol=1e-9)
    for tangent in (iv.asarray(t), iv.sparse_mask(iv.asarray(t), s)):
        found.append(jvp(f, (s,), (tangent,))[1])
        expected.append(jvp(f, (iv.asarray(x),), (tangent.to_dense(),))[1])
    for a, b in zip(found, expected, strict=True):
        # Where a derivative does not exist (a root at 0), a structural zero may still annihilate.
        there = np.isfinite(checked(b.detach()))
        x, y = (np.where(there, checked(g.detach()), 0) for g in (a, b))
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


def _put(s: Any, key: Any, value: Any) -> Any:
    s = s * 1.0
    s[key] = value
    return s


KEYS = (
    np.s_[1], np.s_[:, 2], np.s_[0, 1], np.s_[1:3], np.s_[::-2, 1:], np.s_[-1], np.s_[[2, 0, 2]],
    np.s_[:, [1, 1, 0]], np.s_[[0, 3], [1, 5]], np.s_[[[0], [2]], [1, 4]], np.s_[2, [0, 3]], np.s_[..., None],
    np.s_[None, 1:2], np.s_[2:2], np.s_[[]],
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize(
    ("key", "kind", "layout"),
    [
        (key, kind, layout)
        for k, key in enumerate(KEYS)
        for n, kind in enumerate(some("kinds", ["zero", "number", "dense", "sparse", "row"], 3, k))
        for layout in some("layouts", ["coo", "csr"], 1, k + n)
    ],
    ids=str,
)
def test_assignments(layout, key, kind):
    """Values and gradients, in the matrix and in what is assigned, to second order."""
    rng = np.random.default_rng(1)
    x = np.where(rng.random((4, 6)) < 0.5, rng.standard_normal((4, 6)), 0)
    shape = x[key].shape
    array = {
        "zero": 0.0,
        "number": 2.5,
        "dense": rng.standard_normal(shape),
        "sparse": np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), 0),
        "row": rng.standard_normal(shape[-1:]),
    }[kind]
    w = rng.standard_normal(x.shape)

    def results(s: Any, v: Any) -> list[Any]:
        y = _put(s, key, v)
        leaves = [s, *([v] if isinstance(v, iv.Tensor) else [])]
        first = grad((y * y * w).sum(), leaves, create_graph=True)
        second = grad(sum((g * g).sum() for g in first), leaves)
        return [checked(r.detach()) for r in (y, *first, *second)]

    v: Any = array if isinstance(array, float) else iv.asarray(array, requires_grad=True)
    u = v if isinstance(v, float) else iv.asarray(array)
    if kind == "sparse" and u.ndim:
        u = u.to_layout("coo")
    u = u if isinstance(u, float) else u.requires_grad_()
    found = results(held(x, layout, True), u)
    expected = results(iv.asarray(x, requires_grad=True), v)
    plain = x.copy()
    plain[key] = array
    np.testing.assert_allclose(found[0], plain)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


OTHERS = {
    "times row of it": lambda s, t: s * t[1:2],
    "times column of it": lambda s, t: t[:, 1:2] * s,
    "row times column": lambda s, t: s[:1] * t[:, 3:4],
    "over row of it": lambda s, t: s / (t[1:2] + 3.0),
    "less row of it": lambda s, t: s * t[1],
    "kron": lambda s, t: iv.kron(s, t[:2, :3]),
    "kron of a row": lambda s, t: iv.kron(s, t[1]),
    "diag": lambda s, t: iv.diag(iv.to_layout(s[0], "strided"), layout="csr") @ t.mT,
    "eye": lambda s, t: s - 2.0 * iv.eye(4, 6, k=1, layout="csc"),
    "pad": lambda s, t: iv.pad(s, ((1, 0), (2, 1))),
    "zeros like": lambda s, t: s + iv.zeros_like(t),
    "mesh": lambda s, t: s[np.ix_([3, 0, 0], [5, 1])],
    "mesh turned": lambda s, t: s[np.array([[1, 0]]), np.array([[2], [3], [2]])],
    "mesh after an axis": lambda s, t: s[None][:, [[3], [0]], [1, 2]],
    "entries": lambda s, t: s[[3, 0, 3], [1, 2, 1]],
    "entries above": lambda s, t: s[s > 0.2],
}


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize(("name", "layout"), paired(OTHERS, ["coo", "csr", "bsc"]))
@pytest.mark.parametrize("few", [False, True])
def test_others(name, layout, few, monkeypatch):
    """Values, gradients to second order; with cotangents of index arrays stored, and in boxes."""
    monkeypatch.setattr("iverson.ops.moves.indexing_ops._SMALL", -1 if few else 10**9)
    f = OTHERS[name]
    rng = np.random.default_rng(2)
    x, z = (np.where(rng.random((4, 6)) < 0.5, rng.standard_normal((4, 6)), 0) for _ in range(2))

    def results(s: Any, t: Any) -> list[Any]:
        y = f(s, t)
        first = grad((y * y).sum(), (s, t), create_graph=True)
        second = grad(sum((g * g).sum() for g in first), (s, t))
        return [checked(r.detach()) for r in (y, *first, *second)]

    found = results(held(x, layout, True), held(z, "csr", True))
    expected = results(iv.asarray(x, requires_grad=True), iv.asarray(z, requires_grad=True))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_against_numpy():
    rng = np.random.default_rng(4)
    x, z = (np.where(rng.random((4, 6)) < 0.5, rng.standard_normal((4, 6)), 0) for _ in range(2))
    s, t = held(x, "csr"), held(z, "csc")
    np.testing.assert_array_equal(checked(iv.kron(s, t)), np.kron(x, z))
    assert iv.kron(s, t).layout == "csr"
    assert iv.kron(s, t).nnz == s.nnz * t.nnz
    for layout in ("strided", "coo", "csr", "csc"):
        np.testing.assert_array_equal(checked(iv.eye(3, 5, k=-1, layout=layout)), np.eye(3, 5, -1))
        np.testing.assert_array_equal(checked(iv.diag(x[0], k=2, layout=layout)), np.diag(x[0], 2))
        assert iv.eye(3, layout=layout).layout == iv.diag(x[0], layout=layout).layout == layout
    assert iv.zeros_like(s).layout == "csr"
    assert iv.zeros_like(s, dtype="float32").nnz == 0
    with pytest.warns(iv.errors.DensifyWarning, match="ones_like"):
        iv.ones_like(s)


def test_rows_that_are_picked_of_a_table_are_stored_alone():
    """As for `embedding`: an index array and a look-up have one cotangent."""
    table = iv.asarray(np.ones((5000, 3)), requires_grad=True)
    bias = iv.asarray(np.ones(5000), requires_grad=True)
    at = np.array([4999, 1, 4999])
    for g in (
        grad(table[at].sum(), table),
        grad(iv.take(table, at, axis=0).sum(), table),
        grad(bias[at].sum(), bias),
        grad(table[at, [0, 1, 0]].sum(), table),
    ):
        assert (g.layout, g.nnz) == ("coo", 3)
    assert grad(bias[np.arange(4000)].sum(), bias).layout == "box"


def test_a_small_operand_does_not_hide_a_large_one_made_dense():
    s = iv.eye(2000, layout="csr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for row in (np.ones(2000), np.broadcast_to(1.0, (2000, 2000))):
            with pytest.raises(iv.errors.DensifyWarning, match="add"):
                iv.add(s, row)
        array = np.ones((2000, 2000))
        tracemalloc.start()
        iv.add(s, array)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * array.nbytes  # of one buffer, of the result
        tracemalloc.stop()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_cross_entropy_of_sparse_scores(layout, reduction):
    """Scores that are not stored are 0: lines with all, some and none of them, and classes among them."""
    rng = np.random.default_rng(0)
    for shape, density in (
        ((5, 4), 0.4),
        ((5, 4), 0.0),
        ((5, 4), 1.0),
        ((1, 1), 1.0),
        ((1, 6), 0.5),
        ((40, 30), 0.1),
    ):
        scores = rng.normal(size=shape) * 50 * (rng.random(shape) < density)
        for axis in (0, 1):
            classes = rng.integers(0, shape[axis], size=shape[1 - axis])
            own = np.take_along_axis(scores, np.expand_dims(classes, axis), axis).squeeze(axis)
            losses = scipy.special.logsumexp(scores, axis=axis) - own
            expected = losses if reduction == "none" else getattr(losses, reduction)()
            x = iv.to_layout(iv.asarray(scores), layout)
            found = iv.nn.cross_entropy(x, classes, axis=axis, reduction=reduction)
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
            small = iv.nn.cross_entropy(x.astype("float32"), classes, axis=axis, reduction=reduction)
            assert small.dtype == np.float32
            np.testing.assert_allclose(small.numpy(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_segment_maxima_of_sparse_slices(layout):
    """Zeros that are not stored count where a segment has more slices than entries; an empty one is -inf."""
    rng = np.random.default_rng(0)
    for shape, density in (((7, 4), 0.5), ((7, 4), 0.0), ((7, 4), 1.0), ((1, 1), 1.0), ((60, 3), 0.8)):
        slices = -np.abs(rng.normal(size=shape)) * (rng.random(shape) < density)
        slices[0] *= -1
        ids = rng.integers(0, 3, size=shape[0])
        expected = np.full((5, *shape[1:]), -np.inf)
        np.maximum.at(expected, ids, slices)
        found = iv.segment_max(iv.to_layout(iv.asarray(slices), layout), ids, 5)
        np.testing.assert_array_equal(found.to_dense().numpy(), expected)
    slices[1, 2] = np.nan
    found = iv.segment_max(iv.to_layout(iv.asarray(slices), layout), ids, 5).to_dense().numpy()
    assert np.isnan(found[ids[1], 2])
    assert np.isnan(found).sum() == 1


def _params_of(name, axis, keepdims):
    if name in ("argmax", "argmin"):
        return {"axis": axis[0], "keepdims": keepdims}
    return {"axis": axis, "keepdims": keepdims, **({"squared": keepdims} if name == "deviation" else {})}


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "uint64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("name", line_rules.RULES)
def test_reductions_of_lines_are_those_of_the_array(name, dtype):
    op, rng = TABLE[name], np.random.default_rng(0)
    if not _takes(op, np.dtype(dtype)):
        return
    for shape in ((4, 5), (1, 1), (0, 3), (3, 0), (2, 3, 4)):
        for density in (0.0, 0.4, 1.0):
            dense = rng.integers(-3, 4, size=shape) * (rng.random(shape) < density)
            dense = dense * rng.choice([1, 2j, 2 - 1j], shape) if dtype == "complex128" else dense
            dense = dense.astype(dtype)
            for axis in ((0,), (1,), tuple(range(len(shape)))):
                params = _params_of(name, axis, bool(axis[0]))
                try:
                    expected = op.forward(dense, **params)
                except ValueError:  # of no entries
                    continue
                found = run(op, (value_of(iv.to_layout(iv.asarray(dense), "coo")),), params)
                assert found.dtype == expected.dtype
                assert found.shape == np.shape(expected)
                found = found if isinstance(found, np.generic) else to_strided(found)
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def _takes(op, dtype):
    try:
        op.abstract(Aval((2, 2), dtype), **_params_of(op.name, (0,), False))
    except DTypeError:
        return False
    return op.name not in ("prod", "deviation", "norm", "logsumexp") or dtype.kind in "fc"


@pytest.mark.parametrize("name", line_rules.RULES)
def test_lines_without_entries_have_one_value(name, monkeypatch):
    """Of very many lines most of which have the result 0, the others are stored; no array is made dense."""
    monkeypatch.setattr(sparse_reductions, "FEW_LINES", 8)
    op = TABLE[name]
    for count, many in ((8, False), (200, True)):
        dense = np.zeros((count, 5))
        dense[2:4] = [[1, 0, -2, 0, 3], [0, 4, 0, 0, 0]]
        x = value_of(iv.to_layout(iv.asarray(dense), "csr"))
        params = _params_of(name, (1,), False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = run(op, (x,), params)
        np.testing.assert_allclose(to_strided(found), op.forward(dense, **params), rtol=1e-15)
        assert isinstance(found, Sparse) is (many and name != "logsumexp")


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
def test_operands_that_the_sparse_rules_do_not_take():
    """Integers, slices without entries, and labels in other layouts give what arrays give."""
    rng = np.random.default_rng(0)
    sparse = lambda x: value_of(iv.to_layout(iv.asarray(x), "coo"))
    for shape in ((6, 4), (0, 4), (6, 0)):
        for dtype in ("int64", "float64"):
            slices = (-rng.integers(1, 5, size=shape)).astype(dtype)
            ids = rng.integers(0, 3, size=shape[0])
            for x, n in ((sparse(slices), ids), (sparse(slices), sparse(ids)), (slices, sparse(ids))):
                found = run(TABLE["segment_max"], (x, n), {"count": 4})
                expected = TABLE["segment_max"].forward(slices, ids, count=4)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(to_strided(found), expected)
    scores, classes = rng.normal(size=(3, 4)), np.array([[1], [0], [3]])
    for x, n in ((sparse(scores), sparse(classes)), (scores, sparse(classes))):
        found = run(TABLE["cross_entropy"], (x, n), {"axis": 1, "reduction": "none"})
        expected = TABLE["cross_entropy"].forward(scores, classes, axis=1, reduction="none")
        np.testing.assert_allclose(found, expected)
    for reduction in ("none", "sum", "mean"):
        for dtype in ("float32", "float64"):
            params = {"axis": 1, "reduction": reduction}
            nothing, none = scores[:0].astype(dtype), classes[:0]
            found = run(TABLE["cross_entropy"], (sparse(nothing), none), params)
            expected = TABLE["cross_entropy"].forward(nothing, none, **params)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(found, expected)
    params = {"axis": 1, "reduction": "none"}
    found = run(TABLE["cross_entropy"], (sparse(scores * 1j), classes), params)
    np.testing.assert_array_equal(found, TABLE["cross_entropy"].forward(scores * 1j, classes, **params))
