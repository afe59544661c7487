"""The way of a call through the package, counted: Python calls, files, changes of package, depth.

    python -m tools.call_path [CASE[:LINES] ...]

Each case is recorded at its first, second and fourth call. ``:LINES`` prints that many calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import iverson as iv
from iverson import te

ROOT = str(Path(iv.__file__).parent)


class Call(NamedTuple):
    depth: int
    file: str
    function: str


def recorded(run: Callable[[], Any]) -> list[Call]:
    """The calls of the package's functions that a run makes, in their order."""
    calls: list[Call] = []
    depth = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        if not frame.f_code.co_filename.startswith(ROOT):
            return
        if event == "call":
            depth += 1
            calls.append(Call(depth, frame.f_code.co_filename[len(ROOT) + 1 :], frame.f_code.co_qualname))
        elif event == "return":
            depth -= 1

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def summary(calls: list[Call]) -> str:
    packages = [call.file.split("/")[0] for call in calls]
    changes = sum(a != b for a, b in pairwise(packages))
    return (
        f"calls {len(calls):6}  functions {len({call[1:] for call in calls}):4}"
        f"  files {len({call.file for call in calls}):3}  packages {len(set(packages)):2}"
        f"  package changes {changes:5}  depth {max((call.depth for call in calls), default=0)}"
    )


def add() -> Callable[[], Any]:
    a, b = iv.ones((3, 3)), iv.ones((3, 3))
    return lambda: a + b


def add_tracked() -> Callable[[], Any]:
    a, b = iv.ones((3, 3), requires_grad=True), iv.ones((3, 3))
    return lambda: a + b


def sparse_product_gradient() -> Callable[[], Any]:
    s = iv.sparse_csr_tensor([0, 1, 3, 4], [1, 0, 2, 1], [1.0, 0.5, 0.5, 1.0], (3, 3), requires_grad=True)
    x = iv.ones((3, 2), requires_grad=True)
    return lambda: iv.autograd.grad((s @ x).sum(), [s, x])


def jitted_step() -> Callable[[], Any]:
    w, x, y = iv.ones((4, 3)), iv.ones((5, 4)), iv.ones((5, 3))
    step = iv.jit(lambda w, x, y: iv.value_and_grad(lambda w: ((iv.tanh(x @ w) - y) ** 2).mean())(w))
    return lambda: step(w, x, y)


def index_notation() -> Callable[[], Any]:
    @te.op
    def correlate(x: Any, w: Any) -> Any:
        k = te.reduce_axis((0, w.shape[0]))
        return te.compute((x.shape[0] - w.shape[0] + 1,), lambda i: te.sum(w[k] * x[i + k], axis=k))

    x, w = iv.arange(7.0, requires_grad=True), iv.ones(3, requires_grad=True)
    return lambda: iv.autograd.grad(correlate(x, w).sum(), [x, w])


def batch() -> Callable[[], Any]:
    mapped, x, w = iv.vmap(lambda x, w: x @ w, (0, None)), iv.ones((5, 4)), iv.ones((4, 3))
    return lambda: mapped(x, w)


def sparse_jacobian() -> Callable[[], Any]:
    x = iv.arange(50.0)
    return lambda: iv.jacobian(lambda x: (x[1:] - x[:-1]) ** 2, layout="csr")(x)


CASES = {
    case.__name__: case
    for case in (
        add,
        add_tracked,
        sparse_product_gradient,
        jitted_step,
        index_notation,
        batch,
        sparse_jacobian,
    )
}


def main(names: list[str]) -> None:
    for name in names or CASES:
        case, _, lines = name.partition(":")
        if case not in CASES:
            raise SystemExit(f"call_path: got case {case!r}; expected one of {', '.join(CASES)}")
        run = CASES[case]()
        print(case)
        for number in ("first", "second", "third", "fourth"):
            calls = recorded(run)
            if number != "third":
                print(f"  {number:7} {summary(calls)}")
            for call in calls[: int(lines or 0)]:
                print(f"     {'  ' * call.depth}{call.file}:{call.function}")


if __name__ == "__main__":
    main(sys.argv[1:])
