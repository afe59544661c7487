"""Subset checks: undefined cotangents, needed inputs and undefined tangents, all subsets or a sample.

The requests and the seeds of a call may change what runs, never the result: with some cotangents missing the
gradient is that for zeros in their place, and the gradient computed for some inputs alone is the one that is
computed for them together with the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from iverson.testing.analytic import Record
from iverson.testing.directions import Vector, random_direction, split
from iverson.testing.failure_report import Finding, GradcheckError
from iverson.testing.jacobians import Check

#: Above this number of subsets, a seeded sample is checked; of which, in fast mode.
LIMIT, FAST_LIMIT = 64, 16


def subsets(items: Sequence[int], rng: np.random.Generator, limit: int = LIMIT) -> list[tuple[int, ...]]:
    """All nonempty subsets, smallest first; above the limit, those of one or all-but-one and random ones.

    >>> subsets([0, 1], np.random.default_rng(0))
    [(0,), (1,), (0, 1)]
    """
    n = len(items)
    if 2**n <= limit:
        return [s for size in range(1, n + 1) for s in combinations(items, size)]
    selection: list[tuple[int, ...]] = [(k,) for k in items[: limit // 4]]
    selection += [tuple(j for j in items if j != k) for k in items[: limit // 4]]
    while len(selection) < limit:
        mask = rng.random(n) < rng.uniform(0.1, 0.9)
        if mask.any():
            selection.append(tuple(k for k, m in zip(items, mask, strict=True) if m))
    return list(dict.fromkeys(selection))


def check_subsets(check: Check) -> None:
    """Raise GradcheckError for the first subset of inputs or of cotangents that changes a gradient or
    tangent.
    """
    settings, record = check.settings, check.record
    everything = tuple(range(len(record.variables)))
    none: tuple[int, ...] = ()
    limit = FAST_LIMIT if settings.fast else LIMIT
    undefined = [none, *subsets(record.tracked, check.rng, limit)] if settings.check_undefined else [none]
    requested = subsets(everything, check.rng, limit) if settings.check_needs else [everything]
    w = random_direction(check.rng, record.size)
    references: dict[tuple[int, ...], dict[int, Vector]] = {}
    for without, variables in _pairs(undefined, requested, everything, check.rng, limit):
        if without not in references:
            references[without] = record.reverse(_without(record, w, without))
        _check_pair(check, w, without, variables, references[without])
    if settings.check_undefined and settings.check_forward and len(everything) > 1:
        _check_tangents(check)


def _pairs(
    undefined: list[tuple[int, ...]],
    requested: list[tuple[int, ...]],
    everything: tuple[int, ...],
    rng: np.random.Generator,
    limit: int,
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of a subset of undefined cotangents and a subset of requested variables, all to be checked.

    First each subset of one kind with everything of the other; then both kinds mixed, a random sample of them
    if there are more than ``limit``.
    """
    yield from ((without, everything) for without in undefined if without)
    yield from (((), variables) for variables in requested if variables != everything)
    mixed = [(u, n) for u in undefined if u for n in requested if n != everything]
    if len(mixed) > limit:
        mixed = [mixed[int(k)] for k in rng.choice(len(mixed), limit, replace=False)]
    yield from mixed


def _without(record: Record, w: Vector, undefined: Sequence[int]) -> Vector:
    """Cotangent ``w`` with zeros in place of the parts for the outputs in ``undefined``."""
    result = w.copy()
    start = 0
    for k, space in enumerate(record.spaces):
        if k in undefined:
            result[start : start + space.size] = 0.0
        start += space.size
    return result


def _check_pair(
    check: Check,
    w: Vector,
    undefined: tuple[int, ...],
    variables: tuple[int, ...],
    reference: dict[int, Vector],
) -> None:
    """Raise GradcheckError if gradients of ``variables`` with some cotangents undefined differ from
    ``reference``.

    reference : the gradients for zeros in place of the undefined cotangents.
    """
    record = check.record
    every = len(variables) == len(record.variables)
    modes = (["undefined cotangents"] if undefined else []) + ([] if every else ["needed inputs"])
    mode = " and ".join(modes)
    gradients = record.reverse(w, undefined=undefined, needed=variables, mode=mode)
    size = max((_size(x) for x in reference.values()), default=0.0)
    allowed = float(check.tolerances.rounding(size))
    for k in variables:
        worst = _disagreement(gradients[k], reference[k], np.full(reference[k].size, allowed))
        if worst is not None:
            measured = split(_measured(check, "reverse", _without(record, w, undefined)), record.input_spaces)
            worst = _disagreement(gradients[k], reference[k], np.maximum(allowed, measured[k]))
        if worst is None:
            continue
        v = record.variables[k]
        missing = ", ".join(record.outputs[j].name for j in undefined)
        names = ", ".join(record.variables[j].name for j in variables)
        conditions = [f"the cotangents of {missing} are never given (zero layout)"] if undefined else []
        conditions += [] if every else [f"only {names} is asked for"]
        finding = Finding(
            mode, v.name, "", v.space.locate(worst), None,
            float(gradients[k][worst]), float(reference[k][worst]),
            tolerance=allowed, diagnosis="wrong rule",
            explanation=f"the gradient must not change when {' and '.join(conditions)}",
        )  # fmt: skip
        raise GradcheckError.of(record.problem.operation, finding)


def _size(vector: Vector) -> float:
    return float(np.abs(vector[np.isfinite(vector)]).max(initial=0.0))


def _measured(check: Check, mode: str, at: Vector) -> Vector:
    """Measured rounding error of each component of a gradient or tangent, limited to what is accepted as
    rounding.
    """
    spread = check.rounding_reverse(at) if mode == "reverse" else check.rounding_forward(at)
    return np.minimum(spread, check.roundable(mode))


def _disagreement(values: Vector, reference: Vector, tolerance: Vector) -> int | None:
    """Coordinate at which ``values`` and ``reference`` differ most beyond ``tolerance``; None if they nowhere
    do.

    Coordinates with nan or inf in the reference are not compared.
    """
    with np.errstate(all="ignore"):
        difference = np.abs(values - reference)
    difference[~np.isfinite(reference)] = 0.0
    difference = np.nan_to_num(difference, nan=np.inf)
    excess = difference - tolerance
    if not excess.size or excess.max() <= 0:
        return None
    return int(np.argmax(excess))


def _check_tangents(check: Check) -> None:
    """Raise GradcheckError if undefined tangents do not give the same result as tangents of zeros."""
    record = check.record
    everything = range(len(record.variables))
    parts = [random_direction(check.rng, s.size) for s in record.input_spaces]
    for undefined in subsets(list(everything), check.rng):
        tangents = [np.zeros_like(p) if k in undefined else p for k, p in enumerate(parts)]
        tangent = np.concatenate(tangents)
        reference = record.forward(tangent)
        result = record.forward(tangent, undefined=undefined, mode="undefined tangents")
        allowed = float(check.tolerances.rounding(_size(reference)))
        worst = _disagreement(result, reference, np.full(reference.size, allowed))
        if worst is not None:
            measured = _measured(check, "forward", tangent)
            worst = _disagreement(result, reference, np.maximum(allowed, measured))
        if worst is not None:
            output, index = record.locate_output(worst)
            missing = ", ".join(record.variables[j].name for j in undefined)
            finding = Finding(
                "undefined tangents", "", output, None, index,
                float(result[worst]), float(reference[worst]),
                tolerance=allowed, diagnosis="wrong rule",
                explanation=f"the tangent must not change when those of {missing} are never given "
                "(zero layout) instead of zero",
            )  # fmt: skip
            raise GradcheckError.of(record.problem.operation, finding)
