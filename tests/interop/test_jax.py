"""Functions of Iverson's inside JAX: traced, mapped and differentiated in both modes, against JAX's own."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.errors import ArgumentError, ArgumentTypeError, DTypeError, GradientError

pytestmark = pytest.mark.peers

jax = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def _of_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def bridge() -> Any:
    import iverson.interop.jax as module

    return module


def test_the_examples_in_docstrings_run(bridge: Any) -> None:
    with jax.enable_x64(False):
        found = doctest.testmod(bridge, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 5
    assert not found.failed


def _function(F: Any) -> Any:
    return lambda x, y: F.sin(x @ y) * F.exp(x[0]).sum()


def _complex(F: Any) -> Any:
    return lambda x, y: F.sin(x @ y) * (1 + 2j) + 1j * F.exp(x[0]).sum()


def _loss(f: Any) -> Any:
    return lambda x, y: (abs(f(x, y)) ** 2).sum()


x, y = np.random.default_rng(0).standard_normal((3, 2)), np.random.default_rng(1).standard_normal((2, 2))

#: What is asked of a function, and the modes in which it can be.
USES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "value": (lambda j, f: f(x, y), ("reverse", "forward")),
    "jit": (lambda j, f: j.jit(f)(x, y), ("reverse", "forward")),
    "grad": (lambda j, f: j.jit(j.grad(_loss(f), (0, 1)))(x, y), ("reverse",)),
    "grad of one": (lambda j, f: j.grad(_loss(f), 1)(x, y), ("reverse",)),
    "jvp": (lambda j, f: j.jvp(lambda x: f(x, y), (x,), (2 * x,)), ("forward",)),
    "jacrev": (lambda j, f: j.jacrev(f)(x, y), ("reverse",)),
    "jacfwd": (lambda j, f: j.jacfwd(f)(x, y), ("forward",)),
    "second, reverse": (lambda j, f: j.jacrev(j.jacrev(_loss(f)), 1)(x, y), ("reverse",)),
    "second, forward": (lambda j, f: j.jacfwd(j.jacfwd(_loss(f)), 1)(x, y), ("forward",)),
    "third": (
        lambda j, f: j.grad(lambda x: j.grad(lambda x: j.grad(_loss(f))(x, y).sum())(x).sum())(x),
        ("reverse",),
    ),
    "vmap": (lambda j, f: j.vmap(f, (0, None))(np.stack([x, 2 * x]), y), ("reverse", "forward")),
    "vmap twice": (
        lambda j, f: j.vmap(j.vmap(f, (None, 0)), (0, None))(np.stack([x, 2 * x]), np.stack([y, y, 3 * y])),
        ("reverse",),
    ),
    "per sample": (lambda j, f: j.vmap(j.grad(_loss(f)), (0, None))(np.stack([x, 2 * x]), y), ("reverse",)),
    "one sample": (lambda j, f: j.vmap(j.grad(_loss(f)), (0, None))(x[None], y), ("reverse",)),
}


#: JAX has Jacobians of holomorphic functions alone.
_CASES = [
    (use, mode, function)
    for use, (_, modes) in USES.items()
    for mode in modes
    for function in (_function, *([] if use.startswith("jac") else [_complex]))
]


@pytest.mark.parametrize(("use", "mode", "function"), _CASES)
def test_what_jax_makes_of_a_function_is_what_it_makes_of_its_own(
    bridge: Any, use: str, mode: str, function: Any
) -> None:
    given = USES[use][0]
    own = given(jax, bridge.wrap(function(iv)))
    jax.tree.map(np.testing.assert_allclose, own, given(jax, function(jax.numpy)))


def test_gradients_in_complex_arguments_are_jaxs(bridge: Any) -> None:
    z, w = x + 1j * x[::-1], y - 2j * y

    def derivatives(f: Any) -> Any:
        first = jax.grad(_loss(f), (0, 1))
        return first(z, w), jax.grad(lambda z: abs(first(z, w)[0]).sum())(z)

    own, want = derivatives(bridge.wrap(_complex(iv))), derivatives(_complex(jax.numpy))
    jax.tree.map(np.testing.assert_allclose, own, want)


def test_trees_go_in_and_out_and_integers_have_no_derivative(bridge: Any) -> None:
    def function(params: dict[str, Any], rows: Any, scale: float) -> Any:
        return {"y": params["w"][rows] * scale, "n": iv.argmax(params["w"]), "none": None}

    f, w, rows = bridge.wrap(function), np.asarray([1.0, 3.0, 2.0]), np.asarray([2, 2])
    out = jax.jit(lambda w: f({"w": w}, rows, 3.0))(w)
    assert out["none"] is None
    assert int(out["n"]) == 1
    grads = jax.grad(lambda p: f(p, rows, 3.0)["y"].sum())({"w": w})
    assert grads["w"].tolist() == [0.0, 0.0, 6.0]
    along = bridge.wrap(function)
    assert jax.jvp(lambda w: along({"w": w}, rows, 3.0)["y"], (w,), (w,))[1].tolist() == [6.0, 6.0]


def test_cotangents_that_jax_knows_to_be_zero_are_undefined(bridge: Any) -> None:
    reads = []

    def both(x: Any) -> Any:
        return iv.sin(x), Noted.apply(x)

    class Noted(iv.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            reads.append(1)
            return g * 2.0

    f = bridge.wrap(both)
    found = jax.grad(lambda x: f(x)[0].sum())(x)
    np.testing.assert_allclose(found, np.cos(x))
    assert not reads
    jax.grad(lambda x: f(x)[1].sum())(x)
    assert reads


def test_shapes_are_found_without_entries_or_given(bridge: Any) -> None:
    def branch(x: Any) -> Any:
        return x * 2.0 if x.sum() > 0 else -x

    with pytest.raises(ArgumentError, match="ShapeDtypeStruct"):
        bridge.wrap(branch)(x)
    f = bridge.wrap(branch, result=jax.ShapeDtypeStruct(x.shape, x.dtype))
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: f(x).sum()))(abs(x)), np.full(x.shape, 2.0))
    wrong = bridge.wrap(branch, result=jax.ShapeDtypeStruct((1,), x.dtype))
    with pytest.raises(Exception, match=r"got shape \(3, 2\)"):
        wrong(x)


def test_a_tracked_tensor_that_is_no_argument_is_an_error(bridge: Any) -> None:
    w = iv.asarray(2.0, requires_grad=True)
    with pytest.raises(GradientError, match="pass it as an argument"):
        bridge.wrap(lambda x: x * w)(x)
    told = bridge.wrap(lambda x: x * w, result=jax.ShapeDtypeStruct(x.shape, x.dtype))
    with pytest.raises(Exception, match="pass it as an argument"):
        told(x)


@pytest.mark.parametrize(
    "read",
    [
        lambda bridge, x, w: x * bridge.from_jax(w),
        lambda bridge, x, w: iv.asarray(w) * x,
        lambda bridge, x, w: x * w,
        lambda bridge, x, w: w * x,
        lambda bridge, x, w: iv.multiply(x, w),
        lambda bridge, x, w: x * iv.asarray([w])[0],
    ],
)
def test_an_array_of_jaxs_that_a_wrapped_function_closes_over_is_an_input(bridge: Any, read: Any) -> None:
    row, w = jax.numpy.asarray([1.0, 2.0]), jax.numpy.asarray([3.0, 5.0])
    loss = lambda w: bridge.wrap(lambda x: iv.sum(read(bridge, x, w) ** 2))(row)
    assert float(loss(w)) == float(jax.jit(loss)(w))
    gradient = jax.grad(loss)(w)
    h = 1e-6
    for k in range(2):
        step = np.eye(2)[k] * h
        np.testing.assert_allclose(gradient[k], (loss(w + step) - loss(w - step)) / (2 * h), rtol=1e-6)
    with pytest.raises(GradientError, match="pass it as an argument"):
        jax.grad(lambda w: bridge.wrap(lambda x: iv.sum(x * w[0] * w[1]))(row))(w)
    with pytest.raises(Exception, match="pass it as an argument"):
        jax.grad(lambda w: bridge.wrap(iv.jit(lambda x: iv.sum(x * iv.asarray(w))))(row))(w)


def test_dtypes_are_jaxs(bridge: Any) -> None:
    with jax.enable_x64(False):
        out = bridge.wrap(lambda x: iv.astype(x, "float64") + 1)(np.ones(2, np.float32))
    assert out.dtype == "float32"


def test_arrays_go_both_ways(bridge: Any) -> None:
    dense = np.asarray([[0.0, 2.0], [3.0, 0.0]])
    assert bridge.from_jax(jax.numpy.asarray(dense)).tolist() == dense.tolist()
    for layout in ("strided", "coo", "csr", "csc", "bsr"):
        out = bridge.to_jax(
            iv.asarray(dense).to_layout(layout, blocksize=(1, 2) if layout == "bsr" else None)
        )
        back = bridge.from_jax(out)
        assert back.layout == ("strided" if layout == "strided" else "coo")
        assert back.numpy().tolist() == dense.tolist()
        assert isinstance(out, jax.Array) is (layout == "strided")
    hybrid = iv.sparse_coo_tensor([[1, 0, 1]], np.arange(6.0).reshape(3, 2), (2, 2))
    rows = iv.sparse_csc_tensor([0, 1, 3], [1, 0, 1], np.arange(6.0).reshape(3, 2), (2, 2, 2))
    for held in (hybrid, rows):
        out = bridge.to_jax(held)
        np.testing.assert_array_equal(out.todense(), held.numpy())
        assert out.n_dense == bridge.from_jax(out).dense_dim() == 1


def test_what_can_not_be_handed_over_is_an_error(bridge: Any) -> None:
    with pytest.raises(GradientError, match="wrap"):
        bridge.to_jax(iv.asarray([1.0], requires_grad=True))
    with pytest.raises(ArgumentTypeError, match="to_tensor"):
        bridge.to_jax(iv.masked_tensor([1.0], [True]))
    with pytest.raises(ArgumentTypeError, match="with values"):
        jax.jit(bridge.from_jax)(x)
    with pytest.raises(DTypeError, match="float8"):
        bridge.from_jax(jax.numpy.ones(2, "float8_e5m2"))
    batched = jax.experimental.sparse.BCOO.fromdense(jax.numpy.ones((2, 2)), n_batch=1)
    with pytest.raises(ArgumentTypeError, match="batch axes"):
        bridge.from_jax(batched)
    with pytest.raises(ArgumentTypeError, match="masked"):
        bridge.wrap(lambda x: iv.masked_tensor(x, np.ones((3, 2), bool)))(x)
