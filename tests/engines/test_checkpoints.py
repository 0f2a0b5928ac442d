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
from bagwise.engines import Checkpoint, Journal, checkpoint, iterate, place
from bagwise.engines.parts import Parts
from bagwise.exceptions import InputError
from bagwise.io import write_bags
from bagwise.solvers.margin.primal_dual_parts import PrimalDualPart
from checks import example
from engine_examples import MODELS, Counter, solve, with_label_sets

KILLED = """
import os, signal, sys
import numpy as np
sys.path[:0] = {path!r}
from bagwise.engines import checkpoint
from checks import example
from engine_examples import solve

checkpoint.INTERVAL, checkpoint.SHARE = 0.0, np.inf

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
    assert turns == [0, *range(18, 40)]  # the file is read in the first turn
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

checkpoint.INTERVAL, checkpoint.SHARE = 0.0, np.inf
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
    [("orlr", False), ("mimlca", False), ("orlr", True), ("mimlca", True)]
    + [pytest.param(m, False, marks=pytest.mark.slow) for m in ("plda", "orlr-em", "orlr-gem")],
)
def test_a_killed_fit_of_label_sets_continues(model, tensor, tmp_path, monkeypatch):
    if tensor:
        pytest.importorskip("torch")
    file = tmp_path / "fit.npz"
    script = KILLED_WHILE_SAVING.format(path=sys.path, model=model, file=str(file), tensor=tensor)
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    saved, save = [], Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda *args: saved.append(save(*args)))
    bags, sets = with_label_sets()
    bags = bags.to("cpu") if tensor else bags

    def fitted(path):
        del saved[:]
        fit = clone(MODELS[model]).set_params(checkpoint=path).fit(bags, sets)
        arrays = [v for v in vars(fit).values() if isinstance(v, np.ndarray)]
        return arrays, len(saved)

    found, n_more = fitted(file)
    expected, n_all = fitted(tmp_path / "other.npz")
    assert n_more == n_all - 4  # from where it was
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not list(tmp_path.iterdir())


KILLED_WITHIN_A_SAVE = """
import os, signal, sys
sys.path[:0] = {path!r}
from bagwise.engines import Checkpoint, checkpoint
from bagwise.engines.parts import Parts
from engine_examples import Counter

def half(file, **arrays):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

parts = Parts(Counter(None))
Checkpoint({file!r}, ()).save({{"n_iter": 3}}, parts)
checkpoint.np.savez = half
Checkpoint({file!r}, ()).save({{"n_iter": 4}}, parts)
"""


def test_a_kill_within_a_save_leaves_the_last_checkpoint_and_no_litter(tmp_path):
    file, parts = tmp_path / "fit.npz", Parts(Counter(None))
    script = KILLED_WITHIN_A_SAVE.format(path=sys.path, file=str(file))
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL
    memory = {"n_iter": 0}
    assert Checkpoint(file, ()).load(memory, parts)
    assert memory["n_iter"] == 3
    assert len(list(tmp_path.iterdir())) == 2
    Checkpoint(file, ()).save({"n_iter": 5}, parts)
    assert list(tmp_path.iterdir()) == [file]


def test_a_search_that_takes_another_way_leaves_the_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    parts, path = Parts(Counter(None)), tmp_path / "fit.npz"

    def journal():
        return Journal(parts, Checkpoint(path, "settings"))

    first, one, two = journal(), np.ones(2), np.full(2, 2.0)
    first.evaluate("f", one, lambda: (1.0, one))
    first.evaluate("f", two, lambda: (2.0, two))
    again = journal()
    assert again.evaluate("f", one, lambda: (9.0, two))[0] == 1.0
    assert again.evaluate("g", two, lambda: (9.0, two))[0] == 9.0
    assert journal().evaluate("f", one, lambda: (9.0, two))[0] == 1.0
    again.close()
    assert not path.exists()


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    bags, _ = example(30)
    path = tmp_path / "fit.npz"
    codes = np.zeros(30, np.int64)
    parts = place(
        bags, PrimalDualPart, codes, np.ones(30), n_classes=2, shared=False, mask=True, cost=1.0
    )  # fmt: skip
    parts.total("begin", np.zeros((2, 4)))
    Checkpoint(path, "other settings").save({"W": np.zeros((2, 4))}, parts)
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
            saved.append(memory["n_iter"])

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
