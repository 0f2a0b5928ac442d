import numpy as np
import pytest
from branch_and_bound import branch_and_bound, brute_force, squared_hinge_machine
from scipy import sparse
from scipy.integrate import quad
from scipy.optimize import approx_fprime, check_grad, minimize
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

from reproduction.rivals import GradientS3VM
from reproduction.rivals.solvers.gradient_s3vm import (
    TEMPERATURES,
    PartlyLabelledRisk,
    gaussian_loss,
    gradient_s3vm,
    kernel_factor,
    label_loss,
    stages,
)

SCHEDULES = ["smoothed", "annealed", "deterministic"]
SOLVERS = ["lbfgs", "newton"]


@pytest.fixture
def cloud(rng):
    y = np.repeat([-1, 1], 20)
    X = rng.normal(size=(40, 3)) + 0.8 * y[:, None]
    signs = np.zeros(40, dtype=int)
    chosen = np.r_[0:4, 20:24]
    signs[chosen] = y[chosen]
    return X, signs


def solved(X, signs, **options):
    given = {"C1": 1.0, "C2": 0.3, "share": 0.5, "schedule": "smoothed", "solver": "lbfgs"}
    return gradient_s3vm(X, signs, **given | {"max_iter": 1000, "tol": 1e-8} | options)


def partly(signs):
    return np.where(signs == 0, -1, signs > 0)


# --- Losses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [
        lambda f: gaussian_loss(f, 0.0),
        lambda f: gaussian_loss(f, 0.7),
        lambda f: label_loss(f, 2.0, 0.5),
        lambda f: label_loss(f, 0.3, 0.2),
    ],
)
def test_gradients_and_hessians_of_losses(loss):
    f = np.array([-1.7, -0.4, 0.1, 0.6, 2.3])
    found = loss(f)
    gradient = approx_fprime(f, lambda z: loss(z).value, 1e-7)
    np.testing.assert_allclose(found.slopes, gradient, atol=1e-5)
    hessian = [(loss(f + 1e-6 * e).slopes - found.slopes) / 1e-6 for e in np.eye(5)]
    expected = np.diag(found.curvatures) + np.outer(found.coupling, found.coupling)
    np.testing.assert_allclose(expected, hessian, atol=1e-4)


@pytest.mark.parametrize("width", [0.3, 2.0])
def test_the_smoothed_loss_is_a_convolution(width):
    def integrand(t, f):
        return 0.5 * np.exp(-3 * (f + width * t) ** 2 - t**2 / 2) / np.sqrt(2 * np.pi)

    for f in (0.0, 0.4, -1.3):
        expected = quad(integrand, -12, 12, args=(f,), points=[-f / width])[0]
        assert gaussian_loss(np.array([f]), width).value == pytest.approx(expected, rel=1e-7)


# Old versions of SciPy report that SLSQP stepped outside the bounds, and clip.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_loss_of_uncertain_labels_is_the_least_over_probabilities(share):
    f = np.array([-1.4, -0.3, 0.0, 0.9, 0.2])
    up, down = 0.5 * np.maximum(0, 1 - f) ** 2, 0.5 * np.maximum(0, 1 + f) ** 2

    def energy(p):
        return p @ up + (1 - p) @ down + 0.4 * np.sum(p * np.log(p) + (1 - p) * np.log(1 - p))

    found = minimize(
        energy,
        np.full(5, share),
        bounds=[(1e-9, 1 - 1e-9)] * 5,
        constraints={"type": "eq", "fun": lambda p: p.mean() - share},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert label_loss(f, 0.4, share).value == pytest.approx(found.fun, abs=1e-8)


# --- The objective -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("labelled_only", [False, True])
def test_gradient_and_hessian(cloud, rng, kind, schedule, labelled_only):
    X, signs = cloud
    if labelled_only:
        X, signs = X[signs != 0], signs[signs != 0]
    cost, loss = stages(schedule, 0.3)[5]
    risk = PartlyLabelledRisk(kind(X), signs, C1=2.0, C2=cost, loss=loss)
    point, step = rng.normal(size=(2, 4))
    if not labelled_only:
        step[-1] = 0.0  # the intercept is the mean score of unlabelled rows
    value, gradient = risk.value(point)
    by_hand = check_grad(
        lambda t: risk.value(point + t * step)[0],
        lambda t: np.atleast_1d(risk.value(point + t * step)[1] @ step),
        np.zeros(1),
    )
    assert by_hand < 1e-5 * abs(value)
    near = (risk.value(point + 1e-6 * step)[1] - gradient) / 1e-6
    np.testing.assert_allclose(risk.hessian(point)(step), near, atol=1e-3)


def test_the_objective_is_that_of_the_formula(cloud, rng):
    X, signs = cloud
    risk = PartlyLabelledRisk(X, signs, C1=2.0, C2=0.5, loss=lambda f: gaussian_loss(f, 0.0))
    w, b = rng.normal(size=3), 0.2
    f = (X - X[signs == 0].mean(axis=0)) @ w + b
    labelled = np.maximum(0, 1 - signs * f)[signs != 0] ** 2
    expected = 0.5 * w @ w + labelled.sum() + 0.25 * np.exp(-3 * f[signs == 0] ** 2).sum()
    assert risk.value(np.append(w, b))[0] == pytest.approx(expected, rel=1e-12)


# --- The solver ----------------------------------------------------------------------------------


def squared_hinge_svm(X, y, C):
    """With a free intercept, by a general solver."""

    def value(point):
        return 0.5 * point[:-1] @ point[:-1] + 0.5 * C * np.sum(
            np.maximum(0, 1 - y * (X @ point[:-1] + point[-1])) ** 2
        )

    return minimize(value, np.zeros(X.shape[1] + 1), method="BFGS", options={"gtol": 1e-7}).x


@pytest.mark.parametrize("solver", SOLVERS)
def test_at_no_cost_of_unlabelled_rows_it_is_the_l2_svm(cloud, solver):
    X, signs = cloud
    known = signs != 0
    svm = squared_hinge_svm(X[known], signs[known], 2.0)
    # With the mean score that the SVM has, the constraint does not bind.
    level = float(X[~known].mean(axis=0) @ svm[:-1] + svm[-1])
    w, b = solved(X, signs, C1=2.0, C2=1e-12, share=(1 + level) / 2, solver=solver).solution
    np.testing.assert_allclose(np.append(w, b), svm, atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_without_unlabelled_rows_it_is_the_l2_svm(cloud, kernel, solver):
    X = cloud[0]
    y = np.repeat([-1, 1], 20)
    model = GradientS3VM(2.0, kernel=kernel, gamma=0.3, solver=solver, tol=1e-8)
    found = model.fit(X, y > 0).decision_function(X)
    features = X if kernel == "linear" else kernel_factor(rbf_kernel(X, gamma=0.3))
    svm = squared_hinge_svm(features, y, 2.0)
    np.testing.assert_allclose(found, features @ svm[:-1] + svm[-1], atol=1e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_unlabelled_rows_score_as_asked_on_average(cloud, schedule):
    X, signs = cloud
    for share in (0.3, 0.5):
        w, b = solved(X, signs, share=share, schedule=schedule).solution
        mean = float(np.mean((X @ w + b)[signs == 0]))
        assert mean == pytest.approx(2 * share - 1, abs=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_both_solvers_end_at_the_same_minimum_of_separate_groups(rng, schedule):
    y = np.repeat([-1, 1], 15)
    X = rng.normal(size=(30, 2)) + 3 * y[:, None]
    signs = np.where(np.isin(np.arange(30), [0, 20]), y, 0)
    first, second = (solved(X, signs, schedule=schedule, solver=s).solution for s in SOLVERS)
    np.testing.assert_allclose(first[0], second[0], atol=1e-5)
    np.testing.assert_allclose(first[1], second[1], atol=1e-5)
    assert (np.sign(X @ first[0] + first[1]) == y).all()


# --- Exact solutions -----------------------------------------------------------------------------


def centred(X, signs):
    """Rows as the solver sees them: the mean of the unlabelled ones is 0."""
    return X - X[signs == 0].mean(axis=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_positive", [None, 3])
def test_branch_and_bound_is_brute_force(seed, n_positive):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(11, 3))
    signs = np.array([1, -1, 1, *[0] * 8])
    machine = squared_hinge_machine(centred(X, signs), np.full(11, 2.0), -0.2)
    value, labels, _ = branch_and_bound(machine, signs, n_positive)
    expected, expected_labels = brute_force(machine, signs, n_positive)
    assert value == pytest.approx(expected, rel=1e-9)
    np.testing.assert_array_equal(labels, expected_labels)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_no_schedule_ends_below_the_exact_optimum(schedule, solver):
    C1, C2 = 5.0, 1.0
    gaps = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(16, 3)) + np.repeat([-0.5, 0.5], 8)[:, None]
        signs = np.where(np.arange(16) % 4 == 0, np.repeat([-1, 1], 8), 0)
        cost = np.where(signs == 0, C2, C1)
        machine = squared_hinge_machine(centred(X, signs), cost, 0.0)
        result = solved(X, signs, C1=C1, C2=C2, schedule=schedule, solver=solver)
        w, b = result.solution
        f = X @ w + b
        if schedule == "deterministic":  # its labels are balanced; entropy lowers the objective
            exact = branch_and_bound(machine, signs, n_positive=6)[0]
            found = result.objective_curve[-1] + C2 * TEMPERATURES[-1] * 12 * np.log(2)
        else:
            exact = branch_and_bound(machine, signs)[0]
            hinge = np.where(signs == 0, 1 - np.abs(f), 1 - signs * f)
            found = 0.5 * w @ w + 0.5 * cost @ np.maximum(0, hinge) ** 2
        gaps.append(found / exact - 1)
    assert min(gaps) >= -1e-6
    if schedule == "deterministic":
        assert min(gaps) < 0.02  # once it finds the optimum


def test_two_moons_have_the_right_exact_optimum():
    """Table 7 of the WellSVM paper: branch and bound has no error, local searches 30 to 69 %."""
    X, y = make_moons(30, random_state=0)
    truth = 2 * y - 1
    signs = np.zeros(30, dtype=int)
    for label in (-1, 1):
        signs[np.flatnonzero(truth == label)[0]] = label
    L = kernel_factor(rbf_kernel(X, gamma=2.0))
    machine = squared_hinge_machine(centred(L, signs), np.full(30, 100.0), 0.0)
    exact, labels, n_solved = branch_and_bound(machine, signs)
    np.testing.assert_array_equal(labels, truth)
    assert n_solved < 2000  # of 2^28
    for schedule in SCHEDULES:
        w, b = solved(L, signs, C1=100.0, C2=100.0, schedule=schedule).solution
        assert machine(np.where(signs == 0, np.sign(L @ w + b), signs))[0] >= exact - 1e-6


# --- The estimator -------------------------------------------------------------------------------


def test_a_kernel_and_its_features_agree(cloud):
    X, signs = cloud
    linear = GradientS3VM(1.0, kernel="linear", tol=1e-7).fit(X, partly(signs))
    kernel = GradientS3VM(1.0, kernel=lambda a, b: a @ b, tol=1e-7).fit(X, partly(signs))
    landmarks = GradientS3VM(1.0, gamma=0.2, n_landmarks=40, tol=1e-7).fit(X, partly(signs))
    exact = GradientS3VM(1.0, gamma=0.2, n_landmarks=None, tol=1e-7).fit(X, partly(signs))
    for one, other in ((linear, kernel), (landmarks, exact)):
        found, expected = one.decision_function(X), other.decision_function(X)
        np.testing.assert_allclose(found, expected, atol=1e-3)
    assert landmarks.coef_.shape == (1, 40)


def test_shares_of_several_classes(rng):
    truth = np.arange(60) % 3
    X = rng.normal(size=(60, 3)) + np.eye(3)[truth]
    y = np.where(np.arange(60) < 9, truth, -1)
    shares = [0.2, 0.3, 0.5]
    model = GradientS3VM(1.0, kernel="linear", positive_share=shares).fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(scores[9:].mean(axis=0), 2 * np.array(shares) - 1, atol=1e-9)
    two = [
        GradientS3VM(positive_share=s).fit(X, np.where(y < 0, -1, y % 2)) for s in (0.4, [0.6, 0.4])
    ]
    np.testing.assert_array_equal(*(m.decision_function(X) for m in two))
