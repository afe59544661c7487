"""What is public: every namespace shows its names, once and only those."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

import iverson as iv
from iverson.core.scalars import SCALARS
from tests.surface import right
from tools.stubs import STUBS

NAMESPACES = (
    "iverson",
    "iverson.autograd",
    "iverson.data",
    "iverson.dataclasses",
    "iverson.debug",
    "iverson.errors",
    "iverson.explain",
    "iverson.fft",
    "iverson.graph",
    "iverson.linalg",
    "iverson.masked",
    "iverson.nn",
    "iverson.optim",
    "iverson.random",
    "iverson.special",
    "iverson.te",
    "iverson.testing",
    "iverson.transforms",
    "iverson.tree",
)


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_namespace_shows_its_public_names_alone(name):
    space = importlib.import_module(name)
    shown = dir(space)
    assert shown == sorted(space.__all__)
    assert len(shown) == len(set(shown))
    assert not [n for n in shown if n.startswith("_") or not hasattr(space, n)]


def test_hasattr_is_false_for_what_a_namespace_does_not_have():
    """Whatever looks up names when they are asked for raises what `hasattr` takes for no."""
    for space in (*map(importlib.import_module, NAMESPACES), iv.te.F, iv.ops.F, iv.asarray(1.0)):
        for name in ("no_such", "__no_such__", "x"):
            assert not hasattr(space, name)
    with pytest.raises(iv.errors.NameMissingError, match=r"te\.F: argument 'sinn': expected one of .*sin"):
        iv.te.F.sinn


def test_every_namespace_is_listed_here():
    modules = {f"iverson.{n}" for n in iv.__all__ if type(getattr(iv, n)).__name__ == "module"}
    assert modules | {"iverson"} == set(NAMESPACES)


def test_names_on_demand_are_those_of_their_packages():
    assert iv.grad is iv.transforms.grad
    assert iv.MaskedTensor is iv.masked.MaskedTensor
    with pytest.raises(AttributeError, match="no attribute 'policy'"):
        _ = iv.policy


@pytest.mark.parametrize("path", STUBS, ids=lambda p: p.parent.name)
def test_stubs_are_what_the_tables_say(path):
    assert path.read_text() == STUBS[path](), "run `make stubs`"


#: Results of any type: Python numbers, objects of NumPy and SciPy, a user's own, and what overloads say.
OF_ANY_TYPE = {
    "apply", "backward", "bit_generator", "dataclass", "field", "forward", "grad", "item", "jvp", "leaves",
    "load", "map", "op", "to_scipy", "tolist", "vjp",
}  # fmt: skip


def functions(space):
    """The public functions of a namespace, and the methods and properties of its classes, by name."""
    elsewhere = {*SCALARS, "F"} if space is iv.te else set()
    for name in set(space.__all__) - elsewhere:
        value = getattr(space, name)
        members = inspect.getmembers_static(value) if inspect.isclass(value) else [(name, value)]
        for own, member in members:
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            ours = inspect.isfunction(function) and function.__module__.startswith("iverson")
            if ours and own[0] != "_":
                yield own, inspect.signature(function)


@pytest.mark.parametrize("name", NAMESPACES)
def test_results_are_typed(name):
    found = dict(functions(importlib.import_module(name)))
    untyped = {n for n, s in found.items() if s.return_annotation in ("Any", s.empty)}
    assert not untyped - OF_ANY_TYPE


#: Functions with an argument of any type: what a user's own methods take, and objects that a text refers to.
TAKE_ANY_TYPE = {"apply", "backward", "forward", "parse"}


@pytest.mark.parametrize("name", NAMESPACES)
def test_arguments_are_typed(name):
    found = functions(importlib.import_module(name))
    untyped = {
        n
        for n, s in found
        if any(
            p.annotation is p.empty or re.search(r"\b(Any|object)\b", str(p.annotation))
            for p in s.parameters.values()
            if p.name not in ("self", "cls")
        )
    }
    assert not untyped - TAKE_ANY_TYPE


def test_right_code_runs():
    """What type checkers find nothing wrong in (`make lint`)."""
    right.main()
