"""polars: frames in, frames out."""

import pytest

import bagwise
from bagwise.datasets import make_bags

pl = pytest.importorskip("polars")


def test_frames_are_read_and_predictions_are_frames():
    data = make_bags(30, 3, separation=4.0, random_state=0)
    bag = data.bags.bag_index
    table = pl.DataFrame(
        {"bag": bag, "label": data.y[bag]}
        | {f"x{j}": column for j, column in enumerate(data.bags.instances.T)}
    )
    result = bagwise.fit(table, bag="bag", label="label", method="nsk", verbose=False)
    found = result.predict(table)
    assert isinstance(found, pl.DataFrame)
    assert found["bag"].to_list() == list(range(30))
