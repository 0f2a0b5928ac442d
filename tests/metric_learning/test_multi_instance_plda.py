"""MIMLCA by likelihood against sums over all labelings and dense Gaussian conditioning."""

import itertools
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.covariance import oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from bagwise import Bags, loops
from bagwise.datasets import load_letter_carroll
from bagwise.exceptions import LabelError
from bagwise.loops.arguments import CandidateOffsets, CandidatePrior, Predictive
from bagwise.metric_learning import MIMLCA, MultiInstanceKMeans, MultiInstancePLDA
from bagwise.metric_learning._multi_instance_plda import discounted
from bagwise.solvers.metric.multi_instance_kmeans import Candidates
from bagwise.solvers.metric.plda import PLDAPart, oas_shrinkage
from cases import covering, each
from reproduction.faces import make_names_and_faces


def example(n_bags=30, n_labels=4, n_features=3, seed=0, spread=1.0):
    """Bags of one to three labels, each shown by one or two instances."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(n_labels, n_features))
    arrays, label_sets, truth = [], np.zeros((n_bags, n_labels), dtype=int), []
    for i in range(n_bags):
        labels = rng.choice(n_labels, rng.integers(1, 4), replace=False)
        label_sets[i, labels] = 1
        labels = np.repeat(labels, rng.integers(1, 3, len(labels)))
        arrays.append(centres[labels] + spread * rng.normal(size=(len(labels), n_features)))
        truth.append(labels)
    return Bags.from_arrays(arrays), label_sets, np.concatenate(truth)


def all_labelings(n, labels, *, one_each, null):
    """Labels of n rows, -1 for none, that a label set allows."""
    labels = tuple(labels)
    free = (-1, *labels) if one_each or null else labels
    for found in itertools.product(free, repeat=n):
        named = [c for c in found if c >= 0]
        if one_each:
            complete = len(named) == min(n, len(labels))
            if len(set(named)) == len(named) and (null or complete):
                yield found
        elif len(labels) > n or set(named) == set(labels):
            yield found


def brute_posterior(scores, null_scores, labels, *, one_each, null, shown=0.0, absent=-np.inf):
    """Posterior (n, k) and log of the sum over all labelings of a bag."""
    n, k = scores.shape
    logs, found = [], []
    for labeling in all_labelings(n, range(k), one_each=one_each, null=null):
        value = sum(null_scores[i] if c < 0 else scores[i, c] for i, c in enumerate(labeling))
        m = sum(c >= 0 for c in labeling)
        if one_each:
            value += m * shown - np.log(factorial(n) / factorial(n - m))
            value += (k - m) * absent if null else 0.0
        logs.append(value)
        found.append(labeling)
    total = logsumexp(logs)
    posterior = np.zeros((n, k))
    for value, labeling in zip(logs, found, strict=True):
        for i, c in enumerate(labeling):
            if c >= 0:
                posterior[i, c] += np.exp(value - total)
    return posterior, total


@covering(one_each=[True, False], null=[True, False], scale=[1.0, 300.0])
def test_posteriors_are_sums_over_all_labelings(one_each, null, scale):
    rng = np.random.default_rng(0)
    shown, absent = (np.log(0.7), np.log(0.3)) if one_each and null else (0.0, -np.inf)
    for n, k in itertools.product(range(1, 5), range(1, 5)):
        bags = Bags(np.zeros((n, 1)), [0, n])
        labels = np.ones((1, k), int)
        candidates = Candidates.from_indicator(bags.offsets, labels, one_each=one_each)
        part = PLDAPart(bags, candidates, null=null)
        scores, null_scores = scale * rng.normal(size=(n, k)), scale * rng.normal(size=n)
        (block,), prior = part._blocks(), CandidatePrior(null, shown, absent)
        value, _ = part._infer(block, scores.ravel(), null_scores, prior)
        expected, total = brute_posterior(
            scores, null_scores, range(k), one_each=one_each, null=null, shown=shown, absent=absent
        )
        np.testing.assert_allclose(part.posterior.reshape(n, k), expected, atol=1e-10)
        np.testing.assert_allclose(part.null_posterior, 1 - expected.sum(axis=1), atol=1e-10)
        np.testing.assert_allclose(value, total, rtol=1e-10)


def em_written_out(bags, label_sets, n_iter):
    """EM of tied Gaussians by sums over all labelings: posteriors and log-likelihoods."""
    X, (n_bags, k) = bags.instances, label_sets.shape
    rows = np.split(np.arange(len(X)), bags.offsets[1:-1])

    def expect(scores):
        posterior, value = np.zeros((len(X), k)), 0.0
        for i in range(n_bags):
            labels = np.flatnonzero(label_sets[i])
            block = np.ix_(rows[i], labels)
            posterior[block], part = brute_posterior(
                scores[block], np.zeros(len(rows[i])), labels, one_each=False, null=False
            )
            value += part
        return posterior, value

    R, curve = expect(np.zeros((len(X), k)))[0], []
    for _ in range(n_iter):
        n = R.sum(axis=0)
        means = R.T @ X / n[:, None]
        within = sum(
            R[i, c] * np.outer(X[i] - means[c], X[i] - means[c])
            for i in range(len(X))
            for c in range(k)
        ) / len(X)
        densities = [multivariate_normal(means[c], within).logpdf(X) for c in range(k)]
        R, value = expect(np.column_stack(densities) + np.log(n / len(X)))
        curve.append(value)
    return R, np.array(curve)


@each("seed", range(2))
def test_fixed_effects_are_em_written_out(seed):
    bags, label_sets, _ = example(n_bags=12, seed=seed)
    model = MultiInstancePLDA("fixed", shrinkage=0.0, max_iter=6, tol=1e-12)
    with pytest.warns(UserWarning, match="max_iter"):
        model.fit(bags, label_sets)
    R, curve = em_written_out(bags, label_sets, 6)
    np.testing.assert_allclose(-model.objective_curve_, curve, rtol=1e-7)
    np.testing.assert_array_equal(model.assignments_, R.argmax(axis=1))
    np.testing.assert_allclose(model.assignment_probabilities_, R.max(axis=1), atol=1e-6)
    assert (np.diff(curve) >= 0).all()


@each("seed", range(3))
def test_likelihood_of_fixed_effects_never_falls(seed):
    bags, label_sets, _ = example(n_bags=60, n_labels=6, seed=seed, spread=2.0)
    model = MultiInstancePLDA("fixed", shrinkage=0.0, tol=1e-4).fit(bags, label_sets)
    curve = model.objective_curve_[:20]  # later posteriors are averaged
    assert (np.diff(curve) <= 1e-8 * np.abs(curve[0])).all()


def test_predictive_of_random_effects_is_gaussian_conditioning():
    rng = np.random.default_rng(0)
    n, d = 6, 3
    b = np.array([2.0, 0.5, 0.1])
    T = rng.normal(size=(d, d))  # from coordinates z to features
    Z, codes = rng.normal(size=(n, d)), np.array([0, 0, 0, 1, 1, 1])
    sums = np.stack([Z[codes == c].sum(axis=0) for c in (0, 1)])
    share = np.eye(2)[codes].ravel()  # each row is known to have its label: left out of its own
    scores = np.empty(2 * n)
    places = CandidateOffsets(np.arange(n + 1), 2 * np.arange(n + 1), 2 * np.arange(n + 1))
    model = Predictive(sums, np.array([3.0, 3.0]), 1 / b, True)
    loops.candidate_labels.predictive_scores(
        0, n, places, np.tile([0, 1], n), Z, share, model, scores
    )
    X, within, between = Z @ T.T, T @ T.T, T @ np.diag(b) @ T.T
    for i, c in itertools.product(range(n), (0, 1)):
        others = [j for j in np.flatnonzero(codes == c) if j != i]
        m = len(others) + 1
        covariance = np.kron(np.eye(m), within) + np.kron(np.ones((m, m)), between)
        rows = X[[*others, i]].ravel()
        joint = multivariate_normal(np.zeros(m * d), covariance).logpdf(rows)
        known = multivariate_normal(
            np.zeros((m - 1) * d), covariance[: (m - 1) * d, : (m - 1) * d]
        ).logpdf(rows[: (m - 1) * d])
        constant = -0.5 * d * np.log(2 * np.pi) - np.linalg.slogdet(T)[1]
        np.testing.assert_allclose(scores[2 * i + c] + constant, joint - known, rtol=1e-9)


def test_singletons_with_one_label_are_linear_discriminant_analysis():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) + y[:, None]
    model = MultiInstancePLDA("fixed", shrinkage=0.0).fit(X, y)
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    np.testing.assert_array_equal(model.assignments_, y)
    new = rng.normal(size=(20, 4))
    np.testing.assert_allclose(model.predict_proba(new), lda.predict_proba(new), atol=1e-7)
    np.testing.assert_array_equal(model.predict(new), lda.predict(new))


def test_random_effects_predict_new_instances_by_conditioning():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(12), rng.integers(3, 9, 12))
    X = 2 * rng.normal(size=(12, 3))[y] + rng.normal(size=(len(y), 3))
    model = MultiInstancePLDA(shrinkage=0.0).fit(X, y)
    V, b = model.coordinates_, model.between_variances_
    assert len(b) == 3
    within = np.linalg.inv(V.T @ V)
    inverse = np.linalg.inv(V)
    between = inverse @ np.diag(b) @ inverse.T
    new = rng.normal(size=3)
    expected = []
    for c in range(12):
        mine = X[y == c]
        n = len(mine)
        gain = between @ np.linalg.inv(between + within / n)
        mean = model.mean_ + gain @ (mine.mean(axis=0) - model.mean_)
        covariance = within + between - gain @ between
        expected.append(multivariate_normal(mean, covariance).logpdf(new) + np.log(n))
    expected = np.exp(expected - logsumexp(expected))
    np.testing.assert_allclose(model.predict_proba_instances([new])[0], expected, atol=1e-9)


def test_assignments_do_not_depend_on_a_linear_map_of_the_features():
    bags, label_sets, _ = example(n_bags=60, seed=3)
    T = np.random.default_rng(0).normal(size=(3, 3)) * np.array([1e-2, 1.0, 1e2])
    moved = bags.with_instances(bags.instances @ T + 5.0)
    plain, other = (
        MultiInstancePLDA("fixed", shrinkage=0.0).fit(b, label_sets) for b in (bags, moved)
    )
    np.testing.assert_array_equal(plain.assignments_, other.assignments_)
    np.testing.assert_allclose(
        plain.assignment_probabilities_, other.assignment_probabilities_, atol=1e-4
    )
    # With OAS, which shrinks to equal variances, scaling and shifting leave them alone.
    scaled = bags.with_instances(bags.instances * np.array([1e-3, 1.0, 1e4]) - 7.0)
    plain, other = (MultiInstancePLDA().fit(b, label_sets) for b in (bags, scaled))
    np.testing.assert_allclose(
        plain.assignment_probabilities_, other.assignment_probabilities_, atol=1e-6
    )


@settings(deadline=None, max_examples=25)
@given(
    n_bags=st.integers(1, 12),
    n_labels=st.integers(2, 5),
    n_features=st.integers(1, 8),
    seed=st.integers(0, 1000),
    per_label=st.sampled_from([1, None]),
    null=st.booleans(),
    effects=st.sampled_from(["random", "fixed"]),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_laws_of_assignments(n_bags, n_labels, n_features, seed, per_label, null, effects):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_bags)
    X = rng.integers(-2, 3, size=(sizes.sum(), n_features)).astype(float)  # equal rows are common
    bags = Bags(X, np.concatenate([[0], np.cumsum(sizes)]))
    label_sets = rng.integers(0, 2, (n_bags, n_labels))
    label_sets[0, 0] = 1
    model = MultiInstancePLDA(effects, instances_per_label=per_label, null=null, max_iter=30)
    model.fit(bags, label_sets)
    assert np.isfinite(model.objective_curve_).all()
    for i, assigned in enumerate(bags.split(model.assignments_)):
        taken = assigned[assigned >= 0]
        assert label_sets[i, taken].all()
        if per_label == 1:
            assert len(taken) == len(np.unique(taken))
        elif not null:
            assert len(taken) == (len(assigned) if label_sets[i].any() else 0)
    proba = model.predict_proba_instances(bags)
    rows, named = np.arange(bags.n_instances), model.predict_instances(bags)
    assert label_sets.any(axis=0)[named].all()
    likeliest = np.where(label_sets.any(axis=0), model.score_instances(bags), -np.inf)
    np.testing.assert_allclose(likeliest[rows, named], likeliest.max(axis=1), atol=1e-6)
    assert (proba >= 0).all()
    np.testing.assert_array_less(proba.sum(axis=1), 1 + 1e-9)
    absent = ~label_sets.any(axis=0)
    assert not proba[:, absent].any() or absent.all()
    assert np.isfinite(model.transform(bags).instances).all()


@each("effects", ["fixed", "random"])
@each("per_label", [1, None])
def test_order_does_not_matter(effects, per_label):
    bags, label_sets, _ = example(seed=2)
    model = MultiInstancePLDA(effects, instances_per_label=per_label, null=per_label == 1)
    expected = model.fit(bags, label_sets).assignment_probabilities_
    rng = np.random.default_rng(0)
    order = rng.permutation(len(bags))
    within = [rng.permutation(size) for size in bags.sizes[order]]
    turned = Bags.from_arrays([bags[int(i)][w] for i, w in zip(order, within, strict=True)])
    found = model.fit(turned, label_sets[order]).assignment_probabilities_
    parts = bags.split(expected)
    expected = np.concatenate([parts[i][w] for i, w in zip(order, within, strict=True)])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_metric_is_that_of_the_coordinates():
    bags, label_sets, _ = example(n_bags=60, seed=4)
    model = MultiInstancePLDA().fit(bags, label_sets)
    a, b = bags.instances[:2]
    z = (a - b) @ model.coordinates_.T
    variances = model.between_variances_
    expected = np.sqrt(np.sum(z**2 * variances / (1 + variances)))
    np.testing.assert_allclose(model.get_metric()(a, b), expected)
    mapped = model.transform(bags).instances
    np.testing.assert_allclose(np.linalg.norm(mapped[0] - mapped[1]), expected)


def test_annotate_uses_the_label_set_of_a_new_bag():
    bags, label_sets, _ = example(n_bags=60, seed=5, spread=1.5)
    new, sets, truth = example(n_bags=60, seed=5, spread=1.5)
    model = MultiInstancePLDA().fit(bags, label_sets)
    named = model.annotate(new, sets)
    assert np.mean(named == truth) > np.mean(model.predict_instances(new) == truth)
    for i, labels in enumerate(new.split(named)):
        assert sets[i, labels].all()
    nothing = np.full_like(sets, -1)
    np.testing.assert_array_equal(model.annotate(new, nothing), model.predict_instances(new))
    few = MultiInstancePLDA(instances_per_label=1, null=True).fit(bags, label_sets)
    assert few.annotate(new, sets).shape == (new.n_instances,)


@each("dtype", [np.float32, np.float64])
def test_a_constant_feature_changes_nothing(dtype):
    bags, label_sets, _ = example(n_bags=60, seed=8)
    X = bags.instances.astype(dtype)
    wide = np.hstack([X, np.full((len(X), 1), 0.1, dtype), np.full((len(X), 1), 1e6 / 3, dtype)])
    plain, other = (
        MultiInstancePLDA(shrinkage=0.0).fit(bags.with_instances(table), label_sets)
        for table in (X, wide)
    )
    np.testing.assert_allclose(
        other.assignment_probabilities_, plain.assignment_probabilities_, atol=1e-4
    )


def test_large_features_are_worked_on_in_the_type_of_the_instances(monkeypatch):
    bags, label_sets, _ = example(n_bags=60, seed=8)
    expected = MultiInstancePLDA().fit(bags, label_sets).assignment_probabilities_
    monkeypatch.setattr("bagwise.solvers.metric.plda.DOUBLE", 1)
    single = bags.with_instances(bags.instances.astype(np.float32))
    found = MultiInstancePLDA().fit(single, label_sets).assignment_probabilities_
    np.testing.assert_allclose(found, expected, atol=1e-2)


def test_bags_of_many_labels_take_the_best_matching():
    rng = np.random.default_rng(0)
    centres = 10 * rng.normal(size=(16, 4))
    labels = [rng.permutation(16) for _ in range(3)] + [np.array([c]) for c in range(16)]
    bags = Bags.from_arrays([centres[c] + rng.normal(size=(len(c), 4)) for c in labels])
    sets = np.zeros((len(labels), 16), int)
    for i, c in enumerate(labels):
        sets[i, c] = 1
    for null in (True, False):
        model = MultiInstancePLDA(instances_per_label=1, null=null).fit(bags, sets)
        assert np.mean(model.assignments_ == np.concatenate(labels)) > 0.8
    several = MultiInstancePLDA().fit(bags, sets)
    assert np.mean(several.assignments_ == np.concatenate(labels)) > 0.8


def test_bags_of_unknown_label_set_do_not_count():
    bags, label_sets, _ = example(seed=9)
    known = np.arange(len(bags)) % 3 > 0
    expected = MultiInstancePLDA().fit(bags[known], label_sets[known])
    partly = np.where(known[:, None], label_sets, -1)
    model = MultiInstancePLDA().fit(bags, partly)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-9)
    assert (model.assignments_[np.repeat(~known, bags.sizes)] == -1).all()
    with pytest.raises(LabelError, match="no bag has a label"):
        MultiInstancePLDA().fit(bags, np.zeros_like(label_sets))


def test_shrinkage_is_that_of_oas():
    X = np.random.default_rng(0).normal(size=(20, 6)) * np.arange(1, 7)
    covariance = np.cov(X.T, bias=True)
    np.testing.assert_allclose(oas_shrinkage(np.triu(covariance), 20), oas(X)[1])


def test_counts_are_discounted_by_good_and_turing():
    counts = np.array([1.0, 1.0, 1.0, 2.0, 10.0, 0.5, 0.0])
    np.testing.assert_allclose(discounted(counts), [0.4, 0.4, 0.4, 1.4, 9.4, 0.2, 0.0])
    np.testing.assert_array_equal(discounted(np.array([5.0, 7.0])), [5.0, 7.0])


def test_letters_are_named_better_than_by_distance():
    data = load_letter_carroll(0)

    def accuracy(model):
        assigned = model.fit(data.bags, data.label_sets).assignments_
        inside = assigned >= 0
        return np.mean(assigned[inside] == data.instance_labels[inside])

    ours = accuracy(MultiInstancePLDA())
    assert ours > 0.87
    assert ours > accuracy(MIMLCA())
    assert ours > accuracy(MultiInstanceKMeans(instances_per_label=None))


def test_wrong_captions_cost_little():
    news = make_names_and_faces(n_bags=1500, n_categories=100, random_state=0)
    photos, later = news.bags[:1200], news.bags[1200:]
    unseen = news.instance_labels[photos.n_instances :]

    def precision(model, label_sets):
        predicted = model.fit(photos, label_sets).predict_instances(later)
        return np.mean((predicted == unseen)[unseen >= 0])

    model = MultiInstancePLDA(instances_per_label=1, null=True)
    known = precision(model, news.label_sets[:1200])
    captions = precision(model, news.automatic_label_sets[:1200])
    assert captions > known - 0.05
    assert captions > precision(MIMLCA(), news.automatic_label_sets[:1200])
