"""`Tensor`: a handle on a value and on the node that computed it.

In-place operators and assignment rebind the handle; nodes keep values, so nothing recorded before changes.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.autograd import api, unrecorded_values
from iverson.autograd.densify_watch import leaf_of
from iverson.autograd.mode import is_grad_enabled
from iverson.autograd.node import Hook, PausedLeaf, grad_slot, hold_gradient, meta_of
from iverson.autograd.tracked_guards import check_leaves, check_stays, is_differentiated, not_tracked
from iverson.core import dispatch, dtypes
from iverson.core.dispatch import Handle, bind
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    BufferExportError,
    DTypeError,
    ForeignDTypeError,
    GradientError,
    ShapeError,
)
from iverson.core.float_warnings import cast
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import Shaped
from iverson.core.python.scipy_calls import ATTRIBUTES, is_sparse_operand, running_call, way_out
from iverson.handles import printing
from iverson.handles.array import Array
from iverson.handles.views import read_again
from iverson.kernels.deferred_patterns import layout_in_level
from iverson.layouts import Strided, holds_alone, layout_of, read_only, to_strided
from iverson.layouts.layout_registry import support_of
from iverson.ops import TABLE

if TYPE_CHECKING:
    from numpy import typing as npt

    from iverson.handles._methods import TensorMethods
    from iverson.handles.spy import Picture
else:
    TensorMethods = object  # as `iverson.handles.array.Methods`


class Tensor(Handle, Array, TensorMethods):
    """A differentiable array whose layout is its support.

    Made by `iverson.asarray` and by the creation functions, not by calling this class. Every function of
    `iverson` that takes an array first is also a method: ``x.sum(axis=0)``, ``x.sqrt()``.

    Operators in place and assignment make the handle stand for the result. A leaf that tracks gradients would
    lose its ``.grad`` so: there they raise GradientError, unless inside `iverson.autograd.no_grad`, where it
    stays the leaf it was.

    >>> import iverson as iv
    >>> x = iv.asarray([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    iverson.Tensor([2., 4.])
    >>> x[:, None].shape, x.layout
    ((2, 1), 'strided')
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in ATTRIBUTES or not (theirs := running_call()):
                return super().__getattr__(name)
            if self._node is not None:
                raise self._refusal(theirs)
            if name.endswith("matvec"):  # of a linear operator: SciPy iterates with arrays of NumPy
                matrix = self if name == "matvec" else self.conj().mT
                return lambda v: (matrix @ v).numpy()
            return getattr(self.__array__(), name)

    # -- facts ---------------------------------------------------------------------------------------

    @property
    def layout(self) -> str:
        """The name of the layout: which entries are stored."""
        return layout_in_level(self._value) or layout_of(self._value).name

    # -- gradients -----------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """True if operations on this tensor are recorded. May be set on leaves."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @checked
    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this tensor a leaf of the graph (or take it out), in place. Returns the tensor.

        Taken out and made a leaf again, it is the leaf it was: it keeps ``.grad``, and what was recorded
        before leads to it. While it is out, ``backward`` adds nothing to its ``.grad``.

        Raises DTypeError if its dtype carries no gradients, GradientError on a recorded result.
        """
        if requires_grad == (self._node is not None):
            if not requires_grad:
                check_stays(self)
            return self
        if not requires_grad:
            if not self.is_leaf:
                raise GradientError(
                    "requires_grad_",
                    "x",
                    got="the result of a recorded op",
                    remedy="use x.detach()",
                )
            self._place = PausedLeaf(self._node, self.grad)
            self._node = None
            return self
        if (paused := self._paused()) is not None:
            self._node, self._index = paused.node, 0
            gradient_slot = grad_slot(self._node, 0)
            place = hold_gradient(self)
            if gradient_slot is None:
                place.gradient = paused.gradient
            return self
        if not dtypes.is_inexact(self.dtype):
            raise DTypeError(
                "requires_grad_",
                "x",
                got=f"dtype {self.dtype}",
                expected="a floating dtype",
                remedy="convert it with astype first",
            )
        self._node, self._index = leaf_of(self._value), 0
        hold_gradient(self)
        return self

    @property
    def is_leaf(self) -> bool:
        """True if no recorded op made this tensor."""
        return self._node is None or self._node.op is None

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` has added up here, or None."""
        place = self._paused() or grad_slot(self._node, self._index)
        if place is not None and (cells := dispatch.cells()) is not None:
            cells.gradient(place, read=True)
        return None if place is None else place.gradient

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        paused = self._paused()
        if value is not None:
            if self._node is None and paused is None:
                raise not_tracked(self, "grad", "x", remedy="call x.requires_grad_() first")
            if not isinstance(value, Handle):
                raise ArgumentTypeError(
                    "grad", "value", got=f"a {type(value).__name__}", expected="a Tensor or None"
                )
            if value.shape != self.shape:
                raise ShapeError("grad", "value", got=f"shape {value.shape}", expected=f"shape {self.shape}")
            if value.dtype != self.dtype:
                raise DTypeError("grad", "value", got=f"dtype {value.dtype}", expected=f"dtype {self.dtype}")
        place = paused or (None if self._node is None else hold_gradient(self))
        if place is not None:
            if (cells := dispatch.cells()) is not None:
                cells.gradient(place, read=False)
            place.gradient = value

    def detach(self) -> Tensor:
        """The same entries, not tracked. Shares memory."""
        if self._node is not None and dispatch.cells() is not None:  # a later run may have others
            return bind(TABLE["detached"], (self,))
        result: Tensor = unrecorded_values.untracked(self)
        if dispatch.has_entries(result) or not dtypes.is_inexact(self.dtype):
            return result
        return bind(TABLE["detached"], (result,))

    @checked
    def register_hook(self, hook: Hook) -> api.HookHandle:
        """`iverson.autograd.register_hook` on this tensor."""
        return api.register_hook(self, hook)

    def retain_grad(self) -> None:
        """Let ``backward`` keep this result's gradient in ``.grad``, as it does for leaves."""
        if self._node is None:
            raise not_tracked(self, "retain_grad", "x")
        hold_gradient(self)
        meta_of(self._node).retain.add(self._index)

    def _paused(self) -> PausedLeaf | None:
        """Record of the leaf that this handle was before ``requires_grad_(False)``; None if it is no such
        handle.
        """
        place = getattr(self, "_place", None)
        return place if self._node is None and type(place) is PausedLeaf else None

    # -- in place ------------------------------------------------------------------------------------

    def _become(self, result: Tensor) -> None:
        """Make this handle stand for ``result``; under `no_grad` a leaf stays a leaf. Its parts are read
        anew.
        """
        if (cells := dispatch.cells()) is not None:
            cells.rebinding(self)
        if isinstance(value := result._value, dispatch.LevelValue):
            value._level.writing(self)
        self._value = value
        if is_grad_enabled() or not self.is_leaf:
            self._node, self._index = result._node, result._index
            if self._node is not None:
                self._place = None
        if unrecorded_values.calls.count:
            unrecorded_values.mark((self,), (result,))
        read_again(self)

    # -- conversion ----------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """The entries as a read-only NumPy array, all of them, in any layout.

        Other tensors, gradients and recorded values may need that memory. To write, copy it:
        ``numpy.array(x)``.

        Shares memory where strided. It never changes: a write into the tensor goes elsewhere while the array
        lives. Raises GradientError if the tensor tracks gradients.

        >>> import iverson as iv
        >>> x = iv.asarray([1.0, 2.0])
        >>> a = x.numpy()
        >>> x[0] = 5.0
        >>> a
        array([1., 2.])
        """
        return self.__array__()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if is_sparse_operand(sys._getframe(1)):
            return np.array(None, dtype=object)
        if self._node is not None:
            raise self._refusal(running_call())
        self._note_left()
        self._note_read()
        array = to_strided(self._value)
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ArgumentError(
                    "conversion", "copy", got="False with another dtype", expected="True or None"
                )
            return cast(array, dtype)
        if copy is False and array is not self._value:
            raise ArgumentError(
                "conversion", "copy", got=f"False for layout '{self.layout}'", expected="True or None"
            )
        return array.copy() if copy else read_only(array)

    def _refusal(self, theirs: str) -> GradientError:
        """Error about a conversion to an array of NumPy, which carries no gradient.

        theirs : dotted name of the function of SciPy that is running; "" if none is.
        """
        return GradientError(
            theirs or "conversion to a NumPy array",
            "" if theirs else "x",
            got=f"a tensor that tracks gradients ({self._node.describe()})",
            expected="what SciPy can compute with in NumPy" if theirs else "",
            remedy=way_out(theirs) if theirs else "call x.detach() first",
        )

    def __buffer__(self, flags: int) -> memoryview:
        """The entries as memory that is read only, for `memoryview` and `bytes` (Python 3.12)."""
        return memoryview(self.__array__())  # type: ignore[arg-type]  # a buffer from Python 3.12 on

    def __bytes__(self) -> bytes:
        return self.__array__().tobytes()

    def __arrow_array__(self, type: str | None = None) -> Any:
        """An array of Arrow with the entries of a vector."""
        pyarrow: Any = import_module("pyarrow")

        return pyarrow.array(np.array(self.__array__()), type=type)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dtypes.is_bfloat16(self.dtype):
            raise ForeignDTypeError(
                "dlpack",
                got="dtype bfloat16, which NumPy does not pass on by DLPack",
                remedy="convert it with astype(iverson.float32), or use iverson.interop.torch.to_torch",
            )
        # Not every consumer heeds the flag for read-only memory, and old ones have none.
        zero_copy = copy is False
        flagged = (max_version or (0,))[0] >= 1 and holds_alone(self)
        array = self.__array__()
        backwards = any(s < 0 for s in array.strides)
        if zero_copy and (backwards or type(self._value) is not Strided):
            obstacle = "negative strides" if backwards else f"layout '{self.layout}'"
            raise BufferExportError("dlpack", "copy", got=f"False for {obstacle}", expected="True or None")
        if backwards:
            array = np.ascontiguousarray(array)
        elif not zero_copy and not flagged:
            array = array.copy()
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def to_dense(self) -> Tensor:
        """The same tensor with every entry stored."""
        return bind(TABLE["to_dense"], (self,))

    def item(self) -> Any:
        """The only entry as a Python number; raises ShapeError if there are more or none."""
        self._note_left()
        return self._entry()

    def _entry(self) -> Any:
        if self.size != 1:
            raise ShapeError("item", "x", got=f"shape {self.shape}", expected="exactly one entry")
        return self._read().item()

    def _read(self) -> np.ndarray[Any, Any]:
        """Entries as a NumPy array, for code that only reads them; notes the read in a trace around this
        call.

        Raises for a tracked tensor from outside of a trace, which may have other entries in a later run.
        """
        if self._node is not None and (cells := dispatch.cells()) is not None:
            return to_strided(cells.inside(self)._value)
        self._note_read()
        return to_strided(self._value)

    def _note_read(self) -> None:
        """Note in the trace around this call, if there is one, that its results depend on these entries."""
        if dispatch.with_cells.count and (cells := dispatch.cells()) is not None:
            cells.reading((self,))

    def _note_left(self) -> None:
        if unrecorded_values.calls.count:
            unrecorded_values.note_left(self)

    def tolist(self) -> Any:
        """The entries as nested lists of Python numbers.

        Raises GradientError where a transform differentiates them: ``x.detach().tolist()`` says that no
        gradient is to flow through the numbers.
        """
        check_leaves(self, "tolist", "x", "call x.detach().tolist(), or iterate over the tensor")
        self._note_left()
        return self._read().tolist()

    def __repr__(self) -> str:
        return printing.show(self)

    def _repr_html_(self) -> str:
        from iverson.handles import notebook

        return notebook.show(self)

    def spy(self) -> Picture:
        """A small picture of where the tensor may be nonzero: of a strided one, of where it is.

        Axes before the last are rows, one after the other. Of a large pattern some entries are drawn, of a
        large array some rows and columns. Notebooks draw the picture, ``print`` does so with characters, and
        ``save`` writes an SVG file.

        >>> import iverson as iv
        >>> iv.eye(3).spy()
        +---+
        |#  |
        | # |
        |  #|
        +---+
        """
        from iverson.handles import spy

        value = self._value
        picture = None if type(value) is np.ndarray else spy.of_entries(support_of(value), self.shape)
        return picture or spy.of_array(to_strided(value) != 0)

    def __copy__(self) -> Tensor:
        handle: Tensor = dispatch.alias(self)
        if grad_slot(handle._node, handle._index) is not None:
            hold_gradient(handle)
        return handle

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        self._check_own_leaf("deepcopy")
        return _unpickle(_copied(self._value), self.requires_grad)

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_own_leaf("pickle")
        if not dispatch.has_entries(self):
            to_strided(self._value)  # raises: it has none to keep
        return _unpickle, (self._value, self.requires_grad)

    def _check_own_leaf(self, operation: str) -> None:
        """Raise GradientError unless this tensor is a leaf that nothing differentiates: a copy of it would be
        a new leaf.
        """
        if self._node is not None and (self._node.op is not None or is_differentiated(self._node)):
            raise GradientError(
                operation,
                "x",
                got=f"a tensor that is being differentiated ({self._node.describe()})"
                if self.is_leaf
                else "the result of a recorded op",
                expected="a leaf",
                remedy="call x.detach() first, or iverson.asarray(x, copy=True) to copy and differentiate",
            )


def _copied(value: Shaped) -> Any:
    layout = layout_of(value)
    return layout.rebuild(value, tuple(b.copy() for b in layout.buffers(value)))


def _unpickle(value: Shaped, requires_grad: bool) -> Tensor:
    if isinstance(value, np.ndarray):
        value = np.asarray(value)  # joblib hands large arrays in as memory maps
    buffers = layout_of(value).buffers(value)
    if not all(b.flags.aligned for b in buffers):  # in the middle of a message: sums would depend on where
        value = layout_of(value).rebuild(value, tuple(np.require(b, requirements="A") for b in buffers))
    return Tensor(value).requires_grad_() if requires_grad else Tensor(value)


dispatch.register_handle(Tensor)
