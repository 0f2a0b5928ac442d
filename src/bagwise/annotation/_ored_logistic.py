"""ORedLogisticRegression (ORLR): exact probabilities of instance labels from bag label sets."""

from collections.abc import Iterator
from dataclasses import KW_ONLY
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise import loops
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Bools, Floats
from bagwise.annotation._annotator import KernelAnnotator, OneLabelEach
from bagwise.bags import Bags
from bagwise.base import fit_method
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.base._scoring import guarded
from bagwise.compute import over_blocks
from bagwise.exceptions import LabelError, warn_user
from bagwise.labels import LabelCounts, Labels
from bagwise.solvers.annotation.orlr import FIRST_MISSING, FIRST_SPURIOUS, ored_logistic
from bagwise.solvers.annotation.orlr_parts import NO_CODES, BagLabelSets, blocks_of_bags, infer
from bagwise.solvers.result import SolverResult
from bagwise.validation import check_instance_labels, check_sample_weight

# A class without training bags has probability zero. If the label set of a new bag contains it, its
# logit is this much lower than the others, instead of minus infinity.
UNSEEN = 1e4
# Warnings, with the names of the bags
IMPOSSIBLE = "are left out ({}): more labels than instances, or none, which needs background=True."
APPROXIMATE = (
    "have too many labels, or counts, for max_operations ({}): approximated by belief propagation."
)
EMPTY = "have an empty label set ({}), taken as unknown: fit with background=True?"


@with_parameters
class ORedLogisticRegression(OneLabelEach, KernelAnnotator):
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

    Less or more may be known of a bag than its label set. A label may be unknown (-1 in a 0/1
    array): an annotator did not look for it. With :class:`bagwise.labels.LabelCounts`, the number
    of instances with a label is known, or lies between bounds; also as a share of the instances. P
    is then the probability that all counts are within their bounds. All of this can be mixed.

    Label sets may be wrong. With `missing` and `spurious`, P(Y) is the probability that Y is
    reported, with missing and additional labels.

    Parameters
    ----------
    {reg}
    {kernel}
    {n_components}
    {gamma}
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
        "background" (strings). Give another name instead of True if that is a label already, or if
        `instance_labels` contains background, since -1 means "unknown" there.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        Largest entry of the gradient, divided by the number of instances, at the end.
    max_operations : float, default=1e9
        Exact inference takes instances x states x labels operations, about a nanosecond each, with
        S = 2^k states for a set of k labels (fewer are reached if a bag has only a few more
        instances than labels), and S = prod(cap + 1) for counts, where cap is the largest count of
        a label, or the least one if there is no largest. Bags that need more, or a table of more
        than 512 MB, are approximated by belief propagation, with a warning.
    random_state : int, RandomState or None, default=None
        Draws the landmarks of a kernel, and the folds on which `missing` is learned. A fit that is
        to be resumed from a checkpoint needs a number.
    {checkpoint}

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
    (of all labels, with a warning, if it is empty). The same is true if the instances of unknown
    label are fewer than the labels of the set that no known instance has.

    Counts that no labeling has (more instances needed than there are, or fewer allowed) are an
    error. They cannot be combined with `missing` and `spurious`.

    The posterior of a bag is computed by a forward-backward pass over the subsets of its label set
    (bit masks), or over counts in mixed radix; labels without a bound, and those that have reached
    it, need no state. All terms are non-negative; values are scaled, or replaced by logarithms, if
    they underflow. A long table is stored at every sqrt(n)-th instance only. Bags are processed in
    parallel.

    The penalty and the width of the kernel can be selected by the likelihood of held-out bags, for
    which no label of an instance is needed: see the example.

    The likelihood is not concave. The fit begins at W = 0: with the linear kernel nothing is
    random.

    References
    ----------
    Pham, Raich, Fern. Efficient instance annotation in multi-instance learning. IEEE SSP 2014.

    You, Raich, Fern, Kim. Weakly supervised dictionary learning. IEEE TSP 2018: upper bounds.

    Chen et al. A general framework for learning from weak supervision. ICML 2024: one kind of count
    at a time, by an automaton.

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

    >>> from bagwise.labels import LabelCounts
    >>> counts = LabelCounts.from_strings([["1", "=1"], ["0", "2"], ["2", ""], ["1", "0"]])
    >>> ORedLogisticRegression().fit(bags, counts).predict_instances([[[0.0], [3.0]]])
    array([1, 0])

    >>> from sklearn.model_selection import GridSearchCV
    >>> def held_out(model, bags, label_sets):
    ...     return model.log_likelihood(bags, label_sets).mean()
    >>> search = GridSearchCV(ORedLogisticRegression(), {"reg": [0.1, 1.0]}, scoring=held_out, cv=2)
    >>> search.fit(bags, model.predict(bags)).best_params_
    {'reg': 0.1}
    """

    _kernel_reg = 0.01
    _uses_of_sets = _annotates = "counts"

    _parameter_constraints = {
        "missing": [StrOptions({"learn"}), Interval(Real, 0, 1, closed="left")],
        "spurious": [StrOptions({"learn"}), Interval(Real, 0, 1, closed="left")],
        "background": "no_validation",  # a label may be anything
        "max_operations": [NOT_NEGATIVE],
    }

    reg: float | str = "auto"
    _: KW_ONLY
    kernel: Any = "linear"
    n_components: int = 300
    gamma: float | str = "half_scale"
    missing: float | str = 0.0
    spurious: float | str = 0.0
    background: Any = False
    max_iter: int = 1000
    tol: float = 1e-5
    max_operations: float = 1e9
    random_state: Any = None
    checkpoint: Any = None

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None, instance_labels: Any = None) -> Self:
        """Learn from label sets.

        Parameters
        ----------
        {X}
        y : 0/1 array of shape (n_bags, n_classes), list of sets, LabelCounts, or one label per bag
            The label set of each bag, -1 for a label that is unknown; bags of unknown label set
            (None, a row of -1) do not count. Or the numbers of instances with each label.
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
        return self._fit(X, (y, instance_labels), sample_weight)

    def _training_set(
        self, bags: Bags, y: Any, sample_weight: Any
    ) -> tuple[Bags, BagLabelSets, Floats]:
        label_sets, instance_labels = y
        labels = self._check_labels(label_sets, bags)
        weight = check_sample_weight(sample_weight, bags)
        self.background_label_ = self._background_label()
        self.missing_ = FIRST_MISSING if isinstance(self.missing, str) else self.missing
        self.spurious_ = FIRST_SPURIOUS if isinstance(self.spurious, str) else self.spurious
        sets = self._bag_sets(bags, labels, instance_labels)
        _warn(sets.impossible, bags, IMPOSSIBLE)
        _warn(sets.approximate, bags, APPROXIMATE)
        has_labels = sets.has_label_set.copy()
        has_labels[sets.known_instances[0]] = True
        used = has_labels & ~sets.impossible & (weight > 0)
        if not used.any():
            raise LabelError("all bags have an unknown or impossible label set, or weight 0.")
        self.approximate_bags_ = np.flatnonzero(sets.approximate & used)
        self.left_out_ = np.flatnonzero(sets.impossible)
        return (bags, sets, weight) if used.all() else (bags[used], sets[used], weight[used])

    def _solve(
        self, bags: Bags, sets: BagLabelSets, weight: Floats, rng: RandomState
    ) -> SolverResult:
        result = ored_logistic(
            self._features(bags, rng),
            sets,
            learn=[rate for rate in ("missing", "spurious") if getattr(self, rate) == "learn"],
            random_state=check_random_state(self.random_state),
            **self._options(weight),
        )
        self.coef_, self.intercept_, rates = result.solution
        self.missing_, self.spurious_ = rates.tolist()
        return result

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
        return guarded(self._named(self.predict_proba_instances(X), background_above), X)

    def _bag_scores(self, bags: Bags) -> Array:
        """Scores of bags; those of one label per bag and background need more than a pooling."""
        if self._has_label_sets or self.background_label_ is None:
            return super()._bag_scores(bags)
        log_p = self._log_probabilities(bags)
        n_classes = len(self.classes_)
        with np.errstate(divide="ignore"):
            # P(all are c or background) - P(all are background), without cancellation.
            beyond = np.log1p(np.exp(log_p[:, :n_classes] - log_p[:, n_classes:]))
            beyond = loops.segments.sum(beyond, bags.offsets)
            nothing = loops.segments.sum(log_p[:, n_classes:], bags.offsets)
            return nothing + beyond + np.log(-np.expm1(-beyond))

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
        label_sets : 0/1 array of shape (n_bags, n_classes), list of sets, LabelCounts, or one label
            The label set of each bag, -1 for a label that is unknown, or counts. All labels are
            possible in a bag whose set is unknown (None, or a row of -1). An empty set is possible
            only with `background`, or if labels may be `missing`; otherwise it counts as unknown,
            with a warning.
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
        labels = np.concatenate([self._named(block, background_above) for block in posterior])
        return guarded(labels, X)

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
        posterior, _ = self._posterior(X, label_sets, instance_labels)
        return guarded(np.concatenate(posterior), X)

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

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of labels or label sets; for counts, the mean log-likelihood of the bags.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,), 0/1 array, list of sets, or LabelCounts
            What is known of the bags.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags.

        Returns
        -------
        float
        """
        if not isinstance(y, LabelCounts):
            return super().score(X, y, sample_weight)
        bags = self._check_bags(X)
        weights = check_sample_weight(sample_weight, bags)
        return float(np.average(self.log_likelihood(bags, y), weights=weights))

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
        infer_labels = partial(self._infer, instance_labels=instance_labels, annotate=annotate)
        return self._given_sets(X, label_sets, infer_labels, scores=True)

    def _infer(
        self, bags: Bags, labels: Labels, instance_labels: Any, annotate: bool
    ) -> tuple[list[Array], list[Array]]:
        sets = self._bag_sets(bags, labels, instance_labels)
        _warn(sets.approximate, bags, APPROXIMATE)
        if annotate:
            _warn(sets.impossible & (sets.n_labels == 0), bags, EMPTY)
        found = [infer(sets, block, logits) for block, logits in self._logit_blocks(bags)]
        if n_unsettled := sum(int((~each.settled).sum()) for each in found):
            text = f"belief propagation did not converge in {n_unsettled} of {len(bags)} bags: "
            warn_user(f"{text}raise max_operations for exact posteriors.", ConvergenceWarning)
        return [each.posterior for each in found], [each.log_likelihood for each in found]

    def _logit_blocks(self, bags: Bags) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of bags with the logits of instances, finite even for unseen classes."""
        blocks = list(blocks_of_bags(bags.offsets, len(self.intercept_)))
        found = over_blocks(self._linear_scores, bags, blocks)
        for (block, _), scores in zip(blocks, found, strict=True):
            logits, seen = scores.astype(np.float64), np.isfinite(self.intercept_)
            lowest = np.min(logits, axis=1, keepdims=True, where=seen, initial=0.0)
            yield block, np.where(seen, logits, lowest - UNSEEN)

    def _bag_sets(self, bags: Bags, labels: Labels, instance_labels: Any) -> BagLabelSets:
        background = self.background_label_
        is_count, rates = labels.kind == "counts", (self.missing_, self.spurious_)
        if is_count and any(rates):
            raise LabelError("with counts, leave missing= and spurious= at 0, or widen the bounds.")
        known = check_instance_labels(instance_labels, bags, labels, background=background)
        codes = NO_CODES if known is None else known.codes
        about = background is not None, self.max_operations, codes, *rates
        bounds = labels.bounds if is_count else None
        sets = BagLabelSets(bags.offsets, labels.indicator, *about, bounds)
        if is_count:
            _refuse_counts(sets, labels, bags)
        return sets

    def _background_label(self) -> Any:
        if self.background is False:
            return None
        numeric = self.classes_.dtype.kind in "iufb"
        name = (-1 if numeric else "background") if self.background is True else self.background
        if name in self.classes_.tolist():
            raise LabelError(f"{name!r} is already a label: choose another name, background=...")
        return name


def _refuse_counts(sets: BagLabelSets, labels: Labels, bags: Bags) -> None:
    """Raise an error for counts that no labeling has, or that need too much memory."""
    for bag in np.flatnonzero(sets.impossible | sets.too_large)[:1]:
        n, known = int(sets.sizes[bag]), labels.values[[bag]]
        upper = np.where(known.upper < 0, n, known.upper).sum()
        pairs = zip(labels.names, known.texts[0], strict=True)
        cells = [f"{name}: {text}" for name, text in pairs if text]
        cells = cells[:8] + ["..."] * (len(cells) > 8)
        need, most = known.lower.sum(), min(n, upper)
        fix = "background=True allows instances that have no label"
        if need > n:
            fix = "count instances, such as clips, and not calls, or write 1+"
        reason = f"no labeling has them. They need {need} instances, and allow {most} ({fix})."
        if not sets.impossible[bag]:
            reason = "they need a table of more than 512 MB. Give lower counts, or split the bag."
        raise LabelError(f"{bags.name_of(bag)} with {n} instances, {', '.join(cells)}: {reason}")


def _warn(which: Bools, bags: Bags, text: str) -> None:
    """Warn of some bags, with the names of the first of them."""
    if len(chosen := np.flatnonzero(which)):
        names = ", ".join([bags.name_of(i) for i in chosen[:5]] + ["..."] * (len(chosen) > 5))
        warn_user(f"{len(chosen)} of {len(bags)} bags {text.format(names)}", UserWarning)
