"""CPU seconds of each test and of the whole run: ``pytest --cpu-times 30``.

Wall-clock time depends on the other load of the machine; CPU time much less. A process that a test
starts is counted with the test that waits for its end.
"""

import os

import pytest

TOTAL = "cpu_seconds"
LONGEST = pytest.StashKey()
WORKERS = pytest.StashKey()


def cpu_seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_addoption(parser):
    parser.addoption(
        "--cpu-times", type=int, metavar="N", help="show the N tests that take most CPU seconds"
    )


def pytest_configure(config):
    config.stash[LONGEST], config.stash[WORKERS] = {}, 0.0
    config.pluginmanager.register(_Collect(config), "cpu times")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.stash[LONGEST] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "teardown":
        report.user_properties.append((TOTAL, cpu_seconds() - item.stash[LONGEST]))
    return report


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[TOTAL] = cpu_seconds()


class _Collect:
    """Collects in the reporting process the times measured in all processes."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.config.stash[LONGEST][report.nodeid] = dict(report.user_properties).get(TOTAL, 0.0)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.config.stash[WORKERS] += getattr(node, "workeroutput", {}).get(TOTAL, 0.0)

    def pytest_terminal_summary(self, terminalreporter):
        n_shown = self.config.getoption("--cpu-times")
        if n_shown is None:
            return
        ranked = sorted(self.config.stash[LONGEST].items(), key=lambda pair: -pair[1])
        terminalreporter.section(f"{n_shown} tests that take most CPU seconds")
        for name, seconds in ranked[:n_shown]:
            terminalreporter.write_line(f"{seconds:8.2f}  {name}")
        # With workers, the children of this process are the workers: count each once.
        own = sum(os.times()[:2]) if self.config.stash[WORKERS] else cpu_seconds()
        total = own + self.config.stash[WORKERS]
        terminalreporter.write_line(f"{total:8.0f}  CPU seconds in all, {len(ranked)} tests")
