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
from functools import update_wrapper
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

import iverson as iv
from iverson.autograd.node import next_number, reachable
from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import Operand, is_tracked, slot_of, unwrap, value_of
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.inputs.foreign_arrays import foreign
from iverson.core.protocols import NDArray
from iverson.interop.array_checks import closed_over, leaving, returned, supported
from iverson.interop.derivative_steps import (
    AnyStep,
    Mapped,
    Pullback,
    TracedStep,
    avals_of,
    differentiable,
    pullback,
    pushforward,
)
from iverson.interop.messages import Tree
from iverson.interop.wrapped_calls import WrappedCall
from iverson.layouts.strided import holds_alone

if TYPE_CHECKING:
    from torch.autograd.function import FunctionCtx

try:
    import torch
    from torch.autograd import forward_ad
    from torch.utils._python_dispatch import _get_current_dispatch_mode
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
    if (tensor := foreign(x)) is not None:
        return iv.asarray(tensor, requires_grad=requires_grad)
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
    sparse_grads : give the gradient of a strided argument as a COO tensor where it is known to be sparse: of
        rows that are looked up (``w[i]``, `take`, `embedding`), of parts. For torch's optimizers that take
        such gradients (SGD, Adagrad, SparseAdam).

    Returns
    -------
    A function of the same arguments, in which torch tensors stand for Iverson's. Tensors are handed over on
    their memory: only results that Iverson's graph still reads are copied. Results are torch tensors, to be
    differentiated in reverse mode to any order by ``backward`` and `torch.autograd.grad`: a second derivative
    is that of what was recorded, and does not call ``function`` again. Arguments that are no torch tensors
    are handed over as they are, and get no gradient. Torch tensors that the function reads from its
    surroundings are inputs, too, where torch differentiates them.

    The transforms of `torch.func`, forward mode, ``torch.compile(fullgraph=True)`` and `torch.export` take
    it; there a derivative runs the function again.

    Raises
    ------
    ArgumentTypeError : for tensors that are not on the CPU, and where a result is a masked tensor.
    ArgumentError : in a compiled or exported program, where the shape of a result is not known without
        entries.
    GradientError : where a result depends on a tensor of Iverson's that tracks gradients and is no
        argument, and
        where a compiled function reads a tensor that torch differentiates and that is no argument.
    RuntimeError : from torch, where a tensor was changed in place between the call and ``backward``.

    >>> scaled = wrap(lambda parts, by: {k: v * by for k, v in parts.items()})
    >>> x = torch.ones(2, requires_grad=True)
    >>> out = scaled({"a": x, "b": 2 * x}, 3.0)
    >>> torch.autograd.grad(out["a"].sum() + out["b"].sum(), x)
    (tensor([9., 9.]),)
    >>> torch.func.hessian(wrap(lambda x: (x**3).sum()))(torch.ones(1))
    tensor([[6.]])
    """
    from torch._dynamo import nonstrict_trace  # which torch's optimizers import, too

    def call(*args: Any, **kwargs: Any) -> Any:
        recording = torch.is_grad_enabled()  # which it is not inside of a step
        wrapped = WrappedCall(
            function,
            args,
            kwargs,
            kinds=(torch.Tensor,),
            captured=torch.Tensor,
            constant=lambda x: _constant(x, recording),
            is_result=lambda x: isinstance(x, Operand),
        )
        wrapped.closed = any(map(_is_symbolic, wrapped.arrays))

        def attempt() -> Sequence[torch.Tensor]:
            tensors = wrapped.arrays
            step = TracedStep(wrapped.flat, tuple(map(_aval, tensors)), _ENTRIES_REMEDY)
            if _is_functionalized():  # for which torch has no rule of a `torch.autograd.Function`
                return list(_operator(tensors, _number(step)))
            record = None if _is_transformed(tensors) else _record_of(wrapped, recording)
            results: Sequence[torch.Tensor] = _Step.apply(_Run(step, record, sparse_grads), *tensors)
            return results

        return wrapped.rebuilt(wrapped.complete(attempt))

    return update_wrapper(nonstrict_trace(call), function)


_ENTRIES_REMEDY = "pass what decides the shape as a Python number"


def _record_of(wrapped: WrappedCall, recording: bool) -> Record:
    """Function that runs a call on leaves of Iverson's graph, those of torch's that require gradients.

    recording : whether torch records the call.
    """
    flags = [recording and t.requires_grad for t in wrapped.arrays]

    def record(inputs: Sequence[torch.Tensor]) -> tuple[list[iv.Tensor], list[iv.Tensor]]:
        floor = next_number()
        handles = [_imported(t, of) for t, of in zip(inputs, flags, strict=True)]
        with iv.set_grad_enabled(recording):
            outputs = wrapped.outputs(handles)
        if _reaches_below(floor, outputs):
            raise closed_over()
        return handles, [returned(x) for x in outputs if wrapped.is_result(x)]

    return record


def _constant(x: torch.Tensor, recording: bool) -> iv.Tensor | None:
    if (
        (recording and x.requires_grad)
        or _is_symbolic(x)
        or torch._C._functorch.is_functorch_wrapped_tensor(x)
    ):
        return None
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None:
        return None
    _check_torch(x, "from_torch")
    return _imported(x, False)


def _is_symbolic(x: torch.Tensor) -> bool:
    """Return True for a tensor that stands for entries which a program computes later, or counts accesses."""
    return (
        type(x) not in (torch.Tensor, torch.nn.Parameter)
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
    ) or _get_current_dispatch_mode() is not None


def _is_transformed(tensors: Sequence[torch.Tensor]) -> bool:
    """Return True if a transform of `torch.func`, forward mode or a tracer of torch's handles the tensors."""
    return (
        torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or any(_is_symbolic(x) or _is_batch(x) for x in tensors)
    )


def _is_functionalized() -> bool:
    interpreter = torch._C._functorch.peek_interpreter_stack()
    return interpreter is not None and interpreter.key() == torch._C._functorch.TransformType.Functionalize


def _reaches_below(floor: int, results: Sequence[Leaf]) -> bool:
    """Return True if ``results`` depend on nodes recorded before the node with number ``floor``."""
    roots = [slot_of(unwrap(x))[0] for x in results if isinstance(x, Operand) and is_tracked(x)]
    parents = [p for node in reachable(roots, floor) for p in node.parents]
    return any(p is not None and p.number < floor for p in (*roots, *parents))


Record = Callable[[Sequence[torch.Tensor]], tuple[list[iv.Tensor], list[iv.Tensor]]]


def _references(items: list[Item]) -> list[tuple[int, Item]]:
    return [(sys.getrefcount(x), x) for x in items]


_ONLY_LISTED = _references([object()])[0][0]


class _Run:
    """A step in torch's graph.

    step : what it computes.
    record : runs the step on leaves of Iverson's graph; it returns these and the results. None: nothing is
        recorded, and a derivative runs the step again.
    sparse : True if the gradient of a strided argument may be sparse, where it is recorded.
    leaves, results : what ``record`` returned in the last run.
    """

    def __init__(self, step: AnyStep, record: Record | None = None, sparse: bool = False) -> None:
        self.step, self.record, self.sparse = step, record, sparse
        self.leaves: list[iv.Tensor] = []
        self.results: list[iv.Tensor] = []

    def run(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Results for torch tensors; a result shares its memory with torch if nobody else can read that."""
        if any(map(_is_symbolic, tensors)):
            return tuple(_operator(list(tensors), _number(self.step)))
        if self.record is None:
            return tuple(_run_step(self.step, tensors))
        self.leaves, self.results = self.record(tensors)
        if isinstance(self.step, TracedStep):
            self.step.results = avals_of(self.results)
        # Memory that nobody else can read, through this handle or another, is torch's from now on.
        unseen = [n == _ONLY_LISTED and holds_alone(x) for n, x in _references(self.results)]
        return tuple([to_torch(x.detach(), copy=not u) for x, u in zip(self.results, unseen, strict=True)])

    def pulled(
        self, cotangents: Sequence[iv.Tensor], of: Sequence[int], at: Sequence[int], create_graph: bool
    ) -> list[iv.Tensor | None]:
        """Gradients of the leaves ``at``, from cotangents of the results ``of``; None for one that is
        zero.
        """
        if not of or not at:
            return [None] * len(at)
        outputs, inputs = [self.results[k] for k in of], [self.leaves[k] for k in at]
        gradients = iv.autograd.grad(outputs, inputs, cotangents, create_graph=create_graph, unused="none")
        return [
            None if g is None or g.layout == "zero" else _as_torch_wants(g, x, self.sparse)
            for g, x in zip(gradients, inputs, strict=True)
        ]


def _as_torch_wants(g: iv.Tensor, x: iv.Tensor, sparse: bool) -> iv.Tensor:
    """Gradient ``g`` of the operand ``x`` in a layout that torch accepts for it: that of ``x``, or COO."""
    if x.layout == "strided":
        return g if g.layout == "strided" else g.to_layout("coo") if sparse else g.to_dense()
    if g.layout == x.layout == "coo":
        return g
    blocks = value_of(x).pattern.blocksize
    return g.to_layout(x.layout, blocksize=blocks, dense_dim=x.dense_dim())


def _run_step(step: AnyStep, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Results of a step that nobody records; cotangents in the layouts that torch accepts."""
    handles = [_imported(t, False) for t in tensors]
    outputs = step.run(*handles)
    if any(map(is_tracked, outputs)):
        raise closed_over()
    if isinstance(step, Pullback):
        outputs = [_as_torch_wants(g, handles[k], False) for g, k in zip(outputs, step.at, strict=True)]
    return [to_torch(x.detach()) for x in outputs]


class _BatchInfo(Protocol):
    """Facts of a batch that torch maps a step over."""

    batch_size: int


class _Step(torch.autograd.Function):
    """Step of torch's graph. Its derivatives in both modes, and what it is mapped to, are such steps, too."""

    @staticmethod
    def forward(run: _Run, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return run.run(tensors)

    @staticmethod
    def setup_context(
        ctx: FunctionCtx,
        inputs: tuple[_Run, *tuple[torch.Tensor, ...]],
        output: tuple[torch.Tensor, ...],
    ) -> None:
        ctx.run, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)  # of which torch sees whether they were changed since
        ctx.save_for_forward(*tensors)
        recorded = ctx.run.results or [t.is_floating_point() or t.is_complex() for t in output]
        flags = [getattr(x, "requires_grad", x) for x in recorded]
        ctx.mark_non_differentiable(
            *(t for t, is_tracked in zip(output, flags, strict=True) if not is_tracked)
        )
        ctx.of = [k for k, is_tracked in enumerate(flags) if is_tracked]

    @staticmethod
    def backward(ctx: FunctionCtx, *cotangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        run, tensors = ctx.run, ctx.saved_tensors
        of = [k for k in ctx.of if cotangents[k] is not None]
        seeds: list[Any] = [cotangents[k] for k in of]
        at = [k for k, is_needed in enumerate(ctx.needs_input_grad[1:]) if is_needed]
        if not of or not at:
            return (None,) * (1 + len(tensors))
        if not run.results or _is_transformed([*tensors, *seeds]):
            step, count = pullback(run.step, at, of)
            values = _further(_Run(step), [*tensors[:count], *seeds])
            grads = dict(zip(at, values, strict=True))
        else:
            grads = _recorded_gradients(Pullback(run.step, tuple(at), tuple(of)), run, tensors, seeds)
        return None, *(grads.get(k) for k in range(len(tensors)))

    @staticmethod
    def jvp(ctx: FunctionCtx, _: None, *tangents: torch.Tensor | None) -> Any:
        run, tensors = ctx.run, ctx.saved_tensors
        at = [k for k, t in enumerate(tangents) if t is not None]
        step, count = pushforward(run.step, at)
        values = iter(_further(_Run(step), [*tensors[:count], *(tangents[k] for k in at)]))
        outputs = [next(values) if k in ctx.of else None for k in range(len(run.step.results))]
        return tuple(outputs)

    @staticmethod
    def vmap(
        info: _BatchInfo, axes: tuple[int | None, ...], run: _Run, *tensors: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        batch, in_front = _mapped(run, axes[1:], tensors, info.batch_size)
        outputs = _Step.apply(batch, *in_front)
        return outputs, (0,) * len(outputs)


def _further(run: _Run, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Results of a derivative's step, through which torch's graph goes on.

    Cotangents of ``is_grads_batched`` are batches for each operation of torch's, unlike those of
    `torch.vmap`: they are opened here.
    """
    if not any(map(_is_batch, tensors)):
        results: Sequence[torch.Tensor] = _Step.apply(run, *tensors)
        return results
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    examples = [torch._remove_batch_dim(x, level, 1, 0) if _is_batch(x) else x for x in tensors]
    axes = [0 if _is_batch(x) else None for x in tensors]
    size = next(x.shape[0] for x, n in zip(examples, axes, strict=True) if n == 0)
    return [torch._add_batch_dim(y, 0, level) for y in _further(*_mapped(run, axes, examples, size))]


def _is_batch(x: torch.Tensor) -> bool:
    """Return True for a tensor of the batches that `torch.autograd` makes of cotangents."""
    return bool(torch._C._functorch.is_legacy_batchedtensor(x))


def _mapped(
    run: _Run, axes: Sequence[int | None], tensors: Sequence[torch.Tensor], size: int
) -> tuple[_Run, list[torch.Tensor]]:
    """Step for a batch, and its operands with the batch in front.

    Operands in which the step is linear are all of the batch.
    """
    first = len(tensors) - run.step.linear
    in_front = [
        x.movedim(n, 0) if n is not None else x if k < first else x.expand(size, *x.shape)
        for k, (x, n) in enumerate(zip(tensors, axes, strict=True))
    ]
    in_axes = tuple(None if n is None and k < first else 0 for k, n in enumerate(axes))
    return _Run(Mapped(run.step, size, in_axes)), in_front


def _recorded_gradients(
    step: Pullback, run: _Run, tensors: Sequence[torch.Tensor], seeds: Sequence[torch.Tensor]
) -> dict[int, torch.Tensor | None]:
    """Gradients by the operand of ``run``, of what it recorded: torch's graph may go on through them."""
    gradients: list[Any] = []

    def record(inputs: Sequence[torch.Tensor]) -> tuple[list[iv.Tensor], list[iv.Tensor]]:
        pairs = zip(inputs[len(tensors) :], seeds, strict=True)
        cotangents = [_imported(t, g.requires_grad) for t, g in pairs]
        gradients[:] = run.pulled(cotangents, step.of, step.at, recorded)
        return [*run.leaves, *cotangents], [g for g in gradients if g is not None]

    recorded = torch.is_grad_enabled()
    further = _Run(step, record, run.sparse)
    values = iter(_Step.apply(further, *tensors, *seeds) if recorded else further.run([*tensors, *seeds]))
    nonzero = [k for k, g in zip(step.at, gradients, strict=True) if g is not None]
    further.step = Pullback(run.step, tuple(nonzero), step.of)  # whose results are those of the record
    return dict(zip(nonzero, values, strict=True))


# --- programs that torch traces ----------------------------------------------------

#: Steps of compiled and exported programs, by the number that stands for them there.
_steps: list[AnyStep] = []


def _number(step: AnyStep) -> int:
    _steps.append(step)
    return len(_steps) - 1


@torch.library.custom_op("iverson::step", mutates_args=())
def _operator(tensors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    return _run_step(_steps[number], tensors)


@_operator.register_fake
def _(tensors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    return [torch.empty(a.shape, dtype=_torch_dtype(a)) for a in _steps[number].results]


def _operator_context(
    ctx: FunctionCtx, inputs: tuple[list[torch.Tensor], int], output: list[torch.Tensor]
) -> None:
    ctx.save_for_backward(*inputs[0])
    ctx.number = inputs[1]


def _operator_backward(ctx: FunctionCtx, cotangents: list[torch.Tensor]) -> tuple[Any, ...]:
    tensors, step = ctx.saved_tensors, _steps[ctx.number]
    at, of = differentiable(step.operands), differentiable(step.results)
    derivative, count = pullback(step, at, of)
    values = _operator([*tensors[:count], *(cotangents[k] for k in of)], _number(derivative))
    grads = dict(zip(at, values, strict=True))
    return [grads.get(k) for k in range(len(tensors))], None


_operator.register_autograd(_operator_backward, setup_context=_operator_context)


@_operator.register_vmap
def _(
    info: _BatchInfo, axes: tuple[Sequence[int | None], None], tensors: list[torch.Tensor], number: int
) -> tuple[list[torch.Tensor], list[int]]:
    run, in_front = _mapped(_Run(_steps[number]), axes[0], tensors, info.batch_size)
    outputs = _operator(in_front, _number(run.step))
    return outputs, [0] * len(outputs)


def _aval(x: torch.Tensor) -> Aval:
    """Shape and dtype of a torch tensor, which may have no memory; raises DTypeError for a dtype Iverson
    lacks.
    """
    name = str(x.dtype).removeprefix("torch.")
    if not hasattr(np, name) and name != "bfloat16":
        supported(None, x.dtype, "wrap")
    return Aval(tuple(map(int, x.shape)), dtypes.as_dtype(name, "wrap"))


def _torch_dtype(aval: Aval) -> torch.dtype:
    return _of_array(np.empty(0, aval.dtype), True).dtype


__all__ = ["from_torch", "to_torch", "wrap"]
