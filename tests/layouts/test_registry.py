"""Which kernel runs: zeros first, then by name, family and layout; and which conversions to strided warn."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iverson.core.aval import Aval
from iverson.core.entry_map import EntryMap
from iverson.core.errors import ArgumentError, DensifyWarning
from iverson.core.region import Region
from iverson.kernels import kernel_registry
from iverson.layouts import Box, Bracket, Csr, Sparse, Zero, from_strided, layouts_by_type
from iverson.ops import TABLE

SHAPE = (3, 4)
SPARSE = from_strided(np.eye(*SHAPE), "csr")
BOX = Box(SHAPE, Region((0, 0), (2, 2)), np.ones((2, 2)))
BRACKET = Bracket(np.ones(SHAPE), np.ones(SHAPE, bool))
ZERO, ARRAY = Zero(SHAPE, np.dtype("float64")), np.ones(SHAPE)


class Related(EntryMap):
    """That of ops which kernels may be registered for under a name of their own."""

    def __init__(self, family: str) -> None:
        self.family = family


#: An op that no layout has a kernel for.
OP = replace(TABLE["hypot"], name="of no kernel", entry_map=Related("of no kernel"), linear_in=())


@pytest.fixture
def kernels() -> Iterator[list[str]]:
    """No kernels but those that a test registers; the names of those that ran."""
    known = kernel_registry.registered()
    kernel_registry.replace_kernels({})
    yield []
    kernel_registry.replace_kernels(known)


def _register(ran: list[str], family: str, kind: type, *, covers: bool = True) -> None:
    @kernel_registry.register(family, kind)
    def kernel(op: Any, values: Any, params: Any) -> Any:
        ran.append(f"{family} {kind.__name__}")
        return values[0] if covers else NotImplemented


@pytest.mark.parametrize("sign", [1, -1])
def test_layouts_go_by_priority_in_whatever_order_they_stand(
    kernels: list[str], sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {type(v): k for k, v in enumerate((BOX, SPARSE, BRACKET, ZERO))}
    for kind, k in kinds.items():
        _register(kernels, "*", kind, covers=False)
        other = replace(layouts_by_type[kind], priority=sign * k)
        monkeypatch.setitem(layouts_by_type, kind, other)
    for count in (2, 3, 4):
        for values in itertools.permutations((BOX, SPARSE, BRACKET, ZERO), count):
            kernels.clear()
            kernel_registry.run_in_layouts(OP, values, {})
            by_priority = sorted((type(v) for v in values), key=lambda kind: -sign * kinds[kind])
            assert kernels == [f"* {kind.__name__}" for kind in by_priority]


def test_kernels_go_from_the_particular_to_the_general(kernels: list[str]) -> None:
    families = (OP.name, "any", "*")
    op = replace(OP, entry_map=Related("any"))
    for family in families:
        for kind in (Csr, Sparse, Box, Bracket):
            _register(kernels, family, kind, covers=False)
    assert kernel_registry.run_in_layouts(op, (SPARSE, ARRAY), {}) is NotImplemented
    own = [f"{family} {kind}" for kind in ("Csr", "Sparse") for family in families]
    assert kernels == own
    kernels.clear()
    kernel_registry.run_in_layouts(op, (BOX, SPARSE, BRACKET, BOX), {})
    of = {kind: [f"{family} {kind}" for family in families] for kind in ("Box", "Bracket")}
    assert kernels == [*of["Bracket"], *own, *of["Box"]]  # by the layouts' priorities
    for first, second in ((BOX, SPARSE), (SPARSE, BRACKET), (BOX, BRACKET)):
        kernels.clear()
        kernel_registry.run_in_layouts(op, (first, second), {})
        assert kernels[0].endswith("Csr" if second is SPARSE else "Bracket")
    kernels.clear()
    _register(kernels, "any", Sparse)
    assert kernel_registry.run(op, (SPARSE, 2.0), {}) is SPARSE
    assert kernels == own[: own.index("any Sparse") + 1]
    kernels.clear()
    assert kernel_registry.run(op, (ARRAY, 2.0), {}).tolist() == np.hypot(ARRAY, 2.0).tolist()
    assert kernels == []


def test_a_group_of_zeros_gives_zero_before_any_kernel(kernels: list[str]) -> None:
    for family in ("*", "of no kernel"):
        _register(kernels, family, Zero)
    linear = replace(OP, linear_in=((0,), (1, 2)), abstract=lambda *a: a[0])
    for values, zero in (
        ((ZERO, ARRAY, ARRAY), True),
        ((ARRAY, ZERO, ZERO), True),
        ((ARRAY, ZERO, ARRAY), False),
        ((ARRAY, ARRAY, ZERO), False),
    ):
        kernels.clear()
        found = kernel_registry.run_in_layouts(linear, values, {})
        assert (type(found) is Zero) is zero
        assert (kernels == []) is zero
    several = replace(linear, multiple=True, abstract=lambda *a: (a[0], Aval((2,), np.dtype("int64"))))
    first, second = kernel_registry.run_in_layouts(several, (ZERO, ARRAY, ARRAY), {})
    assert (first.shape, second.shape, second.dtype) == (SHAPE, (2,), np.dtype("int64"))
    seen: list[Any] = []
    weak = replace(linear, abstract=lambda *a: seen.append(a) or a[0])
    kernel_registry.run_in_layouts(weak, (ZERO, 2.5, ARRAY), {})
    assert seen[0][1] == 2.5  # a Python number is one: it is weak
    assert [type(a) for a in seen[0]] == [Aval, float, Aval]
    assert kernel_registry.annihilated(replace(OP, linear_in=((),)), (ZERO,)) is None


@pytest.mark.parametrize(
    ("other", "warns"),
    [
        (2.0, True),
        (ARRAY, False),
        (np.ones(11), True),
        (np.ones(12), False),
        (np.ones((2, 2, 3, 4)), False),
        (np.array(2.0), True),
        (np.broadcast_to(np.ones(4), SHAPE), True),
        (np.broadcast_to(np.ones(4), (3, 3, 4)), True),
        (np.ones((3, 8))[:, ::2], False),
        (SPARSE, True),
        (BOX, True),
        (from_strided(np.eye(5), "csr"), True),
    ],
)
def test_making_a_sparse_operand_dense_warns_unless_one_of_its_size_is(other: Any, warns: bool) -> None:
    op = replace(OP, forward=lambda *a: np.zeros(()), abstract=lambda *a: a[0])
    for values in ((SPARSE, other), (other, SPARSE)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert kernel_registry.run(op, values, {}).shape == ()
        assert [w.category for w in found] == [DensifyWarning] * (
            warns * sum(isinstance(v, Sparse) for v in values)
        )


def test_nothing_warns_of_zeros_and_boxes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(kernel_registry.run(OP, (ZERO, BOX), {})[:2, :2], np.ones((2, 2)))
    one = from_strided(np.eye(1), "csr")
    with pytest.warns(DensifyWarning):
        kernel_registry.run(OP, (one, np.array(2.0)), {})
    scalar = Zero((), np.dtype("float64"))
    with pytest.warns(DensifyWarning):
        kernel_registry.run(OP, (SPARSE, scalar), {})


def test_an_op_has_one_body_on_strided_operands(kernels: list[str]) -> None:
    with pytest.raises(ArgumentError, match="the strided layout for 'hypot'"):
        _register(kernels, "hypot", np.ndarray)
    assert kernel_registry.registered() == {}
    _register(kernels, "*", np.ndarray)
    assert list(kernel_registry.registered()) == [("*", np.ndarray)]
