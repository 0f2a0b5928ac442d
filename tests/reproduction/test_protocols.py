"""Protocols against scikit-learn, and on data with a known answer."""

import dataclasses

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import SingleInstanceClassifier
from bagwise.datasets import make_digit_bags
from bagwise.preprocessing import InstanceTransformer
from reproduction import (
    Store,
    load_paper,
    make_plan,
    make_report,
    run_plan,
    write_report,
)
from reproduction._protocols import PROTOCOLS


def test_cross_validation_is_that_of_scikit_learn(plan):
    units = [u for u in plan.units if (u.data, u.method, u.repetition) == ("clusters", "sil", 1)]
    results = [PROTOCOLS["cross_validation"](unit) for unit in units]
    data = units[0].load()
    model = make_pipeline(InstanceTransformer(StandardScaler()), SingleInstanceClassifier())
    folds = StratifiedKFold(3, shuffle=True, random_state=units[0].shared_seed)
    expected = cross_val_score(model, data.bags, data.y, cv=folds)
    assert [result["accuracy"] for result in results] == pytest.approx(expected.tolist())
    confusion = np.sum([result["confusion"] for result in results], axis=0)
    assert confusion.sum() == len(data.y)
    assert confusion.trace() == sum(expected * [6, 6, 6])


def test_rings_need_a_kernel(tmp_path):
    paper = load_paper("pdmisvm")
    plan = make_plan(paper, paper.experiment("figure10").shortened())
    store = Store(tmp_path / "figure10.jsonl")
    run_plan(plan, store)
    report = make_report(plan, store)
    *linear, kernel = (row.ours[0] for row in report.rows)  # as printed, ours, with a kernel
    assert len(linear) == 2
    assert max(linear) < 0.75
    assert kernel > 0.97
    result = report.results[-1][1]
    # The grid is right where it is easy: inside at the origin, outside in the corners.
    grid = np.array(result["grid"])
    assert grid[40, 40] == 0
    assert grid[[0, 0, -1, -1], [0, -1, 0, -1]].tolist() == [1] * 4
    pytest.importorskip("matplotlib")
    assert len(write_report(report, tmp_path, "figure10")) == 2


def small_digits(n_bags=40, subset="train", random_state=None):
    seed = None if random_state is None else random_state + (subset == "test")
    return make_digit_bags(n_bags, random_state=seed)


def test_key_images_keep_what_is_to_be_drawn(tmp_path, monkeypatch):
    import reproduction.sources as sources

    monkeypatch.setattr(sources, "make_mnist_bags", small_digits)
    paper = load_paper("pdmisvm")
    experiment = paper.experiment("figure6-7")
    options = {**experiment.options, "image_shape": [8, 8]}
    plan = make_plan(paper, dataclasses.replace(experiment, options=options))
    store = Store(tmp_path / "figure.jsonl")
    run_plan(plan, store)
    report = make_report(plan, store)
    result = report.results[0][1]
    assert np.shape(result["hyperplanes"]) == (2, 64)
    offsets = np.array(result["offsets"])
    assert len(offsets) == 6
    assert np.shape(result["images"]) == (offsets[-1], 64)
    assert len(result["digits"]) == offsets[-1]
    assert np.all(np.array(result["key_instances"]) < np.diff(offsets))
    digits = np.split(np.array(result["digits"]), offsets[1:-1])
    holds_nine = [9 in bag for bag in digits]
    assert np.array_equal(holds_nine, np.array(result["truth"]) == 1)
    pytest.importorskip("matplotlib")
    names = [path.name for path in write_report(report, tmp_path, "figure")]
    assert names == [
        "figure.md",
        "figure-hyperplanes.png",
        *(
            f"figure-key-digits-pdmisvm-{variant}{printed}.png"
            for printed in ("-as-printed", "")
            for variant in ("exact", "inexact")
        ),
    ]
