"""Dtype inference for calls on operands of unknown shape, and `pullback`, an op that waits for shapes.

    %5 = grad_of[body=graph(%3, %0) {                       %5 = grad_of[body=graph(%3, %0) {
      %4: float64[*] = pullback[of='sin', ...](...)   ->      %6: float64[2] = cos(%0)
      return (%4)                                             %4: float64[2] = multiply(%3, %6)
    }, ...](%3, %0)                                           return (%4)  ...

The choice of rules, the values that they read and the sums of their results do not depend on shapes. The
equations that a rule writes do (a broadcast operand's cotangent is summed), so the rule waits for shapes in a
`pullback`, which runs as it stands, on entries or in a trace (`iverson.graph.derivatives.shape_inference`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from iverson.autograd.engine import pulled_back
from iverson.core import dtypes
from iverson.core.aval import Aval, UnknownShape, aval_of, has_shape
from iverson.core.dispatch import make_handle, value_of
from iverson.core.errors import DTypeError, GraphError
from iverson.core.op import Op
from iverson.core.protocols import Params, Shaped
from iverson.graph.ir.nodes import UNDEFINED, Argument, Equation, Value
from iverson.graph.ir.operations import OPERATIONS, GraphOp, is_absent, op_named
from iverson.layouts import Zero

#: Ranks that are tried: with extents of 1, most ops take operands of one of them.
_RANKS = range(4)


def without_shape(op: Op, operands: Sequence[Any], params: Params) -> Any:
    """Infer avals of results where the shape of an operand is unknown: their dtypes, and unknown shapes.

    The dtype is that of the results for operands with extents of 1, or, for an op that moves entries, that
    of its operands. Raises DTypeError as ``abstract`` does, and GraphError where the dtype is not clear.
    """
    ranks = [x.shape.rank for x in operands if not has_shape(x)]
    for rank in [0] if None not in ranks else _RANKS:
        tried = [x if has_shape(x) else _like(x, rank) for x in operands]
        try:
            aval = op.abstract(*tried, **params)
        except DTypeError:
            raise
        except Exception:  # it does not take operands of this rank
            continue
        results = [_unknown(x, None not in ranks) for x in (aval if op.multiple else (aval,))]
        return tuple(results) if op.multiple else results[0]
    if op.entry_map.moves and not op.multiple:
        return Aval(UnknownShape(), dtypes.result_type(*operands))  # type: ignore[arg-type]
    raise GraphError(
        "trace",
        got=f"a call of '{op.name}' with operands of unknown shape",
        expected="an op whose dtype does not depend on shapes",
        remedy="trace the function with examples that have shapes",
    )


def _like(x: Aval, rank: int) -> Aval:
    """An aval with extents of 1 in place of an unknown shape; ``rank`` of them if its rank is unknown too."""
    x_rank: int | None = x.shape.rank  # type: ignore[attr-defined]
    return Aval((1,) * (rank if x_rank is None else x_rank), x.dtype)


def _unknown(x: Aval, ranked: bool) -> Aval:
    """Aval of a result, from the aval ``x`` that it has if all extents of operands are 1.

    ranked : whether the ranks of all operands are known; then the result has the rank of ``x``.
    """
    shape: Any = UnknownShape(x.ndim if ranked else None) if x.ndim or not ranked else ()
    return Aval(shape, x.dtype)


def _pulled(
    args: Sequence[Argument], *, of: str | Op, results: int, wanted: tuple[int, ...], **params: Any
) -> list[Any]:
    """Evaluate `pullback`: cotangents of the inputs ``wanted`` of a call of the op ``of``.

    results : the number of results of that call; ``args`` are their cotangents, the results, and the inputs.
    """
    op = op_named(of) if isinstance(of, str) else of
    g, out, inputs = args[:results], args[results : 2 * results], args[2 * results :]
    if all(map(is_absent, g)):
        return [UNDEFINED] * len(wanted)
    aval = op.abstract(*(aval_of(x) if hasattr(x, "shape") else x for x in inputs), **params)
    avals: Sequence[Aval] = aval if op.multiple else (aval,)
    values = tuple([a if y is UNDEFINED else value_of(y) for y, a in zip(out, avals, strict=True)])
    cotangents: Any = [
        make_handle(Zero(a.shape, a.dtype)) if x is UNDEFINED else x for x, a in zip(g, avals, strict=True)
    ]
    of_inputs: Any = inputs
    result = values if op.multiple else values[0]
    pulled = dict(pulled_back(op, params, of_inputs, result, cotangents, wanted))
    return [pulled.get(k, UNDEFINED) for k in wanted]


def _pulled_abstract(*operands: Shaped, results: int, wanted: tuple[int, ...], **_: Any) -> tuple[Aval, ...]:
    of = [operands[2 * results + k] for k in wanted]
    return tuple([Aval(x.shape, x.dtype) for x in of])


def _narrow(equation: Equation, read: set[Value]) -> Equation:
    at = [k for k, v in enumerate(equation.results) if v in read]
    inputs = tuple([equation.params["wanted"][k] for k in at])
    results = tuple([equation.results[k] for k in at])
    return replace(equation, params={**equation.params, "wanted": inputs}, results=results)


#: ``pullback[of='op', results=n, wanted=..., ...](*cotangents, *results, *inputs)``: the cotangents of those
#: of the inputs of a call of an op that are ``wanted``. Cotangents may be undefined, and results that no rule
#: reads. ``of`` is the record of an op that is not the library's.
pullback = GraphOp(
    name="pullback",
    forward=None,
    abstract=_pulled_abstract,
    multiple=True,
    evaluate=_pulled,
    narrow=_narrow,
)
OPERATIONS[pullback.name] = pullback

__all__ = ["pullback", "without_shape"]
