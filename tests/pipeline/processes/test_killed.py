"""Killed at any moment and started again, the pipeline comes to the result of an undisturbed run."""

from __future__ import annotations

import base64
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import pytest

from onward.pipeline.read.reader_process import MIN_BYTES
from tests.support.attached_files import PDF, mail_with, pdf
from tests.support.pipeline_runs import mbox
from tests.support.supervised_workers import until

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[3]
KILLS = int(os.environ.get("PIPELINE_KILLS", "10"))
SEED = int(os.environ.get("PIPELINE_SEED", "0")) or Random().randrange(1, 10**6)
COPIES = 8
"""Of the sample, each a list of its own: enough to be killed in the middle of."""
SOME_FAILED = 3
ATTACHED, ATTACHED_BYTES = 4, 220_000
REPORTS = 3  # mails with two PDFs each, which are documents of their own
ATTACHMENT = b"""From ada@example.org Mon Mar  2 10:00:00 2026
From: Ada <ada@example.org>
Message-ID: <%d.%d.attached@example.org>
Subject: A picture of the harbour
Content-Type: application/octet-stream
Content-Transfer-Encoding: base64

%s
"""
"""A mail without text that makes the mailbox so large that processes of their own read it."""


def write_archive(path: Path) -> None:
    """Write the sample several times over, with attachments; every copy has Message-IDs of its own."""
    sample = (ROOT / "examples/sample/harbour-list.mbox").read_bytes()
    with path.open("wb") as file:
        for copy in range(COPIES):
            file.write(re.sub(rb"<(?=[^<>@\s]+@)", b"<%d." % copy, sample))
            for number in range(ATTACHED):
                file.write(
                    ATTACHMENT % (copy, number, base64.encodebytes(Random(number).randbytes(ATTACHED_BYTES)))
                )
            for number in range(REPORTS):
                name = f"report-{number}.pdf"
                text = pdf([f"The tide tables of year {number} were printed again."])
                one = mail_with(f"{copy}.{number}.report", (name, PDF, text), (f"copy-{name}", PDF, text))
                file.write(mbox(bytes(one)))
    assert path.stat().st_size > MIN_BYTES, "reader processes read it"


def start(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "onward", *arguments],
        env={**os.environ, "ONWARD_HOME": str(home)},
        cwd=home.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def ingest(home: Path, archive: Path | str) -> int:
    process = start(home, "ingest", str(archive), "--json")
    try:
        process.communicate(timeout=280)
        return process.returncode
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGKILL)
    process.communicate()


def count(home: Path, query: str) -> int | None:
    """Return a count from the store, read from outside; None while the store is made or recovered."""
    try:
        with closing(sqlite3.connect(f"file:{home / 'onward.db'}?mode=ro", uri=True)) as database:
            (found,) = database.execute(query).fetchone()
    except sqlite3.OperationalError:
        return None
    return int(found)


def progress(home: Path) -> int:
    """Return how many documents there are, those that are final counted twice."""
    return count(home, "SELECT count(*) + count(iif(status <> 'pending', 1, NULL)) FROM documents") or 0


def can_be_killed(moment: int, home: Path) -> bool:
    """Return whether the run got this far, and has finished the events that died while they ran.

    An event that dies again and again counts as the cause. An archive that is given up for that is read again by
    the next run, so a thread of which only a part had been read is summarised twice.
    """
    suspects = "SELECT count(*) FROM ledger WHERE state IN ('waiting', 'claimed') AND deaths > 0"
    return progress(home) >= moment and count(home, suspects) == 0


def exported(home: Path) -> dict[str, Any]:
    """Everything there is, without times; and without how often the source was submitted."""
    done = subprocess.run(
        [sys.executable, "-m", "onward", "documents", "--json", "--full", "--without-times"],
        env={**os.environ, "ONWARD_HOME": str(home)},
        cwd=home.parent,
        capture_output=True,
        check=True,
    )
    documents = {}
    for line in done.stdout.splitlines():
        one = json.loads(line)
        if one["collection"] in ("tasks", "reports", "versions"):
            continue
        if one["collection"] == "summaries":
            del one["revision"]  # a thread may be summarised before and after another one joins it
        if one["collection"] == "archives":
            for name in ("revision", "attemptCount"):
                del one[name]
            del one["body"]["submission"]
        documents[f"{one['collection']}/{one['id']}"] = one
    return documents


def vectors(home: Path) -> dict[str, tuple[str, bytes]]:
    query = "SELECT d.id, v.model, v.vector FROM vectors v JOIN documents d ON d.doc = v.doc"
    with closing(sqlite3.connect(home / "onward.db")) as database:
        return {id: (model, vector) for id, model, vector in database.execute(query)}


def texts(home: Path) -> dict[str, tuple[str, str]]:
    query = "SELECT d.id, t.title, t.text FROM texts t JOIN documents d ON d.doc = t.rowid"
    with closing(sqlite3.connect(home / "onward.db")) as database:
        return {id: (title, text) for id, title, text in database.execute(query)}


def test_killed_ten_times_it_comes_to_the_same_result(tmp_path: Path, report: Callable[[str], None]) -> None:
    archive = tmp_path / "list.mbox"
    given = os.environ.get("PIPELINE_ARCHIVE")
    if given:
        archive = Path(given)
    else:
        write_archive(archive)
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    code = ingest(calm, archive)
    assert code in (0, SOME_FAILED)
    whole = progress(calm)

    random = Random(SEED)
    moments = sorted(random.sample(range(1, whole - whole // 20), KILLS))
    killed_at = []
    for drawn in moments:
        moment = min(max(drawn, progress(stormy) + 1), whole - whole // 20)
        process = start(stormy, "ingest", str(archive), "--json")
        try:
            until(partial(can_be_killed, moment, stormy), f"the pipeline gets to {moment} of {whole}", 120.0)
        finally:
            kill(process)
        killed_at.append(progress(stormy))
    assert ingest(stormy, archive) == code

    expected, found = exported(calm), exported(stormy)
    assert found.keys() == expected.keys()
    different = {
        id: {name: (value, found[id][name]) for name, value in document.items() if value != found[id][name]}
        for id, document in expected.items()
        if document != found[id]
    }
    assert not different, json.dumps({"seed": SEED, "different": different}, indent=1)
    assert vectors(stormy) == vectors(calm)
    assert texts(stormy) == texts(calm)
    kinds = Counter(id.partition("/")[0] for id in found)
    attached = [
        one for one in found.values() if one["body"].get("kind") == "pdf" and one["collection"] == "messages"
    ]
    assert given or len(attached) == COPIES * REPORTS * 2
    shares = ", ".join(f"{100 * at // whole} %" for at in killed_at)
    report(
        f"pipeline killed {KILLS} times (seed {SEED}, at {shares}): "
        f"{kinds['messages']:,} messages, {kinds['chunks']:,} chunks, {kinds['summaries']:,} summaries, "
        "the same as undisturbed"
    )
