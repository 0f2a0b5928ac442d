"""AttentionMIL and MINet: networks that pool instances, as functions of weights by name.

The layers of instances have one implementation for NumPy, which predicts, and torch, which trains;
the pooling of whole bags is torch's. Names of weights that contain "intercept" do not decay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from bagwise import loops
from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._parameters import COUNT, with_parameters
from bagwise.base._scoring import guarded, pool
from bagwise.base._survival import SurvivalMixin, also_for_times
from bagwise.classification import _training
from bagwise.compute.arrays import dense, like, relu, tanh, to_numpy
from bagwise.compute.blocks import row_blocks
from bagwise.compute.tensors import torch
from bagwise.embedding._columns import USED_COLUMNS, fitted_columns, with_column_features
from bagwise.exceptions import InputError
from bagwise.loops.threads import block_bounds
from bagwise.solvers.grades import grade_probabilities, margins, non_increasing
from bagwise.validation import check_bags, check_grades, check_times

GATED = (
    "hidden_coef",  # (M, D, H), of M networks with D inputs and H hidden units
    "hidden_intercept",  # (M, H)
    "gate_coef",  # (M, H, 2 A), of A gates: inside tanh, then inside the logistic function
    "gate_intercept",  # (M, 2 A)
    "attention_coef",  # (M, A, 1)
    "head_coef",  # (M, H, C), of C logits
    "head_intercept",  # (M, C)
)
LIMIT = 5.0  # bound on standardised values
BLOCK = 4096  # instances whose layers are in memory at once when predicting


Tensor = Any
Weights = Mapping[str, Any]


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
    hidden = relu(hidden + w["hidden_intercept"].reshape(M * H))
    hidden = hidden.reshape(-1, M, H).swapaxes(0, 1)
    gates = hidden @ w["gate_coef"] + w["gate_intercept"][:, None]
    n_gates = gates.shape[2] // 2
    # The logistic function as tanh, which NumPy and torch both have.
    is_open = (1 + tanh(gates[:, :, n_gates:] / 2)) / 2
    attention = (tanh(gates[:, :, :n_gates]) * is_open) @ w["attention_coef"]
    return attention[:, :, 0], hidden @ w["head_coef"] + w["head_intercept"][:, None]


def gated_logits(w: Weights, X: Tensor, sizes: Tensor) -> Tensor:
    """Logits (M, n_bags, C) of bags: the heads of their instances, weighted by attention."""
    M = len(w["head_coef"])
    if M > 1 and not X.is_cuda:  # one after the other, so that layers stay in the cache of the CPU
        each = [{name: w[name][m : m + 1] for name in GATED} for m in range(M)]
        return torch.cat([gated_logits(own, X, sizes) for own in each])
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
        X = relu(X @ w[f"coef_{k}"] + w[f"intercept_{k}"])
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


@also_for_times
@with_parameters
class AttentionMIL(_training.LogitClassifierMixin, BagEstimator):
    r"""Gated attention pooling (Ilse 2018) with an additive head (Javed 2022).

    With instances :math:`x_j` of a bag, standardised and limited to 5 standard deviations, a hidden
    layer :math:`h_j = \max(0, W x_j + b)` and the logistic function :math:`\sigma`, the logit of
    the bag for class c is

    .. math::

        s_c = \sum_j a_j (v_c \cdot h_j + d_c), \qquad
        a = \operatorname{softmax}_j \, w \cdot (\tanh(P h_j + p) \odot \sigma(Q h_j + q)).

    The logit is the sum of one term per instance, its attention times its own logit.
    ``score_instances`` returns these terms, ``attention`` the weights :math:`a_j`. The logit of a
    bag of one instance is :math:`v_c \cdot h + d_c`.

    Several networks are trained at once, and their logits are averaged. Network m leaves out the
    bags of fold m, and training ends when the loss of the bags that were left out, over all
    networks and the last epochs, stops falling: when it did not fall by 0.005 in 20 epochs, and
    before it is below that of the class frequencies in 200 steps, because few bags have few steps
    in an epoch.
    Training needs torch (``pip install "bagwise[torch]"``), a fitted model does not.

    Parameters
    ----------
    hidden_size : int, default=64
        Units of the hidden layer; the attention has half as many.
    loss : {"classes", "ordinal", "cox"}, default="classes"
        Cross entropy of classes or label sets; of ordered grades (numbers, or an ordered
        categorical of pandas), with one logit per threshold: is the grade higher? Or Cox's partial
        likelihood of times to an event, given as for `bagwise.survival.SetKernelCox`: there is then
        one logit, the log risk, which ``predict`` returns; ``predict_survival_function`` and
        ``score`` (Harrell's C) are those of a survival model, and there are no probabilities of
        classes.
    n_models : int, default=10
        Number of networks. They differ in their first weights and in the bags they leave out.
    learning_rate : float, default=0.001
        Size of a step of AdamW.
    weight_decay : float, default=1.0
        Weight decay of AdamW, per unit of `learning_rate`; intercepts do not decay.
    max_epochs : int, default=500
        Maximum number of passes over the bags (epochs).
    batch_size : int, default=16
        Bags per step.
    validation_fraction : float or None, default=0.2
        Share of the bags that each network leaves out; None to train on all bags for `max_epochs`
        epochs. The only bag of a class is not left out.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. Not for label sets.
    use_columns : sequence of str, default=None
        Columns of the bags (`Bags.columns`), such as age and site, to use besides the instances.
        They become features of each instance, dense and in memory.
    device : str or None, default=None
        The torch device for training ("cpu", "cuda"); None for the device of the instances. They
        are copied to the device if they take less than half of its free memory; otherwise they are
        read in batches from main memory or a file.
    random_state : int, RandomState or None, default=None
        For the first weights, the held-out bags and the batches. No global random state of torch
        is touched.
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    unique_times_, cumulative_hazard_ : ndarray of shape (n_times,)
        The times of the training bags, and Breslow's estimate of the hazard up to them; for "cox",
        instead of the classes.
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and scale by which instances are standardised.
    columns_ : transformer or None
        What becomes of `use_columns`.
    hidden_coef_ : ndarray of shape (n_models, n_features, hidden_size)
        Weights W of the hidden layer.
    hidden_intercept_ : ndarray of shape (n_models, hidden_size)
        Its intercepts b.
    gate_coef_ : ndarray of shape (n_models, hidden_size, hidden_size)
        Weights P and Q of the gates.
    gate_intercept_ : ndarray of shape (n_models, hidden_size)
        Their intercepts p and q.
    attention_coef_ : ndarray of shape (n_models, hidden_size / 2, 1)
        Weights w of the gated units.
    head_coef_ : ndarray of shape (n_models, hidden_size, n_outputs)
        Weights v of the head; one output for two classes, else one per class.
    head_intercept_ : ndarray of shape (n_models, n_outputs)
        Its intercepts d.
    objective_curve_ : ndarray of shape (n_iterations,)
        Loss of the training bags in each epoch, the mean over the networks.
    held_out_curve_ : ndarray of shape (n_iterations,)
        Loss of the held-out bags in each epoch, averaged exponentially over about five
        epochs; empty if none are held out.
    held_out_loss_, chance_loss_ : float
        The lowest value of `held_out_curve_`, and the cross entropy of the class frequencies. A fit
        that ends without being better warns that it learned nothing.
    n_iter_ : int
        Number of epochs. The weights are from the epoch with the lowest `held_out_curve_`.
    {n_features_in_}

    Notes
    -----
    Attention shows which instances the network uses, but not for which class: an instance with a
    large weight may support either class. The terms show both.

    Copies of all instances of a bag do not change its score. With label sets, a bag has one logit
    per label.

    Arithmetic is in the type of the instances; float32 trains about twice as fast. On a GPU,
    ``torch.set_float32_matmul_precision("high")`` computes products of float32 in TF32. On one
    machine a seed determines the model, whatever the order of the bags.

    Cost of an epoch: about six times the product of the instances with the weights of the hidden
    layers, ``n_models * hidden_size`` columns. An epoch reads each bag once.

    References
    ----------
    Ilse, Tomczak, Welling. Attention-based deep multiple instance learning. ICML 2018.
    Javed, Juyal, Padigela, Taylor-Weiner, Yu, Prakash. Additive MIL: intrinsically interpretable
    multiple instance learning for pathology. NeurIPS 2022.

    Examples
    --------
    >>> from bagwise.classification import AttentionMIL
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = AttentionMIL(random_state=0)
    >>> model.fit(bags, ["no", "no", "yes", "yes"])  # doctest: +SKIP
    AttentionMIL(random_state=0)
    >>> model.predict([[[0.0], [2.8]]])  # doctest: +SKIP
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])  # doctest: +SKIP
    array([1])
    """

    _runs_elsewhere = ("device",)

    _parameter_constraints = _training.TRAINING | {
        "hidden_size": [COUNT],
        "loss": [StrOptions({"classes", "cox", "ordinal"})],
        "n_models": [COUNT],
        "use_columns": USED_COLUMNS,
    }

    hidden_size: int = 64
    _: KW_ONLY
    loss: str = "classes"
    n_models: int = 10
    learning_rate: float = 0.001
    weight_decay: float = 1.0
    max_epochs: int = 500
    batch_size: int = 16
    validation_fraction: float | None = 0.2
    class_weight: Any = None
    use_columns: Any = None
    device: str | None = None
    random_state: Any = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.loss == "cox":
            tags.estimator_type = tags.classifier_tags = None
        return tags

    def _check_labels(self, y: Any, bags: Bags) -> Any:
        """Validate y; set what a classifier stores of its classes."""
        if self._learns_grades:
            labels = check_grades(y, bags)
            self.ordered_classes_, self.classes_ = labels.classes, np.sort(labels.classes)
            self.pos_label_ = labels.pos_label
            return labels
        if self.loss != "cox":
            return super()._check_labels(y, bags)
        if self.class_weight is not None:
            raise InputError("class_weight is for classes: leave it out with loss='cox'.")
        return check_times(y, bags)

    @property
    def _learns_grades(self) -> bool:  # type: ignore[override]
        return self.loss == "ordinal"

    @property
    def _has_thresholds(self) -> bool:
        """Whether the logits are of thresholds between more than two grades."""
        return self._learns_grades and len(getattr(self, "classes_", ())) > 2

    @property
    def instance_pooling(self) -> str | None:  # type: ignore[override]
        """How the terms of the instances give the logit; None for the scores of grades."""
        return None if self._has_thresholds else "sum"

    def _fit(self, X: Any, y: Any, groups: Any = None) -> Any:
        super()._fit(X, y, groups)
        if self.loss == "cox":
            bags = check_bags(self, X, reset=False)
            risk = self._bag_scores(bags)[:, 0]
            SurvivalMixin._keep_baseline(self, risk, check_times(y, bags))
        return self

    def _train(self, bags: Bags, y: Any, rng: Any) -> Any:
        self.columns_ = fitted_columns(self.use_columns, bags)
        return super()._train(with_column_features(bags, self.columns_), y, rng)

    def _network(self, bags: Bags, n_outputs: int, rng: Any) -> tuple[Any, dict[str, Any]]:
        """Draw the weights, which include the mean and scale of the instances."""
        shapes = gated_shapes(self.n_models, bags.n_features, self.hidden_size, n_outputs)
        mean, scale = _training.moments(bags)
        module = _training.parameters_of(draw(shapes, rng), bags.dtype)
        for name, array in {"mean": mean, "scale": scale}.items():
            module[name] = torch.nn.Parameter(torch.tensor(array), requires_grad=False)
        row_values = 4 * bags.n_features + 20 * self.n_models * self.hidden_size
        prepare = partial(_standardised, mean=mean, scale=scale)
        return module, {"prepare": prepare, "row_values": row_values}

    _logits = staticmethod(gated_logits)

    def _keep(self, module: Any, held_out: Array) -> None:
        self.held_out_curve_ = held_out
        for name, array in _training.arrays_of(module).items():
            setattr(self, f"{name}_", array)

    def attention(self, X: Any) -> Array:
        """Attention of each instance, the mean over the networks.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n_instances,)
            Aligned with ``bags.instances``; the values of a bag sum to 1.
        """
        return guarded(self._evaluate(X, lambda bags: self._shares(bags)[0].mean(axis=1)), X)

    def _score(self, bags: Bags) -> Array:
        """Terms of the instances, the mean over the networks; they sum to the logits of the bag."""
        return self._by_grade(self._terms(bags))

    def _terms(self, bags: Bags) -> Array:
        attention, heads = self._shares(bags)
        return (attention[:, :, None] * heads).mean(axis=1)

    def _bag_scores(self, bags: Bags) -> Array:
        return self._by_grade(pool(self._terms(bags), bags.offsets, "sum"))

    def _by_grade(self, logits: Array) -> Array:
        """Scores of the classes from the logits of thresholds, as in `OrdinalBagClassifier`."""
        if not self._has_thresholds:
            return logits
        return margins(non_increasing(logits))[:, np.argsort(self.ordered_classes_)]

    def _probabilities(self, scores: Array) -> Array:
        if not self._has_thresholds:
            return super()._probabilities(scores)
        above = non_increasing(expit(scores))
        return grade_probabilities(above)[:, np.argsort(self.ordered_classes_)]

    def _bag_probabilities(self, bags: Bags) -> Array:
        if not self._has_thresholds:
            return super()._bag_probabilities(bags)
        return self._probabilities(pool(self._terms(bags), bags.offsets, "sum"))

    def _has_instance_scores(self) -> bool:
        return True

    def _shares(self, bags: Bags) -> tuple[Array, Array]:
        """Attention (n_instances, n_models) and heads (n_instances, n_models, n_outputs)."""
        logits, heads = self._values(bags)
        return loops.segments.softmax(logits, bags.offsets), heads

    def _values(self, bags: Bags) -> tuple[Array, Array]:
        """Attention logits and heads of the instances, computed in blocks."""
        found, bags = [], with_column_features(bags, self.columns_)
        for _, rows in row_blocks(bags, BLOCK * bags.n_features):
            block = dense(rows)
            weights = {name: like(getattr(self, f"{name}_"), block) for name in GATED}
            values = gated_layers(weights, _standardised(block, self.mean_, self.scale_))
            found.append([to_numpy(array) for array in values])
        logits, heads = zip(*found, strict=True)
        return np.concatenate(logits, axis=1).T, np.concatenate(heads, axis=1).swapaxes(0, 1)

    def _instance_probabilities(self, bags: Bags) -> Array:
        """Probabilities of each instance as a bag alone, with all the attention."""
        return self._probabilities(self._one_column_for_two(self._values(bags)[1].mean(axis=1)))


def _standardised(rows: Any, mean: Array, scale: Array) -> Any:
    """Standardise instances, and clip them to `LIMIT` standard deviations.

    Otherwise a feature that was almost constant in training could dominate the scores of new bags.
    """
    return ((rows - like(mean, rows)) / like(scale, rows)).clip(min=-LIMIT, max=LIMIT)


@with_parameters
class MINet(_training.NetworkMixin, BagEstimator):
    r"""Multi-instance neural networks, mi-Net and MI-Net (Wang 2018).

    Fully connected layers with ReLU map each instance. Then either the scores of the instances are
    pooled (mi-Net, ``level="instance"``), or their embeddings, from which a linear layer computes
    the score of the bag (MI-Net, ``level="embedding"``). With the pooled scores :math:`s_i` of bag
    i, the weights W minimise

    .. math:: \frac1N \sum_i -\log p_{y_i}(s_i) + \frac{\lambda}{2} |W|^2

    where p is the logistic function of one score for two classes, and the softmax of one score
    per class for more. Training needs torch (``pip install "bagwise[torch]"``), a fitted model
    does not. Standardise the instances first.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default=(256, 128, 64)
        Units of each hidden layer; none for a linear model.
    level : {"instance", "embedding"}, default="instance"
        What is pooled: the scores of the instances, or their embeddings. Instance-level methods
        exist for "instance" only.
    pooling : {"max", "mean", "lse"}, default="max"
        The pooling function. "lse" is the logarithm of the mean exponential, ``log(mean(exp(s)))``:
        it is between the mean and the maximum, and bags of one instance keep their score.
    learning_rate : float, default=0.001
        Size of a step.
    weight_decay : float, default=0.02
        The weight :math:`\lambda` of the penalty on the coefficients (not on the intercepts).
    max_epochs : int, default=300
        Maximum number of passes over the bags (epochs). Training ends when the loss, the first term
        above, fell by less than 0.02 in 20 epochs.
    batch_size : int, default=32
        Bags per step. Up to this number of bags every step sees all of them, and their order
        does not matter.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    {pos_label}
    device : str or None, default=None
        The torch device for training ("cpu", "cuda"); None for main memory, where the instances
        are.
    random_state : int, RandomState or None, default=None
        For the first weights and the batches. No global random state of torch is touched.
    {verbose}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    coefs_ : list of ndarray of shape (n_inputs, n_outputs)
        Weights of the hidden layers, in order, then of the head.
    intercepts_ : list of ndarray of shape (n_outputs,)
        Their intercepts.
    objective_curve_ : ndarray of shape (n_iterations,)
        The training loss, the first term above, averaged over the batches of each epoch.
    n_iter_ : int
        Number of epochs.
    {n_features_in_}

    Notes
    -----
    Scores are logits, before the logistic function or the softmax, and logits are what is pooled;
    mi-Net pools probabilities, which is the same for "max" and two classes.

    Arithmetic is in the type of the instances: single precision trains about twice as fast. On a
    CPU a seed determines the model.

    Cost of an epoch: about six times the product of the instances with all weights.

    References
    ----------
    Wang, Yan, Tang, Bai, Liu. Revisiting multiple instance neural networks. Pattern Recognition
    2018.

    Examples
    --------
    >>> from bagwise.classification import MINet
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = MINet(random_state=0)
    >>> model.fit(bags, ["no", "no", "yes", "yes"])  # doctest: +SKIP
    MINet(random_state=0)
    >>> model.predict([[[0.0], [2.8]]])  # doctest: +SKIP
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])  # doctest: +SKIP
    array([1])
    """

    _training_tol: float | None = 0.02  # fall of the loss that counts as progress

    _parameter_constraints = _training.TRAINING | {
        "hidden_layer_sizes": [list, tuple, np.ndarray],
        "level": [StrOptions({"instance", "embedding"})],
        "pooling": [StrOptions({"max", "mean", "lse"})],
    }

    hidden_layer_sizes: Any = (256, 128, 64)
    _: KW_ONLY
    level: str = "instance"
    pooling: str = "max"
    learning_rate: float = 0.001
    weight_decay: float = 0.02
    max_epochs: int = 300
    batch_size: int = 32
    class_weight: Any = None
    pos_label: Any = None
    device: str | None = None
    random_state: Any = None
    verbose: int = 0

    @property
    def instance_pooling(self) -> str | None:  # type: ignore[override]
        """How instance scores are pooled into the bag score; None if embeddings are pooled."""
        return self.pooling if self.level == "instance" else None

    @property
    def keeps(self) -> str:  # type: ignore[override]
        """Multi-instance assumption: "standard" if the best instance decides."""
        return "standard" if self.instance_pooling == "max" else "collective"

    def _optimizer(self, weights: list[dict[str, Any]], **options: Any) -> Any:
        """The weight decay is the gradient of the penalty."""
        return torch.optim.Adam(weights, lr=self.learning_rate, **options)

    def _order(self, bags: Bags, codes: Ints) -> Ints:
        return np.arange(len(bags))

    def _network(self, bags: Bags, n_outputs: int, rng: Any) -> tuple[Any, dict[str, Any]]:
        widths = [bags.n_features, *self._hidden_sizes(), n_outputs]
        return _training.parameters_of(draw_plain(widths, rng), bags.dtype), {
            "row_values": 4 * sum(widths)
        }

    def _logits(self, module: Any, X: Any, sizes: Any) -> Any:
        return plain_logits(module, X, sizes, self.level, self.pooling)

    def _keep(self, module: Any, held_out: Array) -> None:
        arrays = _training.arrays_of(module)
        self.coefs_ = [arrays[f"coef_{k}"] for k in range(len(arrays) // 2)]
        self.intercepts_ = [arrays[f"intercept_{k}"] for k in range(len(arrays) // 2)]

    def _hidden_sizes(self) -> tuple[int, ...]:
        sizes = tuple(self.hidden_layer_sizes)
        if not all(isinstance(size, int | np.integer) and size >= 1 for size in sizes):
            raise InputError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r}: expected a sequence of positive "
                "whole numbers, such as (256, 128, 64)."
            )
        return sizes

    def _score(self, bags: Bags) -> Array:
        """Logits of the instances, or of the bags if embeddings are pooled."""
        weights = {f"coef_{k}": W for k, W in enumerate(self.coefs_)}
        weights |= {f"intercept_{k}": b for k, b in enumerate(self.intercepts_)}
        embedding = self.pooling if self.level == "embedding" else None
        bounds = block_bounds(bags.offsets, -(-bags.n_instances // BLOCK))
        blocks = [bags[start:stop] for start, stop in pairwise(bounds)]
        found = [plain_scores(weights, each.instances, each.offsets, embedding) for each in blocks]
        return np.concatenate(found)
