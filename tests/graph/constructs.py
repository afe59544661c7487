"""What else stands around a call in random programs: layouts, writes, dtypes, empty arrays, transforms.

Each is a function of a call (of one array), of two arrays made before, and of a number that says how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import iverson as iv
from tests.graph.fitting import Array, as_real, fitted, total, vanishes

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
#: Two patterns that share some entries, as arrays.
STORED = np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [4, 0, 0, 5], [0, 0, 0, 0]])
OTHER = np.array([[0.0, 0, 6, 0], [0, 7, 0, 0], [8, 0, 0, 0], [0, 0, 9, 0]])


def in_layout(dense: np.ndarray, how: int) -> Any:
    layout = LAYOUTS[how % len(LAYOUTS)]
    return iv.asarray(dense).to_layout(layout, blocksize=(2, 2) if layout[0] == "b" else None)


def of_pattern(dense: np.ndarray, x: Any, how: int) -> Any:
    """A sparse matrix whose stored values were computed."""
    s = in_layout(dense, how)
    values = s.values()
    return s.with_values(fitted(x, values.shape, how))


SPARSE_OPS: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda s, t, d: s + t,
    lambda s, t, d: s * t - s,
    lambda s, t, d: s @ t,
    lambda s, t, d: s.T @ d,
    lambda s, t, d: d @ s,
    lambda s, t, d: iv.tanh(s) * d,
    lambda s, t, d: s[1:3] @ d,
    lambda s, t, d: s[np.array([2, 0, 2])],
    lambda s, t, d: s[:, ::2],
    lambda s, t, d: iv.concat([s, t], axis=1),
    lambda s, t, d: s.sum(axis=0) + iv.sum(t),
    lambda s, t, d: iv.max(s, axis=1),
    lambda s, t, d: iv.sampled_matmul(d, d, s),
    lambda s, t, d: iv.where(s.to_dense() > d, s.to_dense(), d),
    lambda s, t, d: iv.abs(s) + iv.relu(t),
    lambda s, t, d: iv.sparse_mask(d, s) @ t,
)


def of_layouts(f: Array, p: Any, q: Any, how: int) -> Any:
    """An op of sparse matrices, of one pattern or of two."""
    s = of_pattern(STORED, f(p), how)
    t = of_pattern((STORED, OTHER)[how // 5 % 2], q, how // 3)
    return SPARSE_OPS[how // 7 % len(SPARSE_OPS)](s, t, fitted(q, (4, 4), 2)).to_dense()


def masked_sparse(f: Array, p: Any, q: Any, how: int) -> Any:
    m = iv.masked_tensor(of_pattern(STORED, f(p), how % 3))
    d = iv.masked_tensor(fitted(q, (4, 4), 2), OTHER != 0) if how % 2 else fitted(q, (4, 4), 2)
    return ((m * d).to_tensor(0.5), m.sum(axis=how % 2).to_tensor(0.25), (m @ d).to_tensor(1.0))[
        how // 5 % 3
    ].to_dense()


def clipped(f: Array, p: Any, q: Any, how: int) -> Any:
    """Bounds that were computed, in either order; ties where both are the same."""
    low, high = fitted(q, (3,), how), fitted(q, (2, 3), how // 3)
    return (
        iv.clip(fitted(f(p), (2, 3), how), low, high),
        iv.clip(fitted(f(p), (2, 3)), -0.1, low),
        iv.maximum(low, high),
    )[how // 7 % 3]


def overwritten(f: Array, p: Any, q: Any, how: int) -> Any:
    """Entries written where a condition holds, at positions, in a slice, and through a view."""
    y, z = fitted(p, (3, 4), how) * 1.0, fitted(f(p), (4,), how)
    if how % 2:
        y[y > 0.1] = 0.5
    y[np.array([2, 0])] += z
    if how % 3:
        y[:, 1] = fitted(q, (3,), 1)
    if how % 5 == 0:
        y[1] = 1 / y[1]
        y[1] = 0
    y *= 1 + y
    return y[1:] if how % 7 < 3 else iv.where(y > z, y, 0)


def protected(f: Array, p: Any, q: Any, how: int) -> Any:
    """What is singular where it is not chosen: its zeros are strong."""
    x = fitted(p, (2, 3), how) * np.array([0.0, 1, 0])
    chosen = iv.where(vanishes(x), fitted(f(p), (3,), how), 1 / x)
    return (
        iv.flip(chosen, axis=1) @ fitted(q, (3, 2), 1)
        if how % 2
        else iv.sum(chosen.reshape(3, 2), axis=how // 2 % 2)
    )


def of_integers(f: Array, p: Any, q: Any, how: int) -> Any:
    """Positions, counts and comparisons that were computed from entries."""
    x = fitted(f(p), (5,), how)
    order = iv.argsort(fitted(q, (5,), 2))
    count = iv.astype(iv.floor(x * 3), iv.int64)
    k = how // 3 % 4
    if k == 0:
        return x[order] * iv.astype(order % 3, iv.float64)
    if k == 1:
        return iv.astype(count // 2 - count % 3, iv.float64) * x + iv.sum(x > 0)
    if k == 2:
        return iv.take(x, iv.argmax(x)) * iv.astype(iv.any(x[:, None] > fitted(q, (3,)), axis=1), iv.float64)
    return iv.where((count & 1) == 0, x, x * x) + iv.cumulative_sum(iv.astype(x > 0, iv.int32))


def of_complex(f: Array, p: Any, q: Any, how: int) -> Any:
    z = fitted(f(p), (2, 2), how) + 1j * fitted(q, (2, 2), 2)
    k = how // 3 % 4
    if k == 0:
        return iv.real(z @ iv.conj(z.T)) + iv.imag(z)
    if k == 1:
        return iv.abs(iv.exp(z) * (1 - 2j))
    if k == 2:
        return iv.real(iv.grad(lambda z: iv.sum(iv.abs(z) ** 2 + iv.real(z * z)))(z))
    return iv.where(iv.real(z) > 0, z, iv.conj(z) * 2)


def of_nothing(f: Array, p: Any, q: Any, how: int) -> Any:
    """Arrays with no entries on the way."""
    x = fitted(f(p), (2, 3), how)
    empty = x[:, :0]
    k = how // 3 % 4
    if k == 0:
        return iv.concat([empty, x], axis=1) + iv.sum(empty, axis=1, keepdims=True)
    if k == 1:
        return empty @ fitted(q, (3, 2), 1)[:0] + x[:, :2]
    if k == 2:
        return iv.vmap(lambda r: iv.sum(r * 2) + r.sum())(empty) * iv.prod(x[:0], axis=0)[:2]
    return iv.grad(lambda e: iv.sum(e * e) + iv.sum(x))(empty).reshape(0) + iv.zeros((0,))


def closed_over(f: Array, p: Any, q: Any, how: int) -> Any:
    """A compiled function that reads tensors from around it, in another and in a gradient."""
    inner = iv.jit(lambda z: fitted(f(z), (3,), how) * fitted(q, (3,)), interpret=True)
    k = how // 3 % 3
    if k == 0:
        return iv.jit(lambda z: inner(z) + inner(z * 2), interpret=True)(p)
    if k == 1:
        return iv.grad(lambda z: iv.sum(inner(z) ** 2))(fitted(p, (3,), how))
    return iv.vmap(inner)(fitted(p, (2, 3), 1))


def donated(f: Array, p: Any, q: Any, how: int) -> Any:
    """A compiled function that may write into an argument that nobody else holds."""
    step = iv.jit(lambda w, z: w - 0.1 * fitted(f(z), (3,), how), donate=0, interpret=True)
    return step(fitted(q, (3,), 1) * 1.0, p)


def pulled(f: Array, p: Any, q: Any, how: int) -> Any:
    """Products with derivatives: a pullback's, a Hessian's, a Jacobian's rows and columns."""
    x = fitted(p, (3,), how)
    g = lambda z: iv.sin(fitted(f(z), (2,), how)) * z[:2]
    k = how // 3 % 4
    if k == 0:
        return iv.vjp(g, x)[1](fitted(q, (2,), 1))[0]
    if k == 1:
        return iv.hvp(lambda z: iv.sum(g(z)), (x,), (fitted(q, (3,), 1),))[1][0]
    if k == 2:
        return iv.jacobian(g)(x) @ fitted(q, (3,), 1)
    return iv.jvp(iv.grad(total(g)), (x,), (fitted(q, (3,), 1),))[1]


def per_example(f: Array, p: Any, q: Any, how: int) -> Any:
    """Gradients of each example, and transforms of a batch in each other."""
    w, xs = fitted(p, (3,), how), fitted(q, (2, 3), 1 + how)
    loss = lambda w, x: iv.sum(iv.tanh(fitted(f(w * x), (3,), how)) * x)
    k = how // 3 % 4
    if k == 0:
        return iv.vmap(iv.grad(loss), (None, 0))(w, xs)
    if k == 1:
        return iv.grad(lambda w: iv.sum(iv.vmap(loss, (None, 0))(w, xs) ** 2))(w)
    if k == 2:
        return iv.vmap(lambda x: iv.jvp(lambda w: loss(w, x), (w,), (x,))[1], chunk_size=1)(xs)
    return iv.vmap(iv.vmap(lambda a, b: fitted(f(a * b), (), 1), (None, 0)), (0, None))(w[:2], w)


def branches_of_examples(f: Array, p: Any, q: Any, how: int) -> Any:
    """Branches and loops that the examples of a batch decide on."""
    xs, y = fitted(p, (3, 2), how), fitted(q, (2,), 1)
    if how // 3 % 2:
        return iv.vmap(
            lambda x: iv.cond(iv.sum(x) > 0, lambda z: fitted(f(z), (2,), how) * y, lambda z: z - y, x)
        )(xs)
    body = lambda h, x: (iv.tanh(h + fitted(f(x), (2,), how)) * y, iv.sum(h))
    return iv.vmap(lambda x: iv.scan(body, x, xs)[0])(xs)


def patterns_of_examples(f: Array, p: Any, q: Any, how: int) -> Any:
    """A batch whose examples each store entries of their own."""
    batch = iv.asarray(np.stack([STORED, OTHER])).to_layout(LAYOUTS[how % 3])
    s = batch * (1 + 0.1 * iv.tanh(fitted(f(p), (2, 1, 1), how)))
    d = fitted(q, (4, 2), 1)
    if how // 3 % 2:
        return iv.vmap(lambda s: (s @ d).to_dense() if how % 2 else (s * s).sum(axis=0).to_dense())(s)
    return iv.vmap(iv.grad(lambda d, s: iv.sum((s @ d) ** 2)), (None, 0))(d, s)


def parts(f: Array, p: Any, q: Any, how: int) -> Any:
    """Stacked, split, moved and read in part."""
    x, y = fitted(f(p), (4, 2), how), fitted(q, (4, 2), 2)
    s = iv.stack([x, y, iv.sqrt(iv.abs(x))], axis=how % 3)
    k = how // 3 % 4
    if k == 0:
        return s.reshape(-1)[how % 5 : how % 5 + 6].reshape(2, 3)
    if k == 1:
        return iv.unstack(s, axis=1)[how % s.shape[1]] * 2.0
    if k == 2:
        return iv.split(iv.roll(x, 1, axis=0), 2)[how % 2] @ y[:2].T
    return iv.sort(s, axis=0)[how % s.shape[0]] + iv.max(s, axis=0)


def said_to_be_constant(f: Array, p: Any, q: Any, how: int) -> Any:
    """What is detached, or computed under ``no_grad``, here and in loops, batches and checkpoints."""

    def g(x: Any) -> Any:
        y = fitted(f(x), (3,), how)
        with iv.no_grad():
            z = iv.sin(y)
        return (y.detach() * x + z * y, z * y * x, y.detach() * iv.sum(x.detach()) + x)[how % 3]

    x = fitted(p, (3,), how // 3)
    return (
        lambda: g(x),
        lambda: iv.checkpoint(g)(x),
        lambda: iv.jit(g)(x) + fitted(q, (3,)).detach(),
        lambda: iv.cond(iv.sum(x) > 0, g, lambda x: x * 2, x),
        lambda: iv.vmap(g)(iv.stack([x, fitted(q, (3,), 1)])),
        lambda: iv.grad(lambda x: iv.sum(g(x) * x))(x),
    )[how // 5 % 6]()


def at_constants(f: Array, p: Any, q: Any, how: int) -> Any:
    """Derivatives at what does not depend on the arguments, zeros too, inside of bodies and batches."""
    constant = (iv.asarray([0.5, -1.0, 2.0]), iv.grad(lambda z: iv.sum(as_real(q)) * 1.0)(iv.ones(3)))[
        how % 2
    ]

    def inner(x: Any) -> Any:
        g = lambda z: iv.exp(iv.sin(z * x) + fitted(f(z), (3,), how)) * x
        if how // 2 % 2:
            return iv.jvp(g, (constant,), (iv.tanh(x),))[1]
        return iv.grad(lambda z: iv.sum(g(z)))(constant)

    x = fitted(p, (3,), how // 3)
    return (
        lambda: iv.cond(iv.sum(x) > 0, inner, lambda x: x * 2, x),
        lambda: iv.checkpoint(inner)(x),
        lambda: iv.scan(lambda h, y: (iv.tanh(inner(h)) * y, iv.sum(h)), x, fitted(q, (2,)))[0],
        lambda: iv.vmap(inner)(iv.stack([x, fitted(q, (3,), 1)])),
        lambda: iv.grad(lambda x: iv.sum(iv.vmap(inner)(iv.stack([x, x * 2]))))(x),
    )[how // 5 % 5]()


FURTHER: dict[str, Callable[[Array, Any, Any, int], Any]] = {
    "layouts": of_layouts,
    "masked sparse": masked_sparse,
    "clipped": clipped,
    "overwritten": overwritten,
    "protected": protected,
    "integers": of_integers,
    "complex": of_complex,
    "nothing": of_nothing,
    "closed over": closed_over,
    "donated": donated,
    "pulled": pulled,
    "per example": per_example,
    "branches of examples": branches_of_examples,
    "patterns of examples": patterns_of_examples,
    "parts": parts,
    "at constants": at_constants,
    "said to be constant": said_to_be_constant,
}
