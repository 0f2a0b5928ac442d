"""Training of networks on bags, with torch: the only loop of AttentionMIL, MINet and torch modules.

Several networks may be trained at once, on the same mini-batches; each leaves out its own bags.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import entr, expit
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from bagwise._common.memory import available_memory, require_memory
from bagwise._common.sklearn import Interval
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, class_weights, fit_method, softmax_probabilities
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, POSITIVE
from bagwise.base._pipelines import warn_of_nothing
from bagwise.compute.arrays import dense, to_numpy
from bagwise.compute.batches import Batches, extremes_of_bags
from bagwise.compute.blocks import row_blocks
from bagwise.compute.tensors import torch
from bagwise.exceptions import InputError, LabelError
from bagwise.loops.threads import block_bounds
from bagwise.solvers.result import SolverResult
from bagwise.validation import check_bags, check_groups

SMOOTHED = 5.0  # epochs over which held-out losses are averaged, exponentially
TOL = 0.005  # smallest fall of the held-out cross entropy that counts as progress
PATIENCE = 20  # epochs without progress that end the training
STEPS = 200  # the same before anything was learned: few bags have few steps in an epoch
LEARNED = 0.05  # fall of the loss below that of a constant prediction that counts as learned
KEYS = 2**24  # maximum number of values by which bags are sorted
SMALL = 2**28  # operations per batch below which one thread is faster
TRAINED_AT_ONCE = 2**28  # maximum bytes of layers in main memory

Tensor = Any


TRAINING: dict[str, list[Any]] = {  # constraints of the parameters
    "learning_rate": [POSITIVE],
    "weight_decay": [NOT_NEGATIVE],
    "max_epochs": [COUNT],
    "batch_size": [COUNT],
    "validation_fraction": [Interval(Real, 0, 0.5, closed="right"), None],
    "device": [str, None],
}


class NetworkMixin(BagClassifierMixin):
    """Classifier that trains a torch module, whose scores are logits.

    There is one logit for two classes, one per class, or one per label. A subclass defines
    `_network`, which also returns options of `train`, `_logits`, and `_keep`, which stores the
    trained module.

    Attributes
    ----------
    n_models : int
        Number of networks.
    validation_fraction : float or None
        Share of the groups of bags that a network leaves out; None to hold out no bag.
    """

    n_models = 1
    validation_fraction: float | None = None
    class_weight: Any = None
    _learns_grades = False
    _training_tol: float | None = None  # progress without held-out bags; None to run all epochs
    _advice = "raise max_epochs or learning_rate"

    _network: Any  # (bags, n_outputs, rng) -> module, options
    _logits: Any  # (module, instances, sizes of bags) -> logits (n_models, n_bags, n_outputs)
    _keep: Any  # (module, curve of the held-out loss) -> None

    def _probabilities(self, scores: Array) -> Array:
        return expit(scores) if self._has_label_sets else softmax_probabilities(scores)

    def _optimizer(self, weights: list[dict[str, Any]], **options: Any) -> Any:
        """Make the optimiser of groups of weights."""
        return torch.optim.AdamW(weights, lr=self.learning_rate, **options)

    def _order(self, bags: Bags, codes: Ints) -> Ints:
        """The order of the bags before they are shuffled."""
        return order_of_bags(bags, codes)

    def _fit(self, X: Any, y: Any, groups: Any = None) -> Any:
        bags = check_groups(groups, check_bags(self, X, reset=True))
        self._keep(*self._train(bags, y, check_random_state(self.random_state)))
        return self

    def _train(self, bags: Bags, y: Any, rng: np.random.RandomState) -> Any:
        """Return the trained module and the curve of the held-out loss; set what all have."""
        labels = self._check_labels(y, bags)
        names = np.arange(len(bags)) if bags.groups is None else bags.groups
        if isinstance(labels, np.ndarray):
            return self._train_on(bags, CoxLoss(labels), labels["event"].astype(int), names, rng)
        if labels.has_sets:
            known = labels.known
            if not known.any():
                raise LabelError("no bag has a known label set: give at least one.")
            bags, labels, names = bags[known], labels[known], names[known]
            codes, targets = np.zeros(len(bags), np.int64), labels.indicator.astype(np.int64)
        else:
            codes = targets = labels.oriented_codes
        if self._learns_grades:  # whether the grade is above each of the others
            targets = (codes[:, None] > np.arange(len(labels.classes) - 1)).astype(np.int64)
        weights = class_weights(self.class_weight, labels)
        two = len(labels.classes) == 2 and not labels.has_sets
        n_columns = targets.shape[1] if targets.ndim == 2 else len(labels.classes)
        loss = CrossEntropy(targets, 1 if two else n_columns)
        return self._train_on(bags, loss, codes, names, rng, weights)

    def _train_on(
        self, bags: Bags, loss: Any, codes: Ints, names: Array, rng: Any, weights: Any = None
    ) -> Any:
        """Train on checked bags; each class, by its code, is held out evenly."""
        module, options = self._network(bags, loss.n_outputs, rng)
        order, own = self._order(bags, codes), np.unique(names, return_inverse=True)[1]
        folds = held_out_folds(codes, own, order, self.validation_fraction, rng)
        weights = np.ones(len(bags)) if weights is None else weights
        result, held_out = train(self, module, bags, loss, weights, order, folds, rng, **options)
        self._keep_progress(result, self._advice)
        chance = loss.chance(weights)
        if held_out and np.isfinite(chance):
            self.held_out_loss_, self.chance_loss_ = min(held_out), chance
        if result.converged and (held_out or self._training_tol is not None):
            warn_of_nothing(self, min(held_out, default=result.objective_curve[-1]), chance)
        return module, np.array(held_out)


class LogitClassifierMixin(NetworkMixin):
    """Network that learns classes or label sets, and ends training by held-out groups of bags."""

    _learns_label_sets = True
    __metadata_request__fit = {"groups": True}  # routed without set_fit_request

    @fit_method
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Train the network, with torch.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,), 0/1 array of shape (n_bags, n_classes) or list of sets
            The class, or the label set, of each bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group, such as the slides of a patient, are held out together. By default
            the groups of the bags.

        Returns
        -------
        self
        """
        return self._fit(X, y, groups)


def train(
    model: Any,
    module: Any,
    bags: Bags,
    loss: Any,
    weights: Floats,
    order: Ints,
    folds: Ints,
    rng: np.random.RandomState,
    *,
    prepare: Callable[[Tensor], Tensor] | None = None,
    row_values: int | None = None,
) -> tuple[SolverResult, list[float]]:
    """Minimise the loss of the bags by AdamW on mini-batches; the module is modified.

    Network m does not learn from the bags of fold m. The losses of these bags, over all networks,
    are a cross-validated loss, which is smoothed over the last epochs. Training ends when it has
    not fallen by `TOL` in `PATIENCE` epochs (or in `STEPS` steps, as long as it is not `LEARNED`
    below the loss of a constant prediction), and the weights of the best epoch are kept. The loss
    of a bag that some network learns from is computed with its batch, so that an epoch reads each
    bag once; the loss of the other held-out bags after the epoch, with the module in evaluation
    mode. If no bag is held out, the training loss ends the training, by `_training_tol`.

    Parameters
    ----------
    model : NetworkMixin
        Provides the parameters, the logits, the optimiser and the progress bar.
    module : torch.nn.Module
        Contains the first weights.
    bags : Bags
        The training bags.
    loss : CrossEntropy or CoxLoss
        The loss of each bag.
    weights : ndarray of shape (n_bags,)
        Weights of the bags.
    order : ndarray of shape (n_bags,)
        Order of the bags before they are shuffled.
    folds : ndarray of shape (n_bags,)
        The fold of each bag; -1 if no network leaves it out.
    rng : RandomState
        Shuffles the bags into batches.
    prepare : callable, default=None
        Maps a tensor of instances to a new one.
    row_values : int, default=None
        Values per instance that training keeps; None to pass bags to the module one by one.

    Returns
    -------
    result : SolverResult
        The training loss of each epoch; no solution, which the module contains.
    held_out : list of float
        The smoothed loss of the held-out bags in each epoch; empty if there are none.
    """
    batches = Batches(bags, model.device, prepare)
    place = batches.device
    module.to(place)
    sizes = torch.tensor(bags.sizes, device=place)
    shares = _shares(weights, folds, model.n_models)
    learned, held = (torch.tensor(a, dtype=batches.dtype, device=place) for a in shares)
    loss.start(learned)
    apart = shares[0].max(axis=0)[order] == 0  # bags that no network learns from
    learners, others = order[~apart], order[apart]
    blocks_of = _blocks(bags.sizes, batches, row_values)

    def losses(steps: list[list[Ints]]) -> Iterator[tuple[Ints, Tensor]]:
        """Positions and losses (n_models, n) of blocks of bags, read one after the other."""
        blocks = [block for step in steps for block in step]
        # All positions are copied at once: each copy waits for the device.
        positions = torch.as_tensor(np.concatenate(blocks), device=place)
        parts = positions.split([*map(len, blocks)])
        for at, X in zip(parts, batches.each(blocks), strict=True):
            yield at, loss.of(model._logits(module, X, sizes[at]), at)

    with torch.no_grad():
        next(losses([[order[:1]]]))  # initialises lazy layers, and checks the output
    optimizer = _optimizer(model, module)
    n_batches = -(-len(learners) // model.batch_size)
    stops_early = bool(shares[1].any())
    tol = TOL if stops_early else model._training_tol
    long, chance = max(PATIENCE, -(-STEPS // n_batches)), loss.chance(weights)
    curve: list[float] = []
    held_out: list[float] = []
    kept = None
    n_weights = sum(p.numel() for p in module.parameters())
    with _threads(bags.n_instances / n_batches * n_weights):
        for _ in model._track(range(model.max_epochs), "epoch"):
            module.train()
            sums = torch.zeros(2, dtype=torch.float64, device=place)
            # In one batch the order of the bags is irrelevant: nothing is drawn.
            shuffled = learners if n_batches == 1 else rng.permutation(learners)
            steps = [[*blocks_of(batch)] for batch in np.array_split(shuffled, n_batches)]
            coming = losses(steps)
            for step in steps:
                optimizer.zero_grad()
                n_bags = sum(map(len, step))
                for _ in step:
                    at, each = next(coming)
                    total = (learned[:, at] * each).sum()
                    (total / n_bags).backward()
                    sums += torch.stack([total, (held[:, at] * each).sum()]).detach()
                optimizer.step()
            if len(others):
                module.eval()
                with torch.no_grad():
                    for at, each in losses([[*blocks_of(others)]]):
                        sums[1] += (held[:, at] * each).sum()
            loss.end_epoch()
            in_training, outside = sums.tolist()
            curve.append(in_training / len(bags) / model.n_models)
            if not np.isfinite(curve[-1]):
                raise InputError(
                    f"the training loss is {curve[-1]} after {len(curve)} epochs: lower "
                    f"learning_rate (now {model.learning_rate}), or standardise the instances with "
                    "InstanceTransformer(StandardScaler())."
                )
            if stops_early:
                if held_out:  # few bags are held out: without smoothing, the best epoch is chance
                    outside = held_out[-1] + (outside - held_out[-1]) / SMOOTHED
                if outside < min(held_out, default=np.inf):
                    kept = {name: w.clone() for name, w in module.state_dict().items()}
                held_out.append(outside)
            at_start = bool(held_out) and min(held_out) > chance - LEARNED
            patience = long if at_start else PATIENCE
            stalled = tol is not None and has_stalled(held_out or curve, patience, tol)
            if stalled:
                break
    if kept is not None:
        module.load_state_dict(kept)
    module.eval().cpu()
    return SolverResult((), curve, tol is None or stalled), held_out


def losses_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy (-log p) of the class, or of the label set, of each bag.

    Parameters
    ----------
    logits : tensor of shape (n_models, n_bags, n_outputs)
        Logits of the bags.
    targets : tensor of shape (n_bags,) or (n_bags, n_outputs)
        Codes of classes, or label sets.

    Returns
    -------
    tensor of shape (n_models, n_bags)
    """
    if targets.ndim == 2 or logits.shape[2] == 1:
        signs = 2 * targets.reshape(logits.shape[1:]) - 1
        return torch.nn.functional.softplus(-signs * logits).sum(dim=2)
    own = targets.expand(len(logits), -1)[:, :, None]
    return -logits.log_softmax(dim=2).gather(2, own)[:, :, 0]


class CrossEntropy:
    """The loss of classes, or of label sets.

    Attributes
    ----------
    targets : ndarray of int of shape (n_bags,) or (n_bags, n_outputs)
        Codes of classes, or label sets.
    n_outputs : int
        Number of logits of a bag.
    """

    def __init__(self, targets: Ints, n_outputs: int) -> None:
        self.targets, self.n_outputs = targets, n_outputs

    def start(self, learned: Tensor) -> None:
        """Prepare the training, with the weights (n_models, n_bags) of the bags."""
        self.known = torch.tensor(self.targets, device=learned.device)

    def chance(self, weights: Floats) -> float:
        """Mean loss of the best prediction that is the same for all bags."""
        shares = weights / weights.sum()
        p = shares @ self.targets if self.targets.ndim == 2 else np.bincount(self.targets, shares)
        terms = p, 1 - p
        return float(sum(entr(p).sum() for p in terms[: self.targets.ndim]))

    def of(self, logits: Tensor, at: Tensor) -> Tensor:
        """Losses (n_models, n) of n bags at some positions, from their logits."""
        return losses_of(logits, self.known[at])

    def end_epoch(self) -> None:
        """Update what the losses of the next epoch depend on."""


class CoxLoss(CrossEntropy):
    r"""Cox's partial likelihood of times to an event, as a sum over bags.

    Given Breslow's cumulative hazard H and the sum S of the risks of the bags not yet gone at the
    time of a bag, all of the last epoch, its loss is

    .. math:: H e^f - \delta (f - \log S).

    The gradient is that of the partial likelihood of all training bags, not of a mini-batch alone.
    A constant added to all log risks f changes nothing once H and S are updated.
    """

    def __init__(self, times: Array) -> None:
        super().__init__(times["event"].astype(int), 1)
        self.steps = np.unique(times["time"], return_inverse=True)[1]

    def chance(self, weights: Floats) -> float:
        """Not defined: the loss depends on the risks of the other bags."""
        return np.inf

    def start(self, learned: Tensor) -> None:
        """Begin with equal risks: H is Nelson and Aalen's estimate."""
        super().start(learned)
        self.learned, self.risk = learned, torch.zeros_like(learned)
        self.step = torch.tensor(self.steps, device=learned.device)
        self.end_epoch()

    def of(self, logits: Tensor, at: Tensor) -> Tensor:
        """Losses of bags, whose log risks are kept for the next epoch."""
        f, event = logits[:, :, 0], self.known[at]
        self.risk[:, at] = f.detach()
        return self.hazard[:, at] * f.exp() - event * (f - self.log_at_risk[:, at])

    def end_epoch(self) -> None:
        """Compute H and S from the risks of the epoch, for the training bags of each network."""
        empty = self.risk.new_zeros(len(self.risk), int(self.step.max()) + 1)
        powers = self.learned * self.risk.exp()
        at_risk = empty.index_add(1, self.step, powers).flip(1).cumsum(1).flip(1)
        # After the last training bag of a network, held-out bags are compared with that one.
        last = at_risk.masked_fill(at_risk <= 0, torch.inf).amin(1, keepdim=True)
        at_risk = at_risk.maximum(last)
        deaths = empty.index_add(1, self.step, self.learned * self.known)
        self.hazard = (deaths / at_risk).cumsum(1)[:, self.step]
        self.log_at_risk = (at_risk / self.learned.sum(1, keepdim=True)).log()[:, self.step]


def has_stalled(losses: list[float], patience: int, tol: float) -> bool:
    """Whether the last `patience` losses are not lower by `tol` than the least before them."""
    least, last = np.inf, 0
    for epoch, loss in enumerate(losses):
        if loss < least - tol:
            least, last = loss, epoch
    return len(losses) - 1 - last >= patience


def parameters_of(weights: dict[str, Array], dtype: Any) -> Any:
    """A torch module that contains the weights by name, in the type of the instances."""
    dtype = getattr(torch, str(dtype).removeprefix("torch."))
    return torch.nn.ParameterDict({n: torch.tensor(w, dtype=dtype) for n, w in weights.items()})


def arrays_of(module: Any) -> dict[str, Array]:
    """The weights in a module by name, as NumPy arrays."""
    return {name: to_numpy(w) for name, w in module.state_dict().items()}


def held_out_folds(
    codes: Ints, groups: Ints, order: Ints, fraction: float | None, rng: np.random.RandomState
) -> Ints:
    """Deal groups of bags into folds of equal size, each class evenly.

    Parameters
    ----------
    codes : ndarray of shape (n_bags,)
        The class of each bag; 0 for label sets.
    groups : ndarray of int64 of shape (n_bags,)
        The group of each bag; a group stays in one fold.
    order : ndarray of int64 of shape (n_bags,)
        The order in which bags are dealt, independent of their order in the data.
    fraction : float or None
        Share of the groups in a fold; None to hold out no bag.
    rng : RandomState
        Draws the fold of a group inside the class of its first bag.

    Returns
    -------
    ndarray of int64 of shape (n_bags,)
        The fold of each bag; -1 for a group that has all bags of a class, which are needed for
        training.
    """
    if fraction is None:
        return np.full(len(codes), -1)
    _, first, group = np.unique(groups[order], return_index=True, return_inverse=True)
    own = codes[order]
    in_order = np.argsort(first)
    drawn = in_order[np.lexsort((rng.permutation(len(first)), own[np.sort(first)]))]
    folds = np.empty(len(first), dtype=np.int64)
    folds[drawn] = np.arange(len(first)) % round(1 / fraction)
    pairs = np.unique(np.column_stack([own, group]), axis=0)
    alone = np.bincount(pairs[:, 0])[pairs[:, 0]] == 1
    folds[pairs[alone, 1]] = -1
    of_bags = np.empty(len(codes), dtype=np.int64)
    of_bags[order] = folds[group]
    return of_bags


def order_of_bags(bags: Bags, codes: Ints) -> Ints:
    """Sort bags by their contents, so that held-out bags do not depend on the user's order.

    The sort keys are class, size, and the extremes of the features: the order of the instances and
    the units of the features are irrelevant. Bags with equal keys keep their order.
    """
    n_columns = min(bags.n_features, max(1, KEYS // (2 * len(bags))))
    lowest, highest = extremes_of_bags(bags, n_columns)
    return np.lexsort((*lowest.T[::-1], *highest.T[::-1], bags.sizes, codes))


def moments(bags: Bags) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each feature, computed in blocks of instances.

    The deviation of a constant feature is 1.
    """
    scaler = StandardScaler()
    for _, block in row_blocks(bags):
        scaler.partial_fit(to_numpy(dense(block)))
    return scaler.mean_, scaler.scale_


def _shares(weights: Floats, folds: Ints, n_models: int) -> tuple[Floats, Floats]:
    """Weights (n_models, n_bags) of the bags in the training loss and in the held-out loss.

    The former are 1 on average. The latter sum to 1 and give the mean loss of held-out bags.
    """
    n_folds = max(1, folds.max(initial=-1) + 1)
    outside = folds == (np.arange(n_models) % n_folds)[:, None]
    learned = np.where(outside, 0.0, weights)
    learned *= len(weights) / learned.sum(axis=1, keepdims=True)
    held = np.where(outside, weights, 0.0)
    return learned, held / max(held.sum(), np.finfo(np.float64).tiny)


def _optimizer(model: Any, module: Any) -> Any:
    """The optimiser of the model for all weights; intercepts do not decay."""
    named = [(name, w) for name, w in module.named_parameters() if w.requires_grad]
    if not named:
        raise InputError(f"{type(module).__name__} has no parameters to train.")
    coefs = [w for name, w in named if "intercept" not in name]
    others = [w for name, w in named if "intercept" in name]
    groups = [
        {"params": coefs, "weight_decay": model.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return model._optimizer(groups, fused=named[0][1].is_cuda)


def _blocks(
    sizes: Ints, batches: Batches, row_values: int | None
) -> Callable[[Ints], Iterator[Ints]]:
    """Return a function that cuts a batch into blocks of whole bags that fit into memory."""
    if row_values is None:
        return lambda batch: iter(np.split(batch, len(batch)))
    row, free = row_values * batches.dtype.itemsize, batches.free
    require_memory(
        float(row) * sizes.max(),
        purpose=f"training on a bag of {sizes.max():,} instances",
        remedy="split the bag, or train fewer or smaller networks",
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


@contextmanager
def _threads(n_operations: float) -> Iterator[None]:
    """Run torch on one thread if that is faster, for batches of few operations."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1 if n_operations < SMALL else n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)
