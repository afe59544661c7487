"""Nodes: what is known of their results, and which of a user's lines they name."""

from __future__ import annotations

import dis
from types import CodeType

import numpy as np

import iverson as iv
from iverson.autograd.node import grad_slot, line_of
from iverson.core.aval import Aval


def _decorated(f):
    return f


@_decorated
def several_lines(x):
    y = iv.exp(
        x,
    )

    def inner(z): return [z * k for k in range(3)]  # fmt: skip

    return inner(y)


def test_lines_are_those_that_the_disassembler_knows():
    codes = [several_lines.__code__]
    for code in codes:  # which grows
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
        for step in dis.get_instructions(code):
            assert line_of((code, step.offset)) == f"{__file__}:{step.positions.lineno}"
        assert line_of((code, -1)) == f"{__file__}:{code.co_firstlineno}"  # before the first one
    assert len(codes) > 2


def test_of_a_result_shape_and_dtype_are_known():
    x = iv.asarray(np.ones((2, 3), "float32"), requires_grad=True)
    u, s, _ = iv.linalg.svd(x * x)
    for y, index in ((x, 0), (x * x, 0), (iv.sum(x, axis=0), 0), (u, 0), (s, 1)):
        assert y._node.result(index) == Aval(y.shape, y.dtype)
    for layout in ("coo", "csr"):
        s = iv.to_layout(x.detach(), layout).requires_grad_()
        for y in (s, iv.sin(s.mT), s @ s.mT):
            assert y._node.result(0) == Aval(y.shape, y.dtype)


def test_what_is_not_tracked_has_no_place_for_a_gradient():
    assert iv.ones(2).grad is None
    assert grad_slot(None, 0) is None
