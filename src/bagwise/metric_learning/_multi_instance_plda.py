"""MultiInstancePLDA: instance labels and a metric from label sets, by a Gaussian model."""

from dataclasses import KW_ONLY, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import log_softmax

from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.tables import slices
from bagwise._common.types import Array, Floats, Ints
from bagwise.annotation._annotator import OneLabelEach
from bagwise.bags import Bags
from bagwise.base._parameters import with_parameters
from bagwise.base._scoring import guarded
from bagwise.compute import Checkpoint, place, to_numpy
from bagwise.compute.arrays import like, product, with_fixed_signs
from bagwise.labels import Labels
from bagwise.metric_learning._base import BLOCK, ONE_OR_ANY, EveryBag, MetricLearner, best_column
from bagwise.solvers.metric import plda
from bagwise.solvers.metric.multi_instance_kmeans import Candidates
from bagwise.solvers.result import SolverResult

LARGEST_DISCOUNT = 0.9  # maximum discount on a count
LOWEST = -1e4  # lowest log-probability: keeps rounding errors of comparisons small


@with_parameters
class MultiInstancePLDA(EveryBag, OneLabelEach, MetricLearner):
    r"""Learn labels of instances and a metric from label sets, by a Gaussian model (PLDA).

    An instance of label c is Gaussian, :math:`x \sim N(m_c, S_W)`, and the label set of a bag
    contains the labels of its instances. EM finds the probability of each label for each instance,
    and re-estimates the covariance within the labels, :math:`S_W`. With random effects,
    :math:`m_c \sim N(m_0, S_B)`, this is probabilistic linear discriminant analysis (PLDA): means
    of labels with few instances are shrunk. In coordinates z with :math:`S_W = I` and
    :math:`S_B = \mathrm{diag}(b)` an instance of a label with n instances of sum s is

    .. math:: z \sim N\left(\frac{s}{n + 1/b},\; 1 + \frac{1}{n + 1/b}\right),

    and the learned map scales z by :math:`\sqrt{b / (1 + b)}`: directions that do not separate
    labels drop out.

    Parameters
    ----------
    effects : {"random", "fixed"}, default="random"
        Whether the means of the labels are drawn from a Gaussian, or are free. "random" was better
        on three of four data sets, and as good on the fourth.
    instances_per_label : 1 or None, default=None
        Number of instances of a bag that may have the same label. None: any number, at least one,
        and each instance has one of the labels. 1: at most one, as in MIMLCA; as many labels as
        possible have an instance, and the other instances have no label.
    null : bool, default=False
        Whether an instance may have no label although there is one for it: background, or people
        whom the caption does not name. Its Gaussian is :math:`N(m_0, S_W + S_B)`. With
        ``instances_per_label=1`` a label may then have no instance as well, as in wrong captions.
        Both shares are learned.
    shrinkage : "oas" or float in [0, 1], default="oas"
        Shrinkage of :math:`S_W`, for features of unit variance, to a multiple of the identity:
        oracle approximating shrinkage, or a given share. 0 is the maximum likelihood estimate.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-3
        Stop when the probabilities of an instance change by less than this on average.
    {checkpoint}
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    components_ : ndarray of shape (n_directions, n_features)
        The learned map.
    mean_ : ndarray of shape (n_features,)
        :math:`m_0`.
    coordinates_ : ndarray of shape (n_coordinates, n_features)
        The map to the coordinates z.
    between_variances_ : ndarray of shape (n_coordinates,)
        b.
    label_means_ : ndarray of shape (n_classes, n_coordinates)
        Mean of the instances of each label, in coordinates z.
    label_counts_ : ndarray of shape (n_classes,)
        Expected number of training instances of each label.
    null_share_, absent_share_ : float
        Share of the training instances without a label; with ``instances_per_label=1`` and `null`,
        share of the labels without an instance.
    assignments_ : ndarray of shape (n_instances,)
        The position in ``classes_`` of the most probable label of each training instance; -1 for
        none. With ``instances_per_label=1`` no label is assigned twice in a bag.
    assignment_probabilities_ : ndarray of shape (n_instances,)
        The probability of that label, or of no label.
    objective_curve_ : ndarray of shape (n_iterations,)
        Minus the log-likelihood after each iteration. With random effects it is relative to
        :math:`N(m_0, S_W + S_B)` for all instances, each instance is left out of its own
        prediction, and the curve may rise.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    Notes
    -----
    The fit starts with all labels of a bag equally probable; nothing is random. A bag with an
    unknown label set is ignored, and so is one without labels, unless `null`. If a bag has more
    labels than instances, ``instances_per_label=None`` allows labels without an instance.

    The posterior of a bag is exact if it has few labels: a sum over subsets of its labels.
    Otherwise it is computed by belief propagation (``instances_per_label=None``), or by the best
    assignment if both more than 14 instances and 14 labels are to be matched.

    Cost per iteration: :math:`O(n d^2 + d^3 + k d^2)` for n instances, d features and k labels;
    without `null` and ``instances_per_label=1`` half of the first term. Memory: six tables of
    d x d and three of k x d in addition to X.

    References
    ----------
    Law, Yu, Urtasun, Zemel, Xing. Efficient multiple instance metric learning using weakly
    supervised data. CVPR 2017.

    Ioffe. Probabilistic linear discriminant analysis. ECCV 2006.

    Examples
    --------
    >>> from bagwise.metric_learning import MultiInstancePLDA
    >>> photos = [[[0.0, 1.0], [5.0, 1.2]], [[5.1, 0.9]], [[0.2, 1.1], [5.2, 1.0]], [[0.1, 0.8]]]
    >>> names = [{"Ann", "Bob"}, {"Bob"}, {"Ann", "Bob"}, {"Ann"}]
    >>> model = MultiInstancePLDA(instances_per_label=1).fit(photos, names)
    >>> model.classes_[model.assignments_]
    array(['Ann', 'Bob', 'Bob', 'Ann', 'Bob', 'Ann'], dtype='<U3')
    >>> model.predict_instances([[[4.0, 1.0]]])
    array(['Bob'], dtype='<U3')
    """

    _runs_elsewhere = ("cluster", "device")

    _parameter_constraints = {
        "effects": [StrOptions({"random", "fixed"})],
        "instances_per_label": ONE_OR_ANY,
        "null": ["boolean"],
        "shrinkage": [StrOptions({"oas"}), Interval(Real, 0, 1, closed="both")],
    }

    effects: str = "random"
    _: KW_ONLY
    instances_per_label: int | None = None
    null: bool = False
    shrinkage: Any = "oas"
    max_iter: int = 100
    tol: float = 1e-3
    checkpoint: Any = None
    verbose: int = 0

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> SolverResult:
        # Bags without labels have instances without a label.
        may_be_empty = self.null and self.instances_per_label is None
        used = labels.known & (may_be_empty | (labels.indicator == 1).any(axis=1))
        chosen = bags if used.all() else bags[used]
        candidates = self._candidates(chosen, labels[used])
        settings = self.effects, self.instances_per_label, self.null, self.shrinkage, self.tol
        result, model = plda.label_set_plda(
            chosen,
            candidates,
            random=self.effects == "random",
            null=self.null,
            shrinkage=None if self.shrinkage == "oas" else float(self.shrinkage),
            max_iter=self.max_iter,
            tol=self.tol,
            track=partial(self._track, task="iteration"),
            checkpoint=Checkpoint(self.checkpoint, ("MultiInstancePLDA", *settings)),
        )
        assigned, probability = self._assigned(candidates, *result.solution)
        self._keep_model(model, np.dtype(str(bags.dtype).removeprefix("torch.")))
        self.assignments_ = np.full(bags.n_instances, -1, dtype=np.int64)
        self.assignment_probabilities_ = np.ones(bags.n_instances)
        rows = np.repeat(used, bags.sizes)
        self.assignments_[rows], self.assignment_probabilities_[rows] = assigned, probability
        return result

    def _assigned(
        self, candidates: Candidates, posterior: Floats, null: Floats
    ) -> tuple[Ints, Floats]:
        """Most probable label of each instance, and its probability."""
        gain = posterior - null[candidates.pairs[0]]  # of a label over no label
        costs = -np.maximum(gain, 0.0) if candidates.one_each else -gain
        assigned, places = candidates.assign(costs)
        probability = null.copy()
        rows = np.flatnonzero(assigned >= 0)
        named = gain[places] > 0
        assigned[rows[~named]] = -1
        probability[rows[named]] = posterior[places[named]]
        return assigned, np.minimum(probability, 1.0)

    def _keep_model(self, model: plda.Gaussians, dtype: Any) -> None:
        b = model.between
        found = model.directions[:, : len(b)]
        signs = np.where((with_fixed_signs(found) * found).sum(axis=0) < 0, -1, 1)
        coordinates = (found * signs).T
        apart = b > plda.SMALLEST_VARIANCE
        apart[0] = True  # keep at least one dimension
        scale = np.sqrt(b / (1 + b))[apart, None]
        self.components_ = np.ascontiguousarray(scale * coordinates[apart]).astype(dtype)
        self.coordinates_ = np.ascontiguousarray(coordinates, dtype=dtype)
        self.mean_, self.between_variances_ = model.mean.astype(dtype), b.astype(dtype)
        n = model.counts
        means = model.sums / np.where(n > 0, n, 1.0)[:, None]
        self.label_means_ = (means * signs).astype(dtype)
        self.label_counts_ = n
        self.null_share_, self.absent_share_ = model.null_share, model.absent_share

    def _annotated(self, bags: Bags, labels: Labels) -> Array:
        """Most probable label of each instance; as `predict_instances` without label set."""
        candidates = self._candidates(bags, labels)
        with place(bags, plda.PLDAPart, candidates, null=self.null) as parts:
            model = self._gaussians
            parts.do("expect", model, model.mean, 0.0)
            posterior = np.concatenate([found for found, _ in parts.each("posteriors")])
        assigned, _ = replace(candidates, one_each=False).assign(-posterior)
        named = self.classes_[assigned]
        free = np.flatnonzero(assigned < 0)
        if len(free):
            open_bags = np.unique(bags.bag_index[free])
            named[free] = self.predict_instances(bags[open_bags])
        return named

    @property
    def _gaussians(self) -> plda.Gaussians:
        """The fitted model, in the form used by the solver."""
        return plda.Gaussians(
            mean=self.mean_.astype(np.float64),
            directions=np.ascontiguousarray(self.coordinates_.T),
            between=self.between_variances_.astype(np.float64),
            sums=self.label_means_ * self.label_counts_[:, None],
            counts=self.label_counts_,
            random=self.effects == "random",
            one_each=self.instances_per_label == 1,
            constant=0.0,
            null_share=self.null_share_,
            absent_share=self.absent_share_,
        )

    def predict_instances(self, X: Any) -> Array:
        """Predict the label of each instance, without the label set of its bag.

        The prior probability of a label grows with its number of training instances.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``; never a label that no training bag has.
        """
        return guarded(self.classes_[self._evaluate(X, self._most_probable)], X)

    def _most_probable(self, bags: Bags) -> Ints:
        score = partial(self._label_scores, self._gaussians)
        n_columns = max(len(self.classes_), self.n_features_in_)
        return best_column(score, bags.instances, n_columns, np.argmax)

    def _instance_probabilities(self, bags: Bags) -> Array:
        return np.exp(self._log_probabilities(bags))[:, : len(self.classes_)]

    def _log_probabilities(self, bags: Bags) -> Floats:
        """Log-probability of each label for each instance; with `null`, the last: no label."""
        model, instances = self._gaussians, bags.instances
        scores = np.empty((bags.n_instances, len(self.classes_) + self._has_null))
        for rows in slices(bags.n_instances, max(1, BLOCK // self.n_features_in_)):
            scores[rows] = self._label_scores(model, instances[rows], null=self._has_null)
        return np.maximum(log_softmax(scores, axis=1), LOWEST)

    @property
    def _has_null(self) -> bool:
        return bool(self.null and self.null_share_ > 0)

    def _label_scores(self, model: plda.Gaussians, instances: Any, null: bool = False) -> Floats:
        """Log-density of each label plus its log-prior, up to a constant."""
        Z = self._coordinates(instances)
        means, variances = model.predictive()
        scores = Z @ (means / variances).T - 0.5 * (Z**2 @ (1 / variances).T)
        scores -= 0.5 * (means**2 / variances + np.log(variances)).sum(axis=1)
        with np.errstate(divide="ignore"):
            prior = np.log(discounted(self.label_counts_) / self.label_counts_.sum())
        scores += np.maximum(prior, -plda.UNSEEN)
        if not null:
            return scores
        log_null = np.log(self.null_share_) - np.log1p(-self.null_share_)
        return np.column_stack([scores, model.null_scores(Z) + log_null])

    def _coordinates(self, instances: Any) -> Floats:
        if sparse.issparse(instances):
            mapped = product(instances, self.coordinates_) - self.coordinates_ @ self.mean_
        else:
            mapped = to_numpy(product(instances - like(self.mean_, instances), self.coordinates_))
        return mapped.astype(np.float64)


def discounted(counts: Floats) -> Floats:
    """Discount the counts of labels for their prior, as Good and Turing do.

    The count of a label seen once overestimates its frequency. With N_1 labels seen once and N_2
    seen twice, N_1 / (N_1 + 2 N_2) is subtracted from each count of one or more.

    Parameters
    ----------
    counts : ndarray of shape (n_labels,)
        Expected numbers of instances.

    Returns
    -------
    ndarray of shape (n_labels,)
        Positive if the count is positive, else 0.
    """
    once, twice = (int(np.sum(np.round(counts) == seen)) for seen in (1, 2))
    share = min(once / max(once + 2 * twice, 1), LARGEST_DISCOUNT)
    return np.maximum(counts - share, (1 - share) * counts)
