"""Read a data file of Outlook (.pst, .ost) as a mailbox.

Its reader, libpff, is native code: it runs in a process with a limit of memory, which is killed if it makes no
progress. The mails arrive from it as an mbox, so that the file may have any size.
"""

from __future__ import annotations

import json
import selectors
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, Any, BinaryIO

from onward.pipeline.fetch.containers import BLOCK_BYTES, UnpackBudget
from onward.pipeline.fetch.fetch_errors import Broken, TooLarge, UnusableSource
from onward.pipeline.fetch.fetched_items import SkippedFiles, SkipReason

MEMORY_BYTES = 2_000_000_000  # in addition to what the process itself has
STALL_SECONDS = 120.0  # without a byte of a mail
CANNOT_OPEN = 3  # exit codes
OUT_OF_MEMORY = 4
DAMAGED, OTHER = "damaged", "outlook"  # kinds of items that are passed over
_REASONS = {
    DAMAGED: SkipReason("damaged", "a damaged mail, attachment or folder in a data file of Outlook"),
    OTHER: SkipReason("outlook", "an appointment, a contact or another item of Outlook that is no mail"),
}
_PROCESS = "onward.pipeline.fetch.outlook_store_process"
_END_SECONDS = 10.0
_REMEDY = "repair it with Outlook's scanpst, or export it as mbox with readpst, and ingest that"


def check_reader(shown: str) -> None:
    """Raise if the package that reads data files is not installed."""
    if find_spec("pypff") is None:
        raise UnusableSource(
            f"reading {shown!r}, a data file of Outlook, needs a package that is not installed: pip install "
            "'onward[formats]' and ingest it again, or export it as mbox, for example with readpst"
        )


def copy_mails(
    store: IO[bytes], target: BinaryIO, shown: str, budget: UnpackBudget, skipped: SkippedFiles
) -> None:
    """Write the mails of a data file as an mbox; count what is passed over.

    Its process reads the file through the same descriptor, from its beginning.
    """
    with tempfile.TemporaryFile() as notes:
        process = subprocess.Popen(
            [sys.executable, "-m", _PROCESS, str(MEMORY_BYTES), str(budget.limits.max_file_bytes)],
            stdin=store.fileno(),
            stdout=subprocess.PIPE,
            stderr=notes,
        )
        try:
            written = _copy(process, target, shown, budget)
            code = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Broken(f"{shown!r} is damaged: its reader does not end; {_REMEDY}") from error
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        notes.seek(0)
        report = _last_note(notes)
    _check_exit(code, report, shown)
    counts = _count(report, shown, skipped)
    if not written:
        found = f"{counts[DAMAGED]} damaged, {counts[OTHER]} others that are no mails"
        raise UnusableSource(f"{shown!r} has no mail that can be read ({found}): {_REMEDY}")


def _copy(process: subprocess.Popen[bytes], target: BinaryIO, shown: str, budget: UnpackBudget) -> int:
    pipe: Any = process.stdout
    written = 0
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(STALL_SECONDS):
                raise Broken(f"{shown!r} is damaged: its reader found no mail for {STALL_SECONDS:g} s; {_REMEDY}")
            data = pipe.read1(BLOCK_BYTES)
            if not data:
                return written
            budget.spend(len(data))
            target.write(data)
            written += len(data)


def _last_note(notes: IO[bytes]) -> dict[str, Any]:
    """Return the report of the process; it is the last line, after whatever its libraries have written."""
    with suppress(ValueError, IndexError):
        report = json.loads(notes.read().splitlines()[-1])
        if isinstance(report, dict):
            return report
    return {}


def _check_exit(code: int, report: dict[str, Any], shown: str) -> None:
    if code == 0 and report:
        return
    if code == OUT_OF_MEMORY:
        raise TooLarge(f"reading {shown!r} takes more than {MEMORY_BYTES:,} bytes of memory: {_REMEDY}")
    if code == CANNOT_OPEN:
        why = str(report.get("error", "unknown"))
    else:
        why = f"exit code {code}"
        with suppress(ValueError):
            why = signal.Signals(-code).name
        why = f"its reader has ended with {why}"
    raise Broken(f"{shown!r} is damaged ({why}): {_REMEDY}")


def _count(report: dict[str, Any], shown: str, skipped: SkippedFiles) -> dict[str, int]:
    """Add what was passed over, and return its counts."""
    counts = {}
    for kind, reason in _REASONS.items():
        found = report[kind]
        counts[kind] = found["count"]
        for path in found["paths"]:
            skipped.add(reason, f"{shown}/{path}")
        if more := found["count"] - len(found["paths"]):  # only the first ones are listed
            skipped.counts[kind] += more
    return counts
