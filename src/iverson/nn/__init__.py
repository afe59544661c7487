"""Functions of neural networks, named as in `torch.nn.functional`, with ``axis`` for a dimension; and layers.

Functions hold no parameters, which are any pytree; layers are dataclasses that do, and are trees themselves.
A function that exists in `iverson` under the same name is that function, except for `pad`, whose widths are
PyTorch's. Functions that draw random numbers take a generator (``rng``).

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules below, each
imports only those listed before it.

- `layer_arguments`: checks of what callers pass.
- `spatial_functions`: functions over one, two and three spatial axes from one.
- `init`: initial values of parameters.
- `layers`: affine maps, embeddings and dropout.
- `activations`: elementwise activations and gates.
- `attention`: scaled dot-product attention.
- `convolution`: convolutions, their transposes, `unfold` and `fold`.
- `pooling`: maxima, means and norms of windows.
- `normalization`: layer, batch, instance and group normalisation, and others.
- `resizing`: interpolation, padding and pixel shuffles of images.
- `graph_layers`: functions for graph neural networks.
- `sequence_loss`: the CTC loss.
- `losses`: all other losses.
- `modules`: layers with their parameters.
"""

import typing as _typing

from iverson.nn import activations as _activations
from iverson.nn import attention as _attention
from iverson.nn import convolution as _convolution
from iverson.nn import graph_layers as _graphs
from iverson.nn import init as init
from iverson.nn import layers as _layers
from iverson.nn import losses as _losses
from iverson.nn import modules as _modules
from iverson.nn import normalization as _normalization
from iverson.nn import pooling as _pooling
from iverson.nn import resizing as _resizing
from iverson.nn import sequence_loss as _alignment
from iverson.nn.activations import *
from iverson.nn.attention import *
from iverson.nn.convolution import *
from iverson.nn.graph_layers import *
from iverson.nn.layers import *
from iverson.nn.losses import *
from iverson.nn.modules import *
from iverson.nn.normalization import *
from iverson.nn.pooling import *
from iverson.nn.resizing import *
from iverson.nn.sequence_loss import *

_THEMES = (
    _activations,
    _alignment,
    _attention,
    _convolution,
    _graphs,
    _layers,
    _losses,
    _modules,
    _normalization,
    _pooling,
    _resizing,
)
__all__: list[str] = ["init"]
for _theme in _THEMES:
    __all__ += _theme.__all__


def __dir__() -> list[str]:
    return sorted(__all__)


if not _typing.TYPE_CHECKING:  # checkers would take any name for one that is there
    from iverson.core.python.foreign_names import absent as _absent

    __getattr__ = _absent("iverson.nn")
