"""Raveling: the entries of a pytree as one vector, for line searches, solvers and Hessians."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.operands import as_operand, cast
from iverson.array_api.entries.creation import zeros
from iverson.array_api.entries.joining import concat
from iverson.array_api.sparse_arrays.sparse_construction import pattern_held
from iverson.core import dtypes
from iverson.core.dispatch import Operand, rewrap, unwrap
from iverson.core.errors import ShapeError
from iverson.handles import Tensor
from iverson.kernels.deferred_patterns import is_sparse
from iverson.ops import F
from iverson.transforms.trees import Tree, flatten, tensors, unflatten

if TYPE_CHECKING:
    from iverson.handles.array import Array
    from iverson.handles.typing import ArrayLike


def ravel_pytree(tree: Tree, /) -> tuple[Tensor, Callable[[Any], Any]]:
    """The entries of all leaves of a tree as one vector, and the function that makes a tree of such a vector.

    Parameters
    ----------
    tree : dicts, lists, tuples, ... of tensors and numbers. Of a sparse tensor its stored entries are taken,
        of a masked one those that exist.

    Returns
    -------
    The vector, of the dtype that the leaves have together, and ``unravel(vector)``, whose leaves have the
    dtypes, layouts and masks of the tree's. Both differentiate. ``unravel`` raises ShapeError for a vector of
    another size.

    Raises ArgumentTypeError for leaves that are no arrays.

    >>> from iverson import asarray, ravel_pytree
    >>> vector, unravel = ravel_pytree({"w": asarray([[1., 2.]]), "b": asarray(3.)})
    >>> vector
    iverson.Tensor([3., 1., 2.])
    >>> unravel(vector * 2)["w"]
    iverson.Tensor([[2., 4.]])
    """
    leaves, structure = flatten(tree)
    leaves = tensors(leaves, "ravel_pytree", "tree")
    parts = [_entries(x) for x in leaves]
    dtype = dtypes.result_type(*parts) if parts else dtypes.default_float
    flat: Any = [cast(F.reshape(p, shape=(prod(p.shape),)), dtype) for p in parts]
    vector = concat(flat, axis=0) if flat else zeros(0)
    ends = [int(n) for n in np.cumsum([0, *(x.shape[0] for x in flat)])]

    def unravel(given: Array | ArrayLike) -> Any:
        """The tree with the entries of a vector."""
        x: Any = as_operand(given, "unravel", "vector")
        if x.shape != (int(ends[-1]),):
            raise ShapeError(
                "unravel", "vector", got=f"shape {x.shape}", expected=f"shape {(int(ends[-1]),)}"
            )
        results = []
        for like, part, (start, stop) in zip(leaves, parts, pairwise(ends), strict=True):
            leaf = F.index_basic(x, key=(slice(start, stop, 1),))
            leaf = cast(F.reshape(leaf, shape=part.shape), part.dtype)
            pattern = _pattern(like)
            results.append(rewrap(like, leaf if pattern is None else F.from_values(leaf, pattern=pattern)))
        return unflatten(structure, results)

    return vector, unravel


def _pattern(x: Operand) -> Any:
    """Pattern of a sparse tensor; None for other values."""
    plain = unwrap(x)
    return pattern_held(plain, "ravel_pytree", "tree") if is_sparse(plain) else None


def _entries(x: Operand) -> Any:
    """The entries of a leaf; the stored entries of a sparse leaf."""
    plain, pattern = unwrap(x), _pattern(x)
    return plain if pattern is None else F.values_at(plain, pattern=pattern)


__all__ = ["ravel_pytree"]
