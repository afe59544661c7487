"""A walk through the design: the one idea in a few pages that run, before the real files.

    python docs/walk.py

Each section retells one package in its smallest honest form and says where the real one is. Nothing here is
imported by the library.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# 1. A layout says what is stored: the support -----------------------------------------------------------
#
# A value is an ndarray (every entry is stored), a Zero (none is) or a Box (a block is). All mean an array;
# they differ in which entries can be nonzero. Real: src/iverson/layouts.


@dataclass(frozen=True)
class Zero:
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Box:
    shape: tuple[int, ...]
    start: int  # along the first axis, to keep the walk short
    inner: np.ndarray


def dense(v: Any) -> np.ndarray:
    if isinstance(v, Zero):
        return np.zeros(v.shape)
    if isinstance(v, Box):
        out = np.zeros(v.shape)
        out[v.start : v.start + len(v.inner)] = v.inner
        return out
    return np.asarray(v)


# 2. The one table -----------------------------------------------------------------------------------------
#
# All facts of an op stand together: what it computes, in which inputs it is linear, and one gradient rule per
# input, written against the op namespace F so that the line serves every order. Real: core/op.py and ops/*.


@dataclass(frozen=True)
class Op:
    name: str
    forward: Callable[..., Any]
    vjp: tuple[Callable[..., Any] | None, ...]
    linear_in: tuple[int, ...] = ()


TABLE: dict[str, Op] = {}
COUNT = {"matmul": 0}


class F:
    """``F.sin(x)`` binds the op called sin."""


def define(op: Op) -> None:
    TABLE[op.name] = op
    setattr(F, op.name, staticmethod(lambda *args, **params: bind(op, args, params)))


# 3. Calling an op -----------------------------------------------------------------------------------------
#
# A Tensor is a handle on a value and on the node that made it. A node keeps values and nodes, never handles,
# so there are no cycles. The zero rule follows from linearity: what is multiplied with a structural zero is
# never looked at, be it inf or nan. Real: autograd/record.py, kernels/kernel_registry.py.


@dataclass
class Tensor:
    value: Any
    node: Node | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __add__(self, other: Any) -> Any:
        return F.add(self, other)

    def __mul__(self, other: Any) -> Any:
        return F.mul(self, other)

    def __matmul__(self, other: Any) -> Any:
        return F.matmul(self, other)


_numbers = itertools.count()


@dataclass(eq=False)
class Node:
    op: Op | None
    args: tuple[Any, ...] = ()
    parents: tuple[Node | None, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    number: int = field(default_factory=lambda: next(_numbers))


def variable(value: Any) -> Tensor:
    return Tensor(np.asarray(value, float), Node(None))


def bind(op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
    handles = [a if isinstance(a, Tensor) else Tensor(np.asarray(a, float)) for a in args]
    values = tuple(h.value for h in handles)
    parents = tuple(h.node for h in handles)
    constant_zero = [k for k in op.linear_in if isinstance(values[k], Zero) and parents[k] is None]
    if constant_zero and op.name != "add":
        return Tensor(Zero(np.broadcast_shapes(*(v.shape for v in values))))
    if op.name == "add" and any(isinstance(v, Zero) for v in values):
        return handles[0] if isinstance(values[1], Zero) else handles[1]
    out = op.forward(*(v if op.name == "row" else dense(v) for v in values), **params)
    node = Node(op, values, parents, params, out) if any(parents) else None
    return Tensor(out, node)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    COUNT["matmul"] += 1
    return a @ b


def row(x: Any, k: int) -> Any:
    """x[k]; of a Box only if the box reaches it."""
    if isinstance(x, Box):
        inside = x.start <= k < x.start + len(x.inner)
        return x.inner[k - x.start] if inside else Zero(x.shape[1:])
    return np.asarray(dense(x)[k])


define(Op("add", lambda a, b: a + b, (lambda g, a, b: g, lambda g, a, b: g), (0, 1)))
define(Op("mul", lambda a, b: a * b, (lambda g, a, b: g * b, lambda g, a, b: g * a), (0, 1)))
define(Op("sum", lambda x: np.asarray(x.sum()), (lambda g, x: F.spread(g, like=x.shape),), (0,)))
define(Op("spread", lambda x, like: np.full(like, x), (lambda g, x, like: F.sum(g),), (0,)))
define(Op("sqrt", np.sqrt, (lambda g, x: g * F.half_over(F.sqrt(x)),)))
define(Op("half_over", lambda x: 0.5 / x, (lambda g, x: g * F.half_over(x) * F.half_over(x) * -2.0,)))
define(Op("T", np.transpose, (lambda g, x: F.T(g),), (0,)))
define(Op("matmul", matmul, (lambda g, a, b: g @ F.T(b), lambda g, a, b: F.T(a) @ g), (0, 1)))
define(Op("relu", lambda x: np.maximum(x, 0), (lambda g, x: F.keep(g, x),)))  # noqa: PLW0108
# Where x is not positive nothing is multiplied with 0: it is not there. And keep has no derivative in x.
define(Op("keep", lambda g, x: np.where(x > 0, g, 0.0), (lambda h, g, x: F.keep(h, x), None), (0,)))
define(Op("row", row, (lambda g, x, k: Tensor(Box(x.shape, k, dense(g.value)[None])),), (0,)))
define(
    Op(
        "stack",
        lambda a, b: np.stack([a, b]),
        (lambda g, a, b: F.row(g, k=0), lambda g, a, b: F.row(g, k=1)),
    )
)


# 4. Needs, then the reverse pass ----------------------------------------------------------------------------
#
# First a walk from the inputs asked for: which nodes lie on a path to them? Then a walk back that runs a rule
# only if its input is needed *and* a cotangent has arrived: support intersected with demand.
# Real: autograd/plan.py decides; demand_propagation.py and engine.py carry out (with boxes and patterns too).


def grad(y: Tensor, x: Tensor) -> Tensor:
    nodes = sorted(_reachable(y.node), key=lambda n: n.number)
    needed = {x.node}
    for node in nodes:
        rules = node.op.vjp if node.op else ()
        if any(p in needed for p, rule in zip(node.parents, rules, strict=False) if p and rule):
            needed.add(node)
    arrived: dict[Node, Tensor] = {y.node: Tensor(np.ones(y.shape))} if y.node else {}
    for node in reversed(nodes):
        g = arrived.get(node)
        if g is None or node.op is None or node not in needed or node is x.node:
            continue
        inputs = [Tensor(v, p) for v, p in zip(node.args, node.parents, strict=True)]
        for rule, parent in zip(node.op.vjp, node.parents, strict=True):
            if rule is None or parent not in needed:
                continue
            ct = rule(g, *inputs, **node.params)
            if not isinstance(ct.value, Zero):
                arrived[parent] = arrived[parent] + ct if parent in arrived else ct
    return arrived.get(x.node, Tensor(Zero(x.shape)))


def _reachable(root: Node | None) -> set[Node]:
    seen, stack = set(), [root] if root else []
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [p for p in node.parents if p is not None]
    return seen


def claim_no_nan() -> None:
    """y = stack([sqrt(x), x]): at 0 the derivative of y[1] is 1, although that of sqrt is inf."""
    x = variable(0.0)
    y = F.stack(F.sqrt(x), x)
    g = grad(F.row(y, k=1), x)
    assert dense(g.value) == 1.0
    assert isinstance(grad(g, x).value, Zero)


def claim_second_derivative_is_free() -> None:
    """A ReLU network is linear almost everywhere: its second derivative takes no matrix product."""
    rng = np.random.default_rng(0)
    x, layers = (
        variable(rng.standard_normal((4, 3))),
        [variable(rng.standard_normal((3, 3))) for _ in range(7)],
    )
    h = x
    for w in layers[:-1]:
        h = F.relu(h @ w)
    first = grad(F.sum(h @ layers[-1]), x)
    assert COUNT["matmul"] == 14
    second = grad(F.sum(first), x)
    assert COUNT["matmul"] == 14
    assert isinstance(second.value, Zero)


# 5. Index notation ------------------------------------------------------------------------------------------
#
# A statement is Out[write(p)] += body(p) for p in a set of integer points. Reverse mode turns each read
# around: the cotangent of A[f(p)] is summed into f(p). No Jacobian is formed: one statement per read, and it
# visits as many points as there are nonzero terms. Real: src/iverson/te and src/iverson/codegen.


@dataclass(frozen=True)
class Statement:
    domain: tuple[int, ...]
    write: Callable[..., tuple[int, ...]]
    reads: tuple[tuple[int, Callable[..., tuple[int, ...]]], ...]  # (which input, where)


def run(s: Statement, shape: tuple[int, ...], inputs: list[np.ndarray]) -> tuple[np.ndarray, int]:
    """The product of all reads, added into the result; and how many points were visited."""
    out, visited = np.zeros(shape), 0
    for p in itertools.product(*map(range, s.domain)):
        out[s.write(*p)] += np.prod([inputs[k][at(*p)] for k, at in s.reads])
        visited += 1
    return out, visited


def adjoint_statements(s: Statement, read: int, head: int) -> Statement:
    """The cotangent of one read: the head where the result was written, times the other reads."""
    others = tuple(r for k, r in enumerate(s.reads) if k != read)
    return Statement(s.domain, s.reads[read][1], ((head, s.write), *others))


def claim_derivatives_cost_their_terms() -> None:
    """y[i] = sum over j of w[j] x[2 i + j]: a strided convolution and both of its gradients."""
    conv = Statement((4, 3), lambda i, j: (i,), ((0, lambda i, j: (2 * i + j,)), (1, lambda i, j: (j,))))
    rng = np.random.default_rng(0)
    x, w, g = rng.standard_normal(9), rng.standard_normal(3), rng.standard_normal(4)
    _, forward = run(conv, (4,), [x, w])
    gx, visited_x = run(adjoint_statements(conv, 0, 2), (9,), [x, w, g])
    gw, visited_w = run(adjoint_statements(conv, 1, 2), (3,), [x, w, g])
    assert forward == visited_x == visited_w == 12
    jacobian_x = np.zeros((4, 9))
    for i, j in itertools.product(range(4), range(3)):
        jacobian_x[i, 2 * i + j] += w[j]
    np.testing.assert_allclose(gx, jacobian_x.T @ g)
    np.testing.assert_allclose(gw, [sum(g[i] * x[2 * i + j] for i in range(4)) for j in range(3)])


CLAIMS = (claim_no_nan, claim_second_derivative_is_free, claim_derivatives_cost_their_terms)

if __name__ == "__main__":
    for claim in CLAIMS:
        claim()
        print(f"holds: {claim.__doc__}")
