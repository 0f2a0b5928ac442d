"""Bags of the data home with label sets: published counts, known pitfalls, damaged files."""

import numpy as np
import pytest
from scipy import sparse

from bagwise import Bags, datasets
from bagwise.datasets._registry import PACKAGE_DATA
from bagwise.exceptions import DataNotFoundError, FileFormatError
from cases import each
from reproduction import bag_data
from reproduction.row_data import info_of

NAMES = [name.removeprefix("load_") for name in bag_data.__all__ if name != "load_dataset"]


def load(name, **options):
    try:
        return bag_data.load_dataset(name, **options)
    except DataNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_loaded_is_what_is_listed(name):
    info, data = info_of(name), load(name)
    assert isinstance(data.bags, Bags)
    found = (len(data.bags), data.bags.n_instances, data.bags.n_features, len(data.classes))
    assert found == (info.n_bags, info.n_instances, info.n_features, info.n_classes)
    assert info.licence in data.DESCR
    assert data.label_sets.shape == (len(data.bags), len(data.classes))
    assert set(np.unique(data.label_sets)) == {0, 1}
    if data.instance_labels is not None:
        assert data.instance_labels.shape == (data.bags.n_instances,)
        assert data.instance_labels.min() >= -1


@each(
    "change",
    [
        {"Y_from_instances": np.zeros((3, 2), "u1")},
        {"Y_from_instances": np.zeros((2, 3), "u1")},
        {"instance_labels": np.array([0, 1])},
        {"instance_labels": np.array([0, 1, 2])},
    ],
)
def test_label_sets_that_do_not_fit(tmp_path, monkeypatch, change):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    arrays = {
        "X": np.zeros((3, 38)),
        "bag": np.array([0, 0, 1]),
        "Y": np.zeros((2, 2), "u1"),
        "Y_from_instances": np.zeros((2, 2), "u1"),
        "instance_labels": np.array([0, 1, 1]),
        "classes": np.array(["wren", "owl"]),
    }
    np.savez(tmp_path / "hja_birdsong.npz", **arrays)
    assert bag_data.load_hja_birdsong().bags.shape == (2, 38)
    np.savez(tmp_path / "hja_birdsong.npz", **{**arrays, **change})
    with pytest.raises(FileFormatError, match=r"hja_birdsong\.npz"):
        bag_data.load_hja_birdsong()


def union(data):
    """The label sets that the instance labels imply."""
    sets = np.zeros_like(data.label_sets)
    known = data.instance_labels >= 0
    sets[data.bags.bag_index[known], data.instance_labels[known]] = 1
    return sets


def test_hja_has_two_label_matrices():
    instances = load("hja_birdsong")
    published = load("hja_birdsong", labels="published")
    assert instances.bags.n_instances == 4998
    assert np.array_equal(instances.label_sets, union(instances))
    extra = published.label_sets.astype(int) - instances.label_sets
    assert (extra.min(), extra.sum(), extra.any(axis=1).sum()) == (0, 67, 62)
    assert extra[:, 0].sum() == 35
    assert (instances.label_sets.sum(axis=1) == 1).sum() == 199  # Pei & Fern, Table 2


@each("name", ["msrcv2", "letter_carroll_redraw"])
def test_label_sets_are_the_union_of_instance_labels(name):
    data = load(name)
    assert np.array_equal(data.label_sets, union(data))


def test_carroll_redraw_has_our_words():
    data, ours = load("letter_carroll_redraw"), datasets.load_letter_carroll()
    assert [i.upper() for i in ours.bags.ids] == data.bags.ids.tolist()
    assert np.array_equal(data.instance_labels, ours.instance_labels)
    with np.load(PACKAGE_DATA / "letter.npz") as file:
        assert np.array_equal(data.bags.instances, file["X"][data.letter_row])


def test_corel5k_tokens():
    data = load("corel5k_blobs")
    assert sparse.issparse(data.bags.instances)
    assert (data.bags.instances.sum(axis=1) == 1).all()
    assert data.is_test.sum() == 500
    assert data.label_sets[~data.is_test].any(axis=0).sum() == 371
    assert data.label_sets[data.is_test].any(axis=0).sum() == 263
    # No token twice in a picture.
    pairs = np.column_stack([data.bags.bag_index, data.bags.instances.indices])
    assert len(np.unique(pairs, axis=0)) == len(pairs)
