"""The pages: what is public is in them, their links and commands lead somewhere."""

import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances
from typer.testing import CliRunner

import bagwise
from bagwise import _validation, base
from bagwise._methods import METHODS
from bagwise.base import _fitted_state, _parameters
from estimators import public_estimators
from optional import skip_where_absent

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted(
    DOCS.glob("*.md")
)
PUBLIC = [
    (package, name) for package in bagwise._PACKAGES for name in getattr(bagwise, package).__all__
]


@pytest.mark.parametrize(("package", "name"), PUBLIC, ids=lambda text: text)
def test_every_public_name_is_in_the_reference(package, name):
    listed = (DOCS / "api.md").read_text().splitlines()
    assert listed.count(f"   {package}.{name}") == 1


def test_the_reference_names_nothing_else():
    listed = re.findall(r"^   (\w+)\.(\w+)$", (DOCS / "api.md").read_text(), flags=re.M)
    assert set(listed) <= set(PUBLIC)
    assert "automodule" not in (DOCS / "api.md").read_text()


@pytest.mark.parametrize("cls", public_estimators(), ids=lambda cls: cls.__name__)
def test_every_estimator_has_a_name_in_the_papers(cls):
    package = cls.__module__.split(".")[1]
    if package != "preprocessing":
        assert f"{package}.{cls.__name__}" in (DOCS / "methods.md").read_text()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_the_command_line_is_told(name):
    assert f"`{name}`" in (DOCS / "methods.md").read_text()


def test_the_page_of_choices_names_every_model():
    text = (DOCS / "choose.md").read_text()
    packages = ("classification", "annotation", "cluster", "metric_learning", "semi_supervised")
    models = [cls for cls in public_estimators() if cls.__module__.split(".")[1] in packages]
    assert [cls for cls in models if f"`{cls.__name__}`" not in text] == []


def slugs(page):
    """The anchors of a page, as GitHub and MyST make them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if path.startswith("gallery/"):  # made from the examples when the pages are built
            name = Path(path).stem
            assert name == "index" or (ROOT / "examples" / f"{name}.py").exists(), target
            continue
        assert file.exists(), target
        assert not anchor or anchor in slugs(file), target


def test_no_line_of_text_is_lost_as_a_comment():
    """Sphinx leaves out lines that begin with a per cent sign."""
    pages = [*PAGES, *ROOT.glob("examples/users/*/README.md")]
    assert [p.name for p in pages if re.search(r"^%", p.read_text(), flags=re.MULTILINE)] == []


def test_every_page_is_in_one_list_of_contents():
    listed = []
    for page in DOCS.glob("*.md"):
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), flags=re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed += [re.sub(r".*<(.+)>", r"\1", line) for line in lines]
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert sorted(listed) == sorted(pages | {"gallery/index"})


COMMANDS = [
    line.removeprefix("$ ")
    for page in ("choose.md", "scale-disk.md")
    for line in (DOCS / page).read_text().splitlines()
    if line.startswith("$ bagwise ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command, tmp_path, monkeypatch):
    """The file is the reader's, so it is missing here; nothing else may be wrong."""
    from bagwise.cli.app import app

    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)[1:]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    skip_where_absent(done.output)
    assert f"'{words[1]}'" in done.output


def test_the_header_of_the_gallery_lists_each_example_once():
    header = (ROOT / "examples" / "GALLERY_HEADER.rst").read_text()
    assert sorted(re.findall(r"<(plot_\w+)>", header)) == [example.stem for example in EXAMPLES]


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    runpy.run_path(str(example), run_name="__main__")
    assert pyplot.get_fignums()
    assert capsys.readouterr().out
    pyplot.close("all")


@pytest.mark.slow
def test_the_picture_can_be_drawn_again():
    pytest.importorskip("matplotlib")
    figure = runpy.run_path(str(DOCS / "pictures.py"))["overview"]()
    figure.draw_without_rendering()
    frames = [patch for patch in figure.axes[0].patches if patch.get_linewidth() > 2]
    assert len(frames) == 2  # the key instances of the two bags said to hold a nine


def test_the_picture_is_small():
    assert (DOCS / "images" / "overview.png").stat().st_size < 150_000


def test_the_estimator_of_the_design_page_works():
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "design.md").read_text(), re.DOTALL)

    def nearest_mean(rows, codes):
        return np.array([rows[codes == m].mean(axis=0) for m in np.unique(codes)])

    names = {
        **vars(base), **vars(_validation), **vars(_fitted_state), **vars(_parameters),
        "nearest_mean": nearest_mean, "euclidean_distances": euclidean_distances,
    }  # fmt: skip
    exec(code, names)
    bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    model = clone(names["NearestMean"](scale=2.0)).fit(bags, ["no", "no", "yes", "yes"])
    assert model.predict([[[2.8]]]).tolist() == ["yes"]
    assert model.key_instances([[[0.0], [2.8]]], label="yes").tolist() == [1]
