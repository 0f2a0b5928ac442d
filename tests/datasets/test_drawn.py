"""Synthetic data follow their description, are reproducible, and reject invalid options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise import datasets
from bagwise.datasets import _generated
from bagwise.exceptions import InputError
from cases import each

DRAWN = [datasets.make_digit_bags, datasets.make_bags]


@each("make", DRAWN)
def test_a_seed_repeats_and_another_does_not(make):
    one, same, other = (make(30, random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.bags.instances, same.bags.instances)
    assert np.array_equal(one.bags.offsets, same.bags.offsets)
    assert np.array_equal(one.instance_labels, same.instance_labels)
    assert one.bags.instances.shape != other.bags.instances.shape or not np.array_equal(
        one.bags.instances, other.bags.instances
    )


class TestDigits:
    @given(
        n_bags=st.integers(1, 20),
        target=st.integers(0, 9),
        share=st.floats(0, 1),
        seed=st.integers(0, 99),
    )
    @settings(max_examples=30)
    def test_a_bag_is_positive_when_it_contains_the_target(self, n_bags, target, share, seed):
        data = datasets.make_digit_bags(
            n_bags, target=target, positive_share=share, random_state=seed
        )
        contains = [target in digits for digits in data.bags.split(data.digits)]
        assert contains == (data.y == 1).tolist()
        assert data.y.sum() == round(share * n_bags)
        assert np.array_equal(data.instance_labels == 1, data.digits == target)

    def test_sizes_are_normal(self):
        sizes = datasets.make_digit_bags(2000, random_state=0).bags.sizes
        assert sizes.mean() == pytest.approx(10, abs=0.15)
        assert sizes.std() == pytest.approx(2, abs=0.15)

    def test_images_are_those_of_their_digits(self):
        images, digits = np.arange(10.0)[:, None], np.arange(10)
        data = datasets.make_digit_bags(20, digits=(images, digits), random_state=0)
        assert np.array_equal(data.bags.instances[:, 0], data.digits)

    @each(
        ("options", "message"),
        [
            ({"target": 11}, "no bag with the target"),
            ({"positive_share": 1.5}, "positive_share == 1.5"),
            ({"digits": ([[1.0]], [1, 2])}, "inconsistent"),
            ({"digits": ([[1.0]], [9])}, "no bag without the target"),
        ],
    )
    def test_bad_options(self, options, message, monkeypatch):
        monkeypatch.setattr(_generated, "MOST_DRAWS", 100)
        with pytest.raises((TypeError, ValueError), match=message):
            datasets.make_digit_bags(10, **options)


class TestSyntheticBags:
    @given(
        n_bags=st.integers(1, 40),
        n_classes=st.integers(2, 4),
        sizes=st.tuples(st.integers(1, 3), st.integers(0, 3)),
        seed=st.integers(0, 99),
    )
    def test_sizes_classes_and_labels(self, n_bags, n_classes, sizes, seed):
        smallest, largest = sizes[0], sum(sizes)
        data = datasets.make_bags(
            n_bags, 6, n_classes=n_classes, bag_size=(smallest, largest), random_state=seed
        )
        assert data.bags.shape == (n_bags, 6)
        assert smallest <= data.bags.sizes.min() <= data.bags.sizes.max() <= largest
        counts = np.bincount(data.y, minlength=n_classes)
        assert counts.max() - counts.min() <= 1
        first = data.bags.offsets[:-1]
        assert np.array_equal(data.instance_labels[first], data.y)
        assert (np.delete(data.instance_labels, first) == -1).all()

    def test_clusters_are_unit_normal_and_as_far_apart_as_asked(self):
        data = datasets.make_bags(6000, 5, n_classes=3, separation=7, random_state=0)
        first = data.bags.instances[data.bags.offsets[:-1]]
        centres = np.array([first[data.y == c].mean(axis=0) for c in range(3)])
        for a, b in [(0, 1), (0, 2), (1, 2)]:
            assert np.linalg.norm(centres[a] - centres[b]) == pytest.approx(7, abs=0.15)
        assert (first - centres[data.y]).std() == pytest.approx(1, abs=0.02)

    def test_noise_is_uniform(self):
        data = datasets.make_bags(2000, 5, noise=3, random_state=0)
        noise = data.bags.instances[data.instance_labels == -1]
        assert (noise.min(), noise.max()) == pytest.approx((-3, 3), abs=0.01)
        assert noise.std() == pytest.approx(3 / np.sqrt(3), abs=0.02)

    @each(
        ("options", "message"),
        [
            ({"n_classes": 11}, "at least as many features"),
            ({"n_classes": 1}, "n_classes == 1"),
            ({"bag_size": (0, 2)}, "smallest bag_size == 0"),
            ({"bag_size": (3, 2)}, "largest bag_size == 2"),
        ],
    )
    def test_bad_options(self, options, message):
        with pytest.raises((TypeError, ValueError), match=message):
            datasets.make_bags(10, **options)


def test_bags_that_can_hardly_be_drawn_are_refused(monkeypatch):
    """Without a bound a bag of a thousand digits without a nine was waited for."""
    monkeypatch.setattr(_generated, "MOST_DRAWS", 100)
    with pytest.raises(InputError, match="no bag without the target in 100 draws"):
        datasets.make_digit_bags(10, mean_size=1000, random_state=0)
