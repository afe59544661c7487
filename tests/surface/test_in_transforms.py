"""Every public function in a trace and in a batch: what its docstring's examples call, as in eager calls.

What cannot be done there, as entries decide the shape of the result, is in a table, with what the error says.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import re
import sys
import warnings
from functools import partial

import numpy as np
import optree
import pytest

import iverson as iv
from iverson.core.dispatch import Operand
from tests.conformance.product import by_turns, paired

MODULES = {
    "": iv,
    "fft": iv.fft,
    "linalg": iv.linalg,
    "nn": iv.nn,
    "special": iv.special,
    "Tensor": iv.Tensor,
}

#: Functions that read entries or make what is no tensor, and what their errors say.
REFUSED = {
    "argwhere": "argwhere.* the shape of the result",
    "bincount": "bincount.* say minlength",
    "flatnonzero": "nonzero.* the shape of the result",
    "from_dlpack": "read of the entries",
    "intersect1d": "unique_values: .* sort them",
    "linalg.factorized": "factorized.* close over the tensor",
    "nn.one_hot": "one_hot.* how many classes",
    "nonzero": "nonzero.* the shape of the result",
    "repeat": "repeat.* the shape of the result",
    "save": "read of the entries",
    "Tensor.numpy": "read of the entries",
    "setdiff1d": "unique_values: .* sort them",
    "to_scipy": "to_scipy.* close over the tensor",
    "union1d": "unique_values: .* sort them",
    "unique": "unique: .* sort them",
    "unique_all": "unique_all: .* sort them",
    "unique_counts": "unique_counts: .* sort them",
    "unique_inverse": "unique_inverse: .* sort them",
    "unique_values": "unique_values: .* sort them",
}
#: Of random numbers, whose draws differ, and functions of functions that return functions.
OTHERS = {"nn.dropout", "nn.dropout1d", "nn.dropout2d", "nn.dropout3d", "vjp", "ravel_pytree", "Tensor.spy"}


def functions():
    seen = set()
    for module, namespace in MODULES.items():
        names = dir(namespace) if module == "Tensor" else namespace.__all__
        for name in names:
            f = getattr(namespace, name)
            if not name.startswith("_") and inspect.isfunction(f) and f not in seen and f.__doc__:
                seen.add(f)
                full = f"{module}.{name}" if module else name
                if full not in OTHERS:
                    yield full


def calls_of(full, monkeypatch):
    """The arguments of each call that the examples make."""
    module, _, name = full.rpartition(".")
    namespace = MODULES[module]
    f, found = getattr(namespace, name), []

    def recorded(*args, **kwargs):
        found.append((args, kwargs))
        return f(*args, **kwargs)

    monkeypatch.setattr(namespace, name, recorded)
    own = sys.modules[f.__module__]
    scope = {k: recorded if v is f else v for k, v in vars(own).items()} | {
        name: recorded,
        "iv": iv,
        "np": np,
    }
    with contextlib.redirect_stdout(io.StringIO()):
        for part in doctest.DocTestFinder(recurse=False).find(f, name, globs={}):
            for example in part.examples:
                with contextlib.suppress(iv.errors.IversonError):  # some show one
                    exec(compile(example.source, "<example>", "single"), scope)
    monkeypatch.undo()
    return f, found


def entries(tree):
    return [
        x.to_dense().detach().numpy()
        for x in optree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, Operand))
        if isinstance(x, iv.Tensor)
    ]


@pytest.mark.parametrize("full", by_turns(functions(), 3))
def test_a_function_in_a_trace_and_in_a_batch(full, monkeypatch):
    f, calls = calls_of(full, monkeypatch)
    refused = []
    for args, kwargs in calls:
        leaves, tree = optree.tree_flatten(
            (args, kwargs), is_leaf=lambda x: isinstance(x, (Operand, np.ndarray)), none_is_leaf=True
        )
        at = [k for k, x in enumerate(leaves) if isinstance(x, (iv.Tensor, np.ndarray)) and x.dtype != object]
        if not at:
            continue

        others = [None if k in at else x for k, x in enumerate(leaves)]

        def of_tensors(*tensors, others=others, tree=tree, at=at):
            given = list(others)
            for k, x in zip(at, tensors, strict=True):
                given[k] = x
            args, kwargs = optree.tree_unflatten(tree, given)
            return f(*args, **kwargs)

        tensors = [iv.asarray(leaves[k]) for k in at]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = f(*args, **kwargs)
            except iv.errors.IversonError:  # an example of one
                continue
            ways = [partial(iv.jit(of_tensors, interpret=True), *tensors)]
            if all(x.layout == "strided" for x in tensors):
                ways.append(partial(iv.vmap(of_tensors), *(iv.stack([x, x]) for x in tensors)))
            for k, way in enumerate(ways):
                try:
                    results = entries(way())
                except iv.errors.IversonError as error:
                    if not re.search(REFUSED.get(full, "$^"), str(error)):
                        raise
                    refused.append(k)
                    continue
                for got, want in zip(results, entries(expected), strict=True):
                    want = np.stack([want, want]) if k else want
                    assert got.dtype == want.dtype
                    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    assert bool(refused) == (full in REFUSED)


@pytest.mark.parametrize(("dtype", "many"), paired(["int64", "float64", "complex128", "bool"], [0, 5, 100]))
def test_isin_of_what_is_known_when_it_runs(many, dtype):
    rng = np.random.default_rng(3)
    a, b = (
        rng.integers(0, 2 * many + 2, (4, 30)).astype(dtype),
        rng.integers(0, 2 * many + 2, many).astype(dtype),
    )
    if dtype == "float64" and many:
        a[0, :3] = b[0] = np.nan
    for invert in (False, True):
        compiled = iv.jit(lambda a, b, invert=invert: iv.isin(a, b, invert=invert))
        expected = np.isin(a, b, invert=invert)
        np.testing.assert_array_equal(compiled(a, b).numpy(), expected)
        np.testing.assert_array_equal(iv.vmap(iv.isin, (0, None))(a, b).numpy(), np.isin(a, b))
        for k, x in enumerate((a, b)):  # one of them from outside
            other = iv.asarray(b if k == 0 else a)
            f = iv.jit(lambda x, k=k, other=other: iv.isin(x, other) if k == 0 else iv.isin(other, x))
            np.testing.assert_array_equal(f(x).numpy(), np.isin(a, b))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("which", [0, 1, (0, 1)])
def test_isin_of_masked_tensors_in_a_trace(which, known):
    """Entries that do not exist equal nothing: as in an eager call, also where a 0 stands for them."""
    a, b = np.arange(-3.0, 3.0), np.array([0.0, 2.0, -1.0, 5.0])
    masks = a != 1, np.array([False, True, False, True])
    which = (which,) if isinstance(which, int) else which

    def f(a, b, *masks):
        xs = [
            iv.masked_tensor(x, m) if k in which else x
            for k, (x, m) in enumerate(zip((a, b), masks, strict=False))
        ]
        return iv.isin(*xs)

    expected = f(iv.asarray(a), iv.asarray(b), *masks)
    found = iv.jit(f)(a, b, *masks) if not known else iv.jit(lambda a, b: f(a, b, *masks))(a, b)
    assert type(found) is type(expected)
    if 0 in which:
        np.testing.assert_array_equal(found.get_mask().numpy(), masks[0])
        found, expected = found.to_tensor(False), expected.to_tensor(False)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_a_length_that_a_trace_is_told():
    """`bincount` is as long as it is said to be, and says so of a number that does not fit."""
    x, weights = np.array([0, 3, 3]), np.array([0.5, 1.0, 2.0])
    f = iv.jit(lambda x, w: (iv.bincount(x, minlength=5), iv.bincount(x, weights=w, minlength=5)))
    counts, sums = f(x, weights)
    np.testing.assert_array_equal(counts.numpy(), np.bincount(x, minlength=5))
    np.testing.assert_array_equal(sums.numpy(), np.bincount(x, weights, minlength=5))
    for wrong in ([5, 0, 0], [-1, 0, 0]):
        with pytest.raises(iv.errors.IndexingError, match=r"one in \[0, 5\)"):
            f(np.array(wrong), weights)


def test_ctc_loss_of_labels_that_are_arguments():
    """Labels and lengths change from call to call: one trace, values and gradients of eager calls."""
    rng = np.random.default_rng(4)
    logs = iv.log_softmax(iv.asarray(rng.normal(size=(7, 3, 5))), axis=2)
    traces = []

    def loss(logs, labels, steps, numbers):
        traces.append(1)
        return iv.nn.ctc_loss(logs, labels, steps, numbers)

    compiled = iv.jit(iv.value_and_grad(loss))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rest = rng.integers(1, 5, (3, 2)), rng.integers(5, 8, 3), rng.integers(0, 3, 3)
        value, gradient = iv.value_and_grad(iv.nn.ctc_loss)(logs, *rest)
        found = compiled(logs, *map(iv.asarray, rest))
        np.testing.assert_allclose(found[0].numpy(), value.numpy(), rtol=1e-12)
        np.testing.assert_allclose(
            found[1].to_dense().numpy(), gradient.to_dense().numpy(), rtol=1e-10, atol=1e-13
        )
    assert len(traces) == 1
    with pytest.raises(iv.errors.IndexingError, match="ctc_loss"):
        compiled(logs, iv.asarray(rest[0] + 9), *map(iv.asarray, rest[1:]))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_what_is_made_on_a_pattern_that_is_an_argument(layout):
    """Of constants too, which no operand leads into the trace."""
    s = iv.asarray([[0.0, 2.0], [3.0, 0.0], [0.0, 4.0]]).to_layout(layout)
    f = iv.jit(lambda s: iv.with_values(s, [1.0, 2.0, 3.0]))
    for x in (s, 2 * s):
        expected = iv.with_values(x, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(f(x).to_dense().numpy(), expected.to_dense().numpy())
    if layout != "coo":
        np.testing.assert_array_equal(iv.jit(lambda s: s.indptr())(s).numpy(), s.indptr().numpy())
