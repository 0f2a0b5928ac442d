"""AttentionMIL: gated attention pooling with an additive head."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._parameters import COUNT, with_parameters
from bagwise.classification._networks import GATED, draw, gated_layers, gated_logits, gated_shapes
from bagwise.classification._training import (
    TRAINING,
    LogitClassifierMixin,
    arrays_of,
    moments,
    parameters_of,
)
from bagwise.compute.arrays import dense, like, to_numpy
from bagwise.compute.blocks import row_blocks
from bagwise.compute.tensors import torch

LIMIT = 5.0  # bound on standardised values
BLOCK = 4096  # instances whose layers are held in memory at once when predicting


@with_parameters
class AttentionMIL(LogitClassifierMixin, BagEstimator):
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
    bags of fold m, and training ends when the cross entropy of the bags that were left out, over
    all networks and the last epochs, stops falling. Training needs torch
    (``pip install "bagwise[torch]"``), a fitted model does not.

    Parameters
    ----------
    hidden_size : int, default=64
        Units of the hidden layer; the attention has half as many.
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
    patience : int, default=20
        Training ends after this many epochs in which the held-out cross entropy did not fall by
        more than 0.005.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. Not for label sets.
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
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and scale by which instances are standardised.
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
        Cross entropy of the training bags in each epoch, the mean over the networks.
    held_out_curve_ : ndarray of shape (n_iterations,)
        Cross entropy of the held-out bags in each epoch, averaged exponentially over about five
        epochs; empty if none are held out.
    n_iter_ : int
        Number of epochs. The weights are those of the epoch with the lowest `held_out_curve_`.
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

    instance_pooling = "sum"
    _runs_elsewhere = ("device",)

    _parameter_constraints = TRAINING | {"hidden_size": [COUNT], "n_models": [COUNT]}

    hidden_size: int = 64
    _: KW_ONLY
    n_models: int = 10
    learning_rate: float = 0.001
    weight_decay: float = 1.0
    max_epochs: int = 500
    batch_size: int = 16
    validation_fraction: float | None = 0.2
    patience: int = 20
    class_weight: Any = None
    device: str | None = None
    random_state: Any = None
    verbose: int = 0

    def _network(self, bags: Bags, n_outputs: int, rng: Any) -> tuple[Any, dict[str, Any]]:
        """Draw the weights, which include the mean and scale of the instances."""
        shapes = gated_shapes(self.n_models, bags.n_features, self.hidden_size, n_outputs)
        mean, scale = moments(bags)
        module = parameters_of(draw(shapes, rng), bags.dtype)
        for name, array in {"mean": mean, "scale": scale}.items():
            module[name] = torch.nn.Parameter(torch.tensor(array), requires_grad=False)
        row_values = 4 * bags.n_features + 20 * self.n_models * self.hidden_size
        prepare = partial(_standardised, mean=mean, scale=scale)
        return module, {"prepare": prepare, "row_values": row_values}

    _logits = staticmethod(gated_logits)

    def _keep(self, module: Any, held_out: Array) -> None:
        self.held_out_curve_ = held_out
        for name, array in arrays_of(module).items():
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
        return self._evaluate(X, lambda bags: self._shares(bags)[0].mean(axis=1))

    def _score(self, bags: Bags) -> Array:
        """Terms of the instances, the mean over the networks; they sum to the logits of the bag."""
        attention, heads = self._shares(bags)
        return (attention[:, :, None] * heads).mean(axis=1)

    def _shares(self, bags: Bags) -> tuple[Array, Array]:
        """Attention (n_instances, n_models) and heads (n_instances, n_models, n_outputs)."""
        logits, heads = self._values(bags)
        return loops.segments.softmax(logits, bags.offsets), heads

    def _values(self, bags: Bags) -> tuple[Array, Array]:
        """Attention logits and heads of the instances, computed in blocks."""
        found = []
        for _, rows in row_blocks(bags, BLOCK * bags.n_features):
            block = dense(rows)
            weights = {name: like(getattr(self, f"{name}_"), block) for name in GATED}
            values = gated_layers(weights, _standardised(block, self.mean_, self.scale_))
            found.append([to_numpy(array) for array in values])
        logits, heads = zip(*found, strict=True)
        return np.concatenate(logits, axis=1).T, np.concatenate(heads, axis=1).swapaxes(0, 1)

    def _instance_probabilities(self, bags: Bags) -> Array:
        """Probabilities of each instance as a bag of its own, which has all the attention."""
        return self._probabilities(self._one_column_for_two(self._values(bags)[1].mean(axis=1)))


def _standardised(rows: Any, mean: Array, scale: Array) -> Any:
    """Standardise instances, and clip them to `LIMIT` standard deviations.

    Otherwise a feature that was almost constant in training could dominate the scores of new bags.
    """
    return ((rows - like(mean, rows)) / like(scale, rows)).clip(min=-LIMIT, max=LIMIT)
