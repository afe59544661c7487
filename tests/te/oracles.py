"""Running tensor expressions by the interpreter, and finite differences to hold them against."""

from __future__ import annotations

from typing import Any

import numpy as np

from iverson import te
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.interpret import Visits, run
from iverson.te.ir.verify import check

Feed = dict[Tensor, Any]


def value(tensor: Tensor, feed: Feed, visits: list[Visits] | None = None) -> Any:
    """A tensor's value, as defined."""
    program = te.program_of([tensor])
    check(program)
    return run(program, [feed[t] for t in program.inputs], visits)[0]


class Interpreted:
    """Stands for `te.lowering.lowered_program.Lowered`: a program that is carried out by points."""

    def __init__(self, program: te.Program) -> None:
        self.program = program

    def __call__(self, *arrays: Any, **how: Any) -> Any:
        return run(self.program, arrays)


def eliminated_value(tensor: Tensor, feed: Feed, visits: list[Visits] | None = None) -> Any:
    """A tensor's value by its eliminated walks."""
    program = te.eliminate(tensor)
    check(program)
    return run(program, [feed[t] for t in program.inputs], visits)[0]


def numeric_jacobian(output: Tensor, x: Tensor, feed: Feed, step: float = 1e-6) -> Any:
    """Central differences, of shape output.shape + x.shape."""
    columns = []
    for k in range(feed[x].size):
        moved = []
        for sign in (1, -1):
            at = feed[x].copy()
            at.reshape(-1)[k] += sign * step
            moved.append(value(output, {**feed, x: at}))
        columns.append((moved[0] - moved[1]) / (2 * step))
    return np.stack(columns, -1).reshape(output.shape + x.shape)


def _check_equal(tensor: Tensor, walked: Any, plain: Any) -> None:
    """Equal to the last bit, but for sums whose domain is split: their terms are added in another order."""
    program = te.program_of([tensor])
    split = len(te.eliminate(program).statements) > len(program.statements)
    np.testing.assert_allclose(walked, plain, rtol=0, atol=1e-15 * np.abs(plain).max() * 8 if split else 0)


def check_derivatives(output: Tensor, inputs: list[Tensor], feed: Feed, order: int = 2) -> None:
    """Jacobian, gradient for a head, tangent and (order 2) the gradient's own Jacobian."""
    rng = np.random.default_rng(7)
    head = te.placeholder(output.shape, output.dtype, "H")
    g = rng.standard_normal(output.shape)
    jacobians = te.differentiate(output, inputs)
    gradients = te.differentiate(output, inputs, head)
    for x, jacobian, gradient in zip(inputs, jacobians, gradients, strict=True):
        exact = eliminated_value(jacobian, feed)
        _check_equal(jacobian, exact, value(jacobian, feed))
        np.testing.assert_allclose(exact, numeric_jacobian(output, x, feed), atol=2e-7, rtol=1e-6)
        full = {**feed, head: g}
        expected = np.tensordot(g, exact, output.ndim)
        np.testing.assert_allclose(eliminated_value(gradient, full), expected, atol=1e-12, rtol=1e-10)
        tangent = te.placeholder(x.shape, x.dtype, "t")
        t = rng.standard_normal(x.shape)
        pushed = eliminated_value(te.jvp(output, {x: tangent}), {**feed, tangent: t})
        np.testing.assert_allclose(pushed, np.tensordot(exact, t, x.ndim), atol=1e-12, rtol=1e-10)
        if order > 1:
            second = te.differentiate(gradient, x)[0]
            found = eliminated_value(second, full)
            np.testing.assert_allclose(found, numeric_jacobian(gradient, x, full), atol=1e-6, rtol=1e-5)
