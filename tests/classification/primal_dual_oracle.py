"""pdMISVM as printed: the dense K x n ADMM of Brand (2021), Algorithm 1, misprints corrected."""

from itertools import pairwise

import numpy as np


def segment(function, values, offsets):
    return np.array([function(values[a:b], axis=0) for a, b in pairwise(offsets)])


def objective(W, b, X, offsets, codes, C, weights):
    """J of the spec: Weston-Watkins hinge on bag scores, own class left out."""
    best = segment(np.max, X @ W.T + b, offsets)
    margin = 1 + best - best[np.arange(len(codes)), codes][:, None]
    margin[np.arange(len(codes)), codes] = 0
    return 0.5 * (W**2).sum() + C * (weights[:, None] * np.maximum(margin, 0)).sum()


class DenseADMM:
    """All variables of Eq. 8 in full; `step` makes one iteration of Algorithm 1."""

    def __init__(
        self,
        X,
        offsets,
        codes,
        K,
        W,
        *,
        C,
        mu,
        rho,
        inexact=False,
        mask=True,
        weights=None,
    ):
        self.X, self.offsets, self.codes, self.K = X, np.asarray(offsets), np.asarray(codes), K
        self.C, self.mu, self.rho, self.inexact = C, mu, rho, inexact
        N = len(codes)
        self.v = np.ones(N) if weights is None else np.asarray(weights, float)
        self.bag = np.repeat(np.arange(N), np.diff(offsets))
        self.own = self.codes[:, None] == np.arange(K)
        self.Y = np.where(self.own, 1.0, -1.0)
        self.cost = np.where(self.own & mask, 0.0, C)
        self.W, self.b = W.copy(), np.zeros(K)
        self.T, self.U = self.scores(), self.own_scores()
        self.Q, self.R = self.max(self.T), self.max(self.U)
        self.E = self.Y - self.Q + self.R
        self.Lam, self.Sig, self.Om = (np.zeros((N, K)) for _ in range(3))
        self.Theta, self.Xi = np.zeros_like(self.T), np.zeros_like(self.T)

    def scores(self):
        return self.X @ self.W.T + self.b  # (n, K)

    def own_scores(self):
        own = self.scores()[np.arange(len(self.X)), self.codes[self.bag]]
        return np.repeat(own[:, None], self.K, axis=1)

    def max(self, values):
        return segment(np.max, values, self.offsets)

    def targets(self, m):
        """Rows, targets (T + Theta/mu, then all copies of U) and weights of the fit of w_m."""
        rows = [self.X]
        target = [self.T[:, m] + self.Theta[:, m] / self.mu]
        weight = [self.v[self.bag]]
        mine = self.codes[self.bag] == m
        for k in range(self.K):
            rows.append(self.X[mine])
            target.append(self.U[mine, k] + self.Xi[mine, k] / self.mu)
            weight.append(self.v[self.bag][mine])
        return np.concatenate(rows), np.concatenate(target), np.concatenate(weight)

    def update_W(self):
        new = np.empty_like(self.W)
        for m in range(self.K):
            rows, target, weight = self.targets(m)
            A = rows.T @ (weight[:, None] * rows)
            if not self.inexact:  # Eq. 10
                right = rows.T @ (weight * (target - self.b[m]))
                new[m] = np.linalg.solve(np.eye(len(A)) / self.mu + A, right)
            else:  # Eq. 21, 23, 25
                left = target - rows @ self.W[m] - self.b[m]
                g = self.W[m] - self.mu * rows.T @ (weight * left)
                new[m] = self.W[m] - (g @ g) / (g @ g + self.mu * g @ A @ g) * g
        self.W = new

    def update_b(self):
        for m in range(self.K):  # Eq. 11, counting instances
            rows, target, weight = self.targets(m)
            self.b[m] = (weight * (target - rows @ self.W[m])).sum() / weight.sum()

    def update_E(self):  # Eq. 12, 13
        n = self.Y - self.Q + self.R - self.Lam / self.mu
        yn = self.Y * n
        shrink = self.cost / self.mu
        self.E = np.where(yn > shrink, n - shrink * self.Y, np.where(yn >= 0, 0.0, n))
        self.E = np.where(self.cost == 0, n, self.E)

    def update_Q(self):  # Eq. 15
        self.Q = (
            self.Y - self.E + self.R - self.Lam / self.mu + self.max(self.T) - self.Sig / self.mu
        ) / 2

    def update_R(self):  # Eq. 16
        self.R = (
            self.E - self.Y + self.Q + self.Lam / self.mu + self.max(self.U) - self.Om / self.mu
        ) / 2

    def copy_of_scores(self, scores, dual, target, multiplier):
        """Eq. 19, 20: the largest entry moves towards its target, the others follow the scores."""
        phi = scores - dual / self.mu
        new = phi.copy()
        for i in range(len(self.codes)):
            a, b = self.offsets[i], self.offsets[i + 1]
            for m in range(self.K):
                j = a + phi[a:b, m].argmax()
                new[j, m] = (phi[j, m] + target[i, m] + multiplier[i, m] / self.mu) / 2
        return new

    def gaps(self):
        """What each constraint of Eq. 7 is off by."""
        e = self.E - (self.Y - self.Q + self.R)
        q = self.Q - self.max(self.T)
        t = self.T - self.scores()
        return e, q, t, self.R - self.max(self.U), self.U - self.own_scores()

    def step(self):
        self.update_W()
        self.update_b()
        self.update_E()
        self.update_Q()
        self.update_R()
        self.T = self.copy_of_scores(self.scores(), self.Theta, self.Q, self.Sig)
        self.U = self.copy_of_scores(self.own_scores(), self.Xi, self.R, self.Om)
        gaps = self.gaps()
        self.Lam += self.mu * gaps[0]
        for dual, gap in zip((self.Sig, self.Theta, self.Om, self.Xi), gaps[1:], strict=True):
            dual += self.mu * gap
        self.mu *= self.rho
        e, q, t, r, u = gaps
        v, w = self.v[:, None], self.v[self.bag][:, None]
        squared = (v * (e**2 + q**2 + r**2)).sum() + (w * (t**2 + u**2)).sum()
        return np.sqrt(squared / (v * (1 + self.Q**2)).sum())

    def run(self, n_iter):
        residuals, curve = [], []
        for _ in range(n_iter):
            residuals.append(self.step())
            curve.append(
                objective(self.W, self.b, self.X, self.offsets, self.codes, self.C, self.v)
            )
        return np.array(residuals), np.array(curve)

    def lagrangian(self):
        """Eq. 8, for checking that a block update minimises over its block."""
        e, q, t, r, u = self.gaps()
        w, v = self.v[self.bag][:, None], self.v[:, None]
        mu = self.mu
        total = 0.5 * (self.W**2).sum() + (v * self.cost * np.maximum(self.Y * self.E, 0)).sum()
        total += mu / 2 * (v * (e + self.Lam / mu) ** 2).sum()
        total += mu / 2 * (v * (q + self.Sig / mu) ** 2).sum()
        total += mu / 2 * (w * (t + self.Theta / mu) ** 2).sum()
        total += mu / 2 * (v * (r + self.Om / mu) ** 2).sum()
        return total + mu / 2 * (w * (u + self.Xi / mu) ** 2).sum()
