"""Modules of tests are read on a machine without the peers too: they skip before they import one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import OF_PEERS

PEERS = {"torch", "jax", "array_api_extra", "binsparse", "einops", "h5py", "numba", "opt_einsum"}
PEERS |= {"xarray", "zarr", "mpi4py", "dask", "pyarrow", "polars"}
TESTS = Path(__file__).parents[1]


def imported_first(source: str) -> Iterator[str]:
    """Peers that the module, or a module of tests that it imports, imports without a skip before."""
    skipped: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        else:
            calls = (x for x in ast.walk(node) if isinstance(x, ast.Call))
            skips = (c for c in calls if ast.unparse(c.func) == "pytest.importorskip")
            skipped |= {c.args[0].value.split(".")[0] for c in skips if isinstance(c.args[0], ast.Constant)}
            continue
        for name in names:
            root = name.split(".")[0]
            path = TESTS.parent / (name.replace(".", "/") + ".py")
            found = [root] if root in PEERS else []
            if root == "tests" and path.exists():
                found += imported_first(path.read_text())
            yield from (peer for peer in found if peer not in skipped)


def test_modules_skip_before_they_import_a_peer() -> None:
    read = (p for p in sorted(TESTS.rglob("test_*.py")) if not any(map(p.match, OF_PEERS)))
    found = {path.name: set(imported_first(path.read_text())) for path in read}
    assert not {name: peers for name, peers in found.items() if peers}


def test_what_is_found() -> None:
    skip = 'torch = pytest.importorskip("torch")\n'
    assert list(imported_first("import torch\n" + skip)) == ["torch"]
    assert list(imported_first(skip + "import torch\nfrom jax import lax\n")) == ["jax"]
    assert {*imported_first("from tests.interop.torch_transforms import CALLS\n")} == {"torch"}
