"""Programs in blocks: the same numbers as in one piece, and memory for some rows of what is between.

Attention is the case that matters; random programs say what else is between inputs and results: tensors along
an axis and totals over it, reads of whole inputs, the axis as a number, stages before the blocks and after.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.codegen.launches import CompiledProgram
from iverson.codegen.runtime import workspaces
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.interpret import run
from iverson.te.lowering.block_calls import Blocked, lowered_in_blocks
from iverson.te.ops.operator import Expression
from iverson.te.rewrites import axis_blocks
from tests.conformance.product import EXHAUSTIVE, some

F = te.F
KEYS = 6


def attention(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Softmax of the scores, and sums weighted by it, as one writes them down; heads first."""
    (heads, n, d), (_, m, e) = q.shape, v.shape
    c, j = te.reduce_axis(d, "c"), te.reduce_axis(m, "j")
    product = te.compute((heads, n, m), lambda h, i, j: te.sum(q[h, i, c] * k[h, j, c], c), "product")
    scores = te.compute(
        (heads, n, m),
        lambda h, i, j: te.select(j <= i, product[h, i, j], -1e30) if causal else product[h, i, j],
    )
    top = te.compute((heads, n), lambda h, i: te.max(scores[h, i, j], j), "top")
    w = te.compute((heads, n, m), lambda h, i, j: te.exp(scores[h, i, j] - top[h, i]), "w")
    total = te.compute((heads, n), lambda h, i: te.sum(w[h, i, j], j), "total")
    return te.compute((heads, n, e), lambda h, i, x: te.sum(w[h, i, j] * v[h, j, x], j) / total[h, i], "out")


def streaming(q: Any, k: Any, v: Any) -> Any:
    """The same by a scan over the keys: the largest score so far, and sums that are rescaled with it."""
    (heads, n, d), (_, m, e) = q.shape, v.shape
    c = te.reduce_axis(d, "c")

    def step(top: Any, total: Any, out: Any) -> Any:
        score = te.compute((m, heads, n), lambda t, h, i: te.sum(q[h, i, c] * k[h, t, c], c), "score")
        new = te.compute((m, heads, n), lambda t, h, i: te.maximum(top[t - 1, h, i], score[t, h, i]), "top")
        old = te.compute((m, heads, n), lambda t, h, i: te.exp(top[t - 1, h, i] - new[t, h, i]), "old")
        w = te.compute((m, heads, n), lambda t, h, i: te.exp(score[t, h, i] - new[t, h, i]), "w")
        return (
            new,
            te.compute(
                (m, heads, n), lambda t, h, i: old[t, h, i] * total[t - 1, h, i] + w[t, h, i], "total"
            ),
            te.compute(
                (m, heads, n, e),
                lambda t, h, i, x: old[t, h, i] * out[t - 1, h, i, x] + w[t, h, i] * v[h, t, x],
                "sums",
            ),
        )

    _, total, out = te.scan([(m, heads, n), (m, heads, n), (m, heads, n, e)], step, init=[-1e30, 0.0, 0.0])
    return te.compute((heads, n, e), lambda h, i, x: out[m - 1, h, i, x] / total[m - 1, h, i], "out")


def softmax_sums(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """The same on arrays."""
    scores = q @ np.swapaxes(k, 1, 2)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -1e30)
    w = np.exp(scores - scores.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True) @ v


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of temporaries of calls, while programs are taken to be large from 8 KB on and blocks have 4."""
    monkeypatch.setattr(axis_blocks, "LARGE", 1 << 13)
    monkeypatch.setattr(axis_blocks, "BLOCK", 1 << 12)
    found: list[int] = []
    take = workspaces.take

    def counted(shape: Any, dtype: Any) -> Any:
        found.append(prod(shape) * dtype.itemsize)
        return take(shape, dtype)

    run = CompiledProgram.run

    def running(own: CompiledProgram, arrays: Any) -> Any:
        found.append(own.calling.arena)
        return run(own, arrays)

    monkeypatch.setattr(workspaces, "take", counted)
    monkeypatch.setattr(CompiledProgram, "run", running)
    return found


def shaped(rng: np.random.Generator, heads: int, n: int) -> list[Any]:
    return [iv.asarray(rng.normal(size=(heads, n, 3)), requires_grad=True) for _ in range(3)]


def test_attention_to_second_order(taken: list[int]) -> None:
    """In both modes: against NumPy, and derivatives against each other and differences."""
    op = te.op(lambda q, k, v: attention(q, k, v, causal=True), name="blocks_attention")
    rng = np.random.default_rng(1)
    q, k, v = shaped(rng, 2, 40)
    out = op(q, k, v)
    plain = [x.detach().numpy() for x in (q, k, v)]
    np.testing.assert_allclose(out.detach().numpy(), softmax_sums(*plain, causal=True), rtol=1e-12)
    t = iv.asarray(rng.normal(size=q.shape))

    def total(q: Any) -> Any:
        return (op(q, k, v) ** 2).sum()

    (slope,) = iv.autograd.grad(total(q), [q], create_graph=True)
    (second,) = iv.autograd.grad((slope * t).sum(), [q])
    _, along = iv.jvp(total, (q.detach(),), (t,))
    np.testing.assert_allclose(float(along.detach().item()), float((slope * t).sum().item()), rtol=1e-10)
    step = 1e-5
    shifted = []
    for s in (1, -1):
        x = iv.asarray(plain[0] + s * step * t.numpy(), requires_grad=True)
        shifted.append(iv.autograd.grad(total(x), [x])[0].numpy())
    np.testing.assert_allclose(second.numpy(), (shifted[0] - shifted[1]) / (2 * step), rtol=1e-5, atol=1e-8)
    whole = [c for e in (op.expression, *op.expression._derived.values()) for c in e._compiled.values()]
    assert len(whole) > 2
    assert all(isinstance(c.lowered, Blocked) for c in whole)


@pytest.mark.parametrize("of", ["plain", "streaming"])
def test_memory_grows_with_rows_and_not_with_their_squares(of: str, taken: list[int]) -> None:
    """Forward and gradients, also in a shape that the code for all shapes serves."""
    plainly: Any = lambda q, k, v: attention(q, k, v, causal=False)
    op = te.op(streaming if of == "streaming" else plainly, name=f"blocks_memory_{of}")
    rng = np.random.default_rng(2)
    most: dict[int, list[int]] = {}
    for n in (40, 120):
        q, k, v = shaped(rng, 1, n)
        out = op(q, k, v)
        plain = [x.detach().numpy() for x in (q, k, v)]
        np.testing.assert_allclose(out.detach().numpy(), softmax_sums(*plain, causal=False), rtol=1e-12)
        forward = max(taken)
        taken.clear()
        iv.autograd.grad(out.sum(), [q, k, v])
        most[n] = [forward, max(taken)]
        taken.clear()
    assert all(b <= max(1 << 12, 8 * 3 * n * 8) for n, both in most.items() for b in both), most


@pytest.mark.parametrize("causal", some("causal", [False, True]))
def test_in_compiled_functions(causal: bool, taken: list[int]) -> None:
    """Values, gradients and second derivatives are those of eager calls, and so is the memory.

    The gradients, which a trace has as an equation each, are one step.
    """
    op = te.op(lambda q, k, v: attention(q, k, v, causal=causal), name=f"blocks_compiled_{causal}")
    rng = np.random.default_rng(3)
    q, k, v, t = (rng.normal(size=(1, 70, 3)) for _ in range(4))

    def value(q: Any, k: Any, v: Any) -> Any:
        return op(q * 2.0, k, v) + 1.0

    def gradients(q: Any, k: Any, v: Any) -> Any:
        return iv.grad(lambda *x: (value(*x) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)

    def along(q: Any, k: Any, v: Any) -> Any:
        return iv.jvp(lambda q: gradients(q, k, v)[0], (q,), (t,))[1]

    for f in (value, gradients, along):
        expected = f(q, k, v)
        ran = _that_ran(op.expression)
        taken.clear()
        found = iv.jit(f)(q, k, v)
        assert max(taken) < 70 * 70 * 8
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else ((found, expected),)
        for a, b in pairs:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)
        if f is gradients:
            assert _that_ran(op.expression) == ran, "one for each input"


def _that_ran(e: Expression) -> set[Any]:
    """Which derivatives of an expression were compiled."""
    derived = e._derived.items()
    return {key for key, d in derived if any("lowered" in vars(c) for c in d._compiled.values())}


# --- random programs ----------------------------------------------------------------------------------


class Rows:
    """Draws programs of which most is along an axis i of n: matrices [i, k], numbers [i] and totals [k]."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.n = self.one(4, 5, 7)
        self.X = te.placeholder((self.n, KEYS), name="X")
        self.Y = te.placeholder((self.one(self.n, self.n + 2), KEYS), name="Y")
        self.at = te.placeholder((self.n,), "int64", "at")
        self.matrices: list[Tensor] = []
        self.numbers: list[Tensor] = []

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def entry(self, i: Any, k: Any) -> Any:
        """A term of row i: of inputs, of earlier matrices and numbers of the row."""
        how = self.one("along", "whole", "matrix", "matrix", "number", "shifted", "data")
        if how == "matrix" and self.matrices:
            return self.one(*self.matrices)[i, self.one(k, KEYS - 1 - k)]
        if how == "number" and self.numbers:
            return self.one(*self.numbers)[i]
        if how == "whole":
            return self.Y[self.one(te.clamp(k, 0, self.n - 1), self.n - 1 - i, i), k]
        if how == "shifted":
            return self.Y[te.clamp(i + self.one(1, -1), 0, self.n - 1), k]
        if how == "data":
            return self.Y[self.at[i], k]
        return self.X[i, k]

    def value(self, i: Any, k: Any) -> Any:
        a, b = self.entry(i, k), self.entry(i, k)
        found = self.one(a * b, a + F.sin(b), F.exp(a * 0.3) - b)
        return (
            te.select(self.one(k <= i, i % 2 == 0, i + k < 5), found, 0.0) if self.one(True, False) else found
        )

    def outputs(self) -> list[Tensor]:
        first = te.compute((self.n, KEYS), lambda i, k: self.value(i, k) * self.X[i, k], "M0")
        self.matrices.append(first)
        totals: list[Tensor] = []
        for s in range(self.draw(st.integers(2, 4))):
            how = self.one("matrix", "number", "number", "total", "place")
            i, k = te.reduce_axis(self.n, "i"), te.reduce_axis(KEYS, "k")
            if how == "matrix":
                self.matrices.append(te.compute((self.n, KEYS), self.value, f"M{s + 1}"))
            elif how == "number":
                reduce = self.one(te.sum, te.sum, te.max)
                self.numbers.append(
                    te.compute((self.n,), lambda i, k=k, r=reduce: r(self.value(i, k), k), f"N{s}")
                )
            elif how == "total":
                reduce = self.one(te.sum, te.max, te.min, te.prod)
                made = te.compute((KEYS,), lambda k, i=i, r=reduce: r(self.matrices[-1][i, k], i), f"T{s}")
                totals.append(self.one(made, te.compute((KEYS,), lambda k, t=made: t[k] * t[0] + 1, f"A{s}")))
            else:
                best = te.compute((self.n,), lambda i, k=k: te.argmax(self.matrices[-1][i, k], k), f"B{s}")
                self.numbers.append(te.compute((self.n,), lambda i, b=best: self.Y[i, b[i]], f"P{s}"))
        last = te.compute((self.n,), lambda i: te.sum(self.value(i, k) * self.matrices[0][i, k], k), "L")
        return [last, *totals]


@settings(deadline=None, max_examples=200 if EXHAUSTIVE else 6)
@given(st.data(), st.integers(0, 2**31))
def test_in_blocks_as_interpreted(data: st.DataObject, seed: int) -> None:
    made = Rows(data.draw)
    outputs = made.outputs()
    rng = np.random.default_rng(seed)
    H = te.placeholder(outputs[0].shape, name="H")
    gradients = te.differentiate(outputs[0], [made.X, made.Y], H) if data.draw(st.booleans()) else []
    program = te.program_of([*gradients] or outputs)
    feeds: dict[Tensor, Any] = {t: rng.uniform(-1, 1, t.shape) for t in (made.X, made.Y, H)}
    feeds[made.at] = rng.integers(0, made.n, made.n)
    feed = [feeds[p] for p in program.inputs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(axis_blocks, "BLOCK", data.draw(st.sampled_from([1, 200, 400])))
        lowered = lowered_in_blocks(program)
        if lowered is None:
            return
        found = lowered(*feed)
    for a, b in zip(found, run(program, feed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
