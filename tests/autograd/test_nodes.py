"""Nodes: what is known of their results, and which of a user's lines they name."""

from __future__ import annotations

import dis
from types import CodeType

import numpy as np

import iverson as iv
from iverson.autograd.node import grad_slot, line_of, reachable, user_call
from iverson.core.aval import Aval


def _decorated(f):
    return f


@_decorated
def several_lines(x):
    y = iv.exp(
        x,
    )

    def inner(z): return tuple(z * k for k in range(3))  # fmt: skip

    return inner(y)


def test_lines_are_those_that_the_disassembler_knows():
    codes = [several_lines.__code__]
    for code in codes:  # which grows
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
        for step in dis.get_instructions(code):
            assert line_of((code, step.offset)) == f"{__file__}:{step.positions.lineno}"
        assert line_of((code, -1)) == f"{__file__}:{code.co_firstlineno}"  # before the first one
    assert len(codes) > 2


def test_a_call_is_in_the_innermost_frame_of_the_user():
    code, _ = user_call(0)
    assert code is test_a_call_is_in_the_innermost_frame_of_the_user.__code__


def test_what_is_traced_names_the_line_that_is_differentiated_and_then_its_own():
    def of_a_gradient(x):
        g = iv.grad(lambda x: iv.sum(iv.sin(x) * x))(x)
        return iv.exp(g)

    equations = iv.jit(of_a_gradient).graph(iv.ones(3)).equations
    first = of_a_gradient.__code__.co_firstlineno
    lines = {e.op.name: int(line_of(e.where).rpartition(":")[2]) - first for e in equations}
    assert (lines["cos"], lines["exp"]) == (1, 2)


def test_of_a_result_shape_and_dtype_are_known():
    x = iv.asarray(np.ones((2, 3), "float32"), requires_grad=True)
    u, s, _ = iv.linalg.svd(x * x)
    for y, index in ((x, 0), (x * x, 0), (iv.sum(x, axis=0), 0), (u, 0), (s, 1)):
        assert y._node.result(index) == Aval(y.shape, y.dtype)
    for layout in ("coo", "csr"):
        s = iv.to_layout(x.detach(), layout).requires_grad_()
        for y in (s, iv.sin(s.mT), s @ s.mT):
            assert y._node.result(0) == Aval(y.shape, y.dtype)


def test_rules_are_given_the_results_that_callers_have():
    x = iv.asarray(np.eye(3) + 1, requires_grad=True)
    exp, parts = iv.exp(x), iv.linalg.svd(x)
    assert (exp._node.results()._node, exp._node.results()._index) == (exp._node, 0)
    given = parts[0]._node.results()
    assert [r._index for r in given if type(r) is not Aval] == [
        k for k, r in enumerate(given) if type(r) is not Aval
    ]


def test_what_is_reachable_are_all_ancestors_from_a_number_on():
    x, w = (iv.asarray([1.0, 2.0], requires_grad=True) for _ in range(2))
    a, b = x * w, w * 2
    y, z = iv.sum(a * b), iv.exp(b)

    def ancestors(node):
        return {node}.union(*(ancestors(p) for p in node.parents if p is not None))

    for roots in ([y], [z], [y, z, y], [x, y], [w], []):
        above = set().union(*(ancestors(root._node) for root in roots))
        for floor in range(x._node.number - 1, z._node.number + 2):
            found = reachable([root._node for root in roots], floor)
            assert found == sorted((n for n in above if n.number >= floor), key=lambda n: n.number)


def test_what_is_not_tracked_has_no_place_for_a_gradient():
    assert iv.ones(2).grad is None
    assert grad_slot(None, 0) is None
