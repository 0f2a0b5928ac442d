"""Contributions of instances: against loops, all subsets, and models with a known answer."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.auto import AutoBagClassifier
from bagwise.classification import MILBoost, PrimalDualMISVM, SetKernelSVM, SingleInstanceClassifier
from bagwise.embedding import BagStatistics
from bagwise.exceptions import InputError
from bagwise.predictions import instance_attributions
from bagwise.preprocessing import InstanceTransformer

METHODS = ("score", "single", "one_removed", "sampled")


class Pooled:
    """A model of one's own: the pooled scores of the instances, their first features."""

    def __init__(self, pool=np.sum, intercept=0.0, columns=None):
        self.pool, self.intercept, self.columns = pool, intercept, columns
        self.n_scored, self.n_calls = 0, 0

    def score_instances(self, bags):
        self.n_scored, self.n_calls = self.n_scored + len(bags), self.n_calls + 1
        return bags.instances[:, 0 if self.columns is None else slice(self.columns)]

    def decision_function(self, bags):
        parts = bags.split(self.score_instances(bags))
        return np.array([self.pool(part, axis=0) for part in parts]) + self.intercept


class Noisy(Pooled):
    """The same as probabilities of two classes."""

    def __getattribute__(self, name):
        if name == "decision_function":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def predict_proba(self, bags):
        shares = np.exp(-(Pooled.decision_function(self, bags) ** 2))
        return np.column_stack([1 - shares, shares])


def drawn(rng, sizes=(1, 2, 3, 5, 9, 12), n_features=3):
    return Bags.from_arrays([rng.normal(size=(n, n_features)) for n in sizes])


def classified(rng, n_bags=20, n_classes=2):
    """Bags of one to five instances whose first instance tells the class."""
    y = np.arange(n_bags) % n_classes
    arrays = [rng.normal(size=(rng.integers(1, 6), 3)) for _ in y]
    for array, label in zip(arrays, y, strict=True):
        array[0, label] += 4
    return Bags.from_arrays(arrays), y


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("columns", [None, 3])
def test_where_scores_add_up_every_method_finds_them(rng, method, columns):
    bags = drawn(rng)
    expected = bags.instances[:, 0] if columns is None else bags.instances
    found = instance_attributions(
        Pooled(columns=columns), bags, method=method, n_samples=40, random_state=0
    )
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(("method", "added"), [("single", 2.0), ("one_removed", 0), ("sampled", 0)])
def test_an_intercept_is_a_constant(rng, method, added):
    bags = drawn(rng, sizes=(2, 3, 5, 9, 12))
    model = Pooled(intercept=2.0)
    found = instance_attributions(model, bags, method=method, n_samples=40, random_state=0)
    np.testing.assert_allclose(found, bags.instances[:, 0] + added, atol=1e-9)


@pytest.mark.parametrize("method", ["one_removed", "sampled"])
def test_a_bag_of_one_instance_is_compared_with_an_undecided_score(rng, method):
    bags = drawn(rng, sizes=(1, 1))
    found = instance_attributions(Pooled(intercept=2.0), bags, method=method)
    np.testing.assert_allclose(found, bags.instances[:, 0] + 2)
    model = Noisy()
    found = instance_attributions(model, bags, method=method)
    np.testing.assert_allclose(found, model.predict_proba(bags)[:, 1] - 0.5)


def one_removed_by_loop(score, bags):
    """The slow version: one bag, one instance at a time."""
    found = []
    for bag in bags:
        for j in range(len(bag)):
            rest = Bags.from_arrays([np.delete(bag, j, axis=0)])
            found.append(score(Bags.from_arrays([bag]))[0] - score(rest)[0])
    return np.array(found)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_removed_against_a_loop(rng, n_classes):
    bags, y = classified(rng, n_classes=n_classes)
    model = make_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM()).fit(bags, y)
    several = bags[bags.sizes > 1]
    found = instance_attributions(model, several, method="one_removed")
    expected = one_removed_by_loop(model.decision_function, several)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert found.shape == (several.n_instances, *([] if n_classes == 2 else [3]))


def test_single_is_the_score_of_a_bag_of_one(rng):
    bags, y = classified(rng)
    model = MILBoost().fit(bags, y)
    alone = Bags(bags.instances, np.arange(bags.n_instances + 1))
    found = instance_attributions(model, bags, method="single")
    np.testing.assert_allclose(found, model.decision_function(alone), rtol=1e-9)


def coefficients_over_all_subsets(score, bag):
    """Weighted least squares over all subsets that are not empty, by the normal equations."""
    n = len(bag)
    single = [score(Bags.from_arrays([bag[[j]]]))[0] for j in range(n)]
    shares = np.empty(n)
    shares[np.argsort(-np.array(single))] = 0.05 + 0.45 * np.arange(n) / (n - 1)
    rows, values, weights = [], [], []
    for size in range(1, n + 1):
        for members in combinations(range(n), size):
            mask = np.isin(np.arange(n), members)
            rows.append(np.append(1.0, mask))
            values.append(score(Bags.from_arrays([bag[mask]]))[0])
            weights.append(np.prod(np.where(mask, shares, 1 - shares)))
    Z, w = np.array(rows), np.array(weights)[:, None]
    return np.linalg.solve(Z.T @ (w * Z), Z.T @ (w[:, 0] * np.array(values)))[1:]


@pytest.mark.parametrize("pool", [np.max, np.mean, np.sum, np.prod], ids=lambda pool: pool.__name__)
def test_sampled_over_all_subsets_is_weighted_least_squares(rng, pool):
    bags = drawn(rng, sizes=(2, 3, 6))
    model = Pooled(pool, intercept=1.0)
    found = instance_attributions(model, bags, method="sampled", n_samples=64)
    expected = [coefficients_over_all_subsets(model.decision_function, bag) for bag in bags]
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("pool", [np.max, np.mean], ids=lambda pool: pool.__name__)
def test_many_samples_come_near_to_all_subsets(rng, pool):
    bags = drawn(rng, sizes=(11, 12))
    model = Pooled(pool)
    exact = instance_attributions(model, bags, method="sampled", n_samples=2**12)
    few = instance_attributions(model, bags, method="sampled", n_samples=100, random_state=0)
    many = instance_attributions(model, bags, method="sampled", n_samples=2000, random_state=0)
    for some, largest in ((few, 0.6), (many, 0.15)):
        assert 0 < np.sqrt(np.mean((some - exact) ** 2)) < largest * exact.std()


def test_the_cost_is_what_the_documentation_says(rng):
    sizes = np.array([1, 2, 3, 5, 9, 12])
    bags = drawn(rng, sizes=sizes)
    costs = {
        "score": len(sizes) + 1,
        "single": sizes.sum(),
        "one_removed": len(sizes) + sizes[sizes > 1].sum(),
        "sampled": np.minimum(2**sizes - 1, sizes + 20).sum(),
    }
    for method, cost in costs.items():
        model = Pooled()
        instance_attributions(model, bags, method=method, n_samples=20, random_state=0)
        assert model.n_scored == cost, method
        assert model.n_calls <= 2  # many bags in one call


@pytest.mark.parametrize("method", ["single", "one_removed", "sampled"])
def test_order_and_company_are_irrelevant(rng, method):
    bags, model = drawn(rng), Pooled(np.max)
    options = {"method": method, "n_samples": 40, "random_state": 0}
    parts = bags.split(instance_attributions(model, bags, **options))
    backwards = Bags.from_arrays([bag[::-1] for bag in bags][::-1])
    found = backwards.split(instance_attributions(model, backwards, **options))
    for part, other in zip(parts, found[::-1], strict=True):
        np.testing.assert_allclose(part, other[::-1], rtol=1e-9, atol=1e-12)
    alone = instance_attributions(model, bags[[4]], **options)
    np.testing.assert_allclose(alone, parts[4], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_contributions_have_the_scale_of_the_score(rng, method):
    bags = drawn(rng)
    options = {"method": method, "n_samples": 40, "random_state": 0}
    found = instance_attributions(Pooled(np.max), bags, **options)
    scaled = instance_attributions(
        Pooled(np.max), bags.with_instances(1e3 * bags.instances), **options
    )
    np.testing.assert_allclose(scaled, 1e3 * found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["single", "one_removed", "sampled"])
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(BagStatistics(), ExtraTreesClassifier(10, random_state=0)),
        make_pipeline(BagStatistics(), LogisticRegression()),
        make_pipeline(InstanceTransformer(SimpleImputer()), SingleInstanceClassifier()),
        GridSearchCV(SetKernelSVM(), {"C": [1, 10]}, cv=2),
        AutoBagClassifier(candidates=["nsk", "pooled-trees"], cv=2, random_state=0),
        PrimalDualMISVM(random_state=0),
    ],
    ids=["trees", "logistic", "imputer", "search", "auto", "two columns"],
)
def test_models_of_every_kind(rng, model, method):
    bags, y = classified(rng)
    model.fit(bags, y)
    found = instance_attributions(model, bags, method=method, n_samples=10, random_state=0)
    assert found.shape == (bags.n_instances,)
    assert np.isfinite(found).all()
    positive = bags.split(found)
    hits = [part.argmax() == 0 for part, label in zip(positive, y, strict=True) if label == 1]
    assert np.mean(hits) > 0.5


def test_two_columns_of_scores_become_one(rng):
    bags, y = classified(rng)
    model = PrimalDualMISVM(random_state=0).fit(bags, y)
    scores = model.score_instances(bags)
    found = instance_attributions(model, bags, method="score")
    np.testing.assert_allclose(found, scores[:, 1] - scores[:, 0])


@pytest.mark.parametrize("method", ["single", "one_removed", "sampled"])
def test_label_sets_have_a_column_per_label(rng, method):
    bags, y = classified(rng, n_classes=3)
    sets = np.column_stack([y == 0, y == 1, y >= 0, y < 0]).astype(int)  # one of all, one of none
    trees = make_pipeline(BagStatistics(), ExtraTreesClassifier(10, random_state=0)).fit(bags, sets)
    found = instance_attributions(trees, bags, method=method, n_samples=10, random_state=0)
    assert found.shape == (bags.n_instances, 4)
    assert np.isfinite(found).all()
    if method == "single":
        assert (found[:, 2] == 1).all()
        assert (found[:, 3] == 0).all()
    else:
        several = bags.sizes[bags.bag_index] > 1
        np.testing.assert_allclose(found[several, 2:], 0, atol=1e-9)
        np.testing.assert_allclose(found[~several, 2:], [[0.5, -0.5]] * (~several).sum())


def test_scores_that_are_infinite_contribute_nothing(rng):
    class Never(Pooled):
        def decision_function(self, bags):
            scores = super().decision_function(bags)
            return np.column_stack([scores, np.full(len(scores), -np.inf)])

    bags = drawn(rng)
    for method in ("single", "one_removed", "sampled"):
        found = instance_attributions(Never(), bags, method=method, n_samples=40, random_state=0)
        np.testing.assert_allclose(found[:, 0], bags.instances[:, 0], atol=1e-9)
        np.testing.assert_allclose(found[:, 1], 0, atol=1e-9)


def test_sparse_instances_and_tables(rng):
    bags, y = classified(rng)
    model = SetKernelSVM().fit(bags, y)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    for method in METHODS:
        options = {"method": method, "n_samples": 10, "random_state": 0}
        found = instance_attributions(model, thin, **options)
        np.testing.assert_allclose(found, instance_attributions(model, bags, **options), atol=1e-8)
    table = instance_attributions(model, bags.instances, method="one_removed")  # bags of one
    np.testing.assert_allclose(table, model.decision_function(bags.instances))


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    n_samples=st.integers(1, 30),
    exponent=st.integers(-60, 60),
    method=st.sampled_from(METHODS),
    pool=st.sampled_from([np.max, np.mean, np.sum]),
    seed=st.integers(0, 5),
)
def test_finite_input_gives_a_finite_answer(sizes, n_samples, exponent, method, pool, seed):
    rng = np.random.default_rng(seed)
    bags = Bags.from_arrays([rng.integers(-2, 3, size=(n, 2)) * 10.0**exponent for n in sizes])
    model = Pooled(pool)
    found = instance_attributions(model, bags, method=method, n_samples=n_samples, random_state=0)
    assert found.shape == (bags.n_instances,)
    assert np.isfinite(found).all()
    largest = np.abs(bags.instances).max(initial=0)
    assert np.abs(found).max() <= 1e3 * largest * max(sizes)


def test_what_is_refused(rng):
    bags, y = classified(rng)
    with pytest.raises(InputError, match="method is 'shap': expected one of 'score', 'single'"):
        instance_attributions(Pooled(), bags, method="shap")
    for n_samples in (0, 2.5):
        with pytest.raises((ValueError, TypeError), match="n_samples"):
            instance_attributions(Pooled(), bags, n_samples=n_samples)
    with pytest.raises(InputError, match="object has neither decision_function nor predict_proba"):
        instance_attributions(object(), bags)
    rows = make_pipeline(BagStatistics(), SVC()).fit(bags, y)
    with pytest.raises(InputError, match="SVC has no instance scores"):
        instance_attributions(rows, bags, method="score")
    with pytest.raises(InputError, match="gave NaN as the score of a bag"):
        instance_attributions(Pooled(intercept=np.nan), bags)
    pairs = SVC(decision_function_shape="ovo")
    model = make_pipeline(BagStatistics(), pairs).fit(bags, np.arange(20) % 4)
    with pytest.raises(InputError, match=r"scores of shape \(\d+, 6\)"):
        instance_attributions(model, bags)
