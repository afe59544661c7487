"""The dtype of a result is that of the same call on arrays, whatever the layouts.

A term that stores nothing takes part in promotion. Every elementwise and variadic op, one argument in another
layout, pairs of dtypes.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from iverson.core.dispatch import make_handle
from iverson.core.errors import DTypeError
from iverson.core.op import Op
from iverson.core.table import F
from iverson.layouts import layouts, to_strided
from iverson.ops import TABLE
from tests.conformance.product import SEED, in_layout, samples_of, some

DTYPES = ("float32", "float64", "complex64", "int64")
PROMOTING = [
    name
    for name, op in TABLE.items()
    if op.samples and not op.multiple and (op.elementwise or op.arity is None) and op.name != "astype"
]


def promoting_samples(op: Op) -> list[Any]:
    """Samples with two arguments or more that are numbers."""
    return [s for s in samples_of(op, "float64") if sum(map(is_number, s.args)) > 1]


def is_number(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [n for n in PROMOTING if promoting_samples(TABLE[n])])
def test_what_is_not_stored_takes_part_in_promotion(name):
    op = TABLE[name]
    rng = np.random.default_rng(SEED)
    for sample in promoting_samples(op)[:1]:
        numbers = [k for k, a in enumerate(sample.args) if is_number(a)]
        pairs = list(itertools.permutations(DTYPES, 2))
        for of_one, of_rest in some(name, pairs, len(pairs) // 3):
            for k, layout in itertools.product(numbers[:2], (x.name for x in layouts())):
                args = [
                    a.astype(of_one if j == k else of_rest) if is_number(a) else a
                    for j, a in enumerate(sample.args)
                ]
                args[k], dense = in_layout(args[k], layout, rng, "fciu")
                check(name, args, [*args[:k], dense, *args[k + 1 :]], sample.params)


def check(name: str, args: list[Any], dense: list[Any], params: Any) -> None:
    def call(values: list[Any]) -> Any:
        made = [make_handle(v) if hasattr(v, "dtype") and v.dtype.kind != "b" else v for v in values]
        return getattr(F, name)(*made, **params)._value

    try:
        expected = call(dense)
    except DTypeError:
        return
    found = call(args)
    assert found.dtype == expected.dtype, (args, expected.dtype)
    finite = np.isfinite(expected)  # what is not stored wins over inf and nan
    np.testing.assert_allclose(to_strided(found)[finite], expected[finite], rtol=2e-6, atol=1e-6)
