"""Tables of clips for `read_bags`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bagwise._common.types import Array
from bagwise.extras import import_extra

TIMES = ("file", "start", "end")


def as_table(
    columns: Mapping[str, Any], vectors: Array | None = None, not_features: Sequence[str] = ()
) -> Any:
    """Columns and embeddings as a table whose bags are the files.

    Parameters
    ----------
    columns : mapping of str to sequence
        ``file``, ``start``, ``end`` and others, a value per clip.
    vectors : ndarray of shape (n_clips, n_features), default=None
        The column ``embedding``.
    not_features : sequence of str, default=()
        Columns that are features only if they are asked for.

    Returns
    -------
    pyarrow.Table
    """
    pa: Any = import_extra("pyarrow", extra="io")
    table = pa.table(dict(columns))
    if vectors is not None:
        flat = pa.array(vectors.reshape(-1))
        lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        table = table.append_column("embedding", lists)
    notes = {"bag": "file", "not_features": list(not_features)}
    return table.replace_schema_metadata({b"bagwise": json.dumps(notes).encode()})
