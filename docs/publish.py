"""Add the built documentation to a site of all versions: ``python -m docs.publish SITE``.

Copies docs/_build (``make docs``) to SITE/SERIES, such as ``0.3``, in place of an earlier build of
this series, and lists the versions in SITE/versions.json, which the menu of every version reads.
SITE/index.html leads to the newest release. Upload SITE to any web server.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from bagwise import __version__

BUILT = Path(__file__).parent / "_build"
GO = "<!doctype html><meta http-equiv='refresh' content='0; url={0}/'><a href='{0}/'>bagwise</a>"


def publish(built: Path, site: Path, version: str) -> list[dict[str, str]]:
    """Copy a build to the site; returns the versions there, the newest first."""
    series = ".".join(version.split(".")[:2])
    folder = site / series
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(built, folder, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    (folder / "VERSION").write_text(f"{version}\n", encoding="utf-8")
    folders = [file.parent for file in site.glob("*/VERSION")]
    folders.sort(key=lambda each: [int(part) for part in re.findall(r"\d+", each.name)])
    listed = [
        {"folder": each.name, "name": (each / "VERSION").read_text(encoding="utf-8").strip()}
        for each in reversed(folders)
    ]
    (site / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    (site / "index.html").write_text(GO.format(listed[0]["folder"]), encoding="utf-8")
    return listed


if __name__ == "__main__":
    if len(sys.argv) != 2 or not BUILT.is_dir():
        sys.exit(f"{__doc__}\nRun make docs first.")
    for each in publish(BUILT, Path(sys.argv[1]), __version__):
        sys.stdout.write(f"{each['folder']}: {each['name']}\n")
