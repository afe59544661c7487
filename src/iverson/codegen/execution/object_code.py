"""Object code: LLVM IR text is optimised, compiled to an object and loaded into the process.

Loading is by `codegen.runtime.object_linking`, or else by LLVM. Objects are bytes, so that
`codegen.runtime.kernel_cache` can keep them on disk. What the code computes is not known here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iverson.codegen.emit import ufunc_calls
from iverson.codegen.runtime import library_functions, object_linking, target
from iverson.codegen.runtime.target import Machine
from iverson.core.python.progress import Pieces

_COMPILED = Pieces("compiling kernels")


@dataclass(frozen=True)
class Library:
    """Loaded machine code: what owns its memory, and entry points by name."""

    owner: Any
    functions: dict[str, Any]
    addresses: dict[str, int]


def optimize(text: str, machine: Machine) -> Any:
    """The verified and optimised LLVM module of an IR text (under `target.lock`)."""
    import llvmlite.binding as llvm

    llvm_machine = target.target_machine(machine)
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(llvm_machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(llvm_machine, options)
    # Those of a module would run them twice, and what they know of calls between functions is said
    # (`llvm_builder.Builder.outlined`): see docs/decisions/0115.
    functions = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            functions.run(function, builder)
    return module


def to_object(text: str, machine: Machine) -> bytes:
    """Machine code of an IR text, as a relocatable object."""
    with target.lock, _COMPILED:
        return bytes(target.target_machine(machine).emit_object(optimize(text, machine)))


def to_llvm(text: str, machine: Machine) -> str:
    """The IR after LLVM's passes."""
    with target.lock:
        return str(optimize(text, machine))


def to_assembly(text: str, machine: Machine) -> str:
    """The machine's assembly."""
    with target.lock:
        return str(target.target_machine(machine).emit_assembly(optimize(text, machine)))


def load(code: bytes, names: tuple[str, ...], signature: Callable[[int], Callable[..., None]]) -> Library:
    """Link an object into the process.

    names : its entry points.
    signature : makes a function of an entry point's address.
    """
    owner, addresses = object_linking.link(code, names, _address) or _linked_by_llvm(code, names)
    return Library(owner, {name: signature(addresses[name]) for name in names}, addresses)


def _address(symbol: str) -> int | None:
    """Address of an external symbol: of a function of a library, the C library or Python; else None."""
    address = ufunc_calls.address(symbol) or library_functions.address(symbol)
    if address is None and hasattr(ctypes.pythonapi, symbol):
        address = ctypes.cast(getattr(ctypes.pythonapi, symbol), ctypes.c_void_p).value
    return address


def _linked_by_llvm(code: bytes, names: tuple[str, ...]) -> tuple[Any, dict[str, int]]:
    """Link an object by LLVM: the engine, which owns the code, and the addresses of the entry points."""
    import llvmlite.binding as llvm

    with target.lock:
        target.start()
        for symbol in ufunc_calls.symbols(code) | library_functions.symbols(code):
            llvm.add_symbol(symbol, _address(symbol))
        # An engine is made with a module, and would set up LLVM's passes to generate code for it, empty as it
        # is: that takes longer than all else here. For linking alone, any machine of the family will do.
        triple = target.host().triple
        empty = llvm.parse_assembly("")
        empty.triple = triple
        machine = llvm.Target.from_triple(triple).create_target_machine()
        engine = llvm.create_mcjit_compiler(empty, machine)
        engine.remove_module(empty)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return engine, {name: engine.get_function_address(name) for name in names}
