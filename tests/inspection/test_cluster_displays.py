import numpy as np
import pytest

from bagwise.exceptions import InputError
from bagwise.inspection import ClusterChoiceDisplay, EmbeddingDisplay

figure = pytest.importorskip("matplotlib.figure")


def test_a_map_draws_each_group_and_names_it():
    rng = np.random.default_rng(0)
    embedding = np.repeat(np.eye(3), 20, axis=0) + 0.01 * rng.normal(size=(60, 3))
    clusters, species = np.repeat([0, 1, 2], 20), [None] * 20 + ["$owl"] * 40
    maps = EmbeddingDisplay.from_embedding(embedding, clusters, species, titles=["a", "b"])
    assert [display.title for display in maps] == ["a", "b"]
    assert maps[0].points is maps[1].points
    for display, names in zip(maps, (["0", "1", "2"], ["$owl"]), strict=True):
        ax = figure.Figure().subplots()
        display.plot(ax=ax)
        drawn = [line.get_label() for line in ax.lines if not line.get_label().startswith("_")]
        assert drawn == names
        assert sum(len(line.get_xdata()) for line in ax.lines) == 60
        ax.figure.draw_without_rendering()  # a name is no formula


@pytest.mark.parametrize(("n", "shown"), [(1, 1), (3, 3), (5, 5), (50, 20)])
def test_many_instances_are_sampled_and_few_are_drawn_as_they_are(n, shown):
    embedding = np.random.default_rng(0).normal(size=(n, 1))
    (display,) = EmbeddingDisplay.from_embedding(embedding, range(n), max_instances=20)
    assert display.points.shape == (shown, 2)


def test_groups_are_one_per_instance():
    with pytest.raises(InputError, match="3 groups were given for 2 instances"):
        EmbeddingDisplay.from_embedding(np.eye(2), [0, 1, 2])


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

    display = ClusterChoiceDisplay.from_choice(Choice, axes=figure.Figure().subplots(2))
    above, below = display.axes_
    assert above.get_legend_handles_labels()[1] == ["alpha = 0", "alpha = 0.7"]
    assert above.lines[-1].get_xydata().tolist() == [[3, pytest.approx(4 / 6)]]
    assert below.lines[-1].get_xydata().tolist() == [[3, pytest.approx(0.4)]]
