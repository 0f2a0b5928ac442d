"""NumPy archives, including those of the shipped data."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from bagwise.exceptions import FileFormatError, InputError
from bagwise.io import read_bags

DATA = Path(os.environ.get("BAGWISE_DATA", "../shared/data"))


def needs(name):
    return pytest.mark.skipif(not (DATA / name).exists(), reason=f"{name} is not in the data home")


@needs("musk1.npz")
def test_musk1():
    data = read_bags(DATA / "musk1.npz")
    assert data.bags.shape == (92, 166)
    assert data.bags.n_instances == 476
    assert (data.y == 1).sum() == 47
    assert data.extras["fold"].shape == (5, 92)


@needs("hja_birdsong.npz")
def test_birdsong_and_its_other_label_matrix():
    path = DATA / "hja_birdsong.npz"
    published, union = read_bags(path), read_bags(path, label_set="Y_from_instances")
    assert published.label_sets.sum() - union.label_sets.sum() == 67
    assert len(published.classes) == 13
    assert (published.instance_labels == -1).sum() == 5234


@needs("ssl_text.npz")
def test_rows_without_bags_are_bags_of_one():
    data = read_bags(DATA / "ssl_text.npz")
    assert sparse.issparse(data.bags.instances)
    assert data.bags.shape == (1500, 11960)
    assert np.all(data.bags.sizes == 1)


def test_rows_of_a_bag_anywhere(tmp_path):
    path = tmp_path / "bags.npz"
    X = np.arange(8.0).reshape(4, 2)
    np.savez(
        path, X=X, bag=[2, 0, 2, 0], y=[7, 8, 9], instance_labels=[0, 1, 2, 3], row=np.arange(4)
    )
    data = read_bags(path)
    assert data.bags.offsets.tolist() == [0, 2, 2, 4]  # bag 1 has a label and no rows
    assert data.bags.instances.tolist() == X[[1, 3, 0, 2]].tolist()
    assert data.instance_labels.tolist() == [1, 3, 0, 2]
    assert data.extras["row"].tolist() == [1, 3, 0, 2]
    np.savez(path, X=np.eye(3), bag=["b", "a", "b"], y=[1, 0])
    data = read_bags(path)
    assert data.bags.ids.tolist() == ["b", "a"]
    assert data.bags.sizes.tolist() == [2, 1]
    with pytest.raises(InputError, match=r"no array 'Y2' for label_set="):
        read_bags(path, label_set="Y2")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("limit", [None, 0])
def test_orders_and_types(tmp_path, rng, order, compress, limit):
    path = tmp_path / "bags.npz"
    X = np.asarray(rng.normal(size=(6, 4)), order=order)
    save = np.savez_compressed if compress else np.savez
    save(path, X=X, offsets=[0, 1, 6])
    np.testing.assert_array_equal(read_bags(path, memory_limit=limit).bags.instances, X)
    half = read_bags(path, dtype="float32", memory_limit=limit).bags.instances
    np.testing.assert_array_equal(half, X.astype("float32"))


def test_features_by_name(tmp_path, rng):
    path = tmp_path / "bags.npz"
    X = rng.normal(size=(4, 3))
    np.savez(path, X=X, bag=[0, 0, 1, 1], feature_names=["a", "b", "c"])
    data = read_bags(path, features=["c", "a"])
    np.testing.assert_array_equal(data.bags.instances, X[:, [2, 0]])
    assert read_bags(path, exclude="b").feature_names == ["a", "c"]
    with pytest.raises(InputError, match=r"no feature 'd'.*'a', 'b', 'c'"):
        read_bags(path, features=["d"])
    np.savez(path, X=X, bag=[0, 0, 1, 1])
    with pytest.raises(InputError, match="no feature_names"):
        read_bags(path, features=["a"])


def test_sparse_columns_rows_and_type(tmp_path):
    X = sparse.random(6, 5, density=0.5, random_state=0, format="csr")
    path = tmp_path / "bags.npz"
    parts = {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr, "X_shape": X.shape}
    np.savez(path, bag=[1, 0, 1, 0, 1, 0], feature_names=list("abcde"), **parts)
    read = read_bags(path, features=["e", "a"], dtype="float32").bags.instances
    expected = X.toarray()[[1, 3, 5, 0, 2, 4]][:, [4, 0]].astype("float32")
    np.testing.assert_array_equal(read.toarray(), expected)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Z": np.eye(2)}, "no instances: expected an array X.*there are 'Z'"),
        ({"X": np.eye(2), "bag": [0]}, r"bag has shape \(1,\)"),
        ({"X": np.eye(2), "bag": [0, 5], "y": [1, 0, 1]}, "names 2 bags.*for 3"),
        ({"X": np.eye(2), "offsets": [0, 5]}, "offsets must rise"),
        ({"X": np.eye(2), "y": [0, 1, 1]}, "y has shape"),
        ({"X": np.zeros(3)}, "2-D"),
        ({"X": np.array(["a", "b"])}, "2-D"),
        ({"X": np.array([["a", "b"]])}, "real numbers"),
        ({"X": np.eye(2), "classes": ["a"], "instance_labels": [0, 1]}, "1 classes"),
        (
            {"X_data": [1.0], "X_indices": [7], "X_indptr": [0, 1], "X_shape": [1, 2]},
            "could not be read",
        ),
    ],
)
def test_bad_arrays(tmp_path, arrays, message):
    path = tmp_path / "bags.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=message):
        read_bags(path)


def test_no_pickle_is_ever_loaded(tmp_path):
    path = tmp_path / "bags.npz"
    np.savez(path, X=np.eye(2), ids=np.array(["a", 1], dtype=object))
    for limit in (None, 0):  # read, and mapped
        with pytest.raises(FileFormatError, match=r"Object arrays cannot|of Python objects"):
            read_bags(path, memory_limit=limit)
