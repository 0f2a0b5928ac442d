"""Comparisons: the same folds for all models; signs and descriptions of differences."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer

from bagwise.classification import SetKernelSVM, SingleInstanceClassifier
from bagwise.datasets import make_bags
from bagwise.evaluate import compare, corrected_t_test, evaluate
from bagwise.evaluate._comparison import Comparison, Evaluation
from bagwise.evaluate._evaluation import _check_parts, make_folds
from bagwise.exceptions import DataWarning, InputError, LabelError

MODELS = {"set kernel": SetKernelSVM(), "sil": SingleInstanceClassifier(LogisticRegression())}


@pytest.fixture(scope="module")
def data():
    return make_bags(n_bags=30, n_features=3, random_state=0)


@pytest.fixture(scope="module")
def comparison(data):
    return compare(MODELS, data.bags, data.y, cv=3, repeats=2, random_state=5)


def scored(name, **scores):
    named = {key.replace("_", " "): values for key, values in scores.items()}
    return Evaluation(name, named, [0.1] * len(next(iter(scores.values()))))


def test_a_comparison_is_the_sequence_of_its_evaluations(data, comparison):
    folds = make_folds(data.y, n_folds=3, n_repeats=2, seed=5)
    alone = [evaluate(model, data.bags, data.y, cv=folds) for model in MODELS.values()]
    assert [found.scores for found in comparison] == [found.scores for found in alone]
    assert len(comparison) == 2
    assert comparison[-1] is comparison.evaluations[1]
    assert comparison.test_ratio == pytest.approx(0.5)
    assert [found.name for found in comparison] == list(MODELS)


def test_the_table_has_a_column_per_measure(comparison):
    table = comparison.table()
    assert list(table) == ["method", "accuracy", "balanced accuracy", "AUC", "log loss", "time"]
    kernel, sil = comparison
    assert table["AUC"][1] == f"{sil.mean('AUC'):.3f} ± {sil.std('AUC'):.3f}"
    assert table["log loss"][0] == ""  # the set kernel has no probabilities
    assert kernel.seconds


def test_differences_are_the_tests_of_the_folds(comparison):
    kernel, sil = comparison
    (found,) = comparison.differences(rope=0.02, confidence=0.9)
    gains = np.subtract(sil.scores["AUC"], kernel.scores["AUC"])
    assert (found.name, found.reference, found.measure) == ("sil", "set kernel", "AUC")
    test = corrected_t_test(gains, test_ratio=0.5, confidence=0.9, rope=0.02)
    assert (found.mean, found.lower, found.upper, found.p_value) == test[:4]
    assert (found.worse, found.equal, found.better) == test[4:]
    (back,) = comparison.differences(reference="sil")
    assert back.mean == -found.mean
    (accuracy,) = comparison.differences("accuracy")
    assert accuracy.mean == pytest.approx(sil.mean("accuracy") - kernel.mean("accuracy"))


@pytest.mark.parametrize("measure", ["log loss", "one-error", "coverage"])
def test_lower_is_better_for_losses(measure):
    worse = Evaluation("worse", {measure: [0.5, 0.7, 0.6]}, [0.1] * 3)
    good = Evaluation("good", {measure: [0.3, 0.4, 0.45]}, [0.1] * 3)
    (found,) = Comparison([worse, good], 0.5).differences(measure)
    assert found.mean == pytest.approx(0.2167, abs=1e-3)
    assert "good: probably better than worse by 0.217" in str(found)


def test_the_measure_is_auc_average_precision_or_accuracy():
    def measure(**scores):
        return Comparison([scored("a", **scores), scored("b", **scores)], 0.5).known_measure()

    assert measure(accuracy=[0.5], AUC=[0.6]) == "AUC"
    assert measure(accuracy=[0.5], AUC=[np.nan]) == "accuracy"
    assert measure(coverage=[0.5], average_precision=[0.6]) == "average precision"
    assert measure(coverage=[0.5]) == "coverage"


def test_folds_without_the_measure_are_left_out():
    a, b = scored("a", AUC=[0.5, np.nan, 0.6, 0.7]), scored("b", AUC=[0.6, 0.9, np.nan, 0.9])
    (found,) = Comparison([a, b], 0.5).differences("AUC")
    assert found.n_folds == 2
    assert found.mean == pytest.approx(0.15)


def test_a_difference_in_words():
    def words(*scores, **settings):
        found = [scored(name, AUC=values) for name, values in zip("ab", scores, strict=True)]
        return str(Comparison(found, 0.25).differences("AUC", **settings)[0])

    low, high = [0.5, 0.6, 0.5, 0.55], [0.62, 0.71, 0.59, 0.67]
    assert words(low, high).startswith("b: better than a by 0.110 AUC (95% interval 0.07")
    assert words(high, low).startswith("b: worse than a by 0.110 AUC (95% interval 0.07")
    assert words(low, high).endswith("probability better: 100%, equal within 0.01: 0%, worse: 0%.")
    assert "b: probably better than a by 0.050 AUC (95" in words(low, [0.6, 0.65, 0.5, 0.6])
    unclear = words(low, [0.6, 0.55, 0.5, 0.55])
    assert unclear.startswith("b: no clear difference from a, better by 0.013 AUC (95% interval")
    close = words(low, [0.501, 0.6, 0.501, 0.55])
    assert close.startswith("b: as good as a within 0.01, better by 0.001 AUC (95% interval")
    assert words(low, low) == "b: the same AUC as a in all 4 folds."
    constant = words([0.5, 0.6], [0.6, 0.7])
    assert constant == "b: better than a by 0.100 AUC in all 2 folds: no interval."
    single = words([0.5], [0.4])
    assert single == "b: worse than a by 0.100 AUC in the only fold: no interval."
    assert words([np.nan], [0.4]) == "b: no fold has the AUC of both it and a."


def test_a_summary_has_none_for_what_is_undefined():
    found = Comparison([scored("a", AUC=[0.5]), scored("b", AUC=[0.6])], 0.25).differences()[0]
    summary = found.summary()
    assert summary["mean"] == pytest.approx(0.1)
    assert summary["p_value"] is summary["better"] is None
    assert summary["name"] == "b"
    assert summary["n_folds"] == 1


def test_jobs_do_not_change_the_scores(data, comparison):
    steps = []
    settings = {"cv": 3, "repeats": 2, "random_state": 5, "after_fold": lambda: steps.append(1)}
    with parallel_config(backend="threading"):
        found = compare(MODELS, data.bags, data.y, n_jobs=2, **settings)
    assert [e.scores for e in found] == [e.scores for e in comparison]
    assert len(steps) == 12


def test_folds_are_drawn_from_the_seed(data):
    model = {"majority": DummyClassifier(strategy="stratified", random_state=0)}

    def scores(seed):
        (found,) = compare(model, data.bags, data.y, cv=3, random_state=seed)
        return found.scores

    assert scores(1) == scores(1) == scores(np.int64(1))
    assert scores(np.random.RandomState(0)) == scores(np.random.RandomState(0))
    assert scores(0) != scores(1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"models": {}}, "expected a dict of models by name"),
        ({"models": [SetKernelSVM()]}, "expected a dict of models by name"),
        ({"cv": [(np.arange(15), np.arange(15, 30))], "repeats": 2}, "use a number of folds as cv"),
        ({"scoring": {"f1": make_scorer(f1_score)}}, "a scorer of scikit-learn, by its name"),
        ({"scoring": "auc"}, "Unknown score 'auc' for labels. Did you mean AUC"),
    ],
)
def test_what_cannot_be_compared_is_refused(data, settings, message):
    with pytest.raises(InputError, match=message):
        compare(**{"models": MODELS, "X": data.bags, "y": data.y} | settings)


def test_unknown_names_are_refused(comparison):
    with pytest.raises(InputError, match=r"Unknown model 'nsk'\. Choose from set kernel, sil"):
        comparison.differences(reference="nsk")
    with pytest.raises(InputError, match=r"Unknown measure 'F1'\. Choose from accuracy"):
        comparison.differences("F1")
    with pytest.raises(InputError, match=r"Unknown measure 'auc'\. Did you mean AUC"):
        comparison[0].mean("auc")
    assert comparison[0].mean("log loss") is None  # the set kernel has no probabilities
    short = Comparison([scored("a", AUC=[0.5]), scored("b", AUC=[0.5, 0.6])], 0.25)
    with pytest.raises(InputError, match="a comparison needs the same folds"):
        short.differences()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_groups_that_are_the_labels_are_refused(n_classes):
    y = np.arange(12) % n_classes
    with pytest.raises(LabelError, match="not groups equal to the labels"):
        make_folds(y, n_folds=n_classes, groups=-y)


def test_a_label_in_the_groups_of_one_fold_is_an_error_for_two_labels_and_a_warning_for_more():
    y = np.array(["no", "no", "yes"] * 4)
    groups = np.where(y == "yes", 9, np.arange(12) % 4)
    with pytest.raises(LabelError, match="all bags with the label yes are in groups of one fold"):
        make_folds(y, n_folds=2, groups=groups)
    y[::3] = "perhaps"
    with pytest.warns(DataWarning, match="all bags with the label yes are in groups of one fold"):
        make_folds(y, n_folds=2, groups=groups)


def test_groups_that_leave_a_fold_empty_are_refused():
    with pytest.raises(InputError, match="a fold without bags"):
        _check_parts(np.arange(4), [(np.arange(4), np.array([], dtype=int))])
