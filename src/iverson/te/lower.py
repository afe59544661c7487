"""From statements to compiled code: inlining, then a loop nest or a matrix product for each statement.

A program's statements become *steps* in order: phases of loop nests (`iverson.codegen.schedule` chooses
their order and marks; where elimination found a walk, its loops are kept), matrix products given to BLAS,
and, for what does not compile (complex numbers, a few special functions), the interpreter. `interpret`
is the oracle of all of it.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iverson.codegen import contract, functions, nodes, workspace
from iverson.codegen.fuse import fuse
from iverson.codegen.kernel import CompiledKernel, compile_kernel
from iverson.codegen.nodes import INT64, Buffer, Kernel, Let, Stmt
from iverson.codegen.schedule import Axis, Task, Walked
from iverson.codegen.walks import boxed, nest
from iverson.core.errors import ArgumentError, ShapeError
from iverson.te import interpret
from iverson.te.boxes import as_box, merged
from iverson.te.inline import inline
from iverson.te.nodes import (
    Apply,
    Cast,
    Const,
    Expr,
    For,
    If,
    Program,
    Read,
    Select,
    Statement,
    Tensor,
    Var,
    Walk,
    postorder,
)

Array = np.ndarray[Any, Any]
#: Expressions deeper than this are cut by a name.
DEEP = 40


@dataclass(frozen=True, eq=False)
class Fill:
    """Start a tensor at the identity of its combine."""

    name: str
    value: Any


@dataclass(frozen=True, eq=False)
class Run:
    """Run a kernel on the named arrays."""

    kernel: Kernel
    compiled: CompiledKernel


@dataclass(frozen=True, eq=False)
class Interpreted:
    """Leave a statement to the interpreter."""

    statement: Statement


Step = Fill | Run | Interpreted | contract.Product


@dataclass(frozen=True, eq=False)
class Lowered:
    """A compiled program: ``lowered(*inputs)`` gives the outputs as new arrays.

    source : all its loop nests and products as pseudo-code.
    """

    program: Program
    steps: tuple[Step, ...]
    buffers: dict[Tensor, Buffer]

    def __call__(self, *inputs: Any, threads: int | None = None) -> tuple[Array, ...]:
        """The outputs for arrays in the order of ``program.inputs``.

        Raises ShapeError where an array does not fit and IndexingError for an index out of range.
        """
        arrays = dict(self._inputs(inputs))
        values: dict[Tensor, Array] = {}
        kept = {self.buffers[t].name for t in self.program.outputs}
        passing: list[Array] = []
        for tensor, b in self.buffers.items():
            if b.name not in arrays and b.name in kept:
                arrays[b.name] = np.empty(_shape(b), b.dtype)
            elif b.name not in arrays:
                arrays[b.name] = workspace.take(_shape(b), b.dtype)
                passing.append(arrays[b.name])
            values[tensor] = arrays[b.name]
        for step in self.steps:
            if isinstance(step, Fill):
                arrays[step.name][...] = step.value
            elif isinstance(step, Run):
                step.compiled(*(arrays[b.name] for b in step.kernel.arguments), threads=threads)
            elif isinstance(step, contract.Product):
                step.run(arrays)
            else:
                interpret.run_statement(step.statement, values)
        workspace.give_back(passing)
        return tuple(values[t] for t in self.program.outputs)

    @property
    def source(self) -> str:
        return "\n".join(_step_text(s) for s in self.steps)

    def _inputs(self, inputs: Sequence[Any]) -> list[tuple[str, Array]]:
        if len(inputs) != len(self.program.inputs):
            raise ArgumentError("te", got=f"{len(inputs)} inputs", expected=str(len(self.program.inputs)))
        found = []
        for tensor, given in zip(self.program.inputs, inputs, strict=True):
            b = self.buffers[tensor]
            array = np.ascontiguousarray(given, b.dtype).reshape(np.shape(given))
            if array.shape != b.shape:
                raise ShapeError("te", tensor.name, got=f"shape {array.shape}", expected=f"shape {b.shape}")
            found.append((b.name, array))
        return found


def _shape(b: Buffer) -> tuple[int, ...]:
    return tuple(n for n in b.shape if isinstance(n, int))


def _step_text(step: Step) -> str:
    if isinstance(step, Fill):
        return f"{step.name}[...] = {step.value}"
    if isinstance(step, Run):
        return step.compiled.source
    if isinstance(step, contract.Product):
        return f"{step.out.name} = {step.left.name} @ {step.right.name}  # BLAS, {step.extents}"
    return f"interpret {step.statement.tensor.name}"


# --- entry ------------------------------------------------------------------------------------------

_lowered: OrderedDict[str, Lowered] = OrderedDict()
_lock = threading.Lock()
_KEEP = 2048


def lower(program: Program) -> Lowered:
    """Compile a bound program (sizes are ints), from memory where an equal one was compiled before."""
    key = program.key()
    with _lock:
        found = _lowered.get(key)
        if found is not None:
            _lowered.move_to_end(key)
            return found
    made = _Lowering(program).run()
    with _lock:
        _lowered[key] = made
        while len(_lowered) > _KEEP:
            _lowered.popitem(last=False)
    return made


def run(program: Program, inputs: Sequence[Any]) -> tuple[Array, ...]:
    """As `interpret.run`, compiled."""
    return lower(program)(*inputs)


# --- lowering ---------------------------------------------------------------------------------------


class _Lowering:
    """One program: its buffers, and the steps so far."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.statements = tuple(as_box(s) for s in merged(inline(program)))
        self.buffers: dict[Tensor, Buffer] = {}
        for t in (*program.inputs, *program.outputs):
            self._buffer(t)
        self._share()
        self.steps: list[Step] = []
        self.phases: list[Stmt] = []

    def _buffer(self, t: Tensor) -> Buffer:
        if t not in self.buffers:
            name = f"{_identifier(t.name)}_{len(self.buffers)}"
            self.buffers[t] = Buffer(name, t.dtype, tuple(_int(n) for n in t.shape), "in")
        return self.buffers[t]

    def _share(self) -> None:
        """Buffers for temporaries; one that is read no more passes on to the next of its kind.

        Indices (integers) keep buffers of their own: what they hold is looked at before a kernel runs.
        """
        last: dict[Tensor, int] = {}
        for k, s in enumerate(self.statements):
            read = (e.tensor for e in postorder(s.roots) if isinstance(e, Read))
            last |= dict.fromkeys((s.tensor, *read), k)
        lent = set(self.buffers)
        free: list[Tensor] = []
        for k, s in enumerate(self.statements):
            if s.tensor not in self.buffers:
                kind = (s.tensor.dtype, s.tensor.shape)
                old = next((t for t in free if (t.dtype, t.shape) == kind), None)
                if old is not None:
                    free.remove(old)
                    self.buffers[s.tensor] = self.buffers[old]
                self._buffer(s.tensor)
            done = [t for t, at in last.items() if at == k and t not in lent]
            free += [t for t in done if t.dtype.kind == "f"]

    def run(self) -> Lowered:
        started: set[Tensor] = set()
        for s in self.statements:
            fresh = s.tensor not in started
            started.add(s.tensor)
            self._statement(s, fresh)
        self._flush()
        for t in self.program.outputs:
            if t not in started and t not in self.program.inputs:
                self.steps.insert(0, Fill(self.buffers[t].name, 0))
        return Lowered(self.program, tuple(self.steps), self.buffers)

    def _flush(self) -> None:
        if not self.phases:
            return
        used: dict[str, Buffer] = {}
        written: set[str] = set()
        for s in nodes.statements(tuple(self.phases)):
            if isinstance(s, nodes.Store):
                written.add(s.buffer.name)
                used[s.buffer.name] = s.buffer
            for e in nodes.expressions(s):
                for x in nodes.subexpressions(e):
                    if isinstance(x, nodes.Load):
                        used[x.buffer.name] = x.buffer
        final = {n: Buffer(n, b.dtype, b.shape, "inout" if n in written else "in") for n, b in used.items()}
        phases = tuple(nodes.with_buffers(p, final) for p in self.phases)
        kernel = Kernel("te", tuple(final.values()), phases)
        self.steps.append(Run(kernel, compile_kernel(kernel)))
        self.phases = []

    def _statement(self, s: Statement, fresh: bool) -> None:
        out = self.buffers[s.tensor]
        covers = fresh and _covers(s)
        compiles = all(_compiles(e) for e in postorder(s.roots)) and s.tensor.dtype.kind in "biuf"
        task = self._task(s, covers) if compiles else None
        if fresh and not covers:
            self._flush()
            self.steps.append(Fill(out.name, interpret.identity(s.combine, s.tensor.dtype)))
        if task is None:
            self._flush()
            if covers:
                self.steps.append(Fill(out.name, interpret.identity(s.combine, s.tensor.dtype)))
            self.steps.append(Interpreted(s))
            return
        found = contract.product(task) if s.walk is None else None
        if found is not None:
            self._flush()
            self.steps.append(found)
        elif s.walk is None:
            self._phases(boxed(task))
        elif s.walk:
            self._phases(self._walked(s, task))

    def _phases(self, new: Sequence[Stmt]) -> None:
        for phase in new:
            self.phases = fuse(self.phases, phase)

    def _task(self, s: Statement, covers: bool) -> Task:
        t = _Translation(self.buffers)
        axes = tuple(Axis(t.name(v), t.index(v.lo), t.index(v.hi)) for v in s.domain.axes)
        where = tuple(t.expression(c) for c in s.domain.where) if s.walk is None else ()
        write = tuple(_whole_number(t.expression(w)) for w in s.write)
        position = None if s.position is None else t.expression(s.position)
        body = s.body
        value = t.value(body)
        if s.position is None and value.dtype != s.tensor.dtype:
            value = nodes.Cast(value, s.tensor.dtype)
        return Task(
            self.buffers[s.tensor],
            write,
            value,
            axes,
            where,
            s.combine,
            position,
            covers,
            tuple(t.lets),
        )

    def _walked(self, s: Statement, task: Task) -> list[Stmt]:
        t = _Translation(self.buffers)
        t.names = {v: a.name for v, a in zip(s.domain.axes, task.axes, strict=True)}
        names = [a.name for a in task.axes]

        def walk(item: Walk) -> Walked:
            if isinstance(item, For):
                inner = tuple(walk(w) for w in item.body)
                return (
                    t.name(item.var),
                    t.expression(item.lower),
                    t.expression(item.upper),
                    item.step,
                    inner,
                )
            if isinstance(item, If):
                return (t.expression(item.condition), tuple(walk(w) for w in item.body))
            at = [t.expression(e) for e in item.at]
            return dict(zip(names, at, strict=True))

        assert s.walk is not None
        return [phase for item in s.walk for phase in nest(task, walk(item), s.strategy)]


def _covers(s: Statement) -> bool:
    """Whether a statement reaches every entry of its tensor, so that nothing need be filled in before.

    With a walk it is not asked; an entry's first value then comes from a fill. A guarded reduction does,
    as every entry gets what its accumulator holds; other guarded statements do not.
    """
    reduces = s.combine != "assign" and len(s.domain.axes) > len(s.write)
    if s.walk is not None or (s.domain.where and not reduces):
        return False
    own = [w for w in s.write if isinstance(w, Var)]
    if len(own) != len(s.write) or len(set(own)) != len(own):
        return False
    axes = set(s.domain.axes)
    return all(
        v in axes and v.lo == 0 and _int(v.hi) == _int(n) for v, n in zip(own, s.tensor.shape, strict=True)
    )


def _int(n: Any) -> int:
    if isinstance(n, Const):
        n = n.value
    if not isinstance(n, (int, np.integer)):
        raise ArgumentError("te: lower", got=f"extent {n}", expected="an integer", remedy="bind sizes")
    return int(n)


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name) or "t"


def _compiles(e: Expr) -> bool:
    if e.dtype.kind not in "biuf":
        return False
    if isinstance(e, Apply):
        dtype = e.args[0].dtype
        if dtype.kind in "iub" and e.dtype.kind == "f":
            dtype = e.dtype
        return functions.supported(e.name, dtype)
    return True


class _Translation:
    """te expressions to loop-nest expressions; what is used several times gets a name."""

    def __init__(self, buffers: dict[Tensor, Buffer]) -> None:
        self.buffers = buffers
        self.names: dict[Var, str] = {}
        self.made: dict[Expr, nodes.Expr] = {}
        self.lets: list[Let] = []

    def name(self, v: Var) -> str:
        return self.names.setdefault(v, f"{_identifier(v.name)}_{len(self.names)}")

    def index(self, n: Any) -> nodes.Expr:
        """A bound of an axis."""
        return self.expression(n) if isinstance(n, Expr) else nodes.Const(int(n))

    def expression(self, root: Expr) -> nodes.Expr:
        """Without naming anything."""
        for e in postorder([root]):
            if e not in self.made:
                self.made[e] = self._node(e)
        return self.made[root]

    def value(self, root: Expr) -> nodes.Expr:
        """With names for what is computed several times, or very deep, outside of choices."""
        uses: Counter[Expr] = Counter()
        certain = _certain(root)
        for e in postorder([root]):
            uses.update(e.operands)
        depth: dict[Expr, int] = {}
        for e in postorder([root]):
            depth[e] = 1 + max((depth[o] for o in e.operands), default=0)
            if e in self.made and isinstance(e, (Const, Var)):
                continue
            node = self._node(e)
            again = uses[e] > 1 and isinstance(e, (Apply, Select, Cast)) and e.dtype.kind in "fb"
            if (again or depth[e] > DEEP) and e in certain and not isinstance(e, (Const, Var)):
                name = f"t{len(self.lets)}"
                self.lets.append(Let(name, node))
                node = nodes.Local(name, node.dtype)
                depth[e] = 0
            self.made[e] = node
        return self.made[root]

    def _node(self, e: Expr) -> nodes.Expr:
        if isinstance(e, Const):
            return nodes.Const(e.value, e.dtype)
        if isinstance(e, Var):
            return nodes.Var(self.name(e))
        below = tuple(self.made[o] for o in e.operands)
        if isinstance(e, Read):
            return nodes.Load(self.buffers[e.tensor], tuple(map(_whole_number, below)))
        if isinstance(e, Select):
            return nodes.Select(*below)
        if isinstance(e, Cast):
            return nodes.Cast(below[0], e.dtype)
        assert isinstance(e, Apply)
        if e.dtype.kind == "f" and below[0].dtype != e.dtype:
            below = tuple(nodes.Cast(x, e.dtype) for x in below)
        if e.dtype != below[0].dtype and e.dtype.kind != "b":
            return nodes.Cast(nodes.Call(e.name, below, below[0].dtype), e.dtype)
        return nodes.Call(e.name, below, e.dtype)


def _whole_number(e: nodes.Expr) -> nodes.Expr:
    return e if e.dtype == INT64 else nodes.Cast(e, INT64)


def _certain(root: Expr) -> set[Expr]:
    """Expressions that are evaluated wherever the root is: not only on one side of a choice."""
    found: set[Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e in found:
            continue
        found.add(e)
        stack += [e.condition] if isinstance(e, Select) else e.operands
    return found
