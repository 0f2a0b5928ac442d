"""Kernel ORLR against the linear model on explicit features; settings chosen without labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from bagwise import Bags
from bagwise._common import memory
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from bagwise.annotation._held_out import N_COMPARED, N_FOLDS, PENALTIES, WIDTHS, Candidate, best_of
from bagwise.exceptions import InputError


def rings(n_bags=40, seed=0):
    """Instances of three classes on three rings: no linear model tells them apart."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_bags)
    kinds = rng.integers(3, size=sizes.sum())
    angles = rng.uniform(0, 2 * np.pi, len(kinds))
    radii = 1.5 * kinds + rng.normal(0, 0.2, len(kinds))
    rows = radii[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    bags = Bags(rows, np.concatenate([[0], np.cumsum(sizes)]))
    sets = np.zeros((n_bags, 3), int)
    sets[bags.bag_index, kinds] = 1
    return bags, sets, kinds


def with_kernel(**options):
    given = {"kernel": "rbf", "gamma": 0.5, "reg": 0.1, "tol": 1e-8, "random_state": 0}
    return ORedLogisticRegression(**(given | options))


def explicit(model, rows):
    """K(x, landmarks) K(landmarks, landmarks)^-1/2."""
    landmarks = model.nystroem_.components_
    values, vectors = linalg.eigh(rbf_kernel(landmarks, gamma=model.gamma_))
    root = vectors / np.sqrt(np.maximum(values, 1e-12)) @ vectors.T
    return rbf_kernel(rows, landmarks, gamma=model.gamma_) @ root


@pytest.mark.parametrize("background", [False, 9])
@pytest.mark.parametrize("solver", ["lbfgs", "em"])
def test_it_is_the_linear_model_on_explicit_features(background, solver):
    bags, sets, kinds = rings()
    new, _, _ = rings(seed=1)
    known = np.where(np.arange(len(kinds)) % 7, -1, kinds)
    sets[4], known[bags.bag_index == 4] = -1, -1
    weights = np.where(np.arange(len(bags)) == 6, 0.0, 1.5)
    options = {"background": background, "solver": solver, "tol": 1e-6}
    model = with_kernel(n_components=15, **options).fit(bags, sets, weights, known)
    assert model.coef_.shape == (3 + (background == 9), 15)
    linear = ORedLogisticRegression(reg=0.1, **options)
    linear.fit(bags.with_instances(explicit(model, bags.instances)), sets, weights, known)
    there = new.with_instances(explicit(model, new.instances))
    found, expected = model.predict_proba_instances(new), linear.predict_proba_instances(there)
    assert_allclose(found, expected, atol=1e-3 if solver == "em" else 1e-5)


def test_it_finds_what_no_linear_model_finds():
    bags, sets, _ = rings(80)
    new, _, kinds = rings(80, seed=1)
    linear = ORedLogisticRegression().fit(bags, sets)
    assert (linear.predict_instances(new) == kinds).mean() < 0.6
    model = with_kernel(tol=1e-4).fit(bags, sets)
    assert (model.predict_instances(new) == kinds).mean() > 0.9


def test_all_instances_as_landmarks_in_any_order(rng):
    bags, sets, _ = rings()
    order = rng.permutation(len(bags))
    expected = with_kernel().fit(bags, sets).predict_proba_instances(bags)
    found = with_kernel().fit(bags[order], sets[order]).predict_proba_instances(bags)
    assert_allclose(found, expected, atol=1e-4)


def test_a_function_as_kernel_and_sparse_and_single_precision():
    bags, sets, _ = rings(20)
    options = {"n_components": 12, "tol": 1e-6}
    model = with_kernel(**options).fit(bags, sets)
    expected = model.predict_proba_instances(bags)

    def same(x, z):
        return np.exp(-0.5 * np.sum((x - z) ** 2))

    given = with_kernel(kernel=same, **options).fit(bags, sets)
    assert not hasattr(given, "gamma_")
    assert_allclose(given.predict_proba_instances(bags), expected, atol=1e-5)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    assert_allclose(with_kernel(**options).fit(thin, sets).predict_proba_instances(thin), expected,
                    atol=1e-5)  # fmt: skip
    single = bags.with_instances(bags.instances.astype(np.float32))
    found = with_kernel(n_components=12, tol=1e-4).fit(single, sets)
    assert found.coef_.dtype == np.float32
    assert_allclose(found.predict_proba_instances(single), expected, atol=0.02)


def test_a_warm_start_keeps_the_landmarks():
    bags, sets, _ = rings()
    model = with_kernel(warm_start=True, n_components=20, random_state=None, tol=1e-5)
    first = model.fit(bags, sets).n_iter_
    landmarks = model.nystroem_.components_
    assert model.fit(bags, sets).n_iter_ < first / 3
    assert_array_equal(model.nystroem_.components_, landmarks)
    model.set_params(kernel="linear").fit(bags, sets)
    assert not hasattr(model, "nystroem_")
    assert not hasattr(model, "gamma_")
    assert model.coef_.shape == (3, 2)


def slow_selection(model, bags, sets, gamma, reg):
    """`select` by plain loops, on linear models of features that a user could make."""
    rng = np.random.RandomState(model.random_state)
    folds, seed = rng.permutation(len(bags)) % N_FOLDS, rng.randint(2**31)

    def held_out(gamma, reg):
        values, features = [], bags
        if model.kernel == "rbf":
            rows = np.sort(
                np.random.RandomState(seed).choice(
                    bags.n_instances, model.n_components, replace=False
                )
            )
            nystroem = Nystroem(gamma=gamma, n_components=model.n_components, random_state=0)
            features = bags.with_instances(
                nystroem.fit(bags.instances[rows]).transform(bags.instances)
            )
        for fold in range(N_COMPARED):
            inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            fitted = type(model)(reg, tol=1e-6).fit(features[inside], sets[inside])
            values.append(fitted.log_likelihood(features[outside], sets[outside]))
        return values

    def preferred(settings, values):
        """The first that is not behind the best by the standard error, on one fold and on both."""
        left = list(range(len(settings)))
        for n_folds in range(1, N_COMPARED + 1):
            found = [np.concatenate(each[:n_folds]) for each in values]
            best = max(left, key=lambda i: found[i].sum())
            behind = [found[best] - each for each in found]
            left = [i for i in left if behind[i].sum() <= len(behind[i]) ** 0.5 * behind[i].std()]
        return settings[left[0]]

    if model.kernel == "rbf":
        widths = [factor * gamma for factor in WIDTHS]
        gamma = preferred(widths, [held_out(width, reg) for width in widths])
    penalties = [factor * reg for factor in PENALTIES]
    return gamma, preferred(penalties, [held_out(gamma, penalty) for penalty in penalties])


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [
        (ORedLogisticRegression, "linear"),
        (ORedLogisticRegression, "rbf"),
        (NoisyOrLogisticRegression, "rbf"),
    ],
)
def test_selection_is_by_the_likelihood_of_held_out_bags(kind, kernel):
    bags, sets, _ = rings(24)
    model = kind(
        0.3, kernel=kernel, gamma=0.1, n_components=20, select=True, tol=1e-4, random_state=0
    )
    model.fit(bags, sets)
    gamma, reg = slow_selection(model, bags, sets, 0.1, 0.3)
    assert model.reg_ == reg
    if kernel == "rbf":
        assert model.gamma_ == gamma == 0.2  # rings need a narrow kernel
    assert (model.reg, model.gamma) == (0.3, 0.1)


class Recorded:
    """Folds whose log-likelihoods are known; it counts what is asked for."""

    n_folds = 3

    def __init__(self, values):
        self.values, self.n_fits = values, 0

    def log_likelihood(self, fold, reg):
        self.n_fits += 1
        return self.values[fold]


def test_clearly_worse_settings_are_dropped_after_the_first_fold(rng):
    base = rng.normal(size=(N_COMPARED, 20))
    close = base + rng.normal(size=base.shape)
    close += (1.0 - close.sum() + base.sum()) / base.size  # better by 1 in all, within the noise
    values = [base, base - 5.0, close]
    candidates = [Candidate(Recorded(each), None, 1.0) for each in values]
    assert best_of(candidates) is candidates[0]  # a difference within the noise decides nothing
    assert [candidate.folds.n_fits for candidate in candidates] == [2, 1, 2]
    better = Candidate(Recorded(base + 5.0), None, 1.0)
    assert best_of([*candidates, better]) is better


def test_selection_with_labels_that_are_rare_and_few_bags():
    bags, sets, _ = rings(12)
    rare = np.hstack([sets, np.zeros((12, 1), int)])
    rare[3, 3] = rare[3].sum() < bags.sizes[3]
    model = with_kernel(select=True, background=9, tol=1e-3).fit(bags, rare)
    assert np.isfinite(model.annotate_proba(bags, rare)).all()
    alone = with_kernel(select=True, tol=1e-3).fit(bags[:1], sets[:1])
    assert (alone.gamma_, alone.reg_) == (0.5, 0.1)


@pytest.mark.parametrize("kind", [ORedLogisticRegression, NoisyOrLogisticRegression])
def test_selection_where_no_held_out_set_is_possible(kind, recwarn):
    bags, _, _ = rings(2)
    model = kind(0.1, select=True, random_state=0).fit(bags, ["a", "b"])
    assert model.reg_ == 0.1
    assert not recwarn.list


def test_selection_with_a_set_that_is_possible_only_where_it_is_wrong():
    bags, sets, _ = rings(24)
    sets[np.flatnonzero(bags.sizes == 1)[0]] = 1  # three labels, one instance
    model = with_kernel(gamma=0.1, reg=0.3, n_components=20, select=True, tol=1e-3, spurious=0.01)
    assert model.fit(bags, sets).gamma_ == 0.2  # as above, and not the first of equal candidates


def test_auto_is_that_of_the_kernel():
    bags, sets, _ = rings(12)
    assert ORedLogisticRegression().fit(bags, sets).reg_ == 1.0
    model = ORedLogisticRegression(kernel="rbf", random_state=0).fit(bags, sets)
    assert model.reg_ == 0.01
    scale = 1 / (2 * bags.instances.var())
    assert model.gamma_ == pytest.approx(0.5 * scale)
    assert model.set_params(gamma="scale").fit(bags, sets).gamma_ == pytest.approx(scale)


def test_features_that_do_not_fit_into_memory_are_refused(monkeypatch):
    bags, sets, _ = rings(12)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    monkeypatch.setattr(memory, "_ALWAYS_GRANTED", 0)
    with pytest.raises(InputError, match="Nystroem features"):
        with_kernel().fit(bags, sets)


def test_a_function_as_kernel_on_a_device():
    pytest.importorskip("torch")
    bags, sets, _ = rings(12)
    model = with_kernel(kernel=lambda x, z: float(np.exp(x @ z / 9)), n_components=9, tol=1e-6)
    expected = model.fit(bags, sets).predict_proba_instances(bags)
    away = bags.to("cpu")
    assert_allclose(model.fit(away, sets).predict_proba_instances(away), expected, atol=1e-5)


def test_whole_numbers_are_instances_too():
    bags, sets, _ = rings(12)
    whole = bags.with_instances(np.round(4 * bags.instances).astype(int))
    same = bags.with_instances(np.round(4 * bags.instances))
    expected = with_kernel(tol=1e-4).fit(same, sets).predict_proba_instances(same)
    found = with_kernel(tol=1e-4).fit(whole, sets).predict_proba_instances(whole)
    assert_allclose(found, expected, atol=1e-9)
