"""Layers with their parameters: dataclasses to call, each a few lines over a function of `iverson.nn`.

A layer is a tree: its parameters are leaves, its settings part of the structure. So it is differentiated,
compiled, mapped, optimised and saved as any tree, and there is no registry. Parameters are drawn as
PyTorch's are, and laid out as they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, TypeAlias

from iverson.array_api.elementwise import sigmoid, tanh
from iverson.array_api.entries.creation import asarray, ones, zeros
from iverson.array_api.entries.manipulation import moveaxis, reshape
from iverson.array_api.reduction.segments import embedding
from iverson.core.errors import ArgumentError
from iverson.core.inputs.arguments import checked
from iverson.core.shapes import as_int
from iverson.dataclasses import dataclass, field
from iverson.handles import Tensor
from iverson.nn.attention import scaled_dot_product_attention
from iverson.nn.convolution import conv1d, conv2d, conv3d
from iverson.nn.init import _source
from iverson.nn.layers import dropout, linear
from iverson.nn.normalization import layer_norm
from iverson.transforms import scan

if TYPE_CHECKING:
    from iverson.array_api.random import Generator
    from iverson.handles.typing import DTypeLike, ShapeLike

#: What may be a layer: a function of a tensor.
Layer: TypeAlias = Callable[..., Any]
#: Extents along the spatial axes, or one for all.
Extents: TypeAlias = int | Sequence[int]
#: A field that is no parameter.
Setting: TypeAlias = float | str | None
_CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}


def _setting(default: Setting = None) -> Any:
    return field(default=default, pytree_node=False)


def _count(value: int, name: str, argument: str) -> int:
    count = as_int(value, name, argument)
    if count < 1:
        raise ArgumentError(name, argument, got=str(value), expected="at least 1")
    return count


def _uniform(rng: Generator, name: str, shape: tuple[int, ...], fan: int, dtype: DTypeLike | None) -> Tensor:
    """Draws between -fan**-0.5 and fan**-0.5."""
    bound = 1 / sqrt(fan)
    return _source(rng, name).uniform(-bound, bound, shape, dtype=dtype)


@dataclass
class Linear:
    """The affine map ``x @ weight.T + bias`` of the last axis; see `linear`.

    Parameters
    ----------
    in_features, out_features : extents of the last axis of an argument and of the result.
    bias : whether there is one.
    rng : where the parameters are drawn from.
    dtype : of the parameters.

    >>> import iverson as iv
    >>> layer = Linear(3, 2, rng=iv.random.default_rng(0))
    >>> layer(iv.ones((5, 3))).shape
    (5, 2)
    >>> gradient = iv.grad(lambda layer: layer(iv.ones(3)).sum())(layer)
    >>> gradient.bias
    iverson.Tensor([1., 1.])
    """

    weight: Tensor
    bias: Tensor | None

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rng: Generator,
        dtype: DTypeLike | None = None,
    ) -> None:
        inputs = _count(in_features, "Linear", "in_features")
        outputs = _count(out_features, "Linear", "out_features")
        self.weight = _uniform(rng, "Linear", (outputs, inputs), inputs, dtype)
        self.bias = _uniform(rng, "Linear", (outputs,), inputs, dtype) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """The result of shape (..., out_features)."""
        return linear(x, self.weight, self.bias)


@dataclass
class Conv:
    """A convolution over one to three spatial axes; see `conv1d`, `conv2d`, `conv3d`.

    Parameters
    ----------
    num_spatial_dims : the number of spatial axes.
    in_channels, out_channels : extents of the axis before these.
    kernel_size : extents of a window, or one for all.
    stride, padding, dilation, groups : as of `conv2d`.
    bias : whether there is one.
    rng : where the parameters are drawn from.
    dtype : of the parameters.

    >>> import iverson as iv
    >>> layer = Conv(2, 3, 8, kernel_size=3, padding=1, rng=iv.random.default_rng(0))
    >>> layer(iv.ones((1, 3, 5, 5))).shape
    (1, 8, 5, 5)
    """

    weight: Tensor
    bias: Tensor | None
    stride: Extents = _setting(1)
    padding: Extents | str = _setting(0)
    dilation: Extents = _setting(1)
    groups: int = _setting(1)

    @checked
    def __init__(
        self,
        num_spatial_dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Extents | str = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        rng: Generator,
        dtype: DTypeLike | None = None,
    ) -> None:
        n = _count(num_spatial_dims, "Conv", "num_spatial_dims")
        if n not in _CONVOLUTIONS:
            raise ArgumentError("Conv", "num_spatial_dims", got=str(n), expected="1, 2 or 3")
        channels = _count(in_channels, "Conv", "in_channels")
        if channels % _count(groups, "Conv", "groups"):
            raise ArgumentError("Conv", "groups", got=str(groups), expected=f"a divisor of {channels}")
        size = (kernel_size,) * n if isinstance(kernel_size, int) else tuple(kernel_size)
        shape = (_count(out_channels, "Conv", "out_channels"), channels // groups, *size)
        fan = 1
        for extent in shape[1:]:
            fan *= _count(extent, "Conv", "kernel_size")
        self.weight = _uniform(rng, "Conv", shape, fan, dtype)
        self.bias = _uniform(rng, "Conv", shape[:1], fan, dtype) if bias else None
        self.stride = stride if isinstance(stride, int) else tuple(stride)
        self.padding = padding if isinstance(padding, int | str) else tuple(padding)
        self.dilation = dilation if isinstance(dilation, int) else tuple(dilation)
        self.groups = groups

    def __call__(self, x: Tensor) -> Tensor:
        """The result of shape (..., out_channels, *spatial)."""
        function: Any = _CONVOLUTIONS[self.weight.ndim - 2]
        return function(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, groups=self.groups
        )


@dataclass
class LayerNorm:
    """Normalisation of the last axes to mean 0 and variance 1, then scaled and shifted; see `layer_norm`.

    Parameters
    ----------
    normalized_shape : extents of these axes.
    eps : is added to the variance.
    bias : whether results are shifted.
    dtype : of the parameters.

    >>> import iverson as iv
    >>> LayerNorm(2)(iv.asarray([[1.0, 3.0]])).round()
    iverson.Tensor([[-1.,  1.]])
    """

    weight: Tensor
    bias: Tensor | None
    eps: float = _setting(1e-5)

    @checked
    def __init__(
        self,
        normalized_shape: ShapeLike,
        eps: float = 1e-5,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.weight = ones(normalized_shape, dtype=dtype)
        self.bias = zeros(normalized_shape, dtype=dtype) if bias else None
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        """The result, of the shape of x."""
        return layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass
class Embedding:
    """A row of a table for each integer; see `iverson.embedding`.

    Parameters
    ----------
    num_embeddings, embedding_dim : the shape of the table, which is drawn from a normal distribution.
    padding_idx : the number of a row that is zero, and constant.
    rng : where the table is drawn from.
    dtype : of the table.

    >>> import iverson as iv
    >>> layer = Embedding(10, 4, rng=iv.random.default_rng(0))
    >>> layer(iv.asarray([1, 3, 3])).shape
    (3, 4)
    """

    weight: Tensor
    padding_idx: int | None = _setting()

    @checked
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        rng: Generator,
        dtype: DTypeLike | None = None,
    ) -> None:
        rows = _count(num_embeddings, "Embedding", "num_embeddings")
        columns = _count(embedding_dim, "Embedding", "embedding_dim")
        self.weight = _source(rng, "Embedding").normal(0.0, 1.0, (rows, columns), dtype=dtype)
        self.padding_idx = padding_idx
        if padding_idx is not None:
            self.weight[padding_idx] = 0.0

    def __call__(self, indices: Tensor) -> Tensor:
        """The rows, of shape (*indices.shape, embedding_dim)."""
        return embedding(indices, self.weight, self.padding_idx)


def _recurrent(
    rng: Generator, name: str, inputs: int, hidden: int, gates: int, bias: bool, dtype: DTypeLike | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Weights of inputs and of the state, and biases of both."""
    columns, rows = _count(inputs, name, "input_size"), _count(hidden, name, "hidden_size")
    extents = (gates * rows, columns), (gates * rows, rows), (gates * rows,), (gates * rows,)
    weights = [_uniform(rng, name, shape, rows, dtype) for shape in (extents if bias else extents[:2])]
    return (weights[0], weights[1], *(weights[2:] or (None, None)))


def _start(x: Tensor, hidden: int) -> Tensor:
    """A state of zeros for a sequence of inputs."""
    return zeros((*x.shape[1:-1], hidden), dtype=x.dtype)


@dataclass
class LSTM:
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) over the first axis of a sequence.

    Parameters
    ----------
    input_size, hidden_size : extents of the last axis of an input and of the state.
    bias : whether there are biases.
    rng : where the parameters are drawn from.
    dtype : of the parameters.

    Gates are in PyTorch's order: input, forget, cell, output.

    >>> import iverson as iv
    >>> layer = LSTM(3, 4, rng=iv.random.default_rng(0))
    >>> outputs, (hidden, cell) = layer(iv.ones((7, 2, 3)))
    >>> outputs.shape, hidden.shape, cell.shape
    ((7, 2, 4), (2, 4), (2, 4))
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    @checked
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        rng: Generator,
        dtype: DTypeLike | None = None,
    ) -> None:
        of = _recurrent(rng, "LSTM", input_size, hidden_size, 4, bias, dtype)
        self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh = of

    def __call__(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The outputs of all steps, and the last (hidden, cell); ``state`` is the first, by default zeros."""
        size = self.weight_hh.shape[1]
        x = asarray(x)

        def step(state: tuple[Tensor, Tensor], inputs: Tensor) -> Any:
            hidden, cell = state
            gates = inputs + linear(hidden, self.weight_hh, self.bias_hh)
            take, forget, new, give = (gates[..., k * size : (k + 1) * size] for k in range(4))
            cell = sigmoid(forget) * cell + sigmoid(take) * tanh(new)
            hidden = sigmoid(give) * tanh(cell)
            return (hidden, cell), hidden

        first = (_start(x, size), _start(x, size)) if state is None else state
        last, outputs = scan(step, first, linear(x, self.weight_ih, self.bias_ih))
        return outputs, last


@dataclass
class GRU:
    """Gated recurrent units (Cho et al., 2014) over the first axis of a sequence.

    Parameters
    ----------
    input_size, hidden_size : extents of the last axis of an input and of the state.
    bias : whether there are biases.
    rng : where the parameters are drawn from.
    dtype : of the parameters.

    Gates are in PyTorch's order: reset, update, new; the reset gate is applied after the product.

    >>> import iverson as iv
    >>> layer = GRU(3, 4, rng=iv.random.default_rng(0))
    >>> outputs, hidden = layer(iv.ones((7, 2, 3)))
    >>> outputs.shape, hidden.shape
    ((7, 2, 4), (2, 4))
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    @checked
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        rng: Generator,
        dtype: DTypeLike | None = None,
    ) -> None:
        of = _recurrent(rng, "GRU", input_size, hidden_size, 3, bias, dtype)
        self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh = of

    def __call__(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The outputs of all steps, and the last state; ``state`` is the first, by default zeros."""
        size = self.weight_hh.shape[1]
        x = asarray(x)

        def step(hidden: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
            recurrent = linear(hidden, self.weight_hh, self.bias_hh)
            reset = sigmoid(inputs[..., :size] + recurrent[..., :size])
            update = sigmoid(inputs[..., size : 2 * size] + recurrent[..., size : 2 * size])
            new = tanh(inputs[..., 2 * size :] + reset * recurrent[..., 2 * size :])
            hidden = new + update * (hidden - new)
            return hidden, hidden

        first = _start(x, size) if state is None else state
        last, outputs = scan(step, first, linear(x, self.weight_ih, self.bias_ih))
        return outputs, last


@dataclass
class MultiHeadAttention:
    """Attention in several heads, each on its share of the features (Vaswani et al., 2017).

    Parameters
    ----------
    num_heads : how many; they divide the features.
    embed_dim : the number of features of queries and results.
    key_dim, value_dim : those of keys and values; default: as of queries.
    bias : whether the four affine maps have one.
    rng : where the parameters are drawn from.
    dtype : of the parameters.

    See `scaled_dot_product_attention`.

    >>> import iverson as iv
    >>> layer = MultiHeadAttention(2, 8, rng=iv.random.default_rng(0))
    >>> layer(iv.ones((3, 5, 8)), is_causal=True).shape
    (3, 5, 8)
    """

    query_proj: Linear
    key_proj: Linear
    value_proj: Linear
    output_proj: Linear
    num_heads: int = _setting(1)

    @checked
    def __init__(
        self,
        num_heads: int,
        embed_dim: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        *,
        rng: Generator,
        dtype: DTypeLike | None = None,
    ) -> None:
        name = "MultiHeadAttention"
        width = _count(embed_dim, name, "embed_dim")
        if width % _count(num_heads, name, "num_heads"):
            raise ArgumentError(name, "num_heads", got=str(num_heads), expected=f"a divisor of {width}")
        self.num_heads = num_heads
        self.query_proj = Linear(width, width, bias, rng=rng, dtype=dtype)
        self.key_proj = Linear(key_dim or width, width, bias, rng=rng, dtype=dtype)
        self.value_proj = Linear(value_dim or width, width, bias, rng=rng, dtype=dtype)
        self.output_proj = Linear(width, width, bias, rng=rng, dtype=dtype)

    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        dropout_p: float = 0.0,
        *,
        rng: Generator | None = None,
    ) -> Tensor:
        """The result of shape (..., queries, embed_dim); keys and values are the queries by default."""
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (
            self._heads(layer(x))
            for layer, x in ((self.query_proj, query), (self.key_proj, key), (self.value_proj, value))
        )
        y = moveaxis(scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, rng=rng), -3, -2)
        return self.output_proj(reshape(y, (*y.shape[:-2], y.shape[-2] * y.shape[-1])))

    def _heads(self, x: Tensor) -> Tensor:
        """The features of each head, with an axis for heads before those of the rows and features."""
        split = reshape(x, (*x.shape[:-1], self.num_heads, x.shape[-1] // self.num_heads))
        return moveaxis(split, -2, -3)


@dataclass
class Dropout:
    """Entries set to 0 with probability p, and the others divided by 1 - p; see `dropout`.

    Parameters
    ----------
    p : the probability.
    inference : whether it does nothing.

    It is called with the generator of the draws: ``layer(x, rng=rng)``.

    >>> import iverson as iv
    >>> Dropout(0.5, inference=True)(iv.ones(2))
    iverson.Tensor([1., 1.])
    """

    p: float = _setting(0.5)
    inference: bool = _setting(False)

    def __call__(self, x: Tensor, *, rng: Generator | None = None) -> Tensor:
        """The result, of the shape of x; raises ArgumentError without a generator, but in inference."""
        return dropout(x, self.p, not self.inference, rng=rng)


@dataclass
class Lambda:
    """A function as a layer without parameters, which `Sequential` makes of what is no layer.

    Parameters
    ----------
    function : of a tensor.

    >>> import iverson as iv
    >>> Lambda(iv.tanh)(iv.asarray(0.0))
    iverson.Tensor(0.)
    """

    function: Layer = _setting()

    def __call__(self, x: Tensor) -> Tensor:
        """The function's result."""
        return self.function(x)


@dataclass
class Sequential:
    """Layers one after the other.

    Parameters
    ----------
    layers : the layers, and functions of a tensor.

    A generator that it is called with goes to the layers that draw: `Dropout`, and other sequences.

    >>> import iverson as iv
    >>> rng = iv.random.default_rng(0)
    >>> model = Sequential([Linear(2, 8, rng=rng), iv.tanh, Linear(8, 1, rng=rng)])
    >>> model(iv.ones((5, 2))).shape
    (5, 1)
    """

    layers: tuple[Layer, ...]

    @checked
    def __init__(self, layers: Sequence[Layer]) -> None:
        for k, layer in enumerate(layers):
            if not callable(layer):
                raise ArgumentError(
                    "Sequential", f"layers[{k}]", got=repr(layer), expected="a layer or a function"
                )
        self.layers = tuple(x if hasattr(x, "__dataclass_fields__") else Lambda(x) for x in layers)

    def __call__(self, x: Tensor, *, rng: Generator | None = None) -> Any:
        """The result of the last layer."""
        for layer in self.layers:
            x = layer(x, rng=rng) if isinstance(layer, Dropout | Sequential) else layer(x)
        return x

    def __getitem__(self, k: int) -> Layer:
        return self.layers[k]

    def __len__(self) -> int:
        return len(self.layers)


__all__ = [
    "GRU",
    "LSTM",
    "Conv",
    "Dropout",
    "Embedding",
    "Lambda",
    "LayerNorm",
    "Linear",
    "MultiHeadAttention",
    "Sequential",
]
