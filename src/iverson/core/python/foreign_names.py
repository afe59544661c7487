"""Names of functions and methods in other libraries, and what to use here instead, for error messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
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
_ELSEWHERE = {
    "ASGD": "iverson.optim.SGD with iverson.optim.EMA",
    "Adafactor": "not there; iverson.optim.Adam keeps both moments",
    "BCELoss": "iverson.nn.binary_cross_entropy",
    "BCEWithLogitsLoss": "iverson.nn.binary_cross_entropy_with_logits", "Buffer": "a field of the layer",
    "Conv1d": "iverson.nn.Conv(1, ...)", "Conv2d": "iverson.nn.Conv(2, ...)",
    "Conv3d": "iverson.nn.Conv(3, ...)", "DataLoader": "iverson.data.batches",
    "GRUCell": "iverson.nn.GRU of one step", "Identity": "iverson.nn.Lambda(lambda x: x)",
    "LSTMCell": "iverson.nn.LSTM of one step",
    "Module": "a class that iverson.dataclasses.dataclass decorates, as the layers of iverson.nn are",
    "ModuleDict": "a dict of layers", "ModuleList": "a list of layers",
    "MultiheadAttention": "iverson.nn.MultiHeadAttention", "NLLLoss2d": "iverson.nn.nll_loss",
    "Parameter": "a tensor: requires_grad=True where backward is to be called",
    "ParameterDict": "a dict of tensors", "ParameterList": "a list of tensors", "RNN": "iverson.scan",
    "RNNCell": "a function of iverson.nn.linear",
    "Rprop": "not there; iverson.optim.Adam takes steps of about one size, too",
    "Softmax2d": "iverson.softmax with axis=-3",
    "SparseAdam": "iverson.optim.Adam, whose steps touch what a gradient stores",
    "SyncBatchNorm": "iverson.nn.batch_norm; iverson.interop.mpi sums over workers",
    "Transformer": "not there; iverson.nn.MultiHeadAttention and iverson.nn.LayerNorm make one",
    "Upsample": "iverson.nn.interpolate", "add_": "x += y", "addbmm": "c + (a @ b).sum(axis=0)",
    "addcdiv": "x + value * a / b", "addcmul": "x + value * a * b", "addmm": "c + a @ b",
    "addmv": "y + a @ x", "addr": "x + iverson.outer(a, b)", "adjoint": "iverson.conj(x).mT",
    "aminmax": "iverson.min and iverson.max", "apply_along_axis": "iverson.vmap",
    "apply_over_axes": "iverson.sum and its kin, with several axes",
    "apply_updates": "iverson.optim.apply_updates", "argpartition": "iverson.topk",
    "around": "iverson.round", "array": "iverson.tensor", "array_equal": "iverson.all(x == y)",
    "array_equiv": "iverson.all(x == y)", "as_tensor": "iverson.asarray", "baddbmm": "c + a @ b",
    "bartlett": "not there; numpy.bartlett gives the array", "bernoulli": f"{_DRAW}.binomial(1, p)",
    "bitwise_count": "not there, as integers have no derivatives; take numpy.bitwise_count",
    "blackman": "not there; numpy.blackman gives the array",
    "block": "iverson.concat of what iverson.concat gives", "bmm": "iverson.matmul",
    "broadcast_tensors": "iverson.broadcast_arrays", "bucketize": "iverson.searchsorted",
    "cat": "iverson.concat", "chain": "iverson.optim.clip_grad_norm_ before the step",
    "LinAlgError": "iverson.errors.LinearAlgebraError",
    "cholesky_ex": "iverson.linalg.cholesky, which raises", "inv_ex": "iverson.linalg.inv, which raises",
    "lu_factor_ex": "iverson.linalg.lu_factor, which raises",
    "solve_ex": "iverson.linalg.solve, which raises",
    "chain_matmul": "iverson.linalg.multi_dot", "cholesky": "iverson.linalg.cholesky",
    "choose": "iverson.where", "chunk": "iverson.array_split", "clamp": "iverson.clip",
    "clamp_max": "iverson.clip", "clamp_min": "iverson.clip", "comb": "iverson.special.binom",
    "compile": "iverson.jit", "complex": "a + 1j * b", "compress": "x[mask]", "contiguous": "not needed",
    "copy": "iverson.clone", "copy_": _WRITE,
    "correlate": "iverson.convolve with the second array flipped",
    "cpu": "not needed, as every tensor is on the CPU", "cross": "iverson.linalg.cross",
    "cuda": "not there, as every tensor is on the CPU", "custom_gradient": "iverson.custom_vjp",
    "data": "iverson.Tensor.detach", "degrees": "iverson.rad2deg", "det": "iverson.linalg.det",
    "detach_": "iverson.Tensor.detach", "detect_anomaly": "iverson.debug.nans",
    "device": "'cpu', the only one", "diagflat": "iverson.diag", "digitize": "iverson.searchsorted",
    "dim": "iverson.Tensor.ndim", "div": "iverson.divide", "dot": "iverson.matmul", "double": _CAST,
    "dropout": "iverson.nn.dropout", "dsmm": "iverson.matmul", "dsplit": "iverson.split with axis=2",
    "ediff1d": "iverson.diff", "eigh": "iverson.linalg.eigh", "element_size": "x.dtype.itemsize",
    "eq": "iverson.equal", "expand": "iverson.broadcast_to", "extract": "x[mask]", "fabs": "iverson.abs",
    "fft2": "iverson.fft.fftn with axes=(-2, -1)", "fill_": _WRITE, "fix": "iverson.trunc",
    "fliplr": "iverson.flip", "flipud": "iverson.flip", "float": _CAST, "float_power": "iverson.pow",
    "fori": "iverson.fori_loop", "frobenius_norm": "iverson.linalg.norm", "from_numpy": "iverson.asarray",
    "frombuffer": "iverson.asarray of numpy.frombuffer", "fromfunction": "a function of iverson.meshgrid",
    "fromiter": "iverson.asarray of a list", "frompyfunc": "iverson.vmap",
    "gcd": "not there, as integers have no derivatives; take numpy.gcd", "ge": "iverson.greater_equal",
    "ger": "iverson.outer", "get_default_dtype": "iverson.float64",
    "grid_sample": "not there; iverson.nn.interpolate samples on a regular grid", "gt": "iverson.greater",
    "gumbel_softmax": "iverson.softmax((x + rng.gumbel(size=x.shape)) / tau)", "half": _CAST,
    "hamming": "not there; numpy.hamming gives the array",
    "hanning": "not there; numpy.hanning gives the array", "histc": "iverson.histogram",
    "histogram2d": "not there; iverson.histogram is of one axis",
    "histogramdd": "not there; iverson.histogram is of one axis", "hsplit": "iverson.split with axis=1",
    "hspmm": "iverson.matmul", "identity": "iverson.eye", "ifft2": "iverson.fft.ifftn with axes=(-2, -1)",
    "igamma": "iverson.special.gammainc", "igammac": "iverson.special.gammaincc",
    "index_copy": "x[index] = value", "index_fill": "x[index] = value", "index_put": "x[index] = value",
    "index_reduce": "iverson.segment_max and its kin", "index_select": "iverson.take",
    "indices": "iverson.meshgrid", "inference_mode": "iverson.no_grad", "inner": "iverson.vecdot",
    "inv": "iverson.linalg.inv", "inverse": "iverson.linalg.inv",
    "irfft2": "iverson.fft.irfftn with axes=(-2, -1)", "is_anomaly_enabled": "iverson.debug.nans",
    "is_complex": "iverson.isdtype", "is_floating_point": "iverson.isdtype",
    "is_inference_mode_enabled": "iverson.is_grad_enabled", "is_sparse": "iverson.Tensor.layout",
    "is_tensor": "isinstance(x, iverson.Tensor)", "iscomplex": "iverson.imag(x) != 0",
    "iscomplexobj": "iverson.isdtype", "isreal": "iverson.imag(x) == 0", "isrealobj": "iverson.isdtype",
    "isscalar": "x.ndim == 0", "issubdtype": "iverson.isdtype", "jacfwd": "iverson.jacobian",
    "jacrev": "iverson.jacobian", "kaiser": "not there; numpy.kaiser gives the array",
    "lcm": "not there, as integers have no derivatives; take numpy.lcm", "le": "iverson.less_equal",
    "log_sigmoid": "iverson.nn.logsigmoid", "logaddexp2": "iverson.logaddexp",
    "logdet": "iverson.linalg.slogdet", "long": _CAST, "lstsq": "iverson.linalg.lstsq",
    "lt": "iverson.less", "lu": "iverson.linalg.lu", "manual_seed": _DRAW,
    "masked_scatter": "iverson.where", "masked_select": "x[mask]",
    "matrix_power": "iverson.linalg.matrix_power", "matvec": "iverson.matmul", "mm": "iverson.matmul",
    "modf": "iverson.trunc and iverson.frac", "movedim": "iverson.moveaxis",
    "msort": "iverson.sort with axis=0", "mul": "iverson.multiply", "multinomial": f"{_DRAW}.multinomial",
    "mv": "iverson.matmul", "mvlgamma": "iverson.special.multigammaln", "narrow": "x[start:stop]",
    "ndim": "iverson.Tensor.ndim", "ne": "iverson.not_equal", "neg": "iverson.negative",
    "nelement": "iverson.Tensor.size", "norm": "iverson.linalg.norm", "normal": f"{_DRAW}.normal",
    "nuclear_norm": "iverson.linalg.norm", "numel": "iverson.Tensor.size",
    "packbits": "not there, as bits have no derivatives; take numpy.packbits",
    "partition": "iverson.sort", "pdist": "iverson.cdist(x, x)", "permute": "iverson.permute_dims",
    "pinverse": "iverson.linalg.pinv", "poisson": f"{_DRAW}.poisson",
    "poly": "not there; iverson.polyval evaluates coefficients",
    "polyfit": "iverson.linalg.lstsq with iverson.vander", "promote_types": "iverson.result_type",
    "put": _WRITE, "put_along_axis": "iverson.scatter", "pytree": "iverson.tree",
    "qr": "iverson.linalg.qr", "radians": "iverson.deg2rad", "rand": f"{_DRAW}.random",
    "rand_like": f"{_DRAW}.random(x.shape)", "randint": f"{_DRAW}.integers", "randn": f"{_DRAW}.normal",
    "randn_like": f"{_DRAW}.normal(size=x.shape)", "randperm": f"{_DRAW}.permutation",
    "repeat_interleave": "iverson.repeat", "resize": "iverson.reshape",
    "rfft2": "iverson.fft.rfftn with axes=(-2, -1)", "rollaxis": "iverson.moveaxis",
    "roots": "iverson.linalg.eigvals of the companion matrix", "row_stack": "iverson.vstack",
    "rsub": "iverson.subtract", "savez": "iverson.save", "scalar_tensor": "iverson.asarray",
    "scatter_reduce": "iverson.segment_max, iverson.segment_sum and their kin", "seed": _DRAW,
    "segment_reduce": "iverson.segment_sum and its kin", "select": "iverson.piecewise",
    "set_default_dtype": "not there; say dtype= where a tensor is made",
    "set_detect_anomaly": "iverson.debug.nans",
    "setxor1d": "iverson.setdiff1d both ways and iverson.union1d", "sgn": "iverson.sign",
    "shape": "iverson.Tensor.shape", "size": "iverson.Tensor.size", "smm": "iverson.matmul",
    "solve": "iverson.linalg.solve", "sparse_compressed_tensor": "iverson.sparse_csr_tensor",
    "split_with_sizes": "iverson.split", "spmm": "iverson.matmul",
    "std_mean": "iverson.std and iverson.mean",
    "stft": "not there; take iverson.fft.rfft of the windows that iverson.nn.unfold cuts",
    "stop_gradient": "iverson.Tensor.detach", "sub": "iverson.subtract", "svd": "iverson.linalg.svd",
    "swapdims": "iverson.swapaxes", "t": "iverson.matrix_transpose",
    "take_along_dim": "iverson.take_along_axis", "tensor_split": "iverson.array_split",
    "tensorinv": "iverson.linalg.inv of a reshaped operand",
    "tensorsolve": "iverson.linalg.solve of reshaped operands", "to": _CAST,
    "to_dlpack": "numpy.from_dlpack(x)", "trace": "iverson.linalg.trace", "trapz": "iverson.trapezoid",
    "tree_map": "iverson.tree.map", "tree_util": "iverson.tree", "tri": "iverson.tril of ones",
    "type": _CAST, "type_as": _CAST, "unbind": "iverson.unstack", "unflatten": "iverson.reshape",
    "unique_consecutive": "not there; iverson.unique sorts",
    "unpackbits": "not there, as bits have no derivatives; take numpy.unpackbits",
    "unsqueeze": "iverson.expand_dims", "upsample": "iverson.nn.interpolate",
    "var_mean": "iverson.var and iverson.mean", "vdot": "iverson.vecdot", "vecmat": "iverson.matmul",
    "vectorize": "iverson.vmap", "view": "iverson.reshape", "vsplit": "iverson.split with axis=0",
    "zero_": _WRITE,
}  # fmt: skip


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
    (r"sym_\w+", "not there, as shapes are Python integers"),
)
#: No functions.
NO_FUNCTIONS: Mapping[str, Collection[str]] = {}
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


def remedy(name: str, functions: Mapping[str, Collection[str]] = NO_FUNCTIONS) -> str:
    """End of an error about an unknown name: the name that Iverson has for it, or nothing.

    functions : by namespace, names among which a class of PyTorch's and a method that writes are looked for.

    >>> remedy("cat"), remedy("arcsin"), remedy("nothing_known")
    ('; here it is iverson.concat', '; here it is iverson.asin', '')
    >>> remedy("BatchNorm2d", {"iverson.nn": ["batch_norm"]}), remedy("relu_", {"iverson": ["relu"]})
    ('; here it is iverson.nn.batch_norm', '; here it is x = iverson.relu(x)')
    """
    replacement = f"iverson.{NAMES[name]}" if name in NAMES else _ELSEWHERE.get(name)
    replacement = replacement or _by_rule(name, functions)
    return f"; here it is {replacement}" if replacement else ""


def renames() -> dict[str, str]:
    """Names of other libraries, in the order of the alphabet, with what each is here; for the documentation.

    >>> renames()["cat"], renames()["arcsin"]
    ('iverson.concat', 'iverson.asin')
    """
    functions = {name: f"iverson.{here}" for name, here in NAMES.items()}
    return dict(sorted((_ELSEWHERE | functions).items()))


def _by_rule(name: str, functions: Mapping[str, Collection[str]]) -> str:
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
    name = name.removeprefix("Lazy").removesuffix("_copy")
    for space, names in functions.items():
        if name in names:
            return f"{space}.{name}"
    writes = name.endswith("_") and not name.startswith("_")
    if not (writes or name[:1].isupper()):
        return ""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().rstrip("_")
    plain = words.replace("_", "")
    without = plain.removesuffix("loss"), re.sub("[123]d$", "", plain)
    for space, names in functions.items():
        by_letters = {n.replace("_", ""): n for n in names if n[:1].islower()}
        match = next((by_letters[p] for p in (plain, *without) if p in by_letters), "")
        if match:
            return f"x = {space}.{match}(x)" if writes else f"{space}.{match}"
    return ""


def absent(module: str, functions: Mapping[str, Collection[str]]) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a namespace: an AttributeError that says what Iverson has for a name."""

    def refuse(name: str) -> NoReturn:
        end = "" if name.startswith("__") else remedy(name, functions)
        raise AttributeError(f"module '{module}' has no attribute '{name}'{end}")

    return refuse
