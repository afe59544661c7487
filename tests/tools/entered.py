"""How many Python functions a call enters: what a small call costs, on any machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def python_calls(call: Any) -> int:
    """How many Python functions a call enters, once what is kept of its operands is known."""
    call(), call()
    return entered_by(call)


def entered_by(call: Any) -> int:
    """How many Python functions one call enters."""
    entered: list[Any] = []
    listened(call, lambda frame, event, _: entered.append(frame.f_code) if event == "call" else None)
    return len(entered)


def listened(call: Callable[[], Any], listen: Callable[[Any, str, Any], Any]) -> Any:
    """Result of a call, profiled by ``listen``, without finalizers of what other tests left behind."""
    gc.collect()
    gc.disable()
    sys.setprofile(listen)
    try:
        return call()
    finally:
        sys.setprofile(None)
        gc.enable()
