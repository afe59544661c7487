"""Calls between the ranks of a communicator, each with a deadline: no rank waits for another without one."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from mpi4py import MPI

from iverson.core.errors import ArgumentError, ArgumentTypeError, TimedOutError, described
from iverson.core.inputs.arguments import as_real
from iverson.core.protocols import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    #: An argument of a call: a buffer, one with the sizes of its parts, sizes alone, how to reduce, or where.
    Memory: TypeAlias = (
        NDArray | tuple[NDArray, Sequence[int] | NDArray] | Sequence[int] | MPI.Op | MPI.InPlaceType
    )

#: Seconds that a call may take, where users say nothing.
TIMEOUT = 300.0
#: So often a call is tested at once; after that other processes of this machine may run in between.
AT_ONCE = 100
#: Calls that were given up, with their memory: MPI may write there as long as it likes.
_given_up: list[Any] = []


class Call:
    """Non-blocking call of MPI that was started.

    purpose : what is waited for, in words, for errors. memory : the buffers that MPI reads and writes.
    """

    def __init__(self, ranks: Ranks, purpose: str, request: MPI.Request, memory: tuple[Memory, ...]) -> None:
        self._ranks, self._purpose, self._request, self._memory = ranks, purpose, request, memory

    def wait(self) -> None:
        """Wait until the call is done; raises TimedOutError after the timeout."""
        end = monotonic() + self._ranks.timeout
        tests = 0
        while not self._request.Test():
            tests += 1
            if tests < AT_ONCE:
                continue
            if monotonic() > end:
                _given_up.append((self._request, self._memory))
                raise TimedOutError(
                    self._ranks.operation,
                    got=f"no answer in {self._ranks.timeout:g} s on rank {self._ranks.rank}",
                    expected=f"{self._purpose} of {self._ranks.size} ranks",
                    remedy="see that every rank makes the same calls, or give it a longer timeout",
                )
            sleep(0)


class Ranks:
    """Ranks of a communicator, with the calls of MPI that one operation makes between them.

    operation : the name of the operation, for errors.
    timeout : seconds that each of the calls may take.
    """

    def __init__(self, comm: MPI.Comm | None, operation: str, timeout: float) -> None:
        if comm is not None and not isinstance(comm, MPI.Intracomm):
            raise ArgumentTypeError(
                operation, "comm", got=described(comm), expected="an intracommunicator of mpi4py"
            )
        self.comm = MPI.COMM_WORLD if comm is None else comm
        self.operation, self.timeout = operation, as_real(timeout, operation, "timeout")
        if not self.timeout > 0:
            raise ArgumentError(operation, "timeout", got=str(timeout), expected="seconds, more than 0")
        self.rank: int = self.comm.rank
        self.size: int = self.comm.size

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments ``comm`` and ``timeout`` for another operation between the same ranks."""
        return {"comm": self.comm, "timeout": self.timeout}

    def begun(self, purpose: str, name: str, *memory: Memory) -> Call:
        """Started non-blocking call of MPI on these buffers; use `Call.wait` to wait for it.

        name : the name of the blocking method, such as "allreduce".
        """
        return Call(self, purpose, getattr(self.comm, f"I{name}")(*memory), memory)

    def call(self, purpose: str, name: str, *memory: Memory) -> None:
        """Make a call of MPI on these buffers and wait for it; raises TimedOutError, which names
        ``purpose``.
        """
        self.begun(purpose, name, *memory).wait()

    def total(self, purpose: str, array: NDArray, op: MPI.Op = MPI.SUM) -> NDArray:
        """Sum of ``array`` over all ranks, on each of them; or the result of another reduction ``op``."""
        buffer = np.ascontiguousarray(array)
        result = np.empty_like(buffer)
        self.call(purpose, "allreduce", buffer, result, op)
        return result

    def of_each(self, purpose: str, numbers: npt.ArrayLike) -> NDArray:
        """Integers ``numbers`` of every rank, on each rank: an array of shape (size, *numbers.shape)."""
        local = np.asarray(numbers, np.int64)
        table = np.empty((self.size, *local.shape), np.int64)
        self.call(purpose, "allgather", local, table)
        return table


__all__ = ["TIMEOUT", "Call", "Ranks"]
