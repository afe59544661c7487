"""Lines that say how far long work is: on a terminal alone, not before a second, and erased."""

from __future__ import annotations

import io
from typing import Any

import pytest

import iverson as iv
from iverson.codegen.execution import object_code
from iverson.core.python import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that pass with each look at the clock."""
    steps, now = [0.0], [100.0]

    def tick() -> float:
        now[0] += steps[0]
        return now[0]

    monkeypatch.setattr(progress, "monotonic", tick)
    return steps


def written(monkeypatch: pytest.MonkeyPatch, stream: Any) -> Any:
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def cube(x: Any) -> Any:
    return iv.cumulative_sum(x**3)


def test_gradcheck_shows_how_many_columns_are_done(monkeypatch: Any, clock: list[float]) -> None:
    x = iv.asarray([0.5, 1.0, 2.0], requires_grad=True)
    silent, terminal, slow = io.StringIO(), Terminal(), Terminal()
    clock[0] = 5.0
    for stream, expected in ((silent, False), (slow, True)):
        written(monkeypatch, stream)
        assert iv.testing.gradcheck(cube, (x,))
        assert ("columns of a Jacobian [########................] 1/3" in stream.getvalue()) == expected
    assert slow.getvalue().endswith("\r\x1b[K")
    assert silent.getvalue() == ""
    clock[0] = 0.0
    written(monkeypatch, terminal)
    assert iv.testing.gradcheck(cube, (x,))
    assert terminal.getvalue() == ""


def test_a_loop_shows_its_progress_and_status(monkeypatch: Any, clock: list[float]) -> None:
    clock[0] = 5.0
    terminal = written(monkeypatch, Terminal())
    seen: list[int] = []
    for k in iv.data.progress(range(4), "epochs", status=lambda seen=seen: f"loss {len(seen)}"):
        seen += [k]
    assert seen == [0, 1, 2, 3]
    assert "epochs [############............] 2/4  loss 1" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert list(iv.data.progress((k for k in range(2)), total=2)) == [0, 1]
    assert "progress [############............] 1/2" in terminal.getvalue()
    for items, options, argument in (
        (3, {}, "items"),
        ((k for k in range(2)), {}, "total"),
        ([1], {"total": -1}, "total"),
        ([1], {"status": "loss"}, "status"),
    ):
        with pytest.raises((iv.errors.ArgumentError, iv.errors.ArgumentTypeError)) as caught:
            iv.data.progress(items, **options)
        assert caught.value.argument == argument


def test_compilation_counts_kernels(monkeypatch: Any, clock: list[float]) -> None:
    clock[0] = 0.4
    monkeypatch.setattr(object_code, "_COMPILED", progress.Pieces("compiling kernels"))
    terminal = written(monkeypatch, Terminal())
    for _ in range(3):
        with object_code._COMPILED:
            pass
    assert "compiling kernels: 3" in terminal.getvalue()
    assert "compiling kernels: 1" not in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    with pytest.raises(ZeroDivisionError), object_code._COMPILED:
        raise ZeroDivisionError
    assert terminal.getvalue().endswith("\r\x1b[K")
