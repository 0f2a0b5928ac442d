"""The steps of group coordinate descent against a literal dual objective."""

import numpy as np
import pytest

from bagwise.compiled import group_descent


@pytest.fixture
def problem(rng):
    """Two bags of three classes; each group has two members and none."""
    X = rng.normal(size=(7, 5))
    codes, witness = np.array([0, 2]), np.array([1, 5])
    members = np.full((2, 3, 2), -1)
    members[0, 1:] = [[0, 2], [1, 2]]
    members[1, :2] = [[3, 4], [4, 6]]
    mass = rng.dirichlet(np.ones(3), size=(2, 3))
    return X, codes, witness, members, mass


def primal(X, codes, witness, members, mass, scale):
    """W and b that belong to dual variables; b is scaled by the constant feature."""
    W, b = np.zeros((3, X.shape[1])), np.zeros(3)
    for i, y in enumerate(codes):
        for m in set(range(3)) - {y}:
            for e, j in enumerate(members[i, m]):
                W[y] += mass[i, m, e] * X[witness[i]]
                W[m] -= mass[i, m, e] * X[j]
                b[y] += mass[i, m, e] * scale
                b[m] -= mass[i, m, e] * scale
    return W, b


def dual(X, codes, witness, members, mass, scale):
    """The mass on members, less half of the squared norm of (W, b / root of scale)."""
    W, b = primal(X, codes, witness, members, mass, scale)
    own = np.eye(3, dtype=bool)[codes]
    return mass[~own][:, :-1].sum() - (np.sum(W**2) + np.sum(b**2) / scale) / 2


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_a_pass_keeps_the_masses_and_ends_where_no_pair_can_gain(problem, scale):
    X, codes, witness, members, mass = problem
    W, b = primal(*problem, scale)
    before = mass.sum(axis=2)
    squares = np.sum(X**2, axis=1)
    values = [dual(*problem, scale)]
    for _ in range(300):
        worst = group_descent.descend(
            np.arange(2), X, W, b, scale, codes, witness, members, mass, squares
        )
        values.append(dual(*problem, scale))
    assert worst < 1e-6
    assert np.diff(values).min() > -1e-12
    assert (mass >= 0).all()
    np.testing.assert_allclose(mass.sum(axis=2), before)
    for found, expected in zip((W, b), primal(*problem, scale), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(("up", "down"), [(3, 4), (3, -1), (-1, 4)])
def test_a_step_is_exact_along_its_line(problem, up, down):
    X, scale, own = problem[0], 0.3, 5
    W, b = np.zeros((3, X.shape[1])), np.zeros(3)
    group_descent._add(X, W, b, scale, 2, 0, own, up, 1.0)
    group_descent._add(X, W, b, scale, 2, 0, own, down, -1.0)
    curvature = group_descent._curvature(X, np.sum(X**2, axis=1), scale, own, up, down)
    assert curvature == pytest.approx(np.sum(W**2) + np.sum(b**2) / scale)
