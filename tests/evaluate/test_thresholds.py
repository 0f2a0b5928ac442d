"""Thresholds against all candidates, one by one; scikit-learn's tuned threshold on bags."""

import numpy as np
import pytest
from sklearn.metrics import make_scorer, precision_score, recall_score
from sklearn.model_selection import StratifiedGroupKFold, TunedThresholdClassifierCV

from bagwise.classification import SetKernelSVM
from bagwise.datasets import make_bags
from bagwise.evaluate import choose_threshold
from bagwise.evaluate._thresholds import RATES, lowest
from bagwise.exceptions import InputError
from bagwise.predictions import Predictions


def rates(positive, said):
    return {
        "sensitivity": recall_score(positive, said),
        "specificity": recall_score(~positive, ~said),
        "precision": precision_score(positive, said, zero_division=0),
    }


def tried(positive, scores, rate, wanted):
    """The best threshold among all scores: the fewest, or the most, positive bags."""
    levels = [*np.unique(scores), np.nextafter(scores.max(), np.inf)]
    levels = levels if rate == "specificity" else levels[:-1]
    good = [t for t in levels if rates(positive, scores >= t)[rate] >= wanted - 1e-12]
    return max(good) if rate == "sensitivity" else min(good)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("wanted", [0.5, 0.8, 0.95])
def test_the_threshold_is_the_best_of_all(rate, wanted, rng):
    for _ in range(5):
        positive = rng.random(40) < 0.4
        scores = np.round(positive * 2 + rng.normal(size=40), 1)  # with ties
        try:
            expected = tried(positive, scores, rate, wanted)
        except ValueError:
            with pytest.raises(InputError, match="no threshold reaches"):
                lowest(positive, scores, rate, wanted)
            continue
        assert lowest(positive, scores, rate, wanted) == expected


def test_the_rates_are_those_of_new_bags():
    inside, shares = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = np.arange(2200) % 2
        scores = 1.5 * y + rng.normal(size=2200)
        found = choose_threshold(y[:200], scores[:200], sensitivity=0.9)
        new = (scores[200:] >= found.value)[y[200:] == 1].mean()
        value, lower, upper = found.rates["sensitivity"]
        inside.append(lower <= new <= upper)
        shares.append([value, new])
    mean = np.mean(shares, axis=0)
    assert mean[0] == pytest.approx(mean[1], abs=0.01)  # not optimistic
    assert np.mean(inside) > 0.85


def test_groups_widen_the_intervals():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60) % 2, 5)
    scores = 1.5 * y + np.repeat(rng.normal(size=60), 5) + 0.1 * rng.normal(size=300)
    names = np.where(y == 1, "ill", "well")
    alone = choose_threshold(names, scores, sensitivity=0.9, pos_label="ill")
    together = choose_threshold(
        names, scores, sensitivity=0.9, pos_label="ill", groups=np.repeat(np.arange(60), 5)
    )
    assert alone.value == together.value
    _, *narrow = alone.rates["specificity"]
    _, *wide = together.rates["specificity"]
    assert np.ptp(wide) > 1.5 * np.ptp(narrow)
    assert "for a sensitivity of 0.9" in str(alone)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "one of sensitivity"),
        ({"sensitivity": 0.9, "precision": 0.9}, "one of sensitivity"),
        ({"sensitivity": 95}, "between 0 and 1"),
        ({"sensitivity": 0.9, "pos_label": "maybe"}, "expected one of"),
        ({"precision": 0.9, "groups": [0, 0, 0, 1]}, "more groups"),
    ],
)
def test_wrong_requests_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        choose_threshold([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4], **settings)


def test_predictions_apply_a_threshold():
    data = make_bags(n_bags=30, n_features=3, separation=3, random_state=0)
    from bagwise.classification import SingleInstanceClassifier

    model = SingleInstanceClassifier().fit(data.bags, data.y)
    scores = model.decision_function(data.bags)
    cut = float(np.median(scores))
    found = Predictions(model, data.bags, threshold=cut)
    table = found.bag_table()
    np.testing.assert_array_equal(table["predicted"], (scores >= cut).astype(int))
    for k in (0, 1):
        own = np.flatnonzero(table["predicted"] == k)
        expected = model.key_instances(data.bags[own], label=k)
        np.testing.assert_array_equal(table["key_instance"][own], expected)
    model.threshold_ = cut  # as `bagwise fit` leaves it in a model
    assert Predictions(model, data.bags).threshold == cut


def test_scikit_learns_tuned_threshold_accepts_bags_and_groups():
    data = make_bags(n_bags=60, n_features=3, separation=2, random_state=0)
    groups = np.arange(60) // 3
    folds = list(StratifiedGroupKFold(3).split(np.zeros(60), data.y, groups))

    def specific(y, predicted):
        enough = recall_score(y, predicted) >= 0.9
        return recall_score(y, predicted, pos_label=0) if enough else -1.0

    tuned = TunedThresholdClassifierCV(SetKernelSVM(), scoring=make_scorer(specific), cv=folds)
    tuned.fit(data.bags, data.y)
    scores = tuned.estimator_.decision_function(data.bags)
    np.testing.assert_array_equal(tuned.predict(data.bags), scores >= tuned.best_threshold_)
    found = []
    for train, test in folds:
        model = SetKernelSVM().fit(data.bags[train], data.y[train])
        said = model.decision_function(data.bags[test]) >= tuned.best_threshold_
        found.append(recall_score(data.y[test], said))
    assert np.mean(found) > 0.8
