"""gradcheck of all kinds of sparse inputs: in regular semantics (all entries) and masked (stored ones)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.testing import GradcheckError, gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE, SEED, some
from tests.sparse.common import LAYOUTS, holds

pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
W = np.random.default_rng(0).standard_normal((3, 2))


def coo(indices: Any, values: Any, shape: Any, dtype: Any) -> Any:
    array = np.array(values, np.dtype(dtype))
    if array.dtype.kind == "c":
        array = array * (1 + 0.5j)
    return iv.sparse_coo_tensor(np.array(indices, int), array, shape)


def held(x: Any, layout: str) -> Any:
    return iv.asarray(x).to_layout(layout, blocksize=(x.shape[-2] % 2 + 1, 1) if layout[0] == "b" else None)


def nothing(layout: str, shape: Any = (2, 3)) -> Any:
    return lambda dtype: held(np.zeros(shape, dtype), layout)


def matrix(layout: str) -> Any:
    return lambda dtype: held(holds((2, 3), 0.5, 4, dtype), layout)


def hybrid(layout: str) -> Any:
    x = holds((4, 3), 0.5, 4).reshape(2, 2, 3)
    blocks = (2, 1) if layout[0] == "b" else None
    return lambda dtype: iv.asarray(x.astype(dtype)).to_layout(layout, blocksize=blocks, dense_dim=1)


def batch(layout: str) -> Any:
    return lambda dtype: held(holds((4, 3), 0.5, 4, dtype).reshape(2, 2, 3), layout)


#: Matrices of three columns, by how they are held.
INPUTS = {
    "uncoalesced": lambda dtype: coo([[0, 1, 0, 0], [1, 0, 1, 2]], [1.0, 2, 3, 4], (2, 3), dtype),
    "unsorted": lambda dtype: coo([[1, 0], [0, 1]], [2.0, 1], (2, 3), dtype),
    "hybrid": lambda dtype: coo([[2, 0]], [[1.0, 2, 3], [4, 5, 6]], (3, 3), dtype),
    "hybrid uncoalesced": lambda dtype: coo([[1, 0, 1]], np.arange(1.0, 10).reshape(3, 3), (3, 3), dtype),
    "hybrid of nothing": lambda dtype: coo(np.zeros((1, 0), int), np.zeros((0, 3)), (2, 3), dtype),
    "a stored zero": lambda dtype: coo([[0, 1], [1, 2]], [0.0, 1], (2, 3), dtype),
    **{f"{layout} of nothing": nothing(layout) for layout in LAYOUTS},
    **{f"{layout} without rows": nothing(layout, (0, 3)) for layout in LAYOUTS},
    **{layout: matrix(layout) for layout in LAYOUTS},
    **{f"{layout} batch": batch(layout) for layout in LAYOUTS},
    **{f"{layout} hybrid": hybrid(layout) for layout in LAYOUTS},
}
FUNCTIONS = {
    "square": lambda x: x * x,
    "product": lambda x: x @ W,
    "gram": lambda x: x @ x.mT,
    "sums": lambda x: (x * x).sum(axis=0),
    "turned and scaled": lambda x: x.mT * 2.0,
    "with itself": lambda x: x + x * x,
}


def cases() -> list[tuple[str, str, bool]]:
    """A third of the product, moved by the seed: each input in both semantics, and each function."""
    everything = list(product(FUNCTIONS, INPUTS, (False, True)))
    return everything if EXHAUSTIVE else everything[SEED % 3 :: 3]


@pytest.mark.parametrize(("name", "kind", "masked"), cases())
def test_both_semantics(name, kind, masked):
    """By turns in full to first order, to second order or on complex entries."""
    f, x = FUNCTIONS[name], INPUTS[kind]("float64").requires_grad_()
    z = INPUTS[kind]("complex128").requires_grad_()
    checks = [
        lambda: gradcheck(f, (x,), masked=masked),
        lambda: gradgradcheck(f, (x,), masked=masked, fast=True),
        lambda: gradcheck(f, (z,), masked=masked, fast=True),
    ]
    for check in some(f"{name} {kind} {masked}", checks):
        assert check()


class WrongOutside(iv.autograd.Function):
    """x * x with a gradient that is not zero where x stores nothing."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * x).to_dense()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        stored = iv.masked_tensor(x.detach().coalesce() if x.layout == "coo" else x.detach()).get_mask()
        return iv.where(stored.to_dense(), 2.0 * x.to_dense(), 1.0) * g


@pytest.mark.parametrize("kind", [k for k in INPUTS if "without" not in k and "a stored" not in k])
def test_what_is_wrong_only_outside_the_pattern_is_caught(kind):
    """Hybrid, batched, uncoalesced and empty inputs too: every entry is perturbed, stored or not."""
    x = INPUTS[kind]("float64").requires_grad_()
    for fast in (False, True):
        with pytest.raises(GradcheckError):
            gradcheck(WrongOutside.apply, (x,), fast=fast)
