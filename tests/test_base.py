import pytest

from bagwise.classification import SetKernelSVM
from checks import example

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn < 1.9 has no callbacks")


class Recorder:
    """Counts the steps a fit reports."""

    def __init__(self):
        self.begun, self.ended = [], []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)


def test_callbacks_hear_of_every_class():
    bags, y = example(n_classes=3)
    recorder = Recorder()
    SetKernelSVM().set_callbacks(recorder).fit(bags, y)
    assert recorder.begun == ["fit", "class", "class", "class"]
    assert recorder.ended == ["class", "class", "class", "fit"]


def test_nothing_is_shown_by_default(capsys):
    SetKernelSVM().fit(*example(n_classes=3))
    assert capsys.readouterr() == ("", "")
