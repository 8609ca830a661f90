"""What an IMAP server says that no good one would: nothing is removed for it, and memory is not filled."""

from __future__ import annotations

import socketserver
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from onward.pipeline.fetch.fetch_errors import UnreadableSource
from onward.pipeline.source_kinds import imap_client
from onward.pipeline.source_kinds.imap import ImapMailbox
from tests.pipeline.source_kinds.kind_runs import KindRuns

ANSWERS = {
    "CAPABILITY": "* CAPABILITY IMAP4rev1\r\n",
    "LIST": '* LIST () "/" INBOX\r\n',
    "EXAMINE": "* 2 EXISTS\r\n* OK [UIDVALIDITY 7] It is the same.\r\n",
    "UID SEARCH": "* SEARCH 1 2\r\n",
    "UID FETCH sizes": "* 1 FETCH (UID 1 RFC822.SIZE 5)\r\n* 2 FETCH (UID 2 RFC822.SIZE 5)\r\n",
    "UID FETCH": "* 1 FETCH (UID 1 BODY[] {5}\r\nMail1)\r\n* 2 FETCH (UID 2 BODY[] {5}\r\nMail2)\r\n",
}


class Session(socketserver.StreamRequestHandler):
    """Answers each command as the script says; what is not in it is fine."""

    script: dict[str, str]

    def handle(self) -> None:
        self.wfile.write(b"* OK Good day.\r\n")
        with suppress(ConnectionError):
            for line in self.rfile:
                tag, _, command = line.decode().strip().partition(" ")
                name = "UID FETCH sizes" if "RFC822.SIZE" in command else command
                key = next((key for key in self.script if name.startswith(key)), "")
                answer = self.script.get(key, "")
                done = "" if answer.startswith(("NO ", "BAD ")) else "OK Done."
                self.wfile.write((answer if done else f"{tag} {answer}\r\n").encode())
                self.wfile.write(f"{tag} {done}\r\n".encode() if done else b"")


@pytest.fixture
def script() -> dict[str, str]:
    return dict(ANSWERS)


@pytest.fixture
def mailbox(script: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KindRuns]:
    """A mailbox of two mails, which were ingested."""
    monkeypatch.setenv("ONWARD_IMAP_PASSWORD", "s3cret")
    handler = type("ScriptedSession", (Session,), {"script": script})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            runs = KindRuns(ImapMailbox(), f"imap://ada@127.0.0.1:{server.server_address[1]}/", tmp_path)
            assert runs.run() == ["INBOX/1.eml", "INBOX/2.eml"]
            yield runs
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("answer", ("NO [SERVERBUG] Internal error.", "BAD Internal error."))
def test_folders_that_cannot_be_listed_fail_the_run_with_the_name_of_the_server(
    answer: str, script: dict[str, str], mailbox: KindRuns
) -> None:
    script["LIST"] = answer
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:\d+ cannot list its folders now.*Internal error"):
        mailbox.run()


def test_a_folder_without_mails_that_counts_some_is_a_problem_of_that_folder(
    script: dict[str, str], mailbox: KindRuns
) -> None:
    script["UID SEARCH"] = "* SEARCH\r\n"
    mailbox.run()
    assert isinstance(mailbox.problems["INBOX"], UnreadableSource)
    script["EXAMINE"] = ANSWERS["EXAMINE"].replace("2 EXISTS", "0 EXISTS")
    mailbox.run()
    assert (mailbox.problems, mailbox.stored) == ({}, {})


def test_a_server_that_sends_more_than_it_said_does_not_fill_the_memory(
    script: dict[str, str], mailbox: KindRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imap_client, "MAX_RESPONSE_BYTES", 10_000)
    script["EXAMINE"] = ANSWERS["EXAMINE"].replace("7", "8")  # all mails are fetched anew
    script["UID FETCH"] = "".join(
        f"* {n} FETCH (UID {n} BODY[] {{3000}}\r\n{'x' * 3000})\r\n" for n in range(1, 9)
    )
    with pytest.raises(ConnectionError, match="more than 10,000 bytes"):
        mailbox.run()
