"""What is traced computes what the function does; graphs survive print and parse, and are checked."""

from __future__ import annotations

import contextlib
import warnings

import pytest

import iverson as iv
from iverson.core.aval import aval_of
from iverson.graph.interpret import interpret
from iverson.graph.parse import parse
from iverson.graph.print import text_and_objects
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
