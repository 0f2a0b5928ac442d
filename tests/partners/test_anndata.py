"""AnnData: donors of cells, and scores of cells back in ``obs``."""

import numpy as np
import pytest

from bagwise.annotation import NoisyOrLogisticRegression
from bagwise.io import read_bags

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")


def test_scores_of_cells_return_to_their_rows():
    rng = np.random.default_rng(0)
    donor = rng.permutation(np.repeat(np.arange(12), 10))
    sick = donor % 2 == 1
    X = rng.normal(size=(120, 3)) + 3 * np.outer(sick & (rng.uniform(size=120) < 0.5), [1, 0, 0])
    obs = {"donor": donor.astype(str), "disease": np.where(sick, "covid", "healthy")}
    adata = anndata.AnnData(X, obs=pd.DataFrame(obs, index=[f"c{i}" for i in range(120)]))
    data = read_bags(adata, bag="donor", label="disease", use_rep="X")
    model = NoisyOrLogisticRegression().fit(data.bags, data.y == "covid")
    scores = model.score_instances(data.bags)
    adata.obs["score"] = data.bags.in_input_order(scores[:, -1])
    shifted = X[:, 0] > 2
    assert adata.obs["score"][shifted].mean() > adata.obs["score"][~shifted].mean()
