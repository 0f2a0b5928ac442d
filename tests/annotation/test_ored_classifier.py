"""ORedClassifier: a classifier fitted on the instance labels that ORLR predicts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from bagwise.annotation import ORedClassifier, ORedLogisticRegression
from bagwise.exceptions import InputError, LabelError
from cases import each
from orlr_oracle import drawn


def test_it_is_the_classifier_on_the_labels_of_the_first_stage():
    bags, sets, _ = drawn()
    new, _, _ = drawn(seed=1)
    first = ORedLogisticRegression()
    model = ORedClassifier(SVC(C=10), annotator=first).fit(bags, sets)
    posterior = first.fit(bags, sets).annotate_proba(bags, sets)
    second = SVC(C=10)
    second.fit(bags.instances, posterior.argmax(axis=1), sample_weight=posterior.max(axis=1))
    assert_array_equal(model.predict_instances(new), second.predict(new.instances))
    assert_allclose(model.score_instances(new), second.decision_function(new.instances))
    assert not hasattr(first, "nystroem_")


@pytest.mark.parametrize(
    "inner", [LogisticRegression(), RandomForestClassifier(20, random_state=0),
              KNeighborsClassifier(5)]
)  # fmt: skip
def test_any_classifier(inner):
    bags, sets, _ = drawn(60, spread=6)
    new, new_sets, truth = drawn(60, seed=1, spread=6)
    model = ORedClassifier(inner, random_state=0).fit(bags, sets)
    assert (model.predict_instances(new) == truth).mean() > 0.75
    assert (model.annotate(new, new_sets) == truth).mean() > 0.85
    assert (model.predict(new) == new_sets).mean() > 0.75
    outside = new_sets[new.bag_index, model.annotate(new, new_sets)]
    assert (outside == 1).all()


def test_background_and_unknown_sets_are_left_out():
    bags, sets, kinds = drawn(60, spread=6)
    fewer = sets[:, :-1].copy()
    fewer[5] = -1
    first = ORedLogisticRegression(background=True, kernel="rbf", random_state=0)
    model = ORedClassifier(annotator=first).fit(bags, fewer)
    named = kinds < 3
    assert (model.predict_instances(bags)[named] == kinds[named]).mean() > 0.8
    assert len(model.estimator_.classes_) == 3


def test_bags_without_labels_do_not_train_the_second_stage():
    bags, sets, _ = drawn()
    sets[3] = 0
    model, others = ORedClassifier(annotator=ORedLogisticRegression()), np.arange(40) != 3
    expected = model.fit(bags[others], sets[others]).score_instances(bags)
    with pytest.warns(UserWarning, match="1 of 40 bags are left out.*bag 3") as caught:
        model.fit(bags, sets)
    assert len(caught) == 1
    assert_allclose(model.score_instances(bags), expected)


def test_sparse_bags_have_the_scores_of_dense_ones():
    bags, sets, _ = drawn(30)
    in_csr = bags.with_instances(csr_array(bags.instances))
    model = ORedClassifier(random_state=0).fit(bags, sets)
    assert_allclose(model.score_instances(in_csr), model.score_instances(bags))
    assert_array_equal(model.predict_instances(in_csr), model.predict_instances(bags))
    expected = model.predict(bags)
    assert_array_equal(model.fit(in_csr, sets).predict(bags), expected)


def test_a_label_of_no_instance_is_never_predicted():
    bags, sets, _ = drawn(30)
    more = np.insert(sets, 2, 0, axis=1)
    model = ORedClassifier(random_state=0).fit(bags, more)
    assert 2 not in model.predict_instances(bags)
    assert model.score_instances(bags).argmin(axis=1).tolist() == [2] * bags.n_instances


def test_what_does_not_work_is_refused():
    bags, sets, _ = drawn(12)
    with pytest.raises(InputError, match="scikit-learn classifier"):
        ORedClassifier(Ridge()).fit(bags, sets)
    with pytest.raises(LabelError, match="two classes"):
        ORedClassifier().fit(bags, [{"a"}] * 12)
    with pytest.raises(LabelError, match="known label"):
        ORedClassifier().fit(bags, np.full((12, 2), -1))


@each("shift", [1e6, 1e10])
def test_the_origin_of_the_features_does_not_matter(shift):
    """Both stages lost half of their accuracy far from the origin, without a warning."""
    bags, sets, kinds = drawn(60, spread=6)
    moved = bags.with_instances(bags.instances + shift)
    model = ORedClassifier(random_state=0).fit(moved, sets)
    assert (model.predict_instances(moved) == kinds).mean() > 0.95
    assert (model.annotate(moved, sets) == kinds).mean() > 0.95
