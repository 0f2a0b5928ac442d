import numpy as np
import pytest

from bagwise.datasets import list_datasets, load_letter_carroll, load_musk1
from bagwise.io import read_bags


def test_every_data_set_is_listed(run):
    result = run.ok("datasets")
    listed = [line.split()[0] for line in result.stdout.splitlines() if line.strip()]
    assert {data.name for data in list_datasets()} <= set(listed)


def test_a_description_is_the_one_of_the_library(run):
    result = run("datasets", "describe", "musk1")
    assert result.stdout.strip() == load_musk1().DESCR


@pytest.mark.parametrize("name", ["musk1.csv", "musk1.parquet", "musk1.npz"])
def test_an_export_is_read_back(run, tmp_path, name):
    pytest.importorskip("pyarrow")
    path = tmp_path / name
    run.ok("datasets", "export", "musk1", "-o", path)
    read, musk = read_bags(path), load_musk1()
    np.testing.assert_array_equal(read.bags.instances, musk.bags.instances)
    np.testing.assert_array_equal(read.bags.offsets, musk.bags.offsets)
    np.testing.assert_array_equal(read.y, musk.y)


def test_an_export_keeps_label_sets_and_instance_labels(run, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "letters.parquet"
    run.ok("datasets", "export", "letter_carroll", "-o", path)
    read, letters = read_bags(path), load_letter_carroll()
    assert read.classes.tolist() == letters.classes.tolist()
    np.testing.assert_array_equal(read.label_sets, letters.label_sets)
    np.testing.assert_array_equal(read.instance_labels, letters.instance_labels)
    assert read.bags.ids.tolist() == letters.bags.ids.tolist()
