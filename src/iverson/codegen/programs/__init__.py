"""Programs: steps over one planned arena that run as one native call (`nodes` has the grammar)."""

from iverson.codegen.programs.buffer_allocation import overwritten
from iverson.codegen.programs.compiled_program import CompiledProgram, compile_program
from iverson.codegen.programs.nodes import Branch, Nest, Product, Program, Repeat, View, whole

__all__ = [
    "Branch",
    "CompiledProgram",
    "Nest",
    "Product",
    "Program",
    "Repeat",
    "View",
    "compile_program",
    "overwritten",
    "whole",
]
