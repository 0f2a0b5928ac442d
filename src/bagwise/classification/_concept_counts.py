"""ConceptCountsClassifier: a bag is positive if it has enough instances of each hidden concept."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import cache, partial
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit, logsumexp
from sklearn.metrics import euclidean_distances

from bagwise._common.memory import as_float64, require_memory
from bagwise._common.sklearn import Interval, StrOptions
from bagwise._common.types import Array, Floats, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin, fit_method, one_vs_rest_probabilities
from bagwise.base._kernel_machine import kernel_scores, nystroem_features, nystroem_of, transformed
from bagwise.base._parameters import COUNT, POSITIVE, with_parameters
from bagwise.base._scoring import guarded
from bagwise.classification._training import held_out_folds
from bagwise.exceptions import DataWarning, InputError, warn_user
from bagwise.solvers.concept_counts import (
    LIGHT,
    Search,
    Setting,
    concept_probabilities,
    enough_of_each,
    instance_posterior,
    label_probability,
)
from bagwise.solvers.result import SolverResult
from bagwise.validation import check_bag_labels, check_bags, check_groups, check_label

CHOICES: dict[str, list[Any]] = {
    "needed": [(1,), (1, 1), (1, 1, 1), (2,)],
    "dependence": [1.0, 8.0],
    "linear": [False, True],
    "reg": [3e-4, 1e-3, 1e-4],
    "width": [3.0, 1.0],
}
MANY = 10_000  # instances; beyond it only the concepts and the linear part are chosen
SAMPLE = 200  # instances whose distances determine the width of the kernel


@with_parameters
class ConceptCountsClassifier(OneVsRestMixin, BagEstimator):
    r"""A bag is positive if it has enough instances of each of a few hidden concepts.

    Each instance belongs to background (k = 0) or to one of K concepts, which nobody named, with
    probabilities :math:`p_k(x) \propto \exp(f(x) \cdot w_k)`, :math:`w_0 = 0`. A bag is positive if
    the number :math:`N_k` of its instances of each concept is at least :math:`t_k`. The weights
    minimise

    .. math:: -\frac{1}{n} \sum_B \log P(y_B \mid B) + \frac{\lambda}{2} \sum_k |w_k|^2, \qquad
        P(y = 1 \mid B) = 0.02 + 0.96 \, P(N_k \ge t_k \text{ for all } k \mid B)

    with the exact probability of the counts. The concepts and their numbers, the dependence of
    copies, the features and the penalty are chosen by the likelihood of held-out bags, one after
    the other, and all models that were tried are mixed. More instances never lower the score of a
    bag. More than two classes are handled one-vs-rest. Standardise the instances first.

    Parameters
    ----------
    concepts : "auto" or tuple of int, default="auto"
        How many instances of each concept a positive bag has: ``(1, 2)`` is at least one of one
        concept and two of another. "auto" compares ``(1,)``, ``(1, 1)``, ``(1, 1, 1)`` and
        ``(2,)``.
    dependence : "auto" or float >= 1, default="auto"
        How much near copies count together: at 1 instances are independent; above 1, which needs
        one instance of each concept, the best one counts most. "auto" compares 1 and 8.
    C : "auto" or float, default="auto"
        Inverse of the penalty: :math:`\lambda = 1 / (C n)` for n bags. "auto" compares three.
    n_landmarks : int, default=400
        Number of Nystroem features of the RBF kernel.
    n_folds : int, default=3
        Number of parts of the bags; each is held out once.
    {pos_label}
    random_state : int, RandomState or None, default=None
        For the folds, the landmarks and the starts.

    Attributes
    ----------
    {classes_}
    {pos_label_}
    concepts_ : list of list of tuple
        `concepts` of each member of the mixture; one list for two classes, else one per class.
    weights_ : list of ndarray
        The weight of each member, and last that of the constant share of positive bags.
    held_out_ : list of dict
        Columns ``concepts``, ``dependence``, ``width`` of the kernel, ``linear`` part, ``C``, and
        ``log_likelihood``, the mean over the held-out bags, for each model that was tried.
    settings_ : list of list of tuple
        Concepts, dependence and width of each member.
    specificity_ : list of list of ndarray of shape (n_concepts,)
        For each concept of each member, how much rarer it is in negative bags: 0 for one that all
        bags have, such as background under another name, up to 1.
    coef_ : list of list of ndarray of shape (n_columns, n_concepts)
        The weights of the features of each member.
    nystroems_ : dict
        The Nystroem features of each width of the kernel.
    base_rates_ : ndarray
        The share of positive bags.
    center_, scale_ : ndarray of shape (n_features,), float
        The mean of the instances, and the root of the sum of their variances.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective of the heaviest member, summed over the classes.
    n_iter_ : int
        Length of ``objective_curve_``.
    {n_features_in_}

    See Also
    --------
    MILBoost : One concept, by boosted trees.
    bagwise.annotation.ORedLogisticRegression : The same model where the labels are known.

    Notes
    -----
    The score of an instance is the log-odds that it belongs to any of the concepts; each counts by
    its specificity: a superfluous concept, which all bags have, does not count. The features are
    Nystroem features of the RBF kernel and, if it makes the held-out bags more likely, the centred
    instances. Cost: about ten settings, three folds, and a few hundred steps each of
    instances x (landmarks + features) x concepts. Beyond 10,000 instances only concepts and the
    linear part are chosen.

    Examples
    --------
    >>> from bagwise.classification import ConceptCountsClassifier
    >>> bags = [[[0.0], [0.1]], [[0.2], [3.0]], [[0.1], [-2.9]], [[0.1], [3.1], [-3.0]]] * 5
    >>> y = ["no", "no", "no", "yes"] * 5
    >>> model = ConceptCountsClassifier(concepts=(1, 1), random_state=0).fit(bags, y)
    >>> model.predict([[[3.0], [3.1]], [[3.0], [0.1], [-3.0]]])
    array(['no', 'yes'], dtype='<U3')
    """

    keeps = "standard, several concepts"
    kernel = "rbf"  # of `nystroem_of`
    _probabilities = staticmethod(one_vs_rest_probabilities)
    _accepts_sparse = False
    _in_canonical_order = True
    _parameter_constraints = {
        "concepts": [StrOptions({"auto"}), tuple, list],
        "dependence": [StrOptions({"auto"}), Interval(Real, 1, None, closed="left")],
        "C": [StrOptions({"auto"}), POSITIVE],
        "n_landmarks": [COUNT],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
    }

    concepts: Any = "auto"
    dependence: float | str = "auto"
    C: float | str = "auto"
    n_landmarks: int = 400
    n_folds: int = 3
    _: KW_ONLY
    pos_label: Any = None
    random_state: Any = None

    @fit_method
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        {X}
        {y}
        groups : array-like of shape (n_bags,), default=None
            Bags of one group, such as the slides of a patient, are held out together. By default
            the groups of the bags.

        Returns
        -------
        self
        """
        if groups is not None:
            X = check_groups(groups, check_bags(self, X, reset=True))
        return self._fit(X, y)

    def _solve(self, bags: Bags, labels: Any, weight: Any, rng: Any) -> list[SolverResult]:
        order = np.arange(len(bags))
        groups = order if bags.groups is None else np.unique(bags.groups, return_inverse=True)[1]
        start, choices = self._settings(bags)
        nystroems: dict[float, Any] = {}
        features = self._features(as_float64(bags.instances), nystroems, rng)
        searches: list[Search] = []

        def solve(signs: Ints) -> SolverResult:
            codes = (signs > 0).astype(int)
            folds = held_out_folds(codes, groups, order, 1 / self.n_folds, rng)
            # A fold may be empty, because its bags are needed for training.
            folds = np.unique(np.append(folds, -1), return_inverse=True)[1][:-1] - 1
            search = Search(features, bags.n_features, bags.offsets, signs > 0, folds, rng)
            search.run(start, choices)
            searches.append(search)
            return search.members[int(search.weights[:-1].argmax())]

        results = self._one_vs_rest(labels, solve)
        about = attrgetter("needed", "dependence", "width")
        self.settings_ = [[about(each) for each in search.settings] for search in searches]
        self.concepts_ = [[needed for needed, *_ in settings] for settings in self.settings_]
        self.coef_ = [[member.solution for member in search.members] for search in searches]
        self.specificity_ = [search.specificity for search in searches]
        self.weights_ = [search.weights for search in searches]
        self.base_rates_ = np.array([search.positive.mean() for search in searches])
        self.held_out_ = [search.table() for search in searches]
        widths = {width for settings in self.settings_ for *_, width in settings}
        self.nystroems_ = {width: nystroems[width] for width in sorted(widths)}
        if min(weights[-1] for weights in self.weights_) > 1 - LIGHT:
            text = "no model makes the held-out bags more likely than the share of positive bags."
            warn_user(f"{type(self).__name__} learned nothing: {text}", DataWarning)
        return results

    def _settings(self, bags: Bags) -> tuple[Setting, dict[str, list[Any]]]:
        """The first setting, and the choices that the parameters leave."""
        given: dict[str, Any] = {}
        if not isinstance(self.concepts, str):
            given["needed"] = counts = tuple(self.concepts)
            if not counts or not all(isinstance(t, int | np.integer) and t >= 1 for t in counts):
                raise InputError(f"concepts={self.concepts!r}: expected counts of 1 or more.")
        if not isinstance(self.dependence, str):
            given["dependence"] = float(self.dependence)
        if not isinstance(self.C, str):
            given["reg"] = 1 / (self.C * len(bags))
        needed = given.get("needed", (1,))
        if max(needed) > 1 and given.get("dependence", 1) > 1:
            raise InputError(
                f"dependence={self.dependence:g} with concepts={needed}: expected dependence=1, or "
                "one instance of each concept."
            )
        choices = {name: values for name, values in CHOICES.items() if name not in given}
        if given.get("dependence", 1) > 1 and "needed" in choices:
            choices["needed"] = [counts for counts in choices["needed"] if max(counts) == 1]
        if bags.n_instances > MANY:
            choices = {n: values for n, values in choices.items() if n in ("needed", "linear")}
        states = np.prod([t + 1.0 for t in needed])
        purpose = f"{states:,.0f} states of counts for the largest bag"
        remedy = "ask for fewer concepts, or fewer instances of each"
        require_memory(8.0 * states * (1 + bags.sizes.max()), purpose=purpose, remedy=remedy)
        return Setting(**given), choices

    def _features(
        self, rows: Floats, nystroems: dict[float, Any], rng: Any
    ) -> Callable[[float], Floats]:
        """Function from the width of the kernel to the features of rows; keeps the transformers."""
        self.center_, spread = rows.mean(axis=0), np.sqrt(rows.var(axis=0).sum())
        self.scale_ = float(spread) if spread > 0 else 1.0
        order, seed = rng.permutation(len(rows)), int(rng.randint(2**31))
        sample = rows[order[:SAMPLE]]
        distances = euclidean_distances(sample, squared=True)
        distances = distances[distances > 1e-12 * self.scale_**2]
        median = float(np.median(distances)) if len(distances) else 1.0

        @cache
        def features(width: float) -> Floats:
            found = nystroem_of(self, width / median, self.n_landmarks, seed, rows)
            nystroems[width] = found
            return self._columns(rows, transformed(found, rows))

        return features

    def _columns(self, rows: Any, kernel: Floats) -> Floats:
        linear = (rows - self.center_) / self.scale_
        return np.column_stack([kernel, linear, np.ones(len(rows))])

    def _log_probabilities(self, bags: Bags) -> list[list[Floats]]:
        """Log-probabilities of background and concepts, per model and member."""
        found: list[list[Any]] = [[None] * len(settings) for settings in self.settings_]
        places = [(i, j) for i, settings in enumerate(self.settings_) for j in range(len(settings))]
        for width, nystroem in self.nystroems_.items():
            own = [(i, j) for i, j in places if self.settings_[i][j][2] == width]
            weights = np.hstack([self.coef_[i][j] for i, j in own])
            ends = np.cumsum([self.coef_[i][j].shape[1] for i, j in own])[:-1]

            def features(block: Any, nystroem: Any = nystroem) -> Floats:
                return self._columns(block, nystroem_features(nystroem, block))

            scores = np.split(kernel_scores(bags.instances, features, weights.T), ends, axis=1)
            for (i, j), values in zip(own, scores, strict=True):
                found[i][j] = concept_probabilities(values)
        return found

    def _bag_scores(self, bags: Bags) -> Array:
        """Log-odds that each bag is positive, by the mixture of each class."""
        columns = []
        for i, members in enumerate(self._log_probabilities(bags)):
            chances = [
                label_probability(enough_of_each(log_p, bags.offsets, needed, rho)[0])
                for log_p, (needed, rho, _) in zip(members, self.settings_[i], strict=True)
            ]
            chances.append(np.full(len(bags), self.base_rates_[i]))
            columns.append(logit(self.weights_[i] @ chances))
        return np.column_stack(columns)

    def _score(self, bags: Bags) -> Array:
        """Log-odds that each instance is of a concept (its members weighted without base rate)."""
        columns = []
        for i, members in enumerate(self._log_probabilities(bags)):
            weights = self.weights_[i][:-1] / self.weights_[i][:-1].sum()
            parts = []
            for weight, shares, log_p in zip(weights, self.specificity_[i], members, strict=True):
                with np.errstate(divide="ignore"):
                    parts.append(log_p[:, 1:] + np.log(weight * shares))  # of the concepts
                    parts.append(log_p + np.log(weight * (1 - np.append(0.0, shares))))
            some, nothing = (logsumexp(np.hstack(parts[k::2]), axis=1) for k in (0, 1))
            columns.append(some - nothing)
        return np.column_stack(columns)

    def _has_instance_scores(self) -> bool:
        return True

    def instance_proba(self, X: Any, y: Any = None) -> Array:
        """Probability that each instance is of one of the concepts, weighted by specificity.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,), default=None
            The labels of the bags, if they are known; None for probabilities without them.

        Returns
        -------
        ndarray of shape (n_instances,) or (n_instances, n_classes)
            For the positive one of two classes, or for each class.
        """
        return guarded(self._evaluate(X, partial(self._posterior, y=y)), X)

    def _posterior(self, bags: Bags, y: Any) -> Array:
        if y is None:
            return self._one_column_for_two(expit(self._score(bags)))
        labels = check_bag_labels(y, bags)
        codes = np.array([check_label(name, self.classes_) for name in labels.classes])[
            labels.codes
        ]
        found = []
        for i, members in enumerate(self._log_probabilities(bags)):
            own = self._positive_column if len(self.coef_) == 1 else i
            some, total = np.zeros((2, bags.n_instances))
            for j, log_p in enumerate(members):
                about = self.settings_[i][j][:2]
                joint, each = instance_posterior(log_p, bags.offsets, codes == own, *about)
                some += self.weights_[i][j] * (joint @ self.specificity_[i][j])
                total += self.weights_[i][j] * each[:, 0]
            found.append(some / total)
        return self._one_column_for_two(np.column_stack(found))
