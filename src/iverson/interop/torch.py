"""PyTorch: tensors both ways, and any function of Iverson's as a step of a torch model.

`wrap` gives a function of torch tensors that torch differentiates by what Iverson recorded: once, twice, to
any order. Cotangents that torch leaves undefined stay undefined, and a gradient that is structurally zero
goes back as none, so that nothing is multiplied by zeros on either side.

>>> import torch, iverson as iv
>>> from iverson.interop.torch import wrap
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> wrap(lambda x: (iv.sin(x) * x).sum())(x).backward()
>>> torch.allclose(x.grad, torch.sin(x) + x * torch.cos(x))
True
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import update_wrapper
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import iverson as iv
from iverson.autograd.node import next_number, reachable
from iverson.core import dtypes
from iverson.core.dispatch import Operand, is_tracked, slot_of, unwrap, value_of
from iverson.core.errors import ArgumentError, ArgumentTypeError, GradientError, described
from iverson.core.protocols import NDArray
from iverson.handles.array import Array
from iverson.interop.array_checks import closed_over, leaving, returned, supported
from iverson.interop.messages import Tree
from iverson.layouts.strided import holds_alone
from iverson.transforms.trees import flatten, unflatten

if TYPE_CHECKING:
    from torch.autograd.function import FunctionCtx

try:
    import torch
except ImportError as error:
    raise ImportError("iverson.interop.torch needs PyTorch: pip install torch") from error

#: A leaf of a result, and an object of which references are counted, of any type.
Leaf = TypeVar("Leaf")
Item = TypeVar("Item")
#: Compressed layouts: torch's, and how a tensor of ours is made in it.
_COMPRESSED: dict[Any, Any] = {
    torch.sparse_csr: iv.sparse_csr_tensor,
    torch.sparse_csc: iv.sparse_csc_tensor,
    torch.sparse_bsr: iv.sparse_bsr_tensor,
    torch.sparse_bsc: iv.sparse_bsc_tensor,
}
_BY_NAME = {str(layout).removeprefix("torch.sparse_"): layout for layout in _COMPRESSED}


def from_torch(x: torch.Tensor, /, *, requires_grad: bool = False) -> iv.Tensor:
    """A torch tensor as one of Iverson's, in the layout it has.

    Parameters
    ----------
    x : a tensor on the CPU, strided or in one of torch's sparse layouts, of a dtype that Iverson has.
    requires_grad : make the result a leaf of Iverson's graph. Torch's graph of x is not followed: see `wrap`.

    Returns
    -------
    A tensor on the memory of x: a later write into x is seen. Indices of sparse layouts are copied where they
    can be written; a COO tensor with repeated entries keeps them.

    Raises ArgumentTypeError for what is no torch tensor or not on the CPU.

    >>> from_torch(torch.tensor([1.0, 2.0]))
    iverson.Tensor([1., 2.], dtype=float32)
    """
    _check_torch(x, "from_torch")
    if _recording.get() and x.requires_grad:
        raise GradientError(
            "from_torch",
            "x",
            got="a tensor of torch's that requires grad, in a function that is wrapped",
            expected="a constant: no gradient would reach that tensor",
            remedy="pass it to the wrapped function as an argument, or call x.detach() first",
        )
    return _imported(x, requires_grad)


def _imported(x: torch.Tensor, requires_grad: bool) -> iv.Tensor:
    """Tensor of a torch tensor in the same layout; raises ArgumentTypeError for a layout that
    Iverson lacks.
    """
    x = x.detach()
    if x.layout is torch.strided:
        return iv.asarray(_array(x, "from_torch"), requires_grad=requires_grad)
    if x.layout is torch.sparse_coo:
        return iv.sparse_coo_tensor(
            _array(x._indices(), "from_torch"),
            _array(x._values(), "from_torch"),
            x.shape,
            requires_grad=requires_grad,
        )
    if x.layout not in _COMPRESSED:
        raise ArgumentTypeError(
            "from_torch",
            "x",
            got=f"layout {x.layout}",
            expected="a strided or sparse tensor",
            remedy="call x.to_dense()",
        )
    by_rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
    starts, across = (x.crow_indices(), x.col_indices()) if by_rows else (x.ccol_indices(), x.row_indices())
    buffers = [_array(part, "from_torch") for part in (starts, across, x.values())]
    tensor: iv.Tensor = _COMPRESSED[x.layout](*buffers, x.shape, requires_grad=requires_grad)
    return tensor


def to_torch(x: iv.Tensor, /, *, copy: bool = True) -> torch.Tensor:
    """A tensor of Iverson's as one of torch's, in the same layout where torch has it, else strided.

    Parameters
    ----------
    x : a Tensor that tracks no gradients.
    copy : with False the result is on the memory of x where it can be, and must not be written: torch has no
        memory that is only read, and what x is part of would change.

    Raises GradientError where x tracks gradients, ArgumentTypeError for a masked tensor.

    >>> to_torch(iv.asarray([[0.0, 2.0]]).to_layout("csr")).layout
    torch.sparse_csr
    """
    return _exported(leaving(x, "to_torch"), copy)


def _exported(x: iv.Tensor, copy: bool) -> torch.Tensor:
    """Torch tensor in the same layout, or strided if torch lacks the layout; memory is shared unless
    ``copy``.
    """
    if x.layout not in ("coo", *_BY_NAME):
        return _of_array(x.numpy(), copy)
    if not value_of(x).pattern.distinct:
        x, copy = x.coalesce(), False
    entries, across = _of_array(x.values().numpy(), copy), _indices(x.indices())
    if x.layout == "coo":
        return torch.sparse_coo_tensor(across, entries, x.shape, is_coalesced=True, check_invariants=False)
    starts, batch = _indices(x.indptr()), value_of(x).pattern.shape[:-2]
    if batch:
        starts, across, entries = _of_each(batch, starts, across, entries)
    layout = _BY_NAME[x.layout]
    parts = (starts, across, entries, x.shape)
    return torch.sparse_compressed_tensor(*parts, layout=layout, check_invariants=False)


def _of_each(batch: Sequence[int], *parts: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Starts, indices and entries of a batch of compressed matrices, each with the axes of ``batch`` in
    front.

    Raises ArgumentError if the matrices store different numbers of entries.
    """
    starts, across, entries = parts
    ends = torch.cat([starts[:1], starts[1:].reshape(prod(batch), -1)[:, -1]])
    counts = ends.diff()
    if (counts != counts[:1]).any():
        raise ArgumentError(
            "to_torch",
            "x",
            got=f"a batch whose matrices store {counts.min()} to {counts.max()} entries",
            expected="as many in each: torch has no other batches",
            remedy="call x.to_dense(), or index one of the batch",
        )
    of_lines = starts[1:].reshape(*batch, -1) - ends[:-1].reshape(*batch, 1)
    starts = torch.cat([torch.zeros(*batch, 1, dtype=starts.dtype), of_lines], -1)
    count = int(counts[0]) if len(counts) else 0
    return starts, across.reshape(*batch, count), entries.reshape(*batch, count, *entries.shape[1:])


def _indices(x: iv.Tensor) -> torch.Tensor:
    return _of_array(x.numpy().astype(np.int64), False)


def _check_torch(x: torch.Tensor, operation: str) -> None:
    if not isinstance(x, torch.Tensor):
        raise ArgumentTypeError(operation, "x", got=described(x), expected="a torch.Tensor")
    if x.device.type != "cpu":
        raise ArgumentTypeError(
            operation, "x", got=f"a tensor on {x.device}", expected="one on the CPU", remedy="call x.cpu()"
        )


def _array(x: torch.Tensor, operation: str) -> NDArray:
    """NumPy array that shares the memory of a strided torch tensor; raises DTypeError for a dtype Iverson
    lacks.
    """
    try:
        if x.dtype is torch.bfloat16:  # of which NumPy knows nothing
            bits: np.ndarray[Any, Any] = x.detach().view(torch.int16).numpy()
            return bits.view(dtypes.load_bfloat16())
        array = x.detach().resolve_conj().resolve_neg().numpy()
    except TypeError:
        array = None
    return supported(array, x.dtype, operation)


def _of_array(array: NDArray, copy: bool) -> torch.Tensor:
    if dtypes.is_bfloat16(array.dtype):
        return _of_array(array.view(np.int16), copy).view(torch.bfloat16)
    if copy or any(s < 0 for s in array.strides):
        return torch.from_numpy(array.copy())
    return torch.from_dlpack(array)  # which says nothing of memory that is not to be written


# --- functions -------------------------------------------------------------------


def wrap(function: Callable[..., Tree], /, *, sparse_grads: bool = False) -> Callable[..., Any]:
    """A function of Iverson's tensors as a function of torch's, a step that torch differentiates.

    Parameters
    ----------
    function : takes and returns pytrees of tensors: one that `jit` made, a `te.op`, any that uses them.
    sparse_grads : give the gradient of a strided argument in the layout it has, if that is sparse (rows of an
        embedding, say): for torch's optimizers that take such gradients (SGD, Adagrad, SparseAdam).

    Returns
    -------
    A function of the same arguments, in which torch tensors stand for Iverson's. Tensors are handed over on
    their memory: only results that Iverson's graph still reads are copied. Results are torch tensors, to be
    differentiated in reverse mode to any order by ``backward`` and `torch.autograd.grad`: a second derivative
    is that of what was recorded, and does not call ``function`` again. Arguments that are no torch tensors
    are handed over as they are, and get no gradient.

    Raises
    ------
    ArgumentTypeError : for tensors that are not on the CPU, and where a result is a masked tensor.
    GradientError : where a result depends on a tensor of Iverson's that tracks gradients and is no argument.
    RuntimeError : from torch, where a tensor was changed in place between the call and ``backward``.

    Notes
    -----
    `torch.func.grad` and `torch.func.vjp` differentiate the result, too; `torch.vmap` does not map it: call
    `iverson.vmap` on the function before wrapping it.

    >>> scaled = wrap(lambda parts, by: {k: v * by for k, v in parts.items()})
    >>> x = torch.ones(2, requires_grad=True)
    >>> out = scaled({"a": x, "b": 2 * x}, 3.0)
    >>> torch.autograd.grad(out["a"].sum() + out["b"].sum(), x)
    (tensor([9., 9.]),)
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        at = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = [leaves[k] for k in at]
        recording = torch.is_grad_enabled()  # which it is not inside of a step
        flags = [recording and t.requires_grad for t in tensors]
        out: list[Any] = []  # the leaves of the result, and its structure

        def record(step_inputs: Sequence[torch.Tensor]) -> tuple[list[iv.Tensor], list[iv.Tensor]]:
            floor = next_number()
            handles = [_imported(t, of) for t, of in zip(step_inputs, flags, strict=True)]
            arguments = list(leaves)
            for k, x in zip(at, handles, strict=True):
                arguments[k] = x
            of_args, of_kwargs = unflatten(structure, arguments)
            with iv.set_grad_enabled(recording):
                inside = _recording.set(recording)
                try:
                    outputs, form = flatten(function(*of_args, **of_kwargs))
                finally:
                    _recording.reset(inside)
            if _reaches_below(floor, outputs):
                raise closed_over()
            out[:] = [_RESULT if isinstance(x, Operand) else x for x in outputs], form
            return handles, [returned(x) for x in outputs if isinstance(x, Array)]

        results = iter(_Step.apply(_Recording(record, sparse_grads), *tensors))
        outputs, form = out
        return unflatten(form, [next(results) if x is _RESULT else x for x in outputs])

    return update_wrapper(call, function)


#: Whether a wrapped function runs whose result torch differentiates.
_recording: ContextVar[bool] = ContextVar("iverson_recording_for_torch", default=False)


def _reaches_below(floor: int, results: Sequence[Leaf]) -> bool:
    """Return True if ``results`` depend on nodes recorded before the node with number ``floor``."""
    roots = [slot_of(unwrap(x))[0] for x in results if isinstance(x, Operand) and is_tracked(x)]
    parents = [p for node in reachable(roots, floor) for p in node.parents]
    return any(p is not None and p.number < floor for p in (*roots, *parents))


#: Stands for a tensor in a result.
_RESULT = object()

Record = Callable[[Sequence[torch.Tensor]], tuple[list[iv.Tensor], list[iv.Tensor]]]


def _references(items: list[Item]) -> list[tuple[int, Item]]:
    return [(sys.getrefcount(x), x) for x in items]


_ONLY_LISTED = _references([object()])[0][0]


class _Recording:
    """Step of torch's graph on the side of Iverson: a recorded computation.

    record : computes from torch tensors the leaves, one for each argument of the step, and the results.
    sparse : True if the gradient of a strided argument may be sparse.
    leaves, results : what ``record`` returned in the last run.
    """

    def __init__(self, record: Record, sparse: bool) -> None:
        self.record = record
        self.sparse = sparse
        self.leaves: list[iv.Tensor] = []
        self.results: list[iv.Tensor] = []

    def run(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Run ``record`` on torch tensors; return the results as torch tensors and keep leaves and results.

        A result shares its memory with torch if nobody else can read that, otherwise it is copied.
        """
        self.leaves, self.results = self.record(tensors)
        # Memory that nobody else can read, through this handle or another, is torch's from now on.
        unseen = [n == _ONLY_LISTED and holds_alone(x) for n, x in _references(self.results)]
        return tuple([to_torch(x.detach(), copy=not u) for x, u in zip(self.results, unseen, strict=True)])

    def pulled(
        self, cotangents: Sequence[iv.Tensor], at: Sequence[int], numbers: Sequence[int], create_graph: bool
    ) -> list[iv.Tensor | None]:
        """Gradients of the leaves in ``numbers``, from cotangents of the results in ``at``; None for one that
        is zero.
        """
        if not at or not numbers:
            return [None] * len(numbers)
        outputs, inputs = [self.results[k] for k in at], [self.leaves[k] for k in numbers]
        gradients = iv.autograd.grad(outputs, inputs, cotangents, create_graph=create_graph, unused="none")
        return [
            None if g is None or g.layout == "zero" else self._as_torch_wants(g, x)
            for g, x in zip(gradients, inputs, strict=True)
        ]

    def _as_torch_wants(self, g: iv.Tensor, x: iv.Tensor) -> iv.Tensor:
        """Gradient ``g`` of the leaf ``x`` in a layout that torch accepts for it: that of ``x``, or sparse if
        allowed.
        """
        if g.layout == "strided" or (self.sparse and x.layout == "strided"):
            return g
        if x.layout == "strided":
            return g.to_dense()
        blocks = value_of(x).pattern.blocksize
        return g.to_layout(x.layout, blocksize=blocks, dense_dim=x.dense_dim())


class _Step(torch.autograd.Function):
    """Step of torch's graph that runs a `_Recording`. Its backward is again such a step, if torch
    records it.
    """

    @staticmethod
    def forward(recording: _Recording, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return recording.run(tensors)

    @staticmethod
    def setup_context(
        ctx: FunctionCtx,
        inputs: tuple[_Recording, *tuple[torch.Tensor, ...]],
        output: tuple[torch.Tensor, ...],
    ) -> None:
        ctx.recording, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)  # of which torch sees whether they were changed since
        of_results = zip(output, ctx.recording.results, strict=True)
        ctx.mark_non_differentiable(*(t for t, x in of_results if not x.requires_grad))

    @staticmethod
    def backward(ctx: FunctionCtx, *cotangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        recording, tensors = ctx.recording, ctx.saved_tensors
        tracked_cotangents = {
            k: g for k, g in enumerate(cotangents) if g is not None and recording.results[k].requires_grad
        }
        at, nonzero = list(tracked_cotangents), list(tracked_cotangents.values())
        numbers = [k for k, is_needed in enumerate(ctx.needs_input_grad[1:]) if is_needed]
        gradients: list[Any] = []

        def record(inputs: Sequence[torch.Tensor]) -> tuple[list[iv.Tensor], list[iv.Tensor]]:
            seeds = [
                _imported(t, g.requires_grad) for t, g in zip(inputs[len(tensors) :], nonzero, strict=True)
            ]
            gradients[:] = recording.pulled(seeds, at, numbers, recorded)
            return [*recording.leaves, *seeds], [g for g in gradients if g is not None]

        recorded = torch.is_grad_enabled()
        step = _Recording(record, recording.sparse)
        values = iter(_Step.apply(step, *tensors, *nonzero) if recorded else step.run([*tensors, *nonzero]))
        grads = dict(zip(numbers, [None if g is None else next(values) for g in gradients], strict=True))
        return None, *(grads.get(k) for k in range(len(tensors)))


__all__ = ["from_torch", "to_torch", "wrap"]
