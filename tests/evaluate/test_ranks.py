"""Ranks over several data sets, against the worked example and the table of Demsar (2006)."""

import numpy as np
import pytest
from scipy.stats import chi2

from bagwise.evaluate import ranks
from bagwise.evaluate._comparison import Comparison, Evaluation, critical_difference
from bagwise.exceptions import InputError

# AUC of four versions of C4.5 on 14 data sets: Table 6 of Demsar (2006). Its ranks tell two rounded
# values apart, 0.975 and 0.975 (0.9751 here).
DEMSAR = np.array([
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
])  # fmt: skip
MODELS = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]


def tables(scores, models=MODELS):
    return {f"set {i}": dict(zip(models, row, strict=True)) for i, row in enumerate(scores)}


def test_the_example_of_demsar():
    found = ranks(tables(DEMSAR))
    np.testing.assert_allclose(found.mean_ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    statistic = 12 * 14 / (4 * 5) * (np.sum(found.mean_ranks**2) - 4 * 5**2 / 4)
    assert statistic == pytest.approx(9.28, abs=0.005)
    assert found.p_value == pytest.approx(chi2.sf(9.28, 3), abs=0.01)  # scipy corrects for ties
    assert found.critical_difference == pytest.approx(1.25, abs=0.005)
    assert ranks(tables(DEMSAR), alpha=0.1).critical_difference == pytest.approx(1.12, abs=0.005)
    assert found.groups() == [["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]]


@pytest.mark.parametrize(
    ("n_models", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (7, 2.949), (10, 3.164)]
)
def test_critical_values_are_those_of_the_table(n_models, q):
    n_data_sets = 12
    expected = q * np.sqrt(n_models * (n_models + 1) / (6 * n_data_sets))
    assert critical_difference(n_models, n_data_sets) == pytest.approx(expected, rel=5e-4)


def test_ranks_are_counts_of_better_models(rng):
    scores = rng.integers(0, 4, size=(6, 5)) / 4
    found = ranks(tables(scores, list("abcde")))
    for row, places in zip(scores, found.ranks, strict=True):
        for score, place in zip(row, places, strict=True):
            assert place == 1 + np.sum(row > score) + (np.sum(row == score) - 1) / 2
    assert found.ranks.sum(axis=1) == pytest.approx([15] * 6)


def test_groups_are_the_maximal_spans_within_the_critical_difference(rng):
    for _ in range(30):
        found = ranks(tables(rng.normal(size=(40, 6)) + np.arange(6) * 0.2, list("abcdef")))
        means = dict(zip(found.models, found.mean_ranks, strict=True))
        for group in found.groups():
            span = [means[model] for model in group]
            assert span == sorted(span)
            assert span[-1] - span[0] < found.critical_difference
        for one in means:  # two models are in one group exactly where they cannot be told apart
            for other in means:
                close = abs(means[one] - means[other]) < found.critical_difference
                together = any(one in group and other in group for group in found.groups())
                assert one == other or close == together
        firsts = [group[0] for group in found.groups()]
        assert len(set(firsts)) == len(firsts)


def test_comparisons_are_ranked_by_a_measure():
    def comparison(*losses):
        names = ("a", "b")
        found = [
            Evaluation(name, {"AUC": [1 - loss], "log loss": [2 * loss]}, [0.1])
            for name, loss in zip(names, losses, strict=True)
        ]
        return Comparison(found, 0.25)

    data = {"one": comparison(0.1, 0.3), "two": comparison(0.2, 0.4)}
    assert ranks(data).mean_ranks.tolist() == [1, 2]
    assert ranks(data, measure="log loss").mean_ranks.tolist() == [1, 2]  # lower is better
    assert np.isnan(ranks(data).p_value)  # the Friedman test is for three models or more


def test_equal_models_share_their_ranks():
    found = ranks(tables(np.ones((3, 4))))
    assert found.mean_ranks.tolist() == [2.5] * 4
    assert found.p_value == 1
    assert found.groups() == [MODELS]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "expected at least 2 models"),
        ({"one": {"a": 1.0}}, "expected at least 2 models"),
        ({"one": {"a": 1.0, "b": 0.5}, "two": {"a": 1.0}}, "same models on all data sets"),
        ({"one": {"a": 1.0, "b": np.nan}}, "one has scores of a, the first data set lists a, b"),
    ],
)
def test_what_cannot_be_ranked_is_refused(scores, message):
    with pytest.raises(InputError, match=message):
        ranks(scores)


def test_a_level_is_between_zero_and_one():
    with pytest.raises(InputError, match="alpha 5"):
        critical_difference(3, 4, alpha=5)
