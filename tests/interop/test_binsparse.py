"""Binsparse: layouts there and back, what the reference implementation reads and writes, files by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.errors import ArgumentError, ArgumentTypeError, DTypeError, GradientError, IversonError

pytestmark = pytest.mark.peers

pytest.importorskip("binsparse", reason="a peer")
h5py = pytest.importorskip("h5py", reason="a peer")

import binsparse as reference  # noqa: E402
from binsparse import conversions  # noqa: E402

from iverson.interop import binsparse  # noqa: E402

rng = np.random.default_rng(0)
DTYPES = ["float32", "float64", "complex64", "complex128", "bool", "int8", "int64", "uint16", "uint64"]


def values(shape: tuple[int, ...], dtype: str) -> Any:
    there = rng.random(shape) < 0.5
    found = rng.normal(size=shape) * 10 + (1j * rng.normal(size=shape) if dtype.startswith("complex") else 0)
    return np.where(there, np.abs(found) + 1 if dtype.startswith("u") else found, 0).astype(dtype)


def in_layout(dense: Any, layout: str, dense_dim: int = 0) -> iv.Tensor:
    return iv.to_layout(iv.asarray(dense), layout, **({"dense_dim": dense_dim} if dense_dim else {}))


def same(x: iv.Tensor, y: iv.Tensor) -> None:
    assert (x.layout, x.dtype, x.shape) == (y.layout, y.dtype, y.shape)
    np.testing.assert_array_equal(x.to_dense().numpy(), y.to_dense().numpy())
    if x.layout != "strided":
        assert x.nnz == y.nnz


CASES = [
    *(((5,), layout, 0) for layout in ("strided", "coo")),
    *((shape, layout, 0) for shape in ((4, 3), (1, 6)) for layout in ("strided", "coo", "csr", "csc")),
    *(((2, 3, 4), layout, 0) for layout in ("strided", "coo", "csr", "csc")),
    *(((3, 4, 2), layout, 1) for layout in ("coo", "csr", "csc")),
    ((), "strided", 0),
    *(((0, 3), layout, 0) for layout in ("strided", "coo", "csr", "csc")),
    *(((0,), layout, 0) for layout in ("strided", "coo")),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "layout", "dense_dim"), CASES)
def test_round_trip(shape: tuple[int, ...], layout: str, dense_dim: int, dtype: str, tmp_path: Any) -> None:
    for dense in (values(shape, dtype), np.zeros(shape, dtype)):
        x = in_layout(dense, layout, dense_dim)
        held: dict[str, Any] = {}
        binsparse.write(held, x)
        same(binsparse.read(held), x)
        with h5py.File(tmp_path / "x.h5", "w") as file:
            group = file.create_group("a")
            binsparse.write(group, x)
            binsparse.write(group, x)
            same(binsparse.read(group), x)


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".zarr"])
def test_paths_and_groups(suffix: str, tmp_path: Any) -> None:
    if suffix == ".zarr":
        zarr = pytest.importorskip("zarr", reason="a peer")
        group = zarr.open_group(tmp_path / "group.zarr")
        x = in_layout(values((4, 3), "complex128"), "csc")
        binsparse.write(group, x)
        same(binsparse.read(group), x)
    x = in_layout(values((4, 3), "float64"), "csr")
    binsparse.write(tmp_path / f"x{suffix}", x)
    binsparse.write(str(tmp_path / f"x{suffix}"), x)
    y = binsparse.read(tmp_path / f"x{suffix}", requires_grad=True)
    assert y.requires_grad
    same(y.detach(), x)


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".zarr"])
def test_a_write_that_fails_changes_nothing(suffix: str, tmp_path: Any, monkeypatch: Any) -> None:
    if suffix == ".zarr":
        pytest.importorskip("zarr", reason="a peer")
    path, x = tmp_path / f"x{suffix}", in_layout(values((4, 3), "float64"), "csr")
    container = {
        ".h5": reference.HDF5BinsparseContainer,
        ".npz": reference.NPZBinsparseContainer,
        ".zarr": reference.ZarrBinsparseContainer,
    }[suffix]
    buffered, written = container._write_buffer, []

    def once(self: Any, key: str, value: Any) -> None:
        buffered(self, key, value)
        written.append(key)
        if len(written) == 2:
            raise OSError("no space left")

    for there in (False, True):
        with monkeypatch.context() as patched:
            patched.setattr(container, "_write_buffer", once)
            written.clear()
            with pytest.raises(OSError, match="no space left"):
                binsparse.write(path, 2 * x)
        assert len(written) == 2
        assert [f.name for f in tmp_path.iterdir()] == [path.name] * there
        if there:
            same(binsparse.read(path), x)
        binsparse.write(path, x)
        same(binsparse.read(path), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_the_reference_implementation_reads_and_writes_the_same(
    layout: str, dtype: str, tmp_path: Any
) -> None:
    dense = values((5, 4), dtype)
    x = in_layout(dense, layout)
    binsparse.write(tmp_path / "ours.h5", x)
    theirs = conversions.to_scipy(reference.load_binsparse(tmp_path / "ours.h5"))
    assert theirs.format == layout
    assert theirs.dtype == x.dtype
    np.testing.assert_array_equal(theirs.toarray(), dense)
    reference.save_binsparse(conversions.from_scipy(x.to_scipy()), tmp_path / "theirs.h5")
    same(binsparse.read(tmp_path / "theirs.h5"), x)
    for alias in (True, False):
        reference.save_binsparse(conversions.from_scipy(x.to_scipy()), tmp_path / "theirs.h5", alias=alias)
        same(binsparse.read(tmp_path / "theirs.h5"), x)


def test_the_reference_implementation_reads_and_writes_dense_ones_in_both_orders() -> None:
    dense = values((3, 2), "float64")
    for kind, order in ((reference.DMATRMatrix, "C"), (reference.DMATCMatrix, "F")):
        held: dict[str, Any] = {}
        kind(dense.shape, 6, values=dense.ravel(order=order)).serialize(reference.NPZBinsparseContainer(held))
        np.testing.assert_array_equal(binsparse.read(held).numpy(), dense)


def by_hand(format_: Any, shape: Any, types: Any, /, *, more: Any = None, **arrays: Any) -> dict[str, Any]:
    """A group as the specification writes them, with versions as it does."""
    said = {"version": "0.1", "format": format_, "shape": shape, "data_types": types}
    said |= {
        "number_of_stored_values": len(arrays.get("indices_1", arrays.get("indices_0", ()))),
        **(more or {}),
    }
    dtype = {k: v.rpartition("[")[2].rstrip("]").replace("bint8", "uint8") for k, v in types.items()}
    made = {k: np.asarray(a, dtype.get(k)) for k, a in arrays.items()}
    return {"binsparse": np.asarray(json.dumps({"binsparse": said, "author": "John Doe"})), **made}


CSR = {"pointers_to_1": "uint64", "indices_1": "uint64", "values": "int8"}
COOR = {"indices_0": "uint64", "indices_1": "uint64", "values": "float32"}
LINES: dict[str, Any] = {"pointers_to_1": [0, 1, 3, 3, 5, 6], "indices_1": [3, 1, 4, 1, 2, 3]}
SEVENS = np.zeros((5, 5))
SEVENS[[0, 1, 1, 3, 3, 4], [3, 1, 4, 1, 2, 3]] = 7


def test_the_examples_of_the_specification() -> None:
    """Of "All Values the Same (ISO)", by name and by levels, and of "Structure"."""
    iso = CSR | {"values": "iso[int8]"}
    element = {"level_desc": "element"}
    levels = {
        "level_desc": "dense",
        "rank": 1,
        "level": {"level_desc": "sparse", "rank": 1, "level": element},
    }
    for format_, more in (("CSR", None), ("custom", {"custom": {"level": levels}})):
        x = binsparse.read(by_hand(format_, [5, 5], iso, more=more, values=[7], **LINES))
        same(x, in_layout(SEVENS.astype(np.int8), "csr"))
    below = {"pointers_to_1": [0, 1, 3, 5, 7, 9], "indices_1": [0, 0, 1, 0, 2, 1, 3, 2, 4]}
    entries = [1, 2, 9, 7, 2, 2, 3, 3, 7]
    lower = np.zeros((5, 5), np.int8)
    lower[np.repeat(np.arange(5), np.diff(below["pointers_to_1"])), below["indices_1"]] = entries
    for kind, sign in (("symmetric", 1), ("skew_symmetric", -1)):
        more = {"structure": f"{kind}_lower"}
        x = binsparse.read(by_hand("CSR", [5, 5], CSR, more=more, values=entries, **below))
        same(x, in_layout(lower + sign * np.tril(lower, -1).T, "csr"))
        y = binsparse.read(
            by_hand("CSC", [5, 5], CSR, more={"structure": f"{kind}_upper"}, values=entries, **below)
        )
        same(y, in_layout(lower.T + sign * np.tril(lower, -1), "csc"))
    hermitian = binsparse.read(
        by_hand(
            "COO",
            [2, 2],
            COOR | {"values": "complex[float32]"},
            more={"structure": "hermitian_lower"},
            indices_0=[0, 1],
            indices_1=[0, 0],
            values=[1, 0, 2, 3],
        )
    )
    assert hermitian.to_dense().tolist() == [[1, 2 - 3j], [2 + 3j, 0]]


def test_formats_without_a_layout_of_their_own_are_coordinates() -> None:
    """Doubly compressed lines, coordinates by columns, and levels that no predefined format has."""
    dense = np.zeros((4, 3), np.int8)
    dense[[1, 1, 3], [0, 2, 1]] = [1, 2, 3]
    types = CSR | {"indices_0": "uint32"}
    held = {"indices_0": [1, 3], "pointers_to_1": [0, 2, 3], "indices_1": [0, 2, 1], "values": [1, 2, 3]}
    same(binsparse.read(by_hand("DCSR", [4, 3], types, **held)), in_layout(dense, "coo"))
    same(binsparse.read(by_hand("DCSC", [3, 4], types, **held)), in_layout(dense.T, "coo"))
    both = {"indices_0": [1, 1, 3], "indices_1": [0, 2, 1], "values": [1, 2, 3]}
    same(binsparse.read(by_hand("COOR", [4, 3], COOR, **both)), in_layout(dense.astype("f4"), "coo"))
    same(binsparse.read(by_hand("COOC", [3, 4], COOR, **both)), in_layout(dense.T.astype("f4"), "coo"))
    level: Any = {"level_desc": "element"}
    for kind in ("sparse", "dense", "sparse"):  # A[i, :, j] is sparse in i and j
        level = {"level_desc": kind, "rank": 1, "level": level}
    x = binsparse.read(
        by_hand(
            "custom",
            [3, 2, 4],
            {"indices_0": "int32", "pointers_to_2": "int32", "indices_2": "int32", "values": "bint8"},
            more={"custom": {"level": level, "transpose": [0, 1, 2]}, "number_of_stored_values": 3},
            indices_0=[2],
            pointers_to_2=[0, 1, 3],
            indices_2=[3, 0, 1],
            values=[1, 1, 0],
        )
    )
    assert x.shape == (3, 2, 4)
    assert [tuple(map(int, row)) for row in np.argwhere(x.to_dense().numpy())] == [(2, 0, 3), (2, 1, 0)]
    assert x.nnz == 3


DENSE_OF_PAIRS: Any = {"level_desc": "sparse", "rank": 2, "level": {"level_desc": "element"}}
DENSE_OF_PAIRS = {"level_desc": "dense", "rank": 1, "level": DENSE_OF_PAIRS}


def lines(
    _more: Any = None, _shape: Any = (5, 5), _types: Any = None, /, _format: str = "CSR", **arrays: Any
) -> Any:
    held = {"values": [1] * 6, **LINES, **arrays}
    return by_hand(_format, _shape, CSR | (_types or {}), more=_more, **held)


def pairs(_types: Any = None, /, **arrays: Any) -> Any:
    held = {"indices_0": [1], "indices_1": [0], "values": [1], **arrays}
    return by_hand("COO", [5, 5], COOR | (_types or {}), **held)


LARGE = by_hand(
    "custom",
    [2**40, 5, 5],
    dict.fromkeys(("pointers_to_1", "indices_1", "indices_2", "values"), "int8"),
    more={"custom": {"level": DENSE_OF_PAIRS}},
    pointers_to_1=[0, 1],
    indices_1=[0],
    indices_2=[0],
    values=[1],
)
WRONG: dict[str, tuple[str, Any]] = {
    "outside": ("index 9", lines(indices_1=[9, 1, 4, 1, 2, 3])),
    "unsorted": ("increasing", lines(indices_1=[3, 4, 1, 1, 2, 3])),
    "twice": ("increasing", lines(indices_1=[3, 1, 1, 1, 2, 3])),
    "falling": ("decreas", lines(pointers_to_1=[0, 3, 1, 3, 5, 6])),
    "few lines": ("6,", lines(pointers_to_1=[0, 6])),
    "few values": ("expected 6", lines(values=[1] * 5)),
    "more said": (
        "expected",
        lines({"number_of_stored_values": 7}, (5, 5), {"values": "iso[int8]"}, values=[7]),
    ),
    "pairs outside": ("index 5", pairs(indices_0=[5])),
    "pairs below": ("index -1", pairs({"indices_0": "int8"}, indices_0=[-1])),
    "pairs huge": ("index 18446744073709551615", pairs(indices_0=[2**64 - 1])),
    "pairs unsorted": ("increasing", pairs(indices_0=[1, 0], indices_1=[0, 0], values=[1, 2])),
    "pairs twice": ("increasing", pairs(indices_0=[1, 1], indices_1=[0, 0], values=[1, 2])),
    "pairs of one": ("indices_1", pairs(indices_0=[1, 2])),
    "floats": ("integers", pairs({"indices_0": "float64"})),
    "undeclared": ("declared", pairs() | {"values": np.ones(1)}),
    "a table": ("axes", pairs(values=[[1]])),
    "missing": ("values", {k: a for k, a in pairs().items() if k != "values"}),
    "another": ("BSR", lines(_format="BSR")),
    "a later version": ("2.0.0", lines({"version": "2.0.0"})),
    "shape": ("rank", lines(None, [5])),
    "large": ("at least 1099511627777", LARGE),
    "negative": ("non-negative", lines(None, [5, -5])),
    "no shape": ("iterable", lines(None, 5)),
    "a fill": ("fill value 1", lines({"fill": True}, (5, 5), {"fill_value": "int8"}, fill_value=[1])),
    "structure": ("upper triangle", lines({"structure": "symmetric_upper"})),
    "odd structure": ("banded", lines({"structure": "banded"})),
    "no JSON": ("Expecting value", {"binsparse": np.asarray("CSR")}),
    "nothing": ("no 'binsparse'", {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_read_is_checked(name: str) -> None:
    message, held = WRONG[name]
    with pytest.raises(IversonError, match=message) as caught:
        binsparse.read(held)
    assert str(caught.value).startswith("read: ")


def test_a_fill_of_zero_is_no_matter() -> None:
    held = by_hand(
        "CSR",
        [5, 5],
        CSR | {"fill_value": "int8"},
        more={"fill": True},
        values=[7] * 6,
        fill_value=[0],
        **LINES,
    )
    same(binsparse.read(held), in_layout(SEVENS.astype(np.int8), "csr"))


def test_what_the_format_lacks_is_refused(tmp_path: Any) -> None:
    blocks = iv.to_layout(iv.eye(4), "bsr", blocksize=(2, 2))
    for x, error, message in (
        (blocks, ArgumentError, r'to_layout\("csr"\)'),
        (iv.sparse_coo_tensor(np.zeros((0, 1), int), [1.0], ()), ArgumentError, "rank 0"),
        (iv.masked_tensor(iv.ones(2), [True, False]), ArgumentTypeError, "to_tensor"),
        (iv.ones(2, dtype="float16"), DTypeError, "float32"),
        (iv.ones(2, requires_grad=True), GradientError, "detach"),
        (np.ones(2), ArgumentTypeError, "asarray"),
    ):
        with pytest.raises(error, match=message):
            binsparse.write({}, x)
    for where in (3, tmp_path / "x.mtx"):
        with pytest.raises(ArgumentTypeError, match=r"\.zarr"):
            binsparse.write(where, iv.ones(2))
        with pytest.raises(ArgumentTypeError, match=r"\.zarr"):
            binsparse.read(where)
    (tmp_path / "x.npz").write_text("none")
    with pytest.raises(ArgumentError, match="archive"):
        binsparse.read(tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError):
        binsparse.read(tmp_path / "none.h5")


def test_entries_stored_twice_are_summed_and_sorted() -> None:
    held: dict[str, Any] = {}
    binsparse.write(held, iv.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], [1.0, 2.0, 3.0], (2, 3)))
    assert held["indices_0"].tolist() == [0, 1]
    assert held["values"].tolist() == [2.0, 4.0]
