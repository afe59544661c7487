"""Data model of a report: steps, and pieces of work that were avoided, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from iverson.core.counting.cost import Cost
from iverson.graph.ir.nodes import Equation, Graph

#: The reasons, and what each means.
REASONS = {
    "undefined": "no cotangent arrived, or it is structurally zero",
    "not needed": "nobody asked for it",
    "box": "zero, or not read, outside of a box",
    "pattern": "zero, or not read, outside of stored entries",
    "bracket": "left out by a selection, which is not applied",
    "mask": "entries that do not exist",
    "common": "computed once already",
    "dead": "nobody reads the result",
    "constant": "computed while compiling",
    "algebra": "the same as something simpler",
    "collapsed": "summed before it is multiplied",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's source.

    text : the line itself, empty where it cannot be read.
    """

    file: str
    number: int
    text: str

    @property
    def address(self) -> str:
        """The file's name and the number."""
        return f"{self.file.rpartition('/')[2]}:{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Equation that was carried out, with its work.

    text : the equation, without types.
    types : dtype and shape of each result.
    layouts : layout of each result in the run, with the number of stored entries if not all are stored.
    done, avoided : the work that was done, and the work that shapes alone would require beyond that.
    reason : the kind of zeros in operands or results because of which work was avoided; "" if none was.
    seconds : the least time of several runs; None if it was not timed.
    bodies : the graphs that it runs.
    """

    equation: Equation
    text: str
    types: tuple[str, ...]
    layouts: tuple[str, ...]
    done: Cost
    avoided: Cost
    reason: str
    line: Line | None
    seconds: float | None = None
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """Graph that a step runs, with the cost of one run by its types.

    The values decide the number of runs, and which of two branches is run.
    text : its name and inputs.
    """

    text: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Work that was avoided.

    what : in words.
    equation : the one that is not carried out, or of which this is a part or a cotangent.
    of_cotangent : whether it is of a cotangent of one of the equation's inputs.
    """

    reason: str
    what: str
    cost: Cost
    line: Line | None = None
    equation: Equation | None = None
    of_cotangent: bool = False


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A step of a compiled program: native code between two library steps, or one of these.

    kind : "native", "library", or "program" for a compiled function that is called.
    what : how many nests and products there are in it, the op, or the function.
    depth : 0, or more for a step of what the step before of smaller depth runs.
    """

    kind: str
    what: str
    depth: int = 0


@dataclass(slots=True)
class LineTotal:
    """Work of a line of the user's source, forward and backward; of line None, work that no line asked for.

    share : of the time of all lines, if steps were timed; else of their multiply-adds and entries.
    """

    line: Line | None
    cost: Cost = field(default_factory=Cost)
    avoided: Cost = field(default_factory=Cost)
    seconds: float | None = None
    share: float = 0.0

    @property
    def weight(self) -> float:
        """Amount that the share is of."""
        return self.cost.multiply_adds + self.cost.entries if self.seconds is None else self.seconds

    @property
    def address(self) -> str:
        """That of the line."""
        return self.line.address if self.line else "elsewhere"


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Account of one call of a function: the data of a report.

    traced, graph : the graph as it was traced, and after all passes, as it runs.
    gone : equations of ``traced`` that do not run, each with the reason.
    compiling : the work done once, while the function was traced: on what depends on no input.
    program : the steps of the compiled program, or of the compiled functions that are called.
    seconds : the time of a call; None if it was not timed.
    arguments : source text for each input that is an argument or a leaf of one.
    """

    name: str
    traced: Graph
    graph: Graph
    names: dict[object, str]
    steps: tuple[Step, ...]
    pieces: tuple[Piece, ...]
    gone: tuple[tuple[Equation, str], ...]
    program: tuple[ProgramStep, ...] = ()
    seconds: float | None = None
    done: Cost = field(default_factory=Cost)
    compiling: Cost = field(default_factory=Cost)
    arguments: dict[object, str] = field(default_factory=dict)

    def avoided(self) -> dict[str, Cost]:
        """Avoided cost by reason, in the order of `REASONS`."""
        costs: dict[str, Cost] = {}
        for piece in self.pieces:
            costs[piece.reason] = costs.get(piece.reason, Cost()) + piece.cost
        return {reason: costs[reason] for reason in (*REASONS, *costs) if reason in costs}

    def by_line(self) -> list[LineTotal]:
        """Totals by line of the user's source, in its order; lines without work are left out."""
        totals: dict[Line | None, LineTotal] = {}
        for line, cost, avoided, seconds in (
            *((s.line, s.done, Cost(), s.seconds) for s in self.steps),
            *((p.line, Cost(), p.cost, None) for p in self.pieces),
        ):
            total = totals.setdefault(line, LineTotal(line))
            total.cost += cost
            total.avoided += avoided
            if seconds is not None:
                total.seconds = (total.seconds or 0.0) + seconds
        lines = [t for t in totals.values() if t.cost or t.avoided]
        weight = sum(t.weight for t in lines)
        for total in lines:
            total.share = total.weight / weight if weight else 0.0
        return sorted(lines, key=lambda t: (0, t.line.file, t.line.number) if t.line else (1, "", 0))
