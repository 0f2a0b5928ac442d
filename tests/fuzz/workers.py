"""Worker processes that run cases, each within a time limit."""

import faulthandler
import importlib
import multiprocessing
import os
import signal
import tempfile
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from fuzz import BAD, PARTS, Outcome

MEMORY = 8 * 2**30  # bytes of address space a worker may use in addition to that after imports
PATIENCE = 10  # factor of the limit for wall-clock time, if the system does not count CPU time
WARM_UP = 3  # factor of the limit for the first case of a process, which may compile


@dataclass
class Worker:
    """A process, its current case, and the start of the case."""

    process: multiprocessing.Process
    pipe: object
    trace: str
    case: tuple | None = None
    since: float = 0.0  # wall clock
    cpu_before: float = 0.0
    limit: float = 0.0  # CPU seconds: other load on the machine must not look like a hang
    n_done: int = 0


def run(part, cases, *, jobs, timeout):
    """Yield ``(subject, seed, seconds, outcome)`` of each case, in the order of completion."""
    left = list(reversed(cases))
    workers = [_start(part) for _ in range(min(jobs, len(cases)))]
    try:
        while left or any(worker.case for worker in workers):
            for worker in workers:
                if worker.case is None and left:
                    _give(worker, left.pop(), timeout)
            busy = [worker for worker in workers if worker.case]
            ready = wait([worker.pipe for worker in busy], timeout=1.0)
            for i, worker in enumerate(workers):
                if worker.case is None:
                    continue
                spent = time.monotonic() - worker.since
                if worker.pipe in ready:
                    try:
                        outcome = worker.pipe.recv()
                    except EOFError:
                        worker.process.join()
                        outcome = Outcome(BAD, f"crash: exit code {worker.process.exitcode}")
                elif _cpu_seconds(worker) - worker.cpu_before > worker.limit or (
                    spent > PATIENCE * worker.limit
                ):
                    os.kill(worker.process.pid, signal.SIGUSR1)  # writes its traceback
                    time.sleep(0.5)
                    outcome = Outcome(BAD, f"hang: {_innermost(worker.trace)}")
                else:
                    continue
                yield *worker.case, spent, outcome
                worker.case, worker.n_done = None, worker.n_done + 1
                if outcome.kind.startswith(("hang", "crash")):
                    _stop(worker)
                    workers[i] = _start(part)
    finally:
        for worker in workers:
            _stop(worker)


def _start(part):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    handle, trace = tempfile.mkstemp(prefix="bagwise-fuzz-")
    os.close(handle)
    process = context.Process(target=_serve, args=(part, theirs, trace), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours, trace)


def _give(worker, case, timeout):
    worker.case, worker.since = case, time.monotonic()
    worker.cpu_before = _cpu_seconds(worker)
    worker.limit = timeout if worker.n_done else WARM_UP * timeout
    worker.pipe.send(case)


def _cpu_seconds(worker):
    """CPU time of the process; 0 if the system does not report it."""
    try:
        fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _stop(worker):
    worker.process.kill()
    worker.process.join()
    Path(worker.trace).unlink(missing_ok=True)


def _serve(part, pipe, trace):
    module = importlib.import_module(PARTS[part])
    warnings.simplefilter("always")
    _limit_memory()
    with open(trace, "w") as stream:
        faulthandler.register(signal.SIGUSR1, file=stream)
        while True:
            try:
                subject, seed = pipe.recv()
            except EOFError:
                return
            pipe.send(module.case(subject, seed))


def _limit_memory():
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    except (ImportError, OSError, ValueError):
        pass  # not on this system


def _innermost(trace):
    """The innermost line of bagwise in a dumped traceback, else the innermost of all."""
    lines = [line.strip() for line in Path(trace).read_text().splitlines() if "File" in line]
    ours = [line for line in lines if "bagwise" in line]
    return (ours or lines or ["no traceback"])[0]
