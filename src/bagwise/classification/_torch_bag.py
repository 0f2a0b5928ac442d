"""TorchBagClassifier: any torch module that maps a bag to logits."""

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from bagwise._common.sklearn import StrOptions
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._parameters import with_parameters
from bagwise.base._scoring import guarded
from bagwise.classification._training import TRAINING, LogitClassifierMixin
from bagwise.compute.arrays import to_numpy
from bagwise.compute.batches import Batches, device_named
from bagwise.compute.tensors import torch
from bagwise.exceptions import InputError


def _gives_attention(self: Any) -> bool:
    return self.instance_output == "attention"


@with_parameters
class TorchBagClassifier(LogitClassifierMixin, BagEstimator):
    """Train any torch module that maps the instances of a bag to logits, as torchmil has them.

    The module receives a bag as a tensor of shape (n_instances, n_features) and returns its logits:
    one for two classes, else one per class or label. It is trained by AdamW on the cross entropy,
    bag by bag, with early stopping on held-out bags; the weights of the best epoch are kept. The
    instances are not standardised: use ``make_bag_pipeline``.

    Parameters
    ----------
    module : torch.nn.Module or callable
        A module is copied, and the copy is trained from its current weights. A callable is called
        with the number of features and of logits, and returns a new module: its weights are then
        drawn by `random_state`.
    batch_dimension : bool, default=False
        Whether the module takes and returns a first axis of length 1, for a batch of one bag, as
        the models of torchmil do.
    instance_output : {"scores", "attention"} or None, default=None
        What the second output of the module is, with a row per instance: logits of the instances,
        for ``score_instances`` and ``key_instances``, or attention, for ``attention``. A module
        whose ``forward`` has the argument ``return_att``, as in torchmil, is then called with
        ``return_att=True``. None if there is no second output, or it is not used.
    learning_rate : float, default=0.001
        Size of a step of AdamW.
    weight_decay : float, default=0.01
        Weight decay of AdamW, per unit of `learning_rate`.
    max_epochs : int, default=100
        Maximum number of passes over the bags (epochs).
    batch_size : int, default=8
        Bags per step; their gradients are summed.
    validation_fraction : float or None, default=0.2
        Share of the bags that are held out: training ends after 20 epochs in which their cross
        entropy did not fall by more than 0.005. None to train on all bags for `max_epochs` epochs.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. Not for label sets.
    device : str or None, default=None
        The torch device for training and prediction ("cpu", "cuda"); None for the device of the
        instances.
    random_state : int, RandomState or None, default=None
        For the held-out bags, the batches, and what the module itself draws (dropout). The global
        random state of torch is restored afterwards.
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    module_ : torch.nn.Module
        The trained copy, on the CPU.
    objective_curve_ : ndarray of shape (n_iterations,)
        Cross entropy of the training bags in each epoch.
    held_out_curve_ : ndarray of shape (n_iterations,)
        Cross entropy of the held-out bags after each epoch, averaged exponentially over about five
        epochs; empty if none are held out.
    held_out_loss_, chance_loss_ : float
        The lowest value of `held_out_curve_`, and the cross entropy of the class frequencies. A fit
        that ends without being better warns that it learned nothing.
    n_iter_ : int
        Number of epochs.
    {n_features_in_}

    Notes
    -----
    `save_model` rejects this model, because a module is code. Save the weights by
    ``torch.save(model.module_.state_dict(), path)``, or the whole model by pickle.

    `AttentionMIL` trains gated attention several times faster: it works on many bags at once.

    Examples
    --------
    >>> from bagwise.classification import TorchBagClassifier
    >>> import torch  # doctest: +SKIP
    >>> class MeanLogit(torch.nn.Linear):  # doctest: +SKIP
    ...     def forward(self, bag):
    ...         return super().forward(bag).mean(dim=0)
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[2.1], [3.0]], [[2.5]]]
    >>> model = TorchBagClassifier(MeanLogit, learning_rate=0.1, random_state=0)  # doctest: +SKIP
    >>> model.fit(bags, ["no", "no", "yes", "yes"]).predict([[[2.8]]])  # doctest: +SKIP
    array(['yes'], dtype='<U3')
    """

    _accepts_sparse = False
    _runs_elsewhere = ("device",)
    _cannot_be_saved = (
        "a torch module is code: use pickle, or torch.save(model.module_.state_dict(), path)"
    )

    _parameter_constraints = TRAINING | {
        "module": [callable],
        "batch_dimension": ["boolean"],
        "instance_output": [StrOptions({"scores", "attention"}), None],
    }

    module: Any
    _: KW_ONLY
    batch_dimension: bool = False
    instance_output: str | None = None
    learning_rate: float = 0.001
    weight_decay: float = 0.01
    max_epochs: int = 100
    batch_size: int = 8
    validation_fraction: float | None = 0.2
    class_weight: Any = None
    device: str | None = None
    random_state: Any = None
    verbose: int = 0

    def _train(self, bags: Bags, y: Any, rng: Any) -> Any:
        with _seeded(self.device, int(rng.randint(2**31 - 1))):
            return super()._train(bags, y, rng)

    def _keep(self, module: Any, held_out: Array) -> None:
        self.module_, self.held_out_curve_ = module, held_out

    @available_if(_gives_attention)
    def attention(self, X: Any) -> Array:
        """Attention of each instance, as the module returns it.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, any)
            Aligned with ``bags.instances``.
        """
        return guarded(self._evaluate(X, self._score), X)

    def _network(self, bags: Bags, n_outputs: int, rng: Any) -> tuple[Any, dict[str, Any]]:
        """Copy the module, or make a new one by calling the function."""
        if isinstance(self.module, torch.nn.Module):
            return copy.deepcopy(self.module), {}
        return self.module(bags.n_features, n_outputs), {}

    def _logits(self, module: Any, X: Any, sizes: Any) -> Any:
        """Logits (1, 1, n_outputs) of one bag."""
        logits, n_classes = self._forward(module, X)[0], len(self.classes_)
        accepted = (1, 2) if n_classes == 2 and not self._has_label_sets else (n_classes,)
        if logits.ndim != 1 or len(logits) not in accepted:
            raise InputError(
                f"the module returned logits of shape {tuple(logits.shape)} for one bag: expected "
                f"{' or '.join(map(str, accepted))} logits (of batches: batch_dimension=True)."
            )
        return logits[None, None]

    def _forward(self, module: Any, rows: Any) -> tuple[Any, Any]:
        """Logits of a bag, and the second output of the module, or None."""
        first = next(module.parameters(), rows)
        rows = rows.to(first.dtype) if first.is_floating_point() else rows
        bag = rows[None] if self.batch_dimension else rows
        takes = inspect.signature(module.forward).parameters
        options = {"return_att": True} if _gives_attention(self) and "return_att" in takes else {}
        out = module(bag, **options)
        logits, instances = out[:2] if isinstance(out, tuple) else (out, None)
        if self.batch_dimension:
            logits, instances = logits[0], None if instances is None else instances[0]
        return logits.reshape(-1) if logits.ndim == 0 else logits, instances

    def _outputs(self, bags: Bags, which: int) -> list[Array]:
        """One output of the module for each bag."""
        batches = Batches(bags, self.device)
        module = self.module_
        if batches.device.type != "cpu":
            module = copy.deepcopy(module).to(batches.device)
        with torch.no_grad():
            found = [
                self._forward(module, batches.read(np.array([i])))[which] for i in range(len(bags))
            ]
        return [None if out is None else to_numpy(out) for out in found]  # type: ignore[misc]

    def _bag_scores(self, bags: Bags) -> Array:
        return np.stack(self._outputs(bags, 0))

    def _score(self, bags: Bags) -> Array:
        """The second output of the module."""
        found = self._outputs(bags, 1)
        for i, out in enumerate(found):
            if out is None or len(out) != bags.sizes[i]:
                what = "nothing" if out is None else f"shape {out.shape}"
                raise InputError(
                    f"instance_output={self.instance_output!r}: the module returned {what} for "
                    f"{bags.name_of(i)}: expected logits and {bags.sizes[i]} rows of values."
                )
        rows = np.concatenate(found)
        return rows if rows.ndim == 2 or _gives_attention(self) else rows[:, None]

    def _has_instance_scores(self) -> bool:
        return self.instance_output == "scores"


@contextmanager
def _seeded(device: str | None, seed: int) -> Iterator[None]:
    """Seed torch, and restore its random state afterwards."""
    place = device_named(device)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
