"""The interpreter's office, which closes for lunch."""

from __future__ import annotations

import time
from urllib.parse import parse_qs, urlsplit

from examples.counter import Counter
from examples.letters import translate

THINKING = 0.05
"""Seconds that a translation takes."""


class Office(Counter):
    """Answers `/?language=…&text=…` in English."""

    closed = "Closed for lunch"

    def reply(self, path: str) -> str:
        asked = parse_qs(urlsplit(path).query)
        if not asked:
            return "open"
        time.sleep(THINKING)
        return translate(asked["language"][0], asked["text"][0])
