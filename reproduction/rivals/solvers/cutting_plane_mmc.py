r"""CPMMC (Zhao 2008): max-margin clustering with one slack, by cutting planes.

.. math:: \min_{w, b} \tfrac12 |w|^2 + C \sum_i (1 - |f_i|)_+ \quad\text{s.t.}\quad
    |\tfrac1n \sum_i f_i| \le l, \qquad f_i = w \cdot \phi_i + b

-|f| is concave: with the signs z of f held fixed (the concave-convex procedure) the rest is an SVM
with a bound on its mean score, whose n slacks are replaced by one,

    w . (1/n sum_i c_i z_i phi_i) + b (1/n sum_i c_i z_i) >= 1/n sum_i c_i - xi

for all c in {0, 1}^n. The most violated of these constraints (c_i = 1 if z_i f_i < 1) is added
until none is violated by more than `tol`: a few dozen, whatever n is. On centred rows the mean
score is the intercept, so the bound is |b| <= l.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bagwise._common.types import Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.result import SolverResult
from reproduction.rivals.solvers.small_qp import solve_small_qp

MAX_CUTS = 300


def cutting_plane_mmc(
    space: FeatureSpace, labels: Ints, *, C: float, balance: float, tol: float, steps: Iterable[int]
) -> SolverResult:
    """Cluster by the concave-convex procedure around cutting planes.

    Parameters
    ----------
    space : FeatureSpace
        The rows.
    labels : ndarray of shape (n_rows,)
        Initial labels, 1 and -1.
    C : float
        Cost of a row inside the margin.
    balance : float
        l: bound on the absolute mean score.
    tol : float
        Tolerated violation of a cut, in units of the mean slack, and relative decrease of the
        objective at which to stop.
    steps : iterable
        One item per allowed round.

    Returns
    -------
    SolverResult
        ``solution`` is (coef of rows, intercept); the curve is the objective after each round.
    """
    n = len(labels)
    curve: list[float] = []
    settled, converged = False, True
    for _ in steps:
        machine = signed_svm(space, labels, C=C, balance=balance, tol=tol)
        loss = C * float(np.maximum(0.0, 1 - np.abs(machine.scores)).sum())
        objective = 0.5 * machine.squared_norm + loss
        converged &= machine.converged
        new = np.where(machine.scores > 0, 1, -1)
        settled = np.array_equal(new, labels)
        if curve:
            settled |= objective > curve[-1] - tol * max(abs(curve[-1]), C * n * tol)
        if not curve or objective < min(curve):
            solution = machine.coef, np.array(machine.intercept)
        curve.append(objective)
        labels = new
        if settled or not machine.converged:
            break
    return SolverResult(solution, curve, settled and converged)


@dataclass(frozen=True)
class SignedMachine:
    """An SVM for given signs.

    Attributes
    ----------
    coef : ndarray of shape (n_rows,)
        w as coefficients of the rows.
    intercept : float
        b, for rows that are not centred.
    scores : ndarray of shape (n_rows,)
        f.
    squared_norm : float
        |w|^2.
    converged : bool
        False if there were too many cuts, or if a cut was repeated.
    """

    coef: Floats
    intercept: float
    scores: Floats
    squared_norm: float
    converged: bool


def signed_svm(
    space: FeatureSpace, signs: Ints, *, C: float, balance: float, tol: float
) -> SignedMachine:
    """Minimise 1/2 |w|^2 + C sum_i (1 - z_i f_i)_+ with |mean f| <= l, by cutting planes.

    Parameters
    ----------
    space : FeatureSpace
        The rows.
    signs : ndarray of shape (n_rows,)
        z: 1 and -1.
    C : float
        Cost of a slack.
    balance : float
        l.
    tol : float
        How much the mean slack may exceed that of the cuts.

    Returns
    -------
    SignedMachine
    """
    cuts = _Cuts(C * len(signs), balance)
    scores = np.zeros(len(signs))
    converged = False
    seen: set[bytes] = set()
    while not converged and len(cuts.sides) < MAX_CUTS:
        chosen = np.where(signs * scores < 1, signs, 0)
        if chosen.tobytes() in seen:  # repeated, as the QP was not solved exactly
            break
        seen.add(chosen.tobytes())
        cuts.add(space, chosen)
        plain, intercept, slack = cuts.solve()
        scores = plain + intercept
        converged = float(np.maximum(0.0, 1 - signs * scores).mean()) <= slack + tol
    coef = cuts.combined(cuts.coefs)
    uncentred = space.scores(coef)
    shift = float((scores - uncentred).mean())
    norm = float(coef @ plain)
    return SignedMachine(coef, shift, scores, norm, converged)


@dataclass
class _Cuts:
    """The cutting planes so far, and their quadratic program."""

    cost: float
    balance: float
    coefs: list[Floats] = field(default_factory=list)
    scores: list[Floats] = field(default_factory=list)
    sides: list[float] = field(default_factory=list)  # 1/n sum c z
    wanted: list[float] = field(default_factory=list)  # 1/n sum c
    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    weights: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, space: FeatureSpace, chosen: Ints) -> None:
        """Add the cut for c z = `chosen`."""
        n = len(chosen)
        coef = (chosen - chosen.mean()) / n
        scores = space.scores(coef)
        scores = scores - scores.mean()
        self.coefs.append(coef)
        self.scores.append(scores)
        self.sides.append(float(chosen.mean()))
        self.wanted.append(float(np.abs(chosen).mean()))
        products = np.array([other @ scores for other in self.coefs])
        size = len(products)
        gram = np.empty((size, size))
        gram[:-1, :-1], gram[-1], gram[:, -1] = self.gram, products, products
        self.gram = gram

    def solve(self) -> tuple[Floats, float, float]:
        """Scores without intercept, intercept and slack of the current problem.

        The dual over the multipliers of the cuts, of xi >= 0 and of the two bounds on b is
        min 1/2 a'Ga - c'a + l (p + m),  sum a + a_0 = cost,  side'a + m - p = 0.
        """
        t = len(self.sides)
        H = np.zeros((t + 3, t + 3))
        H[:t, :t] = self.gram
        q = np.concatenate([-np.array(self.wanted), [0.0, self.balance, self.balance]])
        A = np.zeros((2, t + 3))
        A[0, : t + 1] = 1.0
        A[1, :t] = self.sides
        A[1, t + 1 :] = -1.0, 1.0
        x, y = solve_small_qp(H, q, A, np.array([self.cost, 0.0]))
        self.weights = np.where(x[:t] > 1e-12 * self.cost, x[:t], 0.0)
        return self.combined(self.scores), -float(y[1]), max(0.0, -float(y[0]))

    def combined(self, parts: list[Floats]) -> Floats:
        """Sum the arrays of the cuts, weighted by their multipliers; most are zero."""
        used = np.flatnonzero(self.weights)
        return sum((self.weights[k] * parts[k] for k in used), np.zeros(len(parts[0])))
