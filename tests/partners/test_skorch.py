"""skorch: networks on pooled bags, inside a pipeline and cross-validation."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bagwise.embedding import BagStatistics
from partner_data import drawn

skorch = pytest.importorskip("skorch")


def test_networks_learn_pooled_bags():
    import torch

    torch.manual_seed(0)
    bags, y = drawn(120)
    layers = torch.nn.Sequential(
        torch.nn.LazyLinear(16), torch.nn.ReLU(), torch.nn.Linear(16, 2), torch.nn.Softmax(dim=1)
    )
    network = skorch.NeuralNetClassifier(layers, lr=0.1, max_epochs=40, verbose=0)
    single = FunctionTransformer(np.asarray, kw_args={"dtype": np.float32})
    model = make_pipeline(BagStatistics(), StandardScaler(), single, network)
    assert cross_val_score(model, bags, y.astype(np.int64), cv=3).mean() > 0.6
