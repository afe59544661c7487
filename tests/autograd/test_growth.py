"""The work of gradients of what takes or gives n arrays grows as n: calls, what they are given and what they
give back are counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.ops import TABLE
from tests.tools.entered import listened, python_calls


def scalars(n: int) -> list[Any]:
    return [iv.asarray(float(k), requires_grad=True) for k in range(n)]


def vectors(n: int) -> list[Any]:
    return [iv.ones(3).requires_grad_() for _ in range(n)]


def vector(n: int) -> list[Any]:
    return [iv.ones((n, 2)).requires_grad_()]


def sparse(n: int) -> list[Any]:
    return [iv.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,)).requires_grad_() for _ in range(n)]


def masked(n: int) -> list[Any]:
    mask = np.array([True, False, True])
    return [iv.masked_tensor(iv.ones(3), mask).requires_grad_() for _ in range(n)]


def first_derivatives(y: Any, xs: list[Any]) -> Any:
    return sum(g.sum() for g in grad(y, xs, create_graph=True))


def written(x: Any) -> Any:
    y = x * 2
    for k in range(x.shape[0]):
        y[k] = y[k] + 1
    return y.sum()


def powers(x: Any, n: int) -> Any:
    """n uses of one array."""
    return sum((x[0] * float(k) for k in range(n)), start=iv.asarray(0.0)).sum()


CASES: dict[str, tuple[Callable[[int], list[Any]], Callable[[list[Any], int], Any]]] = {
    "stack": (scalars, lambda xs, n: iv.stack(xs).sum()),
    "stack of sparse": (sparse, lambda xs, n: iv.stack(xs).sum()),
    "stack of masked": (masked, lambda xs, n: iv.stack(xs).sum().to_tensor(0)),
    "stack of vectors on axis 1": (vectors, lambda xs, n: (iv.stack(xs, axis=1) ** 2).sum()),
    "concat": (vectors, lambda xs, n: iv.concat(xs).sum()),
    "concat of sparse": (sparse, lambda xs, n: iv.concat(xs).sum()),
    "concat of masked": (masked, lambda xs, n: iv.concat(xs).sum().to_tensor(0)),
    "second order of stack": (scalars, lambda xs, n: first_derivatives((iv.stack(xs) ** 2).sum(), xs)),
    "jvp of stack": (scalars, lambda xs, n: iv.jvp(lambda *a: iv.stack(a).sum(), xs, [iv.ones(())] * n)[1]),
    "unstack": (vector, lambda xs, n: sum(iv.unstack(xs[0]), start=iv.zeros(2)).sum()),
    "split": (vector, lambda xs, n: sum((p.sum() for p in iv.split(xs[0], n)), start=iv.asarray(0.0))),
    "rows written": (vector, lambda xs, n: written(xs[0])),
    "broadcast_arrays": (scalars, lambda xs, n: iv.stack(iv.broadcast_arrays(*xs)).sum()),
    "one array n times": (vector, lambda xs, n: powers(xs[0], n)),
}


def handed_over(function: Callable[[], Any]) -> tuple[int, Any]:
    """Calls of Python and C functions, arguments collected by ``*args``, and what returned sequences hold."""
    count = 0

    def listen(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if event == "return" and isinstance(arg, tuple | list | set | frozenset):
            count += len(arg)
        code = frame.f_code
        if event == "call" and code.co_flags & 4:
            count += len(frame.f_locals[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]])

    result = listened(function, listen)
    return count, result


@pytest.mark.parametrize("name", CASES)
def test_work_grows_with_the_number_of_arrays(name):
    make, f = CASES[name]
    f(make(4), 4)  # what is worked out once
    work = []
    for n in (32, 96):
        xs = make(n)
        forward, y = handed_over(lambda xs=xs, n=n: f(xs, n))
        backward, found = handed_over(lambda y=y, xs=xs: grad(y, xs))
        assert len(found) == len(xs)
        work.append((forward, backward))
    for small, large in zip(*work, strict=True):
        assert large <= 3.3 * small, work


def test_every_variadic_rule_is_among_them():
    """An op whose rule serves any number of inputs is in one of the cases: `add_n` sums cotangents, `gather`
    and its kin, and ops with one rule for both operands, have at most two inputs with a derivative."""
    variadic = {name for name, op in TABLE.items() if op.arity is None}
    assert variadic - {"eigen_spectral", "singular_spectral"} == {
        *("stack", "concat", "add_n", "gather", "gather_put", "scatter_add"),
    }


#: Small calls on tracked arrays, and the Python functions that they enter at most, a lambda among them.
SMALL_CALLS = {
    "a * b": (lambda a, b: a * b, 8),
    "2 * a": (lambda a, b: 2 * a, 9),
    "a ** 2": (lambda a, b: a**2, 11),
    "exp": (lambda a, b: iv.exp(a), 8),
    "a @ b": (lambda a, b: a @ b, 10),
    "sum": (lambda a, b: a.sum(), 15),
    "sum over an axis": (lambda a, b: a.sum(axis=0), 16),
    "mean": (lambda a, b: a.mean(), 30),
    "softmax": (lambda a, b: iv.nn.softmax(a, axis=-1), 17),
    "reshape": (lambda a, b: a.reshape((-1, 2)), 19),
    "transpose": (lambda a, b: a.mT, 12),
    "a row": (lambda a, b: a[1], 12),
    "rows": (lambda a, b: a[1:3], 14),
    "where": (lambda a, b: iv.where(True, a, b), 14),
    "concat": (lambda a, b: iv.concat([a, b]), 22),
}


@pytest.mark.parametrize("name", SMALL_CALLS)
def test_a_small_call_enters_few_functions(name):
    f, most = SMALL_CALLS[name]
    a, b = (iv.asarray(np.ones((4, 4), "float32"), requires_grad=True) for _ in range(2))
    assert python_calls(partial(f, a, b)) <= most
