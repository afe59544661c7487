"""Batching of custom Functions: by their own rule, else mapped themselves, else example by example.

A call on values of a batch is a call outside of it, of a Function on all examples whose forward and backward
are the user's in a batch of their own. So a gradient outside is the user's, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from iverson.autograd.engine import reverse
from iverson.autograd.functions.context import Context
from iverson.autograd.functions.function import Function, cotangents, once_differentiable
from iverson.autograd.mode import is_grad_enabled, recording
from iverson.core.dispatch import Handle, is_tracked, slot_of
from iverson.core.entries import FULL
from iverson.core.errors import ArgumentError, BatchWarning, GraphError
from iverson.core.python.caller import warn
from iverson.kernels.deferred_patterns import UNKNOWN, Stored, note_stored, origin_of, resolved, same
from iverson.ops import F
from iverson.transforms.trees import flatten, fresh, unflatten


class ExampleLevel(Protocol):
    """The level of a batch, as Functions are carried out in it."""

    size: int

    @property
    def _recording(self) -> AbstractContextManager[None]:
        """Context in which ops are recorded exactly if they were recorded where the batch was entered."""

    def outside(self, x: Handle | None, /) -> Held:
        """Handle that ``x`` stands for outside of the batch, and 1 if it has the examples along axis 0, else
        0.
        """

    def of_examples(self, handle: Handle, /) -> Any:
        """Handle that stands for one example; ``handle`` has all examples along axis 0."""

    def function(self, function: type[Function], args: tuple[object, ...], /) -> Any:
        """Result of ``function.apply(*args)``, where some of ``args`` are values of the batch."""

    def innermost(self) -> AbstractContextManager[None]:
        """A block in which no level within this one is entered."""

    def suspended(self) -> AbstractContextManager[None]:
        """A block in which the level is not entered."""


#: Makes and enters a level for a number of examples.
NewLevel = Callable[[int], Any]
#: What is held for all examples, and 1 if they are along its axis 0, else 0.
Held = tuple[Any, int]


class _Restored(Context):
    """Context that is passed to the user's backward in another batch than the one in which forward
    filled it.
    """

    _tensors: tuple[Any, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._tensors


def by_rule(
    cls: type[Function], size: int, operands: Sequence[Held], arg_origins: Sequence[Stored]
) -> tuple[list[Held], bool]:
    """Results of the user's static method ``vmap``, each paired with 1 or 0, and True if it returned several.

    The number is 1 if the result has the examples along axis 0 (they are moved there), and 0 if it is the
    same for all.
    arg_origins : origins of the entries that the arguments of one example store.
    """
    dense = (
        origin_of(x) is not None and resolved(origin) is None
        for (x, _), origin in zip(operands, arg_origins, strict=True)
    )
    arguments = [F.to_dense(x) if is_dense else x for is_dense, (x, _) in zip(dense, operands, strict=True)]
    rule: Any = cls.vmap  # type: ignore[attr-defined]
    pair = rule(size, tuple(0 if lead else None for _, lead in operands), *arguments)
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ArgumentError(
            f"{cls.__name__}.vmap",
            got=f"{pair!r}",
            expected="a pair of the results and the axes of their examples",
        )
    results, axes = pair
    is_tuple = isinstance(results, tuple | list)
    pairs = zip(results, axes, strict=True) if is_tuple else [(results, axes)]
    return [
        (x, 0) if axis is None or x is None else (F.permute_dims(x, axes=_first(axis, x.ndim)), 1)
        for x, axis in pairs
    ], is_tuple


def _first(axis: int, ndim: int) -> tuple[int, ...]:
    return axis, *(k for k in range(ndim) if k != axis)


def over_examples(
    cls: type[Function], size: int, of: Sequence[int], arg_origins: Sequence[Stored], enter: NewLevel
) -> type[Function]:
    """Function that does what ``cls`` does, on all ``size`` examples in one call.

    Its arguments have the examples along axis 0 where ``of`` is 1, and its results have them all. If the
    user's forward reads entries, a warning is given and the examples are computed one by one.
    arg_origins : origins of the entries that the arguments of one example store.
    enter : makes a batch for a number of examples, a block to enter.
    """

    class Over(Function):
        several = False

        @staticmethod
        def forward(ctx: Context, *args: Handle) -> Any:
            context = Context(ctx.needs_input_grad)
            try:
                with enter(size) as level:
                    out = _run(cls, context, _inside(level, args, of, arg_origins))
                    Over.several = isinstance(out, tuple | list)
                    results = [
                        r if r is None else _repeated(level.outside(r), size)
                        for r in (out if Over.several else (out,))
                    ]
                    _keep(ctx, context, level, out if Over.several else (out,), results)
            except GraphError:
                if not size:
                    raise ArgumentError(
                        "vmap",
                        got=f"no examples for {cls.__name__}, which reads entries",
                        expected="at least one, for its results to have a shape",
                        remedy="define a static method vmap, or compute with functions of iverson",
                    ) from None
                warn(
                    f"vmap: {cls.__name__} reads entries: it is carried out example by example; define a "
                    "static method vmap, or compute with functions of iverson",
                    BatchWarning,
                )
                ctx.each = [Context(ctx.needs_input_grad) for _ in range(size)]
                outs = [_run(cls, c, _example(cls, args, of, k, arg_origins)) for k, c in enumerate(ctx.each)]
                results = _stacked(outs)
                Over.several = isinstance(outs[0], tuple | list)
                for c in ctx.each:
                    c._tensors = c._to_save
                _say(ctx, ctx.each[0], _tuple(outs[0]), results)
            return tuple(results) if Over.several else results[0]

        @staticmethod
        def backward(ctx: Context, *grads: Handle | None) -> Any:
            if hasattr(ctx, "each"):
                rows = [
                    cotangents(cls, _restored(c, c._tensors, ctx), _at(grads, (1,) * len(grads), k), len(of))
                    for k, c in enumerate(ctx.each)
                ]
                arg_cotangents = [_stack(list(parts)) for parts in zip(*rows, strict=True)]
            else:
                with enter(size) as level:
                    level_grads = [g if g is None else level.of_examples(g) for g in grads]
                    level_cotangents = cotangents(cls, _back(ctx, level), level_grads, len(of))
                    arg_cotangents = [
                        None if x is None else _repeated(level.outside(x), size) for x in level_cotangents
                    ]
            return tuple(
                x if x is None or lead else F.sum(x, axis=(0,), keepdims=False)
                for x, lead in zip(arg_cotangents, of, strict=True)
            )

    Over.__name__ = cls.__name__
    return Over


def each_example(cls: type[Function], level: ExampleLevel) -> type[Function]:
    """Function with the forward of ``cls`` in the batch ``level``, and a backward that runs example by
    example.

    It is for a Function whose backward reads entries while it is differentiated inside of the batch. Its
    derivative outside of the batch is the user's; inside it cannot be differentiated a second time.
    """

    class Each(Function):
        @staticmethod
        def forward(ctx: Context, *args: Handle) -> Any:
            ctx.held, ctx.stored = [level.outside(a) for a in args], list(map(origin_of, args))
            with level.innermost():
                return level.function(cls, args)

        @staticmethod
        @once_differentiable
        def backward(ctx: Context, *grads: Handle | None) -> Any:
            args, of = zip(*ctx.held, strict=True)
            outer_grads, of_grads = zip(*map(level.outside, grads), strict=True)
            with level.suspended(), level._recording:
                rows = [
                    _pulled(cls, _example(cls, args, of, k, ctx.stored), _at(outer_grads, of_grads, k))
                    for k in range(level.size)
                ]
                arg_cotangents = [_stack(list(parts)) for parts in zip(*rows, strict=True)]
            return tuple(None if x is None else level.of_examples(x) for x in arg_cotangents)

    Each.__name__ = cls.__name__
    return Each


def _pulled(cls: type[Function], args: Sequence[Handle], grads: Sequence[Handle]) -> list[Any]:
    """Cotangents of ``args`` from the cotangents ``grads`` of the results of ``cls.apply(*args)``.

    There is one for each argument: None for an argument without a derivative.
    """
    at = [k for k, a in enumerate(args) if isinstance(a, Handle) and a.dtype.kind in "fcV"]
    variables = fresh([args[k] for k in at], cls.__name__, "arguments")
    variable_at = dict(zip(at, variables, strict=True))
    with recording(True):
        results = _tuple(cls.apply(*(variable_at.get(k, a) for k, a in enumerate(args))))
    seeds = [(slot_of(y), g) for y, g in zip(results, grads, strict=True) if is_tracked(y)]
    slots = [slot_of(x) for x in variables]
    gradients = reverse(seeds, dict.fromkeys(slots, FULL), create_graph=is_grad_enabled())
    cotangents = {k: gradients.get(slot) for k, slot in zip(at, slots, strict=True)}
    return [cotangents.get(k) for k in range(len(args))]


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _run(cls: type[Function], ctx: Context, args: Sequence[object]) -> Any:
    setup = getattr(cls, "setup_context", None)
    if setup is None:
        return cls.forward(ctx, *args)
    out = cls.forward(*args)
    setup(ctx, tuple(args), out)
    return out


def _inside(
    level: ExampleLevel, operands: Sequence[Handle], of: Sequence[int], arg_origins: Sequence[Stored]
) -> list[Any]:
    """Handles of one example in ``level``, from operands that have all examples along axis 0 where ``of`` is
    1.

    Each handle stores the same entries as the argument in the batch it comes from: these have
    ``arg_origins``.
    """
    handles = [level.of_examples(x) if lead else x for x, lead in zip(operands, of, strict=True)]
    for x, origin, lead in zip(handles, arg_origins, of, strict=True):
        if lead and origin is not None:
            note_stored(x, origin)
    return handles


def _repeated(operand: Held, size: int) -> Any:
    x, lead = operand
    return x if lead else F.broadcast_to(x, shape=(size, *x.shape))


def _keep(
    ctx: Context,
    context: Context,
    level: ExampleLevel,
    out: Sequence[Handle | None],
    results: Sequence[Handle | None],
) -> None:
    """Save in ``ctx``, outside of the batch, all that the user's forward saved in ``context`` inside of it.

    out : what the user's forward returned, inside. results : the same, outside, with the axis of examples.
    """
    result_of = {id(r): x for r, x in zip(out, results, strict=True)}

    def outside(x: Handle) -> Held:
        return (result_of[id(x)], 1) if id(x) in result_of else level.outside(x)

    _say(ctx, context, out, results)
    context.__dict__.pop("needs_input_grad")
    attributes = {n: x for n, x in vars(context).items() if not n.startswith("_")}
    leaves, ctx.structure = flatten((list(context._to_save), attributes), none_is_leaf=True)
    pairs = [outside(x) if isinstance(x, Handle) else (None, 0) for x in leaves]
    ctx.save_for_backward(*(x for x, _ in pairs))
    ctx.leads = tuple(lead for _, lead in pairs)
    ctx.stored = list(map(origin_of, leaves))
    ctx.others = [None if isinstance(x, Handle) else x for x in leaves]


def _say(
    ctx: Context, context: Context, out: Sequence[Handle | None], results: Sequence[Handle | None]
) -> None:
    """Copy to ``ctx`` what the user's forward declared in ``context`` about its results.

    A declaration about a result of one example, in ``out``, is made for the same item of ``results``, which
    has all examples.
    """
    ctx.set_materialize_grads(context._materialize)
    ctx.mark_non_differentiable(
        *(x for r, x in zip(out, results, strict=True) if r is not None and id(r) in context._no_gradient)
    )


def _back(ctx: Context, level: ExampleLevel) -> Context:
    """Context for the user's backward in the batch ``level``, with what `_keep` saved in ``ctx``."""
    leaves = _inside(level, ctx.saved_tensors, ctx.leads, ctx.stored)
    leaves = [other if x is None else x for x, other in zip(leaves, ctx.others, strict=True)]
    saved, attributes = unflatten(ctx.structure, leaves)
    context = _restored(None, saved, ctx)
    context.__dict__.update(attributes)
    return context


def _restored(source: Context | None, tensors: Sequence[Handle | None], ctx: Context) -> Context:
    restored = _Restored(ctx.needs_input_grad)
    if source is not None:
        restored.__dict__.update({n: x for n, x in vars(source).items() if not n.startswith("_")})
        restored.needs_input_grad = ctx.needs_input_grad
    restored._tensors = tuple(tensors)
    return restored


def _at(args: Sequence[Handle | None], of: Sequence[int], k: int) -> list[Any]:
    """Arguments of example ``k``: row ``k`` of each of ``args`` that has the examples along axis 0 (``of`` is
    1).
    """
    keys = [
        (k, *(slice(0, n, 1) for n in x.shape[1:])) if lead and x is not None else ()
        for x, lead in zip(args, of, strict=True)
    ]
    return [F.index_basic(x, key=key) if key else x for x, key in zip(args, keys, strict=True)]


def _example(
    cls: type[Function],
    args: Sequence[Handle | None],
    of: Sequence[int],
    k: int,
    arg_origins: Sequence[Stored],
) -> list[Any]:
    """Arguments of example ``k`` (see `_at`), in a sparse layout if they have one in the batch.

    The conversion is outside of the derivative. Raises ArgumentError if the stored entries are not known.
    """
    arguments = _at(args, of, k)
    for n, (x, origin) in enumerate(zip(arguments, arg_origins, strict=True)):
        pattern = resolved(origin)
        if pattern is UNKNOWN:
            raise ArgumentError(
                f"{cls.__name__}.apply",
                got="examples of an argument of which it is not known here which entries are stored",
                expected="those of dense tensors, or of sparse ones whose pattern is known",
                remedy="read the argument through sparse_mask first",
            )
        if not same(resolved(origin_of(x)), pattern):
            arguments[n] = F.to_dense(x) if pattern is None else F.on_pattern(x, pattern)
    return arguments


def _stacked(outs: Sequence[Any]) -> list[Any]:
    return [_stack(list(parts)) for parts in zip(*map(_tuple, outs), strict=True)]


def _stack(parts: list[Handle | None]) -> Any:
    if all(x is None for x in parts):
        return None
    like = next(x for x in parts if x is not None)
    return F.stack(*(F.zero(like.shape, like.dtype) if x is None else x for x in parts), axis=0)
