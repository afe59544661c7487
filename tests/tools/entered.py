"""How many Python functions a call enters: what a small call costs, on any machine."""

from __future__ import annotations

import sys
from typing import Any


def python_calls(call: Any) -> int:
    """How many Python functions a call enters, once what is kept of its operands is known."""
    call(), call()
    return entered_by(call)


def entered_by(call: Any) -> int:
    """How many Python functions one call enters."""
    entered: list[Any] = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(entered)
