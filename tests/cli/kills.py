"""Kill or interrupt commands at random moments: ``python tests/cli/kills.py --times 20``.

A process that has imported everything forks a child for each attempt, so that the command is killed
and not the imports. Afterwards no file may be incomplete under its final name, the next run must
succeed, and no temporary file may be left.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "apps")]

SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}


def prepare(folder):
    """Write the files that commands read; the words of each command, without its output."""
    import numpy as np
    from cli.tables import COLUMNS, write_rows
    from sklearn.utils import check_random_state

    from bagwise.apps.review import Corrections
    from syllables import recordings, write_table

    rng = check_random_state(0)
    rows = [["slide", "patient", "tumour", "red", "green", "blue"]]
    for i in range(400):
        for j in range(5):
            colour = rng.normal(size=3) + 2 * (i % 2 and j == 0)
            rows.append([f"s{i}", f"p{i // 2}", "yes" if i % 2 else "no", *colour.tolist()])
    slides = write_rows(folder / "slides.csv", rows)
    bags, sets, kinds = recordings(n_bags=150)
    birds = write_table(folder / "birds.csv", bags, sets)
    with Corrections(folder / "birds.corrections.sqlite") as corrections:
        for i in range(60):
            bag = int(bags.bag_index[i])
            place = bags.ids[bag], int(i - bags.offsets[bag]), int(bags.sizes[bag])
            corrections.decide(*place, str(np.asarray(kinds)[i]), guess="wren", probability=0.5)
    model = folder / "model.skops"
    code, said = attempt(["fit", slides, *COLUMNS, "-m", "sil", "-o", model], folder)
    assert code == 0, said
    return {
        "fit": (["fit", slides, *COLUMNS, "-m", "pdmisvm"], "fitted.skops"),
        "predict": (["predict", model, slides], "predicted.parquet"),
        "report": (["report", model, slides], "report.html"),
        "annotate": (
            ["annotate", birds, "--bag", "recording", "--label-set", "species"],
            "named.csv",
        ),
        "export": (["review", birds], "exported.csv"),
    }


def attempt(words, folder, *, signum=None, after=0.0):
    """Run a command in a child, and signal it after some seconds: its exit code and stderr."""
    said = folder / "stderr.txt"
    child = os.fork()
    if child == 0:
        _command(words, said)
    if signum is not None:
        time.sleep(after)
        os.kill(child, signum)  # it cannot have another meaning: nobody waited for the child yet
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, said.read_text(encoding="utf-8", errors="replace")


def _command(words, said):
    """In the child: the command, and never a return."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        from bagwise.cli import main

        sys.argv = ["bagwise", *map(str, words)]
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def faults(command, folder, how, times, seed=0):
    """Signal a command at random moments.

    Returns
    -------
    list of str
        What went wrong.
    """
    words, name = prepare(folder)[command]
    target = folder / "out" / name
    target.parent.mkdir()
    words = [*words, "--export" if command == "export" else "-o", target]
    seconds = float("inf")
    for _ in range(2):  # the first may compile
        began = time.perf_counter()
        code, said = attempt([*words, "--force"], folder)
        seconds = min(seconds, time.perf_counter() - began)
        assert code == 0, said
    whole = _sizes(target.parent)
    rng, found, n_hit = random.Random(seed), [], 0
    for i in range(times):
        for path in target.parent.iterdir():
            if not path.name.startswith("."):
                path.unlink()
        # Files are written at the end: half of the moments are there.
        after = seconds * (rng.uniform(0.7, 1.1) if i % 2 else rng.uniform(0, 1))
        code, said = attempt(words, folder, signum=SIGNALS[how], after=after)
        where = f"{command}, {how} after {after:.2f} of {seconds:.2f} s: "
        ends = {0, -9} if how == "kill" else {0, 130, -2}
        n_hit += code != 0
        if code not in ends or (how == "interrupt" and "Traceback" in said):
            found.append(f"{where}exit code {code}, {said[-300:]}")
        if code == 130 and said.strip().splitlines()[-1:] != ["Interrupted."]:
            found.append(f"{where}said {said!r}")
        for path, size in _sizes(target.parent).items():
            if path not in whole or abs(size - whole[path]) > 0.02 * whole[path] + 20:
                found.append(f"{where}left {path} of {size} bytes, expected {whole.get(path)}")
        hidden = [path.name for path in target.parent.iterdir() if path.name.startswith(".")]
        if how == "interrupt" and hidden:
            found.append(f"{where}left {hidden}")
    code, said = attempt([*words, "--force"], folder)
    if code != 0 or _sizes(target.parent).keys() != whole.keys():
        found.append(f"{command}: the next run ended with {code}, {said[-300:]}")
    hidden = [path.name for path in target.parent.iterdir() if path.name.startswith(".")]
    if hidden:
        found.append(f"{command}: {hidden} left after the next run")
    sys.stdout.write(f"{command:10s} {how:10s} {times} times, {n_hit} hit, {len(found)} faults\n")
    sys.stdout.flush()
    return found


def _sizes(folder):
    return {p.name: p.stat().st_size for p in folder.iterdir() if not p.name.startswith(".")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", action="append")
    parser.add_argument("--how", choices=[*SIGNALS], action="append")
    asked = parser.parse_args()
    # One thread: a child of a fork must not wait for locks that other threads held.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import h5py  # noqa: F401
    import jinja2  # noqa: F401
    import pyarrow.csv
    import pyarrow.parquet
    import sklearn.svm  # noqa: F401
    import skops.io  # noqa: F401

    pyarrow.set_cpu_count(1)
    found = []
    for command in asked.command or ["fit", "predict", "report", "annotate", "export"]:
        for how in asked.how or SIGNALS:
            with tempfile.TemporaryDirectory() as folder:
                found += faults(command, Path(folder), how, asked.times, asked.seed)
    sys.stdout.write("".join(f"{fault}\n" for fault in found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
