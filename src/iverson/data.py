"""Data: minibatches of arrays, shuffled by a generator, and the progress of a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeAlias, TypeVar, final

import numpy as np

from iverson.array_api.entries.creation import asarray
from iverson.array_api.entries.joining import concat
from iverson.array_api.random import Generator
from iverson.core.dispatch import Wrapper
from iverson.core.errors import ArgumentError, ArgumentTypeError, ShapeError, described
from iverson.core.inputs.arguments import as_flag, as_function, checked
from iverson.core.protocols import NDArray, Pytree
from iverson.core.python.progress import shown
from iverson.core.shapes import as_int
from iverson.handles import Tensor
from iverson.transforms.trees import flatten, unflatten

Item = TypeVar("Item")
#: A source of rows.
Rows: TypeAlias = Tensor | NDArray


@final
class Batches:
    """Minibatches of a tree of arrays, which `batches` makes: each pass over them shuffles anew.

    ``len`` is the number of batches of a pass.

    >>> import iverson as iv
    >>> batches = iv.data.batches(iv.arange(5), 2)
    >>> len(batches)
    3
    >>> [batch.tolist() for batch in batches]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        arrays: Pytree,
        size: int,
        rng: Generator | None = None,
        *,
        drop_last: bool = False,
        pad: bool = False,
        progress: bool = False,
    ) -> None:
        leaves, self.structure = flatten(arrays)
        self.arrays = [_rows(x, k) for k, x in enumerate(leaves)]
        lengths = {x.shape[0] for x in self.arrays}
        if len(lengths) != 1:
            raise ShapeError(
                "batches", "arrays", got=f"{sorted(lengths)} rows", expected="as many rows in all of them"
            )
        (self.count,) = lengths
        self.size = as_int(size, "batches", "size")
        if self.size < 1:
            raise ArgumentError("batches", "size", got=str(size), expected="at least 1")
        if rng is not None and not isinstance(rng, Generator):
            raise ArgumentTypeError(
                "batches",
                "rng",
                got=described(rng),
                expected="a generator, or None to keep the order",
                remedy="use iverson.random.default_rng(seed)",
            )
        self.rng = rng
        self.drop_last = as_flag(drop_last, "batches", "drop_last")
        self.pad = as_flag(pad, "batches", "pad")
        self.progress = as_flag(progress, "batches", "progress")
        if self.drop_last and self.pad:
            raise ArgumentError("batches", "pad", got="True with drop_last", expected="one of them")

    def __len__(self) -> int:
        """The number of batches."""
        return self.count // self.size if self.drop_last else -(-self.count // self.size)

    def __iter__(self) -> Iterator[Pytree]:
        """The batches of one pass."""
        order = np.arange(self.count)
        if self.rng is not None:
            order = np.asarray(self.rng.permutation(order))
        batches = (self._batch(order[k * self.size : (k + 1) * self.size]) for k in range(len(self)))
        return shown(batches, "batches", len(self)) if self.progress else batches

    def _batch(self, rows: NDArray) -> Pytree:
        parts = [asarray(x[rows]) for x in self.arrays]
        if not self.pad:
            return unflatten(self.structure, parts)
        missing = self.size - len(rows)
        if missing:
            parts = [concat([x, x[np.zeros(missing, np.int64)] * 0], axis=0) for x in parts]
        return unflatten(self.structure, parts), asarray(np.arange(self.size) < len(rows))

    def __repr__(self) -> str:
        return f"Batches({len(self)} of up to {self.size} rows, of {self.count})"


def _rows(x: Pytree, k: int) -> Rows:
    """An array with rows along its first axis."""
    if isinstance(x, Wrapper) or not (isinstance(x, Tensor) or hasattr(x, "__array__")):
        raise ArgumentTypeError(
            "batches",
            "arrays",
            got=f"leaf {k}, {described(x)}",
            expected="tensors or arrays",
            remedy="pass the entries and the mask" if isinstance(x, Wrapper) else "",
        )
    rows: Rows = x if isinstance(x, Tensor) else np.asarray(x)
    if not rows.ndim:
        raise ShapeError("batches", "arrays", got=f"leaf {k} of rank 0", expected="rows along a first axis")
    return rows


@checked
def batches(
    arrays: Pytree,
    size: int,
    rng: Generator | None = None,
    *,
    drop_last: bool = False,
    pad: bool = False,
    progress: bool = False,
) -> Batches:
    """Minibatches of the rows of arrays, to go over once an epoch.

    Parameters
    ----------
    arrays : a tree of tensors or NumPy arrays with as many rows; a batch is a tree of tensors like it.
    size : the number of rows of a batch.
    rng : a generator that shuffles the rows, in each pass anew. None: they stay in order.
    drop_last : whether a last batch with fewer rows is left out.
    pad : whether that gets rows of zeros, so that all batches have one shape and a compiled step is compiled
        once. A batch is then a pair of the tree and a mask of shape (size,), True for rows that exist.
    progress : whether a line on the terminal says how far a pass is.

    Raises ShapeError for arrays with different numbers of rows, ArgumentError for a size below 1 and for both
    flags, ArgumentTypeError for leaves that are no arrays.

    >>> import iverson as iv
    >>> data = {"x": iv.asarray([1.0, 2.0, 3.0]), "y": iv.asarray([10, 20, 30])}
    >>> for batch in batches(data, 2):
    ...     print(batch["x"], batch["y"])
    iverson.Tensor([1., 2.]) iverson.Tensor([10, 20])
    iverson.Tensor([3.]) iverson.Tensor([30])
    >>> [mask.tolist() for _, mask in batches(data, 2, iv.random.default_rng(0), pad=True)]
    [[True, True], [True, False]]
    """
    return Batches(arrays, size, rng, drop_last=drop_last, pad=pad, progress=progress)


@checked
def progress(
    items: Iterable[Item],
    label: str = "progress",
    *,
    total: int | None = None,
    status: Callable[[], str] | None = None,
) -> Iterator[Item]:
    """The items of a loop, with a line on the terminal that says how far it is.

    The line is on standard error; it appears after a second, and is erased at the end. Nothing is written
    where standard error is not a terminal.

    Parameters
    ----------
    items : what the loop goes over.
    label : the word before the bar.
    total : the number of items; None: their length.
    status : a function of no arguments whose text follows the bar, with a loss for example.

    Raises ArgumentTypeError for items that are no iterable, ArgumentError for those without a length if there
    is no total.

    >>> loss = 8.0
    >>> for epoch in progress(range(3), "epochs", status=lambda: f"loss {loss:.3f}"):
    ...     loss = loss / 2
    >>> loss
    1.0
    """
    if not isinstance(items, Iterable):
        raise ArgumentTypeError("progress", "items", got=described(items), expected="an iterable")
    if total is not None:
        count = as_int(total, "progress", "total")
    elif isinstance(items, Sized):
        count = len(items)
    else:
        raise ArgumentError("progress", "total", got="None", expected="a number for items without a length")
    if count < 0:
        raise ArgumentError("progress", "total", got=str(count), expected="at least 0")
    if status is not None:
        as_function(status, "progress", "status")
    return shown(items, str(label), count, status)


__all__ = ["Batches", "batches", "progress"]


def __dir__() -> list[str]:
    return sorted(__all__)
