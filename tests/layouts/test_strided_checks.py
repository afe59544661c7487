"""Whether a value is strided is asked of `is_strided`, so that arrays of other targets can be one day."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import iverson

SOURCE = Path(iverson.__file__).parent
#: Where the type is asked for itself, and why. Packages not listed below deal in handles' memory or in data.
ALLOWED = {
    "array_api/conventions/operands.py": "users hand arrays over",
    "array_api/numpy_functions.py": "users hand arrays over",
    "optim/functional.py": "users hand arrays over",
    "kernels/compiled_elementwise.py": "a body of the strided layout",
    "kernels/strided.py": "bodies of the strided layout",
    "ops/numbers/elementwise_ops.py": "bodies of the strided layout",
    "kernels/kernel_registry.py": "layouts are registered by their type",
    "kernels/sparse/merging.py": "index arrays",
    "kernels/sparse/sparse_kron.py": "index arrays",
    "te/lowering/lowered_program.py": "NumPy's conversion of what is an array is most of a short call",
}
PACKAGES = ("te", "kernels", "ops", "array_api", "masked", "optim")
FILES = sorted(str(p.relative_to(SOURCE)) for name in PACKAGES for p in (SOURCE / name).rglob("*.py"))


def names_it(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "ndarray" for n in ast.walk(node))


def checks(source: str) -> list[int]:
    """Lines that ask whether something is of type ndarray."""
    found = []
    for node in ast.walk(ast.parse(source)):
        called = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        )
        if (called or isinstance(node, ast.Compare)) and names_it(node):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("file", FILES)
def test_no_type_is_asked_for(file):
    assert bool(checks((SOURCE / file).read_text())) == (file in ALLOWED)


def test_a_check_is_seen():
    assert checks("isinstance(x, (int, np.ndarray))\ny: np.ndarray\ntype(x) is np.ndarray") == [1, 3]
