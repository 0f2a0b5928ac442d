"""Conformal p-values and intervals against counting, and their laws."""

import numpy as np
import pytest

from bagwise.solvers.conformal import TINY, interval_radius, label_p_values, p_values


def test_p_values_count_the_bags_that_are_at_least_as_strange(rng):
    calibration = rng.integers(0, 5, 20).astype(float)  # with ties
    scores = np.arange(-1.0, 6.0).reshape(1, -1)
    expected = [[(1 + sum(a >= score for a in calibration)) / 21 for score in scores[0]]]
    np.testing.assert_allclose(p_values(scores, calibration), expected, rtol=1e-15)


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_label_p_values_compare_a_class_with_bags_of_its_part(rng, by_class, grouped):
    scores, known = rng.normal(size=(7, 3)), rng.normal(size=(30, 3))
    present = rng.random((30, 3)) < 0.4  # label sets: also several labels, or none
    new, old = rng.integers(0, 2, 7), rng.integers(0, 2, 30)
    found = label_p_values(
        scores, known, present, by_class=by_class, groups=(new, old) if grouped else None
    )
    for i, k in np.ndindex(scores.shape):
        calibration = [
            known[j, label]
            for j, label in np.argwhere(present)
            if (not by_class or label == k) and (not grouped or old[j] == new[i])
        ]
        expected = (1 + sum(a >= scores[i, k] for a in calibration)) / (len(calibration) + 1)
        assert found[i, k] == pytest.approx(expected)


def test_p_values_of_exchangeable_scores_are_uniform(rng):
    """Of n + 1 exchangeable scores without ties, each rank is equally likely."""
    found = [p_values(rng.normal(size=1), rng.normal(size=9))[0] for _ in range(4000)]
    shares = np.bincount(np.round(np.array(found) * 10).astype(int), minlength=11)[1:] / 4000
    assert np.abs(shares - 0.1).max() < 4 * np.sqrt(0.09 / 4000)


def test_a_smaller_p_value_is_excluded_by_a_smaller_coverage(rng):
    """A set that contains a class has it at each larger coverage too; sets of 1 - p include it."""
    found = label_p_values(rng.normal(size=(5, 2)), rng.normal(size=(9, 2)), np.eye(2)[[0] * 9] > 0)
    sizes = [(found > 1 - coverage + TINY).sum() for coverage in (0.5, 0.7, 0.9, 0.95)]
    assert sizes == sorted(sizes)
    assert (p_values(np.array([9.0]), np.zeros(9)) > 1 - 0.9 + TINY).sum() == 0  # 1/10 is not more


def test_the_radius_is_the_smallest_that_covers_with_the_new_error(rng):
    errors = rng.random(19)
    assert interval_radius(errors, 0.9) == np.sort(errors)[17]  # 18 of 20
    assert interval_radius(errors, 0.95) == errors.max()  # 19 of 20
    assert interval_radius(errors, 0.96) == np.inf
