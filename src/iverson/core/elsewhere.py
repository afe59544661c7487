"""What functions and methods of other libraries are called here."""

from __future__ import annotations

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
    "Module": "a function of parameters, and those a dict, a list or an iverson.dataclasses.dataclass",
    "add_": "x += y", "append": "iverson.concat", "argpartition": "iverson.topk", "array": "iverson.tensor",
    "average": "iverson.mean", "bmm": "iverson.matmul", "cat": "iverson.concat",
    "chunk": "iverson.array_split", "clamp": "iverson.clip", "clamp_max": "iverson.clip",
    "clamp_min": "iverson.clip", "contiguous": "not needed", "copy_": _WRITE,
    "cpu": "not needed, as every tensor is on the CPU", "cross": "iverson.linalg.cross",
    "cuda": "not there, as every tensor is on the CPU", "data": "iverson.Tensor.detach",
    "detach_": "iverson.Tensor.detach", "det": "iverson.linalg.det", "dim": "iverson.Tensor.ndim",
    "div": "iverson.divide", "dot": "iverson.matmul", "double": _CAST, "dropout": "iverson.nn.dropout",
    "eigh": "iverson.linalg.eigh", "element_size": "x.dtype.itemsize", "expand": "iverson.broadcast_to",
    "fill_": _WRITE, "fliplr": "iverson.flip", "flipud": "iverson.flip", "float": _CAST,
    "from_numpy": "iverson.asarray", "half": _CAST, "hstack": "iverson.concat with axis=1",
    "identity": "iverson.eye", "index_select": "iverson.take", "inner": "iverson.vecdot",
    "inv": "iverson.linalg.inv", "inverse": "iverson.linalg.inv", "is_sparse": "iverson.Tensor.layout",
    "jacfwd": "iverson.jacobian", "jacrev": "iverson.jacobian", "log_sigmoid": "iverson.nn.logsigmoid",
    "long": _CAST, "manual_seed": _DRAW, "masked_select": "x[mask]",
    "matrix_power": "iverson.linalg.matrix_power", "mm": "iverson.matmul", "mul": "iverson.multiply",
    "nanpercentile": "iverson.nanquantile", "nelement": "iverson.Tensor.size",
    "norm": "iverson.linalg.norm", "numel": "iverson.Tensor.size", "percentile": "iverson.quantile",
    "permute": "iverson.permute_dims", "put_along_axis": "iverson.scatter", "rand": f"{_DRAW}.random",
    "randint": f"{_DRAW}.integers", "randn": f"{_DRAW}.normal", "solve": "iverson.linalg.solve",
    "seed": _DRAW, "sub": "iverson.subtract", "svd": "iverson.linalg.svd",
    "t": "iverson.matrix_transpose", "to": _CAST, "trace": "iverson.linalg.trace",
    "tree_map": "optree.tree_map", "type": _CAST, "type_as": _CAST,
    "unsqueeze": "iverson.expand_dims", "view": "iverson.reshape", "vstack": "iverson.concat with axis=0",
    "zero_": _WRITE,
}  # fmt: skip


def remedy(name: str) -> str:
    """What to add to an error that says that there is no such name: what is there for it, or nothing.

    >>> remedy("cat"), remedy("arcsin"), remedy("nothing_known")
    ('; here it is iverson.concat', '; here it is iverson.asin', '')
    """
    found = f"iverson.{NAMES[name]}" if name in NAMES else _ELSEWHERE.get(name)
    return f"; here it is {found}" if found else ""
