"""The data home: the folders searched, and errors for missing and damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bagwise import datasets
from bagwise.datasets import _registry
from bagwise.exceptions import BagwiseError, DataNotFoundError, FileFormatError, InputError
from cases import each


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty BAGWISE_DATA folder, and an empty cache beside it."""
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    (tmp_path / "cache" / "bagwise").mkdir(parents=True)
    return tmp_path


def tiny_musk(path, value=1.0):
    """Two molecules of 2 and 1 shapes, with as many features as the real ones."""
    X = np.full((3, 166), value, dtype=np.float32)
    np.savez_compressed(path, X=X, bag=np.array([0, 0, 1], "i4"), y=np.array([1, 0], "i1"))


def test_the_variable_comes_first_then_the_cache(home, monkeypatch):
    cache = home / "cache" / "bagwise"
    assert _registry.data_folders() == [home / "data", cache]
    monkeypatch.setenv("BAGWISE_DATA", "~/somewhere")
    assert _registry.data_folders() == [Path.home() / "somewhere", cache]
    monkeypatch.setenv("BAGWISE_DATA", "")
    assert _registry.data_folders() == [cache]


class TestFinding:
    def test_both_folders_are_searched(self, home):
        tiny_musk(home / "cache" / "bagwise" / "musk2.npz", value=2.0)
        assert datasets.load_dataset("musk2").bags[0][0, 0] == 2

    def test_the_first_folder_wins(self, home):
        tiny_musk(home / "cache" / "bagwise" / "musk2.npz", value=2.0)
        tiny_musk(home / "data" / "musk2.npz", value=1.0)
        data = datasets.load_dataset("musk2")
        assert data.bags[0][0, 0] == 1
        assert data.bags.sizes.tolist() == [2, 1]
        assert data.y.tolist() == [1, 0]
        assert data.fold is None

    def test_every_absent_set_says_so(self, home):
        for info in datasets.list_datasets():
            if info.where == "data home":
                assert not info.found
                with pytest.raises(
                    DataNotFoundError, match=f"{info.file}.*data.*cache.*BAGWISE_DATA"
                ):
                    datasets.load_dataset(info.name)


class TestDamagedFiles:
    @each("content", [b"", b"not a zip", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
    def test_rubbish(self, home, content):
        (home / "data" / "musk2.npz").write_bytes(content)
        with pytest.raises(FileFormatError, match=r"musk2\.npz"):
            datasets.load_dataset("musk2")

    def test_pickles_are_refused(self, home):
        np.savez(home / "data" / "musk2.npz", X=np.array([{}], dtype=object), bag=[0], y=[0])
        with pytest.raises(FileFormatError, match="allow_pickle"):
            datasets.load_dataset("musk2")

    def test_a_missing_array_is_named(self, home):
        np.savez(home / "data" / "musk2.npz", X=np.zeros((3, 166)))
        with pytest.raises(FileFormatError, match=r"lacks the arrays \['bag', 'y'\]"):
            datasets.load_dataset("musk2")

    @each(
        "change",
        [
            {"bag": np.array([0, 1, 0])},
            {"bag": np.array([0, 0, 2])},
            {"bag": np.array([0.0, 0.0, 1.0])},
            {"bag": np.array([], dtype=int)},
            {"y": np.array([0, 1, 1])},
            {"y": np.array(1)},
            {"X": np.zeros((3, 5))},
            {"X": np.zeros(3)},
            {"X": np.full((3, 166), "a")},
        ],
    )
    def test_arrays_that_do_not_fit(self, home, change):
        arrays = {"X": np.zeros((3, 166)), "bag": np.array([0, 0, 1]), "y": np.array([0, 1])}
        np.savez(home / "data" / "musk2.npz", **{**arrays, **change})
        with pytest.raises(FileFormatError, match=r"musk2\.npz"):
            datasets.load_dataset("musk2")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
    def test_one_wrong_byte_anywhere(self, home, place, flip):
        path = home / "data" / "musk2.npz"
        tiny_musk(path)
        content = bytearray(path.read_bytes())
        content[int(place * len(content))] ^= flip
        path.write_bytes(bytes(content))
        try:
            data = datasets.load_dataset("musk2")
        except BagwiseError:
            return
        assert data.bags.shape == (2, 166)  # the byte did not matter to the reader


@each(
    ("name", "message"),
    [("musk", "Did you mean musk2 or musk1"), ("?", "Known: musk1"), (None, "called None")],
)
def test_unknown_names_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        datasets.load_dataset(name)
