"""MIMLCA, MLCA and MultiInstanceKMeans: instances of the same label are close."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.base._scoring import guarded
from bagwise.compute import Checkpoint, is_here, place
from bagwise.compute.arrays import dense
from bagwise.exceptions import InputError, warn_user
from bagwise.labels import Labels
from bagwise.metric_learning._base import (
    ONE_OR_ANY,
    CentroidPredictor,
    LabelAssigner,
    as_few_rows,
    best_column,
)
from bagwise.pairwise import instance_kernel
from bagwise.solvers.metric.mimlca import kernel_features, mimlca, usual_rank
from bagwise.solvers.metric.multi_instance_kmeans import (
    AssignedRows,
    Candidates,
    best_of_starts,
    cluster_means,
)
from bagwise.solvers.result import SolverResult


class _ClusterMetric(CentroidPredictor):
    """Base class of MIMLCA and MLCA: the space, the map from assignments, both prediction rules.

    A subclass defines the parameters `kernel`, `gamma` and `n_components`.
    """

    _solution = ("components_", "mean_", "centroids_", "category_sizes_", "assignments_")

    def predict_instances(self, X: Any, rule: str = "centroid", alpha: float = 0.5) -> Array:
        r"""Predict the label of each instance, by the nearest centroid or the largest projection.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags; their label sets are not needed.
        rule : {"centroid", "projection"}, default="centroid"
            "centroid": the category c with the smallest :math:`d_M(x, z_c)` (Eq. 15);
            "projection": with the largest :math:`(L'x)_c - \alpha |L'z_c|^2` (Eq. 16).
        alpha : float, default=0.5
            For "projection": how much large categories, whose :math:`|L'z_c|` is small, are
            preferred.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``; never a label without training instances.
        """
        if rule not in ("centroid", "projection"):
            raise InputError(f"rule is {rule!r}: expected 'centroid' or 'projection'.")
        if rule == "centroid":
            return super().predict_instances(X)
        largest = partial(self._largest_projection, alpha=alpha)
        return guarded(self.classes_[self._evaluate(X, largest)], X)

    def _largest_projection(self, bags: Bags, alpha: float) -> Ints:
        centroids = self._project(self.centroids_, as_few_rows(self.components_))
        penalty = self._penalty(centroids, alpha)

        def score(block: Any) -> Array:
            return self._project(block, self.components_) - penalty

        return best_column(score, self._features(bags.instances), len(penalty), np.argmax)

    def _features(self, instances: Any) -> Any:
        if self.kernel == "linear":
            return instances
        values = instance_kernel(
            instances, self.training_instances_, self.kernel, {"gamma": self.gamma}
        )
        return safe_sparse_dot(values, self.kernel_map_)

    def _learn(self, bags: Bags, candidates: Candidates, **search: Any) -> SolverResult:
        """Assign the instances and learn the map."""
        if self.kernel != "linear":
            if not is_here(bags):
                raise InputError("bags elsewhere need kernel='linear': use Nystroem features.")
            self.training_instances_, n_rows = bags.instances, bags.n_instances
            require_memory(
                3 * 8.0 * n_rows**2,
                purpose=f"{type(self).__name__} with the kernel matrix of {n_rows:,} instances and "
                "two like it",
                remedy="fit part of the bags, or use kernel='linear', after "
                "InstanceTransformer(Nystroem()) if need be",
            )
            options = {"gamma": self.gamma}
            gram = instance_kernel(bags.instances, bags.instances, self.kernel, options)
            features, self.kernel_map_ = self._kernel_features(gram, candidates)
            bags = bags.with_instances(features)
        return mimlca(bags, candidates, n_components=self.n_components, **search)

    def _kernel_features(self, gram: Array, candidates: Candidates) -> tuple[Array, Array]:
        """Features whose inner products are the kernel, and the map from kernel values to them."""
        keep, n_rows = self.n_components, len(gram)
        if keep is None and not candidates.forced:
            keep = usual_rank(candidates) + 1  # one more, to see if any are dropped
        features, back = kernel_features(gram, keep)
        if self.n_components is None and keep is not None and features.shape[1] == keep < n_rows:
            features, back = features[:, 1:], back[:, 1:]
            warn_user(
                f"{n_rows} instances have more than {keep - 1} kernel features, with which nearly "
                "all assignments cost the same: the leading ones are used. Set n_components."
            )
        return features, back


@with_parameters
class MIMLCA(_ClusterMetric, LabelAssigner):
    r"""Learn a metric and the label of each instance from the label sets of bags (Law 2017).

    Instances are assigned to the candidate labels of their bag so that instances of a label are
    close, by k-means on :math:`U`, an orthonormal basis of the columns of :math:`X`,

    .. math:: \min_{H, Z} \sum_{jc} H_{jc} |u_j - z_c|^2,

    with one small assignment problem per bag. On the assigned instances
    :math:`L = X^+ J`, :math:`J` being :math:`H` with columns of length one, and the learned
    distance is :math:`d_M(a, b) = |L'(a - b)|`.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        "linear", or a kernel between instances by scikit-learn's names, or a function of two
        vectors. "chi2" is the chi2-RBF kernel of the paper (on instances of sum 1).
    instances_per_label : 1 or None, default=1
        Number of instances of a bag that may have the same label: at most one, as in the paper, the
        others stay unassigned; or any number (None), so that each instance has one of the labels.
    n_components : int, default=None
        Keep only the leading directions of the instances. By default all, unless there are so
        many that instances are nearly orthogonal and all assignments cost the same; then two per
        label, with a warning. Kernels usually need it.
    n_init : int, default=1
        Number of starts: the first from the mean of the bags of each label, all others at random.
        The best objective is kept.
    max_iter : int, default=100
        Maximum number of iterations per initialisation.
    gamma : float, default=None
        Width of the kernel; ``1 / n_features``, and 1 for "chi2", by default.
    random_state : int, RandomState or None, default=None
        For random starts.
    {checkpoint}
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    components_ : ndarray of shape (n_classes, n_features)
        The map L'; a row of zeros for a label without instances. For kernels its columns are
        kernel features: see `kernel_map_`.
    assignments_ : ndarray of shape (n_instances,)
        The position in ``classes_`` of the label of each training instance; -1 for none.
    centroids_ : ndarray of shape (n_classes, n_features)
        Mean of the instances of each label; zeros for a label without instances.
    category_sizes_ : ndarray of shape (n_classes,)
        Number of training instances of each label.
    mean_ : ndarray of shape (n_features,)
        The centre of the instances.
    kernel_map_ : ndarray of shape (n_instances, n_kernel_features)
        The map from kernel values to kernel features (kernels only).
    training_instances_ : ndarray or CSR of shape (n_instances, n_features)
        The training instances, with which the kernel compares (kernels only).
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each assignment, for the best start.
    n_iter_ : int
        Number of iterations of the best start.
    {n_features_in_}

    Notes
    -----
    A bag without labels, or with unknown ones, has no assigned instances, but its instances
    contribute to the basis U. The distance has one dimension per label: it is meant for many
    labels, each of them a kind of instances. For two labels such as "present" and "absent" it has
    only two dimensions, and "absent" is not a kind of instance: classify such bags with
    ``bagwise.classification``.

    Cost: with n instances, d features and k labels :math:`O(n d^2 + d^2 k)`, and
    per iteration the distances of instances to the candidates of their bag; memory one more table
    like X, three of d x d and a few of k x d. Kernels: n x n.

    References
    ----------
    Law, Yu, Urtasun, Zemel, Xing. Efficient multiple instance metric learning using weakly
    supervised data. CVPR 2017.

    Examples
    --------
    >>> from bagwise.metric_learning import MIMLCA
    >>> photos = [[[0.0, 1.0], [5.0, 1.2]], [[5.1, 0.9]], [[0.2, 1.1], [5.2, 1.0]], [[0.1, 0.8]]]
    >>> names = [{"Ann", "Bob"}, {"Bob"}, {"Ann", "Bob"}, {"Ann"}]
    >>> model = MIMLCA().fit(photos, names)
    >>> model.classes_[model.assignments_]
    array(['Ann', 'Bob', 'Bob', 'Ann', 'Bob', 'Ann'], dtype='<U3')
    >>> model.predict_instances([[[4.0, 1.0]]])
    array(['Bob'], dtype='<U3')
    """

    _runs_elsewhere = ("cluster", "device")

    _parameter_constraints = {"gamma": [None, POSITIVE], "instances_per_label": ONE_OR_ANY}

    kernel: Any = "linear"
    _: KW_ONLY
    instances_per_label: int | None = 1
    n_components: int | None = None
    n_init: int = 1
    max_iter: int = 100
    gamma: float | None = None
    random_state: Any = None
    checkpoint: Any = None
    verbose: int = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> SolverResult:
        kernel = getattr(self.kernel, "__qualname__", self.kernel)
        settings = "MIMLCA", kernel, self.gamma, self.instances_per_label, self.n_components
        options = self._search(rng) | {"checkpoint": Checkpoint(self.checkpoint, settings)}
        return self._learn(bags, self._candidates(bags, labels), **options)


@with_parameters
class MLCA(_ClusterMetric):
    r"""Learn a metric from instances whose labels are known (Law 2016).

    :math:`L = X^+ J`, where column c of J is the indicator of category c, scaled to length 1. The
    learned distance is :math:`d_M(a, b) = |L'(a - b)|`: it is the Mahalanobis metric in which
    k-means best recovers the known categories. :class:`MIMLCA` would learn it if the label of each
    instance were known.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        "linear", or a kernel between instances by scikit-learn's names, or a function of two
        vectors. "chi2" is the chi2-RBF kernel of the paper (on instances of sum 1).
    n_components : int, default=None
        Keep only the leading directions of the instances; all by default.
    gamma : float, default=None
        Width of the kernel; ``1 / n_features``, and 1 for "chi2", by default.

    Attributes
    ----------
    {classes_}
    components_ : ndarray of shape (n_classes, n_features)
        The map L'. For kernels its columns are kernel features: see `kernel_map_`.
    assignments_ : ndarray of shape (n_instances,)
        The position in ``classes_`` of the label of each training instance.
    centroids_ : ndarray of shape (n_classes, n_features)
        Mean of the instances of each label.
    category_sizes_ : ndarray of shape (n_classes,)
        Number of training instances of each label.
    mean_ : ndarray of shape (n_features,)
        The centre of the instances; zeros without `center`.
    kernel_map_ : ndarray of shape (n_instances, n_kernel_features)
        The map from kernel values to kernel features (kernels only).
    training_instances_ : ndarray or CSR of shape (n_instances, n_features)
        The training instances, with which the kernel compares (kernels only).
    {n_features_in_}

    Notes
    -----
    Cost: :math:`O(n d^2 + d^2 k)` for n instances, d features and k labels; kernels
    :math:`O(n^3)`.

    References
    ----------
    Law, Yu, Cord, Xing. Closed-form training of Mahalanobis distance for supervised clustering.
    CVPR 2016.

    Examples
    --------
    >>> from bagwise.metric_learning import MLCA
    >>> X, y = [[0.0, 1.0], [5.0, 1.2], [5.1, 0.9], [0.2, 1.1]], ["Ann", "Bob", "Bob", "Ann"]
    >>> MLCA().fit(X, y).predict_instances([[4.0, 1.0]])
    array(['Bob'], dtype='<U3')
    """

    _learns_label_sets = False
    _parameter_constraints = {"gamma": [None, POSITIVE]}

    kernel: Any = "linear"
    _: KW_ONLY
    n_components: int | None = None
    gamma: float | None = None

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> None:
        rows = np.arange(bags.n_instances + 1)
        codes = labels.codes[bags.bag_index]
        alone = Candidates(rows, codes, rows, len(labels.classes), one_each=True)
        self.classes_ = labels.classes
        result = self._learn(Bags(bags.instances, rows), alone, rng=rng, max_iter=1)
        for name, value in zip(self._solution, result.solution, strict=True):
            setattr(self, name, value)


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

    _parameter_constraints = {"components": [None, "array-like"], "instances_per_label": ONE_OR_ANY}

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
        n_labels = len(labels.classes)
        with place(points, AssignedRows, self._candidates(bags, labels)) as parts:
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
            raise InputError(f"components has shape {components.shape}, not (any, {n_features}).")
        return components
