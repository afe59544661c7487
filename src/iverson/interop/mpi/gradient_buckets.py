"""Gradient buckets: sums of gradients over processes that travel while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from mpi4py import MPI

from iverson.autograd import register_hook
from iverson.core.dispatch import make_handle, rewrap, unwrap, value_of
from iverson.core.errors import ArgumentError
from iverson.core.protocols import NDArray
from iverson.interop.messages import Tree
from iverson.interop.mpi.ranks import TIMEOUT, Ranks
from iverson.interop.mpi.reduce import reduced
from iverson.layouts import Zero, to_strided
from iverson.transforms.trees import flatten, tensors, unflatten

if TYPE_CHECKING:
    from types import TracebackType

    from iverson.handles import Tensor
    from iverson.handles.array import Array


class _Bucket:
    """Parameters whose gradients are summed in one message.

    slices : the place of each parameter, by its number, in ``buffer``. missing : numbers of the parameters
        whose gradient has not arrived. call : the message on its way, or None.
    """

    def __init__(self, places: Sequence[int], leaves: Sequence[Array]) -> None:
        sizes = [unwrap(leaves[k]).size for k in places]
        bounds = np.cumsum([0, *sizes]).tolist()
        self.slices = {k: slice(*bounds[n : n + 2]) for n, k in enumerate(places)}
        self.buffer: NDArray = np.zeros(bounds[-1], leaves[places[0]].dtype)
        self.missing = set(places)
        self.call: Any = None


class Buckets(Generic[Tree]):
    """Sums of gradients over processes, sent bucket by bucket as soon as a backward pass has computed them.

    Parameters
    ----------
    params : a tree of leaf tensors, the same on each process.
    comm : of ``mpi4py``; by default MPI.COMM_WORLD.
    nbytes : of a bucket, at least. Gradients of parameters that come later in the tree are expected first.
    sparse : parameters whose gradients are rows or entries. They are summed in their layouts, after the pass.
    timeout : seconds that ``gradients()`` may wait for each message.

    Within a ``with`` block, one backward pass is made. Then ``gradients()`` waits for the messages.

    >>> import iverson as iv
    >>> w = iv.asarray([1.0, 2.0], requires_grad=True)
    >>> with Buckets([w]) as buckets:
    ...     (w * w).sum().backward()
    >>> buckets.gradients()
    [iverson.Tensor([2., 4.])]
    """

    def __init__(
        self,
        params: Tree,
        comm: MPI.Comm | None = None,
        *,
        nbytes: int = 1 << 22,
        sparse: Sequence[Array] = (),
        timeout: float = TIMEOUT,
    ) -> None:
        self._ranks = Ranks(comm, "Buckets", timeout)
        leaves, self._structure = flatten(params)
        self._leaves = tensors(leaves, "Buckets", "params")
        apart = {id(x) for x in sparse}
        self._apart = [k for k, x in enumerate(self._leaves) if id(x) in apart]
        self._nbytes = nbytes
        self._buckets: list[_Bucket] = []
        self._found: dict[int, Tensor] = {}
        self._sent = 0
        self._hooks: list[Any] = []

    def __enter__(self) -> Buckets[Tree]:
        self._buckets, self._found, self._sent = self._planned(), {}, 0
        self._hooks = [register_hook(x, self._arrival(k)) for k, x in enumerate(self._leaves)]
        return self

    def __exit__(self, *failed: type[BaseException] | BaseException | TracebackType | None) -> None:
        for hook in self._hooks:
            hook.remove()
        if failed[0] is None:
            self._send(everything=True)

    def gradients(self) -> Tree:
        """The sums, as a tree like the parameters. Waits for the messages that are on their way.

        Raises TimedOutError, which names the parameters of a message, where another process does not send it.
        """
        if not self._buckets and not self._apart:
            raise ArgumentError("gradients", got="no backward pass", expected="one in a with block")
        for bucket in self._buckets:
            bucket.call.wait()
            for k, at in bucket.slices.items():
                like = unwrap(self._leaves[k])
                self._found[k] = make_handle(bucket.buffer[at].reshape(like.shape))
        totals = reduced([self._own(k) for k in self._apart], self._ranks)
        for k, total in zip(self._apart, totals, strict=True):
            self._found[k] = unwrap(total)
        summed = [rewrap(x, self._found[k]) for k, x in enumerate(self._leaves)]
        tree: Tree = unflatten(self._structure, summed)
        return tree

    def _own(self, k: int) -> Tensor:
        x = unwrap(self._leaves[k])
        zero: Tensor = make_handle(Zero(x.shape, x.dtype))
        return self._found.get(k, zero)

    def _planned(self) -> list[_Bucket]:
        """New buckets: groups of consecutive parameters of one dtype, from the last parameter to the
        first.
        """
        groups: list[list[int]] = []
        size = 0
        for k in reversed(range(len(self._leaves))):
            x = self._leaves[k]
            if k in self._apart:
                continue
            if not groups or size >= self._nbytes or self._leaves[groups[-1][0]].dtype != x.dtype:
                groups.append([])
                size = 0
            groups[-1].append(k)
            size += unwrap(x).size * x.dtype.itemsize
        return [_Bucket(places, self._leaves) for places in groups]

    def _arrival(self, k: int) -> Callable[[Array], None]:
        """Hook for the gradient of parameter ``k``: it puts the gradient into its bucket and sends complete
        buckets.
        """

        def arrived(g: Array) -> None:
            plain = unwrap(g)
            if k in self._apart:
                self._found[k] = plain.detach()
                return
            bucket = next(b for b in self._buckets if k in b.slices)
            bucket.buffer[bucket.slices[k]] = to_strided(value_of(plain)).reshape(-1)
            bucket.missing.discard(k)
            self._send()

        return arrived

    def _send(self, everything: bool = False) -> None:
        """Start the messages of complete buckets, in the same order on all processes.

        everything : True at the end of the pass: all buckets are sent, and gradients that did not arrive are
            0.
        """
        while self._sent < len(self._buckets) and (everything or not self._buckets[self._sent].missing):
            bucket = self._buckets[self._sent]
            leaves = ", ".join(map(str, sorted(bucket.slices)))
            purpose = f"the sum of the gradients of leaves {leaves}"
            bucket.call = self._ranks.begun(purpose, "allreduce", MPI.IN_PLACE, bucket.buffer)
            self._sent += 1


__all__ = ["Buckets"]
