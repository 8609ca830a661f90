"""The languages of texts: their detection, and what is missing without the packages for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.retry import OnwardError
from onward.search import languages
from onward.search.folding import fold, lower
from onward.search.languages import LANGUAGES, detect_language, stems, stop_words
from onward.search.stop_words import INDEXED_STOP_WORDS, STOP_WORDS
from onward.search.words import query_terms, terms

# Ordinary prose, in which the stop words decide, and a line without any, for which the detector is needed.
PROSE = {
    "ca": "Aquest és el missatge que vaig enviar ahir als meus companys, però no l'han llegit perquè no hi eren.",
    "cs": "Tohle je zpráva, kterou jsem včera poslal svým kolegům, ale ještě ji nečetli, protože tam nebyli.",
    "da": "Dette er den besked, som jeg sendte til mine kolleger i går, men de har ikke læst den endnu.",
    "de": "Das ist die Nachricht, die ich gestern an meine Kollegen geschickt habe, aber sie ist weg.",
    "el": "Αυτό είναι το μήνυμα που έστειλα χθες στους συναδέλφους μου, αλλά δεν το έχουν διαβάσει ακόμα.",
    "en": "This is the message that I sent to my colleagues yesterday, but they have not read it.",
    "es": "Este es el mensaje que envié ayer a mis compañeros, pero no lo han leído porque no estaban.",
    "fi": "Tämä on viesti, jonka lähetin eilen työtovereilleni, mutta he eivät ole vielä lukeneet sitä.",
    "fr": "Voici le message que j'ai envoyé hier à mes collègues, mais ils ne l'ont pas encore lu.",
    "hu": "Ez az az üzenet, amelyet tegnap küldtem a kollégáimnak, de még nem olvasták el, mert nem voltak itt.",
    "it": "Questo è il messaggio che ho inviato ieri ai miei colleghi, ma non lo hanno ancora letto.",
    "nl": "Dit is het bericht dat ik gisteren aan mijn collega's heb gestuurd, maar ze hebben het niet gelezen.",
    "no": "Dette er meldingen som jeg sendte til kollegene mine i går, men de har ikke lest den ennå.",
    "pl": "To jest wiadomość, którą wysłałem wczoraj do moich kolegów, ale jeszcze jej nie przeczytali.",
    "pt": "Esta é a mensagem que enviei ontem aos meus colegas, mas eles não a leram porque não estavam.",
    "ro": "Acesta este mesajul pe care l-am trimis ieri colegilor mei, dar nu l-au citit încă.",
    "ru": "Это сообщение, которое я вчера отправил своим коллегам, но они его ещё не прочитали.",
    "sv": "Det här är meddelandet som jag skickade till mina kollegor i går, men de har inte läst det än.",
    "tr": "Bu, dün iş arkadaşlarıma gönderdiğim mesaj, ama henüz okumadılar çünkü ofiste değillerdi.",
    "ja": "これは昨日同僚に送ったメッセージですが、まだ読まれていません。",
    "ko": "이것은 제가 어제 동료들에게 보낸 메시지인데 아직 읽지 않았습니다.",
    "zh": "这是我昨天发给同事的消息，但是他们还没有看。",
}


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in ("Stemmer", "py3langid.langid"):
        monkeypatch.setitem(sys.modules, module, None)
    cached = (languages._stemmer, languages.stems, languages._detector)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_of_prose_is_detected(language: str) -> None:
    assert detect_language(PROSE[language]) == language


@pytest.mark.parametrize(
    ("text", "language"),
    (
        ("Rechnung Zahlungserinnerung Mahngebühr", "de"),
        ("Vielen Dank, prüfe morgen", "de"),
        ("Réunion reportée demain matin", "fr"),
        ("Факс принтер сканер документы", "ru"),
        ("Повідомлення електронної пошти", "uk"),  # detected, although it has no rules of its own
    ),
)
def test_a_text_without_stop_words_is_left_to_the_detector(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ("", "ok", "12:30 +49 123", "\ud800\0", "4f2a 9c1e 77b0"))
def test_a_text_that_is_too_short_has_no_language(text: str) -> None:
    assert detect_language(text) == ""


def test_the_script_of_most_letters_decides() -> None:
    assert detect_language("Please see the attached file, which I got from 東京 yesterday.") == "en"
    assert detect_language("Python 3.12 のリリースノートを読みました。") == "ja"


def test_clear_prose_needs_no_detector(without_packages: None) -> None:
    assert detect_language(PROSE["de"]) == "de"
    with pytest.raises(OnwardError, match=r"py3langid.*pip install \"onward\[pipeline\]\""):
        detect_language("Rechnung Zahlungserinnerung Mahngebühr")


def test_without_the_stemmers_the_error_names_what_to_install(without_packages: None) -> None:
    with pytest.raises(OnwardError, match=r"PyStemmer.*pip install \"onward\[pipeline\]\""):
        query_terms("messages", ["en"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_stop_words_are_no_terms(language: str) -> None:
    assert stop_words(language)
    indexed = INDEXED_STOP_WORDS.get(language, "").split()
    assert len(terms(STOP_WORDS[language], language)) == len(indexed)
    assert terms(" ".join(indexed), language) == terms(STOP_WORDS[language], language)


@given(st.sampled_from(LANGUAGES), st.text(st.characters(categories=["L"]), min_size=1))
def test_a_word_without_its_accents_has_a_stem_of_the_word(language: str, word: str) -> None:
    word = lower(word)
    assert set(stems(language)(fold(word))) <= set(stems(language)(word))
    assert "" not in stems(language)(word)


@given(st.text())
def test_detection_never_fails(text: str) -> None:
    assert len(detect_language(text)) in {0, 2}
