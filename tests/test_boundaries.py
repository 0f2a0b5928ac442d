"""A package imports only packages of earlier stages of the data flow."""

import ast
import re
from functools import cache
from pathlib import Path

import bagwise

ROOT = Path(bagwise.__file__).parent

# In the order of the data flow. A package may import itself and the packages listed for it.
FOUNDATION = {"exceptions", "_common", "labels", "bags", "loops", "compute"}
FOUNDATION |= {"solvers", "validation", "pairwise", "base"}
PACKAGES = {
    "exceptions": set(),
    "_common": {"exceptions"},
    "labels": {"_common", "exceptions"},
    # Bags.to and Bags.distribute call compute, Bags.from_frame calls io
    "bags": {"_common", "exceptions", "labels", "compute", "io"},
    "loops": {"_common", "exceptions"},
    "compute": {"_common", "exceptions", "bags"} | {"loops"},
    "solvers": {"_common", "exceptions", "bags", "loops", "compute"},
    "validation": {"_common", "exceptions", "labels", "bags", "compute"},
    "pairwise": FOUNDATION - {"base", "solvers"},
    "base": FOUNDATION,
    "embedding": FOUNDATION,
    "preprocessing": FOUNDATION,
    "classification": FOUNDATION | {"embedding"},
    "regression": FOUNDATION,
    "cluster": FOUNDATION | {"annotation"},
    "semi_supervised": FOUNDATION,
    "annotation": FOUNDATION,
    "metric_learning": FOUNDATION | {"annotation"},
    "metrics": {"_common", "exceptions", "bags", "validation", "base", "solvers"},
    "datasets": {"_common", "exceptions", "bags"},
    "io": {"_common", "exceptions", "labels", "bags", "compute"},
    "persistence": {"_common", "exceptions", "base", "bags"},
    "published": FOUNDATION
    | {"annotation", "classification", "cluster", "metric_learning", "semi_supervised"},
    "evaluate": FOUNDATION
    | {"classification", "embedding", "metrics", "preprocessing", "regression"},
    "auto": FOUNDATION
    | {"annotation", "classification", "metric_learning", "regression", "embedding"}
    | {"preprocessing", "evaluate"},
    "survival": FOUNDATION | {"auto", "classification", "embedding", "evaluate", "preprocessing"},
    "assumptions": FOUNDATION | {"datasets"},
    "predictions": FOUNDATION,
    "displays": FOUNDATION | {"evaluate", "predictions"},
    "report": FOUNDATION | {"displays", "evaluate", "predictions"},
    "apps": FOUNDATION | {"displays", "io", "predictions", "report"},
    "cli": None,  # the outermost package: may import all
    "__main__": {"cli", "exceptions"},
    "__init__": {"bags", "cli"},  # bagwise.fit is what the command line calls
}
OPTIONAL = {"clarabel", "matplotlib", "jinja2", "pyarrow", "h5py", "skops", "dask", "distributed"}
OPTIONAL |= {"soundfile", "usearch", "torch", "pynndescent", "anndata", "rdkit", "sksurv"}
FRAMES = {"pandas", "polars"}


def modules():
    return sorted(ROOT.rglob("*.py"))


def of_each_module(check):
    """Run a check on each module, as one test."""

    def test():
        failed = []
        for path in modules():
            try:
                check(path)
            except AssertionError as error:
                failed.append(f"{path.relative_to(ROOT)}: {error}")
        assert not failed, "\n".join(failed)

    return test


def package_of(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


@cache
def nodes(path):
    """The nodes of the syntax tree of a module."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imports(path):
    """Yield every imported dotted name; relative imports are not used."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@of_each_module
def test_packages_import_only_earlier_ones(path):
    package = package_of(path)
    assert package in PACKAGES, f"add {package} to the table"
    allowed = PACKAGES[package]
    if allowed is None:
        return
    known = {p.stem if p.is_file() else p.name for p in ROOT.iterdir()}
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "bagwise" and len(parts) > 1 and parts[1] in known:
            assert parts[1] in allowed | {package}, f"{package} imports {name}"


@of_each_module
def test_private_names_of_scikit_learn_are_imported_in_one_module(path):
    if path == ROOT / "_common" / "sklearn.py":
        return
    for name in imports(path):
        parts = name.split(".")
        private = parts[0] == "sklearn" and any(part.startswith("_") for part in parts[1:])
        assert not private, f"import {name} from bagwise._common.sklearn"


def test_the_design_page_lists_the_packages_in_order():
    page = (Path(__file__).parents[1] / "docs" / "design.md").read_text()
    listed = page.partition("## Packages")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)/?` \|", listed, flags=re.MULTILINE)
    assert sorted(named) == sorted(PACKAGES.keys() - {"__init__", "__main__"})
    for place, package in enumerate(named):
        below = (PACKAGES[package] or set()) - {package, *named[:place]}
        assert below == ({"compute", "io"} if package == "bags" else set()), package


@of_each_module
def test_optional_packages_are_never_imported_directly(path):
    for name in imports(path):
        assert name.split(".")[0] not in OPTIONAL | FRAMES, f"use import_extra for {name}"


@of_each_module
def test_texts_are_read_and_written_in_a_named_encoding(path):
    # Otherwise the encoding of the locale is used: ASCII in many containers.
    for call in nodes(path):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", None))
        texts = [a.value for a in call.args if isinstance(a, ast.Constant)]
        named = any(keyword.arg == "encoding" for keyword in call.keywords)
        if name == "read_text":
            assert named or call.args, f"line {call.lineno}"
        elif name == "write_text":
            assert named or len(call.args) > 1, f"line {call.lineno}"
        elif isinstance(call.func, ast.Name) and name == "open":
            assert named or any("b" in text for text in texts[-1:]), f"line {call.lineno}"


@of_each_module
def test_only_engines_decide_by_where_the_bags_are(path):
    # `Bags.where` itself reads the kind of its table.
    if package_of(path) in {"compute", "_common", "bags"}:
        return
    for node in nodes(path):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                of_bags = isinstance(side, ast.Attribute) and side.attr == "where"
                assert not (of_bags and ast.unparse(side).endswith("bags.where")), node.lineno
        name = getattr(node, "id", getattr(node, "attr", None))
        assert name not in {"is_tensor", "DistributedBags"}, node.lineno
