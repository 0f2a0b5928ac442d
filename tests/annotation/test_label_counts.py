"""Numbers of instances with each label: against the sum over all labelings; laws; engines."""

import warnings
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from bagwise import Bags
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression, RankLossSIM
from bagwise.classification import SetKernelSVM
from bagwise.exceptions import LabelError
from bagwise.labels import LabelCounts, Labels
from bagwise.loops import label_sets
from bagwise.regression import SetKernelRegressor
from bagwise.solvers.annotation.orlr_parts import BagLabelSets, infer
from cases import each
from orlr_oracle import by_counts, drawn

KINDS = {
    "present": "yes", "absent": "0", "unknown": "", "exactly k": "2", "k or more": "2+",
    "at most k": "0-2", "k to m": "1-3", "share": "40%", "candidates": None, "background": None,
}  # fmt: skip
N_LABELS = 3


def known_of(cells, sizes, *, background=False, **more):
    """What is known of bags of these sizes, from one row of cells per bag."""
    labels = Labels.from_counts(LabelCounts.from_strings(cells), np.array(sizes))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bounds = labels.bounds if labels.kind == "counts" else None
    return BagLabelSets(offsets, labels.indicator, background, bounds=bounds, **more), labels


def given(cells, scores, *, background=False, **more):
    """Posterior and log-probability of one bag."""
    sets, _ = known_of([cells], [len(scores)], background=background, **more)
    found = infer(sets, slice(0, 1), scores)
    return found.posterior, found.log_likelihood[0]


def rows_of(first, second):
    """Bags with labels of two kinds: the cells of each bag, and their sizes."""
    cells = [KINDS[kind] or "" for kind in (first, second)]
    rows, sizes = (
        [[*cells, ""], ["", *cells[::-1]], [cells[0], "", ""], ["", cells[1], "1"]],
        [5] * 4,
    )
    if "candidates" in (first, second):
        rows, sizes = [*rows, ["", "0", ""], ["", "", "0"]], [*sizes, 1, 1]
    return rows, sizes


def test_all_pairs_of_kinds_are_the_sum_over_all_labelings(rng):
    """All kinds are mixed in each data set; some labels are bounded by two kinds."""
    for pair in [*combinations(KINDS, 2), *zip(KINDS, KINDS, strict=True)]:
        background = "background" in pair
        rows, sizes = rows_of(*pair)
        rows, sizes = [*rows, ["yes", "0", ""], ["2", "1-2", "20%"]], [*sizes, 4, 5]
        sets, labels = known_of(rows, sizes, background=background)
        scores = 2 * rng.normal(size=(sum(sizes), N_LABELS + background))
        found = infer(sets, slice(0, len(sizes)), scores)
        assert set(sets.how) <= {label_sets.EXACT, label_sets.COUNTED, label_sets.FREE}
        for bag, (start, stop) in enumerate(pairwise(sets.offsets.tolist())):
            lower, upper = labels.bounds[bag].T
            posterior, value = by_counts(scores[start:stop], lower, upper)
            assert_allclose(found.posterior[start:stop], posterior, rtol=0, atol=1e-12)
            assert found.log_likelihood[bag] == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_random_boxes_and_what_is_impossible(rng):
    for _ in range(150):
        n, k, background = rng.integers(1, 6), rng.integers(1, 5), bool(rng.integers(2))
        scores = rng.choice([0.3, 2, 6]) * rng.normal(size=(n, k + background))
        lower = rng.integers(0, 3, k)
        upper = np.where(rng.random(k) < 0.5, -1, lower + rng.integers(0, 3, k))
        known = np.where(rng.random(n) < 0.2, rng.integers(k + background, size=n), -1)
        indicator = LabelCounts([lower], [upper]).indicator
        bounds = np.stack([lower, upper], axis=1)[None]
        sets = BagLabelSets(
            np.array([0, n]), indicator, background, instance_codes=known, bounds=bounds
        )
        with np.errstate(all="ignore"):
            posterior, value = by_counts(scores, lower, upper, known)
        assert sets.impossible[0] == (value == -np.inf)
        if np.isfinite(value) and sets.has_label_set[0]:
            found = infer(sets, slice(0, 1), scores)
            assert_allclose(found.posterior, posterior, atol=1e-12)
            assert found.log_likelihood[0] == pytest.approx(value, abs=1e-12)


@each("missing", [0.0, 0.2])
@each("spurious", [0.0, 0.1])
@each("background", [False, True])
def test_an_unknown_label_is_present_or_absent(rng, missing, spurious, background):
    """The probability of a set with an unknown label is the sum of those of both sets."""
    scores, values, posteriors = rng.normal(size=(4, 3 + background)), [], []
    for cell in (0, 1, -1):
        indicator = np.array([[1, cell, 0]], np.int8)
        sets = BagLabelSets(
            np.array([0, 4]), indicator, background, missing=missing, spurious=spurious
        )
        found = infer(sets, slice(0, 1), scores)
        values.append(found.log_likelihood[0])
        posteriors.append(found.posterior)
    assert logsumexp(values[:2]) == pytest.approx(values[2], abs=1e-12)
    share = np.exp(values[1] - values[2])
    assert_allclose((1 - share) * posteriors[0] + share * posteriors[1], posteriors[2], atol=1e-12)


def test_the_joint_count_is_not_the_sum_of_counts_of_one_label(rng):
    scores = rng.normal(size=(6, 3))
    alone = given(["3", "", ""], scores)[1] + given(["", "2", ""], scores)[1]
    assert abs(given(["3", "2", ""], scores)[1] - alone) > 0.01


def test_a_positive_bag_has_one_positive_instance_or_more(rng):
    """The bag probability of GLWS (Chen 2024)."""
    scores = rng.normal(size=(7, 2))
    p = softmax(scores, axis=1)[:, 1]
    assert given(["", "1"], scores)[1] == pytest.approx(np.log1p(-np.prod(1 - p)), rel=1e-12)


def test_one_label_has_the_poisson_binomial_distribution(rng):
    scores, chances = rng.normal(size=(30, 4)), np.ones(1)
    for p in softmax(scores, axis=1)[:, 1]:
        chances = np.convolve(chances, [1 - p, p])
    found = [given(["", f"{k}-{k}", "", ""], scores)[1] for k in range(31)]
    assert_allclose(np.exp(found), chances, rtol=1e-10)


def test_candidates_of_a_single_instance_are_a_superset_label(rng):
    scores = rng.normal(size=(1, 4))
    posterior, value = given(["", "0", "", "0"], scores)
    assert value == pytest.approx(logsumexp(log_softmax(scores, axis=1)[0, [0, 2]]))
    assert_allclose(posterior[0, [0, 2]], softmax(scores[0, [0, 2]]))


def test_more_that_is_allowed_is_likelier_and_a_partition_sums_to_one(rng):
    scores = rng.normal(size=(9, 3))
    nested = ["3", "2-4", "1-5", "1+", ""]
    values = [given([cell, "2+", ""], scores)[1] for cell in nested]
    assert (np.diff(values) > 0).all()
    parts = [
        given([a, b, ""], scores)[1] for a in ("0-2", "3-4", "5+") for b in ("0", "1-4", "5+")
        if (a, b) != ("5+", "5+")
    ]  # fmt: skip
    assert logsumexp(parts) == pytest.approx(0, abs=1e-12)


def test_without_bounds_nothing_is_learned(rng):
    scores = rng.normal(size=(5, 3))
    posterior, value = given(["", "", "0-9"], scores)
    assert value == pytest.approx(0, abs=1e-14)
    assert_allclose(posterior, softmax(scores, axis=1), rtol=1e-13)


def test_order_of_instances_and_labels_is_irrelevant(rng):
    scores, cells = rng.normal(size=(12, 5)), ["2", "3+", "0-1", "", "1-4"]
    posterior, value = given(cells, scores)
    rows, columns = rng.permutation(12), rng.permutation(5)
    mixed, same = given([cells[c] for c in columns], scores[rows][:, columns])
    assert same == pytest.approx(value, rel=1e-12)
    assert_allclose(mixed, posterior[rows][:, columns], rtol=1e-10)


@each("cells", [["2", "1-3", ""], ["3+", "2+", "0-4"], ["40%", "40%", "20%"], ["1", "", "0"]])
@each("max_operations", [1e9, 0])
def test_the_gradient_is_that_of_the_value(rng, cells, max_operations):
    scores = rng.normal(size=(10, 3))
    sets, _ = known_of([cells], [10], max_operations=max_operations)
    gradient = infer(sets, slice(0, 1), scores, np.ones(1)).posterior

    def loss(flat):
        return -infer(sets, slice(0, 1), flat.reshape(10, 3)).log_likelihood[0]

    assert_allclose(approx_fprime(scores.ravel(), loss, 1e-5), gradient.ravel(), atol=1e-5)


def test_one_label_is_what_the_others_leave():
    """Shares that sum to one need a counter less, and the shorter one."""
    two, _ = known_of([["90%", "10%"], ["50-50%", "50-60%"]], [512, 512])
    assert_array_equal(two.states, [53, 257])
    three, _ = known_of([["50%", "25%", "25%"], ["50%", "25%", ""]], [16, 16])
    assert_array_equal(three.states, [25, 9 * 5])


def test_a_hundred_thousand_instances_do_not_underflow(rng):
    scores = np.repeat(rng.normal(size=(1, 3)), 100_000, axis=0)
    log_p = log_softmax(scores[0])
    posterior, value = given(["5", "2+", ""], scores)
    n, k = 100_000, 5
    choose = np.log(np.arange(n - k + 1, n + 1)).sum() - np.log(np.arange(1, k + 1)).sum()
    rest = n - k  # two or more of the second label among the others, almost surely
    expected = choose + k * log_p[0] + rest * logsumexp(log_p[1:])
    assert value == pytest.approx(expected, rel=1e-9)
    assert_allclose(posterior[:, 0], k / n, rtol=1e-7)


@each("tilt", [0.0, -20.0, -300.0, 700.0])
def test_an_unlikely_label_is_counted_by_logarithms(rng, tilt):
    """With exactly k instances of a label, a constant added to its scores changes nothing."""
    scores, cells = rng.normal(size=(60, 3)), ["30", "1+", ""]
    plain, _ = given(cells, scores)
    scores[:, 0] += tilt
    tilted, value = given(cells, scores)
    assert np.isfinite(value)
    assert_allclose(tilted, plain, atol=1e-9)


def test_a_long_table_is_stored_in_parts(rng):
    """The table of 30,000 instances with 66 states is stored at some of them only."""
    scores = rng.normal(size=(30_000, 4))
    posterior, _ = given(["10-40", "1+", "1-2", ""], np.repeat(scores[:1], 30_000, axis=0))
    assert_allclose(posterior, np.repeat(posterior[:1], 30_000, axis=0), rtol=1e-9)
    posterior, _ = given(["10+", "1+", "5+", ""], scores)
    assert_allclose(posterior, softmax(scores, axis=1), rtol=1e-9)  # surely met


@each("cells", [["3", "2+", "", "1-4"], ["30%", "30%", "20%", "20%"], ["4+", "4+", "1", "0-6"]])
def test_belief_propagation_is_close(rng, cells):
    for _ in range(3):
        scores = rng.normal(size=(20, 4))
        exact, value = given(cells, scores)
        sets, _ = known_of([cells], [20], max_operations=0)
        assert sets.approximate.all()
        near = infer(sets, slice(0, 1), scores)
        assert 0.5 * np.abs(near.posterior - exact).sum(axis=1).mean() <= 0.01
        assert near.log_likelihood[0] == pytest.approx(value, abs=0.5)


def test_states_are_counted_before_a_table_is_allocated():
    sets, _ = known_of([["300000", "5+"]], [1_000_000])
    assert sets.states == 300_001
    assert sets.too_large.all()
    model = ORedLogisticRegression().fit([[[0.0], [1.0]]] * 2, [{0, 1}, {0}])
    bag, counts = np.zeros((1_000_000, 1)), LabelCounts([[300_000, 5]], [[300_000, -1]])
    with pytest.raises(LabelError, match=r"bag 0 with 1000000 instances.*512 MB"):
        model.annotate([bag], counts)


# Estimators


@pytest.fixture(scope="module")
def data():
    bags, sets, kinds = drawn(60, spread=2.0)
    numbers = np.array([np.bincount(each, minlength=4) for each in bags.split(kinds)])
    return bags, sets, kinds, numbers


def test_the_more_is_known_the_better_are_the_labels(data):
    bags, sets, kinds, numbers = data
    some = np.where(np.random.default_rng(0).random(sets.shape) < 0.5, -1, sets)
    right = []
    for known in (some, sets, LabelCounts(numbers, numbers)):
        model = ORedLogisticRegression().fit(bags, known)
        right.append((model.annotate(bags, known) == kinds).mean())
    assert right[0] < right[1] < right[2]


def test_counts_that_say_no_more_than_sets_are_sets(data):
    bags, sets, _, _ = data
    some = np.where(np.random.default_rng(0).random(sets.shape) < 0.3, -1, sets)
    counts = LabelCounts(some == 1, np.where(some == 0, 0, -1))
    assert counts.simple.all()
    one, other = (ORedLogisticRegression().fit(bags, y) for y in (some, counts))
    assert_array_equal(one.coef_, other.coef_)
    assert_array_equal(one.annotate_proba(bags, some), other.annotate_proba(bags, counts))
    assert ORedLogisticRegression().fit(bags, counts).label_kind_ == "sets"
    assert_array_equal(RankLossSIM().fit(bags, LabelCounts(sets, -1 * (sets > 0))).coef_,
                       RankLossSIM().fit(bags, sets).coef_)  # fmt: skip


def test_scikit_learn_splits_counts(data):
    bags, _, _, numbers = data
    for counts in (LabelCounts(numbers, -np.ones_like(numbers)),
                   LabelCounts.from_shares(numbers / bags.sizes[:, None])):  # fmt: skip
        model, folds = ORedLogisticRegression(reg=0.1), KFold(3)
        scores = cross_val_score(model, bags, counts, cv=folds)
        train, test = next(folds.split(np.zeros(60)))
        fitted = model.fit(bags[train], counts[train])
        mean = fitted.log_likelihood(bags[test], counts[test]).mean()
        assert scores[0] == pytest.approx(mean)
        weight = np.arange(len(test)) < 2
        assert fitted.score(bags[test], counts[test], weight) == pytest.approx(
            fitted.log_likelihood(bags[test[:2]], counts[test[:2]]).mean()
        )
    search = GridSearchCV(model, {"reg": [1e-3, 1.0]}, cv=folds).fit(bags, counts)
    assert np.isfinite(search.best_score_)


def test_blocks_weights_and_known_instances(data, monkeypatch):
    bags, _, kinds, numbers = data
    counts = LabelCounts(numbers, numbers + 1)
    model = ORedLogisticRegression(background=True, tol=1e-8)
    twice = Bags.concatenate([bags, bags]) if hasattr(Bags, "concatenate") else None
    if twice is not None:
        both = LabelCounts(np.tile(numbers, (2, 1)), np.tile(numbers + 1, (2, 1)))
        doubled = model.fit(twice, both).coef_
        assert_allclose(model.fit(bags, counts, np.full(60, 2.0)).coef_, doubled, atol=1e-5)
    known = np.where(np.arange(len(kinds)) % 3 == 0, kinds, -1)
    model = ORedLogisticRegression(background="none").fit(
        bags, counts, instance_labels=known.tolist()
    )
    found = model.annotate(bags, counts, instance_labels=known.tolist())
    assert (found.astype(str)[known >= 0] == kinds.astype(str)[known >= 0]).all()


def test_a_kernel_and_shares_of_a_few_bags(data):
    bags, _, kinds, numbers = data
    counts = LabelCounts.from_shares(numbers / bags.sizes[:, None], tolerance=0.1)
    model = ORedLogisticRegression(kernel="rbf", random_state=0).fit(bags, counts)
    assert (model.annotate(bags, counts) == kinds).mean() > 0.8


def test_noisy_or_leaves_out_what_is_unknown(data):
    """A label that is unknown in some bags is learned from the others alone."""
    bags, sets, _, _ = data
    some = sets.copy()
    some[40:, 1] = -1
    model = NoisyOrLogisticRegression(tol=1e-8).fit(bags, some)
    first = NoisyOrLogisticRegression(tol=1e-8).fit(bags[:40], sets[:40])
    assert_allclose(model.coef_[1], first.coef_[1], atol=1e-3)
    every = NoisyOrLogisticRegression(tol=1e-8).fit(bags, sets)
    assert_allclose(model.coef_[0], every.coef_[0], atol=1e-3)
    values = [model.log_likelihood(bags[40:41], [[*sets[40, :1], cell, *sets[40, 2:]]])
              for cell in (0, 1, -1)]  # fmt: skip
    assert logsumexp(values[:2]) == pytest.approx(values[2][0])


def test_what_is_refused_names_the_bag(data):
    bags, sets, _, numbers = data
    named = Bags(bags.instances, bags.offsets, ids=[f"r{i}" for i in range(60)])
    counts = LabelCounts(numbers, numbers)
    some = sets.copy()
    some[3, 2] = -1
    model = ORedLogisticRegression().fit(bags, counts)
    few = "with . instances.*no labeling"
    for error, call in [
        (
            f"r0.*{few}.*and not calls",
            lambda: model.annotate(named, LabelCounts(numbers + 1, numbers + 2)),
        ),
        (
            f"r0.*{few}.*background=True",
            lambda: model.log_likelihood(named, LabelCounts(0 * numbers, numbers - (numbers > 0))),
        ),
        ("missing=", lambda: ORedLogisticRegression(missing=0.1).fit(bags, counts)),
        ("r3.*unknown.*ORedLog", lambda: RankLossSIM().fit(named, some)),
        ("r.*a count .*NoisyOr", lambda: NoisyOrLogisticRegression().fit(named, counts)),
        ("counts of labels.*ORedLog", lambda: SetKernelSVM().fit(named, counts)),
        ("counts of labels.*ORedLog", lambda: SetKernelRegressor().fit(named, counts)),
        ("59 labels for 60", lambda: model.fit(bags, counts[1:])),
    ]:
        with pytest.raises(LabelError, match=error):
            call()


def test_beyond_max_operations_a_fit_is_approximate(data):
    bags, _, _, numbers = data
    counts = LabelCounts(numbers, numbers)
    exact = ORedLogisticRegression().fit(bags, counts)
    with pytest.warns(UserWarning, match="belief propagation"):
        near = ORedLogisticRegression(max_operations=50).fit(bags, counts)
    assert len(near.approximate_bags_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        apart = near.annotate_proba(bags, counts) - exact.annotate_proba(bags, counts)
    assert np.abs(apart).sum(axis=1).mean() / 2 < 0.05


def test_very_unlikely_candidates_are_finite():
    rows, allowed = [[[-2000.0]], [[0.0]], [[2000.0]], [[1.0]]], [[-1, -1, 0], [0, -1, -1]] * 2
    counts = LabelCounts(np.zeros((4, 3), int), allowed)
    model = ORedLogisticRegression(reg=1e-6).fit(rows, counts)
    for bags in (rows, [rows[i] for i in (2, 1, 0, 3)]):
        proba = model.annotate_proba(bags, counts)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        assert np.isfinite(model.log_likelihood(bags, counts)).all()
