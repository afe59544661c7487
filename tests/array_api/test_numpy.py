"""NumPy's functions on our arrays: ours of the same name, differentiable, and nothing detached in silence."""

from __future__ import annotations

import copy
import inspect
import warnings

import numpy as np
import pytest
import scipy.special

import iverson as iv
from iverson.array_api import numpy_functions
from iverson.autograd import grad
from iverson.core.errors import ArgumentError, ArgumentTypeError, GradientError, IversonError
from iverson.core.python.foreign_names import NAMES
from iverson.core.scalars import SCALARS
from tests.array_api.common import draw, same
from tests.array_api.test_shapes import CASES

X = draw((3,), low=0.2, high=0.8)
M = draw((2, 3), seed=1)


def ufuncs():
    """NumPy's and SciPy's that are ours."""
    for space in (np, scipy.special):
        for name, value in vars(space).items():
            ours = getattr(value, "__name__", "")
            ours = NAMES.get(ours, ours)
            if isinstance(value, np.ufunc) and ours in SCALARS and ours in iv.__all__:
                yield pytest.param(value, ours, id=f"{space.__name__}.{name}")


@pytest.mark.parametrize(("ufunc", "name"), list(ufuncs()))
def test_ufuncs(ufunc, name):
    scalar = SCALARS[name]
    dtype = "float64" if "f" in scalar.kinds else "int64"
    xs = [draw((3,), dtype, seed=k, low=0.2, high=0.8) % 4 + (name == "acosh") for k in range(scalar.arity)]
    expected = np.asarray(ufunc(*xs))
    leaves = [iv.asarray(x, requires_grad=dtype == "float64") for x in xs]
    same(ufunc(*(leaf.detach() for leaf in leaves)), expected)
    if scalar.arity == 2:
        same(ufunc(xs[0], leaves[1].detach()), expected)
        same(ufunc(list(xs[0]), leaves[1].detach()), expected)
    found, ours = ufunc(*leaves), getattr(iv, name)(*leaves)
    assert found.requires_grad == ours.requires_grad
    if ours.requires_grad:
        pairs = zip(grad(found.sum(), leaves), grad(ours.sum(), leaves), strict=True)
        assert all((a == b).all() for a, b in pairs)


@pytest.mark.parametrize("name", [n for n in CASES if hasattr(np, n) and n not in ("diagonal", "unstack")])
def test_functions_of_shape(name):
    """With NumPy's own function in the calls that our tests make of both."""
    function = getattr(np, name)
    for shape, call in CASES[name]:
        x = draw(shape)
        expected = call(function, x)
        found = call(function, iv.asarray(x))
        if not shape and isinstance(expected, tuple) and not expected:
            continue
        same(tuple(found) if isinstance(expected, (list, tuple)) else found, expected)


CALLS = {
    "mean": lambda x, m: np.mean(m, axis=0),
    "mean, dtype": lambda x, m: np.mean(m, 0, "float32"),
    "sum": lambda x, m: np.sum(m, axis=1, keepdims=True, dtype=None, out=None),
    "sum, where": lambda x, m: np.sum(m, where=True),
    "std": lambda x, m: np.std(x, ddof=1),
    "max": lambda x, m: np.max(m, axis=(0, 1)),
    "amin": lambda x, m: np.amin(m, 1),
    "cumsum": lambda x, m: np.cumsum(m, axis=1),
    "clip": lambda x, m: np.clip(m, 0.0, None),
    "clip, max": lambda x, m: np.clip(m, max=0.5),
    "where": lambda x, m: np.where([True, False, True], x, 0.0),
    "dot": lambda x, m: np.dot(m, x),
    "einsum": lambda x, m: np.einsum("ij,j->i", m, x),
    "tensordot": lambda x, m: np.tensordot(m, x, axes=1),
    "transpose": lambda x, m: np.transpose(m),
    "swapaxes": lambda x, m: np.swapaxes(m, 0, 1),
    "ravel": lambda x, m: np.ravel(m),
    "vstack": lambda x, m: np.vstack([x, m]),
    "hstack": lambda x, m: np.hstack([x, x]),
    "stack": lambda x, m: np.stack([x[0], x[1]]),
    "concatenate": lambda x, m: np.concatenate([m, m], axis=1),
    "take": lambda x, m: np.take(m, [0, 2], axis=1),
    "sort": lambda x, m: np.sort(m, axis=0),
    "trace": lambda x, m: np.trace(m),
    "outer": lambda x, m: np.outer(x, x),
    "copy": lambda x, m: np.copy(m),
    "norm": lambda x, m: np.linalg.norm(m),
    "norm, ord": lambda x, m: np.linalg.norm(m, "nuc"),
    "solve": lambda x, m: np.linalg.solve(np.outer(x, x) + np.eye(3), x),
    "svd": lambda x, m: np.linalg.svd(m, full_matrices=False)[1],
    "fft": lambda x, m: np.real(np.fft.fft(m, n=4, axis=0)),
    "rfftn": lambda x, m: np.abs(np.fft.rfftn(m, axes=(0, 1))),
    "reduce": lambda x, m: np.add.reduce(m),
    "reduce, maximum": lambda x, m: np.maximum.reduce(m, axis=1, keepdims=True),
    "accumulate": lambda x, m: np.multiply.accumulate(m, axis=1),
    "outer of a ufunc": np.subtract.outer,
    "array + tensor": lambda x, m: np.ones(3) + x,
    "numpy scalar": lambda x, m: np.float64(2) * x,
    "matrix @": lambda x, m: np.ones((2, 3)) @ x,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    call = CALLS[name]
    x, m = iv.asarray(X, requires_grad=True), iv.asarray(M, requires_grad=True)
    found, expected = call(x, m), call(X, M)
    assert isinstance(found, iv.Tensor)
    assert found.requires_grad
    same(found.detach(), expected, dtype=found.dtype)
    step = 1e-6
    for leaf, values in ((x, X), (m, M)):
        direction = np.cos(np.arange(values.size)).reshape(values.shape)
        moved = [[v + s * step * direction if v is values else v for v in (X, M)] for s in (1, -1)]
        slope = (np.sum(call(*moved[0])) - np.sum(call(*moved[1]))) / (2 * step)
        if found.dtype == np.float64:
            assert abs((grad(found.sum(), leaf).to_dense().numpy() * direction).sum() - slope) < 1e-6


V, I = np.array([0.3, 0.9, 0.1, 0.9]), np.array([2, 0, 1, 1])
T, S = np.arange(12.0).reshape(3, 4) % 7, np.array([[3.0, 1, 0], [1, 4, 1], [0, 1, 5]])
#: What functions of any kind may be called with.
GIVEN = [
    (V,), (T,), (S,), (I,), (V, V), (T, T), (T, V), (V, 2), (T, 1), (T, 0, 1), (I, V), (V, 0.5), (T, (1, 0)),
    (T, [1, 2]), (T, 0), ([V, V],), (T, 2, 0), (V, 1, 2), (S, V[:3]), (I, 2), (V, [0.0, 0.5, 1.0]), (V, I),
    (T, I[None], 0),
]  # fmt: skip
#: Those that may differ: entries that nobody set, an order that the standard does not say, the residuals of
#: systems without full rank, which NumPy leaves out, and where entries are.
UNSAID = {"empty_like", "unique_values", "lstsq", "may_share_memory", "shares_memory"}


def _plain(x):
    if isinstance(x, (tuple, list)):
        return [part for one in x for part in _plain(one)]
    return [np.asarray(x.to_dense() if hasattr(x, "to_dense") else x)]


def _tensors(x):
    if isinstance(x, np.ndarray):
        return iv.asarray(x, copy=True)
    return [_tensors(part) for part in x] if isinstance(x, list) and isinstance(x[0], np.ndarray) else x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("space", [np, np.linalg, np.fft], ids=lambda space: space.__name__)
def test_whatever_numpy_can_be_called_with_gives_its_values_or_our_error(space):
    dispatched, compared = type(np.mean), 0
    for name, function in vars(space).items():
        if not isinstance(function, dispatched) or name in UNSAID or name in ("save", "savez", "savetxt"):
            continue
        for args in GIVEN:
            try:
                expected = function(*copy.deepcopy(args))
            except Exception:
                continue  # no call of this function
            if expected is None:
                continue  # it writes to its argument
            expected = _plain(expected)
            try:
                found = _plain(function(*map(_tensors, args)))
            except IversonError:
                continue
            except ValueError as error:  # NumPy writes to what was handed over
                if "read-only" not in str(error):
                    raise
                continue
            compared += 1
            assert [x.shape for x in found] == [x.shape for x in expected], name
            for x, y in zip(found, expected, strict=True):
                if y.dtype.kind in "biufc":
                    if name == "gradient":  # places that coincide: infinite or nan, by the order of steps
                        x, y = (np.where(np.isfinite(v), v, np.nan) for v in (x, y))
                    np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12, err_msg=name)
    assert compared > {"numpy": 700, "numpy.linalg": 60, "numpy.fft": 60}[space.__name__]


def test_numpys_files_are_numpys(tmp_path):
    np.save(tmp_path / "x.npy", iv.asarray(T))
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), T)
    with pytest.raises(GradientError, match="save"):
        np.save(tmp_path / "x.npy", iv.asarray(T, requires_grad=True))


def test_facts_and_comparisons_of_tracked_tensors():
    m = iv.asarray(M, requires_grad=True)
    assert (np.shape(m), np.ndim(m), np.size(m), np.size(m, 1)) == ((2, 3), 2, 6, 3)
    assert np.iscomplexobj(m) is False
    assert np.result_type(m, np.float32) == np.float64
    assert np.allclose(m, M)
    assert np.array_equal(m, M)
    assert [i.tolist() for i in np.where(m)] == [i.tolist() for i in np.where(M)]


def test_masked_and_sparse():
    m = iv.masked_tensor(X, [True, False, True])
    assert repr(np.sin(m)) == repr(iv.sin(m))
    assert repr(np.sum(m)) == repr(iv.sum(m))
    s = iv.to_sparse(iv.asarray(M))
    assert np.multiply(s, 2).layout == "coo"


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: np.add(x, x, out=np.ones(3)), ArgumentTypeError, "numpy.add: argument 'out'.*a = a . x"),
        (lambda x: np.ones(3).__iadd__(x), ArgumentTypeError, "numpy.add: argument 'out'"),
        (lambda x: np.sum(x, out=np.ones(())), ArgumentTypeError, "numpy.sum: argument 'out'"),
        (lambda x: np.sin(x, where=[True] * 3), ArgumentError, "numpy.sin: argument 'where'.*iverson.where"),
        (lambda x: np.sum(x, where=[True] * 3), ArgumentError, "numpy.sum: argument 'where'"),
        (lambda x: np.max(x, initial=3.0), ArgumentError, "numpy.max: argument 'initial'"),
        (lambda x: np.sort(x, kind="bogosort"), ArgumentError, "numpy.sort: argument 'kind'.*heapsort"),
        (
            lambda x: np.trace(np.stack([np.outer(x, x)] * 2)),
            IversonError,
            "numpy.trace: argument 'a'.*iverson.linalg",
        ),
        (np.sort_complex, GradientError, r"numpy.sort_complex: .*NumPy's alone; .*x.detach\(\)"),
        (np.frexp, GradientError, r"numpy.frexp: .*NumPy's alone; .*x.detach\(\)"),
    ],
)
def test_what_ours_has_not_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call(iv.asarray(X, requires_grad=True))


def test_what_only_numpy_has():
    """Without a gradient to lose, NumPy's own result."""
    x = iv.asarray(X)
    np.testing.assert_array_equal(np.frexp(x), np.frexp(X))
    np.testing.assert_array_equal(np.sort_complex(x), np.sort_complex(X))
    with pytest.raises(ArgumentTypeError, match=r"to_tensor\(fill\)"):
        np.sort_complex(iv.masked_tensor(X))


def everything():
    """Every function of NumPy's that takes an array."""
    for space in (np, np.linalg, np.fft, scipy.special):
        for name, value in vars(space).items():
            if name.startswith("_") or isinstance(value, type) or not callable(value):
                continue
            if isinstance(value, np.ufunc) or hasattr(value, "__wrapped__"):
                yield f"{space.__name__}.{name}", value


def test_no_function_detaches_in_silence():
    """Of a tracked tensor: a result that is tracked, or has no derivative, or an error."""
    x = iv.asarray(np.diag(X) + 1.0, requires_grad=True)
    #: Of shapes and dtypes alone, or rounded (distribution functions round the numbers that they count to).
    constant = {"zeros_like", "ones_like", "empty_like", "full_like", "fix", "round", "around"}
    constant |= {"sign", "floor", "floor_divide", "ceil", "trunc", "rint", "spacing", "nextafter"}
    constant |= {"pdtr", "pdtrc", "bdtr", "bdtrc", "bdtri"}
    #: One of several results: the quotient, which is rounded down, and the integer part.
    constant |= {"divmod[0]", "modf[1]"}
    lost = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        for name, function in everything():
            for args in ((x,), (x, x), ([x, x],), (x, 1), (x, 1, 0)):
                try:
                    result = function(*args)
                except Exception:
                    continue
                several = isinstance(result, tuple)
                for k, y in enumerate(result if several else (result,)):
                    dtype = getattr(
                        y, "dtype", np.dtype(type(y)) if isinstance(y, (float, complex)) else None
                    )
                    tracked = isinstance(y, iv.Tensor) and y.requires_grad
                    if isinstance(dtype, np.dtype) and dtype.kind in "fc" and not tracked:
                        lost.append(f"{name}{f'[{k}]' * several}: {type(y).__name__}")
    assert [n for n in lost if n.partition(":")[0].rpartition(".")[2] not in constant] == []


def test_what_numpy_says_of_functions_in_c_is_what_is_written_here():
    for name, ours in numpy_functions._IN_C.items():
        try:
            theirs = inspect.signature(getattr(np, name))
        except ValueError:
            pytest.skip("NumPy says it from 2.4 on")
        assert [(p.name, p.kind) for p in theirs.parameters.values()] == [
            (p.name, p.kind) for p in inspect.signature(ours).parameters.values()
        ], name
