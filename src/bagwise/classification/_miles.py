"""MILES: a sparse linear SVM on the similarities of a bag to the training instances."""

import itertools
from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin
from bagwise.base._parameters import with_parameters
from bagwise.embedding._prototypes import distinct_instances, similarity_to
from bagwise.labels import Labels
from bagwise.loops.threads import block_bounds
from bagwise.pairwise import kernel_width
from bagwise.solvers.margin.l1_svm import l1_svm
from bagwise.solvers.result import SolverResult

BLOCK = 2**22  # similarities in memory at a time, unless a single bag has more


@with_parameters
class MILES(OneVsRestMixin, BagEstimator):
    r"""Sparse SVM on similarities to training instances (MILES, Chen, Bi and Wang 2006).

    A bag B is embedded as its similarities :math:`s_k(B) = \max_{x \in B} e^{-\gamma |x - z_k|^2}`
    to all training instances :math:`z_k` (:class:`~bagwise.embedding.InstanceSimilarity`); a 1-norm
    SVM selects a few of them:

    .. math:: \min_{w, b} |w|_1 + \sum_B C_B \bigl(1 - y_B (w \cdot s(B) + b)\bigr)_+

    More than two classes are handled one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error, per bag.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the similarity; "scale" is ``1 / (n_features * variance of the instances)``,
        "auto" ``1 / n_features``. The paper writes :math:`1 / \sigma^2`.
    n_prototypes : int, default=None
        Number of distinct training instances, drawn at random, to embed with; all by default.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes of bags: they multiply C.
    random_state : int, RandomState or None, default=None
        For drawing prototypes.

    Attributes
    ----------
    {classes_}
    prototypes_ : ndarray or CSR of shape (n_chosen, n_features)
        Training instances with non-zero weight.
    coef_ : ndarray of shape (n_machines, n_chosen)
        Their weights; one SVM for two classes, else one per class.
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    gamma_ : float
        The width used.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective of each linear program, with more and more features, summed over the SVMs.
    n_iter_ : int
        Number of linear programs; the largest number over all SVMs.
    {n_features_in_}

    Notes
    -----
    The instance nearest to prototype k contributes :math:`w_k s_k` to the score of its bag (ties
    share it). The score of an instance is its contribution times the size of its bag, plus the
    intercept: the mean over instances is the score of the bag. It depends on the other instances of
    the bag, which may be nearer.

    Cost: one product of the instances with themselves and a few linear programs with one row per
    bag. Memory: a matrix of bags by prototypes.

    References
    ----------
    Chen, Bi, Wang. MILES: multiple-instance learning via embedded instance selection. IEEE
    Transactions on Pattern Analysis and Machine Intelligence 28, 2006.

    Examples
    --------
    >>> from bagwise.classification import MILES
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = MILES(C=10).fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    instance_pooling = "mean"
    keeps = "several concepts"
    _keys_by_value = True  # instances that are nearest to no prototype have equal scores
    _in_canonical_order = True
    _advice = "lower C"

    C: float = 1.0
    _: KW_ONLY
    gamma: Any = "scale"
    n_prototypes: int | None = None
    class_weight: Any = None
    random_state: Any = None

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> list[SolverResult]:
        self.gamma_ = kernel_width(self.gamma, bags)
        prototypes = distinct_instances(bags, self.n_prototypes, rng)
        table = similarity_to(prototypes, bags, self.gamma_)
        costs = self.C * weight
        results = self._one_vs_rest(labels, lambda signs: l1_svm(table, signs > 0, costs))
        coef = np.array([result.solution[0] for result in results])
        chosen = np.any(coef != 0, axis=0)
        self.prototypes_, self.coef_ = prototypes[chosen], coef[:, chosen]
        self.intercept_ = np.array([float(result.solution[1]) for result in results])
        return results

    def _score(self, bags: Bags) -> Array:
        """Contributions of the instances to the score of their bag, which is their mean."""
        shares = np.zeros((bags.n_instances, len(self.coef_)))
        n_chosen = self.coef_.shape[1]
        if n_chosen:
            n_blocks = -(-bags.n_instances * n_chosen // BLOCK)
            bounds = block_bounds(bags.offsets, n_blocks)
            for start, stop in itertools.pairwise(bounds):
                rows = slice(bags.offsets[start], bags.offsets[stop])
                shares[rows] = self._brought(bags[start:stop]) @ self.coef_.T
        return shares * bags.sizes[bags.bag_index, None] + self.intercept_

    def _brought(self, bags: Bags) -> Array:
        """Similarity to each prototype of the nearest instance of each bag; 0 for the others."""
        alone = Bags(bags.instances, np.arange(bags.n_instances + 1))
        similar = similarity_to(self.prototypes_, alone, self.gamma_)  # (n_instances, n_chosen)
        nearest = similar == loops.segments.maximum(similar, bags.offsets)[bags.bag_index]
        equals = loops.segments.sum(nearest.astype(np.float64), bags.offsets)
        return similar * nearest / equals[bags.bag_index]
