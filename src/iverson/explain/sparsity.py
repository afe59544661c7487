"""`sparsity`: the entries of a Jacobian that may be nonzero, and the passes that give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from iverson.core.inputs.arguments import as_function, checked
from iverson.core.relations import Matrix, listed
from iverson.transforms.derivatives import Argnums, Linearization, with_argnums
from iverson.transforms.jacobians.dependence import Dependence, dependences
from iverson.transforms.jacobians.sparse_jacobian import plan

if TYPE_CHECKING:
    from iverson.transforms.trees import P, R


class Sparsity:
    """The entries of a Jacobian that may be nonzero: what `sparsity` makes. ``str`` of it is the account.

    Attributes
    ----------
    pattern : a ``scipy.sparse.csr_array`` of booleans, with a row for each entry of the outputs and a column
        for each entry of the inputs, in row-major order and one leaf after the other.
    pushforwards, pullbacks : how many passes `iverson.jacobian` makes.
    lost : the calls at which zeros were lost, as text: their results may depend on everything, though their
        operands do not.

    >>> import iverson as iv
    >>> sparsity = iv.explain.sparsity(lambda x: x[1:] * x[:-1])(iv.ones(3))
    >>> sparsity.pattern.toarray().astype(int)
    array([[1, 1, 0],
           [0, 1, 1]])
    """

    def __init__(self, pattern: Matrix, pushforwards: int, pullbacks: int, lost: tuple[str, ...]) -> None:
        self.pattern = pattern
        self.pushforwards = pushforwards
        self.pullbacks = pullbacks
        self.lost = lost

    def __str__(self) -> str:
        m, n = self.pattern.shape
        lines = [
            f"{self.pattern.nnz:,} of {m:,} x {n:,} entries may be nonzero",
            f"{self.pushforwards:,} pushforwards and {self.pullbacks:,} pullbacks give them",
            *(f"everything may depend on everything after {call}" for call in self.lost),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        m, n = self.pattern.shape
        return f"<sparsity of {m} x {n}: {self.pattern.nnz} entries>"


@checked
def sparsity(function: Callable[P, R], argnums: Argnums = 0) -> Callable[P, Sparsity]:
    """A function of the same arguments that says which entries of the Jacobian may be nonzero, and why.

    That follows from the operations, index arrays and patterns of sparse factors, at any point: an entry that
    happens to be 0 at these arguments is not left out. `iverson.jacobian` in a sparse layout stores the same.

    Parameters
    ----------
    function, argnums : as of `iverson.jacobian`. For a Hessian, pass the gradient.

    Returns
    -------
    A function that gives a `Sparsity`. It raises what `iverson.jacobian` raises.

    >>> import iverson as iv
    >>> print(sparsity(lambda x: x[1:] * x[:-1])(iv.ones(1000)))
    1,998 of 999 x 1,000 entries may be nonzero
    2 pushforwards and 0 pullbacks give them
    """
    as_function(function, "sparsity", "function")

    def account(*args: P.args, **kwargs: P.kwargs) -> Sparsity:
        partial, variables, _ = with_argnums(function, args, kwargs, argnums, "sparsity")
        line = Linearization(partial, variables, "sparsity")
        calls: list[str] = []
        dependence_of = dependences(line.variables, line.outputs, line.outer, calls)
        passes = plan(line, "auto")
        m, n = (sum(x.size for x in handles) for handles in (line.outputs, line.inputs))
        if passes is None:
            pushforwards, pullbacks = (0, m) if m <= n else (n, 0)
        else:
            pushforwards = passes.count if passes.forward else 0
            pullbacks = passes.alone.size + (0 if passes.forward else passes.count)
        return Sparsity(_pattern(dependence_of, n), pushforwards, int(pullbacks), tuple(calls))

    return account


def _pattern(outputs: list[Dependence], n: int) -> Matrix:
    """Boolean matrix with the rows of all outputs; a row that depends on everything has all ``n`` columns."""
    from scipy.sparse import vstack

    every = []
    for d in outputs:
        rows, columns = d.pairs
        wide = np.flatnonzero(d.wide)
        counts = np.bincount(rows, minlength=d.wide.size)
        counts[wide] = n
        starts = np.concatenate([[0], np.cumsum(counts)])
        places = np.empty(starts[-1], np.int64)
        is_wide = np.repeat(d.wide, counts)
        places[is_wide] = np.tile(np.arange(n), wide.size)
        places[~is_wide] = columns
        every.append(listed(starts, places, n))
    return vstack(every, format="csr")


__all__ = ["Sparsity", "sparsity"]
