"""CPU seconds of tests and of the processes that they start, as a plugin of pytest.

    python -m pytest -p benchmarks.cost_of_tests tests/reruns

A process counts for the test in which it is waited for; fork servers that tests share count for the last one. Times on
the CPU hardly depend on what else the machine does.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator
from operator import itemgetter

import pytest

ROWS = 25  # of each table
spent = defaultdict[str, float](float)  # id of a test -> seconds


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test with its fixtures."""
    start = _cpu_seconds()
    try:
        return (yield)
    finally:
        spent[item.nodeid] += _cpu_seconds() - start


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the most costly files and tests."""
    files = defaultdict[str, float](float)
    for test, seconds in spent.items():
        files[test.partition("::")[0]] += seconds
    for title, table in (("files", files), ("tests", spent)):
        terminalreporter.section(f"CPU seconds of {title}: {sum(spent.values()):.1f} in all")
        for name, seconds in sorted(table.items(), key=itemgetter(1), reverse=True)[:ROWS]:
            terminalreporter.line(f"{seconds:8.1f} {name}")
