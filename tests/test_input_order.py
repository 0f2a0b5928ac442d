"""Values of instances go back to the rows of the user, or are refused where they would be wrong."""

import pickle

import numpy as np
import pandas as pd
import pytest

from bagwise import Bags
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from bagwise.classification import ConceptCountsClassifier, SetKernelSVM, SingleInstanceClassifier
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.exceptions import InputError
from bagwise.io import read_bags
from bagwise.predictions import instance_attributions
from bagwise.preprocessing import InstancePCA, make_bag_pipeline


@pytest.fixture
def table():
    """Rows of eight bags, mixed; the column `row` is the position of each row."""
    rng = np.random.default_rng(0)
    names = rng.permutation(np.repeat(list("abcdefgh"), rng.integers(1, 9, 8)))
    frame = pd.DataFrame({"bag": names, "label": np.where(names < "e", "no", "yes")})
    return frame.assign(x=np.arange(len(frame)) + 0.5, z=rng.normal(size=len(frame)))


def test_values_of_groups_and_frames_come_back_in_the_order_of_the_rows(table):
    features = table[["x", "z"]].to_numpy()
    for bags in (
        Bags.from_groups(features, table.bag),
        Bags.from_frame(table, bag="bag", features=["x", "z"]),
        read_bags(table, bag="bag", label="label").bags,
    ):
        assert not np.array_equal(bags.instances, features)
        assert np.array_equal(bags.in_input_order(bags.instances), features)
        assert np.array_equal(features[bags.input_rows], bags.instances)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_values_of_files_come_back(table, tmp_path, suffix):
    path = tmp_path / f"bags.{suffix}"
    if suffix == "npz":
        np.savez(path, X=table[["x", "z"]].to_numpy(), bag=table.bag.to_numpy(str))
    elif suffix == "csv":
        table.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    bags = read_bags(path).bags
    assert np.array_equal(bags.in_input_order(bags.instances[:, 0]), table.x)


def test_selections_have_missing_values_for_the_rows_of_other_bags(table):
    bags = Bags.from_groups(table[["x"]].to_numpy(), table.bag)
    some = bags[[5, 0, 2]][[2, 0]]  # also a selection of a selection
    own = table.bag.isin([bags.ids[2], bags.ids[5]]).to_numpy()
    back = some.in_input_order(some.instances[:, 0])
    assert np.array_equal(back[own], table.x[own])
    assert np.isnan(back[~own]).all()
    names = some.in_input_order(some.ids[some.bag_index])
    assert np.array_equal(names[own], table.bag[own])
    assert set(names[~own]) == {None}
    assert some.in_input_order(np.ones(some.n_instances, int)).dtype == np.float64


def test_the_order_survives_transformers_merging_and_pickle(table):
    bags = Bags.from_groups(table[["x", "z"]].to_numpy(), table.bag)
    half = np.array(["one", "two"])[np.arange(8) % 2]
    for changed in (
        bags.with_instances(bags.instances * 1),
        bags.merge(half),
        pickle.loads(pickle.dumps(bags)),
        pickle.loads(pickle.dumps(bags[::-1])),
        bags[::-1].merge(half),
        InstancePCA(2).fit(bags).transform(bags).with_instances(bags.instances),
    ):
        assert np.array_equal(changed.in_input_order(changed.instances[:, 0]), table.x)
    whole = Bags(bags.instances, bags.offsets)
    merged = whole.merge(half)
    assert np.array_equal(merged.in_input_order(merged.instances), whole.instances)


def test_pandas_refuses_values_in_another_order(table):
    data = read_bags(table, bag="bag", label="label")
    model = SingleInstanceClassifier().fit(data.bags, data.y)
    pipeline = make_bag_pipeline(InstancePCA(2), SingleInstanceClassifier()).fit(data.bags, data.y)
    for values in (
        model.score_instances(data.bags),
        model.predict_instances(data.bags),
        pipeline.score_instances(data.bags),
        2 * model.score_instances(data.bags) - 1,
    ):
        with pytest.raises(InputError, match="in_input_order"):
            table["score"] = values
        table["score"] = data.bags.in_input_order(values)  # the cure in the message
        pd.DataFrame({"score": values}), pd.Series(values)  # a new frame in the order of bags
    scores = model.score_instances(data.bags)
    rows = table[["x", "z"]].to_numpy()[:, None]
    alone = model.score_instances(Bags.from_arrays(rows, feature_names=["x", "z"]))
    assert np.allclose(data.bags.in_input_order(scores), alone)
    assert all(isinstance(value, float) for value in (scores.max(), scores.mean()))
    assert type(np.asarray(scores)) is np.ndarray


def test_pandas_refuses_all_values_of_instances(table):
    bags = Bags.from_frame(table, bag="bag", features=["x", "z"])
    sets = [{"p"}, {"q"}] * 3 + [set(), {"p"}]
    ored = ORedLogisticRegression(background=True).fit(bags, sets)
    noisy, y = NoisyOrLogisticRegression().fit(bags, sets), np.arange(8) % 2
    spectral = BagConstrainedSpectralClustering(2, random_state=0)
    for values in (
        ored.annotate(bags, sets),
        ored.annotate_proba(bags, sets)[:, 0],
        ored.predict_proba_instances(bags)[:, 1],
        noisy.annotate(bags, sets),
        noisy.annotate_proba(bags, sets)[:, 1],
        noisy.annotate_sets(bags, sets)[:, 0],
        noisy.predict_instance_sets(bags)[:, 0],
        ConceptCountsClassifier(random_state=0).fit(bags, y).instance_proba(bags),
        spectral.fit_predict(bags),
        spectral.predict_instances(bags),
        instance_attributions(SetKernelSVM().fit(bags, y), bags, method="single"),
        instance_attributions(ored, bags, n_samples=2)[:, 0],
    ):
        assert len(values) == len(table)
        with pytest.raises(InputError, match="in_input_order"):
            table["value"] = values
    own = [name for name in dir(noisy) if "instance" in name or "annotate" in name]
    known = "annotate annotate_proba annotate_sets instance_pooling key_instances predict_instances"
    known += " predict_instance_sets predict_proba_instances score_instances"
    assert {name for name in own if name[0] != "_"} == set(known.split())  # a new one belongs above


def test_sorted_rows_are_assigned_as_they_are(table):
    table = table.sort_values("bag", kind="stable", ignore_index=True)
    data = read_bags(table, bag="bag", label="label")
    scores = SingleInstanceClassifier().fit(data.bags, data.y).score_instances(data.bags)
    table["score"] = scores
    assert type(scores) is np.ndarray
    assert np.array_equal(data.bags.in_input_order(scores), table.score)


def test_a_value_per_instance_is_required(table):
    bags = Bags.from_groups(table[["x"]].to_numpy(), table.bag)
    with pytest.raises(InputError, match="instances: give one row per instance"):
        bags.in_input_order(np.zeros(3))
