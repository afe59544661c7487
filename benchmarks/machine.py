"""What the numbers were measured on: CPU, versions, each library's BLAS and what it reaches.

`python -m benchmarks.machine numpy` probes one library and prints JSON;
`describe` starts such probes, each in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.processes import last_json, run_module

PACKAGES = ("iverson", "numpy", "scipy", "islpy", "llvmlite", "torch", "jax")
N = 1024
"""The matrices of the GFLOP/s figure are N × N, float32."""


def describe() -> dict[str, Any]:
    """The machine as a JSON object; takes a few seconds, most of them imports."""
    return {
        "cpu": cpu_name(),
        "cores": physical_cores(),
        "threads": usable_threads(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: version(name) for name in PACKAGES},
        "blas": {name: blas(name) for name in PROBES if importlib.util.find_spec(name)},
    }


def cpu_name() -> str:
    found = cpuinfo("model name")
    return found[0] if found else platform.processor() or platform.machine()


def physical_cores() -> int | None:
    """Distinct (socket, core) pairs, where the system tells."""
    pairs = set(zip(cpuinfo("physical id"), cpuinfo("core id"), strict=False))
    return len(pairs) or None


def usable_threads() -> int:
    """The processors this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def cpuinfo(key: str) -> list[str]:
    """The values of a key of /proc/cpuinfo, one per processor; [] elsewhere."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    return re.findall(rf"^{key}\s*:\s*(.+)$", text, re.MULTILINE)


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def blas(library: str) -> dict[str, Any]:
    """Name, core type and GFLOP/s of a library's BLAS, at one thread and at its default."""
    one, all_ = (run_module("benchmarks.machine", [library], threads) for threads in (1, None))
    probe: dict[str, Any] = last_json(all_)
    probe["gflops_all_threads"] = probe.pop("gflops")
    probe["gflops_1_thread"] = last_json(one)["gflops"]
    # MKL tells the core it chose only in its log.
    log = re.search(r"architecture (Intel\(R\) .*?) *(enabled )?processors", "\n".join(all_))
    return probe | ({"core": log[1]} if log else {})


# --- probes: each runs in its own process -------------------------------------


def probe_numpy() -> dict[str, Any]:
    import numpy as np

    a = np.random.default_rng(0).standard_normal((N, N), dtype=np.float32)
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    info = {"name": f"{built['name']} {built['version']}", "gflops": gflops(lambda: a @ a)}
    if importlib.util.find_spec("threadpoolctl"):
        from threadpoolctl import threadpool_info

        for pool in threadpool_info():
            if pool["user_api"] == "blas":
                info["core"] = pool.get("architecture", "unknown")
    return info


def probe_torch() -> dict[str, Any]:
    import torch

    a = torch.randn(N, N)
    config = torch.__config__.show()
    found = re.search(r"BLAS_INFO=(\w+)", config)
    name = found[1] if found else "unknown"
    if name == "mkl" and (found := re.search(r"Math Kernel Library Version (\S+)", config)):
        name = f"mkl {found[1]}"
    info = {
        "name": name,
        "aten": torch.backends.cpu.get_cpu_capability(),
        "gflops": gflops(lambda: a @ a),
    }
    if torch.backends.mkl.is_available():
        with torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON):
            a @ a
    return info


PROBES: dict[str, Callable[[], dict[str, Any]]] = {"numpy": probe_numpy, "torch": probe_torch}


def gflops(multiply: Callable[[], object], seconds: float = 0.4) -> float:
    """The best rate of an N × N matrix product within that time, warm."""
    multiply()
    best, end = float("inf"), time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        multiply()
        best = min(best, time.perf_counter() - start)
    return round(2 * N**3 / best / 1e9, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=PROBES)
    print(json.dumps(PROBES[parser.parse_args().library]()))
