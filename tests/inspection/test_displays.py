import numpy as np
import pytest

from bagwise import Bags
from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.exceptions import InputError
from bagwise.inspection import ComparisonDisplay, InstanceScoreDisplay, KeyInstanceDisplay

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
    ]
    for display in displays:
        assert display.figure_.axes
        pyplot.close(display.figure_)


def test_the_key_instance_is_framed(scored):
    model, bags = scored
    display = KeyInstanceDisplay.from_estimator(
        model, bags, image_shape=(2, 2), max_bags=4, figure=figure.Figure()
    )
    framed = [[ax.spines["top"].get_visible() for ax in row].index(True) for row in display.axes_]
    assert framed == model.key_instances(bags[:4]).tolist()
    shown = display.axes_[0, 1].images[0].get_array()
    np.testing.assert_array_equal(shown, bags[0][1].reshape(2, 2))


def test_images_must_have_the_size_of_an_instance(scored):
    model, bags = scored
    with pytest.raises(InputError, match="9 values"):
        KeyInstanceDisplay.from_estimator(model, bags, image_shape=(3, 3))


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
