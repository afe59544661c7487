"""JAX: arrays both ways, and any function of Iverson's as a step of a program that JAX traces.

`wrap` gives a function of JAX arrays that runs Iverson's on the host, by a primitive of JAX's: it has rules
for derivatives in both modes, transposes and batches, whose results are calls of the same primitive
(`derivative_steps`). So all of JAX's transforms apply, in any order. Which derivatives JAX asks for, and
which cotangents or tangents are zero for it, is known on both sides: what is not asked for is not computed.

>>> import jax, iverson as iv
>>> from iverson.interop.jax import wrap
>>> f = wrap(lambda x: (iv.sin(x) * x).sum())
>>> jax.grad(f)(jax.numpy.zeros(2))
Array([0., 0.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from math import factorial
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.aval import Aval
from iverson.core.dispatch import is_tracked
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.inputs.foreign_arrays import foreign
from iverson.core.protocols import DType, NDArray
from iverson.interop.array_checks import closed_over, leaving, supported
from iverson.interop.derivative_steps import (
    AnyStep,
    Mapped,
    Step,
    differentiable,
    pushforward,
    traced_results,
    transpose,
)
from iverson.interop.messages import Tree
from iverson.interop.wrapped_calls import WrappedCall
from iverson.transforms.trees import flatten, unflatten

try:
    import jax
    from jax.experimental import jet
    from jax.experimental.sparse import BCOO
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except ImportError as error:
    raise ImportError("iverson.interop.jax needs JAX: pip install jax") from error


def from_jax(x: jax.Array | BCOO, /, *, requires_grad: bool = False) -> iv.Tensor:
    """A JAX array, or a BCOO without batch axes, as a tensor of Iverson's; a BCOO is in the COO layout.

    Shares the memory of an array on the CPU, which neither side writes. Raises ArgumentTypeError for anything
    else, traced values included, and DTypeError for dtypes that Iverson does not have.

    >>> from_jax(jax.numpy.asarray([1.0, 2.0]))
    iverson.Tensor([1., 2.], dtype=float32)
    """
    if (tensor := foreign(x)) is not None:
        return iv.asarray(tensor, requires_grad=requires_grad)
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


def wrap(function: Callable[..., Tree], /, *, result: Tree | None = None) -> Callable[..., Any]:
    """A function of Iverson's tensors as a function of JAX arrays.

    Parameters
    ----------
    function : takes and returns pytrees of tensors, and has no other effect: JAX may call it as often as it
        likes. Of values, it is known only when it is called.
    result : a pytree of `jax.ShapeDtypeStruct` like what the function returns. By default the function is
        traced to find it; one whose Python code reads entries (``if x > 0``) can't be.

    Returns
    -------
    A function of the same arguments, in which JAX arrays (and NumPy's) stand for Iverson's tensors. All else
    in the arguments is handed over as it is. JAX's transforms apply in any order: ``jit``, ``grad``, ``jvp``,
    ``vjp``, ``linearize``, ``jacfwd``, ``jacrev``, ``hessian``, ``vmap``, ``checkpoint``, loops. A pullback
    runs the function again: JAX keeps arrays between the two, and not what was recorded. JAX arrays that the
    function reads from its surroundings are inputs, too, where JAX differentiates, maps or traces them.

    Raises
    ------
    GradientError : where a result depends on a tensor that tracks gradients and is no argument, and where a
        function that `iverson.jit` compiled, or one with ``result``, reads an array that JAX differentiates,
        maps or traces and that is no argument.
    ArgumentError : where the shape of the result is not known without entries, or is not that of ``result``.

    >>> dot = wrap(lambda a, b: (a * b).sum())
    >>> jax.jvp(dot, (jax.numpy.ones(3), jax.numpy.ones(3)), (jax.numpy.ones(3), jax.numpy.zeros(3)))[1]
    Array(3., dtype=float32)
    >>> jax.hessian(dot, (0, 1))(jax.numpy.ones(1), jax.numpy.ones(1))[0][1]
    Array([[1.]], dtype=float32)
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        wrapped = WrappedCall(
            function,
            args,
            kwargs,
            kinds=(jax.Array, np.ndarray),
            captured=jax.Array,
            constant=_constant,
            is_result=lambda x: True,
        )
        form = None
        if result is None:
            avals = wrapped.complete(
                lambda: traced_results(wrapped.flat, tuple(map(_aval, wrapped.arrays)), _RESULT_REMEDY)
            )
            avals = tuple(Aval(a.shape, _narrowed(a.dtype)) for a in avals)
        else:
            shapes, form = flatten(result)
            avals = tuple(map(_aval, shapes))
        wrapped.closed = True
        results = _bound(Step(wrapped.flat, tuple(map(_aval, wrapped.arrays)), avals), wrapped.arrays)
        return wrapped.rebuilt(results) if form is None else unflatten(form, results)

    return update_wrapper(call, function)


_RESULT_REMEDY = "pass result=, a pytree of jax.ShapeDtypeStruct like what it returns"


def _aval(x: jax.Array | NDArray | jax.ShapeDtypeStruct) -> Aval:
    return Aval(np.shape(x), np.dtype(x.dtype))


def _constant(x: jax.Array) -> iv.Tensor | None:
    return None if isinstance(x, jax.core.Tracer) else iv.asarray(_array(x, "from_jax"))


def _narrowed(dtype: DType) -> DType:
    """The dtype that JAX uses for ``dtype``: 32 bits instead of 64, unless ``jax_enable_x64`` is set."""
    narrowed: DType = jax.dtypes.canonicalize_dtype(dtype)
    return narrowed


# --- the primitive ---------------------------------------------------------------

#: Runs its parameter ``step`` on the host.
_primitive = Primitive("iverson")
_primitive.multiple_results = True


def _bound(step: AnyStep, operands: Sequence[jax.Array | NDArray]) -> list[jax.Array]:
    arrays: list[jax.Array] = _primitive.bind(*map(jax.numpy.asarray, operands), step=step)
    return arrays


def _on_host(step: AnyStep, *operands: jax.Array | NDArray) -> list[NDArray]:
    """Entries of the results of ``step``; raises ArgumentError unless they have the shapes that it says."""
    outputs = step.run(*(iv.asarray(np.asarray(x)) for x in operands))
    if any(map(is_tracked, outputs)):
        raise closed_over()
    for x, aval in zip(outputs, step.results, strict=True):
        if x.shape != aval.shape:
            raise ArgumentError(
                "wrap", "result", got=f"shape {x.shape} from the function", expected=f"shape {aval.shape}"
            )
    pairs = zip(outputs, step.results, strict=True)
    return [x.detach().numpy().astype(aval.dtype, copy=False) for x, aval in pairs]


def _called_back(*operands: jax.Array, step: AnyStep) -> list[jax.Array]:
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in step.results]
    results: list[Any] = jax.pure_callback(partial(_on_host, step), shapes, *operands)
    return results


def _pushed_forward(
    primals: Sequence[jax.Array], tangents: Sequence[jax.Array | ad.Zero], *, step: AnyStep
) -> tuple[list[jax.Array], list[jax.Array | ad.Zero]]:
    """Results of a step and their tangents."""
    results = _bound(step, primals)
    pushed: list[jax.Array | ad.Zero] = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    floating = differentiable(step.operands)
    at = [k for k in floating if not isinstance(tangents[k], ad.Zero)]
    if at and (of := differentiable(step.results)):
        derivative, count = pushforward(step, at)
        for k, t in zip(of, _bound(derivative, [*primals[:count], *(tangents[k] for k in at)]), strict=True):
            pushed[k] = t
    return results, pushed


def _transposed(
    cotangents: Sequence[jax.Array | ad.Zero], *operands: jax.Array | ad.UndefinedPrimal, step: AnyStep
) -> list[jax.Array | ad.Zero | None]:
    """Cotangents of the undefined operands. JAX pairs without conjugation, the steps with it."""
    first = len(operands) - step.linear
    at = [k for k, x in enumerate(operands) if ad.is_undefined_primal(x)]
    if not at or at[0] < first:
        raise ArgumentError(
            "wrap",
            "function",
            got="a transpose of the function itself",
            expected="one of its derivative: JAX doesn't know that the function is linear",
            remedy="transpose jax.linearize(f, x)[1]",
        )
    of = [k for k, g in enumerate(cotangents) if not isinstance(g, ad.Zero)]
    grads: list[jax.Array | ad.Zero | None] = [
        ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in operands
    ]
    seeds = [jax.numpy.conj(cotangents[k]) for k in of]
    pulled = _bound(transpose(step, [k - first for k in at], of), [*operands[:first], *seeds]) if of else []
    for k, g in zip(at, pulled, strict=False):
        grads[k] = jax.numpy.conj(g)
    return grads


def _batched(
    operands: Sequence[jax.Array], axes: Sequence[int | None], *, step: AnyStep
) -> tuple[list[jax.Array], list[int]]:
    """Results of a step for a batch of operands; operands in which it is linear are all of the batch."""
    size = next(x.shape[n] for x, n in zip(operands, axes, strict=True) if n is not None)
    first = len(operands) - step.linear
    in_front = [
        x if n is None and k < first else batching.bdim_at_front(x, n, size)
        for k, (x, n) in enumerate(zip(operands, axes, strict=True))
    ]
    mapped = Mapped(step, size, tuple(None if n is None and k < first else 0 for k, n in enumerate(axes)))
    return _bound(mapped, in_front), [0] * len(step.results)


def _taylor(
    primals: Sequence[jax.Array], series: Sequence[Sequence[jax.Array]], *, step: AnyStep
) -> tuple[list[jax.Array], list[list[jax.Array]]]:
    """Results of a step and their Taylor coefficients along a curve with the coefficients ``series``."""

    def along(t: jax.Array) -> list[jax.Array]:
        terms = [[c * t ** (k + 1) for k, c in enumerate(cs)] for cs in series]
        return _bound(step, [sum(cs, start=x).astype(x.dtype) for x, cs in zip(primals, terms, strict=True)])

    def derivative(f: Callable[[jax.Array], list[jax.Array]]) -> Callable[[jax.Array], list[jax.Array]]:
        return lambda t: list(jax.jvp(f, (t,), (jax.numpy.ones_like(t),))[1])

    orders: list[Callable[[Any], list[jax.Array]]] = [along]
    for _ in series[0]:
        orders.append(derivative(orders[-1]))
    zero = jax.numpy.zeros(())
    results, *higher = (f(zero) for f in orders)
    return results, [[c / factorial(k + 1) for k, c in enumerate(cs)] for cs in zip(*higher, strict=True)]


_primitive.def_impl(lambda *xs, step: list(map(jax.numpy.asarray, _on_host(step, *xs))))
_primitive.def_abstract_eval(lambda *xs, step: [jax.core.ShapedArray(a.shape, a.dtype) for a in step.results])
mlir.register_lowering(_primitive, mlir.lower_fun(_called_back, multiple_results=True))
ad.primitive_jvps[_primitive] = _pushed_forward
ad.primitive_transposes[_primitive] = _transposed
batching.primitive_batchers[_primitive] = _batched
jet.jet_rules[_primitive] = _taylor

__all__ = ["from_jax", "to_jax", "wrap"]
