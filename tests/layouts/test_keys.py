"""How basic index keys move regions: held against NumPy, on arrays whose entries are all different."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from iverson.core.region import Region
from iverson.kernels import index_keys

CASES = 3000


def drawn(rng: Any) -> tuple[Any, Any, Region]:
    """An array of different entries that are not 0, a key that covers its axes, and a region of it."""
    shape = tuple(0 if rng.random() < 0.04 else int(rng.integers(1, 6)) for _ in range(rng.integers(1, 4)))
    key: list[Any] = []
    for n in shape:
        key += [None] * int(rng.random() < 0.2)
        if n and rng.random() < 0.25:
            key.append(int(rng.integers(n)))
        else:
            ends = [None if rng.random() < 0.4 else int(rng.integers(-n - 1, n + 2)) for _ in "ab"]
            key.append(
                index_keys.canonical_slice(slice(*ends, int(rng.choice([1, 1, 1, 2, 3, -1, -1, -2]))), n)
            )
    key += [None] * int(rng.random() < 0.2)
    corners = [sorted(rng.integers(0, n + 1, 2).tolist()) for n in shape]
    x = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape)
    return x, tuple(key), Region(tuple(a for a, _ in corners), tuple(b for _, b in corners))


def hull_of(there: Any) -> Region | None:
    """The smallest region that holds all True entries; None where there is none."""
    if not there.any():
        return None
    at = np.argwhere(there)
    return Region(tuple(at.min(axis=0).tolist()), tuple((at.max(axis=0) + 1).tolist()))


def test_slices_with_explicit_bounds():
    for n, step in itertools.product(range(5), (None, 1, 2, 5, -1, -2, -5)):
        for start, stop in itertools.product((None, *range(-n - 2, n + 3)), repeat=2):
            item = slice(start, stop, step)
            found = index_keys.canonical_slice(item, n)
            assert list(range(n))[found] == list(range(n))[item]
            assert index_keys.canonical_slice(found, n) == found
            read = range(n)[item]
            if not read:
                assert found == slice(0, 0, 1)
            elif found.step > 0:
                assert (found.start, found.stop) == (read[0], read[-1] + 1)
            else:
                assert (found.start, found.stop) == (read[0], read[-1] - 1 if read[-1] else None)


def test_what_keys_read():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(CASES):
        x, key, region = drawn(rng)
        y = x[key]
        assert index_keys.key_shape(key, x.shape) == y.shape
        if x.size:
            everything = y.shape == x.shape and np.array_equal(x, y)
            found = index_keys.reads_everything(key, x.shape)
            is_of_slices = all(isinstance(item, slice) for item in key)
            assert found is (everything and is_of_slices)
            seen.add(found)
        own = np.zeros(x.shape, bool)
        own[key] = True
        if own.any():
            assert index_keys.key_region(key, x.shape) == hull_of(own)
        else:
            assert not index_keys.key_region(key, x.shape).size or not x.size
        steps = {item.step for item in key if isinstance(item, slice)}
        assert index_keys.is_dense(key) is (steps <= {1})
        inside = np.zeros(x.shape, bool)
        inside[region.slices] = True
        image = index_keys.region_through_key(region, key, x.shape)
        assert image == hull_of(inside[key]) if y.ndim else (image is not None) is bool(inside[key])
        if image is not None:
            within = index_keys.key_within(region, key, x.shape)
            np.testing.assert_array_equal(x[region.slices][within], y[image.slices])
        of_result = [sorted(rng.integers(0, n + 1, 2).tolist()) for n in y.shape]
        part = Region(tuple(a for a, _ in of_result), tuple(b for _, b in of_result))
        if part.size:
            np.testing.assert_array_equal(x[index_keys.cut(key, part)], y[part.slices])
    assert seen == {True, False}
