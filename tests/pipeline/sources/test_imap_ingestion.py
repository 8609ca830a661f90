"""An IMAP mailbox in the pipeline: what becomes messages, what disappears, and what a refused login holds up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onward.ops.queries.ingestion_report import read_ingestion_report
from onward.ops.queries.status import read_status
from onward.pipeline.documents import Archive, Message, Source, source_id
from onward.pipeline.fetch import canonical
from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds import SourceRun, imap
from onward.pipeline.source_kinds.imap import ImapMailbox
from onward.pipeline.source_kinds.refused_logins import LoginRefused
from onward.pipeline.sources import submit
from onward.pipeline.stages import archive_changes
from onward.pipeline.stages.ingestion import REFUSED_LOGIN_SECONDS
from onward.pipeline.stages.stored_refusals import StoredRefusals
from tests.support.pipeline_runs import Pipeline
from tests.support.pipeline_runs import mail as plain_mail
from tests.support.servers import Dovecot

SECRET = "ada's secret"
VARIABLE = "ONWARD_IMAP_PASSWORD_ADA_127_0_0_1"


def mail(id: str, body: str = "Hello, all.", **fields: Any) -> bytes:
    return plain_mail(id, body, **fields).replace("\n", "\r\n").encode()


@pytest.fixture
def mailroom(mail_server: Dovecot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    monkeypatch.setenv(VARIABLE, SECRET)
    monkeypatch.setenv("ONWARD_IMAP_PASSWORD", "bob's secret")
    with Pipeline(tmp_path / "home", ONWARD_FETCH_ALLOW_PRIVATE="true").running() as running:
        yield running


def ingest(mailroom: Pipeline, location: str, **options: str) -> None:
    submit(mailroom.app, location, options)
    mailroom.run()


def places(mailroom: Pipeline) -> dict[str, set[str]]:
    """Return where each message is said to be."""
    paths = {one.origin: one.path for one in mailroom.all(Archive)}
    found: dict[str, set[str]] = {}
    for message in mailroom.all(Message):
        found.setdefault(message.message_id.partition("@")[0], set()).add(paths[message.origin])
    return found


def test_a_mail_in_several_folders_is_one_message(mailroom: Pipeline, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", [mail("a"), mail("b")])
    mail_server.deliver("ada", [mail("b"), mail("c")], "Lists.git")
    ingest(mailroom, mail_server.location("ada"))
    assert places(mailroom).keys() == {"a", "b", "c"}
    assert all(len(paths) == 1 for paths in places(mailroom).values())
    with mail_server.client("ada") as client:
        client.delete("Lists/git")
    ingest(mailroom, mail_server.location("ada"))
    assert places(mailroom) == {"a": {"INBOX/1.eml"}, "b": {"INBOX/2.eml"}}
    assert mailroom.status(location_of(mail_server)) == "completed"


def location_of(mail_server: Dovecot) -> Any:
    """Return the location as the pipeline of the tests takes it."""
    return mail_server.location("ada")


def test_deleted_and_moved_mails_and_folders(mailroom: Pipeline, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", [mail(id) for id in "abcdef"])
    mail_server.deliver("ada", [mail("old")], "Old")
    ingest(mailroom, mail_server.location("ada"))
    ids = {one.message_id: one.id for one in mailroom.all(Message)}
    with mail_server.client("ada") as client:
        client.create("Moved")
        client.select("INBOX")
        client.uid("MOVE", "2:3", "Moved")
        client.uid("STORE", "5", "+FLAGS", r"(\Deleted)")
        client.expunge()
        client.delete("Old")
    ingest(mailroom, mail_server.location("ada"))
    assert places(mailroom) == {
        "a": {"INBOX/1.eml"},
        "b": {"Moved/1.eml"},
        "c": {"Moved/2.eml"},
        "d": {"INBOX/4.eml"},
        "f": {"INBOX/6.eml"},
    }
    assert {one.message_id: one.id for one in mailroom.all(Message)}.items() <= ids.items()


def test_what_is_deleted_on_the_server_is_kept_if_the_source_says_so(
    mailroom: Pipeline, mail_server: Dovecot
) -> None:
    mail_server.deliver("ada", [mail("a")])
    mail_server.deliver("ada", [mail("b")], "Old")
    location = canonical(mail_server.location("ada"))
    settings = Source(id=source_id(location), location=location, on_vanished="keep")
    mailroom.app.replace(settings, source=location)
    ingest(mailroom, location)
    with mail_server.client("ada") as client:
        client.delete("Old")
    ingest(mailroom, location)
    assert places(mailroom).keys() == {"a", "b"}


def test_another_uidvalidity_loses_and_doubles_nothing(mailroom: Pipeline, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", [mail(id) for id in "abcdef"])
    ingest(mailroom, mail_server.location("ada"))
    before = {one.message_id: one.id for one in mailroom.all(Message)}
    with mail_server.client("ada") as client:
        client.select("INBOX")
        client.uid("STORE", "1:2", "+FLAGS", r"(\Deleted)")
        client.expunge()
    mail_server.deliver("ada", [mail("g")])
    mail_server.renumber("ada")
    ingest(mailroom, mail_server.location("ada"))
    assert places(mailroom) == {id: {f"INBOX/{uid}.eml"} for uid, id in enumerate("cdefg", 1)}
    after = {one.message_id: one.id for one in mailroom.all(Message)}
    assert all(before.get(id, after[id]) == after[id] for id in after)
    assert mailroom.status(location_of(mail_server)) == "completed"


def test_broken_mails_stop_no_other(mailroom: Pipeline, mail_server: Dovecot) -> None:
    odd = [
        b"Subject: nul\r\nMessage-ID: <nul@x>\r\n\r\nbefore\0after\r\n",
        b"Subject: \xe4\xf6\xfc\r\nFrom: \xff <\xfe@x>\r\nMessage-ID: <8bit@x>\r\n\r\n8 bit \x80\xff",
        b"no header at all, only a text",
        mail("large", "many words of a long mail\n" * (20 * 2**20 // 26)),
        b"Message-ID: <pdf-like@x>\r\n\r\n%PDF-1.4 is how a PDF begins",
        b"From ada Mon Mar  2 10:00:00 2026\r\nMessage-ID: <mbox-like@x>\r\n\r\nFrom us all",
    ]
    mail_server.deliver("ada", [mail("a"), *odd, mail("z")])
    ingest(mailroom, mail_server.location("ada"))
    messages = mailroom.messages()
    assert {"a", "z", "nul", "8bit", "large", "pdf-like", "mbox-like"} <= messages.keys()
    assert len(messages) == 8
    # Without a header it is no mail: a message that failed, with its bytes and the reason.
    assert mailroom.counts(location_of(mail_server))["messages"] == {"processed": 7, "failed": 1}


def test_a_folder_that_cannot_be_opened_keeps_its_messages_and_is_shown(
    mailroom: Pipeline, mail_server: Dovecot
) -> None:
    mail_server.deliver("ada", [mail("a")])
    mail_server.deliver("ada", [mail("b")], "Locked")
    ingest(mailroom, mail_server.location("ada"))
    mail_server.deliver("ada", [mail("c")])
    folder = mail_server.maildir("ada", "Locked")
    folder.chmod(0)
    try:
        ingest(mailroom, mail_server.location("ada"))
    finally:
        folder.chmod(0o700)
    assert places(mailroom).keys() == {"a", "b", "c"}
    assert mailroom.status(location_of(mail_server)) == "partially_completed"
    ingest(mailroom, mail_server.location("ada"))
    assert mailroom.status(location_of(mail_server)) == "completed"


def test_a_server_that_dies_in_the_middle_is_asked_again(
    mailroom: Pipeline, mail_server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imap, "BATCH_MAILS", 10)
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    ids = [f"m{number}" for number in range(30)]
    mail_server.deliver("ada", map(mail, ids))

    def die(_: object) -> None:
        if len(mailroom.all(Archive)) > 10 and not outages:
            outages.append(True)
            mail_server.kill()

    outages: list[bool] = []
    with mailroom.at_each_checkpoint(die):
        ingest(mailroom, mail_server.location("ada"))
    assert outages, "it never came so far"
    assert 0 < len(mailroom.all(Archive)) < len(ids)
    mail_server.start()
    mailroom.run(within=3_600.0)
    assert mailroom.messages().keys() == set(ids)


def test_a_wrong_password_is_sent_once_and_holds_up_no_other_source(
    mailroom: Pipeline, mail_server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail_server.deliver("ada", [mail("a")])
    mail_server.deliver("bob", [mail("b")])
    monkeypatch.setenv(VARIABLE, "wrong")
    ingest(mailroom, mail_server.location("ada"))
    mailroom.run(within=10 * REFUSED_LOGIN_SECONDS)
    ingest(mailroom, mail_server.location("ada"))
    ingest(mailroom, mail_server.location("bob"))
    assert mailroom.messages().keys() == {"b"}
    assert mail_server.logins("ada") == (0, 1)

    app, source = mailroom.app, canonical(mail_server.location("ada"))
    (outage,) = read_status(app).outages
    assert outage.dependency == "login:ada@127.0.0.1"
    assert outage.needs_person
    assert VARIABLE in outage.remedy
    (waiting,) = read_ingestion_report(app, source, {}).waiting
    assert waiting.dependency == outage.dependency
    state = app.store.states(Archive, source=source)[0]
    assert (state.status, state.last_error) == ("pending", None), "a try was charged"

    # Another password is tried without a word; so is the same one after a person said so.
    monkeypatch.setenv(VARIABLE, "wrong again")
    mailroom.run(within=2 * REFUSED_LOGIN_SECONDS)
    assert mail_server.logins("ada") == (0, 2)
    app.store.close_breaker(outage.dependency)
    mailroom.run(within=2 * REFUSED_LOGIN_SECONDS)
    assert mail_server.logins("ada") == (0, 3)
    monkeypatch.setenv(VARIABLE, SECRET)
    mailroom.run(within=2 * REFUSED_LOGIN_SECONDS)
    assert mail_server.logins("ada") == (1, 3)
    assert mailroom.messages().keys() == {"a", "b"}
    assert app.store.breakers() == []


def test_several_sources_of_an_account_send_a_wrong_password_once(
    mailroom: Pipeline, mail_server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "wrong")
    logins: list[Exception] = []
    guard = AddressGuard(allow_private=True)

    def log_in() -> None:
        location = mail_server.location("ada")
        run = SourceRun(location, guard=guard, refused_logins=StoredRefusals(mailroom.app))
        with pytest.raises(LoginRefused) as refused:
            next(iter(ImapMailbox().entries(run)))
        logins.append(refused.value)

    threads = [threading.Thread(target=log_in) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(logins) == 4
    assert mail_server.logins("ada") == (0, 1)


def test_an_operator_holds_an_account_back(mailroom: Pipeline, mail_server: Dovecot) -> None:
    mail_server.deliver("ada", [mail("a")])
    mailroom.app.store.open_breaker("login:ada@127.0.0.1", "moving to another server", by_hand=True)
    ingest(mailroom, mail_server.location("ada"))
    assert mail_server.logins("ada") == (0, 0)
    mailroom.app.store.close_breaker("login:ada@127.0.0.1")
    mailroom.run(within=2 * REFUSED_LOGIN_SECONDS)
    assert mailroom.messages().keys() == {"a"}


def test_no_password_reaches_the_store_or_a_log(
    mailroom: Pipeline, mail_server: Dovecot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    mail_server.deliver("ada", [mail("a")])
    for password in ("hunter2-refused", SECRET):
        monkeypatch.setenv(VARIABLE, password)
        ingest(mailroom, mail_server.location("ada"))
        mail_server.kill()
        ingest(mailroom, mail_server.location("ada"))
        mail_server.start()
    stored = b"".join(file.read_bytes() for file in mailroom.home.rglob("*") if file.is_file())
    assert b"INBOX/1.eml" in stored
    for secret in ("hunter2-refused", SECRET):
        assert secret.encode() not in stored
        assert secret not in caplog.text
