"""A valid call of every public function, method and constructor, with a value for each of its parameters.

The error sweep changes one argument of these at a time. A call is made afresh each time it is asked for, so
that none sees what an earlier one did to its arguments.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse

import iverson as iv
from iverson import autograd, masked, optim, te, testing
from iverson.core.scalars import SCALARS


@dataclass(frozen=True)
class Call:
    """``function(*args, **kwargs)``; ``make`` gives all three, new each time."""

    name: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]


class Given:
    """The arguments of a call: ``Given(x, axis=0)``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


def vector(*entries, dtype="float64"):
    return iv.asarray(list(entries) or [1.0, 2.0, 4.0], dtype=dtype)


def matrix(dtype="float64"):
    return iv.asarray(np.array([[4, 1, 0], [1, 3, 1], [0, 1, 2]]), dtype=dtype)


def leaf():
    return iv.asarray([1.0, 2.0, 4.0], requires_grad=True)


def halved(v):
    """Linear in v."""
    return v * 0.5


def csr():
    return iv.to_layout(matrix(), "csr")


def coo():
    return iv.to_sparse(matrix())


def holes():
    return iv.masked_tensor(vector(), [True, False, True])


def saved():
    """The path of a file, the same each time."""
    path = os.path.join(tempfile.gettempdir(), f"iverson-calls-{os.getpid()}.npz")
    iv.save(path, [1.0])
    atexit.register(lambda: os.path.exists(path) and os.unlink(path))
    return path


def rng():
    return iv.random.default_rng(0)


def numbers(*entries):
    return iv.asarray(list(entries), dtype="int64")


MADE = {"dtype": "float64", "device": "cpu", "requires_grad": True}
REDUCED = {"axis": 0, "keepdims": True}
BEFORE = {"norm": "ortho"}

#: By name in `iverson`: the arguments of one or more valid calls.
MAIN: dict[str, Callable[[], Given | list[Given]]] = {
    "all": lambda: Given(vector(), **REDUCED),
    "allclose": lambda: Given(vector(), vector(), rtol=0.1, atol=0.1, equal_nan=True),
    "argwhere": lambda: Given(vector()),
    "bfill": lambda: Given(vector(), axis=0, limit=2),
    "bincount": lambda: Given(numbers(0, 2), weights=vector(1.0, 2.0), minlength=4),
    "clone": lambda: Given(vector()),
    "convolve": lambda: Given(vector(), vector(), mode="same"),
    "corrcoef": lambda: Given(matrix(), vector(), rowvar=True),
    **{n: lambda: Given(vector()) for n in ("atleast_1d", "atleast_2d", "atleast_3d", "flatnonzero")},
    **{n: lambda: Given([vector(), vector()]) for n in ("hstack", "vstack", "dstack", "column_stack")},
    "append": lambda: Given(vector(), vector(), axis=0),
    "insert": lambda: Given(vector(), 1, 2.0, axis=0),
    "delete": lambda: Given(vector(), [0, 1], axis=0),
    **{n: lambda: Given(3, 1, 4) for n in ("tril_indices", "triu_indices")},
    "unravel_index": lambda: Given(numbers(2), (2, 3)),
    "ravel_multi_index": lambda: Given((numbers(1), numbers(2)), (2, 3)),
    "fill_diagonal": lambda: Given(matrix(), 2.0),
    "diag_embed": lambda: Given(vector(), offset=1),
    **{n: lambda: Given(vector(), vector()) for n in ("union1d", "intersect1d", "setdiff1d")},
    "lexsort": lambda: Given([vector(), vector()]),
    "logspace": lambda: Given(0.0, 1.0, 3, endpoint=False, base=2.0, dtype="float64"),
    "geomspace": lambda: Given(1.0, 2.0, 3, endpoint=False, dtype="float64"),
    "average": lambda: Given(vector(), axis=0, weights=vector()),
    "ptp": lambda: Given(vector(), 0, keepdims=True),
    **{n: lambda: Given(vector(), vector()) for n in ("heaviside", "fmax", "fmin", "polyval")},
    "lerp": lambda: Given(vector(), vector(), 0.5),
    **{n: lambda: Given(vector()) for n in ("isposinf", "isneginf")},
    "vander": lambda: Given(vector(), 2, increasing=True),
    "gradient": lambda: Given(vector(), 0.5, axis=0, edge_order=1),
    "unwrap": lambda: Given(vector(), 4.0, 0, period=3.0),
    "cdist": lambda: Given(matrix(), matrix(), 1.0),
    "dist": lambda: Given(vector(), vector(), 1.0),
    "view_as_real": lambda: Given(vector(dtype="complex128")),
    "view_as_complex": lambda: Given(iv.ones((3, 2))),
    "piecewise": lambda: Given(vector(), [vector() > 1.0], [2.0]),
    "cov": lambda: Given(
        matrix(),
        vector(),
        rowvar=True,
        bias=True,
        ddof=0.0,
        correction=0.0,
        fweights=numbers(1, 2, 1),
        aweights=vector(),
    ),
    "cummax": lambda: Given(vector(), axis=0, return_indices=True),
    "cummin": lambda: Given(vector(), axis=0, return_indices=True),
    "ffill": lambda: Given(vector(), axis=0, limit=2),
    "gelu": lambda: Given(vector(), approximate="tanh"),
    "softplus": lambda: Given(vector(), beta=2.0, threshold=1.0),
    "flatten": lambda: Given(matrix()),
    "gather": lambda: Given(vector(), numbers(0, 2), axis=0),
    "index_add": lambda: Given(vector(), numbers(0, 2), vector(1.0, 2.0), axis=0),
    "interp": lambda: Given(vector(), vector(), vector()),
    "isclose": lambda: Given(vector(), vector(), rtol=0.1, atol=0.1, equal_nan=True),
    "kthvalue": lambda: Given(vector(), 2, axis=0, keepdims=True),
    "logcumsumexp": lambda: Given(vector(), axis=0),
    "masked_fill": lambda: Given(vector(), iv.asarray([True, False, True]), 0.0),
    "median": lambda: Given(vector(), **REDUCED),
    "nan_to_num": lambda: Given(vector(), nan=1.0, posinf=2.0, neginf=3.0),
    "nanargmax": lambda: Given(vector(), **REDUCED),
    "nanargmin": lambda: Given(vector(), **REDUCED),
    "nancumprod": lambda: Given(vector(), 0, dtype="float64"),
    "nancumsum": lambda: Given(vector(), 0, dtype="float64"),
    "array_split": lambda: Given(vector(), 2, axis=0),
    "histogram": lambda: [
        Given(vector(), 2, range=(0.0, 4.0), weights=vector(), density=True),
        Given(vector(), vector()),
    ],
    "scatter": lambda: Given(vector(), numbers(0, 2), vector(1.0, 2.0), axis=0),
    "swapaxes": lambda: Given(matrix(), 0, 1),
    "nanmax": lambda: Given(vector(), **REDUCED),
    "nanmean": lambda: Given(vector(), **REDUCED, dtype="float64"),
    "nanmedian": lambda: Given(vector(), **REDUCED),
    "nanmin": lambda: Given(vector(), **REDUCED),
    "nanprod": lambda: Given(vector(), **REDUCED, dtype="float64"),
    "nanquantile": lambda: Given(vector(), vector(0.5), **REDUCED, method="inverted_cdf", weights=vector()),
    "nanpercentile": lambda: Given(vector(), vector(0.5), **REDUCED, method="inverted_cdf", weights=vector()),
    "nanstd": lambda: Given(vector(), **REDUCED, dtype="float64", correction=0.5, ddof=1.0),
    "nansum": lambda: Given(vector(), **REDUCED, dtype="float64"),
    "nanvar": lambda: Given(vector(), **REDUCED, dtype="float64", correction=0.5, ddof=1.0),
    "quantile": lambda: Given(vector(), vector(0.5), **REDUCED, method="inverted_cdf", weights=vector()),
    "percentile": lambda: Given(vector(), vector(0.5), **REDUCED, method="inverted_cdf", weights=vector()),
    "ravel": lambda: Given(matrix()),
    "rot90": lambda: Given(matrix(), 1, axes=(0, 1)),
    "round": lambda: Given(vector(), decimals=1),
    "scatter_add": lambda: Given(vector(), numbers(0, 2), vector(1.0, 2.0), axis=0),
    "topk": lambda: Given(vector(), 2, axis=0, largest=False),
    "trapezoid": lambda: Given(vector(), vector(), dx=2.0, axis=0),
    "any": lambda: Given(vector(), **REDUCED),
    "arange": lambda: Given(0, 4, 2, **MADE),
    "argmax": lambda: Given(vector(), **REDUCED),
    "argmin": lambda: Given(vector(), **REDUCED),
    "argsort": lambda: Given(vector(), axis=0, descending=True, stable=False),
    "as_masked_tensor": lambda: Given(vector(), [True, False, True]),
    "asarray": lambda: Given([1.0, 2.0], copy=True, **MADE),
    "astype": lambda: Given(vector(), "float32", copy=True, device="cpu"),
    "broadcast_arrays": lambda: Given(vector(), matrix()),
    "broadcast_shapes": lambda: Given((3,), (2, 1)),
    "broadcast_to": lambda: Given(vector(), (2, 3)),
    "can_cast": lambda: Given("int8", "int16"),
    "clip": lambda: Given(vector(), 1.5, 3.0),
    "coalesce": lambda: Given(coo()),
    "concat": lambda: Given([vector(), vector()], axis=0),
    "count_nonzero": lambda: Given(vector(), **REDUCED),
    "cross_entropy": lambda: [
        Given(
            matrix(), numbers(0, 1, 2), vector(), axis=1, ignore_index=2, reduction="sum", label_smoothing=0.1
        ),
        Given(matrix(), matrix() / 4, axis=1, reduction="mean"),
    ],
    "cumulative_prod": lambda: Given(vector(), 0, dtype="float64", include_initial=True),
    "cumulative_sum": lambda: Given(vector(), 0, dtype="float64", include_initial=True),
    "diag": lambda: Given(vector(), k=1, layout="csr"),
    "diagonal": lambda: Given(matrix(), offset=1),
    "diff": lambda: Given(vector(), axis=0, n=2, prepend=vector(), append=vector()),
    "einsum": lambda: [Given("ij,jk->ik", matrix(), matrix()), Given("...i,i", matrix(), vector())],
    "embedding": lambda: Given(numbers(0, 2), matrix(), padding_idx=1, max_norm=1.0, norm_type=2.0),
    "empty": lambda: Given((2, 3), **MADE),
    "empty_like": lambda: Given(vector(), **MADE),
    "expand_dims": lambda: Given(vector(), 0),
    "eye": lambda: [Given(2, 3, k=1, **MADE), Given(2, 3, k=1, layout="coo", **MADE)],
    "finfo": lambda: Given("float32"),
    "flip": lambda: Given(vector(), axis=0),
    "from_dlpack": lambda: Given(np.ones(3), device="cpu", copy=True, requires_grad=True),
    "from_scipy": lambda: Given(scipy.sparse.csr_array(np.eye(3)), requires_grad=True),
    "full": lambda: Given((2, 3), 1.5, **MADE),
    "full_like": lambda: Given(vector(), 1.5, **MADE),
    "iinfo": lambda: Given("int8"),
    "is_grad_enabled": Given,
    "isdtype": lambda: Given("int8", ("integral", "bool")),
    "isin": lambda: Given(vector(), vector(), invert=True),
    "kron": lambda: Given(matrix(), vector()),
    "linspace": lambda: [
        Given(0.0, 1.0, 3, endpoint=False, axis=0, **MADE),
        Given(vector(), 1.0, 3, axis=-1),
    ],
    "log_softmax": lambda: Given(vector(), 0),
    "logsumexp": lambda: Given(vector(), **REDUCED),
    "masked_tensor": lambda: Given(vector(), [True, False, True], requires_grad=True),
    "matmul": lambda: Given(matrix(), vector()),
    "matrix_transpose": lambda: Given(matrix()),
    "max": lambda: Given(vector(), **REDUCED),
    "mean": lambda: Given(vector(), 0, dtype="float64", keepdims=True),
    "meshgrid": lambda: Given(vector(), vector(), indexing="ij"),
    "min": lambda: Given(vector(), **REDUCED),
    "moveaxis": lambda: Given(matrix(), 0, 1),
    "nonzero": lambda: Given(vector()),
    "ones": lambda: Given((2, 3), **MADE),
    "ones_like": lambda: Given(vector(), **MADE),
    "outer": lambda: Given(vector(), vector()),
    "pad": lambda: [
        Given(vector(), (1, 2), mode="constant", constant_values=1.0),
        Given(matrix(), ((1, 2), (0, 1)), mode="wrap"),
        Given(vector(), 2, mode="linear_ramp", end_values=1.0),
        Given(vector(), 2, mode="mean", stat_length=2),
    ],
    "transpose": lambda: Given(matrix(), (1, 0)),
    "permute_dims": lambda: Given(matrix(), (1, 0)),
    "prod": lambda: Given(vector(), 0, dtype="float64", keepdims=True),
    "repeat": lambda: [Given(vector(), 2, axis=0), Given(vector(), [1, 0, 2], axis=0)],
    "reshape": lambda: Given(vector(), (3, 1), copy=True),
    "result_type": lambda: Given("int8", vector(), 1.0),
    "roll": lambda: Given(vector(), 1, axis=0),
    "sampled_matmul": lambda: Given(matrix(), matrix(), csr()),
    "searchsorted": lambda: Given(vector(), vector(), side="right", sorter=numbers(0, 1, 2)),
    "segment_max": lambda: Given(vector(), [0, 1, 0], 2),
    "segment_mean": lambda: Given(vector(), [0, 1, 0], 2),
    "segment_min": lambda: Given(vector(), [0, 1, 0], 2),
    "segment_prod": lambda: Given(vector(), [0, 1, 0], 2),
    "segment_softmax": lambda: Given(vector(), [0, 1, 0], 2),
    "segment_sum": lambda: Given(vector(), numbers(0, 1, 0), 2),
    "softmax": lambda: Given(vector(), 0),
    "solve_triangular": lambda: Given(
        matrix(), matrix(), lower=False, trans="C", left=False, unit_diagonal=True
    ),
    "sort": lambda: Given(vector(), axis=0, descending=True, stable=False),
    "sparse_bsc_tensor": lambda: Given(
        [0, 1], [0], np.ones((1, 2, 2)), (2, 2), dtype="float64", requires_grad=True, check=True
    ),
    "sparse_bsr_tensor": lambda: Given(
        [0, 1], [0], np.ones((1, 2, 2)), (2, 2), dtype="float64", requires_grad=True, check=True
    ),
    "sparse_coo_tensor": lambda: Given(
        [[0, 1], [1, 0]], [1.0, 2.0], (2, 3), dtype="float64", requires_grad=True, check=True
    ),
    "sparse_csc_tensor": lambda: Given(
        [0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), dtype="float64", requires_grad=True, check=True
    ),
    "sparse_csr_tensor": lambda: Given(
        [0, 1, 2], numbers(1, 0), vector(1.0, 2.0), (2, 2), dtype="float64", requires_grad=True, check=True
    ),
    "sparse_mask": lambda: Given(matrix(), csr()),
    "split": lambda: [Given(vector(), 3, axis=0), Given(vector(), [1, 2], axis=0)],
    "spsolve": lambda: Given(csr(), vector()),
    "squeeze": lambda: Given(iv.ones((1, 3)), 0),
    "stack": lambda: Given([vector(), vector()], axis=1),
    "std": lambda: Given(vector(), 0, correction=1, keepdims=True),
    "sum": lambda: Given(vector(), 0, dtype="float64", keepdims=True),
    "take": lambda: Given(vector(), numbers(0, 2), axis=0),
    "take_along_axis": lambda: Given(vector(), numbers(0, 2), axis=0),
    "tensordot": lambda: [
        Given(matrix(), matrix(), axes=1),
        Given(matrix(), matrix(), axes=((0, 1), (1, 0))),
    ],
    "tile": lambda: Given(vector(), (2, 1)),
    "to_layout": lambda: [
        Given(matrix(), "csr"),
        Given(iv.ones((4, 4)), "bsr", blocksize=(2, 2)),
        Given(iv.ones((4, 4, 2)), "csc", dense_dim=1),
    ],
    "to_scipy": lambda: Given(csr()),
    "to_sparse": lambda: Given(matrix()),
    "tril": lambda: Given(matrix(), k=1),
    "triu": lambda: Given(matrix(), k=1),
    "unique": lambda: [
        Given(vector(), return_index=True, return_inverse=True, return_counts=True, equal_nan=False),
        Given(matrix(), axis=0),
    ],
    "unique_all": lambda: [Given(vector()), Given(matrix(), axis=0)],
    "unique_counts": lambda: [Given(vector()), Given(matrix(), axis=0)],
    "unique_inverse": lambda: [Given(vector()), Given(matrix(), axis=0)],
    "unique_values": lambda: [Given(vector()), Given(matrix(), axis=0)],
    "unstack": lambda: Given(matrix(), axis=1),
    "var": lambda: Given(vector(), 0, correction=1, keepdims=True),
    "vecdot": lambda: Given(vector(), vector(), axis=-1),
    "where": lambda: [
        Given(iv.asarray([True, False, True]), vector(), 0.0),
        Given(iv.asarray([True, False, True])),
    ],
    "with_values": lambda: Given(csr(), np.ones(7)),
    "tensor": lambda: Given([1.0, 2.0], **MADE),
    "zeros": lambda: Given((2, 3), **MADE),
    "zeros_like": lambda: Given(vector(), **MADE),
    # transforms
    "grad": lambda: Given(cubes, argnums=0, has_aux=False),
    "hessian": lambda: Given(cubes, argnums=0, chunk_size=2, layout="coo"),
    "hvp": lambda: Given(cubes, (vector(),), (vector(),)),
    "jacobian": lambda: Given(cubes, argnums=0, mode="forward", chunk_size=2, layout="csr"),
    "biharmonic": lambda: Given(cubes, argnums=0),
    "differential_operator": lambda: Given(cubes, {(1, 0, 2): 1.0}, argnums=0),
    "laplacian": lambda: Given(cubes, argnums=0, weights=vector()),
    "derivatives": lambda: Given(cubes, 2, direction=vector()),
    "jet": lambda: Given(cubes, (vector(),), ([vector(), vector()],), scaled=True),
    "jit": lambda: Given(cubes, static=(), donate=(), sizes="general", interpret=True),
    "jvp": lambda: Given(cubes, (vector(),), (vector(),), has_aux=False),
    "value_and_grad": lambda: Given(cubes, argnums=0, has_aux=False),
    "vjp": lambda: Given(cubes, vector(), has_aux=False),
    "vmap": lambda: Given(squares, in_axes=0, out_axes=0, chunk_size=2),
    "checkpoint": lambda: Given(cubes),
    "disable_jit": lambda: Given(True),
    "linearize": lambda: Given(cubes, vector(), has_aux=False),
    "cond": lambda: Given(iv.asarray(True), squares, squares, vector()),
    "fori_loop": lambda: Given(0, 3, lambda i, x: x * 0.5, vector()),
    "load": lambda: Given(saved()),
    "ravel_pytree": lambda: Given({"a": vector()}),
    "scan": lambda: Given(
        lambda c, x: (c + x, c), vector(), matrix(), length=None, reverse=False, checkpoint=2
    ),
    "while_loop": lambda: Given(lambda x: (x > x).any(), lambda x: x + 1, vector(), max_steps=3),
}
LINALG: dict[str, Callable[[], Given | list[Given]]] = {
    **{
        name: lambda: Given(matrix())
        for name in (
            "det",
            "eig",
            "eigvals",
            "inv",
            "logdet",
            "logm",
            "lu",
            "lu_factor",
            "matrix_exp",
            "slogdet",
            "sqrtm",
            "svdvals",
        )
    },
    **{name: lambda: Given(matrix(), UPLO="L") for name in ("eigh", "eigvalsh")},
    "block_diag": lambda: Given(matrix(), vector()),
    "cholesky_solve": lambda: Given(vector(), iv.linalg.cholesky(matrix()), upper=False),
    "cond": lambda: Given(matrix(), p=1),
    "lstsq": lambda: Given(matrix(), vector(), rtol=1e-9, rcond=1e-9),
    "lu_solve": lambda: Given(iv.linalg.lu_factor(matrix()), vector(), adjoint=True),
    "multi_dot": lambda: Given([vector(), matrix(), matrix()]),
    "solve_circulant": lambda: Given(vector(4.0, 1.0, 0.0), vector()),
    "solve_toeplitz": lambda: Given(vector(4.0, 1.0, 0.0), vector(), r=vector()),
    "solve_triangular": lambda: Given(
        matrix(), matrix(), lower=False, trans="T", left=False, unit_diagonal=True
    ),
    "cholesky": lambda: Given(matrix(), upper=True),
    "cross": lambda: Given(vector(), vector(), axis=-1),
    "factorized": lambda: Given(csr()),
    "LinearOperator": lambda: Given(halved, (3, 3), dtype="float64"),
    **{
        name: lambda: [
            Given(csr(), vector(), vector(), rtol=1e-9, atol=1e-9, maxiter=9, M="jacobi"),
            Given(iv.linalg.LinearOperator(halved, (3, 3)), vector(), M=matrix()),
        ]
        for name in ("bicgstab", "cg")
    },
    "gmres": lambda: Given(csr(), vector(), vector(), rtol=1e-9, atol=1e-9, maxiter=9, restart=3, M="ilu"),
    "minres": lambda: Given(csr(), vector(), vector(), rtol=1e-9, maxiter=9, M="jacobi"),
    "eigsh": lambda: Given(csr(), 1, which="LA"),
    "lobpcg": lambda: Given(csr(), 1, largest=False),
    "matrix_norm": lambda: Given(matrix(), keepdims=True, ord="nuc"),
    "matrix_power": lambda: Given(matrix(), 3),
    "matrix_rank": lambda: Given(matrix(), rtol=1e-9, atol=1e-9),
    "norm": lambda: Given(matrix(), ord=1, axis=(0, 1), keepdims=True),
    "pinv": lambda: Given(matrix(), rtol=1e-9, atol=1e-9),
    "qr": lambda: Given(matrix(), mode="reduced"),
    "solve": lambda: Given(matrix(), vector()),
    "svd": lambda: Given(matrix(), full_matrices=False),
    "trace": lambda: Given(matrix(), offset=1, dtype="float64"),
    "vector_norm": lambda: Given(vector(), axis=0, keepdims=True, ord=3),
}
FFT: dict[str, Callable[[], Given | list[Given]]] = {
    **{
        name: lambda: Given(vector(), n=4, axis=0, **BEFORE)
        for name in ("fft", "hfft", "ifft", "ihfft", "irfft", "rfft")
    },
    **{
        name: lambda: Given(matrix(), s=(4, 2), axes=(0, 1), **BEFORE)
        for name in ("fftn", "ifftn", "irfftn", "rfftn")
    },
    "fftfreq": lambda: Given(4, d=0.5, dtype="float64", device="cpu"),
    "rfftfreq": lambda: Given(4, d=0.5, dtype="float64", device="cpu"),
    "fftshift": lambda: Given(vector(), axes=0),
    "ifftshift": lambda: Given(vector(), axes=0),
}
SPECIAL: dict[str, Callable[[], Given | list[Given]]] = {
    **{name: lambda name=name: _elementwise(name) for name, s in SCALARS.items() if s.example and s.space},
    "expit": lambda: Given(vector()),
    "gammaln": lambda: Given(vector()),
    "log_softmax": lambda: Given(vector(), axis=0),
    "logsumexp": lambda: Given(vector(), axis=0, b=vector(), keepdims=True),
    "polygamma": lambda: Given(1, vector()),
    "exp2": lambda: Given(vector()),
    "psi": lambda: Given(vector()),
    "multigammaln": lambda: Given(vector(2.0, 3.0), 2),
    **{name: lambda: Given(2.0, vector()) for name in ("huber", "pdtr", "pdtrc", "pseudo_huber")},
    **{name: lambda: Given(2.0, 3.0, vector()) for name in ("fdtr", "fdtrc", "gdtr", "gdtrc", "radian")},
    "softmax": lambda: Given(matrix(), axis=None),
    "zeta": lambda: Given(vector(2.0, 3.0), 1.5),
}
REDUCTION = {"reduction": "sum"}
#: Functions of `iverson.nn` that are not in `iverson`.
NN: dict[str, Callable[[], Given | list[Given]]] = {
    **{
        name: lambda: Given(vector())
        for name in (
            "hardsigmoid", "hardswish", "logsigmoid", "mish", "relu6", "selu", "softsign", "tanhshrink",
        )
    },
    **{
        name: lambda: Given(vector(), 0.5)
        for name in ("celu", "elu", "hardshrink", "leaky_relu", "softshrink")
    },
    **{
        name: lambda: Given(vector(), vector(), **REDUCTION)
        for name in ("l1_loss", "mse_loss", "soft_margin_loss")
    },
    **{
        name: lambda d=d: Given(iv.ones((2, 3, *[2] * d)), 0.5, True, rng=rng())
        for name, d in (("dropout", 0), ("dropout1d", 1), ("dropout2d", 2), ("dropout3d", 3))
    },
    **{
        f"conv{n}d": lambda n=n: Given(
            iv.ones((1, 2, *[3] * n)), iv.ones((2, 1, *[2] * n)), iv.ones(2), 1, "same", 1, groups=2
        )
        for n in (1, 2, 3)
    },
    **{
        f"conv_transpose{n}d": lambda n=n: Given(
            iv.ones((1, 2, *[3] * n)), iv.ones((2, 1, *[2] * n)), iv.ones(2), 2, 0, 1, groups=2, dilation=1
        )
        for n in (1, 2, 3)
    },
    **{
        f"max_pool{n}d": lambda n=n: Given(
            iv.ones((1, 2, *[4] * n)), 2, 2, 1, dilation=1, ceil_mode=True, return_indices=True
        )
        for n in (1, 2, 3)
    },
    **{
        f"avg_pool{n}d": lambda n=n: Given(
            iv.ones((1, 2, *[4] * n)), 2, 2, 1, True, False, 3
        )
        for n in (1, 2, 3)
    },
    **{
        f"adaptive_{kind}_pool{n}d": lambda n=n, more=more: Given(iv.ones((1, 2, *[4] * n)), (3,) * n, **more)
        for kind, more in (("avg", {}), ("max", {"return_indices": True}))
        for n in (1, 2, 3)
    },
    **{
        f"lp_pool{n}d": lambda n=n: Given(iv.ones((1, 2, *[4] * n)), 2.0, 2, 2, True) for n in (1, 2, 3)
    },
    "multilabel_soft_margin_loss": lambda: Given(matrix(), matrix(), vector(), **REDUCTION),
    "ctc_loss": lambda: Given(
        iv.zeros((3, 1, 2)), iv.asarray([[1]]), numbers(3), numbers(1), 0, zero_infinity=True, **REDUCTION
    ),
    "fold": lambda: Given(iv.ones((1, 8, 4)), (3, 3), (2, 2), 1, 0, 1),
    "interpolate": lambda: [
        Given(iv.ones((1, 2, 3, 3)), size=(4, 5), mode="bilinear", align_corners=True),
        Given(iv.ones((1, 2, 3, 3)), scale_factor=(1.5, 2.0)),
    ],
    "pixel_shuffle": lambda: Given(iv.ones((1, 4, 2, 2)), 2),
    "pad": lambda: [
        Given(matrix(), (1, 2), mode="replicate"),
        Given(matrix(), (1, 0, -1, 2), mode="constant", value=1.0),
    ],
    "pixel_unshuffle": lambda: Given(iv.ones((1, 1, 4, 4)), 2),
    "unfold": lambda: Given(iv.ones((1, 2, 3, 3)), (2, 2), 1, 0, 1),
    "batch_norm": lambda: Given(
        matrix(), iv.zeros(3), iv.ones(3), vector(), vector(), training=True, momentum=0.1, eps=1e-5
    ),
    "bilinear": lambda: Given(vector(), vector(), iv.ones((2, 3, 3)), vector(1.0, 2.0)),
    "binary_cross_entropy": lambda: Given(vector() / 8, vector() / 8, vector(), **REDUCTION),
    "binary_cross_entropy_with_logits": lambda: Given(
        vector(), vector() / 8, vector(), pos_weight=vector(), **REDUCTION
    ),
    "cosine_embedding_loss": lambda: Given(matrix(), matrix(), vector(1.0, -1.0, 1.0), 0.1, **REDUCTION),
    "cosine_similarity": lambda: Given(matrix(), vector(), 1, 1e-8),
    "embedding_bag": lambda: [
        Given(numbers(0, 2, 1), matrix(), numbers(0, 1, 3), mode="mean", include_last_offset=True),
        Given(iv.asarray([[0, 2]]), matrix(), mode="sum", per_sample_weights=iv.ones((1, 2))),
        Given(iv.asarray([[0, 2]]), matrix(), padding_idx=1, max_norm=2.0, norm_type=2.0),
    ],
    "gaussian_nll_loss": lambda: Given(vector(), vector(), vector(), full=True, eps=1e-6, **REDUCTION),
    "glu": lambda: Given(iv.ones((3, 2)), -1),
    "group_norm": lambda: Given(matrix(), 3, vector(), vector(), 1e-5),
    "hardtanh": lambda: Given(vector(), -1.0, 1.0),
    "hinge_embedding_loss": lambda: Given(vector(), vector(), 1.0, **REDUCTION),
    "huber_loss": lambda: Given(vector(), vector(), delta=0.5, **REDUCTION),
    "instance_norm": lambda: Given(iv.ones((2, 3, 4)), vector(), vector(), 1e-5),
    "kl_div": lambda: Given(vector(), vector(), reduction="batchmean", log_target=True),
    "layer_norm": lambda: Given(matrix(), (3,), vector(), vector(), 1e-5),
    "linear": lambda: Given(vector(), matrix(), vector()),
    "local_response_norm": lambda: Given(matrix(), 2, 1e-4, 0.75, 1.0),
    "margin_ranking_loss": lambda: Given(vector(), vector(), vector(), 0.1, **REDUCTION),
    "nll_loss": lambda: Given(matrix(), numbers(0, 1, 2), vector(), axis=1, ignore_index=2, **REDUCTION),
    "normalize": lambda: Given(matrix(), 2.0, 1, 1e-12),
    "one_hot": lambda: Given(numbers(0, 2), 3),
    "pairwise_distance": lambda: Given(vector(), vector(), 2.0, 1e-6, True),
    "poisson_nll_loss": lambda: Given(vector(), vector(), False, True, 1e-8, **REDUCTION),
    "prelu": lambda: Given(matrix(), vector()),
    "rms_norm": lambda: Given(matrix(), (3,), vector(), 1e-5),
    "scaled_dot_product_attention": lambda: [
        Given(matrix(), matrix(), matrix(), matrix(), 0.5, False, 1.0, rng=rng()),
        Given(*[iv.ones((2, 3, 2))] * 3, enable_gqa=True, is_causal=True),
    ],
    "smooth_l1_loss": lambda: Given(vector(), vector(), beta=0.5, **REDUCTION),
    "softmin": lambda: Given(vector(), 0),
    "threshold": lambda: Given(vector(), 0.5, 2.0),
    "triplet_margin_loss": lambda: Given(
        vector(), vector(), vector(), 1.0, 2.0, 1e-6, True, **REDUCTION
    ),
}  # fmt: skip
DRAWN = {"dtype": "float64", "requires_grad": True}
INIT: dict[str, Callable[[], Given | list[Given]]] = {
    "calculate_gain": lambda: Given("leaky_relu", 0.1),
    "eye": lambda: Given((2, 3), 2.0, **DRAWN),
    "trunc_normal": lambda: Given(rng(), (2, 3), 0.0, 1.0, -2.0, 2.0, **DRAWN),
    **{
        f"{name}_{kind}": lambda: Given(rng(), (2, 3), 1.0, **DRAWN)
        for name in ("xavier", "glorot")
        for kind in ("normal", "uniform")
    },
    **{
        f"{name}_{kind}": lambda: Given(rng(), (2, 3), 0.1, "fan_in", "leaky_relu", **DRAWN)
        for name in ("kaiming", "he")
        for kind in ("normal", "uniform")
    },
    "orthogonal": lambda: Given(rng(), (2, 3), 1.0, **DRAWN),
}
RANDOM: dict[str, Callable[[], Given | list[Given]]] = {
    "bernoulli": lambda: Given(0.5, (2, 3)),
    "beta": lambda: Given(2.0, 3.0, 3, **DRAWN),
    "binomial": lambda: Given(4, 0.5, (2, 3)),
    "categorical": lambda: Given(vector(), (2,), axis=-1),
    "dirichlet": lambda: Given(vector(), (2,), **DRAWN),
    "gamma": lambda: Given(2.0, 1.0, 3, **DRAWN),
    "gumbel": lambda: Given(0.0, 1.0, 3, **DRAWN),
    "laplace": lambda: Given(0.0, 1.0, 3, **DRAWN),
    "logistic": lambda: Given(0.0, 1.0, 3, **DRAWN),
    "lognormal": lambda: Given(0.0, 1.0, 3, **DRAWN),
    "multinomial": lambda: Given(4, vector(0.25, 0.75), (2,)),
    "multivariate_normal": lambda: Given(vector(), matrix(), (2,), **DRAWN),
    "poisson": lambda: Given(2.0, (2, 3)),
    "weibull": lambda: Given(2.0, 3, **DRAWN),
    "truncated_normal": lambda: Given(-1.0, 2.0, 0.0, 1.0, 3, **DRAWN),
    "choice": lambda: Given(vector(), 2, replace=False, p=vector(0.5, 0.25, 0.25), axis=0),
    "exponential": lambda: Given(1.0, 3, **DRAWN),
    "integers": lambda: Given(0, 5, (2, 3), dtype="int64", endpoint=True),
    "normal": lambda: Given(0.0, 1.0, (2, 3), **DRAWN),
    "permutation": lambda: Given(vector(), axis=0),
    "random": lambda: Given((2, 3), **DRAWN),
    "spawn": lambda: Given(2),
    "standard_normal": lambda: Given((2, 3), **DRAWN),
    "uniform": lambda: Given(0.0, 1.0, (2, 3), **DRAWN),
}


def cubes(x):
    return (x * x * x).sum()


def squares(x):
    return x * x


def assigned(x):
    def assign(key, value):
        x[key] = value

    return assign


#: Of a Tensor, what is no function of `iverson`: by name, a receiver and its arguments.
METHODS: dict[str, Callable[[], tuple[Any, Given]]] = {
    "__contains__": lambda: (vector(), Given(2.0)),
    "__dlpack__": lambda: (vector(), Given(copy=True)),
    "__format__": lambda: (iv.asarray(1.0), Given(".2f")),
    "__getitem__": lambda: (matrix(), Given((0, slice(0, 2)))),
    "__setitem__": lambda: (assigned(matrix()), Given((0, slice(0, 2)), vector(1.0, 2.0))),
    "__array_namespace__": lambda: (vector(), Given(api_version="2024.12")),
    "__bool__": lambda: (vector(1.0), Given()),
    "__index__": lambda: (iv.asarray(1), Given()),
    "__iter__": lambda: (vector(), Given()),
    "__len__": lambda: (vector(), Given()),
    "backward": lambda: (cubes(leaf()), Given(1.0, None, False)),
    "detach": lambda: (vector(), Given()),
    "grad": lambda: (partial(setattr, leaf(), "grad"), Given(vector())),
    "indices": lambda: (coo(), Given()),
    "indptr": lambda: (csr(), Given()),
    "item": lambda: (iv.asarray(2.0), Given()),
    "numpy": lambda: (vector(), Given()),
    "register_hook": lambda: (leaf(), Given(lambda g: None)),
    "requires_grad_": lambda: (vector(), Given(True)),
    "retain_grad": lambda: (leaf() * 2, Given()),
    "to_dense": lambda: (csr(), Given()),
    "to_device": lambda: (vector(), Given("cpu", stream=None)),
    "tolist": lambda: (vector(), Given()),
    "values": lambda: (csr(), Given()),
    "masked.get_data": lambda: (holes(), Given()),
    "masked.get_mask": lambda: (holes(), Given()),
    "masked.to_tensor": lambda: (holes(), Given(1.5)),
    "masked.__getitem__": lambda: (holes(), Given(slice(0, 2))),
    "masked.__setitem__": lambda: (assigned(holes()), Given(slice(0, 2), vector(1.0, 2.0))),
    "masked.register_hook": lambda: (holes().requires_grad_(), Given(lambda g: None)),
    "masked.grad": lambda: (partial(setattr, holes().requires_grad_(), "grad"), Given(vector())),
    "masked.item": lambda: (iv.masked_tensor(vector(1.0)), Given()),
}
OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne", "matmul",
)  # fmt: skip
BITWISE = ("and", "or", "xor", "lshift", "rshift")


def _saved_elsewhere(path, tree, /):
    """A name of a file that is no full path is one in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        iv.save(path, tree)


def _with_gradient():
    x = leaf()
    x.grad = vector()
    return x


def _optimizer(kind):
    return kind([leaf()], lr=0.1)


FADING = {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
OTHERS: dict[str, Callable[[], tuple[Callable[..., Any], Given]]] = {
    "autograd.grad": lambda: (autograd.grad, _seeded(create_graph=False, unused="zero")),
    "autograd.grad by PyTorch's names": lambda: (
        autograd.grad,
        _seeded(retain_graph=True, allow_unused=True, materialize_grads=False, only_inputs=True),
    ),
    "autograd.backward": lambda: (autograd.backward, _seeded(last=False, create_graph=False)),
    "autograd.register_hook": lambda: (autograd.register_hook, Given(leaf(), lambda g: None)),
    "autograd.set_grad_enabled": lambda: (_recording, Given(True)),
    "autograd.no_grad": lambda: (autograd.no_grad, Given(cubes)),
    "autograd.enable_grad": lambda: (autograd.enable_grad, Given(cubes)),
    "masked.policy": lambda: (masked.policy, Given("strict")),
    "random.default_rng": lambda: (iv.random.default_rng, Given(3)),
    "grad of a function": lambda: (iv.grad(cubes), Given(vector())),
    "jacobian of a function": lambda: (iv.jacobian(squares), Given(vector())),
    "hessian of a function": lambda: (iv.hessian(cubes), Given(vector())),
    "a compiled function": lambda: (iv.jit(cubes), Given(vector())),
    "vmap of a function": lambda: (iv.vmap(squares), Given(matrix())),
    "a checkpointed function": lambda: (iv.checkpoint(cubes), Given(vector())),
    "pull": lambda: (iv.vjp(squares, vector())[1], Given(vector())),
    "data.progress": lambda: (
        iv.data.progress,
        Given([1, 2], "steps", total=2, status=lambda: "loss"),
    ),
    "explain.count": lambda: (iv.explain.count, Given()),
    "explain.report": lambda: (iv.explain.report, Given(cubes)),
    "a report of a function": lambda: (iv.explain.report(cubes), Given(vector())),
    "testing.gradcheck": lambda: (
        testing.gradcheck,
        Given(cubes, (leaf(),), **CHECKED),
    ),
    "testing.gradcheck by PyTorch's names": lambda: (
        testing.gradcheck,
        Given(cubes, (leaf(),), fast_mode=True, check_forward_ad=True, check_batched_grad=False),
    ),
    "testing.gradgradcheck": lambda: (
        testing.gradgradcheck,
        Given(lambda x: x * x * x, (leaf(),), (vector(),), False, fast=True),
    ),
    "optim.SGD": lambda: (
        optim.SGD,
        Given([leaf()], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "optim.Adam": lambda: (
        optim.Adam,
        Given([leaf()], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
    ),
    "optim.AdamW": lambda: (
        optim.AdamW,
        Given([leaf()], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
    ),
    "optim.Adamax": lambda: (
        optim.Adamax,
        Given([leaf()], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
    ),
    "optim.NAdam": lambda: (
        optim.NAdam,
        Given([leaf()], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1, momentum_decay=0.01),
    ),
    "optim.Lion": lambda: (
        optim.Lion,
        Given([{"params": [leaf()], "lr": 0.2}], lr=0.1, betas=(0.9, 0.99), weight_decay=0.1),
    ),
    "optim.Adagrad": lambda: (optim.Adagrad, Given([leaf()], lr=0.1, eps=1e-8, weight_decay=0.1)),
    "optim.RMSprop": lambda: (optim.RMSprop, Given([leaf()], lr=0.1, eps=1e-8, weight_decay=0.1)),
    "iverson.save": lambda: (_saved_elsewhere, Given(saved(), {"a": [vector(), None]})),
    "optim.step": lambda: (_optimizer(optim.Adam).step, Given([vector()])),
    "optim.LBFGS": lambda: (
        optim.LBFGS,
        Given(
            [leaf()],
            lr=0.1,
            max_iter=3,
            max_eval=4,
            tolerance_grad=1e-7,
            tolerance_change=1e-9,
            history_size=2,
            line_search_fn="strong_wolfe",
        ),
    ),
    "optim.clip_grad_norm_": lambda: (
        optim.clip_grad_norm_,
        Given([_with_gradient()], 1.0, norm_type=2.0, error_if_nonfinite=True),
    ),
    "optim.clip_grad_value_": lambda: (optim.clip_grad_value_, Given([_with_gradient()], 1.0)),
    **{
        f"optim.{name}": lambda name=name, given=given: (
            getattr(optim, name),
            Given(_optimizer(optim.Adam), *given),
        )
        for name, given in {
            "ConstantLR": (0.5, 3),
            "CosineAnnealingLR": (3, 0.1),
            "CosineAnnealingWarmRestarts": (3, 2, 0.1),
            "ExponentialLR": (0.5,),
            "LambdaLR": (lambda epoch: 1.0,),
            "LinearLR": (0.5, 1.0, 3),
            "MultiStepLR": ([1, 2], 0.5),
            "OneCycleLR": (1.0, 10, None, None, 0.3, "cos", 25.0, 1e4, True),
            "PolynomialLR": (3, 2.0),
            "ReduceLROnPlateau": ("min", 0.5, 2, 0.1, "rel", 1, 0.0),
            "StepLR": (2, 0.5),
        }.items()
    },
    **{
        f"optim.{name}": lambda name=name, given=given: (getattr(optim, name), Given(0.1, **given))
        for name, given in {
            "adadelta": {"rho": 0.8, "eps": 1e-6, "weight_decay": 0.1},
            "adagrad": {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.1, "eps": 1e-9},
            "adam": FADING,
            "adamax": FADING,
            "adamw": FADING,
            "lion": {"betas": (0.9, 0.99), "weight_decay": 0.1},
            "muon": {
                "weight_decay": 0.1,
                "momentum": 0.9,
                "nesterov": True,
                "ns_coefficients": (3.0, -4.0, 2.0),
                "eps": 1e-7,
                "ns_steps": 4,
            },
            "nadam": {**FADING, "momentum_decay": 0.01},
            "radam": FADING,
            "rmsprop": {"alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0.9, "centered": True},
            "sgd": {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
        }.items()
    },
    "optim.EMA": lambda: (optim.EMA, Given([leaf()], 0.9)),
    "optim.apply_updates": lambda: (optim.apply_updates, Given([leaf()], [vector()])),
    "optim.RAdam": lambda: (optim.RAdam, Given([leaf()], 0.1, **FADING)),
    "optim.Adadelta": lambda: (optim.Adadelta, Given([leaf()], 0.1, 0.8, 1e-6, 0.1)),
    "optim.Muon": lambda: (
        optim.Muon,
        Given([matrix().requires_grad_()], 0.1, 0.1, 0.9, True, (3.0, -4.0, 2.0), 1e-7, 4),
    ),
    "optim.load_state_dict": lambda: (
        _optimizer(optim.Adam).load_state_dict,
        Given(_optimizer(optim.Adam).state_dict()),
    ),
}


def _placeholder():
    return te.placeholder((2, 3), name="A")


def _doubled():
    return te.compute((2, 3), lambda i, j: _placeholder()[i, j] * 2.0, "C")


OTHERS |= {
    "te.placeholder": lambda: (te.placeholder, Given((2, 3), name="A", dtype="float64")),
    "te.compute": lambda: (te.compute, Given((2, 3), lambda i, j: i + j, "C")),
    "te.reduce_axis": lambda: (te.reduce_axis, Given((0, 3), "k")),
    "te.var": lambda: (te.var, Given("n")),
    "te.sum": lambda: (te.sum, Given(_placeholder()[0, 1], axis=te.reduce_axis((0, 3), "k"))),
    "te.select": lambda: (te.select, Given(_placeholder()[0, 0] > 0, _placeholder()[0, 1], 0.0)),
    "te.exp": lambda: (te.exp, Given(_placeholder()[0, 0])),
    "te.bracket": lambda: (te.bracket, Given(_placeholder()[0, 0] > 0)),
    "te.index": lambda: (_placeholder().__getitem__, Given((0, 1))),
    "te.explain": lambda: (te.explain, Given(_doubled())),
    "te.program_of": lambda: (te.program_of, Given([_doubled()])),
}


def _pair():
    a = _placeholder()
    return a, te.compute((2, 3), lambda i, j: a[i, j] * 2.0, "C")


def _differentiated():
    a, c = _pair()
    head = te.placeholder((2, 3), name="H")
    return te.differentiate, Given(
        c,
        [a],
        head=head,
        override={c: ([a], lambda out, deps, head: [head])},
        fdiff=lambda out, inp, head: te.compute((2, 3), lambda i, j: head[i, j] * 2.0),
    )


def _with_tangents():
    a, c = _pair()
    return te.jvp, Given(c, {a: te.placeholder((2, 3), name="T")})


def _bound():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    return te.bind, Given([te.compute((n,), lambda i: a[i] * 2.0)], {n: 3})


def _defined(*args, **kwargs):
    """te.op, and a call of it."""
    made = te.op(*args, **kwargs)
    return made(iv.ones(3)) if callable(made) else made


def _twice(x):
    return te.compute(x.shape, lambda i: x[i] * 2.0)


OTHERS |= {
    "te.scatter": lambda: (
        te.scatter,
        Given((3,), (4,), lambda i: (i // 2, 1.0), name="S", combine="sum"),
    ),
    "te.scan": lambda: (
        te.scan,
        Given(
            (3,),
            lambda s: te.compute((3,), lambda t: s[t - 1] + 1.0),
            init=0.0,
            name="S",
            dtype="float64",
            reverse=False,
            axis=0,
        ),
    ),
    "te.while_": lambda: (
        te.while_,
        Given(
            (3,),
            lambda s: te.compute((3,), lambda t: s[t - 1] < 2.0),
            lambda s: te.compute((3,), lambda t: s[t - 1] + 1.0),
            init=0.0,
            name="S",
            dtype="float64",
        ),
    ),
    "te.reducer": lambda: (te.reducer, Given(lambda a, b: a + b, 0.0, name="R")),
    "te.reducer called": lambda: (
        te.reducer(lambda a, b: a + b, 0.0),
        Given(_placeholder()[0, 1], axis=te.reduce_axis((0, 3), "k")),
    ),
    "te.differentiate": _differentiated,
    "te.jvp": _with_tangents,
    "te.explain of an op": lambda: (partial(te.explain, te.op(_twice)), Given(vector())),
    "te.op": lambda: (_defined, Given(_twice, name="an_op_of_the_sweep", results=1)),
    "te.bind": _bound,
    "te.eliminate": lambda: (te.eliminate, Given(te.program_of([_doubled()]))),
    "te.program_text": lambda: (te.program_text, Given(te.program_of([_doubled()]))),
    "te.prefer_derived": lambda: (te.prefer_derived, Given("sin")),
    "te.keep": lambda: (te.keep, Given(_doubled())),
    "te.recompute": lambda: (te.recompute, Given(_doubled())),
    "te.parallel": lambda: (te.parallel, Given(te.reduce_axis((0, 3), "k"))),
    "te.unroll": lambda: (te.unroll, Given(te.reduce_axis((0, 3), "k"))),
    "te.argmax": lambda: (te.argmax, Given(_placeholder()[0, 1], te.reduce_axis((0, 3), "k"))),
    "te.clamp": lambda: (te.clamp, Given(te.var("n"), 0, 3)),
    "te.if_then_else": lambda: (
        te.if_then_else,
        Given(_placeholder()[0, 0] > 0, _placeholder()[0, 1], 0.0),
    ),
}
CHECKED: dict[str, Any] = {
    "eps": 1e-6,
    "atol": 1e-5,
    "rtol": 1e-3,
    "fast": True,
    "raise_exception": False,
    "check_forward": True,
    "check_undefined": False,
    "check_needs": False,
    "check_determinism": False,
    "check_smoothness": False,
    "check_constant_outputs": False,
    "allow_nonfinite": False,
    "nondet_tol": 0.0,
    "exact_rtol": 1e-9,
    "directions": 1,
    "seed": 1,
    "masked": False,
    "project": None,
}


def _recording(mode):
    with autograd.set_grad_enabled(mode):
        pass


def _seeded(last=True, **options):
    x = leaf()
    y = x * x
    return Given(y, x, vector(), **options) if last else Given(y, vector(), inputs=x, **options)


def _elementwise(name: str) -> Given:
    scalar = SCALARS[name]
    dtype = "float64" if "f" in scalar.kinds else "int64"
    options = {"alpha": 2.0} if name in ("add", "subtract") else {}
    entries = (1.0,) if name == "acosh" else (0.25, 0.5, 0.75) if dtype == "float64" else ()
    return Given(*(vector(*entries, dtype=dtype) for _ in range(scalar.arity)), **options)


def _function(space: Any, name: str, makes: Callable[[], Given | list[Given]]) -> Iterator[Call]:
    prefix = space.__name__.rpartition(".")[2]
    first = makes()
    for k in range(len(first) if isinstance(first, list) else 1):

        def make(k: int = k) -> Any:
            given = makes()
            given = given[k] if isinstance(given, list) else given
            return getattr(space, name), given.args, given.kwargs

        yield Call(f"{prefix}.{name}" + f"[{k}]" * isinstance(first, list), make)


def calls() -> Iterator[Call]:
    """All of them."""
    for name in sorted(set(SCALARS) & set(iv.__all__) - set(MAIN)):
        yield from _function(iv, name, lambda name=name: _elementwise(name))
    for space, table in (
        (iv, MAIN),
        (iv.linalg, LINALG),
        (iv.fft, FFT),
        (iv.special, SPECIAL),
        (iv.nn, NN),
        (iv.nn.init, INIT),
    ):
        for name, makes in table.items():
            yield from _function(space, name, makes)
    for name, makes in RANDOM.items():
        yield Call(
            f"Generator.{name}", lambda name=name, makes=makes: _unpacked(getattr(rng(), name), makes())
        )
    for name, method in METHODS.items():
        yield Call(f"Tensor.{name}", lambda name=name, method=method: _bound(name, *method()))
    for name in OPERATORS + BITWISE:
        for form in ("__{}__", "__r{}__", "__i{}__"):
            if hasattr(iv.Tensor, form.format(name)):
                yield Call(
                    f"Tensor.{form.format(name)}",
                    lambda name=name, form=form: _operator(form.format(name), name in BITWISE),
                )
    for name, other in OTHERS.items():
        yield Call(name, lambda other=other: _unpacked(*other()))


def _unpacked(function: Any, given: Given) -> Any:
    return function, given.args, given.kwargs


def _bound(name: str, receiver: Any, given: Given) -> Any:
    attribute = name.rpartition(".")[2]
    return _unpacked(
        receiver if isinstance(receiver, (partial, FunctionType)) else getattr(receiver, attribute), given
    )


def _operator(name: str, integral: bool) -> Any:
    x = vector(dtype="int64" if integral else "float64")
    if name == "__imatmul__":
        return matrix().__imatmul__, (matrix(),), {}
    return getattr(x, name), (x[:],), {}
