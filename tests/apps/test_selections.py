"""Labels for Raven and Audacity: written, checked by a second reader, corrected, read back."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.apps.audio._selections import (
    Selection,
    file_names,
    match_selections,
    read_selections,
    write_selections,
)
from bagwise.exceptions import BagwiseError, FileFormatError, InputError

RECORDINGS = ["site 1/a.wav"] * 3 + ["site 1/b.wav"] + ["a.flac"] * 2
START = np.array([0.0, 1.5, 3.0, 0.25, 0.0, 2.5])
LABELS = ["wren", "robin", "wren", "wren\tor robin", "noise", "tawny owl"]
PROBABILITY = np.array([0.9, 0.512345, 0.625, 1.0, 0.99, 0.5])


@pytest.fixture
def table():
    return {
        "start": START,
        "end": START + 3,
        "label": np.array(LABELS),
        "probability": PROBABILITY,
    }


def as_raven(path):
    """A second reader: what crowsetta and opensoundscape require of a selection table.

    crowsetta 5.1.2 itself read such tables: ``crowsetta.formats.bbox.Raven.from_file(path,
    annot_col="Annotation")``, which refuses times and frequencies without a decimal point.
    """
    frame = pd.read_csv(path, sep="\t")
    names = ["Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)"]
    assert frame.columns[:3].tolist() == ["Selection", "View", "Channel"]
    assert frame.columns[7] == "Annotation"  # where opensoundscape looks for it
    for name in names:
        assert frame[name].dtype == np.float64
        assert frame[name].ge(0).all()
    assert (frame["Begin Time (s)"] < frame["End Time (s)"]).all()
    assert (frame["Low Freq (Hz)"] < frame["High Freq (Hz)"]).all()
    assert frame["Selection"].tolist() == list(range(1, len(frame) + 1))
    return frame


def as_audacity(path):
    """A second reader: start, end and text, as the manual of Audacity describes them.

    crowsetta 5.1.2 itself read such files: ``crowsetta.formats.seq.AudSeq.from_file(path)``.
    """
    for line in path.read_text(encoding="utf-8").splitlines():
        start, end, text = line.split("\t")
        yield float(start), float(end), text


def test_raven_tables_hold_what_was_annotated(tmp_path, table):
    paths = write_selections(
        tmp_path / "raven", "raven", RECORDINGS, table, background="noise", force=False
    )
    assert [path.name for path in paths] == ["site_1_a.txt", "site_1_b.txt", "a.txt"]
    first = as_raven(paths[0])
    assert first["Annotation"].tolist() == LABELS[:3]
    assert first["Begin Time (s)"].tolist() == [0, 1.5, 3]
    assert first["End Time (s)"].tolist() == [3, 4.5, 6]
    assert first["Score"].tolist() == [0.9, 0.5123, 0.625]
    assert set(first["Begin File"]) == {"a.wav"}
    assert as_raven(paths[1])["Annotation"].tolist() == ["wren or robin"]
    assert as_raven(paths[2])["Annotation"].tolist() == ["tawny owl"]  # noise is left out
    with pytest.raises(BagwiseError, match="exists already"):
        write_selections(tmp_path / "raven", "raven", RECORDINGS, table, force=False)


def test_audacity_labels_hold_what_was_annotated(tmp_path, table):
    paths = write_selections(tmp_path, "audacity", RECORDINGS, table, force=False)
    assert list(as_audacity(paths[0])) == [
        (0, 3, "wren? 90 %"),
        (1.5, 4.5, "robin? 51 %"),
        (3, 6, "wren? 62 %"),
    ]
    assert [text for *_, text in as_audacity(paths[2])] == ["noise? 99 %", "tawny owl? 50 %"]


def test_corrections_come_back_from_raven(tmp_path, table):
    path, *_ = write_selections(tmp_path, "raven", RECORDINGS, table, force=False)
    frame = as_raven(path)
    frame.loc[1, "Annotation"] = "owl"
    frame["Checked"] = frame["Checked"].astype(object)
    frame.loc[2, "Checked"] = "x"
    frame = pd.concat([frame, frame.assign(View="Waveform 1")])  # Raven has a row for each view
    path.unlink()
    frame.to_csv(tmp_path / "site_1_a.Table.1.selections.txt", sep="\t", index=False)
    kept = [selection for selection in read_selections(tmp_path) if not selection.is_guess]
    assert match_selections(kept, RECORDINGS, START, START + 3) == {1: "owl", 2: "wren"}


def test_corrections_come_back_from_audacity(tmp_path, table):
    _, path, last = write_selections(tmp_path, "audacity", RECORDINGS, table, force=False)
    path.write_text("0,250000\t3,250000\towl\n\\\t100.0\t2000.0\n")  # with a decimal comma
    text = last.read_text().replace("noise? 99 %", "noise")
    last.write_text(text + "5.0\t5.2\t\n")  # a label without text
    kept = [selection for selection in read_selections(tmp_path) if not selection.is_guess]
    assert match_selections(kept, RECORDINGS, START, START + 3) == {3: "owl", 4: "noise"}
    alone = read_selections(path)
    assert match_selections(alone, RECORDINGS, START, START + 3) == {3: "owl"}


def test_a_box_drawn_by_hand_is_about_the_clips_it_shares_half_with():
    def brute(box, start, end):
        shared = max(0, min(end, box[1]) - max(start, box[0]))
        return shared > 0 and shared >= min(end - start, box[1] - box[0]) / 2

    rng = np.random.default_rng(0)
    start = np.arange(0, 30, 1.5)
    end = start + 3
    for _ in range(200):
        begin = rng.uniform(0, 28)
        box = begin, begin + rng.choice([0.2, 2.0, 3.0, 7.0])
        expected = {i for i in range(20) if brute(box, start[i], end[i])}
        selection = Selection("r", *box, "wren", Path("r.txt"))
        assert set(match_selections([selection], ["r"] * 20, start, end)) == expected
    exact = Selection("r", 3.0, 6.0, "wren", Path("r.txt"))
    assert set(match_selections([exact], ["r"] * 20, start, end)) == {2}


@pytest.mark.parametrize(
    ("recording", "start", "message"),
    [("c.wav", 0.0, "no such recording"), ("a.flac", 20.0, "has no clip")],
)
def test_a_selection_about_nothing_is_told(recording, start, message):
    selection = Selection(recording, start, start + 3, "wren", Path(f"{recording}.txt"))
    with pytest.raises(InputError, match=message):
        match_selections([selection], RECORDINGS, START, START + 3)


def test_a_clip_with_two_labels_has_both():
    """A person draws boxes around calls: two of them may be in one clip."""
    both = [Selection("a.flac", 2.5, 5.5, label, Path("a.txt")) for label in ("wren", "owl", "owl")]
    other = Selection("a.flac", 0.0, 3.0, "robin", Path("a.txt"))
    found = match_selections([*both, other], RECORDINGS, START, START + 3)
    (two,) = found.keys() - {4}
    assert found == {4: "robin", two: "wren;owl"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wren\n", "line 1 of"),
        ("0.0\t3.0\twren\nx\t3.0\twren\n", "line 2 of"),
        ("Begin Time (s)\tNotes\n0\twren\n", "expected a selection table"),
    ],
)
def test_other_texts_are_refused(tmp_path, text, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_selections(tmp_path)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(alphabet="ab/\\. Aé:*", max_size=6), max_size=6))
def test_names_of_files_are_distinct_and_stay_in_the_folder(recordings):
    names = file_names(recordings)
    assert set(names) == set(recordings)
    own = [name.lower() for name in names.values()]
    assert len(set(own)) == len(own)
    for name in own:
        assert name
        assert Path("folder", f"{name}.txt").parent == Path("folder")
        assert not set(name) & set("/\\:* ")


def test_kept_columns_go_to_raven_and_come_back_unread(tmp_path, table):
    kept = {"Score": [1, 2, 3, 4, 5, None], "file": list("abcdef"), "start time": ["x\ty"] * 6}
    paths = write_selections(
        tmp_path / "raven", "raven", RECORDINGS, table, kept=kept, background=None, force=False
    )
    last = as_raven(paths[2])
    assert last.columns[-3:].tolist() == ["Score (kept)", "file", "start time"]
    assert last["Score (kept)"].iloc[0] == 5
    assert np.isnan(last["Score (kept)"].iloc[1])
    assert last["start time"].tolist() == ["x y", "x y"]
    found = read_selections(tmp_path / "raven")
    assert {s.recording for s in found} == {"a.wav", "b.wav", "a.flac"}
    assert sorted(s.start for s in found) == sorted(START)
    plain = write_selections(tmp_path / "a", "audacity", RECORDINGS, table, kept=kept, force=False)
    assert [len(list(as_audacity(path))) for path in plain] == [3, 1, 2]


@pytest.mark.parametrize("program", ["raven", "audacity"])
def test_cells_that_a_spreadsheet_would_run_are_escaped(tmp_path, table, program):
    """As SECURITY.md promises; reading removes the apostrophe."""
    labels = ["=1+1", "@x", "'-wren", "-1", "+a", "-"]
    start = np.arange(6.0)
    table |= {"start": start, "end": start + 3, "label": np.array(labels)}
    names = ["=a.wav"] * 6
    kept = {"=note": ['=HYPERLINK("x")'] * 6}
    (path,) = write_selections(tmp_path, program, names, table, kept=kept, force=False)
    cells = [cell for line in path.read_text().splitlines() for cell in line.split("\t")]
    assert [cell for cell in cells if cell.startswith(("=", "+", "@"))] == []
    if program == "raven":
        assert {"'=1+1", "'@x", "''-wren", "-1", "'+a", "'-", "'=note", "'=a.wav"} <= set(cells)
    else:
        path.write_text(re.sub(r"\? \d+ %", "", path.read_text()))
    found = match_selections(read_selections(tmp_path), names, start, start + 3)
    assert found == dict(enumerate(labels))
