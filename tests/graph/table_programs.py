"""Random functions over the whole op table, and over what functions can be made of beside ops.

A step calls an op on the arguments of one of its samples, moved by what was computed before: by a few
percent, so that signs, zeros and domains stay what the sample wants. What is around the call is drawn too:
loops, branches, inner transforms, custom functions, sparse and masked tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import iverson as iv
from iverson import te
from iverson.ops import TABLE
from tests.conformance.product import dtypes_of
from tests.graph.constructs import FURTHER
from tests.graph.fitting import Array, as_real, fitted, total
from tests.graph.programs import Call, calls_of

#: Ops whose results have shapes that follow from entries.
READS_ENTRIES = {"pack", "unpack"}
PATTERN = iv.asarray(np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [4, 0, 0, 5]])).to_layout("csr")
MASK = np.array([[True, False, True], [True, True, False]])


class Wave(iv.autograd.Function):
    """A custom function whose rule is not the derivative of what forward computes; which reads its arguments
    in another order, and one of them not at all."""

    @staticmethod
    def forward(ctx, x, unread, factor, y):
        ctx.save_for_backward(x, factor, y)
        return iv.cos(y).sum() * factor + iv.sin(x) * x

    @staticmethod
    def backward(ctx, g):
        x, factor, y = ctx.saved_tensors
        return 2 * g * (iv.sin(x) - x * iv.cos(x)), None, None, 3 * g.sum() * factor * iv.sin(y)


@te.op
def blurred(x, w):
    k = te.reduce_axis((0, 2))
    return te.compute((x.shape[0] - 1,), lambda i: te.sum(x[i + k] * w[k], axis=k) + te.F.sin(x[i]))


@cache
def sampled_calls(name: str) -> tuple[Call, ...]:
    return tuple(call for dtype in dtypes_of(TABLE[name]) for call in calls_of(name, dtype))


@cache
def names() -> tuple[str, ...]:
    return tuple(name for name, op in TABLE.items() if op.samples and name not in READS_ENTRIES)


def called(call: Call, how: int) -> Array:
    """The sample of an op as a function of one array, which moves its arguments."""

    def run(p: Any) -> Any:
        given = [a * (1 + 0.02 * iv.tanh(fitted(p, a.shape, how + k))) for k, a in enumerate(call.args)]
        found = call.function(*given)
        return found[how % len(found)]

    return run


def scanned(f: Array, p: Any, q: Any, how: int) -> Any:
    def body(h: Any, x: Any) -> tuple[Any, Any]:
        h = iv.tanh(h * 0.5 + fitted(f(h + x), (2,), how)) + x
        return h, h * x[0]

    h, ys = iv.scan(body, fitted(p, (2,), how), fitted(q, (3, 2), how + 1), checkpoint=how % 3)
    return ys[how % 3] if how % 2 else iv.concat([h, ys.reshape(-1)[1:3]])


def branched(f: Array, p: Any, q: Any, how: int) -> Any:
    """A branch that the entries decide on, whose function writes nothing and reads what is around it."""
    flag = iv.sum(as_real(p)) > 0.1 * (how % 5 - 2)
    return iv.cond(
        flag, lambda z: fitted(f(z), (3,), how) * fitted(q, (3,)), lambda z: fitted(z, (3,)) ** 2, p
    )


def repeated(f: Array, p: Any, q: Any, how: int) -> Any:
    return iv.fori_loop(
        0, 2 + how % 2, lambda k, h: iv.tanh(h + fitted(f(h * k), (2,), how)), fitted(q, (2,))
    )


def assigned(f: Array, p: Any, q: Any, how: int) -> Any:
    y = fitted(p, (3, 2), how) * 1
    y[how % 3] = fitted(f(p), (2,), 1)
    y[1:] *= fitted(q, (2, 2), 2)
    return y


def of_values(f: Array, p: Any, q: Any, how: int) -> Any:
    """Products of a sparse matrix, with values and with a dense operand that were computed."""
    s = PATTERN.with_values(fitted(f(p), (5,), how))
    return s @ fitted(q, (4, 2), 1) if how % 2 else (s * s) @ fitted(q, (4,), 2)


def masked(f: Array, p: Any, q: Any, how: int) -> Any:
    m = iv.masked_tensor(fitted(f(p), MASK.shape, how), MASK)
    n = iv.softmax(m * fitted(q, (3,), 1), axis=how % 2)
    right = iv.masked_tensor(fitted(q, (3, 2), 2), MASK.T) if how % 3 else fitted(q, (3, 2), 2)
    return (m @ right).to_tensor(0.25) @ (n + m).to_tensor(0.5)


def mapped(f: Array, p: Any, q: Any, how: int) -> Any:
    rows = fitted(p, (2, 2), 1 + how)
    return iv.vmap(lambda r: fitted(f(r), (2,), how) * fitted(q, (2,)), how % 2, how % 2)(rows)


#: What stands around a call: functions of it, of two arrays before it, and of a number.
AROUND: dict[str, Callable[[Array, Any, Any, int], Any]] = {
    "call": lambda f, p, q, how: f(p),
    "compiled": lambda f, p, q, how: iv.jit(f, interpret=True)(p),
    "recomputed": lambda f, p, q, how: iv.checkpoint(f)(p),
    "gradient": lambda f, p, q, how: iv.grad(total(f))(fitted(p, (3,), how)),
    "tangent": lambda f, p, q, how: iv.jvp(lambda z: as_real(f(z) * 1.0), (p,), (iv.ones(p.shape) * 0.5,))[1],
    "selected": lambda f, p, q, how: iv.where(
        fitted(p, (3,)) > 0.1, fitted(f(p), (3,), how), fitted(q, (3,))
    ),
    "rectified": lambda f, p, q, how: iv.relu(fitted(f(p), (2, 3), how) - 0.1) @ fitted(q, (3,), 1),
    "custom": lambda f, p, q, how: Wave.apply(as_real(f(p) * 1.0), p, iv.asarray(0.5), p),
    "index": lambda f, p, q, how: blurred(fitted(f(p), (4,), how), fitted(q, (2,), 1)),
    "scan": scanned,
    "branch": branched,
    "loop": repeated,
    "assigned": assigned,
    "sparse": of_values,
    "masked": masked,
    "mapped": mapped,
    **FURTHER,
}
INPUTS = ((3, 2), (4,))


def table_program(seed: int, steps: int = 3) -> tuple[Callable[..., tuple[Any, ...]], list[np.ndarray]]:
    """A function of two arrays with two results, and the arrays. Ops take turns from seed to seed."""
    rng = np.random.default_rng(seed)
    around = sorted(AROUND)
    plan = []
    for k in range(steps):
        kind = around[rng.integers(len(around))] if rng.random() < 0.6 else "call"
        calls = sampled_calls(names()[(seed * steps + k) % len(names())])
        chosen = calls[rng.integers(len(calls))]
        plan.append((AROUND[kind], chosen, *map(int, rng.integers(0, 1 << 20, 3)), kind))

    def program(x: Any, y: Any) -> tuple[Any, ...]:
        made = [x, y]
        for construct, call, a, b, how, _ in plan:
            p, q = made[-1 - a % min(3, len(made))], made[b % len(made)]
            made.append(construct(called(call, how), p, q, how) * 1.0)
        return made[-1], made[-2]

    program.__doc__ = ", ".join(f"{kind} of {call.name} {call.number}" for _, call, *_, kind in plan)
    return program, [rng.normal(size=shape) for shape in INPUTS]
