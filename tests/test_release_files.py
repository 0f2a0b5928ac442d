"""Files for archives and package indexes: the paper, Zenodo, conda, governance."""

import json
import re
import tomllib
from datetime import datetime
from pathlib import Path

import bagwise

ROOT = Path(__file__).parent.parent
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

PAPERS = ("brand2021", "pham2014", "pei2014", "law2017", "li2013")  # of `bagwise.published`


def entries():
    """The references of the paper: fields by key."""
    text = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    blocks = re.findall(r"@\w+\{(\w+),\n(.*?)\n\}", text, flags=re.DOTALL)
    return {
        key: dict(re.findall(r"^ *(\w+) *= *\{(.*)\},$", fields, flags=re.MULTILINE))
        for key, fields in blocks
    }


def test_the_paper_has_what_the_journal_requires():
    """The sections, length and metadata of the Journal of Open Source Software, 2026."""
    _, head, body = PAPER.split("---\n", 2)
    sections = re.findall(r"^# (.+)$", body, flags=re.MULTILINE)
    required = ["Summary", "Statement of need", "State of the field", "Software design"]
    required += ["Functionality", "Tests and evidence", "Research impact statement"]
    assert sections == [*required, "AI usage disclosure", "Acknowledgements", "References"]
    assert 750 <= len(body.split()) <= 1750
    for field in ("title:", "tags:", "authors:", "affiliations:", "bibliography: paper.bib"):
        assert f"\n{field}" in f"\n{head}"
    datetime.strptime(re.search(r"^date: (.+)$", head, re.MULTILINE)[1], "%d %B %Y")


def test_every_citation_has_an_entry_with_a_doi_or_a_reason():
    known = entries()
    assert {*re.findall(r"@(\w+)", PAPER.split("---\n", 2)[2])} == {*known}
    for key, fields in known.items():
        assert {"title", "author", "year"} <= fields.keys(), key
        is_doi = re.fullmatch(r"10\.\d{4,}/\S+", fields.get("doi", ""))
        assert is_doi or fields.get("note") in ("no DOI", "DOI not verified"), key


def test_the_paper_lists_what_the_repository_has():
    """The other half of the journal's checklist: licence, guidelines, tests, examples."""
    for name in ("LICENSE", "README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "GOVERNANCE.md"):
        assert (ROOT / name).stat().st_size > 500, name
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause License")
    assert "pip install" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_zenodo_has_the_title_and_licence_of_the_project():
    found = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    assert found["title"] in PAPER
    assert found["upload_type"] == "software"
    assert found["license"] == PROJECT["license"]
    assert all(creator["name"] for creator in found["creators"])
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert found["title"] in cited
    assert {*found["keywords"]} <= {*PROJECT["keywords"]}


def test_the_citation_has_the_papers_of_the_bibliography():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.search(r"^date-released: (\S+)$", text, flags=re.MULTILINE)[1]
    assert f"## {bagwise.__version__} ({released})" in log
    cited = text.partition("references:\n")[2].split("  - type: ")[1:]
    assert len(cited) == len(PAPERS)
    for entry, key in zip(cited, PAPERS, strict=True):
        known = entries()[key]
        names = [name.partition(",")[0] for name in known["author"].split(" and ")]
        assert re.findall(r"family-names: ([^,]+),", entry) == names
        for field in ("title", "journal", "booktitle", "volume", "year"):
            plain = re.sub(r"[{}]", "", known.get(field, "")).lower()
            assert plain in entry.lower()


def test_the_recipe_of_conda_has_the_requirements_of_the_project():
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    run = text.partition("  run:\n")[2].partition("\n\n")[0]
    listed = [line.removeprefix("- ").replace(" ", "") for line in map(str.strip, run.splitlines())]
    python = f"python{PROJECT['requires-python']}"
    assert listed == [python, *PROJECT["dependencies"]]
    pattern = re.search(r"regex_pattern='(.+?)'", text)[1]
    source = (ROOT / "src" / "bagwise" / "__init__.py").read_text(encoding="utf-8")
    assert re.search(pattern, source)[1] == bagwise.__version__
    (script,) = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert script in text
