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
        array_api.segments._running_products codegen.arrays.data_offset codegen.arrays.flags_offset
        codegen.arrays.items_offset codegen.link._libc codegen.one_thread.numpys codegen.peak.peak
        codegen.programs.blas.scipy_table codegen.programs.workers._library codegen.target.host
        codegen.target.start codegen.threads._pool codegen.threads._workers core.caller._libraries
        core.guards._libraries core.scalars.incomplete._bernoulli core.scalars.special._lgamma_series
        expr.nodes._of_ufunc layouts.counting.loops te.sets._context te.sets._isl transforms.trees._keep_order
        transforms.trees._register""",
    "nothing: versions, and the source as it was when the process started; else the disk is not used": """
        codegen.cache._environment codegen.cache._source""",
    "the name: entered as modules are imported, and by extensions": """
        core.dispatch._by_type core.dispatch._default core.dispatch._handle core.float_warnings._relayed
        core.locks._guarding_libraries core.locks._guarding_python core.table.TABLE dataclasses._known
        interop.mpi.ranks._given_up kernels.registry._kernels layouts.registry.layouts_by_type
        masked.pytree._known testing.directions._makers""",
    "what is in progress: entered and left by one call": "autograd.guards._variables core.dispatch.Level",
    "shape and dtype of memory that nobody uses": "codegen.workspace._spare",
    # --- of pure functions ---
    "all arguments, numbers, names and dtypes of which equal ones give the same": """
        array_api.einsum._greedy array_api.einsum.parse array_api.numpy_functions._ours codegen.ufuncs.address
        core.caller._own_files core.guards._is_of_users kernels.fused._adam kernels.fused._function
        kernels.fused._outer kernels.fused._recurrence kernels.fused._sgd kernels.nests.on_union
        kernels.nests.sampled kernels.nests.scatter_rows kernels.nests.sddmm kernels.nests.segment_softmax
        kernels.nests.segment_sum kernels.nests.softmax_pullback kernels.nests.spmm layouts.counting.numbered
        ops.shape._inverse ops.shape._transposed te.prefer._pullback te.prefer._pushforward
        te.sets._loops_of_text transforms.dependence._KNOWN""",
    "the code itself, equal where its instructions and names are": """
        core.caller._stored_after core.guards._computes_names core.guards._imports""",
    "the class, op or rule itself, which lives as long": """
        core.cost._views core.op.Op core.op.reads expr.nodes._defaults expr.nodes._key te.prefer._rules
        codegen.target.target_machine""",
    # --- of texts ---
    "the text of the kernel and the processor": "codegen.kernel._kernels",
    "a digest of the program without names and constants, which are arguments, of processor and versions": """
        codegen.programs.compile._libraries""",
    "a digest of the graph with types, which constants are one, what is donated, what users' ops compute": """
        graph.stored._facts""",
    "the text of equations with types, and the ops that others may share a name with": """
        graph.expressions._known graph.fuse._templates""",
    "the text of a graph, ops and patterns themselves, entries of small constants of integers": """
        graph.bodies._interned""",
    "a digest of the statements, but for the names of tensors and indices": "te.lower._lowered",
    "class and fields, numbers with their types and signs, expressions themselves": "expr.nodes._interned",
    "shapes, strides and dtypes of views": "codegen.programs.build._products",
    # --- of types and structures ---
    "the name and family of the op and the types of its operands, forgotten when a kernel is registered": """
        kernels.registry._found""",
    "the op, types and dtypes of its operands, and numbers with types and signs": """
        kernels.sparse_elementwise._known_bounding""",
    "structures whose keys are names, of which equal ones are the same": """
        transforms.trees._OF_NAMES transforms.trees._WITHOUT_WRAPPERS""",
    "ops of the library, parameters with types and signs, shapes, and entries of index arrays": """
        transforms.sparse_jacobian._plans""",
    # --- of objects ---
    "the array itself, while it lives, where nobody can write to it": "layouts.segments._known",
    "the name of a pattern that was pickled, which no other has, while it lives": "layouts.pattern._by_name",
    "what follows from a pattern, which never changes: by all else, and other patterns themselves": """
        layouts.coo.CooPattern layouts.pattern.Pattern""",
    "what follows from a graph, which never changes: by all else, and by rules in force": """
        graph.nodes.Graph""",
    "what follows from a mask, which never changes": "masked.mask.Mask",
    "structure, shapes, dtypes, layouts, values with types and signs, which tensors are one, the rules and "
    "the policy in force; and guards of what is read besides": "transforms.jit.Jitted",
    "shapes, dtypes, parameters with types and signs; another expression where what it reads has changed": """
        te.operator.Expression""",
    "shapes for one function, ranks, dtypes and parameters": "te.any_shape.AnyShape",
    "numbers of entries, patterns themselves, which inputs are tracked": "graph.compiled.Compiled",
    "avals, what crosses, what is asked for, whether it is recorded; rules are those of the call": """
        graph.bodies.Derivatives graph.compiled._Differentiable""",
    "sizes and ranges of indices by name; variants by kind and phase": """
        codegen.kernel.CompiledKernel codegen.launch._Shared""",
    "regions, of one program": """
        te.index_maps.Relation.__init__:cache(lambda:links_of(program))
        te.index_maps.Relation.__init__:cache(self._place)
        te.index_maps.Relation.__init__:lru_cache(MANY)(self._image)
        te.index_maps.Relation.__init__:lru_cache(MANY)(self._preimage)""",
    "the instance, of which all that it is made of never changes": """
        codegen.kernel.CompiledKernel._indices codegen.kernel.CompiledKernel.careful
        codegen.link._Object._table codegen.nodes.Kernel codegen.programs.compile.CompiledProgram._entry
        codegen.programs.compile.CompiledProgram._inputs codegen.programs.compile.CompiledProgram._outputs
        codegen.programs.compile.CompiledProgram._planned codegen.programs.compile.CompiledProgram.small
        codegen.rows._Part.axes codegen.rows._Part.tile codegen.rows._Rows.axes codegen.rows._Rows.parts
        codegen.rows._Rows.size codegen.rows._Rows.stored codegen.rows._Rows.touched
        core.cached.cached_property
        graph.compiled.Compiled._on_symbols graph.differentiate.Recorded graph.executable.OnEntries.reused
        graph.lower.Lowered._direct graph.lower._Again.step kernels.merging.Marked kernels.origins.Origin
        kernels.merging._meeting:cache(lambda:_places(n,m,pair[1],(starts,indices)))
        layouts.compressed.arrange._rows_in_blocks.source
        layouts.bracket.Once
        layouts.counting.carried:cache(lambda:take(indptr,indices,np.arange(indices.size))[2])
        masked.buckets.Lines.bucketed masked.buckets.Lines.buckets masked.buckets.Lines.order
        masked.buckets.Lines.ranks te.blocked.lowered_in_blocks.of_size te.lowered.Lowered
        te.lowered.Lowered._rows te.lowered.Lowered._taken te.lowered.Lowered.whole te.lowered.Run.compiled
        te.operator.Compiled._kinds te.operator.Compiled.has_poles te.operator.Compiled.leaves_out
        te.operator.Compiled.lowered te.operator.Compiled.picked
        te.operator.Expression._compile.reached te.operator.Expression._of_sums.counts
        testing.jacobians.Check._nearby testing.numerical.Numerical""",
    "the state of a tensor or an optimizer: no cache": """
        handles.tensor.Tensor interop.dask.gradients._Message optim.base.Optimizer""",
    "one run of a pass, a lowering, a trace, a differentiation or a print: values and nodes themselves": """
        autograd.accumulate.Sum codegen.ir.Builder codegen.lanes.Machine codegen.link._Object
        codegen.llvm.Works codegen.programs.arena._InPlace codegen.programs.arena._Uses
        codegen.programs.emit._Emitter codegen.programs.products.Products codegen.programs.verify._Verifier
        core.guards._Reached explain.rules.RuleCosts graph.cells.TraceCells graph.lines.Lines
        graph.lower_grad_of._Lowering graph.memory.Memory graph.opening.Opening graph.opening.Opening.lasting
        graph.opening.Opening.selects graph.parse._Parser
        graph.passes.entries._Parts graph.passes.entries._Walk graph.passes.packing._Packing
        graph.passes.reading._Reader graph.print.Printer graph.recompute._Index graph.scan._Stack
        graph.scan_derivative.Linear graph.segment.Segment graph.trace.Trace te.blocked._Making
        te.differentiate._Reverse te.lower._Lowering te.one_call.Steps te.translate.Sizes
        te.translate.Translation transforms.jit.Chosen""",
}


def test_every_cache_says_what_its_key_covers() -> None:
    named = Counter(name for names in COVERED.values() for name in names.split())
    found = {name.replace(" ", "") for name in caches()}
    assert [name for name, n in named.items() if n > 1] == []
    assert sorted(found - set(named)) == [], "caches of which the table does not say what their keys cover"
    assert sorted(set(named) - found) == [], "rows of the table that are no caches any more"
