"""Ctrl-C ends compiled code quickly, and the process stays usable."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from interrupts import LIMIT, time_to_end
from sklearn import config_context, get_config

from bagwise.compiled import threads
from estimators import public_estimators

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts processor time by /proc")


@pytest.fixture
def interrupt_soon():
    """Send SIGINT to this process after a moment, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled by the main thread")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timers = []

    def start():
        timers.append(threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.cancel()
    signal.signal(signal.SIGINT, before)


def test_a_long_call_is_left(interrupt_soon):
    end = threading.Event()  # its wait stands for a call that releases the GIL
    interrupt_soon()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        threads.interruptible(end.wait, 60)
    assert time.monotonic() - began < 30
    end.set()


def test_blocks_that_have_not_begun_are_dropped(interrupt_soon, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    end, begun = threading.Event(), []

    def work(start, stop):
        begun.append(start)
        end.wait(60)

    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        threads.run_blocks(work, np.arange(101))
    end.set()
    assert threads.run_blocks(lambda start, _: start, np.arange(101)) == list(range(100))
    assert len(begun) <= 2


def test_blocks_keep_their_order_and_the_first_error(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads.run_blocks(lambda a, b: (a, b), np.arange(0, 50, 10)) == [
        (0, 10), (10, 20), (20, 30), (30, 40),
    ]  # fmt: skip

    def fail(start, _):
        raise ValueError(f"block {start}")

    with pytest.raises(ValueError, match="block 0"):
        threads.run_blocks(fail, np.arange(50))


def test_a_call_on_another_thread_is_the_same_call():
    def settings():
        return np.geterr()["over"], get_config()["working_memory"]

    with np.errstate(over="raise"), config_context(working_memory=7):
        assert threads.interruptible(settings) == ("raise", 7)
    with pytest.warns(UserWarning, match="from the call"):
        threads.interruptible(warnings.warn, "from the call")
    with pytest.raises(ZeroDivisionError):
        threads.interruptible(divmod, 1, 0)


def test_a_process_ends_while_an_interrupted_call_runs():
    """HiGHS would abort it, as its threads are still at work."""
    program = """if True:
        import os, signal, threading
        import numpy as np
        from scipy.optimize import linprog
        from bagwise.compiled.threads import interruptible
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        A = np.random.default_rng(0).random((400, 800))
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            interruptible(linprog, -np.ones(800), A, np.ones(400), method="highs-ds")
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr.strip().endswith("KeyboardInterrupt")


# A compiled descent on a pool of threads; HiGHS is interrupted above.
QUICK = {"DiverseDensity"}
CASES = [
    pytest.param(kind.__name__, marks=[] if kind.__name__ in QUICK else [pytest.mark.slow])
    for kind in public_estimators()
]


@pytest.mark.parametrize("name", CASES)
def test_a_fit_ends_soon(name):
    seconds, note = time_to_end(name, longest=30)
    if seconds is None:
        pytest.skip(f"{name}: {note}")
    assert seconds < LIMIT, note
    assert note.endswith("bags"), note  # ended by the interrupt, without another error
