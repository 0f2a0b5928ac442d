"""M-C2B against a literal implementation of its algorithm, and its distances against loops."""

from unittest import mock

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from bagwise.classification import ClassToBag
from bagwise.exceptions import (
    LabelError,
)
from bagwise.loops import set_distances
from bagwise.solvers.metric.bag_metrics import minimise_norm_ratio
from cases import covering, each
from checks import example


def norms(rows):
    return np.sqrt((rows**2).sum(axis=1))


def ratios_word_for_word(A, B, n_steps):
    """Algorithm 1 of Wang et al. 2012 from U = I; no row may vanish."""
    U, found = np.eye(A.shape[1]), []
    for _ in range(n_steps):
        ratio = norms(A @ U).sum() / norms(B @ U).sum()
        found.append(ratio * len(B) / len(A))
        D = np.diag(1 / (2 * norms(A @ U)))
        S = (B @ U) / norms(B @ U)[:, None]
        U = ratio * np.linalg.pinv(2 * A.T @ D @ A) @ B.T @ S
    return found


def tables(seed, n_features=4):
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.2, 2, n_features)
    return rng.normal(size=(30, n_features)) * scale, rng.normal(size=(40, n_features)) / scale


@each("seed", range(3))
def test_steps_are_those_of_the_algorithm(seed):
    A, B = tables(seed)
    # Some row of A U shrinks sevenfold a step, and the matrix to invert is as ill-conditioned:
    # later steps compare rounding.
    result = minimise_norm_ratio(
        A, B, n_components=4, orthonormal=False, reg=0.0, max_iter=10, tol=0.0
    )
    assert result.n_iter == 10
    expected = ratios_word_for_word(A, B, result.n_iter)
    np.testing.assert_allclose(result.objective_curve, expected, rtol=1e-9)


@covering(seed=range(3), n_components=[1, 2, 4], orthonormal=[True, False])
def test_the_ratio_never_rises(seed, n_components, orthonormal):
    A, B = tables(seed)
    result = minimise_norm_ratio(
        A,
        B,
        n_components=n_components,
        orthonormal=orthonormal,
        reg=0.0,
        max_iter=500,
        tol=1e-12,
    )
    assert np.all(np.diff(result.objective_curve) <= 1e-12)
    U = result.solution[0]
    assert U.shape == (4, n_components)
    assert norms(B @ U).mean() == pytest.approx(1)

    def ratio(V):
        return norms(A @ V).mean() / norms(B @ V).mean()

    if orthonormal:
        gram = U.T @ U
        np.testing.assert_allclose(gram / gram[0, 0], np.eye(n_components), atol=1e-10)
    assert ratio(U) == pytest.approx(result.objective_curve[-1], rel=1e-6)


@each("seed", range(3))
@each("reg", [0.0, 0.3])
def test_no_turn_of_orthonormal_columns_lowers_the_ratio(seed, reg):
    A, B = tables(seed, n_features=6)
    result = minimise_norm_ratio(
        A, B, n_components=3, orthonormal=True, reg=reg, max_iter=500, tol=1e-13
    )
    assert result.converged

    def ratio(U):
        U = np.linalg.qr(U)[0]
        penalty = reg * norms(A).sum() * np.sqrt(3 / 6)
        return (norms(A @ U).sum() + penalty) / norms(B @ U).sum() * len(B) / len(A)

    (U,) = result.solution
    assert ratio(U) == pytest.approx(result.objective_curve[-1])
    rng = np.random.default_rng(seed)
    for size in (1e-3, 1e-1):
        turned = [ratio(U + size * np.linalg.norm(U) * rng.normal(size=U.shape)) for _ in range(50)]
        assert min(turned) >= ratio(U) * (1 - 1e-9)


def test_where_eigenvectors_would_raise_the_ratio_it_still_falls(rng):
    """Few heavy-tailed rows: the eigenvectors jump between places."""
    found = [np.diff(steps_on(rng.standard_cauchy((2, 6, 5)))) for _ in range(200)]
    assert all(np.all(falls <= 1e-12) for falls in found)


def steps_on(pair):
    options = {"n_components": 2, "orthonormal": True, "reg": 0.01, "max_iter": 50, "tol": 1e-6}
    return minimise_norm_ratio(*pair, **options).objective_curve


@each("orthonormal", [True, False])
def test_in_the_plane_the_best_direction_is_found(orthonormal):
    A, B = tables(0, n_features=2)
    result = minimise_norm_ratio(
        A, B, n_components=1, orthonormal=orthonormal, reg=0.0, max_iter=2000, tol=1e-14
    )
    angles = np.linspace(0, np.pi, 721)
    U = np.array([np.cos(angles), np.sin(angles)])
    everywhere = np.abs(A @ U).mean(axis=0) / np.abs(B @ U).mean(axis=0)
    assert result.objective_curve[-1] == pytest.approx(everywhere.min(), rel=1e-2)


def test_the_nearest_instance_of_pairs(rng):
    X, offsets = rng.normal(size=(10, 3)), np.array([0, 3, 4, 10])
    rows, bags = rng.integers(0, 10, 20), rng.integers(0, 3, 20)
    found = set_distances.closest_instances(X, offsets, rows, bags, np.arange(11))[1]
    for row, bag, nearest in zip(rows, bags, found, strict=True):
        inside = np.arange(offsets[bag], offsets[bag + 1])
        assert nearest == inside[norms(X[inside] - X[row]).argmin()]


def test_distances_and_thresholds_by_loops():
    bags, y = example(12, n_classes=3)
    test, _ = example(4, seed=1)
    model = ClassToBag().fit(bags, y)
    scores = model.decision_function(test)
    for c, label in enumerate(model.classes_):
        U = model.components_[c].T

        def mean_distance(bag, others, U=U):
            instances = np.vstack(others)
            return np.mean([norms((x - bag) @ U).min() for x in instances])

        of_class = [i for i in range(12) if y[i] == label]
        own = [mean_distance(bags[i], [bags[j] for j in of_class if j != i]) for i in of_class]
        other = [
            mean_distance(bags[i], [bags[j] for j in of_class]) for i in range(12) if y[i] != label
        ]
        threshold = 0.5 * (np.mean(own) + np.mean(other))
        assert model.thresholds_[c] == pytest.approx(threshold)
        expected = [threshold - mean_distance(bag, [bags[j] for j in of_class]) for bag in test]
        np.testing.assert_allclose(scores[:, c], expected)


def test_what_is_learned_are_the_differences_to_foreign_bags():
    bags, y = example(8)
    model = ClassToBag(4, reg=0.0, tol=0.0, max_iter=5)

    def as_printed(A, B, **options):
        return minimise_norm_ratio(A, B, **options | {"orthonormal": False})

    solver = "bagwise.classification._neighbors.minimise_norm_ratio"
    with mock.patch(solver, as_printed), pytest.warns(UserWarning, match="max_iter=5"):
        model.fit(bags, y)
    curves = []
    for label in "pq":
        A, B = [], []
        for i in range(8):
            for x in bags[i] if y[i] == label else []:
                for j in range(8):
                    if j != i:
                        nearest = bags[j][norms(bags[j] - x).argmin()]
                        (A if y[j] == label else B).append(x - nearest)
        curves.append(ratios_word_for_word(np.array(A), np.array(B), 5))
    np.testing.assert_allclose(model.objective_curve_, np.sum(curves, axis=0), rtol=1e-6)


def test_key_instances_are_nearest_to_the_class():
    bags, y = example(16)
    test, _ = example(8, seed=1)
    model = ClassToBag().fit(bags, y)
    own = np.vstack([bag for bag, label in zip(bags, y, strict=True) if label == "q"])
    U = model.components_[1].T
    for bag, row in zip(test, model.key_instances(test, label="q"), strict=True):
        assert row == np.argmin([norms((own - x) @ U).mean() for x in bag])


def test_the_direction_that_tells_the_classes_apart_is_found(rng):
    y = np.arange(40) % 2
    arrays = [rng.normal(size=(3, 3)) * [1, 1, 4] + [8 * label, 0, 0] for label in y]
    for components in ClassToBag(1).fit(arrays, y).components_:
        assert components[0, 0] ** 2 > 0.95 * (components**2).sum()


def test_label_sets():
    bags, y = example(12)
    sets = np.column_stack([y == "p", y == "q", np.ones(12), np.zeros(12), np.arange(12) == 0])
    model = ClassToBag(4).fit(bags, sets.astype(int))
    scores, predicted = model.decision_function(bags), model.predict(bags)
    np.testing.assert_array_equal(predicted, scores > 0)
    assert np.all(scores[:, 3] < -1e300)  # a label of no bag is never predicted
    assert np.isfinite(scores).all()  # scikit-learn's measures take nothing else
    for c in (2, 4):  # carried by all bags, or by one: nothing to compare, all directions alike
        U = model.components_[c]
        np.testing.assert_allclose(U @ U.T, U[0] @ U[0] * np.eye(4), atol=1e-12)
    with pytest.raises(LabelError, match="needs label="):
        model.key_instances(bags)


def test_a_class_of_one_bag_is_compared_by_no_features_in_particular(rng):
    """In the units of the others, and in the directions that matter, wherever they are."""
    arrays, test = ([rng.normal(size=(3, 8)) for _ in range(12)] for _ in range(2))
    arrays[0][:, 7] += 9
    test[0][:, 7] += 9
    y = ["rare", *["p", "q"] * 5, "p"]
    for change in (lambda rows: rows, lambda rows: rows[:, ::-1], lambda rows: 1e4 * rows):
        model = ClassToBag(2).fit([change(rows) for rows in arrays], y)
        predicted = model.predict([change(rows) for rows in test])
        np.testing.assert_array_equal(predicted == "rare", np.arange(12) == 0)


def test_pairs_are_drawn_where_there_are_too_many():
    bags, y = example(20)
    few = ClassToBag(max_pairs=50, random_state=0).fit(bags, y)
    again = ClassToBag(max_pairs=50, random_state=0).fit(bags, y)
    np.testing.assert_array_equal(few.components_, again.components_)
    assert not np.allclose(few.components_, ClassToBag().fit(bags, y).components_)


def test_numpy_integers_are_numbers_of_components():
    """As a grid of ``np.arange`` gives them."""
    bags, y = example(20)
    grid = {"n_components": np.arange(1, 3)}
    for model in (ClassToBag(), GridSearchCV(ClassToBag(), grid, cv=2, error_score="raise")):
        n = {} if isinstance(model, GridSearchCV) else {"n_components": np.int64(2)}
        assert set(model.set_params(**n).fit(bags, y).predict(bags)) <= set(y)
