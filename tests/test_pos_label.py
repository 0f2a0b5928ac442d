"""Which of two classes is positive: by `pos_label`, by their names, or with a warning."""

import numpy as np
import pytest
from sklearn.utils._testing import set_random_state

from bagwise import Bags
from bagwise.auto import AutoBagClassifier
from bagwise.classification import BagMarginSVM, PrimalDualMISVM, SingleInstanceClassifier
from bagwise.exceptions import DataWarning, InputError, LabelError
from bagwise.labels import Labels, positive_by_name
from bagwise.predictions import Predictions
from bagwise.preprocessing import InstancePCA, make_bag_pipeline
from cases import each
from checks import example
from estimators import public_estimators, quick

ASYMMETRIC = [cls for cls in public_estimators() if "pos_label" in cls._get_param_names()]


def concept(n_bags=16, seed=0):
    """Bags with one shifted instance in each positive bag, and whether they are positive."""
    bags, y = example(n_bags=n_bags, seed=seed)
    return bags, y == "q"


def asymmetric(cls):
    model = quick(cls)
    set_random_state(model, 0)
    if "out_of_fold" in str(cls._parameter_constraints.get("threshold")):
        model.set_params(threshold="zero")  # saves five fits
    if cls is AutoBagClassifier:
        model.set_params(candidates={"sil": SingleInstanceClassifier()})
    return model.set_params(assumption="standard") if cls is PrimalDualMISVM else model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each("cls", ASYMMETRIC)
def test_the_names_of_the_classes_change_nothing_but_signs(cls):
    """With the positive class first in order, every answer is the mirror image."""
    bags, positive = concept()
    test, _ = concept(seed=1)
    plain = asymmetric(cls).fit(bags, positive.astype(int))
    turned = asymmetric(cls).set_params(pos_label="a").fit(bags, np.where(positive, "a", "b"))
    names = np.array(["b", "a"])
    assert (plain.pos_label_, turned.pos_label_) == (1, "a")
    assert turned.classes_.tolist() == ["a", "b"]
    np.testing.assert_allclose(turned.decision_function(test), -plain.decision_function(test))
    np.testing.assert_array_equal(turned.predict(test), names[plain.predict(test)])
    np.testing.assert_array_equal(turned.key_instances(test), plain.key_instances(test))
    for label in (0, 1):
        found = turned.key_instances(test, label=names[label])
        np.testing.assert_array_equal(found, plain.key_instances(test, label=label))
    np.testing.assert_allclose(turned.score_instances(test), -plain.score_instances(test))
    named = turned.predict_instances(test)
    np.testing.assert_array_equal(named, names[plain.predict_instances(test)])
    for method in ("predict_proba", "predict_proba_instances"):
        assert hasattr(turned, method) == hasattr(plain, method)
        if hasattr(plain, method):
            mirrored = getattr(plain, method)(test)[:, ::-1]
            np.testing.assert_allclose(getattr(turned, method)(test), mirrored)


def test_probabilities_of_single_instances_pool_to_the_positive_class():
    from sklearn.linear_model import LogisticRegression

    bags, positive = concept()
    plain = SingleInstanceClassifier(LogisticRegression()).fit(bags, positive)
    y = np.where(positive, "a", "b")
    turned = SingleInstanceClassifier(LogisticRegression(), pos_label="a").fit(bags, y)
    mirrored = plain.predict_proba(bags)[:, ::-1]
    np.testing.assert_allclose(turned.predict_proba(bags), mirrored, atol=1e-6)


@each(("classes", "expected"), [
        ([0, 1], 1), ([-1, 1], 1), ([1, 2], 1), ([False, True], 1), (["0", "1"], 1),
        (["1", "2"], 1), (["active", "inactive"], 0), (["Active", "inactive "], 0),
        (["no", "yes"], 1),
        (["False", "True"], 1), (["musk", "non-musk"], 0), (["control", "treated"], 1),
        (["fox", "no fox"], 0), (["normal", "tumor"], 1), (["abnormal", "normal"], 0),
        (["cat", "dog"], None), (["active", "present"], None), (["none", "normal"], None),
        (["healthy", "unhealthy"], None), ([("a", 1), ("b", 2)], None), (["f", "m"], None),
    ])  # fmt: skip
def test_the_positive_class_by_name(classes, expected):
    assert positive_by_name(classes) == expected


def test_names_that_do_not_tell_are_reported():
    bags, positive = concept()
    y = np.where(positive, "dog", "cat")
    with pytest.warns(DataWarning, match="takes 'dog' as the positive class.*pos_label= to 'cat'"):
        model = BagMarginSVM(threshold="zero").fit(bags, y)
    assert model.pos_label_ == "dog"


@pytest.mark.filterwarnings("error:.* as the positive class")
def test_no_warning_where_nothing_is_to_be_chosen():
    bags, positive = concept()
    y = np.where(positive, "dog", "cat")
    BagMarginSVM(pos_label="cat", threshold="zero").fit(bags, y)
    SingleInstanceClassifier(pooling="mean").fit(bags, y)  # symmetric
    BagMarginSVM(threshold="zero").fit(bags, np.where(positive, "active", "inactive"))
    bags, y = example(n_classes=3)
    assert BagMarginSVM(kernel="linear").fit(bags, y).pos_label_ is None


def test_wrong_choices_are_refused():
    bags, positive = concept()
    with pytest.raises(LabelError, match=r"pos_label=2 is not a label of y: \[0, 1\]"):
        BagMarginSVM(pos_label=2).fit(bags, positive.astype(int))
    with pytest.raises(LabelError, match="is for two classes, not 3 classes"):
        BagMarginSVM(pos_label="p").fit(*example(n_classes=3))
    with pytest.raises(InputError, match="belongs to assumption='standard'"):
        PrimalDualMISVM(pos_label=0).fit(bags, positive.astype(int))
    with pytest.raises(LabelError, match="not label sets"):
        AutoBagClassifier(pos_label=0).fit(bags, [{"x"} if p else set() for p in positive])


def test_labels_keep_their_positive_class():
    labels = Labels("single", ["a", "b"], [0, 1, 1]).with_positive(0)
    assert labels.pos_label == "a"
    assert list(labels[[0, 1]].positives) == [0]
    assert labels.oriented_codes.tolist() == [1, 0, 0]
    assert labels.without(np.array([True, False, False])).pos_label == "a"
    assert Labels("single", ["a", "b", "c"], [0, 1, 2]).pos_label is None


CONTROLS = {"ctrl": "stim", "HC": "MDD", "wt": "ko", "untreated": "LPS", "Vehicle": "drug"}


@pytest.mark.parametrize(("control", "other"), CONTROLS.items())
def test_controls_are_negative_by_their_names(control, other):
    for classes in ([control, other], [other, control]):
        assert classes[positive_by_name(classes)] == other
    assert positive_by_name([control, "healthy"]) is None


def test_scores_of_instances_say_of_which_class_they_speak():
    bags = Bags.from_arrays([[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]])
    y = np.array(["healthy", "healthy", "covid", "covid"])
    model = SingleInstanceClassifier().fit(bags, y)
    pipeline = make_bag_pipeline(InstancePCA(1), SingleInstanceClassifier()).fit(bags, y)
    for fitted in (model, pipeline):
        of_covid = fitted.score_instances(bags, label="covid")
        assert of_covid.argmax() == 4
        assert np.array_equal(fitted.score_instances(bags, label="healthy"), -of_covid)
        with pytest.warns(DataWarning, match="label='covid'"):
            assert np.array_equal(fitted.score_instances(bags), -of_covid)
    Predictions(model, bags).instance_table()  # no warning: its columns name the class
    three = SingleInstanceClassifier().fit(bags, ["a", "b", "c", "c"])
    assert np.array_equal(three.score_instances(bags, label="b"), three.score_instances(bags)[:, 1])
    with pytest.raises(LabelError, match="no label 'd'"):
        three.score_instances(bags, label="d")
