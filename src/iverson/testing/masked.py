"""Gradient checks of masked tensors, of which only the specified entries are declared.

A direction has no coordinate elsewhere, so nothing else is perturbed; a gradient is held as the vector of
specified entries, so that it is absent elsewhere needs no check of numbers. The check is that results do not
depend on anything else (`check_unspecified`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from iverson.core.dispatch import value_of
from iverson.handles import Tensor
from iverson.layouts import Sparse, to_strided
from iverson.masked import MaskedTensor, masked_tensor
from iverson.testing.directions import Space, Vector, address_of, register_space
from iverson.testing.failure_report import OFF_PATTERN, Finding, GradcheckError
from iverson.testing.perturbation import Change, Inputs, Leaf, Output, Problem


@dataclass(frozen=True)
class MaskedSpace(Space):
    """Coordinates of a masked tensor: its specified entries only.

    shape : of the vector of specified entries; ``mask`` says where they are in the tensor.
    """

    mask: Any = None
    partial: ClassVar[bool] = True

    def declared(self) -> Any:
        return (self.mask, self.complex)

    def index_of(self, index: tuple[int, ...]) -> tuple[int, ...]:
        flat = self.mask.keys[index[0]]
        return tuple(int(k) for k in np.unravel_index(flat, self.mask.shape))

    def _rank(self, index: tuple[int, ...]) -> int | None:
        address = address_of(index, self.mask.shape)
        places = np.flatnonzero(self.mask.keys == address)
        return int(places[0]) if places.size else None


def _space(x: MaskedTensor) -> MaskedSpace:
    return MaskedSpace(x._inner.shape, x.dtype, mask=x._mask)


register_space(MaskedTensor, _space)


#: Masked inputs of more entries than these, specified or not, are not written out to change the others.
SMALL = 1 << 20


def check_unspecified(problem: Problem, tolerance: float | None) -> None:
    """Raise GradcheckError if results depend on unspecified entries of masked inputs, or on the layout of a
    mask.

    The function is called again on strided copies of the masked inputs with nan at unspecified entries.
    tolerance : the relative difference that is allowed; by default rounding.
    """
    if not any(v.space.partial for v in problem.variables):
        return
    _, outputs = problem.own()
    _, nan_outputs = problem.call(problem.replaced(_with_nan))
    for before, after in zip(outputs, nan_outputs, strict=True):
        if not before.checked or not after.checked:
            continue
        a, b = _in_order(before), _in_order(after)
        exact = 2e-5 if before.space.dtype in (np.float32, np.complex64) else 1e-11
        rtol = exact if tolerance is None else tolerance
        same_entries = np.array_equal(a[0], b[0]) and a[1].shape == b[1].shape
        scale = float(np.abs(a[1][np.isfinite(a[1])]).max(initial=0.0))
        if not same_entries or not np.allclose(a[1], b[1], rtol=0, atol=rtol * scale, equal_nan=True):
            raise GradcheckError.of(
                problem.operation,
                Finding(
                    "masked contract",
                    output=before.name,
                    contract=OFF_PATTERN,
                    explanation="a result may depend on the specified entries of a masked tensor alone",
                ),
                got=f"a result {before.name} that changes when unspecified entries hold nan",
                expected="the same values and the same mask",
            )


def _in_order(output: Output) -> tuple[Any, Vector]:
    """Addresses of the specified entries of a result, in C order, and its coordinates in this order.

    The addresses are an empty array if the result is not masked.
    """
    coordinates = output.space.coordinates(output.value)
    if not isinstance(output.space, MaskedSpace):
        return np.zeros(0), coordinates
    keys = output.space.mask.keys
    order = np.argsort(keys)
    parts = 2 if output.space.complex else 1
    return keys[order], coordinates.reshape(keys.size, parts)[order].reshape(-1)


def _with_nan(x: Leaf) -> Leaf | MaskedTensor:
    """Strided copy of a masked leaf with nan at its unspecified entries; other leaves, and large ones,
    unchanged.
    """
    if not isinstance(x, MaskedTensor) or x.dtype.kind not in "fcV" or x.size > SMALL:
        return x
    array = np.full(x.size, np.nan, x.dtype)
    array[x._mask.keys] = to_strided(value_of(x._inner))
    mask = np.zeros(x.size, bool)
    mask[x._mask.keys] = True
    requires_grad = x.requires_grad
    return masked_tensor(array.reshape(x.shape), mask.reshape(x.shape), requires_grad=requires_grad)


def as_masked(inputs: Inputs) -> Inputs:
    """Inputs with each sparse tensor replaced by a masked tensor of its stored entries, tracked if
    that was.
    """
    masked: Inputs = _mapped(_masked, inputs)
    return masked


def other_semantics(inputs: Inputs) -> Any:
    """Inputs in the other semantics: sparse tensors become masked, and masked ones plain (0 at unspecified
    entries).
    """
    return _mapped(lambda x: _plain(x) if isinstance(x, MaskedTensor) else _masked(x), inputs)


def _mapped(change: Change, inputs: Inputs) -> Any:
    import optree

    tree: Any = inputs
    return optree.tree_map(change, tree, is_leaf=lambda x: isinstance(x, MaskedTensor), none_is_leaf=True)


def _masked(x: Leaf) -> Leaf | MaskedTensor:
    if not isinstance(x, Tensor) or not isinstance(value_of(x), Sparse):
        return x
    return masked_tensor(x.detach(), requires_grad=x.requires_grad)


def _plain(x: MaskedTensor) -> Any:
    return x.detach().get_data().requires_grad_(x.requires_grad)
