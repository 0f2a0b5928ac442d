"""``bagwise heatmap`` on a folder of slides, and on a table."""

import csv
import json

import pytest
from cli.tables import COLUMNS, slide_folder, slide_rows, write_rows

for needed in ("h5py", "skops", "pyarrow", "matplotlib", "jinja2"):
    pytest.importorskip(needed)


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Pictures take the time; tests/report/test_heat_maps.py looks at them."""
    monkeypatch.setattr("bagwise.apps.heatmap._heat_maps._picture", lambda *_: b"")


@pytest.fixture
def slides(run, tmp_path):
    """A folder of slides, the words that name its labels, the tumour patches, and a model."""
    folder = tmp_path / "slides"
    table, tumours = slide_folder(folder, n_slides=6)
    labels = ("--labels", table, "--id-column", "slide_id")
    run.ok("fit", folder, *labels, "-m", "sil", "-o", tmp_path / "model.skops")
    return folder, labels, tumours, tmp_path / "model.skops"


def top_patches(path):
    return list(csv.DictReader((path / "top_patches.csv").read_text().splitlines()))


def test_the_planted_patches_are_found(run, slides, tmp_path):
    folder, labels, tumours, model = slides
    maps = tmp_path / "maps"
    done = run.ok("heatmap", model, folder, *labels, "--top", 1, "-o", maps)
    assert done.stdout.strip() == str((maps / "index.html").resolve())
    best = {row["slide"]: (int(row["x"]), int(row["y"])) for row in top_patches(maps)}
    assert {slide: best[slide] for slide in tumours} == tumours
    rows = top_patches(maps)
    assert [row["label"] for row in rows] == ["tumour"] * 3 + ["normal"] * 3
    tiles = json.loads((maps / "s00.geojson").read_text())["features"]
    assert tiles[0]["geometry"]["coordinates"][0][2][0] % 512 == 0  # as stored in the file


def test_a_table_with_coordinates(run, tmp_path):
    head, *rows = slide_rows()
    placed = [[*row, 256 * i, 0] for i, row in enumerate(rows) if int(row[0][1:]) < 8]
    table = write_rows(tmp_path / "table.csv", [[*head, "x", "y"], *placed])
    model = tmp_path / "model.skops"
    run.ok("fit", table, *COLUMNS, "-m", "sil", "-o", model)
    words = ("heatmap", model, table, "-o", tmp_path / "maps")
    assert "use the HDF5 files (a table: --coords X,Y)" in run(*words).stderr
    run.ok(*words, "--coords", "x,y", "--top", 1)
    found = {row["slide"]: int(float(row["x"])) for row in top_patches(tmp_path / "maps")}
    first = {}
    for row in placed:
        first.setdefault(row[0], row[-2])
    ill = [f"s{i}" for i in range(1, 8, 2)]
    assert {slide: found[slide] for slide in ill} == {slide: first[slide] for slide in ill}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--class", "benign"), "the classes of the model are normal, tumour"),
        (("--attribution", "magic"), "expected one of 'score', 'single', 'one_removed', 'sampled'"),
        (("--coords", "x"), "expected the names of 2 columns"),
        (("--merge", "patient_id"), "a heat map shows one slide"),
        (("--patch-size", "-1"), "expected a positive number"),
        (("--top", "0"), "--top"),
    ],
)
def test_odd_options_are_refused(run, slides, tmp_path, words, message):
    folder, labels, _, model = slides
    done = run.fails("heatmap", model, folder, *labels, *words, "-o", tmp_path / "maps")
    assert message in done.stderr
    assert not (tmp_path / "maps").exists()


def test_a_model_of_patients_maps_slides(run, slides, tmp_path):
    folder, labels, tumours, _ = slides
    model = tmp_path / "patients.skops"
    words = ("fit", folder, *labels, "--merge", "patient_id", "-m", "sil", "-o", model)
    run.ok(*words)
    run.ok("heatmap", model, folder, *labels, "--top", 1, "-o", tmp_path / "maps")
    best = {row["slide"]: (int(row["x"]), int(row["y"])) for row in top_patches(tmp_path / "maps")}
    assert {slide: best[slide] for slide in tumours} == tumours


def test_maps_over_thumbnails_with_kept_columns(run, slides, tmp_path):
    images = pytest.importorskip("PIL.Image")
    folder, labels, _, model = slides
    pictures = tmp_path / "thumbnails"
    pictures.mkdir()
    images.new("RGB", (40, 40)).save(pictures / "s00.png")
    words = ("heatmap", model, folder, *labels, "--keep", "patient_id", "--thumbnails", pictures)
    unknown = run.fails(*words, "-o", tmp_path / "maps")
    assert "or with --downsample" in unknown.stderr
    done = run.ok(*words, "--downsample", 100, "-o", tmp_path / "maps")
    assert "5 of 6 slides have no thumbnail" in done.stderr
    assert {row["patient_id"] for row in top_patches(tmp_path / "maps")} > {"p0"}
    tiles = json.loads((tmp_path / "maps" / "s00.geojson").read_text())["features"]
    assert tiles[0]["properties"]["metadata"] == {"patient_id": "p0"}
    (pictures / "s00.png").rename(pictures / "other.png")
    assert "there is no picture such as" in run(*words, "-o", tmp_path / "none").stderr
