"""Column groups of a sparse Jacobian: one call of the function serves columns that share no row.

The idea is that of A. R. Curtis, M. J. D. Powell and J. K. Reid, "On the estimation of sparse Jacobian
matrices", Journal of the Institute of Mathematics and its Applications 13, 1974. Here the rules under test
say where the Jacobian is zero, so that is checked and not relied on: a group whose derivative is not what its
columns add up to, with random weights, is taken apart, and its columns are found one by one. A row holds one
entry of a group, which may be large, and zeros: the sum is held against the tolerance of a zero, since one
relative to the entry would hide errors where the zeros should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from iverson.testing.directions import Vector
from iverson.transforms.jacobians.grouping import Members, disjoint

Matrix = NDArray[np.float64]


def columns(
    expected: Matrix,
    weights: Callable[[Members], Vector],
    together: Callable[[Members, Vector], Vector | None],
    alone: Callable[[int], Vector],
    zero: Vector,
) -> Iterator[tuple[int, Vector]]:
    """The columns of a Jacobian, by number: of groups where these are as expected, else one by one.

    expected : what the rules under test say. What is not 0 (nan, say) counts as support.
    weights : of the columns of a group, at random, none of them 0.
    together : the weighted sum of columns, or None where it tells nothing.
    alone : one column.
    zero : how large an entry that must be zero may be, by row.
    """
    support = expected != 0
    for members in disjoint(support):
        if members.size > 1:
            w = weights(members)
            total = together(members, w)
            if total is not None:
                remainder = np.abs(total - expected[:, members] @ w)
                if (remainder <= zero * np.abs(w).min()).all():
                    separated = np.where(support[:, members], total[:, None] / w, 0.0)
                    yield from ((int(k), separated[:, n]) for n, k in enumerate(members))
                    continue
        yield from ((int(k), alone(int(k))) for k in members)


__all__ = ["Members", "columns"]
