"""ORedLogisticRegression (ORLR): exact probabilities of instance labels from bag label sets."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, replace
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise import compiled
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Bools, Ints
from bagwise._common.warnings import warn_user
from bagwise._validation import (
    check_bags,
    check_instance_labels,
    check_label_sets,
    check_sample_weight,
)
from bagwise.annotation._annotator import AnnotatorMixin
from bagwise.annotation._held_out import Training, learn_missing_rate
from bagwise.annotation._kernel_features import (
    KERNEL_CONSTRAINTS,
    KernelFeaturesMixin,
    check_fit_memory,
)
from bagwise.bags import Bags
from bagwise.base import fit_method
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.base._scoring import log_odds_of
from bagwise.engines import one_core_if_few_instances, over_blocks
from bagwise.exceptions import LabelError
from bagwise.labels import Labels
from bagwise.solvers.annotation.orlr import first_rates, ored_logistic
from bagwise.solvers.annotation.orlr_parts import (
    BagLabelSets,
    Rates,
    posteriors,
    report_counts,
)
from bagwise.solvers.result import SolverResult

# A class without training bags has probability zero. If the label set of a new bag contains it, its
# logit is this much lower than the others, instead of minus infinity.
UNSEEN = 1e4


@with_parameters
class ORedLogisticRegression(AnnotatorMixin, KernelFeaturesMixin):
    r"""Logistic regression of instances, learned from the label sets of bags (Pham 2014).

    An instance has label c with probability :math:`p_c(x) = \mathrm{softmax}(W x + b)_c`, and the
    label set of a bag is the union ("OR") of the labels of its instances. The fit solves

    .. math:: \max_{W, b} \sum_b \log P(Y_b \mid X_b, W, b) - \tfrac{\lambda}{2} |W|^2

    where P sums over all labelings of the instances that make exactly :math:`Y_b`. The sum is
    exact, at a cost linear in the number of instances. Standardise the instances first.

    With a kernel, x is replaced by Nystroem features: the model is then as flexible as a kernel
    SVM. The weights of the linear model can be interpreted; "rbf" is more accurate if there are
    enough bags.

    Known labels of some instances are kept fixed: P is then the probability of the label set and
    of these labels.

    Label sets may be wrong. With `missing` and `spurious`, P(Y) is the probability that Y is
    reported, with missing and additional labels.

    Parameters
    ----------
    {annotator_reg}
    {annotator_kernel}
    {annotator_components}
    {annotator_gamma}
    {select}
    missing : float or "learn", default=0.0
        Probability that the label of an instance is not reported in the label set of its bag: an
        instance can have a label outside the set. "learn" estimates it by EM on held-out bags
        (three folds), which takes about six times as long.
    spurious : float or "learn", default=0.0
        Probability that a label is listed in the set although no instance reports it. "learn"
        estimates it by EM.
    background : bool or label, default=False
        Add a class for instances that have none of the labels. It may be in any bag and is in no
        label set; its probabilities are the last column. Its name is -1 (numeric labels) or
        "background" (texts). Give another name instead of True if that is a label already, or if
        `instance_labels` contains background, since -1 means "unknown" there.
    solver : {"lbfgs", "em", "gem"}, default="lbfgs"
        L-BFGS on the likelihood itself; EM with a full M-step; or the paper's generalised EM with
        one gradient step per posterior. All maximise the same likelihood; L-BFGS is the fastest.
    fit_intercept : bool, default=True
        Whether to fit b.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels; the weight of a bag is their mean over its label set. "balanced":
        inverse to the number of bags with the label.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Largest entry of the gradient, divided by the number of instances, at the end.
    max_operations : float, default=1e9
        Exact inference takes instances x subsets x labels operations (n k 2^k, less if a bag has
        only a few more instances than labels), about a nanosecond each. Bags that need more, or a
        table of more than 512 MB, are approximated by belief propagation, with a warning.
    warm_start : bool, default=False
        Start from the solution of the last fit, if classes and features are the same. A kernel
        keeps its width and landmarks.
    random_state : int, RandomState or None, default=None
        Draws the landmarks of a kernel, and the folds of `select`. A fit that is to be resumed from
        a checkpoint needs a number.
    {checkpoint}
    {verbose}

    Attributes
    ----------
    {classes_}
    {label_kind_}
    coef_ : ndarray of shape (n_classes, n_features) or (n_classes, n_components)
        W; with `background` one more row, the last.
    intercept_ : ndarray of shape (n_classes,)
        b; -inf for a class that no training bag has, which is never predicted. With `background`
        one more, the last.
    background_label_ : object
        The name of the background class; None without `background`.
    reg_ : float
        The penalty of the fit.
    missing_, spurious_ : float
        Rates of missing and spurious labels, as given or as learned.
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
    A bag with more labels than instances has probability zero, unless labels may be `spurious`.
    Without `background`, so does an empty set, unless labels may be `missing`. Such bags are left
    out of the fit with a warning, and :meth:`annotate` returns the most probable label of the set
    (of all labels, with a warning, if it is empty). The same holds if the instances of unknown
    label are fewer than the labels of the set that no known instance has.

    The posterior of a bag is computed by a forward-backward pass over the subsets of its label set
    (bit masks). All terms are non-negative; logarithms are used if probabilities underflow. A long
    table is stored at every sqrt(n)-th instance only. Bags are processed in parallel.

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
    _may_be_infinite = ("intercept_",)  # -inf: a class that no training bag has
    _kernel_reg = 0.01

    _parameter_constraints = {
        **KERNEL_CONSTRAINTS,
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
    gamma: float | str = "half_scale"
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
        """How instance scores are pooled into the score of the bag.

        With one label per bag, the sum is log P(all instances are c). With label sets, "noisy-or"
        maps the log-odds of the instances to the log-odds that some instance is c. With one label
        per bag and `background`, the bag score is log P(all instances are c or background, some is
        c), which no pooling of instance scores computes.
        """
        return "noisy-or" if self.label_kind_ == "sets" else "sum"

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
            Known labels of instances, each in the label set of its bag or the background; None (or
            -1, unless that is a class) for all others. They are also used if the label set of the
            bag is unknown.

        Returns
        -------
        self
        """
        bags = check_bags(self, X, reset=True)
        labels = check_label_sets(y, bags)
        weights = check_sample_weight(sample_weight, bags) * self._label_weights(labels)
        background_label = self._background_label(labels.classes)
        background = background_label is not None
        known = check_instance_labels(instance_labels, bags, labels, background=background_label)
        codes = None if known is None else known.codes
        rates = first_rates(self.missing, self.spurious)
        bag_sets = self._bag_sets(bags, labels.indicator, background, codes, rates)
        _warn_of_impossible(bag_sets, bags)
        _warn_of_approximation(bag_sets, bags)
        used = _bags_to_learn_from(bag_sets, weights)
        columns = _columns_to_learn(bag_sets, used)
        training = _training(bags, bag_sets, weights, used, columns)
        start = self._start(labels.classes, columns, background)
        reg, nystroem = self._setting(training, warm=start is not None)
        training = training.with_features(nystroem)
        check_fit_memory(training.bags, len(columns), keeps_posterior=self.solver != "lbfgs")
        result = self._solved(training, reg, start)
        self._keep_progress(result, "raise max_iter or reg, or standardise the instances")
        self._keep_kernel(nystroem)
        coef, intercept, learned_rates = result.solution
        n_columns = len(labels.classes) + background
        self.reg_ = reg
        self.coef_ = np.zeros((n_columns, coef.shape[1]), coef.dtype)
        self.intercept_ = np.full(n_columns, -np.inf, intercept.dtype)
        self.coef_[columns], self.intercept_[columns] = coef, intercept
        self.missing_, self.spurious_ = learned_rates.tolist()
        self.classes_, self.label_kind_ = labels.classes, labels.kind
        self.background_label_ = background_label
        self.approximate_bags_ = np.flatnonzero(bag_sets.approximate & used)
        self.left_out_ = np.flatnonzero(bag_sets.impossible)
        return self

    def predict_instances(self, X: Any, *, background_above: float | None = None) -> Array:
        """Predict the class of each instance, without the label set of its bag (inductive, Eq. 15).

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
        scores = log_odds_of(log_p) if self._has_label_sets else log_p
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
        """Class probabilities; with `background`, it has an additional last column."""
        return softmax(self._linear_scores(bags), axis=1)

    def _log_probabilities(self, bags: Bags) -> Array:
        return log_softmax(self._linear_scores(bags).astype(np.float64), axis=1)

    def annotate(
        self,
        X: Any,
        label_sets: Any,
        *,
        instance_labels: Any = None,
        background_above: float | None = None,
    ) -> Array:
        """Return the most probable label of each instance, given the label set of its bag (Eq. 16).

        Parameters
        ----------
        {X}
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, or one label per bag
            The label set of each bag. All labels are possible in a bag whose set is unknown (None,
            or a row of -1). An empty set is possible only with `background`, or if labels may be
            `missing`; otherwise it counts as unknown, with a warning.
        instance_labels : array-like of shape (n_instances,), default=None
            Known labels of instances, each in the label set of its bag or ``background_label_``;
            None (or -1, unless that is a class) for all others.
        background_above : float, default=None
            With `background`: the probability of background above which an instance is annotated
            as background, e.g. 0.5. By default an instance is background only if no label is
            possible: the model overestimates the probability of background, because one instance
            is enough to explain a label of the set.

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
            The label set of each bag, as in :meth:`annotate`.
        instance_labels : array-like of shape (n_instances,), default=None
            Known labels of instances, as in :meth:`annotate`.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
            In the order of ``classes_``; with `background` one more column, the last. Rows sum to
            1, and are 0 outside the label set unless labels may be `missing`, or the set counts as
            unknown.
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
            Known labels of instances, as in :meth:`annotate`: the probability is that of the
            label set and of these labels.

        Returns
        -------
        ndarray of shape (n_bags,)
            log P(Y | X); 0 for an unknown set, -inf for an impossible one.
        """
        return np.concatenate(self._posterior(X, label_sets, instance_labels, annotate=False)[1])

    def _named(self, proba: Array, background_above: float | None) -> Array:
        """Most probable label of each instance, or background."""
        labels = proba[:, : len(self.classes_)]
        named = self.classes_[labels.argmax(axis=1)]
        if self.background_label_ is None:
            return named
        limit = 1.0 if background_above is None else background_above
        unnamed = (proba[:, -1] > limit) | ~labels.any(axis=1)
        names = np.append(self.classes_, [self.background_label_])
        return np.where(unnamed, names[-1], named.astype(names.dtype))

    def _posterior(
        self, X: Any, label_sets: Any, instance_labels: Any, *, annotate: bool = True
    ) -> tuple[list[Array], list[Array]]:
        """Posteriors of the instance labels and log-likelihoods of the bags, in blocks."""
        infer_labels = partial(
            self._infer, label_sets=label_sets, instance_labels=instance_labels, annotate=annotate
        )
        return self._evaluate(X, infer_labels, by_partition=False, scores=True)

    def _infer(
        self, bags: Bags, label_sets: Any, instance_labels: Any, annotate: bool
    ) -> tuple[list[Array], list[Array]]:
        sets = check_label_sets(label_sets, bags, classes=self.classes_)
        background = self.background_label_
        given = check_instance_labels(instance_labels, bags, sets, background=background)
        instance_codes = None if given is None else given.codes
        rates = getattr(self, "missing_", 0.0), getattr(self, "spurious_", 0.0)
        has_background = background is not None
        bag_sets = self._bag_sets(bags, sets.indicator, has_background, instance_codes, rates)
        _warn_of_approximation(bag_sets, bags)
        if annotate:
            _warn_of_empty(bag_sets, bags)
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
        """Yield blocks of bags with the logits of instances, finite even for unseen classes."""
        lowest = np.where(np.isfinite(self.intercept_), 0.0, -UNSEEN)
        blocks = list(bag_sets.blocks(len(self.intercept_)))
        for (block, _), found in zip(
            blocks, over_blocks(self._linear_scores, bags, blocks), strict=True
        ):
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

    def _solved(
        self, features: Training, reg: float, start: tuple[Array, Array] | None
    ) -> SolverResult:
        missing = self.missing
        if isinstance(missing, str):
            rng = check_random_state(self.random_state)
            missing = learn_missing_rate(self, features, reg, rng)
        with one_core_if_few_instances(features.bags):
            return ored_logistic(
                features.bags,
                features.sets,
                background=self.background is not False,
                max_operations=self.max_operations,
                weights=features.weights,
                reg=reg,
                fit_intercept=self.fit_intercept,
                solver=self.solver,
                max_iter=self.max_iter,
                tol=self.tol,
                instance_codes=features.codes,
                missing=missing,
                spurious=self.spurious,
                start=start,
                track=partial(self._track, task="iteration"),
                checkpoint=self.checkpoint,
            )

    def _report_counts(self, bags: Bags, sets: Ints) -> Array:
        """Expected numbers of wrong and correct reports; see `report_counts`."""
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
                f"{name!r} is already a label: choose another name with background=..."
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


def _bags_to_learn_from(bag_sets: BagLabelSets, weights: Array) -> Bools:
    has_labels = bag_sets.has_label_set | (bag_sets.n_known_instances > 0)
    used = has_labels & ~bag_sets.impossible & (weights > 0)
    if not used.any():
        raise LabelError(
            "there is no bag to learn from: all have an unknown or impossible label set, or "
            "weight 0."
        )
    return used


def _columns_to_learn(bag_sets: BagLabelSets, used: Bools) -> Ints:
    """Classes that some bag or known instance has, and the background."""
    n_labels = bag_sets.indicator.shape[1]
    shown = np.append((bag_sets.indicator[used] == 1).any(axis=0), bag_sets.background)
    codes = _codes_of(bag_sets, used)
    if codes is not None:
        shown[codes[codes >= 0]] = True
    return np.flatnonzero(shown[: n_labels + bag_sets.background])


def _codes_of(bag_sets: BagLabelSets, used: Bools) -> Ints | None:
    """Known classes of the instances of the used bags (-1: unknown), or None if none is given."""
    if not len(bag_sets.instance_codes):
        return None
    return bag_sets.instance_codes[np.repeat(used, np.diff(bag_sets.offsets))]


def _training(
    bags: Bags, bag_sets: BagLabelSets, weights: Array, used: Bools, columns: Ints
) -> Training:
    """Training data of the used bags, with classes as positions in `columns`."""
    labels = columns[: len(columns) - bag_sets.background]
    codes = _codes_of(bag_sets, used)
    if codes is not None:
        codes = np.where(codes < 0, -1, np.searchsorted(columns, codes))
    some = bags if used.all() else bags[used]
    return Training(some, bag_sets.indicator[np.ix_(used, labels)], weights[used], codes)


def _warn_of_impossible(bag_sets: BagLabelSets, bags: Bags) -> None:
    chosen = np.flatnonzero(bag_sets.impossible)
    if len(chosen):
        warn_user(
            f"{len(chosen)} of {len(bags)} bags are left out, since the model gives their label "
            f"set probability zero ({_names_of(chosen, bags)}): the bag has more labels than "
            "instances, or no label, which needs background=True.",
            UserWarning,
        )


def _warn_of_empty(bag_sets: BagLabelSets, bags: Bags) -> None:
    chosen = np.flatnonzero(bag_sets.impossible & (np.diff(bag_sets.set_offsets) == 0))
    if len(chosen):
        warn_user(
            f"{len(chosen)} of {len(bags)} bags have an empty label set, and the model has no "
            f"background class for their instances ({_names_of(chosen, bags)}): they are labelled "
            "as if the set were unknown. Fit with background=True, or leave these bags out.",
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
