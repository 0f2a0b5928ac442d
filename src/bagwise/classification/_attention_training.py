"""Training of AttentionMIL, with torch: several networks at once, on mini-batches of bags."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from bagwise._common.memory import available_memory, require_memory
from bagwise._common.types import Floats, Ints
from bagwise.bags import Bags
from bagwise.classification._torch import has_stalled, one_thread
from bagwise.compiled.threads import block_bounds
from bagwise.engines.arrays import float64, like, tanh, to_numpy
from bagwise.engines.batches import Batches, blocks_on, extremes_of_bags
from bagwise.engines.tensors import torch
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.solvers.result import SolverResult

LIMIT = 5.0  # bound on standardised values
SMOOTHED = 5.0  # epochs over which held-out losses are averaged, exponentially
KEYS = 2**24  # maximum number of values by which bags are sorted
SMALL = 2**28  # operations per batch below which one thread is faster
PART = 1024  # instances whose gradients a GPU sums at once
TRAINED_AT_ONCE = 2**28  # maximum bytes of layers in main memory

Tensor = Any


class Network(NamedTuple):
    """The weights of M networks with D inputs, H hidden units, A gates and C logits.

    Attributes
    ----------
    hidden_coef : array of shape (M, D, H)
        Weights of the hidden layer.
    hidden_intercept : array of shape (M, H)
        Its intercepts.
    gate_coef : array of shape (M, H, 2 A)
        Weights of the gated attention: those inside tanh, then those inside the logistic function.
    gate_intercept : array of shape (M, 2 A)
        Its intercepts.
    attention_coef : array of shape (M, A, 1)
        Weights of the gated units in the attention logit.
    head_coef : array of shape (M, H, C)
        Weights of the head.
    head_intercept : array of shape (M, C)
        Its intercepts.
    """

    hidden_coef: Any
    hidden_intercept: Any
    gate_coef: Any
    gate_intercept: Any
    attention_coef: Any
    head_coef: Any
    head_intercept: Any

    @staticmethod
    def shapes(M: int, D: int, H: int, A: int, C: int) -> dict[str, tuple[int, ...]]:
        """The shape of each array, by name."""
        return {
            "hidden_coef": (M, D, H),
            "hidden_intercept": (M, H),
            "gate_coef": (M, H, 2 * A),
            "gate_intercept": (M, 2 * A),
            "attention_coef": (M, A, 1),
            "head_coef": (M, H, C),
            "head_intercept": (M, C),
        }

    @classmethod
    def draw(cls, sizes: tuple[int, int, int, int, int], rng: np.random.RandomState) -> "Network":
        """Draw weights as torch does: uniform, up to one over the root of the number of inputs.

        With larger weights, the networks memorise the training bags before the hidden layer
        changes much, and do not find a few relevant instances among many.
        """
        arrays = []
        for name, shape in cls.shapes(*sizes).items():
            bound = 0.0 if name.endswith("intercept") else shape[1] ** -0.5
            arrays.append(rng.uniform(-bound, bound, shape))
        return cls(*arrays)

    def evaluate(self, X: Any) -> tuple[Any, Any]:
        """Attention logits (M, n) and heads (M, n, C) of n standardised instances."""
        M, D, H = self.hidden_coef.shape
        # One product for all networks: the instances are read once.
        hidden = X @ self.hidden_coef.swapaxes(0, 1).reshape(D, M * H)
        hidden = (hidden + self.hidden_intercept.reshape(M * H)).clip(min=0)
        hidden = hidden.reshape(-1, M, H).swapaxes(0, 1)
        gates = hidden @ self.gate_coef + self.gate_intercept[:, None]
        n_gates = gates.shape[2] // 2
        # The logistic function as tanh, which NumPy and torch both have.
        is_open = (1 + tanh(gates[:, :, n_gates:] / 2)) / 2
        attention = (tanh(gates[:, :, :n_gates]) * is_open) @ self.attention_coef
        return attention[:, :, 0], hidden @ self.head_coef + self.head_intercept[:, None]


def bag_logits(network: Network, X: Tensor, sizes: Tensor, largest: int) -> Tensor:
    """Logits of bags by each network.

    Parameters
    ----------
    network : Network
        The weights, as tensors.
    X : tensor of shape (n_instances, n_features)
        Standardised instances.
    sizes : tensor of int64 of shape (n_bags,)
        Number of instances of each bag.
    largest : int
        Size of the largest bag.

    Returns
    -------
    tensor of shape (n_models, n_bags, n_outputs)
    """
    attention, heads = _layers(network, X)
    M, n, C = heads.shape
    n_bags = len(sizes)
    # Only these few values per instance are padded, not the instances.
    shifts = torch.arange(n_bags, device=X.device) * largest - (sizes.cumsum(0) - sizes)
    at = torch.arange(n, device=X.device) + shifts.repeat_interleave(sizes, output_size=n)
    logits = attention.new_full((M, n_bags * largest), -torch.inf)
    logits = logits.index_copy(1, at, attention).reshape(M, n_bags, largest, 1)
    values = heads.new_zeros((M, n_bags * largest, C)).index_copy(1, at, heads)
    return (logits.softmax(dim=2) * values.reshape(M, n_bags, largest, C)).sum(dim=2)


def _layers(network: Network, X: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `Network.evaluate` with fewer passes over the layers and their gradients."""
    M, D, H = network.hidden_coef.shape
    coef = network.hidden_coef.transpose(0, 1).reshape(D, M * H)
    hidden = torch.addmm(network.hidden_intercept.reshape(M * H), X, coef).relu_()
    hidden = hidden.reshape(-1, M, H).transpose(0, 1)
    # Gates and head are one product. A GPU is faster if rows are aligned to 32 bytes.
    n_units = network.gate_coef.shape[2] + network.head_coef.shape[2]
    spare = network.gate_coef.new_zeros((M, H + 1, -n_units % 8))
    coef = torch.cat([network.gate_coef, network.head_coef, spare[:, 1:]], dim=2)
    intercept = torch.cat([network.gate_intercept, network.head_intercept, spare[:, 0]], dim=1)
    attention, heads = _gated()(hidden, coef, intercept[:, None], network.attention_coef)
    return attention, heads[:, :, : network.head_coef.shape[2]]


@cache
def _gated() -> Callable[..., tuple[Tensor, Tensor]]:
    """Autograd function from the hidden layer to attention logits and heads.

    The backward pass is explicit: it computes the gradients of all units in one array.
    """

    class Gated(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(
            ctx: Any, hidden: Tensor, coef: Tensor, intercept: Tensor, w: Tensor
        ) -> tuple[Tensor, Tensor]:
            n_gates = w.shape[1]
            units = (hidden @ coef).add_(intercept)  # (M, n, 2 A + C)
            inside = units[:, :, :n_gates].tanh_()
            is_open = units[:, :, n_gates : 2 * n_gates].sigmoid_()
            gated = inside * is_open
            ctx.save_for_backward(hidden, coef, w, units, gated)
            return (gated @ w)[:, :, 0], units[:, :, 2 * n_gates :].clone()

        @staticmethod
        def backward(ctx: Any, slope: Tensor, slope_of_heads: Tensor) -> tuple[Tensor, ...]:
            hidden, coef, w, units, gated = ctx.saved_tensors
            n_gates = w.shape[1]
            inside, is_open = units[:, :, :n_gates], units[:, :, n_gates : 2 * n_gates]
            slopes = torch.empty_like(units)
            own = slope[:, :, None] * w.transpose(1, 2)  # gradient of the gated units
            both = own * gated
            # tanh' = 1 - tanh**2; the logistic function has s' = s (1 - s)
            torch.addcmul(own.mul_(is_open), both, inside, value=-1, out=slopes[:, :, :n_gates])
            torch.addcmul(both, both, is_open, value=-1, out=slopes[:, :, n_gates : 2 * n_gates])
            slopes[:, :, 2 * n_gates :] = slope_of_heads
            part = hidden.shape[1] + 1 if hidden.device.type == "cpu" else PART
            of_hidden = torch.empty_like(hidden)  # same memory layout
            torch.bmm(slopes, coef.transpose(1, 2), out=of_hidden)
            return (
                of_hidden,
                _inner(hidden, slopes, part),
                slopes.sum(dim=1, keepdim=True),
                gated.transpose(1, 2) @ slope[:, :, None],
            )

    return Gated.apply


def _inner(left: Tensor, right: Tensor, part: int) -> Tensor:
    """Products (M, H, K) of (M, n, H) and (M, n, K), summed over n in parts.

    A product with a small result uses few multiprocessors of a GPU: parts are 10 times faster.
    """
    n_parts = left.shape[1] // part
    n = n_parts * part
    sums = left[:, n:].transpose(1, 2) @ right[:, n:]
    if n_parts:
        for m, both in enumerate(zip(left[:, :n], right[:, :n], strict=True)):
            first, second = (rows.unflatten(0, (n_parts, part)) for rows in both)
            sums[m] += (first.transpose(1, 2) @ second).sum(dim=0)
    return sums


def losses_of(logits: Tensor, targets: Tensor, *, sets: bool) -> Tensor:
    """Cross entropy (-log p) of the class, or of the label set, of each bag.

    Parameters
    ----------
    logits : tensor of shape (n_models, n_bags, n_outputs)
        Logits of the bags.
    targets : tensor of shape (n_bags,) or (n_bags, n_outputs)
        Codes of classes, or label sets.
    sets : bool
        Whether the targets are label sets.

    Returns
    -------
    tensor of shape (n_models, n_bags)
    """
    if sets or logits.shape[2] == 1:
        signs = 2 * targets.reshape(logits.shape[1:]) - 1
        return torch.nn.functional.softplus(-signs * logits).sum(dim=2)
    own = targets.expand(len(logits), -1)[:, :, None]
    return -logits.log_softmax(dim=2).gather(2, own)[:, :, 0]


def moments(bags: Bags, device: str | None = None) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each feature, computed in blocks of instances.

    Parameters
    ----------
    bags : Bags
        The bags.
    device : str or None, default=None
        The torch device for the computation; None for the device of the bags.

    Returns
    -------
    mean, scale : ndarray of shape (n_features,)
        In float64. The scale of a constant feature is 1.
    """
    n, (mean, squares) = 0, np.zeros((2, bags.n_features))
    for _, block in blocks_on(bags, device):
        block = float64(block)
        own = to_numpy(block.mean(axis=0))
        own_squares = to_numpy(((block - like(own, block)) ** 2).sum(axis=0))
        total = n + len(block)
        squares += own_squares + (own - mean) ** 2 * (n * len(block) / total)
        mean += (own - mean) * (len(block) / total)
        n = total
    variance = squares / n
    rounding = (n * np.finfo(np.float64).eps * mean) ** 2
    return mean, np.sqrt(np.where(variance <= rounding, 1.0, variance))


def standardised(rows: Any, mean: Any, scale: Any) -> Any:
    """Standardise instances, and clip them to `LIMIT` standard deviations.

    Otherwise a feature that was almost constant in training could dominate the scores of new bags.

    Parameters
    ----------
    rows : ndarray or tensor of shape (n_instances, n_features)
        The instances.
    mean, scale : ndarray or tensor of shape (n_features,)
        As returned by `moments`.

    Returns
    -------
    ndarray or tensor
        A new array.
    """
    return ((rows - mean) / scale).clip(min=-LIMIT, max=LIMIT)


def order_of_bags(bags: Bags, codes: Ints) -> Ints:
    """Sort bags by their contents, so that held-out bags do not depend on the user's order.

    The sort keys are class, size, and the extremes of the features: the order of the instances and
    the units of the features are irrelevant. Bags with equal keys keep their order.

    Parameters
    ----------
    bags : Bags
        The bags.
    codes : ndarray of shape (n_bags,)
        Their classes.

    Returns
    -------
    ndarray of shape (n_bags,)
        Indices that sort the bags.
    """
    n_columns = min(bags.n_features, max(1, KEYS // (2 * len(bags))))
    lowest, highest = extremes_of_bags(bags, n_columns)
    return np.lexsort((*lowest.T[::-1], *highest.T[::-1], bags.sizes, codes))


def train(
    model: Any,
    bags: Bags,
    labels: Labels,
    weights: Floats,
    folds: Ints,
    order: Ints,
    scaling: tuple[Floats, Floats],
    start: Network,
    rng: np.random.RandomState,
) -> tuple[SolverResult, list[float]]:
    """Minimise the cross entropy of the bags by AdamW, all networks on the same mini-batches.

    Network m does not learn from the bags of fold m. The losses of these bags, over all networks,
    are a cross-validated loss, which is smoothed over the last epochs. Training ends when it has
    not fallen by ``tol`` in ``patience`` epochs, and the weights of the best epoch are kept. The
    loss of a held-out bag is computed with its batch, so that an epoch reads each bag once.

    Parameters
    ----------
    model : AttentionMIL
        Provides the parameters and the progress bar.
    bags : Bags
        The training bags.
    labels : Labels
        Their labels.
    weights : ndarray of shape (n_bags,)
        Weights of the bags.
    folds : ndarray of shape (n_bags,)
        The fold of each bag; -1 if no network leaves it out.
    order : ndarray of shape (n_bags,)
        Order of the bags before they are shuffled.
    scaling : tuple of two ndarrays of shape (n_features,)
        Mean and scale of the features.
    start : Network
        The first weights.
    rng : RandomState
        Shuffles the bags into batches.

    Returns
    -------
    result : SolverResult
        The network as the solution, and the training cross entropy of each epoch.
    held_out : list of float
        The smoothed cross entropy of the held-out bags in each epoch; empty if there are none.
    """
    batches = Batches(bags, model.device, lambda X: standardised(X, *(like(a, X) for a in scaling)))
    place, dtype = batches.device, batches.dtype
    network = Network(*(torch.tensor(w, dtype=dtype, device=place) for w in start))
    for tensor in network:
        tensor.requires_grad_()
    coefs = [w for name, w in network._asdict().items() if name.endswith("coef")]
    others = [w for name, w in network._asdict().items() if name.endswith("intercept")]
    groups = [{"params": coefs}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(
        groups,
        lr=model.learning_rate,
        weight_decay=model.weight_decay,
        fused=place.type == "cuda",
    )
    blocks_of = _blocks(bags.sizes, network, batches.free)
    sets = labels.has_sets
    known = labels.indicator.astype(np.int64) if sets else labels.codes
    targets, sizes = (torch.tensor(a, device=place) for a in (known, bags.sizes))
    learned, held = _shares(weights, folds, start.hidden_coef.shape[0], dtype, place)
    n_batches = -(-len(bags) // model.batch_size)

    curve: list[float] = []
    held_out: list[float] = []
    kept, stops_early = network, bool(held.any())
    with _threads(bags, network, n_batches):
        for _ in model._track(range(model.max_epochs), "epoch"):
            sums = torch.zeros(2, dtype=torch.float64, device=place)
            # In one batch the order of the bags is irrelevant: nothing is drawn.
            shuffled = order if n_batches == 1 else rng.permutation(order)
            steps = [[*blocks_of(batch)] for batch in np.array_split(shuffled, n_batches)]
            blocks = [block for step in steps for block in step]
            # All positions are copied at once: each copy waits for the device.
            positions = torch.as_tensor(np.concatenate(blocks), device=place)
            coming = zip(
                batches.each(blocks), positions.split([*map(len, blocks)]), blocks, strict=True
            )
            for step in steps:
                optimizer.zero_grad()
                n_bags = sum(map(len, step))
                for X, at, block in islice(coming, len(step)):
                    logits = bag_logits(network, X, sizes[at], int(bags.sizes[block].max()))
                    losses = losses_of(logits, targets[at], sets=sets)
                    loss = (learned[:, at] * losses).sum()
                    (loss / n_bags).backward()
                    sums[0] += loss.detach()
                    sums[1] += (held[:, at] * losses.detach()).sum()
                optimizer.step()
            in_training, outside = sums.tolist()
            curve.append(in_training / len(bags) / len(learned))
            if not np.isfinite(curve[-1]):
                raise InputError(
                    f"the training loss is {curve[-1]} after {len(curve)} epochs: lower "
                    f"learning_rate (now {model.learning_rate})."
                )
            if not stops_early:
                continue
            if held_out:  # few bags are held out: without smoothing, the best epoch is chance
                outside = held_out[-1] + (outside - held_out[-1]) / SMOOTHED
            if outside < min(held_out, default=np.inf):
                kept = Network(*(w.detach().clone() for w in network))
            held_out.append(outside)
            if has_stalled(held_out, model.patience, model.tol):
                break
    converged = not stops_early or has_stalled(held_out, model.patience, model.tol)
    return SolverResult(Network(*map(to_numpy, kept)), curve, converged), held_out


def _shares(
    weights: Floats, folds: Ints, n_models: int, dtype: Any, place: Any
) -> tuple[Tensor, Tensor]:
    """Weights of the bags in the training loss and in the held-out loss of each network.

    The former are 1 on average. The latter sum to 1 and give the mean loss of held-out bags.
    """
    n_folds = max(1, folds.max(initial=-1) + 1)
    outside = folds == (np.arange(n_models) % n_folds)[:, None]
    learned = np.where(outside, 0.0, weights)
    learned *= len(weights) / learned.sum(axis=1, keepdims=True)
    held = np.where(outside, weights, 0.0)
    held /= max(held.sum(), np.finfo(np.float64).tiny)
    return tuple(torch.tensor(a, dtype=dtype, device=place) for a in (learned, held))


def _blocks(sizes: Ints, network: Network, free: float | None) -> Callable[[Ints], Iterator[Ints]]:
    """Return a function that cuts a batch into blocks of whole bags that fit into memory."""
    M, D, H = network.hidden_coef.shape
    n_values = 4 * D + M * (4 * H + 6 * network.gate_coef.shape[2] + 8 * network.head_coef.shape[2])
    row = n_values * network.hidden_coef.element_size()
    require_memory(
        float(row) * sizes.max(),
        purpose=f"training on a bag of {sizes.max():,} instances",
        remedy="split the bag, or lower n_models, hidden_size or attention_size",
        available=free,
    )
    room = min(TRAINED_AT_ONCE, available_memory() / 4) if free is None else free / 3
    n_rows = max(1, int(room / row))

    def blocks_of(batch: Ints) -> Iterator[Ints]:
        batch = np.sort(batch)  # in the order of the file
        ends = np.cumsum(sizes[batch])
        bounds = block_bounds(np.concatenate([[0], ends]), -(-int(ends[-1]) // n_rows))
        return (batch[start:stop] for start, stop in pairwise(bounds))

    return blocks_of


def _threads(bags: Bags, network: Network, n_batches: int) -> AbstractContextManager[None]:
    n_operations = bags.n_instances / n_batches * network.hidden_coef.numel()
    return one_thread() if n_operations < SMALL else nullcontext()
