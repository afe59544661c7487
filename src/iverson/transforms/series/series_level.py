"""Series level: values that are truncated Taylor series x(t) = x_0 + x_1 t + ... + x_K t^K.

A `Series` holds a handle for each coefficient, of the shape of the value: eager, tracked, traced, or of a
level outside; None for one that is zero. The coefficients of y(t) = f(x(t)) follow from the op's record:

- An op that is linear in what varies is applied to each coefficient, to all in one call where it is a
  product, a sum or a solve. One that is linear in several factors is a Cauchy product, of the pairs that
  exist.
- The record may have a rule, ``taylor``.
- Else they follow from the rule of forward mode, evaluated on series: y'(t) = jvp(x(t), x'(t)), so
  coefficient k of y is coefficient k - 1 of the tangent, over k. The tangent may refer to y itself, of which
  it reads the coefficients below k (Griewank and Walther, Evaluating Derivatives, 2008, chapter 13).

Within a rule, values are lazy and coefficients are computed one order at a time, and equal calls are one.
Conditions read coefficient 0, so that a convention of a derivative selects whole series.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias
from weakref import ref

import numpy as np

from iverson.autograd import forward
from iverson.autograd.accumulate import added
from iverson.autograd.functions.function import Function
from iverson.autograd.mode import is_constant, is_grad_enabled, recording
from iverson.autograd.node import Node, leaf, line_of, make_node, user_call
from iverson.autograd.record import is_undefined
from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import (
    Handle,
    Level,
    LevelValue,
    Wrapper,
    alias,
    bind,
    level_of,
    levels,
    make_handle,
    rebind,
    slot_of,
    value_of,
)
from iverson.core.entries import FULL
from iverson.core.errors import GradientError, GraphError
from iverson.core.float_warnings import silent
from iverson.core.op import Op, frozen
from iverson.core.protocols import DType, Params
from iverson.core.python.exact_keys import exact
from iverson.core.shapes import Shape
from iverson.core.table import TABLE, F, overrides, pushforward_of
from iverson.graph.ir.operations import function_op
from iverson.kernels.deferred_patterns import origin_of
from iverson.kernels.index_keys import canonical_slice
from iverson.layouts import Layout, Sparse, Zero, register, to_strided
from iverson.te.derivatives.taylor_mode import compositions
from iverson.transforms.batching.batch_level import Batch, Batched
from iverson.transforms.series.curves import (
    Curves,
    Directions,
    Factor,
    Places,
    UncollapsibleError,
    places_of_result,
)
from iverson.transforms.series.polynomials import Polynomials

#: A coefficient: a handle outside of the level; None for zero.
Coefficient = Handle | None
#: An operand of a call: a series, a handle outside of the level, an array or a number.
Argument: TypeAlias = Any
#: The calls within a rule, by op, operands and parameters.
Network: TypeAlias = dict[Any, Any]
#: A call of an op or of a Function on handles.
Application: TypeAlias = Callable[..., Any]
#: A product of two coefficients.
Binary: TypeAlias = Callable[..., Any]
#: Coefficient k of each result of a call, for k from 0 upwards.
Terms = Callable[[int], Sequence[Coefficient]]


class Series(LevelValue):
    """A truncated Taylor series; of a call that is not computed yet, coefficients follow one by one.

    top : the order of the coefficient that is summed over the directions of the level, if it has directions.
    opposite : the series of which this one is the negative, if it is one.
    patterns : of a derivative, the identities of the patterns of coefficients that it is made of, None for
        arrays. It stores entries in none of several.
    is_constant : True if all but the first coefficient are known to be zero.
    """

    __slots__ = (
        "_call",
        "_coefficients",
        "_slope",
        "dtype",
        "is_constant",
        "opposite",
        "patterns",
        "shape",
        "top",
    )

    shape: Shape
    dtype: DType

    def __init__(self, level: SeriesLevel, shape: Shape, dtype: DType, call: Call | None, top: int) -> None:
        super().__init__(level)
        self.shape, self.dtype = shape, dtype
        self.top = top
        self.is_constant = False
        self.opposite: Series | None = None
        self.patterns: frozenset[int | None] = frozenset()
        self._call = call
        self._coefficients: list[Coefficient] = []
        self._slope: Series | None = None

    def coefficient(self, k: int) -> Coefficient:
        """Coefficient k, computed with those below it where it is not known."""
        while len(self._coefficients) <= k:
            if self._call is None:
                return None
            self._call.extend(len(self._coefficients))
        return self._coefficients[k]

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        value = self._first_value()
        return value.is_sparse if isinstance(value, LevelValue) else isinstance(value, Sparse)

    @property
    def pattern(self) -> Any:
        return getattr(self._first_value(), "pattern", None)

    @property
    def stored(self) -> Any:
        """Origin of the entries that eager code would store of coefficient 0; None of numbers."""
        return origin_of(self._first_value())

    def _first_value(self) -> Any:
        first = self.coefficient(0)
        return None if first is None or len(self.patterns) > 1 else value_of(first)

    def degree(self, k: int) -> int:
        """The degree of coefficient k in the direction: of a derivative, above k."""
        level: Any = self._level
        order: int = level.order
        return k + order - self.top

    def slope(self) -> Series:
        """The series of the derivative: coefficient k is k + 1 times coefficient k + 1 of this one."""
        if self._slope is None:
            level: Any = self._level
            self._slope = Series(level, self.shape, self.dtype, None, self.top - 1)
            self._slope._call = _Slope(self, self._slope)
            further = [] if self._call is not None else self._coefficients[1:]
            patterns = [getattr(value_of(c), "pattern", None) for c in further if c is not None]
            self._slope.patterns = self.patterns.union([None if p is None else id(p) for p in patterns])
        return self._slope

    def __repr__(self) -> str:
        return f"Series({self.shape}, {self.dtype})"


@silent
def _silently(terms: Terms, k: int) -> Sequence[Coefficient]:
    """Coefficient k of the results of a call: NumPy warns of values alone, as in other derivatives."""
    return terms(k)


class Call:
    """A call whose results are series: computes coefficient k of all of them at once."""

    __slots__ = ("results", "terms")

    def __init__(self, results: Sequence[Series], terms: Terms) -> None:
        self.results = results
        self.terms = terms

    def extend(self, k: int) -> None:
        """Append coefficient k to the results."""
        terms = _silently(self.terms, k) if k else self.terms(k)
        for series, c in zip(self.results, terms, strict=True):
            series._coefficients.append(None if c is None or is_undefined(c) else c)


class _Slope(Call):
    """The derivative of a series as a call of its own."""

    def __init__(self, of: Series, result: Series) -> None:
        super().__init__((result,), lambda k: (_scaled(of.coefficient(k + 1), k + 1),))


def _scaled(c: Coefficient, factor: int) -> Coefficient:
    return c if c is None or factor == 1 else F.multiply(c, factor)


class Coefficients:
    """A series as a ``taylor`` rule of an op reads it: ``x[k]`` is a coefficient, None where that is zero."""

    __slots__ = ("_level", "_of", "_powers", "_top")

    def __init__(self, level: SeriesLevel, of: Argument, top: int) -> None:
        self._level, self._of, self._top = level, of, top
        self._powers: dict[Any, Series] = {}

    def __getitem__(self, k: int) -> Any:
        if type(self._of) is Series:
            return self._level.coefficient(self._of, k, self._top) if k else _first(self._of)
        return None if k else self._of

    @property
    def is_line(self) -> bool:
        return self._level.directions is None

    @property
    def has_lines(self) -> bool:
        return self._level.lines

    @property
    def top_order(self) -> int:
        is_call = type(self._of) is Series and self._of._call is not None
        return 0 if is_call else self._level.order

    def convolved(
        self, other: Coefficients, k: int, product: Binary, weight: Callable[[int], float] | None = None
    ) -> Coefficient:
        """The sum of product(self[j], other[k - j]) over j from 1 to k, times weight(j)."""
        terms = []
        for j in range(1, k + 1):
            a, b = self._factor(j), other._factor(k - j)
            if a is not None and b is not None:
                a = a if weight is None else F.multiply(a, weight(j))
                factors = ((0,), self.degree(j)), ((1,), other.degree(k - j))
                terms.append(self._level.product(product, (a, b), factors))
        return total(terms)

    def _factor(self, k: int) -> Any:
        """Coefficient k as a factor of a product."""
        return self._of.coefficient(k) if type(self._of) is Series else self[k]

    def degree(self, k: int) -> int:
        """The degree of coefficient k in the direction."""
        return self._of.degree(k) if type(self._of) is Series else 0

    def slope_power(self, k: int) -> Any:
        """Coefficient 1 to the power k, whose degree is k times that of coefficient 1."""
        slope = power = self._factor(1)
        degree = self.degree(1)
        for j in range(1, k):
            power = self._level.product(F.multiply, (power, slope), (((0,), j * degree), ((1,), degree)))
        return power

    def power(self, exponent: int, k: int) -> Coefficient:
        """Coefficient k of a power with a whole exponent above 0, by repeated squares."""
        if type(self._of) is not Series:
            return None
        key = "power", exponent
        if key not in self._powers:
            level = self._level
            with level.lazily():
                self._powers[key] = _power(level, self._of, exponent)
        return self._level.coefficient(self._powers[key], k, self._top)


def _power(level: SeriesLevel, x: Series, exponent: int) -> Series:
    """A power as a lazy series: a square for each binary digit, a product for each that is 1."""
    result: Any = None
    square: Any = x
    multiply = TABLE["multiply"]
    while True:
        if exponent & 1:
            result = square if result is None else level.bind(multiply, (result, square), {})
        exponent >>= 1
        if not exponent:
            return result  # type: ignore[no-any-return]
        square = level.bind(multiply, (square, square), {})


def total(terms: Sequence[Coefficient]) -> Coefficient:
    """The sum of the terms that are not zero; None if all are."""
    defined = [t for t in terms if t is not None and not is_undefined(t)]
    return None if not defined else defined[0] if len(defined) == 1 else added(defined)


class SeriesLevel(Level):
    """Series of one order along a curve, or along several, of which the highest coefficients are summed.

    order : the highest coefficient that is kept.
    directions : of curves through one point, whose levels are around this one; coefficients of the orders
        from 1 to ``order - 1`` are values of these, that of the highest order is summed over them. None: one
        curve.
    lines : True if coefficients above 0 are those of several lines, by batches around the level.
    """

    __slots__ = (
        "_constant",
        "_function",
        "_network",
        "_recorded",
        "_sharing",
        "_written",
        "directions",
        "lines",
        "order",
    )

    def __init__(
        self,
        order: int,
        name: str = "jet",
        directions: Directions | Polynomials | None = None,
        *,
        lines: bool = False,
    ) -> None:
        super().__init__(name)
        self.order = order
        self.directions = directions
        self.lines = lines
        self._sharing = directions if isinstance(directions, Directions) and directions.count else None
        self._recorded = is_grad_enabled()
        self._constant = is_constant()
        self._network: Network | None = None
        self._function: Any = None
        self._written: list[tuple[Any, Any, Any]] = []

    # --- values -----------------------------------------------------------------------------------------

    def value(self, coefficients: Sequence[Coefficient], like: Argument = None) -> Series:
        """A series with given coefficients; ``like`` has its shape and dtype if the first one is zero."""
        first = like if coefficients[0] is None else coefficients[0]
        series = Series(self, first.shape, first.dtype, None, self.order)
        series._coefficients += [None if c is None or is_undefined(c) else c for c in coefficients]
        series.is_constant = all(c is None for c in series._coefficients[1:])
        return series

    def handle(self, coefficients: Sequence[Coefficient], like: Argument = None) -> Any:
        """A handle of `value`."""
        return make_handle(self.value(coefficients, like))

    def coefficients_of(self, x: Argument) -> list[Coefficient]:
        """All coefficients of a handle; one that is no series is constant."""
        value = value_of(x)
        if isinstance(value, Series) and value._level is self:
            first = value.coefficient(0)
            first = make_handle(Zero(value.shape, value.dtype)) if first is None else first
            return [first, *(value.coefficient(k) for k in range(1, self.order + 1))]
        return [x] + [None] * self.order

    def coefficient(self, series: Series, k: int, top: int) -> Coefficient:
        """Coefficient k of a series, summed over the directions if k is ``top``."""
        c = series.coefficient(k)
        return c if c is None else self.collapsed(c, k == top, k == series.top)

    def collapsed(self, x: Argument, is_top: bool, is_summed: bool) -> Any:
        """The weighted sum of x over the directions, if it is of the highest order and not summed yet."""
        if self.directions is None or not is_top or is_summed:
            return x
        return self.directions.summed(x)

    def product(self, call: Binary, args: Sequence[Argument], factors: Sequence[Factor]) -> Any:
        """The result of a call on coefficients that is linear in each factor."""
        if self.directions is None:
            return call(*args)
        return self.directions.product(self.order, call, args, factors)

    def variable_of(self, x: Argument) -> Any:
        """Handle that is differentiated within the level; a tensor from outside is a constant series."""
        value = value_of(x)
        if isinstance(value, Series) and value._level is self:
            return x
        return self.handle([alias(x)])

    def writing(self, x: Argument) -> None:
        """Note the value that x had, unless it is a value of this level; see `Level.writing`."""
        if not (isinstance(value := value_of(x), Series) and value._level is self):
            self._written.append((ref(x), value, slot_of(x)))

    def put_back(self, results: Sequence[Argument]) -> bool:
        """Restore tensors around the function; return True if it wrote a series into one that is alive."""

        def alive() -> list[Any]:
            handles = [x for where, *_ in self._written if (x := where()) is not None]
            return [x for x in handles if all(x is not r for r in results)]

        if alive():
            import gc

            gc.collect()
        wrote = bool(alive())
        for where, value, slot in reversed(self._written):
            if (x := where()) is not None and all(x is not r for r in results):
                rebind(x, value, *slot)
        return wrote

    # --- calls ------------------------------------------------------------------------------------------

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """A block in which ops on coefficients are recorded as they would be outside of the level."""
        with recording(self._recorded and not (is_constant() and not self._constant)):
            yield

    @contextmanager
    def lazily(self) -> Iterator[Network]:
        """A block in which calls are not computed, and equal ones are one."""
        before = self._network
        self._network = {} if before is None else before
        try:
            yield self._network
        finally:
            self._network = before

    def bind(self, op: Op, args: tuple[Argument, ...], params: Params) -> Any:
        """The series of the results of an op; see the head of this file."""
        if levels()[-1] is not self:
            with self.innermost():
                return self.bind(op, args, params)
        with self._outside():
            if is_constant() and not self._constant:
                return self._packed(op, self._constants(op, args, params))
            if self._function is not None and op is TABLE["detached"]:
                raise GraphError(
                    self.name, got="detach() in a forward", expected="none in one that is expanded"
                )
            if op is function_op:
                return tuple(self._called(args, params))
            if self._network is not None:
                return self._packed(op, self._shared(self._network, op, args, params))
            places: Places = ()
            if (directions := self._sharing) is not None:
                if op.name == "sum" and (series := self._reduced(directions, args[0], params)) is not None:
                    return series
                args, places = self._arranged(directions, op, args, params)
            try:
                with self.lazily() as network:
                    results = self._shared(network, op, args, params)
                    for x in results:
                        if isinstance(x, Series):
                            x.coefficient(self.order)
                            x._call = None
            except UncollapsibleError:
                results = self._by_lines(lambda *operands: bind(op, operands, params), args)
            if places and directions is not None:
                for x in results:
                    if isinstance(x, Series):
                        x._coefficients = [
                            c if c is None else directions.moved(c, places) for c in x._coefficients
                        ]
            return self._packed(op, results)

    def _arranged(
        self, directions: Directions, op: Op, args: tuple[Argument, ...], params: Params
    ) -> tuple[tuple[Argument, ...], Places]:
        """The operands on curves that the op keeps apart, and the places of the results that tell them apart.

        Directions are carried one by one where the op mixes entries that depend on different ones.
        """
        places: dict[int, Places] = {}
        mixed = op.name in CONTROL
        for k, a in enumerate(args):
            for c in a._coefficients[1:] if type(a) is Series else ():
                if axes := directions.places_of(c):
                    places[k] = axes
                elif directions.batch_of(c) is not None:
                    mixed = True
        if not places:
            return args, ()
        into: Places = ()
        operands = list(args)
        if not mixed and op.differentiable and not op.constant_in.intersection(places):
            out = op.infer(*(_aval(a) for a in args), **params)
            avals = out if op.multiple else (out,)
            mapped = places_of_result(op, args, params, places, avals)
            into = tuple(dict.fromkeys(p for k in places for p in mapped[k])) if all(mapped.values()) else ()
            alike = all(mapped[k] == into for k in places)
            if not (alike or op.entry_map.elementwise) or directions.group(into) is None:
                into = ()
            elif not alike:
                return tuple(self._spread(directions, args, places, avals[0].shape, into)), into
        for k in places:
            operands[k] = self._with_curves(directions, args[k], into)
        return tuple(operands), into

    def _spread(
        self,
        directions: Directions,
        args: Sequence[Argument],
        places: dict[int, Places],
        shape: Shape,
        into: Places,
    ) -> list[Argument]:
        """Operands of an elementwise op on the curves of all places together, of the shape of the result."""
        operands = list(args)
        for k in places:
            series = self.bind(TABLE["broadcast_to"], (args[k],), {"shape": shape})
            operands[k] = self.value(
                [
                    directions.spread(c, into) if directions.places_of(c) else c
                    for c in self.coefficients_of_series(series)
                ],
                series,
            )
        return operands

    def coefficients_of_series(self, series: Series) -> list[Coefficient]:
        """All coefficients of a series of this level; None for zero."""
        return [series.coefficient(k) for k in range(self.order + 1)]

    def _reduced(self, directions: Directions, x: Argument, params: Params) -> Series | None:
        """A sum over an axis that tells apart the directions of x; None of other axes."""
        axes, coefficients = params["axis"], x._coefficients if type(x) is Series else []
        places = {directions.places_of(c) for c in coefficients if directions.batch_of(c) is not None}
        if len(places) != 1 or not any(len(x.shape) + p.axis in axes for of in places for p in of):
            return None
        op, shape = TABLE["sum"], x.shape
        shape = tuple(
            [1 if k in axes else n for k, n in enumerate(shape) if params["keepdims"] or k not in axes]
        )
        return self.value(
            [
                c
                if c is None
                else directions.reduced(c, axes, shape)
                if directions.batch_of(c) is not None
                else bind(op, (c,), params)
                for c in coefficients
            ],
            Aval(shape, x.dtype),
        )

    def _with_curves(self, directions: Directions, series: Series, places: Places) -> Series:
        """A series on the curves of some places, or on one for each direction."""
        coefficients = [
            c if c is None else directions.moved(c, places) if places else directions.one_by_one(c)
            for c in series._coefficients
        ]
        return self.value(coefficients, series)

    def _packed(self, op: Op, results: Sequence[Argument]) -> Any:
        return tuple(results) if op.multiple else results[0]

    def _shared(self, network: Network, op: Op, args: tuple[Argument, ...], params: Params) -> Sequence[Any]:
        """The results of a call, those of an equal one before it if there is one."""
        negates = op.name == "negative" and type(args[0]) is Series
        if negates and args[0].opposite is not None:
            return (args[0].opposite,)
        try:
            key = op, tuple(map(_identity, args)), frozen(params)
            call = network.get(key)
        except TypeError:  # parameters without a hash
            return self._call(op, args, params)
        if call is None:
            results = self._call(op, args, params)
            if negates:
                results[0].opposite = args[0]
            call = network[key] = results, args  # which are alive as long as their identities are keys
        return call[0]

    def _constants(self, op: Op, args: tuple[Argument, ...], params: Params) -> list[Any]:
        """The results on coefficients 0, which do not vary."""
        operands = tuple([_first(a) if type(a) is Series else a for a in args])
        out = run(op, operands, params)
        results = out if op.multiple else (out,)
        return [self.value([x]) if dtypes.is_inexact(x.dtype) else value_of(x) for x in results]

    def _call(self, op: Op, args: tuple[Argument, ...], params: Params) -> Sequence[Any]:
        varying = [k for k, a in enumerate(args) if type(a) is Series and not a.is_constant]
        varying = [k for k in varying if k not in op.constant_in and dtypes.is_inexact(args[k].dtype)]
        rule = CONTROL.get(op.name) if hasattr(op, "evaluate") else None
        if not varying or not (op.differentiable or rule is not None):
            return self._constants(op, args, params)
        if rule is not None:
            return [
                self.value(c) if dtypes.is_inexact(c[0].dtype) else value_of(c[0])
                for c in rule(self, args, params)
            ]
        avals = op.infer(*(_aval(a) for a in args), **params)
        top = self._top(op, args, varying)
        results = [Series(self, a.shape, a.dtype, None, top) for a in (avals if op.multiple else (avals,))]
        patterns = frozenset().union(*(a.patterns for a in args if type(a) is Series))
        for y in results:
            y.patterns = patterns
        groups = _groups(op, args, varying)
        if groups is None and self.directions is not None and not self._is_collapsible(op, args, varying):
            raise UncollapsibleError(
                self.name,
                got=f"{op.name} of a derivative, in a rule of a Function",
                expected="a rule that is linear in what it is given",
            )
        replaced = pushforward_of(op.name) in overrides()
        if groups is not None and not replaced:
            terms: Terms = Product(self, op, args, params, groups, results, top).terms
        elif self._is_composed(op, args, varying) and not replaced:
            terms = self._composed(op, args, params, varying[0])
        else:
            by_rule = None if replaced else self._by_taylor(op, args, params, results, top)
            terms = self._derived(op, args, params, varying, results) if by_rule is None else by_rule
        call = Call(results, terms)
        for series in results:
            series._call = call
        # Integers and booleans do not vary.
        return [x if dtypes.is_inexact(x.dtype) else value_of(x.coefficient(0)) for x in results]

    def _top(self, op: Op, args: Sequence[Argument], varying: Sequence[int]) -> int:
        """The order of the coefficient of the highest degree: excesses of degrees over orders add up."""
        top, remaining = self.order, set(varying)
        for group in (*op.groups(len(args)), tuple(varying)):
            top -= self.order - min([args[k].top for k in remaining.intersection(group)], default=self.order)
            remaining.difference_update(group)
        return top

    def _is_collapsible(self, op: Op, args: Sequence[Argument], varying: Sequence[int]) -> bool:
        """True if an op of a rule is linear in the derivatives of values: then it is so in their sum."""
        slopes = {k for k in varying if args[k].top < self.order}
        return slopes <= {k for group in op.groups(len(args)) for k in group}

    def _by_lines(self, call: Application, args: Sequence[Argument]) -> list[Argument]:
        """The results of a call whose rule is not linear in derivatives: that of a matrix function applies it
        to blocks.

        It is made along lines, each carried by itself, without coefficients of the highest order, which are
        pushed forward together by a series of first order.
        """
        assert self.directions is not None
        series = [a for a in args if type(a) is Series]

        def made(order: int, coefficients: Sequence[Sequence[Coefficient]]) -> list[list[Coefficient]]:
            with SeriesLevel(order, self.name, lines=True) as level:
                handles = iter(
                    [
                        level.handle([*cs, *(None,) * (order + 1 - len(cs))], a)
                        for cs, a in zip(coefficients, series, strict=True)
                    ]
                )
                out = call(*(next(handles) if type(a) is Series else a for a in args))
                return [level.coefficients_of(x) for x in (out if isinstance(out, tuple) else (out,))]

        lower = [[_first(a), *(a.coefficient(k) for k in range(1, self.order))] for a in series]
        results = self.directions.by_lines(lambda cs: made(self.order, cs), lower)
        tops = [[_first(a), a.coefficient(self.order)] for a in series]
        if any(last is not None for _, last in tops):
            for cs, (_, pushed) in zip(results, made(1, tops), strict=True):
                cs[-1] = total([cs[-1], pushed])
        return [self.value(cs) if dtypes.is_inexact(cs[0].dtype) else value_of(cs[0]) for cs in results]

    def _by_taylor(
        self, op: Op, args: Sequence[Argument], params: Params, results: Sequence[Series], top: int
    ) -> Terms | None:
        """The coefficients by the record's own rule; None if there is none for this call."""
        if op.taylor is None:
            return None
        out = [Coefficients(self, y, top) for y in results]
        operands = [Coefficients(self, a, top) for a in args]
        rule = op.taylor(F, tuple(out) if op.multiple else out[0], *operands, **params)
        if rule is NotImplemented:
            return None
        if rule is None:
            raise UncollapsibleError(self.name, got=f"{op.name} of several directions", expected="one line")

        def terms(k: int) -> Sequence[Coefficient]:
            c = rule(k)
            if c is NotImplemented:
                if k:
                    raise AssertionError(op.name)
                return self._first_terms(op, args, params)
            return c if op.multiple else (c,)

        return terms

    def _is_composed(self, op: Op, args: Sequence[Argument], varying: Sequence[int]) -> bool:
        """True for functions of one entry that is real: of complex numbers, not all are analytic, as abs."""
        if self.directions is None or len(varying) != 1 or not op.entry_map.elementwise:
            return False
        return args[varying[0]].dtype.kind != "c"  # type: ignore[no-any-return]

    def _composed(self, op: Op, args: Sequence[Argument], params: Params, varying: int) -> Terms:
        """The coefficients of an elementwise function f of one series x: the sum of f_m (x - x_0)^m.

        Its own coefficients f_m at x_0 are alike for all directions.
        """
        x = args[varying]
        multiply = TABLE["multiply"]
        factors: list[Coefficient] = []
        powers: list[Series] = []

        def start() -> None:
            with SeriesLevel(self.order, self.name) as level:
                first = _first(x)
                slope = make_handle(np.broadcast_to(np.ones((), x.dtype), x.shape))
                operands = [_first(a) if type(a) is Series else a for a in args]
                operands[varying] = level.handle([first, slope, *(None,) * (self.order - 1)])
                factors.extend(level.coefficients_of(bind(op, tuple(operands), params)))
            difference = Series(self, x.shape, x.dtype, None, x.top)
            difference._call = Call((difference,), lambda k: (x.coefficient(k) if k else None,))
            powers.append(difference)
            with self.lazily(), self.innermost():
                while len(powers) < self.order:
                    powers.append(self.bind(multiply, (powers[-1], difference), {}))

        def terms(k: int) -> Sequence[Coefficient]:
            if not factors:
                start()
            if k == 0:
                return (factors[0],)
            pairs = [
                (factors[m], powers[m - 1].coefficient(k)) for m in range(1, k + 1) if factors[m] is not None
            ]
            return (total([F.multiply(f, p) for f, p in pairs if p is not None]),)

        return terms

    def _first_terms(self, op: Op, args: Sequence[Argument], params: Params) -> Sequence[Coefficient]:
        out = run(op, tuple([_first(a) if type(a) is Series else a for a in args]), params)
        return out if op.multiple else (out,)

    def _derived(
        self,
        op: Op,
        args: Sequence[Argument],
        params: Params,
        varying: Sequence[int],
        results: Sequence[Series],
    ) -> Terms:
        """The coefficients from the rule of forward mode, on series."""
        tangents: list[Any] = []

        def start() -> None:
            values = [value_of(a, a) for a in args]
            slots = [slot_of(a) if isinstance(a, Handle) else (None, 0) for a in args]
            parents, indices = [node for node, _ in slots], [max(index, 0) for _, index in slots]
            out: Any = tuple(results) if op.multiple else results[0]
            node = make_node(op, tuple(values), params, tuple(parents), tuple(indices), out, user_call())
            tangents.extend(self.pushed(node, [k in varying for k in range(len(args))]))

        def terms(k: int) -> Sequence[Coefficient]:
            if k == 0:
                return self._first_terms(op, args, params)
            if not tangents:
                start()
            return [self._integrated(t, k, y) for t, y in zip(tangents, results, strict=True)]

        return terms

    def pushed(self, node: Node, varying: Sequence[bool]) -> list[Any]:
        """The tangents of a node's results, as lazy series, along the derivatives of its arguments."""
        incoming = [make_handle(a.slope()) if v else None for a, v in zip(node.args, varying, strict=False)]
        incoming += [None] * (len(node.args) - len(incoming))
        defined = tuple([t is not None for t in incoming])
        op: Any = node.op
        with self.lazily(), self.innermost():
            return list(forward._tangents(node, op, incoming, defined))

    def _integrated(self, tangent: Argument, k: int, y: Series) -> Coefficient:
        """Coefficient k of a series from the series of its derivative."""
        if tangent is None:
            return None
        value = value_of(tangent)
        if not (isinstance(value, Series) and value._level is self):
            return tangent if k == 1 else None
        c = self.coefficient(value, k - 1, k - 1 if k == y.top else -1)
        return c if c is None or k == 1 else F.divide(c, k)

    # --- custom Functions -------------------------------------------------------------------------------

    def _called(self, args: Sequence[Argument], params: Params) -> list[Any]:
        """The results of a call of a Function that a graph has."""
        call = params["call"]
        handles = [make_handle(a) if type(a) is Series else a for a in args]
        return [value_of(x) for x in call(handles[: len(call.handles)])]

    def function(self, function: type[Function], args: tuple[Argument, ...]) -> Any:
        """See `Level.function`: coefficient 0 is the Function outside, others follow from its derivative.

        Its ``forward`` also runs on series, lazily, for what it saves. Along lines, where its derivative has
        ops that are not linear in what they are given.
        """
        if self._function is not None:
            results, self._function = self._function, None
            return results
        if any(isinstance(a, Wrapper) for a in args):
            return None
        if self._sharing is not None:
            args = tuple([self._one_by_one(self._sharing, a) for a in args])
        try:
            return self._of_function(function, args)
        except UncollapsibleError:
            values = [value_of(a, None) for a in args]
            mine = [
                v if type(v) is Series and v._level is self else a for a, v in zip(args, values, strict=True)
            ]
            multiple: list[bool] = []

            def call(*operands: Argument) -> Any:
                out = function.apply(*operands)
                multiple.append(isinstance(out, tuple))
                return out

            with self._outside():
                results = [make_handle(x) for x in self._by_lines(call, mine)]
            return tuple(results) if multiple[0] else results[0]

    def _of_function(self, function: type[Function], args: tuple[Argument, ...]) -> Any:
        """The results of a Function, with coefficients from its derivative."""
        with self._outside():
            out = function.apply(*(_outside(self, a) for a in args))
        firsts = out if isinstance(out, tuple) else (out,)
        handles = [None if x is None else self.handle([x]) for x in firsts]
        results = [value_of(h) if h is not None else None for h in handles]
        values = [value_of(a, None) for a in args]
        mine = [type(v) is Series and v._level is self and not v.is_constant for v in values]
        if any(mine) and not (is_constant() and not self._constant):
            triples = zip(args, values, mine, strict=True)
            variables = tuple([make_handle(v, leaf(v.shape, v.dtype)) if m else a for a, v, m in triples])
            self._function = tuple(handles) if isinstance(out, tuple) else handles[0]
            try:
                with self.lazily(), recording(True):
                    recorded = function.apply(*variables)
            except UncollapsibleError:
                raise
            except (GraphError, GradientError) as error:
                raise GraphError(
                    f"{function.__name__}.apply",
                    got=f"a forward that reads the entries of a series in {self.name} ({error})",
                    expected="functions of iverson: forward runs on series too, for what a derivative reads",
                    remedy="write forward with functions of iverson",
                ) from error
            finally:
                self._function = None
            recorded = recorded if isinstance(recorded, tuple) else (recorded,)
            node = next(
                (n for n, _ in (slot_of(x) for x in recorded if x is not None) if n is not None), None
            )
            if node is not None:
                self._continue(node, mine, results)
        return tuple(handles) if isinstance(out, tuple) else handles[0]

    def _one_by_one(self, directions: Directions, x: Argument) -> Argument:
        """An argument of a Function, with a curve for each direction."""
        value = value_of(x, None)
        if not isinstance(value, Series) or value._level is not self:
            return x
        return make_handle(self._with_curves(directions, value, ()))

    def _continue(self, node: Node, varying: Sequence[bool], results: Sequence[Argument]) -> None:
        """Compute the coefficients above 0 of the results of a Function's node."""
        with self.lazily(), self._outside():
            tangents: list[Any] = []

            def terms(k: int) -> Sequence[Coefficient]:
                if not tangents:
                    tangents.extend(self.pushed(node, varying))
                return [self._integrated(t, k, y) for t, y in zip(tangents, series, strict=True)]

            series = [y for y in results if y is not None]
            call = Call(series, terms)
            for y in series:
                y._call, y.is_constant = call, False
            for y in series:
                y.coefficient(self.order)
                y._call = None


class Product:
    """The coefficients of an op that is linear in each of several groups of operands: a Cauchy product."""

    def __init__(
        self,
        level: SeriesLevel,
        op: Op,
        args: Sequence[Argument],
        params: Params,
        groups: Sequence[tuple[int, ...]],
        results: Sequence[Series],
        top: int,
    ) -> None:
        self.level, self.op, self.args, self.params = level, op, args, params
        self.groups, self.results, self.top = groups, results, top
        self.tops = [min(args[i].top for i in g if type(args[i]) is Series) for g in groups]
        self.fixed = [_first(a) if type(a) is Series else a for a in args]
        self.stacked: list[Sequence[Coefficient]] | None = None
        self.at_once = self._is_one_call()

    def _is_one_call(self) -> bool:
        """True if all coefficients are computed by one call: those of the operand are known."""
        op = self.op
        if op.entry_map.elementwise or op.entry_map.moves or len(self.groups) != 1:
            return False
        members = [self.args[i] for i in self.groups[0]]
        return all(type(a) is Series and a._call is None for a in members)

    def terms(self, k: int) -> Sequence[Coefficient]:
        """Coefficient k of each result."""
        if self.at_once:
            if self.stacked is None:
                self.stacked = self._all()
            return self.stacked[k]
        if self._is_square():
            return (self._squared(k),)
        sums: list[list[Coefficient]] = [[] for _ in self.results]
        for orders in compositions(k, len(self.groups)):
            args = self._operands(orders)
            if args is None:
                continue
            degrees = [j + self.level.order - top for j, top in zip(orders, self.tops, strict=True)]
            out = self.level.product(self._run, args, list(zip(self.groups, degrees, strict=True)))
            for terms, x in zip(sums, out if self.op.multiple else (out,), strict=True):
                terms.append(x)
        return [total(terms) for terms in sums]

    def _run(self, *args: Argument) -> Any:
        return run(self.op, args, self.params)

    def _operands(self, orders: Sequence[int]) -> tuple[Any, ...] | None:
        """Operands with coefficients of these orders in the groups; None if one of these is zero."""
        args = list(self.fixed)
        for group, j, top in zip(self.groups, orders, self.tops, strict=True):
            members: list[Any] = []
            for i in group:
                a = self.args[i]
                if type(a) is Series:
                    members.append(self.level.coefficient(a, j, top))
                else:
                    members.append(a if j == 0 else None)
            if all(c is None for c in members):
                return None
            for i, c in zip(group, members, strict=True):
                args[i] = self._zero(self.args[i]) if c is None else c
        return tuple(args)

    def _zero(self, like: Argument) -> Any:
        """A zero in the place of an operand whose coefficient there is zero."""
        dtype = like.dtype if hasattr(like, "dtype") else self.results[0].dtype
        return make_handle(Zero(getattr(like, "shape", ()), dtype))

    def _is_square(self) -> bool:
        return self.op.name == "multiply" and len(self.groups) == 2 and self.args[0] is self.args[1]

    def _squared(self, k: int) -> Coefficient:
        """Coefficient k of x * x: products of two different coefficients occur twice."""
        x = self.args[0]

        def pair(j: int) -> Coefficient:
            a, b = x.coefficient(j), x.coefficient(k - j)
            if a is None or b is None:
                return None
            factors = ((0,), x.degree(j)), ((1,), x.degree(k - j))
            return self.level.product(F.multiply, (a, b), factors)  # type: ignore[no-any-return]

        twice = _scaled(total([pair(j) for j in range((k + 1) // 2)]), 2)
        return twice if k % 2 else total([twice, pair(k // 2)])

    def _all(self) -> list[Sequence[Coefficient]]:
        """All coefficients by one call of the op, on a batch of those that are not zero.

        Within `vmap`, those that all examples share are a batch of their own.
        """
        level = self.level
        (group,) = self.groups
        terms: list[Sequence[Coefficient]] = [(None,) * len(self.results) for _ in range(level.order + 1)]
        parts: dict[Any, list[int]] = {}
        for k in range(level.order + 1):
            coefficients = [self.args[i].coefficient(k) for i in group]
            if any(c is not None for c in coefficients):
                parts.setdefault(tuple([_examples_of(level, c) for c in coefficients]), []).append(k)
        for orders in parts.values():
            if len(orders) == 1 and level.directions is None:
                terms[orders[0]] = self._by_itself(orders[0])
            else:
                self._stack(orders, terms)
        return terms

    def _stack(self, orders: Sequence[int], terms: list[Sequence[Coefficient]]) -> None:
        """Enter the coefficients of some orders, by one call."""
        level = self.level
        (group,) = self.groups
        pieces: list[list[Any]] = [[] for _ in group]
        sizes, leads = [], []
        for k in orders:
            coefficients = [self.args[i].coefficient(k) for i in group]
            batches = [level.directions.batch_of(c) for c in coefficients] if level.directions else []
            lead = next((b for b in batches if b is not None), None)
            size = 1 if lead is None else lead.size
            for parts, c, i in zip(pieces, coefficients, group, strict=True):
                parts.append(_with_lead(level, self._zero(self.args[i]) if c is None else c, size))
            sizes.append(size)
            leads.append(lead)
        offsets = tuple(itertools.accumulate(sizes, initial=0))
        with Curves(offsets[-1]) as batch:
            args = list(self.fixed)
            for i, parts in zip(group, pieces, strict=True):
                x = parts[0] if len(parts) == 1 else F.concat(*parts, axis=0, offsets=offsets[:-1])
                args[i] = batch.of_examples(x)
            out = run(self.op, tuple(args), self.params)
            parts = [batch.outside(x) for x in (out if self.op.multiple else (out,))]
        for k, start, size, lead in zip(orders, offsets, sizes, leads, strict=False):
            terms[k] = tuple(
                [_part(x, start, size, lead) if has else (x if k == 0 else None) for x, has in parts]
            )

    def _by_itself(self, k: int) -> Sequence[Coefficient]:
        args = self._operands((k,))
        if args is None:
            return (None,) * len(self.results)
        out = run(self.op, args, self.params)
        return out if self.op.multiple else (out,)


def _held(level: SeriesLevel, c: Argument) -> Any:
    """The handle with all curves along axis 0; None for a coefficient that all directions share."""
    if c is None or level.directions is None or level.directions.batch_of(c) is None:
        return None
    return value_of(c).held


def _examples_of(level: SeriesLevel, c: Argument) -> int | None:
    """The identity of the batch around the level that a coefficient has examples of; None if it has none."""
    handle = _held(level, c)
    value = value_of(c if handle is None else handle, None)
    return id(value._level) if isinstance(value, Batched) and value.lead else None


def _with_lead(level: SeriesLevel, c: Argument, size: int) -> Any:
    handle = _held(level, c)
    if handle is not None:
        return handle
    if size == 1:
        return F.expand_dims(c, axis=(0,))
    return F.broadcast_to(c, shape=(size, *c.shape))


def _part(x: Argument, start: int, size: int, lead: Batch | None) -> Any:
    """The coefficient at some places along axis 0."""
    slices = tuple([canonical_slice(slice(None), n) for n in x.shape[1:]])
    if lead is None:
        return F.index_basic(x, key=(start, *slices))
    x = F.index_basic(x, key=(slice(start, start + size, 1), *slices))
    return lead.of_examples(x)


def run(op: Op, args: tuple[Argument, ...], params: Params) -> Any:
    """The results of an op on coefficients."""
    if hasattr(op, "evaluate"):
        out = op.evaluate(args, **params)
        return tuple(out) if op.multiple else out[0]
    return bind(op, args, dict(params))


def _groups(op: Op, args: Sequence[Argument], varying: Sequence[int]) -> list[tuple[int, ...]] | None:
    """The groups of ``linear_in`` that have all operands that vary; None if an operand is in no group."""
    groups = []
    remaining = set(varying)
    for group in op.groups(len(args)):
        if not remaining.isdisjoint(group):
            groups.append(group)
            remaining.difference_update(group)
    return None if remaining else groups


def _first(series: Series) -> Any:
    """Coefficient 0, a zero where it is zero."""
    first = series.coefficient(0)
    return make_handle(Zero(series.shape, series.dtype)) if first is None else first


def _outside(level: SeriesLevel, x: Argument) -> Any:
    """Coefficient 0 of an argument of a call; anything else is itself."""
    value = value_of(x, None)
    return _first(value) if isinstance(value, Series) and value._level is level else x


def _aval(x: Argument) -> Any:
    return Aval(x.shape, x.dtype) if hasattr(x, "shape") else x


def _identity(x: Argument) -> Any:
    """Key that tells an operand apart from other ones."""
    if type(x) is Series:
        return id(x)
    if isinstance(x, Handle):
        node, index = slot_of(x)
        return id(value_of(x)), id(node), index
    return id(x) if hasattr(x, "shape") else exact(x)


#: By op, the coefficients of the results of control flow (`control_series`).
CONTROL: dict[str, Callable[[SeriesLevel, Sequence[Any], Params], Sequence[Sequence[Any]]]] = {}


def _entries(series: Series) -> Any:
    """The entries of a constant; raises GraphError for a series that varies."""
    level_of((series,))  # raises where it was kept after its end
    if series.is_constant:
        return to_strided(value_of(_first(series)))
    where = user_call()
    line = f" at {line_of(where)}" if where else ""
    raise GraphError(
        series._level.name,
        got=f"a read of the entries of a series ({Aval(series.shape, series.dtype)!r}){line}",
        expected="functions of iverson: a value has a coefficient for each order",
        remedy="use x.detach() to read the value alone, which is then constant",
    )


register(
    Layout(
        name="series",
        kind=Series,
        to_strided=_entries,
        check=lambda value: None,
        support=lambda value: FULL,
        buffers=lambda value: (),
        rebuild=lambda value, buffers: value,
        densify_warns=False,
    )
)
