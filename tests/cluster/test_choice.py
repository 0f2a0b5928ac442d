"""The number of clusters and the weight of labels, chosen without instance labels."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from bagwise import Bags
from bagwise.cluster import BagConstrainedSpectralClustering, choose_clusters
from bagwise.cluster._affinity import local_scaling
from bagwise.exceptions import InputError
from cases import each


def modes(n_modes=4, n_bags=40, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    mode = rng.integers(n_modes, size=2 * n_bags)
    X = 6 * np.eye(n_modes)[mode] + noise * rng.normal(size=(2 * n_bags, n_modes))
    sets = [set((mode[2 * i : 2 * i + 2] // 2).tolist()) for i in range(n_bags)]
    return Bags(X, np.arange(0, 2 * n_bags + 1, 2)), sets


MODEL = BagConstrainedSpectralClustering(random_state=0)


def test_the_true_number_of_modes_is_found():
    bags, sets = modes()
    choice = choose_clusters(
        MODEL, bags, sets, n_clusters=[3, 4, 6, 8], n_resamples=5, random_state=0
    )
    assert choice.n_clusters == 4
    assert choice.alpha == 0.7
    assert choice.table["n_clusters"].tolist() == [3, 4, 6, 8]
    assert choice.table["stability"][1] > 0.99
    assert choice.table["eigengap"].argmax() == 1


def test_labels_make_few_clusters_stable_unless_they_drown_the_features():
    # Four modes alike, in two classes: two clusters are arbitrary unless the labels speak.
    bags, sets = modes(n_bags=100, noise=0.3)
    choice = choose_clusters(
        MODEL, bags, sets, n_clusters=[2], alphas=[0, 0.7, 5], n_resamples=5, random_state=0
    )
    assert choice.table["alpha"].tolist() == [0, 0.7, 5]
    assert choice.alpha == 0.7
    assert choice.table["stability"][1] == 1
    assert choice.table["stability"][[0, 2]].max() < 0.8
    assert choice.table["agreement"][1] == 1
    assert choice.table["agreement"][[0, 2]].max() < 0.95


def test_without_labels_stability_alone_decides():
    bags, _ = modes()
    choice = choose_clusters(MODEL, bags, n_clusters=[3, 4, 6], n_resamples=4, random_state=0)
    assert np.isnan(choice.table["agreement"]).all()
    assert choice.n_clusters == 4


def test_a_row_is_what_the_estimator_finds():
    bags, sets = modes()
    choice = choose_clusters(MODEL, bags, sets, n_clusters=[4], n_resamples=2, random_state=0)
    longer = BagConstrainedSpectralClustering(5, random_state=0).fit(bags, sets).eigenvalues_
    assert choice.table["eigengap"][0] == pytest.approx(1 - longer[4] / longer[3], rel=1e-3)
    labels = BagConstrainedSpectralClustering(4, random_state=0).fit(bags, sets).labels_
    fewer = bags[:32]
    again = BagConstrainedSpectralClustering(4, random_state=0).fit(fewer, sets[:32]).labels_
    assert adjusted_rand_score(labels[:64], again) == pytest.approx(choice.table["stability"][0])


def test_seeds_repeat_and_precomputed_similarities_are_cut():
    bags, sets = modes(n_bags=20)
    options = {"n_clusters": [3, 4], "n_resamples": 3, "random_state": 1}
    model = BagConstrainedSpectralClustering(constraints="bag")
    one = choose_clusters(model, bags, sets, **options)
    two = choose_clusters(model, bags, sets, **options)
    for name in one.table:
        np.testing.assert_array_equal(one.table[name], two.table[name])
    W, _ = local_scaling(np.asarray(bags.instances))
    model = BagConstrainedSpectralClustering(affinity="precomputed")
    found = choose_clusters(model, Bags(W, bags.offsets), sets, **options)
    np.testing.assert_allclose(found.table["eigengap"], one.table["eigengap"], rtol=1e-3)


@each(
    ("model", "options", "message"),
    [
        (MODEL, {"n_clusters": []}, "give n_clusters"),
        (MODEL, {"n_clusters": [2], "n_resamples": 1}, "n_resamples of 2"),
        (MODEL, {"n_clusters": [2, 32]}, "expected 1 to 31"),
    ],
)
def test_what_cannot_be_compared_is_refused(model, options, message):
    bags, sets = modes(n_bags=20)
    with pytest.raises(InputError, match=message):
        choose_clusters(model, bags, sets, **options)
