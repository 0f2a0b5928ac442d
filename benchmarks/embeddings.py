"""Embeddings: statistics against one pass, random Fourier features against the set kernel."""

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.classification import SetKernelSVM
from bagwise.datasets import load_dataset, make_bags
from bagwise.embedding import BagStatistics, RandomFourierEmbedding
from bagwise.exceptions import DataNotFoundError
from bagwise.pairwise import bag_kernel
from bagwise.preprocessing import InstanceTransformer

from .harness import Fact, Row, race

SEEDS = (0, 1, 2)


def set_kernel_auc(data):
    """Mean AUC in five folds: the set kernel, and its random features over several seeds."""
    scale = InstanceTransformer(StandardScaler())
    exact = make_pipeline(scale, SetKernelSVM(C=1.0))
    embedded = make_pipeline(scale, RandomFourierEmbedding(), SVC(C=1.0, kernel="linear"))

    def auc(model):
        return cross_val_score(model, data.bags, data.y, scoring="roc_auc").mean()

    name = "randomfourierembedding__random_state"
    return auc(exact), np.mean([auc(clone(embedded).set_params(**{name: s})) for s in SEEDS])


def rows():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_000_000, 8))
    bags = Bags(values, np.arange(0, 1_000_001, 10))
    model = BagStatistics().fit(bags)
    ours, other = race(lambda: model.transform(bags), lambda: values.sum())
    yield Row("BagStatistics, 1M x 8, bags of 10", ours, "values.sum()", other, "")

    bags = make_bags(2_000, 20, bag_size=(5, 15), random_state=0).bags
    model = RandomFourierEmbedding(random_state=0).fit(bags)
    ours, other = race(
        lambda: model.transform(bags), lambda: bag_kernel(bags, gamma=model.gamma_), rounds=3
    )
    yield Row("RandomFourierEmbedding, 2,000 bags of 10", ours, "exact set kernel", other, "< 1")

    for name in ("musk1", "elephant"):
        try:
            exact, embedded = set_kernel_auc(load_dataset(name))
        except DataNotFoundError:
            continue
        what = f"AUC on {name.title()}: set kernel, random features"
        yield Fact(what, f"{exact:.3f}, {embedded:.3f}", "within .02")
