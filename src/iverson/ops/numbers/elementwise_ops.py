"""The elementwise ops: one Op for each entry of `iverson.core.scalars`, and ``astype``.

The rules follow from the partial derivatives: vjp ``g * conj(d)``, jvp ``t * d``, summed over the axes
that were broadcast. Because an elementwise op touches each entry alone, demands and supports pass through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import Operand, may_select, value_of
from iverson.core.entries import Box, Bracket, Full, Stored
from iverson.core.errors import DTypeError
from iverson.core.float_warnings import trapping
from iverson.core.op import Body, Op, Rule, Sample, Sampler, reading, reads
from iverson.core.protocols import Namespace, NDArray, Shaped, Value
from iverson.core.scalars import ANY, SCALARS, Scalar, converted, result_dtype
from iverson.core.scalars.scalar_record import Strided
from iverson.core.scalars.selection_functions import CHOICE
from iverson.core.shapes import Shape, broadcast_shapes
from iverson.core.table import F as namespace
from iverson.core.table import define, derived
from iverson.kernels import compiled_elementwise
from iverson.kernels.sparse.broadcast_patterns import extent, stretched
from iverson.layouts import Pattern, Sparse, support_of
from iverson.ops.numbers.reduction_ops import is_stored
from iverson.ops.rules import loops, notation, recurrences
from iverson.ops.rules.entry_maps import ELEMENTWISE, Elementwise


def _forward(scalar: Scalar, body: Callable[..., NDArray]) -> Callable[..., Any]:
    """``body`` with a check of the dtypes: raises DTypeError for those that the record does not accept.

    Integers become floats if the record asks for float results, and large arrays take the compiled pass if
    the record says so.
    """
    kinds = scalar.kinds
    if scalar.compiled:
        pays = scalar.compiled if callable(scalar.compiled) else None
        body = compiled_elementwise.function(scalar.name, body, scalar.raises_flags, pays)
    if scalar.result in ("float", "realfloat"):
        floats = kinds.translate({ord(c): None for c in "iub"})

        def forward(*values: Strided) -> Any:
            """The body on floating operands; integers are converted, and other dtypes raise DTypeError."""
            inexact = integral = False
            for v in values:
                if type(v) is np.ndarray:
                    kind = v.dtype.kind
                    if kind in floats:
                        inexact = True
                    elif kind in kinds:
                        integral = True
                    else:
                        _abstract(scalar)(*values)
            if not inexact:
                return body(*(np.asarray(v, dtypes.default_float) for v in values))
            if integral and scalar.space:  # SciPy takes integers beside float32 to float64
                dtype = dtypes.result_type(*values)
                values = tuple([np.asarray(v, dtype) if type(v) is np.ndarray else v for v in values])
            return body(*values)

        return forward
    if kinds == ANY or scalar.strict:
        return body

    def checked(*values: Strided) -> Any:
        for v in values:
            if type(v) is np.ndarray and v.dtype.kind not in kinds:
                _abstract(scalar)(*values)
        try:
            return body(*values)
        except TypeError:
            _abstract(scalar)(*values)  # says what no function of NumPy takes
            raise

    return checked


_KIND_NAMES = {"i": "integer", "u": "integer", "f": "real floating", "c": "complex", "b": "bool"}


def _abstract(scalar: Scalar) -> Callable[..., Aval]:
    """The abstract of an elementwise function: broadcast shape and result dtype; raises DTypeError."""

    def abstract(*operands: Shaped | complex, **_: Any) -> Aval:
        """Aval of the result; raises DTypeError for operands, or a promoted dtype, that the record does not
        accept.
        """
        shapes = [o.shape for o in operands if hasattr(o, "shape")]
        of_values = operands[1:] if scalar.name == "where" else operands
        promoted = dtypes.result_type(*of_values)
        # NumPy's own functions refuse by the dtype that they compute in.
        fits = scalar.strict and dtypes.kind_of(promoted) in scalar.kinds
        # Weak numbers take the promoted dtype.
        operand_dtypes = [getattr(o, "dtype", promoted) for o in operands]
        for k, dtype in () if fits else enumerate([*operand_dtypes, promoted]):
            if dtypes.kind_of(dtype) not in scalar.kinds and not (scalar.name == "clip" and k):
                is_operand = k < len(operand_dtypes)
                raise DTypeError(
                    scalar.name,
                    scalar.arguments[k] if is_operand else "",
                    got=f"dtype {dtype}"
                    if is_operand
                    else f"{' and '.join(map(str, operand_dtypes))}, which become {dtype}",
                    expected=" or ".join(dict.fromkeys(_KIND_NAMES[c] for c in scalar.kinds)),
                    remedy="convert it with astype",
                )
        return Aval(broadcast_shapes(scalar.name, *shapes), result_dtype(scalar, promoted))

    return abstract


def _summed(g: Value, axis: Shape, *, keepdims: bool) -> Any:
    """Sum over ``axis``; for a sparse g, lines without a stored entry are not stored in the result."""
    op = namespace.sum_of_stored if is_stored(g) else namespace.sum
    return op(g, axis=axis, keepdims=keepdims)


@derived
def sum_to(g: Value, shape: tuple[int, ...]) -> Any:
    """g summed over the axes along which an operand of ``shape`` was broadcast."""

    g_shape = g.shape
    if g_shape == shape:
        return g
    lead = len(g_shape) - len(shape)
    if lead:
        g = _summed(g, tuple(range(lead)), keepdims=False)
        g_shape = g_shape[lead:]
        if g_shape == shape:
            return g
    stretched = tuple([k for k, n in enumerate(shape) if n == 1 != g_shape[k]])
    return _summed(g, stretched, keepdims=True) if stretched else g


def _times(F: Namespace, t: Value, d: Any, *, conjugate: bool) -> Any:
    """t * d or t * conj(d), where d may be None (no derivative) or a Python number."""
    if isinstance(d, Operand):
        return F.multiply(t, F.conj(d) if conjugate and d.dtype.kind == "c" else d)
    if d is None:
        return None
    if isinstance(d, complex):
        return t * (d.conjugate() if conjugate else d)
    return t if d == 1 else -t if d == -1 else t * d


def _vjp_rule(scalar: Scalar, i: int) -> Rule | None:
    """The rule for the cotangent of operand ``i``, summed to its shape; None if there is no derivative."""
    if scalar.vjp:
        scalar_rule = scalar.vjp[i]

        def rule(F: Namespace, g: Value, y: Value, *xs: Value) -> Any:
            ct = scalar_rule(F, g, y, *xs)
            return None if ct is None else F.sum_to(ct, xs[i].shape)

        return reading(reads(scalar_rule, skip=2, count=scalar.arity))(rule)
    d = scalar.d[i] if i < len(scalar.d) else None
    if d is None:
        return None

    def derived_rule(F: Namespace, g: Value, y: Value, *xs: Value) -> Any:
        ct = _times(F, g, d(F, y, *xs), conjugate=True)
        return ct if ct is None or ct.shape == xs[i].shape else sum_to(ct, xs[i].shape)

    return reading(reads(d, skip=1, count=scalar.arity))(derived_rule)


def _jvp_rule(scalar: Scalar, i: int) -> Rule | None:
    """The rule for the tangent of operand ``i``, broadcast to the result; None if there is no derivative."""
    if scalar.jvp:
        scalar_rule = scalar.jvp[i]

        def given(F: Namespace, t: Value, y: Value, *xs: Value) -> Any:
            return scalar_rule(F, t, y, *xs)

        return reading(reads(scalar_rule, skip=2, count=scalar.arity))(given)
    d = scalar.d[i] if i < len(scalar.d) else None
    if d is None:
        return None

    def rule(F: Namespace, t: Value, y: Value, *xs: Value) -> Any:
        out = _times(F, t, d(F, y, *xs), conjugate=False)
        return None if out is None else F.broadcast_to(out, shape=y.shape)

    return reading(reads(d, skip=1, count=scalar.arity))(rule)


def within(
    F: Namespace,
    rule: Rule,
    part: Box | Stored,
    i: int,
    g: Value,
    y: Value,
    *xs: Value,
    factors: Shape = (),
    **params: Any,
) -> Any:
    """The part of the cotangent of operand ``i``: the rule on entries that are cut to this region or pattern.

    If operand i was broadcast, all is cut to the entries that the part is broadcast to, and the rule's result
    is summed. The result is NotImplemented if the whole cotangent is better.

    factors : positions of operands; the op is zero where one of these is.
    """
    x_shape, shape = xs[i].shape, y.shape
    if isinstance(part, Stored):
        value = value_of(xs[i], xs[i])
        dense = type(value.support if isinstance(value, Aval) else support_of(value)) is not Stored
        if dense and may_select(g):  # what is stored holds no selection
            return NotImplemented
        at = part.pattern
        if x_shape != shape:
            zeros = [p for k in factors if k != i and (p := _lasting_pattern(F, xs[k])) is not None]
            at = _read_for(F, at, g, x_shape, shape, zeros)
            if at is None:
                return NotImplemented
        entries = _at_pattern(F, rule, at, g, y, *xs, **params)
        if dense and entries is not None and may_select(entries):
            return NotImplemented
        ct = _on(F, entries, at)
        return ct if ct is None or x_shape == shape else F.on_pattern(F.sum_to(ct, x_shape), part.pattern)
    region = part.region.broadcast(x_shape, shape)

    def cut(x: Value | Aval | complex) -> Any:
        shape = getattr(x, "shape", None)
        if shape is None:
            return x
        x_region = region.projected(shape)
        if isinstance(x, Aval):
            return Aval(x_region.shape, x.dtype)
        return x if x_region.covers(shape) else F.index_basic(x, key=x_region.slices)

    ct = rule(F, cut(g), cut(y), *map(cut, xs), **params)
    return None if ct is None else F.embed(ct, key=part.region.slices, shape=x_shape)


def _on(F: Namespace, entries: Value | None, pattern: Pattern) -> Any:
    """Sparse tensor with these entries; None without entries."""
    return None if entries is None else F.with_entries(entries, pattern)


def _lasting_pattern(F: Namespace, x: Value) -> Any:
    """The pattern of a sparse operand without dense axes that is not differentiated further, else None.

    The operand is zero outside of the pattern, in derivatives too.
    """
    value = value_of(x, None)
    if isinstance(value, Sparse) and not value.dense_shape and not F.is_recorded(x):
        return value.pattern
    return None


def _read_for(
    F: Namespace, pattern: Pattern, g: Value, x_shape: Shape, shape: Shape, factors: Sequence[Pattern]
) -> Any:
    """Pattern at which a cotangent is read, for the entries on ``pattern`` of an operand that is broadcast.

    It contains the entries to which these are broadcast, or is the cotangent's own pattern if that has fewer
    entries. None if the rule is better applied to all entries.

    x_shape, shape : of the operand and of the result.
    factors : patterns outside of which the op is zero.
    """
    if not F.is_recorded(g):
        where = support_of(value_of(g))
        if isinstance(where, Stored):
            if where.pattern.count <= extent(pattern, x_shape, shape):
                return where.pattern
        elif not isinstance(where, Full | Bracket):
            return None
    return stretched(pattern, x_shape, shape, factors)


def _at_pattern(
    F: Namespace, rule: Rule, pattern: Pattern, g: Value, y: Value, *xs: Value, **params: Any
) -> Any:
    """Rule applied to the values of all operands at the entries of a pattern, as arrays of stored entries."""
    shape = y.shape
    positions_read = getattr(rule, "reads", None)

    def cut(x: Any, k: int | str = "g") -> Any:
        x_shape = getattr(x, "shape", None)
        if x_shape is None or (shape and not x_shape):
            return x
        if isinstance(x, Aval) or (positions_read is not None and k != "g" and k not in positions_read):
            dense = ((1,) * (len(shape) - len(x_shape)) + x_shape)[pattern.ndim :]
            return Aval(pattern.stored_shape + dense, x.dtype)
        if x_shape != shape:
            return _at_projected(F, x, pattern, shape)
        return F.entries_at(x, pattern, held=k == "g")

    return rule(F, cut(g), cut(y, "y"), *map(cut, xs, range(len(xs))), **params)


def _at_projected(F: Namespace, x: Value, pattern: Pattern, shape: Shape) -> Any:
    """Values of x at the entries of a pattern over the first axes of ``shape``, to which x is broadcast."""
    extents = (1,) * (len(shape) - x.ndim) + x.shape
    dense = extents[pattern.ndim :]
    gathered_axes = [k for k, n in enumerate(extents[: pattern.ndim]) if n != 1]
    x = F.reshape(x, shape=(*(extents[k] for k in gathered_axes), *dense))
    if gathered_axes:
        x = F.gather(x, *(F.along(pattern, k) for k in gathered_axes), axes=tuple(range(len(gathered_axes))))
        return F.to_dense(F.reshape(x, shape=pattern.stored_shape + dense))
    return F.to_dense(F.broadcast_to(x, shape=pattern.stored_shape + dense))


def _samples(scalar: Scalar) -> Callable[[Sampler], Iterator[Sample]]:
    """Function that draws test calls of an elementwise function, in its domain."""

    def samples(s: Sampler) -> Iterator[Sample]:
        """Test calls with operands of equal shape, and of shapes that broadcast."""
        boxes = [d or (None, None) for d in scalar.domain]
        if scalar.name == "where":
            condition = s.rng.random((2, 3)) < 0.5
            yield Sample((condition, s((2, 3)), s((2, 3))))
            yield Sample((condition[0], s((2, 3)), s(())))
            return
        if scalar.orders:
            orders, argument_boxes = (1,) * scalar.orders, boxes[scalar.orders :]
            yield Sample((*orders, *(s((2, 3), *box) for box in argument_boxes)))
            return
        if scalar.kinds in ("iub", "iu"):
            yield Sample(tuple(s.rng.integers(0, 7, (2, 3)) for _ in range(scalar.arity)))
            return
        if scalar.arity == 1:
            yield Sample((s((2, 3), *boxes[0]),))
            yield Sample((s((), *boxes[0]),))
            yield Sample((s((0, 2), *boxes[0]),))
            return
        shapes = [((2, 3), (2, 3), (2, 3)), ((2, 3), (3,), (1, 1)), ((2, 1), (2, 3), (3,))]
        for group in shapes:
            yield Sample(tuple(s(shape, *box) for shape, box in zip(group, boxes, strict=False)))

    return samples


def _loops(scalar: Scalar) -> loops.Loops:
    """The function that builds compiled loops for the elementwise function."""
    if scalar.series is not None:
        return loops.series(scalar.series, scalar.orders)
    return loops.elementwise(scalar.loops or (lambda F, *xs: getattr(F, scalar.name)(*xs)))


#: Recurrences of Taylor coefficients, where rules of forward mode refer to chains of quotients or powers.
_TAYLOR: dict[str, Rule] = {
    "divide": recurrences.divide,
    "reciprocal": recurrences.reciprocal,
    "pow": recurrences.power,
}


def make(scalar: Scalar) -> Op:
    """The Op of an elementwise function."""
    arity = scalar.arity
    vjp = tuple(_vjp_rule(scalar, i) for i in range(arity))
    factors = tuple(group[0] for group in scalar.linear_in if len(group) == 1)
    traps = isinstance(scalar.body, np.ufunc) and not scalar.silent
    return Op(
        name=scalar.name,
        forward=Body(
            _forward(scalar, scalar.body),
            trapping=_forward(scalar, trapping(scalar.body)) if traps else None,
            signals=False if scalar.silent else None,
        ),
        abstract=_abstract(scalar),
        vjp=vjp if any(vjp) else (),
        jvp=()
        if not any(vjp)
        else tuple(
            None if any(i in g for g in scalar.linear_in) and not scalar.jvp else _jvp_rule(scalar, i)
            for i in range(arity)
        ),
        linear_in=scalar.linear_in,
        taylor=_TAYLOR.get(scalar.name),
        entry_map=Elementwise(keeps_zeros=scalar.zero_preserving, selects=scalar in CHOICE),
        vjp_at=partial(within, factors=factors),
        # Rules read orders as numbers: none are derived for operands.
        te=notation.elementwise(scalar.name) if any(vjp) and not scalar.orders else None,
        loops=_loops(scalar),
        samples=_samples(scalar),
        convention=scalar.convention,
    )


for _scalar in SCALARS.values():
    define(make(_scalar))


define(
    Op(
        name="astype",
        forward=lambda x, *, dtype: converted(x, dtype),
        abstract=lambda x, *, dtype: Aval(x.shape, dtype),
        # The engine brings every cotangent to its input's dtype, which is all the transpose of a cast does.
        vjp=(lambda F, g, _y, _x, *, dtype: g,),
        linear_in=((0,),),
        entry_map=ELEMENTWISE,
        vjp_at=within,
        as_stored=True,
        loops=loops.astype,
        samples=lambda s: [Sample((s((2, 3)),), {"dtype": np.dtype("complex128")})],
    )
)
