"""Every public call in a derivative: what depends on a tensor is differentiated in it, or refused.

The calls are those of the error sweep. Each float tensor among the arguments, a method's own included, is
moved along a direction. Forward and reverse mode, eager and in traces, have to give the differences of all
numbers that come out, of arrays and numbers of Python too.
"""

from __future__ import annotations

import contextlib
import numbers
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

import iverson as iv
from iverson.core.dispatch import Operand
from iverson.core.errors import IversonError
from tests.conformance.product import EXHAUSTIVE, SEED
from tests.errors.calls import Call, calls

STEP = 1e-5

GROUPS = 4

#: Calls whose results are constant in one of their tensors, and why.
CONSTANT = {
    ("iverson.nextafter", 0): "a step of one unit in the last place has the derivative 0, as in JAX",
    ("iverson.astype", 0): "rounded to single precision: differences are those of its grid",
    ("iverson.masked_tensor", 0): "requires_grad=True makes a new leaf",
    ("iverson.sparse_csr_tensor", 4): "requires_grad=True makes a new leaf",
    ("Tensor.detach", 0): "says so",
    ("Tensor.item", 0): "says that a number is meant",
    ("Tensor.masked.item", 0): "says that a number is meant",
}


class Moved(NamedTuple):
    """A call as a function of one of its tensors: of the rest, new ones each time."""

    call: Call
    place: int

    def parts(self) -> tuple[Callable[..., Any], list[Any], Any]:
        function, args, kwargs = self.call.make()
        own = getattr(function, "__self__", None)
        if isinstance(own, (iv.Tensor, iv.MaskedTensor)):
            function, args = function.__func__, (own, *args)
        leaves, tree = optree.tree_flatten((args, kwargs), is_leaf=_is_leaf, none_is_leaf=True)
        return function, leaves, tree

    def operand(self) -> Any:
        """The tensor, a little beside where it stands in the call: that is often a kink."""
        x = self.parts()[1][self.place].detach()
        return x + 0.01 * _direction(x) if isinstance(x, iv.Tensor) and x.layout == "strided" else x

    def __call__(self, x: Any) -> list[Any]:
        """The numbers that come out: float tensors, arrays and Python's numbers."""
        function, leaves, tree = self.parts()
        leaves[self.place] = x
        args, kwargs = optree.tree_unflatten(tree, leaves)
        results = optree.tree_leaves(function(*args, **kwargs), is_leaf=_is_leaf, none_is_leaf=True)
        return [r for r in results if _is_number(r)]


def _is_leaf(x: Any) -> bool:
    return isinstance(x, (Operand, np.ndarray))


def _is_number(x: Any) -> bool:
    if isinstance(x, (Operand, np.ndarray)):
        return (
            np.dtype(x.dtype).kind in "fc"
            if isinstance(x, np.ndarray)
            else iv.isdtype(x.dtype, ("real floating", "complex floating"))
        )
    return isinstance(x, numbers.Number) and not isinstance(x, (bool, int))


def _entries(x: Any) -> np.ndarray:
    if isinstance(x, iv.MaskedTensor):
        x = x.to_tensor(0.0)
    if isinstance(x, iv.Tensor):
        x = x.detach().to_dense().numpy()
    return np.asarray(x)


def _sum(results: list[Any], only_tensors: bool) -> Any:
    """A real number in which no two entries weigh the same."""
    total = 0.0
    for k, r in enumerate(results):
        if isinstance(r, iv.MaskedTensor):
            r = r.to_tensor(0.0)
        if isinstance(r, iv.Tensor):
            r = r.to_dense() if only_tensors else _entries(r)
        elif only_tensors:
            continue
        xp = iv if only_tensors else np
        if r.dtype in (iv.complex64, iv.complex128) if only_tensors else np.iscomplexobj(r):
            r = xp.real(r) + 0.5 * xp.imag(r)
        r = r if only_tensors else np.asarray(r, float)
        total = total + xp.sum(r * np.linspace(0.5 + 0.1 * k, 1.5, int(np.prod(r.shape))).reshape(r.shape))
    return total


def _direction(x: Any) -> Any:
    if isinstance(x, iv.Tensor) and x.layout == "strided":
        entries = np.linspace(0.3, 1.1, int(np.prod(x.shape))).reshape(x.shape) * np.where(
            np.arange(int(np.prod(x.shape))).reshape(x.shape) % 3, 1, -1
        )
        return iv.asarray(entries, dtype=x.dtype)
    return x * 0.4


def _along(g: Any, v: Any) -> float:
    return float(np.sum(np.real(np.conj(_entries(g)) * _entries(v))))


def places() -> Iterator[Moved]:
    for call in calls():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, leaves, _ = Moved(call, 0).parts()
        for k, x in enumerate(leaves):
            if (
                isinstance(x, (iv.Tensor, iv.MaskedTensor))
                and x.dtype in (iv.float64, iv.complex128)
                and x.size
            ):
                yield Moved(call, k)


def verdict(moved: Moved) -> str:
    x = moved.operand()
    v = _direction(x)
    try:
        before, again = (_sum(moved(x + t * v), False) for t in (0.0, 0.0))
    except IversonError:
        return "refused by itself"
    if not np.isfinite(before) or before != again:
        return "random or not finite"
    try:
        steps = [(_sum(moved(x + t * v), False)) for t in (STEP, -STEP, 2 * STEP, -2 * STEP)]
    except IversonError:
        return "refused beside"
    slope = (8 * (steps[0] - steps[1]) - (steps[2] - steps[3])) / (12 * STEP)
    found: dict[str, float] = {}

    def f(y: Any) -> Any:
        return _sum(moved(y), True) + 0.0 * iv.sum(
            iv.real((y.to_tensor(0.0) if isinstance(y, iv.MaskedTensor) else y).to_dense())
        )

    ways = {
        "forward": lambda: float(iv.jvp(f, (x,), (v,))[1]),
        "reverse": lambda: _along(iv.grad(f)(x), v),
        "a trace of reverse": lambda: _along(iv.jit(iv.grad(f), interpret=True)(x), v),
        "reverse of a trace": lambda: _along(iv.grad(iv.jit(f, interpret=True))(x), v),
    }
    for way, derivative in ways.items():
        with contextlib.suppress(IversonError):
            found[way] = derivative()
    if not found:
        return "refused"
    wrong = {k: y for k, y in found.items() if not abs(y - slope) <= 1e-5 * max(1.0, abs(slope), abs(before))}
    return f"wrong: {wrong}, differences {slope}" if wrong else "agrees"


@pytest.mark.parametrize("group", range(GROUPS))
def test_calls_are_differentiated_or_refused(group: int) -> None:
    """One of 12, by turns; all with ``IVERSON_TEST_ALL=1``."""
    agreed, wrong = 0, []
    for k, moved in enumerate(places()):
        if k % GROUPS != group or not (EXHAUSTIVE or (k // GROUPS + SEED) % 12 == 0):
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            text = verdict(moved)
        agreed += text == "agrees"
        name, constant = moved.call.name, (moved.call.name, moved.place) in CONSTANT
        if text.startswith("wrong") != constant:
            wrong.append(f"{name}, argument {moved.place}: {text}")
    assert not wrong, "\n".join(wrong)
    assert agreed > 10


def test_what_is_constant_is_a_call() -> None:
    assert {name for name, _ in CONSTANT} <= {call.name for call in calls()}
