"""pdMISVM as printed: Algorithm 1 of Brand et al. (2021), transcribed from the paper."""

import numpy as np
import pytest
from sklearn.utils import check_random_state

from bagwise.published import pdmisvm

pytestmark = pytest.mark.filterwarnings("ignore:.*did not converge")


def drawn(n_classes, seed=0):
    """Bags of two to five instances; one feature is constant."""
    rng = np.random.RandomState(seed)
    y = np.arange(18) % n_classes
    bags = [rng.standard_normal((rng.randint(2, 6), 4)) for _ in y]
    for bag, c in zip(bags, y, strict=True):
        bag[0, c] += 3
        bag[:, 3] = 1.0
    return bags, y


def algorithm_1(bags, y, K, n_steps, *, C, mu, rho, exact, seed, sign=1):
    """Dense ADMM: T and U are (bag, class) lists of one number per instance."""
    N, d = len(bags), bags[0].shape[1]
    W = 1e-3 * check_random_state(seed).standard_normal((K, d))
    b = np.zeros(K)
    Y = np.where(y[:, None] == np.arange(K), 1.0, -1.0)
    pairs = [(i, m) for i in range(N) for m in range(K)]
    T = {(i, m): bags[i] @ W[m] + b[m] for i, m in pairs}
    U = {(i, m): bags[i] @ W[y[i]] + b[y[i]] for i, m in pairs}
    Q = np.array([[T[i, m].max() for m in range(K)] for i in range(N)])
    R = np.array([[U[i, m].max() for m in range(K)] for i in range(N)])
    theta, xi = ({pair: 0.0 * copy for pair, copy in copies.items()} for copies in (T, U))
    lam, sigma, omega = np.zeros((3, N, K))
    E = Y - Q + R
    for _ in range(n_steps):
        for m in range(K):
            own = [i for i in range(N) if y[i] == m]
            G = sum(x.T @ x for x in bags) + K * sum(bags[i].T @ bags[i] for i in own)
            if exact:  # Eq. 10
                right = sum((T[i, m] - b[m] + theta[i, m] / mu) @ bags[i] for i in range(N))
                for i in own:
                    for k in range(K):
                        right = right + (U[i, k] - b[m] + xi[i, k] / mu) @ bags[i]
                W[m] = np.linalg.solve(np.eye(d) / mu + G, right)
            else:  # Eqs. 21, 23 and 25
                gradient = W[m].copy()
                for i in range(N):
                    gap = T[i, m] - bags[i] @ W[m] - b[m] + theta[i, m] / mu
                    gradient -= mu * gap @ bags[i]
                for i in own:
                    for k in range(K):
                        gap = U[i, k] - bags[i] @ W[m] - b[m] + xi[i, k] / mu
                        gradient -= mu * gap @ bags[i]
                length = gradient @ gradient / (gradient @ (np.eye(d) + mu * G) @ gradient)
                W[m] = W[m] - length * gradient
            total, count = 0.0, 0  # Eq. 11; the divisor counts instances
            for i in range(N):
                total += (T[i, m] - bags[i] @ W[m] + theta[i, m] / mu).sum()
                count += len(bags[i])
            for i in own:
                for k in range(K):
                    total += (U[i, k] - bags[i] @ W[m] + xi[i, k] / mu).sum()
                    count += len(bags[i])
            b[m] = total / count
        for i, m in pairs:
            n = Y[i, m] - Q[i, m] + R[i, m] - lam[i, m] / mu  # Eq. 13
            if Y[i, m] * n > C / mu:
                E[i, m] = n - C / mu * Y[i, m]
            else:
                E[i, m] = 0.0 if Y[i, m] * n >= 0 else n
            rest = Y[i, m] - E[i, m] - lam[i, m] / mu
            Q[i, m] = (rest + R[i, m] + T[i, m].max() - sigma[i, m] / mu) / 2  # Eq. 15
            R[i, m] = (Q[i, m] - rest + U[i, m].max() - omega[i, m] / mu) / 2  # Eq. 16
            s, own = bags[i] @ W[m] + b[m], bags[i] @ W[y[i]] + b[y[i]]
            T[i, m] = s - sign * theta[i, m] / mu  # Eq. 19
            j = T[i, m].argmax()
            T[i, m][j] = (T[i, m][j] + Q[i, m] + sigma[i, m] / mu) / 2
            U[i, m] = own - xi[i, m] / mu  # Eq. 20
            j = U[i, m].argmax()
            U[i, m][j] = (U[i, m][j] + R[i, m] + omega[i, m] / mu) / 2
            lam[i, m] += mu * (E[i, m] - (Y[i, m] - Q[i, m] + R[i, m]))  # lines 16 and 17
            sigma[i, m] += mu * (Q[i, m] - T[i, m].max())
            omega[i, m] += mu * (R[i, m] - U[i, m].max())
            theta[i, m] = theta[i, m] + mu * (T[i, m] - s)
            xi[i, m] = xi[i, m] + mu * (U[i, m] - own)
        mu = rho * mu
    return W, b


def both(n_classes, solver, n_steps, *, C=0.1, mu=1e-2, **transcribed):
    """The transcription and the call after some iterations."""
    bags, y = drawn(n_classes)
    schedule = {"C": C, "mu": mu, "rho": 1.2}
    options = {"exact": solver == "exact", "seed": 3, **schedule, **transcribed}
    model = pdmisvm(**schedule, solver=solver, max_iter=n_steps, tol=0.0, random_state=3)
    return algorithm_1(bags, y, n_classes, n_steps, **options), model.fit(bags, y)


@pytest.mark.parametrize("solver", ["exact", "inexact"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_iterates_are_those_of_the_paper(solver, n_classes):
    for n_steps in (1, 2, 10, 40):
        (W, b), model = both(n_classes, solver, n_steps)
        np.testing.assert_allclose(model.coef_, W, atol=1e-10)
        np.testing.assert_allclose(model.intercept_, b, atol=1e-10)
        assert model.n_iter_ == n_steps
        assert model.coef_.shape == W.shape


def test_mu_has_no_limit():
    (W, b), model = both(2, "exact", 250, C=10.0)
    np.testing.assert_allclose(model.coef_, W, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, b, atol=1e-8)


def test_a_changed_sign_is_noticed():
    (W, _), model = both(3, "exact", 10, sign=-1)
    assert np.abs(model.coef_ - W).max() > 1e-3


def test_the_largest_score_of_the_best_instance_is_predicted():
    bags, y = drawn(3)
    model = pdmisvm(0.1, random_state=0).fit(bags, y)
    scores = [(bag @ model.coef_.T + model.intercept_).max(axis=0) for bag in bags]  # Eq. 4
    assert (model.predict(bags) == np.argmax(scores, axis=1)).all()
