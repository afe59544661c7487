"""Every function of `iverson.linalg` on matrices with inf and nan, and its backward: a program that must end.

`test_linalg` runs it. Each line that it prints names the call that follows.
"""

import itertools
import warnings
from functools import partial

import numpy as np

import iverson as iv
from iverson import linalg
from iverson.autograd import grad
from iverson.core.errors import LinearAlgebraError

#: The functions that refuse such matrices, since they iterate.
ITERATE = {name: getattr(linalg, name) for name in ("svd", "svdvals", "pinv", "matrix_rank", "cond")}
ITERATE |= {f"norm {ord}": partial(linalg.matrix_norm, ord=ord) for ord in ("nuc", 2, -2)}
ITERATE_SQUARE = {
    name: getattr(linalg, name) for name in ("eigh", "eigvalsh", "eig", "eigvals", "matrix_exp")
}
#: The others, with those of NumPy and how many matrices they take.
PROPAGATE = {
    name: (getattr(linalg, name), getattr(np.linalg, name), count)
    for name, count in {
        "inv": 1,
        "det": 1,
        "slogdet": 1,
        "solve": 2,
        "qr": 1,
        "trace": 1,
    }.items()
}
PROPAGATE["cholesky"] = (linalg.cholesky, lambda x: np.linalg.cholesky(0.5 * (x + np.conj(x.mT))), 1)
PROPAGATE["matrix_power"] = (lambda x: linalg.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2), 1)


def attempt(function, *xs):
    try:
        return function(*xs)
    except (LinearAlgebraError, np.linalg.LinAlgError) as error:
        return error


def results(out):
    return out if isinstance(out, tuple) else (out,)


def backward(function, *xs, weight=1.5):
    total = sum((iv.real(y) * weight).sum() for y in results(function(*xs))[:2])
    for g, x in zip(grad(total, xs), xs, strict=True):
        assert g.shape == x.shape


def check_propagates(ours, theirs, xs):
    """As NumPy: an error where it has one, finite where it is; and the backward ends."""
    found, expected = attempt(ours, *xs), attempt(theirs, *xs)
    assert isinstance(found, LinearAlgebraError) == isinstance(expected, Exception), (found, expected)
    if not isinstance(found, Exception):
        for a, b in zip(results(found), results(expected), strict=True):
            np.testing.assert_array_equal(np.isfinite(a.numpy()), np.isfinite(b))
        attempt(partial(backward, ours), *(iv.asarray(x, requires_grad=True) for x in xs))


def check_refuses(function, x, bad):
    """Entries that are not finite; a cotangent of such entries is propagated."""
    attempt(partial(backward, function, weight=bad), iv.asarray(np.ones_like(x), requires_grad=True))
    for tracks in (False, True):
        found = attempt(function, iv.asarray(x, requires_grad=tracks))
        assert isinstance(found, LinearAlgebraError), found
        assert "expected finite entries" in str(found), found


def matrix(shape, dtype, bad=None, at=None):
    x = np.asarray(np.random.default_rng(0).standard_normal(shape) + 4 * np.eye(*shape[-2:]), dtype)
    if at is not None:
        x[at] = bad
    return x


def main():
    shapes = ((3, 3), (2, 3, 3), (5, 3), (30, 30))
    for dtype, shape in itertools.product(("float64", "complex64"), shapes):
        square = shape[-1] == shape[-2]
        for bad, at in itertools.product((np.nan, np.inf, -np.inf), ((..., 0, 0), (..., -1, 0), ...)):
            for name, function in (ITERATE | (ITERATE_SQUARE if square else {})).items():
                print(name, dtype, shape, bad, at, flush=True)
                check_refuses(function, matrix(shape, dtype, bad, at), bad)
            for name, (ours, theirs, count) in PROPAGATE.items() if square else ():
                for k in range(count):
                    print(name, k, dtype, shape, bad, at, flush=True)
                    xs = [matrix(shape, dtype, bad, at if j == k else None) for j in range(count)]
                    check_propagates(ours, theirs, xs)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    main()
