"""M3MIML: a maximum-margin model per label; a bag has the score of its best instance."""

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np

from bagwise._validation import check_bags, check_label_sets
from bagwise.annotation._annotator import AnnotatorMixin
from bagwise.base import fit_method, with_known_labels
from bagwise.base._kernel_machine import KernelMachine
from bagwise.base._parameters import with_parameters
from bagwise.compiled.threads import one_core_if_small
from bagwise.solvers.annotation.m3miml import m3miml


@with_parameters
class M3MIML(AnnotatorMixin, KernelMachine):
    r"""A maximum-margin model per label; a bag has the score of its best instance (Zhang 2008).

    .. math:: \min_{W, b} \tfrac12 \sum_l |w_l|^2 + C \sum_i \sum_l \xi_{il}

    such that bags with label l have a mean score of at least :math:`1 - \xi_{il}`, and all
    instances of other bags at most :math:`-1 + \xi_{il}`. The mean replaces the largest score, so
    that the problem is convex. Standardise the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error, per bag and label.
    kernel : str or callable, default="linear"
        The kernel between instances, by scikit-learn's names.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width.
    {degree}
    {coef0}
    tol : float, default=1e-6
        Tolerance of the margins.
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    coef_ : ndarray of shape (n_classes, n_features)
        The weights of the features (linear kernel).
    support_ : ndarray of shape (n_support,)
        Instances with non-zero weight, among the bags with known label sets (other kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those instances.
    dual_coef_ : ndarray of shape (n_classes, n_support)
        Their weights.
    {gamma_}
    intercept_ : ndarray of shape (n_classes,)
        The intercepts; 1 for a label that all training bags have, -inf for one that none has.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each proximal step, summed over the labels.
    n_iter_ : int
        Number of proximal steps; the largest number over all labels.
    {n_features_in_}

    Notes
    -----
    Cost: that of :class:`bagwise.classification.BagMarginSVM` for one round, per label.

    References
    ----------
    Zhang, Zhou. M3MIML: a maximum margin method for multi-instance multi-label learning. ICDM
    2008.

    Examples
    --------
    >>> from bagwise.annotation import M3MIML
    >>> bags = [[[0.0], [3.1]], [[0.2], [0.1]], [[2.9], [3.0]], [[3.2]]]
    >>> label_sets = [{"wren", "robin"}, {"wren"}, {"robin"}, {"robin"}]
    >>> model = M3MIML().fit(bags, label_sets)
    >>> model.annotate([[[0.0], [2.9]]], [{"robin", "wren"}])
    array(['wren', 'robin'], dtype='<U5')
    """

    instance_pooling = "max"
    _may_be_infinite = ("intercept_",)  # -inf: a class that no training bag has
    keeps = "one concept"

    C: float = 1.0
    _: KW_ONLY
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    tol: float = 1e-6
    verbose: int = 0

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Fit one model per label.

        Parameters
        ----------
        {X}
        y : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag; bags of unknown label set are left out.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        bags, labels = with_known_labels(bags, check_label_sets(y, bags))
        carried = labels.indicator == 1
        rows = bags.instances.astype(np.float64, copy=False)
        space = self._space(rows)
        coef = np.zeros((len(labels.classes), bags.n_instances))
        # A label of all bags needs no weights: an intercept of 1 meets every margin. A label of
        # no bag is never predicted.
        intercept = np.where(carried.all(axis=0), 1.0, -np.inf)
        learned = np.flatnonzero(carried.any(axis=0) & ~carried.all(axis=0))
        with one_core_if_small(rows):
            results = [
                m3miml(space, bags.offsets, carried[:, label], C=self.C, tol=self.tol)
                for label in self._track(learned, "label")
            ]
        for label, result in zip(learned, results, strict=True):
            coef[label], intercept[label] = result.solution
        self._keep_progress(results, "scale the instances, or lower C")
        self._keep(space, coef, intercept)
        self.classes_, self.label_kind_ = labels.classes, labels.kind
        return self
