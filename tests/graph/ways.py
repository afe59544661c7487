"""One function, every way it can be carried out: they agree with eager calls, in value and derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.aval import aval_of
from iverson.errors import GradientError, LinearAlgebraError, MissingRuleError
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.print import show
from iverson.graph.ir.verify import check
from iverson.graph.passes import PASSES
from iverson.graph.tracing.trace import trace_flat
from tests.graph.programs import as_tuple, entries, loss_of

Function = Callable[..., Any]
SIZE = 2
#: What an eager derivative may raise: then every other way raises the same.
REFUSALS = (MissingRuleError, LinearAlgebraError, GradientError)


def derivative(f: Function, order: int, count: int) -> Function:
    """The gradient of ... the gradient in all arguments, each of a number that no entry drops out of."""
    for _ in range(order):
        f = iv.grad(loss_of(lambda *a, f=f: as_tuple(f(*a))), tuple(range(count)))
    return f


def pushed(f: Function) -> Function:
    """A directional derivative, by forward mode: along each argument by a factor of its own.

    Along the arguments alike, that of a ratio would be nothing but rounding.
    """

    def tangent(*args: Any) -> Any:
        direction = tuple([a * (1 + 0.5 * k) for k, a in enumerate(args)])
        return iv.jvp(loss_of(lambda *a: as_tuple(f(*a))), args, direction)[1]

    return tangent


def interpreted(f: Function, args: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The graph of a function, and what is left of it after each pass; run again, a pass changes nothing."""
    graph, captured, _ = trace_flat(lambda *h: (list(as_tuple(f(*h))), None), list(map(aval_of, args)))
    args = [*args, *captured]
    yield "interpreted", interpret(check(graph), args)
    text = show(graph)
    for run in PASSES:
        graph, before = run(graph), text
        if (text := show(graph)) != before:
            assert show(run(check(graph))) == text, run
            yield f"after {run.__name__}", interpret(graph, args)


def examples_of(args: Sequence[Any], which: Sequence[int]) -> list[Any]:
    """Arguments of which some have examples, a little different, along their first axis."""
    found = []
    for k, a in enumerate(args):
        scale = np.reshape(1 + 0.01 * np.arange(SIZE), (SIZE,) + (1,) * a.ndim)
        found.append((entries(a) * scale).astype(a.dtype) if k in which else entries(a))
    return found


def axes_of(args: Sequence[Any], which: Sequence[int]) -> tuple[int | None, ...]:
    return tuple(0 if k in which else None for k in range(len(args)))


def looped(f: Function, which: Sequence[int]) -> Function:
    """What vmap means: a loop over the examples whose results are stacked."""

    def run(*args: Any) -> tuple[Any, ...]:
        rows = [as_tuple(f(*(a[k] if j in which else a for j, a in enumerate(args)))) for k in range(SIZE)]
        return tuple(iv.stack([x.to_dense() for x in parts]) for parts in zip(*rows, strict=True))

    return run


def ways(f: Function, args: Sequence[Any], order: int, which: Sequence[int], native: bool) -> Iterator[Any]:
    """Pairs of a name and a function without arguments that gives results or pairs of a name and results.

    Each comes with the eager function that says what is right.
    """
    count = len(args)
    plain = derivative(f, order, count)
    yield "eager", plain, args, lambda: interpreted(plain, args)
    if native:
        yield "compiled", plain, args, lambda: iv.jit(plain)(*args)
    if order:
        compiled = iv.jit(f, interpret=not native)
        yield "gradient of compiled", plain, args, lambda: derivative(compiled, order, count)(*args)
    if order == 1:
        tangent = pushed(f)
        yield "tangent of compiled", tangent, args, lambda: pushed(compiled)(*args)
        yield "tangent", tangent, args, lambda: interpreted(tangent, args)
    if not which:
        return
    many, axes = list(map(iv.asarray, examples_of(args, which))), axes_of(args, which)
    each = looped(plain, which)
    yield "mapped", each, many, lambda: iv.vmap(plain, axes)(*many)
    yield "mapped and traced", each, many, lambda: iv.jit(iv.vmap(plain, axes), interpret=not native)(*many)
    if order:
        through = derivative(looped(f, which), order, count)
        batch = iv.vmap(f, axes)
        yield "gradient of mapped", through, many, lambda: derivative(batch, order, count)(*many)


def agree(
    found: Any, expected: Sequence[Any], rtol: float, rounding: Callable[[], Sequence[float]] | None = None
) -> None:
    """The same entries in the same dtype and shape, to rounding of the largest of each result, or of what
    cancelled. No argument is tracked, and so nor is a result.

    rounding : how much rounding of the arguments changes each result; asked where results are not the same.
    """
    results = as_tuple(tuple(found) if isinstance(found, list) else found)
    for k, (a, b) in enumerate(zip(results, expected, strict=True)):
        assert (a.shape, a.dtype, a.requires_grad) == (b.shape, b.dtype, False)
        x, y = entries(a), entries(b)
        finite = np.isfinite(y)
        scale = np.abs(y[finite]).max(initial=CANCELLED) if y.dtype.kind in "fc" else 0
        try:
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale, equal_nan=True)
        except AssertionError:
            if rounding is None or not scale:
                raise
            atol = rtol * scale + min(ROUNDINGS * rounding()[k], CANCELLED * max(scale, 1))
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, equal_nan=True)


def rounding_of(f: Function, args: Sequence[Any], expected: Sequence[Any]) -> list[float]:
    """How much results of eager code change where each argument is moved by its last digit, up or down."""
    changes = np.zeros(len(expected))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        moved = []
        for a in args:
            x = entries(a)
            if x.dtype.kind in "fc":
                x = (x * (1 + rng.choice([-1, 1], x.shape) * np.finfo(x.dtype).eps)).astype(x.dtype)
            moved.append(iv.asarray(x))
        for k, (a, b) in enumerate(zip(as_tuple(f(*moved)), expected, strict=True)):
            change = np.abs(np.subtract(entries(a), entries(b), dtype=np.result_type(b.dtype, 1.0)))
            changes[k] = max(changes[k], change[np.isfinite(change)].max(initial=0))
    return changes.tolist()  # type: ignore[no-any-return]


#: Rounding, relative to the largest entry, by order of the derivative.
RTOL = (1e-11, 1e-10, 1e-9, 1e-8)
#: How large what is added up to a result may be where nothing is left of it.
CANCELLED = 1e-6
#: How many roundings of the arguments a result may differ by, of one that is ill-conditioned or all rounding.
ROUNDINGS = 32


def all_ways_agree(
    f: Function, arrays: Sequence[np.ndarray], orders: Sequence[int], which: Sequence[int], native: bool
) -> None:
    """Every way to carry out a function and its derivatives gives what eager calls do.

    which : the arguments that have examples where the function is mapped.
    native : whether what is compiled is so to machine code, which takes its time.
    """
    args = list(map(iv.asarray, arrays))
    for order in orders:
        known: dict[Any, Any] = {}
        for name, reference, given, way in ways(f, args, order, which, native):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                step = ""
                try:
                    if reference not in known:
                        known[reference] = _outcome(reference, given)
                    expected = known[reference]
                    if isinstance(expected, type):
                        assert _outcome(lambda *_, way=way: list(_results(way())), ()) is expected
                        continue
                    for step, found in _results(way()):  # noqa: B007
                        agree(found, expected, RTOL[order], partial(rounding_of, reference, given, expected))
                except Exception as error:
                    error.add_note(f"{name} {step}, derivative {order}")
                    raise


def _results(found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, Iterator):
        yield from found
    else:
        yield "", found


def _outcome(f: Function, args: Sequence[Any]) -> Any:
    """The results, or the error that it raised."""
    try:
        return as_tuple(f(*args))
    except REFUSALS as error:
        return type(error)
