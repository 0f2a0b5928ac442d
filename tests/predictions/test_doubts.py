"""Doubted label sets: against enumeration, and on planted errors."""

import itertools

import numpy as np
import pytest
from scipy.special import softmax

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression, RankLossSIM
from bagwise.exceptions import InputError
from bagwise.predictions import doubted_bags
from bagwise.predictions._ranking import wrong_labels
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline


def drawn(n_bags=60, seed=0):
    """Bags of three well separated classes, with the union of their labels."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_bags)
    kinds = rng.integers(3, size=sizes.sum())
    bags = Bags(
        6 * np.eye(3)[kinds] + rng.normal(size=(len(kinds), 3)),
        np.concatenate([[0], np.cumsum(sizes)]),
    )
    sets = np.zeros((n_bags, 3), int)
    sets[bags.bag_index, kinds] = 1
    return bags, sets


def not_reported(p, labels, missing, spurious):
    """P(no instance reports c | Y) of each listed label, over all labelings and reports."""
    n, n_classes = p.shape
    total, without = 0.0, np.zeros(n_classes)
    for labeling in itertools.product(range(n_classes), repeat=n):
        for reports in itertools.product([0, 1], repeat=n):
            shown = {y for y, reported in zip(labeling, reports, strict=True) if reported}
            if shown <= set(labels):
                chance = p[np.arange(n), labeling].prod() * (1 - missing) ** sum(reports)
                chance *= missing ** (n - sum(reports)) * spurious ** (len(labels) - len(shown))
                total += chance
                for c in set(labels) - shown:
                    without[c] += chance
    return without / total


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_listed_label_is_wrong_where_no_instance_reports_it(missing):
    bags, sets = drawn(8)
    sets[3] = 1
    model = ORedLogisticRegression(missing=missing, spurious=0.1).fit(bags, sets)
    found = wrong_labels(model, bags, sets)
    for b, bag in enumerate(bags):
        p = softmax(bag @ model.coef_.T + model.intercept_, axis=1)
        labels = np.flatnonzero(sets[b])
        expected = not_reported(p, labels, missing, 0.1)
        np.testing.assert_allclose(found[b, labels], expected[labels], rtol=1e-6, atol=1e-12)
    assert ((found >= 0) & (found <= 1)).all()


def test_a_label_outside_the_set_is_missing_where_an_instance_has_it():
    bags, sets = drawn(12)
    model = ORedLogisticRegression(missing=0.2, spurious=0.1).fit(bags, sets)
    proba = model.annotate_proba(bags, sets)
    found = wrong_labels(model, bags, sets)
    for b, rows in enumerate(bags.split(proba)):
        outside = sets[b] == 0
        expected = 1 - np.prod(1 - rows, axis=0)
        np.testing.assert_allclose(found[b, outside], expected[outside], atol=1e-12)


def test_no_label_is_spurious_where_none_can_be(recwarn):
    bags, sets = drawn(12)
    model = ORedLogisticRegression(1e-6, missing=0.1).fit(bags, sets)
    far = bags.with_instances(1e4 * bags.instances)  # probabilities that underflow
    others = sets[::-1]
    assert (wrong_labels(model, far, others)[others == 1] == 0).all()
    assert not recwarn.list


def test_planted_errors_come_first():
    bags, sets = drawn(80)
    extra = np.flatnonzero(sets.sum(axis=1) < 3)[:6]
    several = np.setdiff1d(np.flatnonzero(sets.sum(axis=1) > 1), extra)[:6]
    written = sets.copy()
    planted = [(b, int(np.flatnonzero(sets[b] == 0)[0]), "spurious") for b in extra]
    planted += [(b, int(np.flatnonzero(sets[b])[0]), "missing") for b in several]
    for b, label, _ in planted:
        written[b, label] ^= 1
    written[-1] = -1
    model = make_bag_pipeline(
        InstanceTransformer(),
        ORedLogisticRegression(missing="learn", spurious="learn", random_state=0),
    )
    table = doubted_bags(model.fit(bags, written), bags, written)
    rows = zip(table["bag"].tolist(), table["label"].tolist(), table["error"].tolist(), strict=True)
    assert set(itertools.islice(rows, 12)) == {(int(b), c, kind) for b, c, kind in planted}
    assert (np.diff(table["doubt"]) <= 0).all()
    doubts = wrong_labels(model[-1], model[:-1].transform(bags), written)
    expected = 1 - np.prod(1 - doubts, axis=1)  # some label is wrong
    np.testing.assert_allclose(table["doubt"], expected[table["bag"].astype(int)], atol=1e-9)
    assert len(table["bag"]) == 79  # nothing is known of the last


@pytest.mark.parametrize(
    ("model", "message"),
    [(ORedLogisticRegression(), "missing='learn'"), (RankLossSIM(), "RankLossSIM does not")],
)
def test_models_that_doubt_nothing_are_refused(model, message):
    bags, sets = drawn(12)
    with pytest.raises(InputError, match=message):
        doubted_bags(model.fit(bags, sets), bags, sets)
