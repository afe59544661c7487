"""Bodies per (op, layout): what is said once stays so, and the rest may only fall."""

from __future__ import annotations

import pytest

from iverson.core.table import TABLE
from iverson.kernels import line_rules
from iverson.layouts import layout_named
from tools.bodies import bodies, table

#: Of how many ops a layout has more than one body, at most.
SEVERAL = {
    "coo": 14,
    "csr": 14,
    "csc": 14,
    "bsr": 14,
    "bsc": 14,
    "box": 4,
    "packed": 0,
    "bracket": 3,
}


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("name", line_rules.RULES)
def test_a_reduction_of_lines_is_said_once(name, layout):
    assert bodies(TABLE[name], layout, layout_named(layout).kind) == {line_rules.RULES[name].rule}


def test_no_op_gets_one_more_body():
    found = {name: sum(n for count, n in counts.items() if count > 1) for name, counts in table().items()}
    found.pop("zero")
    assert found == SEVERAL, "lower the bounds that are higher now; write no op a second time"
