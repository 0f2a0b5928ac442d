"""`bagwise cluster`, from a table to clusters, classes and a page."""

import numpy as np
import pytest
from cli.tables import read_rows, write_rows


@pytest.fixture
def songs(tmp_path):
    """Recordings of one or two of three species; syllables of a species are alike."""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    species = ["owl", "wren", "rook"]
    rows = [["recording", "singers", "pitch", "length"]]
    for i in range(30):
        singers = rng.choice(3, rng.integers(1, 3), replace=False)
        told = "" if i == 4 else ";".join(species[k] for k in singers)
        for k in [*singers, singers[0]]:
            sound = 6 * np.array([k == 1, k == 2]) + rng.normal(size=2)
            rows.append([f"r{i}", told, *sound.tolist()])
    return write_rows(tmp_path / "songs.csv", rows)


COLUMNS = ("--bag", "recording", "--label-set", "singers")


def test_clusters_classes_and_a_page(run, songs, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    output = tmp_path / "clusters.csv"
    result = run.ok("cluster", songs, *COLUMNS, "-k", 3, "-o", output)
    assert "owl" in result.stdout
    rows = read_rows(output)
    assert list(rows[0]) == ["bag", "row", "cluster", "class"]
    truth = [("owl", "wren", "rook")[(p > 3) + 2 * (q > 3)] for p, q in _features(songs)]
    agree = np.mean([row["class"] == name for row, name in zip(rows, truth, strict=True)])
    assert agree > 0.95
    page = (tmp_path / "clusters.html").read_text()
    assert "by cluster" in page
    assert "Clusters of songs.csv" in page
    assert all(f" ({name})" in page for name in ("owl", "wren", "rook"))


def _features(path):
    return [(float(row["pitch"]), float(row["length"])) for row in read_rows(path)]


def test_without_labels_there_are_no_classes(run, songs, tmp_path):
    output = tmp_path / "clusters.csv"
    words = ("--bag", "recording", "--features", "pitch,length", "--no-report")
    run.ok("cluster", songs, *words, "-k", 3, "-o", output)
    assert list(read_rows(output)[0]) == ["bag", "row", "cluster"]
    assert not (tmp_path / "clusters.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-k", "1000"), "n_clusters=1000"),
        (("-k", "3", "--set", "colour=1"), "no parameter 'colour'"),
        (("-k", "3", "--set", "affinity=odd"), "affinity"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(run, songs, tmp_path, words, message):
    result = run.fails("cluster", songs, *COLUMNS, *words, "--no-report", "-o", tmp_path / "c.csv")
    assert message in result.stderr
