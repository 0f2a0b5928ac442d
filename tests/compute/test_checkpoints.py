"""Fits that are killed and resumed."""

import signal
import subprocess
import sys

import pytest
from sklearn.base import clone

from bagwise.compute import Checkpoint, iterate
from bagwise.compute import parts as module
from bagwise.compute.parts import Parts
from bagwise.exceptions import InputError
from engine_examples import MODELS, Counter, relative, with_label_sets

KILLED_WHILE_SAVING = """
import os, signal, sys
import numpy as np
sys.path[:0] = {path!r}
from bagwise.compute import parts
from engine_examples import MODELS, with_label_sets

parts.INTERVAL = 0.0
saved, save = [], parts.Checkpoint.save

def save_and_die(self, *args):
    save(self, *args)
    saved.append(args)
    if len(saved) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

parts.Checkpoint.save = save_and_die
bags, sets = with_label_sets()
MODELS[{model!r}].set_params(checkpoint={file!r}).fit(bags.to("cpu") if {tensor} else bags, sets)
"""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "tensor"),
    [
        *[("orlr", False), ("mimlca", False), ("orlr", True), ("mimlca", True)],
        pytest.param("plda", False, marks=pytest.mark.slow),
    ],
)
def test_a_killed_fit_of_label_sets_continues(model, tensor, tmp_path, monkeypatch):
    if tensor:
        pytest.importorskip("torch")
    file = tmp_path / "fit.npz"
    script = KILLED_WHILE_SAVING.format(path=sys.path, model=model, file=str(file), tensor=tensor)
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    bags, sets = with_label_sets()
    bags = bags.to("cpu") if tensor else bags

    found = clone(MODELS[model]).set_params(checkpoint=file).fit(bags, sets)
    expected = clone(MODELS[model]).fit(bags, sets)
    name = "components_" if hasattr(found, "components_") else "coef_"
    # L-BFGS begins again from the saved iterate.
    tolerance = 1e-12 if name == "components_" else 1e-2
    assert relative(getattr(found, name), getattr(expected, name)) < tolerance
    assert found.n_iter_ == expected.n_iter_ or model == "orlr"
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_fit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    bags, sets = with_label_sets(n_bags=20)
    path, parts = tmp_path / "fit.npz", Parts(Counter(None))
    other = Checkpoint(path, "other settings")
    other.load({}, parts)
    other.save({"n_iter": 3}, parts)
    model = clone(MODELS["orlr"]).set_params(checkpoint=path)
    with pytest.raises(InputError, match="belongs to another fit"):
        model.fit(bags, sets)
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a checkpoint"):
        model.fit(bags, sets)


def test_a_checkpoint_is_seldom_written_and_removed_at_the_end(tmp_path):
    saved = []

    class Watched(Checkpoint):
        def save(self, memory, parts):
            super().save(memory, parts)
            saved.extend(tmp_path.iterdir())

    def step(now):
        parts.total("add", 1)
        return False

    parts = Parts(Counter(None))
    end = iterate(
        parts,
        {},
        lambda now: None,
        step,
        max_iter=50,
        checkpoint=Watched(tmp_path / "fit.npz", ()),
    )
    assert end["n_iter"] == parts.part.value == 50
    assert saved == []
    assert not list(tmp_path.iterdir())
