"""Partitions of Dask's collections, and waits for what other processes compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import dask
import optree
from dask.delayed import Delayed
from distributed import Client, Future, default_client
from distributed import TimeoutError as DaskTimeoutError

from iverson.core.errors import ArgumentError, ArgumentTypeError, TimedOutError, described

if TYPE_CHECKING:
    from dask.typing import DaskCollection

    #: A collection: one of dask's, or its partitions. Data are a tree of collections.
    Collection: TypeAlias = DaskCollection | Future | Sequence[DaskCollection | Future]
    Data: TypeAlias = Collection | tuple[Any, ...] | Mapping[Any, Any]

#: A node of a tree, of any type.
Node = TypeVar("Node")
EXPECTED = "a dask array, bag or dataframe, a list of delayed partitions, or a tuple or dict of these"


class Partitions:
    """Partitions of data: in each, one part of every collection in a tree of collections.

    parts : for each partition, the delayed part of each collection.
    structure : of the tree.
    """

    def __init__(self, data: Data, operation: str) -> None:
        tree: Any = data
        leaves, self.structure = optree.tree_flatten(tree, is_leaf=_is_collection)
        columns = [_partitions_of(x, operation) for x in leaves]
        counts = {len(column) for column in columns}
        if len(counts) != 1 or not all(counts):
            raise ArgumentError(
                operation,
                "data",
                got=f"collections of {', '.join(str(len(c)) for c in columns) or 'no'} partitions",
                expected="as many partitions in each, and at least one",
                remedy="rechunk or repartition them alike",
            )
        self.parts: list[tuple[Delayed | Future, ...]] = list(zip(*columns, strict=True))


def partitions(data: Data) -> list[Delayed]:
    """The partitions of collections, delayed: to shuffle, to take some of, to compute ahead.

    data : a dask array (partitions are along its first axis), bag or dataframe, a list of delayed values or
        futures, or a tuple or dict of such collections with as many partitions each.

    Each is a delayed tree like ``data``, and a list of them is data for `value_and_grad`. Raises
    ArgumentTypeError for other data, ArgumentError where collections differ in their partitions.

    >>> import dask.array as da
    >>> len(partitions(da.ones((6, 2), chunks=(2, 2))))
    3
    """
    split = Partitions(data, "partitions")
    return [dask.delayed(optree.tree_unflatten)(split.structure, list(parts)) for parts in split.parts]


def _is_collection(x: Node) -> bool:
    return isinstance(x, (list, Future)) or dask.is_dask_collection(x)


def _partitions_of(x: Collection, operation: str) -> list[Delayed | Future]:
    if isinstance(x, (Delayed, Future)):
        return [x]
    if isinstance(x, list) and all(isinstance(part, (Delayed, Future)) for part in x):
        return x
    if not dask.is_dask_collection(x) or not hasattr(x, "to_delayed"):
        raise ArgumentTypeError(operation, "data", got=described(x), expected=EXPECTED)
    collection: DaskCollection = x
    if any(count > 1 for count in getattr(x, "numblocks", ())[1:]):
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    parts = collection.to_delayed()
    return list(parts.ravel() if hasattr(parts, "ravel") else parts)


def client_of(client: Client | Literal[False] | None) -> Client | None:
    """The ``client``, or the current client if it is None; None if there is no current one, or ``client`` is
    False.
    """
    if client is not None:
        return client or None
    try:
        return default_client()
    except ValueError:
        return None


@contextmanager
def waiting(operation: str, purpose: str, timeout: float) -> Iterator[None]:
    """Context that turns a timeout inside of it into TimedOutError, with the purpose of the wait."""
    try:
        yield
    except (DaskTimeoutError, TimeoutError) as error:
        if isinstance(error, TimedOutError):
            raise
        raise TimedOutError(
            operation,
            got=f"no answer in {timeout:g} s",
            expected=purpose,
            remedy="see whether workers are alive (client.scheduler_info()), or give it a longer timeout",
        ) from error


__all__ = ["Partitions", "client_of", "partitions", "waiting"]
