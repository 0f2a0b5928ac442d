"""ORedLogisticRegression (ORLR): exact probabilities of instance labels from bag label sets."""

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, replace
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_random_state

from bagwise import compiled
from bagwise._memory import require_memory
from bagwise._sklearn import Interval, StrOptions
from bagwise._types import Array, Ints
from bagwise._validation import (
    check_bags,
    check_instance_labels,
    check_label_sets,
    check_sample_weight,
)
from bagwise._warnings import warn_user
from bagwise.annotation._annotator import AnnotatorMixin
from bagwise.bags import Bags
from bagwise.base import BagEstimator, fit_method
from bagwise.base._fitted_state import Anything, FittedState, Floats, Integers, Model, Number
from bagwise.base._kernel_bags import kernel_bags, kernel_product, nystroem_of_bags, width_of
from bagwise.base._parameters import COUNT, NOT_NEGATIVE, with_parameters
from bagwise.engines import memory_of_parts, one_core_if_few_instances, over_blocks, to_numpy
from bagwise.engines.arrays import product
from bagwise.exceptions import LabelError
from bagwise.labels import Labels
from bagwise.solvers.annotation.orlr import (
    FIRST_RATES,
    RATE_RANGE,
    first_rates,
    ored_logistic,
)
from bagwise.solvers.annotation.orlr_parts import (
    BLOCK,
    BagLabelSets,
    Rates,
    posteriors,
    report_counts,
)

# A class of which no bag was seen has probability zero. Where the label set of a bag
# contains it all the same, its logit is this much lower than the others: in place of the limit.
UNSEEN = 1e4
VECTORS = 30  # of the size of W: iterates, gradients and the memory of L-BFGS

LINEAR_REG, KERNEL_REG = 1.0, 0.02  # reg="auto"
# Candidates of `select`, as multiples of gamma and reg; of equally good ones the first.
WIDTHS = (1.0, 0.5, 2.0)
PENALTIES = (1.0, 3.0, 1 / 3)
N_FOLDS = 3
SELECTING_TOL = 1e-4
HELD_OUT_STEPS, NEGLIGIBLE = 6, 0.01  # of EM for the rate of missing labels, and where it ends

# Parameters that bagwise 0.1 did not have, for models that it saved.
ADDED = {
    "kernel": "linear", "n_components": 300, "gamma": "scale", "select": False,
    "missing": 0.0, "spurious": 0.0, "random_state": None,
}  # fmt: skip

# Bags, label sets, weights and codes of instances: what a fit learns from.
Training = tuple[Bags, Ints, Array, Ints | None]


@with_parameters
class ORedLogisticRegression(AnnotatorMixin, BagEstimator):
    r"""Logistic regression of instances, learned from the label sets of bags (Pham 2014).

    An instance has label c with probability :math:`p_c(x) = \mathrm{softmax}(W x + b)_c`, and the
    label set of a bag is the union ("OR") of the labels of its instances. The fit solves

    .. math:: \max_{W, b} \sum_b \log P(Y_b \mid X_b, W, b) - \tfrac{\lambda}{2} |W|^2

    where P sums over all labelings of the instances that make exactly :math:`Y_b`. The sum is
    exact, at a cost linear in the number of instances. Standardise the instances first.

    With a kernel, x is replaced by Nystroem features: the model is then as flexible as a kernel
    SVM. Linear weights can be read, feature by feature; "rbf" names instances better where enough
    bags are known.

    Where the labels of some instances are known, because somebody looked at them, they are held
    fixed: P is then the probability of the label set and of these labels.

    Label sets that people write are sometimes wrong. With `missing` and `spurious`, P(Y) is the
    probability that Y is written down, which may lack labels of instances and have others.

    Parameters
    ----------
    reg : float or "auto", default="auto"
        Lambda, against the sum over bags. The intercept is not penalised. With 0 there may be no
        maximum. "auto" is 1 for the linear kernel and 0.02 for others, whose features are shorter
        than 1.
    kernel : {"linear", "rbf"} or callable, default="linear"
        The kernel, or a function of two vectors. All but "linear" are approximated by Nystroem
        features, which are made where the instances are.
    n_components : int, default=300
        Number of landmarks, instances drawn at random, and so of Nystroem features. Not used by the
        linear kernel.
    {gamma}
    select : bool, default=False
        Choose `reg`, and the width of "rbf", by the likelihood of held-out bags (three folds of
        bags; no label of an instance is needed). `gamma` is multiplied by 1/2, 1 or 2,
        then `reg` by 1/3, 1 or 3. Takes about ten times as long.
    missing : float or "learn", default=0.0
        Probability that the label of an instance is not reported in the label set of its bag.
        "learn" estimates it by EM on held-out bags (three folds), which takes about six times as
        long. An instance may then have a label outside the set.
    spurious : float or "learn", default=0.0
        Probability that a label is listed in the set although no instance reports it. "learn"
        estimates it by EM.
    background : bool or label, default=False
        Add a class that may be in any bag and is in no label set, for instances that belong to
        none of the labels: the last column of probabilities. Where :meth:`annotate` names it, it
        is -1 (numeric labels) or "background" (texts); give another name instead of True if that is
        a label already, or if instances are known to be background and -1 would say "not known".
    solver : {"lbfgs", "em", "gem"}, default="lbfgs"
        L-BFGS on the likelihood itself; EM with a full M-step; or the paper's generalised EM with
        one gradient step per posterior. All climb the same likelihood; the first is the quickest.
    fit_intercept : bool, default=True
        Whether to fit b.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels; a bag weighs the mean over its label set. "balanced": inverse to the
        number of bags that carry the label.
    max_iter : int, default=1000
        Budget of iterations.
    tol : float, default=1e-5
        Largest entry of the gradient, divided by the number of instances, at the end.
    max_operations : float, default=1e9
        Exact inference takes instances x subsets x labels operations (n k 2^k, less where a bag
        has few instances more than labels), about a nanosecond each. Bags that need more, or a
        table of more than 512 MB, are approximated by belief propagation, with a warning.
    warm_start : bool, default=False
        Begin where the last fit ended, if classes and features are the same. A kernel keeps its
        width and landmarks.
    random_state : int, RandomState or None, default=None
        Draws the landmarks of a kernel, and the folds of `select`. A fit that is to be resumed from
        a checkpoint needs a number.
    {checkpoint}
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    label_kind_ : {"single", "sets"}
        Whether the model was fitted on one label per bag, or on label sets.
    coef_ : ndarray of shape (n_classes, n_features) or (n_classes, n_components)
        W; with `background` one more row, the last.
    intercept_ : ndarray of shape (n_classes,)
        b; -inf for a class that no bag carried, which is never predicted. With `background` one
        more, the last.
    background_label_ : object
        What background instances are called; None without `background`.
    reg_ : float
        The penalty of the fit.
    missing_, spurious_ : float
        How often labels are missing and spurious: as given, or as learned.
    gamma_ : float
        The width of the kernel "rbf".
    nystroem_ : Nystroem
        The features of the kernel; not with the linear kernel.
    approximate_bags_ : ndarray of int
        The training bags whose posterior was approximated.
    left_out_ : ndarray of int
        The training bags whose label set is impossible in the model.
    objective_curve_ : ndarray of shape (n_iterations,)
        Minus the objective above after each iteration; never rises.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    Notes
    -----
    A bag with more labels than instances, and without `background` one with none, has probability
    zero, unless labels may be spurious, or missing: it is left out of the fit with a warning.
    :meth:`annotate` names its instances by the likeliest label of the set (of all, where the set is
    empty). The same holds where known instances leave fewer other instances than labels of the set
    that they do not have.

    The posterior of a bag is found by a forward-backward pass over the subsets of its label set
    (bit masks), all terms non-negative; in logarithms where probabilities underflow. The table is
    kept at every sqrt(n)-th instance only when it is long. Bags run in parallel.

    The likelihood is not concave. The fit begins at W = 0: with the linear kernel nothing is
    random.

    References
    ----------
    Pham, Raich, Fern. Efficient instance annotation in multi-instance learning. IEEE SSP 2014.

    Examples
    --------
    >>> from bagwise.annotation import ORedLogisticRegression
    >>> bags = [[[0.0], [3.1]], [[0.2], [0.1]], [[2.9], [0.1], [3.0]], [[3.2]]]
    >>> label_sets = [{"wren", "robin"}, {"wren"}, {"robin", "wren"}, {"robin"}]
    >>> model = ORedLogisticRegression().fit(bags, label_sets)
    >>> model.annotate([[[0.0], [1.4]]], [{"robin", "wren"}])
    array(['wren', 'robin'], dtype='<U5')
    >>> model.predict_instances([[[0.0], [1.4]]])
    array(['wren', 'wren'], dtype='<U5')
    """

    _runs_elsewhere = ("cluster", "device")

    _parameter_constraints = {
        "reg": [StrOptions({"auto"}), NOT_NEGATIVE],
        "kernel": [StrOptions({"linear", "rbf"}), callable],
        "n_components": [COUNT],
        "select": ["boolean"],
        "missing": [StrOptions({"learn"}), Interval(Real, 0, 1, closed="left")],
        "spurious": [StrOptions({"learn"}), Interval(Real, 0, 1, closed="left")],
        "background": "no_validation",  # a label may be anything
        "solver": [StrOptions({"lbfgs", "em", "gem"})],
        "max_operations": [NOT_NEGATIVE],
        "warm_start": ["boolean"],
    }

    reg: float | str = "auto"
    _: KW_ONLY
    kernel: Any = "linear"
    n_components: int = 300
    gamma: float | str = "scale"
    select: bool = False
    missing: float | str = 0.0
    spurious: float | str = 0.0
    background: Any = False
    solver: str = "lbfgs"
    fit_intercept: bool = True
    class_weight: Any = None
    max_iter: int = 1000
    tol: float = 1e-5
    max_operations: float = 1e9
    warm_start: bool = False
    random_state: Any = None
    checkpoint: Any = None
    verbose: int = 0

    @property
    def instance_pooling(self) -> str:  # type: ignore[override]
        """How instance scores make the score of the bag.

        One label per bag: their sum, log P(all instances are c). Label sets: "noisy-or", from the
        log-odds of instances to those that some instance is c. With `background` and one label per
        bag the score is log P(all instances are c or background, some is c), which no pooling of
        scores gives.
        """
        return "noisy-or" if self.label_kind_ == "sets" else "sum"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(ADDED | state)

    def _fitted_state(self) -> FittedState:
        n_columns = len(self.classes_) + (self.background_label_ is not None)
        kernel: FittedState = {}
        if hasattr(self, "nystroem_"):
            kernel = {"gamma_": Number(low=0, optional=True), "nystroem_": Model("transform")}
        return (
            super()._fitted_state()
            | kernel
            | {
                "coef_": Floats(n_columns, "n_landmarks" if kernel else "n_features_in_"),
                "intercept_": Floats(n_columns, low=-np.inf),  # -inf: a class that no bag carries
                "background_label_": Anything(),
                # bagwise 0.1 had none of these
                "reg_": Number(low=0, optional=True),
                "missing_": Number(low=0, optional=True),
                "spurious_": Number(low=0, optional=True),
                "approximate_bags_": Integers(None, low=0),
                "left_out_": Integers(None, low=0),
            }
        )

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None, instance_labels: Any = None) -> Self:
        """Learn from label sets.

        Parameters
        ----------
        {X}
        y : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag; bags of unknown label set (None, a row of -1) do not count.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags.
        instance_labels : array-like of shape (n_instances,), default=None
            Labels of instances that somebody looked at, each of its bag's label set or the
            background; None (or -1, unless that is a class) for all others. They count also where
            the label set is unknown.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = check_label_sets(y, bags)
        weights = check_sample_weight(sample_weight, bags)
        weights = weights * self._label_weights(labels)
        background_label = self._background_label(labels.classes)
        background = background_label is not None
        given = check_instance_labels(instance_labels, bags, labels, background=background_label)
        instance_codes = None if given is None else given.codes
        rates = first_rates(self.missing, self.spurious)
        bag_sets = self._bag_sets(bags, labels.indicator, background, instance_codes, rates)
        _warn_of_impossible(bag_sets, bags)
        _warn_of_approximation(bag_sets, bags)
        has_labels = labels.known | (bag_sets.n_known_instances > 0)
        used = has_labels & ~bag_sets.impossible & (weights > 0)
        if not used.any():
            raise LabelError(
                "there is no bag to learn from: all have an unknown or impossible label set, or "
                "weight 0."
            )
        n_columns = len(labels.classes) + background
        shown = (labels.indicator[used] == 1).any(axis=0)
        used_codes = column_codes = None
        if instance_codes is not None:
            used_codes = instance_codes[np.repeat(used, bags.sizes)]
            shown[used_codes[(used_codes >= 0) & (used_codes < len(shown))]] = True
        seen = np.flatnonzero(shown)
        columns = np.append(seen, np.arange(n_columns - background, n_columns))
        if used_codes is not None:  # a position among the columns learned
            column_codes = np.where(used_codes < 0, -1, np.searchsorted(columns, used_codes))
        known, sets = bags if used.all() else bags[used], labels.indicator[np.ix_(used, seen)]
        start = self._start(labels.classes, columns, background)
        training = known, sets, weights[used], column_codes
        reg, nystroem = self._setting(training, warm=start is not None)
        missing = self.missing
        if isinstance(missing, str):
            gamma = nystroem.gamma if self.kernel == "rbf" and nystroem is not None else 1.0
            missing = self._learned_missing(training, gamma, reg)
        features = known if nystroem is None else kernel_bags(nystroem, known)
        check_fit_memory(features, len(columns), keeps_posterior=self.solver != "lbfgs")
        with one_core_if_few_instances(features):
            result = ored_logistic(
                features,
                sets,
                background=background,
                max_operations=self.max_operations,
                weights=weights[used],
                reg=reg,
                fit_intercept=self.fit_intercept,
                solver=self.solver,
                max_iter=self.max_iter,
                tol=self.tol,
                instance_codes=column_codes,
                missing=missing,
                spurious=self.spurious,
                start=start,
                track=partial(self._track, task="iteration"),
                checkpoint=self.checkpoint,
            )
        self._keep_progress(result, "raise max_iter or reg, or standardise the instances")
        self._drop("gamma_", "nystroem_")
        if nystroem is not None:
            self.nystroem_ = nystroem
            if self.kernel == "rbf":
                self.gamma_ = float(nystroem.gamma)
        self.reg_ = reg
        self.coef_ = np.zeros((n_columns, features.n_features), result.solution[0].dtype)
        self.intercept_ = np.full(n_columns, -np.inf, result.solution[1].dtype)
        self.coef_[columns], self.intercept_[columns], learned = result.solution
        self.missing_, self.spurious_ = learned.tolist()
        self.classes_, self.label_kind_ = labels.classes, labels.kind
        self.background_label_ = background_label
        self.approximate_bags_ = np.flatnonzero(bag_sets.approximate & used)
        self.left_out_ = np.flatnonzero(bag_sets.impossible)
        return self

    def predict_instances(self, X: Any, *, background_above: float | None = None) -> Array:
        """Predict the class of each instance, its bag unseen (inductive, Eq. 15).

        Parameters
        ----------
        {X}
        background_above : float, default=None
            As in :meth:`annotate`.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``, or ``background_label_``.
        """
        return self._named(self.predict_proba_instances(X), background_above)

    def _score(self, bags: Bags) -> Array:
        """Log-probabilities of the classes; log-odds for a model fitted on label sets."""
        log_p = self._log_probabilities(bags)
        scores = log_p - _log_of_others(log_p) if self._has_label_sets else log_p
        return scores[:, : len(self.classes_)]

    def _bag_scores(self, bags: Bags) -> Array:
        if self._has_label_sets or self.background_label_ is None:
            return super()._bag_scores(bags)
        log_p = self._log_probabilities(bags)
        n_classes = len(self.classes_)
        with np.errstate(divide="ignore"):
            # P(all are c or background) - P(all are background), without cancellation.
            beyond = np.log1p(np.exp(log_p[:, :n_classes] - log_p[:, n_classes:]))
            beyond = compiled.segments.sum(beyond, bags.offsets)
            nothing = compiled.segments.sum(log_p[:, n_classes:], bags.offsets)
            return nothing + beyond + np.log(-np.expm1(-beyond))

    def _probabilities(self, scores: Array) -> Array:
        return expit(scores) if self._has_label_sets else softmax(scores, axis=1)

    def _instance_probabilities(self, bags: Bags) -> Array:
        """With `background` one more column, the last."""
        return softmax(self._logits(bags), axis=1)

    def _log_probabilities(self, bags: Bags) -> Array:
        return log_softmax(self._logits(bags).astype(np.float64), axis=1)

    def _logits(self, bags: Bags) -> Array:
        if hasattr(self, "nystroem_"):
            return kernel_product(self.nystroem_, bags.instances, self.coef_) + self.intercept_
        return to_numpy(product(bags.instances, self.coef_)) + self.intercept_

    def annotate(
        self,
        X: Any,
        label_sets: Any,
        *,
        instance_labels: Any = None,
        background_above: float | None = None,
    ) -> Array:
        """Name each instance by its likeliest label, given the label set of its bag (Eq. 16).

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            What is known of each bag. Where nothing is known (None, or a row of -1) all labels are
            possible.
        instance_labels : array-like of shape (n_instances,), default=None
            Labels of instances that somebody looked at, each of its bag's label set or
            ``background_label_``; None (or -1, unless that is a class) for all others.
        background_above : float, default=None
            With `background`: the probability above which an instance is called so, 0.5 for
            instance. By default only where no label is possible: the likelihood gives background
            most of what no label needs, true instances of the labels among it.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``, or ``background_label_``.
        """
        posterior, _ = self._posterior(X, label_sets, instance_labels)
        return np.concatenate([self._named(block, background_above) for block in posterior])

    def annotate_proba(self, X: Any, label_sets: Any, *, instance_labels: Any = None) -> Array:
        """Probability of each label for each instance, given the label set of its bag.

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            What is known of each bag, as in :meth:`annotate`.
        instance_labels : array-like of shape (n_instances,), default=None
            What is known of instances, as in :meth:`annotate`.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
            In the order of ``classes_``; with `background` one more column, the last. Rows sum to
            1, and are 0 outside the label set unless labels may be `missing`.
        """
        return np.concatenate(self._posterior(X, label_sets, instance_labels)[0])

    def log_likelihood(self, X: Any, label_sets: Any, *, instance_labels: Any = None) -> Array:
        """Log-probability of each label set.

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            Their label sets.
        instance_labels : array-like of shape (n_instances,), default=None
            What is known of instances, as in :meth:`annotate`: the probability is that of the
            label set and of these labels.

        Returns
        -------
        ndarray of shape (n_bags,)
            log P(Y | X); 0 where nothing is known, -inf where the label set is impossible.
        """
        return np.concatenate(self._posterior(X, label_sets, instance_labels)[1])

    def _named(self, proba: Array, background_above: float | None) -> Array:
        """The likeliest label of each row, or background."""
        labels = proba[:, : len(self.classes_)]
        named = self.classes_[labels.argmax(axis=1)]
        if self.background_label_ is None:
            return named
        limit = 1.0 if background_above is None else background_above
        unnamed = (proba[:, -1] > limit) | ~labels.any(axis=1)
        names = np.append(self.classes_, [self.background_label_])
        return np.where(unnamed, names[-1], named.astype(names.dtype))

    def _posterior(
        self, X: Any, label_sets: Any, instance_labels: Any
    ) -> tuple[list[Array], list[Array]]:
        """Posterior labels of the instances and log-likelihoods of the bags, block by block."""
        infer_labels = partial(self._infer, label_sets=label_sets, instance_labels=instance_labels)
        return self._evaluate(X, infer_labels, by_partition=False, scores=True)

    def _infer(
        self, bags: Bags, label_sets: Any, instance_labels: Any
    ) -> tuple[list[Array], list[Array]]:
        sets = check_label_sets(label_sets, bags, classes=self.classes_)
        background = self.background_label_
        given = check_instance_labels(instance_labels, bags, sets, background=background)
        instance_codes = None if given is None else given.codes
        rates = getattr(self, "missing_", 0.0), getattr(self, "spurious_", 0.0)
        has_background = background is not None
        bag_sets = self._bag_sets(bags, sets.indicator, has_background, instance_codes, rates)
        _warn_of_approximation(bag_sets, bags)
        posterior, log_likelihood, n_unsettled = [], [], 0
        for block, logits in self._logit_blocks(bags, bag_sets):
            proba, value, settled = posteriors(bag_sets, block, logits)
            n_unsettled += int((~settled).sum())
            posterior.append(proba)
            log_likelihood.append(value)
        if n_unsettled:
            warn_user(
                f"belief propagation did not converge in {n_unsettled} of {len(bags)} bags: raise "
                "max_operations for exact posteriors.",
                ConvergenceWarning,
            )
        return posterior, log_likelihood

    def _logit_blocks(self, bags: Bags, bag_sets: BagLabelSets) -> Iterator[tuple[slice, Array]]:
        """Bags and the logits of their instances, by block; finite also for unseen classes."""
        lowest = np.where(np.isfinite(self.intercept_), 0.0, -UNSEEN)
        blocks = list(bag_sets.blocks(len(self.intercept_)))
        for (block, _), found in zip(blocks, over_blocks(self._logits, bags, blocks), strict=True):
            logits = found.astype(np.float64)
            floor = np.min(logits, axis=1, keepdims=True, where=np.isfinite(logits), initial=0.0)
            yield block, np.where(np.isfinite(logits), logits, floor + lowest)

    def _bag_sets(
        self,
        bags: Bags,
        indicator: Ints,
        background: bool,
        instance_codes: Ints | None,
        rates: Rates,
    ) -> BagLabelSets:
        sets = BagLabelSets(bags.offsets, indicator, background, self.max_operations)
        if instance_codes is not None:
            sets = replace(sets, instance_codes=instance_codes)
        return sets.with_rates(*rates)

    def _start(self, classes: Array, columns: Ints, background: bool) -> tuple[Array, Array] | None:
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        nystroem = getattr(self, "nystroem_", None)
        n_features = self.coef_.shape[1] if nystroem is None else nystroem.n_features_in_
        kernel = "linear" if nystroem is None else nystroem.kernel
        same_features = kernel == self.kernel and n_features == self.n_features_in_
        same_features &= nystroem is None or not self.select
        same = np.array_equal(self.classes_, classes) and len(self.coef_) == (
            len(classes) + background
        )
        if not (same and same_features):
            return None
        intercept = self.intercept_[columns]
        return self.coef_[columns], np.where(np.isfinite(intercept), intercept, 0.0)

    def _setting(self, training: Training, *, warm: bool) -> tuple[float, Nystroem | None]:
        """The penalty and the features of the kernel: given, selected, or those of the last fit."""
        reg = LINEAR_REG if self.kernel == "linear" else KERNEL_REG
        if not isinstance(self.reg, str):
            reg = self.reg
        if warm and self.kernel != "linear":
            return reg, self.nystroem_
        bags = training[0]
        rng = check_random_state(self.random_state)
        gamma = width_of(self.gamma, bags) if self.kernel == "rbf" else 1.0
        if self.select:
            gamma, reg = self._selected(training, gamma, reg, rng)
        if self.kernel == "linear":
            return reg, None
        return reg, nystroem_of_bags(self, gamma, self.n_components, rng, bags)

    def _selected(
        self, training: Training, gamma: float, reg: float, rng: np.random.RandomState
    ) -> tuple[float, float]:
        """The width, then the penalty, under which held-out bags are most likely."""
        folds = rng.permutation(len(training[0])) % N_FOLDS
        seed = rng.randint(2**31)
        held_out = partial(self._held_out, training, folds, seed)
        values: dict[tuple[float, float], float] = {}

        def value(setting: tuple[float, float]) -> float:
            if setting not in values:
                values[setting] = held_out(*setting)
            return values[setting]

        if self.kernel == "rbf":
            gamma, reg = max([(gamma * factor, reg) for factor in WIDTHS], key=value)
        return max([(gamma, reg * factor) for factor in PENALTIES], key=value)

    def _held_out(
        self, training: Training, folds: Ints, seed: int, gamma: float, reg: float
    ) -> float:
        """Log-likelihood of the label sets of bags that a model did not see."""
        models = self._by_fold(training, folds, seed, gamma=gamma, reg=reg)
        return sum(
            float(weights @ model.log_likelihood(bags, sets))
            for model, bags, sets, weights in models
        )

    def _learned_missing(self, training: Training, gamma: float, reg: float) -> float:
        """The rate of missing labels by EM, its E-step on bags that the model did not see.

        On training bags a flexible model explains every set, and finds too few labels missing.
        """
        rng = check_random_state(self.random_state)
        folds, seed = rng.permutation(len(training[0])) % N_FOLDS, rng.randint(2**31)
        rate = FIRST_RATES[0]
        for _ in range(HELD_OUT_STEPS):
            setting = {"gamma": gamma, "reg": reg, "missing": rate, "select": False}
            if isinstance(self.spurious, str):
                setting["spurious"] = 0.0
            counts = np.zeros(3)
            for model, bags, sets, weights in self._by_fold(training, folds, seed, **setting):
                counts += weights @ model._report_counts(bags, sets)
            if counts[:2].sum() == 0:
                break
            last, rate = rate, float(np.clip(counts[0] / counts[:2].sum(), *RATE_RANGE))
            if abs(rate - last) <= 0.1 * last or rate <= NEGLIGIBLE:
                break
        return rate

    def _by_fold(
        self, training: Training, folds: Ints, seed: int, **params: Any
    ) -> Iterator[tuple[Any, Bags, Ints, Array]]:
        """Models fitted on all folds but one, with the bags, sets and weights of that one.

        A set with a label that the other folds do not show is left out: its probability is 0
        whatever the parameters are.
        """
        bags, sets, weights, codes = training
        n_labels, fold_of_instances = sets.shape[1], np.repeat(folds, bags.sizes)
        if n_labels < 2:
            raise LabelError(
                "there is one label: expected two or more to select a setting, or to learn how "
                "often labels are missing."
            )
        model = clone(self).set_params(
            select=False, class_weight=None, warm_start=False, checkpoint=None, verbose=0,
            background=n_labels if self.background is not False else False, random_state=seed,
            tol=max(self.tol, SELECTING_TOL),
        )  # fmt: skip
        model.set_params(**({"missing": 0.0, "spurious": 0.0} | params))
        for fold in range(min(N_FOLDS, len(bags)) if len(bags) > 1 else 0):
            inside, outside = folds != fold, folds == fold
            known = None if codes is None else codes[fold_of_instances != fold]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the same warnings come from the fit itself
                model.fit(bags[inside], sets[inside], weights[inside], known)
                unseen = ~np.isfinite(model.intercept_[:n_labels])
                chosen = np.flatnonzero(outside & ~(sets[:, unseen] == 1).any(axis=1))
                if len(chosen):
                    yield model, bags[chosen], sets[chosen], weights[chosen]

    def _report_counts(self, bags: Bags, sets: Ints) -> Array:
        """Expected numbers of wrong and right reports: see `report_counts`."""
        background = self.background_label_ is not None
        bag_sets = self._bag_sets(bags, sets, background, None, (self.missing_, self.spurious_))
        blocks = self._logit_blocks(bags, bag_sets)
        counts = np.concatenate([report_counts(bag_sets, *block) for block in blocks])
        counts[bag_sets.impossible] = 0.0
        return counts

    def _background_label(self, classes: Array) -> Any:
        if self.background is False:
            return None
        numeric = classes.dtype.kind in "iufb"
        name = (-1 if numeric else "background") if self.background is True else self.background
        if name in classes.tolist():
            raise LabelError(
                f"{name!r} is a label already: name the background otherwise, with background=..."
            )
        return name

    def _label_weights(self, labels: Labels) -> Array:
        """Weight of each bag: the mean of its labels' weights."""
        carried = labels.indicator == 1
        counts = carried.sum(axis=0)
        if self.class_weight is None:
            return np.ones(len(carried))
        if isinstance(self.class_weight, str):
            each = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
        else:
            each = np.array([self.class_weight.get(name, 1.0) for name in labels.classes.tolist()])
        n_labels = carried.sum(axis=1)
        return np.where(n_labels > 0, carried @ each / np.maximum(n_labels, 1), 1.0)


def _log_of_others(log_p: Array) -> Array:
    """Logarithm of 1 - p; for the likeliest class, where that cancels, as a sum of the others."""
    with np.errstate(divide="ignore"):
        others = np.log(-np.expm1(log_p))
        likeliest = np.arange(len(log_p)), log_p.argmax(axis=1)
        rest = log_p.copy()
        rest[likeliest] = -np.inf
        others[likeliest] = logsumexp(rest, axis=1)
    return others


def _warn_of_impossible(bag_sets: BagLabelSets, bags: Bags) -> None:
    chosen = np.flatnonzero(bag_sets.impossible)
    if len(chosen):
        warn_user(
            f"{len(chosen)} of {len(bags)} bags are left out, since the model gives their label "
            f"set probability zero: more labels than instances to show them, or no label at all "
            f"and no background=True ({_names_of(chosen, bags)}).",
            UserWarning,
        )


def _warn_of_approximation(bag_sets: BagLabelSets, bags: Bags) -> None:
    chosen = np.flatnonzero(bag_sets.approximate)
    if len(chosen):
        warn_user(
            f"{len(chosen)} of {len(bags)} bags have too many labels for exact inference and are "
            f"approximated by belief propagation ({_names_of(chosen, bags)}); max_operations sets "
            "the limit.",
            UserWarning,
        )


def _names_of(chosen: Ints, bags: Bags) -> str:
    names = ", ".join(bags.name_of(i) for i in chosen[:5])
    return names if len(chosen) <= 5 else f"{names} and {len(chosen) - 5} more"


def check_fit_memory(bags: Bags, n_classes: int, *, keeps_posterior: bool) -> None:
    """Refuse a fit that would not fit into memory.

    Parameters
    ----------
    bags : Bags
        The bags.
    n_classes : int
        Classes with a weight vector.
    keeps_posterior : bool
        Whether the posterior of all instances is held at once.
    """
    there, n_instances = memory_of_parts(bags)
    rows = n_instances if keeps_posterior else int(bags.sizes.max())
    scores = 24 * max(rows * n_classes, min(BLOCK, n_instances * n_classes))
    vectors = 8 * VECTORS * n_classes * (bags.n_features + 1)
    products = 4e-9 * bags.n_instances * n_classes * bags.n_features
    require = partial(
        require_memory,
        purpose=f"a fit of {n_classes:,} classes with {bags.n_features:,} features (each pass "
        f"multiplies {products:.1f} billion numbers)",
        remedy="leave out rare labels, or reduce the features first",
    )
    require(vectors + (scores if there is None else 0))
    if there is not None:  # scores are held by the workers, or on the device
        require(scores, available=there)
