import json
import re
from pathlib import Path

import pytest
from sklearn.base import clone

from bagwise.auto._methods import METHODS, find_method, make_model
from bagwise.cli.options import parameters_by_method, parse_parameters
from bagwise.exceptions import InputError

DOCS = Path(__file__).parents[2] / "docs" / "methods.md"


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_method_makes_an_estimator_with_its_defaults(method):
    model = method.make(method.parameters)
    assert clone(model).get_params().keys() == method.make({}).get_params().keys()
    for name, value in method.fixed.items():
        assert model.get_params()[name] == value
        if name != "random_state":  # another seed is the same method
            with pytest.raises(InputError, match="no parameter"):
                method.make({name: value})


def test_methods_are_listed_with_their_parameters(run):
    result = run("methods")
    assert result.exit_code == 0
    for name, method in METHODS.items():
        (line,) = re.findall(rf"^{name} .*$", result.stdout, flags=re.MULTILINE)
        assert method.paper_name in line
        assert (method.class_name or "") in line
        shown = run("methods", name).stdout
        assert method.title in " ".join(shown.split())
        assert all(f"{parameter}=" in shown for parameter in method.parameters)


def test_methods_are_in_the_documentation():
    if not DOCS.exists():
        pytest.skip("the documentation is not part of an installed package")
    text = DOCS.read_text()
    assert all(f"`{name}`" in text for name in METHODS)


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


@pytest.mark.parametrize("text", ["C", "=1", "a b=1", "nsk.=1"])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(InputError, match="NAME=VALUE"):
        parse_parameters([text])


def test_parameters_of_one_method_win_over_those_of_all():
    values = parse_parameters(["misvm-bag.C=1", "C=10", "tol=1e-3"])
    found = parameters_by_method(values, ["nsk", "misvm-bag"])
    assert found == {"nsk": {"C": 10, "tol": 1e-3}, "misvm-bag": {"C": 1, "tol": 1e-3}}


def test_scaling_comes_first():
    method = find_method("nsk")
    scaled = make_model(method, {"C": 2}, scale=True, sparse=False)
    assert [name for name, _ in scaled.steps] == ["scale", "model"]
    assert scaled["model"].C == 2
    assert make_model(method, {}, scale=True, sparse=True)["scale"].transformer.with_mean is False
    assert type(make_model(method, {}, scale=False, sparse=False)).__name__ == "SetKernelSVM"


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
    result = run("methods", "--search", word, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)[0]["name"] == first


def test_a_search_without_result_is_one_line(run):
    result = run("methods", "--search", "teapot")
    assert result.exit_code == 2
    assert "teapot" in result.stderr


def test_a_method_is_chosen_by_the_name_of_its_paper():
    for name in ("MI-SVM", "mi-SVM", "Citation-kNN", "EM-DD"):
        assert name in find_method(name).aliases
    with pytest.raises(InputError, match="Unknown method 'MIML'"):
        find_method("MIML")  # of several


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_found_in_any_writing(name):
    method = METHODS[name]
    for own in (name, method.paper_name):
        assert find_method(own) is method
    for text in (name.upper(), name.replace("-", "_"), name.replace("-", " ")):
        assert find_method(text) is method
    if method.class_name is not None:
        assert type(find_method(method.class_name).make({})).__name__ == method.class_name


@pytest.mark.parametrize("text", ["mi-svm", "MI-SVM", "MISVM", "MI SVM", "BagMarginSVM"])
def test_mi_svm_is_found(text):
    assert find_method(text).name == "misvm-bag"


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


def test_the_seed_of_a_method_can_be_set():
    auto = METHODS["auto"]
    assert auto.make({}).random_state == 0
    assert auto.make({"random_state": 3}).random_state == 3
