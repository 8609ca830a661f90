"""Shared by all tests: what a test has counted is shown at the end of the run; parameters have names that stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

REPORT = "report"


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says a line at the end of the run's summary."""
    # Properties travel from the processes that run tests to the one that prints.
    return lambda line: request.node.user_properties.append((REPORT, line))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for test in terminalreporter.stats.get(outcome, []):
            lines = [line for name, line in getattr(test, "user_properties", []) if name == REPORT]
            if lines and test.when == "call":
                terminalreporter.section(test.nodeid.rpartition("::")[2])
            for line in lines if test.when == "call" else []:
                terminalreporter.line(str(line))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    # Packed files hold the time they were packed at: as names, they differ between the processes of one run.
    return argname if isinstance(val, bytes) else None
