"""Public functions that NumPy and SciPy lack, against PyTorch's of the same name."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tests.calls import modes
from tests.calls.cases import arrays, functions, some
from tests.calls.operands import HALVES, Array, dtype_named, leaves
from tests.calls.operands import each as mapped
from tests.calls.oracles import Unknown, oracle_of, promoted
from tests.calls.table import Call
from tests.conformance.product import each

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

FUNCTIONS = [f for f in functions("nn", "iv") if oracle_of(*f) is None and hasattr(torch.nn.functional, f[1])]


#: Names of parameters that differ.
TORCHS = {"axis": "dim"}
#: Functions of a target that is 1 or -1, their last operand.
SIGNED = {"cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss"}
#: Functions of classes, which in PyTorch are along axis 1.
OF_CLASSES = {"cross_entropy", "nll_loss"}
#: Functions that keep integers.
KEEP = {"bilinear", "linear", "pixel_shuffle", "pixel_unshuffle"}


def by_torch(call: Call, args: Any, kwargs: Any, dtypes: tuple[str, ...]) -> Any:
    """What PyTorch gives of the numbers in the dtype that they promote to here, halves in single precision.

    Raises Unknown where it takes no such call.
    """
    own = dtypes[: max(1, min(len(dtypes), len(call.operands)))]
    wide = promoted(tuple("float64" if dtype_named(d).kind in "iub" else d for d in own))
    single = "float32" if wide in HALVES else wide
    kept = own[0] if call.name in KEEP and len(set(own)) == 1 else wide
    lasting = {
        id(array)
        for x, array in zip(leaves([call.args, call.kwargs]), leaves([args, kwargs], np.ndarray), strict=True)
        if x.lasting
    }

    def given(x: Array) -> Any:
        x = x if id(x) in lasting else x.astype(single)
        return torch.from_numpy(np.ascontiguousarray(x).reshape(x.shape))

    def rounded(t: Any) -> Array:
        return t.numpy().astype(dtype_named(kept)) if t.dtype.is_floating_point else t.numpy()

    function = getattr(torch.nn.functional, call.name)
    parameters = inspect.signature(call.function).parameters.values()
    count = sum(p.kind is p.POSITIONAL_ONLY for p in parameters)
    named = dict(zip([p.name for p in parameters][count:], args[count:], strict=False))
    options = {TORCHS.get(n, n): x for n, x in {**named, **kwargs}.items()}
    whole = call.name in OF_CLASSES and args[1].dtype.kind in "iub" and id(args[1]) not in lasting
    if whole or (call.name in OF_CLASSES and options.pop("dim", 1) != 1):
        raise Unknown("classes along another axis, or shares that are integers")
    if call.name in SIGNED and np.any(np.abs(args[count - 1]) != 1):
        raise Unknown("a target that is neither 1 nor -1")
    try:
        found = function(*mapped(given, args[:count], np.ndarray), **mapped(given, options, np.ndarray))
    except Exception as error:
        raise Unknown(str(error)) from error
    return mapped(rounded, list(found) if isinstance(found, tuple) else found, torch.Tensor)


def is_right(case: Any) -> str:
    args, kwargs = arrays(case)
    return modes.right(case[0], args, kwargs, case[1], oracle=by_torch)


@pytest.mark.parametrize("function", FUNCTIONS, ids=".".join)
def test_values_are_those_of_torch(function):
    found = []
    each(lambda case: found.append(is_right(case)), (c for c in some(*function, 12) if len(c[1]) == 1))
