"""SingleInstanceClassifier (SIL): every instance takes the label of its bag."""

from dataclasses import KW_ONLY
from typing import Any

from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bagwise._common.sklearn import HasMethods, StrOptions
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.base import BagClassifierMixin, BagEstimator
from bagwise.base._parameters import with_parameters
from bagwise.exceptions import InputError
from bagwise.labels import Labels


@with_parameters
class SingleInstanceClassifier(BagClassifierMixin, BagEstimator):
    """Train an ordinary classifier on instances that inherit the label of their bag (SIL).

    A baseline for multi-instance methods. The score of a bag is the largest (or the mean) score of
    its instances, per class.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier with ``decision_function`` or ``predict_proba``; by default a
        linear SVM, on centred instances unless they are sparse.
    pooling : {"max", "mean"}, default="max"
        How instance scores are pooled into the score of the bag.
    {pos_label}

    Attributes
    ----------
    {classes_}
    {pos_label_}
    estimator_ : classifier
        The fitted instance classifier.
    {n_features_in_}

    Notes
    -----
    Scores are the classifier's ``decision_function``; if it has none, its probabilities (for two
    classes the difference of the two).

    ``predict_proba`` exists if the classifier has it: instance probabilities, pooled (for two
    classes that of the positive class) and normalised to sum to 1. They rank bags; wrap the model
    in :class:`sklearn.calibration.CalibratedClassifierCV` for calibrated ones.

    References
    ----------
    Ray, Craven. Supervised versus multiple instance learning: an empirical comparison. ICML 2005.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, ["no", "no", "yes", "yes"])
    >>> model.predict([[[0.0], [2.8]]])
    array(['yes'], dtype='<U3')
    >>> model.key_instances([[[0.0], [2.8]]])
    array([1])
    """

    _parameter_constraints = {
        "estimator": [None, HasMethods(["fit", "predict"])],
        "pooling": [StrOptions({"max", "mean"})],
    }

    estimator: Any = None
    pooling: str = "max"
    _: KW_ONLY
    pos_label: Any = None

    @property
    def instance_pooling(self) -> str:  # type: ignore[override]
        """How instance scores are pooled into the score of the bag."""
        return self.pooling

    @property
    def keeps(self) -> str:  # type: ignore[override]
        """Multi-instance assumption: the best instance decides, or the mean of all."""
        return "one concept" if self.pooling == "max" else "collective"

    def _solve(self, bags: Bags, labels: Labels, weight: Any, rng: Any) -> None:
        classes, codes = labels.classes, labels.codes
        inner = _default(bags) if self.estimator is None else clone(self.estimator)
        if not is_classifier(inner):
            raise InputError(f"estimator is {inner!r}: expected a scikit-learn classifier.")
        with config_context(skip_parameter_validation=False):  # validate the user's parameters
            self.estimator_ = inner.fit(bags.instances, classes[codes][bags.bag_index])

    def _score(self, bags: Bags) -> Array:
        """Scores of the positive class by the instance classifier, or of each class."""
        return self._sign * self._scores_of(bags)

    def _scores_of(self, bags: Bags) -> Array:
        """Scores of the instance classifier: its decision function, or probabilities."""
        if hasattr(self.estimator_, "decision_function"):
            scores = self.estimator_.decision_function(bags.instances)
            return scores[:, None] if scores.ndim == 1 else scores
        shares = self.estimator_.predict_proba(bags.instances)
        return shares[:, 1:] - shares[:, :1] if len(self.classes_) == 2 else shares

    def _has_probabilities(self) -> bool:
        inner = getattr(self, "estimator_", self.estimator)
        return inner is not None and hasattr(inner, "predict_proba")

    def _instance_probabilities(self, bags: Bags) -> Array:
        return self.estimator_.predict_proba(bags.instances)

    def _bag_probabilities(self, bags: Bags) -> Array:
        """Pooled instance probabilities; for two classes that of the positive class."""
        shares = self._pool(self._instance_probabilities(bags), bags.offsets)
        if len(self.classes_) == 2:
            positive = self._positive_column
            shares[:, 1 - positive] = 1 - shares[:, positive]
            return shares
        return shares / shares.sum(axis=1, keepdims=True)


def _default(bags: Bags) -> Any:
    """A linear SVM; it penalises its intercept, which would be large far from the origin."""
    machine = LinearSVC(random_state=0)
    centre = StandardScaler(with_std=False)
    return machine if bags.is_sparse else make_pipeline(centre, machine)
