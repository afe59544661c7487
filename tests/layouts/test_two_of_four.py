"""A layout that is none of ours: 2:4 structured, two of every four entries along the last axis.

It is one pattern class and one registration. Users ask for it by `to_layout` as for any other. It passes
the layout law for every op that accepts sparse layouts, for derivatives, and in masked tensors; no engine,
rule or mask knows of it.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import iverson as iv
from iverson.autograd import grad
from iverson.core.dispatch import bind
from iverson.core.entries import Stored
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.op import Op, Sampler
from iverson.core.region import Region
from iverson.handles import Tensor
from iverson.kernels import kernel_registry
from iverson.kernels import register as register_kernel
from iverson.layouts import (
    Box,
    CompressedPattern,
    CooPattern,
    Layout,
    Packed,
    Pattern,
    Sparse,
    Zero,
    from_strided,
    layout_of,
    layouts_by_type,
    sparse_layouts,
    to_strided,
)
from iverson.layouts import register as register_layout
from iverson.layouts.pattern import check as check_values
from iverson.layouts.pattern import stored
from iverson.layouts.pattern import to_strided as sparse_to_strided
from iverson.ops import TABLE
from iverson.testing import gradcheck, gradgradcheck
from iverson.transforms import jvp

# -- the layout ------------------------------------------------------------------------------------------


class TwoOfFourPattern(Pattern):
    """A byte per group of four: in its lowest two bits where the first stored entry is, then the second."""

    __slots__ = ("codes",)
    layout = "two_of_four"

    def __init__(self, shape: tuple[int, ...], codes: Any) -> None:
        super().__init__(shape, (*codes.shape, 2))
        self.codes = codes

    @property
    def index_dtype(self) -> Any:
        return np.dtype(np.int64)

    def _coordinates(self) -> Any:
        places = np.stack([self.codes & 3, self.codes >> 2], axis=-1)
        *lead, group, _ = np.indices(places.shape)
        return np.stack([i.ravel() for i in (*lead, group * 4 + places)])

    def permuted(self, axes: tuple[int, ...]) -> Pattern:
        return self.once("coo", lambda: CooPattern(self.shape, self.coordinates, True)).permuted(axes)

    def check(self) -> None:
        assert self.codes.dtype == np.uint8
        assert self.shape == (*self.codes.shape[:-1], 4 * self.codes.shape[-1])
        assert ((self.codes & 3) < (self.codes >> 2)).all()
        assert (self.codes < 16).all()

    def __reduce__(self) -> Any:
        return TwoOfFourPattern, (self.shape, self.codes)


class TwoOfFour(Sparse):
    """Values of shape (*lead, groups, 2) on a `TwoOfFourPattern`."""

    __slots__ = ()


TwoOfFourPattern.kind = TwoOfFour


def of_largest(x: Any) -> TwoOfFourPattern:
    """The pattern of the two entries of largest modulus of each group, of the first among equals."""
    groups = np.abs(x).reshape(*x.shape[:-1], -1, 4)
    places = np.sort(np.argsort(-groups, axis=-1, kind="stable")[..., :2], axis=-1)
    return TwoOfFourPattern(x.shape, (places[..., 0] | places[..., 1] << 2).astype(np.uint8))


def largest(x: Any) -> TwoOfFour:
    """How a network is pruned to this structure."""
    pattern = of_largest(x)
    return pattern.value(x[tuple(pattern.coordinates)])


def from_coo(x: Any, blocksize: Any) -> TwoOfFour:
    """The entries of a tensor with at most two in a group that are not 0; explicit zeros fill the others."""
    nonzero = x.entries != 0
    ranks = x.pattern.value(1 + nonzero)
    key = "two_of_four", nonzero.tobytes()
    pattern = x.pattern.once(key, lambda: of_largest(sparse_to_strided(ranks)))
    at, there = pattern.find(x.pattern.keys)
    if nonzero[~there].any():
        raise ArgumentError("to_layout", "x", got="three entries in a group of four", expected="at most two")
    entries = np.zeros(pattern.count, x.dtype)
    entries[at[there]] = x.entries[there]
    return pattern.value(entries)


def unfit(shape: tuple[int, ...], blocksize: Any) -> str:
    return "" if shape and shape[-1] % 4 == 0 else "a last axis of whole groups of four"


@pytest.fixture(autouse=True)
def registered() -> Iterator[list[str]]:
    ran: list[str] = []
    register_layout(
        Layout(
            name="two_of_four",
            kind=TwoOfFour,
            to_strided=sparse_to_strided,
            check=check_values,
            support=lambda x: Stored(x.pattern),
            stored=stored,
            buffers=lambda x: (x.values,),
            rebuild=lambda x, buffers: TwoOfFour(x.pattern, buffers[0]),
            from_coo=from_coo,
            unfit=unfit,
            priority=22,
        )
    )

    @register_kernel("matmul", TwoOfFour)
    def matmul(op: Op, values: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """A kernel of its own where the layout has a better way: half of the products, no index arrays."""
        x, b = values
        if type(x) is not TwoOfFour or type(b) is not np.ndarray or len(x.shape) != 2 or b.ndim != 2:
            return NotImplemented
        ran.append(op.name)
        columns = x.pattern.coordinates[1].reshape(len(x.values), -1)
        return np.einsum("ik,ikj->ij", x.values.reshape(columns.shape), b[columns])

    yield ran
    del layouts_by_type[TwoOfFour]
    kernel_registry.replace_kernels(
        {key: kernel for key, kernel in kernel_registry.registered().items() if key[1] is not TwoOfFour}
    )


SHAPE = (4, 8)
LEAF = np.random.default_rng(0).standard_normal(SHAPE)
D = np.random.default_rng(1).standard_normal(SHAPE) + 0.1


def held(x: Any = LEAF, requires_grad: bool = False) -> tuple[Any, Any]:
    """An array cut down to the structure, in the layout and strided."""
    value = largest(np.asarray(x))
    dense = iv.asarray(to_strided(value))
    made = Tensor(value)
    return (made.requires_grad_(), dense.requires_grad_()) if requires_grad else (made, dense)


def entries(x: Any) -> Any:
    value = x.detach()._value
    layout_of(value).check(value)
    return to_strided(value)


# -- the layout law, op by op ----------------------------------------------------------------------------

#: Calls of each op that accepts sparse layouts: functions of one tensor of shape (4, 8).
KEY = {"key": (slice(3, None, -2), None, slice(1, 8, 2))}
IDS = np.array([2, 0, 2])
WHOLE = {"axes": (0, 1)}


def call(name: str, *before: Any, after: tuple[Any, ...] = (), **params: Any) -> Any:
    return lambda x: bind(TABLE[name], (*before, x, *after), params)


def pattern(layout: str = "csr", shape: tuple[int, int] = SHAPE) -> Pattern:
    return from_strided(np.where(np.random.default_rng(2).random(shape) < 0.4, 1.0, 0), layout).pattern


def dominant(x: Any) -> Any:
    """A regular matrix that stores what a structured one does, and its diagonal."""
    return x[:, :4] + iv.asarray(np.eye(4) * 5).to_layout("csr")


CHOSEN = np.resize([True, True, False], SHAPE)
CALLS = {
    "add_n": [
        lambda x: bind(TABLE["add_n"], (x, x * 2.0, D), {}),
        lambda x: bind(TABLE["add_n"], (x, x), {}),
    ],
    "all": [call("all", axis=(1,), keepdims=False), call("all", axis=(0, 1), keepdims=True)],
    "any": [call("any", axis=(1,), keepdims=False), call("any", axis=(0, 1), keepdims=True)],
    "argmax": [call("argmax", axis=1, keepdims=False), call("argmax", axis=None, keepdims=True)],
    "argmin": [call("argmin", axis=0, keepdims=True)],
    "bracket": [lambda x: bind(TABLE["bracket"], (CHOSEN, x), {"negated": False})],
    "broadcast_to": [call("broadcast_to", shape=(3, *SHAPE))],
    "cross_entropy": [
        call("cross_entropy", after=(classes,), axis=axis, reduction=reduction)
        for classes, axis in ((np.array([[1], [7], [0], [2]]), 1), (np.arange(8)[None] % 4, 0))
        for reduction in ("none", "mean", "sum")
    ],
    "coalesce": [call("coalesce")],
    "concat": [lambda x: bind(TABLE["concat"], (x, x), {"axis": 1, "offsets": (0, 8)})],
    "deviation": [iv.std, lambda x: iv.var(x, axis=1), lambda x: iv.std(x, axis=0, keepdims=True)],
    "diag_embed": [call("diag_embed", offset=1, shape=(4, 9, 9))],
    "diagonal": [call("diagonal", offset=1)],
    "expand_dims": [call("expand_dims", axis=(1,))],
    "extremum_shares": [lambda x: grad(iv.max(x * x, axis=1).sum(), x) if x.requires_grad else x],
    "extremum_shares_at": [lambda x: grad(iv.min(x).sum(), x) if x.requires_grad else x],
    "flip": [call("flip", axis=(0, 1))],
    "gather": [call("gather", after=(IDS,), axes=(0,)), call("gather", after=(IDS, IDS + 1), **WHOLE)],
    "gather_put": [call("gather_put", after=(2.0 * D[:3], IDS), axes=(0,))],
    "index_basic": [call("index_basic", **KEY)],
    "index_put": [call("index_put", after=(2.0 * D[:2],), key=(slice(1, 3, 1), slice(0, 8, 1)))],
    "max": [call("max", axis=axis, keepdims=False) for axis in ((0,), (1,), (0, 1))],
    "min": [call("min", axis=axis, keepdims=True) for axis in ((0,), (1,), (0, 1))],
    "logsumexp": [call("logsumexp", axis=axis, keepdims=False) for axis in ((0,), (1,), (0, 1))],
    "norm": [call("norm", axis=axis, keepdims=False) for axis in ((0,), (1,), (0, 1))],
    "prod": [call("prod", axis=(1,), keepdims=False)],
    "kron": [
        call("kron", after=(D[:2, :1],)),
        call("kron", D[:1, :2]),
        lambda x: bind(TABLE["kron"], (x, x.mT), {}),
    ],
    "kron_sampled": [
        lambda x: bind(TABLE["kron_sampled"], (x, D[:2, :2]), {"pattern": pattern(shape=(2, 4)), "of": 0}),
        lambda x: bind(TABLE["kron_sampled"], (np.kron(D, D), x), {"pattern": largest(D).pattern, "of": 1}),
    ],
    "matmul": [
        call("matmul", after=(D.T,)),
        call("matmul", D.T),
        call("matmul", after=(np.stack([D.T, 2 * D.T]),)),
        lambda x: x @ x.mT,
        lambda x: x.mT @ x,
        lambda x: x @ iv.asarray(D).to_layout("bsc", blocksize=(2, 4)).mT,
    ],
    "overwritten": [call("overwritten", key=(slice(1, 3, 1), slice(0, 8, 1)))],
    "permute_dims": [call("permute_dims", axes=(1, 0))],
    "embed": [call("embed", key=(slice(1, 9, 2), 3, slice(8, 0, -1)), shape=(9, 4, 9))],
    "reshape": [call("reshape", shape=(2, 16)), call("reshape", shape=(32,))],
    "roll": [call("roll", shift=(3, 1), axis=(0, 1))],
    "sampled_product": [
        lambda x: bind(TABLE["sampled_product"], (x, D.T), {"pattern": pattern(shape=(4, 4))}),
        lambda x: bind(TABLE["sampled_product"], (D.T, x), {"pattern": pattern("csc", (8, 8))}),
        lambda x: bind(TABLE["sampled_product"], (x, x.mT), {"pattern": pattern(shape=(4, 4))}),
    ],
    "scatter_add": [call("scatter_add", after=(np.array([2, 0, 2, 1]),), axes=(0,), shape=(3, 8))],
    "segment_max": [call("segment_max", after=(np.array([2, 0, 2, 1]),), count=3)],
    "selected": [call("selected")],
    "bordered_solve": [
        lambda x: bind(
            TABLE["bordered_solve"], (dominant(x), np.array([0.3, 0.7]), D[:, :2], D[:, 2:4], D[0, :2]), {}
        )[0]
    ],
    "eigsh": [lambda x: iv.linalg.eigsh(dominant(x) + dominant(x).mT, 1)[0]],
    "iterative_solve": [lambda x: iv.linalg.gmres(dominant(x), D, rtol=1e-13)],
    "slogdet": [lambda x: iv.linalg.slogdet(dominant(x))[1]],
    "solve": [
        lambda x: iv.linalg.solve(dominant(x), D),
        lambda x: iv.linalg.solve(D[:, :4] + 5 * np.eye(4), x),
    ],
    "solve_triangular": [lambda x: iv.solve_triangular(dominant(x), D)],
    "squeeze": [lambda x: bind(TABLE["squeeze"], (x[:1],), {"axis": (0,)})],
    "stack": [lambda x: bind(TABLE["stack"], (x, x * 2.0), {"axis": 1})],
    "sum": [
        call("sum", axis=axis, keepdims=keep) for axis in ((), (0,), (1,), (0, 1)) for keep in (True, False)
    ],
    "sum_of_stored": [
        call("sum_of_stored", axis=axis, keepdims=keep)
        for axis in ((0,), (1,), (0, 1))
        for keep in (True, False)
    ],
    "to_dense": [call("to_dense")],
    "to_layout": [
        call("to_layout", layout=name, blocksize=None, dense_dim=0)
        for name in ("coo", "csr", "csc", "strided", "two_of_four")
    ]
    + [call("to_layout", layout="bsr", blocksize=(2, 2), dense_dim=0)]
    + [lambda x: iv.to_layout(iv.to_layout(x * x, "csc"), "two_of_four") * D],
    "tril": [call("tril", k=1)],
    "triu": [call("triu", k=1)],
    "values_at": [call("values_at", pattern=pattern()), call("values_at", pattern=largest(D).pattern)],
}
ELEMENTWISE = [op for op in TABLE.values() if op.elementwise or op.family == "elementwise"]


def test_every_op_that_accepts_sparse_layouts_is_called():
    families = {family for family, kind in kernel_registry.registered() if kind in (Sparse, object)}
    assert {op.name for op in TABLE.values() if op.name in families} == set(CALLS)
    # Graphs take any layout, what crosses their borders has any, and results of theirs are put into any.
    assert families - set(TABLE) == {
        "elementwise",
        "compiled",
        "control",
        "stored_on",
        "values_held",
        "where_held",
    }


def test_every_op_has_a_kernel_for_the_strided_layout():
    """That of its record, and no other."""
    for op in TABLE.values():
        body = kernel_registry.kernels_of(op, np.ndarray)[0]
        assert body is kernel_registry.strided
        assert kernel_registry.registered()[kernel_registry.ANY_OP, np.ndarray] is body
    sample = next(iter(TABLE["sin"].samples(Sampler(0, "float64"))))
    np.testing.assert_array_equal(body(TABLE["sin"], sample.args, {}), np.sin(*sample.args))
    with pytest.raises(ArgumentError, match=r"register.*'sin'.*forward"):
        register_kernel("sin", np.ndarray)(body)


def weighted(y: Any, seed: int) -> Any:
    w = np.random.default_rng(seed).standard_normal(y.shape)
    return ((y if y.dtype.kind == "f" else y.real) * w).sum()


def assert_the_law_holds(f: Any, x: Any = LEAF) -> None:
    """Values, first and second derivatives, and tangents, as of the same entries held strided."""
    found, expected = [], []
    direction = held(np.random.default_rng(3).standard_normal(np.shape(x)))
    for leaf, tangent, results in zip(held(x, True), direction, (found, expected), strict=True):
        y = f(leaf)
        results.append(y)
        if y.requires_grad:
            g = grad(weighted(y, 1), leaf, create_graph=True)
            results.append(g)
            if g.requires_grad:
                results.append(grad((g * g).sum(), leaf))
            results.append(jvp(f, (leaf.detach(),), (tangent,))[1])
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        a, b = entries(a), entries(b)
        finite = np.isfinite(b)  # elsewhere strong zeros may win
        np.testing.assert_allclose(np.where(finite, a, 0), np.where(finite, b, 0), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("name", "k"), [(name, k) for name in CALLS for k in range(len(CALLS[name]))])
def test_layout_law(name, k):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", iv.errors.DensifyWarning)
        assert_the_law_holds(CALLS[name][k])


def in_shape(x: Any) -> Any:
    return np.resize(x, SHAPE) if isinstance(x, np.ndarray) else x


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_layout_law_of_elementwise_ops(op):
    """In each operand, on the arguments of the op's first sample stretched to the shape."""
    sample = next(iter(op.samples(Sampler(0, "float64"))))
    args = [in_shape(a) for a in sample.args]
    for k, a in enumerate(args):
        if isinstance(a, np.ndarray) and a.dtype.kind == "f":
            assert_the_law_holds(
                lambda x, k=k, o=args: bind(op, (*o[:k], x, *o[k + 1 :]), dict(sample.params)), a
            )


def test_what_keeps_the_support_keeps_the_pattern(registered):
    x, dense = held()
    for f in (iv.sin, lambda x: x * D, lambda x: -2.0 * x, lambda x: x * x, abs):
        assert f(x)._value.pattern is x._value.pattern
        np.testing.assert_allclose(entries(f(x)), entries(f(dense)), rtol=1e-14)
    assert (x * 2.0).layout == "two_of_four"
    assert not registered
    np.testing.assert_allclose(entries(x @ D.T), entries(dense) @ D.T, rtol=1e-12)
    assert registered == ["matmul"]


# -- asked for by name ---------------------------------------------------------------------------------

PRUNED = sparse_to_strided(largest(np.where(np.random.default_rng(4).random(SHAPE) < 0.6, LEAF, 0)))
NAMES = [layout.name for layout in sparse_layouts()]


@pytest.mark.parametrize("layout", ["strided", "two_of_four", *NAMES])
def test_it_converts_from_every_layout_and_back(layout):
    blocks = (2, 4) if layout[0] == "b" else None
    x = iv.asarray(PRUNED, requires_grad=True)
    held = x.to_layout(layout, blocksize=blocks)
    found = iv.to_layout(held, "two_of_four")
    again = found.to_layout(layout, blocksize=blocks)
    assert (found.layout, again.layout) == ("two_of_four", layout)
    for made in (found, again, found.to_layout("two_of_four"), found.to_dense(), iv.to_sparse(found)):
        np.testing.assert_array_equal(entries(made), PRUNED)
    assert iv.to_sparse(found) is found
    assert layout == "strided" or held.to_layout("two_of_four")._value.pattern is found._value.pattern
    g = grad((found * found * D).sum() + (again * D).sum(), x, create_graph=True)
    np.testing.assert_allclose(entries(g), 2 * PRUNED * D + D)
    np.testing.assert_allclose(entries(grad((g * g).sum(), x)), 4 * D * (2 * PRUNED * D + D))
    tangent = jvp(lambda x: x.to_layout("two_of_four"), (x.detach(),), (x.detach(),))[1]
    np.testing.assert_allclose(entries(tangent), PRUNED)


def test_it_converts_from_what_only_the_engine_makes():
    nothing = Tensor(Zero(SHAPE, np.dtype(np.float64)))
    box = Tensor(Box(SHAPE, Region((1, 0), (3, 8)), PRUNED[1:3].copy()))
    mask = PRUNED > 0
    packed = Tensor(Packed(mask, PRUNED[mask]))
    rows = np.array([[0], [1], [1], [0]])
    for value, expected in ((nothing, 0 * PRUNED), (packed, PRUNED * mask), (box, PRUNED * rows)):
        found = value.to_layout("two_of_four")
        assert found.layout == "two_of_four"
        np.testing.assert_array_equal(entries(found), expected)


def test_compiled_functions_are_traced_for_each_pattern():
    f = lambda s, x: ((s * 2) @ x, s.sum(axis=1))
    compiled, x = iv.jit(f), iv.asarray(D.T)
    patterns = set()
    for seed in (0, 1, 0):
        s, _ = held(np.random.default_rng(seed).standard_normal(SHAPE))
        patterns.add(s._value.pattern)
        for a, b in zip(compiled(s, x), f(s, x), strict=True):
            np.testing.assert_allclose(a.to_dense().numpy(), b.to_dense().numpy(), rtol=1e-12)
    assert compiled.cache_size == len(patterns) > 1


def test_functions_that_make_sparse_tensors_make_it():
    x = iv.asarray(PRUNED).to_layout("two_of_four")
    for found, expected in (
        (iv.eye(4, 8, k=1, layout="two_of_four"), np.eye(4, 8, k=1)),
        (iv.diag(iv.asarray(D[0, :7]), k=1, layout="two_of_four"), np.diag(D[0, :7], k=1)),
        (iv.zeros_like(x), 0 * PRUNED),
        (iv.from_scipy(scipy.sparse.csr_array(PRUNED)).to_layout("two_of_four"), PRUNED),
        (iv.from_scipy(x.to_scipy()).to_layout("two_of_four"), PRUNED),
    ):
        assert found.layout == "two_of_four"
        np.testing.assert_array_equal(entries(found), expected)
    v = iv.asarray(D[0], requires_grad=True)
    np.testing.assert_allclose(entries(grad((iv.diag(v, layout="two_of_four") ** 2).sum(), v)), 2 * D[0])


def test_masked_tensors_convert():
    there = to_strided(largest(LEAF)) != 0
    m = iv.masked_tensor(LEAF, there, requires_grad=True)
    found = m.to_layout("two_of_four")
    assert found.layout == "two_of_four"
    again = pickle.loads(pickle.dumps(found.detach()))
    for made in (found, again, found.to_layout("csr"), found.to_layout("strided")):
        np.testing.assert_array_equal(entries(made.get_mask()), there)
        np.testing.assert_array_equal(entries(made.to_tensor(0)), np.where(there, LEAF, 0))
    assert "layout='two_of_four'" in repr(found)
    (found * found).sum().backward()
    np.testing.assert_allclose(entries(m.grad.to_tensor(0)), np.where(there, 2 * LEAF, 0))


def test_what_it_cannot_hold_is_an_error():
    with pytest.raises(ArgumentError, match=r"to_layout.*three entries in a group of four.*at most two"):
        iv.to_layout(iv.asarray(LEAF), "two_of_four")
    with pytest.raises(ShapeError, match=r"to_layout.*\(8, 6\).*'two_of_four'.*groups of four"):
        iv.to_layout(iv.zeros((8, 6)), "two_of_four")
    with pytest.raises(ShapeError, match=r"eye.*groups of four"):
        iv.eye(3, layout="two_of_four")
    for call in (
        lambda: iv.to_layout(iv.asarray(LEAF), "three_of_four"),
        lambda: iv.eye(4, layout="three_of_four"),
    ):
        with pytest.raises(ArgumentError, match=r"'three_of_four'.*one of \(.*'two_of_four'.*\)"):
            call()


# -- derivatives -----------------------------------------------------------------------------------------


def test_values_differentiate_and_demand_only_their_pattern():
    x, _ = held()
    v = x.values().detach().requires_grad_()
    y = iv.with_values(x, v)
    assert y.layout == "two_of_four"
    with iv.explain.count() as work:
        g = grad((y @ D.T).sum(), v)
    assert work.calls["sampled_product"] == 1
    expected = np.broadcast_to(D.sum(axis=0), SHAPE)[tuple(x._value.pattern.coordinates)]
    np.testing.assert_allclose(g.numpy().ravel(), expected)
    mask = iv.sparse_mask(iv.asarray(D, requires_grad=True), x)
    assert mask._value.pattern is x._value.pattern
    assert isinstance(iv.to_layout(x, "csr")._value.pattern, CompressedPattern)


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "f",
    [lambda x: x @ x.mT @ x, lambda x: iv.sin(x) * D[:2], lambda x: x.sum(axis=0) ** 2],
    ids=["cube", "sin", "sum"],
)
def test_gradcheck_in_both_semantics(f, fast, masked):
    x = held(LEAF[:2], True)[0]
    assert gradcheck(f, (x,), masked=masked, fast=fast)
    assert gradgradcheck(f, (x,), masked=masked, fast=True)


# -- masks -----------------------------------------------------------------------------------------------


def test_masked_tensors():
    x, dense = held()
    m = iv.masked_tensor(x)
    assert m.layout == "two_of_four"
    assert m._mask.pattern is x._value.pattern
    there = np.zeros(SHAPE, bool)
    there[tuple(x._value.pattern.coordinates)] = True
    expected = np.ma.MaskedArray(entries(dense), ~there)
    other = iv.masked_tensor(D, D > 0)
    for found, wanted in (
        (m * 2 + 1, expected * 2 + 1),
        (iv.sin(m), np.sin(expected)),
        (m + other, expected + np.ma.MaskedArray(D, D <= 0)),
        (m * D, expected * D),
        (m.sum(axis=1), expected.sum(axis=1)),
        (m.mT, expected.T),
        (m @ D.T, np.ma.MaskedArray(expected.filled(0) @ D.T, np.zeros((4, 4), bool))),
    ):
        np.testing.assert_array_equal(entries(found.get_mask()), ~np.ma.getmaskarray(wanted))
        np.testing.assert_allclose(entries(found.to_tensor(0)), wanted.filled(0), atol=1e-12)
    assert (m * 2).to_tensor(0).layout == "two_of_four"


def test_masked_gradients_are_on_the_pattern():
    m = iv.masked_tensor(held()[0], requires_grad=True)
    w = iv.asarray(D, requires_grad=True)
    (m * m * w).sum().backward()
    assert m.grad.layout == "two_of_four"
    assert m.grad._mask.pattern is m._mask.pattern
    at = tuple(m._mask.pattern.coordinates)
    np.testing.assert_allclose(m.grad._inner.numpy(), (2 * entries(held()[0]) * D)[at])
    np.testing.assert_allclose(entries(w.grad), entries(held()[0]) ** 2)


def test_pickle_and_repr():
    x, _ = held()
    again = pickle.loads(pickle.dumps(x))
    np.testing.assert_array_equal(entries(again), entries(x))
    assert again.layout == "two_of_four"
    assert "layout='two_of_four'" in repr(x)


def test_results_of_compiled_functions_are_in_the_layout():
    """Those of which a trace knows it from kernels alone."""
    x = iv.asarray(PRUNED).to_layout("two_of_four")
    for f in (lambda x: x**2, lambda x: iv.clip(x * 2.0, -1.0, 0.5), lambda x: x > 0.0):
        found, expected = iv.jit(f)(x), f(x)
        assert found.layout == expected.layout
        np.testing.assert_array_equal(found.to_dense().numpy(), expected.to_dense().numpy())
