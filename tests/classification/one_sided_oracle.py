"""Reference one-sided primal-dual MI-SVM: dense arrays, a loop over bags, plain searches."""

from itertools import combinations, pairwise

import numpy as np


def copy_cost(t, phi, wanted):
    return ((t - phi) ** 2).sum() + (wanted - t.max()) ** 2


def copy_by_subsets(phi, wanted):
    """The lowest cost of all t: some instances share a level, the others stay at phi."""
    best = np.inf
    for size in range(1, len(phi) + 1):
        for chosen in map(list, combinations(range(len(phi)), size)):
            t = phi.copy()
            t[chosen] = (phi[chosen].sum() + wanted) / (size + 1)
            best = min(best, copy_cost(t, phi, wanted))
    return best


def copy_by_scan(phi, wanted):
    """The t of lowest cost, where the instances at the level are the largest ones."""
    order = np.argsort(-phi, kind="stable")
    copies = []
    for size in range(1, len(phi) + 1):
        t = phi.copy()
        t[order[:size]] = (phi[order[:size]].sum() + wanted) / (size + 1)
        copies.append(t)
    return min(copies, key=lambda t: copy_cost(t, phi, wanted))


def hinge_prox(value, sign, threshold):
    """The best of the three points where the derivative may vanish."""
    points = [value, value + sign * threshold, sign]
    return min(points, key=lambda q: threshold * max(0, 1 - sign * q) + (q - value) ** 2 / 2)


def objective(W, b, X, offsets, signs, C, weights):
    """J: each column is MI-SVM's problem."""
    scores = X @ W.T + b
    best = np.array([scores[i:j].max(axis=0) for i, j in pairwise(offsets)])
    return 0.5 * (W**2).sum() + C * (weights[:, None] * np.maximum(0, 1 - signs * best)).sum()


class DenseOneSided:
    """All variables in full; `step` makes one iteration."""

    def __init__(self, X, offsets, signs, W, *, C, mu, rho, inexact=False, weights=None):
        self.X, self.offsets, self.signs = X, np.asarray(offsets), signs
        self.C, self.mu, self.rho, self.inexact = C, mu, rho, inexact
        self.v = np.ones(len(signs)) if weights is None else weights
        self.row_weights = np.repeat(self.v, np.diff(offsets))[:, None]
        self.W, self.b = W.copy(), np.zeros(len(W))
        self.t = self.scores()
        self.theta = np.zeros_like(self.t)
        self.q = self.max_t()
        self.sigma = np.zeros_like(self.q)

    def scores(self):
        return self.X @ self.W.T + self.b

    def max_t(self):
        return np.array([self.t[i:j].max(axis=0) for i, j in pairwise(self.offsets)])

    def update_W(self):
        X, mu, target = self.X, self.mu, self.t + self.theta / self.mu
        gram = X.T @ (self.row_weights * X)
        if not self.inexact:
            right = X.T @ (self.row_weights * (target - self.b))
            self.W = np.linalg.solve(np.eye(len(gram)) / mu + gram, right).T
            return
        for m, w in enumerate(self.W):
            left = target[:, m] - X @ w - self.b[m]
            g = w - mu * X.T @ (self.row_weights[:, 0] * left)
            self.W[m] = w - (g @ g) / (g @ g + mu * g @ gram @ g) * g

    def update_b(self):
        left = self.t + self.theta / self.mu - self.X @ self.W.T
        self.b = (self.row_weights * left).sum(axis=0) / self.row_weights.sum()

    def update_q(self):
        at = self.max_t() - self.sigma / self.mu
        for i, m in np.ndindex(at.shape):
            self.q[i, m] = hinge_prox(at[i, m], self.signs[i, m], self.C / self.mu)

    def update_t(self):
        phi = self.scores() - self.theta / self.mu
        for bag, (i, j) in enumerate(pairwise(self.offsets)):
            for m in range(len(self.W)):
                wanted = self.q[bag, m] + self.sigma[bag, m] / self.mu
                self.t[i:j, m] = copy_by_scan(phi[i:j, m], wanted)

    def step(self):
        self.update_W()
        self.update_b()
        self.update_q()
        self.update_t()
        of_q, of_t = self.q - self.max_t(), self.t - self.scores()
        self.sigma += self.mu * of_q
        self.theta += self.mu * of_t
        self.mu *= self.rho
        squared = (self.v @ of_q**2).sum() + (self.row_weights * of_t**2).sum()
        return np.sqrt(squared / (self.v @ (1 + self.q**2)).sum())

    def lagrangian(self):
        """The augmented Lagrangian, which each update minimises over its block."""
        q, t, mu = self.q - self.max_t(), self.t - self.scores(), self.mu
        total = 0.5 * (self.W**2).sum()
        total += self.C * (self.v @ np.maximum(0, 1 - self.signs * self.q)).sum()
        total += mu / 2 * (self.v @ (q + self.sigma / mu) ** 2).sum()
        return total + mu / 2 * (self.row_weights * (t + self.theta / mu) ** 2).sum()
