"""Kernel cache: object code on disk, under a digest of the kernel's text, the machine and all versions.

A kernel is an object file with a checksum before it, written aside and moved into place, so that processes
can share the folder and a torn or damaged file is only compiled again. The key covers the kernel (but for the
names in it), the processor, the versions of LLVM's binding and NumPy, and this package's own source, by the
sizes and times of its files. Other facts for new processes (`iverson.graph.lowering.disk_cache`) are kept in
the same way.

The object code that is read is run. So it is read only from a regular file that this user has written and
nobody else may write. The file is checked once it is open: whatever a path leads to a moment later, it is not
waited for, and not followed.

``IVERSON_CACHE=off`` keeps everything in memory; another value names the folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import sys
import tempfile
import time
from pathlib import Path

from iverson.core.python.caller import PACKAGE_FOLDER

_MAGIC = b"iverson object 2\n"
_KEY = re.compile("[0-9a-f]{64}")  # of `digest`
#: Kernels on disk beyond this many bytes in all are dropped, the least recently used first.
LIMIT = 256 * 2**20
#: How often the folder is looked through while it fills, on average: that takes time for each file in it.
_LOOKS = 16
#: Seconds after which a file is not being written any more.
STALE = 3600.0
#: How files are opened: links are not followed, and nobody is waited for who writes to a pipe.
_READING = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
    _READING |= getattr(os, _flag, 0)
#: When this process read the package's source, or earlier.
_STARTED = time.time_ns()


def folder() -> Path | None:
    """Folder of the kernels on disk; None if none are stored."""
    setting = os.environ.get("IVERSON_CACHE", "")
    if setting.lower() in ("off", "0", "no", "none"):
        return None
    try:
        return Path(setting or _default()).expanduser()
    except RuntimeError:  # no home: a user without HOME and without an entry in passwd, as in containers
        return None


def _default() -> str:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return os.path.join(base, "iverson", "kernels")


def digest(text: str, machine: object) -> str:
    """Key on disk for a kernel: depends on its text, its machine and all versions that matter."""
    return key(f"{machine!r}\n{text}")


def key(text: str) -> str:
    """A key on disk for a text and all versions that matter."""
    return hashlib.sha256(f"{_environment()}\n{text}".encode()).hexdigest()


@functools.cache
def _environment() -> str:
    import llvmlite
    import numpy as np

    return "\n".join((llvmlite.__version__, np.__version__, sys.version, _source()[0]))


def _trusted() -> Path | None:
    """The folder, unless the package's source is not what this process has read: then its keys are wrong."""
    return None if _source()[1] > _STARTED else folder()


@functools.cache
def _source() -> tuple[str, int]:
    """The names, sizes and times of the package's files, as a digest (reading them all takes longer than
    loading a kernel), and the last of these times."""
    last = 0
    lines: list[str] = []
    folders = [PACKAGE_FOLDER]
    for folder in folders:
        with os.scandir(folder) as entries:
            for e in sorted(entries, key=lambda e: e.name):
                if e.is_dir():
                    folders.append(e.path)
                elif e.name.endswith(".py"):
                    facts = e.stat()
                    last = max(last, facts.st_mtime_ns)
                    lines.append(f"{e.path} {facts.st_size} {facts.st_mtime_ns}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest(), last


def read(key: str) -> bytes | None:
    """An object from disk; None if there is none, it is damaged, or somebody else could have written it."""
    where = _trusted()
    if where is None:
        return None
    try:
        data = _content(where, f"{key}.o")
    except OSError:
        return None
    if data is None:
        return None
    checksum, code = data[len(_MAGIC) :][:32], data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC) or _checksum(key, code) != checksum:
        with contextlib.suppress(OSError):
            (where / f"{key}.o").unlink()
        return None
    return code


def _content(where: Path, name: str) -> bytes | None:
    """Content of a file, which is marked as used; None if that is no regular file, or if it or the folder
    are not this user's alone."""
    with contextlib.ExitStack() as stack:
        parent = None
        if os.open in os.supports_dir_fd:
            parent = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, parent)
            if not _is_ours(os.fstat(parent)):
                return None
        path = where / name
        descriptor = os.open(path if parent is None else name, _READING, dir_fd=parent)
        stack.callback(os.close, descriptor)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1 or not _is_ours(facts):
            return None
        if not hasattr(os, "O_NOFOLLOW") and not os.path.samestat(facts, os.lstat(path)):
            return None
        with contextlib.suppress(OSError):
            os.utime(descriptor if os.utime in os.supports_fd else path)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()


def _is_ours(facts: os.stat_result) -> bool:
    """True if a file or folder is this user's, and others cannot write to it.

    The group may write to a folder: with a group for each user that is how folders are made. It could put
    nothing there that is this user's own.
    """
    if not hasattr(os, "geteuid"):
        return True
    writers = stat.S_IWOTH if stat.S_ISDIR(facts.st_mode) else stat.S_IWGRP | stat.S_IWOTH
    return facts.st_uid == os.geteuid() and not facts.st_mode & writers


def _checksum(key: str, code: bytes) -> bytes:
    """Digest of key and code: an object under another kernel's name is not taken for that kernel."""
    return hashlib.sha256(key.encode() + code).digest()


def write(key: str, code: bytes) -> None:
    """Keep an object on disk. A folder that cannot be written is no error: the next process compiles."""
    where = _trusted()
    if where is None:
        return
    temporary = None
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_ours(where.stat()):
            return
        handle, temporary = tempfile.mkstemp(dir=where, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _checksum(key, code) + code)
        os.replace(temporary, where / f"{key}.o")
        if int.from_bytes(os.urandom(4)) * LIMIT < len(code) * _LOOKS * 2**32:
            _prune(where)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def usage(where: Path) -> tuple[int, int]:
    """Number of kernels in a folder, and the bytes that they take."""
    sizes = [size for _, size, _ in _kernels(where)]
    return len(sizes), sum(sizes)


def clear(where: Path) -> None:
    """Delete the kernels in a folder. Processes that use one have loaded it."""
    for *_, path in _kernels(where):
        with contextlib.suppress(OSError):
            path.unlink()


def _kernels(where: Path) -> list[tuple[float, int, Path]]:
    """Time of last use, size and file of each kernel: other files in the folder are not ours."""
    kernels = []
    for path in where.iterdir() if where.is_dir() else ():
        if path.suffix == ".o" and _KEY.fullmatch(path.stem):
            with contextlib.suppress(OSError):
                facts = path.lstat()
                kernels.append((facts.st_mtime, facts.st_size, path))
    return kernels


def _prune(where: Path) -> None:
    """Drop what was least recently used beyond `LIMIT`, and what processes that died left half written."""
    for path in where.glob("*.part"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - STALE:
                path.unlink()
    total = 0
    for _, size, path in sorted(_kernels(where), reverse=True):
        total += size
        if total > LIMIT:
            with contextlib.suppress(OSError):
                path.unlink()
