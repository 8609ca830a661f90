"""Write harbour-list.mbox from the letters beside it: `python -m examples.sample.make`.

A file of `letters/` is a thread. It begins with its subject; then each letter has a line

    @@ NAME WHO YYYY-MM-DD HH:MM [re NAME] [missing ID] [charset=X] [cte=X] [html] [nosig] [norefs] [subject=…]

with its time in UTC, and its text. In the text, `^` alone on a line is the attribution of the letter it answers,
`^^` is all of that letter, quoted below the signature; `+attach FILE TYPE` and `+sig TEXT` do what they say.
"""

from __future__ import annotations

import base64
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from examples.sample.oddities import Delivery, oddities
from examples.sample.people import PEOPLE, Person

HERE = Path(__file__).parent
ARCHIVE = HERE / "harbour-list.mbox"
LIST = "harbour@harrowness.example.org"
DELIVERED_TWICE = "open-8"


@dataclass(frozen=True, slots=True)
class Letter:
    """One letter, as far as its source says it; `answers` is the letter before it."""

    name: str
    author: Person
    sent: datetime
    subject: str
    body: str
    answers: Letter | None
    options: dict[str, str]
    attachments: tuple[tuple[str, str], ...]

    @property
    def message_id(self) -> str:
        return f"<{self.name}.{self.sent:%Y%m%d}@{self.author.address.partition('@')[2]}>"

    @property
    def references(self) -> list[str]:
        if "missing" in self.options:
            return [f"<{self.options['missing']}@accounts.example.org>"]
        if "norefs" in self.options:  # their mail program does not say what it answers
            return []
        return [*self.answers.references, self.answers.message_id] if self.answers else []


def letters() -> Iterator[Letter]:
    """Every letter of every thread."""
    for file in sorted((HERE / "letters").glob("*.txt")):
        heading, *parts = re.split(r"^@@ (?=[a-z])", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        subject = heading.strip().removeprefix("Subject: ")
        thread: dict[str, Letter] = {}
        for part in parts:
            letter = read_letter(part, subject, thread)
            thread[letter.name] = letter
            yield letter


def read_letter(source: str, thread_subject: str, thread: dict[str, Letter]) -> Letter:
    head, _, text = source.partition("\n")
    head, _, subject = head.partition(" subject=")
    name, who, day, hour, *words = head.split()
    options: dict[str, str] = {}
    while words:
        word = words.pop(0)
        key, _, value = word.partition("=")
        options[key] = words.pop(0) if word in {"re", "missing"} else value
    author = PEOPLE[who]
    answers = thread[options["re"]] if "re" in options else None
    prefix = "Re: " if answers and not thread_subject.startswith("Re: ") else ""
    return Letter(
        name=name,
        author=author,
        sent=datetime.fromisoformat(f"{day} {hour}").replace(tzinfo=UTC),
        subject=subject or prefix + thread_subject,
        body=written(text, author, answers, signed="nosig" not in options),
        answers=answers,
        options=options,
        attachments=tuple(re.findall(r"^\+attach (\S+) (\S+)$", text, re.MULTILINE)),
    )


def written(text: str, author: Person, answers: Letter | None, *, signed: bool) -> str:
    """The text as its author sends it: with the quotation of what it answers, and signed."""
    special = re.search(r"^\+sig (.*)$", text, re.MULTILINE)
    signature = f"\n-- \n{special[1]}" if special else f"\n\n{author.signature}" if signed else ""
    text = re.sub(r"^\+(?:attach|sig) .*\n?", "", text, flags=re.MULTILINE).strip("\n")
    if answers:
        attribution = author.attribution(answers.author, answers.sent, answers.subject)
        whole = f"{signature.strip()}\n\n{attribution}\n{author.quote(answers.body)}"
        text, top_posted = re.subn(r"^\^\^$", lambda _: whole, text, flags=re.MULTILINE)
        text = re.sub(r"^\^$", lambda _: attribution, text, flags=re.MULTILINE)
        signature = "" if top_posted else signature
    return text + signature


def rendered(letter: Letter) -> bytes:
    """The bytes of a letter. By hand: the generator of `email` folds differently from release to release."""
    author = letter.author
    headers = [
        f"From: {encoded_name(author.name)} <{author.address}>",
        f"To: {encoded_name('Harbour')} <{LIST}>",
        f"Subject: {encoded_words(letter.subject)}",
        f"Date: {format_datetime(author.local(letter.sent))}",
        f"Message-ID: {letter.message_id}",
        "List-Id: Harrow Ness Society <harbour.harrowness.example.org>",
        "MIME-Version: 1.0",
    ]
    if letter.references:
        headers += [f"In-Reply-To: {letter.references[-1]}", "References: " + "\n ".join(letter.references)]
    content = text_part(letter)
    if letter.attachments:
        boundary = f"=_{letter.name}"
        parts = [content, *(attached(file, kind) for file, kind in letter.attachments)]
        opening = f'Content-Type: multipart/mixed; boundary="{boundary}"\n\n'.encode()
        inner = b"".join(f"--{boundary}\n".encode() + part + b"\n" for part in parts)
        content = opening + inner + f"--{boundary}--\n".encode()
    return "\n".join(headers).encode() + b"\n" + content


def text_part(letter: Letter) -> bytes:
    author = letter.author
    charset = letter.options.get("charset", author.charset)
    transfer = letter.options.get("cte", author.transfer)
    try:
        body = (letter.body + "\n").encode(charset)
    except UnicodeEncodeError:  # they quote somebody whose letters their own charset does not have
        charset, transfer, body = "utf-8", "quoted-printable", (letter.body + "\n").encode()
    kind = "html" if "html" in letter.options else "plain"
    head = f"Content-Type: text/{kind}; charset={charset}\nContent-Transfer-Encoding: {transfer}\n\n"
    if transfer == "base64":
        body = base64.encodebytes(body)
    elif transfer == "quoted-printable":
        body = quopri.encodestring(body)
    return head.encode() + body


def attached(file: str, kind: str) -> bytes:
    content = (HERE / "attachments" / file).read_bytes()
    text = kind.startswith("text/")
    return (
        f'Content-Type: {kind}; name="{file}"\nContent-Disposition: attachment; filename="{file}"\n'
        f"Content-Transfer-Encoding: {'7bit' if text else 'base64'}\n\n"
    ).encode() + (content if text else base64.encodebytes(content))


def encoded_words(text: str) -> str:
    if text.isascii():
        return text
    return f"=?utf-8?b?{base64.b64encode(text.encode()).decode()}?="


def encoded_name(name: str) -> str:
    """A name for the From line: Japanese mail programs still write it in ISO-2022-JP."""
    if name.isascii():
        return name
    try:
        return f"=?iso-8859-1?q?{quopri.encodestring(name.encode('latin-1'), header=True).decode()}?="
    except UnicodeEncodeError:
        return f"=?iso-2022-jp?b?{base64.b64encode(name.encode('iso-2022-jp')).decode()}?="


def deliveries() -> list[Delivery]:
    """Everything the list received, in the order in which it came."""
    received = oddities()
    for letter in letters():
        delivery = Delivery(letter.sent, letter.author.address, rendered(letter))
        received += [delivery, delivery] if letter.name == DELIVERED_TWICE else [delivery]
    return sorted(received, key=lambda delivery: delivery.arrived)


def archive() -> bytes:
    """The archive in mboxrd: a line that could be taken for a separator gets one more `>` than it has."""
    return b"".join(
        f"From {delivery.envelope} {delivery.arrived.ctime()}\n".encode()
        + re.sub(rb"^(>*From )", rb">\1", delivery.raw, flags=re.MULTILINE)
        + b"\n"
        for delivery in deliveries()
    )


if __name__ == "__main__":
    ARCHIVE.write_bytes(archive())
