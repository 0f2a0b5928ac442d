"""Databases of Perch-Hoplite, generated in the layout of version 1.

The layout of the index was compared with files of perch-hoplite 1.0.2 and usearch 2.26.6: a
database of five recordings, one window removed, read here without either package.
"""

import sqlite3
import struct

import numpy as np
import pytest

from bagwise.apps.audio import read_recordings
from bagwise.exceptions import FileFormatError
from bagwise.io import read_bags

WIDTH = 6
pytestmark = pytest.mark.usefixtures("pyarrow")


@pytest.fixture
def pyarrow():
    return pytest.importorskip("pyarrow")


def write_index(path, keys, vectors, levels, connectivity=3, base=6):
    """An index of USearch: vectors, a head of 64 bytes, then a node per vector."""
    n, width = vectors.shape
    head = struct.pack("<7s3H4B3Q", b"usearch", 2, 26, 6, 105, 12, 14, 15, n, 0, width)
    parts = [
        struct.pack("<2I", n, 2 * width),
        vectors.astype("<f2").tobytes(),
        head.ljust(64, b"\0"),
    ]
    parts.append(struct.pack("<5Q", n, connectivity, base, max(levels), 0))
    parts.append(np.array(levels, "<i2").tobytes())
    for key, level in zip(keys, levels, strict=True):
        lists = 4 * (base + 1) + level * 4 * (connectivity + 1)
        parts.append(struct.pack("<Qh", key, level) + bytes(range(lists)))
    path.write_bytes(b"".join(parts))


def current(folder, files=("a.wav", "b.wav"), deployments=(1, 2)):
    """Version 1: three windows of the first recording, two of the second; one was removed."""
    folder.mkdir()
    database = sqlite3.connect(folder / "hoplite.sqlite")
    database.executescript(
        """
        CREATE TABLE hoplite_metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE deployments (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,
            project TEXT NOT NULL, latitude REAL, longitude REAL);
        CREATE TABLE recordings (id INTEGER PRIMARY KEY AUTOINCREMENT, filename TEXT NOT NULL,
            datetime TEXT, deployment_id INTEGER REFERENCES deployments(id));
        CREATE TABLE windows (id INTEGER PRIMARY KEY AUTOINCREMENT, recording_id INTEGER NOT NULL,
            offsets FLOAT_LIST NOT NULL);
        INSERT INTO deployments (name, project, latitude)
            VALUES ('north', 'p', 47.5), ('south', 'p', NULL);
        """
    )
    for number, (file, deployment) in enumerate(zip(files, deployments, strict=True), 1):
        row = (number, file, "2024-05-01T06:00:00", deployment)
        database.execute("INSERT INTO recordings VALUES (?, ?, ?, ?)", row)
    windows = [(1, 1, 0), (2, 1, 2.5), (4, 1, 5), (5, 2, 0), (6, 2, 5)]
    for number, recording, start in windows:
        times = np.array([start, start + 5], "<f8").tobytes()
        database.execute("INSERT INTO windows VALUES (?, ?, ?)", (number, recording, times))
    database.commit()
    database.close()
    vectors = np.arange(6 * WIDTH).reshape(6, WIDTH) / 8
    keys = [6, 1, 2, 2**64 - 1, 5, 4]  # in another order than the ids
    write_index(folder / "usearch.index", keys, vectors, [0, 1, 0, 0, 2, 0])
    return vectors[[1, 2, 5, 4, 0]]


def test_a_recording_is_a_bag_and_its_windows_are_clips(tmp_path):
    vectors = current(tmp_path / "birds")
    before = {path.name: path.read_bytes() for path in (tmp_path / "birds").iterdir()}
    for path in (tmp_path / "birds", tmp_path / "birds" / "hoplite.sqlite"):
        data = read_bags(
            read_recordings(path),
            meta=["deployment", "latitude"],
            labels={"a": "wren", "b.wav": "owl"},
        )
        assert data.bags.names.tolist() == ["a.wav", "b.wav"]
        np.testing.assert_array_equal(data.bags.instances, vectors.astype(np.float32))
        assert data.bags.dtype == np.float32
        assert data.clips.start.tolist() == [0, 2.5, 5, 0, 5]
        assert data.clips.end.tolist() == [5, 7.5, 10, 5, 10]
        assert data.meta["deployment"].tolist() == ["north"] * 3 + ["south"] * 2
        assert data.meta["latitude"].tolist() == [47.5] * 3 + [None] * 2
        assert data.y.tolist() == ["wren", "owl"]
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "birds").iterdir()}


def test_files_of_one_name_in_two_deployments_are_two_recordings(tmp_path):
    current(tmp_path / "birds", files=("a.wav", "a.wav"))
    assert read_bags(read_recordings(tmp_path / "birds")).bags.names.tolist() == [
        "north/a.wav",
        "south/a.wav",
    ]


def test_what_cannot_be_read_is_refused(tmp_path):
    folder = tmp_path / "birds"
    current(folder)
    index = folder / "usearch.index"
    content = index.read_bytes()
    at = 8 + 6 * 2 * WIDTH  # where the head begins
    other_type = content[: at + 14] + b"\x0b" + content[at + 15 :]
    key = content.index(struct.pack("<Qh", 5, 2))
    renamed = content[:key] + b"\x09" + content[key + 1 :]
    damage = {
        "not a USearch index": content[: at + 3],
        "another length": content[:-1],
        "could not be read": content[: at + 70],
        "another type": other_type,
        "window 5 has no embedding": renamed,
    }
    for words, damaged in damage.items():
        index.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=words):
            read_recordings(folder)
    index.unlink()
    with pytest.raises(FileFormatError, match="give the whole folder"):
        read_recordings(folder)
    other = tmp_path / "other.sqlite"
    sqlite3.connect(other).executescript("CREATE TABLE decisions (bag TEXT)").connection.close()
    with pytest.raises(FileFormatError, match=r"not a database of Perch-Hoplite.*decisions"):
        read_recordings(other)
    other.write_bytes(b"not a database")
    with pytest.raises(FileFormatError, match="could not be read"):
        read_recordings(other)
