"""Growth stays cheap: a new op is one record, a new layout one registration. Nothing else is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from iverson.autograd import grad
from iverson.core.aval import Aval
from iverson.core.op import Op, Sample
from iverson.core.shapes import broadcast_shapes
from iverson.handles import Tensor, asarray
from iverson.kernels import register as register_kernel
from iverson.kernels.kernel_registry import registered, replace_kernels
from iverson.layouts import Layout, layouts_by_type
from iverson.layouts import register as register_layout
from iverson.ops import F, defined
from iverson.ops.rules.entry_maps import Elementwise
from iverson.testing import gradcheck, gradgradcheck
from iverson.transforms import hessian, jvp

# -- an op ---------------------------------------------------------------------------------------

CUBE_PLUS = Op(
    name="cube_plus",
    forward=lambda x, y: x**3 + y,
    abstract=lambda x, y: Aval(broadcast_shapes("cube_plus", x.shape, y.shape), x.dtype),
    vjp=(
        lambda F, g, _out, x, _y: F.sum_to(3 * x * x * g, x.shape),
        lambda F, g, _out, _x, _y: F.sum_to(g, _y.shape),
    ),
    jvp=(lambda F, t, _out, x, _y: 3 * x * x * t, lambda F, t, _out, _x, _y: t),
    entry_map=Elementwise(keeps_zeros=True),
    samples=lambda s: [Sample((s((2, 3)), s((3,))))],
)


@pytest.fixture
def cube_plus() -> Iterator[Op]:
    with defined(CUBE_PLUS) as op:
        yield op


def test_a_new_op_is_one_record(cube_plus):
    x, y = (asarray(a, requires_grad=True) for a in next(iter(cube_plus.samples(_sampler()))).args)
    assert gradcheck(F.cube_plus, (x, y))
    assert gradgradcheck(F.cube_plus, (x, y))
    # It works in transforms, and with layouts it has never heard of.
    np.testing.assert_allclose(
        hessian(lambda x: F.cube_plus(x, 0.0 * x).sum())(asarray([1.0, 2.0])).numpy(),
        np.diag([6.0, 12.0]),
    )
    zero = F.zero((3,), np.dtype("float64"))
    assert F.cube_plus(zero, zero).layout == "zero"


def _sampler() -> Any:
    from iverson.core.op import Sampler

    return Sampler(0)


densifies = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")

# -- a layout: one entry per row is stored ---------------------------------------------------------


class OnePerRow:
    """Row i of a matrix of zeros holds ``values[i]`` in column ``columns[i]``."""

    def __init__(self, shape: tuple[int, int], columns: Any, values: Any) -> None:
        self.shape = shape
        self.columns = columns
        self.values = values

    @property
    def dtype(self) -> Any:
        return self.values.dtype


def to_dense(x: OnePerRow) -> Any:
    out = np.zeros(x.shape, x.dtype)
    out[np.arange(x.shape[0]), x.columns] = x.values
    return out


def check(x: OnePerRow) -> None:
    assert x.columns.shape == x.values.shape == (x.shape[0],)
    assert ((x.columns >= 0) & (x.columns < x.shape[1])).all()


@pytest.fixture
def one_per_row() -> Iterator[list[str]]:
    ran: list[str] = []
    register_layout(
        Layout(
            name="one_per_row",
            kind=OnePerRow,
            to_strided=to_dense,
            check=check,
            buffers=lambda x: (x.columns, x.values),
            rebuild=lambda x, buffers: OnePerRow(x.shape, *buffers),
        )
    )

    @register_kernel("elementwise", OnePerRow)
    def elementwise(op: Op, values: tuple[Any, ...], params: dict[str, Any]) -> Any:
        (x, *rest) = values
        if rest or not (op.zero_preserving or op.linear_in):
            return NotImplemented
        ran.append(op.name)
        return OnePerRow(x.shape, x.columns, op.forward(x.values, **params))

    @register_kernel("matmul", OnePerRow)
    def matmul(op: Op, values: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x, b = values
        if type(x) is not OnePerRow or type(b) is not np.ndarray:
            return NotImplemented
        ran.append(op.name)
        return x.values[:, None] * b[x.columns]

    yield ran
    del layouts_by_type[OnePerRow]
    replace_kernels({key: kernel for key, kernel in registered().items() if key[1] is not OnePerRow})


@densifies
def test_a_new_layout_is_one_registration(one_per_row):
    rng = np.random.default_rng(0)
    held = OnePerRow((4, 5), np.array([1, 0, 4, 1]), rng.standard_normal(4))
    dense = to_dense(held)
    x, d = Tensor(held), asarray(dense)
    b = asarray(rng.standard_normal((5, 3)))
    assert x.layout == "one_per_row"
    for f in (F.sin, lambda x: -x, lambda x: F.matmul(x, b), lambda x: F.permute_dims(x, axes=(1, 0))):
        np.testing.assert_allclose(f(x).numpy(), f(d).numpy(), rtol=1e-14)
    assert one_per_row == ["sin", "negative", "matmul"]
    assert F.sin(x).layout == "one_per_row"


@densifies
def test_a_new_layout_differentiates_and_accumulates(one_per_row):
    rng = np.random.default_rng(0)
    held = OnePerRow((4, 5), np.array([1, 0, 4, 1]), rng.standard_normal(4))
    b = asarray(rng.standard_normal((5, 3)))

    def f(x: Any) -> Any:
        return F.matmul(F.sin(x), b) * 2.0

    x, d = (Tensor(v).requires_grad_() for v in (held, to_dense(held)))
    g = asarray(rng.standard_normal((4, 3)))
    np.testing.assert_allclose(grad(f(x), x, g).numpy(), grad(f(d), d, g).numpy(), rtol=1e-14)
    t = Tensor(held)
    _, pushed = jvp(f, (Tensor(held),), (t,))
    _, expected = jvp(f, (asarray(to_dense(held)),), (asarray(to_dense(held)),))
    np.testing.assert_allclose(pushed.numpy(), expected.numpy(), rtol=1e-14)


def test_a_layout_without_a_kernel_densifies_with_a_warning(one_per_row):
    from iverson.core.errors import DensifyWarning

    held = OnePerRow((2, 3), np.array([1, 0]), np.ones(2))
    with pytest.warns(DensifyWarning, match="exp: no kernel for layout 'one_per_row'"):
        F.exp(Tensor(held))
