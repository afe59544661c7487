"""Values, first and second derivatives of the op table at hard points, against PyTorch in float64.

Points are zeros of both signs, ties, repeated and equal entries, tiny and large numbers. Arrays are of size 0
and 1, read backwards, complex, with integers beside floats. Where PyTorch is finite, we are, with the same
number, and where it is not, we are not: unless `EXCEPT` names the points and the reason.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import iverson as iv
from iverson import linalg
from iverson.autograd import grad
from iverson.core.scalars import SCALARS
from iverson.ops import TABLE, F

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:var:UserWarning"),
]
nn = torch.nn.functional
T = torch.linalg

REAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 30.0, -30.0])
ALONE = np.append(REAL, [1e-8, -1e-8, 1e-160, 1e160])
COMPLEX = np.array([0, 1, -1, 1j, -1j, 0.5, -0.5, 2, -2, 0.5 + 0.5j, -0.5 - 2j, 1e-8j, 3 - 1e-8j])
INTEGERS = np.array([-2, -1, 0, 1, 3])

RENAMED = {
    "sign": torch.sgn,
    "softplus": nn.softplus,
    "silu": lambda x: (
        x * torch.sigmoid(x) if x.is_complex() else nn.silu(x)
    ),  # of complex x not differentiable
    "gelu": nn.gelu,
    "gelu_derivative": lambda x: torch.special.ndtr(x) + x * torch.exp(-x * x / 2) / (2 * torch.pi) ** 0.5,
    "clip": torch.clamp,
    "conj": lambda x: x.conj().resolve_conj(),
    "polygamma": None,  # torch's takes a Python integer
    "sech2": lambda x: 1 - torch.tanh(x) ** 2,  # of cosh it is 0 * inf far out
    "where": None,  # held against selections by maximum, clip and the layout laws
    "imag": None,  # of reals, which torch refuses
}
#: op: (where the two differ, why). The arguments are those of the op; order is that of the derivative.
EXCEPT = {
    "pow": (
        lambda order, a, b: ((a == 0) & (order > 0)) | (b == 0),
        "conventions: at a = 0; there and at b = 0 torch's second derivatives are nan",
    ),
    "hypot": (lambda order, a, b: (a == 0) & (b == 0), "conventions: the derivatives are 0, torch's nan"),
    "copysign": (lambda order, a, b: a == 0, "conventions: the derivative is 0"),
    "abs": (lambda order, x: (x == 0) & (order > 1), "complex: 1/0 of the root's derivative, torch's is 0"),
    "sign": (lambda order, x: (x == 0) & (order > 1), "complex: torch differentiates its own 0/0"),
    "atan2": (lambda order, a, b: (a == 0) & (b == 0), "torch's derivatives are 0 at (0, 0)"),
    "acosh": (lambda order, x: (x == 1) & (order > 1), "a product of two roots, for complex x: inf * 0"),
    "angle": (lambda order, x: x == 0, "torch's is 0 for -0.0; for complex 0 its derivative is 0"),
    "clip": (lambda order, x, lo, hi: lo >= hi, "hi wins over lo, in the derivative too"),
    "gelu": (lambda order, x: abs(x) > 1e100, "torch has inf * 0"),
    "gelu_derivative": (lambda order, x: abs(x) > 1e100, "torch has inf * 0"),
    "log2": (lambda order, x: abs(x) < 1e-100, "the last digits of 1 / (x ln 2) overflow"),
    "log10": (lambda order, x: abs(x) < 1e-100, "the last digits of 1 / (x ln 10) overflow"),
}


def derivatives(space, function, xs):
    """Results, first derivatives of a real combination of them, and the derivatives of each of those."""

    def combined(ys, weight):
        total = 0.0
        for y in ys:
            total = total + space.real(y).sum() if "complex" in str(y.dtype) else total + y.sum()
            if "complex" in str(y.dtype):
                total = total + (space.imag(y) * weight).sum()
        return total

    def pulled(y):
        if not getattr(y, "requires_grad", False):
            return [0 * x for x in xs]
        if space is iv:
            return grad(y, xs, create_graph=True)
        found = torch.autograd.grad(y, xs, create_graph=True, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g * 1 for g, x in zip(found, xs, strict=True)]

    ys = function(*xs)
    ys = ys if isinstance(ys, tuple) else (ys,)
    first = pulled(combined(ys, 0.7))
    second = [h for g in first for h in pulled(combined([g], 0.3))]
    return [[y.detach() for y in level] for level in (ys, first, second)]


def arrays(level):
    return [x.resolve_conj().numpy(force=True) if isinstance(x, torch.Tensor) else x.numpy() for x in level]


def compare(ours, theirs, given, constants=(), excepted=lambda order, *xs: np.array(False)):
    """All three levels, where the values are finite."""
    xs = [iv.asarray(x, requires_grad=True) for x in given]
    found = list(map(arrays, derivatives(iv, lambda *v: ours(*v, *constants), xs)))
    peers = [torch.tensor(x.copy(), requires_grad=True) for x in given]
    others = [torch.tensor(x) for x in constants]
    expected = list(map(arrays, derivatives(torch, lambda *v: theirs(*v, *others), peers)))
    finite = np.isfinite(expected[0][0])
    for order, (level, wanted) in enumerate(zip(found, expected, strict=True)):
        skip = np.broadcast_to(excepted(order, *given, *constants), given[0].shape)
        for a, b in zip(level, wanted, strict=True):
            assert a.shape == b.shape
            where = ~skip & finite if a.shape == skip.shape == finite.shape else ~skip
            held = np.isfinite(a) == np.isfinite(b)
            close = np.isclose(a, b, rtol=1e-6, atol=1e-12) | ~np.isfinite(b)
            wrong = where & ~(held & close) if where.shape == a.shape else ~(held & close)
            assert not wrong.any(), (
                f"order {order}: at {[x[wrong][:3] for x in (*given, *constants) if x.shape == wrong.shape]} "
                f"{a[wrong][:3]}, not {b[wrong][:3]}"
            )


def peer(name):
    return RENAMED[name] if name in RENAMED else getattr(torch, name)


#: Special functions have mpmath for their oracle.
OWN = {s.name for s in SCALARS.values() if s.space or s.orders or s.name == "zeta"}
ELEMENTWISE = [
    name for name in SCALARS if TABLE[name].differentiable and name not in OWN and peer(name) is not None
]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name):
    scalar, theirs = SCALARS[name], peer(name)
    excepted = EXCEPT.get(name, (lambda order, *xs: np.array(False), ""))[0]
    for points in (REAL, COMPLEX) if scalar.complex_ok else (REAL,):
        points = ALONE if scalar.arity == 1 and points is REAL else points
        if name == "angle" and points is ALONE:
            points = points[points != 0]
        some = points if scalar.arity < 3 else points[:7]
        grid = np.array(list(itertools.product(some, repeat=scalar.arity)))
        compare(getattr(F, name), theirs, list(grid.T.copy()), excepted=excepted)
        backwards = [x[::-1] for x in grid.T.copy()]
        np.testing.assert_allclose(
            getattr(F, name)(*backwards).numpy()[::-1], getattr(F, name)(*grid.T.copy()).numpy(), rtol=1e-14
        )
    if scalar.arity == 2:  # integers beside floats
        grid = np.array(list(itertools.product(REAL, INTEGERS)))
        integers = grid[:, 1].astype(int)
        compare(getattr(F, name), theirs, [grid[:, 0].copy()], (integers,), excepted)


def special(x):
    """An array as it is, and with what decompositions and reductions find hard."""
    yield "drawn", x
    yield "zeros", np.zeros_like(x)
    yield "equal", np.ones_like(x)
    yield "rounded", np.round(x)
    column = x.copy()
    column[..., 0] = 0
    yield "zero column", column
    twice = x.copy()
    twice[..., 1] = twice[..., 0]
    yield "equal columns", twice
    one = np.zeros_like(x)
    one[..., 1] = 1.5
    yield "one column", one
    whole = (slice(None, None, -1),) * x.ndim
    yield "backwards", x[whole].copy()[whole]
    yield "no rows", x[:0]
    yield "one row", x[:1]


def eye(x):
    return torch.eye(x.shape[-1], dtype=x.dtype)


MATRIX, SQUARES, VECTORS = (3, 4), (2, 3, 3), (4, 3)
LABELS = np.array([1, 3, 0])
#: name: (ours, torch's, shape, dtypes, special arrays where they differ and why)
WHOLE = {
    **{
        f"{name}-{axis}": (
            lambda x, f=ours, k=axis: f(x, axis=k),
            lambda x, f=theirs, k=axis: f(x, k),
            MATRIX,
            dtypes,
            apart,
        )
        for axis in ((0,), (1,), (0, 1))
        for name, ours, theirs, dtypes, apart in (
            ("sum", iv.sum, torch.sum, "fc", {}),
            ("mean", iv.mean, torch.mean, "fc", {}),
            ("max", lambda x, axis: iv.max(x, axis=axis) ** 2, lambda x, k: torch.amax(x, k) ** 2, "f", {}),
            ("min", lambda x, axis: iv.min(x, axis=axis) ** 2, lambda x, k: torch.amin(x, k) ** 2, "f", {}),
            ("logsumexp", iv.logsumexp, torch.logsumexp, "fc", {}),
            ("var", iv.var, lambda x, k: torch.var(x, k, correction=0), "f", {}),
        )
    },
    "prod": (lambda x: iv.prod(x, axis=1), lambda x: x.prod(1), MATRIX, "fc", {}),
    "prod-all": (iv.prod, torch.prod, MATRIX, "fc", {}),
    "cumulative_prod": (lambda x: iv.cumulative_prod(x, axis=1), lambda x: x.cumprod(1), MATRIX, "fc", {}),
    "cumulative_sum": (
        lambda x: iv.cumulative_sum(x, axis=1) ** 2,
        lambda x: x.cumsum(1) ** 2,
        MATRIX,
        "fc",
        {},
    ),
    "softmax": (lambda x: iv.softmax(x, axis=1), lambda x: x.softmax(1), MATRIX, "f", {}),
    "log_softmax": (lambda x: iv.log_softmax(x, axis=1), lambda x: x.log_softmax(1), MATRIX, "f", {}),
    "sort": (
        lambda x: iv.sort(x, axis=1) ** 2,
        lambda x: x.sort(dim=1, stable=True)[0] ** 2,
        MATRIX,
        "f",
        {},
    ),
    "cross_entropy": (
        lambda x: iv.cross_entropy(x, LABELS[: x.shape[0]]),
        lambda x: nn.cross_entropy(x, torch.tensor(LABELS[: x.shape[0]])),
        MATRIX,
        "f",
        {},
    ),
    "maximum-of-itself": (
        lambda x: iv.maximum(x, x[:1]) ** 2,
        lambda x: torch.maximum(x, x[:1]) ** 2,
        MATRIX,
        "f",
        {},
    ),
    **{
        f"pow-{p}": (lambda x, p=p: x**p, lambda x, p=p: x**p, MATRIX, "fc", {})
        for p in (0, 1, 2, 3, 0.5, -1)
    },
    **{
        f"vector_norm-{p}": (
            lambda x, p=p: linalg.vector_norm(x, axis=1, ord=p),
            lambda x, p=p: T.vector_norm(x, p, 1),
            MATRIX,
            "f",
            {"zeros": "a norm has no second derivative at 0, where torch has 0"} if p == 3 else {},
        )
        for p in (1, 3, np.inf, -np.inf)
    },
    "matmul": (lambda x: x @ x.mT, lambda x: x @ x.mT, MATRIX, "fc", {}),
    "inv": (lambda x: linalg.inv(x + 3 * iv.eye(3)), lambda x: T.inv(x + 3 * eye(x)), SQUARES, "fc", {}),
    "solve": (
        lambda x: linalg.solve(x + 3 * iv.eye(3), x),
        lambda x: T.solve(x + 3 * eye(x), x),
        SQUARES,
        "fc",
        {},
    ),
    "slogdet": (
        lambda x: linalg.slogdet(x + 3 * iv.eye(3)).logabsdet,
        lambda x: T.slogdet(x + 3 * eye(x))[1],
        SQUARES,
        "fc",
        {},
    ),
    "cholesky": (
        lambda x: linalg.cholesky(x @ iv.conj(x.mT) + iv.eye(3)),
        lambda x: T.cholesky(x @ x.mH + eye(x)),
        SQUARES,
        "fc",
        {},
    ),
    "matrix_power": (
        lambda x: linalg.matrix_power(x, 3),
        lambda x: T.matrix_power(x, 3),
        SQUARES,
        "fc",
        {},
    ),
    "pinv": (linalg.pinv, T.pinv, MATRIX, "fc", {}),
    "cross": (lambda x: linalg.cross(x, x * x), lambda x: T.cross(x, x * x), VECTORS, "fc", {}),
    "vecdot": (lambda x: iv.vecdot(x, x * x), lambda x: T.vecdot(x, x * x), VECTORS, "fc", {}),
    "rfft": (lambda x: iv.fft.rfft(x, axis=1), lambda x: torch.fft.rfft(x, dim=1), MATRIX, "f", {}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_arrays(name):
    ours, theirs, shape, dtypes, apart = WHOLE[name]
    rng = np.random.default_rng(0)
    for dtype in dtypes:
        x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype == "c" else 0)
        for kind, array in special(x):
            if kind in apart:
                continue
            try:
                theirs(torch.tensor(array.copy()))
            except (RuntimeError, IndexError):  # no such extent there
                continue
            if not array.size and name.startswith(("max", "min")):
                continue
            compare(ours, theirs, [array])
