"""Files of pytrees of tensors: `save` and `load`.

A file is NumPy's ``.npz``: arrays, and a text in JSON that says how they make up the tree. Nothing in it is
executed when it is read. Names that end in ``.safetensors`` are written in that format, which has dense
tensors alone, where the package is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from iverson import dataclasses
from iverson.array_api.sparse_arrays.sparse_construction import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    to_layout,
)
from iverson.core import dtypes
from iverson.core.dispatch import is_variable, unwrap, value_of
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.protocols import NDArray, Params
from iverson.core.python import locks
from iverson.handles import Tensor, asarray
from iverson.handles.typing import Loaded
from iverson.layouts import Sparse, layouts
from iverson.masked import MaskedTensor
from iverson.masked.construct import masked_tensor

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from iverson.handles.array import Array

    #: A tree that can be saved.
    Saved: TypeAlias = (
        Array
        | NDArray
        | np.generic
        | complex
        | str
        | list[Any]
        | tuple[Any, ...]
        | Mapping[Any, Any]
        | DataclassInstance
        | None
    )

#: What a file says it is, and the member with the tree.
FORMAT, TREE = "iverson 1", "tree"
#: Python's parser, which reads the headers of arrays, counts its depth for all threads together up to 3.12
#: (CPython issue 106905).
_READING = locks.lock()
_PLAIN = (bool, int, float, str)
_COMPRESSED: dict[str, Callable[..., Tensor]] = {
    "csr": sparse_csr_tensor, "csc": sparse_csc_tensor, "bsr": sparse_bsr_tensor, "bsc": sparse_bsc_tensor,
}  # fmt: skip


def save(path: str | os.PathLike[str], tree: Saved, /) -> None:
    """Write a tree of tensors to a file that `load` reads.

    Parameters
    ----------
    path : of the file. One that exists is replaced in one step when all is written, so that an interruption
        leaves the old one. A name that ends in ``.safetensors`` needs the package of that name, and takes
        nested dicts of dense tensors alone; any other is written as ``.npz``, whatever it ends in.
    tree : dicts with keys that are strings or integers, lists, tuples and `iverson.dataclasses` of tensors in
        any layout, masked tensors, NumPy arrays, numbers, strings and None. So is what an optimizer's
        ``state_dict`` gives.

    Which tensors are leaves that require grad is kept, a history is not. Raises ArgumentTypeError for what is
    none of these, OSError where the file cannot be written.

    >>> import iverson as iv, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.npz")
    >>> iv.save(path, {"w": iv.eye(2, layout="csr"), "rate": 0.1})
    >>> iv.load(path)["w"].layout
    'csr'
    """
    target = _path(path, "save")
    if target.suffix == ".safetensors":
        data = _package("save").save(dict(_flat(tree, "")))
        _replace(target, lambda file: file.write(data))
        return
    arrays: list[NDArray] = []
    text = json.dumps({"format": FORMAT, "tree": _written(tree, arrays, "tree")})
    members = {TREE: np.frombuffer(text.encode(), np.uint8), **{str(k): a for k, a in enumerate(arrays)}}
    _replace(target, lambda file: np.savez(file, allow_pickle=False, **members))


def load(path: str | os.PathLike[str], /) -> Loaded:  # type: ignore[type-var]
    """The tree that `save` wrote to a file.

    Raises ArgumentError for a file that is none of these, or names a dataclass that this process has not
    made, OSError where it cannot be read.

    >>> import iverson as iv, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.npz")
    >>> iv.save(path, [iv.masked_tensor(iv.ones(2), [True, False]), None])
    >>> iv.load(path)
    [iverson.MaskedTensor([1., --]), None]
    """
    source = _path(path, "load")
    if source.suffix == ".safetensors":
        leaves = {name: asarray(a) for name, a in _package("load").load_file(source).items()}
        return _nested(leaves)  # type: ignore[return-value]
    try:
        with _READING, np.load(source, allow_pickle=False) as members:
            header = json.loads(members[TREE].tobytes().decode())
            if header["format"] != FORMAT:
                raise ValueError(f"its format is {header['format']!r}")
            return _read(header["tree"], lambda k: _in_own_dtype(members[str(k)]))  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ArgumentError(
            "load", "path", got=f"{source}: {error}", expected="a file that iverson.save wrote"
        ) from None


def _in_own_dtype(array: NDArray) -> NDArray:
    """An array in the dtype it was written in: NumPy's files keep only the size of bfloat16."""
    return array.view(dtypes.load_bfloat16()) if array.dtype == np.dtype("V2") else array


def _path(path: str | os.PathLike[str], operation: str) -> Path:
    try:
        file = Path(os.fsdecode(os.fspath(path)))
        if not file.is_dir():
            return file
        description = f"{str(path)!r}, a folder"
    except (TypeError, ValueError):
        description = described(path)
    raise ArgumentTypeError(operation, "path", got=description, expected="a file's path")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, a file or a folder, which takes this one's place when the block ends.

    If the block raises, what was there before is left as it was, and nothing else.
    """
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    replacement, before = folder / path.name, folder / "before"
    try:
        yield replacement
        if path.is_file():
            replacement.chmod(path.stat().st_mode)
        elif path.is_dir():  # which nothing replaces in one step
            path.rename(before)
        try:
            os.replace(replacement, path)
        except OSError:
            if before.exists():
                before.rename(path)
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replace(path: Path, write: Callable[[BinaryIO], int | None]) -> None:
    """Write a file, and put it in its place when all of it is on the disk."""
    with replacing(path) as replacement, open(replacement, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


# --- a tree as JSON and arrays ----------------------------------------------------------------------


def _written(x: Saved, arrays: list[NDArray], where: str) -> dict[str, Any]:
    """A node of the tree; arrays are named by their places in the list."""
    if x is None or type(x) in _PLAIN:
        return {"value": x}
    if type(x) is dict:
        if not all(type(k) in (str, int) for k in x):
            raise _refused(where, f"keys {list(x)}", "keys that are strings or integers")
        return {"dict": [[k, _written(v, arrays, f"{where}[{k!r}]")] for k, v in x.items()]}
    if type(x) is list or type(x) is tuple:
        return {type(x).__name__: [_written(v, arrays, f"{where}[{k}]") for k, v in enumerate(x)]}
    if dataclasses.is_known(x):
        fields = {k: _written(v, arrays, f"{where}.{k}") for k, v in dataclasses.fields_of(x).items()}
        return {"dataclass": dataclasses.name_of(type(x)), "fields": fields}
    if isinstance(x, (np.ndarray, np.generic)) and dtypes.is_known(x.dtype):
        return {"array": _placed(np.asarray(x), arrays), "scalar": isinstance(x, np.generic)}
    if isinstance(x, MaskedTensor):
        data, mask = x.get_data().detach(), x.get_mask()
        node = {"data": _written(data, arrays, where), "mask": _written(mask, arrays, where)}
        return {"masked": node, "requires_grad": is_variable(unwrap(x))}
    if isinstance(x, Tensor):
        return {"tensor": _tensor(x, arrays), "requires_grad": is_variable(x)}
    raise _refused(
        where, described(x), "a tensor, an array, a number, a string, None, or a dict or list of them"
    )


def _refused(where: str, description: str, expected: str) -> ArgumentTypeError:
    return ArgumentTypeError("save", where, got=description, expected=expected, remedy="convert it first")


def _placed(array: NDArray, arrays: list[NDArray]) -> int:
    arrays.append(array)
    return len(arrays) - 1


def _tensor(x: Tensor, arrays: list[NDArray]) -> dict[str, Any]:
    value = value_of(x)
    if not isinstance(value, Sparse):
        return {"layout": "strided", "arrays": [_placed(np.asarray(x.detach().to_dense().numpy()), arrays)]}
    layout, sparse = x.layout, value
    if layout != "coo" and layout not in _COMPRESSED:
        sparse = value_of(to_layout(x.detach(), "coo"))
    parts = (*sparse.pattern.arrays, sparse.values)
    blocks = value.pattern.blocksize
    return {
        "layout": layout,
        "shape": list(x.shape),
        "blocksize": None if blocks is None else list(blocks),
        "arrays": [_placed(np.asarray(part), arrays) for part in parts],
    }


def _read(node: Params, array: Callable[[int], NDArray]) -> Any:
    (kind, content), *remaining = node.items()
    facts = dict(remaining)
    if kind == "value":
        return content
    if kind == "dict":
        return {k: _read(v, array) for k, v in content}
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](_read(v, array) for v in content)
    if kind == "dataclass":
        return dataclasses.made(content, {k: _read(v, array) for k, v in facts["fields"].items()})
    if kind == "array":
        entries = array(content)
        return entries[()] if facts["scalar"] else entries
    if kind == "masked":
        x: Any = masked_tensor(_read(content["data"], array), _read(content["mask"], array))
    elif kind == "tensor":
        x = _made(content, array)
    else:
        raise ValueError(f"a node {kind!r}")
    return x.detach().requires_grad_() if facts["requires_grad"] else x


def _made(node: Params, array: Callable[[int], NDArray]) -> Tensor:
    parts, layout = [array(k) for k in node["arrays"]], node["layout"]
    if layout == "strided":
        return asarray(parts[0])
    shape = tuple(node["shape"])
    if layout in _COMPRESSED:
        return _COMPRESSED[layout](*parts, shape)
    tensor = sparse_coo_tensor(parts[0], parts[1], shape)
    if layout == "coo":
        return tensor
    if layout not in {layout_type.name for layout_type in layouts()}:
        raise ValueError(f"its layout {layout!r} is not known")
    return to_layout(tensor, layout, blocksize=node["blocksize"])


# --- safetensors ------------------------------------------------------------------------------------


def _package(operation: str) -> Any:
    try:
        package = import_module("safetensors.numpy")
    except ImportError:
        raise ArgumentError(
            operation,
            "path",
            got="a name that ends in .safetensors",
            expected="the package safetensors, which is not installed",
            remedy="install it, or take a name that ends in .npz",
        ) from None
    return package


def _flat(tree: Saved, prefix: str) -> Iterator[tuple[str, NDArray]]:
    """The dense tensors of nested dicts, by names with dots between keys."""
    if not isinstance(tree, Mapping):
        raise _refused("tree", described(tree), "for safetensors, nested dicts of dense tensors")
    for key, x in tree.items():
        name = f"{prefix}{key}"
        if isinstance(x, Mapping):
            yield from _flat(x, f"{name}.")
        elif isinstance(x, np.ndarray) or (isinstance(x, Tensor) and x.layout == "strided"):
            yield name, np.ascontiguousarray(x if isinstance(x, np.ndarray) else x.detach().numpy())
        else:
            raise _refused(name, described(x), "for safetensors, a dense tensor")


def _nested(flat: Mapping[str, Tensor]) -> dict[str, Any]:
    """Nested dicts of leaves whose names have dots between keys."""
    tree: dict[str, Any] = {}
    for name, x in flat.items():
        *path, last = name.split(".")
        node = tree
        for key in path:
            node = node.setdefault(key, {})
        node[last] = x
    return tree


__all__ = ["load", "save"]
