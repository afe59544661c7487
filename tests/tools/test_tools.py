"""The programs in ``tools`` that measure the code run on the code as it is."""

from __future__ import annotations

import numpy as np
import pytest

from tools import call_path, one_text, op_places


def test_rules_of_graphs_say_what_eager_kernels_say():
    with np.errstate(all="ignore"):
        counts = one_text.on_values(2, np.random.default_rng(1))
    assert counts["same"] > 80
    assert not [name for name in counts if name.startswith("different")]


def test_the_way_of_a_call_is_counted():
    calls = call_path.recorded(call_path.add())
    assert [call.depth for call in calls][:1] == [1]
    assert len(calls) <= 3
    with pytest.raises(SystemExit, match="got case 'nothing'"):
        call_path.main(["nothing"])


def test_files_that_name_an_op_are_found(tmp_path):
    (tmp_path / "one.py").write_text('TABLE = {"sum": 1, "max": 2, "matmul": 3}\n')
    tables, files = op_places.places(tmp_path)
    assert [table.count for table in tables] == [3]
    assert files["matmul"] == {"one.py"}
    with pytest.raises(SystemExit, match="is no folder"):
        op_places.places(tmp_path / "missing")
