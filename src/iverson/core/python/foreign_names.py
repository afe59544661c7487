"""Names of functions and methods in other libraries, and what to use here instead, for error messages."""

from __future__ import annotations

from collections.abc import Container, Sequence

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
    "Module": "a class that iverson.dataclasses.dataclass decorates, as the layers of iverson.nn are",
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
    "nelement": "iverson.Tensor.size",
    "norm": "iverson.linalg.norm", "numel": "iverson.Tensor.size",
    "permute": "iverson.permute_dims", "put_along_axis": "iverson.scatter", "rand": f"{_DRAW}.random",
    "randint": f"{_DRAW}.integers", "randn": f"{_DRAW}.normal", "solve": "iverson.linalg.solve",
    "seed": _DRAW, "sub": "iverson.subtract", "svd": "iverson.linalg.svd",
    "t": "iverson.matrix_transpose", "to": _CAST, "trace": "iverson.linalg.trace",
    "tree_map": "iverson.tree.map", "type": _CAST, "type_as": _CAST,
    "unsqueeze": "iverson.expand_dims", "view": "iverson.reshape", "vstack": "iverson.concat with axis=0",
    "zero_": _WRITE,
}  # fmt: skip


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


def in_notation(name: str, functions: Container[str]) -> str:
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


def remedy(name: str) -> str:
    """End of an error about an unknown name: the name that Iverson has for it, or nothing.

    >>> remedy("cat"), remedy("arcsin"), remedy("nothing_known")
    ('; here it is iverson.concat', '; here it is iverson.asin', '')
    """
    replacement = f"iverson.{NAMES[name]}" if name in NAMES else _ELSEWHERE.get(name)
    return f"; here it is {replacement}" if replacement else ""
