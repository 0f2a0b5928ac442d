"""MultiInstanceKMeans: k-means with one cluster per label, under a given metric."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bagwise._common.types import Floats
from bagwise.bags import Bags
from bagwise.base._parameters import with_parameters
from bagwise.compute import place
from bagwise.compute.arrays import dense
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.metric_learning._base import ONE_OR_ANY, LabelAssigner
from bagwise.solvers.metric.multi_instance_kmeans import AssignedRows, best_of_starts, cluster_means
from bagwise.solvers.result import SolverResult


@with_parameters
class MultiInstanceKMeans(LabelAssigner):
    r"""Assign instances to the labels of their bags so that instances of a label are close.

    .. math:: \min_{H, Z} \sum_{jc} H_{jc} \, d_M(x_j, z_c)^2

    over assignments H of instances to the candidate labels of their bag, for a given metric M (Law
    2017, Eq. 3). :class:`MIMLCA` solves the same problem and also learns the metric. With known
    labels this is the nearest-centroid classifier.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features), default=None
        The map L' of the metric, such as ``components_`` of a metric learner; None for the
        Euclidean one.
    instances_per_label : 1 or None, default=1
        Number of instances of a bag that may have the same label: at most one, or any number
        (None).
    n_init : int, default=1
        Number of starts: the first from the mean of the bags of each label, all others at random.
        The best objective is kept.
    max_iter : int, default=100
        Maximum number of iterations per initialisation.
    random_state : int, RandomState or None, default=None
        For random starts.
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    components_ : ndarray of shape (n_components, n_features)
        The map of the metric.
    assignments_ : ndarray of shape (n_instances,)
        The position in ``classes_`` of the label of each training instance; -1 for none.
    centroids_ : ndarray of shape (n_classes, n_features)
        Mean of the instances of each label; zeros for a label without instances.
    category_sizes_ : ndarray of shape (n_classes,)
        Number of training instances of each label.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each assignment, for the best start.
    n_iter_ : int
        Number of iterations of the best start.
    {n_features_in_}

    References
    ----------
    Law, Yu, Urtasun, Zemel, Xing. Efficient multiple instance metric learning using weakly
    supervised data. CVPR 2017.

    Examples
    --------
    >>> from bagwise.metric_learning import MultiInstanceKMeans
    >>> photos = [[[0.0], [5.0]], [[5.1]], [[0.2], [5.2]], [[0.1]]]
    >>> names = [{"Ann", "Bob"}, {"Bob"}, {"Ann", "Bob"}, {"Ann"}]
    >>> model = MultiInstanceKMeans().fit(photos, names)
    >>> model.assignments_
    array([0, 1, 1, 0, 1, 0])
    """

    _parameter_constraints = {
        "components": [None, "array-like"],
        "instances_per_label": ONE_OR_ANY,
    }

    components: Any = None
    _: KW_ONLY
    instances_per_label: int | None = 1
    n_init: int = 1
    max_iter: int = 100
    random_state: Any = None
    verbose: int = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> SolverResult:
        components = self._checked_components(bags.n_features, bags.dtype)
        points = bags.with_instances(dense(bags.instances @ components.T))
        sets = self._candidates(bags, labels).as_sets()
        n_labels, one_each = len(labels.classes), self.instances_per_label == 1
        with place(points, AssignedRows, sets, one_each=one_each) as parts:
            result = best_of_starts(parts, n_labels, **self._search(rng))
        (assigned,) = result.solution
        self.assignments_, self.components_ = assigned, components
        self.centroids_ = cluster_means(bags.instances, assigned, n_labels)
        self.category_sizes_ = np.bincount(assigned[assigned >= 0], minlength=n_labels)
        return result

    def _checked_components(self, n_features: int, dtype: Any) -> Any:
        if self.components is None:
            return np.eye(n_features, dtype=dtype)
        components = np.asarray(self.components, dtype=dtype)
        if components.ndim != 2 or components.shape[1] != n_features:
            raise InputError(
                f"components has shape {components.shape}: expected (any, {n_features})."
            )
        return components
