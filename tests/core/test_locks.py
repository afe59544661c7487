"""Code of users runs under no lock, and a forked child finds every lock free."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import iverson as iv
from iverson.core.python.cached import cached_property

SOURCES = Path(iv.__file__).parent
#: What makes a lock, or holds one inside (`functools.cached_property` up to Python 3.11).
_LOCKS = re.compile(
    r"threading\.(R?Lock|Condition|Event|Semaphore|Barrier)\(|functools\.cached_property"
    r"|from functools import .*cached_property|queue\.\w*Queue\("
)


def test_every_lock_is_one_that_a_forked_child_finds_free() -> None:
    elsewhere = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in SOURCES.rglob("*.py")
        if path != SOURCES / "core" / "python" / "locks.py"
        for line in path.read_text().splitlines()
        if _LOCKS.search(line) and not line.lstrip().startswith(("#", '"', "`"))
    ]
    assert not [x for x in elsewhere if "`" not in x]


class Slow:
    def __init__(self, inside: Callable[[], Any]) -> None:
        self.inside = inside

    @cached_property
    def value(self) -> Any:
        return self.inside()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_a_value_is_computed_computes_its_own() -> None:
    reached, goes_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: Slow(lambda: (reached.set(), goes_on.wait(60))).value)
    thread.start()
    try:
        assert reached.wait(60)
        child = multiprocessing.get_context("fork").Process(target=lambda: Slow(lambda: 1).value)
        child.start()
        child.join(60)
        assert child.exitcode == 0
    finally:
        goes_on.set()
        thread.join()


def test_threads_that_meet_get_one_value() -> None:
    meet = threading.Barrier(2)
    shared = Slow(lambda: (meet.wait(60), object())[1])
    values: list[Any] = []
    threads = [threading.Thread(target=lambda: values.append(shared.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values[0] is values[1] is shared.value


def _in_thread(*functions: Callable[[], Any]) -> list[Any]:
    """What functions return, each in a thread of its own; fails where one hangs."""
    results: list[Any] = [None] * len(functions)

    def run(k: int) -> None:
        results[k] = functions[k]()

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def test_a_compiled_function_may_call_itself_on_constants() -> None:
    x = iv.asarray([1.0, 2.0])

    @iv.jit
    def power(y: Any, n: int) -> Any:
        return y if n == 0 else y * power(x, n - 1)

    grad = iv.grad(lambda y: power(y, 3).sum())
    found = _in_thread(lambda: (power(x, 3).tolist(), grad(x).tolist()))
    assert found == [([1.0, 16.0], [1.0, 8.0])]


@pytest.mark.parametrize("derivative", [False, True])
def test_functions_may_compile_each_other_from_two_threads(derivative: bool) -> None:
    """While they are traced, and in rules of users, which run while a derivative is made."""
    meet = threading.Barrier(2)
    functions: list[Any] = []

    class Meets(iv.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2.0 * other(g, ctx)

    def other(x: Any, at: Any) -> Any:
        if threading.current_thread() in waited:
            return 1.0
        waited.add(threading.current_thread())
        meet.wait(60)
        run = iv.grad(functions[1 - place[threading.current_thread()]])
        return run(iv.asarray(3.0)).item() / (2.0 if derivative else 1.0)

    def function(k: int) -> Any:
        def of(x: Any) -> Any:
            return (Meets.apply(x) if derivative else x * other(x, k)).sum()

        return iv.jit(of)

    waited: set[Any] = set()
    place: dict[Any, int] = {}
    functions += [function(0), function(1)]

    def called(k: int) -> Any:
        place[threading.current_thread()] = k
        return iv.grad(functions[k])(iv.asarray([3.0, 4.0])).tolist()

    factor = 2.0 if derivative else 1.0
    assert _in_thread(lambda: called(0), lambda: called(1)) == [[factor, factor]] * 2
