"""Training of MINet: the only module of the package that uses torch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.extras import import_extra
from bagwise.solvers.result import SolverResult

PATIENCE = 20  # epochs without progress that end the training

Tensor = Any
Torch = Any


@dataclass(frozen=True)
class Architecture:
    """What is pooled, how, and which layers have a head.

    Attributes
    ----------
    hidden : tuple of int
        Sizes of the hidden layers.
    level : {"instance", "embedding"}
        Whether the scores of the instances are pooled, or their embeddings.
    pooling : {"max", "mean", "lse"}
        How.
    deep_supervision : bool
        A head for each hidden layer, or one for the last.
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
        """Draw weights as Glorot and Bengio do: hidden layers first, then the heads."""
        shapes = self.shapes(n_features, n_outputs)
        bounds = [np.sqrt(6 / sum(shape)) for shape in shapes]
        coefs = [
            rng.uniform(-bound, bound, shape).astype(dtype)
            for bound, shape in zip(bounds, shapes, strict=True)
        ]
        return coefs, [np.zeros(shape[1], dtype) for shape in shapes]


def head_inputs(X: Any, coefs: Sequence[Any], intercepts: Sequence[Any], n_heads: int) -> list[Any]:
    """Run the hidden layers; NumPy, SciPy and torch all do.

    Parameters
    ----------
    X : array, CSR or tensor of shape (n_instances, n_features)
        The instances.
    coefs, intercepts : sequences of arrays or tensors
        Those of the hidden layers, then those of the heads.
    n_heads : int
        How many of them are heads.

    Returns
    -------
    list of length n_heads
        What each head reads: the last layers.
    """
    layers = [X]
    for W, b in zip(coefs[:-n_heads], intercepts[:-n_heads], strict=True):
        layers.append((layers[-1] @ W + b).clip(min=0))
    return layers[-n_heads:]


def train(
    architecture: Architecture,
    bags: Bags,
    codes: Ints,
    weights: Floats,
    start: tuple[list[Array], list[Array]],
    *,
    optimizer: str,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
    max_epochs: int,
    batch_size: int,
    tol: float | None,
    device: str | None,
    rng: np.random.RandomState,
    track: Callable[[Iterable[int]], Iterator[int]],
) -> SolverResult:
    """Minimise the cross entropy of the bags, and a penalty, by mini-batches of bags.

    Parameters
    ----------
    architecture : Architecture
        The network.
    bags : Bags
        The training bags.
    codes : ndarray of shape (n_bags,)
        The class of each bag, as a position.
    weights : ndarray of shape (n_bags,)
        How much each bag counts; 1 on average.
    start : tuple (coefs, intercepts)
        Where to start; their type is that of the arithmetic.
    optimizer : {"adam", "sgd"}
        The optimiser of torch.
    learning_rate, momentum, weight_decay : float
        Its step, its memory ("sgd" only), and the weight of half the squared coefficients.
    max_epochs, batch_size : int
        Budget of passes over the bags, and bags per step.
    tol : float or None
        The training ends when `PATIENCE` epochs lowered the cross entropy by less than this; None
        to spend the whole budget. The penalty is not looked at: it still falls, as unused weights
        fade, long after the predictions have converged.
    device : str or None
        A device of torch; None for the CPU.
    rng : RandomState
        Deals the bags into batches.
    track : callable
        Iterates over epochs and reports progress.

    Returns
    -------
    SolverResult
        With ``(*coefs, *intercepts)`` as the solution and the cross entropy of each epoch.
    """
    torch = import_extra("torch", extra="torch")
    place = _place(torch, device)
    coefs, intercepts = (
        [torch.tensor(array, device=place, requires_grad=True) for array in arrays]
        for arrays in start
    )
    step = _optimizer(torch, optimizer, [*coefs, *intercepts], learning_rate, momentum)
    batches = _Batches(torch, bags, codes, weights, batch_size, start[0][0].dtype, place)
    curve: list[float] = []
    with _one_thread(torch):
        for _ in track(range(max_epochs)):
            total = 0.0
            for batch in batches.deal(rng):
                step.zero_grad()
                loss = _loss(torch, architecture, batch, coefs, intercepts)
                (loss + weight_decay / 2 * sum(W.square().sum() for W in coefs)).backward()
                step.step()
                total += float(loss.detach()) * len(batch.codes)
            curve.append(total / len(bags))
            if not np.isfinite(curve[-1]):
                raise InputError(
                    f"the training loss is {curve[-1]} after {len(curve)} epochs: standardise the "
                    "instances with InstanceTransformer(StandardScaler()), or lower learning_rate "
                    f"(now {learning_rate})."
                )
            if tol is not None and _has_stalled(curve, tol):
                break
    solution = tuple(tensor.detach().cpu().numpy() for tensor in [*coefs, *intercepts])
    stalled = tol is None or _has_stalled(curve, tol)
    return SolverResult(solution, np.array(curve), len(curve), stalled)


@dataclass(frozen=True)
class _Batch:
    """Some bags, on the device."""

    X: Tensor
    sizes: Tensor
    codes: Tensor
    weights: Tensor


class _Batches:
    """Deals the bags into batches of about equal size, anew for each epoch."""

    def __init__(
        self,
        torch: Torch,
        bags: Bags,
        codes: Ints,
        weights: Floats,
        batch_size: int,
        dtype: Any,
        place: Any,
    ) -> None:
        self.torch, self.place, self.dtype = torch, place, dtype
        self.bags, self.codes, self.weights = bags, codes, weights
        self.n_batches = -(-len(bags) // batch_size)
        self.whole = self._batch(slice(None)) if self.n_batches == 1 else None

    def deal(self, rng: np.random.RandomState) -> Iterator[_Batch]:
        if self.whole is not None:  # the order of the bags is irrelevant then, and nothing is drawn
            yield self.whole
            return
        for chosen in np.array_split(rng.permutation(len(self.bags)), self.n_batches):
            yield self._batch(chosen)

    def _batch(self, chosen: Any) -> _Batch:
        bags = self.bags[chosen]
        X = bags.instances.toarray() if sparse.issparse(bags.instances) else bags.instances
        weights = self.weights[chosen].astype(self.dtype)
        arrays = (X, bags.sizes, self.codes[chosen], weights)
        return _Batch(*(self.torch.tensor(array, device=self.place) for array in arrays))


def _loss(
    torch: Torch,
    architecture: Architecture,
    batch: _Batch,
    coefs: list[Tensor],
    intercepts: list[Tensor],
) -> Tensor:
    """Cross entropy of the bags, averaged over the heads."""
    n_heads = architecture.n_heads
    layers = head_inputs(batch.X, coefs, intercepts, n_heads)
    heads = zip(layers, coefs[-n_heads:], intercepts[-n_heads:], strict=True)
    losses = []
    for layer, W, b in heads:
        if architecture.level == "instance":
            scores = _pool(torch, architecture.pooling, layer @ W + b, batch.sizes)
        else:
            scores = _pool(torch, architecture.pooling, layer, batch.sizes) @ W + b
        losses.append((batch.weights * _cross_entropy(torch, scores, batch.codes)).mean())
    return sum(losses) / n_heads


def _cross_entropy(torch: Torch, scores: Tensor, codes: Tensor) -> Tensor:
    """-log p of the own class of each bag: logistic for one score, softmax for several."""
    if scores.shape[1] == 1:
        signs = 2 * codes - 1
        return torch.nn.functional.softplus(-signs * scores[:, 0])
    return torch.nn.functional.cross_entropy(scores, codes, reduction="none")


def _pool(torch: Torch, pooling: str, values: Tensor, sizes: Tensor) -> Tensor:
    """Maximum, mean or log-mean-exp of the rows of each bag, column by column."""
    reduce = partial(torch.segment_reduce, lengths=sizes, axis=0)
    if pooling == "mean":
        return reduce(values, "mean")
    largest = reduce(values.detach(), "max")
    short = values - largest.repeat_interleave(sizes, dim=0)
    if pooling == "lse":
        return largest + reduce(short.exp(), "mean").log()
    # Equal instances share the slope. torch's own maximum divides only slopes above 0 among them.
    winners = (short == 0).to(values.dtype)
    return largest + reduce(winners * short, "sum") / reduce(winners, "sum")


def _optimizer(
    torch: Torch, name: str, parameters: list[Tensor], learning_rate: float, momentum: float
) -> Any:
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=learning_rate, momentum=momentum)
    return torch.optim.Adam(parameters, lr=learning_rate)


@contextmanager
def _one_thread(torch: Torch) -> Iterator[None]:
    """Mini-batches are small: more threads wait for each other rather than help."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def _place(torch: Torch, device: str | None) -> Any:
    try:
        place = torch.device("cpu" if device is None else device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise InputError(
            f"torch cannot work on device={device!r} here ({error}): use device='cpu'."
        ) from error
    return place


def _has_stalled(curve: list[float], tol: float) -> bool:
    """Whether the best of the last epochs is hardly better than the best before them."""
    if len(curve) <= PATIENCE:
        return False
    return min(curve[-PATIENCE:]) > min(curve[:-PATIENCE]) - tol
