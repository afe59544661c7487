"""Random nests between fences: the same numbers as the interpreter, and nothing outside touched.

Guards are by loop variables and by data; what they guard may point anywhere. With a bad index the call must
raise where the interpreter does, which is where the index is used. A crash of the test process is another
failure this file looks for.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from iverson.codegen.launches import compile_kernel
from iverson.codegen.nests import interpret
from iverson.codegen.nests.nodes import (
    INT64,
    Buffer,
    Declare,
    If,
    Kernel,
    Let,
    Local,
    Loop,
    Stmt,
    Store,
    Update,
    Var,
)
from iverson.core.errors import IndexingError
from iverson.expr.nodes import Cast, Expr, Select
from tests.codegen.fenced import fenced
from tests.codegen.nests import F32, F64, I32, add, c, check, f, ld, mul

ROUNDS = 300 if os.environ.get("IVERSON_TEST_ALL") else 9


class Random:
    """A random kernel over a 2-D input, a vector, an index array and two outputs."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.dtype = self.r.choice([F32, F64])
        self.n, self.m = self.r.choice([1, 2, 3, 5, 8]), self.r.choice([1, 3, 7, 16, 33])
        self.a = Buffer("a", self.dtype, (self.n, self.m))
        self.b = Buffer("b", self.dtype, (self.m + 3,))
        self.index = Buffer("index", self.r.choice([I32, INT64]), (self.n, self.m))
        self.out = Buffer("out", self.dtype, (self.n, self.m), "inout")
        self.total = Buffer("total", self.dtype, (self.n,), "inout")

    def number(self) -> Expr:
        return c(self.r.choice([-1.5, -1.0, 0.0, 0.5, 2.0]), self.dtype)

    def leaf(self) -> Expr:
        i, j = Var("i"), Var("j")
        kind = self.r.randrange(11)
        if kind == 0:
            return ld(self.a, i, j)
        if kind == 1:
            return ld(self.b, add(j, c(self.r.randrange(4))))
        if kind == 2:
            return ld(self.b, ld(self.index, i, j))
        if kind == 3:  # guarded, may point anywhere
            at = add(mul(j, c(self.r.choice([-2, -1, 1, 2]))), c(self.r.randrange(-4, 5)))
            fits = f("logical_and", f("greater_equal", at, c(0)), f("less", at, c(self.m + 3)))
            return Select(fits, ld(self.b, at), self.number())
        if kind == 4:
            at = f(self.r.choice(["floor_divide", "remainder"]), add(j, i), c(self.r.choice([2, 3])))
            return ld(self.b, f("minimum", at, c(self.m + 2)))
        if kind == 5:
            return Cast(add(i, mul(j, c(2))), self.dtype)
        if kind == 6:  # guarded by data, which does not say that it is inside
            condition = f(self.r.choice(["less", "greater_equal"]), ld(self.a, i, j), self.number())
            return Select(condition, ld(self.b, ld(self.index, i, j)), self.number())
        if kind == 7:  # inside by what is read, not by the smallest and the largest of all that is
            at = f(self.r.choice(["add", "subtract"]), Cast(ld(self.index, i, j), INT64), j)
            fits = f("logical_and", f("greater_equal", at, c(0)), f("less", at, c(self.m + 3)))
            return ld(self.b, Select(fits, at, Cast(ld(self.index, i, j), INT64)))
        if kind == 8:  # made of floats
            return ld(
                self.b, Cast(f("floor", f("abs", f("minimum", ld(self.a, i, j), c(2, self.dtype)))), INT64)
            )
        if kind == 9:  # held between bounds, moving with one loop, the other or none
            at = add(mul(i, c(self.r.choice([0, 1]))), mul(j, c(self.r.choice([0, 0, 1, 2]))))
            at = add(at, c(self.r.randrange(-4, 5)))
            return ld(self.b, f("minimum", f("maximum", at, c(0)), c(self.r.randrange(self.m + 3))))
        return self.number()

    def value(self, depth: int) -> Expr:
        if depth == 0:
            return self.leaf()
        name = self.r.choice(
            ["add", "subtract", "multiply", "maximum", "minimum", "tanh", "sigmoid", "sin", "abs", "select"]
        )
        if name == "select":
            condition = f(self.r.choice(["less", "greater_equal"]), self.value(depth - 1), self.number())
            return Select(condition, self.value(depth - 1), self.value(depth - 1))
        count = 2 if name in ("add", "subtract", "multiply", "maximum", "minimum") else 1
        return f(name, *(self.value(depth - 1) for _ in range(count)))

    def inner(self) -> tuple[Stmt, ...]:
        """What runs at i, j."""
        i, j, t = Var("i"), Var("j"), Local("t", self.dtype)
        body: list[Stmt] = [Let("t", self.value(self.r.randrange(1, 4)))]
        if self.r.random() < 0.4:
            k = Loop(
                "k",
                c(0),
                c(self.r.randrange(4)),
                (Update("part", "sum", mul(t, ld(self.b, Var("k")) if self.m > 1 else t)),),
                mark=self.r.choice(["", "unroll"]),
            )
            body += [Declare("part", self.dtype, self.number()), k]
            t = Local("part", self.dtype)
        store: Stmt = Store(self.out, (i, j), t, self.r.choice(["assign", "sum", "max"]))
        if self.r.random() < 0.4:
            store = If(f("less", ld(self.a, i, j), c(0.2, self.dtype)), (store,))
        return (*body, store, Update("acc", self.how, t))

    def kernel(self) -> Kernel:
        self.how = self.r.choice(["sum", "max", "min"])
        columns = Loop(
            "j",
            c(0),
            c(self.m),
            self.inner(),
            mark=self.r.choice(["", "vector", "vector", "tile"]),
            factor=self.r.choice([1, 2, 4]),
        )
        rows = Loop(
            "i",
            c(0),
            c(self.n),
            (
                Declare("acc", self.dtype, c(0.5, self.dtype)),
                columns,
                Store(self.total, (Var("i"),), Local("acc", self.dtype)),
            ),
            mark=self.r.choice(["", "parallel", "tile"]),
            factor=self.r.choice([2, 3]),
        )
        return Kernel("random", (self.a, self.b, self.index, self.out, self.total), (rows,))

    def arrays(self) -> dict[str, Any]:
        g = np.random.default_rng(self.r.randrange(2**32))

        def normal(b: Buffer) -> Any:
            return g.normal(size=b.shape).astype(b.dtype)

        index = g.integers(0, self.m + 3, self.index.shape).astype(self.index.dtype)
        return {
            "a": normal(self.a),
            "b": normal(self.b),
            "index": index,
            "out": normal(self.out),
            "total": normal(self.total),
        }


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_kernels(seed: int) -> None:
    made = Random(seed)
    kernel, arrays = made.kernel(), made.arrays()
    check(kernel, arrays, rtol=2e-4, threads=2)
    for bad in (-1, made.m + 3, np.iinfo(made.index.dtype).max, np.iinfo(made.index.dtype).min):
        wrong = {name: a.copy() for name, a in arrays.items()}
        wrong["index"][made.r.randrange(made.n), made.r.randrange(made.m)] = bad
        try:
            interpret.run(kernel, {name: a.copy() for name, a in wrong.items()})
        except IndexingError as error:
            with pytest.raises(IndexingError, match=f"argument '{error.argument}'"):
                compile_kernel(kernel)(*(fenced(wrong[b.name]) for b in kernel.arguments))
        else:
            check(kernel, wrong, rtol=2e-4, threads=2)
