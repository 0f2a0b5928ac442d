import json
import re
from pathlib import Path

import pytest

from bagwise.auto._methods import METHODS, find_method
from bagwise.cli.options import parameters_by_method, parse_parameters
from bagwise.exceptions import InputError

DOCS = Path(__file__).parents[2] / "docs" / "methods.md"


def test_methods_are_listed_with_their_parameters(run):
    result = run.ok("methods")
    for name, method in METHODS.items():
        (line,) = re.findall(rf"^{name} .*$", result.stdout, flags=re.MULTILINE)
        assert method.paper_name in line
        assert (method.class_name or "") in line
        shown = run("methods", name).stdout
        assert method.title in " ".join(shown.split())
        assert all(f"{parameter}=" in shown for parameter in method.parameters)


def test_values_are_read_as_they_look():
    texts = ["a=1", "b=1e-3", "c=True", "d=none", "e=rbf", "f='1'", "g={'x': 2}", "h=x=y", "i="]
    assert parse_parameters(texts) == {
        "a": 1,
        "b": 1e-3,
        "c": True,
        "d": None,
        "e": "rbf",
        "f": "1",
        "g": {"x": 2},
        "h": "x=y",
        "i": "",
    }


def test_parameters_of_one_method_win_over_those_of_all():
    values = parse_parameters(["misvm-bag.C=1", "C=10", "tol=1e-3"])
    found = parameters_by_method(values, ["nsk", "misvm-bag"])
    assert found == {"nsk": {"C": 10, "tol": 1e-3}, "misvm-bag": {"C": 1, "tol": 1e-3}}


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("MI-SVM", "misvm-bag"),
        ("mi-SVM", "misvm-instance"),
        ("NSK", "nsk"),
        ("MIL", "auto"),
        ("attention MIL", "attention"),
        ("WSI", "attention"),
        ("key instance", "auto"),
        ("weak supervision", "auto"),
        ("SetKernelSVM", "nsk"),
        ("Andrews", "misvm-bag"),
    ],
)
def test_methods_are_found_by_what_people_search_for(run, word, first):
    result = run.ok("methods", "--search", word, "--json")
    assert json.loads(result.stdout)[0]["name"] == first


def test_a_method_is_chosen_by_the_name_of_its_paper():
    for name in ("MI-SVM", "mi-SVM", "Citation-kNN", "EM-DD"):
        assert name in find_method(name).aliases
    with pytest.raises(InputError, match="Unknown method 'MIML'"):
        find_method("MIML")  # of several


def test_an_unknown_method_names_the_nearest():
    with pytest.raises(InputError, match=r"'mi-sv'. Did you mean misvm-bag"):
        find_method("mi-sv")
    with pytest.raises(InputError, match=r"'SetKernelSV'. Did you mean nsk"):
        find_method("SetKernelSV")


def test_every_alias_of_the_literature_is_in_the_documentation():
    if not DOCS.exists():
        pytest.skip("the documentation is not part of an installed package")
    text = DOCS.read_text()
    missing = [m.aliases[0] for m in METHODS.values() if m.aliases[0] not in text]
    assert missing == []
