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
    """Pairs of a column number and the column of a Jacobian, all columns of it.

    A group of columns is computed at once if the result is what the rules under test say, else one by one.
    expected : the Jacobian of the rules under test. An entry that is not 0 (nan, for example) counts as
        support.
    weights : gives random weights, none of them 0, for the columns of a group.
    together : gives the weighted sum of the columns of a group, or None if this cannot be used.
    alone : gives one column.
    zero : for each row, the largest magnitude that an entry may have that must be zero.
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
