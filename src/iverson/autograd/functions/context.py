"""Context (``ctx``) of a call of a custom op: what ``forward`` saves for the rules, and what it declares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from iverson.autograd import unrecorded_values
from iverson.autograd.mode import is_grad_enabled
from iverson.autograd.node import Node
from iverson.autograd.record import is_undefined
from iverson.core.dispatch import Handle, Operand, Wrapper, make_handle, rewrap
from iverson.core.errors import GradientError
from iverson.core.inputs.arguments import as_flag
from iverson.core.protocols import Shaped

#: Stands for the node of the call, of whose results one was saved.
PLACE = "_saved_places"


#: Origin of a saved tensor: its value, node and index, and the semantics of a wrapper.
Place: TypeAlias = tuple[Shaped, Node | str | None, int, Wrapper | None]


class Context:
    """Storage that `Function.forward` fills for ``backward`` and ``jvp``; attributes may be set freely.

    ``needs_input_grad`` says, per argument of ``forward``, whether its gradient is wanted: in ``forward``,
    whether it could ever be; in ``backward``, whether it is in this very call.
    """

    needs_input_grad: tuple[bool, ...]

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._to_save: tuple[Any, ...] = ()
        self._saved: tuple[Any, ...] = ()
        # For jvp, where forward says that it is to have others.
        self._to_save_forward: tuple[Any, ...] | None = None
        self._saved_forward: tuple[Any, ...] | None = None
        self._node: Node | None = None
        self._no_gradient: tuple[int, ...] = ()
        self._result_attributes: dict[str, Any] = {}
        # What forward computed without a record, for passes that are recorded.
        self._name = ""
        self._inputs: list[tuple[Node, int]] = []
        self._unrecorded: list[Any] = []
        self._keeps_numbers = False
        self._materialize = True

    if TYPE_CHECKING:  # attributes that forward sets

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Operand | None) -> None:
        """Keep inputs, results or other tensors for backward; None entries are allowed.

        A result that is saved, here or as an attribute, comes back as that result of this very call, so that
        a second derivative flows through it; it makes no reference cycle (kept in a container or an object,
        it does). What else ``forward`` computes is not recorded: a second derivative through it raises.
        """
        self._to_save = tensors

    def save_for_forward(self, *tensors: Operand | None) -> None:
        """Keep tensors for ``jvp``, which otherwise has those of `save_for_backward`; as that in all else."""
        self._to_save_forward = tensors

    def mark_non_differentiable(self, *results: Operand | None) -> None:
        """Say that gradients do not flow through the given results."""
        self._no_gradient = tuple(id(r) for r in results)

    def mark_dirty(self, *args: Operand) -> None:
        """Refused: a Function changes no argument of its caller's; what it rebinds in place is its own."""
        raise GradientError(
            self._name or "Function",
            "mark_dirty",
            got=f"{len(args)} arguments that forward says it changed",
            expected="results, as arguments stay what they were",
            remedy="return the new value, and rebind the name where it is called: x = F.apply(x)",
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Say what stands for a cotangent (or tangent) that is structurally zero as a whole.

        True, the default: a tensor in the zero layout, which takes no storage and annihilates. False: None.
        """
        self._materialize = as_flag(value, "set_materialize_grads", "value")

    def _given(self, handles: Sequence[Handle | None]) -> list[Any]:
        """Cotangents or tangents as the rule gets them: None for a constant zero after
        ``set_materialize_grads(False)``.
        """
        return [None if not self._materialize and x is not None and is_undefined(x) else x for x in handles]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """Tensors passed to `save_for_backward`; in ``jvp``, to `save_for_forward` if that was called."""
        return tuple(self._restore(place) for place in self._saved)

    def _restore(self, place: Place | None) -> Any:
        """The saved tensor for its `Place`, as a new handle (or wrapper); None if None was saved."""
        if place is None:
            return None
        value, parent, index, wrapper = place
        if index < 0:
            handle = make_handle(value, None, index)
            self._bar([handle])
            return rewrap(wrapper, handle)
        # Without a node of its own, it is one of this node's results.
        return rewrap(wrapper, make_handle(value, self._node if isinstance(parent, str) else parent, index))

    def _bar(self, handles: Iterable[Handle | None]) -> None:
        """Put barriers on ``handles`` of values that ``forward`` did not record, if the pass is recorded.

        A barrier is a node that the handle gets in place. A derivative that would flow through this node to
        an input of the call raises GradientError.
        """
        if is_grad_enabled():
            for x in handles:
                if x is not None and unrecorded_values.is_unrecorded(x):
                    description = (
                        f"what forward kept: a tensor of shape {x.shape} that is no input and no result"
                    )
                    x._node, x._index = unrecorded_values.barrier(self._name, description, x, self._inputs), 0

    def _for_call(self, node: Node, needs: tuple[bool, ...], forward: bool = False) -> Context:
        """A copy of the context for one call of a rule, with ``needs`` as its ``needs_input_grad``.

        forward : True for a call of ``jvp``.
        """
        self._bar([reference() for reference in self._unrecorded])
        context = object.__new__(type(self))
        context.__dict__.update(self.__dict__)
        context.needs_input_grad = needs
        context._node = node
        if forward and self._saved_forward is not None:
            context._saved = self._saved_forward
        for name, place in self._result_attributes.items():
            setattr(context, name, context._restore(place))
        return context
