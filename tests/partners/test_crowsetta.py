"""crowsetta: reads the tables that bagwise writes for Raven and Audacity."""

import numpy as np
import pytest

from bagwise.apps.audio._selections import write_selections

crowsetta = pytest.importorskip("crowsetta")
TABLE = {
    "start": np.array([0.5, 3.5]),
    "end": np.array([3.25, 6.5]),
    "label": np.array(["wren", "robin"]),
    "probability": np.array([0.9, 0.6]),
}


def test_raven_tables_are_read(tmp_path):
    (path,) = write_selections(tmp_path, "raven", ["a.wav"] * 2, TABLE, force=False)
    boxes = crowsetta.formats.bbox.Raven.from_file(path, annot_col="Annotation").to_bbox()
    assert [box.label for box in boxes] == ["wren", "robin"]
    assert [(box.onset, box.offset) for box in boxes] == [(0.5, 3.25), (3.5, 6.5)]


def test_audacity_labels_are_read(tmp_path):
    (path,) = write_selections(tmp_path, "audacity", ["a.wav"] * 2, TABLE, force=False)
    sequence = crowsetta.formats.seq.AudSeq.from_file(path).to_seq()
    assert sequence.onsets_s.tolist() == [0.5, 3.5]
    assert [label.split("?")[0] for label in sequence.labels] == ["wren", "robin"]
