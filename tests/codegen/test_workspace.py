"""Memory of results: pages that calls ask the system for, in a process of their own."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

#: Programs whose results are of 1 and of 4 MiB, two of each call, and larger than all that glibc learns.
CALLS = """
import json
import resource
import iverson as iv

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

f = iv.jit(lambda x: (x * x, x + x))
found = []
for mib in (1, 4, 40):
    x = iv.ones((mib << 18,), dtype=iv.float32)
    for _ in range(3):
        f(x)
    before, asked = resident(), faults()
    for _ in range(20):
        f(x)
    found.append([mib, (faults() - asked) // 20, (resident() - before) >> 20])
print(json.dumps(found))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how glibc keeps memory")
def test_results_that_are_freed_give_their_pages_to_the_next() -> None:
    """A result of 1 MiB has 256 pages. What is too large to be kept goes back to the system."""
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=True)
    found = {mib: (faults, grown) for mib, faults, grown in json.loads(done.stdout)}
    assert found[1][0] < 16
    assert found[4][0] < 16
    assert all(grown <= 1 for _, grown in found.values())
