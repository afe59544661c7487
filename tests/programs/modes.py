"""The modes in which programs are carried out: what stands around a program, and the calls that this makes.

A mode is wrappers that keep a program a function to a number, a derivative, then wrappers that take any
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from tests.programs.generator import Program


class Mode(NamedTuple):
    """Wrappers from the program outwards: of a function to a number, a derivative, of any function."""

    inner: tuple[str, ...] = ()
    derivative: str = "value"
    outer: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = "f"
        for name in (*self.inner, *([] if self.derivative == "value" else [self.derivative]), *self.outer):
            text = f"{name}({text})"
        return text


DERIVATIVES = (
    Mode((), "grad"),
    Mode((), "jvp"),
    Mode((), "grad", ("jit",)),
    Mode(("jit",), "grad"),
    Mode((), "jvp", ("jit",)),
    Mode((), "grad", ("vmap",)),
    Mode(("vmap",), "grad"),
    Mode((), "grad", ("vmap", "jit")),
    Mode((), "hessian"),
    Mode((), "hessian", ("jit",)),
    Mode(("checkpoint",), "grad"),
    Mode(("scan",), "grad"),
    Mode(("cond",), "grad"),
)
BODIES = ("jit", "vmap", "scan", "fori", "while", "cond", "checkpoint")
VALUES = (Mode(), *(Mode((name,)) for name in BODIES))
#: Wrappers without a place for further results, which draws would be.
CLOSED = {"fori", "while"}


def mode_of(rng: np.random.Generator) -> Mode:
    """One of the named modes, or up to three wrappers."""
    turn = rng.random()
    if turn < 0.55:
        return DERIVATIVES[rng.integers(len(DERIVATIVES))]
    if turn < 0.7:
        return VALUES[rng.integers(len(VALUES))]
    derivative = str(rng.choice(["value", "grad", "jvp", "hessian"], p=[0.2, 0.5, 0.2, 0.1]))
    # The number of steps of a while_loop depends on entries: it has no reverse mode.
    around = [name for name in BODIES if name != "while" or derivative in ("value", "jvp")]
    inner = tuple(str(rng.choice([*around, "grad", "jvp"])) for _ in range(rng.integers(1, 3)))
    if "while" in inner:
        inner = tuple(name for name in inner if name != "grad")
    outer = tuple(
        str(rng.choice(["jit", "vmap", "checkpoint"])) for _ in range(rng.integers(0, 4 - len(inner)))
    )
    return Mode(inner, derivative, outer[:2])


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, tuple):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def _examples(xp: Any, a: Any) -> Any:
    return xp.stack([a, a * 0.8 + 0.05], 0)


def _to_number(xp: Any, name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """A function to a number, made of one."""

    def scan(x: Any, y: Any) -> Any:
        def body(c: Any, u: Any) -> Any:
            number, aux = f(u, y)
            return c + number, (number, aux)

        total, (rows, aux) = xp.scan(body, xp.zeros(()), _examples(xp, x))
        return total + 0.5 * xp.total(rows), aux

    def mapped(x: Any, y: Any) -> Any:
        rows, aux = xp.vmap(f, (0, None))(_examples(xp, x), y)
        return xp.total(rows), aux

    def branch(x: Any, y: Any) -> Any:
        flag = xp.sum(xp.real(y)) > 0.1

        def halved(a: Any, b: Any) -> Any:
            number, aux = f(a, b)
            return number * 0.5, aux

        return xp.cond(flag, f, halved, x, y)

    def fori(x: Any, y: Any) -> Any:
        start = xp.zeros(())
        return xp.fori_loop(2, lambda k, c: c + f(x * (1.0 + 0.1 * k), y)[0], start), ()

    def while_(x: Any, y: Any) -> Any:
        def body(state: Any) -> Any:
            c, n = state
            return c + f(x * (1.0 + 0.1 * n), y)[0], n + 1.0

        start = (xp.zeros(()), xp.zeros(()))
        return xp.while_loop(lambda state: state[1] < 1.5, body, start)[0], ()

    def gradient(x: Any, y: Any) -> Any:
        found, aux = xp.grad(f, (0, 1))(x, y)
        return xp.total(*found), aux

    table = {"scan": scan, "vmap": mapped, "cond": branch, "fori": fori, "while": while_, "grad": gradient}
    if name in table:
        return table[name]
    return {"jit": xp.jit, "checkpoint": xp.checkpoint, "jvp": lambda g: xp.jvp(g, (0.7, -0.4))}[name](f)  # type: ignore[no-any-return]


def carried_out(xp: Any, program: Program, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The results of a program in its mode, and what it drew."""
    f, mode = program.function(xp), program.mode
    for name in mode.inner:
        f = _to_number(xp, name, f)
    if mode.derivative == "grad":
        f = xp.grad(f, (0, 1))
    elif mode.derivative == "jvp":
        f = xp.jvp(f, (0.7, -0.4))
    elif mode.derivative == "hessian":
        f = xp.hessian(f)
    args = list(args)
    for name in mode.outer:
        if name == "vmap":
            args = [_examples(xp, a) for a in args]
    for name in mode.outer:
        f = {"jit": xp.jit, "checkpoint": xp.checkpoint, "vmap": xp.vmap}[name](f)
    results, aux = f(*args)
    return tuple(_leaves((results,))), tuple(_leaves((aux,)))
