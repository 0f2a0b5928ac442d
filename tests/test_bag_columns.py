"""Columns and groups of bags: kept with the bags, in files, and used by everything with folds."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.auto import AutoBagClassifier, AutoBagRegressor
from bagwise.classification import AttentionMIL, BagMarginSVM, SetKernelSVM
from bagwise.datasets import make_bags
from bagwise.embedding import BagStatistics
from bagwise.evaluate import evaluate, held_out_predictions
from bagwise.evaluate._evaluation import make_folds, prepare
from bagwise.exceptions import InputError
from bagwise.io import read_bags, write_bags
from bagwise.persistence import load_model, save_model
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from bagwise.validation import check_groups
from cases import each

AGES, SITES = [61.0, np.nan, 40.0, 35.5], ["Ulm", "Bonn", "Ulm", "Bonn"]
PATIENTS = ["p1", "p2", "p1", "p3"]


def example():
    rows = np.arange(12.0).reshape(6, 2)
    columns = {"age": AGES, "site": SITES, "patient": PATIENTS}
    return Bags(rows, [0, 2, 3, 5, 6], list("abcd"), columns=columns, groups="patient")


def same(bags, columns, group="patient"):
    assert bags.columns.keys() == columns.keys()
    for name, values in columns.items():
        np.testing.assert_array_equal(bags.columns[name], np.asarray(values), err_msg=name)
    assert bags.group_name == group


def test_columns_are_indexed_with_the_bags():
    bags = example()
    assert "columns=['age', 'site', 'patient'], groups='patient'" in repr(bags)
    for key in (slice(1, 3), [2, 0], np.array([True, False, True, False]), np.array([], int)):
        kept = np.arange(4)[key]
        expected = {name: values[kept] for name, values in bags.columns.items()}
        same(bags[key], expected)
        assert len(bags[key].groups) == len(kept)
    same(bags.take([3, 1]), {name: values[[3, 1]] for name, values in bags.columns.items()})
    with pytest.raises(ValueError, match="read-only"):
        bags.columns["age"][0] = 1.0
    with pytest.raises(TypeError):
        bags.columns["age"] = AGES


@each(
    "change",
    [
        lambda bags: bags.with_instances(-bags.instances),
        lambda bags: bags.with_source(bags.source),
        lambda bags: pickle.loads(pickle.dumps(bags)),
        lambda bags: InstanceTransformer(StandardScaler()).fit_transform(bags),
        lambda bags: bags.with_columns(bags.columns, groups="patient"),
        lambda bags: bags.with_columns(pd.DataFrame(dict(bags.columns)), groups="patient"),
    ],
)
def test_columns_survive(change):
    same(change(example()), dict(example().columns))


def test_bags_on_a_device_keep_columns():
    pytest.importorskip("torch")
    same(example().to("cpu"), dict(example().columns))
    same(example().to("cpu").to("numpy"), dict(example().columns))


def test_merged_bags_have_the_common_value():
    bags = example().with_columns({"site": SITES, "patient": PATIENTS}, groups="patient")
    merged = bags.merge("patient")
    assert merged.ids.tolist() == ["p1", "p2", "p3"]
    same(merged, {"site": ["Ulm", "Bonn", "Bonn"], "patient": ["p1", "p2", "p3"]})
    with pytest.raises(InputError, match="'p1' have different values in the column 'age'"):
        example().merge("patient")


@each(
    ("arguments", "message"),
    [
        ({"columns": {"age": [1.0]}}, "'age' has 1 values for 2 bags"),
        ({"columns": [1, 2]}, "columns is list: expected a dict"),
        ({"columns": {"age": [1, 2]}, "groups": "site"}, "there is no such column, only .*'age'"),
        ({"columns": {"group": [1, 2]}, "groups": [1, 1]}, "differ from the column 'group'"),
        ({"groups": [1, 2, 3]}, "'group' has 3 values for 2 bags"),
    ],
)
def test_wrong_columns_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Bags(np.zeros((2, 1)), [0, 1, 2], **arguments)


def test_a_name_without_a_column_is_refused():
    with pytest.raises(InputError, match=r"no column 'sex': there are .*'age'"):
        example().merge("sex")


# Files


@each("name", ["x.npz", "x.parquet", "folder/"])
def test_files_keep_columns(tmp_path, name):
    path = f"{tmp_path}/{name}"
    write_bags(path, example())
    same(read_bags(path).bags, dict(example().columns))
    other = read_bags(path, groups="site").bags
    assert other.groups.tolist() == SITES
    write_bags(f"{tmp_path}/plain.npz", example().with_columns(), force=True)
    assert not read_bags(f"{tmp_path}/plain.npz").bags.columns


def test_a_parquet_row_per_bag_keeps_columns(tmp_path):
    write_bags(tmp_path / "x.parquet", example(), layout="bags")
    same(read_bags(tmp_path / "x.parquet").bags, dict(example().columns))


def test_csv_files_need_the_names(tmp_path):
    write_bags(tmp_path / "x.csv", example())
    names = ["age", "site", "patient"]
    same(
        read_bags(tmp_path / "x.csv", bag_columns=names, groups="patient").bags,
        dict(example().columns),
    )
    with pytest.raises(InputError, match="not numbers: 'site'"):
        read_bags(tmp_path / "x.csv")


def test_columns_of_a_frame_and_of_a_table_beside_it():
    bags = example()
    frame = pd.DataFrame(bags.instances, columns=["u", "v"]).assign(bag=bags.ids[bags.bag_index])
    beside = pd.DataFrame(dict(bags.columns)).assign(bag=bags.ids)
    names = ["age", "site", "patient"]
    found = read_bags(frame, labels=beside[::-1], bag_columns=names, groups="patient").bags
    same(found, dict(bags.columns))
    one = frame.merge(beside, on="bag")
    found = Bags.from_frame(one, bag="bag", bag_columns=["age", "site"], groups="patient")
    same(found, dict(bags.columns))
    assert found.feature_names == ["u", "v"]
    rows = beside.loc[np.repeat(beside.index, 2)].assign(
        text=[f"s{i}" for i in range(2 * len(beside))]
    )
    with pytest.raises(InputError, match=r"'a'.*several values in the column 'text'"):
        read_bags(frame, labels=rows, bag="bag", bag_columns=["age"], meta=["text"])
    kept = read_bags(frame, labels=rows, bag="bag", bag_columns=["age"], meta=["site"]).meta["site"]
    assert kept.tolist() == [dict(beside[["bag", "site"]].to_numpy())[b] for b in frame.bag]
    one.loc[1, "site"] = "Kiel"
    with pytest.raises(InputError, match=r"'a'.*several values in the column 'site'"):
        Bags.from_frame(one, bag="bag", bag_columns=["age", "site"], groups="patient")


# One way to pass groups


@pytest.fixture(scope="module")
def grouped():
    data = make_bags(n_bags=40, n_features=3, random_state=0)
    groups = np.array([f"p{i // 2}" for i in range(40)])
    return data.bags, data.bags.with_columns(groups=groups), data.y, groups


def auto(**options):
    return AutoBagClassifier(candidates=["nsk"], random_state=0, **options)


@each(
    "fit",
    [
        lambda bags, y, **own: auto(cv=3).fit(bags, y, **own).held_out_scores_,
        lambda bags, y, **own: (
            AutoBagRegressor(candidates=["nsk"], cv=3, random_state=0)
            .fit(bags, y.astype(float), **own)
            .held_out_scores_
        ),
        lambda bags, y, **own: evaluate(auto(cv=2), bags, y, cv=2, **own).scores["log loss"],
        lambda bags, y, **own: held_out_predictions(auto(cv=2), bags, y, cv=2, **own).scores,
    ],
)
def test_groups_of_the_bags_are_groups_given(grouped, fit):
    bags, with_groups, y, groups = grouped
    expected = fit(bags, y, groups=groups)
    np.testing.assert_array_equal(fit(with_groups, y), expected)
    np.testing.assert_array_equal(fit(with_groups, y, groups=groups), expected)
    assert not np.array_equal(fit(bags, y), expected)
    with pytest.raises(InputError, match="'p1' for bag 0, which has the group 'p0' itself"):
        fit(with_groups, y, groups=["p1", *groups[1:]])


class Spy(SetKernelSVM):
    """A model that stores the groups of the bags that it sees."""

    seen = []

    def fit(self, X, y):
        Spy.seen.append(set(X.groups.tolist()))
        return super().fit(X, y)


@each("routing", [False, True])
@each("wrapped", [False, True])
def test_folds_of_scikit_learn_keep_groups(grouped, routing, wrapped):
    _, bags, y, groups = grouped
    model, Spy.seen = Spy(), []
    if wrapped:
        model = make_pipeline(InstanceTransformer(StandardScaler()), model)
    with sklearn.config_context(enable_metadata_routing=routing):
        by_group = {"params": {"groups": groups}} if routing else {"groups": groups}
        cross_val_score(model, bags, y, cv=GroupKFold(2), **by_group)
        assert len(Spy.seen) == 2
        assert not Spy.seen[0] & Spy.seen[1]
        # The folds inside auto, in a search: its training part has whole groups only.
        inside = make_bag_pipeline(auto(cv=2)) if wrapped else auto(cv=2)
        search = GridSearchCV(inside, {}, cv=GroupKFold(2)).fit(bags, y, groups=groups)
        found = search.best_estimator_[-1] if wrapped else search.best_estimator_
        assert sorted(found.held_out_groups_) == sorted(groups)


def test_routed_groups_still_work(grouped):
    plain, bags, y, groups = grouped
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(InstanceTransformer(StandardScaler()), auto(cv=2))
        model[-1].set_fit_request(groups=True)
        model.fit(plain, y, groups=groups)
    expected = make_pipeline(InstanceTransformer(StandardScaler()), auto(cv=2)).fit(bags, y)
    np.testing.assert_array_equal(model[-1].held_out_scores_, expected[-1].held_out_scores_)


def test_folds_and_thresholds_do_not_divide_groups(grouped):
    _, bags, y, groups = grouped
    prepared = prepare(bags, y, 4, None)
    for found, own in zip(prepared.folds, make_folds(y, n_folds=4, groups=groups), strict=True):
        np.testing.assert_array_equal(found[1], own[1])
    assert check_groups(None, bags) is bags
    # Copies of bags in one group: held out together, a copy says nothing about its twin.
    doubled = np.repeat(np.arange(40), 2)
    twins = bags[doubled].with_columns(groups=doubled)
    model = BagMarginSVM(kernel="rbf", gamma=5.0, C=100.0, threshold="out_of_fold")
    together = model.fit(twins, y[doubled]).intercept_
    apart = model.fit(bags[doubled].with_columns(), y[doubled]).intercept_
    training = model.set_params(threshold="training").fit(twins, y[doubled]).intercept_
    assert abs(apart - training) < abs(together - training)


# Models that use columns


def informative():
    """Bags whose instances say nothing; age and site do."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    age = np.where(rng.random(40) < 0.1, np.nan, 60 + 10 * y + rng.normal(size=40))
    site = np.where(rng.random(40) < 0.8, np.array(["Bonn", "Ulm"])[y], "Kiel").astype(object)
    site[3] = None
    columns = {"age": age, "site": site, "empty": np.full(40, np.nan)}
    bags = Bags(rng.normal(size=(80, 2)), 2 * np.arange(41), columns=columns)
    return bags, y


def test_columns_become_numbers():
    bags, _ = informative()
    plain = BagStatistics(("mean",)).fit_transform(bags)
    model = BagStatistics(("mean",), use_columns=["age", "site"]).fit(bags)
    assert model.get_feature_names_out()[2:].tolist() == [
        "age",
        "site_Bonn",
        "site_Kiel",
        "site_Ulm",
    ]
    found = model.transform(bags)
    np.testing.assert_array_equal(found[:, :2], plain)
    age = bags.columns["age"]
    known = np.isfinite(age)
    expected = (age[known] - age[known].mean()) / age[known].std()
    np.testing.assert_allclose(found[known, 2], expected)
    np.testing.assert_array_equal(found[~known, 2], 0)
    sites = np.array(["Bonn", "Kiel", "Ulm"])
    np.testing.assert_array_equal(found[:, 3:], bags.columns["site"][:, None] == sites)
    new = bags[:2].with_columns({"age": [1.0, 2.0], "site": ["Bonn", "Rom"]})
    np.testing.assert_array_equal(model.transform(new)[:, 3:], [[1, 0, 0], [0, 0, 0]])
    with pytest.raises(InputError, match="have no column 'age'"):
        model.transform(bags.with_columns())
    with pytest.raises(InputError, match="'empty' has no value"):
        BagStatistics(use_columns="empty").fit(bags)
    with pytest.raises(InputError, match=r"use_columns is \[\]: expected names"):
        BagStatistics(use_columns=[]).fit(bags)


@pytest.mark.slow
@each("sets", [False, True])
@pytest.mark.filterwarnings("ignore:AutoBagClassifier learned nothing")  # without columns
def test_the_ensemble_uses_columns_where_it_is_told_to(sets, tmp_path):
    bags, y = informative()
    target = np.column_stack([y, 1 - y]) if sets else y
    names = ["columns", "pooled-trees", "nsk (random Fourier)" if sets else "nsk"]
    model = AutoBagClassifier(candidates=names, use_columns=["age", "site"], random_state=0)
    model.fit(bags, target)
    alone = AutoBagClassifier(candidates=names[1:], random_state=0).fit(bags, target)
    assert model.held_out_scores_[model.held_out_targets_ == 1].mean() > 2
    assert alone.held_out_scores_[alone.held_out_targets_ == 1].mean() < 1
    pytest.importorskip("skops")
    save_model(model, tmp_path / "model.skops", force=True)
    again, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.decision_function(bags), model.decision_function(bags))


def test_attention_uses_columns(tmp_path):
    pytest.importorskip("torch")
    bags, y = informative()
    model = AttentionMIL(n_models=2, use_columns=["age", "site"], random_state=0).fit(bags, y)
    assert model.n_features_in_ == 2
    assert model.score(bags, y) > 0.9
    assert model.attention(bags).shape == (80,)
    with pytest.raises(InputError, match="have no column 'age'"):
        model.predict(bags.with_columns())
