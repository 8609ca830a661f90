"""Files and folders of this machine: only files that have changed are read."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from onward.pipeline.fetch.files_and_folders import MBOX_TYPE, FoundPath, list_path
from onward.pipeline.fetch.location import canonical
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun

RACY_SECONDS = 2.0
"""A file that changed less than this time before it was looked at has no version: it may change once more within
the same tick of the file system's clock, with the same size."""


class Files:
    name = "File or folder"
    schemes = ()
    options: tuple[SourceOption, ...] = ()

    def canonical(self, location: str) -> str:
        return canonical(location)

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        # Temporary folders are in a folder of the data folder.
        own = run.scratch.resolve().parents[1] if run.scratch.is_absolute() else None
        for found in list_path(Path(run.location), run.skipped, own=own):
            if found.problem is not None:
                yield Entry(found.path, "", problem=found.problem)
            elif found.mails is not None:
                fetch = partial(found.copy_mails, skipped=run.skipped)
                version = hashlib.sha256("\0".join(sorted(found.mails)).encode("utf-8", "surrogateescape"))
                yield Entry(found.path, version.hexdigest(), fetch, name="mails.mbox", media_type=MBOX_TYPE)
            else:
                yield Entry(found.path, _version(found), file=found.file)


def _version(found: FoundPath) -> str:
    """Return a text that changes with a file, or "" if it may change without that."""
    try:
        about = os.stat(found.file)  # noqa: PTH116 -- it is called for every file
    except OSError:
        return ""  # reading it says why
    if max(about.st_mtime, about.st_ctime) > time.time() - RACY_SECONDS:
        return ""
    return f"{about.st_mtime_ns} {about.st_ctime_ns} {about.st_size} {about.st_ino}"
