"""AnnData objects and files: bags of cells, labels and groups from obs."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from bagwise import Bags
from bagwise.exceptions import FileFormatError, InputError
from bagwise.io import read_bags, write_bags

anndata = pytest.importorskip("anndata")


@pytest.fixture(params=["dense", "sparse"])
def cells(request):
    """Cells of six donors in random order, with X, X_pca and a frame in obsm."""
    rng = np.random.default_rng(0)
    donor = rng.permutation(np.repeat([f"d{i}" for i in range(6)], rng.integers(3, 20, 6)))
    obs = pd.DataFrame({"donor": donor, "batch": np.where(donor < "d3", "b0", "b1")})
    obs.index = [f"cell{i}" for i in range(len(obs))]
    obs["disease"] = pd.Categorical(np.where(np.isin(donor, ["d0", "d4"]), "covid", "healthy"))
    counts = rng.poisson(1.0, (len(obs), 7)).astype(np.float32)
    X = counts if request.param == "dense" else sparse.csr_matrix(counts)
    adata = anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=[f"gene{j}" for j in range(7)]))
    adata.obsm["X_pca"] = rng.normal(size=(len(obs), 3))
    adata.obsm["scores"] = pd.DataFrame(counts[:, :2], index=obs.index, columns=["tox", "ifn"])
    return adata


def dense(table):
    return table.toarray() if sparse.issparse(table) else np.asarray(table)


@pytest.mark.parametrize(
    ("use_rep", "names"),
    [(None, ["X_pca_0", "X_pca_1", "X_pca_2"]), ("X", None), ("scores", ["tox", "ifn"])],
)
def test_cells_of_objects_and_files_are_read(cells, tmp_path, use_rep, names):
    path = tmp_path / "cells.h5ad"
    cells.write_h5ad(path)
    names = names or list(cells.var_names)
    table = cells.X if use_rep == "X" else np.asarray(cells.obsm[use_rep or "X_pca"])
    for source in (cells, path):
        data = read_bags(source, bag="donor", label="disease", use_rep=use_rep)
        bags = data.bags
        assert (data.feature_names, bags.is_sparse) == (names, sparse.issparse(table))
        assert bags.ids.tolist() == list(dict.fromkeys(cells.obs.donor))
        assert np.array_equal(bags.in_input_order(dense(bags.instances)), dense(table))
        own = cells.obs.drop_duplicates("donor").set_index("donor")["disease"]
        assert data.y.tolist() == [own[name] for name in bags.ids]


def test_bags_alone_and_their_values_back_to_obs(cells):
    bags = Bags.from_anndata(cells, bag="donor")
    with pytest.raises(InputError, match="in_input_order"):
        cells.obs["first"] = bags.guard(bags.instances[:, 0].copy())
    cells.obs["first"] = bags.in_input_order(bags.instances[:, 0])
    assert np.array_equal(cells.obs["first"], cells.obsm["X_pca"][:, 0])
    assert np.array_equal(Bags.from_anndata(cells[:20], bag="donor").sizes.sum(), 20)  # a view


def test_a_file_larger_than_memory_is_mapped(cells, tmp_path):
    if sparse.issparse(cells.X):
        pytest.skip("sparse cells are read whole")
    cells.write_h5ad(tmp_path / "cells.h5ad")
    bags = read_bags(tmp_path / "cells.h5ad", bag="donor", use_rep="X", memory_limit=64).bags
    assert bags.is_mapped
    assert np.array_equal(bags.in_input_order(np.asarray(bags.instances)), cells.X)


def test_further_columns_and_a_table_of_labels(cells):
    labels = {f"d{i}": i % 2 for i in range(6)}
    data = read_bags(cells, bag="donor", meta="batch", labels=labels)
    own = [labels[name] for name in data.bags.ids]
    assert data.y.tolist() == own
    assert np.array_equal(data.bags.in_input_order(data.meta["batch"]), cells.obs.batch)


def test_what_is_wrong_is_named(cells, tmp_path):
    for given, words in {
        ("bag", "patient"): "no column 'patient'",
        ("use_rep", "X_umap"): "obsm has 'X_pca', 'scores'",
        ("features", "gene1"): "use_rep=",
        ("exclude", ("batch",)): "use_rep=, and leave out features= and exclude=",
        ("label", "batches"): "no column 'batches'",
    }.items():
        with pytest.raises(InputError, match=words):
            read_bags(cells, **{"bag": "donor", given[0]: given[1]})
    with pytest.raises(InputError, match="bag="):
        read_bags(cells)
    pd.DataFrame({"bag": ["a"], "x": [1.0]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="use_rep= is for AnnData"):
        read_bags(tmp_path / "t.csv", use_rep="X")
    with pytest.raises(FileFormatError, match="does not write"):
        write_bags(tmp_path / "c.h5ad", [[[0.0]]])
