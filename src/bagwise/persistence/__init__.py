"""Save and load models as skops files, which run no code when they are loaded.

A model file is an ordinary skops archive (``skops.io.load`` opens it too) with one more member,
``bagwise.json``: the versions that wrote it, and metadata of the caller. Plain ``pickle`` works on
every estimator as well; use it only for files you made yourself.
"""

import contextlib
import inspect
import json
import os
import pkgutil
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, cast

import sklearn
from sklearn.base import BaseEstimator

import bagwise
from bagwise._common.files import replacing
from bagwise.bags import Bags
from bagwise.exceptions import BagwiseError, DataNotFoundError, InputError, ModelFileError
from bagwise.extras import import_extra
from bagwise.persistence._archive import check_archive, inflates_too_much
from bagwise.persistence._contents import estimators_in, forget_paths, model_problem

__all__ = ["load_model", "save_model", "trusted_types"]

_MEMBER = "bagwise.json"
_VERSIONS = ("bagwise_version", "sklearn_version")
_OLDER_SERIES = ("0.1",)  # versions whose files can be read, too

# Types inside fitted estimators of bagwise and scikit-learn that skops does not trust by default.
# The trees of scikit-learn are left out, as in skops: their arrays index memory unchecked.
_HELD = (
    "bagwise._methods.ready_made.OnePerLabel",
    "bagwise.base._trees.RandomisedTrees",
    "numpy.dtype",  # in imputers; read from an empty array
    "bagwise.base._trees.RandomisedTreesRegressor",
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
)


def trusted_types() -> list[str]:
    """List the types that a model file may contain, by name, for ``skops.io.load``.

    These are all public estimators of bagwise, `Bags`, and a few types of SciPy and scikit-learn
    that fitted estimators contain.

    Returns
    -------
    list of str
        Dotted names, sorted.

    Examples
    --------
    >>> from bagwise.persistence import trusted_types
    >>> "bagwise.bags.Bags" in trusted_types()
    True
    """
    return sorted(_trusted_in(_public_modules()))


def _trusted_in(modules: Iterable[ModuleType]) -> set[str]:
    """The trusted types among the exports of these modules."""
    names = {_dotted(Bags), *_HELD}
    for module in modules:
        things = (getattr(module, name) for name in getattr(module, "__all__", ()))
        classes = (t for t in things if inspect.isclass(t) and issubclass(t, BaseEstimator))
        names |= {_dotted(cls) for cls in classes if cls.__module__.startswith("bagwise.")}
    return names


def save_model(
    model: BaseEstimator,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, Any] | None = None,
    trusted: Sequence[str] = (),
    force: bool = False,
) -> None:
    """Save a fitted estimator as a skops file.

    A model that `load_model` would reject is not saved, such as one with a step of XGBoost or with
    scikit-learn's own trees, unless its types are in `trusted`. The trees of bagwise (pooled trees,
    also in `AutoBagClassifier` and `AutoBagRegressor`) are stored as arrays, and need no `trusted`.

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
        Types that the model may contain besides `trusted_types`, by the names in the error. They
        must be passed to `load_model`, too.
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
    if not isinstance(model, BaseEstimator):
        raise InputError(f"expected an estimator to save, got {type(model).__name__}.")
    for part in estimators_in(model):
        reason = getattr(part, "_cannot_be_saved", None)
        if reason is not None:
            raise ModelFileError(
                f"{type(part).__name__} cannot be saved as a skops file: {reason}."
            )
    notes = {
        "bagwise_version": bagwise.__version__,
        "sklearn_version": sklearn.__version__,
        "metadata": _checked_metadata(dict(metadata or {})),
    }
    skops = import_extra("skops.io", extra="persist")
    with replacing(Path(path), force=force) as temporary:
        try:
            skops.dump(model, temporary, compression=zipfile.ZIP_DEFLATED)
            with temporary.open("rb") as written:
                suspicious = inflates_too_much(written)
            if suspicious:  # arrays of zeros: not compressed, or loading would reject them
                skops.dump(model, temporary, compression=zipfile.ZIP_STORED)
        except OSError:
            raise
        except Exception as error:
            raise ModelFileError(
                f"{type(model).__name__} cannot be saved as a skops file: {error}. Give it "
                "functions that can be imported by name, or use pickle."
            ) from error
        held = skops.get_untrusted_types(file=temporary)
        nameless = [name for name in held if "<" in name]
        if nameless:
            raise ModelFileError(
                f"{type(model).__name__} holds {nameless[0]}, which cannot be found again by its "
                "name: give it a function defined in a module."
            )
        # The modules of all types in the model are already imported.
        unknown = sorted(set(held) - _trusted_in(_loaded_modules()) - set(trusted))
        if unknown:
            raise ModelFileError(
                f"{type(model).__name__} holds types that are not trusted, and load_model would "
                f"refuse the file: {', '.join(unknown)}. Use other parts, or pass these names with "
                "trusted=[...], here and to load_model."
            )
        with zipfile.ZipFile(temporary, "a") as archive:
            archive.writestr(_MEMBER, json.dumps(notes))


def load_model(
    path: str | os.PathLike[str], *, trusted: Sequence[str] = ()
) -> tuple[BaseEstimator, dict[str, Any]]:
    """Load an estimator saved by `save_model`, provided that every type in the file is trusted.

    The contents of the file are compared with the declarations of its estimators: parameters, and
    the shape, type and range of each fitted array. Parameters that name a file or a folder
    (`memory` of a pipeline, `checkpoint`) become None, since that file is not part of the model.

    Parameters
    ----------
    path : path
        The file.
    trusted : sequence of str, default=()
        Types to trust besides `trusted_types`, by the names in the error: your own transformers,
        scikit-learn's trees, or XGBoost. Loading imports the modules they name.

    Returns
    -------
    model : estimator
        The model; its predictions equal those of the saved one.
    metadata : dict
        As passed to `save_model`, and ``"bagwise_version"`` and ``"sklearn_version"``.

    Raises
    ------
    DataNotFoundError
        When there is no such file.
    ModelFileError
        When the file is damaged, is not a model, comes from a version of bagwise whose files are
        not readable here, or holds types that are not trusted.
    """
    file = Path(path)
    if not file.is_file():
        raise DataNotFoundError(f"no model file {str(file)!r}.")
    skops = import_extra("skops.io", extra="persist")
    exceptions = import_extra("skops.io.exceptions", extra="persist")
    names = [*trusted_types(), *trusted]
    try:
        with file.open("rb") as archive:  # opened once, so that the checked file is the loaded one
            check_archive(archive)
            notes = _read_notes(archive, file)
            model = skops.load(archive, trusted=names)
        problem = model_problem(model)
    except BagwiseError:
        raise
    except exceptions.UntrustedTypesFoundException as error:
        unknown = sorted(set(skops.get_untrusted_types(file=file)) - set(names))
        raise ModelFileError(
            f"{file} holds types that are not trusted: {', '.join(unknown)}. If you know where the "
            "file comes from, pass their names with trusted=[...]."
        ) from error
    # skops, zipfile, numpy and the estimators themselves parse the file, each with its own errors.
    except Exception as error:
        raise _damaged(file, str(error) or type(error).__name__) from error
    if not isinstance(model, BaseEstimator):
        raise ModelFileError(f"{file} holds a {type(model).__name__}, which is not a model.")
    if problem is not None:
        raise _damaged(file, problem)
    forget_paths(model)
    return model, notes.pop("metadata") | notes


def _damaged(file: Path, problem: str) -> ModelFileError:
    detail = " ".join(problem.split())
    detail = detail if len(detail) <= 300 else f"{detail[:300]} ..."
    return ModelFileError(f"{file} cannot be loaded: it is damaged ({detail}).")


def _read_notes(archive: IO[bytes], file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(archive) as members:
        if _MEMBER not in members.namelist():
            raise ModelFileError(f"{file} was not written by bagwise.persistence.save_model.")
        notes = json.loads(members.read(_MEMBER))
    notes = notes if isinstance(notes, dict) else {}
    kinds = {name: type(value) for name, value in notes.items()}
    if kinds != {**dict.fromkeys(_VERSIONS, str), "metadata": dict}:
        raise ModelFileError(f"{file} is damaged: {_MEMBER} in it is incomplete.")
    written = notes["bagwise_version"]
    if _series(written) not in (*_OLDER_SERIES, _series(bagwise.__version__)):
        raise ModelFileError(
            f"{file} was written by bagwise {written}, and this is {bagwise.__version__}: install "
            "that version to load it, or fit the model again."
        )
    return cast(dict[str, Any], notes)


def _public_modules() -> list[ModuleType]:
    """The public modules of bagwise, except those whose extra is not installed."""
    modules = []
    for info in pkgutil.walk_packages(bagwise.__path__, "bagwise.", onerror=lambda name: None):
        if "._" not in info.name and not info.name.startswith("bagwise.cli"):
            with contextlib.suppress(ImportError):
                modules.append(import_module(info.name))
    return modules


def _loaded_modules() -> list[ModuleType]:
    """The public modules of bagwise that are already imported."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("bagwise.") and "._" not in name and not name.startswith("bagwise.cli")
    ]


def _dotted(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        same = json.loads(json.dumps(metadata, allow_nan=False)) == metadata
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"metadata cannot be saved: {error}. Use texts, numbers and lists."
        ) from error
    if not same or metadata.keys() & set(_VERSIONS):
        raise InputError(
            "metadata would change when loaded: use lists instead of tuples, strings as keys, and "
            "leave 'bagwise_version' and 'sklearn_version' to bagwise."
        )
    return metadata


def _series(version: str) -> str:
    """The part of a version within which files stay readable: 1, 2, ..., or 0.1, 0.2, ..."""
    parts = version.split(".")
    return ".".join(parts[:2] if parts[0] == "0" else parts[:1])
