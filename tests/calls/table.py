"""The calls of each public function: operands by shape and role, each axis, each option.

Elementwise functions follow from their records. What is not here is called as the error sweep calls it,
which has a valid call of every public function.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.scalars import SCALARS
from tests.array_api.test_complete import CONSTANTS, DTYPES, ELSEWHERE
from tests.calls.operands import X, each, lasting, leaves
from tests.errors import calls as sweep

SPACES = {"iv": iv, "linalg": iv.linalg, "fft": iv.fft, "special": iv.special, "nn": iv.nn}


@dataclass(frozen=True)
class Call:
    """``function(*args, **kwargs)`` of a public function; args and kwargs hold operands (`X`)."""

    space: str
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def function(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(SPACES[self.space], self.name)
        return found

    @property
    def operands(self) -> list[X]:
        return [x for x in leaves([self.args, self.kwargs]) if not x.lasting]

    def __str__(self) -> str:
        shown = each(lambda x: "x".join(map(str, x.shape)) or "0-d", [*self.args], X)
        options = each(lambda x: x.shape, dict(self.kwargs), X)
        return f"{self.space}.{self.name}({shown}, {options})"


Made = Iterable[tuple[Any, ...]]
SHAPES = ((), (3,), (2, 3), (2, 3, 2), (0, 3), (2, 0), (1,), (5, 1))
FLAT = ((2, 3), (3,), (5, 7), (0, 3), (1, 2))


def _axes(shape: tuple[int, ...], *, tuples: bool = False, none: bool = True) -> Iterator[Any]:
    n = len(shape)
    if none:
        yield None
    yield from range(-n, n)
    if tuples:
        yield ()
        if n > 1:
            yield from ((0, -1), tuple(range(n)))


def reduced(**options: Any) -> Iterator[tuple[Any, ...]]:
    """Over one axis, several, none and all, each with and without the axes kept."""
    for shape in SHAPES:
        for axis in _axes(shape, tuples=True):
            yield X(shape), {"axis": axis, **options}
        yield X(shape), {"keepdims": True, **options}
    for shape in ((4, 9, 3), (40, 1)):  # many short rows
        yield X(shape), {"axis": (-1,), **options}
    for shape in SHAPES:
        if shape:
            yield X(shape), {"axis": -1, "keepdims": True, **options}


def along(*, none: bool = False, positional: bool = False, **options: Any) -> Iterator[tuple[Any, ...]]:
    """Along each axis, and by default."""
    for shape in SHAPES[1:]:
        if not none or len(shape) == 1:
            yield X(shape), options
        for axis in _axes(shape, none=False):
            yield (X(shape), axis, options) if positional else (X(shape), {"axis": axis, **options})


def of(*shapes: tuple[int, ...], **facts: Any) -> list[tuple[Any, ...]]:
    """One operand, by itself."""
    return [(X(shape, **facts),) for shape in shapes]


def moved(*pairs: tuple[tuple[int, ...], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """An operand of a shape, and other arguments."""
    return [(X(shape), *rest) for shape, rest in pairs]


def square(matrix: str, *rest: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [
        (X((*lead, n, n), matrix=matrix), *rest, options)
        for lead, n in (((), 3), ((2,), 2), ((), 1), ((), 0), ((0,), 2))
    ]


T, V, M = (2, 3, 4), (5,), (3, 4)
AT = lasting([[0, 2, 1, 0], [2, 2, 0, 2]])
PLACES_IN_ORDER = lasting([0, 2, 2, 1])
PLACES = lasting([0, 2, 2, -1])
GAPS = np.where(np.arange(20).reshape(4, 5) % 3 == 1, np.nan, np.arange(20.0).reshape(4, 5) % 7 - 2)
ROWS = X((3, 3), fixed=np.array([[1, 0, 2], [2, 0, 1], [1, 0, 2]]))
HOLES = X((4, 5), fixed=GAPS, low=-2.0)
FULL = X((4, 5))
PRODUCTS = (
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((2, 2, 3), (3, 4)),
    ((2, 1, 2, 3), (4, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((1, 1), (1, 1)),
)


def paired(shapes: Iterable[tuple[Any, Any]], *rest: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [(X(a), X(b), *rest, options) for a, b in shapes]


def _decomposed(**options: Any) -> Iterator[tuple[Any, ...]]:
    for shape in ((3, 3), (4, 2), (2, 2, 4), (1, 1), (0, 3)):
        yield X(shape), {}
        yield X(shape), options


def _take() -> Iterator[tuple[Any, ...]]:
    yield X(V), PLACES
    yield X((3,)), lasting([], "int64")
    for axis in range(-3, 3):
        yield X((3, 3, 4)), lasting([0, 2, -1, 2]), {"axis": axis}


def _along_axis(*values: Any) -> Iterator[tuple[Any, ...]]:
    for axis, at in (
        (0, AT),
        (-2, AT),
        (1, lasting([[0, 3], [1, 1], [2, 0]])),
        (-1, lasting([[0], [1], [2]])),
    ):
        yield X(M), at, *(X(at.shape) for _ in values), {"axis": axis}


def _added() -> Iterator[tuple[Any, ...]]:
    for axis in range(-3, 3):
        shape = [3, 4, 3]
        shape[axis] = 4
        yield X((3, 4, 3)), lasting([0, 2, 2, 1]), X(tuple(shape)), {"axis": axis}
    yield X((3,)), lasting([0, 0]), X((2,))


def _ffts(lengths: Iterable[Any] = (None, 1, 4, 7)) -> Iterator[tuple[Any, ...]]:
    for n, norm in itertools.product(lengths, ("backward", "ortho", "forward")):
        yield X((5,)), {"n": n, "norm": norm}
    for axis in range(-3, 3):
        yield X((3, 2, 4)), {"axis": axis}
    yield X((0, 3)), {}


def _ffts_over() -> Iterator[tuple[Any, ...]]:
    for s, axes in (
        (None, None),
        (None, (0, 2)),
        ((2, 6), (0, 1)),
        ((6, 2, 4), (2, 0, 1)),
        ((3,), (1,)),
        (None, (-1, 0)),
    ):
        yield X((3, 4, 5)), {"s": s, "axes": axes, "norm": "ortho" if s else "backward"}


def _norms(orders: Iterable[Any], shapes: Iterable[Any] = ((3,), T)) -> Iterator[tuple[Any, ...]]:
    for shape, ord_ in itertools.product(shapes, orders):
        yield X(shape), {"ord": ord_}
        for axis in range(-len(shape), len(shape)) if len(shape) > 2 else ():
            yield X(shape), {"ord": ord_, "axis": axis, "keepdims": axis == 1}


def _created(*rest: Any) -> Iterator[tuple[Any, ...]]:
    for shape in ((), (3,), (2, 0), 4):
        yield shape, *rest, {}
        yield shape, *rest, {"dtype": "complex64"}


def _like(*rest: Any) -> Iterator[tuple[Any, ...]]:
    for shape in SHAPES[:5]:
        yield X(shape), *rest, {}
        yield X(shape), *rest, {"dtype": "float32"}


def _extrema() -> Iterator[tuple[Any, ...]]:
    for shape in SHAPES:
        for axis, keepdims in itertools.product(_axes(shape), (False, True)):
            yield X(shape), {"axis": axis, "keepdims": keepdims}
    for entries in ([-2, 0, 1], [1, 0, -2]):
        yield (X((3,), fixed=np.array(entries)),)


def _segmented() -> Iterator[tuple[Any, ...]]:
    for shape in ((3,), (3, 2)):
        yield X(shape), lasting([0, 1, 0]), 2


def _of_factors() -> Iterator[tuple[Any, ...]]:
    for n, columns, adjoint in ((3, (), False), (3, (2,), False), (3, (2,), True), (0, (), False)):
        rows = lasting([1, 2, 0][:n], "int64")
        yield (X((n, n), matrix="regular"), rows), X((n, *columns)), {"adjoint": adjoint}


def _of_numbers(count: int, low: float = 0.5) -> Iterator[tuple[Any, ...]]:
    for shape in SHAPES[:5]:
        yield tuple(X(shape, low, low + 2.0) for _ in range(count))
        yield (*[2.0] * (count - 1), X(shape, low, low + 2.0))


def _splits() -> Iterator[tuple[Any, ...]]:
    yield X((0, 2)), 2
    yield X((0,)), [1]
    yield X((6, 2)), 3
    yield X((6, 2)), [1, 4]
    yield X((6, 2)), [2, 2, 9]
    for axis in range(-2, 2):
        yield X((6, 4)), 2, {"axis": axis}


#: Arguments of calls by name, each a tuple; a dict at its end has options.
MAIN: dict[str, Callable[[], Made]] = {
    **dict.fromkeys(
        (
            "sum",
            "prod",
            "max",
            "min",
            "all",
            "any",
            "count_nonzero",
            "mean",
            "logsumexp",
            "median",
            "nansum",
            "nanprod",
            "nanmax",
            "nanmin",
            "nanmean",
            "nanmedian",
        ),
        reduced,
    ),
    **{name: lambda: [*reduced(), *reduced(correction=1)] for name in ("var", "std", "nanvar", "nanstd")},
    **dict.fromkeys(("argmax", "argmin", "nanargmax", "nanargmin"), _extrema),
    **{
        name: lambda whole=whole: [
            (X(s), q, {"axis": a})
            for s in SHAPES[1:4]
            for a in _axes(s, tuples=True)
            if a != ()
            for q in (0.3 * whole, lasting([0.0, 0.25 * whole, whole]))
        ]
        for names, whole in ((("quantile", "nanquantile"), 1.0), (("percentile", "nanpercentile"), 100.0))
        for name in names
    },
    **{
        name: lambda: [*along(none=True), *along(none=True, include_initial=True)]
        for name in ("cumulative_sum", "cumulative_prod")
    },
    **dict.fromkeys(("cummax", "cummin", "logcumsumexp"), along),
    **{name: lambda: [(X((2, 3)),), *along(positional=True)] for name in ("nancumsum", "nancumprod")},
    **{name: lambda: along(positional=True) for name in ("softmax", "log_softmax")},
    **{name: lambda: [*along(), *along(descending=True)] for name in ("sort", "argsort")},
    "ffill": lambda: [(HOLES,), (HOLES, 0), (HOLES, -2), (HOLES, {"limit": 1})],
    "bfill": lambda: [(HOLES,), (HOLES, 0), (HOLES, -2), (HOLES, {"limit": 1})],
    "topk": lambda: (
        [(X(M), 2, {"axis": a, "largest": w}) for a in (-2, -1, 0, 1) for w in (True, False)]
        + [(X((3,)), 0), (X((3,)), 3)]
    ),
    "kthvalue": lambda: [(X(M), k, {"axis": a, "keepdims": k == 1}) for a in (-2, -1, 0, 1) for k in (1, 3)],
    "diff": lambda: [
        *along(),
        (X(M), 2),
        (X(M), 0),
        (X((2, 1)), 3),
        (X(M), {"prepend": X((3, 1)), "append": X(M)}),
        (X(M), {"axis": 0, "prepend": X((2, 4))}),
    ],
    "trapezoid": lambda: [
        *((X(M), {"axis": a, "dx": 0.5}) for a in (-2, -1, 0, 1)),
        (X(M), X((4,))),
        (X(M), X((3,)), {"axis": 0}),
        (X((2, 0)),),
    ],
    "reshape": lambda: moved(
        (T, ((4, 6),)), (T, ((-1, 2),)), ((), ((1, 1),)), ((0, 3), ((3, 0),)), (T, (-1,))
    ),
    "permute_dims": lambda: moved(
        *((T, (p,)) for p in itertools.permutations(range(3))), (T, ((-1, 0, -2),)), ((), ((),))
    ),
    "transpose": lambda: moved((T, ()), ((), ()), (M, ((1, 0),)), (T, ((2, 0, 1),))),
    "swapaxes": lambda: moved(*((T, (a, b)) for a in range(-3, 3) for b in (0, -1))),
    "matrix_transpose": lambda: of(M, T, (0, 2), (1, 1)),
    "moveaxis": lambda: moved(*((T, (a, b)) for a in range(-3, 3) for b in (0, -1)), (T, ((0, 2), (1, 0)))),
    "expand_dims": lambda: [(X(T), {"axis": a}) for a in (*range(-4, 4), (0, -2))] + [(X(()), {"axis": 0})],
    "squeeze": lambda: [(X((2, 1, 3, 1)), {"axis": a}) for a in (None, 1, -1, 3, -3, (1, -1))] + [(X(()),)],
    "broadcast_to": lambda: moved(
        ((3, 1), ((2, 3, 4),)), ((), ((2, 0),)), ((3,), ((3,),)), ((1,), ((4,),)), ((), ((),))
    ),
    "flip": lambda: [(X(s), {"axis": a}) for s in SHAPES for a in _axes(s, tuples=True) if a != ()],
    "roll": lambda: (
        [(X(T), k, {"axis": a}) for k in (5, -1) for a in (None, *range(-3, 3))]
        + [(X(T), (1, 2), {"axis": (0, -1)}), (X((0,)), 1), (X(()), 1)]
    ),
    "rot90": lambda: (
        [(X(T), k) for k in range(5)]
        + [(X((0, 2)),)]
        + [(X(T), 1, {"axes": a}) for a in ((2, 0), (1, 2), (-1, 0))]
    ),
    "tile": lambda: moved(
        ((2, 3), ((2, 2),)),
        ((3,), ((2, 1, 2),)),
        (T, ((2,),)),
        ((2, 3), ((0, 1),)),
        ((), ((3,),)),
        ((0, 3), ((2, 2),)),
    ),
    "repeat": lambda: (
        [(X(M), 2, {"axis": a}) for a in (None, -2, -1, 0, 1)]
        + [
            (X((0, 3)), 2, {"axis": 0}),
            (X(M), 0, {"axis": 0}),
            (X(M), lasting([1, 0, 2]), {"axis": 0}),
            (X(()), 3),
        ]
    ),
    "diagonal": lambda: [(X(s), {"offset": k}) for s in (M, T, (0, 2)) for k in (0, 1, -2, 9)],
    "diag": lambda: [(X(s), {"k": k}) for s in ((3,), M) for k in (0, 1, -2)],
    **{
        n: lambda: [(X(s), {"k": k}) for s in (M, T, (3, 3), (0, 2)) for k in (0, 1, -2)]
        for n in ("tril", "triu")
    },
    "concat": lambda: (
        [([X(T), X(T)], {"axis": a}) for a in (None, *range(-3, 3))]
        + [([X(T), X((1, 3, 4))],), ([X((0, 3)), X((2, 3))],), ([X(()), X(())], {"axis": None})]
    ),
    "stack": lambda: (
        [([X(T), X(T)], {"axis": a}) for a in range(-4, 4)]
        + [([X(()), X(()), X(())],), ([X((0,)), X((0,))],)]
    ),
    "unstack": lambda: [(X(T), {"axis": a}) for a in range(-3, 3)] + [(X((2, 0)),), (X((0, 2)),)],
    "split": _splits,
    "array_split": lambda: [(X((7, 4)), 3, {"axis": a}) for a in (-2, -1, 0, 1)] + [(X((0, 2)), 2)],
    "pad": lambda: moved(
        ((2, 3), (1,)),
        ((2, 3), ((1, 2),)),
        ((2, 3), (((0, 0), (2, 1)),)),
        ((0, 2), (1,)),
        ((0, 2), (1, "constant", {"constant_values": 3})),
        ((), (0,)),
        ((3,), ((1, 2), "reflect")),
        ((2, 3), (1, "constant", {"constant_values": 3})),
        ((2, 3), (((1, 0), (5, 7)), "reflect")),
        *(
            ((2, 3), ((2, 3), m))
            for m in ("edge", "wrap", "symmetric", "linear_ramp", "mean", "maximum", "minimum")
        ),
    ),
    "broadcast_arrays": lambda: [(X((2, 1)), X((1, 3)), X(())), (X((0, 1)), X((3,)))],
    "meshgrid": lambda: (
        [(X((3,)), X((2,)), {"indexing": i}) for i in ("xy", "ij")] + [(X((2,)), X((3,)), X((2,)))]
    ),
    "take": _take,
    "take_along_axis": _along_axis,
    "gather": _along_axis,
    "scatter_add": lambda: _along_axis("values"),
    "scatter": lambda: [
        (X(M), lasting([[0, 2, 1, 0], [2, 1, 0, 1]]), X((2, 4)), {"axis": 0}),
        (X(M), lasting([[0, 3], [1, 0], [2, 1]]), X((3, 2)), {"axis": -1}),
    ],
    "index_add": _added,
    "masked_fill": lambda: [
        (X(M), lasting(np.arange(12).reshape(M) % 3 == 0), X(())),
        (X((0, 2)), lasting([True, False]), X(())),
    ],
    "searchsorted": lambda: [
        (X((5,), fixed=np.array([0, 1, 1, 2, 4])), X(s, 0.0, 5.0), {"side": side})
        for s in ((), (3,), (2, 3), (0,))
        for side in ("left", "right")
    ],
    **dict.fromkeys((f"segment_{n}" for n in ("sum", "mean", "max", "min", "prod", "softmax")), _segmented),
    "embedding": lambda: [
        (PLACES_IN_ORDER, X((3, 2))),
        (lasting([[0], [2]]), X((3, 2))),
        (lasting(1), X((3, 2))),
    ],
    "isin": lambda: (
        [(X((2, 3)), X((4,)), {"invert": i}) for i in (False, True)] + [(X((3,)), X((0,))), (X(()), X((2,)))]
    ),
    "isclose": lambda: (
        [*paired([((2, 3), (3,)), ((), ()), ((0,), ())]), (X((3,)), X((3,)), {"rtol": 0.4, "atol": 0.3})]
    ),
    "allclose": lambda: (
        [*paired([((2, 3), (3,)), ((), ()), ((0,), ())]), (X((3,)), X((3,)), {"rtol": 0.4, "atol": 5})]
    ),
    "nan_to_num": lambda: [(HOLES,), (HOLES, {"nan": 7.0}), (X(()),), (X((0, 2)),)],
    "interp": lambda: [
        (X(s, -1.0, 6.0), X((4,), fixed=np.array([0, 1, 2, 4])), X((4,))) for s in ((), (3,), (2, 3), (0,))
    ],
    "convolve": lambda: [
        (X((a,)), X((b,)), {"mode": m})
        for a, b in ((5, 3), (2, 4), (1, 1))
        for m in ("full", "same", "valid")
    ],
    "cov": lambda: [(X(M),), (X(V),), (X((1, 4)),), (X(M), {"correction": 0})],
    **{n: lambda: of((), (3,), M, (0, 2), T) for n in ("atleast_1d", "atleast_2d", "atleast_3d")},
    **{
        n: lambda: [([X(a), X(b)],) for a, b in (((3,), (3,)), (M, M), ((0,), (0,)), (T, T))]
        for n in ("hstack", "vstack", "dstack", "column_stack")
    },
    "append": lambda: [
        (X(M), X((2,))),
        (X(M), X((2, 4)), {"axis": 0}),
        (X(()), X((0,))),
        (X(M), X((3, 1)), {"axis": -1}),
    ],
    "insert": lambda: [
        (X((4,)), 1, X(())),
        (X((4,)), -4, X((2,))),
        (X(M), 2, X((4,)), {"axis": 0}),
        (X(M), 0, X((3,)), {"axis": 1}),
        (X(M), 5, X((2,))),
    ],
    "delete": lambda: [
        (X((4,)), 1),
        (X((4,)), [0, -1]),
        (X(M), slice(0, 2), {"axis": 1}),
        (X(M), [], {"axis": 0}),
    ],
    "flatnonzero": lambda: of((3,), M, (0, 2), ()),
    **{n: lambda: [(3,), (3, 1), (2, -1, 4), (0,)] for n in ("tril_indices", "triu_indices")},
    "unravel_index": lambda: [(lasting([4, 0, 5], "int64"), (2, 3)), (lasting(3, "int32"), (4,))],
    "ravel_multi_index": lambda: [((lasting([1, 0], "int64"), lasting([2, 1], "int64")), (2, 3))],
    "fill_diagonal": lambda: [(X(s), 2) for s in ((3, 3), (2, 3), (3, 2), (0, 2), (2, 3, 3))],
    "diag_embed": lambda: [(X(s), {"offset": k}) for s in ((3,), (2, 3), (2, 0), (1,)) for k in (0, 1, -2)],
    **{n: lambda: [(X((7,)), X((5,))), (X(M), X((0,)))] for n in ("union1d", "intersect1d", "setdiff1d")},
    "lexsort": lambda: [([X((5,)), X((5,))],), ([X(M)],)],
    "logspace": lambda: [(0, 2), (0.5, 2, 5), (0, 1, 4, {"endpoint": False, "base": 2.0}), (0, 1, 0)],
    "geomspace": lambda: [(1, 1000), (0.5, 2, 5), (-1, -8, 4), (1, 8, 3, {"endpoint": False})],
    "average": lambda: [
        (X(M),),
        (X(M), 1),
        (X(M), 0, X((3,), 0.2, 2.0)),
        (X(M), None, X(M, 0.2, 2.0)),
        (X(M), {"axis": (0, 1)}),
    ],
    "ptp": lambda: [(X(s), a) for s in ((3,), M, T) for a in _axes(s)],
    "heaviside": lambda: paired([(s, s) for s in ((3,), M, ())]),
    "lerp": lambda: [(X(M), X(M), 0.25), (X(M), X((4,)), X(()))],
    **{n: lambda: paired([(s, s) for s in ((3,), M, ())]) for n in ("fmax", "fmin")},
    **{n: lambda: of((3,), M, (0, 2)) for n in ("isposinf", "isneginf")},
    "polyval": lambda: [(X((4,)), X(s)) for s in ((), (3,), M, (0,))],
    "vander": lambda: [(X((3,)),), (X((3,)), 5), (X((4,)), 2, {"increasing": True}), (X((3,)), 0)],
    "gradient": lambda: [(X((5,)),), (X((2,)), 0.5), (X(M), 2.0, {"axis": 0}), (X(T), {"axis": 1})],
    "unwrap": lambda: [
        (X((7,), -9.0, 9.0),),
        (X(M, -9.0, 9.0), {"axis": 0}),
        (X((7,), -9.0, 9.0), {"period": 4.0}),
        (X((1,)),),
    ],
    "cdist": lambda: [(X((3, 2)), X((4, 2))), (X((3, 2)), X((4, 2)), 1.0), (X((0, 2)), X((4, 2)))],
    "dist": lambda: [(X(M), X(M)), (X(M), X((4,)), 1.0), (X((3,)), X(()))],
    "view_as_real": lambda: [(X((3,)),), (X(M),)],
    "view_as_complex": lambda: [(X((3, 2)),), (X((2, 3, 2)),)],
    "corrcoef": lambda: [(X(M),), (X((1, 4)),), (X((2, 5)),)],
    "bincount": lambda: [
        (lasting([0, 2, 2, 3]), {"weights": X((4,)), "minlength": 6}),
        (lasting([0, 2, 2, 3]),),
        (lasting([], "int64"),),
    ],
    "histogram": lambda: [
        (X((7,)), 4),
        (X((2, 3)), 3, {"weights": X((2, 3))}),
        (X((7,)), 3, {"range": (-1.0, 1.0)}),
        (X((7,)), lasting([-1.0, 0.0, 0.5, 2.0]), {"density": True}),
    ],
    "nonzero": lambda: of((3,), M, (0, 2), (2, 3, 2)),
    "argwhere": lambda: of((3,), M, (0, 2), ()),
    **{
        name: lambda: [*of((7,), M, (0,), ()), (ROWS, {"axis": 0}), (ROWS, {"axis": -1})]
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values")
    },
    "unique": lambda: [(X((7,)),), (X(M),), (X((7,)), {"return_counts": True}), (X((2, 3)), {"axis": 1})],
    "where": lambda: [
        (lasting([True, False, True]), X((2, 3)), X((3,))),
        (lasting(True), X(()), X((2,))),
        (lasting([[True], [False]]), X((0,)), X(())),
    ],
    "clip": lambda: [
        (X((2, 3)), -0.5, 1.0),
        (X((2, 3)), None, 1),
        (X((2, 3)), 0, None),
        (X((2, 3)), X((3,)), X(())),
        (X((0,)), 0, 1),
        (X(()), 0, 1),
    ],
    "round": lambda: [*of(*SHAPES[:5]), (X((3,)), {"decimals": 1})],
    "matmul": lambda: paired(PRODUCTS),
    "vecdot": lambda: (
        paired([((3,), (3,)), ((2, 3), (3,)), ((0,), (0,)), ((0, 3), (3,))])
        + [(X(T), X(T), {"axis": a}) for a in range(-3, 0)]
    ),
    "outer": lambda: paired([((3,), (2,)), ((0,), (2,)), ((1,), (1,))]),
    "kron": lambda: paired([((3,), (2,)), ((2, 3), (2, 2)), ((2, 1), (3,)), ((0, 2), (2, 2))]),
    "tensordot": lambda: [
        *paired([((3,), (2,)), ((), (2, 3))], axes=0),
        (X(M), X((4, 2)), {"axes": 1}),
        (X(T), X((3, 4, 2))),
        (X(T), X((4, 2, 5)), {"axes": ((0, 2), (1, 0))}),
        (X((2, 0)), X((0, 3)), {"axes": 1}),
    ],
    "einsum": lambda: [
        ("ij,jk->ik", X((2, 3)), X((3, 4))),
        ("ij->ji", X((2, 3))),
        ("ii->i", X((3, 3))),
        ("ii", X((3, 3))),
        ("...i,i", X(T), X((4,))),
        ("ij,kj,k->i", X((2, 3)), X((4, 3)), X((4,))),
        ("i,j->ij", X((0,)), X((2,))),
        ("ij->", X((2, 3))),
        ("bij,bjk->bik", X(T), X((2, 4, 3))),
    ],
    "astype": lambda: [
        (X(s), d) for s in ((), (2, 3), (0, 2)) for d in ("float32", "complex128", "int16", "bool", "float16")
    ],
    "arange": lambda: [
        (5,),
        (2, 7),
        (2, 7, 2),
        (5, 0, -2),
        (0.5, 3.0, 0.5),
        (0,),
        (5, {"dtype": "float32"}),
        (-1,),
    ],
    "linspace": lambda: [
        (0, 1, 5),
        (0.5, -1.0, 4, {"endpoint": False}),
        (0, 1, 1),
        (0, 1, 0),
        (1j, 2.0, 3),
        (0, 1, 3, {"dtype": "float32"}),
        (X((2, 3)), X((3,)), 4),
        (X((2, 3)), 1.0, 4, {"axis": -1}),
        (X(()), X((2,)), 3, {"axis": 1}),
        (X((2,)), 1, 3, {"axis": -2}),
    ],
    "eye": lambda: [
        (3,),
        (2, 3),
        (3, 2, {"k": 1}),
        (3, 3, {"k": -1, "dtype": "complex64"}),
        (0,),
        (2, 2, {"dtype": "bool"}),
    ],
    "zeros": _created,
    "ones": _created,
    "full": lambda: [*_created(1.5), *_created(2), *_created(True)],
    "zeros_like": _like,
    "ones_like": _like,
    "full_like": lambda: _like(1),
    "broadcast_shapes": lambda: [((2, 1), (3,), ()), ((0,), 1), ()],
    **{name: lambda: of(*SHAPES) for name in ("clone", "asarray", "tensor", "flatten", "ravel")},
    "frac": lambda: of(*SHAPES),
}
LINALG: dict[str, Callable[[], Made]] = {
    **{n: lambda: square("regular") for n in ("inv", "det", "slogdet", "logdet", "eigvals", "eig", "cond")},
    **{n: lambda: square("positive") for n in ("eigh", "eigvalsh", "sqrtm", "logm", "pinv")},
    "matrix_exp": lambda: [(X(s),) for s in ((3, 3), (2, 2, 2), (1, 1))],
    "cholesky": lambda: [*square("positive"), *square("positive", upper=True)],
    **{n: lambda: [*square("regular"), *of((3, 3), (2, 4, 4))] for n in ("lu", "lu_factor")},
    "svd": lambda: _decomposed(full_matrices=False),
    "qr": lambda: _decomposed(mode="complete"),
    "svdvals": lambda: of((3, 3), (4, 2), (2, 2, 4), (1, 1), (0, 3)),
    "solve": lambda: [
        (X(a, matrix="regular"), X(b))
        for a, b in (
            ((3, 3), (3,)),
            ((3, 3), (3, 2)),
            ((2, 2, 2), (2, 2, 3)),
            ((2, 2, 2), (2,)),
            ((1, 1), (1,)),
            ((0, 0), (0,)),
        )
    ],
    "solve_triangular": lambda: [
        (X((3, 3), matrix="lower"), X(b), {"trans": t}) for b in ((3, 2),) for t in "NTC"
    ],
    "cholesky_solve": lambda: [(X((3, 2)), X((3, 3), matrix="lower"))],
    "solve_circulant": lambda: [(X((4,), fixed=np.array([5, 1, 0, 1])), X((4,)))],
    "solve_toeplitz": lambda: [
        (X((4,), fixed=np.array([5, 1, 0, 1])), X((4,))),
        (X((3,), fixed=np.array([4, 1, 1])), X((3, 2)), {"r": X((3,), fixed=np.array([4, 0, 1]))}),
    ],
    "lu_solve": _of_factors,
    "lstsq": lambda: [(X((4, 2), matrix="regular"), X(b)) for b in ((4,), (4, 3))],
    "matrix_power": lambda: (
        [(X((3, 3), matrix="regular"), n) for n in (0, 1, 2, 5, -1, -3)] + [(X((2, 2, 2)), 3)]
    ),
    "matrix_rank": lambda: of((3, 3), (2, 4, 2), (3, 0)),
    "matrix_norm": lambda: [
        (X(s), {"ord": o, "keepdims": k})
        for s in (M, T)
        for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
        for k in (False, True)
    ],
    "vector_norm": lambda: [
        *_norms((2, 0, 1, 3, 0.5, -1, np.inf, -np.inf)),
        (X(T), {"axis": (0, 2)}),
        (X(()),),
        (X((0, 2)), {"axis": 0}),
    ],
    "norm": lambda: [
        *_norms((None, 1, 3, np.inf, -np.inf)),
        (X(M), {"axis": (0, 1), "ord": 1}),
        (X(M), {"ord": "nuc"}),
        (X(M),),
        (X(()),),
        (X(T), {"axis": (-1, 0)}),
    ],
    "trace": lambda: (
        [(X(s), {"offset": k}) for s in (M, T, (0, 2)) for k in (0, 1, -2)]
        + [(X(M), {"dtype": "complex128"})]
    ),
    "cross": lambda: (
        [(X((3, 3)), X((3, 3)), {"axis": a}) for a in (-1, -2)]
        + [(X((3,)), X((3,))), (X((4, 3)), X((3,))), (X((3, 2)), X((3, 1)), {"axis": 0})]
    ),
    "multi_dot": lambda: [
        ([X((2, 3)), X((3, 4)), X((4, 2))],),
        ([X((3,)), X((3, 4)), X((4,))],),
        ([X((2, 3)), X((3, 2))],),
    ],
    "block_diag": lambda: [(X((2, 3)), X((1, 1)), X((2, 2))), (X((3,)), X((2, 1)))],
    **{n: MAIN[n] for n in ("diagonal", "matmul", "matrix_transpose", "outer", "tensordot", "vecdot")},
}
FFT: dict[str, Callable[[], Made]] = {
    **dict.fromkeys(("fft", "ifft", "rfft", "hfft", "ihfft"), _ffts),
    "irfft": lambda: _ffts((None, 2, 4, 7)),
    **dict.fromkeys(("fftn", "ifftn", "rfftn", "irfftn"), _ffts_over),
    **{
        n: lambda: [(X((4, 5)), {"axes": a}) for a in (None, 0, 1, -1, -2, (0, 1))] + [(X((0,)),)]
        for n in ("fftshift", "ifftshift")
    },
    **{n: lambda: [(k, {"d": d}) for k in (1, 4, 5) for d in (1.0, 0.5)] for n in ("fftfreq", "rfftfreq")},
}
SPECIAL: dict[str, Callable[[], Made]] = {
    "logsumexp": lambda: [
        *reduced(),
        *((X((2, 3)), {"axis": a, "b": X((3,), 0.2, 2.0)}) for a in (None, 0, -1)),
    ],
    **{n: lambda: [(X(s), a) for s in SHAPES[1:4] for a in _axes(s)] for n in ("softmax", "log_softmax")},
    **{n: lambda: of(*SHAPES[:5], low=0.2, high=3.0) for n in ("expit", "gammaln", "psi", "exp2")},
    **{n: lambda: _of_numbers(3) for n in ("fdtr", "fdtrc", "gdtr", "gdtrc", "radian")},
    **{n: lambda: _of_numbers(2) for n in ("huber", "pdtr", "pdtrc", "pseudo_huber")},
    "multigammaln": lambda: [(X(s, 2.0, 4.0), 2) for s in SHAPES[:4]],
    "polygamma": lambda: [(1, X(s, 0.3, 3.0)) for s in SHAPES[:5]],
}
MAIN["solve_triangular"] = LINALG["solve_triangular"]
TABLES = {"iv": MAIN, "linalg": LINALG, "fft": FFT, "special": SPECIAL}

#: Public functions that no call is generated for, each with the reason.
ELSEWHERE_TESTED = {
    **dict.fromkeys(ELSEWHERE - {"linalg"}, "transforms, packages and state: no function of arrays"),
    "empty": "entries that nobody set",
    "piecewise": "takes functions: tests/array_api/test_numpy_names.py",
    "empty_like": "entries that nobody set",
    "from_dlpack": "takes another library's array: tests/tensor",
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), "random: tests/nn"),
    **dict.fromkeys(("load", "save"), "files: tests of saving"),
    **dict.fromkeys(
        ("finfo", "iinfo", "isdtype", "can_cast", "result_type"), "of dtypes, no arrays: tests/array_api"
    ),
}


def public() -> Iterator[tuple[str, str]]:
    """The space and name of every public function."""
    for space, namespace in SPACES.items():
        for name in namespace.__all__:
            value = getattr(namespace, name)
            if name in CONSTANTS | DTYPES or inspect.isclass(value) or not callable(value):
                continue
            if space == "nn" and name in iv.__all__:
                continue
            yield space, name


def _elementwise(name: str) -> Iterator[tuple[Any, ...]]:
    """Shapes that broadcast, empty ones, rank 0, and weak numbers in each place."""
    scalar = SCALARS[name]
    boxes = [box or (-2.0, 2.0) for box in scalar.domain]
    orders = (1,) * scalar.orders

    def operands(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
        own = boxes[scalar.orders :]
        return (*orders, *(X(s, *box) for s, box in zip(shapes, own, strict=False)))

    for shape in (*SHAPES[:5], (5, 7)):
        yield operands(*[shape] * scalar.arity)
    if scalar.arity - scalar.orders > 1:
        for a, b in (((2, 3), (3,)), ((2, 1), (3,)), ((), (0,)), ((3,), ())):
            yield operands(*[a, b, b][: scalar.arity])
        if scalar.arity == 2:
            (x, y), low = operands((2, 3), (2, 3)), boxes[1][0]
            number = (
                2
                if low < 1.5 < boxes[1][1] + 1 and low >= -2 and boxes[1][1] > 1.5
                else round(sum(boxes[1]) / 2, 2)
            )
            first = 1 if boxes[0][0] < 1 < boxes[0][1] else round(sum(boxes[0]) / 2, 2)
            yield x, number
            yield first, y
            if "f" in scalar.kinds:
                yield x, float(number) + (0.0 if isinstance(number, float) else -0.5)


@cache
def calls_of(space: str, name: str) -> tuple[Call, ...]:
    """The calls of a public function."""
    makes = TABLES.get(space, {}).get(name)
    if makes is not None:
        made = [_call(space, name, given) for given in makes()]
        return tuple(made)
    if name in SCALARS and space in ("iv", "special"):
        return tuple(Call(space, name, given) for given in _elementwise(name))
    return tuple(seeds(space, name))


def _call(space: str, name: str, given: tuple[Any, ...]) -> Call:
    *args, last = given or (None,)
    if isinstance(last, dict):
        return Call(space, name, tuple(args), last)
    return Call(space, name, given)


def seeds(space: str, name: str) -> Iterator[Call]:
    """The calls of a function in the error sweep, their arrays of floats as operands of any dtype."""
    tables = {
        "iv": sweep.MAIN,
        "linalg": sweep.LINALG,
        "fft": sweep.FFT,
        "special": sweep.SPECIAL,
        "nn": sweep.NN,
    }
    makes = tables[space].get(name) or sweep.MAIN.get(name)
    if makes is None and name in SCALARS:
        makes = lambda: sweep._elementwise(name)
    if makes is None:
        return
    given = makes()
    for one in given if isinstance(given, list) else [given]:
        if "rng" in one.kwargs:
            continue
        args, kwargs = each(_operand, (tuple(one.args), dict(one.kwargs)), (iv.Tensor, np.ndarray))
        kwargs = {k: v for k, v in kwargs.items() if k not in ("dtype", "device", "requires_grad")}
        yield Call(space, name, args, kwargs)


def _operand(x: Any) -> Any:
    if isinstance(x, iv.Tensor) and x.layout != "strided":
        return x
    entries = x.numpy() if isinstance(x, iv.Tensor) else x
    return X(entries.shape, fixed=entries, lasting=entries.dtype.kind != "f")
