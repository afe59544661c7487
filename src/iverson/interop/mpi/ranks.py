"""Calls between the ranks of a communicator, each with a deadline: no rank waits for another without one."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import numpy as np
from mpi4py import MPI

from iverson.core.errors import ArgumentError, ArgumentTypeError, TimedOutError, described
from iverson.core.inputs.arguments import as_real

Array = np.ndarray[Any, Any]
#: Seconds that a call may take, where users say nothing.
TIMEOUT = 300.0
#: So often a call is tested at once; after that other processes of this machine may run in between.
AT_ONCE = 100
#: Calls that were given up, with their memory: MPI may write there as long as it likes.
_given_up: list[Any] = []


class Call:
    """A call of MPI that was begun, ``what`` it is for, and the memory it reads and writes."""

    def __init__(self, ranks: Ranks, what: str, request: MPI.Request, memory: Any) -> None:
        self._ranks, self._what, self._request, self._memory = ranks, what, request, memory

    def wait(self) -> None:
        """Test it until it is done; raises TimedOutError when the deadline has passed."""
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
                    expected=f"{self._what} of {self._ranks.size} ranks",
                    remedy="see that every rank makes the same calls, or give it a longer timeout",
                )
            sleep(0)


class Ranks:
    """The ranks of a communicator, for the calls that an operation makes.

    timeout : seconds that each of the calls may take.
    """

    def __init__(self, comm: Any, operation: str, timeout: float) -> None:
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
        """Arguments for another operation between the same ranks."""
        return {"comm": self.comm, "timeout": self.timeout}

    def begun(self, what: str, name: str, *memory: Any) -> Call:
        """A call of MPI, not waited for: its non-blocking form on these buffers."""
        return Call(self, what, getattr(self.comm, f"I{name}")(*memory), memory)

    def call(self, what: str, name: str, *memory: Any) -> None:
        """A call of MPI on these buffers. What it is for is said where it does not end."""
        self.begun(what, name, *memory).wait()

    def total(self, what: str, array: Array, op: MPI.Op = MPI.SUM) -> Array:
        """The sum over ranks, or what another op makes of them."""
        given = np.ascontiguousarray(array)
        found = np.empty_like(given)
        self.call(what, "allreduce", given, found, op)
        return found

    def of_each(self, what: str, numbers: Any) -> Array:
        """Integers of each rank: shape (size, *shape)."""
        own = np.asarray(numbers, np.int64)
        found = np.empty((self.size, *own.shape), np.int64)
        self.call(what, "allgather", own, found)
        return found


__all__ = ["TIMEOUT", "Call", "Ranks"]
