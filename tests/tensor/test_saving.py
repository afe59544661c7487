"""`iverson.save` and `iverson.load`: what was written is read, whatever its layout and mask."""

from __future__ import annotations

import ast
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import iverson as iv
from iverson import optim
from iverson.errors import ArgumentError, ArgumentTypeError
from iverson.layouts import sparse_layouts
from iverson.layouts.layout_registry import layout_of
from tests.array_api.common import draw, dtypes_of
from tests.conformance.product import some

DENSE_AXES = {layout.name for layout in sparse_layouts() if layout.dense_axes}
BLOCKS = {layout.name: (2, 1) if layout.blocked else None for layout in sparse_layouts()}


def kept(path, tree):
    iv.save(path, tree)
    return iv.load(path)


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, iv.MaskedTensor):
        same(a.get_mask(), b.get_mask())
        same(a.get_data().detach(), b.get_data().detach())
        assert a.requires_grad is b.requires_grad
    elif isinstance(a, iv.Tensor):
        assert (a.layout, a.shape, a.dtype, a.requires_grad) == (b.layout, b.shape, b.dtype, b.requires_grad)
        for x, y in zip(*(layout_of(t._value).buffers(t._value) for t in (a, b)), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_array_equal(x, y)
    elif isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b or a != a


@pytest.mark.parametrize("layout", ["strided", *BLOCKS])
def test_tensors_of_every_layout_and_dtype(tmp_path, layout):
    for number, dtype in enumerate(dtypes_of("biufc")):
        for shape in some(layout, ((4, 3), (2, 4, 3), (0, 3)), number=number):
            x = iv.asarray(draw(shape, dtype))
            if layout != "strided":
                x = iv.to_layout(iv.where(iv.asarray(draw(shape) > 0), x, x[:0].sum().astype(dtype)), layout,
                                 blocksize=BLOCKS[layout])  # fmt: skip
            same(kept(tmp_path / "x.npz", x), x)
            if layout in DENSE_AXES:  # a dense axis after those that are indexed
                y = x[..., None] * iv.asarray(draw((2,), dtype))
                assert y.dense_dim() == 1
                same(kept(tmp_path / "y.npz", y), y)


def test_trees(tmp_path):
    entries = iv.sparse_coo_tensor(
        [[1, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)
    )  # stored twice, with dense rows
    tree = {
        "list": [1, 2.5, "text", None, True, float("nan"), float("inf")],
        3: (np.float32(1.5), np.arange(3), np.zeros((), complex)),
        "leaf": iv.ones((2, 0), requires_grad=True),
        "entries": entries,
        "masked": iv.masked_tensor(iv.asarray([1.0, iv.nan]), [True, False], requires_grad=True),
        "stored": iv.masked_tensor(iv.eye(3, layout="csr")),
        "empty": {},
        "deep": {"a": {"b": [()]}},
    }
    same(kept(tmp_path / "tree", tree), tree)


def test_a_result_is_saved_without_its_history(tmp_path):
    x = iv.ones(2, requires_grad=True)
    found = kept(tmp_path / "x.npz", x * 2)
    assert not found.requires_grad
    np.testing.assert_array_equal(found.numpy(), [2.0, 2.0])


def test_training_goes_on_where_it_stopped(tmp_path):
    def trained(steps, saved_after):
        p = {"w": iv.asarray(draw((3, 2)), requires_grad=True)}
        adam = optim.Adam(p, lr=0.1)
        for k in range(steps):
            if k == saved_after:
                p, state = kept(tmp_path / "run.npz", (p, adam.state_dict()))
                adam = optim.Adam(p)
                adam.load_state_dict(state)
            adam.zero_grad()
            (p["w"] ** 4).sum().backward()
            adam.step()
        return p["w"].detach().numpy()

    np.testing.assert_array_equal(trained(5, 3), trained(5, None))


def test_an_interruption_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    iv.save(path, [1.0])

    def fails(file, **members):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", fails)
    with pytest.raises(KeyboardInterrupt):
        iv.save(path, [2.0])
    assert iv.load(path) == [1.0]
    assert os.listdir(tmp_path) == ["x.npz"]


def test_what_cannot_be_saved_or_read(tmp_path):
    path = tmp_path / "x.npz"
    with pytest.raises(ArgumentTypeError, match=r"save: argument 'tree\['a'\]\[0\]': got a set"):
        iv.save(path, {"a": [{1}]})
    with pytest.raises(ArgumentTypeError, match="keys that are strings"):
        iv.save(path, {(1,): 2})
    with pytest.raises(ArgumentTypeError, match="save: argument 'path': got 3"):
        iv.save(3, {})
    assert not path.exists()
    np.savez(path, a=np.ones(2))
    with pytest.raises(ArgumentError, match=r"load: argument 'path': .*a file that iverson\.save wrote"):
        iv.load(path)
    path.write_bytes(b"no archive")
    with pytest.raises(ArgumentError, match=r"iverson\.save wrote"):
        iv.load(path)


def test_objects_are_never_unpickled(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, tree=np.array([{"a": 1}], object))
    with pytest.raises(ArgumentError, match="pickle"):
        iv.load(path)


def test_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    try:
        import safetensors  # noqa: F401
    except ImportError:
        with pytest.raises(ArgumentError, match="safetensors, which is not installed; install it"):
            iv.save(path, {"a": iv.ones(2)})
        return
    tree = {"layer": {"b": iv.zeros(2), "w": iv.ones((2, 3))}}
    same(kept(path, tree), tree)
    with pytest.raises(ArgumentTypeError, match=r"argument 'a'.*a dense tensor"):
        iv.save(path, {"a": iv.eye(2, layout="csr")})


def test_ravel_pytree():
    s = iv.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3))
    m = iv.masked_tensor(iv.asarray([1.0, iv.nan, 5.0]), [True, False, True])
    tree = {"a": [iv.asarray([[1.0, 2.0]], dtype="float32"), s], "m": m, "x": 7.0}
    vector, unravel = iv.ravel_pytree(tree)
    np.testing.assert_array_equal(vector.numpy(), [1, 2, 3, 4, 1, 5, 7])
    found = unravel(vector)
    same(found["a"], tree["a"])
    same(found["m"], m)
    assert found["x"].item() == 7.0

    def loss(tree):
        return (
            (tree["a"][0] ** 2).sum()
            + (tree["a"][1].values() ** 3).sum()
            + (tree["m"] ** 2).sum().to_tensor(0)
        )

    gradient = iv.grad(lambda v: loss(unravel(v)))(vector)
    np.testing.assert_array_equal(gradient.numpy(), [2, 4, 27, 48, 2, 10, 0])
    hessian = iv.jit(iv.hessian(lambda v: loss(unravel(v))))(vector)
    np.testing.assert_array_equal(np.diag(hessian.to_dense().numpy()), [2, 2, 18, 24, 2, 2, 0])
    with pytest.raises(iv.errors.ShapeError, match=r"unravel: argument 'vector': got shape \(3,\)"):
        unravel(iv.ones(3))
    assert iv.ravel_pytree([])[0].shape == (0,)


def test_threads_read_at_once(tmp_path, monkeypatch):
    """Threads change while a header is parsed, as they do where a callback of the collector is in Python."""
    parse, parsing = ast.parse, threading.local()

    def marked(*args, **kwargs):
        parsing.now = True
        try:
            return parse(*args, **kwargs)
        finally:
            parsing.now = False

    def give_way(phase, info):
        if getattr(parsing, "now", False):
            time.sleep(1e-4)

    tree = {str(k): iv.ones(k + 1) for k in range(20)}
    iv.save(tmp_path / "a", tree)
    monkeypatch.setattr(ast, "parse", marked)
    thresholds = gc.get_threshold()
    gc.callbacks.append(give_way)
    try:
        gc.set_threshold(1)
        with ThreadPoolExecutor(4) as pool:
            read = list(pool.map(lambda _: iv.load(tmp_path / "a"), range(8)))
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*thresholds)
    for each in read:
        same(each, tree)
