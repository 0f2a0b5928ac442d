"""Simulated names and faces follow the tables of the MIMLCA paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction import faces
from reproduction.faces import make_names_and_faces


@pytest.fixture(scope="module")
def full():
    """As many photos as in the paper."""
    return make_names_and_faces(20071, n_features=24, random_state=0)


def test_tables_5_and_6_at_full_size(full):
    assert np.bincount(full.bags.sizes)[1:].tolist() == list(faces.PHOTOS_WITH_FACES)
    for sets, table in [
        (full.label_sets, faces.PHOTOS_WITH_TRUE_NAMES),
        (full.automatic_label_sets, faces.PHOTOS_WITH_CAPTION_NAMES),
    ]:
        assert np.bincount(sets.sum(axis=1, dtype=int)).tolist() == list(table)
    assert full.bags.n_instances == 31147
    assert full.label_sets.shape == (20071, 5873)


def test_about_fifty_people_can_be_tested(full):
    tenth = np.random.default_rng(0).uniform(size=20071) < 0.1
    names = full.instance_labels[tenth[full.bags.bag_index] & (full.instance_labels >= 0)]
    assert 35 <= (np.bincount(names) >= 5).sum() <= 65


def test_captions_miss_names_and_invent_some(full):
    true, caption = full.label_sets == 1, full.automatic_label_sets == 1
    assert (true & caption).sum() / true.sum() == pytest.approx(0.9, abs=0.01)
    assert 0.5 < (true & caption).sum() / caption.sum() < 0.8


@given(
    n_bags=st.integers(1, 60),
    n_categories=st.one_of(st.none(), st.integers(1, 40)),
    recall=st.floats(0, 1),
    seed=st.integers(0, 99),
)
@settings(max_examples=50)
def test_truth_is_consistent(n_bags, n_categories, recall, seed):
    data = make_names_and_faces(n_bags, n_categories, name_recall=recall, random_state=seed)
    k = len(data.classes)
    counts = np.zeros((n_bags, k), dtype=int)
    named = data.instance_labels >= 0
    np.add.at(counts, (data.bags.bag_index[named], data.instance_labels[named]), 1)
    assert np.array_equal(counts, data.label_sets)  # the union, and no name twice
    assert data.automatic_label_sets.shape == (n_bags, k)
    assert np.isfinite(data.bags.instances).all()


def test_faces_lie_near_their_centre_in_a_small_subspace():
    data = make_names_and_faces(
        2000, 10, n_latent=4, n_features=30, noise=0.0, nuisance=0.0, random_state=0
    )
    values = np.linalg.svd(data.bags.instances, compute_uv=False)
    assert values[3] > 10 * values[4]
    faces = data.bags.instances[data.instance_labels == 0]
    assert faces.std(axis=0).max() < 0.1
