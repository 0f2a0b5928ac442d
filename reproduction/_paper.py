"""Papers as data: experiments, settings and published numbers, read from TOML."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bagwise.exceptions import DataNotFoundError, FileFormatError, InputError

__all__ = [
    "TIMED_OUT",
    "DataSet",
    "Experiment",
    "MethodEntry",
    "Metric",
    "Paper",
    "applies",
    "list_papers",
    "load_paper",
]

PAPERS = Path(__file__).parent / "papers"
TIMED_OUT = "timed out"

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Metric:
    """A measured quantity.

    Attributes
    ----------
    title : str
        Its name in the paper.
    function : str or None
        ``"module:name"`` of a function of true and predicted labels; None if the protocol measures
        it, e.g. ``fit_seconds``.
    kind : {"score", "loss", "time"}
        Higher scores and lower losses are better. Published times were taken on another machine:
        they are shown as a ratio and not judged.
    """

    title: str
    function: str | None = None
    kind: str = "score"


@dataclass(frozen=True)
class DataSet:
    """A data set of a paper.

    Attributes
    ----------
    title : str
        Its name in the paper.
    source : str
        ``"module:name"`` of the function that loads or simulates it.
    options : dict
        Keyword arguments of that function. If it has a ``random_state``, the data are drawn anew
        in every repetition.
    family : str
        Name of a group of data sets, for settings of methods that apply to all of them.
    stand_in : dict or None
        ``title``, ``source`` and ``options`` of data of the same shape, used if the data set is
        missing: times can be compared with the paper's, scores cannot.
    """

    title: str
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)
    family: str = ""
    stand_in: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class MethodEntry:
    """A method of a paper and its fixed settings.

    Attributes
    ----------
    title : str
        Its name in the paper.
    model : dict
        ``class = "module:Name"``; the other keys are its parameters. A parameter that is itself
        such a table is an estimator; ``{ value = 10.0, per = "bags" }`` is divided by the number
        of training bags (or "instances", "positive bags", "negative instances"); ``{ none = true
        }`` is None. Empty for a method that bagwise does not have: only published numbers
        are shown.
    settings : dict of str to dict
        Other parameters for some of the data sets, by their name or family.
    scale : bool
        Whether instances are standardised inside the fold.
    compared : str
        The method whose published numbers it is compared with; its own by default.
    """

    title: str
    model: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scale: bool = True
    compared: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of a paper.

    Attributes
    ----------
    name : str
        Its name on the command line.
    kind : {"table", "figure"}
        A table is compared with published numbers, a figure is drawn.
    title : str
        What it shows.
    protocol : str
        How a unit of work is measured: a name of `reproduction.PROTOCOLS`.
    data, methods, metrics : tuple of str
        Names of the paper's entries.
    repetitions : int
        Number of repetitions, each with other seeds.
    folds : int or None
        Number of cross-validation folds, each its own unit of work; None without folds.
    sweep : dict or None
        ``name`` (``"data.n_bags"``, ``"model.C"`` or ``"options.labelled"``) and its ``values``;
        ``growth = true`` asks for growth exponents.
    options : dict
        Other options of the protocol and the plots.
    plots : tuple of str
        Names of `reproduction.PLOTS`.
    published : dict
        ``published[data][method][metric]`` is ``[mean, deviation]`` or ``[mean]``, or
        ``published[data][method]`` is "timed out".
    tolerance : float
        How many published standard deviations below still count as a match.
    explanations : tuple of dict
        ``text`` for cells of ``data`` and ``method`` (either may be omitted) below the paper.
    not_run : tuple of dict
        ``text``, why the cells of ``data`` and ``method`` (either may be omitted) are not run:
        "not run, because ...".
    claim, notes : str
        Claim of the paper; remarks on our version.
    quick : dict
        Attributes that ``--quick`` replaces.
    """

    name: str
    kind: str
    title: str
    protocol: str
    data: tuple[str, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    repetitions: int = 1
    folds: int | None = None
    sweep: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    plots: tuple[str, ...] = ()
    published: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1.0
    explanations: tuple[Mapping[str, Any], ...] = ()
    not_run: tuple[Mapping[str, Any], ...] = ()
    claim: str = ""
    notes: str = ""
    quick: Mapping[str, Any] = field(default_factory=dict)

    def shortened(self, keep: Iterable[str] = ()) -> Experiment:
        """Return the quick version.

        Parameters
        ----------
        keep : iterable of str
            Data sets and methods to keep even if the quick version leaves them out.

        Returns
        -------
        Experiment
        """
        short, kept = dataclasses.replace(self, **_tuples(self.quick)), set(keep)
        return dataclasses.replace(
            short,
            data=tuple(name for name in self.data if name in {*short.data, *kept}),
            methods=tuple(name for name in self.methods if name in {*short.methods, *kept}),
        )

    def reason(self, data: str, method: str) -> str | None:
        """Return why a cell is not run, or None."""
        return next((e["text"] for e in self.not_run if applies(e, data, method)), None)

    def narrowed(self, only: Iterable[str]) -> Experiment:
        """Keep the named data sets and methods only.

        Parameters
        ----------
        only : iterable of str
            Names of data sets or methods; if none of one kind is named, all of that kind are kept.

        Returns
        -------
        Experiment
        """
        wanted = tuple(only)
        for name in wanted:
            _pick(name, (*self.data, *self.methods), f"data set or method of {self.name}")
        data = tuple(name for name in self.data if name in wanted)
        methods = tuple(name for name in self.methods if name in wanted)
        return dataclasses.replace(self, data=data or self.data, methods=methods or self.methods)


@dataclass(frozen=True)
class Paper:
    """A paper and its reproducible experiments.

    Attributes
    ----------
    name : str
        Its name on the command line.
    title, citation, notes : str
        Title; full citation; remarks on all experiments.
    metrics, data, methods, experiments : dict
        The entries by their names.
    """

    name: str
    title: str
    citation: str
    metrics: Mapping[str, Metric]
    data: Mapping[str, DataSet]
    methods: Mapping[str, MethodEntry]
    experiments: Mapping[str, Experiment]
    notes: str = ""

    def experiment(self, name: str) -> Experiment:
        """Return an experiment by its name; an error suggests similar names."""
        return self.experiments[_pick(name, self.experiments, f"experiment of {self.name}")]

    def published(self, experiment: Experiment, data: str, method: str, metric: str) -> Any:
        """Return the published mean and deviation of a cell, "timed out", or None."""
        cells = experiment.published.get(data, {})
        cell = cells.get(method, cells.get(self.methods[method].compared))
        return cell.get(metric) if isinstance(cell, Mapping) else cell


def applies(remark: Mapping[str, Any], data: str, method: str) -> bool:
    """Return whether a remark on cells is one on this cell.

    Parameters
    ----------
    remark : dict
        ``data`` and ``method``; all if omitted.
    data, method : str
        The cell.

    Returns
    -------
    bool
    """
    return remark.get("data", data) == data and remark.get("method", method) == method


def list_papers() -> list[str]:
    """List the papers bagwise can reproduce.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from reproduction import list_papers
    >>> "pdmisvm" in list_papers()
    True
    """
    return sorted(path.stem for path in PAPERS.glob("*.toml"))


def load_paper(name: str | Path) -> Paper:
    """Read a paper.

    Parameters
    ----------
    name : str or Path
        A name from `list_papers`, or the path of your own TOML file.

    Returns
    -------
    Paper

    Raises
    ------
    InputError
        When there is no such paper.
    FileFormatError
        When the file does not describe a paper.

    Examples
    --------
    >>> from reproduction import load_paper
    >>> paper = load_paper("pdmisvm")
    >>> paper.experiment("table1").published["fox"]["pdmisvm-inexact"]["accuracy"]
    [0.64, 0.047]
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = PAPERS / f"{_pick(str(name), list_papers(), 'paper')}.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataNotFoundError(f"no file {str(path)!r}.") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FileFormatError(f"{path} cannot be read as TOML: {error}.") from error
    return _paper(path, content)


def _paper(path: Path, content: Mapping[str, Any]) -> Paper:
    entries = {
        "metrics": _entries(path, content, "metrics", Metric),
        "data": _entries(path, content, "data", DataSet),
        "methods": _entries(path, content, "methods", MethodEntry),
        "experiments": _entries(path, content, "experiments", Experiment, named=True),
    }
    plain = {key: value for key, value in content.items() if key not in entries}
    paper = _make(Paper, {"name": path.stem, **plain, **entries}, f"{path}")
    for experiment in paper.experiments.values():
        for kind in ("data", "methods", "metrics"):
            for entry in getattr(experiment, kind):
                _pick(entry, getattr(paper, kind), f"entry of [{kind}] in {path}")
    return paper


def _entries(
    path: Path, content: Mapping[str, Any], kind: str, entry: type[Entry], named: bool = False
) -> dict[str, Entry]:
    found = content.get(kind)
    if not isinstance(found, dict) or not all(isinstance(v, dict) for v in found.values()):
        raise FileFormatError(f"{path} has no tables [{kind}.NAME].")
    return {
        name: _make(
            entry, {**({"name": name} if named else {}), **values}, f"[{kind}.{name}] of {path}"
        )
        for name, values in found.items()
    }


def _make(entry: type[Entry], values: Mapping[str, Any], where: str) -> Entry:
    try:
        return entry(**_tuples(values))
    except TypeError as error:  # an unknown or missing key: the constructor names it
        what = str(error).partition("__init__() ")[2]
        raise FileFormatError(f"{where}: {what}.") from error


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}


def _pick(name: str, known: Iterable[str], what: str) -> str:
    names = list(known)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise InputError(f"no {what} is called {name!r}.{hint} There are {', '.join(names)}.")
