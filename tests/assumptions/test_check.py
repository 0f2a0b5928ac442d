"""The audit finds the assumptions of models with known behaviour and of the declared methods."""

from pathlib import Path

import numpy as np
import pytest
from assumptions.models import Both, Count, First, Known, Mean, NoDecoy, Standard

from bagwise.assumptions import check_assumptions
from bagwise.assumptions._check import ENOUGH, STRENGTHS, TESTS, AssumptionCheck, Row, trials
from bagwise.auto import AutoBagClassifier
from bagwise.auto._members import chosen_members, default_members, keeping
from bagwise.auto._methods import METHODS, audited_model
from bagwise.base._pipelines import kept_assumption
from bagwise.classification import PrimalDualMISVM, SingleInstanceClassifier
from bagwise.exceptions import InputError

SMALL = {"seeds": 2, "n_train": 8, "n_test": 80}


@pytest.mark.parametrize(
    ("model", "keeps", "passed"),
    [
        (Standard(), "standard", {"single concept", "order", "copies", "monotone"}),
        (NoDecoy(), "one concept", {"order", "copies"}),
        (Mean(), "collective", {"order"}),
        (First(), "one concept", {"copies", "monotone"}),  # another is added at the end
        (Both(), "several concepts", {*TESTS} - {"single concept"}),
        (Count(), "collective", {"two concepts", "order", "copies", "monotone"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_of_known_behaviour(model, keeps, passed):
    found = check_assumptions(model, **SMALL)
    assert {test for test in TESTS if found.passes(test)} == passed
    assert found.keeps == keeps


def test_the_table_has_a_row_per_test_and_strength():
    table = check_assumptions(NoDecoy(), **SMALL).table()
    tests = ["single concept"] * 3 + ["two concepts"] * 3 + list(TESTS[2:])
    assert table["test"] == tests
    assert table["decoy"] == [*STRENGTHS, *STRENGTHS, None, None, None, None]
    moved = np.array(table["after the move"][:6])
    assert np.all(np.array(table["AUC as trained"][1:3]) > 0.99)
    assert np.all(moved[1:3] < 0.01)
    assert table["worst seed"][0] <= moved[0]
    assert table["change"][:7] == [None] * 7
    assert table["change"][9] > 0.5


def test_what_is_decided_ends_early_with_the_same_verdict():
    options = {"seeds": 6, "n_train": 8, "n_test": 40}
    early, whole = (
        check_assumptions(NoDecoy(), stop_early=stop, **options) for stop in (True, False)
    )
    assert [row.passes for row in early.rows] == [row.passes for row in whole.rows]
    assert all(row.n_seeds == 6 for row in whole.rows)
    assert early.rows[0].n_seeds < 6
    for row, other in zip(early.rows, whole.rows, strict=True):
        assert row.moved == other.moved[: len(row.moved)]


@pytest.mark.parametrize("n_seeds", [1, 2, 20])
def test_a_test_is_decided_only_where_no_seed_could_save_it(n_seeds):
    for first in np.linspace(0, 1, 101):
        row = Row("single concept", -3.0, (1.0,), (float(first),))
        best = row.joined(Row("single concept", -3.0, *2 * [(1.0,) * (n_seeds - 1)]))
        if abs(np.mean(best.moved) - ENOUGH) > 1e-9:
            assert row.decided(n_seeds) == (not best.passes)


def test_a_model_that_does_not_learn_does_not_pass():
    constant = Row("single concept", -3.0, (0.5,), (1.0,))
    assert not constant.passes
    assert Row("single concept", -3.0, (1.0, 0.9), (0.96, 0.96)).passes
    assert not Row("order", change=(0.0, 1e-3)).passes
    with pytest.raises(InputError, match="no test is called 'presence'"):
        AssumptionCheck([constant]).passes("presence")


def test_each_fit_is_reported_and_the_model_untouched():
    class Counting(Known):
        fits = 0

        def fit(self, bags, y):
            self.fits += 1
            return self

        def score(self, bag):
            return bag.max()

    calls, model = [], Counting()
    check_assumptions(model, seeds=2, n_train=4, n_test=4, after_fit=lambda: calls.append(1))
    assert 7 <= len(calls) <= 14
    assert model.fits == 0


class Wrong(Known):
    """A model with three scores per bag."""

    def decision_function(self, bags):
        return np.zeros((len(bags), 3))


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (SingleInstanceClassifier, {}, "expected an instance with fit"),
        (Wrong(), {}, "gave 3 scores per bag: expected one"),
        (Standard(), {"seeds": 0}, "seeds == 0"),
    ],
)
def test_what_cannot_be_audited_is_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        check_assumptions(model, **{"seeds": 1, "n_train": 4, "n_test": 4} | options)


AUDITED = [name for name, method in METHODS.items() if method.available and name != "auto"]
N_TRAIN = {"dd": 30, "minet": 200}  # ascends from every instance; learns slowly
LONG = ("concepts", "wellsvm")
FASTER = {"pooled-trees": {"n_estimators": 50}, "concepts": {"C": 30.0, "n_landmarks": 200}}


@pytest.mark.filterwarnings("ignore:M3MIML learned nothing")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in AUDITED],
)
def test_a_method_keeps_what_it_declares(name):
    """One small draw with margins; `python -m benchmarks.audit` is the full audit."""
    single, frequency = trials()[2], trials()[6]
    model, n_train = audited_model(METHODS[name], FASTER.get(name, {})), N_TRAIN.get(name, 80)
    rows = single.run(model, np.random.RandomState([2, 0]), n_train, 100)
    rows += frequency.run(model, np.random.RandomState([6, 0]), n_train, 100)
    found = AssumptionCheck(rows)
    learned, moved = rows[0].as_trained[0], rows[0].moved[0]
    presence = found.passes("copies") or found.passes("monotone")
    learns_two = rows[-1].as_trained[0] > 0.9
    keeps = kept_assumption(model)
    assert found.passes("order")
    if keeps.startswith("standard"):
        assert found.passes("monotone")
        assert min(learned, moved) > 0.9
    else:
        assert not found.passes("monotone") or min(learned, moved) < 0.9
    if keeps == "several concepts":
        assert found.passes("copies")
    if "several concepts" in keeps:
        assert min(rows[-1].as_trained[0], rows[-1].moved[0]) > 0.9
    if keeps == "one concept":
        assert presence
        assert not learns_two
    if keeps == "collective":
        assert not presence or learns_two


def test_a_model_behind_steps_declares_what_its_last_step_does():
    assert kept_assumption(audited_model(METHODS["misvm-bag"], {})) == "standard"
    assert kept_assumption(audited_model(METHODS["mind"], {})) == "collective"
    assert SingleInstanceClassifier(pooling="mean").keeps == "collective"
    assert AutoBagClassifier(assumption="standard").keeps == "standard"
    assert AutoBagClassifier().keeps == "collective"
    assert PrimalDualMISVM(assumption="standard").keeps == "standard"


def test_the_list_of_methods_in_the_documentation_has_what_each_keeps():
    page = Path(__file__).parents[2] / "docs" / "methods.md"
    if not page.exists():
        pytest.skip("the documentation is not part of an installed package")
    rows = [line.strip("|").split("|") for line in page.read_text().splitlines() if "|" in line]
    cells = [[cell.strip() for cell in row] for row in rows]
    for name, method in METHODS.items():
        (row,) = [row for row in cells if len(row) == 4 and row[2].startswith(f"`{name}`")]
        assert row[3] == method.keeps, name


def test_the_automatic_choice_uses_methods_that_keep_an_assumption():
    members = default_members("single")
    names = {
        assumption: [member.name for member in keeping(members, assumption)]
        for assumption in ("standard", "one concept", "several concepts", "collective")
    }
    assert names["standard"] == ["milboost", "misvm-bag"]
    assert names["several concepts"] == ["miles"]
    assert names["one concept"] == ["citation-knn"]
    assert {"pooled-trees", "nsk", "mind", "minimax"} <= set(names["collective"])
    named = chosen_members(["concepts", "nsk"], "single", members, "standard")
    assert [member.name for member in named] == ["concepts"]
    for member in keeping(members, "standard"):  # also where the data are too large for it
        assert all(other.keeps == "standard" for other in member.replacements)
