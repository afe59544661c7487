"""Lowered graphs are found again by their text: by later calls, and by new processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.codegen.launches import compiled_program
from iverson.core.errors import IndexingError
from iverson.graph.ir.nodes import Graph
from iverson.graph.lowering import disk_cache, graph_lowering
from iverson.graph.lowering.graph_lowering import lower
from iverson.graph.passes import simplified
from tests.graph.programs import traced


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("IVERSON_CACHE", str(tmp_path / "kernels"))
    forget()
    return tmp_path / "kernels"


def forget() -> None:
    """Know as little as a new process."""
    disk_cache.forget()
    compiled_program.forget()


def network(w: Any, x: Any, at: Any) -> Any:
    h = iv.tanh(x @ w)[at]
    return (iv.linalg.inv(h.mT @ h + 3.0) * iv.asarray(np.arange(9.0).reshape(3, 3))).sum()


ARGS = (np.arange(12.0).reshape(4, 3) / 12, np.arange(20.0).reshape(5, 4) / 20, np.array([0, 2, 4]))


def network_graph(**changed: Any) -> Graph:
    return simplified(traced(iv.value_and_grad(network), list(changed.get("args", ARGS))))


def unused(*_args: Any) -> Any:
    raise AssertionError("lowered again")


def test_a_new_process_lowers_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = lower(network_graph())
    want = first(ARGS)
    forget()
    with monkeypatch.context() as patch:
        patch.setattr(graph_lowering, "_steps", unused)
        again = lower(network_graph())
        assert [type(s) for s in again.steps] == [type(s) for s in first.steps]
        for a, b in zip(again(ARGS), want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert again.source == first.source, "planned again where somebody asks"


def test_an_index_outside_is_told_as_by_the_first_process(folder: Path) -> None:
    args = (*ARGS[:2], np.array([0, 2, 5]))
    messages = []
    for _ in range(2):
        with pytest.raises(IndexingError) as caught:
            lower(network_graph())(args)
        messages.append(str(caught.value))
        forget()
    assert messages[0] == messages[1]


def test_what_is_lost_is_made_again(folder: Path) -> None:
    want = lower(network_graph())(ARGS)
    for path in list(folder.iterdir()):
        kept = path.read_bytes()
        path.unlink()
        forget()
        np.testing.assert_array_equal(lower(network_graph())(ARGS)[0], want[0])
        path.write_bytes(kept)


def test_constants_are_arguments_and_all_else_is_in_the_key() -> None:
    def scaled(by: Any, axis: int = 0) -> Any:
        return simplified(traced(lambda x: iv.flip(x, axis=axis) * iv.asarray(by), [np.ones((3, 3))]))

    key = disk_cache.key_of(scaled(np.arange(3.0)))
    assert key == disk_cache.key_of(scaled(np.arange(2.0, 5.0)))
    three = np.arange(3.0)
    others = [scaled(three.astype(np.float32)), scaled(three[:, None]), scaled(three, axis=1)]
    assert len({key, *map(disk_cache.key_of, others)}) == 4


def test_of_what_users_define_the_key_has_what_it_computes() -> None:
    def key(by: float, results: int = 1) -> Any:
        @te.op(name="scaled_for_stored", results=results)
        def scaled(x: Any) -> Any:
            made = te.compute(x.shape, lambda i: by * x[i])
            return made if results == 1 else (made, made)

        body = scaled if results == 2 else lambda x: scaled(iv.transforms.checkpoint(scaled)(x))
        return disk_cache.key_of(traced(body, [np.ones(3)]))

    assert key(2.0) == key(2.0)
    assert len({None, key(2.0), key(3.0), key(2.0, results=2)}) == 4
