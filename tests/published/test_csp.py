"""CSP as printed: Algorithm 1 of Pei and Fern (2014) and its rivals, transcribed from the paper."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from bagwise.published import csp

TIGHT = 1e-13


def drawn(seed=0, n_bags=30, unlabelled=3):
    """Bags of one to four instances of three classes; some bags have no label set."""
    rng = np.random.RandomState(seed)
    bags, sets = [], []
    for n in rng.randint(1, 5, size=n_bags):
        classes = rng.randint(3, size=n)
        bags.append(rng.standard_normal((n, 2)) + 2.5 * np.eye(3)[classes][:, :2])
        sets.append(set(classes.tolist()))
    for i in range(unlabelled):
        sets[i] = None
    return bags, sets


def printed_matrices(bags, sets, n_classes=3):
    """W, Y and B."""
    X = np.concatenate(bags)
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    sigma = np.sort(distances, axis=1)[:, 7]  # an instance is at distance 0 of itself
    W = np.exp(-(distances**2) / (2 * np.outer(sigma, sigma)))
    Y = np.zeros((n_classes, len(bags)))
    for i, labels in enumerate(sets):
        for c in labels or ():
            Y[c, i] = 1 / len(labels)
    B = np.repeat(np.eye(len(bags)), [len(bag) for bag in bags], axis=0)
    return W, Y, B


def links(sets, B):
    """Must-links and cannot-links of Table 1, as N x N arrays."""
    M = len(sets)
    must, cannot = np.zeros((2, M, M))
    for i in range(M):
        for j in range(M):
            if sets[i] is not None and sets[j] is not None:
                must[i, j] = sets[i] == sets[j] and len(sets[i]) == 1
                cannot[i, j] = not sets[i] & sets[j]
    return B @ must @ B.T > 0, B @ cannot @ B.T > 0


def matrix(bags, sets, variant, alpha=0.7, sign=1):
    """The matrix whose leading eigenvectors are used."""
    W, Y, B = printed_matrices(bags, sets)
    mu = (Y.T @ Y).sum() / len(bags) ** 2
    Q = B @ (Y.T @ Y - sign * mu * np.eye(len(bags))) @ B.T  # Eq. 12
    must, cannot = links(sets, B)
    root = np.diag(W.sum(axis=1) ** -0.5)
    if variant == "csp-rac":
        return W + alpha * Q
    if variant == "w.o. clml":
        Q = np.where(must | cannot, 0.0, Q)
    if variant in ("csp", "w.o. clml"):
        return root @ (W + alpha * Q) @ root  # step 3
    if variant == "splearn":
        W = np.where(must, 1.0, np.where(cannot, 0.0, W))
        largest = W.sum(axis=1).max()
        return (W + largest * np.eye(len(W)) - np.diag(W.sum(axis=1))) / largest
    share = must / np.maximum(must.sum(axis=1), 1)[:, None]
    return root @ W @ root + 20 * (share - np.diag(share.sum(axis=1)))


def rows(bags, sets, K, variant="csp", **options):
    """Steps 4 and 5: leading eigenvectors, rows of length 1."""
    V = np.linalg.eigh(matrix(bags, sets, variant, **options))[1][:, ::-1][:, :K]
    return V / np.sqrt((V**2).sum(axis=1, keepdims=True))


def products(embedding):
    """Inner products of the rows: equal for all bases of the same space."""
    return embedding @ embedding.T


@pytest.mark.parametrize("variant", ["csp", "csp-rac", "w.o. clml", "splearn", "spreg"])
def test_the_eigenvectors_are_those_of_the_paper(variant):
    for seed in range(3):
        bags, sets = drawn(seed)
        model = csp(3, variant=variant, tol=TIGHT, random_state=0).fit(bags, sets)
        printed = rows(bags, sets, 3, variant)
        np.testing.assert_allclose(products(model.embedding_), products(printed), atol=1e-8)
        values = np.linalg.eigvalsh(matrix(bags, sets, variant))[::-1][:3]
        np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-10)


def test_the_clusters_are_those_of_k_means():
    from sklearn.cluster import KMeans

    bags, sets = drawn(4)
    model = csp(3, tol=TIGHT, random_state=0).fit(bags, sets)
    found = KMeans(3, n_init=20, tol=TIGHT, random_state=0).fit_predict(
        rows(bags, sets, 3)
    )  # step 6
    assert adjusted_rand_score(model.labels_, found) == 1.0


def test_alpha_zero_is_plain_spectral_clustering():
    bags, sets = drawn(5)
    model = csp(3, alpha=0.0, tol=TIGHT, random_state=0).fit(bags, sets)
    printed = rows(bags, sets, 3, alpha=0.0)
    np.testing.assert_allclose(products(model.embedding_), products(printed), atol=1e-8)


def test_a_changed_sign_is_noticed():
    bags, sets = drawn()
    printed = rows(bags, sets, 3, sign=-1)
    model = csp(3, tol=TIGHT, random_state=0).fit(bags, sets)
    assert np.abs(products(model.embedding_) - products(printed)).max() > 1e-3


def test_with_more_clusters_than_classes_there_are_no_must_links():
    bags, sets = drawn(6)
    model = csp(4, variant="spreg", tol=TIGHT, random_state=0).fit(bags, sets)
    plain = csp(4, alpha=0.0, tol=TIGHT, random_state=0).fit(bags, sets)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-10)
