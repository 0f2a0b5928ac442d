"""`BagPipeline`: instance-level methods of the last step, applied after the transformers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.embedding import BagDissimilarity
from bagwise.preprocessing import BagPipeline, InstanceTransformer, make_bag_pipeline
from bagwise.regression import SetKernelRegressor
from cases import each
from checks import example

METHODS = [
    *("key_instances", "score_instances", "predict_instances", "predict_proba_instances"),
    *("annotate", "annotate_proba"),
]


def scaled(model):
    return make_bag_pipeline(InstanceTransformer(StandardScaler()), model)


@each(
    "model",
    [SetKernelSVM(), SingleInstanceClassifier(), CitationKNN(), ORedLogisticRegression(max_iter=5)],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_each_method_equals_the_long_form(model):
    bags, y = example()
    is_annotator = hasattr(model, "annotate")
    labels = [{label} for label in y] if is_annotator else y
    pipeline = scaled(model).fit(bags, labels)
    n_found = 0
    for name in METHODS:
        assert hasattr(pipeline, name) == hasattr(pipeline[-1], name), name
        if not hasattr(pipeline, name):
            continue
        more = (labels,) if name.startswith("annotate") else ()
        more = (y[0],) if is_annotator and name == "key_instances" else more
        long = getattr(pipeline[-1], name)(pipeline[:-1].transform(bags), *more)
        np.testing.assert_array_equal(getattr(pipeline, name)(bags, *more), long)
        n_found += 1
    assert n_found
    assert hasattr(pipeline, "key_instances")


def test_all_else_is_that_of_scikit_learn():
    bags, y = example()
    ours = scaled(SetKernelSVM()).fit(bags, y)
    plain = make_pipeline(*(clone(step) for _, step in ours.steps)).fit(bags, y)
    assert isinstance(ours, Pipeline)
    assert list(ours.named_steps) == list(plain.named_steps)
    np.testing.assert_array_equal(ours.predict(bags), plain.predict(bags))
    np.testing.assert_array_equal(ours.decision_function(bags), plain.decision_function(bags))


def test_methods_that_the_last_step_has_not_are_absent():
    embedding = make_bag_pipeline(BagDissimilarity(), SVC())
    passing = make_bag_pipeline(SetKernelSVM(), "passthrough")
    for pipeline in (embedding, passing):
        assert not any(hasattr(pipeline, name) for name in METHODS)
    with pytest.raises(AttributeError, match="key_instances"):
        embedding.key_instances([[[0.0]]])


def test_a_regressor_has_key_instances_without_a_class():
    bags, _ = example()
    pipeline = scaled(SetKernelRegressor()).fit(bags, np.arange(len(bags), dtype=float))
    expected = pipeline[-1].key_instances(pipeline[:-1].transform(bags))
    np.testing.assert_array_equal(pipeline.key_instances(bags), expected)


def test_clones_parameters_slices_and_searches():
    bags, y = example()
    pipeline = scaled(SetKernelSVM())
    copy = clone(pipeline).set_params(setkernelsvm__C=3.0, verbose=False)
    assert type(copy) is BagPipeline
    assert copy[-1].C == 3.0
    assert pipeline[-1].C != 3.0
    assert type(copy[:-1]) is BagPipeline
    alone = make_bag_pipeline(SetKernelSVM(C=3.0)).fit(copy[:-1].fit_transform(bags), y)
    np.testing.assert_array_equal(
        alone.key_instances(copy[:-1].transform(bags)), copy.fit(bags, y).key_instances(bags)
    )
    nested = make_bag_pipeline(InstanceTransformer(), scaled(SetKernelSVM(C=3.0))).fit(bags, y)
    np.testing.assert_array_equal(nested.key_instances(bags), copy.key_instances(bags))
    search = GridSearchCV(pipeline, {"setkernelsvm__C": [0.1, 3.0]}, cv=2).fit(bags, y)
    best = search.best_estimator_
    assert type(best) is BagPipeline
    assert best.key_instances(bags).shape == (len(bags),)
