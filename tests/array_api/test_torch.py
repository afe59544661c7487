"""Values, first and second derivatives against PyTorch, for what is composed of ops."""

import numpy as np
import pytest

import iverson as iv
from iverson import fft, linalg
from iverson.autograd import grad
from tests.array_api.common import draw

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
pytestmark = pytest.mark.peers
nn = torch.nn.functional

X, Y = draw((3, 4)), draw((3, 4), seed=1)
Z, W = draw((3, 4), "complex128"), draw((3, 4), "complex128", 1)
S = draw((3, 3), seed=2) + 3 * np.eye(3)
H = S @ S.T + np.eye(3)
C = Z[:, :3] + 3 * np.eye(3)
LABELS, IMAGE = np.array([1, 3, 0]), draw((1, 1, 3, 4))
COUNTS = np.array([2, 0, 1, 3])
ALONG = np.array([[0, 0, 3], [1, 2, 1], [3, 3, 3]])
T = torch.from_numpy


def svd_parts(u, s, vh):
    """What a decomposition with square factors determines, up to the phase of pairs of singular vectors."""
    k = s.shape[-1]
    u, vh = u[..., :k], vh[..., :k, :]
    return s, (u * s[..., None, :] ** 2) @ vh, u @ u.mT.conj() if hasattr(u, "conj") else u @ iv.conj(u.mT)


def qr_parts(q, r, n):
    return q[..., :n], r[..., :n, :]


def span(n):
    """The projector on the columns from the n-th on, which is I - Q Q^H of the others."""
    return lambda q: q[..., n:] @ iv.conj(q[..., n:].mT)


def other_span(q):
    return torch.eye(q.shape[-2], dtype=q.dtype) - q @ q.mT.conj()


MATRICES = {
    f"{dtype}-{'x'.join(map(str, shape))}": draw(shape, dtype)
    for dtype in ("float64", "complex128")
    for shape in ((3, 3), (4, 2), (2, 4), (2, 4, 3), (2, 2, 3), (0, 3), (3, 0), (2, 0, 3), (0, 3, 2))
}
#: name: (Iverson, PyTorch, arrays)
CASES = {
    "var": (lambda x: iv.var(x, axis=1, correction=1), lambda x: torch.var(x, 1), X),
    "var-all": (iv.var, lambda x: torch.var(x, correction=0), X),
    "std": (lambda x: iv.std(x, axis=0, correction=1), lambda x: torch.std(x, 0), X),
    "mean": (lambda x: iv.mean(x, axis=(0, 1)) ** 2, lambda x: torch.mean(x) ** 2, X),
    "prod": (lambda x: iv.prod(x, axis=1), lambda x: torch.prod(x, 1), X),
    "prod-zeros": (lambda x: iv.prod(x, axis=1), lambda x: torch.prod(x, 1), X * (Y > 0)),
    "max": (lambda x: iv.max(x, axis=1) ** 2, lambda x: torch.amax(x, 1) ** 2, X),
    "max-ties": (lambda x: iv.max(x, axis=1) ** 2, lambda x: torch.amax(x, 1) ** 2, np.round(X)),
    "logsumexp": (lambda x: iv.logsumexp(x, axis=0), lambda x: torch.logsumexp(x, 0), X),
    "cumulative_sum": (lambda x: iv.cumulative_sum(x, axis=1) ** 2, lambda x: torch.cumsum(x, 1) ** 2, X),
    "cumulative_prod": (lambda x: iv.cumulative_prod(x, axis=1), lambda x: torch.cumprod(x, 1), X),
    "cumulative_prod-zeros": (
        lambda x: iv.cumulative_prod(x, axis=0),
        lambda x: torch.cumprod(x, 0),
        X * (Y > -1),
    ),
    "cumulative_sum-initial": (
        lambda x: iv.cumulative_sum(x, axis=1, include_initial=True) ** 2,
        lambda x: torch.cat([torch.zeros_like(x[:, :1]), torch.cumsum(x, 1)], 1) ** 2,
        X,
    ),
    "clip": (lambda x: iv.clip(x, -0.5, 0.5) ** 2, lambda x: torch.clamp(x, -0.5, 0.5) ** 2, X),
    "clip-tensors": (
        lambda x, a, b: iv.clip(x, a, b) ** 2,
        lambda x, a, b: torch.clamp(x, a, b) ** 2,
        X,
        -abs(Y),
        abs(Y[0]),
    ),
    "clip-at-bounds": (lambda x: iv.clip(x, 0, 1) ** 2, lambda x: torch.clamp(x, 0, 1) ** 2, np.round(X)),
    "maximum-ties": (
        lambda x, y: iv.maximum(x, y) ** 2,
        lambda x, y: torch.maximum(x, y) ** 2,
        np.round(X),
        np.round(Y),
    ),
    "abs-complex": (lambda x: iv.abs(x) ** 3, lambda x: torch.abs(x) ** 3, Z),
    "angle": (iv.angle, torch.angle, Z),
    "pow": (lambda x, y: abs(x) ** y, lambda x, y: torch.abs(x) ** y, X, Y),
    "gelu": (iv.gelu, nn.gelu, X),
    "silu": (iv.silu, nn.silu, X),
    "softplus": (iv.softplus, nn.softplus, X),
    "relu": (lambda x: iv.relu(x) ** 2, lambda x: nn.relu(x) ** 2, np.round(X)),
    "lgamma": (iv.lgamma, torch.lgamma, abs(X) + 0.5),
    "erf": (iv.erf, torch.erf, X),
    "hypot": (iv.hypot, torch.hypot, X, Y),
    "atan2": (iv.atan2, torch.atan2, X, Y),
    "logaddexp": (iv.logaddexp, torch.logaddexp, X, Y),
    "sort": (lambda x: iv.sort(x, axis=1) ** 3, lambda x: torch.sort(x, 1)[0] ** 3, X),
    "sort-down": (
        lambda x: iv.sort(x, axis=0, descending=True) ** 3,
        lambda x: torch.sort(x, 0, descending=True)[0] ** 3,
        X,
    ),
    "take": (lambda x: iv.take(x, LABELS, axis=1) ** 2, lambda x: x[:, T(LABELS)] ** 2, X),
    "take_along_axis": (
        lambda x: iv.take_along_axis(x, ALONG, axis=1) ** 2,
        lambda x: torch.take_along_dim(x, T(ALONG), 1) ** 2,
        X,
    ),
    "gather-few": (
        lambda x: iv.gather(x, ALONG[:2], axis=1) ** 2,
        lambda x: torch.gather(x, 1, T(ALONG[:2])) ** 2,
        X,
    ),
    **{
        f"scatter_add-few-{axis}": (
            lambda x, v, k=axis: iv.scatter_add(x, ALONG[:2, :2] % 3, v**2, axis=k),
            lambda x, v, k=axis: x.scatter_add(k, T(ALONG[:2, :2] % 3), v[:2, :2] ** 2),
            X,
            Y,
        )
        for axis in (0, 1)
    },
    "scatter-few": (
        lambda x, v: iv.scatter(x, ALONG[1:2, 1:], v, axis=1) ** 2,
        lambda x, v: x.scatter(1, T(ALONG[1:2, 1:]), v[:1, :2]) ** 2,
        X,
        Y,
    ),
    **{
        f"lu_factor-{name}": (
            lambda x: linalg.lu_factor(x).LU,
            lambda x: torch.linalg.lu_factor(x)[0],
            x,
        )
        for name, x in MATRICES.items()
        if "2" in name and "0" not in name
    },
    "roll": (lambda x: iv.roll(x, 5) ** 2, lambda x: torch.roll(x, 5) ** 2, X),
    "diff": (lambda x: iv.diff(x, n=2) ** 2, lambda x: torch.diff(x, n=2) ** 2, X),
    "pad-constant": (
        lambda x: iv.pad(x, ((1, 2), (0, 3)), constant_values=2.0) ** 2,
        lambda x: nn.pad(x, (0, 3, 1, 2), value=2.0) ** 2,
        X,
    ),
    **{
        f"pad-{ours}": (
            lambda x, m=ours: iv.pad(x, ((0, 0), (0, 0), (1, 2), (3, 2)), m) ** 2,
            lambda x, m=theirs: nn.pad(x, (3, 2, 1, 2), m) ** 2,
            IMAGE,
        )
        for ours, theirs in (("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular"))
    },
    "tensordot": (
        lambda x, y: iv.tensordot(x, y, axes=((0,), (0,))),
        lambda x, y: torch.tensordot(x, y, ([0], [0])),
        X,
        Y,
    ),
    "vecdot": (iv.vecdot, torch.linalg.vecdot, Z, W),
    "einsum": (
        lambda x, y, z: iv.einsum("ij,kj,kl->il", x, y, z),
        lambda x, y, z: torch.einsum("ij,kj,kl->il", x, y, z),
        X,
        Y,
        S,
    ),
    "einsum-complex": (
        lambda x, y: iv.einsum("ij,kj->i", x, y),
        lambda x, y: torch.einsum("ij,kj->i", x, y),
        Z,
        W,
    ),
    "einsum-trace": (lambda x, y: iv.einsum("ii,jj", x, y), lambda x, y: torch.einsum("ii,jj", x, y), S, H),
    "cov": (
        lambda x, a: iv.cov(x, fweights=COUNTS, aweights=a**2),
        lambda x, a: torch.cov(x, fweights=T(COUNTS), aweights=a**2),
        X,
        Y[0],
    ),
    "logcumsumexp-complex": (
        lambda x: iv.exp(iv.logcumsumexp(x, axis=1)),
        lambda x: torch.exp(torch.logcumsumexp(x, 1)),
        Z,
    ),
    "sinc-complex": (iv.special.sinc, torch.sinc, Z),
    "embedding-padding": (
        lambda x: iv.embedding(LABELS % 3, x, padding_idx=1) ** 2,
        lambda x: nn.embedding(T(LABELS % 3), x, padding_idx=1) ** 2,
        X,
    ),
    "cross": (linalg.cross, torch.linalg.cross, S, H),
    "inv": (linalg.inv, torch.linalg.inv, C),
    "det": (linalg.det, torch.linalg.det, C),
    "slogdet": (lambda x: linalg.slogdet(x).logabsdet, lambda x: torch.linalg.slogdet(x)[1], C),
    "solve": (linalg.solve, torch.linalg.solve, C, Z),
    "pinv": (linalg.pinv, torch.linalg.pinv, Z),
    "cholesky": (lambda x: linalg.cholesky(x @ x.mT), lambda x: torch.linalg.cholesky(x @ x.mT), S),
    "eigvalsh": (lambda x: linalg.eigvalsh(x + x.mT), lambda x: torch.linalg.eigvalsh(x + x.mT), S),
    "eigvals": (
        lambda x: iv.abs(linalg.eigvals(x)).sum(),
        lambda x: torch.abs(torch.linalg.eigvals(x)).sum(),
        S + np.diag([0, 4, 9]),
    ),
    "svdvals": (linalg.svdvals, torch.linalg.svdvals, Z),
    **{
        f"svd-full-{name}": (
            lambda x: svd_parts(*linalg.svd(x)),
            lambda x: svd_parts(*torch.linalg.svd(x)),
            x,
        )
        for name, x in MATRICES.items()
    },
    **{
        f"svd-full-span-{name}": (
            lambda x: span(x.shape[-1])(linalg.svd(x).U),
            lambda x: other_span(torch.linalg.qr(x).Q),
            x,
        )
        for name, x in MATRICES.items()
        if x.shape[-2] > x.shape[-1]
    },
    **{
        f"svd-full-span-of-rows-{name}": (
            lambda x: span(x.shape[-2])(iv.conj(linalg.svd(x).Vh.mT)),
            lambda x: other_span(torch.linalg.qr(x.mT.conj()).Q),
            x,
        )
        for name, x in MATRICES.items()
        if x.shape[-2] < x.shape[-1]
    },
    **{
        f"qr-complete-{name}": (
            lambda x: qr_parts(*linalg.qr(x, mode="complete"), x.shape[-1]),
            lambda x: tuple(torch.linalg.qr(x)),
            x,
        )
        for name, x in MATRICES.items()
    },
    **{
        f"qr-complete-span-{name}": (
            lambda x: span(x.shape[-1])(linalg.qr(x, mode="complete").Q),
            lambda x: other_span(torch.linalg.qr(x).Q),
            x,
        )
        for name, x in MATRICES.items()
        if x.shape[-2] > x.shape[-1]
    },
    "qr": (lambda x: tuple(linalg.qr(x)), torch.linalg.qr, X[:, :2]),
    "matrix_power": (lambda x: linalg.matrix_power(x, -3), lambda x: torch.linalg.matrix_power(x, -3), S),
    **{
        f"vector_norm-{ord}": (
            lambda x, p=ord: linalg.vector_norm(x, axis=1, ord=p),
            lambda x, p=ord: torch.linalg.vector_norm(x, p, 1),
            x,
        )
        for ord, x in ((2, Z), (1, Z), (3, X), (0.5, X), (np.inf, X), (-np.inf, X), (-1, X))
    },
    **{
        f"matrix_norm-{ord}": (
            lambda x, p=ord: linalg.matrix_norm(x, ord=p),
            lambda x, p=ord: torch.linalg.matrix_norm(x, p),
            X,
        )
        for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    },
    "softmax": (lambda x: iv.softmax(x, axis=0), lambda x: torch.softmax(x, 0), X),
    "log_softmax": (iv.log_softmax, lambda x: torch.log_softmax(x, -1), X),
    "cross_entropy": (lambda x: iv.cross_entropy(x, LABELS), lambda x: nn.cross_entropy(x, T(LABELS)), X),
    "cross_entropy-image": (
        lambda x: iv.cross_entropy(x, np.ones((1, 3, 4), int), reduction="none"),
        lambda x: nn.cross_entropy(x, torch.ones((1, 3, 4), dtype=int), reduction="none"),
        draw((1, 2, 3, 4)),
    ),
    "cross_entropy-p": (
        lambda x, p: iv.cross_entropy(x, p, reduction="sum"),
        lambda x, p: nn.cross_entropy(x, p, reduction="sum"),
        X,
        abs(Y),
    ),
    "fft": (lambda x: fft.fft(x, n=6, norm="ortho"), lambda x: torch.fft.fft(x, 6, norm="ortho"), Z),
    "ifft-cut": (lambda x: fft.ifft(x, n=2, axis=0), lambda x: torch.fft.ifft(x, 2, 0), Z),
    "fftn": (lambda x: fft.fftn(x, s=(2, 5), axes=(0, 1)), lambda x: torch.fft.fftn(x, (2, 5), (0, 1)), X),
    "rfft": (lambda x: fft.rfft(x, n=5), lambda x: torch.fft.rfft(x, 5), X),
    "irfft": (lambda x: fft.irfft(x, n=7), lambda x: torch.fft.irfft(x, 7), Z),
    "rfftn": (fft.rfftn, torch.fft.rfftn, X),
    "irfftn": (fft.irfftn, torch.fft.irfftn, Z),
    "hfft": (fft.hfft, torch.fft.hfft, Z),
    "ihfft": (fft.ihfft, torch.fft.ihfft, X),
}


def tuple_of(ys):
    return tuple(ys) if isinstance(ys, (tuple, list)) else (ys,)


def weigh(space, ys, xs):
    """A fixed real combination of results; the weights are the same for both libraries."""
    total = 0.0
    for k, y in enumerate(ys):
        weights = np.cos(np.arange(int(np.prod(y.shape))) + k).reshape(tuple(y.shape))
        weights = weights if space is iv else T(weights)
        total = total + (space.real(y) * weights).sum()
        if "complex" in str(y.dtype):
            total = total + (space.imag(y) * (weights + 1)).sum()
    return total


def gradients(space, derivative, function, xs):
    """Results, first derivatives and derivatives of a combination of those."""
    ys = tuple_of(function(*xs))
    first = derivative(weigh(space, ys, xs), xs)
    second = derivative(weigh(space, first, xs), xs)
    return [*ys, *first, *second]


def of_torch(y, xs):
    if not y.requires_grad:
        return [torch.zeros_like(x) for x in xs]
    found = torch.autograd.grad(y, xs, create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_against_pytorch(name):
    ours, theirs, *arrays = CASES[name]
    xs = [iv.asarray(a, requires_grad=True) for a in arrays]
    zero = iv.asarray(0.0, requires_grad=True)
    found = gradients(iv, lambda y, x: grad(y + zero, x, create_graph=True), ours, xs)
    peers = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = gradients(torch, of_torch, theirs, peers)
    assert len(found) == len(expected)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert tuple(a.shape) == tuple(b.shape)
        assert str(a.dtype) == str(b.dtype).removeprefix("torch.")
        np.testing.assert_allclose(
            a.detach().numpy(), b.numpy(force=True), rtol=1e-8, atol=1e-8, err_msg=f"result {k}"
        )
