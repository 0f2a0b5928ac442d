"""SetKernelRegressor: against plain linear algebra and scikit-learn; invariants."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.svm import SVR

from bagwise import Bags
from bagwise.pairwise import bag_kernel, kernel_width
from bagwise.regression import SetKernelRegressor
from cases import each


def example(n_bags=30, seed=0, noise=0.1):
    """Bags whose number is the mean of the first feature plus the largest of the second."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(1, 6), 3)) + rng.normal(size=3) for _ in range(n_bags)]
    y = np.array([X[:, 0].mean() + X[:, 1].max() for X in arrays])
    return Bags.from_arrays(arrays), 5 + 2 * y + noise * rng.normal(size=n_bags)


def nsk(bags, others=None):
    """The exact kernel at the width of the training bags."""
    gamma = kernel_width("scale", bags)
    return bag_kernel(others if others is not None else bags, bags, kernel="rbf", gamma=gamma)


@each("C", [0.1, 10.0, 1e4])
def test_the_squared_loss_solves_the_bordered_system(C):
    """The stationary point of |f|^2 + C sum (z - f - b)^2 in the weights and the intercept."""
    bags, y = example()
    test, _ = example(seed=1)
    model = SetKernelRegressor(C=C).fit(bags, y)
    K, n = nsk(bags), len(bags)
    z = (y - y.mean()) / y.std()
    system = np.block([[K + np.eye(n) / C, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    found = np.linalg.solve(system, np.append(z, 0.0))
    expected = y.mean() + y.std() * (nsk(bags, test) @ found[:n] + found[n])
    np.testing.assert_allclose(model.predict(test), expected, rtol=1e-7)


def test_the_insensitive_loss_is_svr_on_the_kernel():
    bags, y = example()
    test, _ = example(seed=1)
    model = SetKernelRegressor(C=3.0, loss="epsilon_insensitive", epsilon=0.2).fit(bags, y)
    z = (y - y.mean()) / y.std()
    machine = SVR(C=3.0, epsilon=0.2, kernel="precomputed", tol=1e-8).fit(nsk(bags), z)
    expected = y.mean() + y.std() * machine.predict(nsk(bags, test))
    np.testing.assert_allclose(model.predict(test), expected, atol=1e-4)
    assert len(model.support_bags_) == len(machine.support_)


def test_singletons_with_a_linear_kernel_are_ridge_regression(rng):
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    model = SetKernelRegressor(C=2.0, kernel="linear", normalization=None).fit(X, y)
    plain = Ridge(alpha=0.5).fit(X, y)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-8)


@each("loss", ["squared", "epsilon_insensitive"])
@each("bag_kernel", ["nsk", "minimax"])
def test_units_of_the_target_do_not_matter(loss, bag_kernel):
    bags, y = example()
    model = SetKernelRegressor(loss=loss, bag_kernel=bag_kernel)
    plain = model.fit(bags, y).predict(bags)
    np.testing.assert_allclose(
        model.fit(bags, 1e-6 * y - 4).predict(bags), 1e-6 * plain - 4, rtol=1e-5, atol=1e-10
    )


@each("n_landmarks", [None, 20])
@each("normalization", ["feature", "average", None])
def test_the_mean_of_the_instance_scores_is_the_prediction(n_landmarks, normalization):
    bags, y = example()
    model = SetKernelRegressor(n_landmarks=n_landmarks, normalization=normalization).fit(bags, y)
    scores = model.score_instances(bags)
    np.testing.assert_allclose([s.mean() for s in bags.split(scores)], model.predict(bags))
    keys = model.key_instances(bags)
    assert [s.argmax() for s in bags.split(scores)] == keys.tolist()


def test_minimax_has_no_instance_scores():
    model = SetKernelRegressor(bag_kernel="minimax")
    assert not hasattr(model, "score_instances")
    assert not hasattr(model, "key_instances")


@each("loss", ["squared", "epsilon_insensitive"])
def test_as_many_landmarks_as_instances_are_the_exact_kernel(loss):
    bags, y = example(12)
    exact = SetKernelRegressor(loss=loss, n_landmarks=None).fit(bags, y)
    near = SetKernelRegressor(loss=loss, n_landmarks=bags.n_instances).fit(bags, y)
    np.testing.assert_allclose(near.predict(bags), exact.predict(bags), atol=1e-3)
    assert not hasattr(near, "support_bags_")


def test_constant_targets_and_one_bag_are_predicted():
    bags, _ = example(5)
    for loss in ("squared", "epsilon_insensitive"):
        model = SetKernelRegressor(loss=loss).fit(bags, np.full(5, 7.0))
        np.testing.assert_allclose(model.predict(bags), 7.0)
    assert SetKernelRegressor().fit(bags[:1], [3.0]).predict(bags[:1]) == pytest.approx([3.0])


def test_a_huge_cost_stays_finite():
    bags, y = example(10)
    twice = bags[np.repeat(np.arange(10), 2)]  # equal bags: the kernel is singular
    model = SetKernelRegressor(C=1e30).fit(twice, np.repeat(y, 2))
    np.testing.assert_allclose(model.predict(bags), y, rtol=1e-4)
