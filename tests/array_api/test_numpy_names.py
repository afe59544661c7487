"""Functions of NumPy and PyTorch as compositions: derivatives and modes; and names that lead to others."""

from __future__ import annotations

import importlib
import importlib.util
import re
from functools import partial

import numpy as np
import pytest

import iverson as iv
from iverson.testing import gradcheck

RNG = np.random.default_rng(0)


def leaf(*shape):
    return iv.asarray(RNG.uniform(0.3, 2.0, shape), requires_grad=True)


DIFFERENTIABLE = {
    "append": lambda: (iv.append, leaf(2, 3), leaf(4)),
    "insert": lambda: (lambda x, v: iv.insert(x, 1, v, axis=1), leaf(2, 3), leaf(2)),
    "delete": lambda: (lambda x: iv.delete(x, [0, -1], axis=1), leaf(2, 4)),
    "hstack": lambda: (lambda x, y: iv.hstack([x, y]), leaf(2, 3), leaf(2, 1)),
    "column_stack": lambda: (lambda x, y: iv.column_stack([x, y]), leaf(3), leaf(3)),
    "fill_diagonal": lambda: (iv.fill_diagonal, leaf(3, 3), leaf()),
    "diag_embed": lambda: (lambda x: iv.diag_embed(x, offset=-1), leaf(2, 3)),
    "average": lambda: (lambda x, w: iv.average(x, 0, w), leaf(3, 2), leaf(3)),
    "ptp": lambda: (iv.ptp, leaf(4)),
    "heaviside": lambda: (iv.heaviside, leaf(3), leaf(3)),
    "lerp": lambda: (iv.lerp, leaf(3), leaf(3), leaf()),
    "fmax": lambda: (iv.fmax, leaf(4), leaf(4)),
    "polyval": lambda: (iv.polyval, leaf(4), leaf(3)),
    "vander": lambda: (lambda x: iv.vander(x, 4), leaf(3)),
    "gradient": lambda: (lambda x: iv.gradient(x, 0.5, axis=0), leaf(4, 2)),
    "unwrap": lambda: (lambda x: iv.unwrap(x * 9.0), leaf(5)),
    "cdist": lambda: (iv.cdist, leaf(3, 2), leaf(4, 2)),
    "dist": lambda: (partial(iv.dist, p=3.0), leaf(3), leaf(3)),
    "view_as_complex": lambda: (lambda x: iv.real(iv.view_as_complex(x) ** 2), leaf(3, 2)),
    "piecewise": lambda: (
        lambda x: iv.piecewise(x, [x < 1.0, x >= 1.0], [lambda x: x * x, iv.sin]),
        leaf(6),
    ),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name):
    f, *args = DIFFERENTIABLE[name]()
    assert gradcheck(f, tuple(args))
    loss = lambda *xs: (f(*xs) ** 2).sum()
    plain = [x.detach() for x in args]
    expected = iv.grad(loss, tuple(range(len(args))))(*plain)
    compiled = iv.jit(iv.grad(loss, tuple(range(len(args)))))(*plain)
    mapped = iv.vmap(iv.grad(loss, tuple(range(len(args)))))(*(iv.stack([x, x]) for x in plain))
    for a, b, c in zip(expected, compiled, mapped, strict=True):
        a = a.to_dense().numpy()
        np.testing.assert_allclose(b.to_dense().numpy(), a, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(c.to_dense().numpy()[1], a, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", range(18))
def test_piecewise_against_numpy(size):
    x = RNG.normal(size=size)
    cases = [
        ([x < 0, x >= 0], [-1.0, 1.0]),
        ([x < 0], [lambda x: -x, lambda x: x * 10.0]),
        ([x < 0.5, x > 0.2], [np.sin, lambda x: x * x]),
        ([x > 1], [3.0]),
    ]
    for conditions, functions in cases:
        found = iv.piecewise(iv.asarray(x), conditions, functions)
        np.testing.assert_allclose(found.numpy(), np.piecewise(x, conditions, functions), rtol=1e-14)


def test_a_branch_of_piecewise_that_is_not_taken_has_no_derivative():
    x = iv.asarray([0.0, 4.0])
    g = iv.grad(lambda x: iv.piecewise(x, [x > 1], [iv.sqrt, 0.0]).sum())(x)
    np.testing.assert_array_equal(g.numpy(), [0.0, 0.25])


def test_spaced_numbers_and_indices():
    np.testing.assert_allclose(iv.logspace(0, 3, 7).numpy(), np.logspace(0, 3, 7), rtol=1e-14)
    np.testing.assert_allclose(iv.geomspace(2, 50, 6).numpy(), np.geomspace(2, 50, 6), rtol=1e-14)
    shape = (3, 4, 2)
    numbers = np.arange(24).reshape(4, 6)
    parts = iv.unravel_index(iv.asarray(numbers), shape)
    for a, b in zip(parts, np.unravel_index(numbers, shape), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    np.testing.assert_array_equal(iv.ravel_multi_index(parts, shape).numpy(), numbers)
    compiled = iv.jit(lambda n: iv.ravel_multi_index(iv.unravel_index(n, shape), shape))
    np.testing.assert_array_equal(compiled(iv.asarray(numbers)).numpy(), numbers)
    with pytest.raises(iv.errors.IndexingError, match="unravel_index"):
        iv.unravel_index(iv.asarray([24]), shape)
    with pytest.raises(iv.errors.IndexingError, match="insert: argument 'index'"):
        iv.insert(iv.ones(3), 4, 1.0)
    with pytest.raises(iv.errors.IndexingError, match="delete: argument 'index'"):
        iv.delete(iv.ones(3), 3)


@pytest.mark.parametrize(
    ("space", "name", "text"),
    [
        ("nn", "BatchNorm2d", "iverson.nn.batch_norm"),
        ("nn", "ReLU", "iverson.nn.relu"),
        ("nn", "CrossEntropyLoss", "iverson.nn.cross_entropy"),
        ("nn", "LazyConv2d", "iverson.nn.conv2d"),
        ("nn", "ReflectionPad3d", "iverson.nn.pad"),
        ("nn", "Flatten", "iverson.flatten"),
        ("", "conv1d", "iverson.nn.conv1d"),
        ("", "slogdet", "iverson.linalg.slogdet"),
        ("", "polygamma", "iverson.special.polygamma"),
        ("", "relu_", "x = iverson.relu(x)"),
        ("", "squeeze_copy", "iverson.squeeze"),
        ("", "gcd", "not there, as integers have no derivatives"),
        ("", "quantize_per_tensor", "not there, as no dtype is quantised"),
        ("fft", "fft2", "iverson.fft.fftn with axes=(-2, -1)"),
        ("linalg", "pinverse", "iverson.linalg.pinv"),
        ("optim", "SparseAdam", "iverson.optim.Adam"),
        ("random", "randn", "iverson.random.default_rng(seed).normal"),
    ],
)
def test_absent_names_lead_to_what_is_there(space, name, text):
    owner = importlib.import_module(f"iverson.{space}") if space else iv
    with pytest.raises(AttributeError, match=re.escape(f"has no attribute '{name}'; here it is {text}")):
        getattr(owner, name)
    assert not hasattr(owner, "no_such_name_anywhere")


#: Of other libraries: their types of arguments, tests and set-up.
OF_NO_ARRAYS = {
    "Callable", "Optional", "Type", "assert_int_or_pair", "classproperty", "compiled_with_cxx11_abi",
    "factory_kwargs", "get_file_path", "get_include", "info", "module_load", "show_config", "show_runtime",
    "swap_in_optimizer_params_and_state", "test",
}  # fmt: skip


@pytest.mark.peers
def test_each_name_of_other_libraries_leads_somewhere():
    """It is here, or the error says what is, or why there is nothing."""
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    jax = pytest.importorskip("jax")
    x = iv.ones(3)
    for library, space in (
        (torch, iv), (torch.nn, iv.nn), (torch.nn.functional, iv.nn), (torch.linalg, iv.linalg),
        (torch.fft, iv.fft), (torch.special, iv.special), (torch.optim, iv.optim), (torch.Tensor, x),
        (jnp, iv), (jnp.linalg, iv.linalg), (jnp.fft, iv.fft), (jax.nn, iv.nn),
        (jax.scipy.special, iv.special), (jax.Array, x), (np, iv), (np.linalg, iv.linalg), (np.fft, iv.fft),
        (np.ndarray, x),
    ):  # fmt: skip
        names = [n for n in dir(library) if n[0] != "_" and callable(getattr(library, n, None))]
        silent = []
        for name in names:
            try:
                getattr(space, name)
            except AttributeError as error:
                if "here it is" not in str(error) and name not in OF_NO_ARRAYS:
                    silent.append(name)
        assert silent == [], library
