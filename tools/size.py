"""Count the lines of code, the entries at the top and the public names of the package.

    python tools/size.py              # the totals
    python tools/size.py --packages   # and the lines of each package
    python tools/size.py --check      # compare with the budgets in tools/size.toml; run by CI

A line of code is not blank, a comment or part of a docstring. A public name is in the `__all__` of
a module without an underscore in its path. Needs nothing but Python.
"""

import argparse
import ast
import collections
import io
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "bagwise"
BUDGETS = Path(__file__).with_suffix(".toml")
SKIP = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
SKIP |= {tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Packages that users do not import from; all other modules without an underscore are public.
INTERNAL = {"base", "cli", "compute", "loops", "solvers", "validation"}
LONGEST = 100  # characters of a line; longer ones would hide code from the count


def count(text, tree):
    """Lines of code, and lines with a comment."""
    documentation, code, comments = set(), set(), set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            documentation.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        if token.type not in SKIP:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documentation), len(comments)


def exported(tree):
    """The names in a literal `__all__`; None if there is none."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if getattr(targets[0], "id", "") == "__all__":
            if not isinstance(node.value, ast.List | ast.Tuple):
                return None
            values = [getattr(element, "value", None) for element in node.value.elts]
            return values if all(isinstance(value, str) for value in values) else None
    return None


def measure(source=SOURCE):
    """The counts of a package, and what its files do against the rules of counting."""
    code, comments, names, faults = collections.Counter(), 0, set(), []
    files = sorted(source.rglob("*.py"))
    for path in files:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        where = path.relative_to(source)
        parts = where.with_suffix("").parts
        lines, commented = count(text, tree)
        code[parts[0]] += lines
        comments += commented
        if "fmt: off" in text or "fmt: skip" in text:
            faults.append(f"{where}: fmt: off or skip")
        if max(map(len, text.splitlines()), default=0) > LONGEST:
            faults.append(f"{where}: a line of more than {LONGEST} characters")
        if not any(part.startswith("_") and part != "__init__" for part in parts):
            found = exported(tree)
            names.update(found or [])
            internal = parts[0] in INTERNAL
            if internal and found is not None:
                faults.append(f"{where}: __all__ in an internal package")
            if not internal and found is None and parts[-1] != "__main__":
                faults.append(f"{where}: no literal __all__")
    others = sum(
        path.stat().st_size
        for path in source.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".nbi", ".nbc")
    )
    return code, len(files), comments, names, others, faults


def check(code, names, others, faults):
    """Compare the counts with the budgets; return what exceeds them."""
    budgets = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    total, packages = budgets["total"], budgets["packages"]
    found = {"lines": sum(code.values()), "names": len(names), "entries": len(code)}
    faults += [f"{v:,} {k}, budget {total[k]:,}" for k, v in found.items() if v > total[k]]
    for name, lines in code.items():
        if lines > packages.get(name, 0):
            faults.append(f"{name}: {lines:,} lines of code, budget {packages.get(name, 0):,}")
    if others > 1.02 * total["other_bytes"]:
        faults.append(f"{others:,} bytes in other files, budget {total['other_bytes']:,} + 2 %")
    sources = [path.name for path in SOURCE.parent.iterdir() if path.is_dir()]
    if sources != [SOURCE.name]:
        faults.append(f"src has {', '.join(sorted(sources))}: expected one package")
    return faults


def main():
    """Print the counts; with --check, exit with 1 if a budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--packages", action="store_true", help="list the lines of each package")
    parser.add_argument("--check", action="store_true", help="compare with tools/size.toml")
    parser.add_argument("--root", type=Path, default=SOURCE, help="another package")
    options = parser.parse_args()
    code, n_files, comments, names, others, faults = measure(options.root)
    if options.packages:
        print(*(f"{n:7,} {name}" for name, n in code.most_common()), sep="\n")
    print(
        f"{sum(code.values()):,} lines of code in {n_files} files, {comments:,} lines with a "
        f"comment; {len(code)} entries at the top; {len(names)} public names; "
        f"{others:,} bytes in other files"
    )
    if not options.check:
        return 0
    exceeded = check(code, names, others, faults)
    print(*(f"size: {fault}" for fault in exceeded), sep="\n")
    if exceeded:
        print("Make room, or raise the budget in tools/size.toml and state the reason there.")
    return int(bool(exceeded))


if __name__ == "__main__":
    raise SystemExit(main())
