"""A fused elementwise chain and its row sums, and what compiling costs.

python -m benchmarks.codegen_elementwise
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import torch

from benchmarks.codegen_timing import compare, header
from iverson.codegen import kernel, target
from iverson.codegen.nodes import (
    Buffer,
    Call,
    Const,
    Declare,
    Expr,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Size,
    Store,
    Update,
    Var,
)

F32 = np.dtype("float32")
FUNCTIONS = ("exp", "log", "tanh", "sigmoid", "sin", "cos", "erf")


def number(value: float) -> Const:
    return Const(value, F32)


def f(name: str, *args: Expr) -> Expr:
    return Call(name, args, F32)


def chain(name: str = "chain") -> Kernel:
    """out = sigmoid(a * tanh(b) + 1/2) * exp(-a^2), and its sum over each row."""
    a, b = Buffer("a", F32, ("n", "m")), Buffer("b", F32, ("n", "m"))
    out, total = Buffer("out", F32, ("n", "m"), "out"), Buffer("total", F32, ("n",), "out")
    i, j, t = Var("i"), Var("j"), Local("t", F32)
    x, y = Load(a, (i, j)), Load(b, (i, j))
    gate = f("sigmoid", f("add", f("multiply", x, f("tanh", y)), number(0.5)))
    value = f("multiply", gate, f("exp", f("negative", f("square", x))))
    inner = (Let("t", value), Store(out, (i, j), t), Update("acc", "sum", t))
    body = (
        Declare("acc", F32, number(0.0)),
        Loop("j", Const(0), Size("m"), inner, mark="vector", factor=2),
        Store(total, (i,), Local("acc", F32)),
    )
    rows = Loop("i", Const(0), Size("n"), body, mark="parallel")
    return Kernel(name, (a, b, out, total), (rows,), ("n", "m"))


def single(name: str) -> Kernel:
    a, out = Buffer("a", F32, ("n", 1000)), Buffer("out", F32, ("n", 1000), "out")
    i, j = Var("i"), Var("j")
    inner = (Store(out, (i, j), f(name, Load(a, (i, j)))),)
    columns = Loop("j", Const(0), Const(1000), inner, mark="vector", factor=2)
    return Kernel(name, (a, out), (Loop("i", Const(0), Size("n"), (columns,), mark="parallel"),), ("n",))


def speed() -> None:
    g = np.random.default_rng(0)
    for n in (30, 300, 1500):
        a, b = (g.normal(size=(n, 1000)).astype(F32) for _ in range(2))
        out, total = np.empty_like(a), np.empty(n, F32)
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        ours = kernel.compile_kernel(chain())

        def eager(x: Any = x, y: Any = y) -> Any:
            t = torch.sigmoid(x * torch.tanh(y) + 0.5) * torch.exp(-(x**2))
            return t, t.sum(1)

        compare(
            f"chain {n} x 1000",
            {"iverson": lambda k=ours, z=(a, b, out, total): k(*z), "torch": eager},
        )
    a = np.abs(g.normal(size=(1000, 1000)).astype(F32)) + np.float32(0.1)
    out, x = np.empty_like(a), torch.from_numpy(a)
    for name in FUNCTIONS:
        one, peer = kernel.compile_kernel(single(name)), getattr(torch, name)
        compare(f"{name} 1000 x 1000", {"iverson": lambda k=one: k(a, out), "torch": lambda p=peer: p(x)})


def compilation() -> None:
    """Cold (no cache), and again from memory."""
    os.environ["IVERSON_CACHE"] = "off"
    target.host()
    target.target_machine()
    cold, warm = [], []
    for n in range(7):
        start = time.perf_counter()
        kernel.compile_kernel(chain(f"chain_{n}"))
        middle = time.perf_counter()
        kernel.compile_kernel(chain(f"chain_{n}"))
        cold.append(middle - start)
        warm.append(time.perf_counter() - middle)
    print(f"compile: cold {1e3 * np.median(cold):.1f} ms, from memory {1e3 * np.median(warm):.3f} ms")


if __name__ == "__main__":
    header()
    compilation()
    speed()
