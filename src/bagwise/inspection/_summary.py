"""A summary of bags: how many, how large, which values."""

from typing import Any

import numpy as np
from scipy import sparse

from bagwise.bags import Bags


def summarise(bags: Bags) -> dict[str, Any]:
    """Count bags, instances, features, empty bags, missing values; list constant features.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    dict
        Plain values, by name.
    """
    return _size_facts(bags) | _value_facts(bags)


def _size_facts(bags: Bags) -> dict[str, Any]:
    sizes = bags.sizes
    return {
        "bags": len(bags),
        "instances": bags.n_instances,
        "features": bags.n_features,
        **({} if bags.feature_names is None else {"feature_names": bags.feature_names}),
        "smallest_bag": int(sizes.min()) if len(sizes) else 0,
        "median_bag": float(np.median(sizes)) if len(sizes) else 0.0,
        "largest_bag": int(sizes.max()) if len(sizes) else 0,
        "empty_bags": int((sizes == 0).sum()),
    }


def _value_facts(bags: Bags) -> dict[str, Any]:
    values = bags.instances
    if sparse.issparse(values):
        missing = int(np.isnan(values.data).sum())
        spread = values.max(axis=0).toarray() - values.min(axis=0).toarray()
        constant = np.flatnonzero(spread.ravel() == 0)
    else:
        gaps = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
        missing = int(gaps.sum())
        constant = np.flatnonzero((values == values[:1]).all(axis=0) | gaps.all(axis=0))
    names = bags.feature_names
    return {
        "values": f"{'sparse ' if sparse.issparse(values) else ''}{values.dtype}",
        "missing_values": missing,
        "constant_features": [int(j) if names is None else names[j] for j in constant],
    }
