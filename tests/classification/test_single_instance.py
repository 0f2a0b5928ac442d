import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

from bagwise.classification import SingleInstanceClassifier
from bagwise.exceptions import InputError
from cases import each
from checks import example


@each("n_classes", [2, 3])
@each("inner", [LinearSVC(), LogisticRegression(), RandomForestClassifier(5, random_state=0)])
def test_singletons_equal_the_classifier_itself(rng, inner, n_classes):
    y = np.arange(60) % n_classes
    X = rng.normal(size=(60, 3)) + y[:, None]
    model = SingleInstanceClassifier(inner).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), inner.fit(X, y).predict(X))
    np.testing.assert_array_equal(model.predict_instances(X), model.predict(X))


def test_the_classifier_sees_every_instance_with_the_label_of_its_bag():
    bags, y = example()
    model = SingleInstanceClassifier(LogisticRegression()).fit(bags, y)
    rows, labels = np.concatenate(list(bags)), np.repeat(y, bags.sizes)
    np.testing.assert_array_equal(
        model.estimator_.coef_, LogisticRegression().fit(rows, labels).coef_
    )


@each("pooling", ["max", "mean"])
@each("n_classes", [2, 3])
def test_bag_probabilities_are_pooled_instance_probabilities(pooling, n_classes):
    bags, y = example(n_classes=n_classes)
    model = SingleInstanceClassifier(LogisticRegression(), pooling=pooling).fit(bags, y)
    shares = bags.split(model.predict_proba_instances(bags))
    pooled = np.array([getattr(np, pooling)(part, axis=0) for part in shares])
    if n_classes == 2:
        pooled[:, 0] = 1 - pooled[:, 1]
    found = model.predict_proba(bags)
    np.testing.assert_allclose(found, pooled / pooled.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_key_instance_of_the_negative_class_is_the_lowest_score():
    bags, y = example()
    model = SingleInstanceClassifier().fit(bags, y)
    scores = bags.split(model.score_instances(bags))
    np.testing.assert_array_equal(model.key_instances(bags), [s.argmax() for s in scores])
    np.testing.assert_array_equal(
        model.key_instances(bags, label="p"), [s.argmin() for s in scores]
    )


def test_what_is_no_classifier_is_refused():
    bags, y = example()
    with pytest.raises(InputError, match="expected a scikit-learn classifier"):
        SingleInstanceClassifier(LinearRegression()).fit(bags, y)


@each("offset", [1e2, 1e6])
def test_an_offset_of_the_features_changes_nothing(offset):
    bags, y = example(40)
    far = bags.with_instances(bags.instances + offset)
    expected = SingleInstanceClassifier().fit(bags, y).decision_function(bags)
    found = SingleInstanceClassifier().fit(far, y).decision_function(far)
    np.testing.assert_allclose(found, expected, atol=1e-4)
