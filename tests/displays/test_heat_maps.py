"""Heat maps: the values of instances, and how they are drawn at their coordinates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.classification import SetKernelSVM, SingleInstanceClassifier
from bagwise.displays import HeatMapDisplay
from bagwise.displays._heat_maps import colour_limits, colours, patch_edges
from bagwise.embedding import BagStatistics
from bagwise.exceptions import InputError, LabelError
from bagwise.predictions import Predictions, instance_attributions
from bagwise.predictions._predictions import MOST_SCORED, N_SUBSETS


@pytest.fixture
def bags(rng):
    """Bags of two classes; the first instance of a bag of "tumour" shows it."""
    arrays = [rng.normal(size=(n, 3)) for n in (4, 6, 5, 3, 7, 5)]
    for array in arrays[1::2]:
        array[0] += 6
    return Bags.from_arrays(arrays)


Y = np.array(["no", "tumour"] * 3)


def test_values_are_the_scores_of_a_model_that_pools_them(bags):
    model = SingleInstanceClassifier(pooling="max").fit(bags, Y)
    found = Predictions(model, bags[1:2]).contributions()
    assert (found.method, found.label, found.value_name) == ("score", "tumour", "score for tumour")
    np.testing.assert_array_equal(found.values, model.score_instances(bags[1:2]))
    assert found.values.argmax() == 0
    other = Predictions(model, bags[1:2]).contributions(label="no")
    np.testing.assert_array_equal(other.values, -found.values)


def test_other_models_are_asked_for_contributions(bags):
    model = make_pipeline(BagStatistics(), LogisticRegression()).fit(bags, Y)
    found = Predictions(model, bags[1:2]).contributions()
    assert (found.method, found.value_name) == ("sampled", "contribution to tumour")
    expected = instance_attributions(
        model, bags[1:2], method="sampled", n_samples=N_SUBSETS, random_state=0
    )
    np.testing.assert_array_equal(found.values, expected)
    single = Predictions(model, bags[1:2]).contributions(method="single")
    np.testing.assert_array_equal(
        single.values, instance_attributions(model, bags[1:2], method="single")
    )
    size = 2 * MOST_SCORED // N_SUBSETS
    for n, method in ((size, "sampled"), (size + 1, "single")):
        assert Predictions(model, Bags(np.zeros((n, 3)), [0, n])).usual_method == method


def test_of_several_classes_the_predicted_one_is_shown(bags):
    y = ["a", "b", "c"] * 2
    model = SetKernelSVM(C=10).fit(bags, y)
    for i in range(3):
        bag = bags[i : i + 1]
        found = Predictions(model, bag).contributions()
        assert found.label == model.predict(bag)[0]
        all_classes = instance_attributions(
            model, bag, method=found.method, n_samples=N_SUBSETS, random_state=0
        )
        for k, label in enumerate("abc"):
            values = Predictions(model, bag).contributions(label=label).values
            np.testing.assert_array_equal(values, all_classes[:, k])
    with pytest.raises(LabelError, match="has no label 'd'"):
        Predictions(model, bags[:1]).contributions(label="d")


@given(hnp.arrays(np.int64, st.tuples(st.integers(1, 8), st.just(2)), elements=st.integers(0, 9)))
def test_the_edge_is_the_least_distance_on_the_grid(cells):
    distances = [
        abs(int(a) - int(b)) for axis in (0, 1) for a in cells[:, axis] for b in cells[:, axis]
    ]
    expected = min((d for d in distances if d), default=1 / 256)  # one place: any size
    bags = Bags(cells, [0, len(cells)])
    np.testing.assert_equal(patch_edges(None, bags, cells * 256), [256 * expected])


@given(hnp.arrays(float, st.integers(1, 30), elements=st.floats(-100, 100)))
def test_the_colour_scale_is_symmetric_where_values_are_negative(values):
    low, high = colour_limits(values)
    assert low < high
    if np.quantile(values, 0.005) < 0:
        assert low == -high
    found = colours(values, (low, high))
    assert found.shape == (len(values), 3)
    assert ((found >= 0) & (found <= 255)).all()


def test_red_is_for_and_blue_against():
    red, grey, blue = colours(np.array([1.0, 0.0, -1.0]), (-1.0, 1.0))
    assert red[0] > 150 > red[2]
    assert blue[2] > 150 > blue[0]
    assert np.ptp(grey) < 10


def test_a_slide_whose_scores_are_all_against_is_blue():
    scores = np.array([-1.0, -0.7, -0.5])
    assert all(blue > red for red, _, blue in colours(scores, colour_limits(scores)))


def test_a_display_draws_each_patch_at_its_place():
    pytest.importorskip("matplotlib")
    places = [[0, 0], [256, 0], [512, 256]]
    display = HeatMapDisplay.from_predictions([0.1, 0.9, -0.4], places, top=1)
    cells, frames = display.ax_.collections
    corners = [path.vertices[0].tolist() for path in cells.get_paths()]
    assert corners == [[512, 256], [0, 0], [256, 0]]  # the highest on top
    assert cells.get_array().tolist() == [-0.4, 0.1, 0.9]
    assert [path.vertices[0].tolist() for path in frames.get_paths()] == [[256, 0]]
    assert display.patch_size == 256
    top, bottom = display.ax_.get_ylim()[::-1]
    assert top < 0 < 512 < bottom  # y grows downwards
    assert display.figure_.axes[1].get_ylabel() == "score"


def test_a_slide_is_drawn_below_its_patches():
    pytest.importorskip("matplotlib")
    image = np.zeros((4, 8, 3), dtype=np.uint8)
    display = HeatMapDisplay.from_predictions(
        [0.1, 0.9], [[0, 0], [256, 0]], image=image, image_size=(1024, 512)
    )
    (picture,) = display.ax_.images
    assert picture.get_extent() == [0, 1024, 512, 0]  # the whole slide, y downwards
    assert picture.get_zorder() < display.ax_.collections[0].get_zorder()
    assert 0 < display.ax_.collections[0].get_alpha() < 1
    assert display.ax_.get_xlim()[1] < 600  # where the patches are


def test_a_display_asks_the_model(bags):
    pytest.importorskip("matplotlib")
    model = SingleInstanceClassifier().fit(bags, Y)
    places = np.arange(12).reshape(-1, 2) * 8
    display = HeatMapDisplay.from_estimator(model, bags[1], places, patch_size=4)
    np.testing.assert_array_equal(display.values, model.score_instances(bags[1:2]))
    assert (display.value_name, display.patch_size) == ("score for tumour", 4)


@pytest.mark.parametrize(
    ("values", "places", "more", "message"),
    [
        ([1.0], [[0, 0], [1, 1]], {}, r"coords have shape \(2, 2\)"),
        ([], np.zeros((0, 2)), {}, "expected a finite number"),
        ([np.nan], [[0, 0]], {}, "expected a finite number"),
        ([1.0], [[0, np.inf]], {}, "expected the finite position"),
        ([1.0], [[0, 0]], {"patch_size": 0}, "patch_size is 0"),
        ([1.0], [[0, 0]], {"image": np.zeros((2, 2, 3))}, "image= needs image_size="),
    ],
)
def test_a_display_refuses_what_it_cannot_draw(values, places, more, message):
    with pytest.raises(InputError, match=message):
        HeatMapDisplay.from_predictions(values, places, **more)
