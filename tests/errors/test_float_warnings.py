"""NumPy's floating-point warnings keep NumPy's words and modes, and name the user's line."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import iverson as iv
from iverson.core import float_warnings
from iverson.core.op import Sampler
from iverson.core.table import TABLE, F
from tests.errors.calls import calls

CATEGORIES = ("divide", "invalid", "over", "under")

#: By category, expressions in the library ``m`` and arrays of it.
SIGNALS = {
    "divide": [
        lambda m: 1 / m.asarray([0.0]),
        lambda m: m.asarray([-2.0]) / 0.0,
        lambda m: m.log(m.asarray([0.0])),
        lambda m: m.log2(m.asarray([0.0])),
        lambda m: m.log10(m.asarray([0.0], dtype="float32")),
        lambda m: m.log1p(m.asarray([-1.0])),
        lambda m: m.asarray([0.0]) ** -1.0,
        lambda m: m.atanh(m.asarray(1.0)),
        lambda m: m.asarray([3]) // m.asarray([0]),
        lambda m: m.asarray([3]) % 0,
    ],
    "invalid": [
        lambda m: m.log(-m.asarray([1.0, 2.0])),
        lambda m: m.sqrt(m.asarray([-1.0])),
        lambda m: m.asarray([np.inf]) - m.asarray([np.inf]),
        lambda m: m.asarray([np.inf]) * 0.0,
        lambda m: m.sin(m.asarray([np.inf])),
        lambda m: m.asin(m.asarray([2.0])),
        lambda m: m.asarray([1.0]) % m.asarray([0.0]),
        lambda m: m.sum(m.asarray([np.inf, -np.inf])),
        lambda m: m.asarray(m.asarray([np.nan]), dtype="int32"),
    ],
    "over": [
        lambda m: m.exp(m.asarray([1000.0])),
        lambda m: m.asarray([1e308]) * 10.0,
        lambda m: m.asarray([1e308]) + m.asarray([1e308]),
        lambda m: m.square(m.asarray([1e200])),
        lambda m: m.asarray([10.0]) ** 400.0,
        lambda m: m.sinh(m.asarray([1000.0])),
        lambda m: m.prod(m.asarray([1e200, 1e200])),
        lambda m: m.asarray([[1e200]]) @ m.asarray([[1e200]]),
        lambda m: m.asarray(m.asarray([1e300]), dtype="float32"),
        lambda m: m.asarray([1e300], dtype="float64").__array__("float32"),
        lambda m: m.full(2, 1e300, dtype="float32"),
        lambda m: m.linspace(0.0, 1e300, 3, dtype="float32"),
        lambda m: m.asarray([1.0], dtype="float32") < 1e300,
        lambda m: m.asarray([1.0, 2.0], dtype="float32").__setitem__(slice(None), m.asarray([1e300, 0.0])),
    ],
    "under": [
        lambda m: m.exp(m.asarray([-745.0])),
        lambda m: m.asarray([1e-300]) * 1e-300,
        lambda m: m.asarray([1e-300]) / 1e300,
        lambda m: m.square(m.asarray([1e-200])),
    ],
}
CASES = [
    pytest.param(category, f, id=f"{category}-{k}")
    for category, functions in SIGNALS.items()
    for k, f in enumerate(functions)
]


def told(function, library) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(library)
    return found


class Log:
    """What is called, or written to, by NumPy's error handling."""

    def __init__(self) -> None:
        self.found: list[object] = []

    def __call__(self, *args: object) -> None:
        self.found.append(args)

    def write(self, text: str) -> None:
        self.found.append(text)


@pytest.mark.parametrize(("category", "function"), CASES)
def test_modes(category, function):
    others = dict.fromkeys(CATEGORIES, "ignore")
    with np.errstate(**{**others, category: "warn"}):
        ours, theirs = told(function, iv), told(function, np)
        assert np.geterr()[category] == "warn"
    assert theirs
    assert [str(w.message) for w in ours] == [str(w.message) for w in theirs]
    assert all(w.category is RuntimeWarning and w.filename == __file__ for w in ours)
    assert {w.lineno for w in ours} == {function.__code__.co_firstlineno}
    with np.errstate(all="ignore"):
        assert not told(function, iv)
    with np.errstate(**{**others, category: "raise"}):
        for library in (iv, np):
            with pytest.raises(FloatingPointError, match=re.escape(str(theirs[0].message))):
                function(library)
    for mode in ("call", "log"):
        # The other categories are left to warn, so that the user's function and the warnings are kept apart.
        logs = {library: Log() for library in (iv, np)}
        for library, log in logs.items():
            with np.errstate(**{**dict.fromkeys(CATEGORIES, "warn"), category: mode}, call=log):
                told(function, library)
        assert logs[np].found
        assert logs[iv].found == logs[np].found


def test_each_line_warns_once():
    x = iv.asarray([0.0])
    with warnings.catch_warnings(record=True) as found, np.errstate(divide="warn"):
        warnings.resetwarnings()
        warnings.simplefilter("default")
        for _ in range(3):
            1 / x
            1 / x
    lines = [w.lineno for w in found]
    assert len(lines) == 2
    assert lines[1] == lines[0] + 1


def test_filters_see_the_users_module():
    x = iv.asarray([0.0])
    with warnings.catch_warnings(record=True) as found, np.errstate(divide="warn"):
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=re.escape(__name__))
        1 / x
        warnings.filterwarnings("error", module=re.escape(__name__))
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in divide"):
            1 / x
    assert not found


def test_what_the_users_function_raises_passes_through():
    def refuse(category: str, flags: int) -> None:
        raise LookupError(category)

    with np.errstate(divide="call", call=refuse), pytest.raises(LookupError, match="divide by zero"):
        1 / iv.asarray([0.0])


def test_threads_and_generators_keep_their_own_modes():
    x = iv.asarray([0.0])
    failed = []

    def quotients() -> Iterator[None]:
        while True:
            1 / x
            yield

    def other() -> None:
        with np.errstate(divide="raise"):
            try:
                next(steps)
            except FloatingPointError:
                failed.append("raised")

    with np.errstate(divide="ignore"):
        steps = quotients()
        next(steps)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert np.geterr()["divide"] == "ignore"
    assert failed == ["raised"]


def hard(a, shift):
    """Values that signal, in place of an argument's."""
    if not isinstance(a, np.ndarray) or a.dtype.kind not in "fc":
        return a
    limits = np.finfo(a.dtype)
    values = [0.0, -1.0, limits.max, limits.max, -np.inf, np.nan, 1000.0, limits.tiny, 2.0]
    return np.resize(np.roll(np.array(values, a.dtype), shift), a.shape)


def of_tables_ops():
    for op in TABLE.values():
        for dtype in ("float32", "complex128"):
            try:
                samples = list(op.samples(Sampler(0, dtype)))[:3] if op.samples else []
            except TypeError:  # samples of real numbers alone
                samples = []
            for s in samples:
                for shift in (0, 2, 5):
                    args = [hard(a, shift) for a in s.args]
                    yield op.name, lambda op=op, s=s, args=args: getattr(F, op.name)(*args, **s.params)


def of_public_calls():
    def changed(v, shift):
        if isinstance(v, iv.Tensor) and type(v._value) is np.ndarray and v.dtype.kind == "f":
            return iv.asarray(hard(v.detach().numpy(), shift))
        return 1e300 if isinstance(v, float) else v

    for call, shift in itertools.product(calls(), (1, 7)):
        function, args, kwargs = call.make()
        given = [changed(v, shift) for v in args]
        named = {name: changed(v, shift) for name, v in kwargs.items()}
        yield call.name, lambda f=function, given=given, named=named: f(*given, **named)


@pytest.mark.parametrize("source", [of_tables_ops, of_public_calls])
def test_no_warning_names_a_line_of_a_library(source):
    warned, wrong = set(), []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made = list(source())
    for name, function in made:
        with warnings.catch_warnings(record=True) as found, np.errstate(all="warn"):
            warnings.simplefilter("always")
            with contextlib.suppress(Exception):  # values out of a function's domain
                function()
        for w in found:
            if issubclass(w.category, RuntimeWarning):
                warned.add(name)
                if os.path.dirname(w.filename) != os.path.dirname(__file__):
                    wrong.append(f"{name}: {w.filename}:{w.lineno}: {w.message}")
    assert not wrong, "\n".join(wrong)
    assert len(warned) > 40


def test_this_numpy_has_what_is_needed():
    assert float_warnings.SUPPORTED


def test_without_it_numpy_names_its_own_line():
    program = """if True:
        from numpy._core import umath
        import numpy as np
        del umath._make_extobj
        import iverson as iv
        1 / iv.asarray([0.0])
        with np.errstate(divide="ignore"):
            1 / iv.asarray([0.0])
    """
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stderr.count("divide by zero encountered in divide") == 1
