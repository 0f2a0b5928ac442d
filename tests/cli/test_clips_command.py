"""Sound clips on the command line: times, Raven, Audacity, and reading corrections."""

from pathlib import Path

import numpy as np
import pytest
from cli.tables import read_rows, write_rows

from bagwise.apps.review._server import ReviewServer
from bagwise.apps.review._store import read_corrections
from bagwise.persistence import load_model
from syllables import write_tone

BIRDS = ["wren", "robin", "owl"]


@pytest.fixture
def clips(tmp_path):
    """Embeddings of overlapping clips as BirdNET writes them; two recordings are unlabelled."""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    rows, labels = [["file_path", "start", "end", "embedding"]], [["file_path", "species"]]
    heard = []
    for i in range(20):
        kinds = rng.integers(3, size=rng.integers(2, 5))
        for j, k in enumerate(kinds):
            values = 4 * np.eye(3)[k] + rng.normal(size=3)
            rows.append([f"day/r{i}.wav", 1.5 * j, 1.5 * j + 3, ",".join(map(str, values))])
            heard.append(BIRDS[k])
        known = ";".join(sorted({BIRDS[k] for k in kinds})) if i < 18 else ""
        labels.append([f"day/r{i}.wav", known])
    write_rows(tmp_path / "labels.csv", labels)
    return write_rows(tmp_path / "clips.csv", rows), tmp_path / "labels.csv", heard


def joined(clips):
    """The same table with the labels beside the clips."""
    table, labels, _ = clips
    species = {row["file_path"]: row["species"] for row in read_rows(labels)}
    rows = read_rows(table)
    names = [*rows[0], "species"]
    cells = [[*row.values(), species[row["file_path"]]] for row in rows]
    return write_rows(table.with_name("joined.csv"), [names, *cells])


def test_times_travel_and_come_back(run, clips, tmp_path):
    table, out = joined(clips), tmp_path / "annotated.csv"
    words = ("annotate", table, "--label-set", "species", "-o", out)
    result = run.ok(*words, "--raven", tmp_path / "raven", "--audacity", tmp_path / "audacity")
    given, found = read_rows(table), read_rows(out)
    assert [(r["bag"], float(r["start"]), float(r["end"])) for r in found] == [
        (r["file_path"], float(r["start"]), float(r["end"])) for r in given
    ]
    assert "features: 3 (embedding_0" in result.stderr
    path = tmp_path / "raven" / "r3.txt"
    lines = path.read_text().splitlines()
    own = [row for row in found if row["bag"] == "day/r3.wav"]
    assert [line.split("\t")[7] for line in lines[1:]] == [row["label"] for row in own]
    again = (*words, "--force", "--corrections")
    untouched = run.fails(*again, tmp_path / "raven")
    assert f"{len(found)} labels in" in untouched.stderr
    assert "has no corrections yet" in untouched.stderr
    # A person changes the first clip of r3 in Raven, and of r4 in Audacity.
    for folder, name in (("raven", "r3"), ("audacity", "r4")):
        path = tmp_path / folder / f"{name}.txt"
        own = [row for row in found if row["bag"] == f"day/{name}.wav"]
        other = own[0]["runner_up"]
        text = path.read_text()
        old = own[0]["label"]
        path.write_text(text.replace(f"\t{old}", f"\t{other}", 1) if folder == "raven" else other)
        if folder == "audacity":
            path.write_text(f"{own[0]['start']}\t{own[0]['end']}\t{other}\n")
        corrected = run.ok(*again, tmp_path / folder)
        assert "Known from corrections: 1 instance" in corrected.stderr
        now = [row for row in read_rows(out) if row["bag"] == f"day/{name}.wav"]
        assert (now[0]["label"], float(now[0]["probability"])) == (other, 1)
    assert (
        "exists already"
        in run(*words[:-1], tmp_path / "b.csv", "--raven", tmp_path / "raven").stderr
    )


def test_a_fit_learns_from_corrections_of_unlabelled_recordings(run, clips, tmp_path):
    pytest.importorskip("skops")
    table, heard = joined(clips), clips[2]
    places = [(row["file_path"], i) for i, row in enumerate(read_rows(table))]
    corrections = [["bag", "row", "label"]]
    for name in ("day/r18.wav", "day/r19.wav"):
        own = [i for bag, i in places if bag == name]
        corrections += [[name, row, heard[i]] for row, i in enumerate(own)]
    write_rows(tmp_path / "corrections.csv", corrections)
    words = ("fit", table, "-m", "orlr", "--label-set", "species")
    plain = run(*words, "-o", tmp_path / "plain.skops")
    assert "2 of 20 bags have no label and are left out" in plain.stderr
    words += ("--corrections", tmp_path / "corrections.csv", "-o", tmp_path / "model.skops")
    result = run.ok(*words)
    assert "left out" not in result.stderr
    assert f"Known from corrections: {len(corrections) - 1} instances" in result.stderr
    model, facts = load_model(tmp_path / "model.skops")
    assert facts["corrections"] == len(corrections) - 1
    # The same fit by hand.
    from bagwise.annotation import ORedLogisticRegression
    from bagwise.io import read_bags

    data = read_bags(table, label_set="species")
    seen = model[:-1].transform(data.bags)
    known = [heard[i] if bag in ("day/r18.wav", "day/r19.wav") else None for bag, i in places]
    sets = [None if (row < 0).any() else set(data.classes[row == 1]) for row in data.label_sets]
    same = ORedLogisticRegression().fit(seen, sets, instance_labels=known)
    np.testing.assert_allclose(model[-1].coef_, same.coef_, rtol=1e-6, atol=1e-9)
    predict = ("predict", tmp_path / "model.skops", clips[0], "-o", tmp_path / "p.csv")
    run.ok(*predict, "--raven", tmp_path / "new")
    instances = read_rows(tmp_path / "p.instances.csv")
    assert float(instances[1]["start"]) == 1.5
    rows = [line.split("\t") for line in (tmp_path / "new" / "r0.txt").read_text().splitlines()[1:]]
    own = [row for row in instances if row["bag"] == "day/r0.wav"]
    assert [row[7] for row in rows] == [row["predicted"] for row in own]
    expected = [float(row[f"probability_{row['predicted']}"]) for row in own]
    np.testing.assert_allclose([float(row[8]) for row in rows], expected, atol=5e-5)
    assert "exists already" in run(*predict, "--raven", tmp_path / "new").stderr


@pytest.fixture
def serve(monkeypatch):
    """Stop a review at once; what the server was given is appended to the list."""
    servers = []

    def stopped(server, **_):
        servers.append(server.review)
        if act:
            act.pop()(server.review)
        raise KeyboardInterrupt

    act = []
    monkeypatch.setattr(ReviewServer, "serve_forever", stopped)
    return servers, act


def test_a_review_finds_the_recordings_and_keeps_decisions_about_label_sets(
    run, clips, serve, tmp_path
):
    pytest.importorskip("skops")
    servers, act = serve
    table, labels, _ = clips
    model = tmp_path / "model.skops"
    words = ("--labels", labels, "--label-set", "species")
    noisy = ("--set", "missing=0.1", "--set", "spurious=0.1")
    fit = ("fit", table, "-m", "orlr", *words, *noisy)
    run.ok(*fit, "-o", model)
    review = ("review", model, table, *words[:2], "--no-browser")
    result = run.ok(*review)
    missing = f"20 of 20 recordings are not in {tmp_path}, day/r0.wav among them"
    assert missing in " ".join(result.stderr.split())
    assert servers[0].media is None
    assert servers[0].places[1] == "1.5 to 4.5 s"
    assert "--autoplay needs sounds" in run(*review, "--autoplay").stderr
    (tmp_path / "audio").mkdir()
    write_tone(tmp_path / "audio" / "r0.wav", seconds=5.0)

    def judge(review):
        row = review.doubts()["doubts"][0]
        review.judge({"row": 0, "present": row["error"] == "missing"})

    act.append(judge)
    result = run.ok(*review, "--media-folder", tmp_path / "audio", "--autoplay")
    assert "19 of 20 recordings are not in" in result.stderr
    media = servers[1].media
    assert media.described(1)["seconds"] == 3.0
    assert media.values[-1] is None
    assert "1 label of bags decided" in result.stderr
    sidecar = tmp_path / "clips.corrections.sqlite"
    (said,) = read_corrections(sidecar)[1]
    exported = tmp_path / "corrections.csv"
    run.ok("review", table, "--export", exported)
    (row,) = read_rows(tmp_path / "corrections.sets.csv")
    assert row == {"bag": said.bag, "label": said.label, "present": str(said.present)}
    species = {row["file_path"]: set(row["species"].split(";")) for row in read_rows(labels)}
    changed = species[said.bag] | {said.label} if said.present else species[said.bag] - {said.label}
    assert changed != species[said.bag]
    rows = [
        [name, ";".join(sorted(known))] for name, known in (species | {said.bag: changed}).items()
    ]
    by_hand = write_rows(tmp_path / "by_hand.csv", [["file_path", "species"], *rows])
    again = ("fit", table, "-m", "orlr", "--labels", by_hand, *words[2:], *noisy)
    run.ok(*again, "-o", tmp_path / "expected.skops")
    expected, _ = load_model(tmp_path / "expected.skops")
    for name, command in {
        "log": (*fit, "--corrections", sidecar, "-o", tmp_path / "log.skops"),
        "table": (*fit, "--corrections", exported, "-o", tmp_path / "table.skops"),
    }.items():
        result = run.ok(*command)
        assert "Known from corrections: 1 label of bags" in result.stderr
        found, _ = load_model(tmp_path / f"{name}.skops")
        np.testing.assert_allclose(found[-1].coef_, expected[-1].coef_, rtol=1e-9, atol=1e-12)
    annotated = []
    for i, (own, more) in enumerate(((by_hand, ()), (labels, ("--corrections", exported)))):
        command = ("annotate", table, "--labels", own, *words[2:], *noisy, *more)
        result = run.ok(*command, "-o", tmp_path / f"annotated{i}.csv")
        annotated.append([row["label"] for row in read_rows(tmp_path / f"annotated{i}.csv")])
    assert annotated[0] == annotated[1]
    assert "Known from corrections: 1 label of bags" in result.stderr
    unlabelled = run.ok("review", model, table, "--no-browser", "-o", tmp_path / "u.sqlite")
    assert "all classes are offered" in unlabelled.stderr


def test_a_fit_has_background_and_doubts_sets_where_asked(run, clips, tmp_path):
    pytest.importorskip("skops")
    out = tmp_path / "model.skops"
    words = ("fit", joined(clips), "--label-set", "species", "-o", out, "-m")
    run.ok(*words, "orlr", "--background", "--noisy-sets", "--set", "missing=0.25")
    model, facts = load_model(out)
    assert model[-1].background_label_ == "background"
    assert model[-1].missing_ == 0.25  # --set is more specific
    assert 0 < model[-1].spurious_ < 0.5
    assert facts["parameters"]["spurious"] == "learn"
    for option in ("--background", "--noisy-sets"):
        refused = run(*words, "m3miml", option, "--force")
        assert f"{option} does not apply to m3miml" in refused.stderr


def test_checked_clips_may_be_named_by_file_and_start(run, clips, tmp_path):
    pytest.importorskip("skops")
    table, labels, heard = clips  # two recordings have no labels, and are left out of the fit
    own = [[Path(r["file_path"]).name, r["start"]] for r in read_rows(table)]
    named = [[*clip, bird] for clip, bird in zip(own, heard, strict=True)]
    # A clip begins every 1.5 s.
    rows = [[r["file_path"], round(float(r["start"]) / 1.5)] for r in read_rows(table)]
    numbered = [[*row, bird] for row, bird in zip(rows, heard, strict=True)]
    checked = [
        write_rows(tmp_path / "a.csv", [["file", "start", "label"], *named[:20]]),
        write_rows(tmp_path / "b.csv", [["bag", "row", "label"], *numbered[:20]]),
    ]
    found = []
    for path in checked:
        fit = ("fit", table, "--labels", labels, "--label-set", "species", "-m", "orlr")
        out = tmp_path / f"{path.stem}.skops"
        result = run.ok(*fit, "--background", "--check", path, "-o", out)
        assert "20 checked instances" in result.stdout
        found.append(load_model(out)[1])
    for name in ("background_above", "temperature"):
        assert found[0][name] == found[1][name]


def test_the_noisy_or_names_several_species_of_a_clip_or_none(run, clips, tmp_path):
    pytest.importorskip("skops")
    table, labels, _ = clips
    model, out = tmp_path / "m.skops", tmp_path / "p.csv"
    fit = ("fit", table, "--labels", labels, "--label-set", "species", "-m", "noisy-or")
    run.ok(*fit, "-o", model)
    rows = [list(row.values()) for row in read_rows(table)]
    rows.append(["silent.wav", 0, 3, "-4,-4,-4"])
    new = write_rows(tmp_path / "new.csv", [["file_path", "start", "end", "embedding"], *rows])
    run.ok("predict", model, new, "--raven", tmp_path / "raven", "-o", out)
    found, written = read_rows(tmp_path / "p.instances.csv"), []
    sizes = set()
    for row in found:
        chances = {bird: float(row[f"probability_{bird}"]) for bird in sorted(BIRDS)}
        own = [bird for bird, chance in chances.items() if chance >= 0.3]
        assert row["predicted"] == ";".join(own)
        sizes.add(len(own))
        if own:
            written.append((row["predicted"], f"{min(chances[bird] for bird in own):.4f}"))
    assert {0, 1, 2} <= sizes
    lines = [
        line.split("\t")
        for path in (tmp_path / "raven").iterdir()
        for line in path.read_text().splitlines()[1:]
    ]
    assert sorted((line[7], line[8]) for line in lines) == sorted(written)
    refused = run.fails("annotate", *fit[1:], "-o", tmp_path / "a.csv").stderr
    assert "noisy-or does not annotate instances: use -m orlr, or predict." in refused


def test_what_needs_times_says_so(run, clips, tmp_path):
    table = joined(clips)
    rows = [list(row.values()) for row in read_rows(table)]
    plain = write_rows(
        tmp_path / "plain.csv",
        [["bag", "embedding", "species"]] + [[r[0], r[3], r[4]] for r in rows],
    )
    words = ("annotate", plain, "--label-set", "species", "-o", tmp_path / "o.csv")
    assert "need the times of clips" in run(*words, "--raven", tmp_path / "r").stderr
    (tmp_path / "a.txt").write_text("0.0\t3.0\twren\n")
    told = run(*words, "--corrections", tmp_path / "a.txt").stderr
    assert "need the columns file, start and end" in " ".join(told.split())


def test_a_report_plays_the_clips_whose_recordings_are_found(run, clips, tmp_path):
    pytest.importorskip("jinja2")
    (tmp_path / "day").mkdir()
    write_tone(tmp_path / "day" / "r0.wav")
    model, page = tmp_path / "model.skops", tmp_path / "report.html"
    words = ("fit", joined(clips), "--label-set", "species", "-m", "orlr", "-o", model)
    run.ok(*words)
    run.ok("report", model, joined(clips), "-o", page)
    assert "data:audio/wav" in page.read_text()
    assert "r0.wav, 0 to 3 s" in page.read_text()
