"""Predictions of an evaluation, and bootstrap intervals: against bags that are really repeated."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from sklearn.dummy import DummyRegressor
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score

from bagwise.classification import CitationKNN, OrdinalBagClassifier, SetKernelSVM
from bagwise.datasets import load_letter_carroll, make_bags
from bagwise.evaluate import compare, evaluate
from bagwise.evaluate._comparison import Evaluation
from bagwise.evaluate._held_out_bags import HeldOutBags, draws_of, weighted_area
from bagwise.exceptions import InputError
from bagwise.preprocessing import make_bag_pipeline
from bagwise.regression import SetKernelRegressor


def evaluations():
    """An evaluation of each kind of target."""
    data = make_bags(n_bags=40, n_features=3, n_classes=3, separation=2, random_state=0)
    numbers = np.round([bag.mean() for bag in data.bags], 1)
    model = make_bag_pipeline(SetKernelRegressor())
    both = np.column_stack([numbers, numbers**2])
    sets = load_letter_carroll(random_state=0)
    return {
        "two": (CitationKNN(), data.bags, data.y > 0),
        "three": (CitationKNN(), data.bags, data.y),
        "grades": (OrdinalBagClassifier(SetKernelSVM()), data.bags, data.y),
        "numbers": (model, data.bags, numbers),
        "sets": (CitationKNN(), sets.bags[:40], sets.label_sets[:40]),
        "several": (_Both(), data.bags, both),
    }


class _Both(SetKernelRegressor):
    """Predicts two numbers."""

    def fit(self, X, y):
        self.inner_ = SetKernelRegressor().fit(X, y[:, 0])
        return self

    def predict(self, X):
        found = self.inner_.predict(X)
        return np.column_stack([found, found**2])


@pytest.mark.parametrize("kind", evaluations())
def test_weights_of_bags_are_copies_of_them(kind, rng):
    model, bags, y = evaluations()[kind]
    held = evaluate(model, bags, y, cv=2).held_out
    W = rng.integers(0, 3, (8, len(held)))
    W[5:] = 3 * np.eye(len(held), dtype=int)[:3]  # one bag alone: nothing varies
    found = held._measured(W, ())
    for b in range(8):
        copies = held.take(np.repeat(np.arange(len(held)), W[b]))
        expected = copies.measure(copies.found, copies.y)
        for name, value in expected.items():
            assert found[name][b] == pytest.approx(value, abs=1e-9, nan_ok=True), name
        assert found.keys() == expected.keys()


def test_an_interval_contains_the_mean_and_shrinks_with_more_bags():
    widths = []
    for n_bags in (40, 160):
        data = make_bags(n_bags=n_bags, n_features=3, separation=2, random_state=1)
        found = evaluate(SetKernelSVM(), data.bags, data.y, cv=4)
        lower, upper = found.intervals()["accuracy"]
        assert lower < found.mean("accuracy") < upper
        widths.append(upper - lower)
    assert widths[1] < 0.75 * widths[0]


def test_copies_of_all_bags_of_a_group_do_not_narrow_an_interval():
    data = make_bags(n_bags=40, n_features=3, separation=2, random_state=1)
    once = evaluate(SetKernelSVM(), data.bags, data.y, cv=4)
    held = once.held_out
    twice = held.take(np.tile(np.arange(40), 2))
    copied = Evaluation("copied", once.scores, once.seconds, twice)
    assert copied.intervals()["accuracy"] == once.intervals()["accuracy"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*in the training and the test part of a fold")
def test_an_interval_covers_the_accuracy_of_the_folds_models():
    """95 of 100 intervals for 60 test bags cover the accuracy on 400 others, roughly."""
    inside = []
    for seed in range(40):
        data = make_bags(n_bags=500, n_features=3, separation=1.5, random_state=seed)
        order = np.random.RandomState(seed).permutation(500)
        few, many = (np.arange(40), order[100:160]), (np.arange(40), order[160:])
        found = [evaluate(SetKernelSVM(), data.bags, data.y, cv=[fold]) for fold in (few, many)]
        lower, upper = found[0].intervals()["accuracy"]
        inside.append(lower <= found[1].mean("accuracy") <= upper)
    assert np.mean(inside) > 0.85


def test_predictions_have_a_row_per_bag_repeat_and_method():
    data = make_bags(n_bags=20, n_features=3, n_classes=3, random_state=0)
    groups = np.arange(20) // 2
    models = {"knn": CitationKNN(), "nsk": SetKernelSVM()}
    table = compare(
        models, data.bags, data.y, cv=2, repeats=3, groups=groups, scoring="accuracy"
    ).predictions()
    names = ["id", "repeat", "fold", "group", "method", "label", "predicted"]
    scores = [f"{kind}:{k}" for kind in ("score", "probability") for k in range(3)]
    assert sorted(table) == sorted(names + scores)
    keys = set(zip(table["id"], table["repeat"], table["method"], strict=True))
    assert len(keys) == len(table["id"]) == 20 * 3 * 2
    ids = table["id"].astype(int)
    assert (table["label"] == data.y[ids]).all()
    assert (table["group"] == groups[ids]).all()
    assert set(table["fold"]) == {1, 2, 3, 4, 5, 6}
    assert table["probability:1"][table["method"] == "nsk"].tolist() == [None] * 60
    proba = table["probability:2"][table["method"] == "knn"].astype(float)
    assert ((proba >= 0) & (proba <= 1)).all()


def test_each_class_is_measured_against_all_others():
    data = make_bags(n_bags=40, n_features=3, n_classes=3, separation=2, random_state=0)
    found = evaluate(CitationKNN(), data.bags, data.y, cv=3)
    held, table = found.held_out, found.per_class()
    for k in range(3):
        true, said = held.y == k, held.found["predict"] == k
        expected = {
            "sensitivity": recall_score(true, said),
            "specificity": recall_score(~true, ~said),
            "precision": precision_score(true, said),
            "F1": f1_score(true, said),
            "average precision": average_precision_score(true, held.found["predict_proba"][:, k]),
        }
        for name, value in expected.items():
            assert table[name][k] == pytest.approx(value)
            assert table[f"{name} lower"][k] <= value <= table[f"{name} upper"][k]
    numbers = evaluate(SetKernelRegressor(), data.bags, data.y.astype(float), cv=3)
    with pytest.raises(InputError, match="no classes"):
        numbers.per_class()


def test_parts_of_the_bags_are_measured_on_their_own():
    data = make_bags(n_bags=40, n_features=3, separation=2, random_state=0)
    found = evaluate(SetKernelSVM(), data.bags, data.y, cv=4, repeats=2)
    site = np.array(["north", "south"])[np.arange(40) % 2]
    table = found.by(site)
    assert table["part"] == ["north", "south"]
    assert table["bags"] == [20, 20]
    held = found.held_out
    right = held.found["predict"] == held.y
    for part, value in zip(table["part"], table["accuracy"], strict=True):
        assert value == pytest.approx(right[site[held.position] == part].mean())
    with pytest.raises(InputError, match="one for each bag"):
        found.by(site[:7])


def test_scorers_of_scikit_learn_have_intervals():
    data = make_bags(n_bags=40, n_features=3, separation=2, random_state=0)
    scoring = ["f1", "neg_brier_score", "AUC"]
    found = evaluate(CitationKNN(), data.bags, data.y, cv=3, scoring=scoring)
    for name, (lower, upper) in found.intervals().items():
        assert lower <= found.mean(name) <= upper
    assert list(found.intervals()) == scoring


def test_scores_alone_have_no_intervals():
    with pytest.raises(InputError, match="no held-out predictions"):
        Evaluation("other", {"AUC": [0.5]}, [0.1]).intervals()


def drawn(y, *, predicted, scores=None, kind="labels", fold=0):
    """Held-out bags with given predictions."""
    n = len(y)
    found = {"predict": predicted} | ({} if scores is None else {"decision_function": scores})
    classes = np.array([False, True]) if kind == "labels" else None
    rows, fold = np.arange(n), np.broadcast_to(fold, n)
    about = (y, rows.astype(str), None, rows, fold, np.zeros(n, dtype=int), classes, kind)
    return HeldOutBags(found, *about, lambda found, y: {})


@pytest.mark.parametrize("n_each", [5, 15])
def test_intervals_of_few_separated_bags_contain_the_expected_auc(n_each, rng):
    """95 of 100 contain it; of percentiles alone 24 to 79."""
    inside, percentiles, y = [], [], np.arange(2 * n_each) % 2 == 1
    for seed in range(200):
        scores = rng.normal(size=len(y)) + 2.9 * y  # the expected AUC is .98
        held = drawn(y, predicted=scores > 1.45, scores=scores)
        _, lower, upper = held.intervals(n_draws=200, seed=seed)["AUC"]
        areas = weighted_area(y, scores, draws_of(held.position, 200, seed)[1:])
        ends = np.nanpercentile(areas, (2.5, 97.5))
        inside.append(lower <= norm.cdf(2.9 / np.sqrt(2)) <= upper)
        percentiles.append(ends[0] <= 0.98 <= ends[1])
        assert lower <= ends[0] + 1e-12
        assert upper >= ends[1] - 1e-12
    assert np.mean(inside) > 0.93 > 0.8 > np.mean(percentiles)


@pytest.mark.parametrize("n_groups", [4, 8])
def test_intervals_of_few_groups_contain_chance_where_groups_differ(n_groups, rng):
    """Each group is scored well or badly by chance."""
    inside, y = [], np.arange(10 * n_groups) % 2 == 1
    groups = np.repeat(np.arange(n_groups), 10)
    for seed in range(200):
        scores = rng.normal(size=n_groups)[groups] * y + rng.normal(size=len(y))
        held = replace(drawn(y, predicted=scores > 0, scores=scores, fold=groups), groups=groups)
        _, lower, upper = held.intervals(n_draws=200, seed=seed)["AUC"]
        inside.append(lower <= 0.5 <= upper)
    assert np.mean(inside) > 0.83


def test_perfect_predictions_of_more_bags_are_surer():
    lowest = []
    for n in (6, 60, 600):
        y = np.arange(n) % 2 == 1
        found = drawn(y, predicted=y, scores=y - 0.5)
        lower, upper = found.intervals()["accuracy"][1:]
        expected = binomtest(n, n).proportion_ci(method="wilson")
        assert (lower, upper) == (pytest.approx(expected.low), 1)
        row = found.per_class()
        assert row["sensitivity lower"][1] < lower == row["AUC lower"][1] < 1
        lowest.append(lower)
    assert lowest == sorted(lowest)


def test_intervals_of_r2_contain_the_expected_one_with_few_bags_per_fold(rng):
    """The mean over folds of four bags is far below it: 28 of 100 intervals contained it."""
    inside, y = [], rng.normal(size=(200, 20))
    for seed, truth in enumerate(y):
        predicted = truth / 2 + rng.normal(size=20) / 2  # the expected R2 is .5
        held = drawn(truth, predicted=predicted, kind="numbers", fold=np.arange(20) % 5)
        _, lower, upper = held.intervals(n_draws=200, seed=seed)["R2"]
        inside.append(lower <= 0.5 <= upper)
    assert np.mean(inside) > 0.8


def test_a_constant_has_no_rank_correlation_of_the_means_of_the_folds():
    """Predictions of all folds together differ, as the means of the folds do."""
    data = make_bags(n_bags=20, n_features=3, random_state=0)
    y = np.array([bag.mean() for bag in data.bags])
    found = evaluate(DummyRegressor(), data.bags, y, cv=4)
    assert found.mean("Spearman") is None
    assert {*found.intervals()} == {"R2", "MAE"}


def test_numbers_as_a_frame():
    pd = pytest.importorskip("pandas")
    data = make_bags(n_bags=20, n_features=3, random_state=0)
    found = compare({"nsk": SetKernelSVM(), "knn": CitationKNN()}, data.bags, data.y, cv=4)
    frame, numbers = found.to_frame(), found.numbers()
    assert list(frame.columns) == list(numbers)
    assert frame["AUC"].tolist() == [each.mean("AUC") for each in found]
    assert pd.isna(frame["difference"][0])
    assert r"\begin{tabular}" in found.to_latex()
