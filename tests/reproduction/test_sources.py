"""Data of papers: the shape of SIVAL, files of the user, MNIST-bags."""

import numpy as np
import pytest

from bagwise.datasets._registry import data_folders
from bagwise.exceptions import DataNotFoundError, FileFormatError
from cases import each
from reproduction import load_paper, make_plan
from reproduction._protocols import PROTOCOLS
from reproduction.sources import (
    captioned_faces,
    frequent_keywords,
    from_data_home,
    make_mnist_bags,
    make_region_bags,
)


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


def shuffled_file(path, **changes):
    """Three bags with label sets, numbered 2, 0, 1 in the order of their first rows."""
    arrays = {
        "X": np.arange(10.0).reshape(5, 2),
        "bag": [2, 0, 2, 1, 0],
        "Y": np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0]]),
        "Y_captions": np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]]),
        "instance_labels": [0, 2, 1, 1, 0],
        "is_test": [False, True, False],
        "classes": ["a", "b", "c"],
    }
    np.savez(path, **{k: np.asarray(v) for k, v in {**arrays, **changes}.items()})


def test_label_sets_instance_labels_and_test_marks_follow_their_bags(home):
    shuffled_file(home / "own.npz")
    data = from_data_home("own.npz", scenario="b")
    assert data.bags.ids.tolist() == [2, 0, 1]
    assert data.bags.instances[:, 0].tolist() == [0, 4, 2, 8, 6]
    assert data.instance_labels.tolist() == [0, 1, 2, 0, 1]
    assert data.label_sets.tolist() == [[1, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert data.is_test.tolist() == [False, False, True]
    assert data.scenario == "b"
    assert "y" not in data
    # Every label of an instance is in the set of its bag, as in the file.
    assert data.label_sets[data.bags.bag_index, data.instance_labels].all()
    captions = from_data_home("own.npz", label_sets="Y_captions")
    assert captions.label_sets.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]


def test_frequent_keywords_are_counted_on_training_bags_only(home):
    shuffled_file(home / "own.npz", is_test=[True, False, True])
    data = from_data_home("own.npz", n_keywords=1)  # b: its bag 1 is the training bag
    assert data.classes.tolist() == ["b"]
    assert data.bags.ids.tolist() == [2, 1]
    assert data.instance_labels.tolist() == [-1, 0, 0]
    assert data.is_test.tolist() == [True, False]


@each(
    ("change", "message"),
    [
        ({"instance_labels": [0, 1]}, "instance_labels must have 5"),
        ({"instance_labels": [0, 1, 2, 3, 0]}, "3 classes"),
        ({"is_test": [True]}, "is_test must have 3"),
        ({"Y": np.array([[0.5, 0, 1]] * 3)}, "zeros and ones"),
        ({"classes": ["a", "b"]}, "2 classes"),
        ({"bag": [2, 0, 2, 1, 3]}, "3 bags of `Y`"),
    ],
)
def test_label_sets_that_do_not_fit(home, change, message):
    shuffled_file(home / "own.npz", **change)
    with pytest.raises(FileFormatError, match=message):
        from_data_home("own.npz")


def test_a_file_without_labels(home):
    np.savez(home / "own.npz", X=np.zeros((2, 1)), bag=[0, 1])
    with pytest.raises(FileFormatError, match="neither y nor Y"):
        from_data_home("own.npz")


def save_faces(path):
    """Drawn photos as a file, with the names of Labeled Yahoo! News in its three scenarios."""
    b, c = (captioned_faces(s, 300, 10, random_state=0) for s in "bc")
    arrays = {"X": b.bags.instances, "bag": b.bags.bag_index, "Y": b.label_sets}
    arrays |= {"Y_captions": c.label_sets, "instance_labels": b.instance_labels}
    np.savez(path, **arrays)


@each(
    ("experiment", "method"), [("table1", "mimlca"), ("table2", "euclidean"), ("table7", "mimlca")]
)
def test_tables_of_faces_run_on_a_file(home, experiment, method):
    save_faces(home / "labeled_yahoo_news.npz")
    paper = load_paper("mimlca")
    wanted = paper.experiment(experiment).narrowed([method])
    plan = make_plan(paper, wanted)
    assert plan.stand_ins == frozenset()
    scores = {}
    for unit in plan.units:
        if unit.fold == 0:
            scores[unit.data] = PROTOCOLS["face_naming"](unit)["precision"]
    assert set(scores) == set(wanted.data)
    assert min(scores.values()) > 0.3  # chance: .1


def test_table_4_runs_on_a_file_with_test_marks(home):
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (60, 25))
    X = np.repeat(Y, 2, axis=0) + 0.1 * rng.normal(size=(120, 25))
    is_test = np.arange(60) >= 50
    bag = np.repeat(np.arange(60), 2)
    np.savez(home / "corel5k_regions.npz", X=X, bag=bag, Y=Y, is_test=is_test)
    paper = load_paper("mimlca")
    plan = make_plan(paper, paper.experiment("table4").narrowed(["annotate-euclidean"]))
    (unit,) = plan.units
    assert unit.load().label_sets.shape[1] == 20
    assert PROTOCOLS["bag_annotation"](unit)["average_precision"] > 0.5


@pytest.mark.skipif(
    not any((folder / "corel5k_blobs.npz").exists() for folder in data_folders()),
    reason="Corel5K is not in the data home",
)
def test_pictures_with_frequent_keywords():
    data = frequent_keywords()
    assert (int((~data.is_test.astype(bool)).sum()), int(data.is_test.sum())) == (3947, 444)


@pytest.mark.skipif(
    not any((folder / "mnist_test.npz").exists() for folder in data_folders()),
    reason="MNIST is not in the data home",
)
def test_mnist_bags():
    data = make_mnist_bags(20, subset="test", random_state=0)
    assert (len(data.bags), data.bags.n_features, int(data.y.sum())) == (20, 784, 10)
