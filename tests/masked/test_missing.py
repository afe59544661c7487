"""What pandas and Arrow say is missing: unspecified in a masked tensor, and never a number elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.errors import ArgumentTypeError, DTypeError, IversonError


class Column:
    """An array with missing entries, as pandas has them: nan in its array, which is of floats."""

    dtype = "Int64"

    def __init__(self, entries, absent):
        self.entries, self.absent = np.asarray(entries), np.asarray(absent)

    @property
    def shape(self):
        return self.entries.shape

    def __len__(self):
        return len(self.entries)

    def __array__(self, dtype=None, copy=None):
        return np.where(self.absent, np.nan, self.entries) if self.absent.any() else self.entries

    def isna(self):
        return self.absent

    def dropna(self):
        return self.entries[~self.absent]

    def fillna(self, value):
        return Column(np.where(self.absent, value, self.entries), np.zeros(len(self), bool))


COLUMN = Column([1, 7, 3], [False, True, False])
#: What takes arrays that are no operands yet.
DOORS = {
    "asarray": iv.asarray,
    "a list": lambda x: iv.asarray([x, x]),
    "tensor": iv.tensor,
    "an assignment": lambda x: iv.zeros(3).__setitem__(slice(None), x),
    "vmap": iv.vmap(lambda x: x),
    "data that a mask is of": lambda x: iv.masked_tensor([x, x], [[True] * 3] * 2),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_number_stands_for_what_is_missing(door):
    with pytest.raises(ArgumentTypeError, match=r"1 of whose entries are missing.*iverson\.masked_tensor"):
        DOORS[door](COLUMN)
    DOORS[door](Column([1, 7, 3], [False] * 3))


def same(found, entries, mask, dtype):
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.get_mask().numpy(), mask)
    np.testing.assert_array_equal(found.get_data().numpy(), np.where(mask, entries, 0))


def test_what_is_missing_is_unspecified():
    same(iv.masked_tensor(COLUMN), [1, 7, 3], [True, False, True], "int64")
    same(iv.masked_tensor(COLUMN, [True, True, False]), [1, 7, 3], [True, False, False], "int64")
    same(iv.masked_tensor(Column([5, 5], [True, True])), [0, 0], [False, False], "float64")
    same(iv.masked_tensor([1.0, 2.0], Column([True, True], [True, False])), [1, 2], [False, True], "float64")
    with pytest.raises(DTypeError, match=r"mask.*got dtype int64; expected bool"):
        iv.masked_tensor([1.0, 2.0, 3.0], COLUMN)


def test_none_is_unspecified():
    same(iv.masked_tensor([[1, None], [2, 3]]), [[1, 9], [2, 3]], [[True, False], [True, True]], "int64")
    same(iv.masked_tensor(np.array([True, None], object)), [True, True], [True, False], "bool")
    m = iv.masked_tensor([1.5, 2.5], [False, True])
    same(iv.masked_tensor(m.tolist()), [1.5, 2.5], [False, True], "float64")


def test_pandas():
    pd = pytest.importorskip("pandas")
    for dtype in ("Int64", "Int8", "UInt16", "Float64", "Float32", "boolean"):
        some = [1, pd.NA, 0]
        for x in (pd.array(some, dtype), pd.Series(some, dtype=dtype), pd.Index(some, dtype=dtype)):
            with pytest.raises(ArgumentTypeError, match="1 of whose entries are missing"):
                iv.asarray(x)
            same(
                iv.masked_tensor(x),
                [1, 1, 0],
                [True, False, True],
                {"boolean": "bool"}.get(dtype, dtype.lower()),
            )
            full = x.dropna()
            np.testing.assert_array_equal(iv.asarray(full).numpy(), [1, 0])
            same(iv.masked_tensor(full), [1, 0], [True, True], {"boolean": "bool"}.get(dtype, dtype.lower()))
    for cells in (
        [1.0, pd.NA],
        np.array([1.0, pd.NA], object),
        pd.Series([1.0, pd.NA], dtype=object),
        [1.0, pd.NaT],
    ):
        same(iv.masked_tensor(cells), [1, 9], [True, False], "float64")
        with pytest.raises(IversonError, match=r"NA|NaT|object"):
            iv.asarray(cells)
    table = pd.DataFrame({"a": [1.0, np.nan], "b": pd.array([pd.NA, 2.5], "Float64")})
    found = iv.masked_tensor(table)
    np.testing.assert_array_equal(found.get_mask().numpy(), [[True, False], [True, True]])
    np.testing.assert_array_equal(found.to_tensor(7.0).numpy(), [[1.0, 7.0], [np.nan, 2.5]])
    with pytest.raises(ArgumentTypeError, match="a DataFrame, 1 of whose entries are missing"):
        iv.asarray(table)
    np.testing.assert_array_equal(iv.asarray(table[["a"]]).numpy(), [[1.0], [np.nan]])
    with pytest.raises(DTypeError, match="datetime64"):
        iv.masked_tensor(pd.Series(pd.to_datetime(["2020-01-01", None])))


def test_arrow():
    arrow = pytest.importorskip("pyarrow")
    x = arrow.array([1, None, 3], "int16")
    with pytest.raises(ArgumentTypeError, match="1 of whose entries are missing"):
        iv.asarray(x)
    same(iv.masked_tensor(x), [1, 7, 3], [True, False, True], "int16")
