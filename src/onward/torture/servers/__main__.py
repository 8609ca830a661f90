"""Says which servers cannot be started on this machine; ends with 1 if there are any."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console

from onward.torture.servers import missing

MONITORING = {
    "Prometheus": ("prometheus", ("prometheus",)),
    "promtool": ("prometheus", ("promtool",)),
    "Pushgateway": ("prometheus-pushgateway", ("prometheus-pushgateway", "pushgateway")),
    "Alertmanager": ("prometheus-alertmanager", ("prometheus-alertmanager", "alertmanager")),
    "amtool": ("prometheus-alertmanager", ("amtool",)),
}
"""What tests of metrics and alerts run: its Debian package, and its names, of which Debian has changed some."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""What tests of the console look at its pages with."""


def find_monitoring(title: str) -> str | None:
    """Where a program of `MONITORING` is."""
    return next((path for name in MONITORING[title][1] if (path := shutil.which(name))), None)


def missing_monitoring() -> list[str]:
    """Which programs that tests of metrics and alerts start are not on this machine, and what to do about it."""
    return [
        f"{title}: found no `{names[0]}` on this machine; install it: apt-get install {package}"
        for title, (package, names) in MONITORING.items()
        if find_monitoring(title) is None
    ]


def find_browser() -> str | None:
    """Where a browser is."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def missing_browser() -> list[str]:
    """Whether there is no browser on this machine, and what to do about it."""
    remedy = f"Chromium: found no `{BROWSERS[0]}` on this machine; install it: apt-get install {BROWSERS[0]}"
    return [] if find_browser() else [remedy]


if __name__ == "__main__":
    reasons = missing() + missing_monitoring() + missing_browser()
    for reason in reasons:
        Console(soft_wrap=True).print(reason, style="bold red", markup=False, highlight=False)
    sys.exit(1 if reasons else 0)
