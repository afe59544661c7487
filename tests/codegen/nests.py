"""Short ways to write loop nests in tests, and running one against its interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson.codegen.launches import CompiledKernel, compile_kernel
from iverson.codegen.nests import interpret
from iverson.codegen.nests.nodes import BOOL, INT64, Buffer, Kernel, Load, Var
from iverson.expr.nodes import Apply, Cast, Const, Expr
from tests.codegen.fenced import fenced

F32, F64, I32 = np.dtype("float32"), np.dtype("float64"), np.dtype("int32")
i, j, k, p = (Var(n) for n in "ijkp")
COMPARE = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def c(value: Any, dtype: Any = INT64) -> Const:
    return Const(value, np.dtype(dtype))


def f(name: str, *args: Expr) -> Apply:
    boolean = name in COMPARE or name.startswith(("is", "logical"))
    return Apply(name, args, BOOL if boolean else args[0].dtype)


def add(*args: Expr) -> Expr:
    return f("add", *args)


def mul(*args: Expr) -> Expr:
    return f("multiply", *args)


def ld(buffer: Buffer, *indices: Expr) -> Load:
    whole = tuple(x if x.dtype == INT64 else Cast(x, INT64) for x in indices)
    return Load(buffer, whole)


def check(
    kernel: Kernel, arrays: dict[str, Any], *, rtol: float = 1e-5, threads: int | None = None, **sizes: int
) -> CompiledKernel:
    """Compile, run between fences, and compare every buffer with the interpreter's."""
    compiled = compile_kernel(kernel)
    want = {name: a.copy() for name, a in arrays.items()}
    known = {
        n: arrays[b.name].shape[d]
        for b in kernel.arguments
        for d, n in enumerate(b.shape)
        if isinstance(n, str)
    }
    interpret.run(kernel, want, {**known, **sizes})
    for at_end in (True, False):
        got = {name: fenced(a, at_end=at_end) for name, a in arrays.items()}
        compiled(*(got[b.name] for b in kernel.arguments), threads=threads, **sizes)
        for name, a in want.items():
            if a.dtype.kind == "f":
                np.testing.assert_allclose(got[name], a, rtol=rtol, atol=rtol, err_msg=name)
            else:
                np.testing.assert_array_equal(got[name], a, err_msg=name)
    return compiled
