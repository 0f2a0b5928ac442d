"""AnnData objects and .h5ad files: cells are instances, and a column of obs names their bag."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bagwise._common.extras import import_extra
from bagwise._common.tables import is_range, slices
from bagwise.bags import Bags
from bagwise.exceptions import InputError
from bagwise.io import _table
from bagwise.io._contents import Contents, find_suspects, group
from bagwise.io._files import Request, Workspace, listed

_USUAL = "X_pca"  # what scanpy uses by default if it exists


def is_anndata(source: Any) -> bool:
    """Tell whether an object is an AnnData object, without importing anndata."""
    return any(base.__module__.partition(".")[0] == "anndata" for base in type(source).__mro__)


def read_h5ad(path: Path, request: Request, workspace: Workspace) -> Contents:
    """Read a .h5ad file; of ``X`` only what is used, a block of rows at a time."""
    adata = import_extra("anndata", extra="cells").read_h5ad(path, backed="r")
    try:
        return read_anndata(adata, request, workspace)
    finally:
        adata.file.close()


def obs_columns(source: Any) -> list[str]:
    """The columns of obs of an AnnData object, or of a .h5ad file."""
    if is_anndata(source):
        return [str(name) for name in source.obs.columns]
    adata = import_extra("anndata", extra="cells").read_h5ad(source, backed="r")
    adata.file.close()
    return [str(name) for name in adata.obs.columns]


def read_anndata(adata: Any, request: Request, workspace: Workspace) -> Contents:
    """Read bags, labels and further columns of obs from an AnnData object."""
    if request.exclude or request.features is not None:
        raise InputError(
            "the features of an AnnData object are one whole table, never columns of obs: name it "
            "with use_rep=, and leave out features= and exclude=."
        )
    obs = _table.open_frame(adata.obs)
    for name in request.beside:
        _table.require_column(obs, name, " in obs")
    request = _table.find_roles(obs, request)
    if request.bag is None:
        raise InputError(f"the bag column is unknown: set bag=. obs has {listed(obs.names)}.")
    rows = group(obs.column(request.bag), request.bag)
    table, names = _features(adata, request.use_rep)
    is_sorted = is_range(rows.order)
    instances = _read(table, workspace, request, None if is_sorted else rows.positions)
    bags = Bags(instances, rows.offsets, rows.ids, feature_names=names)
    contents = Contents(bags if is_sorted else bags.ordered_by(rows.order))
    labels = request.instance_label
    of_instances = None if labels is None else obs.column(labels).take(rows.order)
    _table.label_bags(contents, _table.bag_columns(obs, request, rows), request, of_instances)
    find_suspects(contents, ())
    for name in dict.fromkeys([*request.keep, *request.extra_columns]):
        contents.columns[name] = _table.read_column(obs, name, "all").tolist(rows.order)
    return contents


def _features(adata: Any, use_rep: str | None) -> tuple[Any, list[str]]:
    """The table of features, and the names of its columns."""
    name = use_rep or (_USUAL if _USUAL in adata.obsm else "X")
    if name == "X":
        return adata.X, [str(v) for v in adata.var_names]
    if name not in adata.obsm:
        raise InputError(f"use_rep={name!r}: obsm has {listed(adata.obsm.keys())}; or give 'X'.")
    table = adata.obsm[name]
    columns = getattr(table, "columns", None)
    names = [f"{name}_{j}" for j in range(table.shape[1])] if columns is None else columns
    return table if columns is None else table.to_numpy(), [str(v) for v in names]


def _read(table: Any, workspace: Workspace, request: Request, positions: Any) -> Any:
    """The rows of a table, in the order of the bags; a sparse one is read whole."""
    if not isinstance(table, np.ndarray) and hasattr(table, "to_memory"):  # sparse in a file
        table = table.to_memory()
    if sparse.issparse(table):
        matrix = sparse.csr_array(table)
        matrix = matrix if request.dtype is None else matrix.astype(request.dtype)
        return matrix if positions is None else matrix[np.argsort(positions)]
    if isinstance(table, np.ndarray) and positions is None and request.dtype is None:
        return table
    out = workspace.empty(table.shape, request.dtype or table.dtype)
    batches = slices(table.shape[0], max(1, _table.BLOCK_VALUES // max(table.shape[1], 1)))
    _table.scatter((np.asarray(table[rows]) for rows in batches), out, positions)
    return out
