"""Similarities weighted by posteriors, against their formula, and the resulting clusters."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from bagwise import Bags
from bagwise.cluster import BagConstrainedSpectralClustering, choose_clusters
from bagwise.cluster import _affinity as agreement
from bagwise.datasets import load_letter_carroll
from bagwise.exceptions import InputError
from cases import each


def posterior(n_clusters=3, **options):
    options = {"constraints": "posterior", "random_state": 0} | options
    return BagConstrainedSpectralClustering(n_clusters, **options)


def overlapping(n_bags=60, seed=0):
    """Bags of three classes of which two overlap, with label sets and true classes."""
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [2.0, 0.0], [8.0, 8.0]])
    classes = [rng.integers(3, size=rng.integers(1, 5)) for _ in range(n_bags)]
    arrays = [centers[c] + rng.normal(size=(len(c), 2)) for c in classes]
    return Bags.from_arrays(arrays), [set(c.tolist()) for c in classes], np.concatenate(classes)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_the_weights_are_those_of_the_formula(rng, monkeypatch, convert):
    monkeypatch.setattr(agreement, "AGREEMENT_BLOCK", 7)
    P, Q = rng.dirichlet(np.ones(4), 5), rng.dirichlet(np.ones(4), 6)
    W = np.where(rng.random((5, 6)) < 0.5, rng.random((5, 6)), 0.0)
    given = convert(W)
    found = agreement.weigh_by_agreement(given, P, Q)
    expected = W * (agreement.LEAST + (1 - agreement.LEAST) * (P @ Q.T))
    np.testing.assert_allclose(found.toarray() if sparse.issparse(found) else found, expected)
    np.testing.assert_array_equal(given.toarray() if sparse.issparse(given) else given, W)


def test_classes_that_overlap_are_told_apart():
    bags, sets, truth = overlapping()
    plain = posterior(constraints=None).fit(bags, sets)
    model = posterior().fit(bags, sets)
    named = model.annotator_.annotate(bags, sets)
    assert adjusted_rand_score(truth, model.labels_) > adjusted_rand_score(truth, plain.labels_)
    assert adjusted_rand_score(named, model.labels_) > 0.9
    new, _, classes = overlapping(seed=1)
    clusters = model.predict_instances(new)
    assert adjusted_rand_score(model.annotator_.predict_instances(new), clusters) > 0.8
    assert adjusted_rand_score(classes, clusters) > 0.6


def test_a_graph_gives_what_all_pairs_give():
    bags, sets, _ = overlapping()
    dense = posterior().fit(bags, sets)
    graph = posterior(affinity="nearest_neighbors").fit(bags, sets)
    assert adjusted_rand_score(dense.labels_, graph.labels_) > 0.9
    assert adjusted_rand_score(dense.predict_instances(bags), graph.predict_instances(bags)) > 0.8


def test_letters():
    data = load_letter_carroll(random_state=0)
    model = posterior(24).fit(data.bags, data.label_sets)
    clusters, truth = model.labels_, data.instance_labels
    most = sum(np.bincount(truth[clusters == k]).max() for k in np.unique(clusters))
    assert most / len(truth) > 0.85  # 0.45 with constraints="bag"


def test_without_labels_it_is_plain_clustering():
    bags, sets, _ = overlapping(20)
    plain = posterior(constraints=None).fit(bags)
    for y in (None, [None] * 20, [{"a"}] * 20):
        model = posterior().fit(bags, y)
        assert not hasattr(model, "annotator_")
        assert adjusted_rand_score(model.labels_, plain.labels_) == 1
    again = posterior().fit(bags, sets).fit(bags)  # nothing is left of the first fit
    assert not hasattr(again, "annotator_")
    assert again.predict_instances(bags).shape == (bags.n_instances,)


def test_some_label_sets_are_unknown_or_empty():
    bags, sets, truth = overlapping()
    some = [None if i % 3 == 0 else s for i, s in enumerate(sets)]
    model = posterior().fit(bags, some)
    assert adjusted_rand_score(truth, model.labels_) > 0.6
    some[1] = set()
    assert np.isfinite(posterior().fit(bags, some).embedding_).all()


def test_the_number_of_clusters_is_chosen_with_it():
    bags, sets, _ = overlapping()
    found = choose_clusters(
        posterior(), bags, sets, n_clusters=[2, 3, 4], n_resamples=3, random_state=0
    )
    assert found.n_clusters == 3
    assert (found.table["agreement"] > 0.5).all()


@each("affinity", ["landmark", "precomputed"])
def test_what_cannot_be_weighted_is_refused(affinity):
    bags, sets, _ = overlapping(20)
    X = bags if affinity == "landmark" else bags.with_instances(rbf_kernel(bags.instances))
    with pytest.raises(InputError, match="cannot be combined with affinity"):
        posterior(affinity=affinity).fit(X, sets)


def test_posteriors_are_the_default_where_they_can_be():
    bags, sets, _ = overlapping()
    by_default = posterior(constraints="auto").fit(bags, sets)
    assert adjusted_rand_score(by_default.labels_, posterior().fit(bags, sets).labels_) == 1
    assert by_default.alpha_ == 0
    crowded = [{0, 1, 2, "more", "labels"}] * len(bags)  # more labels than instances everywhere
    W = rbf_kernel(bags.instances)
    for given, options, y in (
        (bags, {"alpha": 0.7}, sets),
        (bags, {"affinity": "landmark", "n_landmarks": 20}, sets),
        (Bags(W, bags.offsets), {"affinity": "precomputed"}, sets),
        (bags, {}, [{"only"} if s else None for s in sets]),
        (bags, {}, [{str(label) for label in s} for s in crowded]),
    ):
        model = posterior(constraints="auto", **options).fit(given, y)
        assert not hasattr(model, "annotator_")
        same = posterior(constraints="bag", **options).fit(given, y)
        assert adjusted_rand_score(model.labels_, same.labels_) == 1


def test_posteriors_have_no_alpha():
    bags, sets, _ = overlapping(20)
    with pytest.raises(InputError, match="has no alpha"):
        posterior(alpha=0.7).fit(bags, sets)
    with pytest.raises(InputError, match="has no alpha"):
        choose_clusters(posterior(), bags, sets, n_clusters=[2], alphas=[0.1, 0.7])
