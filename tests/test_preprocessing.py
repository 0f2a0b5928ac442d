import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    PolynomialFeatures,
    StandardScaler,
)

from bagwise import Bags
from bagwise.classification import CitationKNN
from bagwise.embedding import BagStatistics
from bagwise.exceptions import InputError, LabelError
from bagwise.preprocessing import InstancePCA, InstanceTransformer, make_bag_pipeline
from bagwise.preprocessing._bag_pipeline import instance_scaler
from cases import covering, each
from checks import example


@each("inner", [StandardScaler(), PCA(2), MaxAbsScaler(), None])
def test_rows_are_transformed_as_the_transformer_would(inner):
    bags, _ = example()
    found = InstanceTransformer(inner).fit_transform(bags)
    rows = bags.instances if inner is None else inner.fit_transform(bags.instances)
    np.testing.assert_allclose(found.instances, rows)
    np.testing.assert_array_equal(found.offsets, bags.offsets)
    assert found.ids.tolist() == bags.ids.tolist()


def test_a_table_stays_a_table(rng):
    X = rng.normal(size=(6, 2))
    assert isinstance(InstanceTransformer(StandardScaler()).fit_transform(X), np.ndarray)
    assert isinstance(InstanceTransformer().fit_transform(X[:, None, :]), Bags)
    assert isinstance(InstanceTransformer().fit_transform([X[:3], X[3:]]), Bags)


def test_labels_of_bags_reach_a_supervised_transformer():
    bags, y = example()
    found = InstanceTransformer(LinearDiscriminantAnalysis()).fit(bags, y)
    expected = LinearDiscriminantAnalysis().fit(bags.instances, y[bags.bag_index])
    np.testing.assert_allclose(found.transformer_.coef_, expected.coef_)
    with pytest.raises(LabelError, match="2 labels for 24 bags"):
        InstanceTransformer(StandardScaler()).fit(bags, y[:2])


@covering(
    dtype=[np.float64, np.float32],
    table=[np.asarray, sparse.csr_array],
    value=[1e8, -3.7e-3, 0.1, 12345.678, 0.0],
)
def test_columns_that_differ_by_rounding_are_not_divided_by_it(value, table, dtype):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3)).astype(dtype)
    constant = np.full(300, value, dtype)
    steps = rng.integers(-1, 2, 300)  # one unit in the last place, up or down
    beside = np.nextafter(constant, np.where(steps > 0, np.inf, -np.inf).astype(dtype))
    rows[:, 1] = np.where(steps == 0, constant, beside)
    scaler = StandardScaler(with_mean=table is np.asarray)
    bags = Bags(table(rows), [0, 100, 300])
    found = InstanceTransformer(scaler).fit(bags).transformer_
    expected = rows.astype(float).std(axis=0)
    assert found.scale_[1] == 1
    np.testing.assert_allclose(found.scale_[[0, 2]], expected[[0, 2]], rtol=1e-6)


def test_a_small_spread_is_no_rounding():
    rows = np.array([[1e6], [1e6 + 1e-3], [1e6 - 1e-3]])
    found = InstanceTransformer(StandardScaler()).fit(Bags(rows, [0, 1, 3])).transformer_
    assert found.scale_[0] == pytest.approx(rows.std(), rel=1e-6)


@each("table", [np.asarray, sparse.csr_array])
def test_values_are_clipped_where_asked(table):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 3))
    rows[:, 1] *= 1e-6
    new = rows[:4].copy()
    new[2, 1], new[3, 1] = 1.0, -1.0
    bags = Bags(table(rows), [0, 20, 50])
    scaler = StandardScaler(with_mean=table is np.asarray)
    plain = InstanceTransformer(scaler).fit(bags).transform(table(new))
    found = InstanceTransformer(scaler, clip=10).fit(bags).transform(table(new))
    if table is sparse.csr_array:
        plain, found = plain.toarray(), found.toarray()
    assert np.abs(plain).max() > 1e5
    np.testing.assert_array_equal(found, np.clip(plain, -10, 10))


def test_the_command_line_clips_at_ten_deviations():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    scaler = instance_scaler(sparse=False).fit(rows)
    assert scaler.transform(np.array([[1e9, -1e9]])).tolist() == [[10.0, -10.0]]


def test_feature_names_follow():
    bags = Bags(np.eye(3), [0, 1, 3], feature_names=["a", "b", "c"])
    assert InstanceTransformer(StandardScaler()).fit_transform(bags).feature_names == [
        "a",
        "b",
        "c",
    ]
    assert InstanceTransformer(PCA(2)).fit_transform(bags).feature_names == ["pca0", "pca1"]


@each("step", [InstanceTransformer(StandardScaler()), InstancePCA(2)])
def test_a_pipeline_may_return_data_frames(step):
    pytest.importorskip("pandas")
    bags, y = example()
    pipeline = make_pipeline(step, BagStatistics()).set_output(transform="pandas")
    assert pipeline.fit_transform(bags, y).columns[0].startswith("mean_")
    assert isinstance(step.set_output(transform="pandas").fit_transform(bags), Bags)


def test_a_transformer_that_drops_rows_is_refused():
    bags, _ = example()
    drop = InstanceTransformer(FunctionTransformer(lambda rows: rows[1:]))
    n = bags.n_instances
    with pytest.raises(InputError, match=f"FunctionTransformer returned {n - 1} rows for {n} inst"):
        drop.fit_transform(bags)


@each("inner", [PolynomialFeatures(), MiniBatchKMeans(2, random_state=0)])
def test_transformers_that_write_into_sparse_rows_get_their_own(inner):
    bags, _ = example()
    rows = bags.with_instances(sparse.csr_array(bags.instances))
    assert len(InstanceTransformer(inner).fit_transform(rows)) == len(bags)


TAKE_NAN = {
    "imputer": SimpleImputer(),
    "scaler": StandardScaler(),
    "imputer first": make_pipeline(SimpleImputer(), StandardScaler(), PCA(1)),
    "scaler, then imputer": make_pipeline("passthrough", StandardScaler(), SimpleImputer(), PCA(1)),
    "nested": make_pipeline(make_pipeline(SimpleImputer(strategy="median")), PCA(1)),
    "union": FeatureUnion([("a", SimpleImputer()), ("b", make_pipeline(SimpleImputer(), PCA(1)))]),
    "columns": ColumnTransformer([("a", SimpleImputer(), [0]), ("b", StandardScaler(), [1])]),
}
REFUSE_NAN = {
    "none": None,
    "pca": PCA(1),
    "scaler, then pca": make_pipeline(StandardScaler(), PCA(1)),
    "imputer last": make_pipeline(PCA(1), SimpleImputer()),
    "union": FeatureUnion([("a", SimpleImputer()), ("b", PCA(1))]),
}


@each("name", TAKE_NAN)
def test_a_transformer_that_takes_missing_values_gets_them(rng, name):
    X = rng.normal(size=(9, 2))
    X[[0, 4], [1, 0]] = np.nan
    bags, inner = Bags(X, [0, 4, 9]), TAKE_NAN[name]
    found = InstanceTransformer(inner).fit_transform(bags)
    np.testing.assert_allclose(found.instances, clone(inner).fit_transform(X), atol=1e-9)
    assert found.offsets.tolist() == [0, 4, 9]
    alone = InstanceTransformer(inner).fit(bags).transform(bags[[1]])
    np.testing.assert_allclose(alone.instances, clone(inner).fit(X).transform(X[4:]), atol=1e-9)


@each("name", REFUSE_NAN)
def test_missing_values_are_refused_before_a_transformer_that_refuses_them(rng, name):
    X = rng.normal(size=(9, 2))
    whole = Bags(X.copy(), [0, 4, 9])
    X[4, 0] = np.nan
    bags = Bags(X, [0, 4, 9])
    transformer = InstanceTransformer(REFUSE_NAN[name])
    with pytest.raises(InputError, match="bag 1"):
        transformer.fit(bags)
    with pytest.raises(InputError, match="bag 1"):
        transformer.fit(whole).transform(bags)


def test_an_imputer_before_a_model_makes_cross_validation_possible(rng):
    X = rng.normal(size=(40, 3)) + np.repeat([0.0, 2.0], 20)[:, None]
    X[rng.random(X.shape) < 0.2] = np.nan
    bags, y = Bags(X, np.arange(0, 41, 2)), np.repeat([0, 1], 10)
    filled = make_bag_pipeline(InstanceTransformer(SimpleImputer()), CitationKNN())
    assert cross_val_score(filled, bags, y, cv=5).mean() > 0.8
    with pytest.raises(InputError, match="NaN"):
        CitationKNN().fit(bags, y)


@each("strategy", ["mean", "median"])
@each("keep_empty", [True, False])
def test_an_imputer_reads_a_mapped_table_in_blocks(
    rng, tmp_path, monkeypatch, strategy, keep_empty
):
    X = rng.normal(size=(50, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 2] = np.nan
    mapped = np.memmap(tmp_path / "table", np.float32, "w+", shape=X.shape)
    mapped[:] = X
    monkeypatch.setattr("bagwise.compute.blocks.BLOCK", 12, raising=False)
    imputer = SimpleImputer(strategy=strategy, keep_empty_features=keep_empty)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a feature without any value
        bags = Bags(mapped, np.arange(0, 51, 5))
        found = InstanceTransformer(imputer).fit(bags)
        own = clone(imputer).fit(X)
        np.testing.assert_allclose(found.transformer_.statistics_, own.statistics_, rtol=1e-6)
        filled, expected = found.transform(bags), own.transform(X)
    np.testing.assert_allclose(filled.instances, expected, rtol=1e-6)
    assert np.isnan(mapped).any()


@each("inner", [make_pipeline(PCA(2)), FeatureUnion([("pca", PCA(2))])])
def test_single_precision_far_from_zero_loses_no_digits_in_a_composite(rng, inner):
    X = (rng.normal(size=(60, 3)) * [4, 2, 1] + 1e5).astype(np.float32)
    found = InstanceTransformer(inner).fit_transform(Bags(X, [0, 20, 60]))
    expected = PCA(2).fit_transform(X.astype(np.float64))
    np.testing.assert_allclose(found.instances, expected, atol=1e-4)
