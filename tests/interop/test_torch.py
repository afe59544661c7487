"""Functions of Iverson's inside torch: drawn ones against torch's own, and what is handed over."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import iverson as iv
import iverson.interop.torch as bridge
from iverson import te
from iverson.core.counting import work
from iverson.errors import ArgumentError, ArgumentTypeError, DTypeError, GradientError
from iverson.interop.torch import from_torch, to_torch, wrap

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),  # which forward mode calls
]

LAYOUTS = {
    "strided": lambda x: x,
    "coo": lambda x: x.to_sparse_coo(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 1)),
    "bsc": lambda x: x.to_sparse_bsc((2, 1)),
    "hybrid coo": lambda x: torch.stack([x, 2 * x], -1).to_sparse(2),
    "hybrid csr": lambda x: torch.stack([x, 2 * x], -1).to_sparse_csr(dense_dim=1),
    "hybrid csc": lambda x: torch.stack([x, 2 * x], -1).to_sparse_csc(dense_dim=1),
    "hybrid bsr": lambda x: torch.stack([x, 2 * x], -1).to_sparse_bsr((2, 1), dense_dim=1),
    "hybrid bsc": lambda x: torch.stack([x, 2 * x], -1).to_sparse_bsc((2, 1), dense_dim=1),
}


def _double(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def test_the_examples_in_docstrings_run() -> None:
    found = doctest.testmod(bridge, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 5
    assert not found.failed


# --- functions --------------------------------------------------------------------

#: Terms of a drawn function, each once for Iverson and once for torch (F is either of them).
TERMS: dict[str, Any] = {
    "product": lambda F, x, y: F.matmul(x, y).sum(),
    "tanh": lambda F, x, y: (F.tanh(x) ** 2).sum(),
    "shared": lambda F, x, y: (F.exp(x).sum() * y).sum(),
    "first": lambda F, x, y: F.sin(x[0]).sum(),
    "constant": lambda F, x, y: (y * 0.0).sum(),
    "relu": lambda F, x, y: (F.where(x > 0, x, 0.0) ** 3).sum(),
}


class _Torch:
    exp, tanh, sin, matmul, where = torch.exp, torch.tanh, torch.sin, torch.matmul, torch.where


@settings(max_examples=12)
@given(names=st.lists(st.sampled_from(sorted(TERMS)), min_size=1, max_size=4), jit=st.just(False))
@example(names=["shared", "tanh"], jit=True)
def test_derivatives_to_third_order_are_torchs(names: list[str], jit: bool) -> None:
    def function(F: Any) -> Any:
        def of(x: Any, y: Any) -> Any:
            total = sum(TERMS[n](F, x, y) for n in names)
            return total * total, F.sin(x) * total

        return of

    x, y = _double(3, 2).requires_grad_(), _double(2, 4, seed=1).requires_grad_()
    own = wrap(iv.jit(function(iv)) if jit else function(iv))
    for order in (0, 1, 3):
        pairs = []
        for f in (own, function(_Torch)):
            total, wave = f(x, y)
            result = [total + wave.sum()]
            for _ in range(order):
                result = torch.autograd.grad(
                    sum((r * r).sum() for r in result), (x, y), create_graph=True, materialize_grads=True
                )
            pairs.append(result)
        for a, b in zip(*pairs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_torchs_own_check_passes() -> None:
    """Of a solve and a product with what it gives, of complex numbers, too."""
    f = wrap(lambda a, b: iv.linalg.solve(a, b) @ iv.conj(b).T)
    for dtype in (torch.float64, torch.complex128):
        a = (_double(3, 3) + 3 * torch.eye(3)).to(dtype).requires_grad_()
        b = (_double(3, 2, seed=1) * (1 + 1j if dtype.is_complex else 1)).to(dtype).requires_grad_()
        assert torch.autograd.gradcheck(f, (a, b))
        assert torch.autograd.gradgradcheck(f, (a, b))


def test_transforms_of_torch_differentiate_it() -> None:
    def of(F: Any) -> Any:
        return lambda x: (F.sin(x) * x).sum()

    x = _double(3)

    def second(f: Any) -> torch.Tensor:
        return torch.func.grad(lambda x: torch.func.grad(f)(x).square().sum())(x)

    torch.testing.assert_close(second(wrap(of(iv))), second(of(torch)))


def test_trees_go_in_and_out_and_the_rest_is_handed_over() -> None:
    def function(params: dict[str, Any], scale: float, *, flag: bool) -> Any:
        assert flag is True
        return {"y": params["w"] * scale, "n": iv.argmax(params["w"]), "none": None, "text": "as it is"}

    w = _double(4).requires_grad_()
    out = wrap(function)({"w": w}, 3.0, flag=True)
    assert out["none"] is None
    assert out["text"] == "as it is"
    assert int(out["n"]) == int(w.argmax())
    assert not out["n"].requires_grad
    assert torch.equal(torch.autograd.grad(out["y"].sum(), w)[0], torch.full((4,), 3.0, dtype=torch.float64))


def test_a_second_derivative_does_not_call_the_function_again() -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(1)
        return iv.exp(x)

    x = _double(3).requires_grad_()
    first = torch.autograd.grad(wrap(function)(x).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x, create_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(second.sum(), x)[0], x.exp())
    assert len(calls) == 1


def test_nothing_is_computed_for_what_torch_does_not_ask() -> None:
    a, b = _double(8, 8).requires_grad_(), _double(8, 8, seed=1)
    product, other = wrap(lambda a, b: (a @ b, a @ a))(a, b)
    with work.counting() as counted:
        product.sum().backward(retain_graph=True)
    assert counted.products == 1  # for a, of the first result
    x = _double(3).requires_grad_()
    unused = wrap(lambda x, y: y * 2.0)(x, _double(3).requires_grad_())
    assert torch.autograd.grad(unused.sum(), x, allow_unused=True) == (None,)
    with torch.no_grad():
        assert not wrap(lambda a: a @ a)(a).requires_grad
    assert other.requires_grad


def test_strong_zeros_hold_in_a_model_of_torchs() -> None:
    x = torch.tensor([0.0, 4.0], dtype=torch.float64, requires_grad=True)
    wrap(lambda x: iv.where(x > 0, iv.sqrt(x), 0.0).sum())(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.25]


# --- memory -----------------------------------------------------------------------


def test_tensors_are_handed_over_on_their_memory() -> None:
    seen: list[int] = []

    def function(x: Any) -> Any:
        y = x @ x
        seen.extend(t.detach().numpy().ctypes.data for t in (x, y))
        return y

    x = _double(4, 4).requires_grad_()
    out = wrap(function)(x)
    assert seen == [x.data_ptr(), out.data_ptr()]


@pytest.mark.parametrize(
    "function", [iv.exp, lambda x: x, lambda x: x[::-1], lambda x: iv.reshape(x, (2, 2))]
)
def test_a_result_that_is_still_read_is_a_copy(function: Any) -> None:
    x = _double(4).requires_grad_()
    out = wrap(function)(x)
    before = x.detach().clone()
    expected = torch.autograd.grad(out.sum(), x, retain_graph=True)[0]
    with torch.no_grad():
        out.mul_(0.0)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], expected)
    assert torch.equal(x, before)


def test_constants_are_not_handed_out() -> None:
    """Nor anything else that the function keeps."""
    constant, kept = iv.asarray(np.ones(3)), []

    def function(x: Any) -> Any:
        kept.append(x * 2.0)
        return constant, kept[0]

    for out in wrap(function)(torch.ones(3, dtype=torch.float64).requires_grad_()):
        out.detach().zero_()
    assert constant.tolist() == [1.0, 1.0, 1.0]
    assert kept[0].tolist() == [2.0, 2.0, 2.0]


def test_an_argument_changed_before_backward_is_refused() -> None:
    x = _double(3).requires_grad_() * 1.0
    out = wrap(lambda x: x * x)(x)
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# --- layouts ----------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.complex128])
def test_tensors_go_both_ways_in_their_layout(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout]((_double(4, 3) * 3).relu().to(dtype))
    own = from_torch(x)
    assert own.layout == layout.rsplit(maxsplit=1)[-1]
    assert layout == "strided" or (own.sparse_dim(), own.dense_dim()) == (2, x.dense_dim())
    assert own.numpy().tolist() == x.to_dense().tolist()
    back = to_torch(own)
    assert back.layout == x.layout
    assert back.dtype == dtype
    torch.testing.assert_close(back.to_dense(), x.to_dense())
    {"strided": lambda: back, "coo": back._values}.get(own.layout, back.values)().zero_()
    assert own.numpy().tolist() == x.to_dense().tolist()


def test_batches_and_views_go_both_ways() -> None:
    dense = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 3.0], [4.0, 0.0]]])
    slices = torch.stack([dense, -dense], -1)
    for full, dim in ((dense, 0), (slices, 1)):
        for x in (full.to_sparse_csr(dense_dim=dim), full.to_sparse_csc(dense_dim=dim)):
            own = from_torch(x)
            assert own.layout == ("csr" if x.layout is torch.sparse_csr else "csc")
            assert own.dense_dim() == dim
            torch.testing.assert_close(to_torch(own).to_dense(), full)
            assert to_torch(own).layout is x.layout
            assert to_torch(own).dense_dim() == dim
    for view in (dense[:, ::2], dense.mT, dense[:0], torch.ones(()).expand(3), dense.conj(), dense[0, 0, 0]):
        torch.testing.assert_close(to_torch(from_torch(view)), view.resolve_conj())
        torch.testing.assert_close(
            to_torch(iv.flip(from_torch(view)), copy=False), view.flip(tuple(range(view.ndim)))
        )
    uneven = iv.sparse_csr_tensor([0, 1, 1, 2, 3], [0, 0, 1], [1.0, 2.0, 3.0], (2, 2, 2))
    with pytest.raises(ArgumentError, match="store 1 to 2 entries"):
        to_torch(uneven)


def test_shared_memory_is_asked_for() -> None:
    x = iv.asarray(np.arange(3.0))
    assert to_torch(x, copy=False).data_ptr() == x.numpy().ctypes.data
    to_torch(x).zero_()
    assert x.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("layout", [n for n in LAYOUTS if n != "strided"])
def test_sparse_arguments_differentiate_as_torchs(layout: str) -> None:
    dense, x = (_double(4, 4) * 3).relu(), _double(4, 2, seed=1).requires_grad_()
    s = LAYOUTS[layout](dense).detach().requires_grad_()
    full = s.detach().to_dense().clone().requires_grad_()
    if full.ndim == 3:
        x = _double(2, 5, seed=1).requires_grad_()
    expected = torch.autograd.grad(((full @ x) ** 2).sum(), (full, x))
    found = torch.autograd.grad(wrap(lambda s, x: ((s @ x) ** 2).sum())(s, x), (s, x))
    if full.ndim == 3:  # the products of slices are stored where these are
        assert (found[0].layout, found[0].dense_dim()) == (s.layout, s.dense_dim())
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.to_dense(), b)


LOOK_UPS: dict[str, Any] = {
    "embedding": lambda table, rows: iv.embedding(rows, table),
    "take": lambda table, rows: iv.take(table, rows, axis=0),
    "index": lambda table, rows: table[rows],
    "row": lambda table, rows: table[3],
    "slice": lambda table, rows: table[1:3],
}


@pytest.mark.parametrize("look_up", LOOK_UPS)
def test_rows_are_a_sparse_gradient_where_asked(look_up: str) -> None:
    rows, table = torch.tensor([1, 3, 3]), _double(5, 2).requires_grad_()
    reads = {"row": lambda: table[3], "slice": lambda: table[1:3]}.get(look_up, lambda: table[rows])
    expected = torch.autograd.grad(reads().square().sum(), table)[0]
    for sparse in (False, True):
        out = wrap(LOOK_UPS[look_up], sparse_grads=sparse)(table, rows)
        found = torch.autograd.grad(out.square().sum(), table)[0]
        assert found.is_sparse is sparse
        torch.testing.assert_close(found.to_dense(), expected)
    parameter = table.detach().clone().requires_grad_()
    wrap(LOOK_UPS[look_up], sparse_grads=True)(parameter, rows).square().sum().backward()
    optimizer = torch.optim.SparseAdam([parameter], lr=0.1)
    optimizer.step()
    assert (parameter.detach() == table.detach()).all(1).tolist() == (expected == 0).all(1).tolist()


# --- a model ----------------------------------------------------------------------


@te.op
def _bridged_blur(x: Any) -> Any:
    return te.compute(
        x.shape, lambda i, j: sum(x[i, te.clamp(j + d, 0, x.shape[1] - 1)] for d in (-1, 0, 1)) / 3.0
    )


def _attention(scores: Any, values: Any, rows: Any) -> Any:
    """Of the edges into each node: a softmax of their scores, and the sum of what they bring."""
    weights = iv.segment_softmax(scores, rows, 5)
    return iv.segment_sum(weights[:, None] * values, rows, 5)


def test_a_model_trains_with_steps_of_iverson() -> None:
    """A layer of graph attention and a tensor expression between torch's, against torch's formula of both."""
    rows, columns = torch.tensor([0, 0, 1, 2, 4, 4]), torch.tensor([1, 2, 0, 3, 4, 0])
    features, target = _double(5, 3), _double(5, 2, seed=1)

    class Layer(torch.nn.Module):
        def __init__(self, own: bool) -> None:
            super().__init__()
            self.own = own
            self.score = torch.nn.Parameter(_double(3, seed=2))
            self.weight = torch.nn.Parameter(_double(3, 2, seed=3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores, values = (x[rows] + x[columns]) @ self.score, (x @ self.weight)[columns]
            if self.own:
                return wrap(_bridged_blur)(wrap(_attention)(scores, values, rows))
            e = torch.exp(scores - scores.detach().max())
            weights = e / torch.zeros(5, dtype=e.dtype).index_add(0, rows, e)[rows]
            y = torch.zeros(5, 2, dtype=e.dtype).index_add(0, rows, weights[:, None] * values)
            return torch.stack([2 * y[:, 0] + y[:, 1], y[:, 0] + 2 * y[:, 1]], 1) / 3.0

    histories = []
    for own in (True, False):
        model = Layer(own)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = ((model(features) - target) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        histories.append(losses)
    np.testing.assert_allclose(*histories, rtol=1e-10)
    assert histories[0][-1] < histories[0][0]


def test_a_tracked_tensor_that_is_no_argument_is_an_error() -> None:
    """Its gradient would be cut, whether or not torch differentiates the call."""
    w = iv.asarray(2.0, requires_grad=True)
    for x in (torch.ones(2), torch.ones(2, requires_grad=True)):
        for f in (lambda x: x * w, lambda x: w, iv.jit(lambda x: (x * w).sum())):
            with pytest.raises(GradientError, match="pass it as an argument"):
                wrap(f)(x)
        with torch.no_grad():
            assert wrap(lambda x: x * w)(x).tolist() == [2.0, 2.0]

    def with_a_leaf_of_its_own(x: Any) -> Any:
        v = iv.asarray([3.0, 4.0], requires_grad=True)
        return x * iv.autograd.grad((v * v).sum(), v)

    assert wrap(with_a_leaf_of_its_own)(torch.ones(2)).tolist() == [6.0, 8.0]


# --- errors -----------------------------------------------------------------------


def test_what_can_not_be_handed_over_is_an_error() -> None:
    tracked = iv.asarray([1.0], requires_grad=True)
    with pytest.raises(GradientError, match="wrap"):
        to_torch(tracked * 2.0)
    with pytest.raises(ArgumentTypeError, match="to_tensor"):
        to_torch(iv.masked_tensor([1.0], [True]))
    with pytest.raises(ArgumentTypeError, match="asarray"):
        to_torch([1.0])
    with pytest.raises(ArgumentTypeError, match=r"expected a torch\.Tensor"):
        from_torch(np.ones(2))
    with pytest.raises(DTypeError, match="float8"):
        from_torch(torch.ones(2, dtype=torch.float8_e5m2))
    with pytest.raises(ArgumentTypeError, match="on meta"):
        from_torch(torch.ones(2, device="meta"))
    with pytest.raises(ArgumentTypeError, match="masked"):
        wrap(lambda x: iv.masked_tensor(x, x > 0))(torch.ones(2))


@pytest.mark.parametrize(
    "read",
    [
        lambda x, w: x * bridge.from_torch(w),
        lambda x, w: iv.asarray(w) * x,
        lambda x, w: x * w,
        lambda x, w: w * x,
        lambda x, w: iv.multiply(x, w) + 0.0,
        lambda x, w: x * iv.asarray([w])[0],
        lambda x, w: iv.vmap(lambda x, k: x * iv.asarray(w)[k])(x, iv.arange(2)),
    ],
)
def test_a_tensor_of_torchs_that_a_wrapped_function_closes_over_is_an_input(read: Any) -> None:
    w, x = _double(2).requires_grad_(), _double(2, seed=1).requires_grad_()
    out = wrap(lambda x: read(x, w))(x)
    torch.testing.assert_close(out, x * w)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), (w, x)), (x, w))
    found = torch.func.grad(lambda w: wrap(lambda x: read(x, w))(x).sum())(w.detach())
    torch.testing.assert_close(found, x.detach())
    with torch.no_grad():
        torch.testing.assert_close(wrap(lambda x: read(x, w))(x), x * w)


def test_a_tensor_of_torchs_that_a_compiled_function_closes_over_is_an_error() -> None:
    w, x = _double(2).requires_grad_(), _double(2, seed=1)
    with pytest.raises(GradientError, match="pass it as an argument"):
        wrap(iv.jit(lambda x: x * iv.asarray(w)))(x)
    with pytest.raises(GradientError, match="pass it as an argument"):
        wrap(lambda x: x * w[0] * w[1])(x)
    with pytest.raises(Exception, match="nonstrict_trace") as refusal:
        torch.compile(wrap(lambda x: x * iv.asarray(w)), backend="aot_eager", fullgraph=True)(x)
    error: BaseException | None = refusal.value
    while error is not None and not isinstance(error, GradientError):
        error = error.__cause__ or error.__context__
    assert error is not None


@pytest.mark.parametrize(
    "function", [lambda F, x, w: F.sin(x), lambda F, x, w: 2 * x, lambda F, x, w: F.sin(x) * w]
)
@pytest.mark.parametrize("tracked", ["", "x", "w", "xw"])
def test_what_a_mapped_pullback_tracks(function: Any, tracked: str) -> None:
    """As in torch.func: what the derivative depends on, where that tracks gradients itself."""
    numbers, eye = {"x": [0.1, 0.2, 0.3], "w": [1.0, 2.0, 3.0]}, np.eye(3)
    x, w = (iv.asarray(n, requires_grad=k in tracked) for k, n in numbers.items())
    u, v = (torch.tensor(n, dtype=torch.float64, requires_grad=k in tracked) for k, n in numbers.items())
    _, pull = iv.vjp(lambda x: function(iv, x, w), x)
    _, back = torch.func.vjp(lambda u: function(torch, u, v), u)
    for ours, theirs in (
        (pull(iv.ones(3)), back(torch.ones(3, dtype=torch.float64))),
        (iv.vmap(pull)(iv.asarray(eye)), torch.func.vmap(back)(torch.from_numpy(eye))),
    ):
        assert ours[0].requires_grad is theirs[0].requires_grad
        np.testing.assert_allclose(ours[0].detach().numpy(), theirs[0].detach().numpy(), rtol=1e-12)
