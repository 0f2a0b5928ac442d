"""``bagwise audit``: which multi-instance assumption a method respects."""

import json

import pytest


def test_one_method_has_a_row_per_test(run):
    result = run("audit", "-m", "miles", "--seeds", "1")
    assert result.exit_code == 0, result.stderr
    assert "miles keeps: several concepts" in result.stdout
    for test in ("single concept", "two concepts", "false frequency", "copies", "monotone"):
        assert test in result.stdout


def test_json_holds_what_was_declared_and_found(run):
    result = run("audit", "-m", "miles", "--seeds", "1", "--json")
    facts = json.loads(result.stdout)
    (method,) = facts["methods"]
    assert facts["seeds"] == 1
    assert method["declared"] == method["keeps"] == "several concepts"
    assert len(method["tests"]) == 10
    assert method["tests"][0]["after the move"] < 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-m", "nks"), "Did you mean nsk?"),
        (("-m", "miles", "--seeds", "0"), "--seeds"),
        (("-m", "miles", "--set", "D=1"), "no parameter 'D'"),
    ],
)
def test_wrong_options_are_one_line(run, words, message):
    result = run("audit", *words)
    assert result.exit_code == 2
    assert message in result.stderr
