"""Databases of Perch-Hoplite, generated in the layout of version 1."""

import sqlite3

import numpy as np
import pytest

from bagwise.apps.audio import read_recordings
from bagwise.exceptions import FileFormatError
from bagwise.io import read_bags

WIDTH = 6
pytest.importorskip("pyarrow")
Index = pytest.importorskip("usearch.index").Index


def write_index(path, keys, vectors):
    """An index of half-precision vectors, as Perch-Hoplite writes it."""
    index = Index(ndim=vectors.shape[1], metric="ip", dtype="f16")
    index.add(np.array(keys, np.uint64), vectors)
    index.save(str(path))


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
    keys = [6, 1, 2, 2**63, 5, 4]  # in another order than the ids
    write_index(folder / "usearch.index", keys, vectors)
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
    for n in (0, 3, len(content) // 2, len(content) - 1):
        index.write_bytes(content[:n])
        with pytest.raises(FileFormatError, match="not a USearch index, or it is damaged"):
            read_recordings(folder)
    write_index(index, [6, 1, 2, 4], np.ones((4, WIDTH)))
    with pytest.raises(FileFormatError, match="window 5 has no embedding"):
        read_recordings(folder)
    index.unlink()
    with pytest.raises(FileFormatError, match="give the whole folder"):
        read_recordings(folder)
    other = tmp_path / "other.sqlite"
    sqlite3.connect(other).executescript("CREATE TABLE decisions (bag TEXT)").connection.close()
    with pytest.raises(FileFormatError, match=r"not a database of Perch-Hoplite"):
        read_recordings(other)
    other.write_bytes(b"not a database")
    with pytest.raises(FileFormatError, match="could not be read"):
        read_recordings(other)
