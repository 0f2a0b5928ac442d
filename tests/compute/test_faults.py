"""A fit on a cluster survives the loss of a worker; errors of functions come through."""

import threading
from functools import partial

import pytest

from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import PrimalDualMISVM
from bagwise.metric_learning import MIMLCA, MultiInstancePLDA
from checks import example
from engine_examples import kill_a_worker, relative, with_label_sets

MODELS = [
    PrimalDualMISVM(C=1, max_iter=150, tol=1e-12, random_state=0),
    ORedLogisticRegression(tol=1e-9),
    MIMLCA(n_init=8, random_state=0),
    MultiInstancePLDA(null=True, tol=1e-9),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_fit_survives_the_loss_of_a_worker(client, model):
    bags, y = with_label_sets(200)
    if isinstance(model, PrimalDualMISVM):
        bags, y = example(200, n_classes=3)
    away = bags.distribute(client, npartitions=2)
    here = vars(model.fit(bags, y)).copy()
    timer = threading.Timer(1.0, kill_a_worker, [away])
    timer.start()
    there = vars(model.fit(away, y))
    timer.join()
    name = "coef_" if "coef_" in here else "components_"
    assert relative(there[name], here[name]) < 1e-6


def _refuse(bags, *, only=None):
    if only is None or only in bags.ids:
        raise FileNotFoundError("mine")


@pytest.mark.parametrize("only", [None, "b20"])
def test_an_error_of_a_function_comes_through(client, only):
    bags, _ = example(30)
    with pytest.raises(FileNotFoundError, match="mine"):
        bags.distribute(client, npartitions=2).map(partial(_refuse, only=only))
