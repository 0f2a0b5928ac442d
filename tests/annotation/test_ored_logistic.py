"""ORed logistic regression: related models, invariants, edge cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.special import expit, softmax
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.compute.parts import Parts
from bagwise.datasets import load_letter_frost
from bagwise.exceptions import DataNotFoundError, LabelError
from bagwise.solvers.annotation.orlr import PenalisedLoss, ored_logistic
from bagwise.solvers.annotation.orlr_parts import CORRECT, BagLabelSets, ORLRPart
from cases import each
from orlr_oracle import by_enumeration, drawn, drawn_and_known, surrogate
from reproduction.bag_data import load_dataset


@pytest.fixture(scope="module")
def frost():
    data = load_letter_frost()
    rows = StandardScaler().fit_transform(data.bags.instances)
    return data.bags.with_instances(rows), data.label_sets, data.instance_labels


class TestCousins:
    @each(("n_classes", "factor"), [(3, 1), (2, 2)])
    @each("reg", [0.3, 2.0])
    def test_singletons_are_logistic_regression(self, n_classes, factor, reg):
        X, y = make_classification(
            200, 6, n_informative=4, n_classes=n_classes, class_sep=0.5, random_state=0
        )
        ours = ORedLogisticRegression(reg=reg, tol=1e-9).fit(X, y)
        theirs = LogisticRegression(C=factor / reg, tol=1e-10, max_iter=1000).fit(X, y)
        assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
        if n_classes == 2:
            assert_allclose(ours.coef_[1] - ours.coef_[0], theirs.coef_[0], atol=1e-5)
        else:
            assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)


@each("kind", ["plain", "sparse", "known", "background", "wrong sets"])
def test_the_gradient_is_that_of_the_objective(rng, kind):
    bags, sets, _, known = drawn_and_known(8)
    background, rates = kind == "background", (0.1, 0.05) if kind == "wrong sets" else CORRECT
    if kind == "sparse":
        bags = bags.with_instances(sparse.csr_array(bags.instances))
    if kind == "wrong sets":
        sets[3], sets[4] = 0, 1  # empty, and more labels than instances
    sets = sets.astype(np.int8)[:, : 4 - background]
    sets[2] = -1
    known[bags.offsets[2]] = 1  # only this counts of the bag
    codes = known if kind in ("known", "background") else np.full(len(known), -1)
    bag_sets = BagLabelSets(bags.offsets, sets, background, instance_codes=codes)
    part = ORLRPart(bags, bag_sets, rng.uniform(1, 2, 8))
    problem = PenalisedLoss(Parts(part), 0.7, 3.0, rng.normal(size=3), (rates,))
    theta = rng.normal(size=(4, 4))
    expected = problem.loss(theta)[1].ravel()
    functions = [lambda near: problem.loss(near.reshape(4, 4))[0]]
    if kind == "known":  # the same, by Fisher's identity
        functions.append(lambda near: surrogate(problem, near.reshape(4, 4), theta))
    for function in functions:
        assert_allclose(approx_fprime(theta.ravel(), function, 1e-7), expected, atol=1e-5)


class TestFit:
    @each("background", [False, True])
    def test_the_objective_never_rises(self, background):
        bags, sets, _ = drawn()
        sets = sets[:, : 4 - background]
        result = ored_logistic(bags, BagLabelSets(bags.offsets, sets, background), tol=1e-3)
        curve = result.objective_curve
        assert len(curve) == result.n_iter > 3
        assert (np.diff(curve) <= 1e-9 * curve[0]).all()

    def test_the_objective_is_the_penalised_likelihood(self):
        bags, sets, _ = drawn()
        model = ORedLogisticRegression(reg=0.5).fit(bags, sets)
        value = -model.log_likelihood(bags, sets).sum() + 0.25 * np.sum(model.coef_**2)
        assert model.objective_curve_[-1] == pytest.approx(value, rel=1e-10)

    def test_a_short_budget_warns(self):
        bags, sets, _ = drawn()
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model = ORedLogisticRegression(max_iter=2).fit(bags, sets)
        assert model.n_iter_ == 2

    def test_sample_weights_count_bags(self):
        bags, sets, _ = drawn()
        times = np.arange(len(bags)) % 3
        weighted = ORedLogisticRegression(tol=1e-8).fit(bags, sets, sample_weight=times)
        repeated = np.repeat(np.arange(len(bags)), times)
        plain = ORedLogisticRegression(tol=1e-8).fit(bags[repeated], sets[repeated])
        assert_allclose(weighted.coef_, plain.coef_, atol=1e-5)


class TestAnswers:
    def test_the_instances_of_letters_are_found(self, frost):
        bags, sets, letters = frost
        model = ORedLogisticRegression().fit(bags, sets)
        assert (model.annotate(bags, sets) == letters).mean() > 0.85
        assert len(model.approximate_bags_) == len(model.left_out_) == 0

    def test_probabilities_are_those_of_enumeration(self):
        bags, sets, _ = drawn()
        model = ORedLogisticRegression().fit(bags, sets)
        proba = bags.split(model.annotate_proba(bags, sets))
        values = model.log_likelihood(bags, sets)
        for i in range(10):
            logits = bags[i] @ model.coef_.T + model.intercept_
            expected, value = by_enumeration(logits, np.flatnonzero(sets[i]))
            assert_allclose(proba[i], expected, atol=1e-12)
            assert values[i] == pytest.approx(value)
        assert_array_equal(model.annotate(bags, sets), np.concatenate(proba).argmax(axis=1))

    def test_bags_answer_by_noisy_or(self):
        bags, sets, _ = drawn()
        model = ORedLogisticRegression().fit(bags, sets)
        p = model.predict_proba_instances(bags)
        nobody = np.array([np.prod(1 - part, axis=0) for part in bags.split(p)])
        assert_allclose(model.predict_proba(bags), 1 - nobody, atol=1e-12)
        assert_array_equal(model.predict(bags), (nobody < 0.5).astype(int))
        assert_allclose(expit(model.decision_function(bags)), 1 - nobody, atol=1e-12)
        assert_allclose(expit(model.score_instances(bags)), p, rtol=1e-9)
        assert model.instance_pooling == "noisy-or"
        assert model.key_instances(bags, label=1).shape == (len(bags),)
        with pytest.raises(LabelError, match="label="):
            model.key_instances(bags)

    @each("background", [False, True])
    def test_one_label_per_bag_is_a_set_of_one(self, background):
        bags, sets, _ = drawn()
        y = np.array(list("abcd"))[sets.argmax(axis=1)]
        model = ORedLogisticRegression(background=background).fit(bags, y)
        assert model.predict(bags).dtype == y.dtype
        proba = model.predict_proba(bags)
        assert_allclose(proba.sum(axis=1), 1)
        alone = [
            model.log_likelihood(bags, np.tile(row, (len(bags), 1))) for row in np.eye(4, dtype=int)
        ]
        assert_allclose(proba, softmax(np.column_stack(alone), axis=1), atol=1e-12)
        assert set(model.annotate(bags[:1], y[:1])) - {"background"} == {y[0]}


class TestBackground:
    def test_it_takes_what_no_label_explains(self):
        bags, _, kinds = drawn(n_bags=150, n_classes=4)
        sets = np.zeros((150, 3), int)
        named = kinds < 3  # the fourth class is background
        sets[bags.bag_index[named], kinds[named]] = 1
        model = ORedLogisticRegression(background=True).fit(bags, sets)
        truth = np.where(named, kinds, -1)
        assert model.background_label_ == -1
        assert (model.annotate(bags, sets, background_above=0.5) == truth).mean() > 0.85
        assert (model.predict_instances(bags, background_above=0.5) == truth).mean() > 0.8
        assert (model.annotate(bags, sets)[named] == truth[named]).mean() > 0.9
        assert model.predict_proba_instances(bags).shape == (bags.n_instances, 4)
        assert model.coef_.shape == (4, 3)
        assert model.predict(bags).shape == (150, 3)
        empty = sets.sum(axis=1) == 0
        assert empty.any()
        proba = bags[empty].split(model.annotate_proba(bags[empty], sets[empty]))
        assert_array_equal(np.concatenate(proba)[:, 3], 1)
        assert_array_equal(model.annotate(bags, sets) == -1, empty[bags.bag_index])

    def test_its_name(self):
        bags, sets, _ = drawn()
        words = [set(np.array(["a", "b", "c", "background"])[row == 1]) for row in sets]
        with pytest.raises(LabelError, match="background=\\.\\.\\."):
            ORedLogisticRegression(background=True).fit(bags, words)
        model = ORedLogisticRegression(background="noise").fit(bags, words)
        assert model.background_label_ == "noise"
        assert set(model.annotate(bags, words)) <= {"a", "b", "c", "background", "noise"}


class TestEdges:
    def test_more_labels_than_instances(self):
        bags, sets, _ = drawn()
        bags = Bags(bags.instances, bags.offsets, ids=[f"r{i}" for i in range(len(bags))])
        sets[np.flatnonzero(bags.sizes == 1)[0]] = 1
        sets[np.flatnonzero(bags.sizes == 2)[0]] = 1
        lost = np.sort([np.flatnonzero(bags.sizes == n)[0] for n in (1, 2)])
        match = rf"2 of 40 bags are left out.*'r{lost[0]}'.*more labels than instances"
        with pytest.warns(UserWarning, match=match):
            model = ORedLogisticRegression().fit(bags, sets)
        assert_array_equal(model.left_out_, lost)
        kept = np.setdiff1d(np.arange(len(bags)), lost)
        assert_allclose(model.coef_, ORedLogisticRegression().fit(bags[kept], sets[kept]).coef_)
        p = bags[lost].split(model.predict_proba_instances(bags[lost]))
        assert_allclose(model.annotate_proba(bags[lost], sets[lost]), np.concatenate(p), rtol=1e-10)
        assert_array_equal(model.log_likelihood(bags[lost], sets[lost]), -np.inf)

    def test_no_label_at_all(self):
        bags, sets, _ = drawn()
        sets[3] = 0
        with pytest.warns(UserWarning, match="1 of 40 bags are left out.*bag 3"):
            model = ORedLogisticRegression().fit(bags, sets)
        assert np.isfinite(model.objective_curve_).all()
        free = model.predict_proba_instances(bags[[3]])
        with pytest.warns(UserWarning, match="1 of 1 bags have an empty label set.*bag 0"):
            assert_allclose(model.annotate_proba(bags[[3]], sets[[3]]), free)
        with pytest.warns(UserWarning, match=r"1 of 40 bags have an empty.*bag 3.*background=True"):
            model.annotate(bags, sets)
        assert np.isneginf(model.log_likelihood(bags[[3]], sets[[3]]))

    def test_nothing_known(self):
        bags, sets, _ = drawn()
        unknown = sets.copy()
        unknown[[1, 5]] = -1
        model = ORedLogisticRegression().fit(bags, unknown)
        known = np.setdiff1d(np.arange(40), [1, 5])
        assert_allclose(model.coef_, ORedLogisticRegression().fit(bags[known], sets[known]).coef_)
        free = model.predict_proba_instances(bags[[1, 5]])
        assert_allclose(model.annotate_proba(bags[[1, 5]], unknown[[1, 5]]), free)
        assert_array_equal(model.log_likelihood(bags[[1, 5]], [None, None]), 0)
        with pytest.raises(LabelError, match="unknown or impossible label set"):
            ORedLogisticRegression().fit(bags, np.full_like(sets, -1))

    def test_a_class_in_no_bag_is_never_predicted(self):
        bags, sets, _ = drawn()
        wider = np.insert(sets, 1, 0, axis=1)
        model = ORedLogisticRegression().fit(bags, wider)
        plain = ORedLogisticRegression().fit(bags, sets)
        assert_allclose(np.delete(model.coef_, 1, axis=0), plain.coef_)
        assert_array_equal(model.predict_proba_instances(bags)[:, 1], 0)
        assert 1 not in model.predict_instances(bags)
        assert_array_equal(model.predict(bags)[:, 1], 0)
        assert_array_equal(model.predict_proba(bags)[:, 1], 0)
        # A bag that is said to carry it shows it once.
        chosen = np.flatnonzero(bags.sizes >= 3)[:1]
        claim = np.array([[1, 1, 0, 0, 0]])
        proba = model.annotate_proba(bags[chosen], claim)
        assert proba[:, 1].sum() == pytest.approx(1)

    @pytest.mark.filterwarnings("ignore:belief propagation did not converge in 1 of 145 bags")
    def test_all_letters_on_a_bag_of_26(self, frost, rng):
        bags, sets, _ = frost
        rows = np.concatenate([bags.instances, rng.normal(size=(26, 16))])
        bags = Bags(rows, np.append(bags.offsets, len(rows)))
        sets = np.vstack([sets, np.ones(26, int)])
        with pytest.warns(UserWarning, match=r"\(bag 144\): approximated by belief"):
            model = ORedLogisticRegression(tol=1e-3).fit(bags, sets)
        assert_array_equal(model.approximate_bags_, [144])
        with pytest.warns(UserWarning, match="1 of 145 bags have too many labels"):
            proba = model.annotate_proba(bags, sets)
        assert np.isfinite(proba).all()
        assert_allclose(proba.sum(axis=1), 1)

    def test_the_budget_decides_what_is_exact(self):
        bags, sets, _ = drawn()
        with pytest.warns(UserWarning, match="40 of 40"):
            model = ORedLogisticRegression(max_operations=0).fit(bags, sets)
        assert len(model.approximate_bags_) == 40
        exact = ORedLogisticRegression().fit(bags, sets)
        with pytest.warns(UserWarning, match="max_operations"):
            near = model.annotate(bags, sets)
        assert (near == exact.annotate(bags, sets)).mean() > 0.95

    def test_a_hundred_thousand_classes_of_which_few_are_carried(self):
        bags, sets, _ = drawn()
        wide = sparse.csr_array((40, 100_000), dtype=np.int64).tolil()
        wide[:, [5, 700, 60_000, 99_999]] = sets
        model = ORedLogisticRegression().fit(bags, wide.tocsr())
        plain = ORedLogisticRegression().fit(bags, sets)
        names = np.array([5, 700, 60_000, 99_999])
        assert_array_equal(model.annotate(bags, wide.tocsr()), names[plain.annotate(bags, sets)])


def birds(**options):
    try:
        data = load_dataset("hja_birdsong", **options)
    except DataNotFoundError:
        pytest.skip("HJA bird song is not in the data home")
    rows = StandardScaler().fit_transform(data.bags.instances)
    return data.bags.with_instances(rows), data.label_sets, data.instance_labels


# Rounding of features near 1e8 decides whether the gradient falls below tol; not what is learned.
@pytest.mark.filterwarnings("ignore:ORedLogisticRegression did not converge")
@each(("shift", "table"), [(1e4, sparse.csr_array), (1e8, np.asarray)])
def test_the_origin_of_the_features_does_not_matter(shift, table):
    """With 1e8 added to the features no step was made, and nothing was learned."""
    bags, sets, _ = drawn()
    plain = ORedLogisticRegression(max_iter=100).fit(bags, sets)
    moved = bags.with_instances(table(bags.instances + shift))
    model = ORedLogisticRegression(max_iter=100).fit(moved, sets)
    assert_allclose(model.coef_, plain.coef_, atol=2e-3)
    expected = plain.predict_proba_instances(bags)
    assert_allclose(model.predict_proba_instances(moved), expected, atol=2e-3)


def test_syllables_are_named():
    bags, sets, species = birds()
    model = ORedLogisticRegression().fit(bags, sets)
    assert (model.annotate(bags, sets) == species).mean() >= 0.875
    assert model.objective_curve_[-1] == pytest.approx(2665.6, abs=0.1)


def test_background_helps_where_half_of_the_syllables_have_no_species():
    bags, sets, species = birds(labels="published", labelled_only=False)
    known = species >= 0
    shares = []
    for background in (False, True):
        model = ORedLogisticRegression(background=background, tol=1e-3).fit(bags, sets)
        shares.append((model.annotate(bags, sets) == species)[known].mean())
    assert shares[0] < 0.70
    assert shares[1] > shares[0] + 0.08
