"""For every public function, along which axes of its arguments columns may be deleted.

A function of masked tensors in which a whole column is unspecified gives, at the entries that it specifies,
what it gives of arrays without that column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import iverson as iv
from iverson import nn
from tests.array_api.common import draw


@dataclass(frozen=True)
class Law:
    """A call and its arrays.

    columns : of each array the axis from which the same columns are deleted, or None.
    rows : of each array the axis of lines that are independent of each other: other columns of each.
    out : of each result, the axis of these lines.
    keep : how many of the first columns always exist.
    masked : which of the arrays are masked; default: any of those with columns.
    """

    call: Callable[..., Any]
    arrays: tuple[np.ndarray[Any, Any], ...]
    columns: tuple[int | None, ...]
    rows: tuple[int | None, ...] | None = None
    out: tuple[int, ...] = (0,)
    keep: int = 0
    masked: tuple[int, ...] | None = None


X, Y, Z = draw((3, 5)), draw((3, 5), seed=1), draw((3, 5), seed=2)
P, Q = (1 / (1 + np.exp(-a)) for a in (X, Y))
R = P / P.sum(axis=1, keepdims=True)
W, V = draw((4, 5), seed=3), np.array([0.5, 2.0, 1.0, 1.5, 0.7])
IMAGE = draw((3, 4, 6), seed=4)
PLANE, SOLID = draw((3, 4, 5, 6)), draw((3, 4, 4, 4, 3))
SIGNS = np.where(Y > 0, 1.0, -1.0)
LABELS = np.array([1, 0, 1])
U, T = draw((3, 5), low=0.1, high=0.9), draw((3, 5), seed=6, low=0.1, high=0.9)
NUMBERS = draw((3, 5), "int64", seed=7)
INFINITE = np.where(NUMBERS % 2 == 0, X, np.inf * SIGNS)
IDS = np.array([[0, 2, 1, 5, 3], [2, 2, 1, 0, 4], [5, 4, 3, 3, 1]])


def lines(function: Any, *arrays: Any, **options: Any) -> Law:
    """A function along the last axis of matrices, or of their entries."""
    n = len(arrays)
    return Law(lambda *xs: function(*xs, **options), arrays, (1,) * n, (0,) * n)


def axes(function: Any, x: Any, *columns: int, **options: Any) -> list[Law]:
    """A function of one array that treats each of some axes as a heap of examples."""
    return [Law(lambda x: function(x, **options), (x,), (k,)) for k in columns]


def loss(function: Any, *arrays: Any, **options: Any) -> list[Law]:
    """Losses of entries with each reduction."""
    n = len(arrays)
    return [
        *(
            Law(lambda *xs, r=r: function(*xs, reduction=r, **options), arrays, (k,) * n)
            for r in ("mean", "sum")
            for k in (0, 1)
        ),
        lines(lambda *xs: function(*xs, reduction="none", **options), *arrays),
    ]


def labelled(function: Any, x: Any, **options: Any) -> list[Law]:
    """Losses of classes: without examples, and without classes that none has."""

    def reduced(r: str) -> Any:
        return lambda x, labels, w=None: function(x, labels, w, reduction=r, **options)

    return [
        *(Law(reduced(r), (x, LABELS), (0, 0)) for r in ("mean", "sum", "none")),
        *(Law(reduced(r), (x, LABELS, V), (0, 0, None)) for r in ("mean", "none")),
        *(
            Law(
                reduced(r), (x, LABELS, V), (1, None, 0), (0, 0, None) if r == "none" else None, (0,), 2, (0,)
            )
            for r in ("mean", "none")
        ),
    ]


def moments(x: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
    mean, var = (iv.asarray(m, copy=True) for m in (mean, var))
    return nn.batch_norm(x, mean, var, w, b, training=True), mean, var


def attention(*columns: int | None, **options: Any) -> Law:
    arrays = (draw((2, 3, 5)), draw((2, 4, 5), seed=1), draw((2, 4, 6), seed=2))
    return Law(lambda *xs: nn.scaled_dot_product_attention(*xs, **options), arrays, columns, (0, 0, 0))


def masked_attention(*columns: int | None, bias: bool = False) -> Law:
    more = draw((3, 4), seed=5)
    more = more if bias else more < 0.5
    return Law(
        nn.scaled_dot_product_attention,
        (draw((3, 5)), draw((4, 5), seed=1), draw((4, 6), seed=2), more),
        columns,
    )


def segments(function: Any) -> list[Law]:
    ids = np.array([0, 1, 2, 0, 2])
    return [
        Law(lambda x: function(x, np.array([0, 1, 0]), 2), (X,), (1,)),
        Law(lambda x, ids: function(x, ids, 3), (W.T.copy(), ids), (0, 0), keep=3, masked=(0,)),
    ]


ACTIVATIONS = {
    name: [lines(getattr(nn, name), X)]
    for name in (
        "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
        "logsigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink",
        "softsign", "tanh", "tanhshrink", "softmax", "log_softmax", "softmin",
    )
}  # fmt: skip
NN: dict[str, list[Law]] = {
    **ACTIVATIONS,
    "threshold": [lines(nn.threshold, X, threshold=0.2, value=3.0)],
    "glu": [Law(lambda x: nn.glu(x, axis=0), (W,), (1,))],
    "prelu": [
        # A slope alone that is unspecified leaves what it is not read for.
        *(Law(nn.prelu, (X, V), (1, 0), (0, None), masked=which) for which in ((0,), (0, 1))),
        Law(nn.prelu, (X, V[:1]), (1, None), (0, None)),
    ],
    "bilinear": [
        Law(nn.bilinear, (X, Y[:, :4], draw((2, 5, 4)), draw((2,))), (1, None, 1, None), (0, 0, None, None)),
        Law(nn.bilinear, (X, Y[:, :4], draw((2, 5, 4)), draw((2,))), (None, 1, 2, None), (0, 0, None, None)),
        Law(nn.bilinear, (X, Y[:, :4], draw((2, 5, 4)), draw((2,))), (None, None, 0, 0)),
    ],
    "linear": [
        Law(nn.linear, (X, W, draw((4,))), (1, 1, None), (0, None, None)),
        Law(nn.linear, (X, W, draw((4,))), (None, 0, 0)),
        Law(nn.linear, (X, W[0]), (1, 0), (0, None)),
    ],
    "embedding": [
        Law(lambda t: nn.embedding(IDS[0], t), (draw((6, 5)),), (1,)),
        Law(lambda i: nn.embedding(i, draw((6, 5))), (IDS,), (1,), (0,)),
    ],
    "embedding_bag": [
        *(
            law
            for mode in ("mean", "sum", "max")
            for law in (
                Law(lambda t, m=mode: nn.embedding_bag(IDS, t, mode=m), (draw((6, 5)),), (1,)),
                Law(lambda i, m=mode: nn.embedding_bag(i, draw((6, 5)), mode=m), (IDS,), (1,), (0,)),
                Law(
                    lambda t, m=mode: nn.embedding_bag(IDS[0], t, np.array([0, 2]), mode=m),
                    (draw((6, 5)),),
                    (1,),
                ),
            )
        ),
        Law(
            lambda i, f: nn.embedding_bag(i, draw((6, 5)), mode="sum", per_sample_weights=f),
            (IDS, X),
            (1, 1),
            (0, 0),
        ),
    ],
    "one_hot": [Law(lambda i: nn.one_hot(i, 6), (IDS,), (1,), (0,))],
    "layer_norm": [
        # A weight alone that is unspecified leaves x, of which the moments are.
        *(
            Law(
                lambda x, w, b: nn.layer_norm(x, w.shape, w, b),
                (X, V, V[::-1].copy()),
                (1, 0, 0),
                (0, None, None),
                masked=which,
            )
            for which in ((0,), (0, 1, 2))
        ),
        Law(lambda x: nn.layer_norm(x, x.shape[1:]), (IMAGE,), (1,), (0,)),
        Law(lambda x: nn.layer_norm(x, x.shape[1:]), (IMAGE,), (2,), (0,)),
    ],
    "rms_norm": [
        *(
            Law(lambda x, w: nn.rms_norm(x, w.shape, w, eps=1e-3), (X, V), (1, 0), (0, None), masked=which)
            for which in ((0,), (0, 1))
        ),
        Law(lambda x: nn.rms_norm(x, x.shape[1:]), (IMAGE,), (2,), (0,)),
    ],
    "batch_norm": [
        Law(
            moments,
            (IMAGE, V[:4], V[:4], V[1:], V[1:]),
            (2, None, None, None, None),
            (1, 0, 0, 0, 0),
            (1, 0, 0),
        ),
        Law(
            moments,
            (IMAGE, V[:4], V[:4], V[1:], V[1:]),
            (0, None, None, None, None),
            (1, 0, 0, 0, 0),
            (1, 0, 0),
        ),
        Law(lambda x, w: nn.batch_norm(x, iv.ones(4), iv.ones(4), w), (IMAGE, V[1:]), (2, None), (0, None)),
    ],
    "instance_norm": [Law(nn.instance_norm, (IMAGE, V[:4], V[1:]), (2, None, None), (0, None, None))],
    "group_norm": [
        Law(
            lambda x, w, b: nn.group_norm(x, 2, w, b), (IMAGE, V[:4], V[1:]), (2, None, None), (0, None, None)
        ),
        Law(lambda x: nn.group_norm(x, 1), (IMAGE,), (1,), (0,)),
    ],
    "local_response_norm": axes(nn.local_response_norm, IMAGE, 0, 2, size=2, alpha=0.7),
    "normalize": [lines(nn.normalize, X, p=3.0), *axes(nn.normalize, IMAGE, 1, 2)],
    **{
        name: loss(getattr(nn, name), X, Y)
        for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss")
    },
    "binary_cross_entropy": [
        *loss(nn.binary_cross_entropy, P, Q),
        Law(nn.binary_cross_entropy, (P, Q, V), (1, 1, 0)),
    ],
    "binary_cross_entropy_with_logits": [
        *loss(nn.binary_cross_entropy_with_logits, X, Q),
        Law(
            lambda x, t, w, p: nn.binary_cross_entropy_with_logits(x, t, w, pos_weight=p),
            (X, Q, V, V[::-1].copy()),
            (1, 1, 0, 0),
        ),
    ],
    "kl_div": [
        *loss(nn.kl_div, np.log(R), Q),
        *loss(nn.kl_div, np.log(R), np.log(R)[::-1].copy(), log_target=True),
        *(Law(lambda *xs: nn.kl_div(*xs, reduction="batchmean"), (np.log(R), Q), (k, k)) for k in (0, 1)),
    ],
    "soft_margin_loss": loss(nn.soft_margin_loss, X, SIGNS),
    "multilabel_soft_margin_loss": [
        Law(lambda *xs, r=r: nn.multilabel_soft_margin_loss(*xs, reduction=r), (X, Q), (0, 0))
        for r in ("mean", "sum", "none")
    ],
    "hinge_embedding_loss": loss(nn.hinge_embedding_loss, X, SIGNS, margin=0.8),
    "margin_ranking_loss": loss(nn.margin_ranking_loss, X, Y, SIGNS, margin=0.3),
    "gaussian_nll_loss": loss(nn.gaussian_nll_loss, X, Y, P, full=True),
    "poisson_nll_loss": [
        *loss(nn.poisson_nll_loss, X, P),
        *loss(nn.poisson_nll_loss, P, 3 * Q, log_input=False, full=True),
    ],
    "triplet_margin_loss": loss(nn.triplet_margin_loss, X, Y, Z, swap=True, margin=4.0),
    "cosine_similarity": [lines(nn.cosine_similarity, X, Y)],
    "pairwise_distance": [lines(nn.pairwise_distance, X, Y, p=3.0)],
    "cosine_embedding_loss": [
        Law(
            lambda *xs: nn.cosine_embedding_loss(*xs, margin=-0.9, reduction="none"),
            (X, Y, SIGNS[:, 0].copy()),
            (1, 1, None),
            (0, 0, 0),
        ),
        Law(nn.cosine_embedding_loss, (X, Y, SIGNS[:, 0].copy()), (0, 0, 0)),
    ],
    "cross_entropy": [
        *labelled(nn.cross_entropy, X),
        *labelled(nn.cross_entropy, X, ignore_index=0),
        *labelled(nn.cross_entropy, X, label_smoothing=0.3),
        Law(
            lambda *xs: nn.cross_entropy(*xs, label_smoothing=0.3, reduction="none"),
            (X, R, V),
            (1, 1, 0),
            (0, 0, None),
            masked=(0,),
        ),
        *(Law(nn.cross_entropy, (X, R), (k, k), masked=(0,)) for k in (0, 1)),
    ],
    "nll_loss": [*labelled(nn.nll_loss, np.log(R)), *labelled(nn.nll_loss, np.log(R), ignore_index=0)],
    "scaled_dot_product_attention": [
        attention(2, 2, None),
        attention(2, 2, None, scale=0.3),
        attention(None, 1, 1),
        attention(None, None, 2),
        attention(1, None, None),
        attention(2, 2, None, is_causal=True),
        masked_attention(None, 0, 0, 1),
        masked_attention(None, 0, 0, 1, bias=True),
        masked_attention(0, None, None, 0),
        Law(
            lambda *xs: nn.scaled_dot_product_attention(*xs, enable_gqa=True),
            (draw((2, 4, 3, 5)), draw((2, 2, 4, 5), seed=1), draw((2, 2, 4, 6), seed=2)),
            (None, 2, 2),
            (0, 0, 0),
        ),
    ],
    **{
        name: segments(getattr(nn, name))
        for name in (
            "segment_sum",
            "segment_mean",
            "segment_max",
            "segment_min",
            "segment_prod",
            "segment_softmax",
        )
    },
    **{
        f"conv{n}d": [
            Law(lambda *xs, n=n: getattr(nn, f"conv{n}d")(*xs, padding=1, stride=2), arrays, columns)
            for columns in ((1, 1, None), (0, None, None), (None, 0, 0))
        ]
        for n, arrays in (
            (1, (IMAGE, draw((3, 4, 2)), draw((3,)))),
            (2, (PLANE, draw((3, 4, 2, 3)), draw((3,)))),
            (3, (SOLID, draw((3, 4, 2, 2, 1)), draw((3,)))),
        )
    },
    **{
        f"conv_transpose{n}d": [
            Law(
                lambda *xs, n=n: getattr(nn, f"conv_transpose{n}d")(*xs, padding=1, stride=3), arrays, columns
            )
            for columns in ((1, 0, None), (0, None, None), (None, 1, 0))
        ]
        for n, arrays in (
            (1, (IMAGE, draw((4, 3, 2)), draw((3,)))),
            (2, (PLANE, draw((4, 3, 2, 3)), draw((3,)))),
            (3, (SOLID[:, :, :2], draw((4, 3, 2, 2, 1)), draw((3,)))),
        )
    },
    "unfold": axes(nn.unfold, PLANE, 0, 1, kernel_size=(2, 3), dilation=(2, 1)),
    "fold": axes(nn.fold, draw((3, 12, 9)), 0, output_size=(4, 5), kernel_size=(2, 3), padding=1, stride=2),
    **{
        f"{kind}_pool{n}d": axes(getattr(nn, f"{kind}_pool{n}d"), x, 0, 1, kernel_size=2, stride=1, padding=1)
        for kind in ("max", "avg")
        for n, x in ((1, IMAGE), (2, PLANE), (3, SOLID))
    },
    **{
        f"lp_pool{n}d": axes(getattr(nn, f"lp_pool{n}d"), x, 0, 1, norm_type=p, kernel_size=2, stride=1)
        for n, x, p in ((1, IMAGE, 2.0), (2, PLANE, 4.0), (3, SOLID, 1.0))
    },
    **{
        f"adaptive_{kind}_pool{n}d": axes(getattr(nn, f"adaptive_{kind}_pool{n}d"), x, 0, 1, output_size=3)
        for kind in ("max", "avg")
        for n, x in ((1, IMAGE), (2, PLANE), (3, SOLID))
    },
    "interpolate": [
        law
        for mode, x in (
            ("nearest", PLANE),
            ("nearest-exact", PLANE),
            ("area", PLANE),
            ("linear", IMAGE),
            ("bilinear", PLANE),
            ("bicubic", PLANE),
            ("trilinear", SOLID),
        )
        for law in axes(nn.interpolate, x, 0, 1, scale_factor=1.5, mode=mode)
    ],
    "pad": [
        law
        for mode in ("reflect", "replicate", "circular")  # the constant is put there, and exists
        for law in axes(lambda x, m: nn.pad(x, (1, 2, 1, 0), m), PLANE, 0, 1, m=mode)
    ],
    "pixel_shuffle": axes(nn.pixel_shuffle, PLANE, 0, 2, 3, upscale_factor=2),
    "pixel_unshuffle": axes(nn.pixel_unshuffle, PLANE[:, :, :4], 0, 1, downscale_factor=2),
}
#: Those of which the law says nothing, and why.
NN_ELSEWHERE = {
    "ctc_loss": "refused: a path goes through every class and step",
    "dropout": "draws go by position: its own test",
    "dropout1d": "draws go by position: its own test",
    "dropout2d": "draws go by position: its own test",
    "dropout3d": "draws go by position: its own test",
    "init": "a module of functions that take shapes",
    "sampled_matmul": "refused: the pattern says at which entries a product is read",
}

# -- iverson, iverson.linalg, iverson.fft, iverson.special ---------------------------------------------------

CUBE, SQUARES = draw((3, 4, 5), seed=8), draw((5, 3, 3), seed=9)
AT = np.array([[1, 0, 2, 1, 0], [2, 2, 0, 1, 1]])


def along(function: Any, *, heap: Any = None) -> list[Law]:
    """A function that is handed an axis: along it, over both, and with columns that it goes past."""
    past = X if heap is None else heap
    return [lines(function, X, axis=1), *axes(function, past, 1, axis=0), *axes(function, past, 0, axis=1)]


def past(function: Any, **options: Any) -> list[Law]:
    """A function in which the places along its axis count: lines that it goes past."""
    return [*axes(function, X, 1, axis=0, **options), *axes(function, X, 0, axis=1, **options)]


def of_entries(name: str, space: Any = iv, *, least: int) -> list[Law]:
    """An elementwise function of one to four arrays, where all are finite."""
    arrays: tuple[Any, ...] = (U, T, U[::-1].copy(), T[::-1].copy())[:least]
    if name == "acosh":
        arrays = (U + 1,)
    elif name == "polygamma":
        arrays = (NUMBERS % 3, U)
    elif "bitwise" in name:
        arrays = tuple((a * 16).astype(int) for a in arrays)
    return [lines(getattr(space, name), *arrays)]


REDUCTIONS = {
    name: [*along(getattr(iv, name)), *axes(getattr(iv, name), CUBE, 0, 1, axis=None)]
    for name in (
        "all", "any", "count_nonzero", "logsumexp", "max", "mean", "min", "nanmax", "nanmean", "nanmin",
        "nanprod", "nanstd", "nansum", "nanvar", "prod", "std", "sum", "var", "median", "nanmedian",
    )
}  # fmt: skip
LINES = {
    name: along(getattr(iv, name))
    for name in (
        "cummax", "cummin", "cumulative_prod", "cumulative_sum", "log_softmax", "logcumsumexp", "nancumprod",
        "nancumsum", "softmax", "sort",
    )
}  # fmt: skip
PLACES = {
    name: past(getattr(iv, name))
    for name in (
        "argmax", "argmin", "argsort", "bfill", "ffill", "nanargmax", "nanargmin", "diff", "flip",
        "trapezoid", "expand_dims",
    )
}  # fmt: skip
SAME = {
    name: [lines(getattr(iv, name), X)]
    for name in (
        "as_masked_tensor", "clone", "masked_tensor", "nan_to_num", "ones_like", "round", "zeros_like",
    )
}  # fmt: skip
IV: dict[str, list[Law]] = {
    **REDUCTIONS,
    **LINES,
    **PLACES,
    **SAME,
    **{
        name: segments(getattr(iv, name))
        for name in (
            "segment_max",
            "segment_mean",
            "segment_min",
            "segment_prod",
            "segment_softmax",
            "segment_sum",
        )
    },
    **{n: [lines(getattr(iv, n), X, Y)] for n in ("fmax", "fmin", "heaviside")},
    **{n: [lines(getattr(iv, n), INFINITE)] for n in ("isneginf", "isposinf")},
    **{n: axes(getattr(iv, n), X, 0, 1) for n in ("atleast_1d", "atleast_2d", "atleast_3d")},
    **{
        n: [Law(lambda *xs, n=n: getattr(iv, n)(list(xs)), (X, Y), (k, k), masked=(0, 1))]
        for n, k in (("column_stack", 0), ("dstack", 0), ("hstack", 0), ("vstack", 1))
    },
    "allclose": [Law(iv.allclose, (X, X + 1e-9), (1, 1))],
    "append": [Law(lambda *xs: iv.append(*xs, axis=0), (X, Y), (1, 1), masked=(0, 1))],
    "average": [
        *along(iv.average),
        Law(lambda x, w: iv.average(x, axis=1, weights=w), (X, V), (1, 0), (0, None), masked=(0,)),
        lines(lambda x, w: iv.average(x, axis=1, weights=w), X, U),
    ],
    "cdist": [
        Law(iv.cdist, (X, W), (1, 1), (0, None)),
        Law(lambda *xs: iv.cdist(*xs, p=1.0), (X, W), (0, None)),
    ],
    "delete": past(lambda x, axis: iv.delete(x, 1, axis=axis)),
    "dist": [Law(iv.dist, (X, Y), (1, 1)), Law(lambda *xs: iv.dist(*xs, p=np.inf), (X, Y), (0, 0))],
    "gradient": past(iv.gradient),
    "insert": [Law(lambda x, v: iv.insert(x, 1, v, axis=0), (X, V), (1, 0), masked=(0, 1))],
    "lerp": [lines(lambda x, y: iv.lerp(x, y, 0.3), X, Y), lines(iv.lerp, X, Y, U)],
    "piecewise": [lines(lambda x: iv.piecewise(x, [x < 0, x > 1], [lambda x: -x, 2.0, lambda x: x * x]), X)],
    "polyval": [lines(lambda x: iv.polyval(np.array([2.0, -1.0, 0.5]), x), X)],
    "ptp": along(iv.ptp),
    "vander": [Law(lambda x: iv.vander(x, 3), (V,), (0,))],
    "view_as_complex": [Law(iv.view_as_complex, (draw((3, 5, 2)),), (1,), (0,))],
    "view_as_real": [lines(iv.view_as_real, X + 1j * Y)],
    "isclose": [lines(iv.isclose, X, X + 1e-9)],
    "array_split": [Law(lambda x: iv.array_split(x, 2, axis=0), (X,), (1,))],
    "astype": [lines(lambda x: iv.astype(x, "float32"), X)],
    "broadcast_arrays": [Law(lambda x: iv.broadcast_arrays(x, np.ones((2, 1, 1)))[0], (X,), (1,))],
    "broadcast_to": [Law(lambda x: iv.broadcast_to(x, (2, *x.shape)), (X,), (1,))],
    "clip": [lines(iv.clip, X, Y - 2, Z + 2)],
    "concat": [Law(lambda *xs: iv.concat(list(xs)), (X, Y), (1, 1), masked=(0, 1))],
    "corrcoef": [Law(iv.corrcoef, (X,), (1,)), Law(iv.corrcoef, (X,), (0,))],
    "cov": [
        Law(iv.cov, (X,), (1,)),
        Law(iv.cov, (X,), (0,)),
        Law(lambda x: iv.cov(x, bias=True, rowvar=False), (X,), (0,)),
        Law(lambda x, f, a: iv.cov(x, fweights=f, aweights=a), (X, IDS[2] + 1, V), (1, 0, 0), masked=(0,)),
    ],
    "cross_entropy": NN["cross_entropy"],
    "diagonal": [Law(iv.diagonal, (SQUARES,), (0,))],
    "einsum": [
        Law(lambda *xs: iv.einsum("ij,kj->ik", *xs), (X, W), (1, 1), (0, None)),
        Law(lambda *xs: iv.einsum("ij,kj->ik", *xs), (X, W), (None, 0)),
        Law(
            lambda *xs: iv.einsum("bij,bkj,ij->bk", *xs),
            (CUBE, CUBE[::-1].copy(), W),
            (2, 2, 1),
            (0, 0, None),
        ),
    ],
    "embedding": NN["embedding"],
    "empty_like": [lines(lambda x: iv.empty_like(x) * 0 == 7, NUMBERS)],
    "flatten": axes(iv.flatten, X, 0, 1),
    "full_like": [lines(lambda x: iv.full_like(x, 2.0), X)],
    "gather": [Law(lambda x, i: iv.gather(x, i, axis=0), (W, AT), (1, 1), masked=(0,))],
    "isin": [
        lines(lambda x: iv.isin(x, np.array([1, 2])), NUMBERS),
        Law(iv.isin, (NUMBERS, AT[0]), (None, 0)),
    ],
    "kron": [Law(iv.kron, (X, W), (1, None)), Law(iv.kron, (X, W), (None, 0))],
    "kthvalue": [lines(lambda x: iv.kthvalue(x, 1).values, X)],
    "masked_fill": [lines(lambda x: iv.masked_fill(x, iv.zeros(x.shape, dtype="bool"), 2.0), X)],
    "matmul": [
        Law(iv.matmul, (X, draw((5, 4))), (1, 0), (0, None)),
        Law(iv.matmul, (X, draw((5, 4))), (0, None)),
        Law(iv.matmul, (CUBE, draw((3, 5, 2))), (2, 1), (0, 0)),
        Law(iv.matmul, (V, V[::-1].copy()), (0, 0)),
    ],
    "matrix_transpose": axes(iv.matrix_transpose, CUBE, 0, 1, 2),
    "meshgrid": [Law(lambda *xs: tuple(iv.meshgrid(*xs)), (V,), (0,))],
    "moveaxis": [Law(lambda x: iv.moveaxis(x, 0, 2), (CUBE,), (k,)) for k in range(3)],
    "nanpercentile": [lines(iv.nanpercentile, X, q=30.0, axis=1)],
    "nanquantile": [lines(iv.nanquantile, X, q=0.3, axis=1)],
    "percentile": [lines(iv.percentile, X, q=30.0, axis=1)],
    "quantile": [
        *(
            lines(iv.quantile, X, q=0.3, axis=1, method=method)
            for method in ("linear", "lower", "nearest", "hazen", "inverted_cdf", "median_unbiased")
        ),
        *axes(iv.quantile, X, 1, q=np.array([0.1, 0.5]), axis=0),
    ],
    "outer": [Law(iv.outer, (V, X[0]), (0, None)), Law(iv.outer, (V, X[0]), (None, 0))],
    "pad": [Law(lambda x: iv.pad(x, ((1, 2), (0, 0)), "edge"), (X,), (1,))],
    "permute_dims": [Law(lambda x: iv.permute_dims(x, (2, 0, 1)), (CUBE,), (k,)) for k in range(3)],
    "ravel": axes(iv.ravel, X, 0, 1),
    "repeat": [*axes(lambda x: iv.repeat(x, 2, axis=0), X, 0, 1)],
    "reshape": [Law(lambda x: iv.reshape(x, (x.shape[0], 20)), (CUBE,), (0,))],
    "roll": past(lambda x, axis: iv.roll(x, 1, axis=axis)),
    "rot90": axes(iv.rot90, X, 0, 1),
    "split": [Law(lambda x: iv.split(x, [1], axis=0), (X,), (1,))],
    "squeeze": [Law(lambda x: iv.squeeze(x, 1), (X[:, None],), (k,)) for k in (0, 2)],
    "stack": [Law(lambda *xs: iv.stack(list(xs), axis=1), (X, Y), (1, 1), masked=(0, 1))],
    "swapaxes": [Law(lambda x: iv.swapaxes(x, 0, 2), (CUBE,), (k,)) for k in range(3)],
    "take": [Law(lambda x: iv.take(x, AT[0], axis=0), (X,), (1,))],
    "take_along_axis": [Law(lambda x: iv.take_along_axis(x, AT[:, :1], axis=0), (W,), (1,))],
    "tensordot": [Law(lambda *xs: iv.tensordot(*xs, axes=1), (X, draw((5, 4))), (1, 0), (0, None))],
    "tile": axes(lambda x: iv.tile(x, (2, 1)), X, 0, 1),
    "to_layout": axes(lambda x: iv.to_layout(x, "csr"), X, 0, 1),
    "to_sparse": axes(iv.to_sparse, X, 0, 1),
    "topk": [lines(lambda x: iv.topk(x, 2).values, X)],
    "transpose": axes(iv.transpose, CUBE, 0, 1, 2),
    "unstack": [Law(iv.unstack, (X,), (1,))],
    "vecdot": [lines(iv.vecdot, X, Y)],
    "where": [
        Law(lambda c, x, y: iv.where(c > 0, x, y), (X, Y, Z), (1, 1, 1), (0, 0, 0), masked=which)
        for which in ((0,), (1, 2), (0, 1, 2))
    ],
    "searchsorted": [
        Law(iv.searchsorted, (np.sort(V), X), (0, None)),
        Law(iv.searchsorted, (V, X), (None, 1)),
    ],
}
#: What they give depends on how many entries there are, so they are refused in traces and batches.
OF_COUNTS: dict[str, list[Law]] = {
    **{
        n: [Law(lambda x, y, n=n: getattr(iv, n)(x, y), (NUMBERS, NUMBERS[:2]), (1, None))]
        for n in ("intersect1d", "setdiff1d", "union1d")
    },
    "argwhere": [Law(lambda x: iv.argwhere(x > 0)[:, 0], (X,), (1,))],
    "nonzero": [Law(lambda x: iv.nonzero(x > 0)[0], (X,), (1,))],
    "unique": axes(iv.unique, NUMBERS, 1),
    "unique_counts": [Law(lambda x: tuple(iv.unique_counts(x)), (NUMBERS,), (1,))],
    "unique_values": axes(iv.unique_values, NUMBERS, 1),
}
#: Functions of which the law says nothing, and why.
IV_ELSEWHERE = {
    **dict.fromkeys(
        ("bincount", "convolve", "histogram", "scatter", "index_add", "interp", "scatter_add", "diag",
         "asarray", "tensor", "coalesce", "sampled_matmul", "solve_triangular", "sparse_coo_tensor",
         "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor", "sparse_mask",
         "spsolve", "to_scipy", "with_values"),
        "refused",
    ),
    "diag_embed": "zeros beyond the diagonal exist: its own oracle",
    "tril": "zeros beyond the diagonal exist: its own oracle",
    "triu": "zeros beyond the diagonal exist: its own oracle",
    "flatnonzero": "positions among all entries: its own oracle",
    "unique_all": "positions among all entries: its own oracle",
    "unique_inverse": "positions among all entries: its own oracle",
}  # fmt: skip

#: Functions of `iverson.linalg` that are of this namespace alone.
LINALG: dict[str, list[Law]] = {
    "block_diag": [Law(lambda *xs: iv.linalg.block_diag(*xs).sum(), (X, Y), (1, None))],
    "cross": [Law(lambda *xs: iv.linalg.cross(*xs, axis=0), (X, Y), (1, 1))],
    "diagonal": axes(iv.linalg.diagonal, SQUARES, 0),
    "matmul": IV["matmul"],
    "matrix_norm": [
        *axes(iv.linalg.matrix_norm, SQUARES, 0),
        *axes(iv.linalg.matrix_norm, CUBE, 1, 2),
        *(law for p in (1, -1, np.inf, -np.inf) for law in axes(iv.linalg.matrix_norm, CUBE, 0, 1, 2, ord=p)),
    ],
    "matrix_power": axes(lambda x: iv.linalg.matrix_power(x, 2), SQUARES, 0),
    "matrix_transpose": IV["matrix_transpose"],
    "multi_dot": [
        Law(lambda *xs: iv.linalg.multi_dot(list(xs)), (X, draw((5, 4)), W), (1, 0, None), masked=(0,))
    ],
    "norm": [
        law
        for p in (None, 0, 1, 2, 3, np.inf, -np.inf)
        for law in (lines(iv.linalg.norm, X, ord=p, axis=1), *axes(iv.linalg.norm, X, 1, ord=p, axis=0))
    ],
    "outer": IV["outer"],
    "tensordot": IV["tensordot"],
    "trace": axes(iv.linalg.trace, SQUARES, 0),
    "vecdot": IV["vecdot"],
    "vector_norm": [
        law
        for p in (0, 1, 2, 3, np.inf, -np.inf)
        for law in (
            lines(iv.linalg.vector_norm, X, ord=p, axis=1),
            *axes(iv.linalg.vector_norm, CUBE, 0, ord=p),
        )
    ],
}
FFT: dict[str, list[Law]] = {
    name: [Law(lambda x, f=name: getattr(iv.fft, f)(x, axes=0), (X,), (1,))]
    for name in ("fftshift", "ifftshift")
}
#: Functions of `iverson.special` that are no rows of the table of scalars.
SPECIAL: dict[str, list[Law]] = {
    **{name: of_entries(name, iv.special, least=1) for name in ("expit", "gammaln", "psi")},
    **{name: of_entries(name, iv.special, least=2) for name in ("huber", "pseudo_huber", "pdtr", "pdtrc")},
    **{name: of_entries(name, iv.special, least=3) for name in ("fdtr", "fdtrc", "gdtr", "gdtrc", "radian")},
    "multigammaln": [lines(lambda x: iv.special.multigammaln(x, 2), U + 1)],
    "log_softmax": along(iv.special.log_softmax),
    "softmax": along(iv.special.softmax),
    "logsumexp": [*along(iv.special.logsumexp), lines(lambda x, b: iv.special.logsumexp(x, 1, b), X, U)],
}
