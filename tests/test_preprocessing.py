import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, PolynomialFeatures, StandardScaler

from bagwise import Bags
from bagwise.classification import SetKernelSVM
from bagwise.exceptions import BagwiseError, LabelError
from bagwise.preprocessing import InstanceTransformer
from checks import example


@pytest.mark.parametrize("inner", [StandardScaler(), PCA(2), MaxAbsScaler(), None])
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


def test_inverse_transform_undoes():
    bags, _ = example()
    scaler = InstanceTransformer(StandardScaler()).fit(bags)
    np.testing.assert_allclose(
        scaler.inverse_transform(scaler.transform(bags)).instances, bags.instances
    )
    assert not hasattr(InstanceTransformer(LinearDiscriminantAnalysis()), "inverse_transform")


def test_labels_of_bags_reach_a_supervised_transformer():
    bags, y = example()
    found = InstanceTransformer(LinearDiscriminantAnalysis()).fit(bags, y)
    expected = LinearDiscriminantAnalysis().fit(bags.instances, y[bags.bag_index])
    np.testing.assert_allclose(found.transformer_.coef_, expected.coef_)
    with pytest.raises(LabelError, match="2 labels for 24 bags"):
        InstanceTransformer(StandardScaler()).fit(bags, y[:2])


def test_gaps_are_filled_inside_a_pipeline():
    bags, y = example()
    table = bags.instances.copy()
    table[3, 1] = np.nan
    gaps = bags.with_instances(table)
    model = make_pipeline(InstanceTransformer(SimpleImputer()), SetKernelSVM()).fit(gaps, y)
    assert model.predict(gaps).shape == (24,)
    with pytest.raises(BagwiseError, match="NaN"):
        InstanceTransformer(PCA()).fit(gaps)


def test_constant_columns_stay_harmless():
    bags, _ = example()
    table = bags.instances.copy()
    table[:, 2] = 0.1
    scaled = InstanceTransformer(StandardScaler()).fit_transform(bags.with_instances(table))
    assert np.abs(scaled.instances[:, 2]).max() < 1e-12


def test_feature_names_follow():
    bags = Bags(np.eye(3), [0, 1, 3], feature_names=["a", "b", "c"])
    assert InstanceTransformer(StandardScaler()).fit_transform(bags).feature_names == [
        "a",
        "b",
        "c",
    ]
    assert InstanceTransformer(PCA(2)).fit_transform(bags).feature_names == ["pca0", "pca1"]


def test_frames_of_a_transformer_become_bags():
    pytest.importorskip("pandas")
    bags = Bags(np.eye(3), [0, 1, 3], feature_names=["a", "b", "c"])
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(InstanceTransformer(StandardScaler()).fit_transform(bags), Bags)


def test_sparse_rows_stay_sparse():
    bags, _ = example()
    rows = bags.with_instances(sparse.csr_array(bags.instances))
    assert sparse.issparse(InstanceTransformer(MaxAbsScaler()).fit_transform(rows).instances)


@pytest.mark.parametrize("inner", [PolynomialFeatures(), MiniBatchKMeans(2, random_state=0)])
def test_transformers_that_write_into_sparse_rows_get_their_own(inner):
    bags, _ = example()
    rows = bags.with_instances(sparse.csr_array(bags.instances))
    assert len(InstanceTransformer(inner).fit_transform(rows)) == len(bags)


def test_a_single_value_is_not_the_labels_of_bags():
    with pytest.raises(LabelError, match="single value"):
        InstanceTransformer(StandardScaler()).fit([[[0.0]], [[1.0]]], "yes")
