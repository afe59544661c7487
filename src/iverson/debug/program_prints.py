"""`print`: the entries of tensors on standard output, each time that a program runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING

import numpy as np

from iverson.core.dispatch import Operand, unwrap
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.protocols import NDArray, Pytree
from iverson.handles import Tensor
from iverson.masked import MaskedTensor
from iverson.transforms.python_callbacks import do
from iverson.transforms.trees import flatten, unflatten

if TYPE_CHECKING:
    from optree import PyTreeSpec


def print(template: str, /, *args: Pytree, **kwargs: Pytree) -> None:
    """Write a line with the entries of tensors to standard output, in compiled code too.

    Parameters
    ----------
    template : a format string of Python: ``"step {}: loss {loss:.3f}"``.
    args, kwargs : what it names: pytrees of tensors, which are printed as arrays and, of rank 0, as numbers;
        anything else as it is.

    Python's own print in a function that is traced prints once, and sees no entries. This one prints each
    time that the program runs: in each step of a loop, of a branch only where that is taken, and in `vmap`
    for each example, or once if the values are the same for all. A branch or a loop that only some examples
    take is run for all of them together, and prints for all. Lines come in the order of the calls. Nothing of
    it is differentiated: a gradient prints what the forward pass prints, and what `checkpoint` computes again
    is printed again.

    Raises
    ------
    ArgumentTypeError : for a template that is no string.
    ArgumentError : for a template that does not fit the arguments.

    >>> import iverson as iv
    >>> @iv.jit
    ... def norm(x):
    ...     y = (x * x).sum()
    ...     iv.debug.print("the sum is {:.1f}", y)
    ...     return y.sqrt()
    >>> norm(iv.asarray([3.0, 4.0]))
    the sum is 25.0
    iverson.Tensor(5.)
    """
    if not isinstance(template, str):
        raise ArgumentTypeError("print", "template", got=described(template), expected="a format string")
    _check(template, args, kwargs)
    leaves, structure = flatten((args, kwargs))
    operands = [(k, x) for k, x in enumerate(leaves) if isinstance(x, Operand)]
    parts = [(k, _parts(x)) for k, x in operands]
    places = [(k, len(of)) for k, of in parts]
    do(_line(template, leaves, structure, places), [x for _, of in parts for x in of])


def _check(template: str, args: Sequence[Pytree], kwargs: Mapping[str, Pytree]) -> None:
    """Raise ArgumentError unless the fields of a template are these arguments."""
    try:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise ArgumentError(
            "print", "template", got=repr(template), expected="a format string", remedy=str(error)
        ) from None
    roots = [name.partition(".")[0].partition("[")[0] for name in fields]
    count = roots.count("")
    missing = [r for r in roots if r and r not in kwargs and not (r.isdigit() and int(r) < len(args))]
    if missing or count > len(args):
        raise ArgumentError(
            "print",
            "template",
            got=f"{template!r}, which names {missing[0] if missing else f'{count} arguments'}",
            expected=f"fields for {len(args)} arguments and the names {sorted(kwargs)}",
            remedy="write {{ for a brace",
        )


def _parts(x: Operand) -> tuple[Tensor, ...]:
    """The tensors to print for an operand: itself, or the entries and the mask of a masked one."""
    return (x.get_data(), x.get_mask()) if isinstance(x, MaskedTensor) else (unwrap(x),)


def _line(
    template: str, leaves: Sequence[Pytree], structure: PyTreeSpec, places: list[tuple[int, int]]
) -> Callable[..., None]:
    """A function that writes the line for arrays in place of the leaves that are tensors.

    places : the numbers of these leaves, each with the number of arrays for it: entries, and a mask.
    """

    def write(*arrays: NDArray) -> None:
        values, remaining = list(leaves), iter(arrays)
        for k, count in places:
            x, *masks = [next(remaining) for _ in range(count)]
            if masks:
                x = np.ma.masked_array(x, ~masks[0])
            values[k] = x if x.ndim or masks else x.item()
        args, kwargs = unflatten(structure, values)
        sys.stdout.write(template.format(*args, **kwargs) + "\n")

    return write


__all__ = ["print"]
