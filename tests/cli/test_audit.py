"""``bagwise audit``: which multi-instance assumption a method respects."""

import json


def test_one_method_has_a_row_per_test(run):
    result = run.ok("audit", "-m", "miles", "--seeds", "1")
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
