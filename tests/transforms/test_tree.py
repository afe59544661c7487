"""Trees: optree's results under our names, and registered classes in every transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson import tree

TREES = st.recursive(
    st.integers(),
    lambda children: (
        st.lists(children, max_size=3)
        | st.tuples(children, children)
        | st.dictionaries(st.text(max_size=2), children, max_size=3)
    ),
    max_leaves=8,
)


@given(TREES)
def test_maps_leaves_and_structures_are_those_of_optree(x):
    assert tree.leaves(x) == optree.tree_leaves(x)
    assert tree.structure(x) == optree.tree_structure(x)
    assert tree.map(lambda n: n + 1, x) == optree.tree_map(lambda n: n + 1, x)
    assert tree.map(lambda a, b: a - b, x, x) == optree.tree_map(lambda n: 0, x)
    leaves, structure = tree.flatten(x)
    assert tree.unflatten(structure, leaves) == x


def test_masked_tensors_are_leaves_and_none_is_a_node():
    m = iv.masked_tensor([1.0, 2.0], [True, False])
    assert tree.leaves({"a": m, "b": None})[0] is m
    assert tree.map(lambda x: x * 2.0, [None, m])[0] is None


class Line:
    def __init__(self, slope: Any, offset: Any, name: str) -> None:
        self.slope, self.offset, self.name = slope, offset, name

    def __call__(self, x: Any) -> Any:
        return self.slope * x + self.offset


class Pair:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


tree.register(Line, static=("name",))
tree.register(Pair, lambda p: ((p.a, p.b), None), lambda _, parts: Pair(*parts))
X = iv.asarray([1.0, 2.0])
LINE = Line(iv.asarray(2.0), iv.asarray(1.0), "first")


@pytest.mark.parametrize("way", ["eager", "jit", "vmap", "ravel"])
def test_registered_classes_in_transforms(way):
    loss = lambda line: (line(X) ** 2).sum()
    f = iv.grad(loss)
    if way == "jit":
        f = iv.jit(f)
    elif way == "vmap":
        stacked = tree.map(lambda x: iv.stack([x, x]), LINE)
        f = lambda line: tree.map(lambda x: x[1], iv.vmap(iv.grad(loss))(stacked))
    elif way == "ravel":
        vector, unravel = iv.ravel_pytree(LINE)
        f = lambda line: unravel(iv.grad(lambda v: loss(unravel(v)))(vector))
    gradient = f(LINE)
    assert type(gradient) is Line
    assert gradient.name == "first"
    y = 2.0 * X.numpy() + 1.0
    np.testing.assert_allclose(gradient.slope.numpy(), (2 * y * X.numpy()).sum())
    np.testing.assert_allclose(gradient.offset.numpy(), (2 * y).sum())


def test_functions_say_the_children():
    doubled = tree.map(lambda x: x * 2, Pair(1, [2]))
    assert (doubled.a, doubled.b) == (2, [4])


def test_a_static_attribute_is_part_of_what_is_traced():
    seen = []
    f = iv.jit(lambda line: (seen.append(line.name), line(X))[1])
    f(LINE)
    f(Line(iv.asarray(3.0), iv.asarray(1.0), "first"))
    f(Line(iv.asarray(3.0), iv.asarray(1.0), "second"))
    assert seen == ["first", "second"]


def test_optimizers_take_registered_classes():
    line = Line(iv.asarray(2.0, requires_grad=True), iv.asarray(1.0, requires_grad=True), "first")
    opt = iv.optim.SGD(line, lr=0.1)
    opt.step(iv.grad(lambda line: line(iv.asarray(1.0)))(line))
    np.testing.assert_allclose([line.slope.item(), line.offset.item()], [1.9, 0.9])


def test_a_dataclass_with_an_init_of_its_own(tmp_path):
    gradient = iv.grad(lambda s: (s.weight * X).sum())(Scaled(3.0))
    np.testing.assert_array_equal(gradient.weight.numpy(), X.numpy())
    assert gradient.size == 2
    iv.save(tmp_path / "x.npz", Scaled(3.0))
    loaded = iv.load(tmp_path / "x.npz")
    assert type(loaded) is Scaled
    np.testing.assert_array_equal(loaded.weight.numpy(), [3.0, 3.0])
    assert repr(Scaled(1.0)).endswith("Scaled(weight=iverson.Tensor([1., 1.]), size=2)")


@iv.dataclasses.dataclass
class Scaled:
    weight: Any
    size: int = iv.dataclasses.field(pytree_node=False)

    def __init__(self, value: float) -> None:
        self.weight, self.size = iv.full(2, value), 2


def test_errors():
    with pytest.raises(iv.errors.ArgumentError, match=r"map: argument 'trees\[0\]'"):
        tree.map(lambda a, b: a, [1], (1,))
    with pytest.raises(iv.errors.ArgumentError, match="unflatten: argument 'leaves': got 1 leaves"):
        tree.unflatten(tree.structure([1, 2]), [1])
    with pytest.raises(iv.errors.ArgumentError, match="a node already"):
        tree.register(Line)
    with pytest.raises(iv.errors.ArgumentError, match="both, or neither"):
        tree.register(dict, lambda x: ((), None))
    with pytest.raises(iv.errors.ArgumentTypeError, match="a class"):
        tree.register(3)

    class Plain:
        def __init__(self) -> None:
            self.w = iv.ones(2)

    for call in (
        lambda: iv.grad(lambda m: m.w.sum())(Plain()),
        lambda: iv.vmap(lambda m: m.w)(Plain()),
        lambda: iv.ravel_pytree(Plain()),
        lambda: iv.optim.SGD(Plain(), lr=0.1),
        lambda: iv.optim.adam(0.1).init(Plain()),
        lambda: iv.optim.EMA(Plain()),
        lambda: iv.jvp(lambda m: m.w, (Plain(),), (Plain(),)),
    ):
        with pytest.raises(iv.errors.ArgumentTypeError, match=r"iverson\.tree\.register\(Plain\)"):
            call()
