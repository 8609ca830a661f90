"""Events of the file system: a watched folder of this machine is ingested soon after it has changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from onward import App
from onward.pipeline.watching import begin_now, watched_sources

log = logging.getLogger("onward")

DEBOUNCE_MS = 1_600  # changes within this time are one
STEP_MS = 400  # a change is seen this much later at most, and so is the end of the process
MAX_PAUSE_SECONDS = 600.0  # after which folders are followed again that the system does not let us follow
CHECK_SECONDS = 10.0  # folders that are watched from now on, and ends of runs, are noticed after this time

_Inodes = dict[str, int | None]


@dataclass(slots=True)
class _Stop:
    """Ends a call of `watchfiles.watch`."""

    stopped: Callable[[], bool]

    def is_set(self) -> bool:
        return self.stopped()


def follow(app: App, stopped: Callable[[], bool]) -> None:
    """Begin a run of a watched folder when something in it changes, until `stopped`.

    Events may be lost, and network drives send none: the interval of a source finds what they do not report.
    """
    changed: set[str] = set()  # sources whose run could not begin yet
    inodes: _Inodes = {}  # of what was followed, when it was looked at last
    failures = 0
    while not stopped():
        try:
            changed |= _replaced(_local(app), inodes)  # also what has come back since
            if folders := _folders(app):
                _follow_folders(app, folders, inodes, changed, stopped)
                failures = 0
                continue
        except OSError as error:  # too many folders for this system, or one of them vanished
            if not failures:
                log.warning("folders are not followed by events for a while, only by intervals: %s", error)
            failures = min(failures + 1, 10)  # each further try looks at all folders below the watched ones
        _sleep(min(CHECK_SECONDS * 2**failures, MAX_PAUSE_SECONDS), stopped)


def _follow_folders(
    app: App, folders: frozenset[str], inodes: _Inodes, changed: set[str], stopped: Callable[[], bool]
) -> None:
    """Watch these files and folders until the list changes, or one of them is replaced by another one."""
    from watchfiles import watch  # it takes a while, and most stores have no watched folder

    events = watch(
        *folders,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        stop_event=_Stop(stopped),
        rust_timeout=round(CHECK_SECONDS * 1000),
        yield_on_timeout=True,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )
    for paths in events:
        # The system reports changes of what was there at first, not of what has taken its name since.
        replaced = _replaced(folders, inodes)
        changed |= replaced | _changed(app, folders, (path for _, path in paths))
        for source in tuple(changed):
            if not stopped() and begin_now(app, source):
                changed.discard(source)
        if replaced or _folders(app) != folders:
            return


def _replaced(paths: Iterable[str], inodes: _Inodes) -> set[str]:
    """Return the paths that are another file or folder than at the last call, or none any more."""
    found: set[str] = set()
    for path in paths:
        inode = _inode(path)
        if inodes.setdefault(path, inode) != inode:
            inodes[path] = inode
            found.add(path)
    return found


def _inode(path: str) -> int | None:
    """Return what tells a file or folder from another one of its name; None if none can be looked at."""
    try:
        return Path(path).stat().st_ino
    except OSError:  # also of a folder that may not be entered, or is a file now
        return None


def _local(app: App) -> list[str]:
    return [one.location for one in watched_sources(app) if one.location.startswith("/")]


def _folders(app: App) -> frozenset[str]:
    """Return the watched sources that are files or folders of this machine."""
    return frozenset(path for path in _local(app) if _inode(path) is not None)


def _changed(app: App, sources: Iterable[str], paths: Iterable[str]) -> set[str]:
    """Return the sources that these paths belong to; hidden files and those of tools do not count."""
    from onward.pipeline.fetch.fetched_items import reason_to_skip

    own = app.settings.home.resolve()  # each run changes it
    found: set[str] = set()
    for path in map(Path, paths):
        if not path.is_relative_to(own):
            around = (source for source in sources if path.is_relative_to(source))
            found |= {source for source in around if reason_to_skip(str(path.relative_to(source))) is None}
    return found


def _sleep(seconds: float, stopped: Callable[[], bool]) -> None:
    ends = time.monotonic() + seconds
    while not stopped() and (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, STEP_MS / 1000))
