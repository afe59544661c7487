"""What backward keeps: no rule reads an operand of which the shape and the dtype alone would do.

A rule declares by its parameters which values it reads; these are kept until backward. Here each of them is
replaced by a value without entries: a rule that still gives its result, on every sample, keeps it in vain.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest

from iverson.core.aval import Aval
from iverson.core.dispatch import bind
from iverson.core.entries import FULL
from iverson.core.errors import IversonError
from iverson.core.op import Op, Sample, Sampler, reads
from iverson.handles import Tensor
from iverson.ops import TABLE, F

#: Ops whose rule reads a value on a path that no sample takes.
ON_OTHER_PATHS: dict[str, set[tuple[str, int, int | str]]] = {}
DIFFERENTIABLE = sorted(name for name, op in TABLE.items() if op.vjp and op.samples is not None)


def rules(op: Op, count: int) -> list[tuple[int, Any, frozenset[int | str]]]:
    """Each input with a rule, that rule as a function of g, y and inputs, and what the rule says it reads."""
    if callable(op.vjp):
        joint = op.vjp

        def of(i: int) -> Any:
            return lambda g, y, *xs, **params: joint(F, {i: FULL}, g, y, *xs, **params)

        return [(i, of(i), reads(joint, skip=3, count=count, of=i)) for i in range(count)]
    return [_of_one(i, rule, count) for i, rule in enumerate(op.vjp) if rule is not None and i < count]


def _of_one(i: int, rule: Any, count: int) -> tuple[int, Any, frozenset[int | str]]:
    return i, lambda g, y, *xs, **params: rule(F, g, y, *xs, **params), reads(rule, 2, count)


def entries(result: Any) -> list[np.ndarray | None]:
    """The entries of a cotangent, or of a list of them."""
    items = result if isinstance(result, list | tuple) else [result]
    return [None if x is None else np.asarray(F.to_numpy(F.to_dense(x))) for x in items]


def is_read(rule: Any, g: Any, y: Any, inputs: list[Any], params: Any, which: int | str) -> bool:
    """True if the rule fails, or gives something else, where the value has no entries."""
    expected = entries(rule(g, y, *inputs, **params))
    operands = list(inputs)
    if which == "y":
        y = [Aval(v.shape, v.dtype) for v in y] if isinstance(y, list | tuple) else Aval(y.shape, y.dtype)
    else:
        operands[which] = Aval(operands[which].shape, operands[which].dtype)  # type: ignore[index]
    try:
        found = entries(rule(g, y, *operands, **params))
    except Exception:
        return True
    return not all(
        (a is None and b is None)
        or (a is not None and b is not None and np.array_equal(a, b, equal_nan=True))
        for a, b in zip(found, expected, strict=True)
    )


def samples(op: Op) -> list[Sample]:
    """Samples of real and, where the op takes them, of complex numbers."""
    found = list(op.samples(Sampler(0)))
    with contextlib.suppress(Exception):
        found += op.samples(Sampler(0, "complex128"))
    return found


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_what_a_rule_reads_has_an_effect(name: str) -> None:
    op = TABLE[name]
    in_vain: dict[tuple[str, int, int | str], bool] = {}
    for sample in samples(op):
        inputs = [Tensor(np.asarray(a)) if isinstance(a, np.ndarray) else a for a in sample.args]
        with warnings.catch_warnings(), contextlib.suppress(IversonError):
            warnings.simplefilter("ignore")
            out = bind(op, tuple(inputs), dict(sample.params))
            outs = out if isinstance(out, tuple) else (out,)
            if any(o.dtype.kind not in "fc" for o in outs):
                continue
            ones = tuple(Tensor(np.ones(o.shape, o.dtype)) for o in outs)
            g = ones if op.multiple else ones[0]
            pullbacks = [("vjp", i, g, *of) for i, *of in rules(op, len(inputs))]
            pushes = [
                ("jvp", i, Tensor(np.ones(x.shape, x.dtype)), *_of_one(i, rule, len(inputs))[1:])
                for i, (x, rule) in enumerate(zip(inputs, op.jvp, strict=False))
                if rule is not None and isinstance(x, Tensor)
            ]
            for mode, i, seed, rule, values in pullbacks + pushes:
                if not isinstance(inputs[i], Tensor) or inputs[i].dtype.kind not in "fc":
                    continue
                for which in values:
                    if isinstance(which, int) and not hasattr(inputs[which], "shape"):
                        continue
                    if in_vain.get((mode, i, which), True):
                        in_vain[mode, i, which] = not is_read(rule, seed, out, inputs, sample.params, which)
    offenders = {key for key, vain in in_vain.items() if vain}
    assert offenders == ON_OTHER_PATHS.get(name, set())


def test_a_value_that_is_not_read_is_found() -> None:
    x = Tensor(np.ones(3))
    assert is_read(lambda g, _y, x: g * x, x, x, [x], {}, 0)
    assert not is_read(lambda g, _y, x: g * x.shape[0], x, x, [x], {}, 0)
