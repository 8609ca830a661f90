"""The letters that arrived broken, byte by byte, because no honest mail program would send them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

# One level more than Python's own mail parser can follow with its default recursion limit, and then some.
LEVELS = 1_200


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it came in: when, from whom, and its bytes with LF line ends."""

    arrived: datetime
    envelope: str
    raw: bytes


def oddity(day: str, envelope: str, raw: bytes) -> Delivery:
    return Delivery(datetime.fromisoformat(day).replace(tzinfo=UTC), envelope, raw)


def nested(levels: int = LEVELS) -> bytes:
    """A part in a part in a part: what a forwarding loop makes of one short note."""
    opening = b"".join(b"Content-Type:multipart/mixed;boundary=%x\n\n--%x\n" % (n, n) for n in range(levels))
    return (
        b"From: Forwarder <forwarder@gateway.example.test>\nTo: harbour@harrowness.example.org\n"
        b"Subject: Fwd: Fwd: Fwd: Fwd: Parcel at the ferry office\nDate: Thu, 16 Apr 2026 04:04:04 +0000\n"
        b"Message-ID: <loop@gateway.example.test>\nMIME-Version: 1.0\n"
        + opening
        + b"Content-Type: text/plain\n\nThere is a parcel for the Society at the ferry office.\n"
    )


def wreck() -> bytes:
    """What the disk of the old server left of a message: no header, no text, nothing to read."""
    return bytes((37 * n + 128) % 256 for n in range(400)) + b"\n"


def oddities() -> list[Delivery]:
    """All of them, in the order of their arrival."""
    return [
        # No Message-ID: an old machine at the coastguard station writes its own mail.
        oddity(
            "2026-03-11 06:00",
            "notices@coastguard.example.net",
            b"From: Lerhavn notices <notices@coastguard.example.net>\nTo: harbour@harrowness.example.org\n"
            b"Subject: Local notice to mariners 11/2026\nDate: Wed, 11 Mar 2026 06:00:00 +0000\n\n"
            b"Lerhavn beacon is unlit from 12 to 15 March for repairs. The green buoy at the bar has moved\n"
            b"forty metres to the east. Mariners are asked to keep to the deep channel.\n",
        ),
        # Two different bodies under one Message-ID: a letter corrected in the outbox and sent again.
        oddity(
            "2026-03-17 12:00",
            "agnes.rendall@accounts.example.org",
            subscription(
                b"Subscriptions for 2026 are due: \xc2\xa320 for members, nothing for anybody under eighteen.\n"
            ),
        ),
        oddity(
            "2026-03-17 12:09",
            "agnes.rendall@accounts.example.org",
            subscription(
                b"Please ignore the first version. Subscriptions for 2026 are due: \xc2\xa325 for members, as\n"
                b"the meeting decided, and nothing for anybody under eighteen.\n"
            ),
        ),
        # NUL bytes: the weather station sends the whole of its buffer, used or not.
        oddity(
            "2026-03-18 06:32",
            "station@harrowness.example.org",
            b"From: Weather station <station@harrowness.example.org>\nTo: harbour@harrowness.example.org\n"
            b"Subject: station restarted\nDate: Wed, 18 Mar 2026 06:32:00 +0000\n"
            b"Message-ID: <restart.20260318@harrowness.example.org>\nContent-Type: text/plain\n\n"
            b"uptime 0 s\nbattery 12.90 V\nlast message\0\0\0\0\0\0\0\0LOAD OFF\0\0\0\0\nwind mast ok\n",
        ),
        # A charset that nobody has heard of, around a perfectly good letter.
        oddity(
            "2026-03-26 17:15",
            "plotter@ferry.example.net",
            b"From: Davy Isbister <plotter@ferry.example.net>\nTo: harbour@harrowness.example.org\n"
            b"Subject: sent from the plotter\nDate: Thu, 26 Mar 2026 17:15:00 +0000\n"
            b"Message-ID: <plotter-1@ferry.example.net>\nContent-Type: text/plain; charset=x-plotter-850\n"
            b"Content-Transfer-Encoding: 8bit\n\n"
            b"trying mail from the chart plotter. 57\xf8 N and the caf\x82 is open. can you read this?\n",
        ),
        # A boundary that is announced as one thing and written as another; the closing one never comes.
        oddity(
            "2026-04-01 09:09",
            "elodie@atelier.example.net",
            b"From: =?utf-8?b?w4lsb2RpZSBNYXJjaGFuZA==?= <elodie@atelier.example.net>\n"
            b"To: harbour@harrowness.example.org\nSubject: Slaked lime has arrived\n"
            b"Date: Wed, 01 Apr 2026 10:09:00 +0100\nMessage-ID: <lime-1@atelier.example.net>\nMIME-Version: 1.0\n"
            b'Content-Type: multipart/mixed; boundary="atelier-7"\n\n'
            b"--atelier_7\nContent-Type: text/plain; charset=utf-8\n\n"
            b"Twelve tubs of slaked lime stand behind the oil store. Do not leave the lids off.\n",
        ),
        # A date that is in no calendar.
        oddity(
            "2026-04-10 13:20",
            "davy@ferry.example.net",
            b"From: Davy Isbister <davy@ferry.example.net>\nTo: harbour@harrowness.example.org\n"
            b"Subject: Re: A duck in the engine room\nDate: Fri, 31 Feb 2026 25:61:00 +9900\n"
            b"Message-ID: <duck-6.20260410@ferry.example.net>\nIn-Reply-To: <duck-1.20260410@sparks.example.org>\n"
            b"References: <duck-1.20260410@sparks.example.org>\n\n"
            b"can bring her some barley off the boat\n\nSent from my phone\n",
        ),
        # A line break hidden in an encoded subject, with a header behind it that must not become one.
        oddity(
            "2026-04-12 03:33",
            "offers@paint.example.test",
            b"From: Best Offers <offers@paint.example.test>\nTo: harbour@harrowness.example.org\n"
            b"Subject: =?utf-8?q?Cheap_masonry_paint=0D=0ABcc=3A_everyone=40harrowness=2Eexample=2Eorg?=\n"
            b"Date: Sun, 12 Apr 2026 03:33:00 +0000\nMessage-ID: <offer-1@paint.example.test>\n\n"
            b"Dear tower owner, our masonry paint lasts for ever and so does this offer.\n",
        ),
        # Raw Latin-1 in the headers, CRLF line ends, and a letter that claims to answer itself.
        oddity(
            "2026-04-13 15:45",
            "joerg@pegel.example.net",
            "From: Jörg Petersen <joerg@pegel.example.net>\r\nTo: harbour@harrowness.example.org\r\n"
            "Subject: Ersatzfühler für den Pegel\r\nDate: Mon, 13 Apr 2026 17:45:00 +0200\r\n"
            "Message-ID: <spare-1@pegel.example.net>\r\nReferences: <spare-1@pegel.example.net>\r\n"
            "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
            "Sent from the old terminal on the pier. A spare sensor is in the grey box under the bench,\r\n"
            "with three desiccant capsules. Grüße vom Pegel\r\n".encode("latin-1"),
        ),
        # Deeper than any letter has a reason to be.
        oddity("2026-04-16 04:04", "forwarder@gateway.example.test", nested()),
        # The one that cannot be read at all.
        oddity("2026-04-18 09:30", "harbour@harrowness.example.org", wreck()),
        # An attachment whose base64 was cut off on the way, and nothing else in the letter.
        oddity(
            "2026-04-19 08:00",
            "priya.raman@ocean.example.org",
            b"From: Priya Raman <priya.raman@ocean.example.org>\nTo: harbour@harrowness.example.org\n"
            b"Subject: Scan of the page for 5 November 1911\nDate: Sun, 19 Apr 2026 09:00:00 +0100\n"
            b"Message-ID: <scan-1@ocean.example.org>\nMIME-Version: 1.0\n"
            b"Content-Type: image/tiff; name=page.tiff\nContent-Transfer-Encoding: base64\n\n"
            b"SUkqAAgAAAAMAAABAwABAAAAqAkAAAEBAwABAAAAtA0AAAIBAwABAAAAAQAAAAMBAwABAAAABAAA\n\n",
        ),
    ]


def subscription(body: bytes) -> bytes:
    return (
        b"From: Agnes Rendall <agnes.rendall@accounts.example.org>\nTo: harbour@harrowness.example.org\n"
        b"Subject: Subscriptions for 2026\nDate: Tue, 17 Mar 2026 12:00:00 +0000\n"
        b"Message-ID: <subscriptions-2026@accounts.example.org>\nContent-Type: text/plain; charset=utf-8\n"
        b"Content-Transfer-Encoding: 8bit\n\n" + body
    )
