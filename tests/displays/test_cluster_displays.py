import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.cluster import BagConstrainedSpectralClustering, WellSVMClustering
from bagwise.displays import ClusterChoiceDisplay, ClusterMapDisplay
from bagwise.exceptions import InputError

figure = pytest.importorskip("matplotlib.figure")


def test_a_map_draws_each_group_and_names_it():
    rng = np.random.default_rng(0)
    embedding = np.repeat(np.eye(3), 20, axis=0) + 0.01 * rng.normal(size=(60, 3))
    clusters, species = np.repeat([0, 1, 2], 20), [None] * 20 + ["$owl"] * 40
    layouts = []
    for groups, names in ((clusters, ["0", "1", "2"]), (species, ["$owl"])):
        ax = figure.Figure().subplots()
        display = ClusterMapDisplay.from_predictions(embedding, groups, title="$a", ax=ax)
        assert ax.get_title() == "$a"
        layouts.append(display.points)
        assert [text.get_text() for text in ax.texts] == names
        (points,) = ax.collections
        assert len(points.get_offsets()) == 60
        assert len(np.unique(points.get_facecolors(), axis=0)) == 3 if len(names) == 3 else 2
        ax.figure.draw_without_rendering()  # a name is no formula
    np.testing.assert_array_equal(*layouts)


@pytest.mark.parametrize(("n", "shown"), [(1, 1), (3, 3), (5, 5), (50, 20)])
def test_many_instances_are_sampled_and_few_are_drawn_as_they_are(n, shown):
    embedding = np.random.default_rng(0).normal(size=(n, 1))
    ax = figure.Figure().subplots()
    display = ClusterMapDisplay.from_predictions(embedding, range(n), max_instances=20, ax=ax)
    assert display.points.shape == (shown, 2)


def test_groups_are_one_per_instance():
    with pytest.raises(InputError, match="for 2 instances"):
        ClusterMapDisplay.from_predictions(np.eye(2), [0, 1, 2])


@pytest.fixture
def two_songs(rng):
    bags = Bags.from_arrays(
        [6 * np.eye(2)[[i % 2] * 3] + rng.normal(size=(3, 2)) for i in range(10)]
    )
    return bags, BagConstrainedSpectralClustering(n_clusters=2, random_state=0).fit(bags)


def test_a_clusterer_is_drawn_by_its_clusters(two_songs):
    bags, model = two_songs
    axes = figure.Figure().subplots()
    display = ClusterMapDisplay.from_estimator(model, bags, ax=axes, title="songs")
    assert display.ax_ is axes
    assert axes.get_title() == "songs"
    assert list(display.groups) == model.labels_.tolist()
    inside = ClusterMapDisplay.from_estimator(make_pipeline(model), bags, ax=axes)
    np.testing.assert_array_equal(inside.points, display.points)


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_two_columns_are_shown_as_they_are_and_more_by_their_neighbours(rng, kind):
    rows = np.repeat([[0, 0, 9, 0], [9, 0, 0, 0]], 15, axis=0) + rng.normal(size=(30, 4))
    axes = figure.Figure().subplots()
    two = ClusterMapDisplay.from_predictions(kind(rows[:, :2]), range(30), ax=axes)
    np.testing.assert_array_equal(two.points, rows[:, :2])
    more = ClusterMapDisplay.from_predictions(kind(rows), range(30), ax=axes).points
    apart = np.linalg.norm(more[:, None] - more, axis=-1)
    assert ((apart + 1e9 * np.eye(30)).argmin(axis=1) // 15 == np.arange(30) // 15).all()


def test_rows_without_an_embedding_are_laid_out_themselves(two_songs):
    bags, _ = two_songs
    model = WellSVMClustering(n_clusters=2, random_state=0).fit(bags.instances)
    axes = figure.Figure().subplots()
    found = ClusterMapDisplay.from_estimator(model, bags.instances, ax=axes)
    np.testing.assert_array_equal(found.points, bags.instances)
    assert list(found.groups) == model.labels_.tolist()


def test_other_instances_and_other_models_are_refused(two_songs):
    bags, model = two_songs
    with pytest.raises(InputError, match="clustered other instances"):
        ClusterMapDisplay.from_estimator(model, bags[:1])
    with pytest.raises(InputError, match="StandardScaler has no labels_"):
        ClusterMapDisplay.from_estimator(StandardScaler(), bags)


def test_a_choice_is_drawn_with_its_best_row():
    class Choice:
        table = {
            "alpha": np.repeat([0.0, 0.7], 3),
            "n_clusters": np.tile([2, 3, 4], 2),
            "eigengap": np.arange(6) / 10,
            "stability": np.arange(6) / 6,
            "stability_sd": np.full(6, 0.1),
        }
        best = 4

    display = ClusterChoiceDisplay.from_choice(Choice, ax=figure.Figure().subplots(2))
    above, below = display.ax_
    assert above.get_legend_handles_labels()[1] == ["alpha = 0", "alpha = 0.7"]
    assert above.lines[-1].get_xydata().tolist() == [[3, pytest.approx(4 / 6)]]
    assert below.lines[-1].get_xydata().tolist() == [[3, pytest.approx(0.4)]]
