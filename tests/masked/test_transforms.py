"""Masked tensors under transforms, in pytrees, pickled, copied, printed; messages of errors."""

from __future__ import annotations

import copy
import doctest
import pickle

import numpy as np
import optree
import pytest

import iverson as iv
from iverson.testing import GradcheckError, gradcheck
from tests.conformance.product import EXHAUSTIVE, paired, some, turn
from tests.graph.ways import interpreted
from tests.masked.oracle import with_garbage

MASK = [True, False, True]


def sample():
    return iv.masked_tensor([1.0, np.nan, 3.0], MASK)


def test_reverse_and_forward():
    m = sample()
    assert iv.grad(lambda m: (m * m).sum())(m).tolist() == [2.0, None, 6.0]
    value, gradient = iv.value_and_grad(lambda m, w: (m * w).sum(), argnums=(0, 1))(m, iv.ones(3))
    assert value.item() == 4.0
    assert gradient[0].tolist() == [1.0, None, 1.0]
    assert gradient[1].tolist() == [1.0, 0.0, 3.0]
    y, pull = iv.vjp(lambda m: m * m, m)
    assert y.tolist() == [1.0, None, 9.0]
    assert pull(y)[0].tolist() == [2.0, None, 54.0]
    assert pull(iv.asarray([1.0, np.nan, 1.0]))[0].tolist() == [2.0, None, 6.0]
    y, t = iv.jvp(lambda m: m.sum() * m, (m,), (iv.ones(3),))
    assert t.tolist() == [6.0, None, 10.0]
    _, product = iv.hvp(lambda m: (m**3).sum(), (m,), (m,))
    assert product[0].tolist() == [6.0, None, 54.0]


#: Of an array that is inf where a mask leaves it out: to a number.
MASKED_LOSSES = {
    "a sum": lambda m: m.sum(),
    "of squares": lambda m: (m**2).sum(),
    "rows": lambda m: (m.sum(axis=1) ** 2).sum(),
    "columns' means": lambda m: (m.mean(axis=0) ** 3).sum(),
    "a product": lambda m: (m @ np.ones((3, 2))).sum(),
    "a deviation": lambda m: m.var(),
    "a softmax": lambda m: iv.softmax(m, axis=1)[0, 0],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "known"), paired(MASKED_LOSSES, [True, False]))
def test_what_a_mask_leaves_out_reaches_no_gradient_compiled_or_not(name, known):
    x = iv.asarray([[1.0, 0.0, 2.0], [0.0, 3.0, -1.0]])
    mask, weights = x.numpy() != 0, np.arange(1.0, 7.0).reshape(2, 3)
    masked = lambda x: iv.masked_tensor(1 / x, mask if known else x != 0)
    first = iv.grad(lambda x: MASKED_LOSSES[name](masked(x)).to_tensor(0))
    second = iv.grad(lambda x: (first(x).to_dense() * weights).sum())
    for f in (first, second):
        found, expected = iv.jit(f)(x).to_dense().numpy(), f(x).to_dense().numpy()
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        for _, (after_a_pass,) in interpreted(f, [x]):  # each of which changes nothing the second time
            np.testing.assert_allclose(after_a_pass.to_dense().numpy(), expected, rtol=1e-12, atol=1e-14)


def positive(x):
    return iv.masked_tensor(x, x > 0)


def _is_masked(x):
    return isinstance(x, iv.MaskedTensor)


MASKED_ROW = iv.masked_tensor([1.0, 2.0, 3.0], MASK)

#: Functions whose masks follow from entries, in what a trace takes apart.
COMPUTED = {
    "a result": positive,
    "a tree": lambda x: {"of": (positive(x), x), "sum": positive(x).sum(), "rows": positive(x).mean(axis=1)},
    "a branch": lambda x: iv.cond(x.sum() > 0, positive, lambda x: positive(-x), x),
    "steps": lambda x: iv.scan(lambda c, row: (c + positive(row).sum().to_tensor(0), positive(row)), 0.0, x),
    "a carry": lambda x: iv.fori_loop(0, 3, lambda k, m: m * positive(x - k), positive(x)),
    "a carry that gets a mask": lambda x: iv.scan(lambda m, r: (m * positive(r), None), MASKED_ROW, x)[0],
    "computed again": iv.checkpoint(lambda x: iv.exp(positive(x))),
    "an argument": lambda x: iv.checkpoint(lambda m: (m * m).sum(axis=0))(positive(x)),
    "a gradient": lambda x: iv.grad(lambda m: (m**3).sum().to_tensor(0))(positive(x)),
    "of examples": iv.vmap(lambda row: positive(row) * row),
    "a choice": lambda x: iv.where(positive(x) > 1, x, -x),
    "written": lambda x: iv.masked_tensor(positive(x), x < 2).to_tensor(x * 3),
    "a jacobian": iv.jacobian(lambda x: positive(x).sum(axis=1) * positive(x[:, 0])),
    "a jacobian in it": lambda x: iv.jacobian(lambda m: m * m * positive(-x))(positive(x)),
    "a jacobian of columns": lambda x: iv.jacobian(lambda r: positive(r * x).mean(axis=1))(x[0]),
    "a jacobian in one that is known": lambda x: iv.jacobian(lambda m: m * positive(x[0]))(
        iv.masked_tensor(x[0] * 2, MASK)
    ),
    "a hessian": iv.hessian(lambda x: (positive(x) ** 3).mean().to_tensor(0)),
    "a hessian in it": lambda x: iv.hessian(lambda m: (m**3).sum().to_tensor(0))(positive(x[0])),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_masks_that_follow_from_entries(name):
    """One trace serves all masks; values, masks and second derivatives are those of eager calls.

    Every fourth is compiled, and the others are carried out op by op."""
    f, traced = COMPUTED[name], []

    def counted(x):
        traced.append(x)
        return f(x)

    def loss(x):
        leaves = optree.tree_leaves(f(x), is_leaf=_is_masked)
        plain = [y.to_tensor(0) if _is_masked(y) else y for y in leaves]
        return sum((y * y).sum() for y in plain)

    by_ops = not EXHAUSTIVE and turn(name, 4) > 0
    compiled = iv.jit(counted, interpret=by_ops)
    second = iv.grad(lambda x: (iv.grad(loss)(x) ** 3).sum())
    twice = iv.jit(second, interpret=by_ops)
    x = iv.asarray([[1.0, -2.0, 3.0], [-0.5, 0.25, -1.0]])
    for given in (x, -x, x + 4):
        both = (optree.tree_leaves(y, is_leaf=_is_masked) for y in (compiled(given), f(given)))
        for a, b in zip(*both, strict=True):
            if _is_masked(b):
                np.testing.assert_array_equal(a.get_mask().numpy(), b.get_mask().numpy())
                a, b = a.to_tensor(0), b.to_tensor(0)
            np.testing.assert_allclose(a.to_dense().numpy(), b.to_dense().numpy(), rtol=1e-13)
        found, expected = (g(given).to_dense().numpy() for g in (twice, second))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert len(traced) == 1


#: Which factors of a product have masks, and whether these are known where it is traced.
FACTORS = {
    "both computed": (True, True, False),
    "both known": (True, True, True),
    "left computed": (True, False, False),
    "right computed": (False, True, False),
    "left known": (True, False, True),
}


def product_of(kind, a, b):
    """A function of two arrays to the product of masked tensors; and the masks."""
    left, right, known = FACTORS[kind]
    ma, mb = (a > 0) | (not left), (b < 0.4) | (not right)
    masks = [(lambda x, m=m: m) if known else f for m, f in ((ma, lambda x: x > 0), (mb, lambda x: x < 0.4))]
    of = [
        (lambda x, f=f: iv.masked_tensor(x, f(x))) if there else (lambda x: x)
        for f, there in zip(masks, (left, right), strict=True)
    ]
    return (lambda a, b: of[0](a) @ of[1](b)), ma, mb


@pytest.mark.parametrize("kind", FACTORS)
def test_masked_products_are_products_of_matrices_to_second_order(kind):
    """Multiply-adds and entries of eager, compiled and mapped calls, and values against NumPy."""
    rng = np.random.default_rng(3)
    m, k, n = 100, 110, 120
    size = m * k + k * n + m * n
    a, b, w, v = (rng.standard_normal(s) for s in ((m, k), (k, n), (m, n), (m, k)))
    a[4] = -1.0  # a row of which nothing is specified
    f, ma, mb = product_of(kind, a, b)
    own_a, own_b = np.where(ma, a, 0), np.where(mb, b, 0)
    expected = np.ma.dot(np.ma.MaskedArray(a, ~ma), np.ma.MaskedArray(b, ~mb))
    there = ~np.ma.getmaskarray(expected)
    y = own_a @ own_b

    def loss(a, b):
        return (w * f(a, b).to_tensor(0) ** 3).sum()

    g = (3 * w * y**2) @ own_b.T * ma
    turned = (6 * w * y * ((v * ma) @ own_b)) @ own_b.T * ma
    cases = (
        (f, expected.filled(0), 1),
        (iv.grad(loss), g, 2),
        (iv.grad(lambda a, b: (iv.grad(loss)(a, b) * v).sum()), turned, 4),
    )
    for number, (h, value, products) in some(kind, enumerate(cases), 2):
        ways = ((False, iv.jit(h)), (True, iv.vmap(h)), (True, iv.jit(iv.vmap(h))))
        for mapped, way in ((False, h), *some(kind, ways, number=number)):
            args = [iv.asarray(np.stack([x, x]) if mapped else x) for x in (a, b)]
            way(*args)
            with iv.explain.count() as work:
                found = way(*args)
            if _is_masked(found):
                np.testing.assert_array_equal(found.get_mask().numpy(), np.broadcast_to(there, found.shape))
                found = found.to_tensor(0)
            same(found, value)
            # One more product says which entries are specified.
            assert work.multiply_adds <= (1 + mapped) * (products + all(FACTORS[kind][:2])) * m * k * n
            assert work.entries.total() <= (1 + mapped) * 27 * size < m * k * n * (1 + mapped)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("kind", "dtype"), paired(["left", "right", "both"], ["float64", "complex128"]))
def test_what_is_not_finite_is_multiplied_where_both_factors_exist(kind, dtype):
    """Behind masks and before them, in values and gradients, compiled and mapped: against a sum of terms."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype(dtype) for s in ((4, 6), (6, 3)))
    ma, mb = ((rng.random(x.shape) < 0.5) | (kind == other) for x, other in ((a, "right"), (b, "left")))
    a, b = with_garbage(a, ma), with_garbage(b, mb)
    places = [(x, np.argwhere(m)) for x, m in ((a, ma), (b, mb))]
    for (x, own), value in zip(places, (np.inf, np.nan), strict=True):
        x[tuple(own[2])] = value
    a[tuple(places[0][1][-1])] = -np.inf
    a[tuple(places[0][1][0])] = 0.0

    def f(a, b, ma, mb):
        return iv.masked_tensor(a, ma) @ iv.masked_tensor(b, mb)

    def g(a, b, ma, mb):
        return iv.grad(lambda a, b: f(a, b, ma, mb).real.sum().to_tensor(0), (0, 1))(a, b)

    def summed(x, y, there):
        terms = [[(x[i][t] * y[:, j][t]).sum() for j, t in enumerate(row)] for i, row in enumerate(there)]
        return np.array(terms)

    there = ma[:, None, :] & mb.T[None]
    exists, ones = there.any(axis=2), np.ones((4, 3), dtype)
    of_a = summed(ones, b.conj().T, exists[:, None, :] & mb[None])
    of_b = summed(a.conj().T, ones, ma.T[:, None, :] & exists.T[None])
    expected = np.where(exists, summed(a, b, there), 0)
    ways = (((), iv.jit), ((2,), iv.vmap), ((2,), lambda h: iv.jit(iv.vmap(h))))
    for batch, way in (((), lambda h: h), *some(dtype, ways, number=["left", "right", "both"].index(kind))):
        args = [iv.asarray(np.broadcast_to(x, batch + x.shape)) for x in (a, b, ma, mb)]
        found = way(f)(*args)
        np.testing.assert_array_equal(found.get_mask().numpy(), np.broadcast_to(exists, found.shape))
        same(found.to_tensor(0), expected)
        for y, value, mask in zip(way(g)(*args), (of_a, of_b), (ma, mb), strict=True):
            same(y, np.where(mask, value, 0))


def same(found, expected):
    """Each example of a batch."""
    found = found.to_dense().numpy()
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-10, atol=1e-12)


def test_what_a_computed_mask_cannot_do_is_said():
    x = iv.asarray([[1.0, -2.0], [3.0, 4.0]])
    with pytest.raises(iv.errors.ArgumentTypeError, match=r"a mask that is computed.*to_tensor\(fill\)"):
        iv.jit(lambda x: iv.linalg.inv(positive(x)))(x)
    known = pytest.raises(iv.errors.GraphError, match="masks that are known to be equal")
    with known, iv.masked.policy("strict"):
        iv.jit(lambda x: positive(x) + iv.masked_tensor(x, x < 2))(x)
    with pytest.raises(iv.errors.GraphError, match=r"test_transforms\.py:\d+"):
        iv.jit(lambda x: positive(x).tolist())(x)


def test_jacobians_have_the_masks_of_both_sides():
    m = sample()
    for mode in ("reverse", "forward"):
        both = iv.jacobian(lambda m: m * m, mode=mode)(m)
        assert both.tolist() == [[2.0, None, 0.0], [None] * 3, [0.0, None, 6.0]]
        rows = iv.jacobian(lambda w: m * w, mode=mode)(iv.ones(3))
        assert rows.tolist() == [[1.0, 0.0, 0.0], [None] * 3, [0.0, 0.0, 3.0]]
        columns = iv.jacobian(lambda m: m.to_tensor(0), mode=mode)(m)
        assert columns.tolist() == [[1.0, None, 0.0], [0.0, None, 0.0], [0.0, None, 1.0]]
    hessian = iv.hessian(lambda m: (m**3).sum())(m)
    assert hessian.tolist() == [[6.0, None, 0.0], [None] * 3, [0.0, None, 18.0]]


def test_nested_containers():
    tree = {"a": sample(), "b": [iv.ones(3)]}
    g = iv.grad(lambda t: (t["a"] * t["b"][0]).sum())(tree)
    assert g["a"].tolist() == [1.0, None, 1.0]
    assert g["b"][0].tolist() == [1.0, 0.0, 3.0]


def test_a_node_of_pytrees():
    import optree

    doubled = optree.tree_map(lambda x: 2 * x, {"m": sample()})
    assert doubled["m"].tolist() == [2.0, None, 6.0]
    leaves, structure = optree.tree_flatten(sample())
    assert [x.tolist() for x in leaves] == [[1.0, 3.0]]
    assert structure == optree.tree_structure(sample())
    assert structure != optree.tree_structure(iv.masked_tensor(iv.ones(3)))


def test_pickled_and_copied():
    m = sample().requires_grad_()
    for own in (pickle.loads(pickle.dumps(m)), copy.deepcopy(m), copy.copy(m)):
        assert own.tolist() == [1.0, None, 3.0]
        assert own.requires_grad
    with pytest.raises(iv.errors.GradientError, match=r"pickle"):
        pickle.dumps(m * 2)


def test_optimizers_step_what_is_specified():
    m = sample().requires_grad_()
    optimizer = iv.optim.SGD({"m": m}, lr=1.0)
    (m * m).sum().backward()
    optimizer.step()
    assert m.tolist() == [-1.0, None, -3.0]


def test_gradcheck_perturbs_only_what_is_there():
    m = iv.masked_tensor([[1.0, np.nan], [np.inf, 3.0]], np.eye(2, dtype=bool), requires_grad=True)
    for fast in (False, True):
        assert gradcheck(lambda m: m.sin() @ m, (m,), fast=fast)

    class Wrong(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g * iv.asarray([1.0, 2.0])

    def f(m):
        return m._rewrap(Wrong.apply(m._inner))

    for fast in (False, True):
        with pytest.raises(GradcheckError) as caught:
            gradcheck(f, (m,), fast=fast)
        assert caught.value.finding.input == "inputs[0]"
        assert caught.value.finding.input_index == (1, 1)
        assert caught.value.finding.output_index == (1, 1)


def test_gradcheck_refuses_a_mask_that_moves():
    m = iv.masked_tensor([1.0, 2.0], [True, True], requires_grad=True)
    with pytest.raises(GradcheckError, match="mask"):
        gradcheck(lambda m: iv.masked_tensor(m, m <= 1.0), (m,))


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (iv.masked_tensor([1.0, np.nan], [True, False]), "iverson.MaskedTensor([1., --])"),
        (
            iv.masked_tensor([[1, 20], [3, 4]], [[True, True], [False, True]]),
            "iverson.MaskedTensor([[ 1, 20],\n                      [--,  4]])",
        ),
        (iv.masked_tensor(1.0, False), "iverson.MaskedTensor(--, dtype=float64)"),
        (iv.masked_tensor([True, False], [False, True]), "iverson.MaskedTensor([   --, False])"),
        (
            iv.masked_tensor(iv.ones(2, dtype="float32"), [True, False], requires_grad=True),
            "iverson.MaskedTensor([1., --], dtype=float32, requires_grad=True)",
        ),
        (
            iv.masked_tensor(iv.ones((0, 2)), True),
            "iverson.MaskedTensor([], shape=(0, 2), dtype=float64)",
        ),
    ],
)
def test_printing(x, shown):
    assert repr(x) == str(x) == shown


@pytest.mark.parametrize("shape", [(5000,), (2, 900), (60, 50), (3, 2000), (11, 12, 13), (1, 7, 300)])
def test_large_ones_are_abridged_as_numpy_does(shape):
    values = np.random.default_rng(0).standard_normal(shape)
    expected = repr(iv.asarray(values)).replace("Tensor", "MaskedTensor")
    assert "".join(repr(iv.masked_tensor(values, np.ones(shape, bool))).split()) == "".join(expected.split())
    mask = np.random.default_rng(1).random(shape) < 0.5
    cells = np.where(mask, np.arange(mask.size).reshape(shape), "--")
    expected = np.array2string(cells, separator=", ").replace("'", "").replace(" ", "")
    shown = repr(iv.masked_tensor(np.arange(mask.size).reshape(shape), mask)).replace(" ", "")
    assert shown == f"iverson.MaskedTensor({expected})"


def test_policy():
    a, b = sample(), iv.masked_tensor(iv.ones(3))
    with iv.masked.policy("strict"):
        assert (a + a * 2).tolist() == [3.0, None, 9.0]
        assert (a + 1.0).var().item() == 1.0
        with pytest.raises(iv.errors.ArgumentError, match=r"add: argument 'mask'.*strict"):
            a + b
        with iv.masked.policy("intersect"):
            assert (a + b).tolist() == [2.0, None, 4.0]
    assert (a + b).tolist() == [2.0, None, 4.0]
    with pytest.raises(ValueError, match=r"masked\.policy: argument 'name'"):
        iv.masked.policy("loose")


def raises(kind, match, act):
    with pytest.raises(kind, match=match):
        act()


def test_errors():
    m, e = sample(), iv.errors
    two = iv.masked_tensor(iv.eye(2), iv.eye(2) > 0)
    raises(e.ArgumentTypeError, r"to_tensor\(fill\)", lambda: np.asarray(m))
    raises(e.ArgumentTypeError, "inv: got a MaskedTensor", lambda: iv.linalg.inv(two))
    raises(
        e.ShapeError, "masked_tensor: argument 'mask'", lambda: iv.masked_tensor(iv.ones(3), [True, False])
    )
    raises(e.DTypeError, "expected bool", lambda: iv.masked_tensor(iv.ones(3), [1, 0, 1]))
    raises(e.DTypeError, "to_tensor: argument 'fill'", lambda: iv.masked_tensor([1], [True]).to_tensor(0.5))
    raises(e.ArgumentTypeError, "a scalar", lambda: m.to_tensor("0"))
    raises(e.ShapeError, "to_tensor", lambda: m.to_tensor(iv.ones(2)))
    raises(e.ArgumentError, "unspecified entry", m[1].item)
    raises(e.ArgumentError, "unspecified entry", lambda: bool(m[1] > 0))
    raises(e.ArgumentError, r"any\(\) or all", lambda: bool(m))
    raises(e.ShapeError, "item", m.item)
    raises(e.DTypeError, "requires_grad_", lambda: iv.masked_tensor([1]).requires_grad_())
    raises(e.ShapeError, "cannot grow", lambda: m.__imul__(iv.ones((2, 3))))
    raises(e.DTypeError, "in-place", lambda: iv.masked_tensor([1]).__imul__(0.5))
    raises(e.ShapeError, "shapes", lambda: m + iv.ones(2))
    raises(e.ShapeError, "vjp: argument 'cotangent'", lambda: iv.vjp(lambda m: m, m)[1](iv.ones(2)))
    raises(e.GradientError, "does not require grad", lambda: iv.autograd.grad(m.sum(), m))
    raises(
        e.ArgumentError, "unspecified entries", lambda: iv.ones(4)[iv.masked_tensor([1, 2], [True, False])]
    )
    plain = iv.ones(3)
    raises(e.ArgumentTypeError, "assignment", lambda: plain.__setitem__(0, m[0]))
    raises(e.ArgumentTypeError, "in-place add", lambda: plain.__iadd__(m))


def test_docstrings():
    from iverson.masked import construct, policies, tensor

    for module in (construct, tensor, policies):
        found = doctest.testmod(
            module,
            extraglobs={"masked_tensor": iv.masked_tensor},
            optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL,
        )
        assert found.attempted
        assert not found.failed
