"""Which entries a value stores, read where it has none: in traces, batches and bodies as in eager code.

Operations are those of `tests.sparse.operations`, on a small matrix. Reads are of the eager
pattern, or refused.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import iverson as iv
from iverson.layouts import counting_sorts
from tests.conformance.product import EXHAUSTIVE, by_turns, in_short, paired, some, turn
from tests.sparse import operations

pytestmark = [
    pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

N = 12
LAYOUTS = ("csr", "csc", "coo", "bsr")
#: Results whose pattern depends on entries, and what no trace knows.
REFUSED = {"entries above", "nonzero", "unique"}


@cache
def small() -> Any:
    """The table of operations for a matrix of 12 x 12."""
    spec = importlib.util.find_spec(operations.__name__)
    module: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    module.N, module.STORED = N, 2 * N
    module.ROWS, module.FEW = operations.ROWS[[0, 1, 3, 4]] % N, np.arange(0, N, 4)
    return module


MODES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "jit": lambda g, v, s: iv.jit(g, interpret=True)(v, s),
    "checkpoint": lambda g, v, s: iv.checkpoint(g)(v, s),
    "vmap": lambda g, v, s: iv.vmap(g, in_axes=(0, None))(iv.stack([v, v]), s)[1],
    "scan": lambda g, v, s: iv.scan(lambda c, x: (c, g(v * x, s)), iv.asarray(0.0), iv.asarray([1.0]))[1][0],
    "cond": lambda g, v, s: iv.cond(iv.asarray(True), g, g, v, s),
    "jit of vmap": lambda g, v, s: iv.jit(
        iv.vmap(g, in_axes=(0, None)), interpret=True
    )(iv.stack([v, v]), s)[1],
}  # fmt: skip


def specified(y: Any) -> Any:
    """A tensor with 0.25 where what is masked by it has nothing."""
    y = iv.real(y) if y.dtype.kind == "c" else iv.astype(y, iv.float64)
    return iv.masked_tensor(y).to_tensor(0.25)


class Specified(iv.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return specified(y)


class SpecifiedByEntries(iv.autograd.Function):
    """Of which a batch is carried out example by example."""

    @staticmethod
    def forward(ctx, y):
        return iv.asarray(specified(y).numpy())


class SpecifiedOfAll(Specified):
    @staticmethod
    def vmap(size, in_axes, y):
        return specified(y), in_axes[0]


#: Who asks.
ASKED: dict[str, Callable[[Any], Any]] = {
    "function": specified,
    "custom function": Specified.apply,
    "by entries": SpecifiedByEntries.apply,
    "of all examples": SpecifiedOfAll.apply,
}


@pytest.mark.parametrize("name", by_turns([*operations.SMALL, *operations.DENSE], 3))
@pytest.mark.filterwarnings("ignore::iverson.errors.BatchWarning")
def test_masks_of_computed_tensors_are_those_of_eager_code(name):
    """A dense result has every entry, a sparse one those that it stores."""
    table = small()
    f = {**table.SMALL, **table.DENSE}[name]
    o = table.others()
    whose = {"function": MODES, "custom function": MODES, "by entries": ["vmap"], "of all examples": ["vmap"]}
    cases = [(layout, mode, who) for who, modes in whose.items() for layout, mode in product(LAYOUTS, modes)]
    for layout, mode, who in cases if EXHAUSTIVE else [cases[turn(name, len(cases))]]:
        blocks = {"blocksize": (2, 2)} if layout == "bsr" else {}
        s = table.matrix(0, diagonal=3.0).to_layout(layout, **blocks)
        try:
            expected = f(s, o)
        except iv.errors.IversonError:  # in this layout
            continue
        if not isinstance(expected, iv.Tensor):
            continue
        run = lambda v, s, ask=ASKED[who]: ask(f(iv.with_values(s, v), o))
        try:
            found = MODES[mode](run, s.values().detach(), s)
        except iv.errors.IversonError:
            assert name in REFUSED, (layout, mode, who)
            continue
        assert name not in REFUSED, (layout, mode, who)
        where = f"{layout}, {mode}, {who}"
        np.testing.assert_allclose(found.numpy(), specified(expected).numpy(), err_msg=where)


A = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
#: Reads of the pattern of a computed matrix, as tensors.
READS: dict[str, Callable[[Any], Any]] = {
    "masked": lambda y: iv.masked_tensor(y).mean().to_tensor(0.0),
    "values": lambda y: y.values(),
    "nnz": lambda y: y.sum() * y.nnz,
    "indices": lambda y: y.indices(),
    "with values": lambda y: y.with_values(y.values() + 1.0).to_dense(),
    "sparse mask": lambda y: iv.sparse_mask(iv.ones((3, 3)), y).sum(),
    "sampled": lambda y: iv.sampled_matmul(iv.ones((3, 2)), iv.ones((2, 3)), y).sum(),
    "layout": lambda y: iv.asarray(float(y.layout == "csr")),
    "sparse": lambda y: y.to_sparse().values(),
    "zeros like": lambda y: iv.masked_tensor(iv.zeros_like(y)).to_tensor(0.25),
    "vector": lambda y: iv.ravel_pytree({"y": y})[0],
    "unravelled": lambda y: iv.ravel_pytree(y)[1](iv.ravel_pytree(y)[0] * 2.0).values(),
    "sparse axes": lambda y: iv.asarray(y.sparse_dim() + 10 * y.dense_dim()),
    "blocks": lambda y: y.to_layout("bsr", blocksize=(3, 1)).values(),
}


def _assigned(s, row):
    s = s * 1.0
    s[1] = row
    return s


def _steps(f):
    return iv.scan(lambda c, x: (c, f(x)), iv.asarray(0.0), iv.asarray([1.0, 2.0]))[1]


COMPUTED: dict[str, Callable[[Any], Any]] = {
    "product": lambda s: s @ s,
    "power": lambda s: s**2,
    "union": lambda s: s + s.T,
    "product of a union": lambda s: (s + s.T) @ s,
    "rows": lambda s: iv.take(s, np.array([2, 0, 0]), axis=0),
    "larger": lambda s: iv.maximum(s, s.T),
    "assigned row of numbers": lambda s: _assigned(s, s.sum() * iv.asarray([0.0, 1.0, 0.0])),
    "steps": lambda s: _steps(lambda x: s * x)[1],
    "sum of steps": lambda s: iv.sum(_steps(lambda x: iv.tril(s @ s) * x), axis=0),
}


@pytest.mark.parametrize("read", READS)
def test_every_read_of_a_computed_pattern_is_that_of_eager_code(read):
    s = iv.asarray(A).to_layout("csr")
    for name, made in COMPUTED.items():
        f = lambda v, s, made=made: READS[read](made(iv.with_values(s, v)))
        expected = f(s.values(), s).to_dense().numpy()
        for mode in some(read + name, MODES):
            found = MODES[mode](f, s.values().detach(), s).to_dense().numpy()
            np.testing.assert_allclose(found, expected, err_msg=f"{name}, {mode}")


def zero(shape: tuple[int, ...]) -> Any:
    """A structural zero: a gradient that never arrived."""
    return iv.grad(lambda x: iv.sum(iv.ones(2)))(iv.ones(shape))


#: What of a zero is stored on a pattern, by whether it is a structural one or numbers.
ON_PATTERNS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda s, z: s * z((3, 3)),
    "part of a product": lambda s, z: iv.tril(s * z((3, 3))),
    "product of products": lambda s, z: (s * z((3, 3))) @ s,
    "rows of a product": lambda s, z: (z((3, 3)) * s)[np.array([2, 0, 0])],
    "other values": lambda s, z: s.with_values(z((3,))),
    "other layout": lambda s, z: (s * z((3, 3))).to_layout("csr"),
    "values in place": lambda s, z: iv.sparse_csr_tensor([0, 1, 2, 3], [1, 0, 2], z((3,)), (3, 3)),
}


@pytest.mark.parametrize("name", ON_PATTERNS)
def test_a_structural_zero_is_stored_where_numbers_would_be(name):
    """Read in the mode, and of what leaves it."""
    s, make = iv.asarray(A).to_layout("csr"), ON_PATTERNS[name]
    for read in (*sorted(READS.keys() - {"layout"}), "dense"):
        of = READS.get(read, lambda y: y)
        expected = of(make(s, iv.zeros)).to_dense().numpy()
        modes = {"eager": lambda g, v, s: g(v, s), **MODES}
        for mode in modes if EXHAUSTIVE else ("eager", "vmap", list(MODES)[turn(read + name, len(MODES))]):
            inside = lambda v, s, of=of: of(make(iv.with_values(s, v), zero))
            found = modes[mode](inside, s.values().detach(), s)
            np.testing.assert_array_equal(found.to_dense().numpy(), expected, err_msg=f"{read}, {mode}")
            if mode not in ("scan", "vmap", "jit of vmap"):  # which stack what they return
                found = of(modes[mode](lambda v, s: make(iv.with_values(s, v), zero), s.values().detach(), s))
                np.testing.assert_array_equal(
                    found.to_dense().numpy(), expected, err_msg=f"{read}, of {mode}"
                )


@pytest.mark.parametrize("construct", [iv.jit, iv.checkpoint, lambda f: iv.jit(iv.checkpoint(f))])
def test_a_structural_zero_that_a_body_writes_is_one_in_the_body(construct):
    s = iv.asarray(A).to_layout("csr")

    def read(p, w):
        stored = (s.with_values(w) * 0.7).nnz
        w[0:1] = p
        return p * stored + w.sum()

    p = iv.asarray([2.0])
    for around in (
        lambda f: f(p),
        lambda f: iv.jvp(f, (p,), (p,))[1],
        lambda f: iv.grad(lambda p: f(p).sum())(p),
    ):
        w = zero((3,))
        expected = around(lambda p: read(p, zero((3,))))
        np.testing.assert_array_equal(around(construct(lambda p, w=w: read(p, w))).numpy(), expected.numpy())


@pytest.mark.parametrize("way", [iv.grad, lambda f: iv.jit(iv.grad(f)), lambda f: iv.grad(iv.jit(f))])
def test_what_is_read_of_a_zero_differentiates(way):
    s = iv.asarray(A).to_layout("csr")
    f = lambda v, z: (iv.cos((s.with_values(v) * z).values()) * 2.0).sum()
    stored = A[A != 0]
    np.testing.assert_allclose(way(f)(s.values(), A).numpy(), -2.0 * np.sin(stored**2) * stored)
    found = way(lambda v: f(v, zero((3, 3))))(s.values())
    np.testing.assert_array_equal(found.to_dense().numpy(), np.zeros(3))


def test_a_call_with_another_pattern_reads_that():
    f = iv.jit(lambda s: iv.masked_tensor(s @ s).mean().to_tensor(0.0) * (s + s.T).nnz)
    for a in (A, A.T, np.eye(3), A + np.eye(3), np.triu(np.ones((3, 3)))):
        s = scipy.sparse.csr_array(a)
        expected = (s @ s).data.mean() * ((s != 0) + (s.T != 0)).nnz
        assert float(f(iv.asarray(a).to_layout("csr"))) == pytest.approx(expected)


def test_gradients_of_masked_products():
    s = iv.asarray(A).to_layout("csr")
    f = lambda v, s: iv.masked_tensor(iv.with_values(s, v) @ s).mean().to_tensor(0.0)
    expected = iv.grad(f)(s.values(), s).numpy()
    # The mean over the entries of A @ A of the gradients of each: the row sums of A at what is multiplied.
    np.testing.assert_allclose(expected, A.sum(axis=1)[[1, 0, 2]] / 3)
    for g in (iv.jit(iv.grad(f)), iv.grad(iv.jit(f)), iv.grad(iv.checkpoint(f)), iv.jit(iv.grad(iv.jit(f)))):
        np.testing.assert_allclose(g(s.values(), s).numpy(), expected)


def test_a_product_stores_what_patterns_say():
    """Also where terms add up to 0, as structurally in SciPy."""
    a = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    b = np.array([[1.0, 0.0, 3.0], [-1.0, 0.0, 1.0], [5.0, 5.0, 5.0]])
    x, y = (iv.asarray(m).to_layout("csr") for m in (a, b))
    pattern = (a != 0).astype(int) @ (b != 0).astype(int) > 0
    for dtype in ("float64", "complex128", "float32", "int64"):
        made = x.astype(dtype) @ y.astype(dtype)
        assert np.array_equal(np.stack(np.nonzero(pattern)), made.to_layout("coo").indices().numpy())
        np.testing.assert_array_equal(made.to_dense().numpy(), a @ b)


# --- what is not known is refused ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_what_depends_on_entries_is_refused(mode):
    x = iv.asarray(A)
    s = x.to_layout("csr")
    for f in (
        lambda v, s: iv.masked_tensor((v.sum() * iv.asarray(A)).to_layout("csr")).mean().to_tensor(0.0),
        lambda v, s: iv.masked_tensor(s[iv.astype(v, iv.int64) % 3]).mean().to_tensor(0.0),
    ):
        with pytest.raises(iv.errors.ArgumentError, match="which entries are stored"):
            MODES[mode](f, s.values(), s)


def test_a_carry_whose_pattern_changes_is_right_and_not_read():
    """In eager loops, too, which run a body that was traced once."""
    s = iv.asarray(A + np.eye(3, k=2)).to_layout("csr")
    a = s.to_dense().numpy()
    for step, expected in ((lambda x: x @ s, a @ a @ a), (lambda x: x + s.T, a + 2 * a.T)):
        f = lambda s, step=step: iv.fori_loop(0, 2, lambda i, x: step(x), s)
        for run in (f, iv.jit(f)):
            np.testing.assert_allclose(run(s).to_dense().numpy(), expected)
        scaled = lambda x, step=step: step(x) * iv.masked_tensor(x).sum().to_tensor(0.0)
        f = lambda s, scaled=scaled: iv.fori_loop(0, 2, lambda i, x: scaled(x), s)
        for run in (f, iv.jit(f)):
            with pytest.raises(iv.errors.ArgumentError, match="which entries are stored"):
                run(s)


def test_a_carry_that_keeps_its_pattern_is_read():
    s = iv.asarray(A).to_layout("csr")
    step = lambda x: x * iv.masked_tensor(x).mean().to_tensor(0.0)
    expected = step(step(s)).to_dense().numpy()
    loops = (
        lambda s: iv.fori_loop(0, 2, lambda i, x: step(x), s),
        lambda s: iv.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, step(c[1])), (iv.asarray(0), s))[1],
    )
    for f in (*loops, *map(iv.jit, loops)):
        np.testing.assert_allclose(f(s).to_dense().numpy(), expected)


def test_slices_of_a_sparse_tensor_differ_in_a_loop():
    s = iv.asarray(A).to_layout("csr")
    f = lambda s: iv.scan(
        lambda c, x: (c + iv.masked_tensor(x).mean().to_tensor(0.0), None), iv.asarray(0.0), s
    )[0]
    for g in (f, iv.jit(f)):
        with pytest.raises(iv.errors.ArgumentError, match="which entries are stored"):
            g(s)


def test_branches_that_store_different_entries():
    s = iv.asarray(A).to_layout("csr")
    f = lambda t: (
        lambda s: iv.masked_tensor(iv.cond(s.sum() > 0, lambda s: s * 2.0, t, s)).mean().to_tensor(0.0)
    )
    assert float(iv.jit(f(lambda s: s * 3.0))(s)) == 4.0
    with pytest.raises(iv.errors.ArgumentError, match="which entries are stored"):
        iv.jit(f(lambda s: s @ s))(s)


def test_entries_that_are_stored_twice():
    s = iv.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 4.0], (2, 2))
    assert float(iv.jit(lambda s: s.sum() * s.nnz)(s)) == 21.0
    assert float(iv.jit(lambda s: (s * 2.0).sum() * (s * 2.0).nnz)(s)) == 14.0 * (s * 2.0).nnz
    assert float(iv.jit(lambda s: iv.masked_tensor(s).mean().to_tensor(0.0))(s)) == 3.5
    with pytest.raises(iv.errors.ArgumentError, match="stored twice"):
        iv.jit(lambda s: s.values())(s)


# --- two sparse operands in compiled functions that are differentiated ------------------------------------


def unstacked(s, t):
    return sum((a * b).sum() for a, b in zip(iv.unstack(s), iv.unstack(t), strict=True))


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "two orders of kron": lambda s, t: (iv.kron(s, t) * iv.kron(t, s)).sum(),
    "rows one by one": unstacked,
    "carried sum": lambda s, t: iv.fori_loop(0, 2, lambda i, x: x + s, t).sum(),
    "masked product": lambda s, t: iv.masked_tensor(s @ t).mean().to_tensor(0.0),
    "masked union": lambda s, t: iv.masked_tensor(s + t).mean(axis=0).to_tensor(0.0).sum(),
    "solve": lambda s, t: (iv.spsolve(s + t, t @ iv.ones(5)) ** 2).sum(),
    "concat": lambda s, t: ((iv.concat([s, t]) @ iv.concat([s, t], axis=1)) ** 2).sum(),
    "where": lambda s, t: (iv.where(s > t, s, t) ** 2).sum(),
}


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_compiled_functions_of_two_sparse_operands(name):
    rng = np.random.default_rng(3)
    s, t = (
        iv.asarray(
            np.where(rng.random((5, 5)) < 0.35, rng.uniform(0.5, 1.5, (5, 5)), 0) + np.diag([2.0, 3, 4, 5, 6])
        ).to_layout(layout)
        for layout in ("csr", "csc")
    )
    f = PAIRS[name]
    for argnums in ((0,), (1,), (0, 1)) if EXHAUSTIVE else ((0, 1),):
        expected = iv.grad(f, argnums)(s, t)
        for g in some(name, [iv.grad(iv.jit(f), argnums), iv.jit(iv.grad(f, argnums))]):
            for p, q in zip(g(s, t), expected, strict=True):
                np.testing.assert_allclose(p.to_dense().numpy(), q.to_dense().numpy(), atol=1e-12)


# --- a sparse argument beside constants in compiled functions that are differentiated -----------------------

DENSE = np.random.default_rng(5).uniform(0.5, 1.5, (4, 6))
BESIDE: dict[str, Callable[[Any], Any]] = {
    "weights": lambda s: (s * s * DENSE).sum(),
    "weights of a function": lambda s: (iv.sin(s) * DENSE).sum(),
    "a row": lambda s: (s * s * DENSE[0]).sum(),
    "a column": lambda s: (s * s * DENSE[:, :1]).sum(),
    "a quotient": lambda s: (s * s / DENSE).sum(),
    "another pattern": lambda s: (s * s * OTHER).sum(),
    "a choice": lambda s: iv.where(DENSE > 1, s * s, s).sum(),
    "a sum": lambda s: ((s * s + DENSE) ** 2).sum(),
    "a vector": lambda s: ((s * s) @ DENSE[0]).sum(),
    "the larger": lambda s: iv.maximum(s * s, DENSE).sum(),
    "twice": lambda s: ((s * s * DENSE) * (s * DENSE)).sum(),
    "rows": lambda s: (iv.take(s * s, np.array([0, 2]), axis=0) * DENSE[:2]).sum(),
}
OTHER = iv.asarray(np.where(np.random.default_rng(6).random((4, 6)) < 0.4, 1.5, 0)).to_layout("csr")
BLOCKS: dict[str, Any] = {"csr": None, "csc": None, "coo": None, "bsr": (2, 3), "bsc": (2, 3)}


@pytest.mark.parametrize(("name", "layout"), paired(BESIDE, BLOCKS, 2))
def test_gradients_of_compiled_functions_of_a_sparse_argument_and_constants(name: str, layout: str) -> None:
    """What is read of a constant is read where the pattern of the argument stores entries, when it runs."""
    f, rng = BESIDE[name], np.random.default_rng(7)
    held = np.where(rng.random((4, 6)) < 0.4, rng.uniform(0.5, 1.5, (4, 6)), 0)
    s = iv.asarray(held).to_layout(layout, blocksize=BLOCKS[layout])
    leaf = iv.asarray(held).to_layout(layout, blocksize=BLOCKS[layout]).requires_grad_()
    assert iv.testing.gradcheck(iv.jit(f), (leaf,), **in_short(name))
    expected = iv.grad(f)(s).to_dense().numpy()
    jvp = lambda s: iv.jvp(f, (s,), (s,))[1]
    for g in (iv.jit(iv.grad(f)), iv.grad(iv.jit(iv.checkpoint(f))), iv.jit(iv.grad(iv.jit(f)))):
        np.testing.assert_allclose(g(s).to_dense().numpy(), expected, atol=1e-12)
    second = iv.grad(jvp)(s).to_dense().numpy()
    np.testing.assert_allclose(iv.grad(iv.jit(jvp))(s).to_dense().numpy(), second, atol=1e-12)


# --- an inner gradient that reads a sparse argument, differentiated where that stores no entry --------------

AROUND: dict[str, Callable[[Any], Any]] = {
    "jit": iv.jit,
    "checkpoint": iv.checkpoint,
    "jit of checkpoint": lambda f: iv.jit(iv.checkpoint(f)),
    "cond": lambda f: lambda s: iv.cond(s.sum() > -100, f, lambda s: f(s) * 0.5, s),
    "scan": lambda f: lambda s: iv.scan(lambda c, u: (c + f(s), None), iv.asarray(0.0), np.arange(1.0))[0],
    "fori_loop": lambda f: lambda s: iv.fori_loop(0, 1, lambda k, c: c + f(s), iv.asarray(0.0)),
    "jit of what is around it": lambda f: lambda s: iv.jit(lambda: f(s))(),
}


def _looped(y: Any) -> Any:
    return iv.fori_loop(0, 1, lambda k, c: iv.sin(c), y)


def _branched(y: Any) -> Any:
    return iv.cond(y.sum() > 0, iv.sin, lambda y: y, y)


def _where_stored(x: Any) -> Any:
    return np.where(OTHER.to_dense().numpy() != 0, x, 0.0)


#: Functions of s and y, the derivative in y of each entry, and that in both.
INNER: dict[str, tuple[Callable[[Any, Any], Any], ...]] = {
    "product": (lambda s, y: s * y, lambda s, y: s, lambda s, y: np.ones_like(y)),
    "quotient": (lambda s, y: s / y, lambda s, y: -s / y**2, lambda s, y: -1 / y**2),
    "square": (lambda s, y: s * s * y, lambda s, y: s * s, lambda s, y: 2 * s),
    "entries": (
        lambda s, y: iv.take(s * y, np.arange(6), axis=1), lambda s, y: s, lambda s, y: np.ones_like(y)
    ),
    "mask": (
        lambda s, y: iv.sparse_mask(s * y, OTHER),
        lambda s, y: _where_stored(s),
        lambda s, y: _where_stored(np.ones_like(y)),
    ),
    "mask of a function": (
        lambda s, y: iv.sparse_mask(iv.sin(y) * s, OTHER),
        lambda s, y: _where_stored(s * np.cos(y)),
        lambda s, y: _where_stored(np.cos(y)),
    ),
    "beside a part": (
        lambda s, y: iv.concat([iv.sin(y) * s, y[:2]]),
        lambda s, y: s * np.cos(y) + np.array([[1.0], [1.0], [0.0], [0.0]]),
        lambda s, y: np.cos(y),
    ),
    **{
        name: (
            lambda s, y, body=body: body(y) * s, lambda s, y: s * np.cos(y), lambda s, y: np.cos(y)
        )
        for name, body in {
            "a checkpoint": iv.checkpoint(iv.sin), "a loop": _looped, "a branch": _branched,
            "compiled": iv.jit(iv.sin),
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize(("around", "layout"), paired(AROUND, BLOCKS, 2))
def test_derivatives_of_inner_gradients_cover_what_is_not_stored(around: str, layout: str) -> None:
    """The zeros of an argument last as long as it is not differentiated."""
    rng = np.random.default_rng(8)
    held = np.where(rng.random((4, 6)) < 0.4, rng.uniform(0.5, 1.5, (4, 6)), 0)
    s = iv.asarray(held).to_layout(layout, blocksize=BLOCKS[layout])
    for inner, slope, mixed in INNER.values():
        f = AROUND[around](
            lambda s, g=inner: ((iv.grad(lambda y: g(s, y).sum())(DENSE) + 1.0) ** 2 * DENSE).sum()
        )
        f(s)  # a trace that is not differentiated, which counts on zeros, is not the one below
        expected = 2 * (slope(held, DENSE) + 1.0) * mixed(held, DENSE) * DENSE
        for g in (iv.grad(f), iv.jit(iv.grad(f))):
            np.testing.assert_allclose(g(s).to_dense().numpy(), expected, atol=1e-12)
        direction = iv.asarray(np.ones((4, 6)))
        np.testing.assert_allclose(iv.jvp(f, (s,), (direction,))[1], expected.sum(), atol=1e-12)


# --- values of which a part is zero to any order -----------------------------------------------------------


@pytest.mark.parametrize("around", [lambda f: f, iv.jit, iv.checkpoint], ids=["eager", "jit", "checkpoint"])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_all_places_are_stored_whatever_the_layout_of_the_values(layout: str, around: Any) -> None:
    """A gradient of a slice is a box, and one of an assignment a selection: zeros among values are stored."""

    def f(x: Any) -> Any:
        box = iv.grad(lambda x: (x[:2] ** 2).sum())(x)
        at = np.array([0, 1, 2])
        if layout == "coo":
            s = iv.sparse_coo_tensor((at, at), box, (3, 3))
        else:
            made = {"csr": iv.sparse_csr_tensor, "csc": iv.sparse_csc_tensor}[layout]
            s = made(np.arange(4), at, box, (3, 3))
        return (
            s.to_dense(),
            iv.sparse_mask(iv.ones((3, 3)), s).to_dense(),
            iv.sparse_mask(s, s * 2.0).values(),
        )

    dense, mask, values = around(f)(iv.asarray([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(dense.numpy(), np.diag([2.0, 4.0, 0.0]))
    np.testing.assert_allclose(mask.numpy(), np.eye(3))
    np.testing.assert_allclose(values.numpy(), [2.0, 4.0, 0.0])


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1), (3, 3)])
@pytest.mark.parametrize("name", ["entries", "rows", "columns"])
def test_places_that_a_run_finds_are_in_range(name: str, shape: Any, layout: str, monkeypatch: Any) -> None:
    """What is stored of entries at computed places is found out with places that there are, in any shape."""
    plain = counting_sorts.samples

    def checked(extents: Any, indptr: Any, indices: Any, values: Any, at: Any) -> Any:
        for n, x in zip(extents, at, strict=True):
            assert ((np.asarray(x) >= 0) & (np.asarray(x) < n)).all()
        return plain(extents, indptr, indices, values, at)

    monkeypatch.setattr(counting_sorts, "samples", checked)
    dense = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    dense[:, 1::2] = 0
    s, at = iv.to_layout(iv.asarray(dense), layout), iv.asarray(np.array([0]))
    take, expected = {
        "entries": (lambda s, k: s[k, k], dense[0, 0]),
        "rows": (lambda s, k: iv.take(s, k, axis=0), dense[0].sum()),
        "columns": (lambda s, k: iv.take(s, k, axis=1), dense[:, 0].sum()),
    }[name]
    total = lambda s, k: iv.sum(take(s, k))
    step = lambda _, c: (c[0] + total(s, c[1]), c[1])
    np.testing.assert_allclose(iv.jit(total)(s, at), expected)
    np.testing.assert_allclose(
        iv.jit(lambda k: iv.fori_loop(0, 2, step, (iv.asarray(0.0), k))[0])(at), 2 * expected
    )
    gradient = iv.jit(iv.grad(total))(s, at).to_dense()
    np.testing.assert_allclose((np.asarray(gradient) * dense).sum(), expected)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("shape", "at"),
    [((1, 1), [0, 0]), ((1, 4), [0, -1, 0]), ((3, 3), [0, 1, 1, 2]), ((3, 3), [2, 0, 1]), ((3, 3), [])],
)
def test_lines_taken_several_times_have_the_cotangents_of_each(
    shape: Any, at: list[int], axis: int, layout: str
) -> None:
    """The adjoint adds up what was taken of one line, in every mode; NumPy says where each went."""
    shape = shape if axis == 0 else shape[::-1]
    dense = np.linspace(0.5, 2.0, int(np.prod(shape))).reshape(shape)
    w = np.linspace(1.0, 3.0, len(at) * shape[1 - axis])
    w = w.reshape((len(at), shape[1]) if axis == 0 else (shape[0], len(at)))
    each = np.zeros(shape)
    np.add.at(np.moveaxis(each, axis, 0), np.array(at, int), np.moveaxis(w, axis, 0))
    blocks = {"blocksize": (1, 1)} if layout == "bsr" else {}
    s = iv.to_layout(iv.asarray(dense), layout, **blocks)
    f = lambda s: iv.sum(iv.take(s * s, iv.asarray(np.array(at, int)), axis=axis) * w)
    looped = lambda s: iv.fori_loop(0, 1, lambda _, c: c + f(s), iv.asarray(0.0))
    for g in (iv.grad(f), iv.jit(iv.grad(f)), iv.grad(iv.jit(f)), iv.grad(iv.checkpoint(f)), iv.grad(looped)):
        np.testing.assert_allclose(np.asarray(g(s).to_dense()), 2 * dense * each)
