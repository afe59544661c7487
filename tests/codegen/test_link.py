"""Objects linked without LLVM: as LLVM links them, and left to it where they are anything but simple."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iverson import te
from iverson.codegen.execution import object_code
from iverson.codegen.launches import compiled_kernel as kernel
from iverson.codegen.launches import compiled_program
from iverson.codegen.runtime import object_linking, target
from iverson.codegen.runtime.object_linking import _SECTION, _Section
from iverson.te.lowering import statement_lowering
from tests.conformance.product import paired

pytestmark = pytest.mark.skipif(
    target.host().triple.partition("-")[0] != "x86_64" or sys.platform != "linux", reason="left to LLVM there"
)

#: What code may reach: constants, functions of the C library, loops of universal functions.
FUNCTIONS = ("sin", "exp", "atan2", "fmod", "erfinv", "expi", "log1p", "beta")


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, tuple[str, ...]]]:
    """Every object that is loaded meanwhile, with its entry points; nothing comes from elsewhere."""
    found: list[tuple[bytes, tuple[str, ...]]] = []
    plain = object_linking.link

    def noting(code: bytes, names: Any, resolve: Any) -> Any:
        found.append((code, names))
        return plain(code, names, resolve)

    monkeypatch.setenv("IVERSON_CACHE", "off")
    monkeypatch.setattr(object_linking, "link", noting)
    forget()
    return found


def forget() -> None:
    """Programs and kernels that are in memory."""
    statement_lowering.forget()
    kernel.forget()
    compiled_program.forget()


def program(name: str, dtype: str) -> Any:
    from iverson.core.scalars import SCALARS

    given = [te.placeholder((33,), dtype, n) for n in "xy"[: SCALARS[name].arity]]
    k = te.reduce_axis(4, "k")
    made = te.compute((30,), lambda i: te.sum(getattr(te.F, name)(*(p[i + k] for p in given)), k))
    return statement_lowering.lower(te.eliminate(te.program_of([made]))), [
        np.linspace(0.1, 0.9, 33, dtype=dtype) for _ in given
    ]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *paired(FUNCTIONS, ("float32", "float64")),
        *((name, "complex128") for name in ("sin", "exp", "log1p")),
    ],
)
def test_as_llvm_links(
    name: str, dtype: str, codes: list[tuple[bytes, tuple[str, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered, arrays = program(name, dtype)
    (found,) = lowered(*arrays)
    assert codes
    assert all(object_linking.link(*c, object_code._address) is not None for c in list(codes))
    monkeypatch.setattr(object_linking, "link", lambda *_: None)
    forget()
    lowered, arrays = program(name, dtype)
    np.testing.assert_array_equal(found, lowered(*arrays)[0])


def test_what_is_not_simple_is_left(codes: list[tuple[bytes, tuple[str, ...]]]) -> None:
    lowered, arrays = program("atan2", "float64")
    lowered(*arrays)
    code, names = codes[0]
    assert object_linking.link(code, names, object_code._address) is not None
    assert object_linking.link(code, names, lambda _: None) is None  # names a function that is nowhere
    assert object_linking.link(code, (*names, "no_such_entry"), object_code._address) is None
    assert object_linking.link(code[:-40], names, object_code._address) is None  # torn
    assert object_linking.link(b"", names, object_code._address) is None
    (start,) = struct.unpack_from("<Q", code, 40)
    each, count = struct.unpack_from("<HH", code, 58)
    sections = [_Section(*_SECTION.unpack_from(code, start + k * each)) for k in range(count)]
    for k, s in enumerate(sections):
        other = bytearray(code)
        if s.type == 1 and s.flags & 2:  # data that is written
            struct.pack_into("<Q", other, start + k * each + 8, s.flags | 1)
        elif (
            s.type == 4 and sections[s.info].type == 1 and sections[s.info].flags & 2
        ):  # an unknown kind of place
            struct.pack_into("<I", other, s.offset + 8, 19)
        else:
            continue
        assert object_linking.link(bytes(other), names, object_code._address) is None


def test_code_runs_when_the_system_forbids_our_pages(
    codes: list[tuple[bytes, tuple[str, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_linking.Memory, "hold", lambda self, code: False)
    lowered, arrays = program("exp", "float64")
    found = lowered(*arrays)[0]
    assert codes
    assert np.isfinite(found).all()


FIRST = """
import sys
import numpy as np
import iverson as iv
from iverson import te

@te.op
def product(x, y):
    k = te.reduce_axis(8, "k")
    return te.compute((8, 8), lambda i, j: te.sum(te.exp(x[i, k]) * y[k, j], k))

a = iv.asarray(np.ones((8, 8)))
assert np.allclose(np.asarray(product(a, a)), 8 * np.e)
print("llvmlite.binding" in sys.modules)
"""


def test_a_process_that_finds_its_code_needs_no_llvm(tmp_path: Path) -> None:
    def run() -> str:
        environment = os.environ | {"IVERSON_CACHE": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert run() == "True"
    assert run() == "False"


def test_code_that_outlives_its_module_goes_in_silence():
    """As an interpreter ends, the names of a module are None before the last of its objects are gone."""
    ending = (
        "from iverson.codegen.runtime import object_linking; held = object_linking.Memory(8); "
        "object_linking.sys = None; del held"
    )
    done = subprocess.run([sys.executable, "-c", ending], capture_output=True, text=True, check=True)
    assert done.stderr == ""
