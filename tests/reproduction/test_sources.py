"""Data of papers: the shape of SIVAL, files of the user, MNIST-bags."""

import numpy as np
import pytest

from bagwise.datasets._registry import data_folders
from bagwise.exceptions import DataNotFoundError, FileFormatError
from reproduction.sources import from_data_home, make_mnist_bags, make_region_bags


def test_region_bags_have_the_shape_of_sival():
    data = make_region_bags(25, random_state=0)
    assert data.bags.shape == (1500, 30)
    assert np.bincount(data.y).tolist() == [60] * 25
    assert set(data.bags.sizes) == {31, 32}
    assert data.bags.n_instances == pytest.approx(47_414, rel=0.01)
    shows = data.instance_labels >= 0
    assert np.all(data.instance_labels[shows] == data.y[data.bags.bag_index[shows]])
    assert all(labels.max() >= 0 for labels in data.bags.split(data.instance_labels))
    assert 0.1 < shows.mean() < 0.25


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_file_of_the_user(home):
    X = np.arange(12.0).reshape(6, 2)
    np.savez(home / "own.npz", X=X, bag=[0, 0, 1, 2, 2, 2], y=["b", "c", "a"])
    data = from_data_home("own.npz")
    assert data.bags.sizes.tolist() == [2, 1, 3]
    assert data.classes[data.y].tolist() == ["b", "c", "a"]
    few = from_data_home("own.npz", n_classes=2)  # a and b
    assert few.bags.sizes.tolist() == [2, 3]
    assert few.y.tolist() == [1, 0]


def test_a_file_that_is_not_there_or_does_not_fit(home):
    with pytest.raises(DataNotFoundError, match=r"own\.npz was not found"):
        from_data_home("own.npz")
    np.savez(home / "own.npz", X=np.zeros((3, 1)), bag=[0, 1, 2], y=[5, 6])
    with pytest.raises(FileFormatError, match="2 bags"):
        from_data_home("own.npz")


@pytest.mark.skipif(
    not any((folder / "mnist_test.npz").exists() for folder in data_folders()),
    reason="MNIST is not in the data home",
)
def test_mnist_bags():
    data = make_mnist_bags(20, subset="test", random_state=0)
    assert (len(data.bags), data.bags.n_features, int(data.y.sum())) == (20, 784, 10)
