"""M3MIML: a maximum-margin model per label; a bag has the score of its best instance."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.exceptions import ConvergenceWarning

from bagwise._common.types import Floats
from bagwise._common.warnings import warn_user
from bagwise.annotation._annotator import AnnotatorMixin
from bagwise.bags import Bags
from bagwise.base._kernel_machine import KernelMachine
from bagwise.base._parameters import with_parameters
from bagwise.labels import Labels
from bagwise.solvers.annotation.m3miml import m3miml
from bagwise.solvers.result import SolverResult


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

    For a label of few bags w = 0 may be optimal. The bags then get nearly equal scores for this
    label; instances are ranked by the difference of the class means. If this is so for all labels,
    the fit warns.

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
    _advice = "scale the instances, or lower C"

    C: float = 1.0
    _: KW_ONLY
    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    tol: float = 1e-6
    verbose: int = 0

    def _solve(
        self, bags: Bags, labels: Labels, weight: Floats, rng: RandomState
    ) -> list[SolverResult]:
        carried = labels.indicator == 1
        space = self._space(bags.instances.astype(np.float64, copy=False))
        coef = np.zeros((len(labels.classes), bags.n_instances))
        # A label of all bags needs no weights: an intercept of 1 meets every margin. A label of
        # no bag is never predicted.
        intercept = np.where(carried.all(axis=0), 1.0, -np.inf)
        varied = np.flatnonzero(carried.any(axis=0) & ~carried.all(axis=0))
        results = [
            m3miml(space, bags.offsets, carried[:, label], C=self.C, tol=self.tol)
            for label in self._track(varied, "label")
        ]
        for label, result in zip(varied, results, strict=True):
            coef[label], intercept[label] = result.solution[:2]
        if results and not any(result.solution[2] for result in results):
            warn_user(
                "M3MIML learned nothing: no weights cost less than none for any label, and all "
                "bags get nearly the same scores. Raise C, or use ORedLogisticRegression.",
                ConvergenceWarning,
            )
        self._keep(space, coef, intercept)
        return results
