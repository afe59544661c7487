"""Tables of what patterns share: entries live as long as the patterns do, and no longer."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np

import iverson as iv
from iverson.layouts import CooPattern
from iverson.layouts.placement import placements
from iverson.layouts.weak_tables import ForOthers, StillUsed


def pattern(k: int = 0) -> CooPattern:
    return CooPattern((9,), np.array([[k]]), True)


def test_a_value_goes_with_its_key_or_its_table() -> None:
    table: ForOthers[np.ndarray] = ForOthers()
    first, second = pattern(), pattern()
    for key in (first, second, first):  # one of them again
        table[key] = np.arange(3.0)
    held = [ref(table[p]) for p in (first, second)]
    assert list(table) == [first, second]
    assert first in table
    assert pattern() not in table
    assert table.get(pattern()) is None
    del first, key
    assert held[0]() is None
    assert len(table) == 1
    assert list(table) == [second]
    del table
    assert held[1]() is None
    del second


def test_what_is_still_used_is_found_and_the_rest_forgotten() -> None:
    table: StillUsed[CooPattern] = StillUsed()
    kept = pattern(3)
    table["kept"] = kept
    for k in range(1000):
        table[k] = pattern()
    assert table.get("kept") is kept
    assert table.get(5) is table.get("never") is None
    assert len(table._held) <= 24


def test_operations_on_one_matrix_with_many_leave_nothing_behind() -> None:
    """No collection of cycles is needed either."""
    gc.collect()
    gc.disable()
    try:
        fixed = iv.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (4, 4)).to_layout("csr")
        one = iv.ops.F.pattern_of(fixed)
        for k in range(5):
            other = iv.sparse_coo_tensor([[2, k % 4], [3, 1]], [3.0, 4.0], (4, 4)).to_layout("csr")
            results = [fixed + other, fixed * other, iv.concat([fixed, other]), fixed[1:3], fixed[[0, 2]]]
            assert results[0].sum().item() == 10.0
            del other, results
        assert len(placements(one)) <= 1  # of the layout it was made from
    finally:
        gc.enable()
