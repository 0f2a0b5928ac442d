"""What annotators report, the protocols that learn from it, and bags with known shares."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from bagwise.annotation import ORedLogisticRegression
from bagwise.exceptions import DataNotFoundError
from bagwise.labels import LabelCounts
from cases import each
from reproduction import load_paper, make_plan
from reproduction._protocols import PROTOCOLS
from reproduction._protocols.observations import reported
from reproduction.sources import make_share_bags

NUMBERS = np.random.default_rng(0).integers(0, 5, size=(200, 6))
PRESENT = NUMBERS > 0


def report(kind):
    return reported(kind, NUMBERS, np.random.default_rng(1))


@each("kind", ["sets", "capped", "counts"])
def test_a_report_is_true(kind):
    found = report(kind)
    if kind == "sets":
        np.testing.assert_array_equal(found, PRESENT)
        return
    assert isinstance(found, LabelCounts)
    assert np.all(found.lower <= NUMBERS)
    assert np.all((found.upper < 0) | (found.upper >= NUMBERS))
    limit = 3 if kind == "capped" else 99
    known = limit > NUMBERS
    np.testing.assert_array_equal(found.upper[known], NUMBERS[known])
    assert np.all(found.upper[~known] == -1)


@each("percent", [10, 30, 50])
def test_the_same_cells_are_unknown_or_taken_for_absent(percent):
    unknown, absent = report(f"unknown-{percent}"), report(f"absent-{percent}")
    hidden = unknown == -1
    assert hidden.mean() == pytest.approx(percent / 100, abs=0.05)
    np.testing.assert_array_equal(unknown[~hidden], PRESENT[~hidden])
    np.testing.assert_array_equal(absent, np.where(hidden, 0, PRESENT))
    if percent == 30:
        presences = report("presences-30")
        np.testing.assert_array_equal(presences, np.where(PRESENT & ~hidden, 1, -1))


def unit(experiment, *only):
    paper = load_paper("observations")
    chosen = paper.experiment(experiment).shortened(only).narrowed(only)
    units = make_plan(paper, chosen).units
    return units[0] if units else pytest.skip(f"{only[0]} is not in the data home")


def test_more_knowledge_is_worth_more():
    sets, counts = (PROTOCOLS["observe"](unit("worth", "frost", k)) for k in ("sets", "counts"))
    assert counts["training"] > sets["training"]
    absent = PROTOCOLS["observe"](unit("worth", "frost", "absent-50"))
    assert absent["inductive"] < sets["inductive"]


def test_candidates_are_label_sets_of_which_one_is_right():
    one = unit("candidates", "lost", "linear")
    data = one.load()
    folds = KFold(10, shuffle=True, random_state=one.shared_seed).split(data.label_sets)
    train, _ = next(folds)
    found = PROTOCOLS["learn_candidates"](one)
    assert 0.6 < found["inductive"] < found["training"]
    # The likelihood of a candidate set is the sum of the probabilities of its labels.
    rows = data.bags[train[:200]]
    allowed = np.where(data.label_sets[train[:200]] == 1, -1, 0)
    counts = LabelCounts(np.zeros_like(allowed), allowed)
    model = ORedLogisticRegression(reg=100.0).fit(rows, counts)
    proba = model.predict_proba_instances(rows)
    expected = np.log((proba * (allowed == -1)).sum(axis=1))
    np.testing.assert_allclose(model.log_likelihood(rows, counts), expected, atol=1e-9)


@each(
    ("name", "low", "n_train", "n_test"), [("adult", 0.5, 8192, 3000), ("magic", 0.0, 5120, 1400)]
)
def test_bags_with_shares(name, low, n_train, n_test):
    try:
        data = make_share_bags(name, 128, low, low + 0.5, random_state=0)
    except DataNotFoundError as error:
        pytest.skip(str(error))
    assert data.bags.n_instances == n_train
    assert set(data.bags.sizes) == {128}
    assert len(data.X_test) == len(data.y_test) == n_test
    by_bag = [labels.mean() for labels in data.bags.split(data.instance_labels)]
    np.testing.assert_allclose(by_bag, data.shares)
    assert data.shares.mean() == pytest.approx(low + 0.25, abs=0.08)
    rows = np.vstack([data.bags.instances, data.X_test])
    assert np.isfinite(rows).all()


def test_shares_teach_the_labels_of_rows():
    paper = load_paper("observations")
    plan = make_plan(paper, paper.experiment("shares").shortened().narrowed(["magic-low"]))
    if not plan.units:
        pytest.skip("magic is not in the data home")
    data = plan.units[0].load()
    counts = LabelCounts.from_shares(np.column_stack([1 - data.shares, data.shares]))[:150]
    rows = data.bags.instances
    bags = data.bags.with_instances((rows - rows.mean(axis=0)) / rows.std(axis=0))[:150]
    model = ORedLogisticRegression().fit(bags, counts)
    right = model.predict_instances(bags) == data.instance_labels[: bags.n_instances]
    assert right.mean() > 0.75
