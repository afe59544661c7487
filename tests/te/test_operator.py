"""`te.op`: functions of placeholders as ops on Tensors, in both modes, to second order, against PyTorch."""

from __future__ import annotations

import sys
import threading
from itertools import combinations

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.autograd import grad
from iverson.core.counting import work
from iverson.core.dispatch import bind
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError
from iverson.core.table import TABLE, op_of
from iverson.graph.ir.print import show
from iverson.ops import override_vjp
from iverson.te.elimination.point_counts import domain_size, walk_size
from iverson.testing import gradcheck, gradgradcheck
from iverson.transforms import jvp
from tests.conformance.product import in_short, paired

rng = np.random.default_rng(0)


def leaf(*shape: int):
    return iv.asarray(rng.standard_normal(shape), requires_grad=True)


def conv_op():
    @te.op
    def conv(x, w, *, stride=1):
        n, channels, height, width = x.shape
        filters, _, kh, kw = w.shape
        c, i, j = (te.reduce_axis((0, m)) for m in (channels, kh, kw))
        shape = (n, filters, (height - kh) // stride + 1, (width - kw) // stride + 1)
        return te.compute(
            shape,
            lambda b, f, y, z: te.sum(
                x[b, c, stride * y + i, stride * z + j] * w[f, c, i, j], axis=[c, i, j]
            ),
        )

    return conv


def pool_op():
    @te.op
    def pool(x):
        i, j = te.reduce_axis((0, 2)), te.reduce_axis((0, 2))
        shape = (x.shape[0], x.shape[1] // 2, x.shape[2] // 2)
        return te.compute(shape, lambda c, a, b: te.max(x[c, 2 * a + i, 2 * b + j], axis=[i, j]))

    return pool


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_to_second_order(stride):
    conv = conv_op()
    x, w = leaf(1, 2, 5, 5), leaf(2, 2, 2, 2)
    assert gradcheck(lambda x, w: conv(x, w, stride=stride), (x, w))
    assert gradgradcheck(lambda x, w: conv(x, w, stride=stride), (x, w), **in_short(f"stride {stride}"))


@pytest.mark.peers
def test_convolution_and_pooling_against_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    conv, pool = conv_op(), pool_op()
    x, w = leaf(2, 3, 9, 9), leaf(4, 3, 3, 3)
    tx, tw = (torch.tensor(a.detach().numpy(), requires_grad=True) for a in (x, w))
    y, ty = conv(x, w, stride=2), torch.nn.functional.conv2d(tx, tw, stride=2)
    np.testing.assert_allclose(y.detach().numpy(), ty.detach().numpy(), rtol=1e-12)
    g = rng.standard_normal(y.shape)
    ours = iv.autograd.grad(y, [x, w], iv.asarray(g))
    theirs = torch.autograd.grad(ty, [tx, tw], torch.tensor(g), retain_graph=True)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11, atol=1e-12)
    z = pool(y[0, :, :4, :4])
    tz = torch.nn.functional.max_pool2d(ty[0, :, :4, :4], 2)
    np.testing.assert_allclose(
        iv.autograd.grad(z.sum(), x).numpy(),
        torch.autograd.grad(tz.sum(), tx)[0].numpy(),
        rtol=1e-11,
        atol=1e-12,
    )


def test_pooling_and_a_program_of_stages():
    pool = pool_op()
    assert gradcheck(pool, (leaf(2, 4, 4),))
    assert gradgradcheck(lambda x: pool(iv.sin(x)), (leaf(2, 4, 4),), **in_short("pool"))

    @te.op
    def normalized(x):
        j, k = te.reduce_axis((0, x.shape[1])), te.reduce_axis((0, x.shape[1]))
        top = te.compute((x.shape[0],), lambda i: te.max(x[i, j], axis=j))
        total = te.compute((x.shape[0],), lambda i: te.sum(te.F.exp(x[i, k] - top[i]), axis=k))
        return te.compute(x.shape, lambda i, j: te.F.exp(x[i, j] - top[i]) / total[i])

    x = leaf(2, 4)
    np.testing.assert_allclose(
        normalized(x).detach().numpy(), iv.softmax(x.detach(), axis=1).numpy(), rtol=1e-14
    )
    assert gradcheck(normalized, (x,))
    assert gradgradcheck(normalized, (x,), **in_short("normalized"))


def test_indirect_reads_complex_numbers_and_several_results():
    @te.op
    def look_up(table, index):
        return te.compute((index.shape[0], table.shape[1]), lambda i, j: table[index[i], j] * table[0, j])

    index = iv.asarray(np.array([2, 0, 2]))
    assert gradcheck(lambda t: look_up(t, index), (leaf(3, 2),))
    assert gradgradcheck(lambda t: look_up(t, index), (leaf(3, 2),), **in_short("look_up"))
    with pytest.raises(IndexError, match="index"):
        look_up(leaf(3, 2), iv.asarray(np.array([3])))

    @te.op
    def twisted(z):
        return te.compute(z.shape, lambda i: te.F.exp(z[i]) * z[3 - i])

    z = iv.asarray(rng.standard_normal(4) + 1j * rng.standard_normal(4), requires_grad=True)
    assert gradcheck(twisted, (z,))
    assert gradgradcheck(twisted, (z,), **in_short("twisted"))

    @te.op(results=2)
    def two(x, y):
        return te.compute((3,), lambda i: x[i] * y[i]), te.compute((3,), lambda i: te.F.sin(x[i]))

    assert gradcheck(two, (leaf(3), leaf(3)))
    assert gradgradcheck(two, (leaf(3), leaf(3)), **in_short("two"))


def test_only_the_gradient_asked_for_is_compiled_and_run():
    conv = conv_op()
    x, w = leaf(1, 1, 4, 4), leaf(1, 1, 2, 2)
    y = conv(x, w)
    with work.counting() as done:
        iv.autograd.grad(y.sum(), w)
    assert done.calls["te.conv.vjp.w"] == 1
    assert "te.conv.vjp.x" not in done.calls


@te.op(results=2)
def gated(x, w, b):
    k = te.reduce_axis((0, 3), "k")
    z = te.compute((4, 2), lambda n, i: te.tanh(te.sum(x[n, k] * w[k, i], k)))
    return te.compute((4, 2), lambda n, i: z[n, i] * z[n, i] + b[i]), te.compute(
        (4, 3), lambda n, i: x[n, i] ** 2
    )


def gated_in_steps(x, w, b):
    z = iv.tanh(x @ w)
    return z * z + b, x**2


SUBSETS = [s for n in (1, 2, 3) for s in combinations(range(3), n)]


@pytest.mark.parametrize("defined", [(0,), (1,), (0, 1)])
def test_gradients_asked_for_in_one_call_are_one_program(defined):
    """Of the inputs asked for that the cotangents reach; each stage on the way is computed once."""
    args = leaf(4, 3), leaf(3, 2), leaf(2)
    seeds = [iv.asarray(rng.standard_normal((4, n))) for n in (2, 3)]
    reached = (0, 1, 2) if 0 in defined else (0,)

    def gradients(f, wanted, **options):
        out = f(*args)
        loss = sum((out[j] * seeds[j]).sum() for j in defined)
        return iv.autograd.grad(loss, [args[i] for i in wanted], unused="zero", **options)

    for wanted in SUBSETS:
        with work.counting() as done:
            found = gradients(gated, wanted)
        of = [i for i in wanted if i in reached]
        names = [n for n in done.calls if n.startswith("te.gated.")]
        assert names == ([f"te.gated.vjp.{'.'.join('xwb'[i] for i in of)}"] if of else [])
        for i, got, want in zip(wanted, found, gradients(gated_in_steps, wanted), strict=True):
            np.testing.assert_allclose(got.to_dense().numpy(), want.to_dense().numpy(), rtol=1e-12)
            assert (got.layout == "zero") == (i not in reached)
    if defined == (0, 1):
        for wanted in [(0, 1), (0, 1, 2)]:
            second = [
                iv.autograd.grad(sum((g * g).sum() for g in gradients(f, wanted, create_graph=True)), args)
                for f in (gated, gated_in_steps)
            ]
            for got, want in zip(*second, strict=True):
                np.testing.assert_allclose(got.to_dense().numpy(), want.to_dense().numpy(), rtol=1e-11)


def test_transforms_and_scalars():
    @te.op
    def scaled(x, a):
        return te.compute(x.shape, lambda i: a[()] * x[i] * x[i])

    x = iv.asarray([1.0, 2.0])
    assert scaled(x, 3.0).tolist() == [3.0, 12.0]
    np.testing.assert_allclose(iv.hessian(lambda x: scaled(x, 3.0).sum())(x).numpy(), 6 * np.eye(2))
    assert iv.grad(lambda a: scaled(x, a).sum())(iv.asarray(3.0)).item() == 5.0
    assert scaled(iv.asarray(np.ones(2, np.float32)), np.float32(2)).dtype == iv.float32


def test_names():
    @te.op
    def doubled(x):
        return te.compute(x.shape, lambda i: 2 * x[i])

    assert op_of("te.doubled") is doubled.expression.op
    again = te.op(lambda x: te.compute(x.shape, lambda i: 3 * x[i]), name="doubled")
    assert again(iv.ones(1)).tolist() == [3.0]
    assert doubled(iv.ones(1)).tolist() == [2.0]
    with pytest.raises(ArgumentTypeError, match="returns"):
        te.op(lambda x: 3, name="three")(iv.ones(1))
    with pytest.raises(ArgumentTypeError, match="args"):
        te.op(lambda *xs: xs[0], name="many")
    with pytest.raises(ArgumentTypeError, match=r"argument 'fn': got .*expected a function"):
        te.op("doubled")
    with pytest.raises((ShapeError, ArgumentError), match="te"):
        te.op(lambda x: te.compute((3,), lambda i, j: x[i]), name="wrong")(iv.ones(3))


def tripled_as(name):
    return te.op(lambda x: te.compute(x.shape, lambda i: 3 * x[i]), name=name)


def test_ops_of_users_may_have_any_name_of_the_librarys():
    """No rule, kernel or pass that asks for an op by name takes one of users for its own."""
    before, x = dict(TABLE), iv.asarray([1.0, 2.0])
    for name in before:
        tripled = tripled_as(name)
        assert tripled(x).tolist() == [3.0, 6.0]
        assert iv.vjp(tripled, x)[1](x)[0].tolist() == [3.0, 6.0]
    assert before == TABLE
    for name in ("matmul", "add_n", "multiply", "index_basic", "stack", "where", "scan"):  # passes know them
        tripled = tripled_as(name)
        twice = iv.jit(lambda x, f=tripled: f(f(x)) + x)
        assert twice(x).tolist() == [10.0, 20.0]
        assert f"te.{name}(%0)" in show(twice.graph(x))
    with override_vjp("te.scan", lambda F, g, y, x: 5 * g):
        assert iv.grad(lambda x: tripled(x).sum())(x).tolist() == [5.0, 5.0]


def test_layouts_other_than_strided_give_the_same():
    conv = conv_op()
    x = iv.zeros((1, 1, 4, 4), requires_grad=True)
    g = iv.autograd.grad(x[0, 0, 1:3, 1:3].sum(), x)
    assert g.layout == "box"
    w = leaf(1, 1, 2, 2)
    np.testing.assert_array_equal(
        conv(g, w).detach().numpy(), conv(iv.asarray(g.numpy()), w).detach().numpy()
    )


def test_messages_speak_of_the_users_arguments():
    @te.op
    def look_up(table, index):
        return te.compute((index.shape[0],), lambda i: table[index[i]] ** 2)

    table, good, bad = leaf(3), np.array([0, 2]), np.array([0, 7])
    wanted = (
        r"^te.look_up: argument 'table': got index 7 at axis 0 of table\[index\[i\]\], where i = 1; expected"
    )
    with pytest.raises(IndexError, match=wanted):
        look_up(table, bad)
    with pytest.raises(ArgumentTypeError, match="argument 'table': got an index of dtype float64"):
        look_up(table, leaf(2))
    with pytest.raises(ArgumentTypeError, match="missing 1 required positional argument: 'index'"):
        look_up(table)

    @te.op
    def renamed(weights, rows):  # the same program: compiled once, named apart
        return te.compute((rows.shape[0],), lambda i: weights[rows[i]] ** 2)

    with pytest.raises(IndexError, match=r"^te.renamed: argument 'weights'.*weights\[rows\[i\]\]"):
        renamed(table, bad)
    g = iv.autograd.grad(look_up(table, good).sum(), table, create_graph=True)
    assert iv.autograd.grad(g.sum(), table).tolist() == [2.0, 0.0, 2.0]
    derived = look_up.expression.gradients((0,), (0,))
    with pytest.raises(IndexError, match=r"^te.look_up.vjp.table: .* of table\[index\[i\]\], where i = 1;"):
        bind(derived.op, (iv.ones(2), table, bad), {})


def test_threads_may_define_and_call_ops_of_one_name():
    failures: list[str] = []
    interval = sys.getswitchinterval()

    def define_and_call(factor: float) -> None:
        try:
            for _ in range(12):
                scaled = te.op(lambda x: te.compute(x.shape, lambda i: factor * x[i] * x[i]), name="scaled")
                x = iv.asarray([1.0, 2.0], requires_grad=True)
                y = scaled(x)
                assert y.tolist() == [factor, 4 * factor]
                assert iv.autograd.grad(y.sum(), x).tolist() == [2 * factor, 4 * factor]
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=define_and_call, args=(k + 1.0,)) for k in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


@te.op
def weighted_roots(x, w):
    return te.compute(x.shape, lambda i: te.sqrt(x[i]) * w[i])


@te.op
def running_roots(x):
    k = te.reduce_axis((0, 3), "k")
    return te.compute((3,), lambda i: te.sum(te.sqrt(x[k]) * te.bracket(k <= i), k))


def eager_roots(x, w):
    return iv.sqrt(x) * w


#: A derivative as it is, compiled, and compiled to be carried out equation by equation.
CALLED = {"eager": lambda f: f, "jit": iv.jit, "interpreted": lambda f: iv.jit(f, interpret=True)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("k", [0, 1])
def test_what_a_selection_leaves_out_meets_no_factor_in_an_op(k, called):
    """As with the table's own functions: 0 * inf does not arise at 0, in both modes and to second order."""
    way = CALLED[called]
    args = iv.asarray([0.0, 1.0, 4.0]), iv.asarray([1.0, 2.0, 3.0])
    t = iv.asarray([1.0, -2.0, 0.5])

    def derivatives(root):
        def f(x, w):
            return iv.where(x > 0, root(x, w), 0.0).sum()

        def slope(x, w):
            return (iv.grad(f, argnums=k)(x, w) * t).sum()

        tangents = tuple(t if j == k else iv.zeros(3) for j in range(2))
        return [
            way(iv.grad(f, argnums=k))(*args),
            way(lambda *args: iv.jvp(f, args, tangents)[1])(*args),
            *(way(iv.grad(slope, argnums=j))(*args) for j in range(2)),
        ]

    for got, want in zip(derivatives(weighted_roots), derivatives(eager_roots), strict=True):
        np.testing.assert_allclose(got.to_dense().numpy(), want.to_dense().numpy(), rtol=1e-12)
        assert np.isfinite(want.to_dense().numpy()).all()


@te.op
def window_of_roots(x, w):
    k = te.reduce_axis((0, 2), "k")
    return te.compute((6,), lambda i: te.sum(te.sqrt(x[i + k]) / w[i + k], k))


@te.op
def window_in_stages(x, w):
    k, m = (te.reduce_axis((0, 2), name) for name in "km")
    pairs = te.compute((7,), lambda i: te.sqrt(x[i]) * te.select(i >= 0, 1 / w[i], 2.0))
    partial = te.compute((7, 2), lambda i, j: pairs[i] * te.bracket(j == 0) + pairs[i] * te.bracket(j == 1))
    return te.compute((6,), lambda i: te.sum(te.bracket(k == m) * partial[i + k, m], (k, m)))


@te.op
def windows_of_roots(x, w):
    """The windows are looked up: their entries depend on data."""
    k = te.reduce_axis((0, 2), "k")
    first = te.compute((6,), lambda i: i * 1)
    return te.compute((6,), lambda i: te.sum(te.sqrt(x[te.clamp(first[i] + k, 0, 6)]) / w[i + k], k))


@te.op
def window(x, w):
    k = te.reduce_axis((0, 2), "k")
    return te.compute((6,), lambda i: te.sum(x[i + k] / w[i + k], k))


def window_after_roots(x, w):
    return window(iv.sqrt(x), w)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("interpreted_by_turns")
@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("root", [window_of_roots, window_in_stages, windows_of_roots, window_after_roots])
def test_what_a_selection_leaves_out_of_sums_meets_no_factor(root, k, called):
    """Against the same sums of the entries that are held alone, in both modes and to second order."""
    way = CALLED[called]
    kept = [0, 3, 4]  # windows of two of seven entries: the entries 2 and 6 are in none of them
    x = iv.asarray([1.0, 4.0, 0.0, 9.0, 2.0, 5.0, 0.0])
    w = iv.asarray([1.0, 2.0, 0.0, 3.0, 0.5, 4.0, 0.0])
    t = iv.asarray([1.0, -2.0, 0.5, 3.0, 0.25, 1.5, 2.0])
    condition = iv.asarray(np.isin(np.arange(6), kept))

    def selected(x, w):
        return iv.where(condition, root(x, w), 0.0)

    def expected(x, w):
        return sum(iv.sqrt(x[i + j]) / w[i + j] for i in kept for j in range(2))

    def derivatives(f):
        def slope(x, w):
            return (iv.grad(f, argnums=k)(x, w) * t).sum()

        tangents = tuple(t if j == k else iv.zeros(7) for j in range(2))
        return [
            way(iv.grad(f, argnums=k))(x, w),
            way(lambda *args: iv.jvp(f, args, tangents)[1])(x, w),
            *(way(iv.grad(slope, argnums=j))(x, w) for j in range(2)),
        ]

    pairs = zip(derivatives(lambda x, w: selected(x, w).sum()), derivatives(expected), strict=True)
    for got, want in pairs:
        assert np.isfinite(want.to_dense().numpy()).all()
        np.testing.assert_allclose(got.to_dense().numpy(), want.to_dense().numpy(), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("interpreted_by_turns")
@pytest.mark.parametrize("op", [window_of_roots, window_in_stages, windows_of_roots, weighted_roots])
def test_selections_of_gradients_that_are_one_program(op):
    """As those that are computed each by itself; what is held of each meets the infinite slope of a root."""
    squares = (
        iv.asarray([1.0, 16.0, 0.0, 81.0, 4.0, 25.0, 0.0]),
        iv.asarray([1.0, 4.0, 0.0, 9.0, 0.25, 16.0, 0.0]),
    )
    condition = iv.asarray(np.isin(np.arange(op(*squares).shape[0]), [0, 3, 4]))

    def loss(x, w):
        return iv.where(condition, op(iv.sqrt(x), iv.sqrt(w)), 0.0).sum()

    def slope(x, w):
        return sum(g.sum() for g in iv.grad(loss, argnums=(0, 1))(x, w))

    for k, got in enumerate(iv.grad(loss, argnums=(0, 1))(*squares)):
        assert np.isfinite(got.numpy()).all()
        np.testing.assert_allclose(got.numpy(), iv.grad(loss, argnums=k)(*squares).numpy(), rtol=1e-14)
    for got in iv.grad(slope, argnums=(0, 1))(*squares):
        assert np.isfinite(got.to_dense().numpy()).all()


def test_a_part_of_a_gradient_of_a_selection_has_a_derivative():
    """Its cotangent is a box, of which it is asked where it is held."""
    x = iv.asarray([1.0, 4.0, 9.0, 16.0, 25.0, 4.0, 1.0], requires_grad=True)
    w = iv.asarray(np.arange(1.0, 8.0))
    y = iv.where(iv.asarray(np.isin(np.arange(6), [0, 3, 4])), window_of_roots(x, w), 0.0)
    g = iv.autograd.grad(y.sum(), x, create_graph=True)
    found = iv.autograd.grad(g[2:5].sum(), x).to_dense()
    held = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0])  # the windows at 3 and 4
    np.testing.assert_allclose(found.numpy(), -held / 4 * x.detach().numpy() ** -1.5 / w.numpy())


def test_a_selection_of_sums_is_made_once_where_everything_is_finite():
    """Nothing more is compiled for it: the products are those of the selected cotangent."""
    x = iv.asarray([1.0, 4.0, 9.0])
    g = iv.grad(lambda x: iv.where(iv.asarray([True, False, True]), running_roots(x), 0.0).sum())(x)
    np.testing.assert_allclose(g.numpy(), [1.0, 0.25, 1 / 6])
    made = {key for e in running_roots.expression._derived.values() for key in e._derived}
    assert not {"selected", "held"}.intersection(name for name, *_ in made)


#: Where entry (i, j) of a result of a square matrix of n rows is read from.
PLACES = {
    "transposed": lambda i, j, n: (j, i),
    "reversed": lambda i, j, n: (i, n - 1 - j),
    "turned": lambda i, j, n: (n - 1 - j, i),
    "in place": lambda i, j, n: (i, j),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("interpreted_by_turns")
@pytest.mark.parametrize("name", PLACES)
def test_what_a_selection_leaves_out_is_not_multiplied_wherever_it_is_read_from(name):
    """sqrt has an infinite derivative at 0: read in another place, in two stages, and after another op."""
    n, place = 3, PLACES[name]
    array = np.array([[0.0, 4.0, 9.0], [1.0, 0.0, 16.0], [25.0, 2.0, 0.0]])

    @te.op(name=f"root {name}")
    def root(x):
        moved = te.compute((n, n), lambda i, j: x[place(i, j, n)] * 1.0)
        return te.compute((n, n), lambda i, j: te.F.sqrt(moved[i, j]) + moved[i, j])

    index = np.indices((n, n))
    at = tuple(np.array(p) for p in place(*index, n))
    wanted = np.where(array == 0, 0.0, 0.5 / np.sqrt(np.where(array == 0, 1.0, array)) + 1.0)
    x = iv.asarray(array, requires_grad=True)
    y = iv.where(iv.asarray(array[at] == 0), 0.0, root(x))
    np.testing.assert_allclose(grad(y.sum(), x).numpy(), wanted, rtol=1e-14)
    chain = iv.where(iv.asarray(array[at] == 0), 0.0, root(iv.sqrt(x) ** 2))
    np.testing.assert_allclose(grad(chain.sum(), x).numpy(), wanted, rtol=1e-13)
    through = jvp(lambda x: root(iv.where(x == 0, 0.0, x)), (x.detach(),), (iv.ones((n, n)),))[1]
    np.testing.assert_allclose(through.numpy(), wanted[at], rtol=1e-14)


@te.op
def smoothed(x, w):
    k = te.reduce_axis((0, 3), "k")
    return te.compute((x.shape[0] - 2,), lambda i: te.sum(x[i + k] * w[k], k))


@te.op
def smoothed_rows(x, w):
    k = te.reduce_axis((0, 3), "k")
    n, m = x.shape
    return te.compute((n, m - 2), lambda i, j: te.sum(x[n - 1 - i, j + k] ** 2 * w[k], k))


@te.op
def smoothed_at(x, w):
    """The rows are looked up: which entries of a gradient a point adds to depends on data."""
    k = te.reduce_axis((0, 3), "k")
    row = te.compute((64,), lambda i: (i * 5) % 64)
    return te.compute((64, x.shape[1]), lambda i, j: te.sum(x[row[i], j] * w[k], k))


def points(expression):
    """How many points the programs that an expression compiled visit."""
    return [
        sum(
            walk_size(s.walk) if s.walk else domain_size(s.domain) for s in te.eliminate(c.program).statements
        )
        for c in expression._compiled.values()
    ]


@pytest.mark.parametrize(
    ("op", "shape", "corners"),
    [
        (smoothed, (5000,), [(1000,), (1100,), (2347,), (0,), (4990,)]),
        (smoothed_rows, (64, 80), [(10, 20), (11, 3), (40, 70), (0, 0)]),
        (smoothed_at, (64, 80), [(10, 20), (11, 3)]),
    ],
)
def test_a_part_of_a_gradient_is_computed_alone(op, shape, corners):
    """At the points that add to it, by one program for all boxes but the first; recorded, too."""
    array = np.random.default_rng(0).standard_normal(shape)
    w = iv.asarray([1.0, -2.0, 0.5], requires_grad=True)
    size = (10,) * len(shape)
    whole = iv.asarray(array, requires_grad=True)
    expected = iv.grad(lambda x: (op(x, w.detach()) ** 2).sum())(whole.detach()).numpy()
    for corner in corners:
        key = tuple(slice(a, a + n) for a, n in zip(corner, size, strict=True))
        z = iv.asarray(array[key], requires_grad=True)
        x = iv.asarray(np.where(np.ones(shape, bool), array, 0))
        x[key] = z
        g = iv.autograd.grad((op(x, w) ** 2).sum(), z, create_graph=True)
        np.testing.assert_allclose(g.detach().numpy(), expected[key], rtol=1e-12, atol=1e-12)
        h = iv.autograd.grad(g.sum(), w)
        assert h.shape == (3,)
    (found,) = (
        d._derived.get(("part",)) for k, d in op.expression._derived.items() if k[:2] == ("vjp", (0,))
    )
    if op is smoothed_at:
        assert found is None or not found._compiled
        return
    assert all(n <= 3 * np.prod(size) for n in points(found))
    assert len(found._compiled) == len(corners)
    assert found.alone <= 2  # the first box, and one at an edge of the domain


@pytest.mark.parametrize("border", [1, 3, 20])
@pytest.mark.parametrize(
    ("op", "shape"), [(smoothed, (5000,)), (smoothed_rows, (64, 80)), (smoothed_at, (64, 80))]
)
def test_a_graph_computes_the_part_of_a_gradient_inside_of_padding(op, shape, border):
    """At the points that add to it, in each way to compile a derivative, of the first and second order."""
    array = np.random.default_rng(border).standard_normal([n - 2 * border for n in shape])
    w, inside = np.array([1.0, -2.0, 0.5]), (slice(border, -border),) * len(shape)

    def loss(z):
        return iv.sin(op(iv.pad(z, border), w)).sum()

    def second(z):
        return iv.jvp(iv.grad(loss), (z,), (z,))[1]

    x, v = iv.pad(iv.asarray(array), border), iv.pad(iv.asarray(array), border)
    of_whole = iv.grad(lambda x: iv.sin(op(x, w)).sum())
    first, change = (t.numpy()[inside] for t in (of_whole(x), iv.jvp(of_whole, (x,), (v,))[1]))
    for f in (iv.jit(iv.grad(loss)), iv.grad(iv.jit(loss)), iv.jit(iv.grad(iv.checkpoint(loss)))):
        np.testing.assert_allclose(f(array).numpy(), first, rtol=1e-12, atol=1e-12)
    for f in (iv.jit(second), iv.jit(iv.grad(lambda z: (iv.grad(loss)(z) * array).sum()))):
        np.testing.assert_allclose(f(array).numpy(), change, rtol=1e-12, atol=1e-12)
    batch = iv.jit(iv.vmap(iv.grad(loss)))(np.stack([array, -array])).numpy()
    np.testing.assert_allclose(batch[0], first, rtol=1e-12, atol=1e-12)
    parts = [
        part
        for key, d in op.expression._derived.items()
        for of_part, part in d._derived.items()
        if key[:2] == ("vjp", (0,))
        and of_part[0] == "part"
        and of_part[1:]
        and of_part[1].shape == array.shape
    ]
    assert bool(parts) == (op is not smoothed_at)
    assert all(n <= 3 * array.size for part in parts for n in points(part))


@pytest.mark.parametrize(
    ("operands", "order"),
    paired(
        [lambda x: (x, x), lambda x: (x, iv.sin(x)), lambda x: (iv.sin(x), x)],
        ["forward over reverse", "reverse over reverse", "reverse over forward"],
    ),
)
def test_derivatives_of_operands_that_depend_on_each_other_in_compiled_functions(operands, order):
    """A derivative in one operand holds the others fixed, whatever they are made of."""
    product = te.op(
        lambda a, b: te.compute(a.shape, lambda i: te.sin(a[i]) * b[i] * b[i]), name="sin_by_square"
    )
    x, t = rng.standard_normal(3), rng.standard_normal(3)

    def f(x):
        return iv.exp(product(*operands(x))).sum()

    def pushed(x):
        return iv.jvp(f, (x,), (t,))[1]

    second = {
        "forward over reverse": lambda x: iv.jvp(iv.grad(f), (x,), (t,))[1],
        "reverse over reverse": lambda x: iv.vjp(iv.grad(f), x)[1](t),
        "reverse over forward": iv.grad(pushed),
    }
    np.testing.assert_allclose(iv.jit(second[order])(x), second[order](x), rtol=1e-10)


#: Names that internal functions have for what they are given.
TAKEN = [
    "self",
    "i",
    "k",
    "t",
    "g",
    "F",
    "y",
    "x",
    "of",
    "wanted",
    "defined",
    "condition",
    "examples",
    "params",
]


@pytest.mark.parametrize("name", TAKEN)
def test_a_parameter_of_a_user_may_have_any_name(name):
    """In every mode, and beside selections."""
    scope = {"te": te}
    exec(f"def op(v, *, {name}=2):\n    return te.compute(v.shape, lambda q: v[q] * v[q] * {name})", scope)
    squares = te.op(scope["op"])
    x, kept = iv.asarray(np.arange(1.0, 5.0)), np.array([True, False, True, True])
    ours, theirs = (lambda v: squares(v, **{name: 3})), (lambda v: v * v * 3)

    def derivatives(f):
        loss = lambda v: iv.where(kept, f(v), 0.0).sum()
        pair = iv.stack([x, x])
        yield from (f(x), iv.grad(loss)(x), iv.jvp(f, (x,), (x,))[1], iv.vmap(f)(pair), iv.hessian(loss)(x))
        yield from (iv.jit(iv.hessian(loss))(x), iv.vmap(iv.grad(loss))(pair))

    for got, want in zip(derivatives(ours), derivatives(theirs), strict=True):
        np.testing.assert_allclose(got.to_dense().numpy(), want.to_dense().numpy())


@te.op
def _twice(x):
    return te.compute(x.shape, lambda *i: x[i] * x[i])


@te.op(results=2)
def _split(x, by):
    n = x.shape[0]
    return te.compute((n,), lambda i: x[i] * by), te.compute((n,), lambda i: te.sin(x[i]))


@te.op
def _of_ops(x):
    first, second = _split(_twice(x), 3.0)
    return te.compute(x.shape, lambda i: first[i] + second[i] * x[i])


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_ops_in_the_definition_of_an_op(n, dtype):
    """Values and derivatives are those of NumPy's formula, in modes by themselves and nested."""
    x = np.linspace(0.1, 0.9, n).astype(dtype)
    near = {"rtol": 1e-5 if dtype == "float32" else 1e-12}
    expected = 3 * x**2 + np.sin(x**2) * x
    slope = 6 * x + np.sin(x**2) + 2 * x * x * np.cos(x**2)
    for call in (_of_ops, iv.jit(_of_ops)):
        found = call(x)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(np.asarray(found), expected, **near)
    if dtype != "complex128":
        for gradient in (iv.grad(lambda x: _of_ops(x).sum()), iv.jit(iv.grad(lambda x: _of_ops(x).sum()))):
            np.testing.assert_allclose(np.asarray(gradient(x)), slope, **near)
        np.testing.assert_allclose(np.asarray(iv.jvp(_of_ops, (x,), (np.ones_like(x),))[1]), slope, **near)


def test_an_op_in_an_op_has_the_precision_and_batches_of_one():
    x = np.linspace(0.1, 0.9, 6).reshape(2, 3)
    expected = np.stack([np.asarray(_of_ops(row)) for row in x])
    np.testing.assert_allclose(np.asarray(iv.vmap(_of_ops)(x)), expected, rtol=1e-13)
    half = iv.asarray(x[0].astype("float16"))
    assert _of_ops(half).dtype == np.float16
    np.testing.assert_allclose(np.asarray(_of_ops(half)).astype(float), expected[0], rtol=2e-3)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_shifts_are_those_of_numpy(dtype):
    a = np.array([0, 1, 5, 100, 77, 3], dtype)
    a = np.concatenate([a, (-a.astype("int64")).astype(dtype)])
    for by in (0, 1, 3):
        shifted = te.op(lambda a, by=by: te.compute(a.shape, lambda i: (a[i] << by) - (a[i] >> by)))
        np.testing.assert_array_equal(np.asarray(shifted(a)), (a << by) - (a >> by))
    by = np.arange(12) % 6
    both = te.op(lambda a, s: te.compute(a.shape, lambda i: (a[i] << s[i]) + (200 >> s[i])))
    np.testing.assert_array_equal(
        np.asarray(both(a.astype("int64"), by)), (a.astype("int64") << by) + (200 >> by)
    )


def test_shifted_indices_are_index_arithmetic():
    """Loops over their adjoints are exact."""
    x = te.placeholder((8,), name="x")
    y = te.compute((16,), lambda i: x[i >> 1] * 1.0, "y")
    (g,) = te.differentiate(y, x, te.placeholder((16,), name="H"))
    assert [s.strategy for s in te.eliminate(g).statements] == ["gather"]
    z = te.compute((4,), lambda i: x[i << 1], "z")
    (g,) = te.differentiate(z, x, te.placeholder((4,), name="H"))
    assert "4 visited, 4 nonzero terms" in te.explain(g)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_indices_modulo_an_extent_that_may_be_0(n):
    x = np.arange(1.0, n + 1)
    roll = te.op(lambda x: te.compute(x.shape, lambda i: x[(i + 1) % x.shape[0]]))
    np.testing.assert_array_equal(np.asarray(roll(x)), np.roll(x, -1))
    tiled = te.op(lambda x: te.compute((x.shape[0] * 2,), lambda i: x[i % x.shape[0]] + i // x.shape[0]))
    np.testing.assert_array_equal(np.asarray(tiled(x)), np.tile(x, 2) + np.repeat([0, 1], n))
    np.testing.assert_array_equal(np.asarray(iv.grad(lambda x: (roll(x) * 2.0).sum())(x)), np.full(n, 2.0))
