"""Names of functions and methods in other libraries, and what to use here instead, for error messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import NoReturn

#: NumPy's and SciPy's names where they are not the standard's.
NAMES = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "bitwise_not":
    "bitwise_invert", "concatenate": "concat", "conjugate": "conj", "cumprod": "cumulative_prod", "cumsum":
    "cumulative_sum", "expit": "sigmoid", "gammaln": "lgamma", "invert": "bitwise_invert", "left_shift":
    "bitwise_left_shift", "mod": "remainder", "power": "pow", "psi": "digamma", "right_shift":
    "bitwise_right_shift", "rint": "round", "true_divide": "divide",
}  # fmt: skip

_CAST, _DRAW, _WRITE = "iverson.astype", "iverson.random.default_rng(seed)", "x[...] = value"
#: Names of PyTorch, NumPy and JAX that mean what is said here, in a namespace or with other arguments.
_ONE = {
    "layout": "iverson.Tensor.layout", "values_copy": "iverson.Tensor.values",
    "unfold": "numpy.lib.stride_tricks.sliding_window_view(x, n), or iverson.nn.unfold for images",
    "ASGD": "iverson.optim.SGD with iverson.optim.EMA",
    "Adafactor": "not there; iverson.optim.Adam keeps both moments",
    "BCELoss": "iverson.nn.binary_cross_entropy",
    "BCEWithLogitsLoss": "iverson.nn.binary_cross_entropy_with_logits", "Container": "iverson.nn.Sequential",
    "Conv1d": "iverson.nn.Conv(1, ...)", "Conv2d": "iverson.nn.Conv(2, ...)",
    "Conv3d": "iverson.nn.Conv(3, ...)", "CrossMapLRN2d": "iverson.nn.local_response_norm",
    "DataLoader": "iverson.data.batches", "GRUCell": "iverson.nn.GRU of one step",
    "Generator": "iverson.random.Generator",
    "GradScaler": "not needed, as ops compute in float32 and round once",
    "Identity": "iverson.nn.Lambda(lambda x: x)", "LSTMCell": "iverson.nn.LSTM of one step",
    "LinAlgError": "iverson.errors.LinearAlgebraError",
    "Module": "a class that iverson.dataclasses.dataclass decorates, as the layers of iverson.nn are",
    "ModuleDict": "a dict of layers", "ModuleList": "a list of layers", "NLLLoss2d": "iverson.nn.nll_loss",
    "ParameterDict": "a dict of tensors", "ParameterList": "a list of tensors",
    "RNNCell": "a function of iverson.nn.linear",
    "Rprop": "not there; iverson.optim.Adam takes steps of about one size, too",
    "Softmax2d": "iverson.softmax with axis=-3",
    "SparseAdam": "iverson.optim.Adam, whose steps touch what a gradient stores",
    "SyncBatchNorm": "iverson.nn.batch_norm; iverson.interop.mpi sums over workers", "add_": "x += y",
    "addbmm": "c + (a @ b).sum(axis=0)", "addcdiv": "x + value * a / b", "addcmul": "x + value * a * b",
    "addmv": "y + a @ x", "addr": "x + iverson.outer(a, b)", "adjoint": "iverson.conj(x).mT",
    "aminmax": "iverson.min and iverson.max",
    "apply_over_axes": "iverson.sum and its kin, with several axes",
    "apply_updates": "iverson.optim.apply_updates", "around": "iverson.round",
    "bartlett": "not there; numpy.bartlett gives the array", "bernoulli": f"{_DRAW}.binomial(1, p)",
    "bessel_i0e": "iverson.special.i0e", "bessel_i1e": "iverson.special.i1e",
    "bessel_j0": "iverson.special.j0", "bessel_j1": "iverson.special.j1", "bessel_y0": "iverson.special.y0",
    "bessel_y1": "iverson.special.y1", "blackman": "not there; numpy.blackman gives the array",
    "block": "iverson.concat of what iverson.concat gives", "broadcast_tensors": "iverson.broadcast_arrays",
    "cat": "iverson.concat", "chain": "iverson.optim.clip_grad_norm_ before the step",
    "chain_matmul": "iverson.linalg.multi_dot", "cholesky": "iverson.linalg.cholesky",
    "cholesky_ex": "iverson.linalg.cholesky, which raises",
    "cholesky_inverse": "iverson.linalg.inv(L @ L.mT)", "comb": "iverson.special.binom",
    "compile": "iverson.jit", "complex": "a + 1j * b", "copy": "iverson.clone",
    "correlate": "iverson.convolve with the second array flipped",
    "cpu": "not needed, as every tensor is on the CPU", "cross": "iverson.linalg.cross",
    "cumlogsumexp": "iverson.logaddexp in iverson.scan",
    "cumulative_trapezoid": "iverson.interop.scipy.integrate.cumulative_trapezoid",
    "custom_gradient": "iverson.custom_vjp", "degrees": "iverson.rad2deg", "det": "iverson.linalg.det",
    "device": "'cpu', the only one", "diagflat": "iverson.diag", "div": "iverson.divide",
    "divmod": "x // y and x % y", "dot_product_attention": "iverson.nn.scaled_dot_product_attention",
    "dropout": "iverson.nn.dropout", "dsplit": "iverson.split with axis=2", "dtype": "x.dtype",
    "dump": "iverson.save, or pickle.dump(x, file)", "dumps": "pickle.dumps(x)", "ediff1d": "iverson.diff",
    "einsum_path": "not there; iverson.einsum orders its products itself",
    "embedding_renorm_": "not there; iverson.nn.embedding takes max_norm", "eq": "iverson.equal",
    "erf_inv": "iverson.special.erfinv", "fabs": "iverson.abs",
    "fft2": "iverson.fft.fftn with axes=(-2, -1)", "fix": "iverson.trunc", "fori": "iverson.fori_loop",
    "frexp": "iverson.floor(iverson.log2(iverson.abs(x))) + 1, and x divided by 2 to this",
    "frombuffer": "iverson.asarray of numpy.frombuffer", "fromfunction": "a function of iverson.meshgrid",
    "fromiter": "iverson.asarray of a list", "ge": "iverson.greater_equal", "ger": "iverson.outer",
    "gradcheck": "iverson.testing.gradcheck", "gradgradcheck": "iverson.testing.gradgradcheck",
    "gt": "iverson.greater", "gumbel_softmax": "iverson.softmax((x + rng.gumbel(size=x.shape)) / tau)",
    "hamming": "not there; numpy.hamming gives the array",
    "hanning": "not there; numpy.hanning gives the array", "hard_sigmoid": "iverson.nn.hardsigmoid",
    "hard_tanh": "iverson.nn.hardtanh", "hardshrink": "iverson.nn.hardshrink", "histc": "iverson.histogram",
    "hsplit": "iverson.split with axis=1", "identity": "iverson.eye",
    "ifft2": "iverson.fft.ifftn with axes=(-2, -1)", "igamma": "iverson.special.gammainc",
    "igammac": "iverson.special.gammaincc", "index_reduce": "iverson.segment_max and its kin",
    "index_select": "iverson.take", "inference_mode": "iverson.no_grad",
    "inv_ex": "iverson.linalg.inv, which raises", "irfft2": "iverson.fft.irfftn with axes=(-2, -1)",
    "is_finite": "iverson.isfinite", "is_inference_mode_enabled": "iverson.is_grad_enabled",
    "is_nonzero": "bool(x)", "is_same_size": "x.shape == y.shape", "is_sparse": "iverson.Tensor.layout",
    "is_tensor": "isinstance(x, iverson.Tensor)", "iscomplex": "iverson.imag(x) != 0",
    "isreal": "iverson.imag(x) == 0", "isscalar": "x.ndim == 0",
    "istft": "not there; iverson.fft.irfft of frames, which are added up",
    "ix_": "x[rows[:, None], columns]", "kaiser": "not there; numpy.kaiser gives the array",
    "le": "iverson.less_equal", "log1mexp": "iverson.log(-iverson.expm1(-x))",
    "log_sigmoid": "iverson.nn.logsigmoid", "logaddexp2": "iverson.logaddexp",
    "logdet": "iverson.linalg.slogdet", "logistic": "iverson.sigmoid",
    "logmeanexp": "iverson.logsumexp(x) - math.log(n)", "lstsq": "iverson.linalg.lstsq",
    "lt": "iverson.less", "lu": "iverson.linalg.lu",
    "lu_factor_ex": "iverson.linalg.lu_factor, which raises", "lu_unpack": "iverson.linalg.lu_factor",
    "matrix_power": "iverson.linalg.matrix_power", "mode": "not there; iverson.unique_counts counts",
    "modf": "iverson.trunc and iverson.frac", "modified_bessel_i0": "iverson.special.i0",
    "modified_bessel_i1": "iverson.special.i1", "modified_bessel_k0": "iverson.special.k0",
    "modified_bessel_k1": "iverson.special.k1", "msort": "iverson.sort with axis=0",
    "mul": "iverson.multiply", "multinomial": f"{_DRAW}.multinomial",
    "mvlgamma": "iverson.special.multigammaln", "native_group_norm": "iverson.nn.group_norm",
    "native_layer_norm": "iverson.nn.layer_norm", "ne": "iverson.not_equal", "neg": "iverson.negative",
    "nonzero_static": "iverson.nonzero", "pdist": "iverson.cdist(x, x)", "permute": "iverson.permute_dims",
    "pinverse": "iverson.linalg.pinv", "poisson": f"{_DRAW}.poisson", "polar": "r * iverson.exp(1j * angle)",
    "polyfit": "iverson.linalg.lstsq with iverson.vander", "prelu": "iverson.nn.prelu",
    "pure_callback": "iverson.debug.print", "put_along_axis": "iverson.scatter",
    "radians": "iverson.deg2rad", "rand": f"{_DRAW}.random", "rand_like": f"{_DRAW}.random(x.shape)",
    "randint": f"{_DRAW}.integers", "randn_like": f"{_DRAW}.normal(size=x.shape)",
    "randperm": f"{_DRAW}.permutation",
    "real_if_close": "iverson.where(iverson.imag(x) == 0, iverson.real(x), x)",
    "reduce_window": "iverson.nn.max_pool2d, iverson.nn.avg_pool2d and their kin",
    "register_post_accumulate_grad_hook": "iverson.Tensor.register_hook", "rem": "iverson.remainder",
    "remat": "iverson.checkpoint", "repeat_interleave": "iverson.repeat",
    "rfft2": "iverson.fft.rfftn with axes=(-2, -1)",
    "roots": "iverson.linalg.eigvals of the companion matrix", "row_stack": "iverson.vstack",
    "savez": "iverson.save", "scaled_modified_bessel_k0": "iverson.special.k0e",
    "scaled_modified_bessel_k1": "iverson.special.k1e",
    "scatter_reduce": "iverson.segment_max, iverson.segment_sum and their kin",
    "segment_reduce": "iverson.segment_sum and its kin", "select": "iverson.piecewise",
    "setxor1d": "iverson.setdiff1d both ways and iverson.union1d", "sgn": "iverson.sign",
    "shift_left": "iverson.bitwise_left_shift", "soft_sign": "iverson.nn.softsign",
    "solve": "iverson.linalg.solve", "solve_ex": "iverson.linalg.solve, which raises",
    "spacing": "iverson.nextafter(x, iverson.inf) - x",
    "sparse_compressed_tensor": "iverson.sparse_csr_tensor",
    "squareplus": "(x + iverson.sqrt(x * x + b)) / 2",
    "stack_module_state": "iverson.tree.map with iverson.stack", "std_mean": "iverson.std and iverson.mean",
    "stft": "not there; take iverson.fft.rfft of the windows that iverson.nn.unfold cuts",
    "sum_to_size": "iverson.sum over the axes that were broadcast", "swapdims": "iverson.swapaxes",
    "swish": "iverson.silu", "switch": "iverson.cond, which takes several branches by nesting",
    "t": "iverson.matrix_transpose", "take_along_dim": "iverson.take_along_axis",
    "tensorinv": "iverson.linalg.inv of a reshaped operand",
    "tensorsolve": "iverson.linalg.solve of reshaped operands", "to_dlpack": "numpy.from_dlpack(x)",
    "tobytes": "bytes(x)", "trace": "iverson.linalg.trace", "trapz": "iverson.trapezoid",
    "tree_map": "iverson.tree.map", "tri": "iverson.tril of ones",
    "triangular_solve": "iverson.linalg.solve_triangular", "tril_indices_from": "iverson.tril_indices",
    "trim_zeros": "x[first:last]", "triu_indices_from": "iverson.triu_indices", "typename": "x.dtype.name",
    "unbind": "iverson.unstack", "unique_consecutive": "not there; iverson.unique sorts",
    "unsqueeze": "iverson.expand_dims", "var_mean": "iverson.var and iverson.mean",
    "view": "iverson.reshape; x.numpy().view(dtype) has the same bytes in another dtype",
    "vsplit": "iverson.split with axis=0",
}  # fmt: skip
#: Names that mean the same, by what they mean.
_ALIKE = {
    "not there, as every tensor is on the CPU": (
        "AcceleratorError Device DeviceObjType Event NamedSharding Shard Stream StreamObjType "
        "addressable_data copy_to_host_async cuda default_backend default_device device_count device_put "
        "devices get_default_device get_device get_device_module host_count host_id host_ids ipu is_pinned "
        "is_shared is_vulkan_available local_device_count local_devices make_mesh memory_format mtia "
        "pin_memory process_count process_index process_indices record_stream reshard set_default_device "
        "set_mesh share_memory_ transfer_guard typeof with_sharding_constraint xpu"
    ),
    "not needed, as float32 is computed in float32": (
        "AccuracyMode DotAlgorithm DotAlgorithmPreset Precision PrecisionLike RoundingMethod Tolerance "
        "default_matmul_precision get_float32_matmul_precision set_float32_matmul_precision"
    ),
    "iverson.nn.cross_entropy of iverson.nn.linear": (
        "AdaptiveLogSoftmaxWithLoss LinearCrossEntropyLoss LinearCrossEntropyOptions linear_cross_entropy"
    ),
    "c + a @ b": "addmm baddbmm saddmm sspaddmm",
    "not there; iverson.nn.interpolate samples on a regular grid": (
        "affine_grid affine_grid_generator grid_sample grid_sampler grid_sampler_2d grid_sampler_3d"
    ),
    "not needed": (
        "after_all ascontiguousarray asfortranarray contiguous create_token dce_sink is_coalesced "
        "is_contiguous is_distributed is_inference isfortran optimization_barrier require"
    ),
    "not there; iverson.jit compiles functions as they are, without TorchScript": (
        "AggregationType AliasDb Argument ArgumentSpec BenchmarkConfig BenchmarkExecutionStats Block "
        "CallStack Capsule Code CompilationUnit CompleteArgumentSpec ConcreteModuleType "
        "ConcreteModuleTypeBuilder DeepCopyMemoTable DeserializationStorageContext ErrorReport "
        "ExecutionPlan FileCheck FunctionSchema Graph GraphExecutorState IODescriptor JITException "
        "LiteScriptModule LockingLogger LoggerBase Node NoopLogger OperatorInfo PyTorchFileReader "
        "PyTorchFileWriter ScriptClass ScriptClassFunction ScriptDict ScriptDictIterator "
        "ScriptDictKeyIterator ScriptFunction ScriptList ScriptListIterator ScriptMethod ScriptModule "
        "ScriptModuleSerializer ScriptObject ScriptObjectProperty SerializationStorageContext StaticModule "
        "Tag ThroughputBenchmark TracingState Use Value import_ir_module import_ir_module_from_buffer "
        "merge_type_from_type_comment parse_ir parse_schema parse_type_comment unify_type_list"
    ),
    "iverson.interop.scipy.special": (
        "airy_ai bessel_jn chebyshev_polynomial_t chebyshev_polynomial_u dawsn expn factorial fresnel "
        "gammasgn hermite_polynomial_h hermite_polynomial_he hyp1f1 hyp2f1 laguerre_polynomial_l "
        "legendre_polynomial_p owens_t sici sph_harm_y spherical_bessel_j0 wofz"
    ),
    "not there, as tensors have no strides that are shared: iverson.reshape, x[start:stop]": (
        "alias_copy as_strided as_strided_ as_strided_copy as_strided_scatter as_subclass dim_order "
        "empty_permuted empty_strided is_set_to new_empty_strided stride"
    ),
    "iverson.nn.dropout, which draws from its generator": (
        "AlphaDropout FeatureAlphaDropout alpha_dropout alpha_dropout_ feature_alpha_dropout "
        "feature_alpha_dropout_ feature_dropout feature_dropout_ native_dropout"
    ),
    _WRITE: (
        "apply_ copy_ copyto dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim "
        "fill fill_ index_copy_ index_fill_ index_put_ map2_ map_ masked_fill_ place put put_ putmask "
        "scatter_apply scatter_max scatter_min scatter_mul scatter_sub set_ zero_"
    ),
    "iverson.vmap": "apply_along_axis frompyfunc ufunc vectorize",
    "iverson.topk": "approx_max_k approx_min_k argpartition top_k",
    "not needed, as results repeat": (
        "are_deterministic_algorithms_enabled is_warn_always_enabled "
        "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 set_flush_denormal set_warn_always"
    ),
    "iverson.asarray": (
        "array as_tensor asanyarray asarray_chkfinite asmatrix from_numpy matrix ndarray scalar_tensor"
    ),
    "repr(x) or str(x)": "array2string array_repr array_str",
    "iverson.all(x == y)": "array_equal array_equiv",
    f"{_DRAW} and its methods": (
        "ball bernoulli_ binomial bits cauchy cauchy_ chisquare double_sided_maxwell exponential_ "
        "generalized_normal geometric geometric_ log_normal_ loggamma maxwell normal_ orthogonal pareto "
        "rademacher randint_like random_ rayleigh reinforce rng_bit_generator rng_uniform triangular "
        "uniform_ wald weibull_min"
    ),
    "that of x.numpy()": (
        "base_repr binary_repr broadcast flatiter format_float_positional format_float_scientific "
        "hash_tensor histogram_bin_edges iterable may_share_memory ndenumerate ndindex nditer nested_iters "
        "savetxt savez_compressed shares_memory"
    ),
    "iverson.matmul": (
        "batch_matmul bmm dot dsmm grouped_mm hsmm hspmm matvec mm mv ragged_dot scaled_dot "
        "scaled_grouped_mm scaled_matmul scaled_mm smm spmm vecmat"
    ),
    "iverson.nn.batch_norm": (
        "batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats "
        "batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats native_batch_norm "
        "replace_all_batch_norm_modules_ standardize"
    ),
    _CAST: (
        "bfloat16 bool byte cdouble cfloat chalf char convert_element_type double float half int long short "
        "to to_mkldnn type type_as"
    ),
    "not there, as integers have no derivatives; NumPy has it": (
        "bitcast_convert_type bitwise_count clz gcd lcm mulhi packbits population_count unpackbits"
    ),
    "iverson.asarray of numpy's array": "bmat fromfile fromregex fromstring genfromtxt loadtxt memmap",
    "iverson.broadcast_to(x, y.shape)": "broadcast_like expand_as",
    "iverson.broadcast_to": "broadcast_to_rank expand pbroadcast",
    "iverson.arange": "broadcasted_iota iota range",
    "iverson.searchsorted": "bucketize digitize",
    "a field of the layer": "Buffer BufferDict",
    "not there, as entries are numbers": (
        "busday_count busday_offset busdaycalendar bytes_ datetime64 datetime_as_string datetime_data "
        "is_busday isnat object_ recarray record str_ timedelta64 void"
    ),
    "iverson.meshgrid": "cartesian_prod combinations diag_indices diag_indices_from indices mask_indices",
    "iverson.Tensor.indices and iverson.Tensor.values": "ccol_indices col_indices crow_indices row_indices",
    "iverson.reshape and iverson.swapaxes": "ChannelShuffle channel_shuffle native_channel_shuffle",
    "iverson.isdtype with a kind such as 'real floating'": (
        "character complexfloating flexible floating generic inexact integer number signedinteger "
        "unsignedinteger"
    ),
    "not there; three terms of its recurrence in iverson.fori_loop": (
        "chebyshev_polynomial_v chebyshev_polynomial_w shifted_chebyshev_polynomial_t "
        "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
    ),
    "iverson.where": "choose masked_scatter",
    "iverson.array_split": "chunk tensor_split unsafe_chunk",
    "iverson.clip": "clamp clamp_max clamp_min",
    "a dtype such as iverson.int64 or iverson.complex128": (
        "clongdouble csingle int_ intc intp longdouble longlong single ubyte uint uintc uintp ulong "
        "ulonglong ushort"
    ),
    "iverson.autograd.Function": "closure_convert custom_root",
    "iverson.result_type": "common_type min_scalar_type mintypecode promote_types",
    "not there; the small dtypes are iverson.float16 and iverson.bfloat16": (
        "complex256 float128 int1 int2 int4 reduce_precision uint1 uint2 uint4"
    ),
    "an exception of iverson.errors": "ComplexWarning FatalError OutOfMemoryError geterrcall seterrcall",
    "x[mask]": "compress extract masked_select",
    "iverson.conj": "conj_physical conj_physical_",
    "iverson.nn.conv1d and its kin": (
        "conv conv_general_dilated conv_general_dilated_local conv_general_dilated_patches conv_tbc "
        "conv_transpose conv_with_general_padding convolution"
    ),
    "iverson.linalg.LinearOperator": "custom_linear_solve linear_transpose",
    "iverson.Tensor.detach": "data detach detach_ detach_copy freeze stop_gradient",
    "iverson.interop.mpi": (
        "DataParallel all_gather all_to_all axis_index axis_size pmap pmax pmean pmin ppermute pshuffle "
        "psum psum_scatter shard_map smap"
    ),
    "iverson.debug.nans": (
        "debug_infs debug_nans detect_anomaly enable_checks errstate geterr is_anomaly_check_nan_enabled "
        "is_anomaly_enabled set_anomaly_enabled set_detect_anomaly seterr"
    ),
    "x[...] = value on iverson.clone(x)": "diagonal_scatter select_scatter slice_scatter",
    "iverson.Tensor.ndim": "dim ndim ndimension",
    "not there; iverson.asarray takes objects with __array__": (
        "DisableTorchFunction DisableTorchFunctionSubclass DispatchKey DispatchKeySet "
        "ExcludeDispatchKeyGuard boolean_dispatch handle_torch_function has_torch_function "
        "has_torch_function_unary has_torch_function_variadic"
    ),
    "iverson.tensordot": "dot_general get_scaled_dot_general_config ragged_dot_general scaled_dot_general",
    "x[index]": "dynamic_index_in_dim index index_in_dim index_take select_n",
    "x[start:stop]": "dynamic_slice dynamic_slice_in_dim narrow slice slice_copy slice_in_dim slice_inverse",
    "iverson.linalg.eigh": "eigh symeig",
    "x.dtype.itemsize": "element_size itemsize",
    "iverson.float64, which is the default": "enable_x64 get_default_dtype",
    "iverson.explain": "explain_cache_misses live_arrays log_compiles make_jaxpr stage",
    "iverson.flip": "fliplr flipud rev",
    "iverson.pow": "float_power integer_pow",
    "iverson.linalg.norm": "frobenius_norm native_norm norm norm_except_dim nuclear_norm",
    "the function itself, of a layer: layers are pytrees": "functional_call functionalize",
    "not needed, as calls return when they are done": "Future block_until_ready effects_barrier fork wait",
    "iverson.value_and_grad": "fwd_and_bwd grad_and_value",
    "iverson.linalg.qr": "geqrf householder_product orgqr ormqr qr",
    "not there; os.sched_setaffinity says on how many processors": (
        "get_num_interop_threads get_num_threads init_num_threads prepare_multiprocessing_environment "
        "set_num_interop_threads set_num_threads"
    ),
    "numpy.printoptions": "get_printoptions printoptions set_printoptions",
    "iverson.finfo": "getbufsize setbufsize",
    "iverson.nn.GRU": "gru gru_cell",
    "iverson.nn.hardswish": "hard_silu hard_swish",
    "iverson.fft.fftn, along the last axis iverson.fft.hfft": "hfft2 hfftn",
    "not there; iverson.histogram is of one axis": "histogram2d histogramdd",
    "iverson.fft.ifftn, along the last axis iverson.fft.ihfft": "ihfft2 ihfftn",
    "x[index] = value": "index_copy index_fill index_put",
    "iverson.vecdot": "inner vdot",
    "iverson.linalg.inv": "inv inverse",
    "iverson.isdtype": "is_complex is_floating_point is_signed iscomplexobj isrealobj issubdtype",
    "not there, as conjugates and negatives are computed at once": "is_conj is_neg resolve_conj resolve_neg",
    "iverson.jacobian": "jacfwd jacrev",
    "x * 2.0**n": "ldexp ldexp_",
    "not there; iverson.linalg.cholesky and iverson.linalg.lu_factor solve such systems": (
        "ldl_factor ldl_factor_ex ldl_solve"
    ),
    "iverson.nn.LSTM": "lstm lstm_cell",
    _DRAW: "manual_seed seed",
    "iverson.moveaxis": "movedim rollaxis",
    "iverson.nn.MultiHeadAttention": "MultiheadAttention multi_head_attention_forward",
    "not there; iverson.maximum(0, margin - x[target] + x) ** p is its term": (
        "MultiLabelMarginLoss MultiMarginLoss multi_margin_loss multilabel_margin_loss"
    ),
    "iverson.Tensor.size": "nelement numel size",
    "iverson.zeros, iverson.full and their kin with dtype=x.dtype": (
        "new new_empty new_full new_ones new_tensor new_zeros"
    ),
    f"{_DRAW}.normal": "normal randn",
    "a tensor: requires_grad=True where backward is to be called": (
        "Parameter UninitializedBuffer UninitializedParameter"
    ),
    "iverson.sort": "partition sort_complex sort_key_val",
    "iverson.linalg.svd": "pca_lowrank svd svd_lowrank",
    "not there; iverson.polyval evaluates coefficients, iverson.convolve multiplies them": (
        "poly poly1d polyadd polyder polydiv polyint polymul polysub"
    ),
    f"{_DRAW}, and spawn for further ones": (
        "PRNGKey fold_in get_rng_state initial_seed key_data key_dtype key_impl set_rng_state "
        "thread_safe_generator wrap_key_data"
    ),
    "iverson.tree": "pytree tree_util",
    "iverson.sum, iverson.max and their kin": (
        "reduce reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor"
    ),
    "x * iverson.minimum(1.0, maxnorm / norm)": "renorm renorm_",
    "iverson.reshape(x, y.shape)": "reshape_as resize_as resize_as_ resize_as_sparse_ view_as",
    "iverson.scan": (
        "RNN RNNBase RNNCellBase associative_scan map rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell"
    ),
    "iverson.nn.leaky_relu with a slope that is drawn": "RReLU rrelu rrelu_",
    "iverson.subtract": "rsub sub",
    "not there; say dtype= where a tensor is made": "set_default_dtype set_default_tensor_type",
    "iverson.explain of the function": "ShapeDtypeStruct eval_shape",
    "iverson.bitwise_right_shift": "shift_right_arithmetic shift_right_logical",
    "iverson.Tensor.shape": "Size shape",
    "iverson.where on the pieces of the function": "sparse_plus sparse_sigmoid",
    "iverson.to_layout": (
        "sparse_resize_ sparse_resize_and_clear_ to_padded_tensor to_sparse_bsc to_sparse_bsr to_sparse_coo "
        "to_sparse_csc to_sparse_csr"
    ),
    "iverson.split": "split_with_sizes unsafe_split unsafe_split_with_sizes",
    "a number of Python": "SymBool SymFloat SymInt",
    "not there; iverson.nn.MultiHeadAttention and iverson.nn.LayerNorm make one": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer"
    ),
    "iverson.nn.triplet_margin_loss": "TripletMarginWithDistanceLoss triplet_margin_with_distance_loss",
    "x.numpy()": (
        "TypedStorage UntypedStorage const_data_ptr data_ptr device_get from_file storage storage_offset "
        "storage_type untyped_storage"
    ),
    "iverson.reshape": "Unflatten broadcast_in_dim collapse resize unflatten",
    "iverson.nn.interpolate": (
        "Upsample UpsamplingBilinear2d UpsamplingNearest2d upsample upsample_bilinear upsample_nearest"
    ),
    "a tensor with requires_grad=True": "Variable variable",
}  # fmt: skip
_ELSEWHERE = {**_ONE, **{name: meaning for meaning, names in _ALIKE.items() for name in names.split()}}


_XLA = "not there, as it serves XLA, the compiler of JAX"
#: What is said of names of a kind.
_PATTERNS = (
    (r"\w+Pad[123]d|constant_pad_nd", "iverson.nn.pad"),
    (r"(cudnn|miopen|mkldnn|fbgemm)_\w+", "not there, as every tensor is on the CPU"),
    (r"\w*(quantize|quantized)\w*|q_\w+|int_repr|qscheme", "not there, as no dtype is quantised"),
    (r"\w*autocast\w*", "not there; iverson.astype says where half precision is meant"),
    (r"\w+(Unpool|Unpool[123]d)|max_unpool[123]d", "not there; iverson.scatter puts maxima back at indices"),
    (r"Fractional\w+|fractional_\w+", "not there; iverson.nn.max_pool2d takes windows of one size"),
    (r"(is|set|get)_deterministic\w*|use_deterministic\w*", "not needed, as results repeat"),
    (r"(bartlett|blackman|hamming|hann|kaiser)_window", "not there; scipy.signal.windows has the array"),
    (r"\w+(_with_indices)", "the function without that end, with return_indices=True"),
    (r"base|byteswap|ctypes|flags|getfield|setfield|setflags|strides|tofile", "that of x.numpy()"),
    (r"choose_qparams_\w+|fused_moving_avg_\w+", "not there, as no dtype is quantised"),
    (r"p(recv|send|cast|swapaxes)|\w*ragged\w*|\w+_shape_tuple|conv_general_\w+|\w+_prng\w*", _XLA),
    (r"(threefry|transfer_guard|array_garbage|random_gamma_|igamma_grad|make_array_from)\w*", _XLA),
    (
        r"numpy_\w+_promotion|(empty|free|new)_ref|check\w*_leaks|named_(call|scope)|no_(execution|tracing)",
        _XLA,
    ),
    (r"sym_\w+", "not there, as shapes are Python integers"),
    (r"\w*Storage(Base)?|is_storage", "x.numpy(), which has the memory"),
    (r"(BFloat16|Bool|Byte|Char|Double|Float|Half|Int|Long|Short)Tensor", "iverson.asarray with a dtype"),
    (r"float\d_\w+", "not there; the small dtypes are iverson.float16 and iverson.bfloat16"),
    (r"[A-Z]\w*Type|[A-Z]\w*Numbers", "not there; functions take Python's numbers and tuples"),
)
#: Namespaces in which a class of another library or a method that writes is looked for; those of methods.
SPACES = (
    "iverson.array_api", "iverson.linalg", "iverson.special", "iverson.fft", "iverson.nn", "iverson.optim",
)  # fmt: skip
OF_METHODS = SPACES[:4]
#: What is written in index notation for names of other libraries, and for functions of whole arrays.
_IN_NOTATION = {
    "all": "te.min of 0 and 1", "any": "te.max of 0 and 1", "arange": "the index itself: lambda i: i",
    "average": "te.sum(x[k], k) / n", "cast": "x.astype(dtype)", "concat": "te.select(i < n, a[i], b[...])",
    "cumulative_prod": "te.scan", "cumulative_sum": "te.scan", "dot": "te.sum(a[i, k] * b[k, j], k)",
    "einsum": "te.sum(a[i, k] * b[k, j], k)", "fill": "te.compute(shape, lambda i: number)",
    "flip": "x[n - 1 - i]", "gather": "x[index[i]]", "isclose": "te.abs(a - b) <= tolerance",
    "linspace": "lo + i * step", "logsumexp": "te.max, te.exp, te.sum and te.log",
    "matmul": "te.sum(a[i, k] * b[k, j], k)", "mean": "te.sum(x[k], k) / n", "nan_to_num":
    "te.select(te.isnan(x), 0, x)", "norm": "te.sqrt(te.sum(x[k] ** 2, k))",
    "ones": "te.compute(shape, lambda i: 1.0)", "pad": "te.select(inside, x[te.clamp(i, 0, n - 1)], 0)",
    "permute_dims": "x[j, i]", "range": "te.reduce_axis((lo, hi))", "repeat": "x[i // times]",
    "reshape": "x[i // n, i % n]", "roll": "x[(i - shift) % n]", "softmax": "te.max, te.exp and te.sum",
    "stack": "te.select(i == 0, a[j], b[j])", "std": "te.sum and te.sqrt", "sub": "a - b",
    "tile": "x[i % n]", "transpose": "x[j, i]", "tril": "te.select(j <= i, x[i, j], 0)",
    "triu": "te.select(j >= i, x[i, j], 0)", "vdot": "te.sum(a[k] * b[k], k)",
    "zeros": "te.compute(shape, lambda i: 0.0)",
}  # fmt: skip


#: Parameters that a keyword of another library stands for, the first of them that a function has.
KEYWORDS = {
    "a_max": "max", "a_min": "min", "argnum": "argnums", "b1": "betas", "b2": "betas",
    "biased": "correction", "ddof": "correction",
    "dim": "axis axes", "dims": "axes axis", "donate_argnames": "donate",
    "donate_argnums": "donate", "fill": "fill_value", "generator": "rng", "in_dims": "in_axes",
    "index": "indices", "keep_dims": "keepdims", "keepdim": "keepdims",
    "key": "rng", "kind": "stable method", "learning_rate": "lr", "newshape": "shape",
    "out_dims": "out_axes", "random_state": "rng", "rcond": "rtol", "seed": "seed rng",
    "size": "shape size", "static_argnames": "static", "static_argnums": "static",
    "steps": "num", "tol": "rtol", "unbiased": "correction", "weight": "weights weight",
    "weights": "weight weights",
}  # fmt: skip
#: What to do in place of a keyword that no function has.
_WITHOUT_KEYWORD = {
    "casting": "call iverson.astype first", "foreach": "leave it out", "fused": "leave it out",
    "initial": "apply iverson.maximum, iverson.add or their kin to the result and this number",
    "inplace": "use what the function returns: x = f(x)", "like": "leave it out",
    "memory_format": "leave it out", "names": "leave it out, as axes are numbers",
    "order": "leave it out, as addresses are row-major",
    "out": "use what the function returns; y[...] = result writes into a tensor",
    "pin_memory": "leave it out, as every tensor is on the CPU",
    "return_counts": "call iverson.unique_counts", "return_inverse": "call iverson.unique_inverse",
    "subok": "leave it out",
    "where": "call iverson.where(condition, x, number) first, or make a masked tensor",
}  # fmt: skip


def is_needless(name: str) -> bool:
    """True for a keyword of another library that no function has, and that means nothing where it is None."""
    return name in _WITHOUT_KEYWORD


def keyword_remedy(name: str, parameters: Collection[str]) -> str:
    """Remedy for a keyword that a function does not have: a parameter of it, or another way.

    parameters : names of the parameters that the function has.

    >>> keyword_remedy("keepdim", ["axis", "keepdims"]), keyword_remedy("ddof", ["correction"])
    ('write keepdims=...', 'write correction=...')
    """
    from difflib import get_close_matches

    candidates = [c for c in KEYWORDS.get(name, "").split() if c in parameters]
    if name in ("unbiased", "biased") and candidates:
        return "write correction=1 for a division by n - 1, correction=0 for one by n"
    candidates = candidates or ([] if name in _WITHOUT_KEYWORD else get_close_matches(name, parameters, n=1))
    return f"write {candidates[0]}=..." if candidates else _WITHOUT_KEYWORD.get(name, "")


def in_notation(name: str, functions: Collection[str]) -> str:
    """End of an error about an unknown name in ``te``, which has ``functions``; see `remedy`.

    >>> in_notation("mean", ()), in_notation("arcsin", {"asin"}), in_notation("nothing_known", ())
    ('; in index notation it is te.sum(x[k], k) / n', '; in index notation it is te.asin', '')
    """
    target = NAMES.get(name, name)
    replacement = (
        f"te.{target}" if target in functions else _IN_NOTATION.get(target) or _IN_NOTATION.get(name)
    )
    return f"; in index notation it is {replacement}" if replacement else ""


def nearest(name: str, names: Sequence[str], namespace: str) -> str:
    """End of an error about an unknown name that is one of ``names``, but for a slip.

    >>> nearest("reduceaxis", ["reduce_axis", "sum"], "te"), nearest("nothing_known", ["sum"], "te")
    ('; the nearest name is te.reduce_axis', '')
    """
    from difflib import get_close_matches

    matches = get_close_matches(name, names, n=1, cutoff=0.75)
    return f"; the nearest name is {namespace}.{matches[0]}" if matches else ""


def remedy(name: str, spaces: Sequence[str] = ()) -> str:
    """End of an error about an unknown name: the name that Iverson has for it, or nothing.

    spaces : namespaces in which a class of PyTorch's and a method that writes are looked for.

    >>> remedy("cat"), remedy("arcsin"), remedy("nothing_known")
    ('; here it is iverson.concat', '; here it is iverson.asin', '')
    >>> remedy("BatchNorm2d", ["iverson.nn"]), remedy("relu_", ["iverson.array_api"])
    ('; here it is iverson.nn.batch_norm', '; here it is x = iverson.relu(x)')
    """
    if name.startswith("_"):
        return ""
    replacement = f"iverson.{NAMES[name]}" if name in NAMES else _ELSEWHERE.get(name)
    replacement = replacement or _by_rule(name, spaces)
    return f"; here it is {replacement}" if replacement else ""


def renames() -> dict[str, str]:
    """Names of other libraries, in the order of the alphabet, with what each is here; for the documentation.

    >>> renames()["cat"], renames()["arcsin"]
    ('iverson.concat', 'iverson.asin')
    """
    functions = {name: f"iverson.{here}" for name, here in NAMES.items()}
    return dict(sorted((_ELSEWHERE | functions).items()))


def _by_rule(name: str, spaces: Sequence[str]) -> str:
    """A function that a name of a kind stands for: one in capitals, one that ends with an underscore, one of
    another namespace; or nothing."""
    for pattern, answer in _PATTERNS:
        if re.fullmatch(pattern, name):
            return answer
    base = name.removesuffix("_copy").rstrip("_")
    if name != base and (target := NAMES.get(base)):
        return f"x = iverson.{target}(x)"
    if name != base and (target := _ELSEWHERE.get(base)):
        return target
    name = name.removeprefix("Lazy").removeprefix("native_").removesuffix("_copy")
    functions = {space: import_module(space).__all__ for space in spaces}
    public = {space: space.removesuffix(".array_api") for space in spaces}
    for space, names in functions.items():
        if name in names:
            return f"{public[space]}.{name}"
    writes = name.endswith("_")
    if not (writes or name[:1].isupper()):
        return ""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().rstrip("_")
    plain = words.replace("_", "")
    without = plain.removesuffix("loss"), re.sub("[123]d$", "", plain)
    for space, names in functions.items():
        by_letters = {n.replace("_", ""): n for n in names if n[:1].islower()}
        match = next((by_letters[p] for p in (plain, *without) if p in by_letters), "")
        if match:
            return f"x = {public[space]}.{match}(x)" if writes else f"{public[space]}.{match}"
    return ""


def absent(module: str) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a namespace: an AttributeError that says what Iverson has for a name."""

    def refuse(name: str) -> NoReturn:
        spaces = [module, *(space for space in SPACES if space != module)]
        raise AttributeError(f"module '{module}' has no attribute '{name}'{remedy(name, spaces)}")

    return refuse
