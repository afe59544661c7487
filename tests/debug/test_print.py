"""Prints from programs: as often as the function would print as Python, with entries, in each mode."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv

X = np.array([1.0, 2.0, 3.0])


def summed(x):
    y = (x * x).sum()
    iv.debug.print("y {:.1f} {n}", y, n="a")
    return y


def stepwise(x):
    def step(c, v):
        iv.debug.print("c {} v {}", c, v)
        return c + v, None

    return iv.scan(step, iv.asarray(0.0), x)[0]


def chosen(x):
    big = lambda x: (iv.debug.print("big {}", x), x.sum())[1]
    small = lambda x: (iv.debug.print("small"), -x.sum())[1]
    return iv.cond(x.sum() > 5, big, small, x)


def counted(x):
    return iv.fori_loop(0, 2, lambda i, c: (iv.debug.print("i {}", i), c * 2)[1], x.sum())


def repeated(x):
    return iv.while_loop(lambda c: iv.abs(c) < 20, lambda c: (iv.debug.print("w {}", c), c * 2)[1], x.sum())


TEXTS = {
    summed: "y 14.0 a\n",
    stepwise: "c 0.0 v 1.0\nc 1.0 v 2.0\nc 3.0 v 3.0\n",
    chosen: "big [1. 2. 3.]\n",
    counted: "i 0\ni 1\n",
    repeated: "w 6.0\nw 12.0\n",
}
MODES = {
    "eager": lambda f: f,
    "jit": iv.jit,
    "interpret": lambda f: iv.jit(f, interpret=True),
    "grad": iv.grad,
    "jit of grad": lambda f: iv.jit(iv.grad(f)),
    "grad of jit": lambda f: iv.grad(iv.jit(f)),
    "jvp": lambda f: lambda x: iv.jvp(f, (x,), (x,)),
    "jit of jvp": lambda f: iv.jit(lambda x: iv.jvp(f, (x,), (x,))),
    "checkpoint": iv.checkpoint,
    "value_and_grad": lambda f: iv.jit(iv.value_and_grad(f)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", TEXTS, ids=lambda f: f.__name__)
def test_a_mode_prints_what_eager_code_prints(f, mode, capsys):
    run = MODES[mode](f)
    if f is repeated and "grad" in mode:
        with pytest.raises(iv.errors.GradientError, match="max_steps"):
            run(iv.asarray(X))
        return
    for _ in range(2):  # the second one is not traced
        run(iv.asarray(X))
        assert capsys.readouterr().out == TEXTS[f]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("f", TEXTS, ids=lambda f: f.__name__)
def test_a_batch_prints_each_example(f, compiled, capsys):
    run = iv.jit(iv.vmap(f)) if compiled else iv.vmap(f)
    xs = np.stack([X, -X])
    run(iv.asarray(xs))
    lines = sorted(capsys.readouterr().out.splitlines())
    for x in xs:
        f(iv.asarray(x))
    expected = sorted(capsys.readouterr().out.splitlines())
    if f in (repeated, chosen, counted):  # which examples run together, and what is the same for all
        assert set(expected) == set(lines)
    else:
        assert lines == expected


def test_what_nobody_reads_is_printed_and_in_order(capsys):
    def f(x):
        for k in range(4):
            iv.debug.print("{} {}", k, x.sum() * k)
        return x

    iv.jit(f)(iv.asarray(X))
    assert capsys.readouterr().out == "0 0.0\n1 6.0\n2 12.0\n3 18.0\n"


def test_trees_layouts_masks_and_nested_batches(capsys):
    iv.jit(lambda t: iv.debug.print("{t[a]} {t[b][0]}", t=t))({"a": iv.asarray(1), "b": [iv.asarray([2])]})
    assert capsys.readouterr().out == "1 [2]\n"
    iv.jit(lambda s: iv.debug.print("{}", s))(iv.eye(2).to_layout("csr"))
    assert capsys.readouterr().out == f"{np.eye(2)}\n"
    iv.jit(lambda m: iv.debug.print("{}", m))(iv.masked_tensor([1.0, 2.0], [True, False]))
    assert capsys.readouterr().out == f"{np.ma.masked_array([1.0, 2.0], [False, True])}\n"
    iv.vmap(iv.vmap(lambda v: iv.debug.print("{}", v)))(iv.asarray([[1, 2], [3, 4]]))
    assert capsys.readouterr().out == "1\n2\n3\n4\n"
    iv.vmap(lambda v: iv.debug.print("once"))(iv.ones(3))
    assert capsys.readouterr().out == "once\n"


def test_results_are_not_changed():
    for f in TEXTS:
        np.testing.assert_array_equal(iv.jit(f)(iv.asarray(X)).numpy(), f(iv.asarray(X)).numpy())


@pytest.mark.parametrize("template", ["{} {}", "{", "{0} {3}", "{name}"])
def test_templates_that_do_not_fit(template):
    with pytest.raises(iv.errors.ArgumentError, match="print: argument 'template'"):
        iv.debug.print(template, iv.asarray(1.0))
    with pytest.raises(iv.errors.ArgumentTypeError, match="format string"):
        iv.debug.print(iv.asarray(1.0))
