"""Rules of compiled graphs for sparse values, selections and boxes, run eagerly beside the eager kernels.

    python -m tools.one_text [--trials N]

Both pairs of texts say the same; this counts how often. The rules of `graph.sparse` (`on_values`) need an
adapter, a lowering state whose values are arrays; those of `graph.passes.carried` (`on_selections`) run on
eager handles as they stand.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.aval import Aval
from iverson.core.dispatch import bind, make_handle, value_of
from iverson.core.entries import FULL, Stored
from iverson.core.region import Region
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import Equation, Graph, Value
from iverson.graph.passes.carried import RULES, elementwise, moved
from iverson.graph.passes.held import Held, Part, selected
from iverson.graph.sparse import sparse_lowering
from iverson.graph.sparse.lowering_state import Opening
from iverson.layouts import Box, Bracket, select, to_strided

Counts = Counter[str]


class Eager(Opening):
    """A lowering state whose values are arrays: an op that a rule writes down is computed at once."""

    def __init__(self) -> None:
        super().__init__(Graph((), (), ()), {}, sparse_lowering._rules_of)
        self.constants: Any = {}
        self.numbers: Any = {}

    def array(self, x: Any) -> Any:
        return self.constants[x] if type(x) is Value else x

    def bind(self, op: Any, *operands: Any, **params: Any) -> Any:
        op = TABLE[op] if isinstance(op, str) else op
        return self.constant(np.asarray(op.forward(*map(self.array, operands), **params)))


def by_sparse_rules(name: str, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The value that the rules of the sparse lowering give an op; None where none takes it."""
    state, values = Eager(), []
    for operand in operands:
        stored = value_of(operand)
        pattern = getattr(stored, "pattern", None)
        support = [] if pattern is None else [Stored(pattern)]
        values.append(Value(Aval(stored.shape, stored.dtype, *support)))
        if pattern is None:
            state.constants[values[-1]], state.now[values[-1]] = stored, values[-1]
        else:
            state.entries[values[-1]] = state.constant(stored.entries)
    aval = TABLE[name].infer(*(v.aval for v in values), **params)
    result = Value(aval)
    equation = Equation(TABLE[name], tuple(values), params, (result,))
    for rule in sparse_lowering._rules_of(equation):
        if rule(state, equation):
            if result in state.now:
                return state.array(state.now[result])
            if result in state.entries:
                return aval.support.pattern.value(state.array(state.entries[result]))
    return None


SparseCase = tuple[str, tuple[Any, ...], dict[str, Any], Callable[[Any, Any], Any]]


def sparse_cases(s: Any, factor: Any, dense: Any) -> Iterator[SparseCase]:
    for name in ("max", "min", "prod", "any", "all", "sum"):
        for axis in ((0,), (1,), (0, 1)):
            yield (
                name,
                (s,),
                {"axis": axis, "keepdims": False},
                lambda x, a, name=name: getattr(np, name)(x, axis=a),
            )
    for name in ("argmax", "argmin"):
        for axis in (0, 1):
            yield (
                name,
                (s,),
                {"axis": axis, "keepdims": False},
                lambda x, a, name=name: getattr(np, name)(x, a),
            )
    for axis in ((0,), (1,)):
        yield "norm", (s,), {"axis": axis, "keepdims": False}, lambda x, a: np.sqrt((x * x).sum(axis=a))
    yield "logsumexp", (s,), {"axis": (1,), "keepdims": False}, lambda x, a: np.log(np.exp(x).sum(axis=a))
    yield "matmul", (s, factor), {}, lambda x, _: x @ factor.numpy()
    yield "multiply", (s, dense), {}, lambda x, _: x * dense.numpy()
    yield "multiply", (s, s), {}, lambda x, _: x * x
    yield "add", (s, dense), {}, lambda x, _: x + dense.numpy()
    yield "sin", (s,), {}, lambda x, _: np.sin(x)
    yield "permute_dims", (s,), {"axes": (1, 0)}, lambda x, _: x.T


def on_values(trials: int, rng: np.random.Generator) -> Counts:
    """Rules of the sparse lowering against NumPy on dense arrays."""
    counts: Counts = Counter()
    for _ in range(trials):
        m, n = rng.integers(1, 9, 2)
        x = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.5)
        x[rng.random((m, n)) < 0.1] = -1.0
        factor, dense = iv.asarray(rng.normal(size=(n, 3))), iv.asarray(rng.normal(size=(m, n)))
        for layout in ("csr", "coo", "csc"):
            for name, operands, params, reference in sparse_cases(iv.to_layout(x, layout), factor, dense):
                try:
                    result = by_sparse_rules(name, operands, params)
                except Exception as error:  # a rule that needs a trace
                    counts[f"not taken: {name}, {type(error).__name__}"] += 1
                    continue
                if result is None:
                    counts[f"not taken: {name}"] += 1
                else:
                    same = np.allclose(to_strided(result), reference(x, params.get("axis")))
                    counts["same" if same else f"different: {name}"] += 1
    return counts


def operand(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Any, Any]:
    """A value in a layout, and what the pass over graphs has for it."""
    entries, condition = rng.normal(size=shape), rng.random(shape) < 0.6
    entries[rng.random(shape) < 0.15] = rng.choice([np.inf, np.nan, 0.0])
    finite = np.where(np.isfinite(entries), entries, 1.0)
    if kind == "condition":
        return condition, make_handle(condition)
    if kind == "plain":
        return finite, make_handle(finite)
    if kind == "bracket":
        return Bracket(entries, condition, False), Held(make_handle(entries), make_handle(condition), False)
    start = tuple(int(rng.integers(0, n)) for n in shape)
    region = Region(start, tuple(int(rng.integers(a + 1, n + 1)) for a, n in zip(start, shape, strict=True)))
    inner = finite[region.slices].copy()
    return Box(shape, region, inner), Part(shape, region, make_handle(inner))


PAIRS = (
    *(("bracket", "plain"), ("bracket", "bracket"), ("box", "plain")),
    *(("box", "box"), ("plain", "box"), ("box", "bracket")),
)
SELECTION_CASES: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    *((name, pair, {}) for name in ("multiply", "add", "subtract", "add_n") for pair in PAIRS),
    *(
        (n, (k,), {})
        for n in ("negative", "sin", "tanh", "square", "exp", "relu")
        for k in ("bracket", "box")
    ),
    *(
        ("sum", (k,), {"axis": a, "keepdims": False})
        for k in ("bracket", "box")
        for a in ((0,), (1,), (0, 1))
    ),
    *(("permute_dims", (k,), {"axes": (1, 0)}) for k in ("bracket", "box")),
    *(("divide", (k, "plain"), {}) for k in ("bracket", "box")),
    ("where", ("condition", "bracket", "plain"), {}),
]


def on_selections(trials: int, rng: np.random.Generator) -> Counts:
    """Rules of the pass for selections and boxes against the kernels of these layouts."""
    counts: Counts = Counter()
    for _ in range(trials):
        shape = tuple(int(n) for n in rng.integers(2, 6, 2))
        for name, kinds, params in SELECTION_CASES:
            op = TABLE[name]
            layouts, carried = zip(*(operand(kind, shape, rng) for kind in kinds), strict=True)
            handles = tuple(map(make_handle, layouts))
            expected = to_strided(select(value_of(bind(op, handles, dict(params)))))
            values = tuple(Value(Aval(x.shape, x.dtype)) for x in layouts)
            equation = Equation(op, values, params, (Value(Aval(expected.shape, expected.dtype)),))
            if rule := RULES.get(name):
                result = rule(equation, list(carried), FULL)
            elif op.elementwise:
                result = elementwise(equation, list(carried), FULL)
            else:
                result = moved(equation, list(carried))
            if result is None:
                counts[f"not taken: {name} of {', '.join(kinds)}"] += 1
                continue
            entries = to_strided(value_of(selected(result)))
            same = np.allclose(entries, expected, equal_nan=True)
            counts["same" if same else f"different: {name} of {', '.join(kinds)}"] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100)
    trials = parser.parse_args().trials
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for compare in (on_values, on_selections):
            print(compare.__name__, dict(compare(trials, np.random.default_rng(0))))


if __name__ == "__main__":
    main()
