"""A fit to data on disk that is larger than this process may be.

``python -m tests.interop.out_of_core FOLDER MIB LIMIT``: FOLDER gets MIB of chunks; then this process may not
have more than LIMIT MiB of memory of its own, and fits weights to all of them. It prints how far the weights
are from those that made the data, and the most memory it had.
"""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import dask
import numpy as np

import iverson as iv
from iverson import optim
from iverson.interop.dask import value_and_grad

WIDTH, CHUNK = 64, 16 << 20
TRUE = np.linspace(-1, 1, WIDTH)


def write(folder: Path, mib: int) -> list[str]:
    rows = CHUNK // (8 * (WIDTH + 1))
    paths = [str(folder / f"{k}.npy") for k in range(mib * 2**20 // CHUNK)]
    for k, path in enumerate(paths):
        x = np.random.default_rng(k).standard_normal((rows, WIDTH + 1))
        x[:, -1] = x[:, :-1] @ TRUE
        np.save(path, x)
    return paths


def loss(w: iv.Tensor, part: iv.Tensor) -> iv.Tensor:
    return iv.square(part[:, :-1] @ w - part[:, -1]).mean()


def main() -> None:
    folder, mib, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    paths = write(folder, mib)
    resource.setrlimit(resource.RLIMIT_DATA, (limit << 20, limit << 20))
    parts = [dask.delayed(np.load)(path) for path in paths]
    w = iv.asarray(np.zeros(WIDTH), requires_grad=True)
    opt = optim.SGD([w], lr=0.4)
    step = value_and_grad(loss, client=False)
    for part in parts[: len(parts) // 2]:  # by partitions, then over all at once
        opt.step([step(w, [part])[1]])
    for _ in range(2):
        opt.step([step(w, parts)[1]])
    error = np.abs(w.detach().numpy() - TRUE).max()
    # `ru_maxrss` counts what the process that started this one held.
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert peak is not None
    print(error, int(peak[1]) >> 10)


if __name__ == "__main__":
    main()
