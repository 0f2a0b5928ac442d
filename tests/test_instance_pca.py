"""InstancePCA against scikit-learn's PCA, and its laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bagwise._common.tables
from bagwise import Bags
from bagwise._common.tables import is_mapped
from bagwise.compute import blocks
from bagwise.exceptions import InputError
from bagwise.preprocessing import InstancePCA
from bagwise.solvers.principal_components import row_moments
from cases import each
from engine_examples import mapped


def correlated(rng, n=200, d=7, dtype=np.float64):
    """Bags whose features have different means, deviations and correlations."""
    rows = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 10 * rng.normal(size=d)
    return Bags(rows.astype(dtype), np.arange(0, n + 1, 5))


def assert_same_up_to_sign(found, expected, **tolerance):
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found * signs, expected, **tolerance)


@each("standardize", [False, True])
@each("whiten", [False, True])
def test_projections_are_those_of_scikit_learn(rng, monkeypatch, standardize, whiten):
    monkeypatch.setattr(blocks, "BLOCK", 100)
    bags = correlated(rng)
    oracle = PCA(3, whiten=whiten)
    oracle = make_pipeline(StandardScaler(), oracle) if standardize else make_pipeline(oracle)
    expected = oracle.fit_transform(bags.instances)
    pca = InstancePCA(3, standardize=standardize, whiten=whiten)
    assert_same_up_to_sign(pca.fit_transform(bags).instances, expected, atol=1e-9)
    np.testing.assert_allclose(pca.explained_variance_, oracle[-1].explained_variance_)
    np.testing.assert_allclose(pca.explained_variance_ratio_, oracle[-1].explained_variance_ratio_)
    assert_same_up_to_sign(pca.components_.T, oracle[-1].components_.T, atol=1e-9)
    np.testing.assert_array_equal(pca.transform(bags.instances), pca.transform(bags).instances)


def test_single_precision_stays_and_is_summed_in_double(rng, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 100)
    bags = correlated(rng, n=2000, dtype=np.float32)
    found = InstancePCA(3).fit_transform(bags).instances
    assert found.dtype == np.float32
    expected = InstancePCA(3).fit_transform(bags.with_instances(bags.instances.astype(float)))
    assert_same_up_to_sign(found, expected.instances, atol=1e-4)


@pytest.mark.parametrize("kind", ["local", "mapped"])
def test_a_fold_of_a_large_table_is_read_in_blocks(rng, monkeypatch, tmp_path, kind):
    bags = correlated(rng)
    fold = np.sort(rng.permutation(len(bags))[:30])
    expected = InstancePCA(2).fit_transform(bags[fold]).instances
    monkeypatch.setattr(bagwise._common.tables, "COPIED_AT_ONCE", 0)
    monkeypatch.setattr(blocks, "BLOCK", 100)
    chosen = (mapped(bags, tmp_path) if kind == "mapped" else bags)[fold]
    found = InstancePCA(2).fit(chosen).transform(chosen)
    assert not chosen.is_gathered
    assert is_mapped(found.instances) == (kind == "mapped")
    np.testing.assert_allclose(found.instances, expected, atol=1e-9)


def test_moments_of_parts_are_merged(rng):
    bags = correlated(rng)
    whole = row_moments(bags)
    merged = row_moments(bags[:3]).merged(row_moments(bags[3:]))
    assert whole.n == merged.n == 200
    np.testing.assert_allclose(merged.mean, bags.instances.mean(axis=0))
    centred = bags.instances - bags.instances.mean(axis=0)
    np.testing.assert_allclose(merged.scatter, centred.T @ centred)
    np.testing.assert_allclose(whole.scatter, centred.T @ centred)


def test_order_copies_units_and_origin_do_not_matter(rng):
    bags = correlated(rng)
    pca = InstancePCA(3).fit(bags)
    expected = pca.transform(bags).instances
    again = InstancePCA(3).fit(bags[rng.permutation(40)])
    assert_same_up_to_sign(again.transform(bags).instances, expected, atol=1e-9)
    twice = InstancePCA(3).fit(bags[np.repeat(np.arange(40), 2)])
    assert_same_up_to_sign(twice.transform(bags).instances, expected, atol=1e-9)
    other = bags.with_instances(bags.instances * 10.0 ** np.arange(-3, 4) + 5)
    assert_same_up_to_sign(InstancePCA(3).fit_transform(other).instances, expected, atol=1e-7)


@each(
    ("n_bags", "size", "d", "expected"),
    [
        (100, 2, 70, 16),
        (100, 2, 7, 7),
        (20, 10, 70, 10),
        (3, 2, 7, 1),
        (1, 1, 7, 1),
    ],
)
def test_auto_keeps_few_components_of_noise(rng, n_bags, size, d, expected):
    bags = Bags(rng.normal(size=(n_bags * size, d)), np.arange(0, n_bags * size + 1, size))
    assert len(InstancePCA().fit(bags).components_) == expected


@each("standardize", [True, False])
@each(("rank", "n_bags", "expected"), [(25, 200, 25), (25, 30, 15), (80, 200, 64)])
def test_auto_keeps_what_varies_more_than_noise(rng, rank, n_bags, expected, standardize):
    n, d = 20 * n_bags, 400
    directions = np.linalg.qr(rng.normal(size=(d, rank)))[0].T
    rows = 4 * rng.normal(size=(n, rank)) @ directions + rng.normal(size=(n, d))
    bags = Bags(100 * rows, np.arange(0, n + 1, 20))
    pca = InstancePCA(standardize=standardize).fit(bags)
    assert len(pca.components_) == expected
    # Parallel analysis as published: columns permuted, so that they are independent.
    independent = rng.permuted(rows, axis=0)
    of_noise = InstancePCA(1, standardize=standardize).fit(bags.with_instances(100 * independent))
    assert pca.explained_variance_[min(expected, rank) - 1] > of_noise.explained_variance_[0]


def test_a_share_of_the_variance(rng):
    bags = correlated(rng)
    shares = np.cumsum(InstancePCA(7).fit(bags).explained_variance_ratio_)
    for share in (0.3, 0.9, 0.999):
        expected = int(np.argmax(shares >= share)) + 1
        assert len(InstancePCA(share).fit(bags).components_) == expected


def test_more_components_than_there_are_is_refused(rng):
    with pytest.raises(InputError, match=r"n_components=8, but 200 instances of 7 features have 7"):
        InstancePCA(8).fit(correlated(rng))
    with pytest.raises(InputError, match="5 instances of 7 features have 5 components"):
        InstancePCA(6).fit(correlated(rng)[:1])


def test_constant_features_have_no_part(rng):
    bags = correlated(rng, d=3)
    rows = np.column_stack([bags.instances, np.full(200, 0.1), np.zeros(200)])
    pca = InstancePCA(3).fit(bags.with_instances(rows))
    np.testing.assert_allclose(pca.components_[:, 3:], 0, atol=1e-12)
    np.testing.assert_array_equal(pca.scale_[3:], 1)


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 8), st.integers(1, 5)),
        elements=st.floats(-1e60, 1e60, allow_subnormal=False),
    )
)
@settings(deadline=None, max_examples=50)
def test_finite_rows_give_finite_components_or_an_error(rows):
    try:
        found = InstancePCA().fit_transform(Bags(rows, [0, len(rows)])).instances
    except InputError:
        return
    assert np.isfinite(found).all()
    assert 1 <= found.shape[1] <= rows.shape[1]
