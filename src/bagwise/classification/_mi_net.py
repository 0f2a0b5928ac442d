"""MINet: mi-Net and MI-Net, neural networks whose instance scores or embeddings are pooled."""

from dataclasses import KW_ONLY
from itertools import pairwise
from typing import Any

import numpy as np

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._parameters import with_parameters
from bagwise.classification._networks import draw_plain, plain_logits, plain_scores
from bagwise.classification._training import TRAINING, NetworkMixin, arrays_of, parameters_of
from bagwise.compute.tensors import torch
from bagwise.exceptions import InputError
from bagwise.loops.threads import block_bounds

# Instances whose hidden layers are held in memory at once when predicting.
BLOCK = 4096


@with_parameters
class MINet(NetworkMixin, BagEstimator):
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

    _parameter_constraints = TRAINING | {
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
        return parameters_of(draw_plain(widths, rng), bags.dtype), {"row_values": 4 * sum(widths)}

    def _logits(self, module: Any, X: Any, sizes: Any) -> Any:
        return plain_logits(module, X, sizes, self.level, self.pooling)

    def _keep(self, module: Any, held_out: Array) -> None:
        arrays = arrays_of(module)
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
