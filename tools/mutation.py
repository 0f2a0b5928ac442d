"""Mutation testing of the numerical modules: change one expression, expect a test to fail.

    python -m tools.mutation --mutants 200 --seed 0 --output survivors.txt

The tree is copied; every mutant is one edit in the copy, never in place. A mutant is caught when a
test fails or runs out of CPU time. Test files of a module are found by the imports: the files
nearest to it in the import graph run first, and inside a file the fast tests run first. The parent
process imports the scientific packages once and forks one child per mutant; numba's cache is filled
by the baseline run and copied for each mutant, so that only code that depends on the mutated file
compiles again.

The sample is drawn by a hash of each change and its line, so unchanged code gives the same mutants
before and after a change of the tests.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = (
    "src/bagwise/loops",
    "src/bagwise/solvers",
    "src/bagwise/metrics",
    "src/bagwise/pairwise.py",
    "src/bagwise/compute/parts.py",
    "src/bagwise/compute/arrays.py",
    "src/bagwise/compute/mapped.py",
)
PYTEST = ["-o", "addopts=--doctest-modules --import-mode=importlib", "-x", "-q", "--tb=line"]
PYTEST += ["-p", "no:cacheprovider", "-m", "not slow and not network"]
SLOWEST = 10.0  # CPU seconds: slower tests are left out
ENOUGH = 25.0  # CPU seconds: test files are added until their tests take this long
FILES = 5  # maximum number of test files for one module


@dataclass(frozen=True)
class Mutant:
    """One change of one file, by byte range."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str
    rank: str = field(compare=False)

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {self.kind}: {old[:80]} -> {new[:80]}"


# --- mutants -----------------------------------------------------------------------------------

ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
REVERSED = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SWAPPED_NAMES = {
    "max": "min",
    "min": "max",
    "maximum": "minimum",
    "minimum": "maximum",
    "argmax": "argmin",
    "argmin": "argmax",
    "floor": "ceil",
    "ceil": "floor",
    "any": "all",
    "all": "any",
    "zeros": "ones",
    "ones": "zeros",
    "cumsum": "cumprod",
    "sum": "prod",
}

SYMMETRIC = {"max", "min", "maximum", "minimum", "logaddexp", "hypot", "allclose", "array_equal"}


def replacements(node):
    """All single changes of one node: (kind, new node or None to drop a statement)."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        other = copy.copy(node)
        other.op = ARITHMETIC[type(node.op)]()
        yield "arithmetic", other
    if isinstance(node, ast.AugAssign):
        yield "dropped statement", None
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "dropped statement", None
    if isinstance(node, ast.Break | ast.Continue):
        yield "dropped statement", None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind, table in (("boundary", BOUNDARY), ("negated condition", REVERSED)):
            if type(node.ops[0]) in table:
                yield kind, ast.Compare(node.left, [table[type(node.ops[0])]()], node.comparators)
    if isinstance(node, ast.BoolOp):
        yield (
            "and/or",
            ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values),
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield "sign", node.operand
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        for step in (1, -1):
            yield "constant", ast.Constant(node.value + step)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "constant", ast.Constant(not node.value)
    if isinstance(node, ast.Attribute) and node.attr in SWAPPED_NAMES:
        yield "name", ast.Attribute(node.value, SWAPPED_NAMES[node.attr], node.ctx)
    if isinstance(node, ast.Name) and node.id in SWAPPED_NAMES:
        yield "name", ast.Name(SWAPPED_NAMES[node.id], node.ctx)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
        shifted = ast.BinOp(node.slice, ast.Sub(), ast.Constant(1))
        yield "index", ast.Subscript(node.value, shifted, node.ctx)
    if isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords:
        symmetric = ast.unparse(node.func).split(".")[-1] in SYMMETRIC
        if not symmetric and not any(isinstance(a, ast.Starred) for a in node.args):
            yield "swapped arguments", ast.Call(node.func, node.args[::-1], [])
    if isinstance(node, ast.IfExp):
        yield "negated condition", ast.IfExp(node.test, node.orelse, node.body)
    if isinstance(node, ast.Slice):
        for name in ("lower", "upper"):
            if (bound := getattr(node, name)) is not None:
                other = copy.copy(node)
                setattr(other, name, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
                yield "slice", other


def worth_changing(tree):
    """Expressions and statements in functions, without messages, types and declarations."""
    stack = [(node, False) for node in ast.iter_child_nodes(tree)]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if name in ("warn", "cast", "info", "debug", "TypeVar", "isinstance", "getLogger"):
                continue
        if isinstance(node, ast.FunctionDef):
            parts = [*node.args.defaults, *(d for d in node.args.kw_defaults if d), *node.body]
            stack += [(part, True) for part in parts]
            continue
        if isinstance(node, ast.AnnAssign):
            stack += [(node.value, inside)] if node.value else []
            continue
        if inside:
            yield node
        stack += [(child, inside) for child in ast.iter_child_nodes(node)]


def mutants_of(root, path, seed):
    """All mutants of one file, with a rank that depends only on the seed and the change."""
    source = (root / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    seen = defaultdict(int)
    for node in sorted(
        (n for n in worth_changing(ast.parse(source)) if hasattr(n, "lineno")),
        key=lambda n: (n.lineno, n.col_offset, n.end_lineno, n.end_col_offset),
    ):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        old = source[start:end].decode()
        context = source[starts[node.lineno - 1] : starts[node.lineno]].decode().strip()
        for kind, new in replacements(node):
            text = "pass" if new is None else ast.unparse(ast.fix_missing_locations(new))
            if isinstance(new, ast.expr) and not isinstance(new, ast.Slice):
                text = f"({text})" if isinstance(node, ast.expr) else text
            key = (path, context, kind, old, text)
            seen[key] += 1
            rank = hashlib.sha256(repr((seed, *key, seen[key])).encode()).hexdigest()
            yield Mutant(path, node.lineno, start, end, old, text, kind, rank)


def sample(root, n_mutants, seed, targets):
    """The mutants of smallest rank, at most one per line."""
    found = {}
    for target in targets:
        place = root / target
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for file in files:
            if file.exists():
                for mutant in mutants_of(root, str(file.relative_to(root)), seed):
                    key = (mutant.path, mutant.line)
                    if key not in found or mutant.rank < found[key].rank:
                        found[key] = mutant
    return sorted(found.values(), key=lambda m: m.rank)[:n_mutants]


# --- which tests exercise a module ----------------------------------------------------------------


class Imports:
    """The import graph of the package, with names resolved through ``__init__`` files."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        for file in sorted((root / "src").rglob("*.py")):
            parts = list(file.relative_to(root / "src").with_suffix("").parts)
            self.files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
        self.trees = {name: ast.parse(file.read_bytes()) for name, file in self.files.items()}
        self.names = {  # imports of each module: source, and bound names
            name: [
                (node.module, {alias.asname or alias.name for alias in node.names})
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module
            ]
            for name, tree in self.trees.items()
        }
        self.graph = {name: self.direct(tree) for name, tree in self.trees.items()}

    def direct(self, tree):
        """Modules a tree imports, or reaches as an attribute of an imported package."""
        found, packages = set(), {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    name = self.resolve(node.module, alias.name)
                    found.add(name)
                    packages[alias.asname or alias.name] = name
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) in packages:
                found.add(self.resolve(packages[node.value.id], node.attr))
        return {name for name in found if name in self.files}

    def resolve(self, module, name, depth=0):
        """The module that defines a name: a submodule, or where ``__init__`` imports it from."""
        if f"{module}.{name}" in self.files:
            return f"{module}.{name}"
        if module in self.files and depth < 5:
            for origin, names in self.names[module]:
                if name in names:
                    return self.resolve(origin, name, depth + 1)
        return module

    def distances(self, test):
        """Import steps from a test file to each module; imports of packages are not followed."""
        steps, front, step = {}, self.direct(ast.parse(test.read_bytes())), 1
        while front:
            steps |= dict.fromkeys(front, step)
            leaves = {m for m in front if self.files[m].name != "__init__.py"}
            front = {n for m in leaves for n in self.graph[m]} - steps.keys()
            step += 1
        return steps

    def dependents(self, path):
        """Files of compiled modules that import a module, directly or indirectly."""
        names = {name for name, file in self.files.items() if file == self.root / path}
        while True:
            more = {m for m, imports in self.graph.items() if imports & names and "loops" in m}
            if more <= names:
                return {self.files[m] for m in names} - {self.root / path}
            names |= more


def nearest_tests(root, paths):
    """The test files that reach each path, nearest first, then smaller first."""
    imports = Imports(root)
    names = {str(file.relative_to(root)): name for name, file in imports.files.items()}
    tests = sorted((root / "tests").rglob("test_*.py"))
    unfit = (
        "/cli/",
        "browser",
        "reproduction",
        "displays",
        "report",
        "test_docs",
        "review",
    )  # far from the mathematics, and slow
    tests = [t for t in tests if not any(word in str(t.relative_to(root)) for word in unfit)]
    steps = {test: imports.distances(test) for test in tests}
    table = {}
    for path in paths:
        far = 0 if "compute" in path else 9  # the tests of engines start workers
        near = [
            (s[names[path]] + far * ("compute" in str(t.relative_to(root))), t.stat().st_size, t)
            for t, s in steps.items()
            if names[path] in s
        ]
        table[path] = [str(t.relative_to(root)) for _, _, t in sorted(near)]
    return table, imports


# --- running ------------------------------------------------------------------------------------


class Record:
    """A pytest plugin that records CPU seconds and outcomes, or runs only fast, passing tests."""

    def __init__(self, known=None):
        self.known, self.seconds, self.bad = known, defaultdict(float), set()
        self.first_failure = None

    def pytest_runtest_logstart(self, nodeid):
        self.begun = time.process_time()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.bad.add(report.nodeid)
            self.first_failure = self.first_failure or report.nodeid

    def pytest_runtest_logfinish(self, nodeid):
        self.seconds[nodeid] += time.process_time() - self.begun

    def pytest_collection_modifyitems(self, config, items):
        if self.known is None:
            return
        order = {}
        for item in items:
            order.setdefault(item.nodeid.split("::")[0], len(order))
        kept = [i for i in items if self.known.get(i.nodeid, SLOWEST) < SLOWEST]
        kept.sort(key=lambda i: (order[i.nodeid.split("::")[0]], self.known[i.nodeid]))
        items[:] = kept


def child(root, cache, arguments, plugin, seconds, result):
    """Run pytest in a forked child with a CPU limit; return its exit status, None at the limit."""
    sys.stdout.flush()
    if pid := os.fork():
        deadline = time.monotonic() + 20 * seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return None
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        log = os.open(result.with_suffix(".log"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        os.chdir(root)
        os.environ["NUMBA_CACHE_DIR"] = str(cache)
        import numba

        numba.config.CACHE_DIR = str(cache)
        import pytest

        code = pytest.main([*PYTEST, *arguments], plugins=[plugin])
        result.write_text(
            json.dumps(
                {
                    "seconds": plugin.seconds,
                    "bad": sorted(plugin.bad),
                    "first": plugin.first_failure,
                }
            )
        )
        os._exit(int(code))
    except BaseException:
        traceback.print_exc()
        os._exit(99)


def preload(root):
    """Import the packages that every test imports, except bagwise."""
    os.environ |= {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:] = [str(root / "src"), *(p for p in sys.path if p not in ("", str(ROOT)))]
    import numba  # noqa: F401
    import pandas  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize
    import scipy.sparse.linalg
    import scipy.spatial  # noqa: F401
    import sklearn.cluster
    import sklearn.ensemble
    import sklearn.svm
    import sklearn.utils.estimator_checks  # noqa: F401


def baseline(root, cache, table, work):
    """Run every test file once on the unchanged copy; record times, and drop failing tests."""
    file = work / "baseline.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    needed = sorted({t for tests in table.values() for t in tests[:FILES]} | set(table))
    for test in needed:
        if test in known:
            continue
        result = work / "result.json"
        result.unlink(missing_ok=True)
        code = child(root, cache, [test, "--maxfail=1000"], Record(), 900, result)
        if result.exists():
            report = json.loads(result.read_text())
            bad = set(report["bad"])
            known[test] = {k: v for k, v in report["seconds"].items() if k not in bad}
        else:
            known[test] = {}
            bad = {f"{test} (exit {code})"}
        total = sum(known[test].values())
        print(f"baseline {test}: {len(known[test])} tests, {total:.1f} s", *sorted(bad), flush=True)
        file.write_text(json.dumps(known))
    if not any(known.values()):
        raise SystemExit(f"no test passed on the unchanged tree; see {work / 'result.log'}")
    return known


def tests_for(path, table, known):
    """The doctests of the module, then the nearest test files until they take long enough."""
    chosen, seconds = [path] if known.get(path) else [], 0.0
    for test in table[path][:FILES]:
        if known.get(test) and seconds < ENOUGH:
            chosen.append(test)
            seconds += sum(t for t in known[test].values() if t < SLOWEST)
    return chosen, seconds


def run(mutant, number, root, pristine, work, table, imports, known):
    """Whether a test catches the mutant, and the first failing test or another reason."""
    chosen, seconds = tests_for(mutant.path, table, known)
    if not chosen:
        return False, "no test reaches it"
    file = root / mutant.path
    original = file.read_bytes()
    stamps = {f: f.stat() for f in {file, *imports.dependents(mutant.path)}}
    cache = work / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    shutil.copytree(pristine, cache)
    try:
        changed = original[: mutant.start] + mutant.new.encode() + original[mutant.end :]
        try:
            compile(changed, str(file), "exec")
        except SyntaxError:
            return None, "does not compile"
        file.write_bytes(changed)
        for f, stamp in stamps.items():  # the caches of numba and Python depend on time and size
            os.utime(f, (stamp.st_atime, stamp.st_mtime + 10_000 + number))
        result = work / "result.json"
        result.unlink(missing_ok=True)
        all_known = {k: v for test in chosen for k, v in known[test].items()}
        code = child(root, cache, chosen, Record(all_known), 60 + 4 * seconds, result)
        if code == 0:
            return False, ""
        if not result.exists():
            return True, "time limit" if code in (None, -24, -9) else f"exit {code}"
        return True, json.loads(result.read_text())["first"] or f"exit {code}"
    finally:
        file.write_bytes(original)
        for f, stamp in stamps.items():
            os.utime(f, (stamp.st_atime, stamp.st_mtime))


def report(outcomes):
    """The share of caught mutants per module and overall, and the survivors."""
    lines, by_path = [], defaultdict(list)
    for mutant, caught, _ in outcomes:
        by_path[mutant.path].append(caught)
    lines.append(f"{'module':50} caught  of  share")
    for path, values in [*sorted(by_path.items()), ("all", [c for _, c, _ in outcomes])]:
        share = sum(values) / len(values)
        lines.append(f"{path:50} {sum(values):6d} {len(values):3d}  {share:5.0%}")
    lines.append("survivors:")
    lines += [f"  {mutant}" + (f"  [{why}]" if why else "") for mutant, c, why in outcomes if not c]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="file for the report")
    parser.add_argument("--targets", nargs="+", default=TARGETS, help="files or folders to mutate")
    parser.add_argument("--work", type=Path, help="folder for the copy, to go on after a stop")
    parser.add_argument(
        "--list", action="store_true", help="print the mutants and their tests only"
    )
    options = parser.parse_args(arguments)
    work = options.work or Path(tempfile.mkdtemp(prefix="mutation-"))
    root, pristine = work / "tree", work / "pristine"
    if not root.exists():
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        for name in names:
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
    pristine.mkdir(exist_ok=True)
    mutants = sample(root, options.mutants, options.seed, options.targets)
    table, imports = nearest_tests(root, sorted({m.path for m in mutants}))
    if options.list:
        for mutant in mutants:
            print(mutant, table[mutant.path][:FILES])
        return 0
    preload(root)
    known = baseline(root, pristine, table, work)
    log = work / "outcomes.json"
    done = json.loads(log.read_text()) if log.exists() else {}
    outcomes = []
    for number, mutant in enumerate(mutants):
        if str(mutant.rank) not in done:
            done[mutant.rank] = run(mutant, number, root, pristine, work, table, imports, known)
            log.write_text(json.dumps(done))
        caught, why = done[mutant.rank]
        if caught is not None:
            outcomes.append((mutant, caught, why))
            print(
                f"{number + 1:4d} {'caught' if caught else 'SURVIVED'} {mutant} [{why}]", flush=True
            )
    text = report(outcomes)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
