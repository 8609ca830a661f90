"""Subjects of mails, without the prefixes of replies and the tags of lists."""

from __future__ import annotations

import re

_COUNT = r"\s*(?:\[\d+\]|\(\d+\))?\s*[:：]"
_TAG = r"\[[^\]]{0,60}\]"
# Of mail programs in German, Dutch, the Nordic languages, Polish, Italian, Portuguese, Turkish, Hungarian,
# Indonesian, Welsh, Russian, Greek, Hebrew, Arabic, Chinese, Japanese and Korean. "Ref" is no prefix: it begins
# numbers of files.
_REPLY = (
    r"(?:re|aw|antw|sv|vs|odp|rif|r|res|ynt|vá|bls|atb|отв|ответ|на|απ|σχετ|השב|رد|回复|回覆|答复|回信|返信"
    r"|답장|회신)"
)
_FORWARD = (
    r"(?:fwd?|wg|tr|doorst|vb|vl|pd|rv|enc|i̇lt|ilt|továbbítás|trs|пересл|пер|πρθ|הועבר|إعادة توجيه"
    r"|转发|轉寄|转寄|転送|전달)"
)
_PREFIXES = re.compile(rf"\s*(?:(?:{_REPLY}|{_FORWARD}){_COUNT}|{_TAG})", re.IGNORECASE)
_REPLY_PREFIX = re.compile(rf"\s*(?:{_TAG}\s*)*{_REPLY}{_COUNT}", re.IGNORECASE)


def plain_subject(subject: str) -> str:
    """Return a subject without the prefixes of replies and the tags of lists."""
    return _without_prefixes(subject) or subject.strip()


def compared_subject(subject: str) -> str:
    """Return what two subjects of one thread have in common; empty if there is nothing but prefixes.

    >>> compared_subject("AW: [harbour] Re: The  third crane")
    'the third crane'
    """
    return " ".join(_without_prefixes(subject).split()).casefold()


def is_reply(subject: str) -> bool:
    """Return whether a subject begins with the prefix of a reply; "Fwd:" begins a thread of its own.

    >>> is_reply("[harbour] Re: The third crane"), is_reply("Fwd: The third crane")
    (True, False)
    """
    return _REPLY_PREFIX.match(subject) is not None


def _without_prefixes(subject: str) -> str:
    place = 0
    while (found := _PREFIXES.match(subject, place)) is not None:
        place = found.end()
    return subject[place:].strip()
