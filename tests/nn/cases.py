"""Calls of every function of `iverson.nn`, each with the arrays that it differentiates in and PyTorch's call.

One table serves all tests: values and derivatives against PyTorch's, gradcheck, `vmap`, `jit`. ``theirs`` is
handed ``torch.nn.functional`` and tensors.
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
class Case:
    """One call. ``order`` is up to which derivatives are compared with PyTorch's, ``rtol`` how closely."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any] | None
    arrays: tuple[np.ndarray[Any, Any], ...]
    order: int = 2
    rtol: float = 1e-9


X, Y = draw((3, 4)), draw((3, 4), seed=1)
W, B = draw((5, 4), seed=2), draw((5,), seed=3)
P, Q = (1 / (1 + np.exp(-a)) for a in (X, Y))
IMAGE = draw((2, 4, 3), seed=4)
IDS = np.array([0, 2, 2])
CLASSES = np.array([1, 3, 0])
SIGNS = np.array([1.0, -1.0, 1.0])
COUNTS = np.array([0.0, 3.0, 2.0])
LOG = np.log(P / P.sum(axis=1, keepdims=True))
MASK = np.array([[True, False, True], [True, True, True], [False, True, False]])
WEIGHTS = np.array([0.5, 2.0, 1.0, 1.5])
SIGN_ROWS = np.where(Y > 0, 1.0, -1.0)


def tensor(x: Any, like: Any) -> Any:
    """An array as PyTorch's tensor, beside one."""
    return like.new_tensor(x) if x.dtype.kind == "f" else like.detach().new_tensor(x, dtype=None).long()


def unary(name: str, *args: Any, x: Any = X, theirs: str = "", **options: Any) -> Case:
    return Case(
        lambda x: getattr(nn, name)(x, *args, **options),
        lambda F, x: getattr(F, theirs or name)(x, *args, **options),
        (x,),
    )


def loss(name: str, *arrays: Any, **options: Any) -> dict[str, Case]:
    """A loss with each reduction."""
    return {
        f"{name}-{reduction}-{'-'.join(options)}": Case(
            lambda *xs, r=reduction: getattr(nn, name)(*xs, reduction=r, **options),
            lambda F, *xs, r=reduction: getattr(F, name)(*xs, reduction=r, **options),
            arrays,
        )
        for reduction in ("mean", "sum", "none")
    }


ACTIVATIONS = {
    **{
        name: unary(name)
        for name in (
            "celu", "elu", "gelu", "glu", "hardshrink", "hardswish", "hardtanh", "leaky_relu",
            "logsigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink",
            "softsign", "tanh", "tanhshrink",
        )
    },
    "celu-alpha": unary("celu", 2.0),
    "elu-alpha": unary("elu", 0.5),
    "gelu-tanh": unary("gelu", approximate="tanh"),
    "softplus-beta": unary("softplus", 2.0, 1.0),
    "softplus-sharp": Case(
        lambda x: nn.softplus(x, beta=-0.5), lambda F, x: F.softplus(x, -0.5, threshold=99), (X,)
    ),
    "glu-axis": Case(lambda x: nn.glu(x, axis=1), lambda F, x: F.glu(x, dim=1), (IMAGE,)),
    # PyTorch's derivative has 1/6 in single precision.
    "hardsigmoid": Case(nn.hardsigmoid, lambda F, x: F.hardsigmoid(x), (X,), order=1, rtol=1e-7),
    "hardtanh-bounds": unary("hardtanh", -0.5, 1.5),
    "log_softmax": Case(lambda x: nn.log_softmax(x, 0), lambda F, x: F.log_softmax(x, 0), (X,)),
    "prelu": Case(nn.prelu, lambda F, x, w: F.prelu(x, w), (IMAGE, WEIGHTS)),
    "prelu-one": Case(nn.prelu, lambda F, x, w: F.prelu(x, w), (X, WEIGHTS[:1])),
    "softmax": Case(lambda x: nn.softmax(x, 0), lambda F, x: F.softmax(x, 0), (X,)),
    "softmin": Case(lambda x: nn.softmin(x, 1), lambda F, x: F.softmin(x, 1), (X,)),
    "threshold": unary("threshold", 0.2, 3.0),
}  # fmt: skip


def channels_left_out(d: int) -> Case:
    """Dropout of channels before d spatial axes: what is drawn is NumPy's."""
    kept = np.random.default_rng(1).random((1, 2, *[1] * d)) >= 0.4
    return Case(
        lambda x: getattr(nn, f"dropout{d}d")(x, 0.4, rng=iv.random.default_rng(1)),
        lambda F, x: x * tensor(np.where(kept, 1 / 0.6, 0.0), x),
        (draw((1, 2, *[2] * d)),),
    )


LAYERS = {
    "bilinear": Case(nn.bilinear, lambda F, *xs: F.bilinear(*xs), (X, Y[:, :3], draw((2, 4, 3)), draw((2,)))),
    "dropout": Case(
        lambda x: nn.dropout(x, 0.4, rng=iv.random.default_rng(1)),
        lambda F, x: x * tensor(np.where(np.random.default_rng(1).random((3, 4)) >= 0.4, 1 / 0.6, 0.0), x),
        (X,),
    ),
    **{f"dropout{d}d": channels_left_out(d) for d in (1, 2, 3)},
    "embedding": Case(
        lambda w: nn.embedding(np.array([[0, 2], [2, 1]]), w),
        lambda F, w: F.embedding(tensor(np.array([[0, 2], [2, 1]]), w), w),
        (W,),
    ),
    **{
        f"embedding_bag-{mode}": Case(
            lambda w, m=mode: nn.embedding_bag(np.array([[0, 2], [2, 1]]), w, mode=m),
            lambda F, w, m=mode: F.embedding_bag(tensor(np.array([[0, 2], [2, 1]]), w), w, mode=m),
            (W,),
            order=1,
        )
        for mode in ("mean", "sum", "max")
    },
    **{
        f"embedding_bag-{mode}-offsets": Case(
            lambda w, m=mode: nn.embedding_bag(np.array([0, 2, 4]), w, np.array([0, 1, 1]), mode=m),
            lambda F, w, m=mode: F.embedding_bag(
                tensor(np.array([0, 2, 4]), w), w, tensor(np.array([0, 1, 1]), w), mode=m
            ),
            (W,),
            order=1,
        )
        for mode in ("mean", "sum", "max")
    },
    **{
        f"embedding_bag-{mode}-padding": Case(
            lambda w, m=mode: nn.embedding_bag(np.array([[0, 2], [2, 2]]), w, mode=m, padding_idx=-3),
            lambda F, w, m=mode: F.embedding_bag(
                tensor(np.array([[0, 2], [2, 2]]), w), w, mode=m, padding_idx=-3
            ),
            (W,),
            order=1,
        )
        for mode in ("mean", "sum", "max")
    },
    "embedding_bag-weights-padding": Case(
        lambda w, f: nn.embedding_bag(
            np.array([0, 2, 4]), w, np.array([0, 2]), mode="sum", per_sample_weights=f, padding_idx=2
        ),
        lambda F, w, f: F.embedding_bag(
            tensor(np.array([0, 2, 4]), w), w, tensor(np.array([0, 2]), w), mode="sum",
            per_sample_weights=f, padding_idx=2,
        ),
        (W, B[:3]),
        order=1,
    ),
    "embedding_bag-weights": Case(
        lambda w, f: nn.embedding_bag(
            np.array([0, 2, 4]), w, np.array([0, 2, 3]), mode="sum", per_sample_weights=f,
            include_last_offset=True,
        ),
        lambda F, w, f: F.embedding_bag(
            tensor(np.array([0, 2, 4]), w), w, tensor(np.array([0, 2, 3]), w), mode="sum",
            per_sample_weights=f, include_last_offset=True,
        ),
        (W, B[:3]),
        order=1,
    ),
    "linear": Case(nn.linear, lambda F, *xs: F.linear(*xs), (X, W, B)),
    "linear-vector": Case(nn.linear, lambda F, *xs: F.linear(*xs), (X, W[0])),
}  # fmt: skip

NORMS = {
    "batch_norm-training": Case(
        lambda x, w, b: nn.batch_norm(x, iv.zeros(4), iv.ones(4), w, b, training=True),
        lambda F, x, w, b: F.batch_norm(x, x.new_zeros(4), x.new_ones(4), w, b, training=True),
        (IMAGE, WEIGHTS, B[:4]),
    ),
    "batch_norm": Case(
        lambda x, w, b: nn.batch_norm(x, iv.asarray(B[:4]), iv.asarray(WEIGHTS), w, b, eps=1e-3),
        lambda F, x, w, b: F.batch_norm(x, tensor(B[:4], x), tensor(WEIGHTS, x), w, b, eps=1e-3),
        (X, WEIGHTS, B[:4]),
    ),
    "group_norm": Case(
        lambda x, w, b: nn.group_norm(x, 2, w, b),
        lambda F, x, w, b: F.group_norm(x, 2, w, b),
        (IMAGE, WEIGHTS, B[:4]),
    ),
    "instance_norm": Case(
        nn.instance_norm, lambda F, x, w, b: F.instance_norm(x, weight=w, bias=b), (IMAGE, WEIGHTS, B[:4])
    ),
    "layer_norm": Case(
        lambda x, w, b: nn.layer_norm(x, (4, 3), w, b),
        lambda F, x, w, b: F.layer_norm(x, (4, 3), w, b),
        (IMAGE, X.T.copy(), Y.T.copy()),
    ),
    "local_response_norm": unary("local_response_norm", 3, 0.5, 0.75, 2.0, x=IMAGE),
    "normalize": Case(
        lambda x: nn.normalize(x, 3.0, axis=2), lambda F, x: F.normalize(x, 3.0, dim=2), (IMAGE,)
    ),
    "rms_norm": Case(
        lambda x, w: nn.rms_norm(x, 4, w, eps=1e-3),
        lambda F, x, w: F.rms_norm(x, (4,), w, 1e-3),
        (X, WEIGHTS),
    ),
    "rms_norm-eps": unary("rms_norm", (4,)),
}


def of_labels(name: str, x: Any, labels: Any, weight: Any = None, **options: Any) -> dict[str, Case]:
    """A loss of class numbers with each reduction; differentiable in x and the weights."""

    def theirs(F: Any, r: str, x: Any, *w: Any) -> Any:
        return getattr(F, name)(x, tensor(labels, x), *w, reduction=r, **options)

    more = () if weight is None else (weight,)
    tag = "-".join(["weight"] * len(more) + [*options, str(x.ndim)])
    return {
        f"{name}-{r}-{tag}": Case(
            lambda x, *w, r=r: getattr(nn, name)(x, labels, *w, reduction=r, **options),
            lambda F, x, *w, r=r: theirs(F, r, x, *(v.detach() for v in w)),
            (x,) if weight is None else (x, weight),
        )
        for r in ("mean", "sum", "none")
    }


def spread(var: Any, x: Any = X, y: Any = Y) -> Case:
    """Variances of fewer entries than there are losses."""
    return Case(nn.gaussian_nll_loss, lambda F, *xs: F.gaussian_nll_loss(*xs), (x, y, var))


PIXELS = np.array([[0, 3, 1], [2, 2, 0]])
LOSSES = {
    **loss("mse_loss", X, Y),
    **loss("l1_loss", X, Y),
    **loss("huber_loss", X, Y, delta=0.7),
    **loss("smooth_l1_loss", X, Y, beta=0.7),
    **loss("smooth_l1_loss", X, Y),
    **loss("binary_cross_entropy", P, Q),
    **loss("binary_cross_entropy_with_logits", X, Q),
    **loss("kl_div", LOG, Q),
    **loss("kl_div", LOG, LOG[::-1].copy(), log_target=True),
    **{
        f"soft_margin_loss-{r}": Case(
            lambda x, r=r: nn.soft_margin_loss(x, SIGN_ROWS, reduction=r),
            lambda F, x, r=r: F.soft_margin_loss(x, tensor(SIGN_ROWS, x), reduction=r),
            (X,),
        )
        for r in ("mean", "none")
    },
    **loss("multilabel_soft_margin_loss", X, (Q > 0.5).astype(float)),
    "multilabel_soft_margin_loss-weight": Case(
        lambda x, y: nn.multilabel_soft_margin_loss(x, y, P[0]),
        lambda F, x, y: F.multilabel_soft_margin_loss(x, y, tensor(P[0], x)),
        (X, Q),
    ),
    **loss("gaussian_nll_loss", X, Y, P, full=True),
    "gaussian_nll_loss-rows": spread(P[:, 0].copy()),
    "gaussian_nll_loss-square": spread(P[0, :3].copy(), X[:, :3].copy(), Y[:1, :3].copy()),
    "gaussian_nll_loss-columns": spread(P[:1], X, Y[:, :1].copy()),
    "gaussian_nll_loss-number": Case(
        lambda x, y: nn.gaussian_nll_loss(x, y, 0.5),
        lambda F, x, y: F.gaussian_nll_loss(x, y, 0.5),
        (X[:1], Y),
    ),
    **loss("poisson_nll_loss", X, P),
    **loss("poisson_nll_loss", P, 3 * Q, log_input=False, full=True),
    **loss("margin_ranking_loss", X, Y, SIGN_ROWS, margin=0.3),
    **loss("triplet_margin_loss", X, Y, Y[[1, 2, 0]], margin=0.5, p=3.0, swap=True),
    **{
        f"hinge_embedding_loss-{r}": Case(
            lambda x, r=r: nn.hinge_embedding_loss(x, SIGN_ROWS, 0.8, reduction=r),
            lambda F, x, r=r: F.hinge_embedding_loss(x, tensor(SIGN_ROWS, x), 0.8, reduction=r),
            (X,),
        )
        for r in ("mean", "none")
    },
    "binary_cross_entropy-weight": Case(
        nn.binary_cross_entropy,
        lambda F, x, t, w: F.binary_cross_entropy(x, t, w.detach()),
        (P, Q, WEIGHTS),
    ),
    "binary_cross_entropy_with_logits-weight": Case(
        lambda x, t, w, p: nn.binary_cross_entropy_with_logits(x, t, w, pos_weight=p),
        lambda F, x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w.detach(), pos_weight=p.detach()),
        (X, Q, WEIGHTS, WEIGHTS[::-1].copy()),
    ),
    "kl_div-batchmean": Case(
        lambda x, t: nn.kl_div(x, t, reduction="batchmean"),
        lambda F, x, t: F.kl_div(x, t, reduction="batchmean"),
        (LOG, Q),
    ),
    "cosine_similarity": Case(
        lambda x, y: nn.cosine_similarity(x, y, axis=0),
        lambda F, x, y: F.cosine_similarity(x, y, dim=0),
        (X, Y[:, :1].copy()),
    ),
    "pairwise_distance": Case(
        lambda x, y: nn.pairwise_distance(x, y, 3.0, keepdims=True),
        lambda F, x, y: F.pairwise_distance(x, y, 3.0, keepdim=True),
        (X, Y),
    ),
    "cosine_embedding_loss": Case(
        lambda x, y: nn.cosine_embedding_loss(x, y, SIGNS, 0.1, reduction="none"),
        lambda F, x, y: F.cosine_embedding_loss(x, y, tensor(SIGNS, x), 0.1, reduction="none"),
        (X, Y),
    ),
    "cross_entropy-probabilities": Case(
        lambda x, t, w: nn.cross_entropy(x, t, w, label_smoothing=0.1),
        lambda F, x, t, w: F.cross_entropy(x, t, w.detach(), label_smoothing=0.1),
        (X, Q, WEIGHTS),
    ),
    **of_labels("nll_loss", LOG, CLASSES),
    **of_labels("nll_loss", LOG, CLASSES, WEIGHTS, ignore_index=3),
    **of_labels("nll_loss", IMAGE, PIXELS, WEIGHTS),
    **of_labels("cross_entropy", X, CLASSES),
    **of_labels("cross_entropy", X, np.array([1, -100, 0]), ignore_index=-100),
    **of_labels("cross_entropy", IMAGE, PIXELS, WEIGHTS, ignore_index=2, label_smoothing=0.2),
}

PATHS = draw((7, 3, 4), seed=5)
LABELLED = np.array([[1, 2, 3], [2, 2, 0], [3, 0, 0]]), np.array([7, 5, 6]), np.array([3, 2, 0])


def alignments(**options: Any) -> Case:
    """PyTorch's has a first derivative alone."""
    return Case(
        lambda x: nn.ctc_loss(nn.log_softmax(x, 2), *LABELLED, **options),
        lambda F, x: F.ctc_loss(x.log_softmax(2), *(tensor(a, x) for a in LABELLED), **options),
        (PATHS,),
        order=1,
    )


LOSSES |= {f"ctc_loss-{r}": alignments(reduction=r) for r in ("mean", "sum", "none")}
HEADS = (draw((2, 4, 3, 2)), draw((2, 2, 5, 2), seed=1), draw((2, 2, 5, 3), seed=2))
ATTENTION = {
    "attention": Case(
        nn.scaled_dot_product_attention,
        lambda F, *xs: F.scaled_dot_product_attention(*xs),
        (X, Y[:2].copy(), draw((2, 5), seed=3)),
    ),
    "attention-causal": Case(
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        lambda F, *xs: F.scaled_dot_product_attention(*xs, is_causal=True, scale=0.3),
        (X, Y, W[:3]),
    ),
    "attention-mask": Case(
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, MASK & (np.arange(3) != 1)[:, None]),
        lambda F, *xs: F.scaled_dot_product_attention(
            *xs, xs[0].new_tensor(MASK & (np.arange(3) != 1)[:, None]).bool()
        ),
        (X, Y, W[:3]),
    ),
    "attention-bias": Case(
        nn.scaled_dot_product_attention,
        lambda F, *xs: F.scaled_dot_product_attention(*xs),
        (X, Y, W[:3], draw((3, 3))),
    ),
    "attention-heads": Case(
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda F, *xs: F.scaled_dot_product_attention(*xs, enable_gqa=True),
        HEADS,
    ),
}


def segments(name: str, reduce: str, empty: float) -> Case:
    """A reduction of segments; the one without slices holds the reduction's own value there."""

    def theirs(F: Any, x: Any) -> Any:
        index = tensor(IDS, x)[:, None].expand(3, 4)
        return x.new_full((4, 4), empty).scatter_reduce(0, index, x, reduce, include_self=False)

    return Case(lambda x: getattr(nn, name)(x, IDS, 4), theirs, (X,), order=1)


GRAPHS = {
    "segment_sum": segments("segment_sum", "sum", 0.0),
    "segment_mean": segments("segment_mean", "mean", 0.0),
    "segment_max": segments("segment_max", "amax", -np.inf),
    "segment_min": segments("segment_min", "amin", np.inf),
    "segment_prod": segments("segment_prod", "prod", 1.0),
    "segment_softmax": Case(
        lambda x: nn.segment_softmax(x, IDS, 4),
        lambda F, x: F.softmax(x[:1], 0).new_tensor(1.0) * _softmax_parts(F, x),
        (X,),
    ),
    "sampled_matmul": Case(
        lambda x, y: nn.sampled_matmul(x, y, iv.to_sparse(iv.asarray(MASK * 1.0))).values(),
        lambda F, x, y: (x @ y)[MASK],
        (X, Y.T.copy()),
    ),
}


def _softmax_parts(F: Any, x: Any) -> Any:
    parts = [F.softmax(x[k], 0) for k in (slice(0, 1), slice(1, 3))]
    return parts[0].new_zeros(3, 4).index_add(0, tensor(np.arange(3), x), _stacked(parts))


def _stacked(parts: Any) -> Any:
    import torch

    return torch.cat(parts)


LINE, PLANE, SOLID = draw((2, 4, 7)), draw((2, 4, 5, 6)), draw((1, 2, 3, 4, 3))


def spatial(name: str, *arrays: Any, **options: Any) -> Case:
    """A function of images, with PyTorch's arguments."""
    return Case(
        lambda *xs: getattr(nn, name)(*xs, **options),
        lambda F, *xs: getattr(F, name)(*xs, **options),
        arrays,
    )


CONVOLUTIONS = {
    "conv1d": spatial("conv1d", LINE, draw((3, 4, 2)), draw((3,))),
    "conv1d-stride": spatial("conv1d", LINE, draw((3, 4, 3)), stride=2, padding=1, dilation=2),
    "conv1d-same": spatial("conv1d", LINE[0], draw((4, 1, 3)), padding="same", groups=4),
    "conv2d": spatial("conv2d", PLANE, draw((3, 4, 2, 3)), draw((3,)), stride=(2, 1), padding=(0, 1)),
    "conv2d-groups": spatial("conv2d", PLANE, draw((6, 2, 2, 2)), groups=2, dilation=(1, 2)),
    "conv3d": spatial("conv3d", SOLID, draw((2, 2, 2, 2, 2)), draw((2,)), padding=1, stride=2),
    "conv_transpose1d": spatial(
        "conv_transpose1d", LINE, draw((4, 3, 3)), draw((3,)), stride=2, padding=1, output_padding=1
    ),
    "conv_transpose2d": spatial(
        "conv_transpose2d", PLANE, draw((4, 3, 2, 2)), stride=(3, 1), output_padding=(2, 0), dilation=(1, 2)
    ),
    "conv_transpose2d-groups": spatial("conv_transpose2d", PLANE[0], draw((4, 1, 2, 3)), groups=2, stride=2),
    "conv_transpose3d": spatial("conv_transpose3d", SOLID, draw((2, 1, 2, 1, 2)), draw((1,))),
    "unfold": spatial("unfold", PLANE, kernel_size=(2, 3), dilation=(2, 1), padding=1, stride=2),
    "fold": spatial("fold", draw((2, 12, 9)), output_size=(4, 5), kernel_size=(2, 3), padding=1, stride=2),
}
POOLS = {
    "max_pool1d": spatial("max_pool1d", LINE, kernel_size=3, stride=2, padding=1),
    "max_pool2d": spatial("max_pool2d", PLANE, kernel_size=2),
    "max_pool2d-ceil": spatial("max_pool2d", PLANE, kernel_size=(2, 3), stride=2, dilation=2, ceil_mode=True),
    "max_pool2d-indices": Case(
        lambda x: nn.max_pool2d(x, 3, 2, 1, return_indices=True).values,
        lambda F, x: F.max_pool2d(x, 3, 2, 1),
        (PLANE,),
    ),
    "adaptive_max_pool2d-indices": Case(
        lambda x: nn.adaptive_max_pool2d(x, (3, 4), True).values,
        lambda F, x: F.adaptive_max_pool2d(x, (3, 4)),
        (PLANE,),
    ),
    "max_pool3d": spatial("max_pool3d", SOLID, kernel_size=2, stride=1),
    "avg_pool1d": spatial("avg_pool1d", LINE, kernel_size=3, stride=2, padding=1),
    "avg_pool2d": spatial("avg_pool2d", PLANE, kernel_size=2),
    "avg_pool2d-ceil": spatial(
        "avg_pool2d", PLANE, kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=True
    ),
    "avg_pool2d-inside": spatial(
        "avg_pool2d", PLANE, kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False
    ),
    "avg_pool2d-divisor": spatial("avg_pool2d", PLANE, kernel_size=2, divisor_override=3),
    "avg_pool3d": spatial("avg_pool3d", SOLID, kernel_size=2, stride=1, padding=1),
    "lp_pool1d": spatial("lp_pool1d", LINE, norm_type=2.0, kernel_size=3, stride=2),
    "lp_pool2d": spatial("lp_pool2d", PLANE, norm_type=4.0, kernel_size=(2, 3)),
    "lp_pool2d-sums": spatial("lp_pool2d", PLANE, norm_type=1.0, kernel_size=2),
    "lp_pool3d": spatial("lp_pool3d", SOLID, norm_type=2.0, kernel_size=2, stride=1),
    **{
        f"adaptive_{kind}_pool{n}d-{'-'.join(map(str, size))}": spatial(
            f"adaptive_{kind}_pool{n}d", x, output_size=size
        )
        for kind in ("max", "avg")
        for n, x, size in ((1, LINE, (3,)), (2, PLANE, (5, 3)), (2, PLANE, (2, 4)), (3, SOLID, (2, 3, 1)))
    },
}


def resized(x: Any, **options: Any) -> Case:
    """Without align_corners where PyTorch takes none."""
    theirs = dict(options)
    return Case(
        lambda x: nn.interpolate(x, **options), lambda F, x: F.interpolate(x, **theirs), (x,), rtol=1e-6
    )


def padded(x: Any, widths: tuple[int, ...], **options: Any) -> Case:
    return Case(lambda x: nn.pad(x, widths, **options), lambda F, x: F.pad(x, widths, **options), (x,))


SIZES = {
    **{
        f"interpolate-{mode}": resized(PLANE, size=(7, 4), mode=mode)
        for mode in ("nearest", "nearest-exact", "area")
    },
    **{
        f"interpolate-{mode}-{corners}": resized(x, size=size, mode=mode, align_corners=corners)
        for mode, x, size in (
            ("linear", LINE, 10),
            ("bilinear", PLANE, (3, 9)),
            ("bicubic", PLANE, (7, 4)),
            ("trilinear", SOLID, (2, 5, 1)),
        )
        for corners in (True, False)
    },
    "interpolate-scale": resized(PLANE, scale_factor=(1.7, 0.5), mode="bilinear"),
    "pad-constant": padded(PLANE, (1, 2, -1, 3), value=2.0),
    **{
        f"pad-{mode}": padded(PLANE, (2, 1, 0, 2), mode=mode) for mode in ("reflect", "replicate", "circular")
    },
    "pad-circular-cut": padded(PLANE, (-1, 2, 2, -2), mode="circular"),
    "pad-circular-3d": padded(SOLID, (1, 1, 1, 0, 0, 1), mode="circular"),
    "pixel_shuffle": spatial("pixel_shuffle", PLANE, upscale_factor=2),
    "pixel_unshuffle": spatial("pixel_unshuffle", PLANE[:, :, :4], downscale_factor=2),
}

CASES: dict[str, Case] = {
    **ACTIVATIONS,
    **LAYERS,
    **NORMS,
    **LOSSES,
    **ATTENTION,
    **GRAPHS,
    **CONVOLUTIONS,
    **POOLS,
    **SIZES,
}
#: Functions whose results are integers.
WITHOUT_DERIVATIVE = {"one_hot"}
