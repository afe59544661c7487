"""A workload said once as a tensor expression and once per peer: forward, and forward plus all gradients.

`pair` turns an `Op` into its two workloads. The ops themselves are in `benchmarks.workloads.te_*`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.workload import (
    GRADIENT_BUDGET,
    OURS_FORWARD,
    Call,
    Inputs,
    UnavailableError,
    Workload,
)


@dataclass(frozen=True, kw_only=True)
class Op:
    """One operation over named arrays.

    Attributes:
        name, sizes, size_is, draw, make, kinked: as in a `Workload`; the floating inputs are what is
            differentiated.
        define: from placeholders by name to the tensor expression.
        torch, jax: from the arrays by name to the result.
        target: by peer, the largest ratio for the forward; the same holds with all gradients.
        group: as in a `Workload`.
        unrolled: whether torch's version is a loop in Python: compiling it would write out every step.
        numba: gives two functions of the arrays in order, compiled by numba, where the others have little to
            set against: the forward; and with a head after the arrays, the forward and all gradients.
    """

    name: str
    sizes: tuple[int, int, int]
    size_is: str
    draw: Callable[[np.random.Generator], int | np.integer]
    make: Callable[[int, np.random.Generator], Inputs]
    define: Callable[..., Any]
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    kinked: bool = False
    target: Mapping[str, float] = field(default_factory=dict)
    group: str = ""
    unrolled: bool = False
    numba: Callable[[], Any] | None = None


def pair(op: Op) -> tuple[Workload, Workload]:
    """The op's forward, and its forward and all gradients."""

    def with_head(size: int, rng: np.random.Generator) -> Inputs:
        inputs = dict(op.make(size, rng))
        shape = define(op, inputs)[1].shape
        inputs[HEAD] = rng.standard_normal(shape, dtype=np.float32)
        return inputs

    budget = {OURS_FORWARD: 1 + GRADIENT_BUDGET}
    common: dict[str, Any] = {"sizes": op.sizes, "size_is": op.size_is, "draw": op.draw, "kinked": op.kinked}
    common["group"] = op.group
    forward = {
        "iverson": lambda inputs: with_iverson(op, inputs),
        "torch": lambda inputs: with_torch(op.torch, inputs),
        "torch compile": lambda inputs: with_torch(compiled(op.torch), inputs),
        "jax": lambda inputs: with_jax(op.jax, inputs),
    }
    if op.unrolled:
        del forward["torch compile"]
    if op.numba is not None:
        forward["numba"] = lambda inputs: with_numba(op.numba, inputs)
    part = {OURS_FORWARD: lambda inputs: with_iverson(op, inputs, part=True)}
    return (
        Workload(name=op.name, make=op.make, run=forward, target=op.target, **common),
        Workload(
            name=f"{op.name}_gradients",
            make=with_head,
            run=forward | part,
            part=frozenset(part),
            target={**op.target, **budget},
            **common,
        ),
    )


HEAD = "head"


def floating(inputs: Inputs) -> list[str]:
    """The inputs that are differentiated."""
    return [name for name, array in inputs.items() if array.dtype.kind == "f" and name != HEAD]


def define(op: Op, inputs: Inputs) -> tuple[dict[str, Any], Any]:
    """Placeholders by name, and the expression."""
    from iverson import te

    given = {name: te.placeholder(a.shape, a.dtype.name, name) for name, a in inputs.items() if name != HEAD}
    return given, op.define(**given)


def program_for(op: Op, inputs: Inputs, *, part: bool = False) -> tuple[Any, list[np.ndarray]]:
    """A program, and the arrays it takes; with a head among the inputs it returns the gradients as well."""
    from iverson import te

    given, out = define(op, inputs)
    arrays = [inputs[name] for name in given]
    placeholders, results = list(given.values()), [out]
    if HEAD in inputs and not part:
        head = te.placeholder(out.shape, "float32", HEAD)
        results += te.differentiate(out, [given[name] for name in floating(inputs)], head)
        placeholders.append(head)
        arrays.append(inputs[HEAD])
    return te.program_of(results, placeholders), arrays


def with_iverson(op: Op, inputs: Inputs, *, part: bool = False) -> Call:
    """`program_for`, compiled."""
    from iverson import te
    from iverson.te.lowering.statement_lowering import lower

    program, arrays = program_for(op, inputs, part=part)
    compiled = lower(te.eliminate(program))
    return lambda: compiled(*arrays)


def with_torch(function: Callable[..., Any], inputs: Inputs) -> Call:
    """Eagerly, or compiled if the function is; without a head nothing is recorded."""
    import torch

    wanted = floating(inputs) if HEAD in inputs else []
    given = {
        name: torch.tensor(array, requires_grad=name in wanted)
        for name, array in inputs.items()
        if name != HEAD
    }
    if HEAD not in inputs:

        def forward() -> Any:
            with torch.no_grad():
                return function(**given)

        return forward
    head = torch.tensor(inputs[HEAD])

    def both() -> Any:
        out = function(**given)
        return [out, *torch.autograd.grad(out, [given[name] for name in wanted], head)]

    return both


def with_numba(make: Any, inputs: Inputs) -> Call:
    """One of the two functions, by whether there is a head."""
    forward, both = make()
    function, arrays = both if HEAD in inputs else forward, list(inputs.values())
    return lambda: function(*arrays)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile of a function; UnavailableError where it cannot compile it here."""
    import torch

    made = torch.compile(function, dynamic=False)

    def checked(**given: Any) -> Any:
        try:
            return made(**given)
        except torch._dynamo.exc.TorchDynamoException as error:
            raise UnavailableError(f"torch.compile: {type(error).__name__}") from None

    return checked


def with_jax(function: Callable[..., Any], inputs: Inputs) -> Call:
    """Under jax.jit; with a head it returns the gradients as well."""
    import jax

    given = {name: jax.numpy.asarray(array) for name, array in inputs.items()}
    head = given.pop(HEAD, None)
    wanted = floating(inputs)

    @jax.jit
    def program(arrays: dict[str, Any], head: Any) -> Any:
        if head is None:
            return function(**arrays)
        fixed = {name: a for name, a in arrays.items() if name not in wanted}
        moving = tuple(arrays[name] for name in wanted)
        out, pull = jax.vjp(lambda *m: function(**fixed, **dict(zip(wanted, m, strict=True))), *moving)
        return [out, *pull(head)]

    return lambda: jax.block_until_ready(program(given, head))
