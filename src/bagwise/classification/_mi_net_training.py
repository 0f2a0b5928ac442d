"""Training of MINet, with torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.classification._torch import cross_entropy, one_thread
from bagwise.engines.batches import device_named
from bagwise.exceptions import InputError
from bagwise.extras import import_extra
from bagwise.solvers.result import SolverResult

PATIENCE = 20  # epochs without progress that end the training

Tensor = Any


@dataclass(frozen=True)
class Architecture:
    """Hidden layers, pooling and heads of a network.

    Attributes
    ----------
    hidden : tuple of int
        Sizes of the hidden layers.
    level : {"instance", "embedding"}
        Whether the scores of the instances are pooled, or their embeddings.
    pooling : {"max", "mean", "lse"}
        The pooling function.
    deep_supervision : bool
        Whether each hidden layer has a head, not only the last one.
    """

    hidden: tuple[int, ...]
    level: str
    pooling: str
    deep_supervision: bool

    @property
    def n_heads(self) -> int:
        """Number of heads; without hidden layers the one head reads the instances."""
        return max(1, len(self.hidden)) if self.deep_supervision else 1

    def shapes(self, n_features: int, n_outputs: int) -> list[tuple[int, int]]:
        """The shapes of all weights: hidden layers first, then the heads."""
        widths = [n_features, *self.hidden]
        heads = [(width, n_outputs) for width in widths[-self.n_heads :]]
        return [*pairwise(widths), *heads]

    def start(
        self, n_features: int, n_outputs: int, rng: np.random.RandomState, dtype: Any
    ) -> tuple[list[Array], list[Array]]:
        """Draw weights as torch does: uniform, up to one over the root of the number of inputs."""
        shapes = self.shapes(n_features, n_outputs)
        bounds = [n_inputs**-0.5 for n_inputs, _ in shapes]
        coefs = [
            rng.uniform(-bound, bound, shape).astype(dtype)
            for bound, shape in zip(bounds, shapes, strict=True)
        ]
        return coefs, [np.zeros(shape[1], dtype) for shape in shapes]


def head_inputs(X: Any, coefs: Sequence[Any], intercepts: Sequence[Any], n_heads: int) -> list[Any]:
    """Compute the hidden layers, with NumPy, SciPy or torch.

    Parameters
    ----------
    X : array, CSR or tensor of shape (n_instances, n_features)
        The instances.
    coefs, intercepts : sequences of arrays or tensors
        Weights and intercepts of the hidden layers, then of the heads.
    n_heads : int
        Number of heads.

    Returns
    -------
    list of length n_heads
        The input of each head: the last layers.
    """
    layers = [X]
    for W, b in zip(coefs[:-n_heads], intercepts[:-n_heads], strict=True):
        layers.append((layers[-1] @ W + b).clip(min=0))
    return layers[-n_heads:]


def train(
    model: Any,
    architecture: Architecture,
    bags: Bags,
    codes: Ints,
    weights: Floats,
    rng: np.random.RandomState,
) -> SolverResult:
    """Minimise the penalised cross entropy of the bags, on mini-batches of bags.

    The training ends when `PATIENCE` epochs lowered the cross entropy by less than ``tol``. The
    penalty is ignored: it keeps falling, as unused weights decay, long after the predictions have
    converged.

    Parameters
    ----------
    model : MINet
        Provides the parameters and the progress bar.
    architecture : Architecture
        The network.
    bags : Bags
        The training bags.
    codes : ndarray of shape (n_bags,)
        The class of each bag, as a position.
    weights : ndarray of shape (n_bags,)
        Weights of the bags; 1 on average.
    rng : RandomState
        Draws the first weights, and shuffles the bags into batches.

    Returns
    -------
    SolverResult
        With ``(*coefs, *intercepts)`` as the solution and the cross entropy of each epoch.
    """
    torch = import_extra("torch", extra="torch")
    place = device_named(model.device)
    n_classes = codes.max() + 1
    start = architecture.start(bags.n_features, 1 if n_classes == 2 else n_classes, rng, bags.dtype)
    coefs, intercepts = (
        [torch.tensor(array, device=place, requires_grad=True) for array in arrays]
        for arrays in start
    )
    parameters = [*coefs, *intercepts]
    if model.optimizer == "sgd":
        step = torch.optim.SGD(parameters, lr=model.learning_rate, momentum=model.momentum)
    else:
        step = torch.optim.Adam(parameters, lr=model.learning_rate)

    def batch(chosen: Any) -> tuple[Tensor, ...]:
        """Instances, sizes, codes and weights of some bags, on the device."""
        some = bags[chosen]
        X = some.instances.toarray() if sparse.issparse(some.instances) else some.instances
        arrays = X, some.sizes, codes[chosen], weights[chosen].astype(dtype)
        # torch refuses negative strides, such as those of X[:, ::-1].
        return tuple(torch.tensor(np.ascontiguousarray(a), device=place) for a in arrays)

    dtype = start[0][0].dtype
    n_batches = -(-len(bags) // model.batch_size)
    # In one batch the order of the bags is irrelevant: nothing is drawn.
    whole = [batch(slice(None))] if n_batches == 1 else None
    curve: list[float] = []
    with one_thread():
        for _ in model._track(range(model.max_epochs), "epoch"):
            total = 0.0
            batches = whole or map(batch, np.array_split(rng.permutation(len(bags)), n_batches))
            for X, sizes, own, weight in batches:
                step.zero_grad()
                scores = _bag_scores(torch, architecture, X, sizes, coefs, intercepts)
                losses = [(weight * cross_entropy(each, own)).mean() for each in scores]
                loss = sum(losses) / len(losses)
                (loss + model.weight_decay / 2 * sum(W.square().sum() for W in coefs)).backward()
                step.step()
                total += float(loss.detach()) * len(own)
            curve.append(total / len(bags))
            if not np.isfinite(curve[-1]):
                raise InputError(
                    f"the training loss is {curve[-1]} after {len(curve)} epochs: standardise the "
                    "instances with InstanceTransformer(StandardScaler()), or lower learning_rate "
                    f"(now {model.learning_rate})."
                )
            if model.tol is not None and _has_stalled(curve, model.tol):
                break
    solution = tuple(tensor.detach().cpu().numpy() for tensor in parameters)
    stalled = model.tol is None or _has_stalled(curve, model.tol)
    return SolverResult(solution, curve, stalled)


def _bag_scores(
    torch: Any,
    architecture: Architecture,
    X: Tensor,
    sizes: Tensor,
    coefs: list[Tensor],
    intercepts: list[Tensor],
) -> Iterator[Tensor]:
    """Scores of the bags, by each head."""
    n_heads = architecture.n_heads
    layers = head_inputs(X, coefs, intercepts, n_heads)
    for layer, W, b in zip(layers, coefs[-n_heads:], intercepts[-n_heads:], strict=True):
        if architecture.level == "instance":
            yield _pool(torch, architecture.pooling, layer @ W + b, sizes)
        else:
            yield _pool(torch, architecture.pooling, layer, sizes) @ W + b


def _pool(torch: Any, pooling: str, values: Tensor, sizes: Tensor) -> Tensor:
    """Maximum, mean or log-mean-exp of the rows of each bag, column by column."""
    reduce = partial(torch.segment_reduce, lengths=sizes, axis=0)
    if pooling == "mean":
        return reduce(values, "mean")
    largest = reduce(values.detach(), "max")
    short = values - largest.repeat_interleave(sizes, dim=0)
    if pooling == "lse":
        return largest + reduce(short.exp(), "mean").log()
    # Tied instances share the gradient. torch's maximum shares only positive gradients.
    winners = (short == 0).to(values.dtype)
    return largest + reduce(winners * short, "sum") / reduce(winners, "sum")


def _has_stalled(curve: list[float], tol: float) -> bool:
    """Whether the best of the last epochs is hardly better than the best before them."""
    if len(curve) <= PATIENCE:
        return False
    return min(curve[-PATIENCE:]) > min(curve[:-PATIENCE]) - tol
