"""`bagwise.fit`: from a table to a result in one call, the same as the command."""

import numpy as np
import pandas as pd
import pytest

import bagwise
from bagwise import Bags
from bagwise.exceptions import InputError, LabelError
from bagwise.persistence import load_model


@pytest.fixture
def table():
    """Rows of 24 slides of 8 patients in random order; slides with a tumour have larger values."""
    rng = np.random.default_rng(0)
    slides = [f"s{i:02}" for i in range(24)]
    frame = pd.DataFrame({"slide": rng.permutation(np.repeat(slides, 4))})
    number = frame.slide.str[1:].astype(int)
    frame["patient"] = "p" + (number % 8).astype(str)
    frame["tumour"] = np.where(number % 2 == 0, "tumour", "healthy")
    for name in ("red", "green"):
        frame[name] = rng.normal(size=len(frame)) + 2.0 * (frame.tumour == "tumour")
    return frame


FEATURES = ["red", "green"]
COLUMNS = {"bag": "slide", "label": "tumour", "exclude": "patient"}


def first_seen(values):
    return list(dict.fromkeys(values))


def quiet_fit(table, **given):
    return bagwise.fit(table, **{"method": "nsk", "verbose": False} | given)


def test_a_table_is_fitted_and_predicted(table):
    result = quiet_fit(table, **COLUMNS)
    found = result.predict(table)  # with its labels
    assert found.bag.tolist() == first_seen(table.slide)
    assert result.classes == ["healthy", "tumour"]
    assert result.task == "class"
    own = table.drop_duplicates("slide").tumour.tolist()
    assert np.mean(found.predicted == own) > 0.9
    scores = found[["score_healthy", "score_tumour"]].to_numpy()
    assert np.array_equal(np.array(result.classes)[scores.argmax(axis=1)], found.predicted)
    unlabelled = table.drop(columns=["tumour", "patient"])[["green", "slide", "red"]]
    pd.testing.assert_frame_equal(result.predict(unlabelled), found)
    table["tumour"] = "unknown"
    pd.testing.assert_frame_equal(result.predict(table), found)


def test_the_positive_class_may_come_first_by_name(table):
    table["tumour"] = np.where(table.tumour == "tumour", "active", "inactive")
    result = quiet_fit(table, **COLUMNS)
    assert result.classes == ["inactive", "active"]
    found = result.predict(table)
    assert np.array_equal(found.score_active > 0, found.predicted == "active")
    keys = result.key_instances(label="active")
    assert set(keys.label) == {"active"}


def test_key_instances_name_the_row_of_the_table(table):
    result = quiet_fit(table, **COLUMNS, method="misvm-bag")
    for keys in (result.key_instances(), result.key_instances(table), result.predict(table)):
        assert keys.bag.tolist() == first_seen(table.slide)
    keys = result.key_instances(label="tumour")
    chosen = table.loc[keys.row]
    assert chosen.slide.tolist() == keys.bag.tolist()
    rows = Bags.from_arrays(chosen[["red", "green"]].to_numpy()[:, None], feature_names=FEATURES)
    assert np.allclose(result.model.decision_function(rows), keys.key_score)
    with pytest.raises(InputError, match="expected one of healthy, tumour"):
        result.key_instances(label="tumor")


def test_scores_of_instances_are_in_the_rows_of_the_table(table):
    table.index = [f"row {i}" for i in range(len(table))]
    result = quiet_fit(table, **COLUMNS, method="misvm-bag")
    found = result.score_instances(table)
    assert found.index.equals(table.index)
    assert np.array_equal(found.bag, table.slide)
    rows = Bags.from_arrays(table[FEATURES].to_numpy()[:, None], feature_names=FEATURES)
    assert np.allclose(found.score_tumour, result.model.decision_function(rows))
    assert np.array_equal(found.score_healthy, -found.score_tumour)
    table["score"] = found.score_tumour
    best = table.groupby("slide")["score"].max()
    assert best.to_dict() == result.key_instances().set_index("bag").key_score.to_dict()


def test_usual_names_need_no_arguments(table):
    usual = table.rename(columns={"slide": "bag", "patient": "group", "tumour": "label"})
    with_group = bagwise.fit(usual, parameters={"candidates": ["nsk"]}, verbose=False)
    same = quiet_fit(usual)
    named = quiet_fit(table, **COLUMNS)
    one, other = same.predict(usual), named.predict(table)
    both = (frame.drop(columns="like_training") for frame in (one, other))  # one has groups
    pd.testing.assert_frame_equal(*both)
    groups = dict(zip(usual.bag, usual.group, strict=True))
    assert with_group.data.bags.groups.tolist() == [groups[b] for b in with_group.data.bags.ids]
    assert with_group.leaderboard().method.tolist()[-1] == "nsk"


def test_the_command_and_the_function_are_one(table, tmp_path, run):
    pytest.importorskip("skops")
    pytest.importorskip("pyarrow")
    path, model, out = tmp_path / "slides.csv", tmp_path / "m.skops", tmp_path / "out.csv"
    table.to_csv(path, index=False)
    result = quiet_fit(path, **COLUMNS)
    result.save(model)
    columns = ["--bag", "slide", "--label", "tumour", "--exclude", "patient"]
    run.ok("fit", path, *columns, "-m", "nsk", "-o", tmp_path / "n.skops")
    (one, facts), (other, of_command) = load_model(model), load_model(tmp_path / "n.skops")
    assert facts == of_command
    assert np.array_equal(
        one.decision_function(result.data.bags), other.decision_function(result.data.bags)
    )
    run.ok("predict", model, path, "-o", out)
    assert pd.read_csv(out).predicted.tolist() == result.predict(str(path)).predicted.tolist()


def test_frames_of_the_same_library_come_back(table):
    polars = pytest.importorskip("polars")
    found = quiet_fit(polars.from_pandas(table), **COLUMNS).predict(polars.from_pandas(table))
    assert isinstance(found, polars.DataFrame)
    assert found["bag"].to_list() == first_seen(table.slide)


def test_the_task_is_read_from_the_labels(table, capsys):
    number = table.slide.str[1:].astype(float)
    cases = {
        "number": {"target": number + 0.5},
        "grade": {"target": np.array(["low", "mid", "high"])[(number % 3).astype(int)]},
        "set": {"target": np.array(["a;b", "b", ""])[(number % 3).astype(int)]},
    }
    for task, made in cases.items():
        frame = table.drop(columns=["tumour", "patient"]).assign(**made)
        how = (
            {"label_set": "target", "method": "citation-knn"}
            if task == "set"
            else {"label": "target"}
        )
        how |= {"order": ["low", "mid", "high"]} if task == "grade" else {}
        result = quiet_fit(frame, bag="slide", verbose=True, **how)
        assert result.task == task
        assert f"task: {task}" in capsys.readouterr().err
        found = result.predict(frame)
        assert found.bag.tolist() == first_seen(frame.slide)
        wanted = {"number": [], "grade": ["low", "mid", "high"], "set": ["a", "b"]}[task]
        assert [n for n in found.columns if n.startswith("score_")] == [
            f"score_{c}" for c in wanted
        ]


def test_the_report_has_held_out_metrics(table, tmp_path):
    pytest.importorskip("jinja2")
    result = quiet_fit(table, **COLUMNS)
    result.report(tmp_path / "r.html", folds=2)
    assert "2-fold cross-validation" in (tmp_path / "r.html").read_text(encoding="utf-8")
    result.report(tmp_path / "other.html", table)
    assert "nsk on the table" in (tmp_path / "other.html").read_text(encoding="utf-8")


def test_errors_name_arguments_of_python(table):
    for given, words in (
        ({"label": "diagnosis"}, "no column 'diagnosis'"),
        ({"task": "regression"}, "task='regression' needs numbers"),
        ({"pos_label": "tumor"}, "pos_label='tumor': expected one of the labels"),
        ({"parameters": {"c": 1}}, "no parameter 'c'"),
    ):
        with pytest.raises((InputError, LabelError), match=words):
            quiet_fit(table, **{**COLUMNS, "exclude": "patient"} | given)
    with pytest.raises(InputError, match="has no leaderboard"):
        quiet_fit(table, **COLUMNS).leaderboard()
    with pytest.raises(InputError, match="no column 'red'"):
        quiet_fit(table, **COLUMNS).predict(table.drop(columns="red"))


def test_a_list_of_label_columns_is_a_target_of_several_numbers(table):
    sums = table.groupby("slide")[FEATURES].transform("sum")
    table = table.assign(logp=sums.red, size=sums.green)
    result = quiet_fit(
        table, **COLUMNS | {"label": ["logp", "size"], "exclude": ["tumour", "patient"]}
    )
    assert {"predicted_logp", "predicted_size"} <= {*result.predict(table).columns}
    alone = quiet_fit(
        table, **COLUMNS | {"label": "size", "exclude": ["tumour", "patient", "logp"]}
    )
    both, one = result.predict(table).predicted_size, alone.predict(table).predicted
    np.testing.assert_allclose(both, one)
