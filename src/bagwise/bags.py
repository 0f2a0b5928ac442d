"""Bags: one table of instances plus offsets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType, ModuleType
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from bagwise._common.tables import (
    InBagOrder,
    Instances,
    Source,
    StreamedTable,
    checked_table,
    is_range,
    is_tensor,
    read_only,
)
from bagwise._common.types import Array, Ints
from bagwise.exceptions import InputError
from bagwise.labels import is_missing, plain_array, refuse_masked, short_list

__all__ = ["Bags"]

# Where instances are in the table of the user: ``rows[order]`` is sorted by bag (None if the rows
# already were), the first sorted row of each bag, and the number of rows of the table.
Origin: TypeAlias = tuple[Ints | None, Ints, int]


_INDEXING = "bags are indexed by position, with an int, a slice, a mask or an index array"


class Bags:
    """Bags of instances: a flat table of instances and the offset of each bag.

    Bag ``i`` consists of the rows ``offsets[i]:offsets[i + 1]`` of `instances`. Nothing is padded,
    and slices are views. scikit-learn's splitters, searches and meta-estimators index `Bags` as
    they index an array: one row is one bag. A selection of bags from a large table, such as a fold,
    refers to the rows of the table. Its `instances` are gathered on first use; rows of a
    memory-mapped file are gathered in a temporary file, never in memory.

    Parameters
    ----------
    instances : array-like or CSR of shape (n_instances, n_features)
        The instances of all bags, bag after bag: an array, a memory map or a sparse matrix.
        Kept without a copy, as a read-only view.
    offsets : array-like of shape (n_bags + 1,)
        The first row of each bag, and the end of the last one; starts at 0, never decreases.
    ids : sequence of shape (n_bags,), default=None
        A name for each bag (a slide, a recording, a molecule); kept through indexing and shown
        in error messages.
    feature_names : sequence of str of shape (n_features,), default=None
        Names of the columns of `instances`; by default the columns of a data frame.
    columns : mapping of str to sequence of shape (n_bags,), or data frame, default=None
        What is known of each bag besides its instances, such as the age of a patient; kept through
        indexing. Models use the columns that they are told to (``use_columns=``).
    groups : sequence of shape (n_bags,), or str, default=None
        The group of each bag, such as its patient, or the name of one of `columns`. Everything that
        makes folds keeps the bags of a group together. A sequence becomes the column "group".

    See Also
    --------
    Bags.from_arrays : From one array per bag.
    Bags.from_groups : From a table of instances and the bag of each row.
    Bags.from_frame : From a data frame with a bag column.
    Bags.from_anndata : From an AnnData object of cells.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> bags = Bags.from_arrays([np.zeros((2, 3)), np.ones((1, 3))], ids=["a", "b"])
    >>> bags
    Bags(n_bags=2, n_instances=3, n_features=3, dtype=float64)
    >>> bags[1]
    array([[1., 1., 1.]])
    >>> bags[[1, 0]].ids
    array(['b', 'a'], dtype='<U1')
    """

    _is_validated = False  # whether `check_bags` accepted the values, and no one else has them
    _origin: Origin | None = None  # None if the instances are the rows of the user, in order
    _shared: Any = None  # by selections of the same bags, see `with_shared_distances`
    _columns: Mapping[str, Array] = MappingProxyType({})
    _group: str | None = None

    def __init__(
        self,
        instances: Any,
        offsets: ArrayLike,
        ids: Sequence[Hashable] | Array | None = None,
        *,
        feature_names: Sequence[str] | Array | None = None,
        columns: Any = None,
        groups: Any = None,
    ) -> None:
        table = read_only(checked_table(instances))
        if feature_names is None and not isinstance(instances, np.ndarray):
            feature_names = _columns_of(instances)
        self._source = Source(table, read_only(_checked_offsets(offsets, table.shape[0])))
        self._ids = None if ids is None else read_only(_one_dimensional(ids))
        self._feature_names = None if feature_names is None else _texts(feature_names)
        if self._ids is not None and len(self._ids) != len(self):
            raise InputError(f"{len(self._ids)} ids for {len(self)} bags: give one each.")
        if self._feature_names is not None and len(self._feature_names) != self.n_features:
            raise InputError(
                f"{len(self._feature_names)} feature names for {self.n_features} features."
            )
        if columns is not None or groups is not None:
            self._columns, self._group = _checked_columns(columns, groups, self)

    @classmethod
    def from_arrays(
        cls,
        arrays: Any,
        ids: Sequence[Hashable] | Array | None = None,
        *,
        feature_names: Sequence[str] | None = None,
        columns: Any = None,
        groups: Any = None,
    ) -> Bags:
        """Make bags from one 2-D array (or sparse matrix) per bag, or from a 3-D array.

        A 3-D array (bags of one size) is used as it is; a list of arrays is stacked once.

        Parameters
        ----------
        arrays : sequence of 2-D array-likes, or 3-D array
            The instances of each bag; all of the same width. Data frames (pandas, polars, pyarrow)
            have the same columns in the same order.
        ids : sequence, default=None
            A name for each bag.
        feature_names : sequence of str, default=None
            Names of the columns; by default the columns of data frames.
        columns, groups : default=None
            As for `Bags`.

        Returns
        -------
        Bags

        Examples
        --------
        >>> import numpy as np
        >>> from bagwise import Bags
        >>> Bags.from_arrays(np.zeros((5, 2, 3)))
        Bags(n_bags=5, n_instances=10, n_features=3, dtype=float64)
        """
        about: Any = {"columns": columns, "groups": groups}
        if isinstance(arrays, np.ndarray) and arrays.ndim == 3:
            n_bags, size, n_features = arrays.shape
            flat = arrays.reshape(n_bags * size, n_features)
            bounds = size * np.arange(n_bags + 1)
            return cls(flat, bounds, ids, feature_names=feature_names, **about)
        is_frame = hasattr(arrays, "columns") or type(arrays).__name__.endswith("GroupBy")
        is_one = isinstance(arrays, Mapping | str | bytes) or not isinstance(arrays, Iterable)
        if is_frame or is_one:
            raise InputError(
                f"expected a sequence of 2-D arrays, got {type(arrays).__name__}: use "
                "Bags.from_frame(df, bag=...), or Bags.from_arrays(d.values(), ids=list(d))."
            )
        ids = None if ids is None else _one_dimensional(ids)
        arrays = list(arrays)
        tables = [checked_table(bag, f"{_bag_name(i, ids)} has") for i, bag in enumerate(arrays)]
        if not tables:
            raise InputError("no bags were given: expected at least one 2-D array.")
        width = tables[0].shape[1]
        for i, table in enumerate(tables):
            if table.shape[1] != width:
                raise InputError(
                    f"{_bag_name(i, ids)} has {table.shape[1]} features, while "
                    f"{_bag_name(0, ids)} has {width}: all bags need the same columns."
                )
        names = _common_columns(arrays, ids)
        feature_names = names if feature_names is None else feature_names
        kinds = {sparse.issparse(table) for table in tables}
        if len(kinds) == 2:
            raise InputError("some bags are sparse and the others dense: give one kind.")
        stack = sparse.vstack(tables, format="csr") if True in kinds else np.concatenate(tables)
        offsets = offsets_of([table.shape[0] for table in tables])
        return cls(stack, offsets, ids, feature_names=feature_names, **about)

    @classmethod
    def from_groups(
        cls, X: Any, groups: ArrayLike, *, feature_names: Sequence[str] | None = None
    ) -> Bags:
        """Make bags from a table of instances and the bag each row belongs to.

        Rows may be in any order: bags appear in the order of their first row, and rows keep
        their order inside a bag. If the rows are already sorted by bag, they are not copied.
        `in_input_order` brings values of the instances back to the order of the rows.

        Parameters
        ----------
        X : array-like, data frame or sparse of shape (n_instances, n_features)
            The instances.
        groups : array-like of shape (n_instances,)
            The bag of each row; its distinct values become `ids`.
        feature_names : sequence of str, default=None
            Names of the columns; by default the columns of a data frame.

        Returns
        -------
        Bags

        Examples
        --------
        >>> from bagwise import Bags
        >>> bags = Bags.from_groups([[1.0], [2.0], [3.0]], ["b", "a", "b"])
        >>> bags.ids.tolist(), bags[0].tolist()
        (['b', 'a'], [[1.0], [3.0]])
        """
        instances = checked_table(X)
        if feature_names is None:
            feature_names = _columns_of(X)
        order, offsets, ids = group_rows(groups)
        if len(order) != instances.shape[0]:
            raise InputError(f"groups has {len(order)} entries for {instances.shape[0]} instances.")
        if is_range(order):
            return cls(instances, offsets, ids, feature_names=feature_names)
        return cls(instances[order], offsets, ids, feature_names=feature_names).ordered_by(order)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        bag: str,
        features: Sequence[str] | None = None,
        *,
        bag_columns: Sequence[str] = (),
        groups: str | None = None,
    ) -> Bags:
        """Make bags from a data frame (pandas, polars, pyarrow) with one row per instance.

        Parameters
        ----------
        frame : data frame
            One row per instance.
        bag : str
            The column with the bag of each row.
        features : sequence of str, default=None
            The feature columns. By default all columns except `bag`, columns called ``label``,
            ``label_set`` or ``instance_label``, ids (``patch_id``, ``index``) and the times of
            clips (``start``, ``end``). Ids and times are recognised by their names and values.
            Leave other columns of labels out: a model would learn from them.
        bag_columns : sequence of str, default=()
            Columns with one value per bag, which become `columns`: never features.
        groups : str, default=None
            The column with the group of each bag, such as its patient.

        Returns
        -------
        Bags

        Warns
        -----
        DataWarning
            Without `features`: about columns that are left out, and about columns that, like
            labels, are constant within every bag and differ between bags.

        See Also
        --------
        bagwise.io.read_bags : Bags together with labels, from a frame or a file.

        Examples
        --------
        >>> import pandas as pd
        >>> from bagwise import Bags
        >>> frame = pd.DataFrame({"slide": ["s1", "s1", "s2"], "red": [0.1, 0.2, 0.3]})
        >>> Bags.from_frame(frame, bag="slide")
        Bags(n_bags=2, n_instances=3, n_features=1, dtype=float64)
        """
        from bagwise.io import read_bags

        if features is not None:  # a name may be a number
            features = [features] if isinstance(features, str) else [str(f) for f in features]
        about: Any = {"bag_columns": bag_columns, "groups": groups}
        bags: Bags = read_bags(frame, bag=str(bag), features=features, **about).bags
        return bags

    @classmethod
    def from_anndata(cls, adata: Any, *, bag: str, use_rep: str | None = None) -> Bags:
        """Make bags from an AnnData object: the cells of a donor, or of another column of obs.

        Parameters
        ----------
        adata : anndata.AnnData or path of a .h5ad file
            One observation per instance, in any order.
        bag : str
            The column of ``adata.obs`` with the bag of each cell, such as its donor.
        use_rep : str, default=None
            The features: a key of ``adata.obsm``, or "X". By default ``X_pca`` if it exists, else
            ``X``, as in scanpy.

        Returns
        -------
        Bags

        See Also
        --------
        bagwise.io.read_bags : Bags together with labels and groups.

        Examples
        --------
        >>> from bagwise import Bags
        >>> bags = Bags.from_anndata(adata, bag="donor")  # doctest: +SKIP
        >>> scores = model.score_instances(bags)  # doctest: +SKIP
        >>> adata.obs["score"] = bags.in_input_order(scores)  # doctest: +SKIP
        """
        from bagwise.io import read_bags

        bags: Bags = read_bags(adata, bag=str(bag), use_rep=use_rep).bags
        return bags

    @property
    def instances(self) -> Instances:
        """The instances of all bags, bag after bag, of shape (n_instances, n_features)."""
        if not self._source.is_gathered:
            from bagwise.compute.mapped import gathered

            self._source = gathered(self._source)
        return self._source.table

    @property
    def source(self) -> Instances:
        """The table that contains the instances; after a selection, also rows of other bags.

        An array, or a table that is read from files block by block by `rows`.
        """
        return self._source.table

    @cached_property
    def is_sparse(self) -> bool:
        """Whether the instances are a sparse matrix."""
        return bool(sparse.issparse(self._source.table))

    @property
    def is_mapped(self) -> bool:
        """Whether the instances are read from a file: memory-mapped, or in blocks."""
        return self._source.where == "mapped"

    @property
    def is_gathered(self) -> bool:
        """Whether `source` is the array of `instances`; otherwise rows are read when used."""
        return self._source.is_gathered

    @cached_property
    def offsets(self) -> Ints:
        """The first row of each bag, and the end of the last, of shape (n_bags + 1,)."""
        return self._source.offsets

    @property
    def ids(self) -> Array | None:
        """The name of each bag, or None."""
        return self._ids

    @property
    def names(self) -> Array:
        """The id of each bag, or its position if the bags have no ids."""
        return np.arange(len(self)) if self._ids is None else self._ids

    @property
    def feature_names(self) -> list[str] | None:
        """The name of each feature, or None."""
        return None if self._feature_names is None else list(self._feature_names)

    @property
    def columns(self) -> Mapping[str, Array]:
        """What is known of each bag besides its instances: arrays of shape (n_bags,) by name."""
        return self._columns

    @property
    def groups(self) -> Array | None:
        """The group of each bag, such as its patient, which folds keep together; or None."""
        return None if self._group is None else self._columns[self._group]

    @property
    def group_name(self) -> str | None:
        """The name of the column with the groups, or None."""
        return self._group

    @cached_property
    def n_instances(self) -> int:
        """Number of instances in all bags."""
        return self._source.n_rows

    @cached_property
    def n_features(self) -> int:
        """Number of features of an instance."""
        return int(self._source.table.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_bags, n_features)``, as scikit-learn reads it."""
        return len(self), self.n_features

    @property
    def ndim(self) -> int:
        """Always 2: a row is a bag."""
        return 2

    @cached_property
    def dtype(self) -> Any:
        """The data type of the instances."""
        return self._source.table.dtype

    @property
    def device(self) -> str:
        """The device of the instances, as the array API names it."""
        return str(getattr(self.source, "device", "cpu"))

    @property
    def where(self) -> str:
        """Where the instances are: "local", "mapped" (a file), "device" (torch) or "cluster"."""
        return self._source.where

    @cached_property
    def sizes(self) -> Ints:
        """Number of instances of each bag, of shape (n_bags,)."""
        sizes = np.diff(self._source.offsets)
        sizes.flags.writeable = False
        return sizes

    @property
    def bag_index(self) -> Ints:
        """The bag each instance belongs to, of shape (n_instances,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def name_of(self, i: int) -> str:
        """Name bag `i` for a message, by position and id: ``bag 17 ('slide_08')``."""
        return _bag_name(i, self._ids)

    def split(self, values: Any) -> list[Any]:
        """Cut per-instance values by bag.

        Parameters
        ----------
        values : array-like of shape (n_instances, ...)
            Values aligned with `instances`, such as ``score_instances(bags)``.

        Returns
        -------
        list of length n_bags
            The rows of `values` of each bag, as views.

        Examples
        --------
        >>> import numpy as np
        >>> from bagwise import Bags
        >>> bags = Bags(np.zeros((3, 1)), [0, 2, 3])
        >>> [part.tolist() for part in bags.split([7, 8, 9])]
        [[7, 8], [9]]
        """
        values = values if hasattr(values, "shape") else np.asarray(values)
        self._require_one_per_instance(values)
        return [values[a:b] for a, b in pairwise(self._source.offsets.tolist())]

    @property
    def input_rows(self) -> Ints:
        """The row of each instance in the table, file or AnnData object that was read."""
        order, starts, _ = self._origin or (None, self.offsets[:-1], self.n_instances)
        rows = np.arange(self.n_instances) + np.repeat(starts - self.offsets[:-1], self.sizes)
        return rows if order is None else order[rows]

    def in_input_order(self, values: Any) -> Array:
        """Bring values per instance into the order of the rows that the bags were made from.

        `from_groups`, `from_frame`, `from_anndata` and `read_bags` sort rows by bag, so
        ``score_instances(bags)`` may have another order than the table of the user.

        Parameters
        ----------
        values : array-like of shape (n_instances, ...)
            Values aligned with `instances`, such as ``score_instances(bags)``.

        Returns
        -------
        ndarray of shape (n_rows, ...)
            A value for each row of the table. If the bags are a selection, such as those of a
            fold, rows of other bags are missing: NaN for numbers, else None.

        Examples
        --------
        >>> import pandas as pd
        >>> from bagwise import Bags
        >>> frame = pd.DataFrame({"bag": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
        >>> bags = Bags.from_frame(frame, bag="bag")
        >>> bags.instances.ravel().tolist()
        [1.0, 3.0, 2.0]
        >>> bags.in_input_order(bags.instances[:, 0]).tolist()
        [1.0, 2.0, 3.0]
        """
        values = np.asarray(values)
        self._require_one_per_instance(values)
        if self._origin is None:
            return values
        rows, n_rows = self.input_rows, self._origin[2]
        out: Array = np.empty((n_rows, *values.shape[1:]), values.dtype)
        if len(rows) < n_rows:
            is_number = values.dtype.kind in "iuf"
            dtype = np.result_type(values, np.float32) if is_number else object
            out = np.full(out.shape, np.nan if is_number else None, dtype)
        out[rows] = values
        return out

    def ordered_by(self, order: Ints) -> Bags:
        """Return the same bags, with the row of the user's table of each instance.

        Parameters
        ----------
        order : ndarray of int of shape (n_instances,)
            The row of each instance.

        Returns
        -------
        Bags
        """
        bags = self._same_bags(_unchecked(self._source, self._ids, self._feature_names))
        bags._origin = order, self.offsets[:-1], len(order)
        return bags

    def rearranged(self, instances: Instances, offsets: Ints, rows: slice | Ints) -> Bags:
        """Return rows of these bags, divided in another way; they share what the bags share.

        Parameters
        ----------
        instances : ndarray or CSR of shape (n_rows, n_features)
            The rows.
        offsets : ndarray of int of shape (n + 1,)
            Where each new bag begins, and the end of the last one.
        rows : slice or ndarray of int
            The positions of the rows.

        Returns
        -------
        Bags
            Without ids, names and columns.
        """
        bags = Bags(instances, offsets)
        if self._shared:
            bags._origin = self.input_rows[rows], bags.offsets[:-1], bags.n_instances
            bags._shared = self._shared
        return bags

    def guard(self, values: Array) -> Array:
        """Mark values per instance whose order is not that of the rows of the user.

        Parameters
        ----------
        values : ndarray of shape (n_instances, ...)
            Values aligned with `instances`.

        Returns
        -------
        ndarray
            The same values. If rows were sorted by bag, pandas refuses them as a new column, in
            which they would be in the wrong rows.
        """
        n_rows = 0 if self._origin is None or self._origin[0] is None else self._origin[2]
        return values.view(InBagOrder) if n_rows == len(values) > 0 else values

    def rows(self, which: slice | Ints) -> Instances:
        """Read some rows of `instances`; the others are not read.

        Parameters
        ----------
        which : slice or ndarray of int
            Positions of instances, counted over all bags from 0.

        Returns
        -------
        ndarray, CSR or tensor of shape (n_rows, n_features)
            A view if `which` is a slice whose rows are contiguous in `source`.

        Examples
        --------
        >>> import numpy as np
        >>> from bagwise import Bags
        >>> bags = Bags(np.arange(4.0).reshape(4, 1), [0, 1, 2, 4])[[2, 0]]
        >>> bags.rows(slice(1, 3)).ravel()
        array([3., 0.])
        """
        return self._source.rows(which)

    def with_instances(
        self, instances: Instances, *, feature_names: Sequence[str] | None = None
    ) -> Bags:
        """Return the same bags with new features for each instance, as a transformer computes them.

        Parameters
        ----------
        instances : array-like or sparse of shape (n_instances, any)
            New rows, in the order of the old ones.
        feature_names : sequence of str, default=None
            Names of the new columns.

        Returns
        -------
        Bags
        """
        bags = Bags(instances, self._source.offsets, self._ids, feature_names=feature_names)
        return self._same_bags(bags)

    def with_columns(self, columns: Any = None, *, groups: Any = None) -> Self:
        """Return the same bags with other columns and groups, or without.

        Parameters
        ----------
        columns, groups : default=None
            As for `Bags`.

        Returns
        -------
        Bags

        Examples
        --------
        >>> from bagwise import Bags
        >>> bags = Bags.from_arrays([[[1.0]], [[2.0]]])
        >>> bags = bags.with_columns({"age": [61, 70], "site": ["Ulm", "Ulm"]}, groups="site")
        >>> bags[1:].groups.tolist(), bags[1:].columns["age"].tolist()
        (['Ulm'], [70])
        """
        bags = object.__new__(type(self))
        vars(bags).update(vars(self))
        bags._columns, bags._group = _checked_columns(columns, groups, self)
        return bags

    def _same_bags(self, bags: Bags) -> Bags:
        """Other instances of the same bags, with what is known of them."""
        bags._origin, bags._columns, bags._group = self._origin, self._columns, self._group
        return bags

    def with_source(self, table: Instances, *, feature_names: Sequence[str] | None = None) -> Bags:
        """Return the same bags, read from another table with the same row positions.

        Parameters
        ----------
        table : array-like or sparse of shape (n_rows, any)
            A table with the same number of rows as `source`.
        feature_names : sequence of str, default=None
            Names of the columns.

        Returns
        -------
        Bags
        """
        source, names = self._source, None if feature_names is None else _texts(feature_names)
        if table is not source.table:
            source = Source(read_only(checked_table(table)), source.offsets, source.starts)
        return self._same_bags(_unchecked(source, self._ids, names))

    def merge(self, by: ArrayLike) -> Bags:
        """Merge bags that belong together, such as the slides of a patient.

        Merged bags are in the order of their first part; parts and instances keep their order.

        Parameters
        ----------
        by : sequence of shape (n_bags,), or str
            The group of each bag, such as its patient, or the name of a column of bags. The
            distinct values become the ids.

        Returns
        -------
        Bags

        Raises
        ------
        InputError
            If a column has several values for the parts of a bag: leave it out first.

        Notes
        -----
        Values per instance, such as coordinates, are brought into the new order by
        ``bags.with_instances(coords).merge(by).instances``.

        Examples
        --------
        >>> import numpy as np
        >>> from bagwise import Bags
        >>> slides = Bags(np.arange(4.0).reshape(-1, 1), [0, 1, 3, 4], ids=["s1", "s2", "s3"])
        >>> patients = slides.merge(by=["ann", "bob", "ann"])
        >>> patients.ids.tolist(), patients[0].ravel().tolist()
        (['ann', 'bob'], [0.0, 3.0])
        """
        order, parts, ids = group_rows(self.column(by) if isinstance(by, str) else by)
        if len(order) != len(self):
            raise InputError(f"by has {len(order)} entries for {len(self)} bags: give one each.")
        joined = self[order]
        offsets = joined.offsets[parts]
        bags = Bags(joined.instances, offsets, ids, feature_names=self._feature_names)
        if self._origin is not None or not is_range(order):
            n_rows = self.n_instances if self._origin is None else self._origin[2]
            bags._origin = joined.input_rows, bags.offsets[:-1], n_rows
        columns = {n: _agreed(n, column, parts, ids) for n, column in joined.columns.items()}
        bags._columns, bags._group = MappingProxyType(columns), self._group
        return bags

    def column(self, name: str) -> Array:
        """Return one of `columns`; an error that lists them if there is none of this name.

        Parameters
        ----------
        name : str
            The name of the column.

        Returns
        -------
        ndarray of shape (n_bags,)
        """
        if name not in self._columns:
            raise InputError(
                f"the bags have no column {name!r}: there are {short_list([*self._columns])}. "
                "Bags(..., columns={...}) or bags.with_columns({...}) adds columns."
            )
        return self._columns[name]

    def to(self, device: Any, dtype: Any = None) -> Bags:
        """Copy the instances to a device as a torch tensor; models then work there.

        Parameters
        ----------
        device : str or torch.device
            "cuda", "cuda:1", "cpu", ...; "numpy" brings a tensor back as an array.
        dtype : str or torch.dtype, default=None
            "float32" or "float64"; unchanged by default.

        Returns
        -------
        Bags

        Examples
        --------
        >>> import numpy as np
        >>> from bagwise import Bags
        >>> bags = Bags(np.ones((3, 2)), [0, 2, 3]).to("cpu")  # doctest: +SKIP
        >>> bags.instances  # doctest: +SKIP
        tensor([[1., 1.],
                [1., 1.],
                [1., 1.]], dtype=torch.float64)
        """
        if device == "numpy" and not is_tensor(self.source):
            return self
        if device == "numpy":
            array = self.instances.cpu().numpy()
            return self.with_instances(array, feature_names=self._feature_names)
        from bagwise.compute.tensors import on_device

        return on_device(self, device, dtype)

    def distribute(self, client: Any, *, npartitions: int | None = None) -> Bags:
        """Distribute the bags over the workers of a Dask cluster; models then work there.

        Whole bags stay together. Workers read the instances of a memory-mapped file themselves if
        they can access it; other data are sent once.

        Parameters
        ----------
        client : distributed.Client
            The cluster.
        npartitions : int, default=None
            Number of partitions; one per worker by default.

        Returns
        -------
        Bags
            Bags without `instances` in this process; ``collect()`` brings them back.

        Notes
        -----
        ``shared = bags.distribute(Client("tcp://scheduler:8786"))``, then
        ``PrimalDualMISVM().fit(shared, y).predict(shared)``.
        """
        from bagwise.compute.dask import distribute

        bags = distribute(self, client, npartitions)
        bags._origin = self._origin
        return bags

    def take(
        self, indices: ArrayLike, axis: int = 0, out: None = None, mode: str = "raise"
    ) -> Bags:
        """Return the bags at `indices`, as ``numpy.take`` would.

        Parameters
        ----------
        indices : array-like of int
            Positions of bags.
        axis : int, default=0
            Only 0: bags are rows.
        out : None
            Not supported; here because scikit-learn passes it.
        mode : str, default="raise"
            Only "raise".

        Returns
        -------
        Bags
        """
        if axis != 0 or out is not None or mode != "raise":
            raise InputError("Bags.take supports axis=0, out=None and mode='raise' only.")
        return self._gather(np.atleast_1d(self._chosen(np.asarray(indices))))

    def __len__(self) -> int:
        return len(self._source.offsets) - 1

    def __iter__(self) -> Iterator[Instances]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # scikit-learn indexes X[key, ...]
        chosen = self._chosen(key)
        return self._gather(chosen) if chosen.ndim else self._one(int(chosen))

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        # scikit-learn's dispatch refuses a container without this method, or with another
        # namespace than the labels have, which are numpy arrays.
        from bagwise._common.sklearn import get_namespace

        return get_namespace(self._source.offsets)[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("Bags are not one array: use bags.instances, or bags[i] for one bag.")

    def __repr__(self) -> str:
        kind = ", sparse" if self.is_sparse else ""
        where = f", device={self.device}" if is_tensor(self.source) else ""
        shape = f"n_instances={self.n_instances}, n_features={self.n_features}"
        about = f", columns={[*self._columns]}" if self._columns else ""
        about += "" if self._group is None else f", groups={self._group!r}"
        return f"Bags(n_bags={len(self)}, {shape}, dtype={self.dtype}{kind}{where}{about})"

    def __sizeof__(self) -> int:  # Dask sends work to large data instead of moving them
        size = object.__sizeof__(self)
        return size + int(self._source.n_bytes()) if self.where == "local" else size

    def __getstate__(self) -> dict[str, Any]:
        # A table in files is pickled as the names of the files.
        is_streamed = isinstance(self.source, StreamedTable) and self._source.starts is None
        return {
            "_instances": self.source if is_streamed else self.instances,
            "_offsets": self._source.offsets,
            "_ids": self._ids,
            "_feature_names": self._feature_names,
            "_origin": None if self._origin is None else [self.input_rows, self._origin[2]],
            "_columns": dict(self._columns),
            "_group": self._group,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Validated again: a file may have been tampered with, and loaded arrays are writable.
        instances = state["_instances"]
        if sparse.issparse(instances):
            instances.check_format(full_check=True)
        about: Any = {"columns": state.get("_columns"), "groups": state.get("_group")}
        about["feature_names"] = state["_feature_names"]
        Bags.__init__(self, instances, state["_offsets"], state["_ids"], **about)
        if state.get("_origin") is not None:
            rows, n_rows = state["_origin"]
            self._origin = rows, self.offsets[:-1], n_rows

    def _chosen(self, key: Any) -> Ints:
        """Convert a key to a non-negative position (0-D array) or positions (1-D) of bags."""
        is_empty = isinstance(key, list | np.ndarray) and not len(np.atleast_1d(key))
        try:
            if isinstance(key, int | np.integer) and not isinstance(key, bool):
                return np.array(range(len(self))[key])
            if isinstance(key, slice):
                return np.arange(*key.indices(len(self)))
            chosen = np.asarray(np.arange(len(self))[np.asarray(key, int) if is_empty else key])
        except (IndexError, TypeError, ValueError) as error:
            raise IndexError(f"{_INDEXING}, and there are {len(self)} bags: {error}.") from error
        if chosen.ndim > 1:
            raise IndexError(f"{_INDEXING}, not of shape {chosen.shape}.")
        return chosen

    def _one(self, i: int) -> Instances:
        return self._source.bag(i)

    def _require_one_per_instance(self, values: Any) -> None:
        if values.shape[:1] != (self.n_instances,):
            raise InputError(
                f"values has the shape {values.shape} for {self.n_instances} instances: give one "
                "row per instance."
            )

    def _gather(self, key: Ints) -> Bags:
        offsets = read_only(offsets_of(self._source.offsets[key + 1] - self._source.offsets[key]))
        ids = None if self._ids is None else read_only(self._ids[key])
        part = _unchecked(self._source.take(key, offsets), ids, self._feature_names)
        order, starts, n_rows = self._origin or (None, self._source.offsets, self._source.n_rows)
        part._origin = order, starts[key], n_rows
        if self._columns:
            part._columns, part._group = taken(self._columns, key), self._group
        part._is_validated, part._shared = self._is_validated, self._shared
        return part


def _unchecked(source: Source, ids: Array | None, feature_names: list[str] | None) -> Bags:
    bags = object.__new__(Bags)
    bags._source, bags._ids, bags._feature_names = source, ids, feature_names
    return bags


def taken(columns: Mapping[str, Array], key: Ints) -> Mapping[str, Array]:
    """Select bags in their columns.

    Parameters
    ----------
    columns : mapping of str to ndarray
        The columns.
    key : ndarray of int
        Positions of bags.

    Returns
    -------
    mapping of str to ndarray
    """
    if not columns:
        return columns
    return MappingProxyType({name: read_only(values[key]) for name, values in columns.items()})


def _checked_columns(
    columns: Any, groups: Any, bags: Bags
) -> tuple[Mapping[str, Array], str | None]:
    """The columns of bags with that of the groups, and its name."""
    if columns is not None and not (isinstance(columns, Mapping) or hasattr(columns, "columns")):
        raise InputError(
            f"columns is {type(columns).__name__}: expected a dict of names and values, such as "
            '{"age": [61, 70]}, or a data frame with one row per bag.'
        )
    names = _all_columns(columns) or list({} if columns is None else columns)
    found = {str(name): _one_dimensional(columns[name]) for name in names}
    group = groups if isinstance(groups, str) else None if groups is None else "group"
    if group is not None and group is not groups:
        values, known = _one_dimensional(groups), found.get(group)
        if known is not None and known.tolist() != values.tolist():
            raise InputError(
                "the groups differ from the column 'group': rename the column, or leave out one."
            )
        found[group] = values
    if group is not None and group not in found:
        raise InputError(
            f"groups={group!r}: there is no such column, only {short_list([*found])}. Give a "
            "sequence with the group of each bag, or the name of a column."
        )
    for name, values in found.items():
        if len(values) != len(bags):
            raise InputError(
                f"the column {name!r} has {len(values)} values for {len(bags)} bags: give one each."
            )
    columns = {name: read_only(values) for name, values in found.items()}
    return MappingProxyType(columns), group


def _agreed(name: str, values: Array, offsets: Ints, ids: Array) -> Array:
    """The common value of the parts of each merged bag."""
    first = values[offsets[:-1]]
    expected = np.repeat(first, np.diff(offsets))
    for i in np.flatnonzero((values != expected) & ((values == values) | (expected == expected))):
        bag = int(np.searchsorted(offsets, i, side="right")) - 1
        raise InputError(
            f"the parts of {ids[bag : bag + 1].tolist()[0]!r} have different values in the column "
            f"{name!r}, {expected[i]!s} and {values[i]!s}: leave it out with bags.with_columns(...)"
            ", or merge other bags."
        )
    return read_only(first)


def offsets_of(sizes: ArrayLike) -> Ints:
    """Offsets of bags, from the number of instances of each bag.

    Parameters
    ----------
    sizes : array-like of int of shape (n_bags,)
        Number of instances of each bag.

    Returns
    -------
    ndarray of int64 of shape (n_bags + 1,)
        Starts at 0 and ends with the total number of instances.
    """
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _columns_of(table: Any) -> list[str] | None:
    """The columns of a data frame as names; numbers are not names, as in scikit-learn."""
    columns = _all_columns(table)
    return columns if columns and all(isinstance(c, str) for c in columns) else None


def _all_columns(table: Any) -> list[Any]:
    """The columns of a data frame (pandas, polars, pyarrow); none for any other table."""
    return list(getattr(table, "column_names", getattr(table, "columns", ())))


def _common_columns(bags: list[Any], ids: Any) -> list[str] | None:
    """The columns of a list of data frames as names; an error unless all have the same ones."""
    frames = [(i, _all_columns(bag)) for i, bag in enumerate(bags) if hasattr(bag, "columns")]
    for i, columns in frames[1:]:
        first, expected = frames[0]
        if columns != expected:
            raise InputError(
                f"the columns of {_bag_name(i, ids)} are {short_list(columns)}, and "
                f"{short_list(expected)} in {_bag_name(first, ids)}: give the same, in one order."
            )
    return _columns_of(bags[frames[0][0]]) if frames else None


def group_rows(groups: ArrayLike) -> tuple[Ints, Ints, Array]:
    """Sort rows by group, with groups in the order of their first appearance.

    Parameters
    ----------
    groups : array-like of shape (n_rows,)
        The group of each row; any hashable values, none missing.

    Returns
    -------
    order : ndarray of shape (n_rows,)
        ``rows[order]`` is sorted by group; the order inside a group is kept.
    offsets : ndarray of shape (n_groups + 1,)
        The start of each group in that order, and the end of the last.
    ids : ndarray of shape (n_groups,)
        The group values.
    """
    values = _one_dimensional(groups)
    is_object = values.dtype == object
    missing = np.array([is_missing(v) for v in values]) if is_object else values != values
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(f"row {row} belongs to no bag (its bag is {values[row]!r}).")
    if is_object:
        position: dict[Any, int] = {}
        codes = np.array([position.setdefault(v, len(position)) for v in values], np.int64)
        ids = _one_dimensional(list(position))
    else:
        distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        by_appearance = np.argsort(first)
        codes = np.argsort(by_appearance)[inverse]
        ids = distinct[by_appearance]
    offsets = offsets_of(np.bincount(codes, minlength=len(ids)))
    return np.argsort(codes, kind="stable"), offsets, ids


def _bag_name(i: int, ids: Any) -> str:
    if ids is None or not -len(ids) <= i < len(ids):
        return f"bag {i}"
    name = ids[i]
    return f"bag {i} ({(name.item() if isinstance(name, np.generic) else name)!r})"


def _checked_offsets(offsets: ArrayLike, n_instances: int) -> Ints:
    array = np.asarray(offsets)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) == 0:
        raise InputError(
            f"offsets have shape {array.shape} and type {array.dtype}: expected n_bags + 1 ints."
        )
    array = array.astype(np.int64)
    if array[0] != 0 or array[-1] != n_instances or np.any(np.diff(array) < 0):
        shown = np.array2string(array, threshold=6)
        raise InputError(f"offsets must rise from 0 to n_instances={n_instances}: got {shown}.")
    return array


def _one_dimensional(values: Any) -> Array:
    """A 1-D array of labels or names; tuples and mixed types stay Python objects."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | set | frozenset):
        raise InputError(f"expected one value per row, got {type(values).__name__}: give a list.")
    refuse_masked(values, "ids or groups")
    array = np.asarray(values) if hasattr(values, "dtype") else plain_array(list(values))
    if array.ndim != 1 or array.dtype.kind == "V":
        found = f"shape {array.shape} and type {array.dtype}"
        raise InputError(f"expected one value per row, got an array of {found}.")
    return array


def _texts(names: Any) -> list[str]:
    if isinstance(names, bytes) or not isinstance(names, Iterable):
        raise InputError(f"feature_names is {names!r}: expected a name for each feature.")
    return [str(name) for name in names]
