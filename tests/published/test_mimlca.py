"""MIMLCA as printed: Algorithm 1 of Law et al. (2017), transcribed from the paper."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.pairwise import rbf_kernel

from bagwise.published import mimlca


def drawn(seed=0, n_bags=40, n_labels=5):
    """Bags of one to four instances with one to three candidate labels."""
    rng = np.random.RandomState(seed)
    sizes = rng.randint(1, 5, size=n_bags)
    Y = np.zeros((n_bags, n_labels), int)
    for row in Y:
        row[rng.choice(n_labels, rng.randint(1, 4), replace=False)] = 1
    return [rng.standard_normal((n, 6)) + 1 for n in sizes], Y


def assign(costs, candidates, k):
    """H_i in V_i of the smallest cost (Eq. 13), as rows of zeros and ones."""
    H = np.zeros((len(costs), k))
    rows, columns = linear_sum_assignment(costs)
    H[rows, candidates[columns]] = 1
    return H


def algorithm_1(bags, Y, seed, *, basis=None, sign=1):
    """H and M = L L' of the last iteration, and the objective of each."""
    X, k = np.concatenate(bags), Y.shape[1]
    U = np.linalg.svd(X, full_matrices=False)[0] if basis is None else basis  # step 1
    blocks = np.split(U, np.cumsum([len(bag) for bag in bags])[:-1])
    candidates = [np.flatnonzero(row) for row in Y]
    draw = np.random.RandomState(seed).uniform  # step 2
    pairs = zip(blocks, candidates, strict=True)
    H = np.concatenate([assign(draw(size=(len(u), len(c))), c, k) for u, c in pairs])
    curve = []
    for _ in range(100):
        Z = H.T @ U / np.maximum(1, H.sum(axis=0))[:, None]  # steps 4 and 5
        new = []
        for u, c in zip(blocks, candidates, strict=True):
            costs = ((u[:, None] - sign * Z[c]) ** 2).sum(axis=2)
            new.append(assign(costs, c, k))
        before, H = H, np.concatenate(new)  # steps 6 and 7
        curve.append(np.sum((np.diag(H.sum(axis=1)) @ U - H @ Z) ** 2))
        if (before == H).all() and len(curve) > 1:
            break
    kept = H.any(axis=1)  # steps 9 to 11
    inverse = np.linalg.pinv(X[kept])
    return H, inverse @ H[kept] @ np.linalg.pinv(H[kept]) @ inverse.T, curve


def labels_of(H):
    return np.where(H.any(axis=1), H.argmax(axis=1), -1)


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_the_assignments_and_the_metric_are_those_of_the_paper():
    for seed in range(6):
        bags, Y = drawn(seed)
        H, M, curve = algorithm_1(bags, Y, seed)
        for n_steps in (1, 2, 100):
            model = mimlca(max_iter=n_steps, random_state=seed)
            model.fit(bags, Y)
            np.testing.assert_allclose(model.objective_curve_, curve[:n_steps], atol=1e-10)
        assert (model.assignments_ == labels_of(H)).all()
        np.testing.assert_allclose(model.components_.T @ model.components_, M, atol=1e-10)


def test_a_label_without_rows_is_at_zero():
    """Two labels and one row for them: the loser's centre is row c of H^+ U, which is 0."""
    bags = [np.array([[1.0, 0.2]]), np.array([[0.9, 0.1]]), np.array([[-1.0, 2.0], [0.8, -3.0]])]
    Y = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]])
    for seed in range(8):
        H, _, curve = algorithm_1(bags, Y, seed)
        model = mimlca(random_state=seed).fit(bags, Y)
        assert (model.assignments_ == labels_of(H)).all()
        np.testing.assert_allclose(model.objective_curve_, curve, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*cost the same")
def test_kernels_have_all_components():
    bags, Y = drawn(3)
    X = np.concatenate(bags)
    K = rbf_kernel(X, gamma=0.1)
    U = np.linalg.eigh(K)[1]
    H, _, _ = algorithm_1(bags, Y, 1, basis=U)
    model = mimlca("rbf", gamma=0.1, random_state=1).fit(bags, Y)
    assert (model.assignments_ == labels_of(H)).all()
    kept = H.any(axis=1)
    J = H[kept] / np.sqrt(np.maximum(1, H.sum(axis=0)))
    L = np.linalg.pinv(K[kept][:, kept]) @ J  # K^+ J of the assigned rows
    new = np.random.RandomState(0).standard_normal((7, 6))
    mapped = model.transform([new]).instances
    np.testing.assert_allclose(mapped, rbf_kernel(new, X[kept], gamma=0.1) @ L, atol=1e-7)


def test_predictions_are_those_of_the_paper():
    bags, Y = drawn(4)
    model = mimlca(random_state=0).fit(bags, Y)
    H = (model.assignments_[:, None] == np.arange(5)).astype(float)
    X, kept = np.concatenate(bags), H.any(axis=1)
    J = H[kept] / np.sqrt(H.sum(axis=0))
    L = np.linalg.pinv(X[kept]) @ J
    Z = H.T @ X / H.sum(axis=0)[:, None]
    distances = ((X @ L)[:, None] - Z @ L) ** 2
    assert (model.predict_instances(bags) == distances.sum(axis=2).argmin(axis=1)).all()  # Eq. 15
    largest = (X @ L - 0.3 * ((Z @ L) ** 2).sum(axis=1)).argmax(axis=1)  # Eq. 16
    found = model.predict_instances(bags, rule="projection", alpha=0.3)
    assert (found == largest).all()


def test_a_changed_sign_is_noticed():
    bags, Y = drawn()
    H, _, _ = algorithm_1(bags, Y, 0, sign=-1)
    assert (mimlca(random_state=0).fit(bags, Y).assignments_ != labels_of(H)).any()
