"""Public names are documented, and the version is defined once."""

import inspect
import re
import tomllib
from pathlib import Path

import bagwise
from estimators import public_estimators

ROOT = Path(__file__).parent.parent
SECTIONS = ("Parameters", "Attributes", "Examples")


def public_names():
    """Public functions and classes, and their own methods, by name."""
    found = {"Bags": bagwise.Bags}
    for package in set(bagwise._PACKAGES) - {"exceptions"}:
        module = getattr(bagwise, package)
        found |= {f"{package}.{name}": getattr(module, name) for name in module.__all__}
    for name, cls in list(found.items()):
        for base in inspect.getmro(cls) if inspect.isclass(cls) else ():
            if base.__module__.startswith("bagwise."):
                own = {key: getattr(cls, key) for key in vars(base) if not key.startswith("_")}
                found |= {f"{name}.{key}": method for key, method in own.items()}
    return {name: thing for name, thing in found.items() if callable(thing)}


def test_every_parameter_is_documented():
    left_out = []
    for name, thing in public_names().items():
        documented = inspect.getdoc(thing)
        for parameter in inspect.signature(thing).parameters.keys() - {"self"}:
            pattern = rf"^(\w+, )*\**{parameter}(, \w+)*( :.*)?$"
            if "Parameters\n---" in documented and not re.search(pattern, documented, re.MULTILINE):
                left_out.append(f"{name}({parameter})")
    assert not left_out


def test_estimators_have_all_sections_and_iterative_ones_their_curve():
    left_out = []
    for cls in public_estimators():
        documented = inspect.getdoc(cls)
        wanted = [f"{section}\n{'-' * len(section)}" for section in SECTIONS]
        if "max_iter" in inspect.signature(cls).parameters:
            wanted += ["\nn_iter_ : ", "\nobjective_curve_ : "]
        left_out += [(cls.__name__, words) for words in wanted if words not in documented]
    assert not left_out


def test_constructors_have_a_default_for_everything():
    for cls in public_estimators():
        for parameter in inspect.signature(cls).parameters.values():
            assert parameter.default is not inspect.Parameter.empty, (cls, parameter)


def test_lists_have_each_entry_once():
    """Branches that add lines to the same list are easily merged into two lists."""
    entries = r"^\| .*\||^   [a-z_.]+\.\w+$|^[A-Z].*(?=\n-+\n)"
    for page in ("README.md", "docs/index.md", "docs/methods.md"):
        listed = re.findall(entries, (ROOT / page).read_text(), flags=re.MULTILINE)
        assert sorted(set(listed)) == sorted(listed), page


def test_all_names_exist():
    for package in bagwise._PACKAGES:
        module = getattr(bagwise, package)
        for name in module.__all__:
            assert getattr(module, name).__doc__, f"{package}.{name}"


def test_the_version_is_the_same_in_all_files():
    """pyproject.toml reads it from the package; the wheel is named after it (test_wheel.py)."""
    assert f"\nversion: {bagwise.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"{{Version {bagwise.__version__}, " in (ROOT / "docs" / "project.md").read_text()
    series = ".".join(bagwise.__version__.split(".")[:2])
    assert f"{series}.x now" in (ROOT / "SECURITY.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python = f"{project['requires-python'].removeprefix('>=')} or newer"
    for page in ("README.md", "SECURITY.md"):
        assert python in (ROOT / page).read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    released = re.findall(r"^## (\d\S*)", changelog, flags=re.MULTILINE)
    assert "## Unreleased" in changelog or released[0] == bagwise.__version__
