"""Windows of masked images whose entries are missing anywhere: NumPy's loops are the oracle."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import iverson as iv
from iverson import nn
from tests.array_api.common import draw
from tests.masked.oracle import assert_same, masked

ma = np.ma


def holes(shape, share=0.5):
    mask = np.random.default_rng(sum(shape)).random(shape) < share
    mask[0, 0] = False  # a channel without entries
    return mask


def windows(a, size, stride, padding, dilation=1):
    """What each window has inside of an image, as a masked array, and how much padding it has."""
    spatial = a.shape[2:]
    whole = [n + 2 * padding - dilation * (k - 1) for n, k in zip(spatial, size, strict=True)]
    counts = [(n - 1) // stride + 1 for n in whole]
    for place in itertools.product(*map(range, counts)):
        at = [stride * p - padding + dilation * np.arange(k) for p, k in zip(place, size, strict=True)]
        inside = [(i >= 0) & (i < n) for i, n in zip(at, spatial, strict=True)]
        own = a[(slice(None), slice(None), *np.ix_(*(i[m] for i, m in zip(at, inside, strict=True))))]
        padded = np.prod(size) - np.prod([m.sum() for m in inside])
        yield place, counts, own, np.ix_(*inside), padded


def pooled(a, reduce, size, stride, padding):
    out = None
    for place, counts, own, _, padded in windows(a, size, stride, padding):
        out = ma.masked_all((*a.shape[:2], *counts)) if out is None else out
        out[(slice(None), slice(None), *place)] = reduce(own.reshape(*a.shape[:2], -1), padded)
    return out


POOLS = {
    "max": (lambda n: getattr(nn, f"max_pool{n}d"), lambda w, p: w.max(axis=2)),
    "avg": (lambda n: getattr(nn, f"avg_pool{n}d"), lambda w, p: w.sum(axis=2) / (w.count(axis=2) + p)),
    "inner": (
        lambda n: lambda *a: getattr(nn, f"avg_pool{n}d")(*a, count_include_pad=False),
        lambda w, p: w.mean(axis=2),
    ),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools(n, name):
    function, reduce = POOLS[name]
    x = draw((2, 3, 5, 4, 3)[: n + 2], seed=n)
    mask = holes(x.shape)
    a = ma.MaskedArray(x, ~mask)
    for size, stride, padding in (((2,) * n, 2, 0), ((3,) * n, 1, 1)):
        expected = pooled(a, reduce, size, stride, padding)
        assert_same(function(n)(masked(x, mask), size, stride, padding), expected)
    found = nn.avg_pool2d(masked(x, mask), 2, divisor_override=3) if n == 2 else None
    if found is not None:
        assert_same(found, pooled(a, lambda w, p: w.sum(axis=2) / 3, (2, 2), 2, 0))


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pools_of_parts(kind):
    x = draw((2, 3, 5, 4))
    mask = holes(x.shape)
    a = ma.MaskedArray(x, ~mask)
    expected = ma.masked_all((2, 3, 3, 3))
    for i, j in itertools.product(range(3), range(3)):
        part = a[:, :, i * 5 // 3 : -(-(i + 1) * 5 // 3), j * 4 // 3 : -(-(j + 1) * 4 // 3)].reshape(2, 3, -1)
        expected[:, :, i, j] = part.max(axis=2) if kind == "max" else part.mean(axis=2)
    assert_same(getattr(nn, f"adaptive_{kind}_pool2d")(masked(x, mask), 3), expected)
    if kind == "avg":
        assert_same(nn.interpolate(masked(x, mask), (3, 3), mode="area"), expected)
    else:
        found = nn.adaptive_max_pool2d(masked(x, mask), 3, return_indices=True)
        assert_same(found.values, expected)
        there = ~ma.getmaskarray(expected)
        at = found.indices.to_tensor(0).numpy()
        chosen = np.take_along_axis(x.reshape(2, 3, -1), at.reshape(2, 3, -1), 2).reshape(at.shape)
        np.testing.assert_array_equal(chosen[there], expected[there])


def test_the_first_of_equal_entries_takes_the_derivative():
    """Also where they are what fills a window elsewhere."""
    x = iv.masked_tensor(
        [[iv.nan, -iv.inf, -iv.inf, 2.0, 2.0, 7.0]], [[False, True, True, True, True, False]]
    )
    leaf = x.requires_grad_()
    y = nn.max_pool1d(leaf, 3)
    assert_same(y.detach(), ma.MaskedArray([[-np.inf, 2.0]]))
    (g,) = iv.autograd.grad(y.to_tensor(0).sum(), [leaf])
    np.testing.assert_array_equal(g.to_tensor(0).numpy(), [[0, 1, 0, 1, 0, 0]])


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 1, 1)])
def test_convolutions(which, stride, padding, dilation):
    """A product counts where both factors are specified: no infinite factor meets what does not exist."""
    x, w = draw((2, 2, 5, 4)), draw((3, 2, 3, 2), seed=1)
    masks = [holes(a.shape) if k in which else np.ones(a.shape, bool) for k, a in enumerate((x, w))]
    if 0 in which:
        masks[0][:, :, 2:4] = False
        if which == (0,):
            w[1] = np.inf
    a, b = (ma.MaskedArray(v, ~m) for v, m in zip((x, w), masks, strict=True))
    expected = None
    for place, counts, own, inside, _ in windows(a, (3, 2), stride, padding, dilation):
        expected = ma.masked_all((2, 3, *counts)) if expected is None else expected
        for f in range(3):
            products = own * b[f][(slice(None), *inside)]
            with np.errstate(invalid="ignore"):
                expected[(slice(None), f, *place)] = products.reshape(2, -1).sum(axis=1)
    given = [masked(v, m) if not m.all() else iv.asarray(v) for v, m in zip((x, w), masks, strict=True)]
    with np.errstate(all="ignore"):
        found = nn.conv2d(*given, stride=stride, padding=padding, dilation=dilation)
    there = found.get_mask().numpy()
    alone = there & ma.getmaskarray(expected)
    assert not found.get_data().numpy()[alone].any()  # windows of padding alone
    assert_same(found, ma.MaskedArray(expected.filled(0), ~there))


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_transposed_convolutions(which):
    x, w = draw((2, 3, 3, 2)), draw((3, 2, 2, 2), seed=1)
    masks = [holes(a.shape) if k in which else np.ones(a.shape, bool) for k, a in enumerate((x, w))]
    a, b = (ma.MaskedArray(v, ~m) for v, m in zip((x, w), masks, strict=True))
    expected = ma.masked_all((2, 2, 6, 4))
    reached = np.zeros((6, 4), bool)
    for i, j, k, m in itertools.product(range(3), range(2), range(2), range(2)):
        reached[2 * i + k, 2 * j + m] = True
        terms = (a[:, :, None, i, j] * b[None, :, :, k, m]).sum(axis=1)
        own = expected[:, :, 2 * i + k, 2 * j + m]
        expected[:, :, 2 * i + k, 2 * j + m] = ma.stack([own, terms]).sum(axis=0)
    given = [masked(v, m) if not m.all() else iv.asarray(v) for v, m in zip((x, w), masks, strict=True)]
    assert reached.all()
    assert_same(nn.conv_transpose2d(*given, stride=2), expected)
    apart = nn.conv_transpose2d(*given, stride=3, output_padding=1)
    assert_same(apart[:, :, :2, 3:5], expected[:, :, :2, 2:4])
    some = (~ma.getmaskarray(expected)).any(axis=(2, 3))
    np.testing.assert_array_equal(apart.get_mask().numpy()[:, :, 2, 2], some)  # a gap
    np.testing.assert_array_equal(apart.to_tensor(7.0).numpy()[:, :, -1, -1], np.where(some, 0.0, 7.0))


def test_columns_of_windows_and_back():
    x = draw((2, 2, 4, 4))
    mask = holes(x.shape)
    a = ma.MaskedArray(x, ~mask)
    parts = [own.reshape(2, -1) for _, _, own, _, _ in windows(a, (2, 2), 2, 0)]
    columns = ma.stack(parts, axis=2)
    found = nn.unfold(masked(x, mask), 2, stride=2)
    assert_same(found, columns)
    assert_same(nn.fold(found, 4, 2, stride=2), a)


def test_neighbours_that_do_not_exist_say_nothing():
    x = draw((2, 4, 3))
    mask = holes(x.shape, 0.7)
    a = ma.MaskedArray(x, ~mask)
    sums = ma.stack([(a[:, max(k - 1, 0) : k + 1] ** 2).sum(axis=1) for k in range(4)], axis=1)
    assert_same(nn.local_response_norm(masked(x, mask), 2, 0.6, 0.75, 2.0), a / (2.0 + 0.3 * sums) ** 0.75)


def test_interpolation_reads_two_entries_unless_it_is_at_one():
    m = iv.masked_tensor([[[1.0, iv.nan, 3.0, 5.0]]], [[[True, False, True, True]]])
    assert_same(nn.interpolate(m, 4, mode="linear"), ma.MaskedArray([[[1, 9, 3, 5]]], [[[0, 1, 0, 0]]]))
    found = nn.interpolate(m, 7, mode="linear", align_corners=True)
    assert_same(found, ma.MaskedArray([[[1, 9, 9, 9, 3, 4, 5]]], [[[0, 1, 1, 1, 0, 0, 0]]]))


def test_values_that_some_keys_lack():
    """Each feature is averaged over the keys that have it, by weights of these alone."""
    q, k, v = draw((3, 5)), 200 * draw((4, 5), seed=1), draw((4, 6), seed=2)
    there = holes(v.shape, 0.6)
    there[:, 0] = [False, True, False, False]
    read = draw((3, 4), "bool", seed=3)
    read[:, 1] = True
    for mask in (None, read):
        found = nn.scaled_dot_product_attention(q, k, masked(v, there), mask)
        expected = ma.masked_all((3, 6))
        for i, j in itertools.product(range(3), range(6)):
            own = there[:, j] if mask is None else there[:, j] & mask[i]
            if not there[:, j].any():
                continue
            products = k[own] @ q[i] / np.sqrt(5)
            weights = np.exp(products - products.max(initial=-np.inf))
            expected[i, j] = (weights @ v[own, j]) / weights.sum() if own.any() else 0.0
        assert_same(found, expected)
    rng = iv.random.default_rng(3)
    whole = nn.scaled_dot_product_attention(q, k, v, dropout_p=0.4, rng=iv.random.default_rng(3))
    full = iv.masked_tensor(v, np.ones(v.shape, bool))
    parts = nn.scaled_dot_product_attention(q, k, full, dropout_p=0.4, rng=rng)
    np.testing.assert_allclose(parts.to_tensor(0).numpy(), whole.numpy(), rtol=1e-12)


@pytest.mark.parametrize("d", [0, 1, 2, 3])
def test_dropout_leaves_out_what_exists(d):
    x = draw((2, 3, 4, 2, 2)[: d + 2], seed=1) + 3
    mask = holes(x.shape)
    function = getattr(nn, f"dropout{d}d" if d else "dropout")
    whole = function(x, 0.4, rng=iv.random.default_rng(1)).numpy()
    found = function(masked(x, mask), 0.4, rng=iv.random.default_rng(1))
    assert_same(found, ma.MaskedArray(whole, ~mask))
    computed = iv.jit(lambda x, mask: function(iv.masked_tensor(x, mask), 0.4, rng=iv.random.default_rng(1)))
    assert_same(computed(x, mask), ma.MaskedArray(whole, ~mask))


def test_moments_of_channels_without_entries_stay():
    x = draw((4, 3))
    mask = np.array([[True, True, False], [True, False, False], [True, False, False], [False, False, False]])
    mean, var = iv.asarray([1.0, 2.0, 3.0]), iv.asarray([4.0, 5.0, 6.0])
    found = nn.batch_norm(masked(x, mask), mean, var, training=True, eps=1e-14, momentum=0.5)
    own = x[:3, 0]
    np.testing.assert_allclose(found.to_tensor(0).numpy()[:3, 0], (own - own.mean()) / own.std(), rtol=1e-9)
    np.testing.assert_allclose(mean.numpy(), [0.5 + own.mean() / 2, 1 + x[0, 1] / 2, 3.0])
    np.testing.assert_allclose(var.numpy(), [2 + own.var(ddof=1) / 2, 5.0, 6.0])
    with pytest.raises(iv.errors.ShapeError, match="more than one value per channel"):
        nn.batch_norm(masked(x, np.eye(4, 3) > 0), mean, var, training=True)


def test_refused():
    logs = masked(np.eye(3)[:, None], np.tri(3, dtype=bool)[:, None])
    with pytest.raises(iv.errors.ArgumentTypeError, match=r"^ctc_loss: .*to_tensor\(fill\)"):
        nn.ctc_loss(logs, np.array([[1]]), np.array([3]), np.array([1]))


def test_strict_masks_are_those_of_operands():
    """Padding, means and gaps have no masks of users."""
    x, w = draw((2, 3, 5)), draw((3, 3, 2), seed=1)
    m = masked(x, holes(x.shape))
    calls = {
        "layer_norm": lambda: nn.layer_norm(m, 5),
        "rms_norm": lambda: nn.rms_norm(m, 5),
        "instance_norm": lambda: nn.instance_norm(m),
        "group_norm": lambda: nn.group_norm(m, 1),
        "batch_norm": lambda: nn.batch_norm(m[:, 1:], None, None, training=True),
        "normalize": lambda: nn.normalize(m),
        "avg_pool1d": lambda: nn.avg_pool1d(m, 2, padding=1),
        "max_pool1d": lambda: nn.max_pool1d(m, 2, padding=1),
        "conv1d": lambda: nn.conv1d(m, w, padding=1),
        "conv_transpose1d": lambda: nn.conv_transpose1d(m, w, stride=3),
    }
    for call in calls.values():
        expected = call()
        with iv.masked.policy("strict"):
            found = call()
        mask = expected.get_mask().numpy()
        assert_same(found, ma.MaskedArray(expected.get_data().numpy(), ~mask))


COUNTING = {
    "layer_norm": lambda x: nn.layer_norm(x, 70000),
    "instance_norm": lambda x: nn.instance_norm(x[None]),
    "batch_norm": lambda x: nn.batch_norm(x[None], None, None, training=True),
    "adaptive_avg_pool1d": lambda x: nn.adaptive_avg_pool1d(x, 1),
    "mse_loss": lambda x: nn.mse_loss(x, x),
    "segment_mean": lambda x: nn.segment_mean(x.T, np.zeros(70000, int)),
}


@pytest.mark.parametrize("name", COUNTING)
def test_more_entries_are_counted_than_half_precision_can(name):
    m = iv.masked_tensor(iv.ones((1, 70000), dtype="float16"), np.arange(70000) > 0)
    found = COUNTING[name](m)
    assert found.dtype == "float16"
    assert set(np.unique(found.get_data().numpy())) <= {0.0, 1.0}
