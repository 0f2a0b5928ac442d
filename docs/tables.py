"""Tables that only the site has: the kept results whole, of which a page has a summary.

A line of a page, ``<!-- site: fields colon -->``, becomes a table when the site is built. The first
word is a source, the rest what its function is given.
"""

import json
import re
from pathlib import Path

from benchmarks import audit, fields
from benchmarks.leaderboard import tables as leaderboard
from reproduction import pages

PLACE = re.compile(r"<!-- site: (\w+) ?(.*?) -->")
OLDER = Path(pages.__file__).parent / "kept" / "older.json"


def older(name: str) -> str:
    """A table measured with version 0.2: not run again."""
    heads, *rows = json.loads(OLDER.read_text(encoding="utf-8"))[name]
    lines = [f"| {' | '.join(line)} |" for line in (heads, *rows)]
    lines.insert(1, "|---" * len(heads) + "|")
    return "\n".join(lines) + "\n"


def field(name: str) -> str:
    """All measures of a set of `benchmarks.fields`."""
    kept = fields.kept_results()
    measures = dict.fromkeys(m for cell in kept[name]["cells"].values() for m in cell)
    shown = [m for m in measures if m not in ("failed", "of folds")]
    return fields.table(f"{name}: {'; '.join(shown)}", kept)


def paper(request: str) -> str:
    """A table of a paper without the rows of which nothing was run."""
    lines = pages.table(request).splitlines(keepends=True)
    return "".join(
        line for line in lines if set(line.strip("| \n").split(" | ")[1:]) != {"not run"}
    )


def measured(request: str) -> str:
    """A measure of the leaderboard by data set, under its name."""
    measure = request.partition(": ")[2]
    table = leaderboard.table(request, leaderboard.kept_results())
    return f"**{measure[0].upper()}{measure[1:]}**\n\n{table}"


SOURCES = {
    "audit": lambda _: audit.table(),
    "fields": field,
    "leaderboard": measured,
    "older": older,
    "papers": paper,
}


def whole(page: str) -> str:
    """Put the tables of the site into a page."""
    return PLACE.sub(lambda found: f"{SOURCES[found[1]](found[2])}\n", page)
