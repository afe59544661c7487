"""Zeros of selections stay strong in every mode: chains around entries that are singular and left out.

``make test`` holds a few of them in drawn modes, ``make test-all`` all in every mode.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.core.dispatch import value_of
from iverson.core.region import Region
from iverson.core.table import TABLE
from iverson.kernels.kernel_registry import run
from iverson.layouts import boxed, select, to_strided
from tests.conformance.product import EXHAUSTIVE, SEED
from tests.programs.differential import outcome_of_program
from tests.programs.generator import Program
from tests.programs.modes import DERIVATIVES, Mode, carried_out
from tests.programs.oracle import Array, Oracle
from tests.programs.singular import LEAVING, Impossible, chain_of

COUNT, CHUNK = (104, 13) if EXHAUSTIVE else (66, 11)
#: Bodies within bodies, and derivatives of derivatives: cotangents and tangents cross two borders.
NESTED = (
    Mode(("fori", "fori"), "grad"),
    Mode(("scan", "scan"), "grad"),
    Mode(("scan", "checkpoint"), "grad"),
    Mode(("checkpoint", "scan"), "grad"),
    Mode(("cond", "fori"), "grad"),
    Mode(("fori", "cond"), "grad"),
    Mode(("vmap", "scan"), "grad"),
    Mode(("fori", "fori"), "grad", ("vmap",)),
    Mode(("fori", "checkpoint"), "grad", ("jit",)),
    Mode(("jvp",), "grad"),
    Mode(("jvp",), "grad", ("jit",)),
    Mode(("jit", "jvp"), "grad"),
    Mode(("jvp", "scan"), "grad"),
    Mode(("scan", "jvp"), "grad", ("jit",)),
    Mode(("checkpoint", "jvp"), "grad"),
    Mode(("jvp", "jvp"), "grad"),
    Mode(("grad",), "grad"),
    Mode(("grad",), "jvp"),
    Mode(("grad",), "jvp", ("jit",)),
    Mode(("scan",), "hessian"),
)
ALL = (*DERIVATIVES, *NESTED)


def cases(first: int, last: int) -> list[tuple[int, Any]]:
    modes = lambda seed: ALL if EXHAUSTIVE else (ALL[seed % len(ALL)],)
    return [(seed, mode) for seed in range(first, last) for mode in modes(seed)]


def check(program: Program) -> None:
    outcome = outcome_of_program(program)
    place = f"{program.seed} in {program.mode}, {program.layout}"
    told = f"{place}: {outcome.text}\n{program.args}\n{program.source}"
    assert outcome.kind == "agreed", told


@pytest.mark.parametrize("first", range(SEED * COUNT, SEED * COUNT + COUNT, CHUNK))
def test_what_is_left_out_reaches_no_derivative(first: int) -> None:
    for seed, mode in cases(first, first + CHUNK):
        check(chain_of(seed, mode))


#: A recorded pass does not count on zeros of an argument that is differentiated again.
RECORDED = tuple(mode for mode in ALL if mode.derivative == "hessian" or mode.inner == ("grad",))


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize("first", range(SEED * COUNT, SEED * COUNT + COUNT, CHUNK))
def test_what_is_left_out_of_sparse_arguments_reaches_no_derivative(first: int) -> None:
    """Of an argument that stores no singular entry that is 0, in the layouts by turns."""
    for k, (seed, mode) in enumerate(cases(first, first + CHUNK)):
        if mode not in RECORDED:
            program = chain_of(seed, mode)
            layouts = ("csr", "csc", "coo") if program.args[0].ndim == 2 else ("coo",)
            check(program._replace(layout=layouts[k % len(layouts)]))


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize(
    ("seed", "mode", "layout"),
    [
        (6002, Mode(("jit", "jvp"), "grad"), "csc"),  # a box added to what is stored
        (6005, Mode(("jvp",), "grad", ("jit",)), "coo"),  # what is stored on two patterns
        (6012, Mode(("jvp",), "grad", ("jit",)), "csc"),  # entries of a mask, read by their places
        (6014, Mode(("jvp",), "grad", ("jit",)), "csr"),  # a transposed pattern with more entries
        (6028, Mode(("jit", "jvp"), "grad"), "csc"),  # a product at the entries of a pattern
        (6043, Mode(("jvp",), "grad"), "coo"),  # sums of lines
        (6047, Mode((), "jvp", ("jit",)), "coo"),  # a number times a part
        (25, Mode(("jvp",), "grad"), "csc"),  # chosen columns
        (71, Mode(("jit", "jvp"), "grad"), "coo"),  # an assignment that stores less than its pattern
    ],
)  # fmt: skip
def test_chains_that_were_wrong(seed: int, mode: Mode, layout: str) -> None:
    check(chain_of(seed, mode)._replace(layout=layout))


#: Selections by the values of entries: where f(0) is not finite, they are others for what is not stored.
BY_VALUE = {"sort", "extremum", "clip", "relu"}
NOT_STORED = ("xp.sin(x) / x", "x * xp.log(x)")
TURNS = tuple(dict.fromkeys(LEAVING))
SHARE = 1 if EXHAUSTIVE else 4


def pairs_of(first: str, layouts: Sequence[str]) -> Iterator[Program]:
    """A selection, and each other after it, in modes by turns."""
    k = TURNS.index(first)
    for j, second in enumerate(TURNS):
        for n in range(6 if EXHAUSTIVE else 1):
            number = SEED + 7 * k + 5 * j + 11 * n
            mode = ALL[number % len(ALL)]
            if (k + j + SEED) % SHARE or (layouts != ("strided",) and mode in RECORDED):
                continue
            try:
                program = chain_of(1000 * (SEED + n) + len(TURNS) * k + j, mode, (first, second))
            except Impossible:
                continue
            fits = [name for name in layouts if name[:2] != "cs" or program.args[0].ndim == 2]
            by_value = not BY_VALUE.isdisjoint((first, second)) and any(
                f in program.source for f in NOT_STORED
            )
            if layouts == ("strided",) or not by_value:
                yield program._replace(layout=fits[number % len(fits)])


@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize("layouts", [("strided",), ("csr", "csc", "coo")], ids="-".join)
@pytest.mark.parametrize("first", TURNS)
def test_what_two_selections_leave_out_reaches_no_derivative(first: str, layouts: Sequence[str]) -> None:
    for program in pairs_of(first, layouts):
        check(program)


def test_chains_are_singular_and_their_truth_is_finite() -> None:
    """Each has entries that are left out, and an oracle without them would not be finite."""
    for seed in range(20):
        program = chain_of(seed, DERIVATIVES[0])
        with np.errstate(all="ignore"):
            found, _ = carried_out(Oracle(), program, [Array(a) for a in program.args])
        assert all(np.isfinite(np.asarray(g.data)).all() for g in found)
        assert program.args[0].max() == 1 or not program.args[0].all()


# --- cases by hand ----------------------------------------------------------------------------------------

X = np.array([0.0, 1.0, 4.0])


def _overwritten_twice(x: Any) -> Any:
    y = iv.sqrt(x)
    y[1] = 3
    y[0] = 2
    return y.sum()


def _overwritten(x: Any) -> Any:
    y = 1 / x
    y[0] = 3
    return y.sum()


def _overwritten_by_index(x: Any) -> Any:
    y = iv.zeros(4)
    y[iv.asarray(np.array([0, 1, 2]))] = 1 / x
    y[iv.asarray(np.array([0, 0]))] = iv.stack([1 / x[0], x[1]])
    return y.sum()


def _of_boxes(x: Any) -> Any:
    y = 1 / x
    return y[1] + y[2:].sum() + iv.concat([y, y])[5:].sum()


def _far_apart(x: Any) -> Any:
    y = iv.reshape(1 / iv.stack([x[::-1], x]), (6,))
    return y[:2].sum() + y[4:].sum()


def _hoisted(x: Any) -> Any:
    """What a scan computes before its steps: its cotangent is added up over them."""
    body = lambda c, u: (c + iv.sum(iv.where(x > 0.5, u * x, iv.sqrt(x))[1:] * u[1:]), None)
    return iv.scan(body, iv.asarray(0.0), iv.asarray(np.ones((2, 3))))[0]


def _of_branches(x: Any) -> Any:
    """A branch that does not read x: its cotangent is no number there."""
    y = iv.cond(x.sum() > 0, lambda y: y[1:].sum(), lambda y: 1.0 + 0.0 * y[1:].sum(), 1 / x)
    return y * 2


MASK = np.array([False, True, True])
CASES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "overwritten twice": (_overwritten_twice, [0, 0, 0.25]),
    "overwritten": (_overwritten, [0, -1, -1 / 16]),
    "overwritten by index": (_overwritten_by_index, [0, 0, -1 / 16]),
    "sorted": (lambda x: iv.sort(1 / x)[:2].sum(), [0, -1, -1 / 16]),
    "chosen twice": (lambda x: iv.where(x > 0, iv.where(x > 2, iv.sqrt(x), 1 / x), 2.0).sum(), [0, -1, 0.25]),
    "masked": (lambda x: iv.masked_tensor(1 / x, x != 0).sum().to_tensor(0.0), [0, -1, -1 / 16]),
    "masked after pad": (
        lambda x: iv.masked_tensor(iv.pad(1 / x, ((1, 1),)), np.r_[False, MASK, False]).sum().to_tensor(0.0),
        [0, -1, -1 / 16],
    ),
    "masked after concat": (
        lambda x: iv.masked_tensor(iv.concat([1 / x, x]), np.r_[MASK, True, True, True]).sum().to_tensor(0.0),
        [1, 0, 15 / 16],
    ),
    "masks that meet": (
        lambda x: (
            iv.masked_tensor(1 / x, np.array([True, True, False])) + iv.masked_tensor(1 / x, MASK)
        ).to_tensor(0.5).sum(),
        [0, -2, 0],
    ),
    "diagonal": (
        lambda x: iv.diagonal((1 / x)[:, None] * np.ones(3), offset=-1).sum(), [0, -1, -1 / 16]
    ),
    "triangle": (
        lambda x: iv.tril((1 / x)[:, None] * np.ones((3, 3)), k=-1).sum(), [0, -1, -1 / 8]
    ),
    "rows of a product": (
        lambda x: iv.where(MASK[:, None] * np.ones(2) > 0, (1 / x)[:, None] @ np.ones((1, 2)), 0.0).sum(),
        [0, -2, -1 / 8],
    ),
    "running sums": (lambda x: iv.cumulative_sum(iv.flip(iv.sqrt(x)))[:2].sum(), [0, 0.5, 0.5]),
    "boxes": (_of_boxes, [0, -1, -1 / 8]),
    "boxes that are far apart": (_far_apart, [0, -2, -1 / 8]),
    "a box that is cut": (
        lambda x: (iv.reshape(1 / iv.concat([x, x]), (2, 3))[:, 1:] ** 2).sum(), [0, -4, -1 / 16]
    ),
    "a box across the end": (
        lambda x: (iv.roll(1 / iv.roll(x, 1), 1)[:2] ** 2).sum(), [0, -2, -1 / 32]
    ),
    "hoisted": (_hoisted, [0, 2, 2]),
    "branches": (_of_branches, [0, -2, -1 / 8]),
    "index notation": (
        lambda x: CHOSEN(iv.sqrt(x), iv.asarray(MASK * 1.0)).sum(), [0, 1, 0.5]
    ),
    "chosen of index notation": (
        lambda x: iv.where(MASK, CHOSEN(iv.sqrt(x), iv.asarray(np.ones(3))), 0.0).sum(), [0, 1, 0.5]
    ),
    "sums in index notation": (lambda x: RUNNING(iv.flip(1 / x))[:2].sum(), [0, -1, -1 / 8]),
    "windows in index notation, in order": (lambda x: iv.sort(WINDOWS(x))[1:].sum(), [0, 0.5, 0.25]),
    "a mask of windows": (
        lambda x: (iv.masked_tensor(WINDOWS(x), np.array([False, True])).sum().to_tensor(0.0)), [0, 0.5, 0.25]
    ),
    "windows in index notation, by index": (
        lambda x: iv.take(WINDOWS(x), np.array([1, 1])).sum(), [0, 1, 0.5]
    ),
    "chosen of sums in index notation": (
        lambda x: iv.where(MASK[::-1], RUNNING(iv.flip(1 / x)), 2.0).sum(), [0, -1, -1 / 8]
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_a_pattern_leaves_out() -> None:
    """Entries that are not stored."""
    stored = np.array([[0.0, 1, 0], [0, 0, 1], [0, 1, 1]])
    pattern = iv.to_layout(iv.asarray(stored), "csr")
    f = lambda x: (iv.sparse_mask(1 / x, pattern) * 2).to_dense().sum()
    for g in (iv.grad(f), iv.jit(iv.grad(f)), iv.grad(iv.jit(f))):
        found = np.asarray(g(iv.asarray(np.stack([X, X, X]))))
        np.testing.assert_allclose(found, stored * [0, -2, -1 / 8])


def _differences(f: Callable[[np.ndarray], float], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and Hessian by central differences."""
    steps = 1e-4 * np.eye(x.size)
    first = np.array([f(x + u) - f(x - u) for u in steps]) / 2e-4
    second = [[f(x + u + v) - f(x + u - v) - f(x - u + v) + f(x - u - v) for v in steps] for u in steps]
    return first, np.array(second) / 4e-8


STORED: dict[str, Callable[[Any, Any], Any]] = {
    "as it is": lambda y, p: iv.sparse_mask(iv.broadcast_to(y, p.shape), p).to_dense(),
    "scaled": lambda y, p: (iv.sparse_mask(iv.broadcast_to(y, p.shape), p) * 2.0).to_dense(),
    "squared": lambda y, p: iv.square(iv.sparse_mask(iv.broadcast_to(y, p.shape), p)),
    "a product": lambda y, p: y * p,
    "a row": lambda y, p: iv.sparse_mask(iv.reshape(y, (1, 3)), p[1:2]),
    "gathered": lambda y, p: iv.sparse_mask(iv.take(y, np.arange(9).reshape(3, 3) % 3), p),
    "a matrix product": lambda y, p: iv.sparse_mask(y[:, None] @ np.ones((1, 3)), p),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("name", STORED)
def test_a_selection_before_a_pattern(name: str, layout: str) -> None:
    """What was chosen is stored at places where it was left out: cotangents are sparse selections."""
    blocks = {"blocksize": (1, 3)} if layout == "bsr" else {}
    stored = iv.to_layout(iv.asarray(np.array([[1.0, 0, 1], [1, 1, 0], [0, 1, 1]])), layout, **blocks)
    f = lambda x: iv.sum(STORED[name](iv.where(x > 0.5, 1 / x, 0.25), stored))
    g, h, x = iv.grad(f), iv.hessian(f), iv.asarray(X)
    dense = lambda v: np.asarray(v.to_dense())
    truth, second = _differences(lambda v: float(f(iv.asarray(v)).to_dense()), X)
    for first in (g(x), iv.jit(g)(x), iv.grad(iv.jit(f))(x), iv.grad(iv.checkpoint(f))(x)):
        np.testing.assert_allclose(dense(first), truth, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dense(iv.vmap(g)(iv.stack([x, x])))[1], truth, rtol=1e-5, atol=1e-5)
    for found in (h(x), iv.jit(h)(x), iv.hessian(iv.jit(f))(x), iv.vmap(h)(iv.stack([x, x]))[0]):
        np.testing.assert_allclose(dense(found), second, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_lines_without_entries(layout: str) -> None:
    """A sum over an axis of a sparse cotangent, along which the pattern stores nothing in one place."""
    pattern = iv.to_layout(iv.asarray(np.array([[0.0, 1, 0], [0, 0, 1], [0, 1, 1]])), layout)
    f = lambda x: (iv.sparse_mask(iv.broadcast_to(1 / x, (3, 3)), pattern) * 2).to_dense().sum()
    for g in (iv.grad(f), iv.jit(iv.grad(f)), iv.grad(iv.checkpoint(f))):
        np.testing.assert_allclose(np.asarray(g(iv.asarray(X))), [0, -4, -1 / 4])


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize(
    "way",
    [
        "hessian",
        "hessian of jit",
        "vmap",
        "jit",
    ],
)
def test_second_derivatives_of_an_entry_that_is_not_stored(way: str) -> None:
    x = iv.to_layout(iv.asarray(X[::-1]), "coo")
    f = lambda x: (iv.sqrt(x)[:2] ** 2).sum()
    product = lambda v: iv.grad(lambda x: (iv.grad(f)(x) * v).sum())(x)
    second = {
        "hessian": iv.hessian(f),
        "hessian of jit": iv.hessian(iv.jit(f)),
        "vmap": lambda _: iv.vmap(product)(iv.eye(3)),
        "jit": iv.jit(iv.hessian(f)),
    }[way]
    np.testing.assert_allclose(np.asarray(second(x).to_dense()), 0.0, atol=1e-14)


def _zeros_around(kind: str) -> Any:
    """A value that holds something in the first two rows of four, in a layout."""
    array = np.zeros((4, 3))
    array[:2] = [[1.0, 0, 2], [0, 3, 0]]
    if kind == "box":
        return boxed((4, 3), Region((0, 0), (2, 3)), array[:2])
    if kind == "large box":
        return boxed((4, 3), Region((0, 0), (3, 3)), array[:3])
    return value_of(iv.to_layout(iv.asarray(array), kind))


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize(
    "kinds", list(itertools.product(["box", "large box", "coo", "csr", "csc"], repeat=2))
)
@pytest.mark.parametrize("name", ["add_n", "add", "subtract"])
def test_sums_of_boxes_and_stored_entries_hold_nothing_around(name: str, kinds: tuple[str, str]) -> None:
    """Where neither holds a value, an infinite factor makes nothing of the sum."""
    total = run(TABLE[name], tuple(map(_zeros_around, kinds)), {})
    factor = np.ones((4, 3))
    factor[3] = np.inf
    found = to_strided(select(run(TABLE["multiply"], (total, factor), {})))
    assert not found[3].any()
    sign = -1 if name == "subtract" else 1
    np.testing.assert_array_equal(found[:3], np.array([[1.0, 0, 2], [0, 3, 0], [0, 0, 0]]) * (1 + sign))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_selection_among_stored_entries() -> None:
    """A pattern that stores an entry which a later selection leaves out: here a row."""
    pattern = iv.to_layout(iv.asarray(np.array([[0.0, 1, 0], [0, 0, 1], [1, 1, 1]])), "csr")
    f = lambda x: (iv.sparse_mask(1 / x, pattern) * 2).to_dense()[:2].sum()
    assert np.isfinite(np.asarray(iv.grad(f)(iv.asarray(np.stack([X, X, X]))))).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_a_selection_that_is_broadcast_among_stored_entries(layout: str) -> None:
    """A row of a sparse matrix is the same for all examples of a choice: part of its cotangent is read."""
    pattern = iv.to_layout(iv.asarray(np.array([[0.0, 0, 0], [0, 1, 0]])), layout)
    chosen = lambda p, v: iv.tanh(iv.where(v > 0.05, p * np.ones(3), iv.sqrt(0.3 - v)))

    def f(x: Any) -> Any:
        v = pattern.with_values(x[:1])[1].to_dense()
        return iv.vmap(chosen, (0, None))(x[1:], v)[:, 1].sum()

    x = iv.asarray([1.69, 1.56, -0.39])
    expected = [0.0, *(1 - np.tanh([1.56, -0.39]) ** 2)]
    for g in (iv.grad(f), iv.jit(iv.grad(f)), iv.grad(iv.jit(f)), iv.grad(iv.checkpoint(f))):
        np.testing.assert_allclose(np.asarray(g(x)), expected)
    np.testing.assert_allclose(np.asarray(iv.vmap(iv.grad(f))(iv.stack([x, x])))[1], expected)


def _of_stored(layout: str) -> tuple[Callable[[Any], Any], float]:
    """A selection in a sparse matrix made dense, whose entries are all one number; its slope in that."""
    pattern = np.array([[1, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 1]]) > 0
    s, w = iv.to_layout(iv.asarray(pattern.astype(float)), layout), np.linspace(0.3, 1.4, 12).reshape(3, 4)

    def f(x: Any) -> Any:
        y = s.with_values(iv.broadcast_to(x, (5,))).to_dense()
        return (w * iv.where(y > 0.05, y, iv.sqrt(0.3 - y))).sum()

    return f, w[pattern].sum()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_a_selection_of_what_was_stored(layout: str) -> None:
    """Where part of a cotangent is read, the selection is of all of it: what is stored holds none."""
    f, slope = _of_stored(layout)
    g, x = iv.grad(f), iv.asarray(1.27)
    for found in (
        g(x),
        iv.jit(g)(x),
        iv.grad(iv.jit(f))(x),
        iv.grad(iv.checkpoint(f))(x),
        iv.jvp(f, (x,), (1.0,))[1],
    ):
        np.testing.assert_allclose(np.asarray(found), slope)
    for h in (iv.vmap(g), iv.jit(iv.vmap(g)), iv.vmap(iv.jit(g))):
        np.testing.assert_allclose(np.asarray(h(iv.asarray([1.27, 1.5]))), [slope, slope])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_a_selection_of_what_was_stored_to_second_order(layout: str) -> None:
    f, _ = _of_stored(layout)
    h, x = iv.hessian(f), iv.asarray(1.27)
    for found in (h(x), iv.jit(h)(x), iv.hessian(iv.jit(f))(x), iv.hessian(iv.checkpoint(f))(x)):
        assert float(found) == 0.0
    np.testing.assert_array_equal(np.asarray(iv.vmap(h)(iv.stack([x, x]))), 0.0)


@iv.te.op
def CHOSEN(x: Any, flags: Any) -> Any:
    return iv.te.compute(x.shape, lambda i: iv.te.select(flags[i] > 0.5, x[i] * 2.0, 0.25))


@iv.te.op
def RUNNING(x: Any) -> Any:
    (n,) = x.shape
    k = iv.te.reduce_axis(n)
    return iv.te.compute((n,), lambda i: iv.te.sum(iv.te.select(k <= i, x[k], 0.0), k))


@iv.te.op
def WINDOWS(x: Any) -> Any:
    k = iv.te.reduce_axis(2)
    return iv.te.compute((x.shape[0] - 1,), lambda i: iv.te.sum(iv.te.sqrt(x[i + k]), k))


def _both(x: Any) -> Any:
    return iv.stack([x, x * 0.8 + 0.05])


def _scanned(f: Any, x: Any) -> Any:
    return iv.scan(lambda c, u: (c + f(u), None), iv.asarray(0.0), _both(x))[0]


#: The gradient of a function by each mode, at X; of those of two examples, that of the first.
MODES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: iv.grad(f)(x),
    "jvp": lambda f, x: iv.stack([iv.jvp(f, (x,), (v,))[1] for v in iv.asarray(np.eye(3))]),
    "jit(grad)": lambda f, x: iv.jit(iv.grad(f))(x),
    "grad(jit)": lambda f, x: iv.grad(iv.jit(f))(x),
    "jit(jvp)": lambda f, x: iv.stack(
        [iv.jit(lambda x, v: iv.jvp(f, (x,), (v,))[1])(x, v) for v in iv.asarray(np.eye(3))]
    ),
    "vmap(grad)": lambda f, x: iv.vmap(iv.grad(f))(_both(x))[0],
    "grad(vmap)": lambda f, x: iv.grad(lambda x: iv.vmap(f)(_both(x))[0])(x),
    "jit(vmap(grad))": lambda f, x: iv.jit(iv.vmap(iv.grad(f)))(_both(x))[0],
    "grad(checkpoint)": lambda f, x: iv.grad(iv.checkpoint(f))(x),
    "grad(scan)": lambda f, x: iv.grad(lambda x: _scanned(f, x))(x) - 0.8 * iv.grad(f)(x * 0.8 + 0.05),
    "grad(cond)": lambda f, x: iv.grad(lambda x: iv.cond(x.sum() > 0, f, lambda x: 0.0 * x.sum(), x))(x),
    "grad(f(checkpoint))": lambda f, x: iv.grad(lambda x: f(iv.checkpoint(lambda x: x * 1.0)(x)))(x),
}


HESSIANS: dict[str, Callable[[Any, Any], Any]] = {
    "hessian": lambda f, x: iv.hessian(f)(x),
    "jit(hessian)": lambda f, x: iv.jit(iv.hessian(f))(x),
    "vmap(hessian)": lambda f, x: iv.vmap(iv.hessian(f))(_both(x)),
    "jit(grad(grad))": lambda f, x: iv.jit(iv.grad(lambda x: (iv.grad(f)(x) * np.arange(3.0)).sum()))(x),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_cases_in_every_mode(name: str) -> None:
    f, expected = CASES[name]
    x = iv.asarray(X)
    modes = list(MODES) if EXHAUSTIVE else list(MODES)[len(name) % 3 :: 3]
    for mode in ("grad", *modes):
        found = np.asarray(MODES[mode](f, x).detach())
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14, err_msg=mode)
    for way in list(HESSIANS) if EXHAUSTIVE else list(HESSIANS)[len(name) % 4 :: 4]:
        found = np.asarray(HESSIANS[way](f, x))
        assert np.isfinite(found).all(), (way, found)
