"""Shape functions against NumPy: they move entries of any dtype and change none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson.core.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError, ShapeError
from tests.array_api.common import draw, same
from tests.conformance.product import examples

X = (2, 3, 4)
#: name: (shape, call, oracle); the call is written once and run for both namespaces.
CASES = {
    "reshape": [
        (X, lambda f, x: f(x, (4, 6))),
        (X, lambda f, x: f(x, (-1, 2))),
        ((), lambda f, x: f(x, (1, 1))),
        ((0, 3), lambda f, x: f(x, (3, 0))),
        (X, lambda f, x: f(x, -1)),
    ],
    "permute_dims": [
        (X, lambda f, x: f(x, (2, 0, 1))),
        (X, lambda f, x: f(x, (-1, 0, -2))),
        ((), lambda f, x: f(x, ())),
    ],
    "matrix_transpose": [(X, lambda f, x: f(x)), ((0, 2), lambda f, x: f(x))],
    "moveaxis": [
        (X, lambda f, x: f(x, 0, -1)),
        (X, lambda f, x: f(x, (0, 2), (1, 0))),
        (X, lambda f, x: f(x, [1], [0])),
    ],
    "expand_dims": [
        (X, lambda f, x: f(x, axis=0)),
        (X, lambda f, x: f(x, axis=-1)),
        (X, lambda f, x: f(x, axis=(0, -2))),
        ((), lambda f, x: f(x, axis=0)),
    ],
    "squeeze": [
        ((2, 1, 3, 1), lambda f, x: f(x, axis=1)),
        ((2, 1, 3, 1), lambda f, x: f(x, axis=(1, -1))),
        ((2, 1, 3, 1), lambda f, x: f(x)),
        ((), lambda f, x: f(x)),
    ],
    "broadcast_to": [
        ((3, 1), lambda f, x: f(x, (2, 3, 4))),
        ((), lambda f, x: f(x, (2, 0))),
        ((3,), lambda f, x: f(x, (3,))),
    ],
    "flip": [
        (X, lambda f, x: f(x)),
        (X, lambda f, x: f(x, axis=(0, -1))),
        (X, lambda f, x: f(x, axis=1)),
        ((), lambda f, x: f(x)),
    ],
    "roll": [
        (X, lambda f, x: f(x, 5)),
        (X, lambda f, x: f(x, -1, axis=1)),
        (X, lambda f, x: f(x, (1, 2), axis=(0, -1))),
        (X, lambda f, x: f(x, (1, 2), axis=(1, 1))),
        (X, lambda f, x: f(x, 1, axis=(0, 1))),
        ((0,), lambda f, x: f(x, 1)),
    ],
    "tile": [
        ((2, 3), lambda f, x: f(x, (2, 2))),
        ((3,), lambda f, x: f(x, (2, 1, 2))),
        (X, lambda f, x: f(x, (2,))),
        ((2, 3), lambda f, x: f(x, (0, 1))),
        ((), lambda f, x: f(x, (3,))),
    ],
    "repeat": [
        ((2, 3), lambda f, x: f(x, 2)),
        ((2, 3), lambda f, x: f(x, 2, axis=1)),
        ((2, 3), lambda f, x: f(x, 0, axis=0)),
        ((2, 3), lambda f, x: f(x, np.array([1, 0, 2]), axis=-1)),
        ((2, 3), lambda f, x: f(x, np.array([3]), axis=0)),
        ((), lambda f, x: f(x, 3)),
    ],
    "diagonal": [
        ((3, 4), lambda f, x: f(x, offset=1)),
        ((2, 3, 4), lambda f, x: f(x, offset=-1)),
        ((2, 3), lambda f, x: f(x, offset=9)),
    ],
    "tril": [
        ((3, 4), lambda f, x: f(x)),
        ((2, 3, 4), lambda f, x: f(x, k=1)),
        ((3, 3), lambda f, x: f(x, k=-2)),
    ],
    "triu": [
        ((3, 4), lambda f, x: f(x)),
        ((2, 3, 4), lambda f, x: f(x, k=1)),
        ((3, 3), lambda f, x: f(x, k=-2)),
    ],
    "concat": [
        (X, lambda f, x: f([x, x], axis=1)),
        (X, lambda f, x: f((x, x[:1]), axis=0)),
        (X, lambda f, x: f([x, x], axis=None)),
        ((0, 3), lambda f, x: f([x, x], axis=-1)),
        ((), lambda f, x: f([x, x], axis=None)),
    ],
    "stack": [
        (X, lambda f, x: f([x, x], axis=1)),
        (X, lambda f, x: f((x, x), axis=-1)),
        ((), lambda f, x: f([x, x, x])),
    ],
    "unstack": [(X, lambda f, x: f(x)), (X, lambda f, x: f(x, axis=-1)), ((0, 2), lambda f, x: f(x))],
    "split": [
        ((6, 2), lambda f, x: f(x, 3)),
        ((2, 6), lambda f, x: f(x, 2, axis=-1)),
        ((6, 2), lambda f, x: f(x, [1, 4])),
        ((6, 2), lambda f, x: f(x, [2, 2, 9])),
        ((6, 2), lambda f, x: f(x, (-2,))),
        ((0, 2), lambda f, x: f(x, 2)),
    ],
    "pad": [
        ((2, 3), lambda f, x: f(x, 1)),
        ((2, 3), lambda f, x: f(x, (1, 2))),
        ((2, 3), lambda f, x: f(x, ((0, 0), (2, 1)))),
        ((2, 3), lambda f, x: f(x, 1, "constant", constant_values=3)),
        ((2, 3), lambda f, x: f(x, ((1, 0), (5, 7)), "reflect")),
        ((2, 3), lambda f, x: f(x, 2, "edge")),
        ((2, 3), lambda f, x: f(x, (4, 5), mode="wrap")),
        ((0, 2), lambda f, x: f(x, 1)),
        ((3,), lambda f, x: f(x, (1, 2), "reflect")),
        ((2, 3), lambda f, x: f(x, 0)),
        ((2, 3), lambda f, x: f(x, 0, "edge")),
    ],
    "diff": [
        ((5,), lambda f, x: f(x)),
        ((2, 4), lambda f, x: f(x, n=2)),
        ((2, 4), lambda f, x: f(x, axis=0)),
        ((2, 4), lambda f, x: f(x, n=0)),
        *[
            ((2, 4), lambda f, x, n=n: f(x, n=n, prepend=x[:, :1], append=x))  # none at all for n=0
            for n in range(4)
        ],
        ((2, 1), lambda f, x: f(x, n=3)),
    ],
    "broadcast_arrays": [((2, 1), lambda f, x: f(x, np.ones((1, 3)), np.ones(())))],
    "meshgrid": [
        ((3,), lambda f, x: f(x, x[:2])),
        ((3,), lambda f, x: f(x, x[:2], indexing="ij")),
        ((3,), lambda f, x: f(x)),
        ((2,), lambda f, x: f(x, np.ones(3), x, indexing="xy")),
        ((), lambda f, x: f(x, np.ones(2))),
        ((), lambda f, x: f()),
    ],
}
NUMPY = {
    "unstack": lambda x, axis=0: tuple(np.moveaxis(x, axis, 0)),
    "diagonal": lambda x, offset=0: np.diagonal(x, offset, -2, -1),
}
SEQUENCES = {"concat", "stack", "broadcast_arrays", "meshgrid"}
NOT_BOOL = {"diff"}


def test_variadic_methods():
    x = iv.asarray(draw((2, 3)))
    assert x.reshape(3, 2).shape == x.reshape((3, 2)).shape == (3, 2)
    assert x.reshape(-1).shape == (6,)
    assert x.permute_dims(1, 0).shape == (3, 2)
    assert x.broadcast_to(4, 2, 3).shape == (4, 2, 3)
    assert x.tile(2, 2).shape == (4, 6)


def test_mixed_dtypes():
    a, b = np.ones(2, "int32"), np.ones(3, "float32")
    same(iv.concat([a, b]), np.concat([a, b]))
    same(iv.stack([a, np.ones(2, "int8")]), np.stack([a, np.ones(2, "int8")]))


def test_broadcast_shapes():
    assert iv.broadcast_shapes() == ()
    assert iv.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert iv.broadcast_shapes((0,), 1) == (0,)
    with pytest.raises(ShapeError, match=r"broadcast_shapes.*\(2,\), \(3,\)"):
        iv.broadcast_shapes((2,), (3,))


def test_reshape_copies_only_when_told():
    x = iv.asarray(draw((2, 3)))
    assert np.shares_memory(iv.reshape(x, (6,)).numpy(), x.numpy())
    assert np.shares_memory(iv.reshape(x, (6,), copy=False).numpy(), x.numpy())
    assert not np.shares_memory(iv.reshape(x, (6,), copy=True).numpy(), x.numpy())
    with pytest.raises(ArgumentError, match="reshape: argument 'copy'"):
        iv.reshape(x.T, (6,), copy=False)


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_pad_and_back(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=4))
    widths = [tuple(data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))) for _ in shape]
    moved = ["constant", "edge", "reflect", "symmetric", "wrap"]
    statistics = ["maximum", "mean", "median", "minimum"]
    mode = data.draw(st.sampled_from([*moved, *statistics, "linear_ramp"]))
    options = {}
    if mode in statistics:
        options["stat_length"] = data.draw(st.none() | st.integers(1, 5))
    if mode == "linear_ramp":
        options["end_values"] = data.draw(st.integers(-3, 3))
    dtype = data.draw(st.sampled_from(["float64", "float32", "int64"]))
    x = draw(shape, dtype)
    same(iv.pad(x, widths, mode, **options), np.pad(x, widths, mode, **options))


def test_a_ramp_of_integers_rounds_as_numpys():
    x = np.array([49, 7, -49])  # quotients that are whole must stay so
    same(iv.pad(x, 49, "linear_ramp"), np.pad(x, 49, "linear_ramp"))


PAD_MODES = ("edge", "symmetric", "linear_ramp", "maximum", "mean", "median", "minimum")


@pytest.mark.parametrize("mode", PAD_MODES)
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
def test_pad_of_sparse_and_masked(mode):
    entries = np.array([[1.0, 0.0, 3.0], [0.0, 0.0, 5.0]])
    x = iv.to_layout(iv.asarray(entries), "csr")
    same(iv.to_layout(iv.pad(x, 1, mode), "strided"), np.pad(entries, 1, mode))
    row = iv.masked_tensor([4.0, 9.0, 2.0], [True, False, True])
    expected = np.pad([4.0, 2.0], 1, mode).tolist()  # unspecified entries are in no statistic
    assert iv.pad(row, 1, mode).tolist() == [*expected[:2], None, *expected[2:]]


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_axes_move_and_come_back(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=3))
    order = data.draw(st.permutations(range(len(shape))))
    x = draw(shape)
    same(iv.permute_dims(iv.permute_dims(x, order), np.argsort(order).tolist()), x)
    source = data.draw(st.lists(st.integers(-len(shape), -1), unique=True))
    target = data.draw(st.permutations(range(len(shape))))[: len(source)]
    same(iv.moveaxis(x, source, target), np.moveaxis(x, source, target))


ERRORS = [
    (
        lambda x: iv.reshape(x, (4,)),
        ShapeError,
        r"reshape: argument 'shape': got \(4,\); expected .* 6 entries",
    ),
    (lambda x: iv.reshape(x, (-1, -1)), ShapeError, "at most one -1"),
    (lambda x: iv.reshape(x, (2.0, 3)), ArgumentTypeError, "expected an integer"),
    (lambda x: iv.permute_dims(x, (0, 0)), AxisError, "each of 2 axes once"),
    (lambda x: iv.permute_dims(x, (0, 2)), AxisError, r"got 2; expected an integer in \[-2, 2\)"),
    (lambda x: iv.moveaxis(x, 0, (0, 1)), ArgumentError, "one for each in source"),
    (lambda x: iv.expand_dims(x, 4), AxisError, r"\[-3, 3\)"),
    (lambda x: iv.squeeze(x, 0), ShapeError, "axes of extent 1"),
    (lambda x: iv.broadcast_to(x, (3,)), ShapeError, "broadcast_to"),
    (lambda x: iv.broadcast_to(x, (4, 3)), ShapeError, "broadcast_to"),
    (lambda x: iv.broadcast_arrays(x, np.ones(4)), ShapeError, "broadcast_arrays"),
    (
        lambda x: iv.concat([x, np.ones((2, 4))]),
        ShapeError,
        r"concat: argument 'arrays\[1\]': got shape \(2, 4\)",
    ),
    (lambda x: iv.concat([x, np.ones(3)]), ShapeError, "2 axes"),
    (lambda x: iv.concat([]), ArgumentError, "at least one"),
    (iv.concat, ArgumentTypeError, "a sequence of arrays"),
    (lambda x: iv.concat([x, [1.0]]), ArgumentTypeError, r"arrays\[1\].*list"),
    (lambda x: iv.concat([np.ones(())] * 2), AxisError, "rank 0"),
    (lambda x: iv.stack([x, np.ones(3)]), ShapeError, r"stack: argument 'arrays\[1\]'"),
    (lambda x: iv.stack([x], axis=3), AxisError, r"\[-3, 3\)"),
    (lambda x: iv.unstack(x, axis=2), AxisError, "unstack"),
    (lambda x: iv.split(x, 2, axis=1), ArgumentError, "a number that divides it; use array_split"),
    (lambda x: iv.split(x, [2, 1]), ArgumentError, "increasing"),
    (lambda x: iv.roll(x, (1, 2), axis=0), ArgumentError, "one for each axis"),
    (lambda x: iv.tile(x, (-1,)), ShapeError, "non-negative"),
    (lambda x: iv.repeat(x, -1), ArgumentError, "none of them negative"),
    (lambda x: iv.repeat(x, np.array([1, 2]), axis=1), ShapeError, "3 of them"),
    (lambda x: iv.repeat(x, 1.5), ArgumentError, "integers"),
    (lambda x: iv.pad(x, 1, "mirror"), ArgumentError, "one of"),
    (lambda x: iv.pad(x, None), ArgumentTypeError, "pad: argument 'pad_width'"),
    (lambda x: iv.pad(x, 1, "empty"), ArgumentError, "one of"),
    (lambda x: iv.pad(x, 1, "mean", stat_length=0), ArgumentError, "stat_length.*at least 1"),
    (lambda x: iv.pad(x, 1, "linear_ramp", end_values=1j), ArgumentTypeError, "end_values"),
    (lambda x: iv.pad(np.ones(2, complex), 1, "median"), DTypeError, "pad"),
    (lambda x: iv.pad(np.ones((0,)), 1, "mean"), ArgumentError, "entries on axis 0"),
    (lambda x: iv.pad(x, -2), ShapeError, "no more taken away"),
    (lambda x: iv.pad(x, ((1, 1),) * 3), ShapeError, "2 pairs"),
    (lambda x: iv.pad(np.ones((0,)), 1, "edge"), ArgumentError, "entries on axis 0"),
    (lambda x: iv.pad(np.ones(2, int), 1, constant_values=1.5), ArgumentError, "int64 can hold"),
    (lambda x: iv.diff(x, n=-1), ArgumentError, "a number of times"),
    (lambda x: iv.diagonal(np.ones(3)), ShapeError, "at least two axes"),
    (lambda x: iv.matrix_transpose(np.ones(3)), ShapeError, "at least two axes"),
    (lambda x: iv.tril(np.ones(3)), ShapeError, "at least two axes"),
    (iv.meshgrid, ShapeError, "a vector"),
    (lambda x: iv.meshgrid(np.ones(2), indexing="yx"), ArgumentError, "one of"),
    (lambda x: iv.flip([1.0]), ArgumentTypeError, "iverson.asarray"),
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call(iv.ones((2, 3)))
