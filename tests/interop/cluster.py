"""A cluster of Dask in this process that sends over TCP on the loopback interface, and a count of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client, LocalCluster, SchedulerPlugin
from distributed.comm.tcp import TCP

#: Seconds that any wait of these tests may take.
BOUND = 120


@contextmanager
def cluster(workers: int = 2, processes: bool = False) -> Iterator[Client]:
    """A client of workers with one thread each."""
    options: dict[str, Any] = {"n_workers": workers, "processes": processes, "threads_per_worker": 1}
    options |= {"host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    with (
        # By default a worker that was killed twice, and is being started again, is given up after 15 s.
        dask.config.set({"distributed.deploy.lost-worker-timeout": f"{BOUND}s"}),
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


@contextmanager
def started(client: Client) -> Iterator[list[str]]:
    """The keys of tasks that were handed to workers within."""
    found: list[str] = []

    class Counting(SchedulerPlugin):
        def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
            if finish == "processing":
                found.append(key)

    plugin = Counting()
    client.cluster.scheduler.add_plugin(plugin, name="counting")
    try:
        yield found
    finally:
        client.cluster.scheduler.remove_plugin("counting")
