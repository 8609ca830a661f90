"""Mails as a team has them: threads with quoted replies, HTML, several charsets, attachments; made from a seed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from random import Random

_PEOPLE = ("Ada Berg", "Bob Weiß", "Chloé Dubois", "Dmitri Иванов", "Emi 佐藤", "Finn O'Hara", "Grace Łukasik")
_THINGS = ("boathouse", "ferry", "harbour", "mooring", "pilot", "crane", "quay", "lighthouse", "dredger", "buoy")
_VERBS = ("repair", "inspect", "paint", "close", "move", "measure", "insure", "rent", "order", "cancel", "extend")
_WHEN = ("on Monday", "before winter", "this week", "next spring", "after the storm", "by the end of March")
_CHARSETS = ("utf-8", "utf-8", "utf-8", "iso-8859-1", "utf-16", "koi8-r")


def sentence(random: Random) -> str:
    thing, other, verb = random.choice(_THINGS), random.choice(_THINGS), random.choice(_VERBS)
    return random.choice(
        (
            f"We have to {verb} the {thing} {random.choice(_WHEN)}, otherwise the {other} has to wait.",
            f"Did anybody {verb} the {thing} near berth {random.randrange(1, 90)}?",
            f"The {thing} costs {random.randrange(100, 9_000)} euros, and the {other} is not part of that.",
            f"I asked the owner of the {thing}: the {other} can be used {random.choice(_WHEN)}.",
        )
    )


def team_mails(count: int, seed: int = 1) -> list[bytes]:
    """Return this number of mails, each with a Message-ID of its own."""
    random = Random(seed)
    started = datetime(2026, 1, 5, 8, tzinfo=UTC)
    threads: list[tuple[str, list[str], str]] = []  # subject, Message-IDs, last text
    mails: list[bytes] = []
    for number in range(count):
        author = random.choice(_PEOPLE)
        text = "\n\n".join(sentence(random) for _ in range(random.randrange(1, 6))) + f"\n\n{author}\n"
        mail = EmailMessage()
        id = f"<{number}.{seed}@harbour.example.org>"
        mail["From"] = f"{author} <{author.split()[0].lower().encode('ascii', 'ignore').decode()}@example.org>"
        mail["To"] = "team@example.org"
        mail["Date"] = format_datetime(started + timedelta(minutes=7 * number))
        mail["Message-ID"] = id
        if threads and random.random() < 0.7:
            thread = random.randrange(len(threads))
            subject, ids, before = threads[thread]
            mail["Subject"] = f"Re: {subject}"
            mail["In-Reply-To"] = ids[-1]
            mail["References"] = " ".join(ids[-5:])
            quoted = "\n".join(f"> {line}" for line in before.splitlines()[:6])
            threads[thread] = (subject, [*ids, id], text)
            text = f"{quoted}\n\n{text}"
        else:
            subject = f"{random.choice(_VERBS).title()} the {random.choice(_THINGS)} {random.randrange(1_000)}"
            mail["Subject"] = subject
            threads.append((subject, [id], text))
        charset = random.choice(_CHARSETS)
        try:
            text.encode(charset)
        except UnicodeEncodeError:
            charset = "utf-8"
        mail.set_content(text, charset=charset)
        if random.random() < 0.3:
            mail.add_alternative("".join(f"<p>{part}</p>" for part in text.split("\n\n")), subtype="html")
        if random.random() < 0.05:
            mail.add_attachment(random.randbytes(20_000), "image", "png", filename="plan.png")
        mails.append(mail.as_bytes().replace(b"\n", b"\r\n"))
    return mails
