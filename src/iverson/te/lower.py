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

from iverson.codegen import contract, functions, nodes
from iverson.codegen.kernel import CompiledKernel, compile_kernel
from iverson.codegen.nodes import INT64, Buffer, Kernel, Let, Stmt
from iverson.codegen.schedule import Axis, Task, Walked, schedule
from iverson.codegen.walks import nest
from iverson.core.errors import ArgumentError, ShapeError
from iverson.te import interpret
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
    substitute,
)

Array = np.ndarray[Any, Any]
#: A stage that costs at most this much is computed again wherever it is read more than once.
CHEAP = 4
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
        for tensor, b in self.buffers.items():
            if b.name not in arrays:
                arrays[b.name] = np.empty(_shape(b), b.dtype)
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


# --- inlining ---------------------------------------------------------------------------------------


def inline(program: Program) -> tuple[Statement, ...]:
    """The statements with stages put into their readers where that saves memory and costs little.

    ``T[i] = f(i); U[i] = g(T[h(i)])  ->  U[i] = g(f(h(i)))`` for a temporary T with one statement
    over its whole box, if T is read in one place at as many points as it has, or is cheap.
    """
    statements = list(program.statements)
    for tensor in program.temporaries:
        own = [s for s in statements if s.tensor is tensor]
        readers = [s for s in statements if _reads(s, tensor)]
        if len(own) != 1 or not readers or not _whole(own[0]) or any(s.walk for s in readers):
            continue
        if not all(_pays(own[0], s) for s in readers) or _work(own[0].body) * len(readers) > DEEP:
            continue
        statements = [
            _put(own[0], s) if any(s is r for r in readers) else s for s in statements if s is not own[0]
        ]
    return tuple(statements)


def _reads(s: Statement, tensor: Tensor) -> list[Read]:
    return [e for e in postorder(s.roots) if isinstance(e, Read) and e.tensor is tensor]


def _whole(s: Statement) -> bool:
    """Whether a statement assigns each entry of its tensor as a function of the entry's indices."""
    axes = s.domain.axes
    full = len(s.write) == len(axes) and all(w is v for w, v in zip(s.write, axes, strict=True))
    box = all(v.lo == 0 and v.hi == n for v, n in zip(axes, s.tensor.shape, strict=True)) if full else False
    return s.combine == "assign" and full and box and not s.domain.where and s.walk is None


def _pays(stage: Statement, reader: Statement) -> bool:
    reads = _reads(reader, stage.tensor)
    if _work(stage.body) <= CHEAP:
        return True
    same = len(reads) == 1 and _points(reader) <= _points(stage)
    return same and not reader.domain.where


def _points(s: Statement) -> int:
    total = 1
    for v in s.domain.axes:
        total *= _int(v.hi) - _int(v.lo)
    return total


def _work(e: Expr) -> int:
    """A stage's cost at a point: elementary functions count ten, reads and arithmetic one."""
    total = 0
    for x in postorder([e]):
        if isinstance(x, Apply):
            total += 1 if x.name in _LIGHT else 10
        elif isinstance(x, (Read, Select)):
            total += 1
    return total


_LIGHT = frozenset(
    ("add", "subtract", "multiply", "negative", "square", "maximum", "minimum", "abs", "relu", "less",
     "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or")
)  # fmt: skip


def _put(stage: Statement, reader: Statement) -> Statement:
    """The reader with the stage's body in place of its reads."""
    from dataclasses import replace

    def changed(root: Expr) -> Expr:
        made: dict[Expr, Expr] = {}
        for x in postorder([root]):
            new = x.rebuilt([made[o] for o in x.operands])
            if isinstance(new, Read) and new.tensor is stage.tensor:
                at: dict[Expr, Expr] = dict(zip(stage.domain.axes, new.indices, strict=True))
                (new,) = substitute((stage.body,), at)
            made[x] = new
        return made[root]

    domain = replace(reader.domain, where=tuple(changed(e) for e in reader.domain.where))
    return replace(
        reader,
        body=changed(reader.body),
        write=tuple(changed(e) for e in reader.write),
        domain=domain,
        position=None if reader.position is None else changed(reader.position),
    )


# --- lowering ---------------------------------------------------------------------------------------


class _Lowering:
    """One program: its buffers, and the steps so far."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.statements = inline(program)
        tensors = [*program.inputs, *program.outputs, *(s.tensor for s in self.statements)]
        self.buffers: dict[Tensor, Buffer] = {}
        for t in tensors:
            if t not in self.buffers:
                name = f"{_identifier(t.name)}_{len(self.buffers)}"
                shape = tuple(_int(n) for n in t.shape)
                self.buffers[t] = Buffer(name, t.dtype, shape, "in")
        self.steps: list[Step] = []
        self.phases: list[Stmt] = []

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
            self.phases.append(schedule(task))
        elif s.walk:
            self.phases += self._walked(s, task)

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

    With a walk or guards it is not asked; an entry's first value then comes from a fill.
    """
    if s.walk is not None or s.domain.where:
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
