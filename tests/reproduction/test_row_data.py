"""Rows of the data home, if available: published counts and known pitfalls."""

import numpy as np
import pytest

from bagwise.exceptions import DataNotFoundError, FileFormatError
from cases import each
from reproduction import row_data


def load(name, **options):
    family, _, member = name.partition("_")
    loader = getattr(row_data, f"load_{family}")
    try:
        return loader(member, **options)
    except DataNotFoundError as error:
        pytest.skip(str(error))


@each(("name", "info"), [(n, i) for n, i in row_data._known().items() if i.found and not i.n_bags])
def test_what_is_loaded_is_what_is_listed(name, info):
    data = row_data.load_isolet() if name == "isolet" else load(name)
    assert data.X.shape == (info.n_instances, info.n_features)
    assert len(data.classes) == info.n_classes
    assert data.y.shape == (data.X.shape[0],)
    assert data.y.min() >= -1
    assert data.y.max() == len(data.classes) - 1
    assert data.feature_names is None or len(data.feature_names) == data.X.shape[1]
    assert info.licence in data.DESCR


@each("change", [{"y": np.zeros(2, "i1")}, {"X": np.zeros(3)}, {"y": np.zeros(3)}])
def test_rows_that_do_not_fit(tmp_path, monkeypatch, change):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    arrays = {"X": np.zeros((3, 617)), "y": np.zeros(3, "i1")}
    np.savez(tmp_path / "isolet_1560.npz", **{**arrays, **change})
    with pytest.raises(FileFormatError, match=r"isolet_1560\.npz"):
        row_data.load_isolet()


@pytest.mark.parametrize("name", ["digit1", "g241c", "coil", "bci", "text", "usps"])
def test_ssl_splits(name):
    data = load(f"ssl_{name}")
    assert sorted(data.labeled) == [10, 100]
    for n, splits in data.labeled.items():
        assert splits.shape == (12, n)
        for rows in splits:
            assert len(np.unique(rows)) == n
            assert rows.min() >= 0
            assert rows.max() < len(data.y)
            assert set(data.y[rows]) == set(data.classes)  # every class has a labelled row


def test_secstr_one_hot():
    symbols, binary = load("ssl_secstr"), load("ssl_secstr", one_hot=True)
    assert binary.X.shape == (83679, 315)
    assert binary.X.sum() == 15 * 83679
    row = binary.X[[7]].toarray().reshape(15, 21)
    assert np.array_equal(row.argmax(axis=1), symbols.X[7])


@pytest.mark.parametrize(
    ("name", "width"),
    [("australian", 38), ("credit_a", 42), ("german", 59), ("haberman", 14), ("kr_vs_kp", 39)],
)
def test_uci_one_hot_columns_are_what_their_names_say(name, width):
    plain, expanded = load(f"uci_{name}"), load(f"uci_{name}", one_hot=True)
    assert expanded.X.shape == (len(plain.y), width) == (len(plain.y), len(expanded.feature_names))
    columns = dict(zip(plain.feature_names, plain.X.T, strict=True))
    for feature, column in zip(expanded.feature_names, expanded.X.T, strict=True):
        source, _, value = feature.partition("=")
        expected = columns[source]
        if value:
            expected = np.where(np.isnan(expected), np.nan, expected == int(value))
        assert np.array_equal(column, expected, equal_nan=True), feature


@pytest.mark.parametrize(
    ("name", "n_missing"), [("credit_a", 67), ("echocardiogram", 48), ("house_votes", 392)]
)
def test_missing_values_are_left_missing(name, n_missing):
    assert np.isnan(load(f"uci_{name}").X).sum() == n_missing
