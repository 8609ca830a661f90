"""The `.gitignore` files of a folder, by git's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one `.gitignore`, which apply to its folder and below."""

    base: str  # its folder, relative to the source: "" or "docs/"
    spec: GitIgnoreSpec

    def ignores(self, path: str, *, folder: bool) -> bool | None:
        """Return whether these rules ignore or re-include a path; None if no rule matches it.

        The last rule that matches the path itself decides. Rules that match a folder above it do not count: an
        ignored folder is never entered, and for a re-included folder they no longer apply.
        """
        inside = path.removeprefix(self.base)
        for pattern in reversed(self.spec.patterns):
            if pattern.include is None or pattern.regex is None:
                continue
            # Its only group is the slash after the name of a matching folder; a path goes on below that folder.
            match = pattern.regex.search(inside)
            itself = match is not None and match.lastindex is None
            if folder and not itself:
                matches = pattern.regex.finditer(inside + "/")
                itself = any(match.lastindex and match.end() == len(inside) + 1 for match in matches)
            if itself:
                return pattern.include
        return None


def read_ignore_rules(folder: Path, base: str) -> IgnoreRules | None:
    """Read the `.gitignore` of a folder, if it has a readable one."""
    file = folder / ".gitignore"
    try:
        if file.is_symlink() or not file.is_file():
            return None
        with file.open("rb") as stream:
            lines = stream.read(_MAX_BYTES).decode("utf-8-sig", "surrogateescape").splitlines()
    except OSError:
        return None
    return IgnoreRules(base, GitIgnoreSpec.from_lines(filter(_is_pattern, lines)))


def _is_pattern(line: str) -> bool:
    """Return whether a line is valid; an invalid one must not disable the whole file."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def is_ignored(rules: Sequence[IgnoreRules], path: str, *, folder: bool) -> bool:
    """Return whether a path is ignored; the nearest `.gitignore` with a matching rule decides."""
    verdicts = (each.ignores(path, folder=folder) for each in reversed(rules))
    return next((verdict for verdict in verdicts if verdict is not None), False)
