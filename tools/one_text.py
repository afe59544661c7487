"""Rules of compiled graphs for sparse values, run eagerly beside NumPy on dense arrays.

    python -m tools.one_text [--trials N]

The rules of `graph.sparse` and the eager kernels say the same; this counts how often. The rules run in an
adapter, a lowering state whose values are arrays.
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
from iverson.core.dispatch import value_of
from iverson.core.entries import Stored
from iverson.core.table import TABLE
from iverson.graph.ir.nodes import Equation, Graph, Value
from iverson.graph.sparse import sparse_lowering
from iverson.graph.sparse.lowering_state import Opening
from iverson.layouts import to_strided

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100)
    trials = parser.parse_args().trials
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        print(dict(on_values(trials, np.random.default_rng(0))))


if __name__ == "__main__":
    main()
