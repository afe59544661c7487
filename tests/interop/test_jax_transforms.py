"""JAX's transforms of a wrapped function against those of JAX's own function, in three dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import iverson as iv

pytestmark = pytest.mark.peers

jax = pytest.importorskip("jax")

from iverson.interop.jax import wrap  # noqa: E402
from tests.interop.jax_transforms import CALLS, operands, scalar, vector  # noqa: E402


@pytest.fixture(autouse=True)
def _of_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("call", CALLS)
def test_a_transform_of_a_wrapped_function_is_that_of_jaxs(call: str, dtype: str) -> None:
    x, w = operands(dtype)
    transform = CALLS[call]
    own = transform(wrap(vector(iv)), wrap(scalar(iv)), x, w)
    want = transform(vector(jax.numpy), scalar(jax.numpy), x, w)
    bound: Any = {"rtol": 2e-4, "atol": 2e-4} if dtype == "float32" else {"rtol": 1e-9, "atol": 1e-9}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **bound), own, want)
    dtypes = [[leaf.dtype for leaf in jax.tree.leaves(tree)] for tree in (own, want)]
    assert dtypes[0] == dtypes[1]
