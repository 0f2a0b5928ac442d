"""Heat maps in a report: against the displays, and the page in a browser."""

import base64
import json
import re

import numpy as np
import pytest

from bagwise import Bags
from bagwise.classification import SingleInstanceClassifier
from bagwise.displays import HeatMapDisplay
from bagwise.displays._heat_maps import colour_limits
from bagwise.exceptions import InputError
from bagwise.predictions import Predictions
from bagwise.report import Report
from bagwise.report._explorer import MAP_DPI, heat_maps

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


def test_each_bag_has_the_map_that_a_display_draws():
    bags, y, coords = slides()
    model = SingleInstanceClassifier().fit(bags, y)
    maps = maps_of(Report(model, bags, y, coords=coords).to_html())
    scores = model.score_instances(bags)
    for i, (own, part) in enumerate(zip(bags.split(scores), bags.split(coords), strict=True)):
        drawn = HeatMapDisplay(
            own, part, 256, value_name="score for “yes”", limits=colour_limits(scores), top=1
        )
        picture = maps["picture"][i].removeprefix("data:image/png;base64,")
        assert base64.b64decode(picture) == drawn.png(MAP_DPI)
    assert "score for “yes”" in maps["caption"]


def test_what_is_left_out_is_stated():
    bags, y, coords = slides()
    model = SingleInstanceClassifier().fit(bags, y)
    maps, note = heat_maps(Predictions(model, bags), coords, 256, most=4)
    assert len(maps["picture"]) == 4
    assert note == "The last 2 bags have no heat map."


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
    drawn = open_page(saved).locator("#bag .heat img")
    assert drawn.get_attribute("alt").startswith("Heat map of 0: ")
    assert drawn.bounding_box()["width"] > 50


def test_axe_finds_no_fault(accessibility_faults, saved):
    assert accessibility_faults(saved) == []
