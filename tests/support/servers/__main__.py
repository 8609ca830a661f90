"""Prints which servers cannot be started on this machine; exits with 1 if there are any."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console

from tests.support.servers import missing

MONITORING = {
    "Prometheus": ("prometheus", ("prometheus",)),
    "promtool": ("prometheus", ("promtool",)),
    "Pushgateway": ("prometheus-pushgateway", ("prometheus-pushgateway", "pushgateway")),
    "Alertmanager": ("prometheus-alertmanager", ("prometheus-alertmanager", "alertmanager")),
    "amtool": ("prometheus-alertmanager", ("amtool",)),
}
"""Programs that tests of metrics and alerts run: the Debian package, and the names of the program."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Programs that the console's browser tests use."""


def find_monitoring(title: str) -> str | None:
    """Return the path of a program of `MONITORING`."""
    return next((path for name in MONITORING[title][1] if (path := shutil.which(name))), None)


def missing_monitoring() -> list[str]:
    """Return which programs of `MONITORING` are missing on this machine, and the remedy."""
    return [
        f"{title}: found no `{names[0]}` on this machine; install it: apt-get install {package}"
        for title, (package, names) in MONITORING.items()
        if find_monitoring(title) is None
    ]


def find_browser() -> str | None:
    """Return the path of a browser."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def missing_browser() -> list[str]:
    """Return the remedy if there is no browser on this machine."""
    remedy = f"Chromium: found no `{BROWSERS[0]}` on this machine; install it: apt-get install {BROWSERS[0]}"
    return [] if find_browser() else [remedy]


def missing_programs() -> list[str]:
    """Return which programs that make sources or read pictures are missing on this machine, and the remedy."""
    return [
        f"{name}: found no `{program}` on this machine; install it: apt-get install {name}"
        for name, program in {
            "git": "git",
            "public-inbox": "public-inbox-init",
            "tesseract-ocr": "tesseract",
        }.items()
        if shutil.which(program) is None
    ]


def missing_office() -> list[str]:
    """Return the remedy if there is no LibreOffice on this machine."""
    packages = " ".join(f"libreoffice-{part}-nogui" for part in ("writer", "calc", "impress"))
    remedy = f"LibreOffice: found no `soffice` on this machine; install it: apt-get install {packages}"
    return [] if shutil.which("soffice") else [remedy]


if __name__ == "__main__":
    reasons = missing() + missing_monitoring() + missing_browser() + missing_programs() + missing_office()
    for reason in reasons:
        Console(soft_wrap=True).print(reason, style="bold red", markup=False, highlight=False)
    sys.exit(1 if reasons else 0)
