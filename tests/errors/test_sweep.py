"""Every bad argument of every public function is answered by an error that says what to do.

Calls of the whole namespace with one argument changed: the result is valid, or an Iverson error that names
the operation, what was got and what was expected. A sample of them here; IVERSON_TEST_ALL=1 runs all.
"""

from __future__ import annotations

import inspect
import os
import random
import re
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson import optim, te, transforms
from iverson.core.errors import ArgumentTypeError, IversonError, UnsizedError
from tests.errors.calls import calls
from tests.errors.sweep import BAD, FORMS, fault, formed, outcome, places

ALL = bool(os.environ.get("IVERSON_TEST_ALL"))

CALLS = {call.name: call for call in calls()}
#: Python's and DLPack's protocols say what these raise; and a mode has no bad argument but its only one.
PROTOCOLS = {"Tensor.__format__", "Tensor.__dlpack__"}


def cases(call, rng):
    """A form, a place and a kind of bad value each: all of them, or a sample."""
    every = [
        (form, place, bad)
        for form in FORMS
        if (found := formed(call, form)) is not None
        for place in places(*found[1:])
        for bad in BAD
    ]
    return every if ALL or len(every) <= 3 else rng.sample(every, 3 + len(every) // 120)


def test_calls_are_valid():
    for call in CALLS.values():
        function, args, kwargs = call.make()
        function(*args, **kwargs)


@pytest.mark.parametrize("group", range(8))
def test_bad_arguments(group):
    rng = random.Random(group)
    found = []
    for name in sorted(CALLS.keys() - PROTOCOLS)[group::8]:
        for form, place, bad in cases(CALLS[name], rng):
            error = outcome(CALLS[name], form, place, BAD[bad]())
            if wrong := fault(error):
                found.append(f"{name} {form}, {bad} at {place}: {wrong}: {error}")
    assert not found, "\n".join(found)


#: Parameters that are integers, or sequences of them, and take no text.
OF_INTEGERS = {"axis", "axes", "shape", "shift", "repeats", "dim", "dims", "reps", "blocksize", "k", "n"}


def test_no_text_is_taken_for_integers():
    """An empty string is a sequence of none."""
    found = []
    for name, call in CALLS.items():
        function, args, kwargs = call.make()
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except (TypeError, ValueError):
            continue
        parameters = bound.signature.parameters.values()
        for p in parameters:
            if p.name in OF_INTEGERS and p.kind is not p.VAR_POSITIONAL and "str" not in str(p.annotation):
                for bad in ("", b"", bytearray(b"\1")):
                    given = inspect.BoundArguments(bound.signature, {**bound.arguments, p.name: bad})  # type: ignore[arg-type]
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        try:
                            function(*given.args, **given.kwargs)
                        except IversonError:
                            continue
                    found.append(f"{name}: {bad!r} for {p.name}")
    assert not found, "\n".join(found)


#: Names that expressions, loops and buffers are given, and what ops are made of inside.
GENERATED = re.compile(r"\bte\.\w|\bcodegen\b|\b[Tkn]\d+\b|\b[bi]\d+\[|\[[bi]\d+")
#: Tensors of other kinds than an op may want.
KINDS = {
    "bool": lambda x: x > 1,
    "int": lambda x: x.astype("int64"),
    "complex": lambda x: x * (1 + 1j),
    "half": lambda x: x.astype("float16"),
    "no rows": lambda x: np.zeros((0, *x.shape[1:])),
    "no columns": lambda x: np.zeros((*x.shape[:-1], 0)),
    "rank 0": lambda x: np.asarray(2.0),
}


@pytest.mark.parametrize("group", range(4))
def test_no_message_names_what_ops_are_made_of(group):
    """Eagerly and compiled, of a tensor of another kind for each argument in turn."""
    found, names = [], (n for n in sorted(CALLS) if not n.startswith(("te.", "graph.")))
    for number, name in enumerate(names):
        function, args, kwargs = CALLS[name].make()
        inner = name.partition("[")[0].rpartition(".")[2]
        for k, x in enumerate(args):
            if not isinstance(x, iv.Tensor) or number % 4 != group:
                continue
            dense = x.detach().to_dense().numpy()
            for n, kind in enumerate(KINDS):
                if not ALL and (number // 4 + k + n) % 48:
                    continue
                y = iv.asarray(KINDS[kind](dense if dense.ndim else dense[None]))
                f = lambda t, k=k: function(*args[:k], t, *args[k + 1 :], **kwargs)  # noqa: B023
                for how, call in (("", f), ("jit", iv.jit(f))):
                    with warnings.catch_warnings(), np.errstate(all="ignore"):
                        warnings.simplefilter("ignore")
                        try:
                            call(y)
                        except Exception as error:
                            said = re.sub(rf"\b{inner}\b", "", str(error))
                            if isinstance(error, IversonError) and GENERATED.search(said):
                                found.append(f"{name} {how}, {kind} at {k}: {error}")
    assert not found, "\n".join(found)


def public():
    """Functions with parameters, by the names that calls give them."""
    spaces = {"iverson": iv, "linalg": iv.linalg, "fft": iv.fft, "special": iv.special}
    spaces |= {"nn": iv.nn, "init": iv.nn.init, "optim": optim, "transforms": transforms}
    for prefix, space in spaces.items():
        for name in space.__all__:
            value = getattr(space, name)
            if inspect.isfunction(value) and inspect.signature(value).parameters:
                yield prefix, name, value
    for name, value in inspect.getmembers(iv.random.Generator, inspect.isfunction):
        if not name.startswith("_"):
            yield "Generator", name, value


def test_every_argument_has_a_value():
    """Of every public function, every parameter is given in some call."""
    covered = {}
    for call in CALLS.values():
        _, args, kwargs = call.make()
        known = covered.setdefault(call.name.partition("[")[0], [0, set()])
        known[0] = max(known[0], len(args))
        known[1] |= set(kwargs)
    missing = []
    for prefix, name, value in public():
        key = f"{prefix}.{name}"
        key = key if key in covered else f"iverson.{name}"  # linalg and transforms lend to iverson, and back
        count, named = covered.get(key, (0, set()))
        parameters = [p for p in inspect.signature(value).parameters if p != "self"]
        missing += [
            f"{prefix}.{name}: {p}" for k, p in enumerate(parameters) if k >= count and p not in named
        ]
    assert not missing


MESSAGES = [
    (
        lambda: iv.sum(iv.ones(2), keepdims=np.ones(2)),
        "sum: argument 'keepdims': got a ndarray of shape.*bool",
    ),
    (
        lambda: iv.qr if False else iv.linalg.qr(iv.eye(2), mode=np.ones(2)),
        "qr: argument 'mode': .*'reduced'",
    ),
    (lambda: iv.zeros(2, device=iv.ones(2)), "zeros: argument 'device': got a Tensor.*'cpu'"),
    (lambda: iv.jvp(3, (1.0,), (1.0,)), "jvp: argument 'function': got 3 .a int.; expected a function"),
    (lambda: iv.hvp(iv.sum, iv.ones(2), (1.0,)), "hvp: argument 'primals'.*put a single one in a tuple"),
    (lambda: "a" in iv.ones(2), "in: argument 'value': got 'a'"),
    (lambda: iv.astype(iv.ones(2), "a,b->c"), "astype: argument 'dtype': got 'a,b->c'"),
    (lambda: iv.segment_sum(iv.ones(2), [[0], [0, 1]]), "segment_sum: argument 'segment_ids'.*no array"),
    (lambda: iv.segment_sum(iv.ones(2), [0.0, np.nan]), "segment_sum: argument 'segment_ids'.*float64"),
    (lambda: iv.zeros((2**40, 2**40)), r"zeros: argument 'shape'.*fewer than 2\*\*63 bytes.*sparse"),
    (lambda: iv.arange(0, float("inf")), "arange: argument 'stop': got inf"),
    (lambda: iv.autograd.register_hook(3, print), "register_hook: argument 'x': got int; expected Tensors"),
    (lambda: iv.linalg.solve(iv.zeros((2, 2)), iv.ones(2)), "solve: argument 'x1': got Singular matrix"),
    (lambda: iv.linalg.solve(iv.eye(2), iv.ones(3)), r"solve: argument 'x2': got shape \(3,\) for x1"),
    (lambda: iv.linalg.matrix_power(iv.zeros((2, 2)), -1), "matrix_power: argument 'x': got Singular"),
    (lambda: iv.linalg.matrix_rank(iv.full((2, 2), iv.nan)), "matrix_rank: argument 'x': got nan"),
    (lambda: iv.linalg.norm(iv.full((2, 2), iv.nan), ord=2), "norm: argument 'x': got nan"),
    (lambda: iv.linalg.eigvals(iv.full((2, 2), iv.nan)), "eigvals: argument 'x': got nan"),
    (
        lambda: iv.spsolve(iv.to_layout(iv.zeros((2, 2)), "csr"), iv.ones(2)),
        "spsolve: argument 'a'.*singular",
    ),
    (lambda: iv.sort(iv.ones(2), descending="no"), "sort: argument 'descending': got 'no'"),
    (lambda: iv.zeros(2, dtype=iv.ones(2)), "zeros: argument 'dtype': got a Tensor.*expected a dtype"),
    (lambda: iv.astype(iv.ones(2), np.ones(2)), "astype: argument 'dtype': got a ndarray.*expected a dtype"),
    (lambda: iv.autograd.once_differentiable(3), "once_differentiable: argument 'rule'.*a function"),
    (lambda: iv.autograd.override_vjp("sinn", np.cos), "override_vjp: argument 'name': got 'sinn'"),
    (lambda: iv.autograd.override_vjp([], np.cos), r"override_vjp: argument 'name': got \[\]"),
    (lambda: iv.autograd.override_vjp("sin", 3), "override_vjp: argument 'rule': got 3 .*a function"),
    (lambda: iv.autograd.override_vjp("add", [np.cos]), "override_vjp: argument 'rule': got 1 rules"),
    (lambda: te.scatter((3,), (3,), 5), "argument 'fscatter': got 5 .a int.; expected a function"),
    (lambda: te.jvp(3, {}), "argument 'output': got 3 .a int.; expected a tensor expression"),
    (lambda: te.jvp(te.placeholder((3,)), 4), "argument 'tangents': got 4 .a int.; expected a dict"),
]


@pytest.mark.parametrize(("call", "message"), MESSAGES)
def test_messages(call, message):
    with pytest.raises(IversonError, match=message):
        call()


def test_rank_0_is_no_sequence():
    for make in (iv.asarray, iv.masked_tensor):
        for use in (len, iter, list):
            with pytest.raises(TypeError, match="rank 0") as caught:
                use(make(1.0))
            assert isinstance(caught.value, UnsizedError)


def test_what_a_users_function_raises_passes():
    def function(x):
        raise RuntimeError("mine")

    for transform in (iv.grad, iv.jacobian, iv.hessian, iv.value_and_grad):
        with pytest.raises(RuntimeError, match="mine"):
            transform(function)(iv.ones(2))


def test_flags_are_flags():
    for flag in (True, np.True_, 1):
        assert iv.sum(iv.ones((2, 2)), axis=0, keepdims=flag).shape == (1, 2)
    for other in ("yes", None, 2, 1.0, np.ones(1, bool), iv.asarray(True)):
        with pytest.raises(ArgumentTypeError, match="keepdims"):
            iv.sum(iv.ones((2, 2)), keepdims=other)
