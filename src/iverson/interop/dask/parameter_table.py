"""Partitioned parameter tables, whose rows live on workers: look-ups and steps by row."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import Client, get_client
from distributed import TimeoutError as DaskTimeoutError

import iverson as iv
from iverson.autograd.mode import is_grad_enabled
from iverson.core.dispatch import value_of
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexingError,
    IversonError,
    LostRowsError,
    ShapeError,
    described,
)
from iverson.core.inputs.arguments import as_function
from iverson.core.protocols import NDArray
from iverson.core.shapes import as_int
from iverson.interop.dask.partitions import client_of, waiting
from iverson.interop.dask.worker_rows import HeldRows, MakeOptimizer
from iverson.interop.messages import summed
from iverson.layouts import Zero

if TYPE_CHECKING:
    from distributed import Actor
    from distributed.actor import BaseActorFuture

    from iverson.handles.typing import Data, DTypeLike

NAME = "PartitionedTable"
#: The file that says what a checkpoint is made of.
MANIFEST = "table.npz"
#: Steps that are remembered one by one; older ones are remembered together.
REMEMBERED = 256
#: After so many seconds without an answer it is seen to whether somebody is there.
POLL = 1.0


class TableRows:
    """Partitioned table as a loss gets it on a worker: `iverson.embedding` accepts it in place of a tensor.

    placement : the actors that have the partitions.
    timeout : seconds that a request to an actor may take.
    """

    def __init__(
        self, placement: tuple[Actor, ...], shape: tuple[int, int], dtype: DTypeLike, timeout: float
    ) -> None:
        self.placement, self.shape, self.dtype = placement, shape, np.dtype(dtype)
        self.timeout = timeout
        self._taken: list[tuple[NDArray, iv.Tensor]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return TableRows, (self.placement, self.shape, self.dtype, self.timeout)

    def fresh(self) -> TableRows:
        """New handle of the same table, without a record of rows that were looked up."""
        return TableRows(self.placement, self.shape, self.dtype, self.timeout)

    def look_up(self, indices: Data) -> iv.Tensor:
        """Rows at integer indices, in a tensor of shape (*indices.shape, width) that tracks no gradients."""
        with iv.no_grad():
            return self.__iverson_embedding__(indices)

    def __iverson_embedding__(self, indices: Data, /) -> iv.Tensor:
        """Rows at the indices, for `iverson.embedding`; each row is requested once from its worker.

        If gradients are recorded, the rows become leaves and are noted for `leaves` and `gradient`.
        """
        numbers = np.asarray(iv.asarray(indices).detach().numpy())
        if numbers.dtype.kind not in "iu":
            raise ArgumentTypeError("embedding", "indices", got=described(indices), expected="integers")
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < self.shape[0]):
            raise IndexingError(
                "embedding",
                "indices",
                got=f"{numbers.min()} to {numbers.max()}",
                expected=f"0 to {self.shape[0] - 1}",
            )
        rows, inverse = np.unique(numbers, return_inverse=True)
        values = iv.asarray(self._looked_up(rows.astype(np.int64)), requires_grad=is_grad_enabled())
        if values.requires_grad:
            self._taken.append((rows, values))
        return iv.embedding(iv.asarray(inverse.reshape(numbers.shape)), values)

    def _looked_up(self, rows: NDArray) -> NDArray:
        values = np.empty((len(rows), self.shape[1]), self.dtype)
        routed = self._routed(rows)
        purposes = {p: f"a look-up of {len(at)} rows" for p, at in routed.items()}
        answers = self._answers(
            purposes, {p: self.placement[p].look_up(rows[at]) for p, at in routed.items()}
        )
        for p, at in routed.items():
            values[at] = answers[p]
        return values

    def _routed(self, rows: NDArray) -> dict[int, NDArray]:
        """Map from each partition that has some of ``rows`` to the positions of these in ``rows``."""
        part = rows % len(self.placement)
        return {p: at for p in range(len(self.placement)) if (at := np.flatnonzero(part == p)).size}

    def _answers(self, purposes: Mapping[int, str], futures: Mapping[int, BaseActorFuture]) -> dict[int, Any]:
        """Results of futures by partition; raises LostRowsError for a dead worker, TimedOutError for a late
        one.

        purposes : for each partition, what was asked, for messages.
        """
        end = monotonic() + self.timeout
        answers = {}
        for p, future in futures.items():
            where = f"partition {p} of {len(self.placement)} at {self.placement[p]._address}"
            try:
                with waiting(NAME, f"{purposes[p]} of {where}", self.timeout):
                    answers[p] = self._answer(future, self.placement[p]._address, end)
            except (OSError, RuntimeError, CancelledError) as error:
                if isinstance(error, IversonError):
                    raise
                raise LostRowsError(NAME, got=f"no worker for {purposes[p]} of {where}: {error}") from error
        return answers

    def _answer(self, future: BaseActorFuture, address: str, end: float) -> Any:
        """Result of a future of the worker at ``address``, which is waited for until the time ``end``.

        Raises OSError if this worker is gone, and the timeout error after ``end``. Dask alone would wait for
        ever for an actor of a dead worker.
        """
        while True:
            try:
                return future.result(timeout=max(min(POLL, end - monotonic()), 0.01))
            except (DaskTimeoutError, TimeoutError):
                if monotonic() >= end:
                    raise
                if address not in get_client().nthreads():
                    raise OSError(f"no worker at {address}") from None

    def leaves(self) -> list[iv.Tensor]:
        """Tensors of rows that were looked up since the last step: leaves to differentiate with
        respect to.
        """
        return [leaf for _, leaf in self._taken]

    def gradient(self, gradients: Iterable[iv.Tensor | None]) -> iv.Tensor:
        """Gradient of the table, a COO tensor of rows in which each row occurs once; zero layout if there is
        none.

        gradients : the gradient of each tensor in `leaves`, or None.
        """
        terms = [
            iv.sparse_coo_tensor(rows[None], g.to_dense(), self.shape)
            for (rows, _), g in zip(self._taken, gradients, strict=True)
            if g is not None and g.layout != "zero"
        ]
        if not terms:
            return iv.Tensor(Zero(self.shape, self.dtype))
        return summed(terms)


class PartitionedTable(TableRows):
    """A table of parameters whose rows, with their optimizer's state, live on the workers of a cluster.

    Parameters
    ----------
    rows, width : the shape. Row r is in partition r % partitions.
    client : of ``distributed``; by default the current one.
    optimizer : makes one from a list of parameters: ``functools.partial(iverson.optim.Adam, lr=0.1)``.
    partitions : how many; by default one for each worker.
    scale, seed : rows start as normal numbers with this standard deviation, which depend on the seed and the
    row alone.
    dtype : float32 or float64.
    timeout : seconds that a request may take.

    In a loss, ``iverson.embedding(indices, table)`` asks for each row once. Then ``loss.backward();
    table.step()`` makes a step on the rows that were looked up; as a leaf of the parameters of
    `value_and_grad` its gradient is rows, to give to ``step``. Only such rows travel. A row that no step has
    changed takes no memory.

    Where a worker dies, its partition is read from the last `save` again, onto another worker, and
    LostRowsError says which rows lost which steps. Raises TimedOutError where an answer is late.

    >>> from distributed import Client
    >>> import iverson as iv
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     table = PartitionedTable(10**8, 4, client, optimizer=lambda p: iv.optim.SGD(p, lr=1.0), scale=0.0)
    ...     iv.embedding(iv.asarray([7, 10**7]), table).sum().backward()
    ...     table.step()
    ...     table.look_up(iv.asarray([7, 8])), table.stored()
    (iverson.Tensor([[-1., -1., -1., -1.],
                     [ 0.,  0.,  0.,  0.]]), 2)
    """

    def __init__(
        self,
        rows: int,
        width: int,
        client: Client | None = None,
        *,
        optimizer: MakeOptimizer,
        partitions: int | None = None,
        scale: float = 0.01,
        seed: int = 0,
        dtype: DTypeLike = "float64",
        timeout: float = 60.0,
    ) -> None:
        from cloudpickle import dumps

        shape = as_int(rows, NAME, "rows"), as_int(width, NAME, "width")
        if min(shape) < 1:
            raise ShapeError(NAME, "rows", got=f"shape {shape}", expected="at least a row and a column")
        cluster = client_of(client)
        if cluster is None:
            raise ArgumentError(
                NAME, "client", got="none", expected="one of distributed", remedy="start one: Client()"
            )
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ArgumentError(NAME, "dtype", got=str(dtype), expected="float32 or float64")
        self._client = cluster
        make = dumps(as_function(optimizer, NAME, "optimizer"))
        self._arguments = shape, np.dtype(dtype).name, make, (float(scale), int(seed))
        self._folder: Path | None = None
        self._number = self._saved = 0
        count = len(self._workers()) if partitions is None else as_int(partitions, NAME, "partitions")
        if count < 1:
            raise ArgumentError(NAME, "partitions", got=str(count), expected="at least one")
        self._lost: list[list[tuple[int, int, NDArray]]] = [[] for _ in range(count)]
        super().__init__((), shape, dtype, timeout)
        self.placement = tuple(self._started({p: p for p in range(count)}, count).values())

    @property
    def steps(self) -> int:
        """Number of steps so far."""
        return self._number

    def stored(self) -> int:
        """Number of rows that workers keep in memory: those that a step has changed."""
        return sum(self._asked("the number of rows", lambda actor, p: actor.stored()).values())

    def step(self, gradient: iv.Tensor | None = None, lr: float | None = None) -> None:
        """Make a step on rows.

        gradient : a tensor of the table's shape, of rows (COO with dense rows) or in the zero layout, as
            `value_and_grad` gives it; or None for the ``.grad`` of what was looked up since the last step.
        lr : the rate from now on.
        """
        if gradient is None:
            gradient = self.gradient([leaf.grad for leaf in self.leaves()])
        self._taken = []
        value = value_of(gradient, None)
        if isinstance(value, Zero):
            return
        if (
            getattr(gradient, "shape", None) != self.shape
            or getattr(value, "dense_shape", None) != self.shape[1:]
        ):
            raise ArgumentError(
                "step", "gradient", got=described(gradient), expected=f"rows of shape {self.shape}, in COO"
            )
        merged = value_of(summed([gradient]))
        rows, entries = (
            merged.pattern.indices[0].astype(np.int64),
            merged.entries.astype(self.dtype, copy=False),
        )
        self._number += 1
        routed = self._routed(rows)
        for p, at in routed.items():
            self._remember(p, rows[at])
        number = self._number
        self._asked(
            f"step {number}",
            lambda actor, p: actor.step(rows[routed[p]], entries[routed[p]], number, lr),
            routed,
        )

    def check(self) -> None:
        """Ask each partition for a sign of life; raises LostRowsError, as a step would, where one is dead."""
        self._asked("a sign of life", lambda actor, p: actor.steps())

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write all rows that steps have changed, and the optimizer's state, to a folder that every worker
        can reach.

        Each worker writes its own file. An earlier checkpoint is replaced in one step when everything is
        written.
        """
        where = Path(folder).absolute()
        where.mkdir(parents=True, exist_ok=True)
        old = _manifest(where)["files"] if (where / MANIFEST).exists() else []
        count, number = len(self.placement), self._number
        paths = {p: where / f"{number}-{p}-of-{count}-{os.urandom(4).hex()}.npz" for p in range(count)}
        self._asked(f"a checkpoint in {where}", lambda actor, p: actor.save(str(paths[p])))
        manifest = {"shape": list(self.shape), "steps": number, "files": [x.name for x in paths.values()]}
        iv.save(where / MANIFEST, manifest)
        self._folder, self._saved = where, number
        self._lost = [[] for _ in self.placement]
        for name in old:
            (where / name).unlink(missing_ok=True)

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Take over what `save` wrote, of a table of the same shape in any number of partitions.

        Raises ShapeError for a table of another shape, OSError where there is none.
        """
        where = Path(folder).absolute()
        manifest = _manifest(where)
        if tuple(manifest["shape"]) != self.shape:
            raise ShapeError(
                "load", "folder", got=f"a table of shape {manifest['shape']}", expected=f"{self.shape}"
            )
        self._folder, self._saved, self._number = where, manifest["steps"], manifest["steps"]
        self._lost = [[] for _ in self.placement]
        self.placement = tuple(self._started({p: p for p in range(len(self.placement))}).values())

    # -- requests ------------------------------------------------------------------------------------

    def _asked(
        self, purpose: str, call: Callable[[Actor, int], BaseActorFuture], parts: Iterable[int] | None = None
    ) -> dict[int, Any]:
        """Answers of partitions to a call of their actors, by partition.

        If actors are dead, they are restored on other workers, and LostRowsError says which rows lost steps.
        purpose : what is asked, for messages. call : makes the call of an actor; it gets the actor and the
            partition.
        parts : the partitions to ask, by default all.
        """
        numbers = list(range(len(self.placement)) if parts is None else parts)
        answers: dict[int, Any] = {}
        dead: dict[int, Exception] = {}
        futures: dict[int, Any] = {}
        for p in numbers:
            try:
                futures[p] = call(self.placement[p], p)
            except (RuntimeError, OSError) as error:
                dead[p] = error
        for p, future in futures.items():
            try:
                answers |= self._answers({p: purpose}, {p: future})
            except LostRowsError as error:
                dead[p] = error
        if dead:
            raise self._restored(dead)
        return answers

    def _looked_up(self, rows: NDArray) -> NDArray:
        values = np.empty((len(rows), self.shape[1]), self.dtype)
        routed = self._routed(rows)
        answers = self._asked("a look-up", lambda actor, p: actor.look_up(rows[routed[p]]), routed)
        for p, at in routed.items():
            values[at] = answers[p]
        return values

    def _workers(self) -> list[str]:
        addresses = sorted(self._client.nthreads())
        if not addresses:
            raise ArgumentError(
                NAME, "client", got="a cluster without workers", expected="at least one worker"
            )
        return addresses

    def _started(self, parts: Mapping[int, int], count: int | None = None) -> dict[int, Any]:
        """New actors for partitions, by partition; each reads the last checkpoint if there is one.

        parts : for each partition, a number that selects its worker. count : the number of all partitions.
        """
        workers = self._workers()
        count = count or len(self.placement)
        futures = {
            p: self._client.submit(
                HeldRows,
                *(p, count, *self._arguments),
                actor=True,
                pure=False,
                workers=[workers[k % len(workers)]],
                allow_other_workers=True,
            )
            for p, k in parts.items()
        }
        actors = {}
        for p, future in futures.items():
            with waiting(NAME, f"the start of partition {p} of {count}", self.timeout):
                actors[p] = future.result(timeout=self.timeout)
        if self._folder is not None:
            paths = [str(self._folder / name) for name in _manifest(self._folder)["files"]]
            reading = {p: actor.load(paths) for p, actor in actors.items()}
            for p, answer in reading.items():
                with waiting(NAME, f"partition {p} of {count} to read {self._folder}", self.timeout):
                    answer.result(timeout=self.timeout)
        return actors

    # -- faults --------------------------------------------------------------------------------------

    def _remember(self, p: int, rows: NDArray) -> None:
        """Note that the current step changes ``rows`` of partition ``p``: they are lost if its worker dies.

        Old steps are merged into one entry when there are more than `REMEMBERED`.
        """
        history = self._lost[p]
        history.append((self._number, self._number, rows))
        if len(history) > REMEMBERED:
            half = history[: REMEMBERED // 2]
            history[: len(half)] = [
                (half[0][0], half[-1][1], np.unique(np.concatenate([r for *_, r in half])))
            ]

    def _restored(self, dead: Mapping[int, Exception]) -> LostRowsError:
        """Start dead partitions on other workers, and return the LostRowsError that says which rows lost
        which steps.

        dead : the error of each dead partition.
        """
        self._taken = []
        started = self._started({p: k for k, p in enumerate(dead)})
        self.placement = tuple(started.get(p, actor) for p, actor in enumerate(self.placement))
        losses = [entry for p in dead for entry in self._lost[p]]
        for p in dead:
            self._lost[p] = []
        rows = np.unique(np.concatenate([np.zeros(0, np.int64), *(r for *_, r in losses)]))
        steps = sorted({n for first, last, _ in losses for n in range(first, last + 1)})
        names = ", ".join(map(str, dead))
        since = f"the checkpoint of step {self._saved} in {self._folder}" if self._folder else "its start"
        summary = (
            f"{len(rows)} rows ({_shown(rows)}) lost steps {_shown(steps)}" if steps else "no row lost a step"
        )
        error = LostRowsError(
            NAME,
            got=f"the worker of partition {names} of {len(self.placement)} dead",
            expected="",
            remedy=f"restored from {since}: {summary}; go on from there, or load a checkpoint",
        )
        error.rows, error.steps = tuple(rows.tolist()), tuple(steps)
        return error


def _manifest(folder: Path) -> dict[str, Any]:
    """Contents of a checkpoint's manifest: the shape of the table, its step, and the names of the files."""
    manifest: dict[str, Any] = iv.load(folder / MANIFEST)
    return manifest


def _shown(numbers: Iterable[int]) -> str:
    """Text of a list of numbers; if there are more than eight, the first six and the last."""
    text = [str(int(n)) for n in numbers]
    return ", ".join(text) if len(text) <= 8 else f"{', '.join(text[:6])}, ..., {text[-1]}"


__all__ = ["PartitionedTable", "TableRows"]
