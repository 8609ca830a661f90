"""The language of a text as an attribute of a page, so that browsers choose its font, voice and hyphenation."""

from __future__ import annotations

import re

from markupsafe import Markup

from onward.pipeline.documents import Message

MAX_CHARACTERS = 2_000  # of a text that are looked at
_CODE = re.compile(r"[a-z]{2,3}")
# Frequent characters that are written in one of the two ways only; at the same place in both.
_SIMPLIFIED = frozenset(
    "这个们来说时对会国学后经过还没点开关为从发问门见长东车马书话语请谢谁让认识样种应该热电脑网页"
)
_TRADITIONAL = frozenset(
    "這個們來說時對會國學後經過還沒點開關為從發問門見長東車馬書話語請謝誰讓認識樣種應該熱電腦網頁"
)


def language_tag(language: str, text: str = "") -> str:
    """Return the tag of a language for HTML, empty if it is not known; Chinese says which characters it has."""
    if language != "zh":
        return language if _CODE.fullmatch(language) else ""
    seen = text[:MAX_CHARACTERS]
    traditional = sum(one in _TRADITIONAL for one in seen)
    simplified = sum(one in _SIMPLIFIED for one in seen)
    return "zh-Hant" if traditional > simplified else "zh-Hans"


def message_language(message: Message) -> str:
    """Return the tag of the language of a message; that of code is none."""
    return "" if message.kind == "code" else language_tag(message.language, f"{message.subject} {message.body}")


def lang_attribute(message: Message | None) -> Markup:
    """Return the attribute for an element with text of a message, with the space before it."""
    tag = message_language(message) if message is not None else ""
    return Markup(' lang="{}"').format(tag) if tag else Markup("")
