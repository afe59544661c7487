"""How many Python functions a call enters: what a small call costs, on any machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def python_calls(call: Any) -> int:
    """How many Python functions a call enters, once what is kept of its operands is known."""
    call(), call()
    return entered_by(call)


def entered_by(call: Any) -> int:
    """How many Python functions one call enters."""
    entered: list[Any] = []
    with listening(lambda frame, event, _: entered.append(frame.f_code) if event == "call" else None):
        call()
    return len(entered)


@contextmanager
def listening(listen: Callable[[Any, str, Any], Any]) -> Iterator[None]:
    """Profile the body by ``listen``; finalizers of what other tests left behind do not run in it."""
    gc.collect()
    gc.disable()
    sys.setprofile(listen)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()
