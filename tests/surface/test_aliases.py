"""Arguments by PyTorch's names: each of its is known, and means what it does there or is refused."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import backward, grad
from iverson.core.errors import ArgumentError, ArgumentTypeError, GradientError
from iverson.testing import GradcheckError, gradcheck, gradgradcheck


def leaf(*entries):
    return iv.asarray(list(entries) or [1.0, 2.0], requires_grad=True)


class Wrong(iv.autograd.Function):
    """The square, with a jvp that is wrong."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g

    @staticmethod
    def jvp(ctx, t):
        return t


def test_unused_inputs():
    x, other = leaf(), leaf(3.0)
    y = (x * x).sum()
    assert grad(y, (x, other), allow_unused=True)[1] is None
    assert grad(y, (x, other), allow_unused=None)[1].layout == "zero"
    for allowed in (True, None):
        assert grad(y, (x, other), allow_unused=allowed, materialize_grads=True)[1].layout == "zero"
    with pytest.raises(GradientError, match="do not depend"):
        grad(y, (x, other), allow_unused=False, materialize_grads=False)
    with pytest.raises(ArgumentError, match=r"'allow_unused'.*unused as well"):
        grad(y, (x, other), allow_unused=True, unused="zero")
    with pytest.raises(ArgumentTypeError, match=r"'allow_unused'.*True or False"):
        grad(y, (x, other), allow_unused="yes")


@pytest.mark.parametrize("retain", [True, False, None])
def test_a_record_can_be_run_again_whatever_is_said(retain):
    x = leaf()
    y = (x * x).sum()
    for _ in range(2):
        assert grad(y, x, retain_graph=retain, only_inputs=True, is_grads_batched=False).tolist() == [
            2.0,
            4.0,
        ]
    y.backward(retain_graph=retain)
    backward(tensors=y, grad_tensors=iv.asarray(2.0), retain_graph=retain)
    assert x.grad.tolist() == [6.0, 12.0]


def test_flags_of_gradcheck():
    assert gradcheck(func=iv.sin, inputs=(leaf(),), fast_mode=True, check_grad_dtypes=True)
    with pytest.raises(GradcheckError):
        gradcheck(Wrong.apply, (leaf(),), check_forward_ad=True)
    assert gradcheck(Wrong.apply, (leaf(),), check_forward_ad=False)
    assert gradgradcheck(iv.sin, (leaf(),), fast_mode=True, check_fwd_over_rev=False, check_rev_over_rev=True)
    with pytest.raises(TypeError, match="chek"):
        gradcheck(iv.sin, (leaf(),), chek=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: grad(x.sum(), x, only_inputs=False),
        lambda x: grad(x.sum(), x, is_grads_batched=True),
        lambda x: gradcheck(iv.sin, (x,), check_backward_ad=False),
        lambda x: gradcheck(iv.sin, (x,), check_batched_grad=True),
        lambda x: gradcheck(iv.sin, (x,), check_batched_forward_grad=True),
        lambda x: gradgradcheck(iv.sin, (x,), check_rev_over_rev=False),
        lambda x: gradgradcheck(iv.sin, (x,), gen_non_contig_grad_outputs=True),
    ],
)
def test_what_is_not_done_is_refused_with_a_remedy(call):
    with pytest.raises(ArgumentError) as caught:
        call(leaf())
    assert caught.value.remedy


@pytest.mark.peers
@pytest.mark.parametrize("name", ["grad", "backward", "gradcheck", "gradgradcheck"])
def test_every_name_of_pytorch_is_known(name):
    import torch

    theirs = torch.autograd.backward if name == "backward" else getattr(torch.autograd, name)
    ours = {"grad": grad, "backward": backward, "gradcheck": gradcheck, "gradgradcheck": gradgradcheck}[name]
    x = leaf()
    needed = {
        "grad": lambda: {"outputs": x.sum(), "inputs": x},
        "backward": lambda: {"tensors": x.sum()},
    }.get(name, lambda: {"func": iv.sin, "inputs": (x,)})
    left_out = {"grad_variables", "masked"}  # deprecated there; a flag that may be None there
    for parameter in inspect.signature(theirs).parameters.values():
        if parameter.name in needed() or parameter.name in left_out:
            continue
        ours(**needed(), **{parameter.name: parameter.default})
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 2.0])
