"""A mailbox is ingested by a process that is killed again and again: the result is that of an undisturbed run."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onward.pipeline.read.mail import read_mail
from onward.pipeline.read.mbox import split_mbox
from tests.pipeline.processes.test_killed import (
    can_be_killed,
    exported,
    ingest,
    kill,
    progress,
    start,
    texts,
    vectors,
)
from tests.support.mailbox_of_a_team import team_mails
from tests.support.servers import Dovecot
from tests.support.supervised_workers import until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1_200)]

KILLS = int(os.environ.get("PIPELINE_KILLS", "10"))
SEED = int(os.environ.get("PIPELINE_SEED", "0")) or Random().randrange(1, 10**6)
MAILS = int(os.environ.get("IMAP_MAILS", "3000"))
IN_TWO_FOLDERS = 30
PLACE = ("archive_id", "source_path", "origin", "path", "position", "offset", "length", "submission", "blob")
ORDER = ("placeholders", "covers")
"""Fields that say which of two copies was read first, and in which order mails of a thread came."""


def without_places(documents: dict[str, Any]) -> dict[str, Any]:
    """Return messages and what comes from them, without what says which copy of a message was read first."""
    found = {}
    for key, document in documents.items():
        if key.partition("/")[0] in ("messages", "chunks", "threads", "summaries"):
            body = {name: value for name, value in document["body"].items() if name not in PLACE + ORDER}
            found[key] = {"status": document["status"], "body": body}
    return found


def mails_of_a_mailbox() -> list[bytes]:
    """Return mails with different Message-IDs: those of `PIPELINE_ARCHIVE`, a compressed mbox, if it is set."""
    given = os.environ.get("PIPELINE_ARCHIVE")
    if not given:
        return team_mails(MAILS)
    mails: dict[str, bytes] = {}
    for raw in split_mbox(io.BytesIO(gzip.decompress(Path(given).read_bytes()))):
        if id := read_mail(raw.raw).message_id:
            mails.setdefault(id, raw.raw)
    return list(mails.values())[:MAILS]


def archives(documents: dict[str, Any]) -> set[tuple[str, str, str]]:
    found = [one for key, one in documents.items() if key.startswith("archives/")]
    return {(one["body"]["path"], one["body"]["blob"] or "", one["status"]) for one in found}


def test_killed_ten_times_no_mail_is_lost_and_none_is_doubled(
    mail_server: Dovecot, tmp_path: Path, report: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONWARD_FETCH_ALLOW_PRIVATE", "true")
    monkeypatch.setenv("ONWARD_IMAP_PASSWORD", "ada's secret")
    mails = mails_of_a_mailbox()
    middle = len(mails) // 2
    mail_server.deliver("ada", mails[:middle])
    mail_server.deliver("ada", mails[middle - IN_TWO_FOLDERS :], "Lists.harbour")
    location = mail_server.location("ada")
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    assert ingest(calm, location) == 0
    whole = progress(calm)

    random = Random(SEED)
    for drawn in sorted(random.sample(range(1, whole - whole // 20), KILLS)):
        moment = min(max(drawn, progress(stormy) + 1), whole - whole // 20)
        process = start(stormy, "ingest", location, "--json")
        try:
            until(partial(can_be_killed, moment, stormy), f"the pipeline gets to {moment} of {whole}", 240.0)
        finally:
            kill(process)
    assert ingest(stormy, location) == 0

    undisturbed, disturbed = exported(calm), exported(stormy)
    expected, found = without_places(undisturbed), without_places(disturbed)
    assert found.keys() == expected.keys()
    different = {key: (expected[key], found[key]) for key in expected if expected[key] != found[key]}
    assert not different, json.dumps({"seed": SEED, "different": dict(list(different.items())[:3])}, indent=1)
    assert len([key for key in found if key.startswith("messages/")]) == len(mails)
    assert archives(disturbed) == archives(undisturbed)
    assert vectors(stormy) == vectors(calm)
    assert texts(stormy) == texts(calm)
    assert mail_server.logins("ada")[1] == 0
    report(f"IMAP mailbox killed {KILLS} times (seed {SEED}): {len(mails):,} messages, the same as undisturbed")
