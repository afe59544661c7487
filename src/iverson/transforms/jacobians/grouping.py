"""Column grouping: columns of a sparse matrix that share no row are told apart in one product with their sum.

After A. R. Curtis, M. J. D. Powell and J. K. Reid, "On the estimation of sparse Jacobian matrices", Journal
of the Institute of Mathematics and its Applications 13, 1974.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Members = NDArray[np.intp]
#: How large a matrix of booleans may be.
LARGEST = 1 << 24


def disjoint(support: NDArray[np.bool_]) -> list[Members]:
    """Groups of columns of ``support``, as arrays of column numbers; no two columns of a group have True in
    one row.

    Each column joins the first group that has room. If a row has Trues in more than half of the columns, few
    passes could be saved, and each column is a group of its own.

    There are as many groups at least as a row has Trues; where that says little is won, each is alone.

    >>> disjoint(np.array([[True, False, False, True], [False, True, True, False]]))
    [array([0, 1]), array([2, 3])]
    """
    if 2 * support.sum(axis=1).max(initial=0) > support.shape[1]:
        return list(np.arange(support.shape[1])[:, None])
    group_rows: list[NDArray[np.bool_]] = []
    groups: list[list[int]] = []
    for k, column in enumerate(support.T):
        for rows, members in zip(group_rows, groups, strict=True):
            if not (rows & column).any():
                rows |= column
                members.append(k)
                break
        else:
            group_rows.append(column.copy())
            groups.append([k])
    return [np.array(members) for members in groups]


def group_numbers(at: NDArray[np.int64], count: int) -> NDArray[np.int64] | None:
    """Number of the group that each of ``count`` columns is in; no two columns of a group are in one row.

    The result is None if grouping would save little. For a band, or for neighbours on a grid, the columns k,
    k + p, k + 2p, ... are a group for some p not much larger than the width of a row: this is tried first.

    at : for each row, the numbers of its columns, ascending; shorter rows have -1 in front.

    >>> group_numbers(np.array([[-1, 0, 1], [1, 2, 3], [3, 4, 5]]), 6)
    array([0, 1, 2, 0, 1, 2])
    """
    width = at.shape[1]
    if 2 * width > count:
        return None
    missing = -1 - np.arange(width)
    for period in range(max(width, 1), min(2 * width + 2, count)):
        remainders = np.sort(np.where(at < 0, missing, at % period), axis=1)
        if not (remainders[:, 1:] == remainders[:, :-1]).any():
            return np.arange(count) % period
    if at.shape[0] * count > LARGEST:
        return None
    support = np.zeros((at.shape[0], count), bool)
    rows, _ = np.nonzero(at >= 0)
    support[rows, at[at >= 0]] = True
    numbers = np.empty(count, np.int64)
    for number, members in enumerate(disjoint(support)):
        numbers[members] = number
    return numbers


__all__ = ["Members", "disjoint", "group_numbers"]
