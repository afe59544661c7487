"""Derivatives under test: one recorded call, pulled back and pushed forward.

The graph is the one that the user's function records on the user's own inputs; both modes walk it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.autograd.engine import reverse
from iverson.autograd.forward import push
from iverson.core.counting import work
from iverson.core.dispatch import make_handle, value_of
from iverson.core.entries import FULL
from iverson.core.region import Region
from iverson.layouts import Box
from iverson.testing.directions import Space, Vector, split
from iverson.testing.failure_report import Finding, GradcheckError, blaming
from iverson.testing.perturbation import Output, Problem, Variable

if TYPE_CHECKING:
    from iverson.handles import Tensor
    from iverson.testing.perturbation import Slot

_RANK = {"float32": 1, "complex64": 1, "float64": 2, "complex128": 2}


class Record:
    """One recorded call of the function under test: its variables, its checked outputs, and their
    derivatives.

    constants : True if outputs that depend on no variable are checked, too.
    sparse_seeds : True if the seeds of `row` and `column` are boxes of one entry, and all other cotangents or
        tangents are undefined. Then nothing is ever multiplied by a zero, as infinite derivatives elsewhere
        require.
    """

    def __init__(self, problem: Problem, constants: bool, sparse_seeds: bool = False) -> None:
        self.problem = problem
        self.constants = constants
        self.spec, self.all_outputs = problem.own()
        self.variables: tuple[Variable, ...] = problem.variables
        self.outputs: tuple[Output, ...] = tuple(
            o for o in self.all_outputs if o.checked and (constants or o.slot is not None)
        )
        self.spaces = tuple(o.space for o in self.outputs)
        self.size = sum(s.size for s in self.spaces)
        self.input_spaces: tuple[Space, ...] = tuple(v.space for v in self.variables)
        self.tracked = tuple(k for k, o in enumerate(self.outputs) if o.slot is not None)
        self.sparse_seeds = sparse_seeds
        self.values = self.vector(self.outputs)
        self._without_casts: set[Any] = set()  # structures of passes whose dtypes were looked at

    @staticmethod
    def vector(outputs: Sequence[Output]) -> Vector:
        """Coordinates of all outputs in one vector, in the order of the outputs."""
        return np.concatenate([np.zeros(0), *(o.space.coordinates(o.value) for o in outputs)])

    def reverse(
        self,
        cotangent: Vector,
        *,
        undefined: Collection[int] = (),
        needed: Sequence[int] | None = None,
        mode: str = "reverse",
        casts: bool = True,
    ) -> dict[int, Vector]:
        """Gradient of each needed variable, by its number, for a cotangent of all outputs.

        undefined : numbers of the outputs whose cotangent is not passed to the pass at all.
        needed : numbers of the variables that are asked for (default: all).
        mode : the check that the pass belongs to, for errors.
        casts : True to raise GradcheckError for rules that give fewer digits than come in.
        """
        parts = split(cotangent, self.spaces)
        seeds = [
            (slot, self.spaces[k].handle(parts[k]))
            for k in self.tracked
            if k not in undefined and (slot := self.outputs[k].slot) is not None
        ]
        return self._pull(seeds, needed, mode, casts)

    def row(self, output: int, coordinate: int) -> Vector:
        """Row of the Jacobian: the gradient, in all variables, of one coordinate of one output."""
        if self.outputs[output].slot is None:
            return np.zeros(sum(s.size for s in self.input_spaces))
        space = self.spaces[output]
        if self.sparse_seeds:
            seeds: Any = [(self.outputs[output].slot, _unit_box(space, coordinate))]
            gradients = self._pull(seeds, None, "reverse")
        else:
            start = sum(s.size for s in self.spaces[:output])
            cotangent = np.zeros(self.size)
            cotangent[start + coordinate] = 1.0
            return self.pulled(cotangent)  # passes over all outputs look at casts
        return np.concatenate([gradients[k] for k in range(len(self.variables))])

    def _pull(
        self,
        seeds: Sequence[tuple[Slot, Tensor]],
        requested: Sequence[int] | None,
        mode: str,
        casts: bool = True,
    ) -> dict[int, Vector]:
        """Gradient by variable number from a reverse pass; an error in the pass is raised as GradcheckError.

        requested : numbers of the variables; None for all.
        """
        numbers = range(len(self.variables)) if requested is None else requested
        targets = {self.variables[k].slot: FULL for k in numbers}
        with blaming(self.problem.operation, mode, "the reverse pass"):
            structure = tuple(slot for slot, _ in seeds), tuple(numbers)
            if casts and structure not in self._without_casts:
                with work.counting() as operations:
                    gradients = reverse(list(seeds), targets, create_graph=False)
                self._check_casts(operations)
                self._without_casts.add(structure)
            else:
                gradients = reverse(list(seeds), targets, create_graph=False)
            return {k: self._received(k, gradients.get(self.variables[k].slot)) for k in numbers}

    def _received(self, k: int, gradient: Tensor | None) -> Vector:
        """Coordinates of the gradient of variable ``k``, zeros for None; GradcheckError for a wrong shape or
        dtype.
        """
        v = self.variables[k]
        if gradient is None:
            return np.zeros(v.space.size)
        for mode, actual, expected in (
            ("shape", gradient.shape, v.space.shape),
            ("dtype", gradient.dtype, v.space.dtype),
        ):
            if actual != expected:
                raise GradcheckError.of(
                    self.problem.operation,
                    Finding(mode, v.name, explanation="correct the rule"),
                    got=f"a gradient of {mode} {actual}",
                    expected=f"{mode} {expected}, that of the input",
                )
        return v.space.coordinates(value_of(gradient))

    def _check_casts(self, operations: work.Work) -> None:
        """Raise GradcheckError if the engine had to cast a gradient to more digits: a rule gave fewer than
        came in.
        """
        for where, gradient_dtype, input_dtype, cotangent_dtypes in sorted(operations.casts, key=str):
            digits = min(_RANK.get(input_dtype, 0), *(_RANK.get(d, 2) for d in cotangent_dtypes))
            if _RANK.get(gradient_dtype, 0) < digits:
                raise GradcheckError.of(
                    self.problem.operation,
                    Finding("dtype", explanation="return the gradient in its input's dtype"),
                    got=f"a gradient of dtype {gradient_dtype} from {where}",
                    expected=f"dtype {input_dtype}, that of the input",
                )

    def forward(self, tangent: Vector, *, undefined: Collection[int] = (), mode: str = "forward") -> Vector:
        """Tangent of all outputs, for a tangent of all variables.

        undefined : numbers of the variables whose tangent is not passed to the pass at all.
        mode : the check that the pass belongs to, for errors.
        """
        parts = split(tangent, self.input_spaces)
        tangents = {
            v.slot: v.space.handle(part)
            for k, (v, part) in enumerate(zip(self.variables, parts, strict=True))
            if k not in undefined
        }
        return self._push(tangents, mode)

    def _push(self, tangents: dict[Slot, Tensor], mode: str) -> Vector:
        slots = [o.slot for o in self.outputs if o.slot is not None]
        with blaming(self.problem.operation, mode, "the forward derivative"):
            pushed = push(slots, tangents, create_graph=False)
            return np.concatenate([np.zeros(0), *(self._pushed(o, pushed) for o in self.outputs)])

    def _pushed(self, output: Output, pushed: Mapping[Slot, Tensor]) -> Vector:
        """Coordinates of the tangent of ``output``, zeros if there is none; GradcheckError for a wrong shape
        or dtype.
        """
        tangent = None if output.slot is None else pushed.get(output.slot)
        if tangent is None:
            return np.zeros(output.space.size)
        for mode, actual, expected in (
            ("shape", tangent.shape, output.space.shape),
            ("dtype", tangent.dtype, output.space.dtype),
        ):
            if actual != expected:
                raise GradcheckError.of(
                    self.problem.operation,
                    Finding(mode, output=output.name, explanation="correct the jvp"),
                    got=f"a tangent of {mode} {actual} for {output.name}",
                    expected=f"{mode} {expected}",
                )
        return output.space.coordinates(value_of(tangent))

    def column(self, variable: int, coordinate: int) -> Vector:
        """Column of the Jacobian: the tangent of all outputs along one coordinate of one variable."""
        space = self.input_spaces[variable]
        if self.sparse_seeds:
            return self._push({self.variables[variable].slot: _unit_box(space, coordinate)}, "forward")
        return self.forward(self.embed(variable, space.unit(coordinate)))

    def pulled(self, cotangent: Vector) -> Vector:
        """Gradient in all variables as one vector, for a cotangent of all outputs."""
        gradients = self.reverse(cotangent, casts=False)
        return np.concatenate([np.zeros(0), *(gradients[k] for k in range(len(self.variables)))])

    def nearby(self, points: Sequence[Vector]) -> Record:
        """New record of the function at other points, one for each variable."""
        return Record(self.problem.moved(points), self.constants, self.sparse_seeds)

    def embed(self, variable: int, direction: Vector) -> Vector:
        """Vector of all variables that is ``direction`` in one variable and zero in the others."""
        parts = [np.zeros(s.size) for s in self.input_spaces]
        parts[variable] = direction
        return np.concatenate(parts)

    def locate_output(self, coordinate: int) -> tuple[str, tuple[Any, ...]]:
        """Name of the output, and the index of its entry, that a position in the vector of all outputs
        belongs to.
        """
        for output in self.outputs:
            if coordinate < output.space.size:
                return output.name, output.space.locate(coordinate)
            coordinate -= output.space.size
        raise IndexError(coordinate)


def _unit_box(space: Space, coordinate: int) -> Tensor:
    """Cotangent or tangent that is 1 at one coordinate, in the box layout (strided at rank 0)."""
    unit = space.array(space.unit(coordinate))
    if not space.shape:
        entry: Tensor = make_handle(unit)
        return entry
    start = space.entry(coordinate)
    region = Region(start, tuple(k + 1 for k in start))
    box: Tensor = make_handle(Box(space.shape, region, unit[region.slices].copy()))
    return box
