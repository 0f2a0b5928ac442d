"""scikit-survival: its models on pooled bags, its labels for our models."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from bagwise.embedding import BagStatistics
from bagwise.survival import SetKernelCox
from partner_data import drawn

linear_model = pytest.importorskip("sksurv.linear_model")


def test_cox_models_rank_new_bags():
    from sksurv.util import Surv

    bags, y = drawn()
    rng = np.random.default_rng(0)
    times = rng.exponential(np.exp(-2.0 * y))
    events = Surv.from_arrays(rng.uniform(size=len(y)) < 0.8, times)
    pooled = make_pipeline(BagStatistics(), PCA(4), linear_model.CoxPHSurvivalAnalysis(alpha=1.0))
    for model in (pooled, SetKernelCox()):
        assert cross_val_score(model, bags, events, cv=4).mean() > 0.6
