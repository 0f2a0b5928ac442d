"""PrimalDualMISVM(assumption="standard") gives the same result on every engine."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from bagwise import Bags
from bagwise.classification import PrimalDualMISVM
from bagwise.exceptions import InputError
from checks import example
from engine_examples import ANSWERS, relative, with_label_sets

# A few iterations tell engines apart as well as many; each is two rounds on a cluster.
standard = partial(PrimalDualMISVM, C=1.0, assumption="standard", mu=1e-2, rho=1.2, max_iter=25)
pytestmark = pytest.mark.filterwarnings("ignore:PrimalDualMISVM did not converge")


@pytest.mark.parametrize(("solver", "n_classes"), [("exact", 3), ("inexact", 2)])
def test_engines_agree(move, solver, n_classes, rng):
    bags, y = example(40, n_classes=n_classes)
    test, _ = example(20, n_classes=n_classes, seed=1)
    weights = rng.uniform(0.5, 2, len(bags))
    weights[3] = 0.0
    here = standard(solver=solver).fit(bags, y, sample_weight=weights)
    there = standard(solver=solver).fit(move(bags), y, sample_weight=weights)
    for name in ("coef_", "intercept_", "objective_curve_", "residuals_"):
        assert isinstance(getattr(there, name), np.ndarray)
        assert relative(getattr(there, name), getattr(here, name)) < 1e-8
    moved = move(test)
    for name in ANSWERS:
        found, expected = getattr(there, name)(moved), getattr(here, name)(test)
        np.testing.assert_allclose(found, expected, atol=1e-5) if found.dtype.kind == "f" else (
            np.testing.assert_array_equal(found, expected)
        )


def test_engines_agree_on_label_sets(move):
    bags, sets = with_label_sets(n_bags=40, n_classes=3)
    sets[::5] = 0  # background bags
    expected = standard().fit(bags, sets).coef_
    assert relative(standard().fit(move(bags), sets).coef_, expected) < 1e-6


def test_engines_agree_on_tied_instances_and_in_single_precision(move, rng):
    X = rng.integers(-1, 2, size=(200, 3)).astype(float)  # most bags hold equal instances
    bags, y = Bags(X, np.arange(0, 201, 5)), np.arange(40) % 2
    model = standard(C=0.1, max_iter=15)
    assert relative(model.fit(move(bags), y).coef_, model.fit(bags, y).coef_) < 1e-6
    bags, y = example(40, dtype=np.float32)
    expected, found = standard().fit(bags, y).coef_, standard().fit(move(bags), y).coef_
    assert found.dtype == np.float32
    assert relative(found, expected) < 1e-2


def test_sparse_instances_on_a_cluster_and_what_stays_local(client):
    bags, y = example(30)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    expected = standard().fit(bags, y).coef_
    assert relative(standard().fit(thin.distribute(client), y).coef_, expected) < 1e-6
    with pytest.raises(InputError, match="kernel='linear'"):
        standard(kernel="rbf").fit(bags.distribute(client), y)
