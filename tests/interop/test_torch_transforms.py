"""Torch's transforms of a wrapped function against those of torch's own function, in three dtypes."""

from __future__ import annotations

import pytest

import iverson as iv

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:.torch.jit.* is deprecated"),
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec."),
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),  # torch's own functions do
]

torch = pytest.importorskip("torch")

from torch.utils import _pytree  # noqa: E402

from iverson.interop.torch import wrap  # noqa: E402
from tests.interop.torch_transforms import CALLS, REFUSED, operands, scalar, vector  # noqa: E402


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.complex128], ids=["float32", "float64", "complex128"]
)
@pytest.mark.parametrize("call", CALLS)
def test_a_transform_of_a_wrapped_function_is_that_of_torchs(call: str, dtype: torch.dtype) -> None:
    x, w = operands(dtype)
    transform = CALLS[call]
    try:
        want = transform(vector(torch), scalar(torch), x, w)
    except Exception as error:  # torch refuses its own function, of complex numbers
        with pytest.raises(type(error)):
            transform(wrap(vector(iv)), wrap(scalar(iv)), x, w)
        return
    if call in REFUSED:
        with pytest.raises(TypeError, match="TreeSpec"):
            transform(wrap(vector(iv)), wrap(scalar(iv)), x, w)
        return
    own = transform(wrap(vector(iv)), wrap(scalar(iv)), x, w)
    bound = 2e-4 if dtype is torch.float32 else 1e-9
    for a, b in zip(_pytree.tree_leaves(own), _pytree.tree_leaves(want), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=bound, atol=bound)
