"""Tables that only the site has: the kept results whole, of which a page has a summary.

A line of a page, ``<!-- site: fields colon: AUC; seconds -->``, becomes a table when the site is
built. The first word is a source, the rest what its function is given.
"""

import json
import re
from pathlib import Path

from benchmarks import audit, fields, leaderboard
from reproduction import pages

PLACE = re.compile(r"<!-- site: (\w+) ?(.*?) -->")
OLDER = Path(pages.__file__).parent / "kept" / "older.json"


def older(name: str) -> str:
    """A table measured with version 0.2: not run again."""
    heads, *rows = json.loads(OLDER.read_text(encoding="utf-8"))[name]
    lines = [f"| {' | '.join(line)} |" for line in (heads, *rows)]
    lines.insert(1, "|---" * len(heads) + "|")
    return "\n".join(lines) + "\n"


def measured(request: str) -> str:
    """A measure of the leaderboard by data set, under its name."""
    measure = request.partition(": ")[2]
    table = leaderboard.table(request, leaderboard.kept_results())
    return f"**{measure[0].upper()}{measure[1:]}**\n\n{table}"


SOURCES = {
    "audit": lambda _: audit.table(),
    "fields": lambda request: fields.table(request, fields.kept_results()),
    "leaderboard": measured,
    "older": older,
    "papers": pages.table,
}


def whole(page: str) -> str:
    """Put the tables of the site into a page."""
    return PLACE.sub(lambda found: f"{SOURCES[found[1]](found[2])}\n", page)
