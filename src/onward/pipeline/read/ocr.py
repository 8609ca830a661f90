"""Text recognition (OCR) in pictures and scanned pages, by the program tesseract.

It is called in a limited process, whose limit of memory holds for tesseract, too; its time is in `OCROptions`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

from onward import Settings
from onward.pipeline.read.charsets import clean
from onward.pipeline.read.page_text import NoText, PageText, UnreadableFile

PROGRAM = "tesseract"
ASK_SECONDS = 20.0  # for its version and its languages
_VERSION = re.compile(r"tesseract v?(\S+)")
_PAGE_MARK = "\f"
# What becomes the program: without the reader's limit of processor time, which is for a file without pictures,
# and killed by Linux when the reader ends. A function between fork and exec could deadlock: it has threads.
_STARTER = """
import ctypes, os, resource, signal, sys
hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class OCROptions(NamedTuple):
    """How text is recognised in one file."""

    languages: str = "eng"
    seconds: float = 600.0
    off: bool = False


WITHOUT_OCR = OCROptions(off=True)


class NeedsOCR(NoText):
    """The text of a picture or scan cannot be recognised here: a program or a setting is missing."""


class Installation(NamedTuple):
    """The tesseract of this machine."""

    path: str
    version: str
    languages: tuple[str, ...]


def ocr_options(settings: Settings) -> OCROptions:
    return OCROptions(settings.ocr_languages, settings.ocr_seconds, settings.ocr == "off")


def find_installation() -> Installation | None:
    """Return the version and languages of tesseract, or None if it is not installed."""
    path = shutil.which(PROGRAM)
    if path is None:
        return None
    version = _VERSION.search(_output(path, "--version"))
    languages = _output(path, "--list-langs").splitlines()[1:]
    return Installation(
        path, version[1] if version else "", tuple(one.strip() for one in languages if one.strip())
    )


def ocr_problem(settings: Settings) -> str:
    """Return why text cannot be recognised, with the remedy; empty if it can."""
    if settings.ocr == "off":
        return "text recognition is off (ONWARD_OCR=off)"
    found = find_installation()
    if found is None:
        return _missing()
    missing = [one for one in settings.ocr_languages.split("+") if one not in found.languages]
    return _missing_languages(missing) if missing else ""


def _missing() -> str:
    return "tesseract is not installed: install it (Debian: apt install tesseract-ocr) and ingest the source again"


def _missing_languages(languages: Iterable[str]) -> str:
    packages = " ".join(f"tesseract-ocr-{one.lower().replace('_', '-')}" for one in languages)
    named = ", ".join(languages)
    remedy = f"install it (Debian: apt install {packages}) or change ONWARD_OCR_LANGUAGES"
    return f"tesseract lacks the language {named}: {remedy}"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout or done.stderr


def read_picture(data: bytes, options: OCROptions) -> PageText:
    """Return the text in a picture."""
    if options.off:
        raise NeedsOCR("text in pictures is not read: text recognition is off (ONWARD_OCR=off)")
    text = Recognition(options).text(data)
    if not text:
        raise NoText("no text was recognised in the picture")
    return PageText("", "", None, text)


class Recognition:
    """Recognises pictures of one file, within the time for all of them."""

    def __init__(self, options: OCROptions) -> None:
        path = shutil.which(PROGRAM)
        if path is None:
            raise NeedsOCR(f"its text has to be recognised (OCR), and {_missing()}")
        self._path, self._languages = path, options.languages
        self._ends = time.monotonic() + options.seconds

    @property
    def seconds_left(self) -> float:
        return self._ends - time.monotonic()

    def text(self, picture: bytes) -> str:
        """Return the text of a picture; raise UnreadableFile if it is damaged or takes too long."""
        command = [self._path, "stdin", "stdout", "-l", self._languages]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _STARTER, str(os.getpid()), *command]
        try:
            done = subprocess.run(
                command,
                input=picture,
                capture_output=True,
                timeout=max(0.1, self.seconds_left),
                check=False,
                env={**os.environ, "OMP_THREAD_LIMIT": "1"},  # several threads take twice the processor time
            )
        except subprocess.TimeoutExpired:
            problem = "recognising its text takes too long; raise ONWARD_OCR_SECONDS and retry it"
            raise UnreadableFile(problem) from None
        said = done.stderr.decode("utf-8", "replace").strip()
        if "Failed loading language" in said or "Error opening data file" in said:
            raise NeedsOCR(f"its text has to be recognised, and {_missing_languages(self._languages.split('+'))}")
        if done.returncode != 0:
            last = said.splitlines()[-1][:200] if said else f"exit code {done.returncode}"
            raise UnreadableFile(f"the picture cannot be read ({last}): it may be damaged, or too large")
        return clean(done.stdout.decode("utf-8", "replace")).replace(_PAGE_MARK, "\n\n").strip()
