"""The constraints that the paper compares with, from bags to clusters."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from bagwise import Bags
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.exceptions import InputError
from bagwise.solvers.spectral.bag_constraints import CONSTRAINTS
from reproduction.rivals import PublishedSpectralClustering


@pytest.fixture
def blobs():
    """Bags of instances of three classes that are well apart, with their true classes."""
    rng = np.random.default_rng(0)
    classes = [rng.integers(3, size=rng.integers(1, 5)) for _ in range(40)]
    arrays = [6 * np.eye(3, 4)[c] + 0.4 * rng.normal(size=(len(c), 4)) for c in classes]
    return Bags.from_arrays(arrays), [set(c.tolist()) for c in classes], np.concatenate(classes)


@pytest.mark.parametrize("affinity", ["local_scaling", "nearest_neighbors"])
@pytest.mark.parametrize("constraints", [*CONSTRAINTS, None])
@pytest.mark.parametrize("weighted", [True, False])
def test_well_separated_classes_are_found(blobs, constraints, affinity, weighted):
    bags, sets, truth = blobs
    model = PublishedSpectralClustering(
        3,
        constraints=constraints,
        affinity=affinity,
        weight_eigenvectors=weighted,
        random_state=0,
    )
    assert adjusted_rand_score(truth, model.fit_predict(bags, sets)) == 1
    assert adjusted_rand_score(truth, model.predict_instances(bags)) == 1


def test_landmarks_have_no_single_similarities(blobs):
    model = PublishedSpectralClustering(
        3, constraints="spectral_learning", affinity="landmark", random_state=0
    )
    with pytest.raises(InputError, match="landmarks do not have"):
        model.fit(*blobs[:2])


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


def test_normalizations_differ(blobs):
    found = []
    for normalization in ("symmetric", "additive"):
        model = PublishedSpectralClustering(
            5, constraints="spectral_learning", normalization=normalization, random_state=0
        )
        found.append(model.fit(*blobs[:2]).eigenvalues_)
    assert not np.allclose(*found)
