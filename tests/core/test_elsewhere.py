"""Names of other libraries that do not exist here: the error says what does."""

from __future__ import annotations

import re
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
    of_tensors = name == "data"  # x.data; iverson.data is a module
    assert not hasattr(iv, name) or name in dir(iv.Tensor) or of_tensors
    for path in re.findall(r"\biverson(?:\.\w+)+", said):
        if path == "iverson.interop.mpi":  # which needs an MPI library
            assert find_spec(path)
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
