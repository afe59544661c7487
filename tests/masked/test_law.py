"""The masked layout law: a layout changes neither values nor masks nor gradients, for any op of the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.ops import TABLE, F
from tests.conformance.product import samples_of

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")


def held_as(values, mask, layout):
    """The masked tensor in a layout that can hold it (matrices in all of them, vectors and more in COO)."""
    pattern = iv.to_layout(iv.asarray(mask), layout, **({"blocksize": (1, 1)} if layout[0] == "b" else {}))
    return iv.masked_tensor(iv.asarray(values), pattern, requires_grad=values.dtype.kind in "fc")


def parts(x):
    """Of a result, whatever it is: its mask and its entries where that holds, as NumPy arrays."""
    if isinstance(x, tuple):
        return [p for y in x for p in parts(y)]
    if not isinstance(x, iv.MaskedTensor):
        return [x.detach().numpy()]
    mask = x.get_mask().numpy()
    return [mask, x.detach().get_data().numpy()[mask]]


def outcome(name, args, params):
    """The parts of the result and of the gradients to first and second order, or the error."""
    leaves = [a for a in args if isinstance(a, iv.MaskedTensor) and a.requires_grad]
    try:
        y = getattr(F, name)(*args, **params)
    except iv.errors.IversonError as error:
        return [type(error), str(error)]
    ys = y if isinstance(y, tuple) else (y,)
    found = parts(ys)
    for _ in range(2):
        ys = [iv.real(z * iv.conj(z)).sum() for z in ys if z.requires_grad]
        # A derivative that is structurally zero is zero.
        ys = iv.autograd.grad(ys, leaves, create_graph=True) if ys else [x * 0 for x in leaves]
        found += parts(tuple(ys))
    return found


@pytest.mark.parametrize("name", TABLE)
@given(st.integers(0, 99), st.sampled_from((0.0, 0.6, 0.6, 1.0)), st.data())
@settings(max_examples=10, deadline=None)
def test_every_op(name, seed, share, data):
    op, rng = TABLE[name], np.random.default_rng(seed)
    sample = data.draw(st.sampled_from(samples_of(op, "float64")))
    maskable = [
        k for k, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.ndim
    ]
    if not maskable:
        return
    chosen = data.draw(st.sets(st.sampled_from(maskable), min_size=1))
    masks = {k: rng.random(sample.args[k].shape) < share for k in chosen}
    layouts = {k: data.draw(st.sampled_from(LAYOUTS if masks[k].ndim == 2 else ("coo",))) for k in chosen}
    strided, stored = [], []
    for k, a in enumerate(sample.args):
        strided.append(iv.masked_tensor(a, masks[k], requires_grad=True) if k in chosen else a)
        stored.append(held_as(a, masks[k], layouts[k]) if k in chosen else a)
    with np.errstate(all="ignore"):
        expected, found = (outcome(name, args, sample.params) for args in (strided, stored))
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
        else:
            assert a == b
