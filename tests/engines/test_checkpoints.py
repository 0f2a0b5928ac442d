"""Fits that are killed and resumed."""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from bagwise.cli import app
from bagwise.engines import Checkpoint, checkpoint, iterate, place
from bagwise.engines.parts import Parts
from bagwise.exceptions import InputError
from bagwise.io import write_bags
from bagwise.solvers.margin.primal_dual_parts import PrimalDualPart
from checks import example
from engine_examples import MODELS, Counter, relative, solve, with_label_sets

KILLED = """
import os, signal, sys
import numpy as np
sys.path[:0] = {path!r}
from bagwise.engines import checkpoint
from checks import example
from engine_examples import solve

checkpoint.INTERVAL = 0.0

def track(turns):
    for turn in turns:
        if turn == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
        yield turn

bags, y = example(40, n_classes=3)
solve(bags.to("cpu") if {tensor} else bags, np.unique(y, return_inverse=True)[1], track, {file!r},
      exact={exact})
"""


@pytest.mark.parametrize(("tensor", "exact"), [(False, True), (True, False)])
def test_a_killed_process_continues_where_it_was(tensor, exact, tmp_path):
    if tensor:
        pytest.importorskip("torch")
    file = tmp_path / "fit.npz"
    script = KILLED.format(path=sys.path, at=17, file=str(file), tensor=tensor, exact=exact)
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert ended.returncode == -signal.SIGKILL
    bags, y = example(40, n_classes=3)
    codes = np.unique(y, return_inverse=True)[1]
    bags = bags.to("cpu") if tensor else bags
    turns = []
    found = solve(bags, codes, lambda items: map(turns.append, items), file, exact=exact)
    expected = solve(bags, codes, exact=exact)
    assert turns == [*range(17, 40)]
    np.testing.assert_array_equal(found.solution[0], expected.solution[0])
    np.testing.assert_array_equal(found.solution[1], expected.solution[1])
    np.testing.assert_array_equal(found.objective_curve, expected.objective_curve)
    assert not file.exists()


KILLED_WHILE_SAVING = """
import os, signal, sys
import numpy as np
sys.path[:0] = {path!r}
from bagwise.engines import checkpoint
from engine_examples import MODELS, with_label_sets

checkpoint.INTERVAL = 0.0
saved, save = [], checkpoint.Checkpoint.save

def save_and_die(self, *args):
    save(self, *args)
    saved.append(args)
    if len(saved) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.Checkpoint.save = save_and_die
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
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
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


KILLED_WITHIN_A_SAVE = """
import os, signal, sys
sys.path[:0] = {path!r}
from bagwise.engines import checkpoint, Checkpoint
from bagwise.engines.parts import Parts
from engine_examples import Counter

def half(file, **arrays):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

parts = Parts(Counter(None))
def save(n_iter):
    file = Checkpoint({file!r}, (), interval=0.0)
    file.load({{"n_iter": 0}}, parts)
    file.save({{"n_iter": n_iter}}, parts)

save(3)
checkpoint.np.savez = half
save(4)
"""


def test_a_kill_within_a_save_leaves_the_last_checkpoint_and_no_litter(tmp_path):
    file, parts = tmp_path / "fit.npz", Parts(Counter(None))
    script = KILLED_WITHIN_A_SAVE.format(path=sys.path, file=str(file))
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL
    memory = {"n_iter": 0}
    resumed = Checkpoint(file, (), interval=0.0)
    assert resumed.load(memory, parts)
    assert memory["n_iter"] == 3
    assert len(list(tmp_path.iterdir())) == 2
    resumed.save({"n_iter": 5}, parts)
    assert list(tmp_path.iterdir()) == [file]


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    bags, _ = example(30)
    path = tmp_path / "fit.npz"
    codes = np.zeros(30, np.int64)
    parts = place(
        bags, PrimalDualPart, codes, np.ones(30), n_classes=2, shared=False, mask=True, cost=1.0
    )  # fmt: skip
    parts.total("begin", np.zeros((2, 4)))
    other = Checkpoint(path, "other settings", interval=0.0)
    other.load({}, parts)
    other.save({"W": np.zeros((2, 4))}, parts)
    with pytest.raises(InputError, match="belongs to another fit"):
        solve(bags, np.arange(30) % 3, path=path)
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a checkpoint"):
        solve(bags, codes, path=path)


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


def test_the_command_line_says_which_methods_have_no_checkpoint(tmp_path):
    pytest.importorskip("skops")
    bags, y = example(10)
    write_bags(tmp_path / "bags.npz", bags, y=y)
    command = ["fit", str(tmp_path / "bags.npz"), "-m", "nsk", "--checkpoint", "state.npz"]
    found = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "model.skops")])
    assert found.exit_code != 0
    assert "no parameter 'checkpoint'" in str(found.exception) + found.output
