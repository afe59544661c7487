"""An operand handed back as the result is recorded as the identity: so the op must be the identity in it.

Values that an op happens to leave as they are (nothing stored, a stored entry that is moved onto its own
place, zeros written where there are zeros) are not enough: the derivative is that of the op.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.core.errors import LinearAlgebraError
from iverson.core.op import Sampler
from iverson.core.region import Region
from iverson.kernels.kernel_registry import run
from iverson.layouts import Box, Packed, Zero, can_hold, from_strided, layouts, to_strided
from iverson.ops import TABLE
from tests.conformance.product import floating, in_layout, samples_of
from tests.sparse.common import LAYOUTS, checked

LINEAR = [name for name, op in TABLE.items() if op.linear_in and not op.multiple]


def fixed_values(shape: tuple[int, ...], layout: str) -> list[Any]:
    """Values that many ops leave as they are: no entry, and one in the middle."""
    at = tuple(n // 2 for n in shape)
    middle = np.zeros(shape)
    if middle.size:
        middle[at] = 1.5
    if layout == "zero":
        return [Zero(shape, middle.dtype)]
    if layout == "packed":
        return [Packed(m != 0, m[m != 0]) for m in (middle, np.zeros(shape))]
    if layout == "box" and middle.size > 1:
        region = Region(at, tuple(i + 1 for i in at))
        return [Box(shape, region, middle[region.slices])]
    if layout in LAYOUTS and can_hold(layout, shape):
        blocks = (1, 1) if layout[0] == "b" else None
        return [from_strided(m, layout, blocks) for m in (middle, np.zeros(shape))]
    return []


def cases(name: str, layout: str) -> list[tuple[Any, Any, int]]:
    """Values with one in the layout, the others dense, or zero: parameters, values, and which one it is."""
    found = []
    for sample in samples_of(TABLE[name], "float64"):
        positions = floating(sample)
        for k in positions:
            rng = np.random.default_rng(k)
            own = [in_layout(sample.args[k], layout, rng)[0], *fixed_values(sample.args[k].shape, layout)]
            for value in own:
                for zeros in (False, True)[: len(positions)]:
                    values = [
                        Zero(a.shape, a.dtype) if zeros and j in positions else a
                        for j, a in enumerate(sample.args)
                    ]
                    values[k] = value
                    found.append((sample.params, tuple(values), k))
    return found


@pytest.mark.filterwarnings("ignore::iverson.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("layout", [found.name for found in layouts() if found.name != "strided"])
def test_only_the_identity_hands_an_operand_back(layout):
    handed_back = 0
    for name in LINEAR:
        op = TABLE[name]
        for params, values, k in cases(name, layout):
            try:
                out = run(op, values, dict(params))
            except LinearAlgebraError:  # a matrix of zeros
                continue
            if out is not values[k]:
                continue
            handed_back += 1
            dense = [to_strided(v) if hasattr(v, "shape") else v for v in values]
            dense[k] = Sampler(1)(values[k].shape)
            np.testing.assert_array_equal(op.forward(*dense, **params), dense[k], str((name, params, values)))
    assert handed_back or layout not in LAYOUTS  # by ops that are the identity


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("entries", [[], [(1, 2)], [(0, 0), (2, 4)], [(0, 0), (0, 4), (2, 0), (2, 4)]])
def test_a_reversed_slice_of_what_it_leaves_in_place(layout, entries):
    x = np.zeros((3, 5))
    for at in entries:
        x[at] = 3.0
    w = np.random.default_rng(0).standard_normal((3, 5))
    for key in (np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-1], np.s_[:, :], np.s_[:]):
        s = iv.asarray(x).to_layout(layout, blocksize=(1, 1) if layout[0] == "b" else None).requires_grad_()
        found = grad((s[key] * w).sum(), s)
        expected = np.zeros((3, 5))
        expected[key] = w
        np.testing.assert_array_equal(checked(found), expected)
