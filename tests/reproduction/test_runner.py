"""A killed run is resumed without loss, and seeds do not depend on the order."""

import numpy as np
import pytest

from bagwise.bags import Bags
from reproduction import (
    Store,
    load_paper,
    make_plan,
    make_report,
    run_plan,
    seed_of,
    units_to_do,
)
from reproduction import _runner as runner
from reproduction._building import build_model, training_sizes


def scores(store, plan):
    records = store.records(plan.units)
    return {name: record["result"]["accuracy"] for name, record in records.items()}


@pytest.fixture
def calls(monkeypatch):
    """The names of the units that were done, in order."""
    done = []
    honest = runner.execute

    def watched(unit):
        done.append(unit.name)
        return honest(unit)

    monkeypatch.setattr(runner, "execute", watched)
    return done


def test_a_plan_holds_what_can_be_done(plan):
    assert plan.absent == {"unwritten": "no NobodyWroteThis here", "lost": "data set absent"}
    assert plan.stand_ins == {"replaced"}
    # repetitions x (clusters, replaced) x (sil, nsk) x folds
    assert len(plan.units) == 2 * 2 * 2 * 3
    assert len({unit.name for unit in plan.units}) == len(plan.units)
    assert [unit.repetition for unit in plan.units] == [0] * 12 + [1] * 12


def test_every_unit_is_done_once_and_in_order(plan, store, calls):
    run_plan(plan, store)
    assert calls == [unit.name for unit in plan.units]
    assert [record["unit"] for record in store.read()] == calls
    run_plan(plan, store)
    assert len(calls) == len(plan.units)


def test_a_run_stopped_by_an_exception_goes_on(plan, store, calls, monkeypatch):
    watched = runner.execute

    def stopped(unit):
        if len(calls) == 5:
            raise KeyboardInterrupt
        return watched(unit)

    monkeypatch.setattr(runner, "execute", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, store)
    assert len(store.read()) == 5
    assert len(units_to_do(plan, store)) == len(plan.units) - 5

    monkeypatch.setattr(runner, "execute", watched)
    run_plan(plan, store)
    assert calls == [unit.name for unit in plan.units]
    whole = Store(store.path.with_name("whole.jsonl"))
    run_plan(plan, whole)
    assert scores(store, plan) == scores(whole, plan)


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_half_written_last_line_is_done_again(plan, store, calls, cut):
    run_plan(plan, store)
    before = scores(store, plan)
    content = store.path.read_bytes()
    store.path.write_bytes(content[:-cut])
    left = units_to_do(plan, store)
    # Without its newline the last line is still whole; with less it is lost.
    assert [unit.name for unit in left] == ([] if cut == 1 else [plan.units[-1].name])
    run_plan(plan, store)
    assert scores(store, plan) == before
    assert store.path.read_bytes().startswith(content[:-cut])
    assert all(record["unit"] for record in store.read())


def test_other_settings_redo_their_own_units_only(tiny_file, plan, store, calls):
    run_plan(plan, store)
    tiny_file.write_text(tiny_file.read_text().replace("value = 12.0", "value = 13.0"))
    paper = load_paper(tiny_file)
    changed = make_plan(paper, paper.experiment("table"))
    assert {unit.method for unit in units_to_do(changed, store)} == {"nsk"}
    assert not units_to_do(plan, store)
    run_plan(changed, store)
    assert not units_to_do(changed, store)
    assert not units_to_do(plan, store)  # what was made with the old settings is not lost


def test_seeds_are_written_in_stone():
    # By another tool: printf table1/fox/0 | sha256sum
    assert seed_of("table1", "fox", 0) == 0xB2BDA6D7
    assert seed_of("a") < 2**32


def test_methods_share_data_and_folds_but_not_seeds(plan):
    by_method = {}
    for unit in plan.units:
        by_method.setdefault(unit.method, []).append(unit)
    for one, other in zip(by_method["sil"], by_method["nsk"], strict=True):
        assert one.shared_seed == other.shared_seed
        assert one.seed != other.seed
        np.testing.assert_array_equal(one.load().bags.instances, other.load().bags.instances)
    assert len({unit.seed for unit in plan.units}) == len(plan.units)


def test_a_failure_is_noted_and_tried_again(plan, store, monkeypatch):
    def fails(unit):
        if unit.method == "nsk":
            raise ZeroDivisionError("on purpose")
        return honest(unit)

    honest = runner.PROTOCOLS["cross_validation"]
    monkeypatch.setattr(runner, "PROTOCOLS", {"cross_validation": fails})
    run_plan(plan, store)
    assert {unit.method for unit in units_to_do(plan, store)} == {"nsk"}
    rows = [row for row in make_report(plan, store).rows if row.method == "nsk"]
    assert str(rows[0].verdict) == "failed: ZeroDivisionError: on purpose"

    monkeypatch.setattr(runner, "PROTOCOLS", {"cross_validation": honest})
    run_plan(plan, store)
    assert not units_to_do(plan, store)
    assert not make_report(plan, store).failures()


def test_models_are_built_as_described(plan):
    replaced = next(u for u in plan.units if (u.data, u.method) == ("replaced", "nsk"))
    bags, y = Bags(np.zeros((50, 1)), np.arange(0, 51, 5)), np.arange(10) % 2
    model = replaced.model(bags, y)
    assert (model.C, model.kernel, model.normalization) == (1.2, "linear", None)
    clusters = next(u for u in plan.units if (u.data, u.method) == ("clusters", "nsk"))
    assert clusters.model(bags, y).normalization == "feature"


def test_tables_that_are_no_models_stay_tables():
    assert build_model({"param_grid": {"C": [1, 2]}}, {}) == {"param_grid": {"C": [1, 2]}}
    weights = {"0": {"value": 1.0, "per": "negative instances"}, "1": 3.0}
    sizes = training_sizes(Bags(np.zeros((7, 1)), [0, 1, 5, 7]), np.array([0, 0, 1]))
    assert sizes == {"bags": 3, "instances": 7, "positive bags": 1, "negative instances": 5}
    assert build_model(weights, sizes) == {0: 0.2, 1: 3.0}
