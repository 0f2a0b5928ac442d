"""ORedClassifier: any classifier, trained on instances that ORLR has labelled."""

from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.validation import has_fit_parameter

from bagwise._common.sklearn import HasMethods
from bagwise._common.types import Array, Floats, Ints
from bagwise.annotation._annotator import ThresholdAnnotator
from bagwise.annotation._ored_logistic import ORedLogisticRegression
from bagwise.bags import Bags
from bagwise.base import BagEstimator
from bagwise.base._parameters import with_parameters
from bagwise.base._scoring import guarded
from bagwise.compute.arrays import dense
from bagwise.exceptions import InputError, LabelError
from bagwise.labels import Labels

ONE_CLASS = "all instances have one class: a classifier needs two classes or more."
SVC_TOL = 1e-8  # with scikit-learn's default, scores depend on the order of the rows


@with_parameters
class ORedClassifier(ThresholdAnnotator, BagEstimator):
    """Train any classifier on instances that ORLR has labelled from label sets.

    There are two stages. ORed logistic regression with an RBF kernel finds the posterior labels of
    the training instances, given the label sets of their bags. Then the classifier is trained on
    the most probable label of each instance, weighted by its probability. For instances of new bags
    it may be more accurate than the first stage, because its training labels use the label sets.

    Parameters
    ----------
    base_estimator : classifier, default=None
        Any scikit-learn classifier with ``decision_function`` or ``predict_proba``; by default
        ``SVC(C=10, break_ties=True)`` on dense, centred instances. If its ``fit`` has no
        `sample_weight`, instances are not weighted.
    annotator : ORedLogisticRegression, default=None
        The first stage; ``ORedLogisticRegression(kernel="rbf")`` by default.
    random_state : int, RandomState or None, default=None
        For the landmarks of the default annotator.

    Attributes
    ----------
    {classes_}
    {label_kind_}
    annotator_ : ORedLogisticRegression
        The fitted first stage; its ``annotate_proba`` gives posteriors, given label sets.
    estimator_ : classifier
        The fitted second stage.
    threshold_ : float
        Score above which a label belongs to the set of a bag.
    {n_features_in_}

    Notes
    -----
    `fit` has no `sample_weight`: the second stage weighs instances by the probability of their
    label, and the landmarks of the first are drawn from all bags alike. Repeat the bags that should
    count more.

    Examples
    --------
    >>> from bagwise.annotation import ORedClassifier
    >>> bags = [[[0.0], [3.1]], [[0.2], [0.1]], [[2.9], [0.1], [3.0]], [[3.2]]]
    >>> label_sets = [{"wren", "robin"}, {"wren"}, {"robin", "wren"}, {"robin"}]
    >>> model = ORedClassifier(random_state=0).fit(bags, label_sets)
    >>> model.predict_instances([[[0.1], [3.0]]])
    array(['wren', 'robin'], dtype='<U5')
    """

    instance_pooling = "max"
    keeps = "one concept"

    _parameter_constraints = {
        "base_estimator": [None, HasMethods(["fit", "predict"])],
        "annotator": [None, HasMethods(["fit", "annotate_proba"])],
    }

    base_estimator: Any = None
    annotator: Any = None
    random_state: Any = None

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: RandomState) -> None:
        labelled = (labels.indicator == 1).any(axis=1)  # others have none of the labels
        if len(labels.classes) < 2 or not labelled.any():
            raise LabelError(ONE_CLASS)
        first = self.annotator
        if first is None:
            first = ORedLogisticRegression(kernel="rbf", random_state=rng.randint(2**31))
        self.annotator_ = clone(first).fit(bags, labels.indicator)
        seen = bags[labelled]
        posterior = self.annotator_.annotate_proba(seen, labels.indicator[labelled])
        codes = posterior.argmax(axis=1)
        chances = posterior[np.arange(len(codes)), codes]
        named = codes < len(labels.classes)  # the others are background
        self.estimator_ = self._fitted(self._rows(seen)[named], codes[named], chances[named])
        self._choose_threshold(bags, labels)

    def predict_instances(self, X: Any) -> Array:
        """Predict the class of each instance by the second stage, without its bag's label set.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``.
        """
        codes = self._evaluate(X, lambda bags: self.estimator_.predict(self._rows(bags)))
        return guarded(self.classes_[codes], X)

    def _fitted(self, rows: Any, codes: Ints, weights: Floats) -> Any:
        """Fit the second stage on label codes."""
        # Tied votes are frequent.
        inner: Any = SVC(C=10.0, tol=SVC_TOL, break_ties=True, random_state=0)
        if self.base_estimator is not None:
            inner = clone(self.base_estimator)
        if not is_classifier(inner):
            raise InputError(f"base_estimator is {inner!r}: expected a scikit-learn classifier.")
        if len(np.unique(codes)) < 2:
            raise LabelError(ONE_CLASS)
        weighted = {"sample_weight": weights} if has_fit_parameter(inner, "sample_weight") else {}
        if self.base_estimator is None:
            # The kernel is a function of differences of squares: rows far from 0 lose all digits.
            # gamma="scale" of the rows as they are: centring each feature changes the variance.
            variance = rows.var(dtype=np.float64)
            inner.set_params(gamma=1 / (rows.shape[1] * variance) if variance > 0 else 1.0)
            inner = make_pipeline(StandardScaler(with_std=False), inner)
            weighted = {"svc__sample_weight": weights}
        with config_context(skip_parameter_validation=False):  # validate the user's parameters
            return inner.fit(rows, codes, **weighted)

    def _rows(self, bags: Bags) -> Any:
        """Instances for the second stage: dense for the default, which centres them."""
        return bags.instances if self.base_estimator is not None else dense(bags.instances)

    def _score(self, bags: Bags) -> Array:
        """Scores of the second stage; a label of no training instance gets the lowest score."""
        inner = self.estimator_
        if hasattr(inner, "decision_function"):
            found = inner.decision_function(self._rows(bags))
            if found.ndim == 1:
                found = np.column_stack([-found, found])
        else:
            found = inner.predict_proba(self._rows(bags))
        scores = np.repeat(found.min(axis=1, keepdims=True) - 1.0, len(self.classes_), axis=1)
        scores[:, inner.classes_] = found
        return scores
