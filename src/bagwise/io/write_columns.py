"""Tables of results, one column per array, as CSV, TSV or Parquet."""

import csv
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bagwise._files import replacing
from bagwise.exceptions import FileFormatError
from bagwise.extras import import_extra
from bagwise.io.formulas import escaped

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")


def file_beside(path: Path, kind: str) -> Path:
    """Name a further table beside one of results: ``out.parquet``, ``out.instances.parquet``.

    Parameters
    ----------
    path : Path
        The first table.
    kind : str
        What the further table holds, such as "instances" or "review".

    Returns
    -------
    Path
    """
    if path.suffix.lower() not in (*_DELIMITERS, *_PARQUET):
        endings = ", ".join((*_DELIMITERS, *_PARQUET))
        raise FileFormatError(f"predictions go into {endings}, and {path.name!r} is neither.")
    return path.with_name(f"{path.stem}.{kind}{path.suffix}")


def write_columns(path: Path, columns: Mapping[str, Any], *, force: bool) -> None:
    """Write columns of equal length as CSV, TSV or Parquet, completely or not at all.

    In CSV and TSV a string that a spreadsheet would run as a formula gets a leading apostrophe,
    which bagwise removes when reading.

    Parameters
    ----------
    path : Path
        The file; its suffix determines the format.
    columns : mapping of str to ndarray
        The columns.
    force : bool
        Whether a file may be overwritten.
    """
    with replacing(path, force=force) as temporary:
        if path.suffix.lower() in _PARQUET:
            pa = import_extra("pyarrow", extra="io")
            table = pa.table({name: values.tolist() for name, values in columns.items()})
            import_extra("pyarrow.parquet", extra="io").write_table(table, temporary)
            return
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=_DELIMITERS[path.suffix.lower()])
            rows = zip(*(values.tolist() for values in columns.values()), strict=True)
            for row in itertools.chain([columns], rows):
                writer.writerow([escaped(v) if isinstance(v, str) else v for v in row])
