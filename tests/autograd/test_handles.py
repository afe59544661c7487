"""Handles at the borders: what the user's code rebinds in place changes nothing that others hold."""

from __future__ import annotations

import copy
import gc
import re
import threading

import numpy as np
import pytest

import iverson as iv
from iverson import explain
from iverson.autograd import Function, backward, grad, no_grad
from iverson.core.errors import ArgumentTypeError, DTypeError, GradientError
from iverson.testing import gradcheck, gradgradcheck


def leaf(*entries: float):
    return iv.asarray(list(entries), requires_grad=True)


def equal(x, expected):
    np.testing.assert_array_equal(x.detach().numpy(), expected)


def test_gradients_that_are_the_same_cotangent_are_handles_of_their_own():
    x, y, seed = leaf(1.0, 2.0), leaf(3.0, 4.0), iv.ones(2)
    gx, gy = grad(x + y, (x, y), seed, create_graph=True)
    gx += 1
    equal(gy, [1.0, 1.0])
    equal(seed, [1.0, 1.0])
    backward(x + y, seed, create_graph=True)
    x.grad += 1
    equal(y.grad, [1.0, 1.0])
    equal(seed, [1.0, 1.0])


def test_a_hook_that_writes_in_place_changes_only_its_own_handle():
    x, y, seed = leaf(1.0, 2.0), leaf(3.0, 4.0), iv.ones(2)

    def hook(g):
        g *= 5
        g[0] = 0.0

    x.register_hook(hook)
    z = x + y
    z.register_hook(hook)
    for g in grad(z, (x, y), seed):
        equal(g, [1.0, 1.0])
    equal(seed, [1.0, 1.0])


class InPlace(Function):
    """3 x y, with both methods rebinding whatever they are given."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x * 1.0, y * 1.0)
        x *= 3
        x *= y
        y[0] = 0.0
        return x

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        g *= 3
        x *= g
        y *= g
        g *= 0
        return y, x


def test_a_function_may_write_into_what_it_is_given():
    x, y, other = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0, 6.0)
    a, b = x * 1.0, y * 1.0
    z = InPlace.apply(a, b) + other
    equal(z, [14.0, 30.0])
    equal(a, [1.0, 2.0])
    equal(b, [3.0, 4.0])
    assert a.requires_grad
    assert b.requires_grad
    gx, gy, g = grad(z, (x, y, other), iv.ones(2))
    equal(gx, [9.0, 12.0])
    equal(gy, [3.0, 6.0])
    equal(g, [1.0, 1.0])


class Exp(Function):
    """exp, with the result kept as an attribute."""

    @staticmethod
    def forward(ctx, x):
        ctx.y = iv.exp(x)
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.y


def test_a_result_kept_as_an_attribute_is_that_result_in_a_second_derivative():
    x = leaf(0.5, -1.0)
    assert gradcheck(Exp.apply, (x,))
    assert gradgradcheck(Exp.apply, (x,))


class Pieces(Function):
    """2 x, no tensor, and the position of the largest entry; no jvp."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x, None, iv.argmax(x)

    @staticmethod
    def backward(ctx, g, *_):
        return 2 * g


class WrongTangent(Function):
    tangent: object = None

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g

    @classmethod
    def jvp(cls, ctx, t):
        return cls.tangent


def test_forward_mode_of_functions_with_results_that_are_no_tensors():
    x = iv.asarray([1.0, 2.0])
    equal(iv.jvp(lambda x: Pieces.apply(x)[0], (x,), (x,))[1], [2.0, 4.0])


@pytest.mark.parametrize(("tangent", "got"), [(iv.asarray(1.0), r"shape \(\)"), (1.0, "type float")])
def test_a_tangent_of_the_wrong_kind_is_an_error_not_a_broadcast(tangent, got, monkeypatch):
    monkeypatch.setattr(WrongTangent, "tangent", tangent)
    x = iv.asarray([1.0, 2.0])
    with pytest.raises(GradientError, match=rf"got a tangent of {got} from 'WrongTangent' called at"):
        iv.jvp(WrongTangent.apply, (x,), (x,))


def test_what_leads_to_another_result_of_a_multiple_op_is_not_walked():
    x = iv.asarray(np.diag([1.0, 2.0, 3.0]), requires_grad=True)
    w, v = iv.linalg.eigh(x * 1.0)
    h = w
    for _ in range(3):
        h = h @ iv.eye(3)
    with explain.count() as work:
        grad(h.sum() + (v * v).sum(), v)
    assert work.products == 0
    assert "matmul" not in work.rules


def test_recorded_gradients_make_no_cycle():
    def program(retain):
        x = leaf(1.0, 2.0)
        y = x * x
        if retain:
            y.retain_grad()
        (y * y).sum().backward(create_graph=True)
        return grad(x.grad.sum(), x)

    equal(program(True), [12.0, 48.0])  # what is imported at the first call leaves cycles of its own
    gc.collect()
    gc.disable()
    try:
        for retain in (False, True):
            equal(program(retain), [12.0, 48.0])
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_gradient_lives_as_long_as_some_handle_can_read_it():
    x = leaf(1.0)
    twin = copy.copy(x)
    (x * 2).backward()
    del x
    (twin * 2).backward()
    equal(twin.grad, [4.0])


def test_grad_takes_only_tensors_like_its_own():
    x = leaf(1.0, 2.0)
    bad = ((5, ArgumentTypeError), (np.ones(2), ArgumentTypeError), (iv.asarray([1, 2]), DTypeError))
    for value, kind in bad:
        with pytest.raises(kind, match="grad: argument 'value'"):
            x.grad = value


def test_seeds_of_another_kind_are_errors():
    x, z = leaf(1.0, 2.0), iv.asarray([1j], requires_grad=True)
    with pytest.raises(DTypeError, match="got dtype complex128; expected a real dtype"):
        grad(x.sum(), x, 1j)
    with pytest.raises(ArgumentTypeError, match="got a str of dtype"):
        grad(x.sum(), x, "one")
    with pytest.raises(GradientError, match="a cotangent for every complex output"):
        grad(z.sum(), z)
    with pytest.raises(ArgumentTypeError, match="hook"):
        x.register_hook(3)


def test_one_no_grad_object_serves_many_threads():
    off, together, failures = no_grad(), threading.Barrier(4), []

    def work():
        try:
            for _ in range(20):
                together.wait(10)
                with off:
                    together.wait(10)
                    assert not iv.is_grad_enabled()
                assert iv.is_grad_enabled()
        except Exception as error:
            failures.append(error)
            together.abort()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def test_no_grad_refuses_what_would_run_outside_of_it():
    def steps():
        yield 1

    with pytest.raises(ArgumentTypeError, match="runs after its call has returned"):
        no_grad()(steps)


def test_a_leaf_taken_out_of_the_graph_and_put_back_is_the_leaf_it_was():
    x = leaf(1.0, 2.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    y = (x * x).sum()
    (3 * x).sum().backward()
    assert x.requires_grad_(False) is x
    assert not x.requires_grad
    equal(x.grad, [3.0, 3.0])
    assert not (x * 2).requires_grad
    backward(y)  # adds nothing: gradients are off
    equal(x.grad, [3.0, 3.0])
    x += 1.0  # may be changed meanwhile: what was recorded keeps its values
    x.requires_grad_()
    equal(x.grad, [3.0, 3.0])
    backward(y)
    equal(x.grad, [5.0, 7.0])
    equal(grad(y, x), [2.0, 4.0])
    assert len(seen) == 4
    x.requires_grad_(False).grad = None
    assert x.requires_grad_().grad is None
    x.requires_grad_(False).grad = iv.ones(2)
    equal(x.requires_grad_().grad, [1.0, 1.0])


def test_a_paused_leaf_is_forgotten_where_the_handle_becomes_a_result():
    x, w = leaf(1.0), leaf(2.0)
    (x * 2).backward()
    x.requires_grad_(False)
    x += w
    assert not x.is_leaf
    assert x.grad is None
    with no_grad():
        x[...] = 0.0
    assert x.requires_grad_().grad is None


def test_handles_of_one_leaf_are_taken_out_one_by_one():
    x = leaf(1.0)
    twin = copy.copy(x)
    (x * 2).backward()
    x.requires_grad_(False)
    (twin * 3).backward()
    equal(x.grad, [2.0])
    equal(twin.grad, [5.0])
    equal(x.requires_grad_().grad, [5.0])


def test_a_masked_leaf_stays_one_under_no_grad_and_when_taken_out():
    m = iv.masked_tensor([1.0, 2.0, 3.0], [True, False, True]).requires_grad_()
    loss = (m * m).sum()
    loss.backward()
    with no_grad():
        m -= 0.5 * m.grad
        m *= 2.0
    assert m.requires_grad
    assert m.is_leaf
    assert m.grad.tolist() == [2.0, None, 6.0]
    m.requires_grad_(False)
    assert m.grad.tolist() == [2.0, None, 6.0]
    m.requires_grad_()
    assert grad(loss, m).tolist() == [2.0, None, 6.0]
    with no_grad():
        m[1] = 5.0  # specifies an entry more: a leaf of another size
    assert m.requires_grad
    assert m.grad is None
    assert grad((m * m).sum(), m).tolist() == [0.0, 10.0, 0.0]


IN_PLACE = {
    "add": lambda x: x.__iadd__(1.0),
    "multiply": lambda x: x.__imul__(x),
    "assignment": lambda x: x.__setitem__(0, 5.0),
    "assignment of nothing": lambda x: x.__setitem__(slice(0, 0), 5.0),
    "assignment by mask": lambda x: x.__setitem__(x > 0, 5.0),
}


@pytest.mark.parametrize("write", IN_PLACE.values(), ids=IN_PLACE)
def test_a_leaf_that_tracks_gradients_is_written_only_under_no_grad(write):
    for x in (leaf(1.0, 2.0), iv.masked_tensor(leaf(1.0, 2.0).detach(), [True, True]).requires_grad_()):
        held = copy.copy(x)
        with pytest.raises(GradientError, match=r"in-place|assignment.*update it under .*no_grad"):
            write(x)
        assert x.tolist() == [1.0, 2.0]
        with no_grad():
            write(x)
        assert x.is_leaf
        assert x.requires_grad
        assert held.tolist() == [1.0, 2.0]
        y = x * 1.0
        write(y)  # a result may be written
        iv.grad(lambda x: (write(x), (x * x).sum())[1])(x.detach())  # and what a transform hands over


def test_a_loop_that_forgets_no_grad_does_not_end_training_in_silence():
    w = leaf(1.0)
    (w * w).sum().backward()
    with pytest.raises(GradientError, match="in-place subtract: argument 'x': got a leaf"):
        w -= 0.1 * w.grad
    equal(w, [1.0])
    equal(w.grad, [2.0])


def test_what_a_hook_raises_names_the_users_lines():
    def broken(g):
        raise KeyError("mine")

    def misshapen(g):
        return g[0]

    for hook, kind in ((broken, KeyError), (misshapen, GradientError)):
        x = leaf(1.0, 2.0)
        y = x * 2.0
        for target, described in ((x, "leaf"), (y, r"'multiply' called at .*test_handles\.py:\d+")):
            handle = target.register_hook(hook)
            with pytest.raises(kind) as raised:
                y.sum().backward()
            (note,) = raised.value.__notes__
            line = broken.__code__.co_firstlineno
            assert re.fullmatch(rf"in the hook on {described}, registered at .*test_handles\.py:\d+", note)
            assert int(note.rsplit(":", 1)[1]) > line
            handle.remove()
    m = iv.masked_tensor([1.0, 2.0], [True, False]).requires_grad_()
    m.register_hook(broken)
    with pytest.raises(KeyError) as raised:
        (m * 2).sum().backward()
    assert "registered at" in raised.value.__notes__[0]


def test_what_is_assigned_without_recording_is_not_tracked():
    w, y = iv.asarray(1.0, requires_grad=True), iv.zeros(3)
    with iv.no_grad():
        y[0] = w
    assert not y.requires_grad
    y[1] = w
    assert y.requires_grad
