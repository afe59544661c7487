"""What gradcheck does with masked tensors: only their specified entries are declared.

A direction has no coordinate elsewhere, so nothing else is perturbed; a gradient is held as the vector of
specified entries, so that it is absent elsewhere needs no check of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.layouts import Sparse
from iverson.masked import MaskedTensor, masked_tensor
from iverson.testing.directions import Space, register_space


@dataclass(frozen=True)
class MaskedSpace(Space):
    """The coordinates of a masked tensor: its specified entries in C order.

    shape : of the vector of them; ``mask`` says where they are.
    """

    mask: Any = None

    def declared(self) -> Any:
        return (self.mask, self.complex)

    def place(self, index: tuple[int, ...]) -> tuple[int, ...]:
        flat = self.mask.keys[index[0]]
        return tuple(int(k) for k in np.unravel_index(flat, self.mask.shape))


def _space(x: Any) -> MaskedSpace:
    return MaskedSpace(x._held.shape, x.dtype, mask=x._mask)


register_space(MaskedTensor, _space)


def as_masked(inputs: Any) -> Any:
    """The inputs with each sparse tensor as a masked one of what it stores; a leaf where it is one."""
    import optree

    def wrap(x: Any) -> Any:
        if not isinstance(getattr(x, "_value", None), Sparse):
            return x
        return masked_tensor(x.detach(), requires_grad=x.requires_grad)

    return optree.tree_map(wrap, inputs, none_is_leaf=True)
