"""The cache on disk: found again, refused when damaged, safe between processes, off when told."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from iverson.codegen import cache, compile, kernel
from iverson.codegen.nodes import Buffer, Kernel, Loop, Store
from tests.codegen.nests import F32, c, f, i, ld


def double(name: str = "double") -> Kernel:
    a, out = Buffer("a", F32, (10,)), Buffer("out", F32, (10,), "out")
    body = (Store(out, (i,), f("add", ld(a, i), ld(a, i))),)
    return Kernel(name, (a, out), (Loop("i", c(0), c(10), body, mark="vector"),))


def use(name: str = "double") -> None:
    a, out = np.arange(10, dtype=F32), np.zeros(10, F32)
    kernel.compile_kernel(double(name))(a, out)
    np.testing.assert_array_equal(out, 2 * a)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IVERSON_CACHE", str(tmp_path / "kernels"))
    kernel.forget()
    return tmp_path / "kernels"


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were really compiled."""
    seen: list[str] = []
    original = compile.to_object

    def spy(text: str) -> bytes:
        seen.append(text)
        return original(text)

    monkeypatch.setattr(compile, "to_object", spy)
    return seen


def test_a_kernel_is_compiled_once(folder: Path, compiles: list[str]) -> None:
    use()
    use()
    kernel.forget()
    use()
    assert len(compiles) == 1
    assert len(list(folder.glob("*.o"))) == 1


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "text"])
def test_damaged_files_are_compiled_again(folder: Path, compiles: list[str], damage: str) -> None:
    use()
    (path,) = folder.glob("*.o")
    data = path.read_bytes()
    flipped = data[:-10] + bytes([data[-10] ^ 1]) + data[-9:]
    path.write_bytes({"truncate": data[:100], "flip": flipped, "empty": b"", "text": b"x" * 500}[damage])
    kernel.forget()
    use()
    assert len(compiles) == 2
    kernel.forget()
    use()
    assert len(compiles) == 2


def test_off_keeps_nothing(folder: Path, compiles: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IVERSON_CACHE", "off")
    use()
    kernel.forget()
    use()
    assert len(compiles) == 2
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("IVERSON_CACHE", str(tmp_path / "file" / "kernels"))
    kernel.forget()
    use("unwritable")


def test_different_kernels_have_different_keys() -> None:
    assert cache.digest("a") != cache.digest("b")


def test_processes_share_a_folder(folder: Path) -> None:
    program = "from tests.codegen.test_cache import use; [use(f'k{n}') for n in range(4)]"
    environment = {**os.environ, "IVERSON_CACHE": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}

    def start(_: int) -> int:
        return subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(start, range(4))) == [0] * 4
    assert len(list(folder.glob("*.o"))) == 4
    assert not list(folder.glob("*.part"))
