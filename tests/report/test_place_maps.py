"""Heat maps in a report: against a reference cell by cell, and the page in a browser."""

import json
import re

import numpy as np
import pytest

from bagwise import Bags
from bagwise.classification import SingleInstanceClassifier
from bagwise.displays._heat_maps import colour_limits, colours
from bagwise.exceptions import InputError
from bagwise.report import Report, _explorer
from bagwise.report._explorer import EMPTY, MOST_CELLS, N_COLOURS, grid_cells, grid_picture

for needed in ("jinja2", "matplotlib"):
    pytest.importorskip(needed)


def slides(n_bags=6, seed=0):
    """Patches at distinct places of a grid of 256 pixels; every other slide has a marked patch."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 30, size=n_bags)
    rows = rng.normal(size=(sizes.sum(), 2))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows[offsets[1:-1:2]] += 6
    cells = np.concatenate([rng.choice(64, size, replace=False) for size in sizes])
    coords = 256 * np.column_stack([cells % 8, cells // 8]) + 1000
    return Bags(rows, offsets), np.array(["no", "yes"])[np.arange(n_bags) % 2], coords


def maps_of(page):
    return json.loads(re.search(r'id="explorer-data">(.*?)</script>', page)[1])["maps"]


def test_the_picture_is_the_highest_value_of_each_cell():
    rng = np.random.default_rng(0)
    coords, values = 7 * rng.integers(0, 6, size=(60, 2)), rng.normal(size=60)
    limits = colour_limits(values)
    cells, shape = grid_cells(coords, 7.0)
    found = grid_picture(cells, shape, values, limits)
    low, high = limits
    expected = np.full((*shape, 3), EMPTY)
    for row in range(shape[0]):
        for column in range(shape[1]):
            corner = coords.min(axis=0) + 7 * np.array([column, row])
            here = values[(coords == corner).all(axis=1)]
            if len(here):
                share = np.clip((here.max() - low) / (high - low), 0, 1)
                level = low + round(share * (N_COLOURS - 1)) / (N_COLOURS - 1) * (high - low)
                expected[row, column] = colours(np.array([level]), limits)[0]
    np.testing.assert_allclose(found, expected, atol=1)  # of 255: a level by rounding


def test_places_without_a_grid_make_a_picture_of_limited_size():
    coords = np.random.default_rng(0).uniform(0, 1e5, size=(500, 2))
    cells, shape = grid_cells(coords, 0.01)
    assert max(shape) == MOST_CELLS
    assert (cells >= 0).all()
    assert (cells < shape[::-1]).all()
    assert grid_cells(coords[:1], 1.0)[1] == (1, 1)


def test_each_bag_has_its_map_and_its_key():
    bags, y, coords = slides()
    model = SingleInstanceClassifier().fit(bags, y)
    maps = maps_of(Report(model, bags, y, coords=coords).to_html())
    keys = bags.offsets[:-1] + model.key_instances(bags)
    for i, part in enumerate(bags.split(coords)):
        assert maps["size"][i] == (np.ptp(part, axis=0) // 256 + 1).tolist()
        assert maps["keys"][i] == [((coords[keys[i]] - part.min(axis=0)) // 256).tolist()]
        assert maps["picture"][i].startswith("data:image/png;base64,")
    assert "score for “yes”" in maps["caption"]


def test_what_is_left_out_is_stated(monkeypatch):
    bags, y, coords = slides()
    model = SingleInstanceClassifier().fit(bags, y)
    monkeypatch.setattr(_explorer, "MAP_BUDGET", 0)
    page = Report(model, bags, y, coords=coords).to_html()
    assert maps_of(page)["picture"] == [None] * len(bags)
    assert "6 heat maps exceed the size limit of the page." in page


@pytest.mark.parametrize("place", [[0], [0.0, np.nan], ["a", "b"]])
def test_odd_places_are_refused(place):
    bags, y, _ = slides()
    model = SingleInstanceClassifier().fit(bags, y)
    with pytest.raises(InputError, match="coords"):
        Report(model, bags, y, coords=[place] * bags.n_instances).to_html()


@pytest.fixture
def saved(tmp_path):
    bags, y, coords = slides()
    model = SingleInstanceClassifier().fit(bags, y)
    return Report(model, bags, y, coords=coords).save(tmp_path / "report.html")


def test_the_map_shows(open_page, saved):
    drawn = open_page(saved).locator("#bag .heat svg")
    assert drawn.get_attribute("aria-label").startswith("Heat map of 0: ")
    assert drawn.locator("rect.key").count() == 1
    assert drawn.bounding_box()["width"] > 50


def test_axe_finds_no_fault(accessibility_faults, saved):
    assert accessibility_faults(saved) == []
