"""Drawing masked tensors, with garbage wherever nothing is specified, and comparing with numpy.ma."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv

GARBAGE = (np.nan, np.inf, -np.inf)


def with_garbage(values: Any, mask: Any) -> Any:
    """The values where the mask holds; nan and infinities elsewhere (zeros for integers)."""
    values = np.array(values)
    absent = ~np.broadcast_to(mask, values.shape)
    if values.dtype.kind in "fc":
        values[absent] = np.resize(GARBAGE, np.count_nonzero(absent))
    else:
        values[absent] = 0
    return values


def masked(values: Any, mask: Any, **options: Any) -> Any:
    return iv.masked_tensor(with_garbage(values, mask), mask, **options)


def of_numpy(values: Any, mask: Any) -> Any:
    """The same for numpy.ma, whose masks say what is left out; no garbage, as it reads it at times."""
    return np.ma.MaskedArray(np.where(mask, values, 1), ~np.broadcast_to(mask, np.shape(values)))


def assert_same(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    """Equal masks, and equal entries where they hold."""
    expected = np.ma.asanyarray(expected)
    assert isinstance(found, iv.MaskedTensor), type(found)
    assert found.shape == expected.shape
    mask = ~np.ma.getmaskarray(expected)
    np.testing.assert_array_equal(found.get_mask().numpy(), mask)
    np.testing.assert_allclose(
        found.detach().get_data().numpy()[mask], expected.data[mask], rtol=rtol, atol=1e-12
    )


@st.composite
def pairs(draw: Any, shapes: Any = None, elements: Any = None) -> tuple[Any, Any]:
    """Values and a mask, of any shape: empty, rank 0, all or none specified."""
    shape = draw(
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4) if shapes is None else shapes
    )
    values = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape)
    kind = draw(st.sampled_from(("some", "some", "some", "all", "none")))
    mask = np.full(shape, kind == "all")
    if kind == "some":
        mask = draw(hnp.arrays(bool, shape))
    return values, mask


@st.composite
def broadcasting(draw: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Two pairs whose shapes broadcast together."""
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)).input_shapes
    return tuple(draw(pairs(st.just(shape))) for shape in shapes)
