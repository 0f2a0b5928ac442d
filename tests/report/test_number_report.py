"""The report on a regressor: its sections, its numbers, and the page in a browser."""

import json
import re

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.embedding import BagStatistics
from bagwise.evaluate import HeldOut, held_out_predictions
from bagwise.exceptions import InputError, LabelError
from bagwise.regression import SetKernelRegressor
from bagwise.report import Report

pytest.importorskip("jinja2")


def example(n_bags=20, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(1, 5), 2)) + rng.normal(size=2) for _ in range(n_bags)]
    ids = [f"m{i}" for i in range(n_bags)]
    return Bags.from_arrays(arrays, ids=ids), np.array([X[:, 0].mean() for X in arrays])


def explorer_data(page):
    found = re.search(r'<script[^>]*id="explorer-data"[^>]*>(.*?)</script>', page, flags=re.DOTALL)
    return json.loads(found[1])


def test_the_page_tells_errors():
    bags, y = example()
    model = SetKernelRegressor(C=1.0).fit(bags, y)
    page = Report(model, bags, y).to_html()
    assert f"{mean_absolute_error(y, model.predict(bags)):.3f}" in page
    assert "baseline: mean" in page
    assert "these metrics are optimistic" in page
    data = explorer_data(page)
    assert data["numbers"] is True
    assert data["bags"]["predicted"] == [f"{value:.4g}" for value in model.predict(bags)]
    errors = np.abs(y - model.predict(bags))
    np.testing.assert_allclose(data["bags"]["error"], errors, rtol=1e-3)
    scores = bags.split(model.score_instances(bags))
    keys = {row for row, _ in data["instances"]["keys"]}
    first = data["offsets"][:-1]
    assert keys == set(first)  # the key instance of each bag comes first
    best = [data["instances"]["row"][place] for place in first]
    assert best == [int(own.argmax()) for own in scores]


def test_held_out_predictions_and_their_baselines():
    bags, y = example()
    model = make_pipeline(BagStatistics(), Ridge()).fit(bags, y)
    held_out = held_out_predictions(model, bags, y, cv=4)
    mean = HeldOut(np.full(20, y.mean()))
    page = Report(
        model, bags, y, held_out=HeldOut(held_out.predicted, baselines={"mean": mean})
    ).to_html()
    assert f"{mean_absolute_error(y, held_out.predicted):.3f}" in page
    assert "baseline: mean" in page
    assert "contribution" in page  # ridge scores no instances
    data = explorer_data(page)
    assert data["bags"]["heldOut"] == [f"{value:.4g}" for value in held_out.predicted]


def test_bags_without_a_number_are_not_assessed():
    bags, y = example()
    model = SetKernelRegressor().fit(bags, y)
    some = [None if i < 5 else value for i, value in enumerate(y)]
    page = Report(model, bags, some, seen=np.arange(20) < 10).to_html()
    assert "Metrics are computed on the 10 labelled bags that the model was not fitted on" in page
    assert explorer_data(page)["bags"]["truth"][0] is None
    without = Report(model, bags).to_html()
    assert "Evaluation" not in without
    assert "All bags" in without


def test_wrong_input_is_refused():
    bags, y = example()
    model = SetKernelRegressor().fit(bags, y)
    with pytest.raises(LabelError, match="not numbers"):
        Report(model, bags, ["high"] * 20).to_html()
    with pytest.raises(InputError, match="3 held-out predictions"):
        Report(model, bags, y, held_out=HeldOut(y[:3])).to_html()


def test_the_page_in_a_browser(open_page, tmp_path):
    bags, y = example()
    model = SetKernelRegressor(C=1.0).fit(bags, y)
    page = open_page(Report(model, bags, y).save(tmp_path / "page.html"))
    assert page.locator("svg a[href^='#bag-']").count() == 20
    page.locator("#order").select_option("largest error first")
    worst = int(np.abs(y - model.predict(bags)).argmax())
    assert page.locator("#list li .id").first.inner_text() == f"m{worst}"
    page.locator("#list li a").first.click()
    assert "observed" in page.locator("#bag dl").inner_text()
    assert [o.inner_text() for o in page.locator("#show option").all()] == ["all bags"]
