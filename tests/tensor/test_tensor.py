"""The Tensor handle: facts, conversion, printing, copying, operators with foreign operands."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse

import iverson as iv
from iverson import explain
from iverson.autograd import grad
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
    IversonError,
    ShapeError,
)
from iverson.layouts import has_one_owner


def test_facts():
    x = iv.asarray(np.zeros((2, 3), np.float32))
    assert (x.shape, x.ndim, x.size, x.dtype, x.nbytes) == ((2, 3), 2, 6, iv.float32, 24)
    assert (x.layout, x.device, x.requires_grad, x.is_leaf, x.grad) == ("strided", "cpu", False, True, None)
    assert x.T.shape == x.mT.shape == (3, 2)
    with pytest.raises(ShapeError, match="use mT"):
        iv.zeros((1, 2, 3)).T


REPRS = [
    (lambda: iv.asarray([1.0, 2.5]), "iverson.Tensor([1. , 2.5])"),
    (lambda: iv.asarray(3), "iverson.Tensor(3)"),
    (lambda: iv.asarray([1, 2], dtype="int8"), "iverson.Tensor([1, 2], dtype=int8)"),
    (lambda: iv.asarray([1.0], requires_grad=True), "iverson.Tensor([1.], requires_grad=True)"),
    (lambda: iv.zeros((0, 3)), "iverson.Tensor([], shape=(0, 3), dtype=float64)"),
    (
        lambda: grad(iv.asarray(0.0), iv.zeros(2, requires_grad=True)),
        "iverson.Tensor([0., 0.], layout='zero')",
    ),
    (lambda: iv.asarray([[True], [False]]), "iverson.Tensor([[ True],\n                [False]])"),
]


@pytest.mark.parametrize(("make", "expected"), REPRS)
def test_repr(make, expected):
    assert repr(make()) == expected


LARGE = {
    "strided": lambda x: x,
    **{name: lambda x, name=name: iv.to_layout(x, name) for name in ("coo", "csr", "csc")},
    **{name: lambda x, name=name: iv.to_layout(x, name, blocksize=(2, 2)) for name in ("bsr", "bsc")},
    "zero": lambda x: grad(iv.asarray(0.0), iv.zeros(x.shape, requires_grad=True)),
    "box": lambda x: grad(x.requires_grad_()[:150].sum(), x),
    "masked": lambda x: iv.masked_tensor(x, x.numpy() > 0),
    "masked coo": lambda x: iv.masked_tensor(x, iv.to_sparse(x > 0)),
}


@pytest.mark.parametrize("name", LARGE)
def test_no_repr_formats_more_than_it_shows(name):
    x = LARGE[name](iv.asarray(np.random.default_rng(0).standard_normal((200, 200))))
    texts = []
    with np.printoptions(formatter={"float_kind": lambda v: texts.append(v) or f"{v:.3f}"}):
        shown = repr(x)
    assert len(texts) <= 36
    assert len(shown) < 1000


def test_python_numbers():
    x = iv.asarray(2.5)
    assert (float(x), int(x), complex(x), x.item(), bool(x), f"{x:.2f}") == (
        2.5,
        2,
        2.5 + 0j,
        2.5,
        True,
        "2.50",
    )
    assert [10, 20, 30][iv.asarray(1)] == 20
    assert 2.5 in iv.asarray([1.0, 2.5])
    with pytest.raises(ArgumentError, match="use any\\(\\) or all\\(\\)"):
        bool(iv.zeros(2))
    with pytest.raises(ShapeError, match="exactly one entry"):
        iv.zeros(2).item()
    with pytest.raises(DTypeError, match="integer of rank 0"):
        [1][iv.asarray(0.0)]


def test_numpy_conversion_shares_memory_and_refuses_tracked_tensors():
    array = np.arange(3.0)
    x = iv.asarray(array)
    assert np.shares_memory(np.asarray(x), array)
    assert np.shares_memory(x.numpy(), array)
    assert not np.shares_memory(np.array(x), array)
    tracked = iv.asarray(array, requires_grad=True) * 2
    with pytest.raises(GradientError, match=r"test_tensor\.py:.*call x\.detach\(\) first"):
        np.asarray(tracked)


def test_dlpack_round_trip_and_negative_strides():
    x = iv.asarray(np.arange(3.0))
    np.testing.assert_array_equal(np.from_dlpack(x), [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(np.from_dlpack(x[::-1]), [2.0, 1.0, 0.0])
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(GradientError):
        np.from_dlpack(iv.zeros(2, requires_grad=True))


@pytest.mark.parametrize(
    "x",
    [
        iv.asarray(np.arange(3.0))[::-1],
        iv.eye(3).to_layout("csr"),
        iv.sparse_coo_tensor([[1]], [2.0], (3,)),
        iv.autograd.grad(iv.asarray(0.0), iv.zeros((3,), requires_grad=True)),
    ],
    ids=["negative strides", "csr", "coo", "zero"],
)
def test_memory_that_dlpack_cannot_share_is_a_buffer_error(x):
    """The array API's word for it, and an error of ours; a copy is given unless it is forbidden."""
    told = r"dlpack: argument 'copy': got False for (negative|layout)"
    for given in (lambda: x.__dlpack__(copy=False), lambda: np.from_dlpack(x, copy=False)):
        with pytest.raises(BufferError, match=told) as caught:
            given()
        assert isinstance(caught.value, ArgumentError)
    with pytest.raises(BufferError, match="from_dlpack"):
        iv.from_dlpack(x, copy=False)
    for also in (None, True):
        np.testing.assert_array_equal(np.from_dlpack(x, copy=also), x.to_dense().numpy())


@pytest.mark.peers
def test_torch_and_jax_take_our_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is a peer")
    x = iv.asarray(np.arange(3.0))
    np.testing.assert_array_equal(torch.from_dlpack(x[::-1]).numpy(), [2.0, 1.0, 0.0])
    jnp = pytest.importorskip("jax.numpy", reason="JAX is a peer")
    np.testing.assert_array_equal(np.asarray(jnp.asarray(np.asarray(x.astype(iv.float32)))), [0.0, 1.0, 2.0])
    assert iv.asarray(torch.ones(2)).tolist() == [1.0, 1.0]


def test_numpy_operands_defer_to_ours():
    x = iv.asarray([1.0, 2.0], requires_grad=True)
    for y in (np.array([3.0, 4.0]) * x, np.float64(3.0) * x, x * np.array([3.0, 4.0])):
        assert isinstance(y, iv.Tensor)
        assert y.requires_grad
    assert (
        (np.eye(2) @ x).tolist() == [1.0, 2.0]
        if not x.requires_grad
        else isinstance(np.eye(2) @ x, iv.Tensor)
    )
    with pytest.raises(TypeError):
        x + "a"
    with pytest.raises(TypeError):
        x + [1.0, 2.0]  # noqa: RUF005


def test_weak_scalars():
    x = iv.asarray(np.ones(2, np.float32))
    assert (x * 2.0).dtype == iv.float32
    assert (2**x).dtype == iv.float32
    assert (x + 1j).dtype == iv.complex64
    assert (iv.asarray([1, 2], dtype="int8") + 1).dtype == iv.int8
    with pytest.raises(ValueError, match="out of bounds"):
        iv.asarray([1], dtype="int8") + 1000


def test_pickle_and_copy():
    for x in (
        iv.asarray([1.0, 2.0], requires_grad=True),
        iv.asarray([1, 2]),
        grad(iv.asarray(0.0), iv.zeros(2, requires_grad=True)),
        grad((w := iv.zeros(3, requires_grad=True))[0] * 1.0, w),
    ):
        for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
            assert (y.layout, y.dtype, y.requires_grad) == (x.layout, x.dtype, x.requires_grad)
            np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy())
    x = iv.asarray([1.0], requires_grad=True)
    assert copy.copy(x * 2).requires_grad
    with pytest.raises(GradientError, match="detach"):
        pickle.dumps(x * 2)


def test_in_place_operators():
    x = iv.asarray([1.0, 2.0])
    y = x
    y += 1.0
    y *= 2.0
    assert x.tolist() == [4.0, 6.0]
    with pytest.raises(ShapeError, match=r"in-place add.*cannot grow"):
        x += iv.zeros((2, 2))
    with pytest.raises(DTypeError, match="in-place add"):
        x += 1j
    n = iv.asarray([1, 2])
    with pytest.raises(DTypeError, match="in-place divide"):
        n /= 2
    m = iv.asarray(np.eye(2))
    m @= iv.asarray(2 * np.eye(2))
    assert m.tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_requires_grad():
    with pytest.raises(DTypeError, match="floating dtype"):
        iv.asarray([1, 2]).requires_grad_()
    x = iv.zeros(2)
    x.requires_grad = True
    assert x.requires_grad
    assert not x.requires_grad_(False).requires_grad
    y = iv.zeros(2, requires_grad=True) * 2
    with pytest.raises(GradientError, match="detach"):
        y.requires_grad_(False)


def test_asarray():
    array = np.arange(3.0)
    assert np.shares_memory(iv.asarray(array).numpy(), array)
    assert not np.shares_memory(iv.asarray(array, copy=True).numpy(), array)
    with pytest.raises(ValueError, match="copy"):
        iv.asarray(array, dtype="float32", copy=False)
    with pytest.raises(DTypeError, match="float128"):
        iv.asarray(np.zeros(2, np.longdouble))
    with pytest.raises(DTypeError, match="object"):
        iv.asarray(np.array([None]))
    with pytest.raises(ValueError, match="asarray"):
        iv.asarray([[1], [1, 2]])
    with pytest.raises(ValueError, match="device"):
        iv.asarray(1.0, device="gpu")
    assert iv.asarray(np.arange(3, dtype=">f8")).dtype.isnative
    x = iv.asarray([1.0], requires_grad=True)
    assert iv.asarray(x) is x
    assert iv.asarray(x, dtype="float32").requires_grad
    assert iv.asarray([iv.asarray(1.0), 2.0]).tolist() == [1.0, 2.0]


def test_errors_are_ours_and_builtin_and_say_what_to_do():
    a, b = iv.zeros((2, 3)), iv.zeros((4, 5))
    with pytest.raises(ValueError, match=r"add: got shapes \(2, 3\), \(4, 5\); expected extents .*; reshape"):
        a + b
    with pytest.raises(ValueError, match=r"matmul: argument 'b': got shape \(4, 5\) .*; transpose"):
        a @ b
    with pytest.raises(TypeError, match="bitwise_and: argument 'x1': got dtype float64"):
        a & a
    error = ShapeError("op", "x", got="a", expected="b", remedy="c")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), type(again)) == (str(error), ShapeError)
    assert isinstance(error, ValueError)
    assert isinstance(error, IversonError)


def test_values_that_do_not_fit_are_our_errors():
    x = iv.asarray([1.0, 2.0])
    for other in (np.ones(2, np.longdouble), np.longdouble(1), np.array([None, None])):
        with pytest.raises(DTypeError, match="got dtype"):
            x + other
    with pytest.raises(DTypeError, match="float64 for entries of complex128"):
        iv.asarray(iv.asarray([1j]), dtype="float64")
    with pytest.raises(ValueError, match="out of bounds for int8"):
        iv.asarray([300], dtype="int8")
    with pytest.raises(DTypeError, match="float: argument 'x': got dtype complex128"):
        float(iv.asarray(1j))
    with pytest.raises(ShapeError, match="got 65 axes; expected at most 64"):
        iv.zeros((1,) * 65)


def test_bytes_taken_for_bools_are_made_bools():
    mask = np.full(600, 255, np.uint8).view(bool)
    x = iv.asarray(np.arange(600.0))
    np.testing.assert_array_equal(iv.where(iv.asarray(mask), x, -x).numpy(), np.arange(600.0))


def test_polygamma_keeps_single_precision():
    x = iv.asarray(np.ones(3, "float32"), requires_grad=True)
    with explain.count() as work:
        g = grad(iv.lgamma(x).sum(), x, create_graph=True)
        grad(g.sum(), x)
    assert not work.casts


def test_one_owner_is_told_from_two():
    def owned(slot):
        array = slot[0]
        return has_one_owner(array)

    slot = [np.empty(3)]
    assert owned(slot)
    other = slot[0]
    assert not owned(slot)
    del other
    assert owned(slot)
    view = slot[0][1:]
    assert not owned(slot)
    del view


def test_out_of_memory_is_a_memory_error_that_names_the_operation():
    x = iv.asarray(np.ones(2**24, np.int8))
    with pytest.raises(MemoryError, match=r"multiply: got int8 of shape \(16777216, 1\).*nable to allocate"):
        iv.expand_dims(x, axis=1) * x


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *((name, ((2**30, 2**25),)) for name in ("zeros", "ones", "empty")),
        ("full", ((2**30, 2**25), 1.0)),
        ("arange", (2.0**55,)),
        ("linspace", (0.0, 1.0, 2**55)),
        ("eye", (2**28,)),
    ],
)
def test_what_does_not_fit_into_memory_is_said_by_the_function_that_makes_it(name, args):
    """More than the addresses that a process has: nothing is allocated before."""
    with pytest.raises(
        iv.errors.OutOfMemoryError, match=rf"^{name}: got shape .*; expected an array that fits"
    ):
        getattr(iv, name)(*args)


def test_sequences_of_tracked_tensors_are_stacked():
    x = iv.asarray([1.0, 2.0, 4.0], requires_grad=True)
    y = iv.asarray([[x[0], 3], [x[1] * x[1], x[0]]])
    assert y.tolist() == [[1.0, 3.0], [4.0, 1.0]]
    np.testing.assert_array_equal(grad((y * y).sum(), x).to_dense().numpy(), [4.0, 32.0, 0.0])
    rows = iv.asarray((x, [1, 2, 3]), dtype="float32")
    assert (rows.shape, rows.dtype, rows.requires_grad) == ((2, 3), iv.float32, True)
    single = iv.asarray([1.0], dtype="float32", requires_grad=True)
    assert iv.asarray([single[0], 0.5]).dtype == iv.float32  # Python's numbers are weak
    with pytest.raises(ArgumentError, match="a sequence is copied"):
        iv.asarray([x[0]], copy=False)
    with pytest.raises(ShapeError, match="stack"):
        iv.asarray([x, x[0]])


@pytest.mark.parametrize("kind", ["csr_array", "coo_array", "csc_matrix", "bsr_array", "dia_array"])
@pytest.mark.parametrize(
    "call",
    [
        iv.asarray,
        lambda a: iv.asarray([a]),
        iv.sum,
        lambda a: iv.matmul(iv.ones((2, 3)), a),
        lambda a: iv.linalg.cg(a, iv.ones(3)),
        iv.grad(iv.sum),
        iv.jit(iv.sum),
    ],
)
def test_errors_say_how_matrices_of_scipy_come_in(kind, call):
    a = getattr(scipy.sparse, kind)(np.eye(3))
    with pytest.raises(ArgumentTypeError, match=rf"a {kind} of scipy.*convert it with iverson.from_scipy$"):
        call(a)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (None, "got None"),
        ([1, None], "a list with an entry that is None"),
        ({1: 2}, "got a dict"),
    ],
)
def test_what_is_no_number_is_named(given, what):
    with pytest.raises(ArgumentTypeError, match=what):
        iv.asarray(given)


@pytest.mark.peers
def test_errors_say_how_tensors_of_torch_come_in():
    torch = pytest.importorskip("torch")
    tracked, sparse = torch.ones(3, requires_grad=True), torch.eye(3).to_sparse()
    for call in (lambda: iv.asarray(tracked), lambda: iv.asarray(sparse), lambda: iv.add(1.0, torch.ones(3))):
        with pytest.raises(
            (ArgumentError, ArgumentTypeError),
            match=r"a Tensor of torch .*iverson\.interop\.torch\.from_torch$",
        ):
            call()
