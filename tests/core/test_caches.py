"""Every cache of the package, with what its key covers: a new one has to say that here.

What `tests.programs` and `tests/transforms/test_keys.py` draw goes through all that programs reach.
"""

from __future__ import annotations

from collections import Counter

from tests.tools.caches import caches

#: What a key covers of all that a value is made of, and the caches of which that is so.
COVERED: dict[str, str] = {
    # --- of a process ---
    "nothing: it is the same for a process": """
        array_api.reduction.segments._running_products codegen.runtime.array_headers.data_offset
        codegen.runtime.array_headers.flags_offset
        codegen.runtime.array_headers.items_offset codegen.runtime.object_linking._libc
        codegen.runtime.machine_peak.peak
        codegen.programs.blas_calls.scipy_table
        codegen.runtime.library_functions.address codegen.runtime.library_functions.scipy_module
        codegen.runtime.target.host
        codegen.runtime.target.start
        core.python.caller._libraries
        core.trace_guards._libraries core.scalars.incomplete._bernoulli
        core.scalars.special_functions._lgamma_series
        expr.nodes._of_ufunc layouts.counting_sorts.loops te.ir.integer_sets._context
        te.ir.integer_sets._isl transforms.trees._keep_order
        transforms.trees._register""",
    "nothing: versions, and the source as it was when the process started; else the disk is not used": """
        codegen.runtime.kernel_cache._environment codegen.runtime.kernel_cache._source""",
    "the name: entered as modules are imported, and by extensions": """
        core.dispatch._by_type core.dispatch._default core.dispatch._handle core.float_warnings._relayed
        core.python.locks._guarding_libraries core.python.locks._guarding_python core.table.TABLE
        dataclasses._own_init dataclasses._registered
        interop.mpi.ranks._given_up interop.scipy.door._ours interop.scipy.stats.__getattr__
        kernels.kernel_registry._kernels layouts.layout_registry.layouts_by_type
        masked.pytree._registered testing.directions._makers""",
    "the number that stands for a step in the programs that torch traces, for as long as the process": """
        interop.torch._steps""",
    "nothing is read by a key: a log": "graph.calls.compilation_log.LOG",
    "what is in progress: entered and left by one call": """
        autograd.tracked_guards._variables core.dispatch.Level graph.ir.graph_templates._Opening""",
    "shape and dtype of memory that nobody uses": "codegen.runtime.workspaces._spare",
    # --- of pure functions ---
    "all arguments, numbers, names and dtypes of which equal ones give the same": """
        array_api.linear_algebra.einsum._greedy array_api.linear_algebra.einsum.parse
        array_api.numpy_functions._ours codegen.emit.ufunc_calls.address expr.build._limits
        core.python.caller._own_files core.trace_guards._is_of_users kernels.compiled_elementwise._adam
        kernels.compiled_elementwise._function
        kernels.compiled_elementwise._outer kernels.compiled_elementwise._recurrence
        kernels.compiled_elementwise._sgd
        kernels.sparse.entry_loops.on_union
        kernels.sparse.entry_loops.sampled kernels.sparse.entry_loops.scatter_rows
        kernels.sparse.entry_loops.sddmm kernels.sparse.entry_loops.segment_softmax
        kernels.sparse.entry_loops.segment_sum kernels.sparse.entry_loops.softmax_pullback
        kernels.sparse.entry_loops.spmm layouts.counting_sorts.numbered
        ops.moves.shape_ops._inverse ops.moves.shape_ops._transposed te.ops.preferred_rules._pullback
        te.ops.preferred_rules._pushforward
        te.ir.index_arithmetic.condition_of te.ir.integer_sets._is_empty te.ir.integer_sets._is_empty_text
        te.ir.integer_sets._loops_of_text te.ir.integer_sets._parameters te.ir.integer_sets._projected
        transforms.jacobians.dependence._KNOWN transforms.series.apolar._of_monomial
        transforms.series.apolar.algebra_of""",
    "the code itself, equal where its instructions and names are": """
        core.python.caller._stored_after core.trace_guards._computes_names core.trace_guards._imports""",
    "the class, op or rule itself, which lives as long": """
        core.counting.cost._views core.op.Op core.op.reads expr.nodes._defaults
        te.ops.preferred_rules._rules
        codegen.runtime.target.target_machine""",
    # --- of texts ---
    "the text of the kernel and the processor": "codegen.launches.compiled_kernel._kernels",
    "a digest of the program without names and constants, which are arguments, of processor and versions": """
        codegen.launches.compiled_program._libraries""",
    "a digest of launches without the integers that may be words": """
        codegen.launches.integer_arguments.CodeSharing""",
    "the text of the graph but for its numbers; ops themselves, which constants are one, donations": """
        graph.lowering.lowering_formulas.LoweringFormulas""",
    "a digest of the graph with types, which constants are one, what is donated, what users' ops compute": """
        graph.lowering.disk_cache._facts""",
    "the text of equations with types, and the ops that others may share a name with": """
        graph.native.equation_expressions._known graph.native.expression_fusion._templates""",
    "the text of a graph, ops and patterns themselves, entries of small constants of integers": """
        graph.control.bodies._interned""",
    "a digest of the statements, but for the names of tensors and indices": """
        te.lowering.statement_lowering._lowered""",
    "class and fields, numbers with their types and signs, expressions themselves": "expr.nodes._interned",
    "the name of a function and dtypes": "te.rewrites.formulas._formula te.rewrites.formulas._operands",
    "shapes, strides and dtypes of views": "codegen.programs.step_builders._products",
    # --- of types and structures ---
    "the name and family of the op and the types of its operands, forgotten when a kernel is registered": """
        kernels.kernel_registry._kernels_by_types""",
    "the op, types and dtypes of its operands, and numbers with types and signs": """
        kernels.sparse.sparse_elementwise._known_bounding""",
    "structures whose keys are names, of which equal ones are the same": """
        transforms.trees._OF_NAMES transforms.trees._WITHOUT_WRAPPERS""",
    "ops of the library, entry maps and patterns themselves, parameters with types and signs, shapes, and "
    "entries of index arrays": """
        transforms.jacobians.sparse_jacobian._plans""",
    # --- of objects ---
    "the array itself, while it lives, where nobody can write to it": "layouts.segment_numbers._starts_by_id",
    "the name of a pattern that was pickled, which no other has, while it lives": "layouts.pattern._by_name",
    "what follows from a pattern, which never changes: by all else, and other patterns themselves": """
        layouts.coo.CooPattern layouts.pattern.Pattern""",
    "what follows from a graph, which never changes: by all else, and by rules in force": """
        graph.ir.nodes.Graph""",
    "what follows from a mask, which never changes": "masked.mask.Mask",
    "structure, shapes, dtypes, layouts, values with types and signs, which tensors are one, the rules and "
    "the policy in force; and guards of what is read besides": "transforms.jit.Jitted",
    "shapes, dtypes, parameters with types and signs; another expression where what it reads has changed": """
        te.ops.operator.Expression""",
    "shapes for one function, ranks, dtypes and parameters": "te.lowering.shape_polymorphism.AnyShape",
    "numbers of entries, patterns themselves, which inputs are tracked": "graph.calls.compiled_ops.Compiled",
    "avals, what crosses, what is asked for, whether it is recorded; rules are those of the call": """
        graph.control.bodies.Derivatives graph.calls.compiled_ops._Differentiable""",
    "number of steps and of inputs of each kind, direction; shapes and dtypes are those of the body": """
        graph.control.loop_programs.LoopPrograms""",
    "values of the sizes, and which phases threads share": """
        codegen.launches.compiled_kernel.CompiledKernel""",
    "regions, of one program": """
        te.ops.index_maps.ProgramMaps.__init__:cache(lambda:links_of(program))
        te.ops.index_maps.ProgramMaps.__init__:cache(self._place)
        te.ops.index_maps.ProgramMaps.__init__:lru_cache(MANY)(self._image)
        te.ops.index_maps.ProgramMaps.__init__:lru_cache(MANY)(self._preimage)""",
    "the instance, of which all that it is made of never changes": """
        codegen.runtime.object_linking._Object._table codegen.nests.nodes.Kernel
        codegen.launches.compiled_program.CompiledProgram._entry
        codegen.launches.compiled_program.CompiledProgram._inputs
        codegen.launches.compiled_program.CompiledProgram._outputs
        codegen.launches.compiled_program.CompiledProgram._planned
        codegen.launches.compiled_program.CompiledProgram.small
        codegen.schedule.row_tiling._Part.axes codegen.schedule.row_tiling._Part.tile
        codegen.schedule.row_tiling.Rows.axes codegen.schedule.row_tiling.Rows.parts
        codegen.schedule.row_tiling.Rows.is_long codegen.schedule.row_tiling.Rows.size
        codegen.schedule.row_tiling.Rows.stored codegen.schedule.row_tiling.Rows.shapes
        codegen.schedule.row_tiling.Rows.touched codegen.schedule.row_tiling.Rows.count
        core.python.cached.cached_property
        graph.calls.compiled_ops.Compiled._on_symbols graph.derivatives.differentiation.Recorded
        graph.calls.executable.OnEntries.reused
        graph.lowering.graph_lowering.Lowered._direct graph.lowering.graph_lowering._Again.step
        interop.derivative_steps.TracedStep.results
        kernels.sparse.merging.Marked kernels.deferred_patterns.Origin
        kernels.sparse.merging._meeting:cache(lambda:_places(n,m,pair[1],(starts,indices)))
        layouts.compressed.arrange._rows_in_blocks.source
        layouts.bracket.Once
        layouts.counting_sorts.carried:cache(lambda:take(indptr,indices,np.arange(indices.size))[2])
        masked.line_buckets.Lines.bucketed masked.line_buckets.Lines.buckets masked.line_buckets.Lines.order
        masked.line_buckets.Lines.ranks te.lowering.block_calls.lowered_in_blocks.of_size
        te.lowering.lowered_program.Lowered
        te.lowering.lowered_program.Lowered._is_whole te.lowering.lowered_program.Lowered._taken
        te.ops.operator.Compiled._kinds te.ops.operator.Compiled.has_poles te.ops.operator.Compiled.leaves_out
        te.ops.operator.Compiled.lowered te.ops.operator.Compiled.picked
        te.ops.operator.Expression._taylor.results
        te.ops.operator.Expression._compile.reached te.ops.operator.Expression._of_sums.counts
        testing.fast_mode.Probe testing.jacobians.Check._nearby testing.numerical.Numerical""",
    "the state of a tensor or an optimizer: no cache": """
        handles.tensor.Tensor interop.dask.gradients._Message optim.base.Optimizer""",
    "all but entries and rates of the last step; all but entries of state after the last call": """
        optim.fused_steps.FusedStep""",
    "one run of a pass, a lowering, a trace, a differentiation or a print: values and nodes themselves": """
        autograd.accumulate.Sum codegen.emit.llvm_builder.Builder codegen.emit.lane_evaluation.Machine
        codegen.runtime.object_linking._Object
        codegen.emit.nest_emission.Works codegen.programs.buffer_allocation._InPlace
        codegen.programs.buffer_allocation._Uses
        codegen.launches.program_emission._Emitter codegen.launches.product_emission.Products
        codegen.programs.verify._Verifier codegen.launches.print._Printer
        core.trace_guards._Reached explain.rule_costs.RuleCosts graph.tracing.captured_state.TraceCells
        graph.sparse.line_reductions.Lines
        graph.derivatives.pullback_branches._Lowering graph.native.buffers.Memory
        graph.sparse.lowering_state.Opening graph.sparse.lowering_state.Opening.lasting
        graph.sparse.lowering_state.Opening.selects graph.ir.parse._Parser
        graph.passes.support_and_demand._Parts graph.passes.support_and_demand._Walk
        graph.passes.rewriting.Writer
        graph.passes.slice_pushdown._Reader graph.ir.print.Printer graph.lowering.rematerialisation._Index
        graph.lowering.rematerialisation._Round
        graph.control.scan_loop._Stack expr.symbolic_numbers.Recording
        graph.lowering.lowering_formulas._Numbers
        graph.control.scan_derivative.Linear graph.lowering.program_segments.Segment
        graph.tracing.trace.Trace te.lowering.block_calls._Making
        te.derivatives.taylor_mode.Expansion transforms.series.curves.Directions
        te.derivatives.reverse_mode._Reverse te.language.recurrence_members._Members
        te.lowering.statement_lowering._Lowering
        te.lowering.native_call.Steps te.elimination.nest_translation.Sizes
        te.elimination.nest_translation.Translation transforms.jit.Chosen
        transforms.series.apolar.ApolarAlgebra
        transforms.series.series_level.Coefficients transforms.series.series_level.Product
        transforms.series.series_level.Series transforms.series.series_level.SeriesLevel""",
}


def test_every_cache_says_what_its_key_covers() -> None:
    named = Counter(name for names in COVERED.values() for name in names.split())
    found = {name.replace(" ", "") for name in caches()}
    assert [name for name, n in named.items() if n > 1] == []
    assert sorted(found - set(named)) == [], "caches of which the table does not say what their keys cover"
    assert sorted(set(named) - found) == [], "rows of the table that are no caches any more"
