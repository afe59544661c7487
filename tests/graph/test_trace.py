"""What is traced computes what the function does; graphs survive print and parse, and are checked."""

from __future__ import annotations

import collections
import contextlib
import random
import re
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.core.aval import aval_of
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.parse import parse
from iverson.graph.ir.print import show, text_and_objects
from iverson.graph.ir.verify import check
from iverson.graph.tracing.trace import trace_flat
from iverson.ops import TABLE
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns, each
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


@pytest.mark.parametrize("name", by_turns((n for n in NAMES if n not in READS_ENTRIES), 4, 2))
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


# --- texts that are wrong ------------------------------------------------------------------------------

#: Functions of three numbers, the texts of which are changed.
WRITTEN = (
    lambda x: x[1:, None] * 2.0,
    lambda x: iv.take(x, iv.asarray([0, 2])),
    lambda x: (x * (1 + 2j)).real,
    lambda x: iv.concat([x, x]).astype("float32"),
    lambda x: iv.eye(3).to_layout("csr") @ x,
    iv.grad(iv.checkpoint(lambda x: iv.sin(x).sum())),
    iv.grad(lambda x: iv.cond(x.sum() > 0, iv.sin, iv.cos, x).sum()),
    iv.grad(lambda x: iv.scan(lambda c, u: (c * u, c), x[0], x)[0]),
    lambda x: iv.while_loop(lambda c: c.sum() < 9.0, lambda c: c * 2.0, x),
)
WORD = re.compile(r"%\d+|@\d+|'[^']*'|[A-Za-z_]\w*|\d+\.\d+|\d+|\s+|.")


def kind_of(word):
    return next((k for k, of in enumerate(("%@", "0123456789")) if word[0] in of), word[0].isalpha() + 2)


def changed(words, others, draw):
    """A text with words left out, exchanged, put in, or replaced by others; or its beginning."""
    words = list(words)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        k, how = draw.choice([0, *(k for k, w in enumerate(words) if not w.isspace())]), draw.randrange(9)
        if how == 0:
            words[k] = " "
        elif how == 1:
            words.insert(k, draw.choice(others))
        elif how == 2:
            other = draw.randrange(len(words))
            words[k], words[other] = words[other], words[k]
        elif how == 3:
            del words[k + 1 :]
        else:
            alike = others if how == 4 else [w for w in others if kind_of(w) == kind_of(words[k])]
            words[k] = draw.choice(alike)
    return "".join(words)


def test_texts_that_are_wrong_are_errors_that_say_so():
    """To read, to check and to interpret one gives a result or an error of the library, with the line."""
    x = iv.asarray([1.0, 2.0, 3.0])
    written = [text_and_objects(iv.jit(f).graph(x)) for f in WRITTEN]
    words = [WORD.findall(text) for text, _ in written]
    others = [w for of_text in words for w in of_text if not w.isspace()]
    seen = collections.Counter()

    def check_seed(seed):
        draw = random.Random(f"{SEED} {seed}")
        n = draw.randrange(len(written))
        text, objects = changed(words[n], others, draw), written[n][1]
        graph, refused = None, None
        try:
            graph = parse(text, objects)
        except iv.errors.ArgumentError as error:
            refused = error
        if refused is not None:
            assert " in line " in str(refused)
            assert refused.expected
            seen["read"] += 1
            return
        steps = [check]
        if "while" not in text:  # a loop whose condition is another need not end
            steps.append(lambda graph: interpret(graph, [x] * len(graph.inputs)))
        for step in steps:
            try:
                step(graph)
            except iv.errors.IversonError:
                seen["refused"] += 1
            else:
                seen["fine"] += 1

    each(check_seed, range(2500 if EXHAUSTIVE else 200))
    assert min(seen[k] for k in ("read", "refused", "fine")) > 4


@pytest.mark.parametrize(
    ("f", "old", "new"),
    [
        (iv.checkpoint(iv.sin), "float64[3]", "float64[2]"),
        (iv.checkpoint(iv.sin), "float64[3]", "float32[3]"),
        (lambda x: iv.cond(x[0] > 0, iv.sin, iv.cos, x), "float64[3]", "float64[4]"),
        (lambda x: iv.while_loop(lambda c: c.sum() < 9.0, lambda c: c * 2.0, x), "float64[3]", "float64[4]"),
        (lambda x: iv.scan(lambda c, u: (c + u, c), x[0], x)[0], "float64[3]", "float32[3]"),
    ],
)
def test_operands_are_of_the_types_that_bodies_have(f, old, new):
    text, objects = text_and_objects(iv.jit(f).graph(iv.asarray([1.0, 2.0, 3.0])))
    check(parse(text, objects))
    wrong = text.replace(old, new, 1)  # the input alone
    with pytest.raises(iv.errors.ArgumentError, match="expected"):
        check(parse(wrong, objects))
