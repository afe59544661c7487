"""`nans`: the first nan or infinity of a computation, with the call of the user that it arose in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from iverson.autograd.node import line_of, user_call
from iverson.core.counting import checks
from iverson.core.counting.checks import Operands
from iverson.core.errors import NonFiniteError
from iverson.core.inputs.arguments import as_flag, checked
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue, NDArray
from iverson.layouts import Bracket, layouts_by_type, select, stored


@checked
@contextmanager
def nans(*, infinities: bool = True) -> Iterator[None]:
    """Within, the first nan or infinity that is computed raises NonFiniteError, at the user's line.

    Parameters
    ----------
    infinities : whether an infinity that an op makes of finite operands raises, too.

    Each op is looked at, as it is carried out: in eager code, in the backward and forward passes, in `vmap`,
    in the steps of loops and in functions compiled by `jit`, which run op by op within, as slowly as eager
    code. The error says the op, the line of the user's call (of a derivative: of the call that is
    differentiated), how many entries are not finite, and whether an operand had a nan already, which then
    came from data. An infinity among the operands is taken to be meant, as in a mask of attention. NumPy does
    not warn of what raises here.

    Raises
    ------
    NonFiniteError : at the first nan or infinity. Its ``line`` is the file and line.
    ArgumentTypeError : for a flag that is no bool.

    Notes
    -----
    What a rule of a derivative computes on the way is looked at, too: an infinity in it raises even where
    the gradient is finite. Entries outside of the support of a tensor are zeros and never looked at.

    >>> import iverson as iv
    >>> with iv.debug.nans():
    ...     iv.asarray([1.0, 0.0]) * iv.log(iv.asarray([2.0, -1.0]))
    Traceback (most recent call last):
    iverson.core.errors.NonFiniteError: log: got a nan in 1 of 2 entries, first at (1,), from operands ...
    """
    as_flag(infinities, "nans", "infinities")
    with checks.checking(_both if infinities else _nan), np.errstate(all="ignore"):  # it raises instead
        yield


def _nan(op: Op, results: Sequence[LayoutValue], operands: Operands) -> None:
    for result in results:
        entries = _entries(result)
        if entries is not None and (bad := np.isnan(entries)).any():
            source = "operands without one"
            for k, x in enumerate(operands):
                of = _entries(x)
                if of is not None and np.isnan(of).any():
                    source = f"operand {k}, which has one already"
                    break
            raise _error(op, "nan", bad, source)


def _both(op: Op, results: Sequence[LayoutValue], operands: Operands) -> None:
    _nan(op, results, operands)
    for result in results:
        entries = _entries(result)
        if entries is None or np.isfinite(entries).all():
            continue
        inputs = [of for of in map(_entries, operands) if of is not None]
        if inputs and all(np.isfinite(of).all() for of in inputs):
            raise _error(op, "infinity", np.isinf(entries), "finite operands")


def _entries(value: LayoutValue | complex) -> NDArray | None:
    """The entries that a value stores, as an array of floating or complex numbers; None of other values."""
    if isinstance(value, float | complex):
        return np.asarray(value)
    if type(value) not in layouts_by_type or isinstance(value, int) or value.dtype.kind not in "fcV":
        return None
    if isinstance(value, Bracket):
        value = select(value)
    if isinstance(value, np.ndarray | complex):
        return np.asarray(value)
    return stored(value)[1]


def _error(op: Op, kind: str, bad: NDArray, source: str) -> NonFiniteError:
    where = checks.site.get()
    is_exact = where is not None
    where = user_call() if where is None else where
    line = "" if where is None else line_of(where)
    article = "a" if kind == "nan" else "an"
    first = tuple(int(k) for k in np.argwhere(bad)[0])
    error = NonFiniteError(
        op.name,
        got=f"{article} {kind} in {int(bad.sum())} of {bad.size} entries, first at {first}, from {source}"
        + (f", at {line}" if line else ""),
        expected="finite entries",
        remedy="look at the operands of that call: iverson.debug.print prints in compiled code, too",
    )
    error.line, error.is_exact = line, is_exact
    return error


__all__ = ["nans"]
