"""Names of other libraries that do not exist here: the error says what does."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from importlib.util import find_spec

import pytest

import iverson as iv
from iverson.core.python import foreign_names


def remedies():
    for name in (*foreign_names.NAMES, *foreign_names._ELSEWHERE):
        yield name, foreign_names.remedy(name).removeprefix("; here it is ")


@pytest.mark.parametrize(("name", "said"), list(remedies()))
def test_what_is_said_to_be_here_is(name, said):
    """And the name is none of ours, so that it is asked for."""
    assert said
    of_tensors = name in ("bfloat16", "bool", "data")  # x.data; iverson.data is a module
    assert not hasattr(iv, name) or name in dir(iv.Tensor) or of_tensors
    for path in re.findall(r"\biverson(?:\.\w+)+", said):
        if path.startswith("iverson.interop."):  # which may need another library
            assert find_spec(".".join(path.split(".")[:3]))
            continue
        found = iv
        for part in path.split(".")[1:]:
            found = getattr(found, part)


def test_errors_say_it():
    x = iv.ones(3)
    m = iv.masked_tensor([1.0], [True])
    for space in (iv, x, m):
        for name in ("cat", "clamp", "arcsin"):
            with pytest.raises(AttributeError, match=rf"'{name}'.*; here it is iverson\."):
                getattr(space, name)
            assert not hasattr(space, name)
        with pytest.raises(AttributeError, match=r"'no_such'$"):
            _ = space.no_such


def test_draws_are_methods_of_generators():
    for name in ("normal", "poisson", "rand", "randint", "seed"):
        with pytest.raises(AttributeError, match=rf"'{name}'; here it is iverson\.random\.default_rng"):
            getattr(iv.random, name)


def test_a_property_that_raises_says_why_itself(monkeypatch):
    def fails(self):
        raise AttributeError("for a reason")

    monkeypatch.setattr(iv.Tensor, "failing", property(fails), raising=False)
    with pytest.raises(AttributeError, match=r"^for a reason$"):
        _ = iv.ones(3).failing


NAMESPACES = (
    "", "autograd", "data", "debug", "explain", "fft", "linalg", "masked", "nn", "optim", "random", "special",
    "testing", "transforms", "tree",
)  # fmt: skip
#: Functions without the check: it lies in a package above `core.dtypes`.
UNCHECKED = {"isdtype"}
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def functions_with_keywords():
    """Public functions, methods, layers and optimizers, with what comes first in a call, and keywords."""
    found = []
    for space in NAMESPACES:
        module = import_module(f"iverson.{space}") if space else iv
        for name in sorted(set(module.__all__) - UNCHECKED):
            f = getattr(module, name)
            is_built = isinstance(f, type) and "__init__" in vars(f) and space in ("nn", "optim")
            if inspect.isfunction(f) or (is_built and not inspect.isabstract(f)):
                found.append((f"{space}.{name}".lstrip("."), f))
    for kind, x in ((iv.Tensor, iv.ones(3)), (iv.masked.MaskedTensor, iv.masked_tensor([1.0], [True]))):
        names = [n for n in dir(kind) if n[0] != "_" and inspect.isfunction(getattr(kind, n))]
        found += [(f"{kind.__name__}.{n}", getattr(x, n)) for n in names]
    for name, f in found:
        parameters = inspect.signature(f).parameters.values()
        keywords = [p.name for p in parameters if p.kind in NAMED]
        if keywords and not any(p.kind is p.VAR_KEYWORD for p in parameters):
            first = (iv.ones(3),) if keywords[0] in ("params", "optimizer") else ()
            yield pytest.param(f, first, keywords, id=name)


#: What is no public function but a part of one, or a dataclass whose constructor Python writes.
WRITTEN_BY_PYTHON = {"nn.Dropout", "nn.Lambda", "optim.Functional", "optim.ParamGroup"}
WITH_KEYWORDS = [p for p in functions_with_keywords() if p.id not in WRITTEN_BY_PYTHON]


@pytest.mark.parametrize(("function", "first", "keywords"), WITH_KEYWORDS)
def test_keywords_of_other_libraries_lead_to_ours(function, first, keywords):
    """The error is one of ours, also for a keyword that nobody has, and names the parameter that there is."""
    with pytest.raises(
        iv.errors.ArgumentTypeError, match="'no_such_keyword': got a keyword that it does not"
    ):
        function(*first, no_such_keyword=0)
    for theirs, ours in foreign_names.KEYWORDS.items():
        match = next((name for name in ours.split() if name in keywords), None)
        if match and theirs not in inspect.signature(function).parameters:
            with pytest.raises(iv.errors.ArgumentTypeError, match=f"'{theirs}': got .*write {match}="):
                function(*first, **{theirs: 0})


def test_the_functions_with_keywords_are_found():
    names = {p.id for p in WITH_KEYWORDS}
    assert {
        "sum",
        "Tensor.var",
        "MaskedTensor.mean",
        "nn.linear",
        "nn.Linear",
        "optim.Adam",
        "fft.fft",
    } <= names
    assert len(names) > 450


def test_keywords_that_no_function_has():
    x = iv.ones((2, 3))
    for call, said in (
        (lambda: x.sum(out=x), r"y\[\.\.\.\] = result writes"),
        (lambda: iv.var(x, unbiased=False), "correction=0 for one by n"),
        (lambda: iv.max(x, initial=0.0), "iverson.maximum"),
        (lambda: iv.mean(x=x), r"write mean\(x, \.\.\.\)"),
        (lambda: iv.sum(x, where=x > 0), "iverson.where"),
        (lambda: iv.sum(x, axs=0), "write axis="),
    ):
        with pytest.raises(iv.errors.ArgumentTypeError, match=said):
            call()
