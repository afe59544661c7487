"""Values, first and second derivatives of `iverson.nn` against PyTorch's."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import iverson as iv
from iverson import nn
from iverson.autograd import grad
from tests.nn.cases import CASES, CLASSES, IMAGE, PLANE, SIGNS, SOLID, P, X, Y

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning"),
]


def weighted(y, lib):
    w = np.cos(np.arange(int(np.prod(tuple(y.shape))))).reshape(tuple(y.shape))
    return (y * (iv.asarray(w) if lib is iv else torch.from_numpy(w))).sum()


def finite(y, lib):
    """What of a result is finite: an empty segment has the extremum inf."""
    return lib.where(lib.isfinite(y), y, 0.0 if lib is iv else torch.zeros((), dtype=y.dtype))


@pytest.mark.parametrize("name", CASES)
def test_against_torch(name):
    case = CASES[name]
    xs = [iv.asarray(a, requires_grad=True) for a in case.arrays]
    ts = [torch.tensor(a, requires_grad=True) for a in case.arrays]
    y, t = case.ours(*xs), case.theirs(torch.nn.functional, *ts)
    assert (y.shape, str(y.dtype)) == (tuple(t.shape), str(t.dtype).removeprefix("torch."))
    close(y, t, case.rtol)
    again = case.order == 2
    total, other = weighted(finite(y, iv), iv), weighted(finite(t, torch), torch)
    first = grad(total, xs, create_graph=again)
    theirs = torch.autograd.grad(other, ts, create_graph=again, allow_unused=True)
    known = [k for k, g in enumerate(theirs) if g is not None]
    for k in known:
        close(first[k].to_dense(), theirs[k], case.rtol)
    if not again:
        return
    target = sum(weighted(first[k].to_dense() ** 2, iv) for k in known)
    other = sum(weighted(theirs[k] ** 2, torch) for k in known)
    inputs = [ts[k] for k in known]
    linear = not other.requires_grad
    theirs = [None] * len(known) if linear else torch.autograd.grad(other, inputs, allow_unused=True)
    for k, b in zip(known, theirs, strict=True):
        a = grad(target, xs[k]).to_dense()
        close(a, torch.zeros(a.shape, dtype=torch.float64) if b is None else b, case.rtol)


#: What PyTorch refuses and means something here: a variance of 0 is divided by, a bound of inf leaves zeros.
TAKEN_HERE = {("batch_norm", "eps", 0.0), ("softshrink", "lambd", math.inf)}
NUMBERS = (-3.0, -1.0, -0.4, 0.0, 0.5, 1.0, 1.5, 3.0, math.nan, math.inf)
#: Arrays for functions of a number, and what else is passed.
TAKE_NUMBERS = {
    "batch_norm": ("x", "zeros", "ones"),
    "cosine_embedding_loss": ("x", "y", "row"),
    "cross_entropy": ("x", "classes"),
    "gaussian_nll_loss": ("x", "y", "shares"),
    "group_norm": ("image", 2),
    "layer_norm": ("x", (4,)),
    "local_response_norm": ("image", 3),
    "margin_ranking_loss": ("x", "y", "shares"),
    "nll_loss": ("x", "classes"),
    "rms_norm": ("x", (4,)),
    "scaled_dot_product_attention": ("x", "y", "x"),
    "triplet_margin_loss": ("x", "y", "shares"),
    "dropout1d": ("image",),
    "dropout2d": ("plane",),
    "dropout3d": ("solid",),
    "instance_norm": ("image",),
}
ARRAYS = {
    "x": X, "y": Y, "shares": P, "zeros": np.zeros(4), "ones": np.ones(4), "row": SIGNS, "classes": CLASSES,
    "image": IMAGE, "plane": PLANE, "solid": SOLID,
}  # fmt: skip


def refused(function, name, tensor, options):
    count = 2 if name.endswith(("_loss", "_similarity", "_distance")) else 1
    args = TAKE_NUMBERS.get(name, ("x", "y")[:count])
    try:
        function(*(tensor(ARRAYS[a]) if isinstance(a, str) else a for a in args), **options)
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        return type(error).__name__
    return ""


def numbers():
    """Functions of `iverson.nn` and their parameters that are real numbers."""
    for name in sorted({*nn.__all__} - {"init"}):
        theirs = getattr(torch.nn.functional, name, None)
        for key, parameter in inspect.signature(getattr(nn, name)).parameters.items():
            kinds = {"float", "Positive", "NonNegative", "Share"}
            if theirs is not None and parameter.annotation.removesuffix(" | None") in kinds:
                yield name, key, theirs


def test_numbers_that_pytorch_refuses_are_refused():
    tried = set()
    for name, key, theirs in numbers():
        # Any number, and none without a size; and a largest norm, which PyTorch takes below 0 too.
        if name in ("threshold", "interpolate", "embedding", "embedding_bag") or "lp_pool" in name:
            continue
        own = inspect.signature(getattr(nn, name)).parameters
        ours = {"rng": iv.random.default_rng(0)} if "rng" in own else {}
        both = {"training": True} if name == "batch_norm" else {}
        assert not refused(theirs, name, torch.tensor, both), name
        for value in NUMBERS:
            wrong = refused(theirs, name, torch.tensor, {key: value, **both})
            if wrong and (name, key, value) not in TAKEN_HERE:
                found = refused(getattr(nn, name), name, iv.asarray, {key: value, **both, **ours})
                assert found == "ArgumentError", (name, key, value)
                tried.add((name, key))
    assert len(tried) >= 12


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_as_exact_as_pytorchs(dtype):
    """The error against float64 is at most 1.1 times PyTorch's, or half a unit in the last place."""
    pytest.importorskip("ml_dtypes")
    eps = float(torch.finfo(getattr(torch, dtype)).eps)
    compared = 0
    for name, case in CASES.items():
        halves = [iv.asarray(a, dtype=dtype) for a in case.arrays]
        wide = [x.astype(iv.float64) for x in halves]
        exact = case.ours(*wide).to_dense().numpy()
        ours = case.ours(*halves).to_dense().numpy().astype(float)
        ts = [torch.tensor(x.numpy()).to(getattr(torch, dtype)) for x in wide]
        try:
            theirs = case.theirs(torch.nn.functional, *ts).to(torch.float64).numpy()
        except (RuntimeError, NotImplementedError):  # not in half precision
            continue
        there = np.isfinite(exact)
        scale = np.maximum(abs(exact[there]), np.finfo(np.float16).tiny)
        own, other = (abs(y[there] - exact[there]) / scale for y in (ours, theirs))
        assert own.max(initial=0) <= max(1.1 * other.max(initial=0), 0.51 * eps), name
        compared += 1
    assert compared > 100


def test_places_of_the_largest():
    """Of equal entries the first, row by row; nan is the largest; what is outside is never chosen."""
    rng = np.random.default_rng(0)
    for d, extents in ((1, (7,)), (2, (5, 6)), (3, (3, 4, 3))):
        x = np.round(2 * rng.standard_normal((2, 3, *extents)))
        x[0, 0], x[1, 1].flat[3] = -np.inf, np.nan
        for options in (
            {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
            {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
            {"kernel_size": 2, "stride": 1, "padding": 1, "dilation": 2},
        ):  # fmt: skip
            both(f"max_pool{d}d", x, return_indices=True, **options)
            both(f"max_pool{d}d", x[1], return_indices=True, **options)
        for output_size in (1, 2, 3):
            both(f"adaptive_max_pool{d}d", x, output_size=output_size, return_indices=True)


def both(name, x, **options):
    theirs = getattr(torch.nn.functional, name)(torch.from_numpy(x), **options)
    for a, b in zip(getattr(nn, name)(x, **options), theirs, strict=True):
        assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def close(ours, theirs, rtol=1e-9):
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(force=True), rtol=rtol, atol=1e-11
    )


def test_one_hot():
    x = np.array([[0, 2], [1, 2]])
    found = nn.one_hot(x, 4)
    np.testing.assert_array_equal(found.numpy(), torch.nn.functional.one_hot(torch.tensor(x), 4).numpy())
    assert found.dtype == np.int64


def test_running_moments():
    x = np.random.default_rng(0).standard_normal((4, 3, 2))
    ours, theirs = (
        (iv.zeros(3), iv.ones(3)),
        (torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)),
    )
    step = iv.jit(lambda x: nn.batch_norm(x, *ours, training=True, momentum=0.3))
    for _ in range(3):
        step(iv.asarray(x))
        torch.nn.functional.batch_norm(torch.tensor(x), *theirs, training=True, momentum=0.3)
        x = x * 1.5 + 0.2
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)
