"""The cache on disk: found again, refused when damaged, safe between processes, off when told."""

from __future__ import annotations

import concurrent.futures
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import iverson
from iverson import te
from iverson.codegen.execution import object_code
from iverson.codegen.launches import compiled_kernel as kernel
from iverson.codegen.nests.nodes import Buffer, Kernel, Loop, Store
from iverson.codegen.runtime import kernel_cache, target, workspaces
from iverson.core.python.caller import PACKAGE_FOLDER
from iverson.graph.control import bodies
from iverson.te.lowering import statement_lowering
from tests.codegen.nests import F32, c, f, i, ld


def double(name: str = "double", extent: int = 10) -> Kernel:
    a, out = Buffer("a", F32, (extent,)), Buffer("out", F32, (extent,), "out")
    body = (Store(out, (i,), f("add", ld(a, i), ld(a, i))),)
    return Kernel(name, (a, out), (Loop("i", c(0), c(extent), body, mark="vector"),))


def use(name: str = "double", extent: int = 10) -> None:
    a, out = np.arange(extent, dtype=F32), np.zeros(extent, F32)
    kernel.compile_kernel(double(name, extent))(a, out)
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
    original = object_code.to_object

    def spy(text: str, machine: target.Machine) -> bytes:
        seen.append(text)
        return original(text, machine)

    monkeypatch.setattr(object_code, "to_object", spy)
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
    assert kernel_cache.digest("a", target.host()) != kernel_cache.digest("b", target.host())


def test_a_kernel_is_compiled_for_its_target(folder: Path, compiles: list[str]) -> None:
    narrow = replace(target.host(), vector_bytes=8)
    for machine in (target.host(), narrow, narrow):
        made = kernel.compile_kernel(double(), target=machine)
        assert made.target is machine
        a, out = np.arange(10, dtype=F32), np.zeros(10, F32)
        made(a, out)
        np.testing.assert_array_equal(out, 2 * a)
    wide, two = compiles
    assert "<2 x float>" in two
    assert "<2 x float>" not in wide
    assert len(list(folder.glob("*.o"))) == 2
    assert kernel.compile_kernel(double()) is kernel.compile_kernel(double(), target=target.host())


def test_an_object_under_another_kernels_name_is_compiled_again(folder: Path, compiles: list[str]) -> None:
    use(extent=10)
    (ten,) = folder.glob("*.o")
    use(extent=20)
    (twenty,) = set(folder.glob("*.o")) - {ten}
    twenty.write_bytes(ten.read_bytes())
    kernel.forget()
    use(extent=20)
    assert len(compiles) == 3


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, compiles: list[str]) -> None:
    for name in ("IVERSON_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless(path: str) -> str:
        return path  # what os.path does for a user whom nobody knows

    monkeypatch.setattr(os.path, "expanduser", homeless)
    assert kernel_cache.folder() is None
    kernel.forget()
    use("homeless")
    assert len(compiles) == 1


def test_pruning_drops_old_kernels_and_stale_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    now = time.time()
    a, b, c = (f"{letter * 64}.o" for letter in "abc")
    files = ((a, 9), (b, 5), (c, 1), ("x.part", 2 * kernel_cache.STALE), ("y.part", 1), ("not_ours.o", 9))
    for name, age in files:
        (folder / name).write_bytes(bytes(100))
        os.utime(folder / name, (now - age, now - age))
    monkeypatch.setattr(kernel_cache, "LIMIT", 200)
    kernel_cache._prune(folder)
    assert {p.name for p in folder.iterdir()} == {b, c, "y.part", "not_ours.o"}


def test_the_folder_is_looked_through_in_proportion_to_what_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    size, share = 100, 64
    monkeypatch.setattr(kernel_cache, "_prune", looked.append)
    monkeypatch.setattr(kernel_cache, "LIMIT", share * size * kernel_cache._LOOKS)
    for drawn in range(256):
        with monkeypatch.context() as m:
            m.setattr(os, "urandom", lambda n, first=drawn: bytes([first, *bytes(n - 1)]))
            kernel_cache.write("0" * 64, bytes(size))
    assert looked == [folder] * (256 // share)


def _differentiated(defined_before: int) -> None:
    """Lowers a small program after so many others were named automatically."""
    for _ in range(defined_before):
        te.placeholder((2,)), te.reduce_axis(2), te.compute((2,), lambda i: i * 1.0)
    A, k = te.placeholder((4, 3)), te.reduce_axis(3)
    B = te.compute((4,), lambda i: te.sum(A[i, k], k))
    C = te.compute((4,), lambda i: te.exp(B[i]) * te.prod(A[i, k], k))
    (gradient,) = te.differentiate(C, [A], te.placeholder((4,)))
    statement_lowering._lowered.clear()
    program = te.eliminate(gradient)
    statement_lowering.lower(program)(*(np.ones(t.shape) for t in program.inputs))


def test_automatic_names_do_not_make_new_kernels(folder: Path) -> None:
    _differentiated(0)
    kept = set(folder.glob("*.o"))
    kernel.forget()
    _differentiated(7)
    assert kept
    assert set(folder.glob("*.o")) == kept


def test_a_fork_knows_of_all_locks() -> None:
    source = Path(PACKAGE_FOLDER)
    made = {p.name for p in source.rglob("*.py") if re.search(r"\bR?Lock\(\)", p.read_text())}
    assert made == {"locks.py"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_compiles_can_compile() -> None:
    busy, done = threading.Event(), threading.Event()

    def hold() -> None:
        with target.lock, workspaces._lock, bodies._lock:
            busy.set()
            done.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    assert busy.wait(5)
    child = os.fork()
    if not child:
        try:
            signal.alarm(20)
            kernel.forget()
            use("forked")
        except BaseException:
            os._exit(1)
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_processes_share_a_folder(folder: Path) -> None:
    program = "from tests.codegen.test_cache import use; [use(extent=10 + n) for n in range(2)]"
    environment = {**os.environ, "IVERSON_CACHE": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}

    def start(_: int) -> int:
        return subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(start, range(2))) == [0] * 2
    assert len(list(folder.glob("*.o"))) == 2 + 1  # and what LLVM says of the processor
    assert not list(folder.glob("*.part"))


# --- what is not run -----------------------------------------------------------------------------------

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system knows no owners")


def _link(path: Path, code: Path) -> None:
    path.symlink_to(code)


def _pipe(path: Path, code: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, code: Path) -> None:
    path.mkdir()


def _second_name(path: Path, code: Path) -> None:
    path.hardlink_to(code)


def _of_all(path: Path, code: Path) -> None:
    path.write_bytes(code.read_bytes())
    path.chmod(0o666)


def _of_group(path: Path, code: Path) -> None:
    path.write_bytes(code.read_bytes())
    path.chmod(0o660)


def _socket(path: Path, code: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(".", os.O_RDONLY)
        os.chdir(path.parent)  # such names are short
        made.bind(path.name)
        os.chdir(here)
        os.close(here)


@posix
@pytest.mark.parametrize(
    "swap", [_link, _pipe, _folder, _second_name, _of_all, _of_group, _socket], ids=lambda f: f.__name__
)
def test_what_somebody_else_could_have_put_there_is_not_run(
    folder: Path, compiles: list[str], swap: Callable[[Path, Path], None]
) -> None:
    use()
    (path,) = folder.glob("*.o")
    code = path.rename(path.with_suffix(".code"))
    swap(path, code)
    kernel.forget()
    signal.alarm(20)  # to wait for who writes to a pipe takes for ever
    use()
    signal.alarm(0)
    assert len(compiles) == 2
    if swap is not _folder:  # the next process finds what is its own
        kernel.forget()
        use()
        assert len(compiles) == 2


@posix
@pytest.mark.parametrize("of", [stat.S_ISREG, stat.S_ISDIR])
def test_files_and_folders_of_others_are_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, of: Callable[[int], bool]
) -> None:
    kernel_cache.write("a" * 64, b"code")
    original = os.fstat

    def of_another(descriptor: int) -> os.stat_result:
        found = original(descriptor)
        changed = [*found]
        changed[stat.ST_UID] += of(found.st_mode)
        return os.stat_result(changed)

    assert kernel_cache.read("a" * 64) == b"code"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", of_another)
        assert kernel_cache.read("a" * 64) is None
    assert kernel_cache.read("a" * 64) == b"code"


@posix
def test_a_folder_that_all_may_write_to_is_not_used(folder: Path, compiles: list[str]) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    use()
    assert not list(folder.iterdir())
    folder.chmod(0o755)
    kernel.forget()
    use()
    assert len(list(folder.iterdir())) == 1
    folder.chmod(0o777)
    kernel.forget()
    use()
    assert len(compiles) == 3


@posix
@pytest.mark.parametrize("system", ["this one", "one without links that are refused"])
def test_a_file_that_is_swapped_while_it_is_read_is_the_one_that_was_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    key = "b" * 64
    kernel_cache.write(key, b"theirs")
    other = (folder / f"{key}.o").rename(folder / "theirs")
    kernel_cache.write(key, b"own")
    if system != "this one":
        monkeypatch.setattr(os, "supports_dir_fd", frozenset())
        monkeypatch.delattr(os, "O_NOFOLLOW")
        monkeypatch.setattr(kernel_cache, "_READING", os.O_RDONLY)
    original = os.fstat

    def swapped(descriptor: int) -> os.stat_result:
        found = original(descriptor)
        if stat.S_ISREG(found.st_mode) and other.exists():
            other.rename(folder / f"{key}.o")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", swapped)
        assert kernel_cache.read(key) == (b"own" if system == "this one" else None)
    (folder / f"{key}.o").rename(other)
    (folder / f"{key}.o").symlink_to(other)
    assert kernel_cache.read(key) is None


def test_what_a_key_has_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done to a source file, wherever it is, what was compiled before is for another package."""
    package = tmp_path / "package"
    (package / "codegen").mkdir(parents=True)
    for name in ("__init__.py", "codegen/cache.py", "codegen/emit.py"):
        (package / name).write_text("x = 1\n")
        os.utime(package / name, (1e9, 1e9))
    assert Path(kernel_cache.PACKAGE_FOLDER) == Path(iverson.__file__).parent
    monkeypatch.setattr(kernel_cache, "PACKAGE_FOLDER", str(package))

    def key() -> str:
        kernel_cache._source.cache_clear()
        kernel_cache._environment.cache_clear()
        return kernel_cache.key("text")

    def write(name: str, text: str, time: float = 1e9) -> None:
        (package / name).write_text(text)
        os.utime(package / name, (time, time))

    try:
        seen = [key(), key()]
        for name in ("__init__.py", "codegen/emit.py"):
            write(name, "x = 10\n")
            seen.append(key())
            write(name, "x = 20\n", 1e9 + 1e-3)
            seen.append(key())
        (package / "codegen" / "emit.py").rename(package / "codegen" / "emitted.py")
        seen.append(key())
        write("new.py", "")
        seen.append(key())
        (package / "new.py").unlink()
        assert key() == seen[-2]
        (package / "notes.txt").write_text("no code")
        assert key() == seen[-2]
    finally:
        kernel_cache._source.cache_clear()
        kernel_cache._environment.cache_clear()
    assert len(set(seen)) == len(seen) - 1


def test_a_process_whose_source_was_changed_since_keeps_nothing(
    folder: Path, compiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep what the old source makes under keys of the new one."""
    monkeypatch.setattr(kernel_cache, "_STARTED", 0)
    use()
    kernel.forget()
    use()
    assert len(compiles) == 2
    assert not folder.exists()
