"""Rows of a partitioned table on a worker: those that steps have changed, and their optimizer's state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import iverson as iv
from iverson.core.protocols import NDArray, Params
from iverson.optim.base import Optimizer
from iverson.optim.touched_parts import spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iverson.handles.typing import DTypeLike

#: Makes the optimizer of parameters: ``functools.partial(optim.Adam, lr=0.1)``.
MakeOptimizer = Callable[[Sequence[iv.Tensor]], Optimizer]
FIRST = 64


def initial_rows(rows: NDArray, width: int, dtype: DTypeLike, scale: float, seed: int) -> NDArray:
    """Rows of a table before any step: normal numbers times ``scale``, which depend on ``seed`` and row
    number only.

    Entries are numbered, the numbers hashed by SplitMix64 (Steele, Lea and Flood, 2014), and pairs of hashes
    made normal (Box and Muller, 1958).
    """
    if not scale:
        return np.zeros((len(rows), width), dtype)
    numbers = rows.astype(np.uint64)[:, None] * np.uint64(width) + np.arange(width, dtype=np.uint64)
    key = _mixed(np.array([seed], np.uint64))
    first, second = (_mixed(2 * numbers + np.uint64(k) ^ key) for k in (0, 1))
    u, v = (((x >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53 for x in (first, second))
    result: NDArray = (scale * np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)).astype(dtype)
    return result


def _mixed(x: NDArray) -> NDArray:
    """Hash of 64-bit numbers by the output function of SplitMix64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray = x ^ (x >> np.uint64(31))
    return mixed


class HeldRows:
    """Actor of Dask with partition ``part`` of ``parts`` of a table: the rows part, part + parts, ... of it.

    A row that no step has changed is computed when it is read, and not stored.
    make_optimizer : a pickle of the function that makes the optimizer.
    start : scale and seed of the initial rows.
    """

    def __init__(
        self,
        part: int,
        parts: int,
        shape: tuple[int, int],
        dtype: DTypeLike,
        make_optimizer: bytes,
        start: tuple[float, int],
    ) -> None:
        from cloudpickle import loads

        self._part, self._parts = part, parts
        self._width, self._dtype, self._start = shape[1], np.dtype(dtype), start
        self._make: MakeOptimizer = loads(make_optimizer)
        #: 1 + the place of each row that is held; 0, in memory that costs nothing until written, for others.
        self._places = np.zeros(-(-shape[0] // parts), np.int32)
        self._rows = np.zeros(0, np.int64)
        self._count = self._steps = 0
        self._resize(FIRST)

    def steps(self) -> int:
        """The number of the last step."""
        return self._steps

    def stored(self) -> int:
        """Number of rows stored."""
        return self._count

    def look_up(self, rows: NDArray) -> NDArray:
        """Values of rows by their numbers in the whole table, an array of shape (len(rows), width)."""
        places = self._places[rows // self._parts]
        if places.all():
            result: NDArray = self._values()[places - 1]
            return result
        result = initial_rows(rows, self._width, self._dtype, *self._start)
        is_stored = places > 0
        result[is_stored] = self._values()[places[is_stored] - 1]
        return result

    def step(self, rows: NDArray, gradient: NDArray, number: int, lr: float | None) -> int:
        """Make step ``number`` on ``rows``, unless it was made before; returns the number of the last step.

        lr : the learning rate from now on; None leaves it.
        """
        if number > self._steps:
            places = self._placed(rows)
            if lr is not None:
                self._optimizer.lr = lr
            capacity = len(self._rows)
            self._optimizer.step(
                [iv.sparse_coo_tensor(places[None], gradient, (capacity, self._width), check=False)]
            )
            self._steps = number
        return self._steps

    def save(self, path: str) -> str:
        """Write the rows that steps have changed, and the optimizer's state, to a file; returns ``path``."""
        state = self._optimizer.state_dict()
        (arrays,) = state["states"]
        n = self._count
        if arrays is not None:
            state["states"] = [{k: v[:n] if v.ndim else v for k, v in arrays.items()}]
        iv.save(
            path,
            {"rows": self._rows[:n], "values": self._values()[:n], "optimizer": state, "steps": self._steps},
        )
        return path

    def load(self, paths: Sequence[str]) -> int:
        """Read the rows of this partition from the files of a checkpoint; returns the step of the checkpoint.

        paths : files of all partitions; their number may have been another.
        """
        for path in paths:
            saved: dict[str, Any] = iv.load(path)
            mine = np.flatnonzero(saved["rows"] % self._parts == self._part)
            self._steps = saved["steps"]
            (arrays,) = saved["optimizer"]["states"]
            places = self._placed(saved["rows"][mine])
            values = np.array(self._values())
            values[places] = saved["values"][mine]
            states = None if arrays is None else {k: v[mine] if v.ndim else v for k, v in arrays.items()}
            self._rebuild(values, saved["optimizer"], states, places)
        return self._steps

    # -- memory --------------------------------------------------------------------------------------

    def _values(self) -> NDArray:
        return self._param.detach().numpy()

    def _placed(self, rows: NDArray) -> NDArray:
        """Places of ``rows`` in the parameter; rows without a place get one, with their initial values."""
        local = rows // self._parts
        new = np.flatnonzero(self._places[local] == 0)
        if new.size:
            start, stop = self._count, self._count + new.size
            if stop > len(self._rows):
                self._resize(max(stop, 2 * len(self._rows)))
            self._places[local[new]] = np.arange(start, stop) + 1
            self._rows[start:stop], self._count = rows[new], stop
            with iv.no_grad():
                self._param[start:stop] = initial_rows(rows[new], self._width, self._dtype, *self._start)
        places: NDArray = self._places[local].astype(np.int64) - 1
        return places

    def _resize(self, capacity: int) -> None:
        """Make room for ``capacity`` rows, and keep the rows and the optimizer's state that there are."""
        n = self._count
        values = np.zeros((capacity, self._width), self._dtype)
        rows = np.zeros(capacity, np.int64)
        rows[:n], before, self._rows = self._rows[:n], getattr(self, "_optimizer", None), rows
        states = None
        if before is not None:
            values[:n] = self._values()[:n]
            (states,) = before.state_dict()["states"]
            if states is not None:
                states = {k: v[:n] if v.ndim else v for k, v in states.items()}
        self._rebuild(values, before and before.state_dict(), states, np.arange(n))

    def _rebuild(
        self, values: NDArray, saved: Params | None, states: Mapping[str, NDArray] | None, places: NDArray
    ) -> None:
        """Make a new parameter with ``values``, and a new optimizer for it.

        saved : a state of the optimizer to load; its arrays are replaced by ``states`` at ``places``, and
            elsewhere by those of the present optimizer.
        """
        previous = getattr(self, "_optimizer", None)
        self._param = iv.asarray(values, requires_grad=True)
        optimizer = self._make([self._param])
        if saved and states is not None:
            optimizer.load_state_dict(
                {**saved, "states": [self._spread(optimizer, previous, values, states, places)]}
            )
        elif saved:
            optimizer.load_state_dict({**saved, "states": [None]})
        self._optimizer = optimizer

    def _spread(
        self,
        optimizer: Optimizer,
        previous: Optimizer | None,
        values: NDArray,
        states: Mapping[str, NDArray],
        places: NDArray,
    ) -> dict[str, NDArray]:
        """State arrays for all rows of ``values``: ``states`` at ``places``, elsewhere those of ``previous``
        or initial ones.
        """
        (state_before,) = previous.state_dict()["states"] if previous is not None else (None,)
        result = {}
        for name, start in optimizer._start(values).items():
            axes = max(states[name].ndim, 1)
            full_state = (
                state_before[name]
                if state_before is not None and len(state_before[name]) == len(values)
                else start
            )
            full_state = np.array(spread(np.asarray(full_state), axes, values.shape))
            full_state[places] = states[name]
            result[name] = full_state
        return result


__all__ = ["HeldRows", "MakeOptimizer", "initial_rows"]
