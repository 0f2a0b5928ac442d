"""Base classes of metric learners: the linear map, the metric, nearest centroids.

Also MildML and MIMLMetric, which learn metrics from pairs of bags and from key instances.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy import linalg
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from bagwise._common.sklearn import Interval, Options
from bagwise._common.tables import slices
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, BagTransformerMixin, fit_method
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.base._scoring import guarded
from bagwise.compute import to_numpy
from bagwise.compute.arrays import dense, product
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels
from bagwise.solvers.metric.bag_metrics import mildml, miml_metric, sample_pairs
from bagwise.solvers.metric.multi_instance_kmeans import Candidates
from bagwise.solvers.result import SolverResult
from bagwise.validation import is_table

BLOCK = 2**22  # scores computed at once


ONE_OR_ANY: list[Any] = [None, Options(Integral, {1})]  # instances of a bag with the same label


class MetricLearner(BagTransformerMixin, BagEstimator):
    """Learn a linear map of the instances; Euclidean distances after it are the learned metric."""

    label_kind_: str = "sets"
    _learns_label_sets = True
    _min_classes = 1
    _advice = "raise max_iter or tol"

    @fit_method
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric.

        Parameters
        ----------
        {X}
        y : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag: candidates for its instances. Bags whose label set is unknown
            (None, or a row of -1) have no candidates.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _check_labels(self, y: Any, bags: Bags) -> Labels:
        labels: Labels = super()._check_labels(y, bags)
        self.label_kind_ = labels.kind
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def transform(self, X: Any) -> Any:
        """Map the instances: Euclidean distances between the results are the learned ones.

        Parameters
        ----------
        {X}

        Returns
        -------
        Bags, or 2-D array for a 2-D table
        """
        mapped = self._evaluate(X, self._mapped, by_partition=False)
        return mapped.instances if is_table(X) else mapped

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """Return the learned distance as a function of two vectors.

        For many distances, transform the data first: this takes one matrix product for all of them.

        Returns
        -------
        callable
            ``metric(a, b)`` is not negative, symmetric and satisfies the triangle inequality; it
            can be 0 between different vectors.
        """
        check_is_fitted(self)

        def metric(a: ArrayLike, b: ArrayLike) -> float:
            pair = np.stack([np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)])
            if pair.shape != (2, self.n_features_in_):
                raise InputError(f"give two vectors of {self.n_features_in_} features.")
            left, right = self._map(pair)
            return float(np.linalg.norm(left - right))

        return metric

    def _mapped(self, bags: Bags) -> Bags:
        return bags.with_instances(self._map(bags.instances))

    def _features(self, instances: Any) -> Any:
        """Features to which the components apply: the instances, or their kernel features."""
        return instances

    def _map(self, instances: Any) -> Array:
        return self._project(self._features(instances), self.components_)

    def _project(self, features: Any, components: Array) -> Array:
        rows = to_numpy(product(features, components))
        offset = getattr(self, "mean_", None)
        return rows if offset is None else rows - components @ offset


class CentroidPredictor(MetricLearner):
    """A metric learner that predicts the label of the nearest centroid."""

    def predict_instances(self, X: Any) -> Array:
        """Predict the label of the nearest centroid of each instance (Eq. 15).

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags; their label sets are not needed.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``; never a label without training instances.
        """
        return guarded(self.classes_[self._evaluate(X, self._nearest_centroid)], X)

    def _nearest_centroid(self, bags: Bags) -> Ints:
        components = as_few_rows(self.components_)
        centroids = self._project(self.centroids_, components)
        # Centre the centroids: |a|^2 - 2ab of vectors far from 0 would cancel.
        origin = centroids[self.category_sizes_ > 0].mean(axis=0)
        centroids -= origin
        penalty = self._penalty(centroids)

        def score(block: Any) -> Array:
            return penalty - 2 * ((self._project(block, components) - origin) @ centroids.T)

        return best_column(score, self._features(bags.instances), len(penalty), np.argmin)

    def _penalty(self, mapped_centroids: Array, weight: float = 1.0) -> Array:
        """Weighted squared length of each centroid; infinite for a label without instances."""
        penalty = weight * row_norms(mapped_centroids, squared=True)
        penalty[self.category_sizes_ == 0] = np.inf
        return penalty


class EveryBag:
    """A metric learner that also uses the instances of bags without a known label."""

    def _training_set(
        self: Any, bags: Bags, y: Any, sample_weight: Any
    ) -> tuple[Bags, Any, Floats]:
        labels = self._check_labels(y, bags)
        if not (labels.indicator == 1).any():
            raise LabelError("no bag has a label: there is nothing to learn from.")
        self.classes_ = labels.classes
        return bags, labels, np.ones(len(bags))

    def _candidates(self: Any, bags: Bags, labels: Labels) -> Candidates:
        one_each = self.instances_per_label == 1
        return Candidates.from_indicator(bags.offsets, labels.indicator, one_each=one_each)


class LabelAssigner(EveryBag, CentroidPredictor):
    """A metric learner that assigns training instances to the labels of their bags.

    A subclass defines the parameters `instances_per_label`, `n_init` and `max_iter`.
    """

    _advice = "raise max_iter"

    def _search(self, rng: RandomState) -> dict[str, Any]:
        """Options of the search for assignments."""
        track = partial(self._track, task="assigning")
        return {"n_init": self.n_init, "max_iter": self.max_iter, "rng": rng, "track": track}


def as_few_rows(components: Array) -> Array:
    """Reduce a map to at most n_features rows, with the same distances: R of L' = QR.

    Parameters
    ----------
    components : ndarray of shape (n_rows, n_features)
        The map; often one row per label.

    Returns
    -------
    ndarray of shape (min(n_rows, n_features), n_features)
    """
    n_rows, n_columns = components.shape
    if n_rows <= n_columns:
        return components
    return linalg.qr(components, mode="r", check_finite=False)[0][:n_columns]


def best_column(score: Callable[[Any], Array], rows: Any, n_columns: int, choose: Any) -> Ints:
    """Find the best column for each row, in blocks of rows.

    Parameters
    ----------
    score : callable
        Maps a block of rows to scores, one column per label.
    rows : ndarray or CSR of shape (n_rows, n_features)
        The rows.
    n_columns : int
        Number of labels.
    choose : callable
        ``numpy.argmax`` or ``numpy.argmin``.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    blocks = slices(rows.shape[0], max(1, BLOCK // n_columns))
    return np.concatenate([choose(score(rows[block]), axis=1) for block in blocks])


@with_parameters
class MildML(MetricLearner):
    r"""Learn a metric in which bags that share a label have a close pair (Guillaumin 2010).

    Logistic regression on pairs of bags: with :math:`d_L(A, B)` the distance of the closest
    instances of two bags and :math:`t = \pm 1` for bags that share a label or do not,

    .. math::
        \min_{L, b} \sum_{A, B} w_{AB} \log(1 + e^{t (d_L(A, B)^2 - b)})
        + \tfrac{\text{reg}}{2} |L|^2,

    where both kinds of pairs have the same total weight. It assigns no labels to instances.

    Parameters
    ----------
    n_components : int, default=None
        Number of rows of the map L; the number of features by default.
    reg : float, default=1e-3
        Weight of the squared length of L.
    n_pairs : int, default=20000
        Maximum number of pairs of bags, half of each kind; if there are more, a random sample is
        drawn once.
    max_iter : int, default=500
        Maximum number of L-BFGS iterations.
    tol : float, default=1e-6
        Relative decrease of the objective at which the fit stops.
    random_state : int, RandomState or None, default=None
        For drawing pairs.
    {verbose}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L.
    {label_kind_}
    threshold_ : float
        b: two bags at this squared distance share a label with probability 1/2.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each iteration.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    Notes
    -----
    Bags with unknown label sets are left out. Cost of an iteration: a product of the instances with
    the map, and for each pair of bags the distances of their instances. The objective is not
    convex: it is minimised from the principal directions of the instances. Instances should be
    standardised.

    References
    ----------
    Guillaumin, Verbeek, Schmid. Multiple instance metric learning from automatically labeled bags
    of faces. ECCV 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.metric_learning import MildML
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(30) % 3
    >>> X = np.column_stack([y + 0.1 * rng.normal(size=30), rng.normal(size=30)])
    >>> d = MildML().fit(X, y).get_metric()  # only the first feature matters
    >>> d([0, 0], [1, 0]) > 10 * d([0, 0], [0, 1])
    True
    """

    _parameter_constraints = {"n_pairs": [Interval(Integral, 2, None, closed="left")]}

    n_components: int | None = None
    _: KW_ONLY
    reg: float = 1e-3
    n_pairs: int = 20_000
    max_iter: int = 500
    tol: float = 1e-6
    random_state: Any = None
    verbose: int = 0

    _in_canonical_order = True  # rounding errors grow over many steps

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> SolverResult:
        pairs = sample_pairs(labels.indicator, self.n_pairs, rng)
        if pairs[2].all() or not pairs[2].any():
            which = "all" if pairs[2].any() else "no"
            raise LabelError(f"{which} two bags share a label (one class only?): give both kinds.")
        X, track = dense(bags.instances).astype(np.float64), partial(self._track, task="fitting")
        options: Any = {"reg": self.reg, "tol": self.tol, "max_iter": self.max_iter, "track": track}
        rank = min(self.n_components or bags.n_features, bags.n_features)
        result = mildml(X, bags.offsets, pairs, n_components=rank, **options)
        components, threshold = result.solution
        self.components_, self.threshold_ = components.astype(bags.dtype), float(threshold)
        return result


@with_parameters
class MIMLMetric(CentroidPredictor):
    r"""Learn a metric from bags with label sets, around key instances (Jin 2009).

    Each label has a centre :math:`z_c`. In each bag with the label, the instance nearest to the
    centre is its key instance. Directions, centres and key instances are updated in turn to
    minimise

    .. math::
        \frac{\sum_{ic} Y_{ic} |A'(x_{Q(i,c)} - z_c)|^2}{\sum_{c<c'} |A'(z_c - z_{c'})|^2},
        \qquad A'A = I.

    Parameters
    ----------
    n_components : int, default=None
        Number of directions; by default one less than labels, but at most half of the features.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-6
        Relative change of the objective at which the fit stops.
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    components_ : ndarray of shape (n_components, n_features)
        The map A'.
    centroids_ : ndarray of shape (n_classes, n_features)
        The centres; zeros for a label that no bag has.
    category_sizes_ : ndarray of shape (n_classes,)
        Number of bags with each label.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each iteration.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    Notes
    -----
    The paper bounds the denominator from below by a constant and updates the centres one by one.
    The ratio is the same problem; here all centres are updated at once, exactly. Cost of an
    iteration, for d features and p pairs of a bag with one of its labels: :math:`O(p d^2 + d^3)`.

    References
    ----------
    Jin, Wang, Zhou. Learning a distance metric from multi-instance multi-label data. CVPR 2009.

    Examples
    --------
    >>> from bagwise.metric_learning import MIMLMetric
    >>> photos = [[[0.0, 1.0], [5.0, 9.0]], [[5.1, 4.0]], [[0.2, 7.0], [5.2, 2.0]], [[0.1, 3.0]]]
    >>> names = [{"Ann", "Bob"}, {"Bob"}, {"Ann", "Bob"}, {"Ann"}]
    >>> model = MIMLMetric(n_components=1).fit(photos, names)
    >>> abs(model.components_).round(1)  # the first feature separates the labels
    array([[1., 0.]])
    """

    _parameter_constraints = {"tol": [NOT_NEGATIVE]}

    n_components: int | None = None
    _: KW_ONLY
    max_iter: int = 100
    tol: float = 1e-6
    verbose: int = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> SolverResult:
        sizes = labels.counts
        present = np.flatnonzero(sizes)
        if len(present) < 2:
            raise LabelError(f"{len(present)} labels (one class only, or none): two are needed.")
        carried = labels.indicator[:, present]
        if (carried == carried[:, :1]).all():
            raise LabelError("all labels are in the same bags: give bags with only some of them.")
        rank = self.n_components or max(1, min(len(present) - 1, bags.n_features // 2))
        X, steps = dense(bags.instances).astype(np.float64), range(self.max_iter)
        candidates = Candidates.from_indicator(bags.offsets, carried, one_each=False)
        options: Any = {"n_components": min(rank, bags.n_features), "tol": self.tol}
        result = miml_metric(X, candidates, steps=self._track(steps, "fitting"), **options)
        directions, centres, _ = result.solution
        self.classes_, self.category_sizes_ = labels.classes, sizes
        self.centroids_ = np.zeros((len(sizes), bags.n_features), dtype=bags.dtype)
        self.centroids_[present] = centres
        self.components_ = np.ascontiguousarray(directions.T, dtype=bags.dtype)
        return result
