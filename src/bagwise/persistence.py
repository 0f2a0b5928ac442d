"""Save and load models as skops files, which run no code when they are loaded.

A model file is an ordinary skops archive (``skops.io.load`` opens it too) with one more member,
``bagwise.json``: the versions that wrote it, and metadata of the caller. Plain ``pickle`` works on
every estimator as well; use it only for files you made yourself.
"""

import hashlib
import inspect
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator

import bagwise
from bagwise._common.extras import import_extra
from bagwise._common.files import replacing
from bagwise.bags import Bags
from bagwise.exceptions import BagwiseError, DataNotFoundError, InputError, ModelFileError

__all__ = ["load_model", "save_model"]

FORMAT = 2  # increase it when files of the same version series become unreadable
MOST_MARKS = 100_000  # bags whose fingerprints a model file may have
_MEMBER = "bagwise.json"

# Types inside fitted estimators of SciPy and scikit-learn that skops does not trust by default.
_TRUSTED = {
    "numpy.dtype",  # in imputers; read from an empty array
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedGroupKFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sksurv.ensemble.forest.RandomSurvivalForest",
    "sksurv.tree.tree.SurvivalTree",  # its nodes are a Tree of scikit-learn
    "sklearn.tree._tree.Tree",  # skops does not, because its arrays index memory: see _check_tree
}
# Parameters that name a folder: a cache of scikit-learn (joblib unpickles its files), checkpoints.
_PATHS = ("memory", "checkpoint")


def save_model(
    model: BaseEstimator,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, Any] | None = None,
    trusted: Sequence[str] = (),
    force: bool = False,
) -> None:
    """Save a fitted estimator as a skops file.

    A model that `load_model` would reject is not saved, such as one with a step of XGBoost, unless
    its types are in `trusted`.

    Parameters
    ----------
    model : estimator
        Any estimator of bagwise, alone or inside scikit-learn's pipelines and searches.
    path : path
        The file, usually ``.skops``. It appears only when it is complete.
    metadata : dict, default=None
        Values to save with the model, such as names of columns: strings, numbers, booleans,
        None, and lists and dicts of them.
    trusted : sequence of str, default=()
        Types that the model may contain besides types of bagwise and scikit-learn, by the names in
        the error. They must be passed to `load_model`, too.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    OutputExistsError
        When the file exists and `force` is False.
    ModelFileError
        When the model contains objects that skops cannot save, or types that are not trusted.

    See Also
    --------
    load_model : Load the model again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.svm import LinearSVC
    >>> from bagwise.persistence import load_model, save_model
    >>> model = LinearSVC().fit([[0.0], [1.0]], ["no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder) / "model.skops", metadata={"bag": "slide"})
    ...     again, metadata = load_model(Path(folder) / "model.skops")
    >>> again.predict([[2.0]]), metadata["bag"]
    (array(['yes'], dtype='<U3'), 'slide')
    """
    name = type(model).__name__
    if not isinstance(model, BaseEstimator):
        raise InputError(f"expected an estimator to save, got {name}.")
    for part in (model, *model.get_params().values()):
        reason = getattr(part, "_cannot_be_saved", None)
        if reason is not None:
            raise ModelFileError(f"{type(part).__name__} cannot be saved by skops: {reason}.")
    notes = {"format": FORMAT, "metadata": dict(metadata or {})}
    notes |= {"bagwise_version": bagwise.__version__, "sklearn_version": sklearn.__version__}
    try:
        text = json.dumps(notes, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"metadata cannot be saved: {error}. Use strings and numbers.") from error
    if json.loads(text) != notes:
        raise InputError("metadata would change when loaded: use lists, and strings as keys.")
    skops = import_extra("skops.io", extra="persist")
    with replacing(Path(path), force=force) as temporary:
        try:
            skops.dump(model, temporary, compression=zipfile.ZIP_DEFLATED)
        except OSError:
            raise
        except Exception as error:
            raise ModelFileError(
                f"{name} cannot be saved as a skops file: {error}. Give it functions that can be "
                "imported by name, or use pickle."
            ) from error
        unknown = _not_trusted(skops.get_untrusted_types(file=temporary), trusted)
        if unknown:
            raise ModelFileError(
                f"{name} contains types that are not trusted, and load_model would refuse the "
                f"file: {', '.join(unknown)}. Use functions defined in a module, or pass the names "
                "with trusted=[...], here and to load_model."
            )
        with zipfile.ZipFile(temporary, "a") as archive:
            archive.writestr(_MEMBER, text)


def load_model(
    path: str | os.PathLike[str], *, trusted: Sequence[str] = ()
) -> tuple[BaseEstimator, dict[str, Any]]:
    """Load an estimator saved by `save_model`, provided that every type in the file is trusted.

    Trusted are the estimators of bagwise and scikit-learn, `Bags`, arrays, and the names in
    `trusted`. Parameters that name a folder (`memory` of a pipeline, `checkpoint`) become None,
    since that folder is not part of the model.

    Parameters
    ----------
    path : path
        The file.
    trusted : sequence of str, default=()
        Further types to trust, by the names in the error: your own transformers, or XGBoost.
        Loading imports the modules they name.

    Returns
    -------
    model : estimator
        The model; it predicts the same as the saved one.
    metadata : dict
        As passed to `save_model`, and ``"bagwise_version"`` and ``"sklearn_version"``.

    Raises
    ------
    DataNotFoundError
        When there is no such file.
    ModelFileError
        When the file is damaged, is not a model, comes from a version of bagwise whose files are
        not readable here, or contains types that are not trusted.
    """
    file = Path(path)
    if not file.is_file():
        raise DataNotFoundError(f"no model file {str(file)!r}.")
    skops = import_extra("skops.io", extra="persist")
    # skops, zipfile, NumPy and the estimators themselves parse the file, each with its own errors.
    try:
        content = file.read_bytes()  # read once, so that the checked file is the loaded one
        notes = _read_notes(content, file)
        found = skops.get_untrusted_types(data=content)
        unknown = _not_trusted(found, trusted)
        if unknown:
            raise ModelFileError(
                f"{file} contains types that are not trusted: {', '.join(unknown)}. If you know "
                "where the file comes from, pass their names with trusted=[...]."
            )
        model, metadata = skops.loads(content, trusted=found), dict(notes["metadata"])
        for part in _parts(model):
            _forget_paths(part)
            if isinstance(part, BaseEstimator) and hasattr(part, "tree_"):
                _check_tree(part)
    except (BagwiseError, OSError):
        raise
    except Exception as error:
        detail = " ".join(str(error).split()) or type(error).__name__
        raise ModelFileError(f"{file} cannot be loaded: it is damaged ({detail[:300]}).") from error
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"{file} contains a {type(model).__name__}, which is not a model.")
    versions = {name: notes[name] for name in ("bagwise_version", "sklearn_version")}
    return model, metadata | versions


def _parts(thing: Any) -> Iterator[Any]:
    """Estimators and dicts inside a model."""
    if isinstance(thing, BaseEstimator | dict):
        yield thing
        thing = list((thing if isinstance(thing, dict) else vars(thing)).values())
    if isinstance(thing, np.ndarray) and thing.dtype.hasobject:  # the trees of gradient boosting
        thing = thing.ravel().tolist()
    if isinstance(thing, list | tuple):
        for each in thing:
            yield from _parts(each)


def _forget_paths(part: BaseEstimator | dict[Any, Any]) -> None:
    """Set the parameters that name folders to None, also in the grids of searches."""
    values = part if isinstance(part, dict) else vars(part)
    for name, value in values.items():
        is_path = isinstance(name, str) and name.rpartition("__")[2] in _PATHS
        if is_path and not isinstance(value, int | float):
            values[name] = [None] if isinstance(value, list) else None


def _check_tree(model: Any) -> None:
    """Raise an error for a tree whose nodes or features lead compiled code out of its arrays."""
    tree = model.tree_
    inner = np.flatnonzero(tree.children_left != -1)
    children = np.concatenate([tree.children_left[inner], tree.children_right[inner]])
    feature = tree.feature[inner]
    # Every node but the root is the child of one node, which comes before it.
    is_tree = np.array_equal(np.sort(children), np.arange(1, tree.node_count))
    if not is_tree or np.any(children <= np.tile(inner, 2)):
        raise ValueError("the nodes of a decision tree are not a tree")
    if np.any(feature < 0) or np.any(feature >= model.n_features_in_):
        raise ValueError("a decision tree splits by a feature out of range")


def _read_notes(content: bytes, file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        if _MEMBER not in members.namelist():
            raise ModelFileError(f"{file} was not written by bagwise.persistence.save_model.")
        notes: dict[str, Any] = json.loads(members.read(_MEMBER))
    written = notes["bagwise_version"]
    if notes.get("format") != FORMAT or _series(written) != _series(bagwise.__version__):
        raise ModelFileError(
            f"{file} was written by bagwise {written}, whose files {bagwise.__version__} does not "
            "read: install that version, or fit the model again."
        )
    return notes


def _not_trusted(names: Iterable[str], trusted: Iterable[str]) -> list[str]:
    allowed = _TRUSTED | set(trusted)
    return sorted(name for name in set(names) - allowed if not _is_ours(name))


def _is_ours(name: str) -> bool:
    """Whether a dotted name belongs to `Bags` or to an estimator of bagwise."""
    module, _, attribute = name.rpartition(".")
    if not module.startswith("bagwise.") or module.startswith(("bagwise.cli", "bagwise.__")):
        return False
    try:
        found: Any = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    if not inspect.isclass(found) or found.__module__ != module:
        return False
    return found is Bags or issubclass(found, BaseEstimator)


def _series(version: str) -> list[str]:
    """The part of a version within which files stay readable: 1, 2, ..., or 0.2, 0.3, ..."""
    parts = version.split(".")
    return parts[:2] if parts[0] == "0" else parts[:1]


def fingerprints(bags: Bags) -> list[str]:
    """Hash each bag, by its size, its first and its last instance.

    A report recognises by them the bags that a model was fitted on, also in another file or under
    another name. The values of a bag cannot be recovered from its hash.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    list of str
        One per bag.
    """
    ends = np.column_stack([bags.offsets[:-1], bags.offsets[1:] - 1]).ravel()
    rows = bags.rows(ends)
    rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    marks = []
    for i, size in enumerate(bags.sizes.tolist()):
        digest = hashlib.blake2b(str(size).encode(), digest_size=8)
        digest.update(rows[2 * i : 2 * i + 2].tobytes())
        marks.append(digest.hexdigest())
    return marks
