"""dask: bags on a cluster give the model of one process."""

import numpy as np
import pytest

from bagwise.classification import PrimalDualMISVM
from partner_data import drawn

distributed = pytest.importorskip("distributed")


def test_bags_on_two_workers_give_the_same_model():
    bags, y = drawn()
    model = PrimalDualMISVM(random_state=0)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = model.fit(bags.distribute(client), y).coef_.copy()
    np.testing.assert_allclose(there, model.fit(bags, y).coef_, rtol=1e-6, atol=1e-9)
