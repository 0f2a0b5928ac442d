"""Data of an instance that the review page receives."""

import json
import re
from importlib import resources

import numpy as np
from scipy import sparse

from bagwise import Bags
from bagwise.apps.review import ReviewQueue
from bagwise.apps.review._card import MOST_BARS, MOST_NEIGHBOURS, Strips, card
from syllables import fitted


def test_bars_are_standard_deviations(rng):
    rows = rng.normal(3, [1, 5, 0.1], size=(50, 3))
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    bags = Bags(rows, [0, 20, 50], feature_names=["red", "green", "blue"])
    for shown in (bags, bags.with_instances(sparse.csr_array(rows))):
        strips = Strips(shown)
        found = np.array(strips.bars([0, 7, 49]))
        np.testing.assert_allclose(found, np.clip(z[[0, 7, 49]], -3, 3), atol=0.005)
    j = np.abs(z[7]).argmax()
    name = ["red", "green", "blue"][j]
    assert Strips(bags).unusual(7)[0] == f"{name} {rows[7, j]:.3g} ({z[7, j]:+.1f} sd)"


def test_gaps_constants_and_many_features(rng):
    rows = rng.normal(size=(6, 1000))
    rows[:, 3] = 1.0
    rows[:, 5] = np.nan
    rows[2, 7] = np.inf
    strips = Strips(Bags(rows, [0, 6]))
    bars = np.array(strips.bars(range(6)))
    assert bars.shape == (6, MOST_BARS)
    assert np.isfinite(bars).all()
    assert len(strips.unusual(2)) == 4


def test_a_card_is_plain_and_its_neighbours_are_near():
    model, bags, sets, _ = fitted()
    queue = ReviewQueue(model, bags, sets)
    shown = card(5, queue, None, Strips(bags))
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert shown["instance"] == 5
    assert [n["instance"] for n in shown["neighbours"]] == [
        i for i in range(bags.n_instances) if bags.bag_index[i] == bags.bag_index[5]
    ]
    rows = np.tile(bags.instances, (5, 1))
    large = Bags(rows, [0, len(rows)], feature_names=bags.feature_names)
    queue = ReviewQueue(model, large, [{"owl", "robin", "wren"}])
    for i in (0, 80, large.n_instances - 1):
        near = [n["instance"] for n in card(i, queue, None, Strips(large))["neighbours"]]
        assert i in near
        assert len(near) == MOST_NEIGHBOURS


def test_every_id_of_the_page_is_there_once():
    page = (resources.files("bagwise.apps.review") / "pages" / "review.html").read_text("utf-8")
    script = (resources.files("bagwise.apps.review") / "pages" / "review.js").read_text("utf-8")
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'\bat\("([^"]+)"\)', script)) <= set(ids)
