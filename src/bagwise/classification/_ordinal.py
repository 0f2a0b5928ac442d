"""OrdinalBagClassifier: classes with an order, by questions about thresholds."""

from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.base import clone, is_classifier

from bagwise._common.sklearn import HasMethods, StrOptions
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator, _pipelines, fit_method
from bagwise.base._parameters import with_parameters
from bagwise.classification._margin_svms import SetKernelSVM
from bagwise.exceptions import InputError
from bagwise.solvers.grades import grade_probabilities, margins, non_increasing
from bagwise.validation import check_bags, check_grades, check_groups

LEAST = 1e-12  # probability whose log-odds are used


@with_parameters
class OrdinalBagClassifier(BagClassifierMixin, BagEstimator):
    """Predict the grade of a bag, such as none, mild, severe, by any classifier of bags.

    One classifier per threshold learns whether the grade of a bag is higher (Frank and Hall). Their
    probabilities, or scores, are projected onto sequences that fall as the threshold rises. The
    predicted grade is the one at which the answers change from yes to no: the median of the
    distribution, which minimises the expected number of grades between prediction and truth. With
    two grades it is the plain classifier.

    Parameters
    ----------
    estimator : classifier, default=None
        Any classifier of bags, alone or in a pipeline; by default `SetKernelSVM`.
    ordered_classes : list or "sorted", default=None
        The grades, lowest first. Not needed for numbers and for an ordered categorical of pandas;
        "sorted" for strings whose alphabetical order is their order.

    Attributes
    ----------
    {classes_}
    {pos_label_}
    ordered_classes_ : ndarray of shape (n_classes,)
        The grades that occur, lowest first; ``classes_`` are sorted, as in all classifiers.
    estimators_ : list of classifiers
        Classifier k was fitted to 1 for the bags above grade k, and to 0 for the others.
    {n_features_in_}

    Notes
    -----
    ``predict_proba`` exists if the classifier has it. The score of a grade is the smaller of two
    scores: above the grade below, and not above this grade. Scores of instances are made from the
    scores of instances of the classifiers in the same way, so that each instance has a grade.

    References
    ----------
    Frank, Hall. A simple approach to ordinal classification. ECML 2001.

    Examples
    --------
    >>> from bagwise.classification import OrdinalBagClassifier, SingleInstanceClassifier
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [1.0]], [[1.1]], [[0.3], [2.0]], [[2.2]]]
    >>> y = ["none", "none", "mild", "mild", "severe", "severe"]
    >>> grades = ["none", "mild", "severe"]
    >>> model = OrdinalBagClassifier(SingleInstanceClassifier(), ordered_classes=grades)
    >>> model.fit(bags, y).predict([[[0.0], [1.05]], [[3.0]]]).tolist()
    ['mild', 'severe']
    """

    _parameter_constraints = {
        "estimator": [None, HasMethods(["fit", "predict"])],
        "ordered_classes": [None, "array-like", StrOptions({"sorted"})],
    }
    __metadata_request__fit = {"groups": True}  # routed without set_fit_request

    estimator: Any = None
    ordered_classes: Any = None

    @property
    def keeps(self) -> str:  # type: ignore[override]
        """The assumption that the classifier inside keeps."""
        return _pipelines.kept_assumption(self._inner)

    @property
    def _inner(self) -> Any:
        inner = SetKernelSVM() if self.estimator is None else self.estimator
        return getattr(self, "estimators_", [inner])[0]

    @fit_method
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_bags,)
            The grade of each bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group stay together where the classifier holds out bags. By default the
            groups of the bags.

        Returns
        -------
        self
        """
        bags, inner = check_groups(groups, check_bags(self, X, reset=True)), clone(self._inner)
        if not is_classifier(inner):
            raise InputError(f"estimator is {inner!r}: expected a classifier of bags.")
        grades = check_grades(y, bags, self.ordered_classes)
        own = _pipelines.groups_for(inner, bags)
        self.ordered_classes_ = grades.classes
        self.classes_ = np.sort(grades.classes)
        self.pos_label_ = grades.classes.tolist()[1] if len(self.classes_) == 2 else None
        above = [(grades.codes > k).astype(int) for k in range(len(self.classes_) - 1)]
        self.estimators_ = [clone(inner).fit(bags, target, **own) for target in above]
        return self

    @property
    def _ranks(self) -> Array:
        """The grade, counted from the lowest, of each of ``classes_``."""
        return np.argsort(self.ordered_classes_)

    def _has_probabilities(self) -> bool:
        return hasattr(self._inner, "predict_proba")

    def _has_instance_scores(self) -> bool:
        return hasattr(_pipelines.final_estimator(self._inner), "score_instances")

    def _cumulative(self, bags: Bags) -> Array:
        """Probability that the grade of each bag is higher than each threshold."""
        return non_increasing(
            np.column_stack([model.predict_proba(bags)[:, 1] for model in self.estimators_])
        )

    def _bag_probabilities(self, bags: Bags) -> Array:
        return grade_probabilities(self._cumulative(bags))[:, self._ranks]

    def _bag_scores(self, bags: Bags) -> Array:
        scored = hasattr(self._inner, "decision_function")
        if scored and (len(self.classes_) == 2 or not self._has_probabilities()):
            found = [model.decision_function(bags) for model in self.estimators_]
            return self._by_class(np.column_stack(found))
        return self._by_class(logit(self._cumulative(bags).clip(LEAST, 1 - LEAST)))

    def _score(self, bags: Bags) -> Array:
        """Scores of instances (not of bags)."""
        parts = [_pipelines.instance_model(model, bags) for model in self.estimators_]
        found = [np.asarray(model.score_instances(seen)) for model, seen in parts]
        columns = [scores.reshape(-1, bags.n_instances) for scores in found]
        return self._by_class(np.concatenate(columns).T)

    def _by_class(self, scores: Array) -> Array:
        """Scores of the thresholds as scores of the classes; of the higher one of two."""
        if len(self.classes_) == 2:
            return scores
        return margins(non_increasing(scores))[:, self._ranks]
