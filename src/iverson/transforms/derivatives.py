"""Derivative transforms: each records the function on fresh variables and walks the recorded graph.

A result is itself recorded exactly if it can be differentiated further: if what the function touched reaches
beyond this call's own variables, or the caller's cotangents are tracked. So transforms nest in any mixture,
and a transform at the top leaves no graph behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar, overload

import numpy as np

from iverson.autograd.demand_propagation import Slot
from iverson.autograd.engine import reverse
from iverson.autograd.forward import push
from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.node import next_number, oldest, reachable
from iverson.autograd.tracked_guards import differentiating
from iverson.autograd.unrecorded_values import looking, runs_code_of_user
from iverson.core.dispatch import (
    Handle,
    Wrapper,
    alias,
    is_tracked,
    is_variable,
    rewrap,
    slot_of,
    unwrap,
)
from iverson.core.entries import FULL
from iverson.core.errors import ArgumentError, GradientError, ShapeError
from iverson.core.inputs.arguments import as_function, checked
from iverson.core.protocols import Pytree
from iverson.core.shapes import as_int, check_choice
from iverson.core.table import overrides
from iverson.handles import Tensor
from iverson.layouts import Zero
from iverson.masked.operand_queries import jacobian_block
from iverson.transforms.batching.batch_level import chunk
from iverson.transforms.jacobians.sparse_jacobian import blocks, plan, stored_whole
from iverson.transforms.jacobians.unit_vector_passes import by_columns, by_rows
from iverson.transforms.trees import (
    Function,
    P,
    R,
    Tree,
    arguments,
    as_named,
    flatten,
    fresh,
    handed_out,
    match,
    tensors,
    unflatten,
    wrapped,
)

if TYPE_CHECKING:
    from iverson.transforms.signatures import (
        Gradient,
        GradientAndAux,
        GradientPair,
        Hessian,
        Jacobian,
        SecondGradient,
        ValueAndGradient,
        ValueAndGradientPair,
    )

T = TypeVar("T")
#: The position of an argument, or several.
Argnums = SupportsIndex | Sequence[SupportsIndex]


class Linearization:
    """Function recorded at a point: its outputs, and its derivative in both directions (`pull` and `push`).

    outer : True if results must be recorded because something around this call is differentiated.
    given, inputs : leaves of the arguments, and their plain handles. variables : the handles that replace
        them.
    aux : the second item that the function returned, with ``has_aux``.
    """

    def __init__(
        self, function: Function, args: Sequence[Tree], operation: str, has_aux: bool = False
    ) -> None:
        self.operation = operation
        leaves, self.structure = flatten(tuple(args))
        self.given = tensors(leaves, operation, "inputs")
        self.inputs = list(map(unwrap, self.given))
        self.may_record = is_grad_enabled()
        start = next_number()
        with recording(True):
            self.variables = fresh(self.inputs, operation, "inputs")
            with differentiating(self.variables):
                out = function(*self.like_inputs(arguments(self.variables)))
        self.aux: Any = None
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise ArgumentError(
                    operation,
                    "has_aux",
                    got="a function that does not return a pair",
                    expected="a pair of the result and anything else",
                    remedy="return a tuple of two, or leave has_aux out",
                )
            out, self.aux = out
        out_leaves, self.out_structure = flatten(out)
        # Handles of our own: the user's may be rebound.
        given_out = tensors(out_leaves, operation, "the function's result")
        self.results: list[Any] = [rewrap(x, alias(unwrap(x))) for x in given_out]
        self.outputs = list(map(unwrap, self.results))
        self.own = range(start, next_number())
        self.outer = self.may_record and self._reaches_beyond(start)

    def _reaches_beyond(self, start: int) -> bool:
        """Return True if the outputs depend on anything recorded before this call, which began at node
        ``start``.
        """
        roots = [slot_of(o)[0] for o in self.outputs if is_tracked(o)]
        if not all(map(is_variable, self.variables)):
            return True
        for node in (*roots, *reachable(roots, start)):  # loops: generators would be entered for each node
            if node.number < start:
                return True
            for parent in node.parents:
                if parent is not None and parent.number < start:
                    return True
        return False

    def like_inputs(self, handles: Sequence[Handle]) -> Any:
        """Tree with the structure and the wrappers of the arguments, from one plain handle for each leaf."""
        return unflatten(self.structure, wrapped(self.given, handles))

    def like_outputs(self, handles: Sequence[Handle]) -> Any:
        """Tree with the structure and the wrappers of the function's result, from one plain handle for each
        leaf.
        """
        return unflatten(self.out_structure, wrapped(self.results, handles))

    def value(self) -> Any:
        """The function's value."""
        return self.like_outputs(handed_out(self.outputs, self.outer))

    def auxiliary(self) -> Any:
        leaves, structure = flatten(self.aux)
        return unflatten(structure, handed_out(leaves, self.outer))

    def pull(self, cotangents: list[Handle | None], create_graph: bool | None = None) -> list[Any]:
        """Cotangents of the inputs from those of the outputs, one for each leaf (None stands for zero).

        create_graph : True if the pass is recorded; by default, if something around this call is
            differentiated or a cotangent is tracked.
        """
        recording = create_graph if create_graph is not None else self.outer or _tracked(cotangents)
        targets = dict.fromkeys(map(slot_of, self.variables), FULL)
        gradients, recording = self._walked(
            lambda r: reverse(self._seeds(cotangents), targets, create_graph=r), recording
        )
        return self._gradients(gradients, recording)

    def pull_last(self, cotangents: list[Handle | None]) -> list[Any]:
        """Same as `pull`, for the last pass: nodes are freed, with what they keep, as the pass goes by them.

        They stay if the pass is recorded, or may have to be run again: if users' rules or hooks are in it.
        """
        seeds = self._seeds(cotangents)
        targets = dict.fromkeys(map(slot_of, self.variables), FULL)
        order = reachable([node for (node, _), _ in seeds], oldest(targets))
        if self.outer or _tracked(cotangents) or overrides() or any(map(runs_code_of_user, order)):
            return self.pull(cotangents)
        self.aux, self.results = self.auxiliary(), handed_out(self.results, False)
        self.outputs = list(map(unwrap, self.results))
        return self._gradients(reverse(seeds, targets, create_graph=False, order=order), False)

    def _seeds(self, cotangents: list[Handle | None]) -> list[tuple[Slot, Handle]]:
        """Slots of the outputs and their cotangents, for those that are tracked and defined."""
        return [
            (slot_of(o), ct)
            for o, ct in zip(self.outputs, cotangents, strict=True)
            if is_tracked(o) and ct is not None
        ]

    def _gradients(self, cotangents: Mapping[Slot, Handle], recorded: bool) -> list[Any]:
        """Results of a pass by slot as handles for the caller, one for each input."""
        results: Any = [cotangents.get(slot_of(v), Tensor(Zero(v.shape, v.dtype))) for v in self.variables]
        return handed_out(results, recorded)

    def _walked(self, walk: Callable[[bool], T], recording: bool) -> tuple[Any, bool]:
        """Result of ``walk(recording)``, a pass through the recorded nodes, and True if the pass was
        recorded.

        A rule or hook of the user may read tensors that are tracked outside, and this is known only after the
        pass. The pass is then run again, recorded, and ``outer`` becomes True.
        """
        if recording or not self.may_record:
            return walk(recording), recording
        with looking(self.own) as state:
            result = walk(False)
        if not state.found:
            return result, False
        self.outer = True
        return walk(True), True

    def push(self, tangents: list[Handle | None]) -> list[Any]:
        """Tangents of the outputs from those of the inputs, one per leaf (None stands for zero)."""
        recording = self.outer or _tracked(tangents)
        input_tangents = {
            slot_of(v): t for v, t in zip(self.variables, tangents, strict=True) if t is not None
        }
        slots = [slot_of(o) for o in self.outputs if is_tracked(o)]
        output_tangents, recording = self._walked(
            lambda r: push(slots, input_tangents, create_graph=r), recording
        )
        results = [output_tangents.get(slot_of(o), Tensor(Zero(o.shape, o.dtype))) for o in self.outputs]
        return handed_out(results, recording)


def _tracked(handles: Sequence[Handle | None]) -> bool:
    return is_grad_enabled() and any(h is not None and is_tracked(h) for h in handles)


@overload
def vjp(
    function: Callable[..., R], *primals: Tree, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(function: Function, *primals: Tree, has_aux: bool) -> Any: ...
@checked
def vjp(function: Function, *primals: Tree, has_aux: bool = False) -> Any:
    """The value of a function and the map from cotangents of its result to cotangents of its arguments.

    Parameters
    ----------
    function : takes the primals, returns a pytree of tensors (with ``has_aux`` a pair of that and anything).
    primals : pytrees of floating tensors.
    has_aux : whether the function returns a pair of which the second is handed on as it is.

    Returns
    -------
    ``(value, pull)``, with ``has_aux`` ``(value, pull, aux)``; ``pull(cotangent)`` takes a pytree like the
    value and gives a tuple with one pytree per primal. It may be called many times.

    Raises ShapeError where a cotangent's shape is not its output's.

    >>> import iverson as iv
    >>> y, pull = vjp(lambda a, b: a * b, iv.asarray(2.0), iv.asarray(3.0))
    >>> pull(iv.asarray(1.0))
    (iverson.Tensor(3.), iverson.Tensor(2.))
    """
    line = Linearization(function, primals, "vjp", has_aux)

    def pull(cotangent: Tree) -> Any:
        leaves, structure = flatten(cotangent)
        cts = match(leaves, structure, line.results, line.out_structure, "vjp", "cotangent")
        return line.like_inputs(line.pull(cts))

    return (line.value(), pull, line.auxiliary()) if has_aux else (line.value(), pull)


@overload
def jvp(
    function: Callable[..., R],
    primals: Sequence[Tree],
    tangents: Sequence[Tree],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(function: Function, primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool) -> Any: ...
@checked
def jvp(function: Function, primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool = False) -> Any:
    """The value of a function and its derivative along tangents of its arguments.

    ``primals`` and ``tangents`` are sequences of pytrees of the same structure and shapes. Returns
    ``(value, tangent)``, with ``has_aux`` ``(value, tangent, aux)``.

    >>> import iverson as iv
    >>> jvp(iv.sin, (iv.asarray(0.0),), (iv.asarray(2.0),))
    (iverson.Tensor(0.), iverson.Tensor(2.))
    """
    line = Linearization(function, tuple(primals), "jvp", has_aux)
    leaves, structure = flatten(tuple(tangents))
    leaf_tangents = match(leaves, structure, line.given, line.structure, "jvp", "tangents")
    out = line.like_outputs(line.push(leaf_tangents))
    return (line.value(), out, line.auxiliary()) if has_aux else (line.value(), out)


@checked
def linearize(
    function: Callable[..., R], *primals: Pytree, has_aux: bool = False
) -> tuple[R, Callable[..., R]]:
    """The value of a function and its derivative there, as a linear function of tangents.

    Parameters
    ----------
    function : takes the primals, returns a pytree of tensors (with ``has_aux`` a pair of that and anything).
    primals : pytrees of floating tensors.
    has_aux : whether the function returns a pair of which the second is handed on as it is.

    Returns
    -------
    ``(value, push)``, with ``has_aux`` ``(value, push, aux)``. ``push(*tangents)`` takes a pytree like each
    primal and gives one like the value; it runs the function no more, however often it is called.

    Raises ShapeError where a tangent's shape is not its primal's.

    >>> import iverson as iv
    >>> y, push = linearize(iv.sin, iv.asarray(0.0))
    >>> y, push(iv.asarray(2.0)), push(iv.asarray(3.0))
    (iverson.Tensor(0.), iverson.Tensor(2.), iverson.Tensor(3.))
    """
    as_function(function, "linearize", "function")
    line = Linearization(function, primals, "linearize", has_aux)

    def push(*tangents: Pytree) -> R:
        leaves, structure = flatten(tangents)
        leaf_tangents = match(leaves, structure, line.given, line.structure, "linearize", "tangents")
        return line.like_outputs(line.push(leaf_tangents))  # type: ignore[no-any-return]

    if has_aux:
        return line.value(), push, line.auxiliary()  # type: ignore[return-value]
    return line.value(), push


def with_argnums(
    function: Function,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    argnums: Argnums,
    operation: str,
) -> Any:
    """Function of the arguments ``argnums`` alone, the list of these arguments, and True if ``argnums`` is
    one number.
    """
    single = not isinstance(argnums, (tuple, list))
    numbers: Any = (argnums,) if single else argnums
    indices = [as_int(n, operation, "argnums") for n in numbers]
    for n in indices:
        if not -len(args) <= n < len(args):
            raise ArgumentError(
                operation,
                "argnums",
                got=str(n),
                expected=f"the position of one of {len(args)} arguments",
                remedy="" if args else "pass what is differentiated by position",
            )
    positions = [n % len(args) for n in indices]
    if len(set(positions)) != len(positions):
        raise ArgumentError(operation, "argnums", got=str(argnums), expected="each argument once")

    def partial(*parts: Tree) -> Any:
        full = list(args)
        for n, part in zip(positions, parts, strict=True):
            full[n] = part
        return function(*full, **kwargs)

    return partial, [args[n] for n in positions], single


@overload
def value_and_grad(  # type: ignore[overload-overlap]
    function: Callable[P, R], argnums: Literal[0] = 0, has_aux: bool = False
) -> ValueAndGradient[P, R]: ...
@overload
def value_and_grad(
    function: Callable[P, R], argnums: tuple[Literal[0], Literal[1]], has_aux: bool = False
) -> ValueAndGradientPair[P, R]: ...
@overload
def value_and_grad(
    function: Callable[P, R], argnums: Argnums, has_aux: bool = False
) -> Callable[P, tuple[R, Any]]: ...
@checked  # type: ignore[misc]
def value_and_grad(
    function: Callable[P, R], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[P, tuple[Any, Any]]:
    """A function that returns the value of a scalar function and its gradient.

    ``argnums`` says which arguments to differentiate in (an integer or several); each is a pytree. With
    ``has_aux`` the function returns ``(value, aux)`` and the result is ``((value, aux), gradient)``.

    The result's call raises GradientError unless the value is one real number.

    >>> import iverson as iv
    >>> value_and_grad(lambda x: (x * x).sum())(iv.asarray([1.0, 2.0]))
    (iverson.Tensor(5.), iverson.Tensor([2., 4.]))
    """

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        partial, primals, single = with_argnums(function, args, kwargs, argnums, "grad")
        line = Linearization(partial, primals, "grad", has_aux)
        if len(line.results) != 1 or line.results[0].size != 1:
            shapes = ", ".join(str(o.shape) for o in line.results)
            raise GradientError(
                "grad",
                "function",
                got=f"a result of shape {shapes}" if shapes else "a result without a tensor",
                expected="one number",
                remedy="use jacobian, or vjp with a cotangent",
            )
        if line.outputs[0].dtype.kind == "c":
            raise GradientError(
                "grad",
                "function",
                got="a complex result",
                expected="a real number",
                remedy="use vjp",
            )
        unit = Tensor(np.ones(line.outputs[0].shape, line.outputs[0].dtype))
        grads = line.like_inputs(line.pull_last([unit]))
        value = (line.value(), line.auxiliary()) if has_aux else line.value()
        return value, grads[0] if single else grads

    return call


@overload
def grad(  # type: ignore[overload-overlap]
    function: Callable[P, R], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Gradient[P]: ...
@overload
def grad(  # type: ignore[overload-overlap]
    function: Callable[P, tuple[object, R]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> GradientAndAux[P, R]: ...
@overload
def grad(
    function: Callable[P, R], argnums: Literal[1], has_aux: Literal[False] = False
) -> SecondGradient[P]: ...
@overload
def grad(
    function: Callable[P, R], argnums: tuple[Literal[0], Literal[1]], has_aux: Literal[False] = False
) -> GradientPair[P]: ...
@overload
def grad(function: Callable[P, R], argnums: Argnums, has_aux: bool = False) -> Callable[P, Any]: ...
@overload
def grad(function: Callable[P, R], argnums: Argnums = 0, *, has_aux: bool) -> Callable[P, Any]: ...
@checked  # type: ignore[misc]
def grad(function: Callable[P, R], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]:
    """A function that returns the gradient of a scalar function; parameters as `value_and_grad`.

    With ``has_aux`` it returns ``(gradient, aux)``. At arguments that are tracked themselves (parameters with
    ``requires_grad``) the gradient is recorded too, to be differentiated again; `autograd.grad` of the
    loss, or ``detach()``, is cheaper where it is not.

    >>> import iverson as iv
    >>> grad(grad(lambda x: x ** 3))(iv.asarray(2.0))
    iverson.Tensor(12.)
    """
    value_and_gradient: Callable[P, Any] = value_and_grad(function, argnums, has_aux)

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        value, gradient = value_and_gradient(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return call


@overload
def jacobian(
    function: Callable[P, R],
    argnums: Literal[0] = 0,
    mode: Literal["auto", "reverse", "forward"] = "auto",
    chunk_size: int | None = None,
    layout: Literal["strided", "coo", "csr", "csc"] = "strided",
) -> Jacobian[P, R]: ...
@overload
def jacobian(
    function: Callable[P, R],
    argnums: Argnums,
    mode: Literal["auto", "reverse", "forward"] = "auto",
    chunk_size: int | None = None,
    layout: Literal["strided", "coo", "csr", "csc"] = "strided",
) -> Callable[P, Any]: ...
@checked  # type: ignore[misc]
def jacobian(
    function: Callable[P, R],
    argnums: Argnums = 0,
    mode: Literal["auto", "reverse", "forward"] = "auto",
    chunk_size: int | None = None,
    layout: Literal["strided", "coo", "csr", "csc"] = "strided",
) -> Callable[P, Any]:
    """A function that returns the full Jacobian of a function.

    Parameters
    ----------
    function : of tensors, returns a pytree of tensors.
    argnums : which arguments to differentiate in, as in `value_and_grad`.
    mode : "reverse" (a pass per output entry), "forward" (a pass per input entry) or "auto" (whichever needs
        fewer passes, or both). Where it follows from the operations that entries of the Jacobian are zero, a
        pass serves several columns that share no row, or rows that share no column: three passes for a
        function of each point and its neighbours, however many points there are.
    chunk_size : how many passes are made together at most; by default what fits into a cache.
    layout : of the result. A sparse one stores the entries that may be nonzero, as far as that follows from
        the operations (the same ones at any point); nothing of the size of the whole is made. "csr" and "csc"
        are for one output axis and one input axis.

    Returns
    -------
    For each output leaf and each input leaf a tensor of shape ``output.shape + input.shape``, as a pytree
    like the output whose leaves are pytrees like the argument. The graph is recorded once.

    Raises ShapeError where a layout does not hold such a shape, ArgumentError for a sparse layout with masked
    arguments or results.

    Of a complex input z = a + ib, entry (k, j) is d Re(y[k]) / d a[j] + i d Re(y[k]) / d b[j]: the gradient
    of Re(y[k]) as `grad` has it, and the conjugate of the derivative where the function is holomorphic. Of a
    real input, it is d y[k] / d x[j] (docs/conventions.md).

    >>> import iverson as iv
    >>> jacobian(lambda x: x * x)(iv.asarray([1.0, 2.0]))
    iverson.Tensor([[2., 0.],
                    [0., 4.]])
    >>> jacobian(lambda x: x[1:] - x[:-1], layout="csr")(iv.zeros(100_000)).nnz
    199998
    """
    check_choice(mode, ("auto", "reverse", "forward"), "jacobian", "mode")
    check_choice(layout, LAYOUTS, "jacobian", "layout")
    return _jacobian(function, argnums, mode, chunk(chunk_size, "jacobian"), layout)


#: Of Jacobians.
LAYOUTS = ("strided", "coo", "csr", "csc")


def _jacobian(
    function: Callable[P, R],
    argnums: Argnums,
    mode: str,
    step: int | None,
    layout: str,
    or_forward: bool = False,
) -> Callable[..., Any]:
    """Function that returns Jacobians of ``function``; see `jacobian` for the parameters.

    step : the number of passes that are made together, or None.
    or_forward : True to use forward mode if zeros of the Jacobian give no better choice.
    """

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        partial, primals, single = with_argnums(function, args, kwargs, argnums, "jacobian")
        line = Linearization(partial, primals, "jacobian")
        inputs, outputs = sum(x.size for x in line.inputs), sum(x.size for x in line.outputs)
        if layout != "strided":
            _check_held(line, layout)
        sparse = plan(line, mode, layout != "strided")
        if sparse is not None:
            block_rows = blocks(line, sparse, step, layout)
        elif not or_forward and (mode == "reverse" or (mode == "auto" and outputs <= inputs)):
            block_rows = by_rows(line, step)
        else:
            block_rows = by_columns(line, step)
        if sparse is None and layout != "strided":
            block_rows = [
                [stored_whole(block, y, x, layout) for block, x in zip(row, line.inputs, strict=True)]
                for row, y in zip(block_rows, line.outputs, strict=True)
            ]
        rows = [
            unflatten(
                line.structure,
                [jacobian_block(result, x, part) for x, part in zip(line.given, row, strict=True)],
            )
            for result, row in zip(line.results, block_rows, strict=True)
        ]
        return unflatten(line.out_structure, [row[0] if single else row for row in rows])

    return call


def _check_held(line: Linearization, layout: str) -> None:
    """Raise if blocks of the Jacobian cannot have the sparse ``layout``: masks, numbers, or the
    wrong rank.
    """
    if any(isinstance(x, Wrapper) for x in (*line.given, *line.results)):
        raise ArgumentError(
            "jacobian",
            "layout",
            got=f"'{layout}' with masked arguments or results",
            expected="'strided'",
            remedy="call to_layout on the result",
        )
    for y in line.outputs:
        for x in line.inputs:
            if y.ndim + x.ndim == 0 or (layout != "coo" and y.ndim + x.ndim != 2):
                raise ShapeError(
                    "jacobian",
                    "layout",
                    got=f"'{layout}' for a block of shape {y.shape + x.shape}",
                    expected="'coo' for other than matrices, 'strided' for a number",
                )


@overload
def hessian(
    function: Callable[P, R],
    argnums: Literal[0] = 0,
    chunk_size: int | None = None,
    layout: Literal["strided", "coo", "csr", "csc"] = "strided",
) -> Hessian[P]: ...
@overload
def hessian(
    function: Callable[P, R],
    argnums: Argnums,
    chunk_size: int | None = None,
    layout: Literal["strided", "coo", "csr", "csc"] = "strided",
) -> Callable[P, Any]: ...
@checked  # type: ignore[misc]
def hessian(
    function: Callable[P, R],
    argnums: Argnums = 0,
    chunk_size: int | None = None,
    layout: Literal["strided", "coo", "csr", "csc"] = "strided",
) -> Callable[P, Any]:
    """A function that returns the matrix of second derivatives of a scalar function: forward over reverse, or
    where rows of the Hessian depend on all of the input and others do not, reverse over reverse for these.

    Shapes, ``chunk_size``, ``layout`` and what complex inputs give are as for the `jacobian` of the gradient.

    >>> import iverson as iv
    >>> hessian(lambda x: (x ** 3).sum())(iv.asarray([1.0, 2.0]))
    iverson.Tensor([[ 6.,  0.],
                    [ 0., 12.]])
    """
    step = chunk(chunk_size, "hessian")
    check_choice(layout, LAYOUTS, "hessian", "layout")
    return _jacobian(grad(function, argnums), argnums, "auto", step, layout, or_forward=True)


@checked
def hvp(
    function: Function, primals: Sequence[Tree], tangents: Sequence[Tree]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The gradient of a scalar function and its Hessian times the tangents, without forming the Hessian.

    Returns ``(gradient, product)``, each a tuple with one pytree per primal.

    >>> import iverson as iv
    >>> hvp(lambda x: (x ** 3).sum(), (iv.asarray([1.0, 2.0]),), (iv.asarray([1.0, 0.0]),))[1]
    (iverson.Tensor([6., 0.]),)
    """
    primals = tuple(primals)
    if len(primals) != len(tuple(tangents)):
        raise ShapeError(
            "hvp",
            "tangents",
            got=f"{len(tuple(tangents))}",
            expected=f"{len(primals)}, one per primal",
        )
    return jvp(grad(function, tuple(range(len(primals)))), primals, tangents)
