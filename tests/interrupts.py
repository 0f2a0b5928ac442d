"""Time until Ctrl-C ends a fit, for every estimator: ``python tests/interrupts.py [NAME ...]``.

With ``--features 2000`` most time is spent in products and factorisations of large matrices.

A child process fits an estimator repeatedly, on growing bags, until a fit takes longer than a few
seconds; then it is interrupted. The time until the process has ended is measured.
"""

import argparse
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LIMIT = 1.0  # seconds until a process has ended, on a quiet machine
AFTER = 1.5  # seconds between the start of that fit and the interrupt


def data(estimator, n_bags, n_rows=8, *, n_features):
    """Bags of two classes; for estimators of rows, mostly unlabelled rows."""
    import numpy as np

    from bagwise import Bags

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_bags * n_rows, n_features))
    y = np.arange(n_bags) % 2
    X[np.arange(0, len(X), n_rows)[y == 1], 0] += 2
    room = type(estimator).__module__.split(".")[1]
    if room == "semi_supervised":
        labels = (X[:, 0] > 0).astype(int)
        return X, np.where(rng.random(len(X)) < 0.8, -1, labels)
    if room == "cluster" and type(estimator).__name__ != "BagConstrainedSpectralClustering":
        return X, None
    return Bags(X, np.arange(0, len(X) + 1, n_rows)), y


def fit_for_long(name, n_features):
    """Fit growing data and print when each fit starts; runs in the child."""
    import warnings

    from estimators import public_estimators, quick

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    (kind,) = [kind for kind in public_estimators() if kind.__name__ == name]
    n_bags = 16
    quick(kind).fit(*data(kind(), n_bags, n_features=20))  # compiles
    while n_bags < 10**6:
        _say("data")
        X, y = data(kind(), n_bags, n_features=n_features)
        _say(f"{n_bags}")
        quick(kind).fit(X, y)
        n_bags *= 2
    _say("end")


def _say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def time_to_end(name, *, n_features=20, longest=300.0):
    """Interrupt a fit that takes long.

    Returns
    -------
    seconds : float or None
        From the interrupt to the end of the process, in wall-clock or CPU time, whichever is less:
        on a busy machine wall-clock time is unreliable. None if no fit took long.
    note : str
        How it ended.
    """
    words = [sys.executable, __file__, "--child", "--features", str(n_features), name]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        guard = threading.Timer(longest + 60, child.kill)
        guard.start()
        try:
            size, began, first = "", None, time.monotonic()
            # "data" means that a fit has ended; without it after this time, the fit is long.
            while time.monotonic() - first < longest:
                ready, _, _ = select.select([child.stdout], [], [], AFTER if began else 60)
                if not ready and began is not None:
                    break
                line = child.stdout.readline().decode().strip()
                if line in ("", "end"):
                    return None, f"no fit took long; {child.stderr.read().decode()[-300:]}"
                began = None if line == "data" else time.monotonic()
                size = size if line == "data" else line
            used, began = _processor_time(child.pid), time.monotonic()
            child.send_signal(signal.SIGINT)
            said = child.stderr.read().decode()  # until it ends
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            seconds = min(time.monotonic() - began, usage.ru_utime + usage.ru_stime - used)
        finally:
            guard.cancel()
            child.kill()
    ended = "KeyboardInterrupt" in said and child.returncode in (-signal.SIGINT, 130, 1)
    return seconds, f"{size} bags" if ended else f"{size} bags: {child.returncode}, {said[-300:]}"


def _processor_time(pid):
    """CPU seconds used by a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def main():
    folder = Path(__file__).resolve().parent
    sys.path.insert(0, str(folder))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        fit_for_long(asked.names[0], asked.features)
        return
    from estimators import public_estimators

    late = 0
    for name in asked.names or [kind.__name__ for kind in public_estimators()]:
        seconds, note = time_to_end(name, n_features=asked.features)
        shown = "    -" if seconds is None else f"{seconds:5.2f}"
        late += seconds is not None and seconds > LIMIT
        _say(f"{name:35s} {shown} s  {note}")
    _say(f"{late} took longer than {LIMIT} s")
    sys.exit(late > 0)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
