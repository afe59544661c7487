"""JAX: arrays both ways, and any function of Iverson's as a step of a program that JAX traces.

`wrap` gives a function of JAX arrays that runs Iverson's on the host (`jax.pure_callback`), under ``jit``,
``vmap`` and derivatives of any order. Which derivatives JAX asks for, and which cotangents or tangents are
zero for it, is known on both sides: what is not asked for is not computed.

>>> import jax, iverson as iv
>>> from iverson.interop.jax import wrap
>>> f = wrap(lambda x: (iv.sin(x) * x).sum())
>>> jax.grad(f)(jax.numpy.zeros(2))
Array([0., 0.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import iverson as iv
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, is_tracked
from iverson.core.errors import ArgumentError, ArgumentTypeError, GraphError, described
from iverson.core.protocols import DType, NDArray
from iverson.core.shapes import check_choice
from iverson.graph.tracing.trace import trace_flat
from iverson.interop.array_checks import closed_over, leaving, returned, supported
from iverson.interop.messages import Tree
from iverson.transforms.trees import flatten, unflatten

if TYPE_CHECKING:
    from jax.custom_derivatives import CustomVJPPrimal

try:
    import jax
    from jax.custom_derivatives import SymbolicZero
    from jax.experimental.sparse import BCOO
except ImportError as error:
    raise ImportError("iverson.interop.jax needs JAX: pip install jax") from error

if TYPE_CHECKING:
    #: What is kept between a function and its pullback: arguments, and which of them are differentiated.
    Residuals: TypeAlias = tuple[tuple[jax.Array, ...], "_Which"]

Flat = Callable[..., list[iv.Tensor]]


def from_jax(x: jax.Array | BCOO, /, *, requires_grad: bool = False) -> iv.Tensor:
    """A JAX array, or a BCOO without batch axes, as a tensor of Iverson's; a BCOO is in the COO layout.

    Shares the memory of an array on the CPU, which neither side writes. Raises ArgumentTypeError for anything
    else, traced values included, and DTypeError for dtypes that Iverson does not have.

    >>> from_jax(jax.numpy.asarray([1.0, 2.0]))
    iverson.Tensor([1., 2.], dtype=float32)
    """
    if isinstance(x, BCOO):
        if x.n_batch:
            raise ArgumentTypeError(
                "from_jax", "x", got=f"a BCOO with {x.n_batch} batch axes", expected="none"
            )
        entries, across = _array(x.data, "from_jax"), _array(x.indices, "from_jax").T
        return iv.sparse_coo_tensor(across, entries, x.shape, requires_grad=requires_grad)
    return iv.asarray(_array(x, "from_jax"), requires_grad=requires_grad)


def to_jax(x: iv.Tensor, /) -> jax.Array | BCOO:
    """A tensor of Iverson's as a JAX array, one in a sparse layout as a BCOO. JAX may narrow its dtype.

    Raises GradientError where x tracks gradients, ArgumentTypeError for a masked tensor.

    >>> to_jax(iv.asarray([[0, 2]], dtype="float32").to_layout("csr")).nse
    1
    """
    x = leaving(x, "to_jax")
    if x.layout not in ("coo", "csr", "csc", "bsr", "bsc"):
        return jax.numpy.asarray(x.numpy())
    x = x.to_layout("coo").coalesce()
    entries, across = jax.numpy.asarray(x.values().numpy()), jax.numpy.asarray(x.indices().numpy().T)
    return BCOO((entries, across), shape=x.shape, indices_sorted=True, unique_indices=True)


def _array(x: jax.Array | NDArray, operation: str) -> NDArray:
    if not isinstance(x, jax.Array | np.ndarray) or isinstance(x, jax.core.Tracer):
        raise ArgumentTypeError(operation, "x", got=described(x), expected="a JAX array with values")
    return supported(np.asarray(x), x.dtype, operation)


def wrap(
    function: Callable[..., Tree], /, *, mode: str = "reverse", result: Tree | None = None
) -> Callable[..., Any]:
    """A function of Iverson's tensors as a function of JAX arrays.

    Parameters
    ----------
    function : takes and returns pytrees of tensors, and has no other effect: JAX may call it as often as it
        likes. Of values, it is known only when it is called.
    mode : "reverse" for a function with a pullback (``jax.grad``, ``jax.vjp``, ``jax.jacrev``), "forward" for
        one with a pushforward (``jax.jvp``, ``jax.jacfwd``), of any order. JAX takes one of the two.
    result : a pytree of `jax.ShapeDtypeStruct` like what the function returns. By default the function is
        traced to find it; one whose Python code reads entries (``if x > 0``) can't be.

    Returns
    -------
    A function of the same arguments, in which JAX arrays (and NumPy's) stand for Iverson's tensors. All else
    in the arguments is handed over as it is. ``jax.vmap`` maps it by `iverson.vmap`. A pullback runs the
    function again: JAX keeps arrays between the two, and not what was recorded.

    Raises
    ------
    GradientError : where a result depends on a tensor that tracks gradients and is no argument.
    ArgumentError : where the shape of the result is not known without entries, or is not that of ``result``.

    >>> dot = wrap(lambda a, b: (a * b).sum(), mode="forward")
    >>> jax.jvp(dot, (jax.numpy.ones(3), jax.numpy.ones(3)), (jax.numpy.ones(3), jax.numpy.zeros(3)))[1]
    Array(3., dtype=float32)
    """
    check_choice(mode, ("reverse", "forward"), "wrap", "mode")
    differentiable = _with_pullback if mode == "reverse" else _with_pushforward

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        at = [k for k, leaf in enumerate(leaves) if isinstance(leaf, jax.Array | np.ndarray)]
        arrays = [leaves[k] for k in at]
        forms: list[Any] = []

        def flat(*tensors: iv.Tensor) -> list[iv.Tensor]:
            arguments = list(leaves)
            for k, x in zip(at, tensors, strict=True):
                arguments[k] = x
            of_args, of_kwargs = unflatten(structure, arguments)
            outputs, form = flatten(function(*of_args, **of_kwargs))
            forms[:] = [form]
            return [returned(x) for x in outputs]

        avals, form = (_traced(flat, arrays), None) if result is None else flatten(result)
        results = differentiable(flat, tuple(avals))(*arrays)
        return unflatten(forms[0] if form is None else form, results)

    return update_wrapper(call, function)


def _traced(flat: Flat, arrays: Sequence[jax.Array | NDArray]) -> list[jax.ShapeDtypeStruct]:
    """Shapes and dtypes of the function's results, found by a trace; raises ArgumentError if it reads
    entries.

    flat : the function, with arguments and results as lists of tensors.
    """

    def outputs(*tensors: iv.Tensor) -> tuple[list[Handle], list[jax.ShapeDtypeStruct]]:
        results: list[Handle] = list(flat(*tensors))
        return results, [jax.ShapeDtypeStruct(x.shape, _narrowed(x.dtype)) for x in results]

    try:
        avals = [Aval(x.shape, np.dtype(x.dtype)) for x in arrays]
        _, captured, specs = trace_flat(outputs, avals, "wrap")
    except GraphError as error:
        raise ArgumentError(
            "wrap",
            "result",
            got="None for a function that reads entries",
            expected="the shapes and dtypes of what it returns, a pytree of jax.ShapeDtypeStruct",
            remedy=str(error),
        ) from error
    if captured:
        raise closed_over()
    return list(specs)


def _narrowed(dtype: DType) -> DType:
    """The dtype that JAX uses for ``dtype``: 32 bits instead of 64, unless ``jax_enable_x64`` is set."""
    narrowed: DType = jax.dtypes.canonicalize_dtype(dtype)
    return narrowed


# --- steps of JAX ----------------------------------------------------------------


def _called(
    flat: Flat, avals: Sequence[jax.ShapeDtypeStruct], arrays: Sequence[jax.Array | NDArray]
) -> list[jax.Array]:
    """JAX arrays that a callback computes: the function is run on the host whenever the JAX program runs.

    avals : shapes and dtypes of the results.
    """
    ranks = [np.ndim(x) for x in arrays]

    def on_host(*buffers: jax.Array | NDArray) -> list[NDArray]:
        operands = list(map(np.asarray, buffers))
        extra = {x.ndim - rank for x, rank in zip(operands, ranks, strict=True)}
        outputs = _mapped(flat, extra.pop() if extra else 0)(*map(iv.asarray, operands))
        if any(map(is_tracked, outputs)):
            raise closed_over()
        return [_checked(x.detach().numpy(), aval) for x, aval in zip(outputs, avals, strict=True)]

    results: list[Any] = jax.pure_callback(on_host, list(avals), *arrays, vmap_method="expand_dims")
    return results


def _mapped(flat: Flat, axes: int) -> Flat:
    """Function that maps ``flat`` over the first ``axes`` axes of its arguments, by `vmap`.

    An argument that does not vary along such an axis has extent 1 there.
    """
    if not axes:
        return flat

    def over(*tensors: iv.Tensor) -> list[iv.Tensor]:
        size = max(x.shape[0] for x in tensors)
        if size == 1:
            return [iv.expand_dims(x, axis=0) for x in _mapped(flat, axes - 1)(*(x[0] for x in tensors))]
        in_axes = tuple(0 if x.shape[0] == size else None for x in tensors)
        slices = [x if axis == 0 else x[0] for x, axis in zip(tensors, in_axes, strict=True)]
        return list(iv.vmap(_mapped(flat, axes - 1), in_axes=in_axes)(*slices))

    return over


def _checked(array: NDArray, aval: jax.ShapeDtypeStruct) -> NDArray:
    if array.shape[array.ndim - len(aval.shape) :] != aval.shape:
        raise ArgumentError(
            "wrap", "result", got=f"shape {array.shape} from the function", expected=f"shape {aval.shape}"
        )
    return array.astype(aval.dtype, copy=False)


@jax.tree_util.register_static
class _Which(tuple[int, ...]):
    """Positions of the arguments that are differentiated; static data that JAX keeps for the pullback."""

    __slots__ = ()


def _with_pullback(flat: Flat, avals: tuple[jax.ShapeDtypeStruct, ...]) -> Callable[..., list[jax.Array]]:
    """Function of JAX arrays that calls ``flat`` on the host, with a pullback (reverse mode) of any order.

    avals : shapes and dtypes of the results.
    """
    step: Any = jax.custom_vjp(lambda *arrays: _called(flat, avals, arrays))

    def forward(*primals: CustomVJPPrimal) -> tuple[list[jax.Array], Residuals]:
        arrays = tuple(p.value for p in primals)
        positions = _Which(k for k, p in enumerate(primals) if p.perturbed and _is_floating(p.value))
        return step(*arrays), (arrays, positions)

    def backward(
        residuals: Residuals, cotangents: Sequence[jax.Array | SymbolicZero]
    ) -> tuple[jax.Array | None, ...]:
        arrays, positions = residuals
        nonzero = _given(cotangents)
        if not positions or not nonzero:
            return (None,) * len(arrays)

        def pulled(*operands: iv.Tensor) -> list[iv.Tensor]:
            tensors, seeds = operands[: len(arrays)], operands[len(arrays) :]

            def of_variables(*variables: iv.Tensor) -> list[iv.Tensor]:
                outputs = flat(*_with(tensors, positions, variables))
                return [outputs[k] for k in nonzero]

            # JAX transposes; a cotangent here is the conjugate of one of JAX's.
            pulled_back = iv.vjp(of_variables, *(tensors[k] for k in positions))[1]
            return list(map(_conjugate, pulled_back(list(map(_conjugate, seeds)))))

        of = tuple(jax.ShapeDtypeStruct(arrays[k].shape, arrays[k].dtype) for k in positions)
        gradients = _with_pullback(pulled, of)(*arrays, *nonzero.values())
        grads = dict(zip(positions, gradients, strict=True))
        return tuple(grads.get(k) for k in range(len(arrays)))

    step.defvjp(forward, backward, symbolic_zeros=True)
    differentiable: Callable[..., list[Any]] = step
    return differentiable


def _with_pushforward(flat: Flat, avals: tuple[jax.ShapeDtypeStruct, ...]) -> Callable[..., list[jax.Array]]:
    """Function of JAX arrays that calls ``flat`` on the host, with a pushforward (forward mode) of any order.

    avals : shapes and dtypes of the results.
    """
    step: Any = jax.custom_jvp(lambda *arrays: _called(flat, avals, arrays))

    def rule(
        primals: Sequence[jax.Array], tangents: Sequence[jax.Array | SymbolicZero]
    ) -> tuple[list[jax.Array], list[jax.Array | NDArray]]:
        nonzero = _given(tangents)
        floating = [k for k, aval in enumerate(avals) if _is_floating(aval)]
        value = step(*primals)  # for itself: in a batch of tangents, it is not of the batch
        if not nonzero or not floating:
            return value, list(map(_zero_tangent, avals))

        def pushed(*operands: iv.Tensor) -> list[iv.Tensor]:
            tensors, along = operands[: len(primals)], operands[len(primals) :]

            def of_given(*variables: iv.Tensor) -> list[iv.Tensor]:
                outputs = flat(*_with(tensors, tuple(nonzero), variables))
                return [outputs[k] for k in floating]

            return list(iv.jvp(of_given, tuple(tensors[k] for k in nonzero), along)[1])

        of = tuple(avals[k] for k in floating)
        pushed_tangents = dict(
            zip(floating, _with_pushforward(pushed, of)(*primals, *nonzero.values()), strict=True)
        )
        return value, [
            pushed_tangents[k] if k in pushed_tangents else _zero_tangent(aval)
            for k, aval in enumerate(avals)
        ]

    step.defjvp(rule, symbolic_zeros=True)
    differentiable: Callable[..., list[Any]] = step
    return differentiable


def _conjugate(x: iv.Tensor) -> iv.Tensor:
    return iv.conj(x) if x.dtype.kind == "c" else x


def _given(derivatives: Sequence[jax.Array | SymbolicZero]) -> dict[int, jax.Array]:
    """Cotangents or tangents by their positions, without those that JAX knows to be zero."""
    return {
        k: g
        for k, g in enumerate(derivatives)
        if not isinstance(g, SymbolicZero) and g.dtype != jax.dtypes.float0
    }


def _with(
    tensors: Sequence[iv.Tensor], at: Sequence[int], replacements: Sequence[iv.Tensor]
) -> list[iv.Tensor]:
    result = list(tensors)
    for k, x in zip(at, replacements, strict=True):
        result[k] = x
    return result


def _is_floating(x: jax.Array | NDArray | jax.ShapeDtypeStruct) -> bool:
    return bool(jax.numpy.issubdtype(x.dtype, np.inexact))


def _zero_tangent(aval: jax.ShapeDtypeStruct) -> NDArray:
    dtype = aval.dtype if _is_floating(aval) else jax.dtypes.float0
    return np.zeros(aval.shape, dtype)


__all__ = ["from_jax", "to_jax", "wrap"]
