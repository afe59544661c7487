"""What one tracked operation costs on matrices so small that arithmetic is free."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Call, Inputs, Workload

Op = Callable[[Any, Any], Any]


def make(n: int, rng: np.random.Generator) -> Inputs:
    return {name: rng.standard_normal((n, n), dtype=np.float32) for name in "abg"}


def with_iverson(op: Op, *, backward: bool) -> Callable[[Inputs], Call]:
    def prepare(inputs: Inputs) -> Call:
        import iverson as iv
        from iverson.autograd import grad

        a, b = (iv.asarray(inputs[name], requires_grad=True) for name in "ab")
        g = iv.asarray(inputs["g"])
        if backward:
            return lambda: grad(op(a, b), (a, b), grad_outputs=g)
        return lambda: op(a, b)

    return prepare


def with_torch(op: Op, *, backward: bool) -> Callable[[Inputs], Call]:
    def prepare(inputs: Inputs) -> Call:
        import torch
        from torch.autograd import grad

        a, b = (torch.tensor(inputs[name], requires_grad=True) for name in "ab")
        g = torch.tensor(inputs["g"])
        if backward:
            return lambda: grad(op(a, b), (a, b), grad_outputs=g)
        return lambda: op(a, b)

    return prepare


WORKLOADS = tuple(
    Workload(
        name=f"{name}_{'forward_backward' if backward else 'forward'}",
        sizes=(4, 8, 16),
        size_is="n",
        draw=lambda rng: rng.integers(2, 33),
        make=make,
        run={
            "iverson": with_iverson(op, backward=backward),
            "torch": with_torch(op, backward=backward),
        },
        target={"torch": 3.0},
    )
    for name, op in (("add", operator.add), ("matmul", operator.matmul))
    for backward in (False, True)
)
