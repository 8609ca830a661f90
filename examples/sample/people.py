"""Who writes on the list, and in what manner: their charset, their signature, how they quote."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum

SUMMER_TIME = datetime(2026, 3, 29, 1, tzinfo=UTC)
# fmt: off
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)
MOIS = (
    "janvier", "février", "mars", "avril", "mai", "juin",
    "juillet", "août", "septembre", "octobre", "novembre", "décembre",
)
# fmt: on
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Manner(Enum):
    """How somebody introduces the words of another."""

    PLAIN = "plain"
    GERMAN = "german"
    FRENCH = "french"
    JAPANESE = "japanese"
    OUTLOOK = "outlook"
    MOBILE = "mobile"


@dataclass(frozen=True, slots=True)
class Person:
    """One voice of the list."""

    name: str
    address: str
    zone: int  # hours east of Greenwich in winter
    charset: str
    transfer: str  # 7bit, 8bit, quoted-printable or base64
    manner: Manner
    signature: str

    def local(self, when: datetime) -> datetime:
        """The time on this person's wall; Japan does not change its clocks."""
        summer = when >= SUMMER_TIME and self.zone < 9
        return when.astimezone(timezone(timedelta(hours=self.zone + summer)))

    def attribution(self, author: Person, sent: datetime, subject: str) -> str:
        """The line, or the block, above a quotation."""
        at = self.local(sent)
        match self.manner:
            case Manner.GERMAN:
                return f"Am {at:%d.%m.%Y} um {at:%H:%M} schrieb {author.name}:"
            case Manner.FRENCH:
                return f"Le {at.day} {MOIS[at.month - 1]} {at.year} à {at:%H:%M}, {author.name} a écrit :"
            case Manner.JAPANESE:
                return f"({at:%Y/%m/%d %H:%M}), {author.name} wrote:"
            case Manner.MOBILE:
                month = MONTHS[at.month - 1][:3]
                return f"On {at.day} {month} {at.year}, at {at:%H:%M}, {author.name} <{author.address}> wrote:\n"
            case Manner.OUTLOOK:
                date = f"{DAYS[at.weekday()]}, {MONTHS[at.month - 1]} {at.day}, {at.year} {at:%H:%M}"
                return (
                    f"-----Original Message-----\nFrom: {author.name} <{author.address}>\nSent: {date}\n"
                    f"To: harbour@harrowness.example.org\nSubject: {subject}\n"
                )
            case Manner.PLAIN:
                date = f"{DAYS[at.weekday()][:3]}, {at.day} {MONTHS[at.month - 1][:3]} {at.year}"
                return f"On {date} at {at:%H:%M}, {author.name} wrote:"

    def quote(self, text: str) -> str:
        """Somebody's whole letter as this person quotes it."""
        if self.manner is Manner.OUTLOOK:
            return text
        return "\n".join(f">{line}" if line.startswith(">") else f"> {line}".rstrip() for line in text.split("\n"))


PEOPLE = {
    "morag": Person(
        "Morag Tulloch", "morag@harrowness.example.org", 0, "utf-8", "8bit", Manner.PLAIN,
        "-- \nMorag Tulloch, chair of the Harrow Ness Society",
    ),
    "joerg": Person(
        "Jörg Petersen", "joerg@pegel.example.net", 1, "iso-8859-1", "quoted-printable", Manner.GERMAN,
        "Viele Grüße\nJörg\n\n-- \nDipl.-Ing. Jörg Petersen · Pegel und Wetter",
    ),
    "elodie": Person(
        "Élodie Marchand", "elodie@atelier.example.net", 0, "utf-8", "base64", Manner.FRENCH, "Élodie",
    ),
    "ken": Person(
        "佐藤 健", "ken@kaiyo.example.net", 9, "utf-8", "base64", Manner.JAPANESE,
        "Best regards,\nKen\n\n-- \n佐藤 健 (Ken Sato), Nagasaki",
    ),
    "tobias": Person(
        "Tobias Finch", "tobias@finch.example.org", 0, "utf-8", "8bit", Manner.PLAIN, "-- \nTobias",
    ),
    "agnes": Person(
        "Agnes Rendall", "agnes.rendall@accounts.example.org", 0, "windows-1252", "quoted-printable",
        Manner.OUTLOOK, "Kind regards\n\nAgnes Rendall\nHon. Treasurer, Harrow Ness Society",
    ),
    "davy": Person(
        "Davy Isbister", "davy@ferry.example.net", 0, "us-ascii", "7bit", Manner.MOBILE, "Sent from my phone",
    ),
    "priya": Person(
        "Priya Raman", "priya.raman@ocean.example.org", 0, "utf-8", "quoted-printable", Manner.PLAIN,
        "Best wishes,\nPriya",
    ),
    "winifred": Person(
        "Winifred Oakes", "w.oakes@post.example.net", 0, "iso-8859-15", "8bit", Manner.PLAIN,
        "Yours affectionately,\nWinifred Oakes",
    ),
    "callum": Person(
        "Callum Reid", "callum@sparks.example.org", 0, "utf-8", "8bit", Manner.PLAIN,
        "-- \nCallum Reid, electrician. If it hums, ring me.",
    ),
    "ingrid": Person(
        "Ingrid Sørensen", "ingrid.sorensen@coastguard.example.net", 0, "utf-8", "quoted-printable", Manner.PLAIN,
        "Ingrid Sørensen\nCoastguard liaison, Lerhavn",
    ),
    "bea": Person(
        "Bea Lindqvist", "bea@lindqvist.example.net", 0, "utf-8", "quoted-printable", Manner.PLAIN,
        "<p>Bea</p>",
    ),
}  # fmt: skip
