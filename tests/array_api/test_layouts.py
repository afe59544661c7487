"""A layout never changes what a function gives: every function of one array, on box and zero layouts."""

import inspect

import numpy as np
import pytest

import iverson as iv
from iverson.core.region import Region
from iverson.layouts import Box, Zero
from tests.array_api.common import draw
from tests.conformance.product import paired

X = np.zeros((3, 3))
X[1, 1:] = [1.5, 2.0]
LAYOUTS = {
    "box": lambda: iv.Tensor(Box((3, 3), Region((1, 1), (2, 3)), X[1:2, 1:].copy())),
    "zero": lambda: iv.Tensor(Zero((3, 3), X.dtype)),
}
#: Arguments after the array, where the function needs some that are not an array of the same shape.
REST = {
    "astype": ("float32",),
    "broadcast_to": ((2, 3, 3),),
    "cross_entropy": (np.array([0, 1, 2]),),
    "full_like": (1.0,),
    "matrix_power": (2,),
    "moveaxis": (0, 1),
    "outer": None,
    "permute_dims": ((1, 0),),
    "repeat": (2,),
    "reshape": ((9,),),
    "roll": (1,),
    "searchsorted": None,
    "segment_max": (np.array([0, 2, 0]),),
    "segment_mean": (np.array([0, 2, 0]),),
    "segment_min": (np.array([0, 2, 0]),),
    "segment_prod": (np.array([0, 2, 0]),),
    "segment_softmax": (np.array([0, 2, 0]),),
    "segment_sum": (np.array([0, 2, 0]),),
    "sparse_mask": (iv.to_sparse(iv.eye(3)),),
    "split": (3,),
    "take": (np.array([0, 2, 2]),),
    "take_along_axis": (np.array([[0], [1], [2]]),),
    "tile": ((2, 2),),
    "with_values": None,
    "corrcoef": None,  # 0 / 0 of rows that are constant, which may be structural zeros
    "gather": (np.array([[0], [1], [2]]),),
    "index_add": (np.array([0, 2]), draw((2, 3))),
    "interp": (np.array([0.0, 1.0]), np.array([0.0, 2.0])),
    "kthvalue": (2,),
    "masked_fill": (draw((3, 3)) > 0, 0.5),
    "nanpercentile": (30,),
    "nanquantile": (0.3,),
    "percentile": (30,),
    "quantile": (0.3,),
    "scatter": (np.array([[0], [1], [2]]), np.ones((3, 1))),
    "scatter_add": (np.array([[0], [1], [2]]), np.ones((3, 1))),
    "array_split": (2,),
    "swapaxes": (0, 1),
    "topk": (2,),
    "to_layout": ("csr",),
    "pad": (1,),
    "fill_diagonal": (2.0,),
    "lerp": (draw((3, 3), seed=3), 0.5),
}
OPTIONS = {"take": {"axis": 0}, "cumulative_sum": {"axis": 0}, "cumulative_prod": {"axis": 1}}


def functions():
    for space in (iv, iv.linalg, iv.fft):
        for name in space.__all__:
            value = vars(space).get(name)
            parameters = list(inspect.signature(value).parameters) if inspect.isfunction(value) else []
            if parameters[:1] in (["x"], ["x1"], ["logits"]) and not name.startswith("empty"):
                rest = REST.get(name, (draw((3, 3), seed=2),) if parameters[1:2] == ["x2"] else ())
                if rest is not None:
                    yield value, rest, OPTIONS.get(name, {})


def outcome(function, *args, **options):
    """The results as arrays, or the type of the error."""
    with np.errstate(all="ignore"):
        try:
            found = function(*args, **options)
        except iv.errors.IversonError as error:
            return type(error)
    return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize(
    ("call", "layout"), paired(functions(), LAYOUTS), ids=lambda x: x if isinstance(x, str) else x[0].__name__
)
def test_same_as_dense(call, layout):
    function, rest, options = call
    x = LAYOUTS[layout]()
    expected = outcome(function, iv.asarray(x.numpy().copy()), *rest, **options)
    found = outcome(function, x, *rest, **options)
    if isinstance(expected, type):
        assert found is expected
        return
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
