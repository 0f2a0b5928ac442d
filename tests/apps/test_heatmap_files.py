"""Folders of heat maps: pictures, GeoJSON, the table of top patches, the page."""

import csv
import json
import math

import numpy as np
import pytest

from bagwise import Bags
from bagwise.apps.heatmap import HeatMaps
from bagwise.apps.heatmap._heat_maps import read_thumbnail
from bagwise.classification import SetKernelSVM, SingleInstanceClassifier
from bagwise.embedding import BagStatistics
from bagwise.exceptions import InputError, LabelError, OutputExistsError

for needed in ("jinja2", "matplotlib"):
    pytest.importorskip(needed)

EDGE = 256


@pytest.fixture(scope="module")
def data():
    """Four slides on a grid; the third patch of two of them is a tumour."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)) for n in (6, 4, 5, 6)]
    arrays[1][2] += 6
    arrays[3][2] += 9
    ids = ["a", "b/1", "B_1", "index"]  # two of them no names of files
    bags = Bags.from_arrays(arrays, ids=ids)
    coords = np.concatenate(
        [EDGE * np.array([[k % 3, k // 3] for k in range(n)]) for n in bags.sizes]
    )
    y = ["no", "tumour", "no", "tumour"]
    return bags, coords, y, SingleInstanceClassifier(pooling="max").fit(bags, y)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    bags, coords, y, model = data
    path = tmp_path_factory.mktemp("all") / "maps"
    HeatMaps(model, bags, coords, y, top=2, seen=[True, False, True, False]).save(path)
    return path


@pytest.fixture
def no_pictures(monkeypatch):
    """Pictures take the time; the first tests look at them."""
    monkeypatch.setattr("bagwise.apps.heatmap._heat_maps._picture", lambda *_: b"")


def read_qupath(path):
    """Read GeoJSON as RFC 7946 and QuPath (QuPathTypeAdapters.java) do: squares with values.

    Written from the published forms, not from the code under test.
    """
    collection = json.loads(path.read_text(encoding="utf-8"))
    assert collection["type"] == "FeatureCollection"
    tiles = []
    for feature in collection["features"]:
        assert feature["type"] == "Feature"
        assert feature["geometry"]["type"] == "Polygon"
        (ring,) = feature["geometry"]["coordinates"]
        assert len(ring) >= 4  # RFC 7946, 3.1.6: closed, at least four positions
        assert ring[0] == ring[-1]
        xs, ys = zip(*ring, strict=True)
        properties = feature["properties"]
        assert properties["objectType"] in {"annotation", "detection", "tile", "cell", "tmaCore"}
        colours = [properties["color"]]
        if "classification" in properties:
            assert isinstance(properties["classification"]["name"], str)
            colours.append(properties["classification"]["color"])
        for colour in colours:
            assert len(colour) == 3
            assert all(type(part) is int and 0 <= part <= 255 for part in colour)
        values = {m["name"]: m["value"] for m in properties["measurements"]}
        assert all(isinstance(v, int | float) and math.isfinite(v) for v in values.values())
        tiles.append((min(xs), min(ys), max(xs) - min(xs), properties.get("name"), values))
    return tiles


def test_the_values_for_qupath_are_those_of_the_model(data, folder):
    names = sorted(path.name for path in folder.iterdir())
    stems = ["B_1", "a", "b_1_2", "index_2"]  # distinct also where case does not count
    expected = [f"{stem}.{kind}" for stem in stems for kind in ("geojson", "png")]
    assert names == sorted([*expected, "index.html", "top_patches.csv"])
    bags, coords, _, model = data
    tiles = read_qupath(folder / "a.geojson")
    scores = model.score_instances(bags[:1])
    assert len(tiles) == 6
    for (x, y, edge, name, values), place, score in zip(tiles, coords, scores, strict=False):
        assert ([x, y], edge) == (place.tolist(), EDGE)
        assert values["score for tumour"] == score
        assert values["rank"] == 1 + np.sum(scores > score)
        assert name == (f"top {values['rank']}" if values["rank"] <= 2 else None)


def test_the_top_patches_of_all_slides(data, folder):
    bags, coords, _, model = data
    rows = list(csv.DictReader((folder / "top_patches.csv").read_text().splitlines()))
    order = bags.ids[np.argsort(-model.decision_function(bags))].tolist()
    assert list(dict.fromkeys(row["slide"] for row in rows)) == order
    for i, slide in enumerate(bags.ids.tolist()):
        scores = model.score_instances(bags[i : i + 1])
        places = bags.split(coords)[i]
        mine = [row for row in rows if row["slide"] == slide]
        best = np.argsort(-scores)[:2]
        assert [int(row["row"]) for row in mine] == best.tolist()
        assert [[int(row["x"]), int(row["y"])] for row in mine] == places[best].tolist()
        assert [row["rank"] for row in mine] == ["1", "2"]


def test_the_page_shows_all_slides_the_highest_first(data, folder, open_page):
    bags, _, _, model = data
    page = open_page(folder / "index.html", viewport={"width": 390, "height": 800})
    order = np.argsort(-model.decision_function(bags))
    titles = page.locator("h3").all_inner_texts()
    assert titles == bags.ids[order].tolist()
    links = page.locator("tbody th a").all_inner_texts()
    assert links == titles
    page.locator("tbody th a").nth(2).click()
    assert page.evaluate("location.hash") == "#bag-2"
    text = page.locator("main").inner_text()
    assert "The model was fitted on 2 of these slides" in text
    assert "red patches support the class" in text
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "Predicted tumour, labelled tumour" in text


def test_the_order_of_slides_and_files_on_disk_change_nothing(data, folder, tmp_path, no_pictures):
    bags, coords, y, model = data
    order = [2, 0, 3, 1]
    stored = np.memmap(tmp_path / "table", dtype=float, mode="w+", shape=bags.instances.shape)
    stored[:] = bags.instances
    mapped = Bags(stored, bags.offsets, bags.ids)
    moved = np.concatenate([bags.split(coords)[i] for i in order])
    HeatMaps(model, bags[order], moved, [y[i] for i in order], top=2).save(tmp_path / "moved")
    HeatMaps(model, mapped, coords, y, top=2).save(tmp_path / "mapped")
    for other in (tmp_path / "moved", tmp_path / "mapped"):
        for path in folder.iterdir():
            if path.suffix in (".csv", ".geojson"):
                assert (other / path.name).read_bytes() == path.read_bytes()


def test_a_model_of_several_classes_and_one_without_scores(data, tmp_path, no_pictures):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    bags, coords, y, _ = data
    forest = RandomForestClassifier(5, random_state=0)
    trees = make_pipeline(BagStatistics(), forest).fit(bags, y)
    page = HeatMaps(trees, bags, coords, y).save(tmp_path / "trees")
    text = page.read_text(encoding="utf-8")
    assert "probability of tumour" in text
    assert "is its weight in a linear approximation of the score" in text
    several = SetKernelSVM().fit(bags, ["a", "b", "c", "b"])
    HeatMaps(several, bags, coords, label="c", classes=["x", "y", "z"]).save(tmp_path / "c")
    tiles = read_qupath(tmp_path / "c" / "a.geojson")
    assert {name for *_, values in tiles for name in values} == {"score for z", "rank"}
    with pytest.raises(LabelError, match="has no label 'd'"):
        HeatMaps(several, bags, coords, label="d").save(tmp_path / "d")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"top": 0}, "top is 0"),
        ({"model": BagStatistics()}, "BagStatistics has no classes"),
        ({"method": "magic"}, "method is 'magic'"),
    ],
)
def test_odd_input_is_refused(data, tmp_path, changes, message):
    bags, coords, y, model = data
    given = {"model": model, "coords": coords, "top": 3} | changes
    with pytest.raises(InputError, match=message):
        HeatMaps(given.pop("model"), bags, given.pop("coords"), y, **given).save(tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_axe_finds_no_fault(accessibility_faults, folder):
    assert accessibility_faults(folder / "index.html") == []


def test_kept_columns_reach_the_table_and_qupath(data, tmp_path, no_pictures):
    bags, coords, _, model = data
    meta = {"block": [f"B{i}" for i in range(bags.n_instances)], "site": [None] * bags.n_instances}
    maps = HeatMaps(model, bags, coords, top=1, meta=meta)
    maps.save(tmp_path / "maps")
    with pytest.raises(OutputExistsError, match="exists already"):
        maps.save(tmp_path / "maps")
    rows = list(csv.DictReader((tmp_path / "maps" / "top_patches.csv").read_text().splitlines()))
    starts = dict(zip(bags.names.tolist(), bags.offsets.tolist(), strict=False))
    assert [row["block"] for row in rows] == [
        f"B{starts[r['slide']] + int(r['row'])}" for r in rows
    ]
    tiles = json.loads((tmp_path / "maps" / "a.geojson").read_text())["features"]
    assert [tile["properties"]["metadata"] for tile in tiles] == [
        {"block": f"B{i}"} for i in range(6)
    ]
    for wrong in ({"block": ["B0"]}, {"rank": meta["block"]}):
        with pytest.raises(InputError, match="expected one each, and another name"):
            HeatMaps(model, bags, coords, meta=wrong).save(tmp_path / "none")


def test_no_cell_of_the_top_patches_is_a_formula(data, tmp_path, no_pictures):
    bags, coords, _, model = data
    named = Bags(bags.instances, bags.offsets, ["=1+1", "@a", "+b", "-c"])
    meta = {"=note": ['=HYPERLINK("x")'] * bags.n_instances}
    HeatMaps(model, named, coords, meta=meta).save(tmp_path / "maps")
    with open(tmp_path / "maps" / "top_patches.csv", newline="") as file:
        cells = {cell for row in csv.reader(file) for cell in row}
    assert {"'=1+1", "'@a", "'+b", "'-c", "'=note", '\'=HYPERLINK("x")'} <= cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]


def test_maps_are_drawn_over_thumbnails(data, tmp_path, monkeypatch):
    images = pytest.importorskip("PIL.Image")
    bags, coords, _, model = data
    path = tmp_path / "a.png"
    images.new("RGB", (30, 20), (200, 120, 160)).save(path)
    drawn = {}

    def picture(slide, limits):
        drawn[slide.name] = slide.thumbnail, slide.map.image_size
        return b""

    monkeypatch.setattr("bagwise.apps.heatmap._heat_maps._picture", picture)
    sizes = np.array([[768.0, 512.0]] + [[np.nan, np.nan]] * 3)
    maps = HeatMaps(model, bags, coords, thumbnails=[path, None, None, None], slide_sizes=sizes)
    maps.save(tmp_path / "maps")
    assert (drawn["a"][0], drawn["a"][1].tolist()) == (path, [768, 512])
    assert drawn["b/1"][0] is None
    assert read_thumbnail(path).shape == (20, 30, 3)
    with pytest.raises(InputError, match=r"the size of bag 0 .'a'. is unknown"):
        HeatMaps(model, bags, coords, thumbnails=[path] * 4).save(tmp_path / "none")
    with pytest.raises(InputError, match="2 thumbnails"):
        HeatMaps(model, bags, coords, thumbnails=[path] * 2, slide_sizes=sizes).save(
            tmp_path / "none"
        )
    path.write_bytes(b"no picture")
    with pytest.raises(InputError, match="cannot be read"):
        read_thumbnail(path)
