"""The file of corrections: no decision is lost."""

import contextlib
import sqlite3
import subprocess
import sys
import textwrap
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.apps.review import Correction, Corrections
from bagwise.apps.review._queue import match_corrections
from bagwise.apps.review._store import SetCorrection, read_corrections
from bagwise.exceptions import DataNotFoundError, FileFormatError, InputError
from syllables import recordings

SURE = {"guess": "wren", "probability": 0.5}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a file?.corrections.sqlite"  # a name that an address has to quote


operations = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), st.integers(0, 2), st.sampled_from(["wren", "owl"])),
        st.tuples(st.just("skip"), st.integers(0, 2)),
        st.just(("undo",)),
        st.just(("reopen",)),
    ),
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(operations)
def test_it_is_a_stack_of_decisions(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("store") / "c.sqlite"
    corrections, stack, n_rows = Corrections(path), [], 0
    for step in steps:
        n_rows += step[0] != "reopen" and not (step[0] == "undo" and not stack)
        if step[0] == "decide":
            corrections.decide("r", step[1], 3, step[2], **SURE)
            stack.append((step[1], step[2]))
        elif step[0] == "skip":
            corrections.decide("r", step[1], 3, None, **SURE)
            stack.append((step[1], None))
        elif step[0] == "undo":
            assert corrections.undo() == (("r", stack.pop()[0]) if stack else None)
        else:
            corrections.close()
            corrections = Corrections(path)
    labels = {row: label for row, label in stack if label is not None}
    assert {c.row: c.label for c in corrections.all()} == labels
    assert set(corrections.skipped()) == {("r", row) for row, _ in stack if row not in labels}
    corrections.close()
    with sqlite3.connect(path) as file:  # nothing is ever removed, not even by undoing
        assert file.execute("SELECT count(*) FROM decisions").fetchone() == (n_rows,)
    file.close()


def test_a_killed_process_loses_nothing(path):
    program = textwrap.dedent(
        """
        import os, signal, sys
        from bagwise.apps.review import Corrections
        corrections = Corrections(sys.argv[1])
        for row in range(5):
            corrections.decide("r1", row, 9, "wren", guess="owl", probability=0.4)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=120)
    assert [c.row for c in read_corrections(path)[0]] == [0, 1, 2, 3, 4]


def test_threads_take_turns(path):
    with Corrections(path) as corrections:

        def work(k):
            for row in range(20):
                corrections.decide(f"r{k}", row, 20, "owl", **SURE)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(corrections.all()) == 80


def test_other_files_are_left_alone(tmp_path):
    text = tmp_path / "notes.sqlite"
    text.write_text("these are notes, and no database at all")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE mine (a)")
    file.close()
    for path in (text, other):
        before = path.read_bytes()
        for use in (Corrections, read_corrections):
            with pytest.raises(FileFormatError, match="corrections"):
                use(path)
        assert path.read_bytes() == before
    new = tmp_path / "new.sqlite"
    Corrections(new).close()
    with sqlite3.connect(new) as file:
        file.execute("PRAGMA user_version = 7")
    file.close()
    with pytest.raises(FileFormatError, match="format version 7"):
        Corrections(new)
    with pytest.raises(DataNotFoundError, match="no file"):
        read_corrections(tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    with pytest.raises(FileFormatError, match="unable to open"):
        Corrections(tmp_path / "none" / "c.sqlite")


class TestMatch:
    def test_by_how_ids_are_written(self):
        bags, _, _ = recordings(ids=range(100, 112))
        said = [Correction("103", 1, int(bags.sizes[3]), "wren"), Correction("9", 0, 1, "owl")]
        labels, n_used = match_corrections(said, bags, {"wren": 7})
        assert n_used == 1
        assert [(i, v) for i, v in enumerate(labels) if v is not None] == [(bags.offsets[3] + 1, 7)]

    def test_a_bag_that_has_changed(self):
        bags, _, _ = recordings()
        with pytest.raises(InputError, match=r"bag 0 \('r0'\) has . instances, .* row 1 of 99"):
            match_corrections([Correction("r0", 1, 99, "wren")], bags, {})


class TestLabelSets:
    def test_the_last_decision_about_a_label_holds(self, tmp_path):
        path = tmp_path / "birds.corrections.sqlite"
        with Corrections(path) as corrections:
            corrections.decide_set("r1", "wren", False, doubt=0.9)
            corrections.decide_set("r2", "owl", True, doubt=0.5)
            corrections.decide_set("r1", "wren", True, doubt=0.9)
            corrections.decide_set("r1", "owl", True, doubt=0.1)
            corrections.decide_set("r1", "owl", None, doubt=0.1)
            found = corrections.sets()
        assert found == [SetCorrection("r2", "owl", True), SetCorrection("r1", "wren", True)]
        assert read_corrections(path) == ([], found)

    def test_a_file_of_version_1_is_continued(self, tmp_path):
        path = tmp_path / "birds.corrections.sqlite"
        with Corrections(path) as corrections:
            corrections.decide("r1", 0, 2, "wren", guess="owl", probability=0.5)
        with contextlib.closing(sqlite3.connect(path)) as file:
            file.executescript(
                "DROP VIEW set_corrections; DROP TABLE set_decisions; PRAGMA user_version = 1;"
            )
        (said,), sets = read_corrections(path)
        assert (said.label, sets) == ("wren", [])
        with Corrections(path) as corrections:
            corrections.decide_set("r1", "wren", False, doubt=0.9)
            assert corrections.all() == [said]
        assert read_corrections(path)[1] == [SetCorrection("r1", "wren", False)]
