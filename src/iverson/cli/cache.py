"""cache: where compiled kernels are kept, how much there is, and to delete them."""

from __future__ import annotations

import argparse

from iverson.codegen.runtime import kernel_cache


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--clear", action="store_true", help="delete all of them")


def run(options: argparse.Namespace) -> int:
    """Show or clear; the exit status."""
    where = kernel_cache.folder()
    if where is None:
        print("Compiled kernels are kept in memory alone (IVERSON_CACHE is off, or there is no home folder).")
        return 0
    count, size = kernel_cache.usage(where)
    if options.clear:
        kernel_cache.clear(where)
        print(f"Deleted {_kernels(count, size)}, from {where}")
        return 0
    print(f"{where}\n{_kernels(count, size)} of at most {kernel_cache.LIMIT // 2**20} MiB")
    print("IVERSON_CACHE=FOLDER names another folder, IVERSON_CACHE=off keeps them in memory alone.")
    return 0


def _kernels(count: int, size: int) -> str:
    """Number of kernels and their size, as text.

    >>> _kernels(1, 3500), _kernels(12, 4 * 2**20)
    ('1 kernel, 3.4 KiB', '12 kernels, 4.0 MiB')
    """
    amount = f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"
    return f"{count} kernel{'s' * (count != 1)}, {amount}"
