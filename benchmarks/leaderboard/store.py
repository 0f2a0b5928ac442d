"""Stored predictions: a Parquet file per method, and one with the labels and folds of the bags."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bagwise.evaluate._evaluation import make_folds
from bagwise.evaluate._measures import measures_of
from bagwise.exceptions import BagwiseError

from .sets import SETS, load

SCHEMA = 1
FOLDS = 5
STORED = Path(__file__).parent
OWN = STORED.parent.parent / "results" / "leaderboard"  # methods that are not in the repository
SUMS, BAGS = "SHA256SUMS", "bags.parquet"
ARRAYS = {"score": "decision_function", "probability": "predict_proba"}
CLOSE = 1e-6  # predictions are stored in single precision if no measure changes by more


class LeaderboardError(BagwiseError):
    """The stored predictions cannot be used."""


class Truth(NamedTuple):
    """The labels of the bags of a set, and the fold that holds each of them out."""

    y: np.ndarray
    fold: np.ndarray

    @property
    def splits(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The positions of training and test bags of each fold."""
        own = (self.fold == k for k in range(FOLDS))
        return [(np.flatnonzero(~test), np.flatnonzero(test)) for test in own]

    def measured(self, found: dict[str, np.ndarray]) -> dict[str, list[float]]:
        """Every measure of predictions by method, a score per fold."""
        kind = "labels" if self.y.ndim == 1 else "label sets"
        how: Any = {"kind": kind, "classes": np.unique(self.y)}
        parts = [
            measures_of({m: values[test] for m, values in found.items()}, self.y[test], **how)
            for _, test in self.splits
        ]
        return {measure: [part[measure] for part in parts] for measure in parts[0]}


@cache
def truths() -> dict[str, Truth]:
    """The labels and folds of the bags of each set; drawn and stored if there are none yet."""
    file = STORED / BAGS
    if not file.exists():
        columns: dict[str, list] = {"set": [], "fold": [], "label": []}
        for name in (name for sets in SETS.values() for name in sets):
            y = load(name)[1]
            fold = np.empty(len(y), dtype=np.int8)
            for k, (_, test) in enumerate(make_folds(y, n_folds=FOLDS)):
                fold[test] = k
            columns["set"] += [name] * len(y)
            columns["fold"] += fold.tolist()
            columns["label"] += y.reshape(len(y), -1).tolist()
        types = [pa.string(), pa.int8(), pa.list_(pa.int8())]
        _write(file, columns, dict(zip(columns, types, strict=True)), {})
    table = pq.read_table(file)
    found = {}
    for name, rows in _by_set(table).items():
        labels = _matrix(rows["label"]).astype(int)
        y = labels if name in SETS["label sets"] else labels[:, 0]
        found[name] = Truth(y, rows["fold"].to_numpy())
    return found


def file_of(method: str, folder: Path) -> Path:
    """The file that stores the predictions of a method."""
    return folder / f"{method.replace(':', '-')}.parquet"


def add(method: str, name: str, found: dict, folder: Path) -> None:
    """Store what a method predicts on a set: {"found": by method, "seconds": ...} or {"failed": }.

    Other sets in the file of the method are kept.
    """
    if found.get("found") and (problem := _misfit(found["found"], truths()[name].y)):
        raise LeaderboardError(f"{method}, {name}: {problem}.")
    file = file_of(method, folder)
    known = read(file)[1] if file.exists() else {}
    known[name] = {"found": {}} | found
    precise = _loses(name, known[name]["found"]) or (file.exists() and _is_precise(file))
    columns: dict[str, list] = {"set": [], "predicted": [], **{key: [] for key in ARRAYS}}
    for set_name, cell in known.items():
        arrays = {key: np.asarray(value) for key, value in cell["found"].items()}
        n_bags = len(next(iter(arrays.values()), []))
        columns["set"] += [set_name] * n_bags
        labels = arrays.get("predict", np.zeros((0, 0)))
        columns["predicted"] += labels.tolist() if labels.ndim == 1 else [None] * n_bags
        for key, name_of in ARRAYS.items():
            value = arrays.get(name_of)
            lists = [None] * n_bags if value is None else value.reshape(n_bags, -1).tolist()
            columns[key] += lists
    numbers = pa.list_(pa.float64() if precise else pa.float32())
    types = {"set": pa.string(), "predicted": pa.int8(), "score": numbers, "probability": numbers}
    about = {key: {k: v for k, v in cell.items() if k != "found"} for key, cell in known.items()}
    _write(file, columns, types, {"method": method, "sets": about})


def read(file: Path) -> tuple[str, dict[str, dict]]:
    """The name of a method, and by set its predictions, seconds, commit and versions."""
    table = pq.read_table(file)
    about = json.loads(table.schema.metadata[b"leaderboard"])
    if about["schema"] != SCHEMA:
        raise LeaderboardError(
            f"{file.name} has schema {about['schema']}, expected {SCHEMA}: compute it again."
        )
    cells: dict[str, dict] = {name: {"found": {}} | cell for name, cell in about["sets"].items()}
    for name, rows in _by_set(table).items():
        found = cells[name]["found"]
        if not rows["predicted"].null_count:
            found["predict"] = rows["predicted"].to_numpy().astype(int)
        for key, name_of in ARRAYS.items():
            if not rows[key].null_count:
                values = _matrix(rows[key]).astype(float)
                found[name_of] = values[:, 0] if values.shape[1] == 1 else values
        cells[name]["found"] = _normalised(found)
    return about["method"], cells


def cells(folder: Path) -> dict[str, dict[str, dict]]:
    """By method and set: the predictions that are stored in a folder."""
    files = [file for file in sorted(folder.glob("*.parquet")) if file.name != BAGS]
    return dict(read(file) for file in files)


def results(*folders: Path) -> dict[str, dict[str, dict]]:
    """By set and method: the scores of each fold, and seconds, or {"failed": reason}."""
    true = truths()
    found: dict[str, dict[str, dict]] = {name: {} for name in true}
    for method, by_set in [item for folder in folders for item in cells(folder).items()]:
        for name, cell in by_set.items():
            scores = {} if "failed" in cell else {"scores": true[name].measured(cell["found"])}
            found[name][method] = cell | scores
    return found


def faults(folder: Path = STORED) -> list[str]:
    """What is wrong with the stored files: checksums, and predictions that do not fit the bags."""
    lines = (folder / SUMS).read_text().splitlines()
    sums = {name: value for value, name in (line.split("  ") for line in lines)}
    files = {file.name: file for file in folder.glob("*.parquet")}
    wrong = [f"{name}: not in {SUMS}" for name in files.keys() - sums.keys()]
    wrong += [f"{name}: the file is missing" for name in sums.keys() - files.keys()]
    wrong += [
        f"{name}: the SHA-256 sum differs"
        for name in files.keys() & sums.keys()
        if sha256(files[name]) != sums[name]
    ]
    true = truths()
    for method, by_set in cells(folder).items():
        for name, cell in by_set.items():
            problem = None if "failed" in cell else _misfit(cell["found"], true[name].y)
            wrong += [f"{method}, {name}: {problem}"] if problem else []
    return wrong


def sha256(file: Path) -> str:
    """The SHA-256 sum of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _misfit(found: dict[str, np.ndarray], y: np.ndarray) -> str | None:
    """Why predictions cannot be those of the bags with the labels y."""
    if not {"decision_function", "predict_proba"} & {*found} and y.ndim == 2:
        return "label sets without scores"
    if y.ndim == 1 and "predict" not in found:
        return "no predicted labels"
    n_classes = y.shape[1] if y.ndim == 2 else len(np.unique(y))
    for name, values in found.items():
        if len(values) != len(y):
            return f"{len(values)} predictions of {len(y)} bags"
        if name == "predict":
            if y.ndim == 1 and not np.isin(values, np.arange(n_classes)).all():
                return "labels that no bag has"
        elif values.ndim == 2 and values.shape[1] != n_classes:
            return f"{name} of {values.shape[1]} classes, expected {n_classes}"
        if np.isnan(values).any():
            return f"{name} is not a number"
        if name == "predict_proba" and not ((values >= 0) & (values <= 1 + CLOSE)).all():
            return "probabilities outside of 0 to 1"
    return None


def _loses(name: str, found: dict[str, Any]) -> bool:
    """Whether single precision changes a measure of the predictions on a set."""
    if not found:
        return False
    true = truths()[name]
    exact = {key: np.asarray(value) for key, value in found.items()}
    short = {
        key: value if key == "predict" else value.astype(np.float32).astype(float)
        for key, value in exact.items()
    }
    two = [true.measured(each) for each in (exact, _normalised(short))]
    return any(
        not np.allclose(two[0][measure], two[1][measure], rtol=0, atol=CLOSE, equal_nan=True)
        for measure in two[0]
    )


def _normalised(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The predictions, with probabilities of classes that add up to 1 in double precision."""
    if "predict_proba" not in found or "predict" not in found or found["predict"].ndim == 2:
        return found  # labels of a set are independent
    proba = found["predict_proba"]
    return found | {"predict_proba": proba / proba.sum(axis=1, keepdims=True)}


def _is_precise(file: Path) -> bool:
    """Whether a file has numbers in double precision."""
    return pq.read_schema(file).field("score").type.value_type == pa.float64()


def _by_set(table: pa.Table) -> dict[str, dict[str, Any]]:
    """The columns of the rows of each set."""
    names = np.array(table["set"].to_pylist(), dtype=object)
    first = dict.fromkeys(names.tolist())
    rows = {name: table.take(np.flatnonzero(names == name)) for name in first}
    return {
        name: {column: part[column].combine_chunks() for column in part.column_names}
        for name, part in rows.items()
    }


def _matrix(lists: pa.Array) -> np.ndarray:
    """Lists of equal length as the rows of a matrix."""
    return lists.flatten().to_numpy().reshape(len(lists), -1)


def _write(file: Path, columns: dict, types: dict[str, pa.DataType], about: dict) -> None:
    """Write a file, with what is known of it as JSON, and its checksum."""
    text = json.dumps({"schema": SCHEMA, **about})
    schema = pa.schema(list(types.items()), metadata={"leaderboard": text})
    table = pa.table({key: pa.array(columns[key], types[key]) for key in types}, schema=schema)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, compression="zstd", compression_level=19)
    files = sorted(file.parent.glob("*.parquet"))
    (file.parent / SUMS).write_text("".join(f"{sha256(each)}  {each.name}\n" for each in files))
