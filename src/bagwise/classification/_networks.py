"""The networks of AttentionMIL and MINet, as functions of weights by name.

The layers of instances are one text for NumPy, which predicts, and torch, which trains; the pooling
of whole bags is torch's. Names of weights that contain "intercept" do not decay.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Ints
from bagwise.base._scoring import pool
from bagwise.compute.arrays import tanh
from bagwise.compute.tensors import torch

Tensor = Any
Weights = Mapping[str, Any]

GATED = (
    "hidden_coef",  # (M, D, H), of M networks with D inputs and H hidden units
    "hidden_intercept",  # (M, H)
    "gate_coef",  # (M, H, 2 A), of A gates: inside tanh, then inside the logistic function
    "gate_intercept",  # (M, 2 A)
    "attention_coef",  # (M, A, 1)
    "head_coef",  # (M, H, C), of C logits
    "head_intercept",  # (M, C)
)


def draw(shapes: Mapping[str, tuple[int, ...]], rng: np.random.RandomState) -> dict[str, Array]:
    """Draw weights as torch does: uniform, up to one over the root of the number of inputs.

    With larger weights, the networks memorise the training bags before the hidden layer changes
    much, and do not find a few relevant instances among many.

    Parameters
    ----------
    shapes : dict of str to tuple
        The shapes of the weights, the number of inputs second to last; intercepts are 0.
    rng : RandomState
        Draws the weights.

    Returns
    -------
    dict of str to ndarray
    """
    bounds = {n: 0.0 if "intercept" in n else s[-2] ** -0.5 for n, s in shapes.items()}
    return {name: rng.uniform(-bounds[name], bounds[name], s) for name, s in shapes.items()}


def gated_shapes(M: int, D: int, H: int, C: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights of gated attention, with half as many gates as hidden units."""
    A = max(1, H // 2)
    shapes = (M, D, H), (M, H), (M, H, 2 * A), (M, 2 * A), (M, A, 1), (M, H, C), (M, C)
    return dict(zip(GATED, shapes, strict=True))


def gated_layers(w: Weights, X: Any) -> tuple[Any, Any]:
    """Attention logits (M, n) and heads (M, n, C) of n standardised instances."""
    M, D, H = w["hidden_coef"].shape
    # One product for all networks: the instances are read once.
    hidden = X @ w["hidden_coef"].swapaxes(0, 1).reshape(D, M * H)
    hidden = (hidden + w["hidden_intercept"].reshape(M * H)).clip(min=0)
    hidden = hidden.reshape(-1, M, H).swapaxes(0, 1)
    gates = hidden @ w["gate_coef"] + w["gate_intercept"][:, None]
    n_gates = gates.shape[2] // 2
    # The logistic function as tanh, which NumPy and torch both have.
    is_open = (1 + tanh(gates[:, :, n_gates:] / 2)) / 2
    attention = (tanh(gates[:, :, :n_gates]) * is_open) @ w["attention_coef"]
    return attention[:, :, 0], hidden @ w["head_coef"] + w["head_intercept"][:, None]


def gated_logits(w: Weights, X: Tensor, sizes: Tensor) -> Tensor:
    """Logits (M, n_bags, C) of bags: the heads of their instances, weighted by attention."""
    attention, heads = gated_layers(w, X)
    attention, heads = attention.T, heads.swapaxes(0, 1)  # (n, M) and (n, M, C)
    largest = _segments(attention.detach(), sizes, "max")
    powers = (attention - largest.repeat_interleave(sizes, dim=0, output_size=len(X))).exp()
    terms = (powers[:, :, None] * heads).flatten(1)
    sums = _segments(terms, sizes, "sum").unflatten(1, heads.shape[1:])
    return (sums / _segments(powers, sizes, "sum")[:, :, None]).swapaxes(0, 1)


def draw_plain(widths: Sequence[int], rng: np.random.RandomState) -> dict[str, Array]:
    """Draw the weights of fully connected layers between these widths."""
    coefs = draw({f"coef_{k}": pair for k, pair in enumerate(pairwise(widths))}, rng)
    return coefs | {f"intercept_{k}": np.zeros(width) for k, width in enumerate(widths[1:])}


def plain_layers(w: Weights, X: Any) -> tuple[Any, Any, Any]:
    """The last hidden layer of the instances, and the weights and intercepts of the head."""
    last = len(w) // 2 - 1
    for k in range(last):
        X = (X @ w[f"coef_{k}"] + w[f"intercept_{k}"]).clip(min=0)
    return X, w[f"coef_{last}"], w[f"intercept_{last}"]


def plain_scores(w: Weights, X: Any, offsets: Ints, embedding: str | None) -> Array:
    """Scores of the instances; of the bags if their embeddings are pooled, by `embedding`."""
    layer, W, b = plain_layers(w, X)
    if embedding is not None:
        layer = pool(layer.toarray() if sparse.issparse(layer) else layer, offsets, embedding)
    return layer @ W + b


def plain_logits(w: Weights, X: Tensor, sizes: Tensor, level: str, pooling: str) -> Tensor:
    """Logits (1, n_bags, C) of bags, from pooled instance scores or pooled embeddings."""
    layer, W, b = plain_layers(w, X)
    if level == "embedding":
        return (_pooled(layer, sizes, pooling) @ W + b)[None]
    return _pooled(layer @ W + b, sizes, pooling)[None]


def _pooled(values: Tensor, sizes: Tensor, pooling: str) -> Tensor:
    """Maximum, mean or log-mean-exp of the rows of each bag, column by column."""
    if pooling == "mean":
        return _segments(values, sizes, "mean")
    largest = _segments(values.detach(), sizes, "max")
    short = values - largest.repeat_interleave(sizes, dim=0, output_size=len(values))
    if pooling == "lse":
        return largest + _segments(short.exp(), sizes, "mean").log()
    # Tied instances share the gradient. torch's maximum shares only positive gradients.
    winners = (short == 0).to(values.dtype)
    return largest + _segments(winners * short, sizes, "sum") / _segments(winners, sizes, "sum")


def _segments(values: Tensor, sizes: Tensor, how: str) -> Tensor:
    """Sum, mean or maximum of the rows of each bag, of shape (n_bags, n_columns)."""
    return torch.segment_reduce(values, how, lengths=sizes, axis=0, unsafe=True)
