"""The law of deletion: what is unspecified may as well not be there, for every function in every mode."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest

import iverson as iv
from iverson import nn
from iverson.core.scalars import SCALARS
from tests.conformance.product import EXHAUSTIVE, by_turns, turn
from tests.masked.laws import (
    FFT,
    IV,
    IV_ELSEWHERE,
    LINALG,
    NN,
    NN_ELSEWHERE,
    OF_COUNTS,
    SPECIAL,
    of_entries,
)  # fmt: skip
from tests.masked.test_namespace import DECOMPOSED, OTHERS, REFUSED, REFUSED_SYSTEMS, TRANSFORMED, functions

pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
#: Elementwise functions, and the least number of arrays that each takes.
ENTRIES = {
    n: sum(p.default is p.empty for p in inspect.signature(getattr(space, n)).parameters.values())
    for space in (iv, iv.special)
    for n in sorted({*SCALARS} & functions(space) - {"where", "clip"})
}
ELEMENTWISE = {
    name: of_entries(name, iv if hasattr(iv, name) else iv.special, least=n) for name, n in ENTRIES.items()
}
LAWS = {
    f"{space}.{name}-{k}": law
    for space, table in (
        ("nn", NN), ("iv", {**IV, **OF_COUNTS, **ELEMENTWISE}), ("linalg", LINALG), ("fft", FFT),
        ("special", SPECIAL),
    )
    for name, laws in table.items()
    for k, law in enumerate(laws)
}  # fmt: skip


def results(y):
    return y if isinstance(y, tuple) else (y,)


def entries(y):
    """Those that are specified, as an array."""
    if isinstance(y, iv.MaskedTensor):
        mask = y.get_mask().to_dense().numpy()
        return y.detach().get_data().to_dense().numpy()[mask]
    return y.detach().to_dense().numpy().ravel()


def lines_of(y, axis):
    """Its specified entries, one array for each line."""
    mask = y.get_mask().to_dense().numpy() if isinstance(y, iv.MaskedTensor) else np.ones(y.shape, bool)
    data = (y.get_data() if isinstance(y, iv.MaskedTensor) else y).detach().to_dense().numpy()
    return [np.take(data, [i], axis)[np.take(mask, [i], axis)] for i in range(y.shape[axis])]


def total(ys):
    """A number that does not depend on where the entries are."""
    sums = [(y * y + y).sum() for y in results(ys) if y.dtype.kind == "f"]
    return sum(s.to_tensor(0) if isinstance(s, iv.MaskedTensor) else s for s in sums)


class Draw:
    """Arrays of a law with garbage where columns are deleted, their masks, and the arrays without these."""

    def __init__(self, law, seed, ragged):
        rng = np.random.default_rng(seed)
        self.law, self.ragged = law, ragged
        count = next(a.shape[k] for a, k in zip(law.arrays, law.columns, strict=True) if k is not None)
        lines = 1
        if ragged:
            lines = next(a.shape[k] for a, k in zip(law.arrays, law.rows, strict=True) if k is not None)
        self.exists = rng.random((lines, count)) < 0.6
        for line in self.exists:  # two at least, of which a variance can be, and not all
            first, *more = rng.permutation(np.arange(law.keep, count))
            line[[first, *more[:1]]] = False, True
            line[more[1:2] if more else []] = True
        self.exists[:, : law.keep] = True
        along = law.rows if ragged else law.columns
        may = [k for k, axis in enumerate(along) if axis is not None and law.columns[k] is not None]
        some = [k for k in may if rng.random() < 0.6] or [may[int(rng.integers(len(may)))]]
        self.which = some if law.masked is None else list(law.masked)
        self.masks = [self.mask(k) for k in range(len(law.arrays))]
        self.arrays = []
        for k, (a, mask) in enumerate(zip(law.arrays, self.masks, strict=True)):
            garbage = rng.choice((np.nan, np.inf, -np.inf, 1e300), a.shape) if a.dtype.kind == "f" else 0
            self.arrays.append(np.where(mask, a, garbage).astype(a.dtype) if k in self.which else a)

    def mask(self, k):
        a, column = self.law.arrays[k], self.law.columns[k]
        if column is None:
            return np.ones(a.shape, bool)
        row = self.law.rows[k] if self.ragged else None
        if self.ragged and row is None:  # read by all lines
            return np.ones(a.shape, bool)
        shape = [1] * a.ndim
        shape[column] = a.shape[column]
        if row is not None:
            shape[row] = a.shape[row]
            own = self.exists if row < column else self.exists.T
        else:
            own = self.exists[0]
        return np.broadcast_to(own.reshape(shape), a.shape).copy()

    def deleted(self, line=0):
        """The arrays without the columns that do not exist in a line."""
        found = []
        for k, a in enumerate(self.law.arrays):
            row, column = self.law.rows[k] if self.ragged else None, self.law.columns[k]
            a = a if row is None else np.take(a, [line], row)
            found.append(a if column is None else np.compress(self.exists[line], a, column))
        return found

    def masked(self, arrays, masks, layout=None):
        found = list(map(iv.asarray, arrays))
        for k in self.which:
            mask = masks[k] if layout is None else iv.to_layout(iv.asarray(masks[k]), layout)
            found[k] = iv.masked_tensor(found[k], mask)
        return found

    def check(self, ys):
        """Results against those of what is left of the arrays."""
        if not self.ragged:
            wanted = [entries(y) for y in results(self.law.call(*map(iv.asarray, self.deleted())))]
            assert len(wanted) == len(results(ys))
            for y, expected in zip(results(ys), wanted, strict=True):
                np.testing.assert_allclose(entries(y), expected, rtol=1e-10, atol=1e-12)
            return
        for line in range(len(self.exists)):
            wanted = [entries(y) for y in results(self.law.call(*map(iv.asarray, self.deleted(line))))]
            for y, axis, expected in zip(results(ys), self.law.out, wanted, strict=True):
                np.testing.assert_allclose(lines_of(y, axis)[line], expected, rtol=1e-10, atol=1e-12)

    def gradients(self):
        """Those of `total` in the real arrays, 0 where nothing exists."""
        found = [np.zeros(a.shape) for a in self.law.arrays]
        for line in range(len(self.exists) if self.ragged else 1):
            wanted = differentiated(lambda *xs: total(self.law.call(*xs)), self.deleted(line))
            for k, g in wanted.items():
                row, column = self.law.rows[k] if self.ragged else None, self.law.columns[k]
                at = [slice(None)] * found[k].ndim
                if row is not None:
                    at[row] = slice(line, line + 1)
                if column is not None:
                    at[column] = np.flatnonzero(self.exists[line])
                found[k][tuple(at)] += g
        return {k: found[k] for k in wanted}


def real(arrays):
    return tuple(k for k, a in enumerate(arrays) if a.dtype.kind == "f")


def differentiated(f, arrays, way=iv.grad):
    """The gradients in the real arrays, by their numbers."""
    which = real(arrays)
    found = way(f, argnums=which)(*map(iv.asarray, arrays))
    return {k: g.to_dense().numpy() for k, g in zip(which, found, strict=True)}


def draws(name, most=1):
    law = LAWS[name]
    for seed in range(most if EXHAUSTIVE else 1):
        for ragged in (False, True):
            if not ragged or law.rows is not None:
                yield Draw(law, seed, ragged)


def test_every_function_is_here():
    """Or is refused, or has no arrays."""
    layers = {n for n in nn.__all__ if isinstance(getattr(nn, n), type)}
    assert set(nn.__all__) - layers == {*NN, *NN_ELSEWHERE}
    plain = {n for n in REFUSED if n not in {*IV, *OF_COUNTS, *ELEMENTWISE, *IV_ELSEWHERE}}
    assert functions(iv) - OTHERS - plain == {*IV, *OF_COUNTS, *ELEMENTWISE, *IV_ELSEWHERE} & functions(iv)
    assert functions(iv.special) <= {*SPECIAL, *ELEMENTWISE}
    refused = {*DECOMPOSED, *REFUSED_SYSTEMS, *TRANSFORMED, *OTHERS, "factorized", "spsolve"}
    assert functions(iv.linalg) | functions(iv.fft) <= {*LINALG, *FFT, *refused}


#: One law of each function in a run, all of them in a whole one; and those with shapes that are known.
CHOSEN = [
    name
    for names in (list(group) for _, group in itertools.groupby(LAWS, lambda name: name.rpartition("-")[0]))
    for k, name in enumerate(names)
    if EXHAUSTIVE or k == turn(names[0], len(names))
]
KNOWN = [
    name
    for name in LAWS
    if name.split(".")[1].rpartition("-")[0] not in {*OF_COUNTS, "searchsorted", "to_layout", "to_sparse"}
]


@pytest.mark.parametrize("name", CHOSEN)
def test_values(name):
    for d in draws(name, 8):
        with np.errstate(all="raise"):
            d.check(d.law.call(*d.masked(d.arrays, d.masks)))


def of_arrays(d):
    """The call as a function of plain arrays and masks."""
    return lambda *given: d.law.call(*d.masked(given[: len(d.arrays)], given[len(d.arrays) :]))


def in_a_batch(f):
    def mapped(*given):
        found = iv.vmap(f)(*(iv.stack([x, x]) for x in map(iv.asarray, given)))
        return tuple(y[1] for y in found) if isinstance(found, tuple) else found[1]

    return mapped


def in_a_scan(f):
    def scanned(*given):
        _, found = iv.scan(lambda c, _: (c, f(*map(iv.asarray, given))), iv.asarray(0.0), iv.zeros(2))
        return tuple(y[1] for y in found) if isinstance(found, tuple) else found[1]

    return scanned


#: How a function of arrays and masks is called; and how its gradient in the arrays is.
MODES = {
    "jit": iv.jit,
    "vmap": in_a_batch,
    "checkpoint": iv.checkpoint,
    "scan": in_a_scan,
}
DIFFERENTIATED = {
    "jit of grad": lambda f, argnums: iv.jit(iv.grad(f, argnums=argnums)),
    "grad of jit": lambda f, argnums: iv.grad(iv.jit(f), argnums=argnums),
    "vmap of grad": lambda f, argnums: in_a_batch(iv.grad(f, argnums=argnums)),
    "grad of checkpoint": lambda f, argnums: iv.grad(iv.checkpoint(f), argnums=argnums),
    "grad of scan": lambda f, argnums: iv.grad(in_a_scan(f), argnums=argnums),
}


def check_gradients(d, found):
    for k, expected in d.gradients().items():
        np.testing.assert_allclose(found[k], expected, rtol=1e-8, atol=1e-10, err_msg=f"array {k}")
        assert not np.any(found[k][~d.masks[k]]), "what does not exist has a derivative"


@pytest.mark.parametrize("name", by_turns(KNOWN, 20))
def test_gradients(name):
    for d in draws(name, 3):
        known = lambda *xs, d=d: total(d.law.call(*d.masked(xs, d.masks)))
        check_gradients(d, differentiated(known, d.arrays))


#: A body that runs op by op may warn of what stands for unspecified entries: 1 is a pole of some functions.
at_a_pole = pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")


@at_a_pole
@pytest.mark.parametrize(("name", "mode"), by_turns(itertools.product(KNOWN, MODES), 200))
def test_values_where_masks_are_computed(name, mode):
    for d in draws(name):
        d.check(MODES[mode](of_arrays(d))(*d.arrays, *d.masks))


@at_a_pole
@pytest.mark.parametrize(("name", "mode"), by_turns(itertools.product(KNOWN, DIFFERENTIATED), 300))
def test_gradients_where_masks_are_computed(name, mode):
    for d in draws(name):
        which = real(d.arrays)
        f = of_arrays(d)
        way = DIFFERENTIATED[mode](lambda *given, f=f: total(f(*given)), which)
        found = way(*map(iv.asarray, (*d.arrays, *d.masks)))
        check_gradients(d, {k: g.to_dense().numpy() for k, g in zip(which, found, strict=True)})


@pytest.mark.parametrize("name", by_turns(LAWS, 20))
def test_values_in_sparse_layouts(name):
    for d in draws(name):
        d.check(d.law.call(*d.masked(d.arrays, d.masks, "coo")))
