"""Folders that are kept between the runs of a source, such as the copy of a git repository."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from onward.pipeline.documents import source_id

UNUSED_SECONDS = 30 * 86_400.0  # then a folder is removed; the next run makes it again


def cache_folder(home: Path | str, source: str) -> Path:
    """Return the folder of a source (a canonical location), which may not exist yet."""
    return Path(home) / "sources" / source_id(source)


def mark_used(folder: Path) -> None:
    with suppress(FileNotFoundError):
        os.utime(folder)


def notes_file(home: Path | str, source: str, submission: int) -> Path:
    """Return where a kind keeps notes for the later deliveries of a submission."""
    return Path(home) / "scratch" / f"notes-{source_id(source)}-{submission}"


def remove_cache(home: Path | str, source: str) -> None:
    """Remove the folder and the notes of a source."""
    shutil.rmtree(cache_folder(home, source), ignore_errors=True)
    for notes in (Path(home) / "scratch").glob(f"notes-{source_id(source)}-*"):
        notes.unlink(missing_ok=True)


def remove_unused(home: Path | str) -> None:
    """Remove the folders of sources that were not ingested for long."""
    for folder in (Path(home) / "sources").glob("*"):
        with suppress(FileNotFoundError):  # another process removes it, too
            if time.time() - folder.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
