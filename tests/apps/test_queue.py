"""Order of the instances in a review."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import Bags
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression, RankLossSIM
from bagwise.apps.review import Correction, ReviewQueue
from bagwise.apps.review._queue import DECIDED
from bagwise.apps.review._store import SetCorrection
from bagwise.exceptions import InputError
from bagwise.labels import LabelCounts
from syllables import BIRDS, fitted, recordings


def test_the_least_certain_comes_first_given_all_decisions():
    model, bags, sets, birds = fitted()
    queue = ReviewQueue(model, bags, sets)
    known = np.full(bags.n_instances, None)
    several = np.array([len(s) > 1 for s in sets])[bags.bag_index]  # else there is no choice
    for _ in range(several.sum()):
        chosen = queue.next()
        certainty = model.annotate_proba(bags, sets, instance_labels=known).max(axis=1)
        left = np.flatnonzero(np.equal(known, None) & several)
        assert certainty[chosen] == pytest.approx(certainty[left].min(), rel=1e-12)
        assert queue.guess(chosen) in queue.choices(bags.bag_index[chosen])
        known[chosen] = birds[chosen]
        queue.decide(chosen, birds[chosen])
    assert queue.next() is None
    assert_array_equal(queue.posterior, np.equal.outer(birds, BIRDS))


def test_what_is_passed_over_comes_last_and_what_is_undone_comes_back():
    model, bags, sets, _ = fitted()
    queue = ReviewQueue(model, bags, sets, limit=3)
    before = queue.posterior.copy()
    first = queue.next()
    queue.pass_over(first)
    second = queue.next()
    queue.decide(second, queue.guess(second))
    third = queue.next()
    assert len({first, second, third}) == 3
    queue.decide(third, queue.guess(third))
    assert queue.next() == first
    queue.decide(third, None)
    queue.pass_over(third)
    queue.pass_over(first)  # they take turns
    assert queue.next() == third
    for instance in (second, third):
        queue.decide(instance, None)
    assert_allclose(queue.posterior, before, rtol=1e-12)
    assert queue.next() != first


def test_a_review_goes_on_where_it_was_left():
    model, bags, sets, birds = fitted()
    queue = ReviewQueue(model, bags, sets, limit=10)
    said = []
    for _ in range(4):
        chosen = queue.next()
        bag, row, size = queue.written(chosen)
        said.append(Correction(bag, row, size, birds[chosen]))
        assert queue.find(bag, row) == chosen
        queue.decide(chosen, birds[chosen])
    again = ReviewQueue(model, bags, sets, corrections=said, limit=10)
    assert_allclose(again.posterior, queue.posterior, rtol=1e-12)
    assert again.next() == queue.next()
    assert len(again.chosen) == 10
    assert queue.find("nobody", 0) is None


def test_choices_are_the_labels_of_the_bag():
    model, bags, sets, _ = fitted()
    sets[0] = None
    queue = ReviewQueue(model, bags, sets)
    assert queue.choices(0) == BIRDS.tolist()
    one = next(i for i, s in enumerate(sets) if s is not None and len(s) == 2)
    assert queue.choices(one) == sorted(sets[one])
    with_background = ORedLogisticRegression(background=True).fit(bags, sets)
    queue = ReviewQueue(with_background, bags, sets)
    assert queue.choices(one) == [*sorted(sets[one]), "background"]
    queue.decide(int(bags.offsets[one]), "background")
    assert queue.guess(int(bags.offsets[one])) == "background"


def test_decisions_that_contradict_the_label_set_are_noticed():
    model, bags, sets, _ = fitted()
    bag = next(i for i, s in enumerate(sets) if len(s) == 2)
    rows = range(bags.offsets[bag], bags.offsets[bag + 1])
    one, other = sorted(sets[bag])
    queue = ReviewQueue(model, bags, sets)
    for i in rows:
        assert queue.unmet(bag) == []
        queue.decide(i, one)
    assert queue.unmet(bag) == [other]
    assert {queue.guess(i) for i in rows} == {one}


def test_a_model_that_does_not_say_how_sure_it_is():
    _, bags, sets, _ = fitted()
    with pytest.raises(InputError, match="RankLossSIM cannot keep labels"):
        ReviewQueue(RankLossSIM().fit(bags, sets), bags, sets)
    with pytest.raises(InputError, match="NoisyOrLogisticRegression cannot keep labels"):
        ReviewQueue(NoisyOrLogisticRegression().fit(bags, sets), bags, sets)


def test_a_label_outside_the_set_is_no_choice():
    bags, sets, _ = recordings()
    model = ORedLogisticRegression(0.1, missing=0.4, spurious=0.1).fit(bags, sets)
    sets = [{"owl", "wren"}, set(), *sets[2:]]
    named = model.annotate(bags, sets)
    assert "robin" in named[: bags.sizes[0]]  # which its set does not list
    queue = ReviewQueue(model, bags, sets)
    while (instance := queue.next()) is not None:
        assert queue.guess(instance) in queue.choices(bags.bag_index[instance])
        assert queue.posterior[instance].sum() == pytest.approx(1)
        queue.decide(instance, queue.guess(instance))
    assert_allclose(queue.posterior.sum(axis=1), 1)


def test_a_changed_label_set_counts_as_if_it_had_been_given():
    model, bags, sets, _ = fitted()
    one = next(i for i, s in enumerate(sets) if len(s) == 2 and bags.sizes[i] > 2)
    (missing,) = set(BIRDS.tolist()) - sets[one]
    listed = min(sets[one])
    queue = ReviewQueue(model, bags, sets)
    before = queue.posterior.copy()
    for label, present in ((missing, True), (listed, False)):
        changed = list(sets)
        changed[one] = sets[one] | {label} if present else sets[one] - {label}
        queue.change_set(one, label, present)
        assert queue.changed(one, label) is present
        assert queue.set_of(one) == sorted(changed[one])
        fresh = ReviewQueue(model, bags, changed)
        assert_allclose(queue.posterior, fresh.posterior, rtol=1e-12)
        assert_array_equal(np.sort(queue.chosen), np.sort(fresh.chosen))
        said = [SetCorrection(bags.ids[one], label, present)]
        again = ReviewQueue(model, bags, sets, set_corrections=said)
        assert_allclose(again.posterior, fresh.posterior, rtol=1e-12)
        queue.change_set(one, label, None)
        assert queue.changed(one, label) is None
        assert_allclose(queue.posterior, before, rtol=1e-12)
    shares = model.predict_proba_instances(bags[one : one + 1])
    row = shares[:, BIRDS.tolist().index(missing)].argmax()
    assert queue.likeliest(one, missing) == bags.offsets[one] + row
    strangers = [SetCorrection("nobody", "wren", True), SetCorrection(bags.ids[0], "emu", True)]
    ReviewQueue(model, bags, sets, set_corrections=strangers)


def test_a_label_that_the_bag_does_not_list_is_added_to_its_set():
    model, bags, sets, _ = fitted()
    one = next(i for i, s in enumerate(sets) if len(s) == 1 and bags.sizes[i] > 2)
    first = int(bags.offsets[one])
    queue = ReviewQueue(model, bags, sets)
    before = queue.posterior.copy()
    shares = model.predict_proba_instances(bags[one : one + 1])[0]
    others = sorted(set(BIRDS.tolist()) - sets[one], key=lambda name: -shares[name == BIRDS][0])
    assert queue.others(first) == others
    assert first not in queue.chosen
    queue.decide(first, others[0])
    assert queue.set_of(one) == sorted(sets[one] | {others[0]})
    assert queue.guess(first) == others[0]
    assert queue.others(first) == others[1:]
    said = [Correction(bags.ids[one], 0, int(bags.sizes[one]), others[0])]
    again = ReviewQueue(model, bags, sets, corrections=said)
    assert_allclose(again.posterior, queue.posterior, rtol=1e-12)
    queue.decide(first, None)
    assert queue.set_of(one) == sorted(sets[one])
    assert_allclose(queue.posterior, before, rtol=1e-12)


def test_unknown_labels_and_counts_are_choices_until_they_are_decided():
    model, bags, _, birds = fitted()
    n = np.array([[np.sum(own == name) for name in BIRDS] for own in bags.split(birds)])
    bag = int(np.argmax((n > 0).sum(axis=1) == 2))
    absent = int(np.argmin(n[bag]))
    lower, upper = n.copy(), n.copy()
    lower[bag, absent], upper[bag, absent] = 0, -1  # nobody looked for it
    counts = LabelCounts(lower, upper, BIRDS)
    queue = ReviewQueue(model, bags, counts)
    assert queue.choices(bag) == BIRDS.tolist()
    assert BIRDS[absent] not in queue.set_of(bag)
    assert_allclose(queue.posterior, model.annotate_proba(bags, counts))
    queue.change_set(bag, BIRDS[absent], True)
    assert BIRDS[absent] in queue.set_of(bag)
    queue.change_set(bag, BIRDS[absent], None)
    first = int(bags.offsets[bag])
    for instance in range(first, int(bags.offsets[bag + 1])):  # contradicts the counts
        queue.decide(instance, BIRDS[absent])
    assert queue.guess(first) == BIRDS[absent]


def test_an_instance_may_have_several_labels():
    """The model gives it one; the label set gets all, and the other instances are as before."""
    bags = Bags([[0.0], [3.0], [0.1], [3.1], [1.5], [6.0]], [0, 2, 4, 5, 6])
    sets = [{"owl", "wren"}, {"owl", "wren"}, {"owl"}, {"robin"}]
    model = ORedLogisticRegression().fit(bags, sets)
    queue = ReviewQueue(model, bags, sets)
    assert queue.knows("owl;wren")
    assert not queue.knows("owl;emu")
    queue.decide(4, "owl;wren")  # the only instance of its bag
    assert queue.guess(4) == "owl;wren"
    assert queue.state[4] == DECIDED
    assert queue.set_of(2) == ["owl", "wren"]
    assert queue.unmet(2) == []
    assert np.isfinite(queue.posterior).all()
    again = ReviewQueue(model, bags, sets, corrections=[Correction("2", 0, 1, "owl;wren")])
    assert again.guess(4) == "owl;wren"
    np.testing.assert_array_equal(again.posterior, queue.posterior)
    queue.decide(4, None)
    assert queue.guess(4) == "owl"
    assert queue.set_of(2) == ["owl"]
    np.testing.assert_array_equal(queue.posterior, ReviewQueue(model, bags, sets).posterior)
