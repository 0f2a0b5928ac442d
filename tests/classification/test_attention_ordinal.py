"""AttentionMIL on ordered grades: one logit per threshold."""

import pickle

import numpy as np
import pytest

from bagwise import Bags
from bagwise.classification import AttentionMIL
from bagwise.exceptions import LabelError
from bagwise.solvers.grades import grade_probabilities, non_increasing

pytest.importorskip("torch", reason="AttentionMIL is trained with torch")


def graded(n=90):
    rng = np.random.default_rng(0)
    arrays = [rng.normal([i % 3, 0, 0], size=(rng.integers(2, 6), 3)) for i in range(n)]
    return Bags.from_arrays(arrays), np.arange(n) % 3


def network(**settings):
    how = {"n_models": 2, "learning_rate": 0.01, "random_state": 0} | settings
    return AttentionMIL(8, loss="ordinal", **how)


def test_probabilities_are_those_of_the_thresholds():
    bags, y = graded()
    model = network().fit(bags[:60], y[:60])
    proba, terms = model.predict_proba(bags), model._terms(bags)
    logits = np.array([part.sum(axis=0) for part in bags.split(terms)])
    assert logits.shape == (90, 2)
    above = non_increasing(1 / (1 + np.exp(-logits)))
    np.testing.assert_allclose(proba, grade_probabilities(above), atol=1e-9)
    # The prediction is the median of the distribution.
    np.testing.assert_array_equal(model.predict(bags), (above > 0.5).sum(axis=1))
    assert np.abs(model.predict(bags[60:]) - y[60:]).mean() < 0.5
    assert model.score_instances(bags).shape == (bags.n_instances, 3)
    assert set(model.predict_instances(bags)) <= {0, 1, 2}
    assert (model.key_instances(bags) < bags.sizes).all()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(bags), proba)


def test_two_grades_are_two_classes():
    bags, y = graded(60)
    two, how = (y > 0).astype(int), {"max_epochs": 5, "validation_fraction": None}
    a = network(**how).fit(bags, two)
    b = AttentionMIL(8, n_models=2, learning_rate=0.01, random_state=0, **how).fit(bags, two)
    np.testing.assert_allclose(a.decision_function(bags), b.decision_function(bags))


def test_grades_of_pandas_have_their_order():
    pd = pytest.importorskip("pandas")
    bags, y = graded(60)
    order = ["none", "mild", "severe"]
    grades = pd.Categorical(np.array(order)[y], categories=order, ordered=True)
    how = {"max_epochs": 5, "validation_fraction": None}
    model, plain = network(**how).fit(bags, grades), network(**how).fit(bags, y)
    assert model.classes_.tolist() == sorted(order)
    columns = [sorted(order).index(grade) for grade in order]
    np.testing.assert_allclose(model.predict_proba(bags)[:, columns], plain.predict_proba(bags))
    np.testing.assert_array_equal(model.predict(bags), np.array(order)[plain.predict(bags)])


def test_strings_have_no_order():
    bags, y = graded(60)
    with pytest.raises(LabelError, match="have no order"):
        network().fit(bags, np.array(["a", "b", "c"])[y])
