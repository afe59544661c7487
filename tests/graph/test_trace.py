"""What is traced computes what the function does; graphs survive print and parse, and are checked."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.core.aval import aval_of
from iverson.graph.interpret import interpret
from iverson.graph.parse import parse
from iverson.graph.print import show, text_and_objects
from iverson.graph.trace import trace_flat
from iverson.graph.verify import check
from iverson.ops import TABLE
from tests.graph.programs import as_tuple, calls_of, close, loss_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
NAMES = tuple(name for name, op in TABLE.items() if op.samples)  # those of other tests have none
#: Ops that read entries to know the shape of what they give, or whether it exists.
READS_ENTRIES = {"pack", "unpack"}


def traced(f, args):
    graph, captured, _ = trace_flat(lambda *h: (list(as_tuple(f(*h))), None), [aval_of(a) for a in args])
    assert not captured
    return check(graph)


def agree(f, args):
    """A function and its graph, and what its text reads back as."""
    graph = traced(f, args)
    text, objects = text_and_objects(graph)
    again = check(parse(text, objects))
    assert text_and_objects(again)[0] == text
    handles = [iv.asarray(a) for a in args]
    for g in (graph, again):
        for found, expected in zip(interpret(g, handles), as_tuple(f(*handles)), strict=True):
            close(found, expected)
    return graph


@pytest.mark.parametrize("name", [n for n in NAMES if n not in READS_ENTRIES])
def test_every_op_and_its_gradient_can_be_traced(name):
    for call in calls_of(name):
        agree(call.function, call.args)
        differentiable = TABLE[name].differentiable and all(a.dtype.kind in "fc" for a in call.args)
        if call.args and differentiable:
            with warnings.catch_warnings(), contextlib.suppress(iv.errors.MissingRuleError):
                warnings.simplefilter("ignore")
                agree(iv.grad(loss_of(call.function), tuple(range(len(call.args)))), call.args)


def test_the_text_of_a_graph_tells_ops_of_users_of_one_name_apart():
    """Those defined again, those whose name is no word, and their derivatives; in bodies too."""
    x = np.array([1.0, 2.0])

    def scaled_by(factor, name):
        return te.op(lambda x: te.compute(x.shape, lambda i: factor * x[i]), name=name)

    for name in ("scaled", "by a number's worth", None):
        first, second = scaled_by(2.0, name), scaled_by(3.0, name)
        agree(lambda x, f=first, g=second: f(g(iv.sin(x))), (x,))
        agree(iv.grad(lambda x, f=first, g=second: f(g(iv.sin(x))).sum()), (x,))
        for f, factor in ((first, 2.0), (second, 3.0)):
            within = iv.jit(lambda x, f=f: iv.scan(lambda c, _: (f(c), None), x, None, length=2)[0])
            assert within(x).tolist() == [factor**2, 2 * factor**2]
            checked = iv.jit(lambda x, f=f: iv.transforms.checkpoint(f)(x))
            assert checked(x).tolist() == [factor, 2 * factor]
    graph = traced(second, (x,))
    assert parse(show(graph)).equations[0].op is second.expression.op  # the one that has the name now


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (lambda x: x[x > 0].sum(), r"iverson\.where\(mask, x, 0\) or .* in place of x\[mask\]"),
        (lambda x: x if x.sum() > 0 else -x, r"iverson\.cond for a choice"),
    ],
    ids=["entries where a mask holds", "a branch"],
)
def test_what_follows_from_entries_is_told_with_what_to_use(function, remedy):
    """Of a dense and of a sparse argument, with the line."""
    x = iv.asarray([[1.0, 0.0], [0.0, 2.0]])
    for given in (x, x.to_layout("csr")):
        with pytest.raises(iv.errors.GraphError, match=rf"test_trace\.py:\d+.*{remedy}"):
            iv.jit(function)(given)
