"""The sample archive is what its sources say, is a valid mbox, and is as odd as its README promises."""

from __future__ import annotations

import codecs
import email
import mailbox
import re
from collections import Counter
from collections.abc import Iterator
from email.header import decode_header, make_header
from email.message import Message

import pytest

from examples.sample.make import ARCHIVE, archive, deliveries, letters
from examples.sample.oddities import nested, wreck
from examples.sample.people import PEOPLE

README = (ARCHIVE.parent / "README.md").read_text(encoding="utf-8")


def split(mbox: bytes) -> list[bytes]:
    """The messages of an mboxrd, read as its definition says."""
    parts = re.split(rb"^From \S+ \w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\n", mbox, flags=re.MULTILINE)
    assert parts[0] == b""
    return [re.sub(rb"^>(>*From )", rb"\1", part.removesuffix(b"\n"), flags=re.MULTILINE) for part in parts[1:]]


def readable() -> Iterator[Message]:
    hopeless = (nested(), wreck())
    return (email.message_from_bytes(delivery.raw) for delivery in deliveries() if delivery.raw not in hopeless)


def titled(subject: str) -> list[Message]:
    return [message for message in readable() if subject in str(message["Subject"])]


def text_of(message: Message) -> bytes:
    content = message.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content


def threads() -> Counter[str]:
    """Messages by the first they refer to, the way Onward threads them."""
    return Counter(str(m["References"] or m["Message-ID"] or m["Subject"]).split()[0] for m in readable())


def test_the_archive_is_up_to_date_with_its_letters() -> None:
    assert ARCHIVE.read_bytes() == archive(), "run: python -m examples.sample.make"


def test_it_is_small_enough_to_ship() -> None:
    assert ARCHIVE.stat().st_size < 400_000


def test_it_is_a_valid_mbox() -> None:
    assert split(ARCHIVE.read_bytes()) == [delivery.raw for delivery in deliveries()]
    with_the_library = mailbox.mbox(ARCHIVE, create=False)
    assert len(with_the_library) == len(deliveries())
    with_the_library.close()


def test_the_readme_counts_right() -> None:
    counted = re.search(r"(\d+) messages in (\d+) threads", README)
    assert counted is not None
    # The one that is nested too deep is a thread of its own; a reply without references joins by its subject; the
    # one without headers is in none.
    assert (int(counted[1]), int(counted[2])) == (len(deliveries()), len(threads()))


def test_nobody_in_it_is_real() -> None:
    unwrapped = b"".join(delivery.raw for delivery in deliveries()).replace(b"=\n", b"")
    hosts = set(re.findall(r"[\w.+-]+@([\w-]+(?:\.[\w-]+)+)", unwrapped.decode("latin-1")))
    assert {host for host in hosts if not re.search(r"(^|\.)example\.(org|net|test)$", host)} == set()


def test_every_letter_answers_an_earlier_one() -> None:
    answers = [(letter, letter.answers) for letter in letters() if letter.answers]
    assert len(answers) > 100
    assert [letter.name for letter, before in answers if before.sent >= letter.sent] == []


def test_what_is_quoted_was_written() -> None:
    """A line after `>` is in the letter that is answered, so quotation and answer can be told apart."""

    def plain(text: str) -> str:
        return re.sub(r"[>\s]+", " ", text).strip()

    invented = [
        (letter.name, line)
        for letter in letters()
        if letter.answers
        for line in re.findall(r"^>(.*)$", letter.body, re.MULTILINE)
        if plain(line) not in plain(letter.answers.body)
    ]
    assert invented == []


def test_everybody_writes_and_nobody_writes_alone() -> None:
    written = Counter(letter.author.address for letter in letters())
    assert set(written) == {person.address for person in PEOPLE.values()}
    assert max(written.values()) < len(list(letters())) / 4


@pytest.mark.parametrize("charset", ("iso-8859-1", "iso-8859-15", "windows-1252", "shift_jis", "utf-8"))
def test_letters_come_in_many_charsets(charset: str) -> None:
    written = [part for m in readable() for part in m.walk() if part.get_content_charset() == charset]
    assert any(not text_of(part).decode(charset).isascii() for part in written)


def test_there_are_attachments_and_html() -> None:
    kinds = Counter(part.get_content_type() for message in readable() for part in message.walk())
    assert kinds.keys() >= {"text/html", "text/csv", "text/x-patch", "image/png", "image/tiff"}


def test_lines_that_look_like_separators_are_quoted() -> None:
    assert b"\n>From four in the morning" in ARCHIVE.read_bytes()
    assert b"\n>>From four in the morning" in ARCHIVE.read_bytes()


def test_one_message_has_no_id_and_one_id_has_two_bodies() -> None:
    by_id: dict[str | None, set[bytes]] = {}
    for delivery in deliveries():
        message_id = re.search(rb"^Message-ID: (\S+)", delivery.raw, re.MULTILINE)
        by_id.setdefault(message_id[1].decode() if message_id else None, set()).add(delivery.raw)
    assert len(by_id.pop(None) - {wreck()}) == 1
    shared = [key for key, bodies in by_id.items() if len(bodies) > 1]
    assert shared == ["<subscriptions-2026@accounts.example.org>"]


def test_one_message_was_delivered_twice() -> None:
    times = Counter(delivery.raw for delivery in deliveries())
    assert sorted(times.values())[-2:] == [1, 2]


def test_threads_miss_their_first_letter_and_change_their_subject() -> None:
    ids = {str(message["Message-ID"]) for message in readable()}
    assert [root for root in threads() if root.startswith("<") and root not in ids] == [
        "<last-years-mooring-chain@accounts.example.org>"
    ]
    (generator, *_) = titled("The generator (was:")
    (minutes,) = (m for m in readable() if m["Subject"] == "Minutes of the March meeting")
    assert generator["References"] == minutes["Message-ID"]


def test_the_bodies_and_headers_are_as_broken_as_promised() -> None:
    assert b"\0" in text_of(*titled("station restarted"))
    with pytest.raises(LookupError):
        codecs.lookup(titled("the plotter")[0].get_content_charset() or "")
    assert titled("Slaked lime")[0].defects
    assert any("31 Feb" in str(message["Date"]) for message in titled("duck"))
    assert "\r\nBcc:" in str(make_header(decode_header(titled("Cheap")[0]["Subject"])))
    (itself,) = (m for m in readable() if m["References"] and m["References"] == m["Message-ID"])
    assert itself["Message-ID"] == "<spare-1@pegel.example.net>"


def test_one_message_cannot_be_read_at_all() -> None:
    assert wreck() in split(ARCHIVE.read_bytes())
    assert email.message_from_bytes(wreck()).keys() == []


def test_one_message_is_too_deep_for_the_mail_parser_of_python() -> None:
    assert ARCHIVE.read_bytes().count(b"boundary=") > 1_200
    with pytest.raises(RecursionError):
        email.message_from_bytes(nested())
