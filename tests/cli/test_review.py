"""``bagwise review`` and ``--corrections``; the page itself is tested in tests/review."""

import json

import numpy as np
import pytest
from cli.tables import read_rows, write_rows

from bagwise.apps.review import Corrections
from bagwise.apps.review._server import ReviewServer
from bagwise.persistence import load_model
from syllables import recordings, write_table

WORDS = ("--bag", "recording", "--label-set", "species", "--exclude", "clip")


@pytest.fixture
def birds(tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("skops")
    bags, sets, kinds = recordings()
    clips = [f"clip{i}.wav" if i % 2 else "" for i in range(bags.n_instances)]
    table = write_table(tmp_path / "birds.csv", bags, sets, clip=clips)
    sidecar = tmp_path / "birds.corrections.sqlite"
    with Corrections(sidecar) as corrections:
        for i in range(0, bags.n_instances, 3):
            bag = bags.bag_index[i]
            where = bags.ids[bag], int(i - bags.offsets[bag]), int(bags.sizes[bag])
            corrections.decide(*where, kinds[i], guess="wren", probability=0.5)
    return bags, sets, kinds, table, sidecar


def told(bags, kinds):
    return [kind if i % 3 == 0 else None for i, kind in enumerate(kinds)]


def test_a_fit_holds_corrections_fixed(run, birds, tmp_path):
    bags, sets, kinds, table, sidecar = birds
    out = tmp_path / "model.skops"
    words = ("fit", table, "-m", "orlr", *WORDS, "-o", out, "--corrections", sidecar)
    result = run.ok(*words)
    n_known = len(range(0, bags.n_instances, 3))
    assert f"Known from corrections: {n_known} instances." in result.stderr
    model, facts = load_model(out)
    assert facts["corrections"] == n_known
    seen = model[:-1].transform(bags)
    same = type(model[-1])().fit(seen, sets, instance_labels=told(bags, kinds))
    np.testing.assert_allclose(model[-1].coef_, same.coef_, rtol=1e-6, atol=1e-9)
    run.ok("fit", table, "-m", "orlr", *WORDS, "-o", tmp_path / "plain.skops")
    model, facts = load_model(tmp_path / "plain.skops")
    assert facts["corrections"] == 0
    assert np.abs(model[-1].coef_ - same.coef_).max() > 0.01


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_fit_takes_the_exported_table_as_the_sidecar(run, birds, tmp_path, ending):
    bags, _, _, table, sidecar = birds
    n_said = len(range(0, bags.n_instances, 3))
    exported = tmp_path / f"corrections.{ending}"
    told = run("review", table, "--export", exported, "--json")
    assert json.loads(told.stdout) == {
        "corrections": n_said, "label_sets": 0, "written": [str(exported)],
    }  # fmt: skip
    models = []
    for given in (sidecar, exported):
        out = tmp_path / f"{given.suffix[1:]}.skops"
        words = ("fit", table, "-m", "orlr", *WORDS, "-o", out, "--corrections", given)
        run.ok(*words)
        models.append(load_model(out)[0])
    np.testing.assert_array_equal(models[0][-1].coef_, models[1][-1].coef_)


def test_what_cannot_be_used_is_told(run, birds, tmp_path):
    bags, _, _, table, sidecar = birds
    out = tmp_path / "model.skops"
    fit = ("fit", table, *WORDS, "-o", out)
    cases = {
        "m3miml cannot keep": (*fit, "-m", "m3miml", "--corrections", sidecar),
        "no file or folder": (*fit, "-m", "orlr", "--corrections", tmp_path / "none.sqlite"),
        "no column 'bag' in birds.csv": (*fit, "-m", "orlr", "--corrections", table),
    }
    with Corrections(tmp_path / "empty.sqlite"):
        cases["no corrections yet"] = (*fit, "-m", "orlr", "--corrections", "EMPTY")
    with Corrections(tmp_path / "strange.sqlite") as strange:
        strange.decide("r999", 0, 2, "wren", guess="wren", probability=0.5)
        cases["none of the 1 corrections"] = (*fit, "-m", "orlr", "--corrections", "STRANGE")
    with Corrections(tmp_path / "wrong.sqlite") as wrong:
        wrong.decide("r3", 1, int(bags.sizes[3]), "emu", guess="owl", probability=1)
        cases["instance 1 of bag 3 ('r3') is given the unknown label 'emu'"] = (
            *fit, "-m", "orlr", "--corrections", "WRONG",
        )  # fmt: skip
    for message, words in cases.items():
        words = [tmp_path / f"{w.lower()}.sqlite" if str(w).isupper() else w for w in words]
        result = run.fails(*words)
        assert message in " ".join(result.stderr.split())
        assert not out.exists()


def test_a_label_that_somebody_heard_is_added_to_the_set(run, birds, tmp_path):
    bags, sets, _, table, _ = birds
    lonely = next(i for i, s in enumerate(sets) if len(s) < 3)
    missing = min({"owl", "robin", "wren"} - sets[lonely])
    with Corrections(tmp_path / "more.sqlite") as more:
        more.decide(f"r{lonely}", 1, int(bags.sizes[lonely]), missing, guess="owl", probability=1)
    out = tmp_path / "model.skops"
    words = ("fit", table, "-m", "orlr", *WORDS, "-o", out)
    result = run.ok(*words, "--corrections", tmp_path / "more.sqlite")
    assert f"{missing} is added to the label set of bag {lonely} ('r{lonely}')" in result.stderr
    model, _ = load_model(out)
    known = [None] * bags.n_instances
    known[bags.offsets[lonely] + 1] = missing
    seen, sets = model[:-1].transform(bags), list(sets)
    sets[lonely] = sets[lonely] | {missing}
    same = type(model[-1])().fit(seen, sets, instance_labels=known)
    np.testing.assert_allclose(model[-1].coef_, same.coef_, rtol=1e-6, atol=1e-9)


def test_several_labels_of_an_instance_are_added_to_the_set_and_not_fixed(run, birds, tmp_path):
    bags, sets, _, table, _ = birds
    (tmp_path / "more.csv").write_text("bag,row,label\nr1,0,owl;wren\nr2,0,owl\n")
    out = tmp_path / "model.skops"
    words = ("fit", table, "-m", "orlr", *WORDS, "-o", out)
    result = run.ok(*words, "--corrections", tmp_path / "more.csv")
    assert "Known from corrections: 2 instances" in result.stderr
    assert "1 instance with several labels: not kept fixed." in result.stderr
    model, _ = load_model(out)
    known = [None] * bags.n_instances
    known[bags.offsets[2]] = "owl"
    sets = [own | {"owl", "wren"} if i == 1 else own for i, own in enumerate(sets)]
    sets[2] = sets[2] | {"owl"}
    seen = model[:-1].transform(bags)
    same = type(model[-1])().fit(seen, sets, instance_labels=known)
    np.testing.assert_allclose(model[-1].coef_, same.coef_, rtol=1e-6, atol=1e-9)
    (tmp_path / "more.csv").write_text("bag,row,label\nr1,0,owl;emu\n")
    assert "owl;emu" in run.fails(*words, "-f", "--corrections", tmp_path / "more.csv").stderr


class TestReview:
    @pytest.fixture
    def model(self, run, birds, tmp_path):
        table = birds[3]
        out = tmp_path / "model.skops"
        run.ok("fit", table, "-m", "orlr", *WORDS, "--set", "reg=2", "-o", out)
        return out

    def test_one_label_per_bag_kept_elsewhere(self, run, slides, tmp_path, monkeypatch):
        pytest.importorskip("skops")
        labels = tmp_path / "labels.csv"
        rows = {(row["slide"], row["tumour"]) for row in read_rows(slides)}
        write_rows(labels, [["slide", "tumour"], *sorted(rows)])
        model, sidecar = tmp_path / "model.skops", tmp_path / "slides.corrections.sqlite"
        words = ("--bag", "slide", "--label", "tumour", "--positive", "no", "--no-scale")
        words += ("--features", "red,green,blue", "--set", "background=other", "--labels", labels)
        run.ok("fit", slides, "-m", "orlr", *words, "-o", model)

        def reviewed(server, **_):
            with Corrections(sidecar) as corrections:
                corrections.decide("s0", 0, n_first, "other", guess="no", probability=0.6)
            raise KeyboardInterrupt

        n_first = sum(row["slide"] == "s0" for row in read_rows(slides))
        monkeypatch.setattr(ReviewServer, "serve_forever", reviewed)
        words = ("review", model, slides, "--labels", labels, "--no-browser")
        result = run.ok(*words, "--text", "patient")
        assert f"--corrections {sidecar}" in result.stderr.splitlines()[-1]
        run.ok(*words)  # what was decided is known by its name

    def test_what_cannot_be_reviewed_is_told(self, run, birds, model, tmp_path):
        table = birds[3]
        other = tmp_path / "other.skops"
        run.ok("fit", table, "-m", "mimlca", *WORDS, "-o", other)
        cases = {
            f"expected a model and a file, got only {model}": (model,),
            "no model file": (tmp_path / "none.skops", table),
            "no file or folder": (model, tmp_path / "none.csv"),
            "cannot keep labels of instances fixed": (other, table),
            "mutually exclusive": (model, table, "--image", "clip", "--text", "clip"),
            "no column 'klip'": (model, table, "--audio", "klip"),
            "is an input file": (model, table, "-o", table),
            "file is not a database": (model, table, "-o", tmp_path / "x.txt"),
        }
        (tmp_path / "x.txt").write_text("a text that somebody wants to keep")
        before = table.read_bytes()
        for message, words in cases.items():
            words = words if "-o" in words else (*words, "-o", tmp_path / "new.sqlite")
            result = run.fails("review", *words, "--no-browser")
            assert message in " ".join(result.stderr.split())
        assert table.read_bytes() == before
        assert not (tmp_path / "new.sqlite").exists()
        assert (tmp_path / "x.txt").read_text() == "a text that somebody wants to keep"
