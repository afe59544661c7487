"""Differentiable arrays that know their zeros."""
from iverson import autograd
from iverson.tensor import Tensor, asarray
