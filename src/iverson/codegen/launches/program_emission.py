"""Emission of a program as LLVM IR: one function for all of its steps, and one that Python calls.

The first is ``i64 iverson_run_program(ptr arguments, ptr given, ptr made)``. It returns 0 unless something
ended it: an index outside of its array, an array that is not dense, or the handler of a signal. Python calls
``iverson_program``, which runs the first with the GIL released.

``arguments`` holds, in 64 bits each (see `layout`): the in and inout arrays and then the out arrays, as the
addresses of the Python objects, whose data pointers and flags the function reads itself; the constants' data;
the arena; the record of faults; and the routines of the BLAS. So the machine code holds no address and can be
kept on disk. The function fills in the arrays itself, from two tuples of Python: ``given`` and ``made``.

Each phase of a kernel is a function inside the module, shared by equal phases. An index that a nest reports
(`codegen.nests.fault_reports`) ends the program at once, since loops that depend on it may be endless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from iverson.codegen.emit.llvm_builder import (
    I32,
    I64,
    PTR,
    Builder,
    Type,
    Value,
    as_type,
    function_text,
    module_text,
)
from iverson.codegen.emit.nest_emission import ATTRIBUTES, Works
from iverson.codegen.emit.vector_access import in_memory
from iverson.codegen.execution.routines import Failure
from iverson.codegen.launches import product_emission, routine_emission
from iverson.codegen.launches.nodes import (
    Choice,
    Gemm,
    Launches,
    Loop,
    Phases,
    Place,
    RoutineCall,
    Step,
    StopIf,
    Word,
    moving,
    nest_key,
    walk,
)
from iverson.codegen.launches.program_launches import OFTEN
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.access_checks import plan as plan_of
from iverson.codegen.nests.nodes import Buffer, arguments_of
from iverson.codegen.programs import blas_calls
from iverson.codegen.programs.nodes import Nest, Product, Program, Stop
from iverson.codegen.programs.nodes import walk as program_walk
from iverson.codegen.programs.thread_sharing import sharing
from iverson.codegen.runtime.array_headers import data_offset, flags_offset, items_offset
from iverson.codegen.runtime.target import Machine

#: What Python calls (METH_FASTCALL), with the address of the arguments and two tuples: it gives what the
#: program returns, or raises what the handler of a signal raised. ctypes takes half a microsecond for this.
ENTRY_NAME = "iverson_program"
_RUN = "iverson_run_program"
#: Steps of one function at most: what LLVM takes to make code of one grows with the square of its length.
PART = 128
#: Cycles (some 50 ms) between questions to Python.
_CYCLES = 1 << 27


#: Of an array that a program reads: in C order, and aligned.
_DENSE = 0x1 | 0x100
#: What a program returns besides 0: an index was outside, or an array is not dense, before anything ran.
FAULT, NOT_DENSE = 1, 2
#: Or the handler of a signal raised.
_RAISED = 3
#: Or a step stopped it: this and the number of the failure.
FAILED = 16
#: The words from the arena's address to the routines: it, the record of faults, the team, `iverson_run`, and
#: the number of threads of a product.
FURTHER = 5


@dataclass(frozen=True)
class Layout:
    """Contents of the arguments: buffers given as objects, constants, and routines; and faults that nests may
    report, and failures with which steps may stop the program.

    nests : a nest of each distinct kernel by `nest_key`, with its plan and the number of its first place in
    the record of faults. shared_products : whether threads take part in products.
    """

    objects: tuple[Buffer, ...]
    constants: tuple[Buffer, ...]
    routines: tuple[str, ...]
    failures: tuple[Failure, ...]
    nests: dict[str, tuple[Nest, Plan, int]]
    shared_products: bool

    @property
    def places(self) -> int:
        """Number of places in the record of faults."""
        return sum(len(plan.reported) for _, plan, _ in self.nests.values())

    @property
    def arena(self) -> int:
        return len(self.objects) + len(self.constants)

    @property
    def length(self) -> int:
        return self.arena + FURTHER + len(self.routines)


def layout(program: Program) -> Layout:
    """The arguments of a program."""
    routines: dict[str, None] = {}
    kernels: dict[str, Nest] = {}
    failures: dict[Failure, None] = {}
    shared_products = False
    for s in program_walk(program.steps):
        if isinstance(s, Product):
            routines[blas_calls.routine(s.out.buffer.dtype)] = None
            shared_products = shared_products or bool(sharing(s))
        elif isinstance(s, Stop):
            failures[s.failure] = None
        elif isinstance(s, Nest):
            kernels.setdefault(nest_key(s), s)
    plans = [plan_of(s.kernel, s.values) for s in kernels.values()]
    starts = accumulate((len(p.reported) for p in plans), initial=0)
    nests = dict(zip(kernels, zip(kernels.values(), plans, starts, strict=False), strict=True))
    objects = *program.of("in", "inout"), *program.of("out")
    return Layout(objects, program.of("const"), tuple(routines), tuple(failures), nests, shared_products)


def emit(launches: Launches, known: Layout, target: Machine) -> str:
    """The LLVM module of a program's launches."""
    module_builder = Builder(has_fma=target.has_fma, has_half=target.has_half)
    works = Works("iverson_nest", target, module_builder)
    emitter = _Emitter(launches, known, works, module_builder.nested())
    run, entry_text = emitter.function(), _entry_function(module_builder.nested())
    return module_text(module_builder, [*works.texts, *emitter.texts, run, entry_text], ATTRIBUTES)


def _entry_function(b: Builder) -> str:
    """Text of the function that Python calls."""
    words = [b.load(b.emit(f"getelementptr ptr, ptr %items, i64 {k}", PTR), PTR, 8) for k in range(3)]
    block = b.call("PyLong_AsVoidPtr", PTR, (words[0],), pure=False)
    state = b.call("PyEval_SaveThread", PTR, (), pure=False)
    arguments = ", ".join(f"ptr {w.ref}" for w in (block, *words[1:]))
    ended = b.emit(f"call i64 @{_RUN}({arguments})", I64, pure=False)
    b.declarations["PyEval_RestoreThread"] = "declare void @PyEval_RestoreThread(ptr)"
    b.do(f"call void @PyEval_RestoreThread(ptr {state.ref})")
    with b.leaving(ended.eq(_RAISED), "ptr null"):
        pass
    b.do(f"ret ptr {b.call('PyLong_FromLongLong', PTR, (ended,), pure=False).ref}")
    return function_text(b, ENTRY_NAME, PTR, "ptr %self, ptr %items, i64 %count")


class _Emitter:
    """The steps of one program, or some of them in a function of their own (`part`).

    texts : the functions that the steps call. products : the emitter of the products among them.
    """

    def __init__(
        self,
        launches: Launches,
        contents: Layout,
        works: Works,
        b: Builder,
        texts: product_emission.Texts | None = None,
    ) -> None:
        self.launches, self.contents, self.works, self.b = launches, contents, works, b
        self.texts = product_emission.Texts() if texts is None else texts
        self.integers = product_emission.Integers(b, Value(b, "%arguments", PTR), contents.length)
        self.at: dict[str, Value] = {}
        self.swapped: dict[str, Value] = {}

    def function(self) -> str:
        """Text of the function that runs the whole program."""
        b = self.b
        self.take_arrays()
        self.return_unless_dense(
            [self.argument(n) for n, x in enumerate(self.contents.objects) if x.role != "out"]
        )
        self.begin()
        for s in walk(self.launches.steps):
            for x in (b for pair in s.swaps for b in pair) if isinstance(s, Loop) else ():
                if x.name not in self.swapped:
                    place = self._base(x)
                    self.swapped[x.name] = b.slot(PTR)
                    b.put(self.swapped[x.name], place)
        self.block(self.launches.steps)
        b.do("ret i64 0")
        return function_text(b, _RUN, I64, "ptr %arguments, ptr %given, ptr %made")

    def part(self, steps: tuple[Step, ...]) -> None:
        """Emit some steps as a function of their own, and its call.

        The function is given the loops' variables, and the addresses of the exchanged buffers.
        """
        b, at = self.b, {x: self.at[x] for x in moving(steps)}
        inner = _Emitter(self.launches, self.contents, self.works, b.nested(), self.texts)
        inner.begin()
        for outer_values, inner_values, type in ((self.swapped, inner.swapped, PTR), (at, inner.at, I64)):
            for x in outer_values:
                n = len(inner.swapped) + len(inner.at)
                inner_values[x] = inner.b.load(
                    inner.b.emit(f"getelementptr i64, ptr %own, i64 {n}", PTR), type, 8
                )
        inner.swapped = {x: inner.b.slot_at(v, PTR) for x, v in inner.swapped.items()}
        inner.block(steps)
        inner.b.do("ret i64 0")
        name = f"iverson_part_{len(self.texts)}"
        self.texts.append(function_text(inner.b, name, I64, "ptr %arguments, ptr %own"))
        packed_values = self.packed([*self.swapped.values(), *at.values()])
        ended = b.emit(f"call i64 @{name}(ptr %arguments, ptr {packed_values.ref})", I64, pure=False)
        b.wrote()
        with b.leaving(ended.ne(0), f"i64 {ended.ref}"):
            pass

    def argument(self, n: int, type: Type = PTR) -> Value:
        return self.b.load(self.b.emit(f"getelementptr i64, ptr %arguments, i64 {n}", PTR), type, 8)

    def begin(self) -> None:
        """Emit reads of the arguments, and note the values; LLVM drops those that nothing uses."""
        b, contents = self.b, self.contents
        self.bases: dict[str, Value] = {}
        for n, x in enumerate((*contents.objects, *contents.constants)):
            place = self.argument(n)
            if n < len(contents.objects):
                place = b.load(b.emit(f"getelementptr i8, ptr {place.ref}, i64 {data_offset()}", PTR), PTR, 8)
            self.bases[x.name] = place
        further = [self.argument(contents.arena + k) for k in range(FURTHER + len(contents.routines))]
        self.arena, self.faults, self.team, self.run, threads = further[:FURTHER]
        self.products = product_emission.Products(
            b,
            dict(zip(contents.routines, further[FURTHER:], strict=True)),
            self.pointer,
            lambda function, arguments, total: self.run_shares(function, self.packed(arguments), total),
            b.cast("ptrtoint", threads, I64),
            self.texts,
            self.integers,
        )

    def take_arrays(self) -> None:
        """Emit code that copies the addresses of the array objects to the front of ``%arguments``.

        The code copies from the tuple ``%given`` (inputs), then from the tuple ``%made`` (outputs). The
        copied addresses are those of Python objects; the addresses of the entries are read later, in `begin`.
        """
        copy = "llvm.memcpy.inline.p0.p0.i64"
        self.b.declarations[copy] = f"declare void @{copy}(ptr, ptr, i64, i1)"
        output_count = sum(x.role == "out" for x in self.contents.objects)
        input_count = len(self.contents.objects) - output_count
        for items, start, count in (("%given", 0, input_count), ("%made", input_count, output_count)):
            to = self.b.emit(f"getelementptr i64, ptr %arguments, i64 {start}", PTR)
            addresses = self.b.emit(f"getelementptr i8, ptr {items}, i64 {items_offset()}", PTR)
            self.b.do(f"call void @{copy}(ptr {to.ref}, ptr {addresses.ref}, i64 {8 * count}, i1 false)")

    def return_unless_dense(self, objects: list[Value]) -> None:
        """Emit the program's end for the case that an array is not in C order, or not aligned."""
        b, flags = self.b, self.b.const(_DENSE, I32)
        for a in objects:
            flags = flags & b.load(
                b.emit(f"getelementptr i8, ptr {a.ref}, i64 {flags_offset()}", PTR), I32, 4
            )
        with b.leaving(flags.ne(_DENSE), f"i64 {NOT_DENSE}"):
            pass

    # --- views ------------------------------------------------------------------------------------

    def _base(self, x: Buffer) -> Value:
        if x.name in self.swapped:
            return self.b.get(self.swapped[x.name], PTR)
        if x.name in self.bases:
            return self.bases[x.name]
        return self._shifted(self.arena, self.integers.word(self.launches.arena[x.name]))

    def _shifted(self, base: Value, by: int | Value) -> Value:
        if isinstance(by, int) and by == 0:
            return base
        amount = by.ref if isinstance(by, Value) else by
        return self.b.emit(f"getelementptr i8, ptr {base.ref}, i64 {amount}", PTR)

    def pointer(self, p: Place) -> Value:
        """Address of a place; of any memory that may be read if the place has no entries."""
        if p.is_empty:
            return self.arena
        place = self._shifted(self._base(p.buffer), self.integers.word(p.offset))
        for var, by in p.moves:
            place = self._shifted(place, self.at[var] * self.integers.word(by))
        return place

    def scalar(self, p: Place) -> Value:
        """Condition that the one entry at a place is not 0."""
        type = in_memory(as_type(p.buffer.dtype))
        value = self.b.emit(
            f"load {type}, ptr {self.pointer(p).ref}, align {type.bits // 8}", type, pure=False
        )
        return value.ne(0.0 if type.is_float else 0)

    # --- steps ------------------------------------------------------------------------------------

    def block(self, steps: tuple[Step, ...]) -> None:
        """Emit steps; if there are more than `PART`, in several functions of their own."""
        if len(steps) > PART:
            for k in range(0, len(steps), PART):
                self.part(steps[k : k + PART])
            return
        for s in steps:
            if isinstance(s, Phases):
                self.phases(s)
            elif isinstance(s, Gemm):
                self.products.step(s)
            elif isinstance(s, Loop):
                self.repeat(s)
            elif isinstance(s, RoutineCall):
                routine_emission.emit(self.integers, s, self.pointer, self.products.run, self.texts)
            elif isinstance(s, StopIf):
                self.stop(s)
            else:
                self.branch(s)

    def phases(self, s: Phases) -> None:
        """Emit the call of each phase of a kernel, shared among threads if it is long.

        If a phase may report indices, the program is left after the nest where one did.
        """
        b = self.b
        kernel, plan = s.kernel, s.plan
        faults = self._shifted(self.faults, 16 * s.faults)
        pointers = {x.name: self.pointer(p) for x, p in zip(kernel.arguments, s.places, strict=True)}
        sizes = [self.integers.value(n) for n in s.sizes]
        for k in range(len(kernel.phases)):
            total = self.integers.value(s.totals[k])
            operands = [*(pointers[x.name] for x in arguments_of(kernel, k)), faults, *sizes]
            self.phase(s, k, operands, total)
            b.wrote()
        if plan.reported:
            self.leave_if_reported(faults, len(plan.reported))

    def phase(self, s: Phases, k: int, operands: list[Value], total: Value) -> None:
        """Emit the call of one phase: shared among threads, alone, or as a word of the call says."""
        b, flag = self.b, s.by_team[k]
        if isinstance(flag, Word):
            shares, alone, after = b.fresh("shares"), b.fresh("alone"), b.fresh("after")
            b.br_if(self.integers.value(flag).ne(0), shares, alone)
            for label, one in ((shares, 1), (alone, 0)):
                b.start(label)
                self.phase(replace(s, by_team=(one,) * len(s.by_team)), k, operands, total)
                b.br(after)
            b.start(after)
        elif flag:
            self.run_shares(self.works.share(s.kernel, k, s.plan), self.packed(operands), total)
        else:
            work = self.works.function(s.kernel, k, s.plan)
            arguments = ", ".join(f"{p.type} {p.ref}" for p in operands)
            b.do(f"call void @{work}(i64 0, i64 {total.ref}, {arguments})")

    def run_shares(self, function: str, block: Value, total: Value) -> None:
        """Emit the call that shares out the iterations 0 to ``total - 1`` of a function among threads.

        block : address of its arguments.
        """
        arguments = f"ptr {self.team.ref}, ptr @{function}, ptr {block.ref}, i64 {total.ref}"
        self.b.do(f"call void {self.run.ref}({arguments})")

    def packed(self, arguments: list[Value]) -> Value:
        """Address of a new block of memory on the stack, which holds the arguments."""
        b = self.b
        block = b.slot(PTR, len(arguments))
        for n, p in enumerate(arguments):
            b.store(self._shifted(block, 8 * n), p, 8)
        return block

    def leave_if_reported(self, faults: Value, count: int) -> None:
        b = self.b
        any_of = b.const(0, I64)
        for k in range(count):
            any_of = any_of | b.load(self._shifted(faults, 16 * k), I64, 8)
        with b.leaving(any_of.ne(0), f"i64 {FAULT}"):
            pass

    def stop(self, s: StopIf) -> None:
        with self.b.leaving(self.scalar(s.condition), f"i64 {FAILED + s.failure}"):
            pass

    def branch(self, s: Choice) -> None:
        b = self.b
        then, other, after = b.fresh("then"), b.fresh("else"), b.fresh("after")
        b.br_if(self.scalar(s.condition), then, other)
        for label, body in ((then, s.then), (other, s.other)):
            b.start(label)
            self.block(body)
            b.br(after)
        b.start(after)

    def repeat(self, s: Loop) -> None:
        """Emit a loop, and looks for signals if it is long.

        before: head: i < trips and when -> inside; inside: body, exchanges; -> head with i + 1.
        """
        b = self.b
        last_time = self.asking() if s.often else None
        before, head, test = b.fresh("before"), b.fresh("head"), b.fresh("test")
        inside, after = b.fresh("inside"), b.fresh("done")
        b.br(before)
        b.start(before)
        b.br(head)
        b.start(head)
        i = b.emit(f"phi i64 [0, %{before}], [%{head}.next, %{head}.latch]", I64, pure=False)
        if s.trips is None:
            b.br(test)
        else:
            b.br_if(i < self.integers.word(s.trips), test, after)
        b.start(test)
        if s.when is None:
            b.br(inside)
        else:
            b.br_if(self.scalar(s.when), inside, after)
        b.start(inside)
        self.at[s.var] = i
        self.block(s.body)
        for x, y in s.swaps:
            first, second = (b.get(self.swapped[z.name], PTR) for z in (x, y))
            b.put(self.swapped[x.name], second)
            b.put(self.swapped[y.name], first)
        if last_time is not None:
            self.ask(last_time, i)
        b.br(f"{head}.latch")
        b.start(f"{head}.latch")
        b.do(f"%{head}.next = add nsw i64 {i.ref}, 1")
        b.br(head)
        b.start(after)

    # --- signals ----------------------------------------------------------------------------------

    def asking(self) -> Value:
        """Address of a new slot for the time at which a loop last asked Python for signals.

        The slot holds the present time.
        """
        slot = self.b.slot(I64)
        self.b.put(slot, self._time())
        return slot

    def ask(self, last: Value, i: Value) -> None:
        """Now and then ask Python for signals (Ctrl-C), and end the program where a handler raised.

        This needs the GIL, which another thread may hold for milliseconds: so the clock is looked at first.
        """
        b = self.b
        look, old, after = b.fresh("look"), b.fresh("old"), b.fresh("asked")
        b.br_if((i & (OFTEN - 1)).eq(OFTEN - 1), look, after)
        b.start(look)
        now = self._time()
        b.br_if((now - b.get(last, I64)) > _CYCLES, old, after)
        b.start(old)
        b.put(last, now)
        gil_state = b.call("PyGILState_Ensure", I32, (), pure=False)
        raised = b.call("PyErr_CheckSignals", I32, (), pure=False)
        b.declarations["PyGILState_Release"] = "declare void @PyGILState_Release(i32)"
        b.do(f"call void @PyGILState_Release(i32 {gil_state.ref})")
        leave = b.fresh("left")
        b.br_if(raised.ne(0), leave, after)
        b.start(leave)
        b.do(f"ret i64 {_RAISED}")
        b.start(after)

    def _time(self) -> Value:
        return self.b.call("llvm.readcyclecounter", I64, (), pure=False)


__all__ = ["ENTRY_NAME", "FAILED", "NOT_DENSE", "Layout", "emit", "layout"]
