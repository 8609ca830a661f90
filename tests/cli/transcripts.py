"""Golden files: the text of each command, as `tests/cli/golden/COMMAND.txt` has it.

`UPDATE_GOLDEN=1 pytest tests/cli/test_golden.py` writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.support.command_runs import ROOT, onward, onward_process

FOLDER = Path(__file__).parent / "golden"
_VARYING = (
    (r"\b[0-9a-f]{32}\b", "<id>"),
    (r"(?<=onward show )[0-9a-f]{8}\b", "<id>"),  # also one that has only letters, or only digits
    (r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,16}\b", "<id>"),
    (r"\b(?=\d{8,16}\b)\d+", "<id>"),
    (r"(?<!\d)\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?)?", "<time>"),
    (r"\b\d\d:\d\d(?::\d\d)?\b", "<time>"),
    (r" *\b\d+(?:\.\d+)? (?:ms|s|min|h|days?)\b", " <duration>"),
    (r"\b\S+:\d+ · onward \d[\w.]*", "<worker>"),
    (r"\b[\d.]+ (?:bytes|kB|MB|GB|TB)\b", "<size>"),
    (r"(?m)^(?:ok|look|wrong) +(?:ocr|setting +ocr) .*\n(?: {14,}.*\n)*", ""),
    (r"Python \d+\.\d+\.\d+\S*, \S+ \S+", "<python>"),
    (r"SQLite \d+\.\d+\.\d+", "<sqlite>"),
    (r"schema version \d+", "schema version <n>"),
    (r"this Onward knows \d+", "this Onward knows <n>"),
    (r"<time> \S+ \(UTC[+-]\d{4}\)", "<time>"),
    (r"(?m)^\w+ +disk .*\n(?: {22}.*\n)*", ""),
)
_ENTRY = r"^<time>  .*\n(?: {20}.*\n)*"


class Transcript:
    """Runs commands and collects what they print, for the golden file of one command."""

    def __init__(self, name: str, home: Path, *, masked: bool = True) -> None:
        self._name = name
        self._home = home
        self._masked = masked
        self._parts: list[str] = []

    def scene(self, title: str, home: Path | None = None) -> None:
        """Begin a part of the file: the following commands run on another store, or on one that has changed."""
        self._home = home or self._home
        self._parts.append(f"# {title}\n")

    def run(self, *args: str, code: int = 0, more: dict[str, str] | None = None) -> None:
        result = onward(self._home, *args, more=more)
        assert result.exit_code == code, result.output
        self.add(result.output, *args, code=code, more=more)

    def run_process(self, *args: str, code: int = 0) -> None:
        """Run a command in its own process, where its app is loaded anew; lines of its log are left out."""
        result = onward_process(self._home, *args)
        assert result.returncode == code, result.stderr
        lines = [*result.stdout.splitlines(), *result.stderr.splitlines()]
        self.add("\n".join(line for line in lines if not line.startswith("{")), *args, code=code)

    def add(self, output: str, *args: str, code: int = 0, more: dict[str, str] | None = None) -> None:
        """Add the output of a command that has run."""
        shown = self.normalised(
            " ".join([*(f"{name}={value}" for name, value in (more or {}).items()), "onward", *args])
        )
        end = "" if code == 0 else f"\n(exit code {code})"
        self._parts.append(f"$ {shown}\n{self.normalised(output).rstrip()}{end}\n")

    def normalised(self, text: str) -> str:
        """Return a text without ids, times, sizes and folders, which differ from run to run."""
        for folder, name in ((self._home, "<home>"), (ROOT, "<checkout>")):
            text = text.replace(str(folder), name)
        for pattern, name in _VARYING if self._masked else ():
            text = re.sub(pattern, name, text)
        # Entries of one moment come in any order.
        return re.sub(
            rf"(?m)(?:{_ENTRY})+", lambda found: "".join(sorted(re.findall(_ENTRY, found[0], re.MULTILINE))), text
        )

    def check(self) -> None:
        """Compare with the golden file, or write it."""
        file, text = FOLDER / f"{self._name}.txt", "\n".join(self._parts)
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(text)
        assert text == file.read_text(), f"{file.name} differs; UPDATE_GOLDEN=1 writes it anew"
