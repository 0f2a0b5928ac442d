"""``score_keys``: key instances compared with known ones."""

import numpy as np
import pytest

from bagwise import Bags
from bagwise.classification import BagMarginSVM
from bagwise.datasets import make_bags
from bagwise.exceptions import InputError
from bagwise.predictions import score_keys
from bagwise.regression import SetKernelRegressor


def test_the_share_of_bags_whose_key_is_known_and_that_of_chance():
    data = make_bags(60, random_state=0)
    model = BagMarginSVM().fit(data.bags, data.y)
    rng = np.random.default_rng(0)
    known = rng.random(data.bags.n_instances) < 0.3
    keys = data.bags.offsets[:-1] + model.key_instances(data.bags)
    hits, shares = [], []
    for i, own in enumerate(data.bags.split(known)):
        if own.any():
            hits.append(known[keys[i]])
            shares.append(own.mean())
    found = score_keys(model, data.bags, known)
    assert found == (np.mean(hits), pytest.approx(np.mean(shares)), len(hits))
    assert score_keys(model, data.bags, np.where(known, 1, -1)) == found


def test_all_known_is_always_found_and_a_planted_one_above_chance():
    data = make_bags(60, random_state=0)
    model = BagMarginSVM().fit(data.bags, data.y)
    assert score_keys(model, data.bags, np.ones(data.bags.n_instances))[:2] == (1, 1)
    positive = data.bags[data.y == 1]
    planted = np.concatenate(data.bags.split(data.instance_labels == 1))
    planted = planted[np.repeat(data.y == 1, data.bags.sizes)]
    found = score_keys(model, positive, planted)
    assert found.found > 2 * found.chance


def test_a_regressor_without_key_instances_has_contributions():
    rng = np.random.default_rng(1)
    bags = Bags.from_arrays([rng.normal(size=(4, 2)) for _ in range(20)])
    y = np.array([bag[:, 0].max() for bag in bags])
    model = SetKernelRegressor(bag_kernel="minimax").fit(bags, y)
    found = score_keys(model, bags, np.arange(80) % 4 == 0)
    assert found.n_bags == 20
    assert found.chance == 0.25


@pytest.mark.parametrize(
    ("known", "said"),
    [(np.zeros(20), "no instance is a known one"), (np.ones(3), "instance_labels for 20")],
)
def test_labels_that_say_nothing_are_refused(known, said):
    bags = Bags(np.random.default_rng(0).normal(size=(20, 2)), np.arange(0, 21, 2))
    model = SetKernelRegressor().fit(bags, np.arange(10.0))
    with pytest.raises(InputError, match=said):
        score_keys(model, bags, known)
