"""MINet: mi-Net and MI-Net, neural networks whose instance scores or embeddings are pooled."""

from dataclasses import KW_ONLY
from itertools import pairwise
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array
from bagwise._validation import check_bag_labels, check_bags
from bagwise.bags import Bags
from bagwise.base import (
    BagClassifierMixin,
    BagEstimator,
    class_weights,
    fit_method,
    softmax_probabilities,
)
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, POSITIVE, with_parameters
from bagwise.base._scoring import pool
from bagwise.classification._mi_net_training import Architecture, head_inputs, train
from bagwise.compiled.threads import block_bounds
from bagwise.exceptions import InputError

# Instances whose hidden layers are held in memory at once when predicting.
BLOCK = 4096


@with_parameters
class MINet(BagClassifierMixin, BagEstimator):
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
    deep_supervision : bool, default=False
        Give each hidden layer a head of its own and average their losses and their scores.
    optimizer : {"adam", "sgd"}, default="adam"
        The optimiser; "sgd" with momentum is the paper's choice, with a step of about 5e-4.
    learning_rate : float, default=0.001
        Size of a step.
    momentum : float, default=0.9
        Momentum of "sgd".
    weight_decay : float, default=0.02
        The weight :math:`\lambda` of the penalty on the coefficients (not on the intercepts).
    max_epochs : int, default=300
        Maximum number of passes over the bags (epochs).
    batch_size : int, default=32
        Bags per step. Up to this number of bags every step sees all of them, and their order
        does not matter.
    tol : float or None, default=0.02
        Training ends when the loss, the first term above, fell by less than this in 20 epochs.
        None to train for `max_epochs` epochs.
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
        Weights of the hidden layers, in order, then of the head (of each head, in the order of
        the layers, under deep supervision).
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

    Under deep supervision at the instance level the heads' scores of an instance are averaged and
    then pooled, so that the bag score is the pooled instance score there too.

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

    _probabilities = staticmethod(softmax_probabilities)

    _parameter_constraints = {
        "hidden_layer_sizes": [list, tuple, np.ndarray],
        "level": [StrOptions({"instance", "embedding"})],
        "pooling": [StrOptions({"max", "mean", "lse"})],
        "deep_supervision": ["boolean"],
        "optimizer": [StrOptions({"adam", "sgd"})],
        "learning_rate": [POSITIVE],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [NOT_NEGATIVE],
        "max_epochs": [COUNT],
        "batch_size": [COUNT],
        "tol": [NOT_NEGATIVE, None],
        "device": [str, None],
    }

    hidden_layer_sizes: Any = (256, 128, 64)
    _: KW_ONLY
    level: str = "instance"
    pooling: str = "max"
    deep_supervision: bool = False
    optimizer: str = "adam"
    learning_rate: float = 0.001
    momentum: float = 0.9
    weight_decay: float = 0.02
    max_epochs: int = 300
    batch_size: int = 32
    tol: float | None = 0.02
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

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Train the network, with torch.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,)
            The class of each bag.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = self._with_positive(check_bag_labels(y, bags, min_classes=2))
        classes, codes = labels.classes, labels.oriented_codes
        weights = class_weights(self.class_weight, labels)
        rng = check_random_state(self.random_state)
        result = train(self, self._architecture(), bags, codes, weights / weights.mean(), rng)
        self._keep_progress(
            result, "raise max_epochs or tol, or set tol=None to train for a fixed number of epochs"
        )
        n_layers = len(result.solution) // 2
        self.coefs_ = list(result.solution[:n_layers])
        self.intercepts_ = list(result.solution[n_layers:])
        self.classes_, self.pos_label_ = classes, labels.pos_label
        return self

    def _architecture(self) -> Architecture:
        sizes = tuple(self.hidden_layer_sizes)
        if not all(isinstance(size, int | np.integer) and size >= 1 for size in sizes):
            raise InputError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r}: expected a sequence of positive "
                "whole numbers, such as (256, 128, 64)."
            )
        return Architecture(sizes, self.level, self.pooling, self.deep_supervision)

    def _score(self, bags: Bags) -> Array:
        """Logits of the instances, or of the bags if embeddings are pooled."""
        bounds = block_bounds(bags.offsets, -(-bags.n_instances // BLOCK))
        blocks = [bags[start:stop] for start, stop in pairwise(bounds)]
        return np.concatenate([self._mean_over_heads(block) for block in blocks])

    def _mean_over_heads(self, bags: Bags) -> Array:
        n_heads = self._architecture().n_heads
        layers = head_inputs(bags.instances, self.coefs_, self.intercepts_, n_heads)
        if self.level == "embedding":
            layers = [pool(_dense(layer), bags.offsets, self.pooling) for layer in layers]
        heads = zip(layers, self.coefs_[-n_heads:], self.intercepts_[-n_heads:], strict=True)
        return sum(layer @ W + b for layer, W, b in heads) / n_heads


def _dense(layer: Any) -> Array:
    return layer.toarray() if sparse.issparse(layer) else layer
