"""The engine's contracts: graphs, needs, memory, hooks, threads of control, errors."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function, backward, enable_grad, grad, no_grad, set_grad_enabled
from iverson.core.counting import work
from iverson.core.errors import GradientError, MissingRuleError, ShapeError
from iverson.ops import override_vjp

rng = np.random.default_rng(1)


def leaf(*shape: int):
    return iv.asarray(rng.standard_normal(shape), requires_grad=True)


def test_a_hundred_thousand_chained_ops_differentiate_and_are_freed():
    x = iv.asarray(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    assert grad(y, x).item() == 1.0
    del y  # freeing the chain must not recurse either


def test_memory_is_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        x = leaf(10)
        y = iv.exp(iv.sin(x) * x)
        node = weakref.WeakSet()
        alive = [weakref.ref(y)]
        first = grad(y.sum(), x, create_graph=True)
        second = grad(first.sum(), x)
        alive += [weakref.ref(first), weakref.ref(second), weakref.ref(x)]
        del x, y, first, second, node
        assert [r() for r in alive] == [None] * 4
        assert gc.collect() == 0 or not any(type(o).__name__ in ("Node", "Tensor") for o in gc.garbage)
    finally:
        gc.enable()


def test_a_function_that_saves_its_result_makes_no_cycle():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = iv.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    gc.collect()
    gc.disable()
    try:
        x = leaf(3)
        y = Exp.apply(x)
        np.testing.assert_allclose(grad(y.sum(), x).numpy(), y.detach().numpy())
        buffer = weakref.ref(y._value)
        del y
        assert buffer() is None
    finally:
        gc.enable()


def test_second_derivative_through_a_saved_result():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = iv.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(3)
    first = grad(Exp.apply(x).sum(), x, create_graph=True)
    second = grad(first.sum(), x, create_graph=True)
    np.testing.assert_allclose(second.detach().numpy(), np.exp(x.detach().numpy()), rtol=1e-14)


def test_intermediate_inputs_stop_the_pass():
    x = leaf(3)
    middle = iv.sin(x)
    y = (middle * middle).sum()
    with work.counting() as done:
        g = grad(y, middle)
    np.testing.assert_allclose(g.numpy(), 2 * middle.detach().numpy())
    assert "sin" not in done.rules


def test_unused_inputs():
    x, z = leaf(2), leaf(3)
    y = (x * x).sum()
    assert grad(y, z).layout == "zero"
    assert grad(y, z).shape == (3,)
    assert grad(y, [x, z], unused="none")[1] is None
    with pytest.raises(GradientError, match=r"inputs\[0\].*do not depend"):
        grad(y, z, unused="error")
    with pytest.raises(ValueError, match="unused"):
        grad(y, z, unused="maybe")


@pytest.mark.parametrize("asked", ["x", "y", "values", "x y values"])
def test_outputs_are_pulled_back_together_as_one_by_one(asked):
    """Also what is given twice, comes from another that is given, is asked for itself, or leads nowhere."""
    x, other = leaf(3, 3), leaf(2)
    y = iv.sin(x)
    values, vectors = iv.linalg.eigh(y + y.mT)
    outputs = [y, other * 2, y, values, y @ y, vectors**2, values, x, x]
    seeds = [iv.asarray(rng.standard_normal(z.shape)) for z in outputs]
    asked = [{"x": x, "y": y, "values": values}[name] for name in asked.split()]
    one_by_one = [grad([z], asked, [g]) for z, g in zip(outputs, seeds, strict=True)]
    for found, *parts in zip(grad(outputs, asked, seeds), *one_by_one, strict=True):
        np.testing.assert_allclose(found.numpy(), sum(p.to_dense().numpy() for p in parts), atol=1e-12)


def test_constant_output_gives_zero_not_an_error():
    x = leaf(2)
    g = grad(iv.asarray(1.0), x)
    assert g.layout == "zero"


def test_grad_outputs_are_never_broadcast():
    x = leaf(3)
    with pytest.raises(ShapeError, match=r"grad: argument 'grad_outputs': got shape \(\)"):
        grad(x * 2, x, iv.asarray(1.0))
    with pytest.raises(GradientError, match="cotangent for every output"):
        grad(x * 2, x)


def test_backward_adds_up_and_takes_inputs():
    x, w = leaf(3), leaf(3)
    loss = (x * w).sum()
    backward(loss)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * w.detach().numpy())
    x.grad = w.grad = None
    loss.backward(inputs=[w])
    assert x.grad is None
    np.testing.assert_allclose(w.grad.numpy(), x.detach().numpy())
    with pytest.raises(GradientError, match="does not depend"):
        iv.asarray(1.0).backward()


def test_retain_grad_and_hooks():
    x = leaf(3)
    middle = x * 2
    middle.retain_grad()
    seen = []
    handle = middle.register_hook(lambda g: seen.append(g.numpy().copy()))
    doubling = x.register_hook(lambda g: g * 10)
    middle.sum().backward()
    np.testing.assert_array_equal(middle.grad.numpy(), np.ones(3))
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 20.0))
    np.testing.assert_array_equal(seen, [np.ones(3)])
    handle.remove()
    doubling.remove()
    x.grad = None
    middle.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))
    assert len(seen) == 1


def test_a_hook_cannot_change_the_shape():
    x = leaf(3)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(GradientError, match="hook"):
        (x * 2).sum().backward()


def test_no_grad_and_detach():
    x = leaf(3)
    with no_grad():
        assert not (x * 2).requires_grad
    assert not x.detach().requires_grad
    assert (x * x.detach()).requires_grad


def test_errors_in_backward_name_the_op_and_the_users_line():
    x = leaf(3)
    with override_vjp("sin", lambda F, g, y, x: 1 // 0):
        y = iv.sin(x).sum()  # the recorded line
        with pytest.raises(ZeroDivisionError) as caught:
            grad(y, x)
    (note,) = caught.value.__notes__
    assert "'sin'" in note
    assert "test_engine.py:" in note
    line = int(note.rsplit(":", 1)[1])
    assert "the recorded line" in Path(__file__).read_text().splitlines()[line - 1]


def test_a_rule_of_the_wrong_shape_is_an_error_not_a_broadcast():
    x = leaf(3)
    with override_vjp("sin", lambda F, g, y, x: F.sum(g, axis=(0,), keepdims=True)):
        y = iv.sin(x).sum()
        with pytest.raises(GradientError, match=r"got a gradient of shape \(1,\) from 'sin'"):
            grad(y, x)


def test_an_override_acts_in_its_block_and_context_alone():
    x = leaf(3)
    override = override_vjp("cos", lambda F, g, y, x: g * 0 + 7.0)

    def slope():
        return grad(iv.cos(x).sum(), x).numpy()

    own, sevens = -np.sin(x.detach().numpy()), np.full(3, 7.0)
    np.testing.assert_allclose(slope(), own)
    with override:
        np.testing.assert_array_equal(slope(), sevens)
        with override_vjp("cos", lambda F, g, y, x: g * 0 + 5.0), override:  # once more, within itself
            np.testing.assert_array_equal(slope(), sevens)
        np.testing.assert_array_equal(slope(), sevens)
        with ThreadPoolExecutor(1) as pool:
            np.testing.assert_allclose(pool.submit(slope).result(), own)
        recorded = iv.cos(x).sum()
    np.testing.assert_allclose(slope(), own)
    np.testing.assert_allclose(grad(recorded, x).numpy(), own)
    with pytest.raises(RuntimeError, match="own"), override:
        raise RuntimeError("own")
    np.testing.assert_allclose(slope(), own)
    with pytest.raises(ValueError, match="override_vjp"):
        override_vjp("nonsense", lambda F, g, y, x: g)


def test_cotangents_take_their_inputs_dtype():
    x = iv.asarray(np.ones(3, np.float32), requires_grad=True)
    z = iv.asarray(np.full(3, 2 + 1j), requires_grad=True)
    gx, gz = grad(iv.real(x * z).sum(), [x, z])
    assert gx.dtype == iv.float32
    assert gz.dtype == iv.complex128
    np.testing.assert_allclose(gx.numpy(), np.full(3, 2.0))
    np.testing.assert_allclose(gz.numpy(), np.ones(3))


def test_undefined_cotangents_of_a_multiple_result_arrive_as_zero_layout():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a.layout, b.layout))
            return 2 * a + 3 * b

    x = leaf(2)
    first, second = Two.apply(x)
    np.testing.assert_array_equal(grad(second.sum(), x).numpy(), [3.0, 3.0])
    np.testing.assert_array_equal(grad((first * second).sum(), x).numpy(), 12 * x.detach().numpy())
    assert seen == [("zero", "strided"), ("strided", "strided")]


def test_functions_check_the_number_of_gradients():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(2)
    with pytest.raises(ValueError, match=r"Wrong\.backward: got 1 gradients; expected 2"):
        grad(Wrong.apply(x, x).sum(), x)


def test_function_with_setup_context_jvp_and_plain_arguments():
    class Scale(Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, g):
            assert ctx.needs_input_grad == (True, False)
            return g * ctx.factor, None

        @staticmethod
        def jvp(ctx, t, _):
            return t * ctx.factor

    x = leaf(2)
    np.testing.assert_array_equal(grad(Scale.apply(x, 3.0).sum(), x).numpy(), [3.0, 3.0])
    _, t = iv.jvp(lambda x: Scale.apply(x, 3.0), (x.detach(),), (iv.ones(2),))
    np.testing.assert_array_equal(t.numpy(), [3.0, 3.0])


def test_forward_mode_without_a_jvp_transposes_backward():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    x = iv.asarray([1.0, 2.0])
    _, t = iv.jvp(Cube.apply, (x,), (iv.asarray([1.0, 10.0]),))
    np.testing.assert_allclose(t.numpy(), [3.0, 120.0])
    h = iv.hessian(lambda x: Cube.apply(x).sum())(x)
    np.testing.assert_allclose(h.numpy(), np.diag([6.0, 12.0]))


def test_in_place_and_assignment_differentiate_and_copy_on_write():
    x = leaf(4)
    y = x * 2
    kept = y
    z = iv.sin(y)  # sin reads y: the buffer has a second owner
    y[1] = 5.0
    y += 1.0
    assert kept is y
    np.testing.assert_allclose(grad(z.sum(), x).numpy(), 2 * np.cos(2 * x.detach().numpy()))
    np.testing.assert_array_equal(grad(y.sum(), x).numpy(), [2.0, 0.0, 2.0, 2.0])
    value = iv.asarray(3.0, requires_grad=True)
    w = iv.zeros(3)
    w[np.array([0, 2])] = value
    np.testing.assert_array_equal(w.detach().numpy(), [3.0, 0.0, 3.0])
    assert grad(w.sum(), value).item() == 2.0


def test_assignment_writes_in_place_only_where_nobody_else_holds_the_buffer():
    x = iv.zeros(4)
    address = x.numpy().ctypes.data
    x[0] = 1.0
    assert x.numpy().ctypes.data == address
    alias = x.numpy()
    x[1] = 2.0
    np.testing.assert_array_equal(alias, [1.0, 0.0, 0.0, 0.0])
    source = np.zeros(3)
    t = iv.asarray(source)
    t[0] = 1.0
    assert source[0] == 0.0


def test_a_parameter_updated_under_no_grad_stays_a_leaf():
    p = leaf(3)
    p.sum().backward()
    with no_grad():
        p -= 0.1 * p.grad
    assert p.is_leaf
    assert p.requires_grad


def test_zero_layout_constants_are_simplified_away():
    x = leaf(3)
    zero = grad(iv.asarray(1.0), x)
    total = x + zero
    assert total._node is x._node
    product = x * zero
    assert product.layout == "zero"
    assert not product.requires_grad
    assert (zero * np.inf).layout == "zero"
    assert (x @ grad(iv.asarray(1.0), leaf(3, 2))).layout == "zero"
    np.testing.assert_array_equal((zero - x).detach().numpy(), -x.detach().numpy())


def test_a_demand_as_a_pattern_reaches_the_rule_that_can_use_it():
    """``at_pattern`` reads its cotangent at a pattern only; the rule of the op that made it is told so."""
    from iverson.core.aval import Aval
    from iverson.core.entries import Stored
    from iverson.core.entry_map import EntryMap
    from iverson.core.op import Op
    from iverson.layouts import CooPattern
    from iverson.ops import F, defined
    from iverson.ops.rules.entry_maps import SAME

    stored = np.array([[0, 2, 2], [1, 0, 3]])
    pattern = Stored(CooPattern((3, 4), stored, True))
    parts = []

    class OnPattern(EntryMap):
        partial = True

        def demand(self, *_):
            return pattern

    def watched(F, rule, part, i, g, y, x):
        parts.append(part)
        return NotImplemented

    at_pattern = Op(
        name="at_pattern",
        forward=lambda v: np.asarray(v) * 1.0,
        abstract=lambda v: Aval(v.shape, v.dtype),
        vjp=(lambda F, g, _y, _v: g,),
        entry_map=OnPattern(),
        linear_in=((0,),),
    )
    double = Op(
        name="double",
        forward=lambda x: 2 * x,
        abstract=lambda x: Aval(x.shape, x.dtype),
        vjp=(lambda F, g, _y, _x: 2 * g,),
        entry_map=SAME,
        vjp_at=watched,
        linear_in=((0,),),
    )
    x = leaf(3, 4)
    with defined(at_pattern), defined(double):
        y = F.double(F.at_pattern(x))
        g = grad(y.sum(), x)
    assert parts == [pattern]
    np.testing.assert_array_equal(g.numpy()[tuple(stored)], 2.0)


def test_modes_as_calls_blocks_and_decorators():
    x = leaf(2)
    set_grad_enabled(False)
    assert not (x * 2).requires_grad
    set_grad_enabled(True)
    assert (x * 2).requires_grad
    with set_grad_enabled(False):
        with enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad
    for decorated in (
        no_grad(lambda: x * 2),
        no_grad()(lambda: x * 2),
        set_grad_enabled(False)(lambda: x * 2),
    ):
        assert not decorated().requires_grad
        assert (x * 2).requires_grad


def test_a_function_without_the_method_asked_for_says_which():
    class OneWay(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class Empty(Function):
        pass

    x = leaf(2)
    with pytest.raises(MissingRuleError, match=r"Empty: got a Function without forward; expected a static"):
        Empty.apply(x)
    y = OneWay.apply(x)
    for ask in (lambda: grad(y.sum(), x), lambda: iv.jvp(OneWay.apply, (x.detach(),), (iv.ones(2),))):
        with pytest.raises(NotImplementedError, match=r"OneWay: got a Function without backward"):
            ask()
