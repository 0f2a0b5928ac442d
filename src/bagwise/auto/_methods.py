"""Methods by their names on the command line. To add a method, add an entry to methods.toml."""

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bagwise.exceptions import InputError


@dataclass(frozen=True)
class Method:
    """A method of the command line.

    Attributes
    ----------
    name : str
        The name from the paper, in lower case.
    title : str
        Description in one line.
    paper : str
        The reference.
    target : str
        ``"module:name"`` of the estimator, or of a function that makes one; loaded when needed.
    label_sets : bool
        Whether the method also learns from a label set per bag.
    fixed : dict
        Parameters that define the method.
    needs : str or None
        An optional package that the method requires.
    aliases : list of str
        Other names and search terms; the name in the literature comes first.
    command : str or None
        The only command that has the method; None for `fit` and `evaluate`.
    regressor : str or None
        The target of the regressor, or None.
    survival : str or None
        The target of the model of a time to an event, or None.
    published : str or None
        The target of the system exactly as its paper prints it: ``NAME@published``.
    """

    name: str
    title: str
    paper: str
    target: str
    label_sets: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    needs: str | None = None
    aliases: list[str] = field(default_factory=list)
    command: str | None = None
    regressor: str | None = None
    survival: str | None = None
    published: str | None = None

    @property
    def paper_name(self) -> str:
        """Name of the method in the literature."""
        return self.aliases[0] if self.aliases else self.name

    @property
    def class_name(self) -> str | None:
        """Name of the estimator class; None if a function makes the estimator."""
        name = self.target.partition(":")[2]
        return name if name[:1].isupper() else None

    @property
    def available(self) -> bool:
        """Whether the package that the method requires is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None

    @property
    def factory(self) -> Callable[..., Any]:
        """The estimator class, or the function that makes an estimator."""
        module, _, name = self.target.partition(":")
        return getattr(importlib.import_module(module), name)

    @property
    def parameters(self) -> dict[str, Any]:
        """Names and defaults of the parameters that may be set."""
        found = inspect.signature(self.factory).parameters.values()
        defaults = {p.name: p.default for p in found if p.name not in self.fixed}
        seed = {name: value for name, value in self.fixed.items() if name == "random_state"}
        return defaults | seed  # a fixed seed may be changed

    @property
    def keeps(self) -> str:
        """The assumption that the method declares, see `BagClassifierMixin.keeps`."""
        from bagwise.base._pipelines import kept_assumption

        return kept_assumption(self.make({}))

    def check_labels(self, *, label_sets: bool) -> None:
        """Refuse label sets if the method learns from one label per bag."""
        if label_sets and not self.label_sets:
            able = ", ".join(method.name for method in METHODS.values() if method.label_sets)
            raise InputError(f"{self.name} learns one label per bag, not label sets: use {able}.")

    def for_numbers(self) -> "Method":
        """Return the variant that predicts a numeric target, or raise an error if there is none."""
        if self.regressor is None:
            able = ", ".join(method.name for method in METHODS.values() if method.regressor)
            raise InputError(
                f"{self.name} predicts labels, not numbers: use {able}, or --task classification."
            )
        return replace(self, target=self.regressor)

    def for_times(self) -> "Method":
        """Return the variant that predicts times to an event, or raise an error without one."""
        if self.survival is None:
            able = ", ".join(method.name for method in METHODS.values() if method.survival)
            raise InputError(f"{self.name} does not predict times to an event: use {able}.")
        # A class that learns classes as well has the loss as a parameter.
        own = {"loss": "cox"} if self.survival == self.target else {}
        found = replace(self, target=self.survival, fixed=own)
        kept = {k: v for k, v in self.fixed.items() if k in found.parameters}
        return replace(found, fixed=kept | own)

    def as_printed(self) -> "Method":
        """Return the system of the paper without our changes."""
        changed: Any = {"name": f"{self.name}@published", "title": f"{self.title}, as printed"}
        changed |= {"target": self.published, "fixed": {"random_state": 0}, "published": None}
        return replace(self, **changed, regressor=None)

    def make(self, parameters: Mapping[str, Any]) -> Any:
        """Make the estimator."""
        known = self.parameters
        unknown = [name for name in parameters if name not in known]
        if unknown:
            raise InputError(f"{self.name} has no parameter {unknown[0]!r}: {', '.join(known)}.")
        needed = [n for n, v in known.items() if v is inspect.Parameter.empty]
        lacking = [n for n in needed if n not in parameters]
        if lacking:
            raise InputError(f"{self.name} needs {lacking[0]}: give --set {lacking[0]}=VALUE.")
        return self.factory(**{**self.fixed, **parameters})


def _read_methods() -> dict[str, Method]:
    text = Path(__file__).with_name("methods.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["method"]
    return {entry["name"]: Method(**entry) for entry in entries}


_ALL = _read_methods()
METHODS = {name: method for name, method in _ALL.items() if method.command is None}
PUBLISHED = {f"{name}@published": m.as_printed() for name, m in _ALL.items() if m.published}

# Search terms that match every method, in lower case.
_TOPICS = ("mil", "multiple instance learning", "multi-instance learning", "weak supervision")


def search_methods(text: str) -> list[Method]:
    """Find methods by a word in their name, aliases, class, title or paper.

    "key instance" finds the methods with key instances, "regression" those that predict a number
    per bag, and a term for the whole field, such as "MIL", every method.

    Parameters
    ----------
    text : str
        The word; case is ignored, but an alias with the same case comes first.

    Returns
    -------
    list of Method

    Examples
    --------
    >>> from bagwise.auto._methods import search_methods
    >>> [method.name for method in search_methods("mi-SVM")][:2]
    ['misvm-instance', 'pdmisvm']
    """
    word = text.strip().lower()
    if word in _TOPICS:
        return [*_ALL.values(), *PUBLISHED.values()]
    if word in ("regression", "regressor", "number", "numbers"):
        return [method for method in _ALL.values() if method.regressor is not None]
    if word.rstrip("s") == "key instance":
        return [method for method in _ALL.values() if hasattr(method.factory, "key_instances")]
    found = [
        method
        for method in (*_ALL.values(), *PUBLISHED.values())
        if word in f"{method.name} {method.title} {method.target}".lower()
        or word in f"{method.paper} {'; '.join(method.aliases)}".lower()
    ]
    return sorted(found, key=lambda method: text.strip() not in method.aliases)


def find_method(name: str, command: str | None = None) -> Method:
    """Return a method by its name, class or an alias; the error for others lists similar names.

    If there is no exact match, case, hyphens, spaces and underscores are ignored: "mi-svm" is
    MI-SVM, while "mi-SVM" is the other method of that paper. "orlr@published" is ORLR exactly as
    its paper prints it, and "package.module:Class" an estimator of the user.

    Parameters
    ----------
    name : str
        The name.
    command : str, default=None
        The only command of the method; None for methods of `fit` and `evaluate`; "any" for all.

    Returns
    -------
    Method

    Examples
    --------
    >>> from bagwise.auto._methods import find_method
    >>> [find_method(name).name for name in ("MI-SVM", "mi-svm", "BagMarginSVM", "mi-SVM")]
    ['misvm-bag', 'misvm-bag', 'misvm-bag', 'misvm-instance']
    """
    if ":" in name:
        return _imported(name)
    name, at, version = name.partition("@")
    methods = [method for method in _ALL.values() if command in (method.command, "any")]
    if at:
        found = PUBLISHED.get(f"{find_method(name, command).name}@{version}")
        if found is None:
            able = [m.name for m in PUBLISHED.values() if command in (m.command, "any")]
            raise InputError(f"Unknown method {name}@{version}. Choose from {', '.join(able)}.")
        return found
    for spelling in (str, _letters):
        word = spelling(name)
        own = [m for m in methods if word in map(spelling, _own_names(m))]
        called = [m for m in methods if word in map(spelling, m.aliases)]
        if own or len(called) == 1:
            return (own or called)[0]
    # The first method has a name that several share.
    places = {_letters(text): m.name for m in reversed(methods) for text in _own_names(m)}
    near = difflib.get_close_matches(_letters(name), places, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join({places[text]: 0 for text in near})}?" if near else ""
    if "." in name:
        hint = f" Did you mean {':'.join(name.rsplit('.', 1))}?"
    choices = ", ".join(method.name for method in methods)
    raise InputError(f"Unknown method {name!r}.{hint} Choose from {choices}.")


def _imported(name: str) -> Method:
    """An estimator of the user, "package.module:Class"; the current folder is searched as well."""
    from sklearn.base import RegressorMixin

    module, _, attribute = name.partition(":")
    add_current_folder()
    try:
        made = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:  # whatever the module of the user raises
        raise InputError(f"{name} cannot be imported: {type(error).__name__}: {error}.") from error
    if not (inspect.isclass(made) and hasattr(made, "get_params") and hasattr(made, "predict")):
        found = f"{module} has no {attribute}" if made is None else f"{name} is no estimator"
        raise InputError(
            f"{found}: expected a classifier or regressor, a class that inherits ClassifierMixin "
            "(RegressorMixin) and BaseEstimator of scikit-learn, whose fit and predict take Bags."
        )
    regressor = name if issubclass(made, RegressorMixin) else None
    return Method(name, f"{attribute} of {module}", "", name, label_sets=True, regressor=regressor)


def add_current_folder() -> None:
    """Let modules in the current folder be imported, as ``python -m`` does."""
    if not {"", os.getcwd()} & {*sys.path}:
        sys.path.insert(0, os.getcwd())


def _own_names(method: Method) -> list[str]:
    """Names of one method only: its name, the name in the literature, its class."""
    return [method.name, method.paper_name, *filter(None, [method.class_name])]


def _letters(name: str) -> str:
    """Convert a name to lower case and drop all but letters and digits."""
    return "".join(filter(str.isalnum, name.lower()))


def make_model(
    method: Method,
    parameters: Mapping[str, Any],
    *,
    around: Callable[[Any], Any] = lambda model: model,
    **steps: Any,
) -> Any:
    """Make the estimator, after the steps of `bagwise.preprocessing._bag_pipeline.prepared`.

    `around` puts it into another estimator, such as one for grades.
    """
    from bagwise.preprocessing._bag_pipeline import prepared

    return prepared(around(method.make(parameters)), **steps)


def audited_model(method: Method, parameters: Mapping[str, Any]) -> Any:
    """Make the model of an audit: instances standardised, the other parameters at their defaults.

    No test depends on the decision threshold. The cross-validation that sets it is therefore left
    out, which saves most of the time of a kernel SVM.
    """
    plain = {"threshold": "zero"} if "threshold" in method.parameters else {}
    return make_model(method, {**plain, **parameters})
