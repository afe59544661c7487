"""Names in texts and messages are the user's: arguments, tensors, axes, and documented forms of these."""

from __future__ import annotations

import ast
import inspect
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.codegen.nests.print import kernel_text
from iverson.core.errors import IndexingError
from iverson.core.scalars import SCALARS
from iverson.expr.function_facts import ASSIGN
from iverson.te.ir.expressions import Tensor, Var
from iverson.te.ir.fresh_names import PARTS, meaning, part
from iverson.te.ir.interpret import run
from iverson.te.lowering.lowered_program import Run
from iverson.te.lowering.statement_lowering import afresh
from tests.conformance.product import EXHAUSTIVE, by_turns, paired

from .corpus import KERNELS
from .programs import Programs, drawn
from .texts import derived, texts

#: What texts say beside names: the strings of the modules that make them, and functions.
SAID = (
    *(
        "te/lowering/explanation",
        "te/lowering/kernel_report",
        "te/ir/fresh_names",
        "te/elimination/zero_elimination",
        "te/rewrites/inlining",
        "te/ir/evaluation_guards",
    ),
    *(
        "codegen/execution/time_estimates",
        "codegen/schedule/parallel_scatter",
        "codegen/runtime/machine_peak",
    ),
)
#: Names that te gives: tensors and axes that nobody named, indices of what a gather writes, digits, batches.
GIVEN = r"[Tkn]\d+|[aboxeip]\d+|[a-z]+[01]|[etpm]"


@cache
def prose() -> frozenset[str]:
    package = Path(inspect.getfile(te)).parents[1]
    found = {"argmax", "argmin", "nan", "inf", "add", "select", "int64", "float64", *SCALARS, *ASSIGN}
    for name in SAID:
        tree = ast.parse((package / f"{name}.py").read_text())
        own = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        found.update(w for text in own if "\n" not in text for w in re.findall(r"[A-Za-z_]\w*", text))
    return frozenset(found)


def words_of(function: Callable[..., Any]) -> frozenset[str]:
    """The words of a definition and of the functions of its module that it calls."""
    found: set[str] = set()
    waiting = [inspect.unwrap(function)]
    seen = set()
    while waiting:
        f = waiting.pop()
        if f in seen:
            continue
        seen.add(f)
        own = frozenset(re.findall(r"\w+", inspect.getsource(f)))
        found |= own
        others = (vars(inspect.getmodule(f)) | dict(inspect.getclosurevars(f).nonlocals)).items()
        waiting += [g for n, g in others if n in own and inspect.isfunction(g)]
    return frozenset(found)


def unknown(text: str, users: frozenset[str]) -> set[str]:
    """The words of a text on kernels that are neither a user's names, nor forms of these, nor prose."""
    wrong, known = set(), users | prose() | set(PARTS)
    for line in text.splitlines():
        in_loops = line.startswith(("    ", "  domain"))  # where axes of one name are told apart
        for word in re.findall(r"[A-Za-z_][\w.]*\w|[A-Za-z_]", line):
            first, *parts = word.split(".")
            own = {first, first.removeprefix("d"), first.removeprefix("d").rstrip("0123456789")} | (
                {re.sub(r"_\d$", "", first)} if in_loops else set()
            )
            is_part = all(p.isdigit() or p.rstrip("0123456789") in PARTS for p in parts) or first == "te"
            if not is_part or not (own & known or any(re.fullmatch(GIVEN, x) for x in own)):
                wrong.add(word)
    return wrong


@pytest.mark.parametrize("name", by_turns(KERNELS, 9, 2))
def test_explain_speaks_of_the_users_tensors_and_axes(name: str) -> None:
    """Of a kernel, and its derivatives in all inputs."""
    kernel = KERNELS[name]
    given, outputs, _ = kernel.built()
    smooth = [t for t in outputs if t.dtype.kind in "fc"]
    inputs = [t for t in given if t.dtype.kind in "fc"]
    heads = [te.placeholder(t.shape, t.dtype.name, f"cotangent{k}") for k, t in enumerate(smooth)]
    gradients = list(te.differentiate(smooth, inputs, heads)) if smooth and inputs else []
    users = words_of(kernel.define) | {t.name for t in given}
    assert not unknown(te.explain([*outputs, *gradients]), users)
    for g in gradients:
        for word in re.findall(r"\w+(?:\.\w+)+", g.name):
            assert meaning(word)


def test_what_the_test_above_looks_for_is_found() -> None:
    users = frozenset({"x", "look"})
    assert unknown("  threads   2, over i_0_0", users) == {"i_0_0"}
    assert unknown("  warning   dlook_dx_5 is read", users) == {"dlook_dx_5"}
    assert unknown("look.arg[a0] = x.argmax[a0] + look.factors4[a0]", users) == {"look.arg"}


def by_rows(name: str, axis: str, over: str) -> Any:
    """An op under names of its own, always the same but for these."""
    first, second = f"{name}_table", f"{name}_rows"
    read = f"{first}[{second}[{axis}], {over}]"
    lines = [
        f"def {name}({first}, {second}):",
        f"    {over} = te.reduce_axis({first}.shape[1])",
        f"    top = te.compute({second}.shape, lambda {axis}: te.max({read}, {over}))",
        f"    return te.compute(top.shape, lambda {axis}: top[{axis}] ** 3, {name!r})",
    ]
    space = {"te": te}
    exec("\n".join(lines), space)
    return te.op(space[name])


@pytest.mark.parametrize(("order", "how"), paired([0, 1, 2], ["eager", "jit"]))
def test_ops_of_equal_structure_speak_each_of_its_own_names(how: str, order: int) -> None:
    """Their code is one; at run time too, in derivatives, compiled or not, for one shape and for all."""
    table, good, bad = iv.asarray(np.random.rand(4, 3)), np.array([0, 2]), np.array([0, 7])

    def check(call: Callable[..., Any], name: str, axis: str, over: str, n: int) -> None:
        call(table, np.resize(good, n))
        where = rf"{name}_table\[{name}_rows\[{axis}\], {over}\], where {axis} = 1, {over} = 0;"
        with pytest.raises(IndexingError, match=rf"^te.{name}\b.*'{name}_table': got index 7 .* {where}"):
            call(table, np.resize(bad, n))

    calls = []
    for name, axis, over in (("first", "i", "k"), ("second", "row", "column")):
        own = by_rows(name, axis, over)
        f = lambda t, index, own=own: own(t, index).sum()
        for _ in range(order):
            f = lambda t, index, f=f: iv.grad(lambda t: f(t, index))(t).sum()
        calls.append((iv.jit(f) if how == "jit" else f, name, axis, over))
        for n in (2, 3, 5):
            check(*calls[-1], n)
    for call in reversed(calls):  # a shape that the second meets before the first
        check(*call, 7)


def test_derivatives_are_called_after_arguments() -> None:
    own, table, index = by_rows("own", "i", "k"), iv.asarray(np.random.rand(4, 3)), np.array([0, 2])

    def names(f: Callable[..., Any]) -> set[str]:
        return set(re.findall(r"te[\w.]+", str(iv.jit(f).graph(table))))

    def loss(t: Any) -> Any:
        return (own(t, index) ** 2).sum()

    assert names(iv.grad(loss)) == {"te.own", "te.own.vjp.own_table"}
    second = names(iv.grad(lambda t: (iv.grad(loss)(t) ** 2).sum()))
    pulled = {f"te.own.vjp.own_table.vjp.{x}" for x in ("cotangent", "own_table")}
    assert pulled <= second
    assert "te.own.jvp.own_table" in names(lambda t: iv.jvp(loss, (t,), (t,)))
    assert "te.own.batch" in names(lambda t: iv.vmap(lambda i: own(t, i))(np.stack([index, index])))
    gradients = own.expression.gradients((0,), (0,)).gradients((0, 1), (0,))
    assert gradients.names == ("cotangent_1", "cotangent", "own_table", "own_rows")
    report = iv.explain.report(iv.grad(loss))(table).text(steps=True)
    assert "te.own.vjp.own_table(" in report


def test_a_buffer_is_called_after_what_it_holds_at_the_time() -> None:
    x, k = te.placeholder((200, 200), name="x"), te.reduce_axis(200, "k")
    t: te.Tensor = x
    for name in "abcd":
        t = te.compute((200, 200), lambda i, j, t=t: te.sum(te.exp(t[i, k] - t[k, j]), k), name)
    assert [line.split()[2] for line in te.explain(t).splitlines() if line[:6] == "kernel"] == list("abcd")


def test_forms_of_names_are_read_back() -> None:
    t = te.placeholder((3,), name="my tensor")
    for which in PARTS:
        assert "my tensor" in meaning(part(t, which))
        assert "my tensor" in meaning(part(t, which, 4))
    assert meaning("y.2") == "a reduction inside of y"
    assert not meaning("y")
    assert not meaning("dy/dx")
    reference = (Path(inspect.getfile(te)).parents[3] / "docs/reference/te.md").read_text()
    assert all(f"`T.{which}`" in reference for which in PARTS)


#: Names that code has, that tensors have, and words of Python.
ADVERSE = (
    *(
        "t",
        "i",
        "_0",
        "out",
        "x",
        "acc",
        "best",
        "at",
        "made",
        "once",
        "step",
        "row",
        "for",
        "lambda",
        "None",
    ),
    *(
        "t0",
        "t1_1",
        "t0_1",
        "i0",
        "i1",
        "i0_0",
        "b0",
        "b1",
        "b0_by1",
        "n_0",
        "p0",
        "acc_1",
        "%0",
        "$0",
        "sin",
    ),
    *("float64", "a b", "", "T", "X", "Y", "select", "range", "S.1", "dT/dX"),
)


@contextmanager
def named(name: Callable[[], str] | None) -> Iterator[None]:
    """Every index, size and tensor, also those that rewrites add, has a name that is drawn."""
    if name is None:
        yield
        return
    index, tensor = Var.__init__, Tensor.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Var, "__init__", lambda v, _, *rest: index(v, name(), *rest))
        patch.setattr(Tensor, "__init__", lambda t, shape, dtype, _: tensor(t, shape, dtype, name()))
        yield


def compiled_from(seed: int, name: Callable[[], str] | None) -> tuple[list[str], list[Any]]:
    """Of the random program of a seed: what is compiled, names and all, and what the interpreter gives."""
    with named(name):
        made = Programs(seed)
        output, differentiable = made.program()
        programs = list(derived([made.X, made.Y] if differentiable else [], [output]))
        whole = [text for p in programs for text in texts(p)]
        for p in programs:
            steps = afresh(te.eliminate(p)).steps
            whole += [kernel_text(s.kernel) for s in steps if isinstance(s, Run)]
        sizes = dict(zip(made.shape, (made.n, made.m), strict=True)) if made.symbolic else {}
        bound = te.program_of(te.bind(programs[0], sizes) if sizes else programs[0])
        rng = np.random.default_rng(seed)
        given = [drawn(rng, p) if p.dtype.kind in "fcV" else np.zeros(p.shape, p.dtype) for p in bound.inputs]
        return whole, [x.tobytes() for x in run(bound, given)]


@pytest.mark.parametrize("seed", range(2000 if EXHAUSTIVE else 2))
def test_code_does_not_depend_on_names(seed: int) -> None:
    """What is compiled is the same to the letter, whatever the names, and if all are one."""
    r = random.Random(seed)
    plain = compiled_from(seed, None)
    assert compiled_from(seed, lambda: r.choice(ADVERSE)) == plain
    one = r.choice(ADVERSE)
    assert compiled_from(seed, lambda: one) == plain


@pytest.mark.parametrize("index", ["t", "i", "t0", "acc", "_0", "i0", "t1_1"])
def test_a_gradient_does_not_depend_on_the_name_of_an_index(index: str) -> None:
    """Two phases by residues, in which values are named, as one."""
    entry = f"te.maximum(.45, te.sigmoid(Y[{index} % 3])) * ({index} + 1.0)"
    op = te.op(eval(f"lambda Y: te.compute((4,), lambda {index}: {entry})", {"te": te}), name="residues")
    y = np.array([0.3, -0.2, 0.7])
    s = 1 / (1 + np.exp(-y))
    wanted = np.where(s > 0.45, s * (1 - s), 0) * [5, 2, 3]
    np.testing.assert_allclose(iv.grad(lambda y: op(y).sum())(iv.asarray(y)), wanted, rtol=1e-14)


def test_sizes_of_one_name_are_two() -> None:
    n, m = te.var("n"), te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((m,), name="A")
    keys = {te.program_of([te.compute((k,), lambda i: A[0] + B[0] + i)], [A, B]).key() for k in (n, m)}
    assert len(keys) == 2
