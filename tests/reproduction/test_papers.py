"""The TOML files of papers have the structure that the code expects."""

import pytest

from bagwise.exceptions import FileFormatError, InputError
from cases import each
from reproduction import list_papers, load_paper
from reproduction._plots import PLOTS
from reproduction._protocols import PROTOCOLS


def cells(paper):
    for experiment in paper.experiments.values():
        for data, methods in experiment.published.items():
            for method, cell in methods.items():
                yield experiment, data, method, cell


@each("name", list_papers())
def test_published_numbers_are_numbers_of_known_cells(name):
    paper = load_paper(name)
    for experiment, data, method, cell in cells(paper):
        assert data in experiment.data
        assert method in {m for k in experiment.methods for m in (k, paper.methods[k].compared)}
        if cell == "timed out":
            continue
        assert set(cell) <= set(experiment.metrics)
        for metric, numbers in cell.items():
            assert 1 <= len(numbers) <= 2
            assert all(type(number) in (int, float) and number >= 0 for number in numbers)
            if paper.metrics[metric].kind == "score":
                assert numbers[0] <= 1


@each("name", list_papers())
def test_experiments_name_what_exists(name):
    paper = load_paper(name)
    for experiment in paper.experiments.values():
        short = experiment.shortened()
        assert experiment.kind in ("table", "figure")
        assert experiment.protocol in PROTOCOLS
        assert set(experiment.plots) <= set(PLOTS)
        assert set(short.data) <= set(experiment.data)
        assert set(short.methods) <= set(experiment.methods)
        assert short.repetitions <= experiment.repetitions
        for explanation in experiment.explanations:
            assert explanation.get("data", experiment.data[0]) in experiment.data
            assert explanation.get("method", experiment.methods[0]) in experiment.methods
    families = {data.family for data in paper.data.values()}
    for method in paper.methods.values():
        assert set(method.settings) <= set(paper.data) | families


def test_tables_of_the_pdmisvm_paper_are_complete():
    paper = load_paper("pdmisvm")
    for name in ("table1", "table2"):
        table = paper.experiment(name)
        printed = {m for m in table.methods if not paper.methods[m].compared}
        assert (len(table.data), len(printed)) == (5, 10)
        assert (table.folds, table.tolerance) == (6, 1.0)
        for data in table.data:
            assert table.published[data].keys() == printed
    for _, _, _, cell in cells(paper):
        assert cell == "timed out" or {len(cell[m]) for m in cell if m != "fit_seconds"} == {2}
    timed_out = [cell for _, _, _, cell in cells(paper) if cell == "timed out"]
    assert len(timed_out) == 3 + 5 + 8 + 9


def test_some_published_cells_as_printed():
    paper = load_paper("pdmisvm")
    one, two = paper.experiment("table1").published, paper.experiment("table2").published
    assert one["musk2"]["pdmisvm-exact"] == {
        "accuracy": [0.794, 0.152],
        "balanced_accuracy": [0.802, 0.160],
        "fit_seconds": [0.72],
    }
    assert one["mnist-bags"]["minet-embedding"]["balanced_accuracy"] == [0.511, 0.075]
    assert one["tiger"]["smil"]["accuracy"] == [0.670, 0.065]
    assert two["sival-5"]["sil"]["balanced_accuracy"] == [0.0, 0.0]
    assert two["sival-25-deep"]["pdmisvm-inexact"]["fit_seconds"] == [977.66]
    # The columns TT of Table I, added up from the text of the paper by another script.
    times = [cell["fit_seconds"][0] for row in one.values() for cell in row.values()]
    assert sum(times) == pytest.approx(972.30, abs=0.005)


def test_table_2_of_the_orlr_paper_as_printed():
    paper = load_paper("orlr")
    printed = {
        "orlr": [[0.701, 0.557, 0.624, 0.645], [0.852, 0.832, 0.861, 0.880]],
        "ranklosssim": [[0.619, 0.467, 0.540, 0.575], [0.817, 0.697, 0.745, 0.775]],
        "s-lr": [[0.720, 0.605, 0.690, 0.700]] * 2,
        "s-svm": [[0.772, 0.638, 0.772, 0.753]] * 2,
    }
    for place, name in enumerate(("table2-inductive", "table2-transductive")):
        table = paper.experiment(name)
        for method, rows in printed.items():
            found = [table.published[data][method]["accuracy"][0] for data in table.data]
            assert found == rows[place]


@each(
    ("old", "new", "message"),
    [
        ('title = "A tiny paper"', "", "title"),
        ('protocol = "fit_time"', "", r"\[experiments.figure\].*protocol"),
        ('kind = "figure"', 'kind = "figure"\ncolour = 1', "colour"),
        ('data = ["clusters"]', 'data = ["cluster"]', "Did you mean clusters"),
        ("[metrics.accuracy]", "[metrics", "cannot be read as TOML"),
    ],
)
def test_a_faulty_file_says_where(tiny_file, old, new, message):
    intact = tiny_file.read_text()
    tiny_file.write_text(intact.replace(old, new))
    with pytest.raises((FileFormatError, InputError), match=message):
        load_paper(tiny_file)
    tiny_file.write_text(intact)
