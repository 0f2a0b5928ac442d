"""The constraints that the paper compares with, from bags to clusters."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import bag_constraint_oracle as oracle
from bagwise import Bags
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.validation import check_label_sets
from reproduction.rivals import PublishedSpectralClustering

RIVALS = ("bag_only_ambiguous", "spectral_learning", "regularization")


@pytest.fixture
def blobs():
    """Bags of instances of three classes that are well apart, with their true classes."""
    rng = np.random.default_rng(0)
    classes = [rng.integers(3, size=rng.integers(1, 5)) for _ in range(40)]
    arrays = [6 * np.eye(3, 4)[c] + 0.4 * rng.normal(size=(len(c), 4)) for c in classes]
    return Bags.from_arrays(arrays), [set(c.tolist()) for c in classes], np.concatenate(classes)


@pytest.mark.parametrize("constraints", ["bag", "bag_as_printed", None])
def test_the_options_of_the_package_are_the_same(blobs, constraints):
    bags, sets, _ = blobs
    ours = BagConstrainedSpectralClustering(
        3, constraints=constraints, affinity="local_scaling", random_state=0
    ).fit(bags, sets)
    model = PublishedSpectralClustering(3, constraints=constraints, random_state=0).fit(bags, sets)
    np.testing.assert_array_equal(model.embedding_, ours.embedding_)
    model.set_params(weight_eigenvectors=False).fit(bags, sets)
    np.testing.assert_array_equal(model.eigenvalues_, ours.eigenvalues_)
    if constraints is not None:  # without, all eigenvalues are 1
        assert not np.allclose(model.embedding_, ours.embedding_)


def labelled_bags(n_classes=3):
    """A symmetric similarity, the bag of each instance, and label sets of all kinds."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 4, 9)
    W = rng.random((sizes.sum(), sizes.sum()))
    label_sets = rng.integers(0, 2, (9, n_classes)).astype(np.int8)
    label_sets[:2] = [[-1], [0]]  # nothing is known; no label at all
    label_sets[2:4] = [1, 0, 0]
    return np.triu(W, 1) + np.triu(W, 1).T, np.repeat(np.arange(9), sizes), label_sets


def matrix_of(model, W, bag_index, label_sets, form=np.asarray):
    bags = Bags(
        np.zeros((len(bag_index), 1)), np.flatnonzero(np.diff(bag_index, prepend=-1, append=99))
    )
    labels = check_label_sets(label_sets, bags)
    return model._constrain(form(W), model.constraints, bag_index, labels).toarray()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("normalization", ["symmetric", "additive"])
@pytest.mark.parametrize("n_clusters", [3, 4])  # more clusters than classes: no must-links
def test_the_operators_are_the_matrices_written_out(n_clusters, normalization, form):
    W, bag_index, label_sets = labelled_bags()
    must_link = n_clusters == 3
    h = W.sum(axis=1) ** -0.5
    learned = oracle.spectral_learning(W, bag_index, label_sets, must_link=must_link)
    d = learned.sum(axis=1)
    learned = (
        (learned + np.diag(d.max() - d)) / d.max()
        if normalization == "additive"
        else (learned / np.sqrt(np.outer(d, d)))
    )
    penalty = oracle.must_link_penalty(bag_index, label_sets) if must_link else 0.0
    Q = oracle.only_ambiguous(bag_index, label_sets)
    F = oracle.profiles(label_sets)[bag_index]
    alpha = 0.7 if form is np.asarray else 0.7 * W.sum() / (F @ F.T).sum()
    expected = ((W + alpha * Q) * np.outer(h, h), learned, W * np.outer(h, h) - 20 * penalty)
    for constraints, matrix in zip(RIVALS, expected, strict=True):
        model = PublishedSpectralClustering(
            n_clusters, constraints=constraints, normalization=normalization
        )
        found = matrix_of(model, W, bag_index, label_sets, form)
        np.testing.assert_allclose(found, matrix, atol=1e-12)
        plain = matrix_of(model, W, bag_index, np.full_like(label_sets, -1), form)
        np.testing.assert_allclose(plain, W * np.outer(h, h), atol=1e-12)


@pytest.mark.parametrize("affinity", ["local_scaling", "nearest_neighbors"])
@pytest.mark.parametrize("constraints", RIVALS)
def test_well_separated_classes_are_found(blobs, constraints, affinity):
    bags, sets, truth = blobs
    model = PublishedSpectralClustering(
        3, constraints=constraints, affinity=affinity, random_state=0
    )
    assert adjusted_rand_score(truth, model.fit_predict(bags, sets)) == 1
    assert adjusted_rand_score(truth, model.predict_instances(bags)) == 1
