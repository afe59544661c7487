"""`gradcheck` and `gradgradcheck`: checks of a function's derivatives against difference quotients.

One call runs all checks, in this order: determinism, values on copies of the inputs, both modes against
quotients (`jacobians` in slow mode, `fast_mode` in fast mode), each against the other, and `subsets`. The
interface follows PyTorch's functions of the same names; fast mode does not (see `fast_mode`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from iverson.autograd import grad
from iverson.core.dispatch import Handle, alias, is_tracked, make_handle, slot_of, unwrap
from iverson.core.errors import ArgumentError
from iverson.core.inputs.aliases import EITHER, Alias, also_called, flag, only
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import DType
from iverson.testing.analytic import Record
from iverson.testing.determinism import check_determinism
from iverson.testing.directions import lowest
from iverson.testing.failure_report import GradcheckError
from iverson.testing.fast_mode import check_fast
from iverson.testing.jacobians import Check, check_slow
from iverson.testing.masked import as_masked, check_unspecified, other_semantics
from iverson.testing.numerical import Numerical
from iverson.testing.perturbation import Inputs, Outputs, Problem, Tree, flatten_outputs
from iverson.testing.semantics import with_semantics
from iverson.testing.settings import Options, Settings, Tolerances
from iverson.testing.subsets import check_subsets

if TYPE_CHECKING:
    from iverson.handles import Tensor
    from iverson.handles.array import Array

#: PyTorch's names.
_PYTORCHS = {
    "func": Alias("fn"),
    "fast_mode": flag("fast"),
    "check_forward_ad": flag("check_forward"),
    "check_undefined_grad": flag("check_undefined"),
    "check_grad_dtypes": EITHER,  # no pass gives a gradient of another dtype
    "check_backward_ad": only(True, "reverse mode is always checked"),
    "check_batched_grad": only(False, "check the mapped function: gradcheck(iverson.vmap(fn), stacked)"),
    "check_batched_forward_grad": only(
        False, "check the mapped function: gradcheck(iverson.vmap(fn), stacked)"
    ),
}


@also_called(**_PYTORCHS)
@checked
def gradcheck(
    fn: Callable[..., Outputs],
    inputs: Inputs,
    *,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    fast: bool = False,
    raise_exception: bool = True,
    check_forward: bool = True,
    check_undefined: bool = True,
    check_needs: bool = True,
    check_determinism: bool = True,
    check_smoothness: bool = True,
    check_constant_outputs: bool = True,
    allow_nonfinite: bool = False,
    nondet_tol: float = 0.0,
    exact_rtol: float | None = None,
    directions: int = 3,
    seed: int = 0,
    masked: bool = False,
    project: Callable[..., Inputs] | None = None,
) -> bool:
    """True if the derivatives of ``fn`` at ``inputs`` are right, in reverse and in forward mode.

    Parameters
    ----------
    fn : called as ``fn(*inputs)``; returns a Tensor or a pytree in which Tensors are checked and anything
        else (None, numbers) is left alone.
    inputs : a tuple or list of arguments, or a single one: pytrees of Tensors of any shape and layout and
        of anything else. Tensors that require grad are differentiated in, every entry of them, stored or
        not; all else is passed on as it is. They come back unchanged, also if ``fn`` raises; a ``fn`` that
        changes one of them (an entry, an array, what a tensor stands for) is refused.
    eps : the step for an entry of magnitude 1. Default: 2**-20, about 1e-6 (quotients of functions of
        single precision are taken in double precision, where ``fn`` follows its inputs' dtype).
    atol, rtol : ``|analytic - numerical| <= atol + rtol |numerical|`` is required of each entry. Defaults:
        1e-7 and 1e-5; 1e-5 and 2e-4 for single precision. The default of ``atol`` is for derivatives of the
        order of 1: where all in an entry's row and column are smaller, it is that part of the largest. Where
        the quotients are not as good as that, by rounding as measured, up to ``rtol`` of the largest is let
        pass.
    fast : random directions instead of full Jacobians: a number of calls that does not grow with the size.
    raise_exception : whether to raise for what is wrong (whatever it is) or to return False.
    check_forward : check forward mode, and that <v, J^T w> = <J v, w> to rounding.
    check_undefined : check every subset of cotangents (and tangents) that are never given.
    check_needs : check every subset of inputs asked for. Above 64 subsets, a sample of each kind.
    check_determinism : require the same bits from a second call and from a second pass.
    check_smoothness : refuse a point at which ``fn`` has a kink or a jump, even if the rule gives the mean
        of the one-sided derivatives.
    check_constant_outputs : require that an output which isn't recorded doesn't depend on the inputs.
    allow_nonfinite : leave out the entries of the Jacobian at which the quotient is nan or inf; the others
        must still be finite and right. Slow mode is used, which then pulls each entry back alone.
    nondet_tol : how far results of equal calls may differ.
    exact_rtol : what "to rounding" means, relative to the sizes of the terms (1e-11; 2e-5 for single). Where
        terms cancel inside a rule, its rounding is measured (see `iverson.testing.rounding`).
    directions : how many random directions fast mode takes per input.
    seed : of all random choices.
    masked : hand each sparse input over as ``masked_tensor(x)``: its stored entries are all there are.
    project : keeps perturbations in a set on which ``fn`` is differentiable (symmetric matrices, those of a
        fixed rank): called as ``project(*inputs)``, it returns the nearest inputs in the set, and those given
        must lie in it. Derivatives are then compared along the directions that do not leave the set.

    PyTorch's names are taken too: ``func``, ``fast_mode``, ``check_forward_ad`` and ``check_undefined_grad``
    are ``fn``, ``fast``, ``check_forward`` and ``check_undefined``. ``check_backward_ad`` must be True, and
    dtypes of gradients are always checked (``check_grad_dtypes``). ``check_batched_grad`` and
    ``check_batched_forward_grad`` must be False: check ``iverson.vmap(fn)`` itself.

    What is perturbed follows from the type of an input. A regular tensor, in whatever layout, has a
    derivative in every entry, a masked one in its specified entries. There it is also checked that results
    are the same with other numbers (nan) at the unspecified entries, and that masks of results do not move.
    Where derivatives are of the orders 1e8 and 1e-8, an error in the small ones is seen where they are those
    of outputs of their own: by both modes where nothing else depends on that input, by fast mode also beside
    a large derivative in the same input. In one sum with large terms no difference quotient has them: they
    are below its rounding, and neither mode sees an error there.

    For a sparse or masked input a failure says which contract broke, the value on the pattern or the support
    off it, and what the derivative is in the other semantics.

    Returns True. Raises `GradcheckError` with the worst entry and a diagnosis; ArgumentError if no input
    requires grad, one was computed from another, or ``project`` moves them; whatever ``fn`` raises at
    ``inputs``.

    Complex gradients follow the conjugate Wirtinger convention, as in PyTorch: for real L, the gradient is
    dL/d(real part) + i dL/d(imaginary part).

    >>> import iverson as iv
    >>> x = iv.asarray([1.0, 2.0], requires_grad=True)
    >>> gradcheck(lambda x: x * x, (x,))
    True
    """
    settings = Settings(
        eps, atol, rtol, fast, raise_exception, check_forward, check_undefined, check_needs,
        check_determinism, check_smoothness, check_constant_outputs, allow_nonfinite, nondet_tol,
        exact_rtol, directions, seed,
    )  # fmt: skip

    def problem(arguments: Inputs) -> Problem:
        result = Problem(fn, arguments, "gradcheck", project=project)
        check_unspecified(result, exact_rtol)
        return result

    return _guarded(problem, inputs, masked, settings)


@also_called(
    **_PYTORCHS,
    check_fwd_over_rev=flag("check_forward"),
    check_rev_over_rev=only(True, "reverse mode is always checked"),
    gen_non_contig_grad_outputs=only(False, "pass such cotangents as grad_outputs"),
)
@checked
def gradgradcheck(
    fn: Callable[..., Outputs],
    inputs: Inputs,
    grad_outputs: Array | Sequence[Array] | None = None,
    masked: bool = False,
    project: Callable[..., Inputs] | None = None,
    **options: Unpack[Options],
) -> bool:
    """True if the second derivatives of ``fn`` are right: `gradcheck` of its gradient.

    Parameters
    ----------
    fn, inputs : as in `gradcheck`.
    grad_outputs : cotangents of the outputs that are recorded (a Tensor or a sequence of them), by default
        random ones. The gradient is checked in them too, if they require grad, as the default does.
    masked, project : as in `gradcheck`.
    options : those of `gradcheck`, by PyTorch's names too. ``check_fwd_over_rev`` is ``check_forward``;
        ``check_rev_over_rev`` must be True, and ``gen_non_contig_grad_outputs`` False.

    Returns True. Raises as `gradcheck` does. First derivatives are taken as they are: check them first.

    >>> import iverson as iv
    >>> x = iv.asarray([1.0, 2.0], requires_grad=True)
    >>> gradgradcheck(lambda x: x * x * x, (x,))
    True
    """
    settings = Settings(**options)
    return _guarded(
        lambda arguments: _second_order(fn, arguments, grad_outputs, settings.seed, project),
        inputs,
        masked,
        settings,
    )


def _guarded(problem: Callable[[Inputs], Problem], inputs: Inputs, masked: bool, settings: Settings) -> bool:
    """Return True if the derivatives are right; otherwise raise GradcheckError, or return False if settings
    say so.

    problem : makes the problem to check from inputs. masked : True to check sparse inputs as masked tensors.
    """
    arguments = as_masked(inputs) if masked else inputs
    try:
        instance = problem(arguments)
        try:
            _check(instance, settings)
        except GradcheckError as error:
            fuller_error = with_semantics(
                error, instance, lambda: problem(other_semantics(arguments)), settings.eps
            )
            if fuller_error is error:
                raise
            raise fuller_error from error.__cause__
    except Exception:
        if settings.raise_exception:
            raise
        return False
    return True


def _check(problem: Problem, settings: Settings) -> None:
    """Run all checks of ``problem``, in order; raises GradcheckError at the first one that fails."""
    with np.errstate(all="ignore"):
        record = Record(problem, settings.check_constant_outputs, settings.allow_nonfinite)
        spaces = (*record.spaces, *record.input_spaces)
        rng = np.random.default_rng(settings.seed)
        if settings.check_determinism:
            check_determinism(record, settings, rng)
        numerical = Numerical(record, settings.eps)
        tolerances = Tolerances.of(settings, lowest(spaces), numerical.precision)
        check = Check(record, numerical, settings, tolerances, rng)
        if settings.fast and not settings.allow_nonfinite:
            check_fast(check)
        else:
            check_slow(check)
        check_subsets(check)


def _second_order(
    fn: Callable[..., Outputs],
    inputs: Inputs,
    grad_outputs: Array | Sequence[Array] | None,
    seed: int,
    project: Callable[..., Inputs] | None = None,
) -> Problem:
    """Problem for second derivatives: the function ``(inputs, cotangents) -> gradients`` of the first ones.

    grad_outputs : the cotangents; random ones, from ``seed``, if None.
    """
    import optree

    operation = "gradgradcheck"
    first = Problem(fn, inputs, operation)
    record = Record(first, constants=False)
    names = [v.name for v in first.variables]
    if grad_outputs is None:
        rng = np.random.default_rng(seed)
        cotangents: tuple[Array, ...] = tuple(
            _draw(rng, o.value.shape, o.value.dtype).requires_grad_() for o in record.outputs
        )
    else:
        sequence = grad_outputs if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
        cotangents = tuple(sequence)
    if len(cotangents) != len(record.outputs):
        raise ArgumentError(
            operation,
            "grad_outputs",
            got=f"{len(cotangents)} of them",
            expected=f"one for each of the {len(record.outputs)} recorded outputs",
        )

    def gradient(args: tuple[Tree, ...], cotangents: tuple[Array, ...]) -> tuple[Tensor, ...]:
        tree: Any = args
        leaves = [x for x in optree.tree_leaves(tree) if isinstance(x, Handle)]
        variables = {slot_of(x): x for x in leaves if is_tracked(x)}
        # The function may rebind its inputs; their handles must stand for what they were.
        aliases = [alias(x) for x in variables.values()]
        named_outputs, _ = flatten_outputs(fn(*args))
        outputs = [y for y in (unwrap(y) for _, y in named_outputs) if is_tracked(y)]
        return tuple(grad(outputs, aliases, list(cotangents), create_graph=True))

    def name(path: str) -> str:
        """Name, for the user, of a path into the inputs and outputs of the wrapped function."""
        if path.startswith("inputs[0]"):
            return "inputs" + path[len("inputs[0]") :]
        if path.startswith("inputs[1]"):
            return "grad_outputs" + path[len("inputs[1]") :]
        return f"gradient in {names[int(path[len('outputs[') : -1])]}"

    def projected(
        args: tuple[Tree, ...], cotangents: tuple[Array, ...]
    ) -> tuple[tuple[Tree, ...], tuple[Array, ...]]:
        assert project is not None
        projection: Any = project(*args)
        single = len(args) == 1 and type(projection) not in (tuple, list)
        return ((projection,) if single else tuple(projection)), cotangents

    within = None if project is None else projected
    return Problem(gradient, (first.args, cotangents), operation, name, within)


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Tensor:
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    tensor: Tensor = make_handle(np.asarray(values).astype(dtype))
    return tensor
