"""MIMLCA and MLCA: metrics in which instances of the same label are close."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import eigsh
from sklearn.utils.extmath import safe_sparse_dot

from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Ints
from bagwise._common.warnings import warn_user
from bagwise._validation import check_bag_labels, check_bags, check_label_sets
from bagwise.bags import Bags
from bagwise.base import fit_method
from bagwise.base._kernel_machine import kernel_params
from bagwise.base._parameters import NOT_NEGATIVE, POSITIVE, with_parameters
from bagwise.compiled.lapack import eigenvectors, with_fixed_signs
from bagwise.compiled.threads import one_core_if_small
from bagwise.engines import Checkpoint, digest, local_instances
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.metric_learning._base import (
    ASSIGNMENT_CONSTRAINTS,
    CentroidPredictor,
    LabelAssigner,
    as_few_rows,
    best_column,
)
from bagwise.pairwise import instance_kernel
from bagwise.solvers.metric.column_span import RANK_TOLERANCE, ColumnSpan
from bagwise.solvers.metric.mimlca import instance_span, metric_map, usual_rank
from bagwise.solvers.metric.mimlca_parts import mimlca_by_parts
from bagwise.solvers.metric.multi_instance_kmeans import Candidates, cluster_means
from bagwise.solvers.result import SolverResult

SPAN_CONSTRAINTS: dict[str, Any] = {"gamma": [None, POSITIVE], "ridge": [NOT_NEGATIVE]}


class _ClusterMetric(CentroidPredictor):
    """Base class of MIMLCA and MLCA: the space, the map from assignments, both prediction rules.

    A subclass defines the parameters of the kernel, and `n_components`, `ridge` and `center`.
    """

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
        return self.classes_[self._evaluate(X, largest)]

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
            instances, self.training_instances_, self.kernel, kernel_params(self, self.gamma)
        )
        return safe_sparse_dot(values, self.kernel_map_)

    def _learn(
        self,
        instances: Any,
        classes: Array,
        candidates: Candidates,
        assign: Callable[[ColumnSpan], SolverResult],
    ) -> tuple[SolverResult, dict[str, Any]]:
        """Assign the instances and learn the map; return the solution and the fitted state."""
        state: dict[str, Any] = {"classes_": classes}
        features = instances
        if self.kernel != "linear":
            features, back = self._kernel_features(instances, candidates)
            state |= {"training_instances_": instances, "kernel_map_": back}
        with one_core_if_small(features):
            span = instance_span(
                features,
                candidates,
                center=self.center,
                n_components=self.n_components,
                ridge=self.ridge,
            )
            result = assign(span)
            (assigned,) = result.solution
            L = metric_map(span, assigned, len(classes), ridge=self.ridge)
            mean = span.mean
            del span  # frees its basis, which is as large as the instances
        state |= {
            "components_": np.ascontiguousarray(L.T),
            "mean_": mean.astype(L.dtype),
            "centroids_": cluster_means(features, assigned, len(classes)),
            "category_sizes_": np.bincount(assigned[assigned >= 0], minlength=len(classes)),
            "assignments_": assigned,
        }
        return result, state

    def _kernel_features(self, instances: Any, candidates: Candidates) -> tuple[Array, Array]:
        """Features whose inner products are the kernel, and the map from kernel values to them."""
        n_rows = instances.shape[0]
        require_memory(
            3 * 8.0 * n_rows**2,
            purpose=f"{type(self).__name__} with the kernel matrix of {n_rows:,} instances and two "
            "like it",
            remedy="fit part of the bags, or use kernel='linear', after "
            "InstanceTransformer(Nystroem()) if need be",
        )
        gram = instance_kernel(instances, instances, self.kernel, kernel_params(self, self.gamma))
        n_instances = len(gram)
        keep = n_instances
        if self.n_components is not None:
            keep = min(keep, self.n_components)
        elif self.ridge == 0 and not candidates.forced:
            keep = min(keep, usual_rank(candidates) + 1)  # one more, to see if any are dropped
        values, vectors = _leading_eigenvectors(gram.astype(np.float64, copy=False), keep)
        real = values > RANK_TOLERANCE * max(values[-1], 0)
        values, vectors = values[real], vectors[:, real]
        if self.n_components is None and keep < n_instances and real.all():
            values, vectors = values[1:], vectors[:, 1:]
            warn_user(
                f"the kernel spreads the {n_instances} instances over more than {len(values)} "
                "dimensions; with all of them nearly every assignment of labels costs the same. "
                f"The {len(values)} leading ones are used: set n_components or ridge to choose "
                "their number."
            )
        features, back = vectors * np.sqrt(values), vectors / np.sqrt(values)
        return features.astype(gram.dtype, copy=False), back.astype(gram.dtype, copy=False)


def _leading_eigenvectors(gram: Array, keep: int) -> Any:
    """Largest eigenvalues in ascending order, and their vectors; by Lanczos for a few of many."""
    n = len(gram)
    if n > 1000 and 10 * keep < n:
        values, vectors = eigsh(gram, k=keep, which="LA", v0=gram.sum(axis=1))
        return values, with_fixed_signs(vectors)
    return eigenvectors(gram, n - keep, n - 1)


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
    ridge : float, default=0.0
        Added to the squared singular values of the instances (kernel: eigenvalues): a smooth
        alternative to `n_components`.
    center : bool, default=True
        Centre the instances. Scaling them has no effect without `n_components` and `ridge`.
    init : {"bag-means", "random"}, default="bag-means"
        The first start: the centre of a label is the mean of the bags that have it, or random.
    n_init : int, default=1
        Number of starts, all but the first at random; the best objective is kept.
    max_iter : int, default=100
        Maximum number of iterations per initialisation.
    gamma : float, default=None
        Width of the kernel; ``1 / n_features``, and 1 for "chi2", by default.
    degree, coef0 : float, default=3, 1.0
        Degree and constant of the polynomial kernel.
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
        The centre of the instances; zeros without `center`.
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

    _parameter_constraints = SPAN_CONSTRAINTS | ASSIGNMENT_CONSTRAINTS

    kernel: Any = "linear"
    _: KW_ONLY
    instances_per_label: int | None = 1
    n_components: int | None = None
    ridge: float = 0.0
    center: bool = True
    init: str = "bag-means"
    n_init: int = 1
    max_iter: int = 100
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    random_state: Any = None
    checkpoint: Any = None
    verbose: int = 0

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Assign the instances to labels, and learn a metric in which those of a label are close.

        Parameters
        ----------
        {X}
        y : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag: candidates for its instances, which may be too many or too
            few.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = check_label_sets(y, bags)
        self.label_kind_ = labels.kind
        candidates = self._candidates(bags, labels)
        checkpoint = self._checkpoint(bags, labels)
        instances = local_instances(bags)
        if instances is None:
            result, state = self._learn_elsewhere(bags, candidates, checkpoint)
            state["classes_"] = labels.classes
        else:
            classes = labels.classes
            del labels  # one byte per bag and class: the candidates have the same content
            result, state = self._learn(
                instances,
                classes,
                candidates,
                lambda span: self._best_assignment(span.basis, candidates, checkpoint),
            )
        if checkpoint is not None:
            checkpoint.remove()
        self._keep_progress(result, "raise max_iter")
        self.__dict__.update(state)
        return self

    def _checkpoint(self, bags: Bags, labels: Labels) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        names = (
            "instances_per_label", "n_components", "ridge", "center", "init", "gamma", "degree",
            "coef0",
        )  # fmt: skip
        kernel = getattr(self.kernel, "__qualname__", self.kernel)
        of_bags = digest(bags, labels.indicator)
        return Checkpoint(
            self.checkpoint, ("MIMLCA", kernel, *(getattr(self, name) for name in names), of_bags)
        )

    def _learn_elsewhere(
        self, bags: Bags, candidates: Candidates, checkpoint: Checkpoint | None
    ) -> tuple[SolverResult, dict[str, Any]]:
        if self.kernel != "linear":
            raise InputError(
                "bags on a device or a cluster are fitted with kernel='linear'; for other kernels "
                "use Nystroem features."
            )
        return mimlca_by_parts(
            bags,
            candidates,
            center=self.center,
            n_components=self.n_components,
            ridge=self.ridge,
            **self._search(),
            checkpoint=checkpoint,
        )


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
    ridge : float, default=0.0
        Added to the squared singular values of the instances (kernel: eigenvalues).
    center : bool, default=True
        Centre the instances.
    gamma : float, default=None
        Width of the kernel; ``1 / n_features``, and 1 for "chi2", by default.
    degree, coef0 : float, default=3, 1.0
        Degree and constant of the polynomial kernel.

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

    label_kind_ = "single"
    _parameter_constraints = SPAN_CONSTRAINTS

    kernel: Any = "linear"
    _: KW_ONLY
    n_components: int | None = None
    ridge: float = 0.0
    center: bool = True
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Learn a metric in which instances of the same label are close.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags. For labels that differ inside a bag, give the instances themselves as a 2-D
            table: ``fit(bags.instances, instance_labels)``.
        y : array-like of shape (n_bags,)
            The label of each bag, and so of all its instances.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = check_bag_labels(y, bags)
        n = bags.n_instances
        alone = Candidates(
            np.arange(n + 1),
            labels.codes[bags.bag_index],
            np.arange(n + 1),
            len(labels.classes),
            one_each=True,
        )
        known = SolverResult((alone.labels,), (), converged=True)
        _, state = self._learn(bags.instances, labels.classes, alone, lambda span: known)
        self.__dict__.update(state)
        return self
