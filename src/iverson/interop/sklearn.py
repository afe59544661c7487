"""scikit-learn on tensors: `use`, a block in which its metrics stay tensors and differentiate.

By array API dispatch scikit-learn computes with tensors. Its metrics end in ``float(...)``, where no gradient
flows; in the block, that leaves a tensor as it is. What reads numbers on the way, as the solvers of
``LogisticRegression`` do, still refuses a tensor that tracks gradients.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from iverson.core.dispatch import Operand
from iverson.core.protocols import Pytree
from iverson.interop.scipy.door import Patch

try:
    import sklearn
    import sklearn.metrics
except ImportError as error:
    raise ImportError("iverson.interop.sklearn needs scikit-learn: pip install scikit-learn") from error


class _Kind(type):
    """The type of `Float`, which makes Python's numbers."""

    def __call__(cls, x: Pytree = 0.0) -> Any:
        return x if isinstance(x, Operand) and x.ndim == 0 else builtins.float(x)

    def __instancecheck__(cls, x: Pytree) -> bool:
        return isinstance(x, builtins.float)


class Float(builtins.float, metaclass=_Kind):
    """Python's float, but for tensors of rank 0, which stay what they are.

    >>> import iverson as iv
    >>> Float("2.5"), Float(iv.asarray(2.5))
    (2.5, iverson.Tensor(2.5))
    """

    dtype = np.dtype(np.float64)


def _floats() -> Iterator[tuple[ModuleType, str, type]]:
    for name, module in list(sys.modules.items()):
        if name.startswith("sklearn.metrics"):
            yield module, "float", Float


_patch = Patch(_floats)


@contextmanager
def use() -> Iterator[None]:
    """scikit-learn on tensors, in a ``with`` block: metrics of tensors are tensors, with their gradients.

    Array API dispatch is on for the block, which is for all threads. SciPy asks for the environment variable
    ``SCIPY_ARRAY_API=1``, set before it is imported. Raises GradientError, in the block, where an estimator
    reads entries of a tensor that tracks gradients.

    >>> import iverson as iv
    >>> x = iv.asarray([1.0, 2.0, 4.0], requires_grad=True)
    >>> with use():  # doctest: +SKIP
    ...     loss = sklearn.metrics.mean_squared_error(iv.zeros(3), x)
    """
    _patch.enter()
    try:
        with sklearn.config_context(array_api_dispatch=True):
            yield
    finally:
        _patch.leave()


__all__ = ["Float", "use"]
