"""`iverson.nn`: derivatives against differences, batches against examples, compiled against eager calls."""

from __future__ import annotations

import itertools
import os
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson import nn
from iverson.errors import ArgumentError, ArgumentTypeError, BatchWarning, IndexingError, ShapeError
from iverson.testing import gradcheck
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns, each
from tests.nn.cases import CASES, WITHOUT_DERIVATIVE

#: A case of each function and mode, and those of this run that are perturbed, or compiled.
ONE = [name for name in CASES if not {"sum", "none"}.intersection(name.split("-"))]
CHOSEN = np.random.default_rng(SEED).permutation(ONE).tolist()
PERTURBED, COMPILED = (ONE, ONE) if os.environ.get("IVERSON_TEST_ALL") else (CHOSEN[:12], CHOSEN[-6:])


def summed(y):
    """What of a result is finite, as one number: an empty segment has the extremum inf."""
    y = y.to_dense()
    return (iv.where(iv.isfinite(y), y, 0.0) * np.cos(np.arange(y.size)).reshape(y.shape)).sum()


def test_every_function_has_a_case():
    named = {n for c in CASES.values() for n in (c.ours.__name__, *c.ours.__code__.co_names)}
    named |= {name.partition("-")[0] for name in CASES}
    functions = {name for name in nn.__all__ if not isinstance(getattr(nn, name), type)}
    assert functions - named == {*WITHOUT_DERIVATIVE, "init"}


def test_what_exists_in_iverson_is_that_function():
    shared = set(nn.__all__) & set(iv.__all__)
    assert {"embedding", "cross_entropy", "segment_mean", "softmax"} <= shared
    # PyTorch's widths of padding are in another order than NumPy's.
    assert [n for n in sorted(shared) if getattr(nn, n) is not getattr(iv, n)] == ["pad"]


@pytest.mark.parametrize("part", range(4))
def test_derivatives(part):
    each(derivatives_are_right, PERTURBED[part::4])


def derivatives_are_right(name):
    case = CASES[name]
    xs = tuple(iv.asarray(a, requires_grad=True) for a in case.arrays)
    gradcheck(lambda *xs: summed(case.ours(*xs)), xs, fast=True, check_smoothness=False)


def test_batches_are_their_examples():
    each(batch_is_its_examples, by_turns(ONE, 3))


def batch_is_its_examples(name):
    case = CASES[name]
    examples = [[a * f for a in case.arrays] for f in (1.0, 0.9)]
    stacked = [np.stack(arrays) for arrays in zip(*examples, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BatchWarning)
        found = iv.vmap(lambda *xs: case.ours(*xs).to_dense())(*map(iv.asarray, stacked))
    for y, arrays in zip(found, examples, strict=True):
        wanted = case.ours(*map(iv.asarray, arrays)).to_dense()
        np.testing.assert_allclose(y.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_is_eager(name):
    case = CASES[name]
    xs = [iv.asarray(a) for a in case.arrays]

    def value(*xs):
        return summed(case.ours(*xs))

    which = tuple(range(len(xs)))
    found, wanted = (iv.value_and_grad(f, argnums=which)(*xs) for f in (iv.jit(value), value))
    for a, b in zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_allclose(a.to_dense().numpy(), b.to_dense().numpy(), rtol=1e-10, atol=1e-12)


#: Cases with arrays of double precision of their own.
OWN_DTYPES = {"batch_norm", "soft_margin_loss-mean", "soft_margin_loss-none"}
#: Single ops, and moves one after the other: each step of their derivatives is rounded.
STEPS = ("gelu", "sigmoid", "silu", "softplus", "tanh", "softmax", "ctc_loss", "segment_softmax", "pad")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_rounded_once(dtype):
    """Values and gradients are those of single precision, rounded at the end, in a trace as well."""
    pytest.importorskip("ml_dtypes")
    names = [n for n in np.random.default_rng(SEED).permutation(list(CASES)) if n not in OWN_DTYPES]
    if not EXHAUSTIVE:
        names = names[:8] if dtype == "float16" else names[8:16]
    compiled = set(names if EXHAUSTIVE else names[:1])
    each(lambda name: rounded_once(name, dtype, name in compiled), names)


def rounded_once(name, dtype, compiled):
    case = CASES[name]
    halves = [iv.asarray(a, dtype=dtype) for a in case.arrays]
    singles = [x.astype(iv.float32) for x in halves]

    def pulled(*xs):
        if name.partition("-")[0] in STEPS:
            return [case.ours(*xs)]
        y, pull = iv.vjp(lambda *xs: case.ours(*xs).to_dense(), *xs)
        seed = np.where(np.isfinite(y.numpy().astype(float)), np.cos(np.arange(y.size)).reshape(y.shape), 0.0)
        return [y, *pull(iv.asarray(seed, dtype=dtype).astype(y.dtype))]

    found, wanted = pulled(*halves), pulled(*singles)
    if compiled:
        found.append(iv.jit(case.ours)(*halves))
        wanted.append(iv.jit(case.ours)(*singles))
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == dtype
        same_bits(a.to_dense(), b.to_dense().astype(dtype))


def same_bits(a, b):
    np.testing.assert_array_equal(a.numpy().astype(float), b.numpy().astype(float))


def test_running_moments_of_half_precision():
    x = iv.asarray(CASES["batch_norm"].arrays[0])
    moments = {dtype: (iv.zeros(4, dtype=dtype), iv.ones(4, dtype=dtype)) for dtype in ("float16", "float32")}
    for dtype, (mean, var) in moments.items():
        y = nn.batch_norm(x.astype(iv.float16).astype(dtype), mean, var, training=True)
        assert y.dtype == mean.dtype == var.dtype == dtype
    for half, single in zip(*moments.values(), strict=True):
        same_bits(half, single.astype(iv.float16))


def test_circular_padding_is_of_what_negative_widths_leave():
    x = np.arange(12.0).reshape(2, 6)
    for before, after in itertools.product(range(-3, 7), repeat=2):
        if before + after < -5:
            continue
        left = x[:, max(-before, 0) : 6 + min(after, 0)]
        if not left.size:
            with pytest.raises(ArgumentError, match=r"pad: argument 'x'.*entries on axis 1"):
                nn.pad(x, (before, after), "circular")
            continue
        wanted = np.pad(left, ((0, 0), (max(before, 0), max(after, 0))), "wrap")
        np.testing.assert_array_equal(nn.pad(x, (before, after), "circular").numpy(), wanted)


WRONG = [
    (
        lambda: nn.linear(iv.ones((2, 3)), iv.ones((3, 2))),
        ShapeError,
        "linear: argument 'weight'.*results, 3",
    ),
    (lambda: nn.dropout(iv.ones(3)), ArgumentTypeError, "dropout: argument 'rng'.*default_rng"),
    (lambda: nn.dropout(iv.ones(3), 1.5), ArgumentError, "dropout: argument 'p': got 1.5"),
    (
        lambda: nn.softshrink(iv.ones(3), -0.5),
        ArgumentError,
        "softshrink: argument 'lambd': got -0.5; expected a number of at least 0",
    ),
    (
        lambda: nn.hardtanh(iv.ones(3), 0.5, -0.5),
        ArgumentError,
        "hardtanh: argument 'min_val': got 0.5, above max_val=-0.5",
    ),
    (
        lambda: nn.triplet_margin_loss(iv.ones(3), iv.ones(3), iv.ones(3), -1.0),
        ArgumentError,
        "triplet_margin_loss: argument 'margin': got -1.0; expected a number above 0",
    ),
    (lambda: nn.celu(iv.ones(3), 0.0), ArgumentError, "celu: argument 'alpha': got 0.0"),
    (lambda: nn.layer_norm(iv.ones(3), 3, eps=-1.0), ArgumentError, "layer_norm: argument 'eps': got -1.0"),
    (lambda: nn.huber_loss(iv.ones(3), iv.ones(3), delta=np.nan), ArgumentError, "'delta': got nan"),
    (
        lambda: iv.isclose(iv.ones(3), iv.ones(3), rtol=-0.4),
        ArgumentError,
        "isclose: argument 'rtol': got -0.4",
    ),
    (lambda: iv.allclose(iv.ones(3), iv.ones(3), atol=-0.4), ArgumentError, "allclose: argument 'atol'"),
    (lambda: nn.binary_cross_entropy(iv.full(2, 0.5), iv.full(2, 1.5)), ArgumentError, "argument 'target'"),
    (
        lambda: nn.gaussian_nll_loss(iv.ones(2), iv.ones(2), -iv.ones(2)),
        ArgumentError,
        "argument 'var': got -1",
    ),
    (lambda: iv.fft.fftfreq(3, d=0.0), ArgumentError, "fftfreq: argument 'd': got 0.0"),
    (
        lambda: iv.testing.gradcheck(iv.sin, (iv.asarray([1.0], requires_grad=True),), rtol=-1.0),
        ArgumentError,
        "gradcheck: argument 'rtol': got -1.0",
    ),
    (
        lambda: nn.mse_loss(iv.ones(3), iv.ones((3, 1))),
        ShapeError,
        "mse_loss: argument 'target'.*the same shape",
    ),
    (lambda: nn.one_hot(iv.asarray([3]), 3), IndexingError, "one_hot: argument 'x': got class 3"),
    (
        lambda: nn.cross_entropy(iv.ones((1, 3)), iv.asarray([-100])),
        IndexingError,
        "class -100; .*pass ignore_index=-100",
    ),
    (lambda: nn.batch_norm(iv.ones((2, 3)), None, None), ArgumentError, "running moments"),
    (lambda: nn.group_norm(iv.ones((2, 3)), 2), ArgumentError, "a divisor of the 3 channels"),
    (lambda: nn.binary_cross_entropy(iv.full(2, 2.0), iv.ones(2)), ArgumentError, "with_logits"),
    (
        lambda: nn.scaled_dot_product_attention(
            iv.ones((2, 3)), iv.ones((2, 3)), iv.ones((2, 3)), iv.ones((2, 2)), is_causal=True
        ),
        ArgumentError,
        "a mask with is_causal",
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_what_dropout_leaves_out_has_no_derivative():
    x = iv.asarray([0.0, 4.0, 0.0, 0.0], requires_grad=True)
    kept = nn.dropout(iv.sqrt(x), 0.5, rng=iv.random.default_rng(0))
    found = iv.autograd.grad(kept.sum(), x)
    np.testing.assert_array_equal(found.numpy(), [np.inf, 0.0, 0.0, 0.0])


def test_products_of_segments_with_zeros():
    x = iv.asarray([0.0, 2.0, 3.0, 0.0, 0.0], requires_grad=True)
    y = nn.segment_prod(x, np.array([0, 1, 0, 2, 2]), 4)
    np.testing.assert_array_equal(y.detach().numpy(), [0.0, 2.0, 0.0, 1.0])
    np.testing.assert_array_equal(iv.autograd.grad(y.sum(), x).numpy(), [3.0, 1.0, 0.0, 0.0, 0.0])


def test_means_of_segments_count_what_exists():
    m = iv.masked_tensor(iv.asarray([1.0, iv.nan, 5.0]), [True, False, True])
    found = nn.segment_mean(m, np.array([0, 0, 1]))
    np.testing.assert_array_equal(found.to_tensor(0).numpy(), [1.0, 5.0])


def test_offsets_of_bags_end_where_the_indices_do():
    table = iv.ones((3, 2))
    for offsets, last in (([0, 2], True), ([1, 3], True), ([1, 2], False), ([0, 2, 1], False)):
        with pytest.raises(iv.errors.ArgumentError, match=r"^embedding_bag: argument 'offsets': .*0 first"):
            nn.embedding_bag(np.array([0, 1, 1]), table, np.array(offsets), include_last_offset=last)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_the_derivative_of_a_norm_of_zeros(n, p):
    """A length has the derivative 0 there, a sum its own: 1."""
    x = iv.zeros((1, 1, *[2] * n), requires_grad=True)
    getattr(nn, f"lp_pool{n}d")(x, p, 2).sum().backward()
    assert (x.grad.to_dense().numpy() == (1.0 if p == 1 else 0.0)).all()


def test_a_loss_of_classes_asks_for_an_axis_of_them():
    with pytest.raises(ShapeError, match=r"multilabel_soft_margin_loss: .*axis of classes"):
        nn.multilabel_soft_margin_loss(iv.asarray(1.0), iv.asarray(1.0))
