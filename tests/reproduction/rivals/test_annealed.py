from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq, minimize
from sklearn.svm import LinearSVC

from reproduction.rivals import AnnealedSVM
from reproduction.rivals.solvers.annealed_svm import (
    annealed_svm,
    probabilities,
    squared_hinge_svm,
)


@pytest.fixture
def cloud(rng):
    y = np.repeat([-1, 1], 20)
    X = rng.normal(size=(40, 3)) + 0.8 * y[:, None]
    signs = np.zeros(40, dtype=int)
    chosen = np.r_[0:4, 20:24]
    signs[chosen] = y[chosen]
    return X, signs


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_machine_is_that_of_liblinear_on_weighted_copies(rng, kind):
    X = rng.normal(size=(50, 4)) + 1
    up, down = rng.uniform(0, 2, size=(2, 50))
    w, f, converged = squared_hinge_svm(kind(X), up, down, np.zeros(5), tol=1e-10)
    both, y = np.vstack([X, X]), np.repeat([1, -1], 50)
    svm = LinearSVC(loss="squared_hinge", C=0.5, tol=1e-12, dual=False, max_iter=10_000)
    svm.fit(both, y, sample_weight=np.r_[up, down])
    assert converged
    np.testing.assert_allclose(w, np.append(svm.coef_[0], svm.intercept_), atol=1e-6)
    np.testing.assert_allclose(f, X @ w[:-1] + w[-1])


@pytest.mark.parametrize("temperature", [10.0, 0.3, 1e-3])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_probabilities_have_the_mean_and_the_form(rng, temperature, share):
    f = rng.normal(size=60, scale=2)
    p = probabilities(f, temperature, share)
    g = 0.5 * (np.maximum(0, 1 - f) ** 2 - np.maximum(0, 1 + f) ** 2)

    def mean_at(nu):
        return np.mean(1 / (1 + np.exp(np.clip((g - nu) / temperature, -700, 700)))) - share

    nu = brentq(mean_at, -1e3, 1e3, xtol=1e-14)
    expected = 1 / (1 + np.exp(np.clip((g - nu) / temperature, -700, 700)))
    assert p.mean() == pytest.approx(share, abs=1e-10)
    np.testing.assert_allclose(p, expected, atol=1e-6)


# Old versions of SciPy report that SLSQP stepped outside the bounds, and clip.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
def test_probabilities_minimise_the_free_energy(rng):
    f = rng.normal(size=6)
    g = 0.5 * (np.maximum(0, 1 - f) ** 2 - np.maximum(0, 1 + f) ** 2)

    def energy(p):
        return p @ g + 0.4 * np.sum(p * np.log(p) + (1 - p) * np.log(1 - p))

    found = minimize(
        energy,
        np.full(6, 0.3),
        bounds=[(1e-9, 1 - 1e-9)] * 6,
        constraints={"type": "eq", "fun": lambda p: p.mean() - 0.3},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(probabilities(f, 0.4, 0.3), found.x, atol=1e-5)


def test_at_one_temperature_the_objective_never_rises(cloud):
    X, signs = cloud
    result = annealed_svm(X, signs, C1=1.0, C2=0.5, share=0.5, tol=1e-8)
    curve, temperatures = result.objective_curve, result.solution[3]
    same = np.diff(temperatures) == 0
    assert same.sum() > 10
    assert (np.diff(curve)[same] <= 1e-9 * np.abs(curve[1:][same])).all()
    assert (np.diff(temperatures) <= 0).all()
    assert temperatures[0] == 10.0


def test_against_all_labels_of_a_tiny_problem(rng):
    y = np.array([-1, 1, *[-1] * 3, *[1] * 3])
    X = rng.normal(size=(8, 2)) + 2 * y[:, None]
    signs = np.where(np.arange(8) < 2, y, 0)
    values = {}
    for positive in combinations(range(2, 8), 3):
        labels = np.where(np.isin(np.arange(8), positive), 1, -1)
        labels[:2] = y[:2]
        cost = np.where(signs == 0, 0.5, 1.0)
        w, f, _ = squared_hinge_svm(
            X, cost * (labels > 0), cost * (labels < 0), np.zeros(3), tol=1e-9
        )
        loss = 0.5 * w @ w + 0.5 * cost @ np.maximum(0, 1 - labels * f) ** 2
        values[positive] = loss
    result = annealed_svm(X, signs, C1=1.0, C2=0.5, share=0.5, tol=1e-9)
    assert result.objective_curve[-1] == pytest.approx(min(values.values()), rel=1e-3)
    assert np.flatnonzero(result.solution[2] > 0.5).tolist() == [3, 4, 5]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_without_unlabelled_rows_it_is_the_ordinary_svm(rng, kind):
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + y[:, None]
    ours = AnnealedSVM(tol=1e-9).fit(kind(X), y)
    # LIBLINEAR does not halve the squared hinge.
    svm = LinearSVC(C=0.5, tol=1e-10, dual=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, svm.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, svm.intercept_, atol=1e-5)
