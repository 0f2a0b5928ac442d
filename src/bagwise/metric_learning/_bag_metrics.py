"""MildML and MIMLMetric: metrics from pairs of bags, and from key instances."""

from dataclasses import KW_ONLY
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from bagwise._common.sklearn import Interval
from bagwise._common.types import Floats
from bagwise.bags import Bags
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.compute.arrays import dense
from bagwise.exceptions import LabelError
from bagwise.labels import Labels
from bagwise.metric_learning._base import CentroidPredictor, MetricLearner
from bagwise.solvers.metric.bag_metrics import mildml, miml_metric, sample_pairs
from bagwise.solvers.metric.multi_instance_kmeans import Candidates
from bagwise.solvers.result import SolverResult


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
