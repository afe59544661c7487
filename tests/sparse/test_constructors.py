"""The constructors accept exactly what keeps the layout's invariants: anything else is an error of ours."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson.errors import IversonError
from tests.sparse.common import checked

INDEX = ("int32", "int64")
COMPRESSED = {"csr": (0, False), "csc": (1, False), "bsr": (0, True), "bsc": (1, True)}
SCIPY = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array, "bsr": scipy.sparse.bsr_array}
SIDES = st.integers(0, 4)


def anything(dtype: str) -> st.SearchStrategy[int]:
    """Indices that fit now and then, and the extremes of the dtype, whose differences overflow."""
    info = np.iinfo(dtype)
    return st.one_of(st.integers(-2, 6), st.sampled_from([info.min, info.min + 1, info.max, info.max - 1]))


@st.composite
def compressed_arguments(draw: Any, blocks: bool) -> Any:
    """The arguments of a valid batch, flat or not, some of whose integers are then changed."""
    lines, across = draw(SIDES), draw(SIDES)
    batch = draw(st.sampled_from([(), (), (2,), (1, 2), (0,)]))
    dtype = draw(st.sampled_from(INDEX))
    flat = bool(batch) and draw(st.booleans())
    total = prod(batch) if flat or not batch else 1
    rows = [sorted(draw(st.sets(st.integers(0, across - 1)))) if across else [] for _ in range(lines * total)]
    starts = np.cumsum([0, *map(len, rows)]).astype(dtype)
    inner = np.array([k for row in rows for k in row], dtype)
    if batch and not flat:
        starts, inner = (np.array(np.broadcast_to(x, (*batch, x.size))) for x in (starts, inner))
    for array in (starts, inner):
        for _ in range(draw(st.integers(0, 2)) if array.size else 0):
            array.ravel()[draw(st.integers(0, array.size - 1))] = draw(anything(dtype))
    for name, change in (("starts", draw(st.integers(-1, 5))), ("inner", draw(st.integers(-1, 5)))):
        if change == -1:
            if name == "starts":
                starts = starts[..., :-1]
            else:
                inner = inner[..., :-1]
    block = draw(st.sampled_from([(1, 1), (2, 1), (2, 3)])) if blocks else (1, 1)
    values = np.ones(inner.shape + (block if blocks else ()))
    return starts, inner, values, (*batch, lines, across), block, flat


def is_valid(starts: Any, inner: Any, lines: int, across: int, batch: Any) -> bool:
    """The invariants, in Python's integers."""
    flat = starts.ndim == 1
    if starts.shape[-1] != lines * (prod(batch) if flat else 1) + 1:
        return False
    for k in np.ndindex(starts.shape[:-1]):
        s, at = [int(n) for n in starts[k]], [int(n) for n in inner[k]]
        if s[0] != 0 or s[-1] != len(at) or any(b < a for a, b in pairwise(s)):
            return False
        for a, b in pairwise(s):
            row = at[a:b]
            if row != sorted(set(row)) or any(not 0 <= n < across for n in row):
                return False
    return True


@given(layout=st.sampled_from(sorted(COMPRESSED)), data=st.data())
def test_compressed(layout, data):
    axis, blocks = COMPRESSED[layout]
    starts, inner, values, shape, block, flat = data.draw(compressed_arguments(blocks))
    *batch, lines, across = shape
    grid = (lines, across) if axis == 0 else (across, lines)
    whole = (*batch, grid[0] * block[0], grid[1] * block[1])
    make = getattr(iv, f"sparse_{layout}_tensor")
    if is_valid(starts, inner, lines, across, batch):
        made = make(starts, inner, values, whole)
        dense = checked(made)
        assert dense.sum() == values.size
        assert made.shape == whole
        again = make(made.indptr(), made.indices(), made.values(), whole)
        np.testing.assert_array_equal(checked(again), dense)
    else:
        with pytest.raises(IversonError, match=f"sparse_{layout}_tensor"):
            make(starts, inner, values, whole)
    if batch and flat:
        return
    try:
        made = make(starts, inner, values)
    except IversonError:
        return
    if made.size < 10**6:
        assert checked(made).sum() == values.size


@given(
    data=st.data(),
    dtype=st.sampled_from([*INDEX, "int8", "uint8", "uint64", "float64", "bool"]),
    axes=st.integers(0, 3),
    count=st.integers(0, 4),
    dense=st.sampled_from([(), (2,)]),
    shape=st.one_of(st.none(), st.lists(st.integers(-1, 5), max_size=5)),
)
def test_coo(data, dtype, axes, count, dense, shape):
    ints = anything(dtype) if np.dtype(dtype).kind in "iu" else st.integers(0, 1)
    low = 0 if np.dtype(dtype).kind == "u" else None
    given_indices = [
        [n if low is None else max(n, 0) for n in data.draw(st.lists(ints, min_size=count, max_size=count))]
        for _ in range(axes)
    ]
    indices = np.array(given_indices, dtype).reshape(axes, count)
    values = np.ones((count, *dense))
    try:
        made = iv.sparse_coo_tensor(indices, values, shape)
    except IversonError:
        made = None
    whole = (
        shape
        if shape is not None
        else [max((int(n) + 1 for n in row), default=0) for row in indices] + [*dense]
    )
    right = (
        (dtype not in ("float64", "bool") or (dtype == "float64" and not indices.size))
        and (axes > 0 or not dense)
        and len(whole) == axes + len(dense)
        and tuple(whole[axes:]) == dense
        and all(n >= 0 for n in whole)
        and all(0 <= int(n) < extent for row, extent in zip(indices, whole, strict=False) for n in row)
        and prod(whole[:axes]) < 2**63
    )
    assert (made is not None) == right
    if made is not None and prod(whole) < 10**6:
        assert checked(made).sum() == values.size
        assert made.shape == tuple(whole)


ODD = [None, "ab", 3, [[1, 2], [3]], [[0.5]], {}, [None], np.zeros((1, 1, 1, 1), int), iv.zeros(2), object()]


@pytest.mark.parametrize("argument", range(3))
@pytest.mark.parametrize("odd", ODD, ids=lambda x: type(x).__name__)
def test_odd_arguments(odd, argument):
    for make, args in (
        (iv.sparse_coo_tensor, [[[0], [1]], [1.0], (2, 2)]),
        (iv.sparse_csr_tensor, [[0, 1], [1], [1.0], (1, 2)]),
        (iv.sparse_bsc_tensor, [[0, 1], [1], np.ones((1, 1, 1)), (2, 1)]),
    ):
        changed = [odd if k == argument else x for k, x in enumerate(args)]
        if make is iv.sparse_coo_tensor and argument == 2 and odd is None:
            continue
        with pytest.raises(IversonError):
            make(*changed)


def test_indices_are_wide_enough_for_the_shape():
    s = iv.sparse_coo_tensor(np.array([[1], [0]], np.int32), [1.0], (2**40, 3))
    assert s.indices().dtype == np.int64
    assert iv.flip(s, axis=0).indices().numpy()[0, 0] == 2**40 - 2
    r = iv.sparse_csr_tensor(np.array([0, 1], np.int32), np.array([5], np.int32), [1.0], (1, 2**40))
    assert r.indptr().dtype == r.indices().dtype == np.int64
    assert iv.concat([r, r], axis=1).indices().numpy().tolist() == [5, 2**40 + 5]


def test_results_larger_than_their_operands_have_indices_that_fit():
    s = iv.sparse_coo_tensor(np.array([[2**31 - 2]], np.int32), [1.0], (2**31 - 1,))
    assert s.indices().dtype == np.int32
    assert iv.concat([s, s]).indices().numpy().tolist() == [[2**31 - 2, 2**32 - 3]]


@pytest.mark.parametrize("layout", COMPRESSED)
def test_unchecked(layout):
    """Right indices are taken as they are, and with a shape given no index is looked at."""
    blocks = COMPRESSED[layout][1]
    values = np.ones((2, 2, 1)) if blocks else np.ones(2)
    make = getattr(iv, f"sparse_{layout}_tensor")
    starts, inner = np.array([0, 1, 2]), np.array([1, 0])
    starts.flags.writeable = inner.flags.writeable = False
    made = make(starts, inner, values, check=False)
    assert made._value.pattern.indptr is starts
    assert made._value.pattern.indices is inner
    np.testing.assert_array_equal(checked(made), checked(make(starts, inner, values)))
    wrong = make(starts, np.array([7, 0]), values, made.shape, check=False)
    assert wrong.nnz == values.size


CONSTRUCTED = {
    "coo": (
        lambda i: iv.sparse_coo_tensor(i, np.ones(2), (3, 3)),
        lambda dtype: [np.array([[0, 2], [1, 2]], dtype)],
    ),
    "coo of a view": (
        lambda i: iv.sparse_coo_tensor(i[:, ::2], np.ones(2), (3, 3)),
        lambda dtype: [np.array([[0, 9, 2], [1, 9, 2]], dtype)],
    ),
    "coo of a read-only view": (
        lambda i: iv.sparse_coo_tensor(np.broadcast_to(i, i.shape), np.ones(2), (3, 3)),
        lambda dtype: [np.array([[0, 2], [1, 2]], dtype)],
    ),
    "coo of a tensor": (
        lambda i: iv.sparse_coo_tensor(iv.asarray(i), np.ones(2), (3, 3)),
        lambda dtype: [np.array([[0, 2], [1, 2]], dtype)],
    ),
    **{
        layout: (
            lambda p, i, layout=layout: getattr(iv, f"sparse_{layout}_tensor")(
                p, i, np.ones((2, 1, 1)) if layout[0] == "b" else np.ones(2), (3, 3)
            ),
            lambda dtype: [np.array([0, 1, 1, 2], dtype), np.array([1, 2], dtype)],
        )
        for layout in COMPRESSED
    },
    "unchecked": (
        lambda p, i: iv.sparse_csr_tensor(p, i, np.ones(2), (3, 3), check=False),
        lambda dtype: [np.array([0, 1, 1, 2], dtype), np.array([1, 2], dtype)],
    ),
    "batch": (
        lambda p, i: iv.sparse_csr_tensor(p, i, np.ones((2, 2)), (2, 3, 3)),
        lambda dtype: [np.array([[0, 1, 1, 2]] * 2, dtype), np.array([[1, 2]] * 2, dtype)],
    ),
    **{
        f"scipy {form}": (
            lambda p, i, form=form: iv.from_scipy(
                SCIPY[form]((np.ones((2, 1, 1) if form == "bsr" else 2), i, p), shape=(3, 3))
            ),
            lambda dtype: [np.array([0, 1, 1, 2], dtype), np.array([1, 2], dtype)],
        )
        for form in ("csr", "csc", "bsr")
    },
    "scipy coo": (
        lambda i, j: iv.from_scipy(scipy.sparse.coo_array((np.ones(2), (i, j)), shape=(3, 3))),
        lambda dtype: [np.array([0, 2], dtype), np.array([1, 2], dtype)],
    ),
}


@pytest.mark.parametrize("dtype", INDEX)
@pytest.mark.parametrize("name", CONSTRUCTED)
def test_whoever_writes_into_the_indices_later_changes_nothing(name, dtype):
    make, arguments = CONSTRUCTED[name]
    given_indices = arguments(dtype)
    s = make(*given_indices)
    before = checked(s)
    for array in given_indices:
        array.flat[:] = np.iinfo(dtype).max // 2
    np.testing.assert_array_equal(checked(s), before)
    pattern = s._value.pattern
    shared = [s.indices().numpy(), *([] if s.layout == "coo" else [s.indptr().numpy()])]
    if s.ndim == 2:
        m = s.to_scipy()
        shared += [m.indices, m.indptr] if hasattr(m, "indptr") else [*m.coords]
    for array in [*shared, pattern.indices]:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 2
    np.testing.assert_array_equal(checked(s @ iv.ones((3, 1))), before @ np.ones((3, 1)))


def broken(form: str, change: Any) -> Any:
    """A SciPy matrix whose structure was changed after SciPy looked at it."""
    data = np.ones((2, 1, 1)) if form == "bsr" else np.ones(2)
    m = SCIPY[form]((data, np.array([1, 2]), np.array([0, 1, 1, 2])), shape=(3, 3))
    change(m)
    return m


BROKEN = {
    "an index too large": lambda m: m.indices.__setitem__(0, 2**40),
    "an index below 0": lambda m: m.indices.__setitem__(1, -1),
    "starts beyond the end": lambda m: m.indptr.__setitem__(-1, 9),
    "starts that decrease": lambda m: m.indptr.__setitem__(1, 5),
    "a start below 0": lambda m: m.indptr.__setitem__(0, -4),
    "too few starts": lambda m: setattr(m, "indptr", m.indptr[:2].copy()),
    "too few values": lambda m: setattr(m, "data", m.data[:1].copy()),
    "indices that are no integers": lambda m: setattr(m, "indices", m.indices + 0.5),
}


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("name", BROKEN)
def test_what_scipy_does_not_check(name, form):
    with pytest.raises(IversonError, match="from_scipy"):
        iv.from_scipy(broken(form, BROKEN[name]))


def test_scipy_constructors_accept_indices_out_of_range():
    m = scipy.sparse.csr_array((np.ones(2), np.array([1, 10**6]), np.array([0, 1, 1, 2])), shape=(3, 3))
    with pytest.raises(iv.errors.IndexingError, match=r"from_scipy.*index 1000000 on axis 1"):
        iv.from_scipy(m)


def test_room_that_a_scipy_matrix_does_not_use():
    m = scipy.sparse.csr_array((3, 3))
    m.data, m.indices, m.indptr = np.ones(4), np.array([2, 1, 99, 99]), np.array([0, 2, 2, 2])
    np.testing.assert_array_equal(checked(iv.from_scipy(m)), [[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(checked(iv.from_scipy(scipy.sparse.csr_array([0.0, 2.0]))), [0, 2])


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_values_that_are_a_zero_of_no_entries_are_stored(layout):
    """A gradient that nothing reached, for example: the result has the layout and the values of any other."""
    s = iv.asarray(np.diag([1.0, 2.0, 0.0, 3.0])).to_layout(
        layout, blocksize=(2, 2) if layout[0] == "b" else None
    )
    zero = iv.grad(lambda v: iv.asarray(1.0))(s.values())
    assert zero.layout == "zero"
    found = s.with_values(zero)
    assert found.layout == layout
    np.testing.assert_array_equal(found.values().numpy(), np.zeros(s.values().shape))
    np.testing.assert_array_equal(found.indices().numpy(), s.indices().numpy())
