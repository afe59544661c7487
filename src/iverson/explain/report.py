"""`report`: an account of what one call of a function did and what it did not need to do."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from iverson.core.counting.cost import Cost
from iverson.core.inputs.arguments import as_function, checked
from iverson.explain.instrumented_run import observe
from iverson.explain.model import Found
from iverson.explain.page import as_page
from iverson.explain.text import as_text

if TYPE_CHECKING:
    from iverson.transforms.trees import P, R


class Report:
    """Work that a function did on some arguments, and work that it avoided: the result of `report`.

    ``str(report)`` is the account as text, by line of the user's source; notebooks show it as the page of
    `html`.

    Attributes
    ----------
    done : the work done (`iverson.core.counting.cost.Cost`: products, multiply_adds, entries, bytes).
    avoided : the work avoided, by reason.

    >>> import iverson as iv
    >>> report = iv.explain.report(lambda x: iv.sin(x[:2]).sum())(iv.ones(4))
    >>> report.done.entries
    4
    """

    def __init__(self, account: Found) -> None:
        self._found = account
        self.done: Cost = account.done
        self.avoided: dict[str, Cost] = account.avoided()

    def __str__(self) -> str:
        return as_text(self._found)

    def text(self, *, steps: bool = False) -> str:
        """The account as text: totals, and the work of each line of the user's source.

        Parameters
        ----------
        steps : whether the steps of the graph and the pieces of avoided work follow, one a line.

        >>> import iverson as iv
        >>> report = iv.explain.report(lambda x: iv.sin(x).sum())(iv.ones(4))
        >>> "%1 = sin(%0)" in report.text(steps=True)
        True
        """
        return as_text(self._found, steps=steps)

    def html(self) -> str:
        """The account as one HTML page, with the graph drawn; it needs no other file and no network."""
        return as_page(self._found)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page into a file, whose path it returns."""
        where = Path(path)
        where.write_text(self.html(), encoding="utf-8")
        return where

    def _repr_html_(self) -> str:
        page = escape(self.html())
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"<report of {self._found.name}: {len(self._found.steps)} steps>"


@checked
def report(function: Callable[P, R], *, time: bool = False) -> Callable[P, Report]:
    """A function of the same arguments that says what work a call does and what it avoids, and why.

    The function is traced, simplified and run once, with everything counted. What was avoided is what the
    shapes alone would have cost, or what rules that were not run would have.

    Parameters
    ----------
    function : any function of tensors that `iverson.jit` takes, also one made by `jit`, `grad`, `hessian`,
        `vmap` or other transforms.
    time : whether each step is timed: the fastest of five runs.

    Returns
    -------
    A function that gives a `Report`.

    Products, multiply-adds, entries and bytes are counted as by `count`. Factorisations and solves of full
    matrices count the leading terms of Golub and Van Loan, Matrix Computations (4th edition, 2013), as
    multiply-adds; those of sparse matrices and Fourier transforms count as the entries that they read.

    A step that runs graphs (a loop, a branch) is followed by their equations, with the cost of one run. The
    program of a compiled function is listed, too, or those of the compiled functions that a function calls.

    The reasons: "undefined" (no cotangent arrived, or it is structurally zero), "not needed" (nobody asked),
    "box", "pattern" and "bracket" (supports), "mask" (entries that do not exist), "common" (computed once
    already), "dead" (nobody reads it), "constant" (computed while compiling) and "algebra" (the same as
    something simpler).

    Raises GraphError where the function reads entries of its arguments, and whatever it raises.

    >>> import iverson as iv
    >>> gradient = report(iv.grad(lambda x, w: iv.sin(x @ w).sum()))(iv.ones((2, 3)), iv.ones((3, 4)))
    >>> gradient.done.products, gradient.avoided["not needed"].products
    (2, 1)
    """
    as_function(function, "report", "function")

    def reporting(*args: P.args, **kwargs: P.kwargs) -> Report:
        return Report(observe(function, args, kwargs, timed=time))

    return reporting
