"""Derivatives of second and third order at entries that a sparse argument does not store: they are zero now,
and no constants.

Every function here is of second or third degree, so that these follow exactly from differences of its values
with steps of one, which arrays without zeros give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import mpmath
import numpy as np
import pytest

import iverson as iv
from iverson.core.table import F
from iverson.layouts.pattern_symbols import PatternRead
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns

#: One row and one column store nothing, one row all, one column an entry.
X = np.array([[0, -0.25, -1.25, 0.5], [0, 0.5, 0, 0], [0, 0, 0, 0]])
CHOSEN = X < 0.25
AT = np.array([0, 2, 0])
WEIGHTS = np.arange(1.0, 13).reshape(X.shape)
PATTERN = np.array([[1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 1, 0]])


def _put(x: Any, key: Any, f: Callable[[Any], Any]) -> Any:
    y = x * 1.0
    y[key] = f(y)
    return y


#: Linear functions of a matrix to arrays of any shape.
LINEAR: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "scaled": lambda x: x * WEIGHTS,
    "chosen": lambda x: iv.where(CHOSEN, x, 0.5),
    "chosen of both": lambda x: iv.where(CHOSEN, x, x * 2.0),
    "chosen or 0": lambda x: iv.where(CHOSEN, x, 0.0),
    "dense": lambda x: x.to_dense(),
    "a row": lambda x: x[0],
    "a column": lambda x: x[:, 1],
    "a part": lambda x: x[:2, 1:],
    "rows backwards": lambda x: iv.flip(x, axis=0),
    "columns backwards": lambda x: iv.flip(x, axis=1),
    "rolled": lambda x: iv.roll(x, 1, axis=0),
    "rows taken twice": lambda x: iv.take(x, AT, axis=0),
    "columns taken twice": lambda x: iv.take(x, AT, axis=1),
    "entries in a row": lambda x: iv.reshape(x, (12,)),
    "transposed": lambda x: x.mT,
    "a new axis": lambda x: x[None],
    "spread": lambda x: iv.broadcast_to(x[None], (2, 3, 4)),
    "joined": lambda x: iv.concat([x, x * 2.0], axis=1),
    "joined to numbers": lambda x: iv.concat([x, WEIGHTS], axis=0),
    "stacked": lambda x: iv.stack([x, x * 3.0]),
    "sum": lambda x: x.sum(),
    "sums of rows": lambda x: x.sum(axis=1),
    "sums of columns": lambda x: x.sum(axis=0, keepdims=True),
    "sums so far": lambda x: iv.cumulative_sum(x, axis=0),
    "mean": lambda x: x.mean(axis=0),
    "a product from the left": lambda x: WEIGHTS.T @ x,
    "a product from the right": lambda x: x @ WEIGHTS.T,
    "a triangle": iv.tril,
    "a diagonal": lambda x: iv.linalg.diagonal(x[:, :3]),
    "a row written": lambda x: _put(x, 0, lambda y: y[0] * 2.0),
    "rows written": lambda x: _put(x, AT[:2], lambda y: y[1:] * 2.0),
    "a part cleared": lambda x: _put(x, (slice(0, 2), slice(1, 3)), lambda y: 0.0),
    "a mask written": lambda x: _put(x, CHOSEN, lambda y: 1.0),
    "at a pattern": lambda x: iv.sparse_mask(x, iv.to_layout(iv.asarray(PATTERN * 1.0), "csr")),
    "padded": lambda x: iv.pad(x, ((1, 0), (0, 2))),
    "masked": lambda x: iv.masked_tensor(x.to_dense(), CHOSEN).to_tensor(0.0),
}

#: Products of two of them, as functions to a number.
PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "times": lambda a, b: (a * b).sum(),
    "chosen": lambda a, b: iv.where(np.resize(CHOSEN, (a * b).shape), a * b, 0.5).sum(),
    "product of sums": lambda a, b: a.sum() * b.sum(),
}

INNER: dict[str, Callable[[Any], Any]] = {
    "itself": lambda f: f,
    "jit": iv.jit,
    "checkpoint": iv.checkpoint,
    "vmap": lambda f: lambda x: iv.vmap(f)(iv.stack([x, x])).sum() * 0.5,
    "cond": lambda f: lambda x: iv.cond(x.sum() < 5.0, f, lambda x: f(x) * 0.5, x),
    "scan": lambda f: (
        lambda x: iv.scan(lambda c, w: (c + f(x) * w, None), iv.zeros(()), iv.asarray([0.25, 0.75]))[0]
    ),
}


def _times(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (iv.grad(f)(x) * WEIGHTS).sum()


#: Ways to the Hessian times the weights.
OUTER: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "hessian": lambda f: lambda x: (iv.hessian(f)(x).to_dense() * WEIGHTS).sum(axis=(2, 3)),
    "jit of hessian": lambda f: lambda x: (iv.jit(iv.hessian(f))(x).to_dense() * WEIGHTS).sum(axis=(2, 3)),
    "grad of grad": lambda f: iv.grad(_times(f)),
    "jit of grad of grad": lambda f: iv.jit(iv.grad(_times(f))),
    "jvp of grad": lambda f: lambda x: iv.jvp(iv.grad(f), (x,), (iv.asarray(WEIGHTS),))[1],
    "grad of jvp": lambda f: iv.grad(lambda x: iv.jvp(f, (x,), (iv.asarray(WEIGHTS),))[1]),
    "vmap of grad of grad": lambda f: lambda x: iv.vmap(iv.grad(_times(f)))(iv.stack([x, x]))[1],
    "grad of jit of grad": lambda f: iv.grad(lambda x: (iv.jit(iv.grad(f))(x) * WEIGHTS).sum()),
}


def _expected(f: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    """The Hessian times the weights: exact differences of a function of second degree."""
    value = lambda x: float(f(iv.asarray(x)).to_dense())
    units = np.eye(X.size).reshape(X.size, *X.shape)
    ahead, behind = (np.array([value(X + u + s * WEIGHTS) for u in units]) for s in (1, -1))
    ahead_0, behind_0 = (np.array([value(X - u + s * WEIGHTS) for u in units]) for s in (1, -1))
    return ((ahead - behind - ahead_0 + behind_0) / 4).reshape(X.shape)


def _function(a: str, b: str, product: str) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        left, right = LINEAR[a](x), LINEAR[b](x)
        if left.shape != right.shape:  # each entry of one with each of the other, up to some
            left, right = iv.reshape(left, (-1,))[:5, None], iv.reshape(right, (-1,))[:4]
        return PRODUCTS[product](left, right).to_dense()

    return f


def _third(names: tuple[str, str, str], product: str) -> Callable[[Any], Any]:
    """Of third degree, of the first entries of three linear functions."""

    def f(x: Any) -> Any:
        parts = [iv.reshape(LINEAR[name](x), (-1,))[:12] for name in names]
        a, b, c = (part[: min(p.size for p in parts)] for part in parts)
        return PRODUCTS[product](a * b, c).to_dense()

    return f


def _expected_of_third(f: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    """The third derivative times the weights twice: differences again, in which other terms cancel."""
    value = lambda x: float(f(iv.asarray(x)).to_dense())
    units = np.eye(X.size).reshape(X.size, *X.shape)
    w = WEIGHTS
    second = [[value(x + w) - 2 * value(x) + value(x - w) for x in (X + u, X - u)] for u in units]
    return np.subtract(*np.array(second).T).reshape(X.shape) / 2


def _along(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: iv.jvp(f, (x,), (iv.asarray(WEIGHTS),))[1]


#: Ways to the third derivative times the weights twice.
THIRD: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "reverse": lambda f: iv.grad(_times(_times(f))),
    "jit of reverse": lambda f: iv.jit(iv.grad(_times(_times(f)))),
    "reverse of forward": lambda f: iv.grad(_along(_along(f))),
    "forward of reverse": lambda f: _along(_along(iv.grad(f))),
    "mixed": lambda f: _along(iv.grad(_along(f))),
    "checkpoint within": lambda f: iv.grad(_times(iv.checkpoint(_times(f)))),
    "jit within": lambda f: iv.grad(_times(iv.jit(_times(f)))),
    "vmap": lambda f: lambda x: iv.vmap(iv.grad(_times(_times(f))))(iv.stack([x, x]))[0],
}


def _sparse(layout: str) -> Any:
    return iv.to_layout(iv.asarray(X), layout, **({"blocksize": (1, 2)} if layout == "bsr" else {}))


def _assert_right(f: Callable[[Any], Any], expected: Any, inner: str, outer: str, layout: str) -> None:
    found = OUTER[outer](INNER[inner](f))(_sparse(layout)).to_dense().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12, err_msg=f"{outer} of {inner}, {layout}")


LAYOUTS = ("coo", "csr", "csc", "bsr")
pytestmark = pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_of_a_product_where_a_condition_holds(inner: str, outer: str) -> None:
    f = lambda x: iv.where(CHOSEN, x * x, 0.5).sum()
    for layout in LAYOUTS:
        _assert_right(f, 2 * CHOSEN * WEIGHTS, inner, outer, layout)


@pytest.mark.parametrize("name", LINEAR)
def test_of_products_of_linear_functions(name: str) -> None:
    """With another one, in a way to a Hessian, all drawn; a whole run draws more."""
    for k in range(60 if EXHAUSTIVE else 2):
        rng = np.random.default_rng([SEED, crc32(name.encode()), k])
        other, product, inner, outer, layout = (
            str(rng.choice(list(names))) for names in (LINEAR, PRODUCTS, INNER, OUTER, LAYOUTS)
        )
        f = _function(name, other, product)
        _assert_right(f, _expected(f), inner, outer, layout)


@pytest.mark.parametrize("name", by_turns(LINEAR, 2))
def test_of_third_order(name: str) -> None:
    rng = np.random.default_rng([SEED, crc32(name.encode()), 3])
    for _ in range(20 if EXHAUSTIVE else 1):
        second, third, product, inner, outer, layout = (
            str(rng.choice(list(names))) for names in (LINEAR, LINEAR, PRODUCTS, INNER, THIRD, LAYOUTS)
        )
        f = _third((name, second, third), product)
        found = THIRD[outer](INNER[inner](f))(_sparse(layout)).to_dense().numpy()
        np.testing.assert_allclose(found, _expected_of_third(f), atol=1e-8, err_msg=f"{outer} of {inner}")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_third_order_through_a_compiled_function_of_parts(layout: str) -> None:
    f = lambda x: (x[:, 1] * x[:, 1] * x[:, 2]).sum()
    for outer in THIRD.values():
        found = outer(iv.jit(f))(_sparse(layout)).to_dense().numpy()
        np.testing.assert_allclose(found, _expected_of_third(f), atol=1e-8)


#: Functions that are singular at 0, their second derivatives, and those of their products with x.
SINGULAR: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "sqrt": (iv.sqrt, lambda x: -0.25 * x**-1.5, lambda x: 0.75 * x**-0.5),
    "1 / x": (lambda x: 1 / x, lambda x: 2 * x**-3.0, lambda x: 0 * x),
    "log": (iv.log, lambda x: -(x**-2.0), lambda x: 1 / x),
    "power": (lambda x: x**1.5, lambda x: 0.75 * x**-0.5, lambda x: 3.75 * x**0.5),
    "x log x": (lambda x: x * iv.log(x), lambda x: 1 / x, lambda x: 2 * np.log(x) + 3),
}
LARGE = np.abs(X) > 0.3
#: Ways to a sum over the large entries.
SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "chosen": lambda f, x: iv.where(LARGE, f(x), 0.5).sum(),
    "a product, chosen": lambda f, x: iv.where(LARGE, f(x) * x, 0.5).sum(),
    "chosen twice": lambda f, x: iv.where(LARGE, f(iv.where(LARGE, x, 1.0)), 0.5).sum(),
    "masked": lambda f, x: iv.masked_tensor(f(x).to_dense(), LARGE).sum().to_tensor(0.0),
    "overwritten": lambda f, x: _put(f(x).to_dense(), ~LARGE, lambda y: 0.0).sum(),
    "a part": lambda f, x: f(x)[0, 2:].sum(),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("way", SUMS)
@pytest.mark.parametrize("name", SINGULAR)
def test_of_what_is_singular_elsewhere(name: str, way: str) -> None:
    function, second, of_product = SINGULAR[name]
    x = np.abs(X)
    read = (np.arange(12).reshape(X.shape) // 2 == 1) if way == "a part" else LARGE
    with np.errstate(all="ignore"):
        expected = np.where(read, (of_product if "product" in way else second)(x), 0.0) * WEIGHTS
    rng = np.random.default_rng([SEED, crc32(f"{name} {way}".encode())])
    for _ in range(60 if EXHAUSTIVE else 1):
        inner, outer, layout = (str(rng.choice(list(n))) for n in (INNER, OUTER, ("strided", *LAYOUTS[:3])))
        f = lambda x: SUMS[way](function, x).to_dense()
        found = OUTER[outer](INNER[inner](f))(iv.to_layout(iv.asarray(x), layout)).to_dense().numpy()
        np.testing.assert_allclose(
            found, expected, rtol=1e-9, atol=1e-12, err_msg=f"{outer} of {inner}, {layout}"
        )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("way", ["chosen", "a product, chosen", "masked"])
def test_of_a_compiled_gradient_that_is_differentiated(way: str) -> None:
    """A constant selection is one among what the compiled gradient keeps for its derivative."""
    x = np.abs(X)
    with np.errstate(all="ignore"):
        expected = np.where(LARGE, SINGULAR["1 / x"][2 if "product" in way else 1](x), 0.0) * WEIGHTS
    found = OUTER["grad of jit of grad"](lambda x: SUMS[way](lambda x: 1 / x, x))(iv.asarray(x))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_of_an_argument_that_was_a_selection(inner: str, outer: str) -> None:
    """What it does not store is zero now, like that of any other argument."""
    f = lambda x: iv.where(CHOSEN, x * x, 0.5).sum()
    x = F.selected(F.bracket(iv.asarray(X < -0.3), _sparse("csr"), negated=False))
    found = OUTER[outer](INNER[inner](f))(x).to_dense().numpy()
    np.testing.assert_allclose(found, 2 * CHOSEN * WEIGHTS)


def _halves(x: Any, above: Any) -> Any:
    """Singular where it is not read."""
    return iv.where(x > 0.05, above, iv.sqrt(0.3 - x))


#: Functions of entries and of factors that are stored where these are, and what one entry adds to them.
FACTORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "a root, times": (
        lambda x, k: iv.where(x > 0.05, 0.0, k * iv.sqrt(0.3 - x)),
        lambda x, k: 0 if x > 0.05 else k * (0.3 - x) ** 0.5,
    ),
    "times a root": (
        lambda x, k: k * _halves(x, x),
        lambda x, k: k * (x if x > 0.05 else (0.3 - x) ** 0.5),
    ),
    "a cube": (
        lambda x, k: (k * _halves(x, x)) ** 3.0,
        lambda x, k: k**3 * (x**3 if x > 0.05 else (0.3 - x) ** 1.5),
    ),
    "chosen of both": (
        lambda x, k: x * iv.where(x > 0.05, k, k / iv.sqrt(0.3 - x)),
        lambda x, k: x * k * (1 if x > 0.05 else (0.3 - x) ** -0.5),
    ),
    "a tangent": (
        lambda x, k: iv.jvp(lambda x: iv.exp(_halves(x, x)), (x,), (k,))[1],
        lambda x, k: (
            k * (mpmath.exp(x) if x > 0.05 else -0.5 * mpmath.exp((0.3 - x) ** 0.5) / (0.3 - x) ** 0.5)
        ),
    ),
    "at a pattern": (
        lambda x, k: k * iv.where(x > 0.05, 0.0, iv.sparse_mask(iv.sqrt(0.3 - x), k)),
        lambda x, k: 0 if x > 0.05 else k * (0.3 - x) ** 0.5,
    ),
}


#: The ways, each with how often it multiplies by the weights.
WAYS = {**{name: (way, 1) for name, way in OUTER.items()}, **{name: (way, 2) for name, way in THIRD.items()}}
CASES = [(name, outer, inner) for name in FACTORS for outer in WAYS for inner in INNER]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "outer", "inner"),
    by_turns(CASES, 12),
)
def test_beside_factors_that_are_stored(name: str, outer: str, inner: str) -> None:
    """What a selection of stored entries leaves out stays so at other patterns, and in compiled graphs."""
    (function, of_entry), (way, order) = FACTORS[name], WAYS[outer]
    derivative = [
        float(mpmath.diff(lambda x, k=k: of_entry(x, k), v, order + 1))
        for v, k in zip(X.flat, (0.7 * X).flat, strict=True)
    ]
    expected = np.reshape(derivative, X.shape) * WEIGHTS**order
    for layout in ("coo", "csr", "csc"):
        k = iv.to_layout(iv.asarray(0.7 * X), layout)
        constant = lambda x, k=k: function(x, k).to_dense().sum()
        of_argument = lambda x: function(x, 0.7 * x.detach()).to_dense().sum()
        for f in (constant, of_argument):
            for x in (iv.asarray(X), _sparse(layout)):
                if name == "at a pattern" and f is of_argument:  # which is a constant there
                    continue
                try:
                    found = way(INNER[inner](f))(x)
                except PatternRead:
                    continue
                told = f"{outer} of {inner}, {layout}, {type(x)}"
                np.testing.assert_allclose(found.to_dense().numpy(), expected, atol=1e-9, err_msg=told)
