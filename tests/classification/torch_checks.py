"""Checks shared by all classifiers trained with torch."""

import doctest
import pickle
import subprocess
import sys

import numpy as np

from bagwise.persistence import load_model, save_model

WITHOUT_TORCH = """
import pickle, sys
import numpy as np

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name, name="torch")


sys.meta_path.insert(0, NoTorch())
from bagwise.exceptions import MissingExtraError
from bagwise.persistence import load_model

folder = sys.argv[1]
with open(f"{folder}/bags.pickle", "rb") as file:
    bags, y = pickle.load(file)
with open(f"{folder}/model.pickle", "rb") as file:
    from_pickle = pickle.load(file)
from_skops, _ = load_model(f"{folder}/model.skops")
for kind, model in {"pickle": from_pickle, "skops": from_skops}.items():
    np.save(f"{folder}/{kind}.npy", model.predict_proba(bags))
try:
    from_pickle.fit(bags, y)
except MissingExtraError as error:
    print(error)
"""


def check_without_torch(model, bags, y, folder):
    """A fitted model is loaded and predicts in a process without torch; `fit` names the extra."""
    (folder / "bags.pickle").write_bytes(pickle.dumps((bags, y)))
    (folder / "model.pickle").write_bytes(pickle.dumps(model))
    save_model(model, folder / "model.skops")
    command = [sys.executable, "-c", WITHOUT_TORCH, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'pip install "bagwise[torch]"' in done.stdout
    for kind in ("pickle", "skops"):
        found = np.load(folder / f"{kind}.npy")
        np.testing.assert_allclose(found, model.predict_proba(bags), rtol=1e-12)
    again, _ = load_model(folder / "model.skops")
    assert again.get_params() == model.get_params()


def check_example_of_the_docstring(cls, n_lines):
    """Run the example, which pytest skips: it cannot run where torch is absent."""
    text = cls.__doc__.replace("  # doctest: +SKIP", "")
    example = doctest.DocTestParser().get_doctest(text, {}, cls.__name__, None, None)
    assert len(example.examples) == n_lines
    assert doctest.DocTestRunner().run(example).failed == 0
