import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.displays import (
    ComparisonDisplay,
    InstanceScoreDisplay,
    KeyInstanceDisplay,
    ObjectiveDisplay,
    PosteriorDisplay,
)
from bagwise.exceptions import InputError

figure = pytest.importorskip("matplotlib.figure")


@pytest.fixture
def axes():
    return figure.Figure(layout="constrained").subplots()


@pytest.fixture
def scored(rng):
    y = np.arange(12) % 2
    arrays = [rng.normal(size=(3, 4)) + 2 * label for label in y]
    bags = Bags.from_arrays(arrays, ids=[f"slide {i}" for i in range(12)])
    return SingleInstanceClassifier().fit(bags, y), bags


def test_instance_scores_are_where_the_model_puts_them(scored, axes):
    model, bags = scored
    display = InstanceScoreDisplay.from_estimator(model, bags, max_bags=5, ax=axes)
    dots, keys = (line for line in axes.lines if line.get_label() in ("instance", "key instance"))
    first = bags[:5]
    np.testing.assert_array_equal(dots.get_xdata(), model.score_instances(first))
    np.testing.assert_array_equal(dots.get_ydata(), first.bag_index)
    np.testing.assert_array_equal(keys.get_xdata(), model.decision_function(first))
    assert [text.get_text() for text in axes.get_yticklabels()] == first.ids.tolist()
    assert axes.get_xlabel() == "score for 1"
    assert display.ax_ is axes


def test_scores_of_one_class_among_three(rng, axes):
    y = np.arange(15) % 3
    bags = Bags.from_arrays([rng.normal(size=(2, 3)) + label for label in y])
    model = SetKernelSVM().fit(bags, y)
    display = InstanceScoreDisplay.from_estimator(model, bags, label=2, ax=axes)
    np.testing.assert_array_equal(np.concatenate(display.scores), model.score_instances(bags)[:, 2])
    predicted = InstanceScoreDisplay.from_estimator(model, bags, ax=axes)
    columns = model.predict(bags)[bags.bag_index]
    expected = model.score_instances(bags)[np.arange(bags.n_instances), columns]
    np.testing.assert_array_equal(np.concatenate(predicted.scores), expected)


def test_names_are_not_formulas(scored, axes):
    _, bags = scored
    odd = Bags(bags.instances, bags.offsets, ids=[r"$\frac{" for _ in range(len(bags))])
    InstanceScoreDisplay.from_predictions(odd, np.zeros(odd.n_instances), ax=axes)
    axes.figure.draw_without_rendering()  # would raise on a formula it cannot read


def test_displays_make_their_own_figure(scored):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    model, bags = scored
    displays = [
        InstanceScoreDisplay.from_estimator(model, bags),
        KeyInstanceDisplay.from_estimator(model, bags, image_shape=(2, 2)),
        ComparisonDisplay.from_scores({"a": [0.5, 0.6]}),
        PosteriorDisplay.from_predictions(bags, np.full((bags.n_instances, 2), 0.5)),
        ObjectiveDisplay.from_predictions([3.0, 2.0]),
    ]
    for display in displays:
        assert display.figure_.axes
        pyplot.close(display.figure_)


def test_the_key_instance_is_framed(scored):
    model, bags = scored
    display = KeyInstanceDisplay.from_estimator(
        model, bags, image_shape=(2, 2), max_bags=4, ax=figure.Figure().subplots()
    )
    corners = [frame.get_xy() for frame in display.ax_.patches]
    columns = [image.get_extent()[0] for image in display.ax_.images[:3]]
    framed = [columns.index(x) for x, _ in corners]
    assert framed == model.key_instances(bags[:4]).tolist()
    shown = display.ax_.images[1].get_array()
    np.testing.assert_array_equal(shown, bags[0][1].reshape(2, 2))


def test_key_instances_that_are_known_are_shown(scored):
    model, bags = scored
    by_model = KeyInstanceDisplay.from_estimator(
        model, bags, image_shape=(2, 2), max_bags=2, ax=figure.Figure().subplots()
    )
    first, ax = bags[:2], figure.Figure().subplots()
    keys, labels = model.key_instances(first), model.predict(first)
    known = KeyInstanceDisplay.from_predictions(first, keys, labels, image_shape=(2, 2), ax=ax)
    assert known.keys.tolist() == by_model.keys.tolist()
    assert known.titles == by_model.titles
    unnamed = KeyInstanceDisplay.from_predictions(first, [0, 0], image_shape=(2, 2), ax=ax)
    assert unnamed.titles == ["slide 0", "slide 1"]
    with pytest.raises(InputError, match=r"image_shape is \(3, 3\), and an instance has 4"):
        KeyInstanceDisplay.from_predictions(bags, np.zeros(12, int), image_shape=(3, 3))


def test_models_without_instance_scores_are_refused(scored):
    _, bags = scored
    model = CitationKNN().fit(bags, np.arange(12) % 2)
    with pytest.raises(InputError, match="CitationKNN has no instance scores"):
        InstanceScoreDisplay.from_estimator(model, bags)


def test_a_comparison_marks_the_means(axes):
    scores = {"nsk": [0.8, 0.9, 1.0], "majority": [0.5, 0.5, 0.5]}
    ComparisonDisplay.from_scores(scores, ax=axes)
    means = [bars.lines[0].get_xdata()[0] for bars in axes.containers]
    np.testing.assert_allclose(means, [0.9, 0.5])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["nsk", "majority"]


@pytest.fixture
def annotated(rng):
    sets = [[0, 1], [0], [1, 2], [2], [0, 2], [1]] * 3
    arrays = [3 * np.eye(3)[[*s, *s]] + rng.normal(size=(2 * len(s), 3)) for s in sets]
    named = [{("owl", "wren", "$robin")[k] for k in s} for s in sets]
    bags = Bags.from_arrays(arrays, ids=[f"tape {i}" for i in range(len(arrays))])
    return ORedLogisticRegression().fit(bags, named), bags, named


def bars(axes):
    """Widths of the bars, one row per instance, one column per label drawn."""
    return np.array([[bar.get_width() for bar in group] for group in axes.containers]).T


def test_bars_of_a_bag_are_its_posteriors(annotated, axes):
    model, bags, named = annotated
    display = PosteriorDisplay.from_estimator(make_pipeline(model), bags, named, bag=2, ax=axes)
    proba = bags.split(model.annotate_proba(bags, named))[2]
    np.testing.assert_array_equal(display.proba, proba)
    np.testing.assert_array_equal(bars(axes), proba[:, proba.any(axis=0)])
    assert [text.get_text() for text in axes.get_yticklabels()] == [f"row {i}" for i in range(4)]
    assert {text.get_text() for text in axes.get_legend().get_texts()} <= {"$robin", "wren"}
    axes.figure.draw_without_rendering()  # a label is no formula


def test_the_least_certain_come_first(annotated, axes):
    model, bags, _ = annotated
    display = PosteriorDisplay.from_estimator(model, bags, max_instances=5, ax=axes)
    sureness = model.predict_proba_instances(bags).max(axis=1)
    np.testing.assert_array_equal(display.proba.max(axis=1), np.sort(sureness)[:5])
    first = int(sureness.argmin())
    bag = bags.bag_index[first]
    assert display.names[0] == f"{bags.ids[bag]}, row {first - bags.offsets[bag]}"


def test_the_background_has_its_column(annotated, axes):
    _, bags, named = annotated
    model = ORedLogisticRegression(background=True).fit(bags, named)
    display = PosteriorDisplay.from_estimator(model, bags, named, ax=axes)
    assert len(display.labels) == 4
    assert display.proba.shape[1] == 4


def test_posteriors_are_refused_where_there_are_none(annotated, axes):
    model, bags, named = annotated
    with pytest.raises(InputError, match="there is no bag 99"):
        PosteriorDisplay.from_estimator(model, bags, named, bag=99, ax=axes)
    with pytest.raises(InputError, match=r"proba has shape \(3, 2\)"):
        PosteriorDisplay.from_predictions(bags, np.zeros((3, 2)))
    with pytest.raises(InputError, match="a column for each of the 1 labels"):
        PosteriorDisplay.from_predictions(bags, np.zeros((bags.n_instances, 2)), labels=["owl"])
    nearest = CitationKNN().fit(bags, named)
    with pytest.raises(InputError, match="CitationKNN has no annotate_proba"):
        PosteriorDisplay.from_estimator(nearest, bags, named)


def test_objectives_of_several_models_are_drawn_by_name(annotated, axes):
    model, bags, named = annotated
    loose = ORedLogisticRegression(tol=1e-1).fit(bags, named)
    ObjectiveDisplay.from_estimator({"$a": model, "b": make_pipeline(loose)}, ax=axes)
    for line, fitted in zip(axes.lines, (model, loose), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), fitted.objective_curve_)
        np.testing.assert_array_equal(
            line.get_xdata(), np.arange(1, len(fitted.objective_curve_) + 1)
        )
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["$a", "b"]
    axes.figure.draw_without_rendering()
