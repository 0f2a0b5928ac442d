"""The list of data sets agrees with the package and with the data, if available."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import Bunch

from bagwise import Bags, datasets
from cases import each

INFOS = datasets.list_datasets()
TASKS = {
    *("bag classification", "bag regression", "instance annotation", "bag label sets"),
    "partial labels",
}


@each("info", INFOS)
def test_records_are_complete(info):
    assert info.task in TASKS
    assert info.where in {"shipped", "drawn", "data home"}
    assert (info.file is None) == (info.where == "drawn")
    assert info.found or info.where == "data home"
    assert len(info.description) <= 90
    for part in (info.title, info.licence, info.origin, str(info.n_instances)):
        assert part in info.details


def test_every_loader_is_listed():
    public = {name for name in datasets.__all__ if name.startswith(("load_", "make_"))}
    assert {info.loader for info in INFOS if info.loader} == public - {"load_dataset"}


@each("info", [info for info in INFOS if info.found])
def test_what_is_loaded_is_what_is_listed(info):
    options = {"random_state": 0} if info.where == "drawn" else {}
    data = datasets.load_dataset(info.name, **options)
    assert isinstance(data, Bunch)
    assert info.details == data.DESCR
    check_bags(data)
    n_classes = 0 if data.classes is None else len(data.classes)
    found = (len(data.bags), data.bags.n_instances, data.bags.n_features, n_classes)
    expected = (info.n_bags, info.n_instances, info.n_features, info.n_classes)
    if info.where == "drawn":
        assert found[1] == pytest.approx(expected[1], rel=0.05)
        found, expected = (found[0], *found[2:]), (expected[0], *expected[2:])
    assert found == expected


def check_bags(data):
    assert isinstance(data.bags, Bags)
    assert data.bags.sizes.min() >= 1
    values = data.bags.instances
    values = values.data if sparse.issparse(values) else values
    assert values.dtype == np.float64
    assert np.isfinite(values).all()
    assert data.feature_names == data.bags.feature_names
    if "y" in data:
        assert data.y.shape == (len(data.bags),)
    if "y" in data and data.classes is not None:
        assert set(np.unique(data.y)) == set(range(len(data.classes)))
    if "y" not in data:
        assert data.label_sets.shape == (len(data.bags), len(data.classes))
        assert data.label_sets.dtype == np.uint8
        assert set(np.unique(data.label_sets)) == {0, 1}
    if data.instance_labels is not None:
        assert data.instance_labels.shape == (data.bags.n_instances,)
        assert data.instance_labels.min() >= -1
        assert data.instance_labels.max() < len(data.classes)
