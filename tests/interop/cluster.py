"""A cluster of Dask in this process that sends over TCP on the loopback interface, and a count of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, LocalCluster
from distributed.comm.tcp import TCP

#: Seconds that any wait of these tests may take.
BOUND = 60


@contextmanager
def cluster(workers: int = 2, processes: bool = False) -> Iterator[Client]:
    """A client of workers with one thread each."""
    options: dict[str, Any] = {"n_workers": workers, "processes": processes, "threads_per_worker": 1}
    options |= {"host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(memory_limit=0, **options) as made,
        Client(made, timeout=BOUND, direct_to_workers=True) as client,
    ):
        yield client


class Sent:
    """The sizes of messages that left over TCP in this process."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


@contextmanager
def counted() -> Iterator[Sent]:
    """Within, what is sent is counted."""
    sent, write = Sent(), TCP.write

    async def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        size = await write(self, *args, **kwargs)
        sent.sizes.append(size)
        return size

    TCP.write = counting
    try:
        yield sent
    finally:
        TCP.write = write
