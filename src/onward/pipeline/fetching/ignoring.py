"""What a `.gitignore` leaves out, by git's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one `.gitignore`, which hold in its folder and below."""

    base: str
    """Of its folder, inside of the source: "" or "docs/"."""
    spec: GitIgnoreSpec

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Tell whether these rules ignore a path, take it back, or say nothing of it.

        The last rule that matches the path itself decides. That a folder above it matches is not asked: into
        an ignored folder nobody looks, and in one that was taken back its rule no longer holds.
        """
        inside = path.removeprefix(self.base)
        for pattern in reversed(self.spec.patterns):
            if pattern.include is None or pattern.regex is None:
                continue
            # The group is the slash after a folder's name; what comes after it is below that folder.
            match = pattern.regex.search(inside)
            itself = match is not None and match.groupdict().get("ps_d") is None
            if not itself and folder:
                slashed = inside + "/"
                itself = any(
                    match.groupdict().get("ps_d") is not None and match.end("ps_d") == len(slashed)
                    for match in pattern.regex.finditer(slashed)
                )
            if itself:
                return pattern.include
        return None


def read_ignore_rules(folder: Path, base: str) -> IgnoreRules | None:
    """Read the `.gitignore` of a folder, if it has one that can be read."""
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
    """Leave out what git would not understand either: one such line must not cost the whole file."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def is_ignored(rules: Sequence[IgnoreRules], path: str, *, folder: bool) -> bool:
    """Ask the nearest `.gitignore` first; the first that says anything decides."""
    for each in reversed(rules):
        if (verdict := each.verdict(path, folder=folder)) is not None:
            return verdict
    return False
