"""Sets and intervals with a stated coverage."""

import numpy as np
import pytest
from scipy.special import expit

from bagwise.auto import AutoBagClassifier, AutoBagRegressor
from bagwise.datasets import make_bags
from bagwise.exceptions import InputError
from bagwise.persistence import load_model, save_model


def fitted(n_classes=2, n_bags=60, labels=None, **options):
    data = make_bags(n_bags, 5, n_classes=n_classes, separation=3.0, random_state=0)
    groups = options.pop("groups", None)
    model = AutoBagClassifier(candidates=["nsk"], random_state=0, **options)
    y = data.y if labels is None else np.array(labels)[data.y]
    return model.fit(data.bags, y, groups=groups), data.bags, y


@pytest.mark.parametrize("positive", ["active", "inactive"])
def test_sets_are_ranks_of_probabilities_among_held_out_bags(positive):
    """The columns are those of `classes_`, whichever class is the positive one."""
    model, bags, _ = fitted(labels=["active", "inactive"], pos_label=positive)
    of_positive = expit(model.held_out_scores_[:, 0])
    own = np.where(model.held_out_targets_[:, 0] == 1, of_positive, 1 - of_positive)
    proba = model.predict_proba(bags)
    rank = 1 + (own[:, None, None] <= proba).sum(axis=0)
    np.testing.assert_array_equal(model.predict_set(bags, 0.8), rank / (len(own) + 1) > 0.2 + 1e-9)


def test_held_out_scores_are_those_of_the_leaderboard():
    """Its accuracy is that of the held-out scores, up to the weights of the folds."""
    model, _, _ = fitted(n_bags=90, metric="accuracy")
    scores = dict(zip(model.leaderboard_["method"], model.leaderboard_["accuracy"], strict=True))
    right = (model.held_out_scores_[:, 0] > 0) == model.held_out_targets_[:, 0]
    assert right.mean() < 0.95  # they are not scores of a model that has seen the bags
    assert scores["ensemble"] == pytest.approx(right.mean(), abs=1e-12)  # folds of 18 bags


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sets_grow_with_coverage(n_classes):
    model, bags, y = fitted(n_classes)
    for by in (None, "class"):
        few, many = (model.predict_set(bags, coverage, by=by) for coverage in (0.5, 0.95))
        assert few.shape == (60, n_classes)
        assert few.dtype == bool
        assert (few <= many).all()
        assert few.sum() < many.sum()
        assert many[np.arange(60), np.searchsorted(model.classes_, y)].mean() > 0.9


def test_sets_of_labels_have_a_column_per_label():
    data = make_bags(60, 5, n_classes=3, random_state=0)
    y = np.eye(3, dtype=int)[data.y] | np.eye(3, dtype=int)[np.roll(data.y, 1)]
    model = AutoBagClassifier(candidates=["nsk (random Fourier)"], random_state=0)
    found = model.fit(data.bags, y).predict_set(data.bags)
    assert found.shape == (60, 3)
    assert found[y == 1].mean() > 0.85


def test_a_group_is_compared_with_its_own_bags(tmp_path):
    """Every set of a hospital depends only on the scores of that hospital; also when loaded."""
    groups = np.array(["north", "south", "west"])[np.arange(60) % 3]
    model, bags, _ = fitted(groups=groups, cv=3)
    north = np.flatnonzero(groups == "north")
    before = model.predict_set(bags[north], by="group", groups=groups[north])
    np.testing.assert_array_equal(model.predict_set(bags, by="group", groups=groups)[north], before)
    others = model.held_out_groups_ != "north"
    model.held_out_scores_[others] *= -1
    after = model.predict_set(bags[north], by="group", groups=groups[north])
    np.testing.assert_array_equal(after, before)
    assert model.predict_set(bags).shape == (60, 2)  # groups are not needed without by="group"
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")[0]
    np.testing.assert_array_equal(
        again.predict_set(bags, by="group", groups=groups),
        model.predict_set(bags, by="group", groups=groups),
    )


def test_groups_that_are_unknown_or_missing_are_refused():
    model, bags, _ = fitted(groups=np.arange(60) % 6)
    with pytest.raises(InputError, match=r"bag 1 is of the group 9, of which there are no"):
        model.predict_set(bags[:2], by="group", groups=[0, 9])
    with pytest.raises(InputError, match="give predict_set groups="):
        model.predict_set(bags, by="group")
    with pytest.raises(InputError, match="give fit groups="):
        fitted()[0].predict_set(bags, by="group", groups=np.zeros(60))
    with pytest.raises(InputError, match=r"by='site': expected .class., .group. or None"):
        model.predict_set(bags, by="site")
    with pytest.raises(InputError, match=r"coverage=90: expected a number between 0 and 1"):
        model.predict_set(bags, 90)


def test_the_best_candidate_alone_has_its_own_held_out_scores():
    data = make_bags(60, 5, random_state=0)
    model = AutoBagClassifier(candidates=["nsk", "mind"], ensemble="best", random_state=0)
    model.fit(data.bags, data.y)
    alone = AutoBagClassifier(candidates=model.names_, random_state=0).fit(data.bags, data.y)
    both = [each.predict_set(data.bags, 0.8).mean() for each in (model, alone)]
    assert both[0] == pytest.approx(both[1], abs=0.05)


def test_intervals_have_the_length_of_the_held_out_errors():
    data = make_bags(19, 5, random_state=0)
    y = data.y + np.arange(19.0)
    model = AutoBagRegressor(candidates=["pooled-ridge"], random_state=0).fit(data.bags, y)
    errors = np.sort(np.abs(model.held_out_targets_ - model.held_out_scores_)[:, 0])
    low, high = model.predict_interval(data.bags).T
    np.testing.assert_allclose((low + high) / 2, model.predict(data.bags))
    np.testing.assert_allclose(high - low, 2 * errors[17])  # 18 of 20
    with pytest.raises(InputError, match=r"0.96 is too much for 19 training bags: choose at most"):
        model.predict_interval(data.bags, 0.96)


@pytest.mark.slow
def test_coverage_over_draws():
    """Fewer draws of `python -m benchmarks.coverage`: mean coverage, and size beside MAPIE's."""
    pytest.importorskip("mapie", reason="MAPIE is compared with")
    from benchmarks.coverage import CASES, one_draw, table

    for case in CASES:
        rows = list(table(case, [one_draw(case, seed) for seed in range(12)]))
        for _, name, mean, error, _, ratio in rows:
            if name != "MAPIE":
                assert (mean > 0.9 - 3 * error).all(), (case, name, mean, error)
                assert (mean < 0.95 + 3 * error).all(), (case, name, mean, error)
                assert ratio < 1.15, (case, name, ratio)
