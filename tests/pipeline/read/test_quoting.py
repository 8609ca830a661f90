"""Quotes and signatures are told from what is new, and every character is kept."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.pipeline.read.body_spans import BodySpan, body_spans


def kinds(body: str) -> list[tuple[str, str]]:
    return [(kind, body[start:end]) for kind, start, end in body_spans(body)]


def new_text(body: str, spans: tuple[BodySpan, ...]) -> str:
    """Only what is new in a mail's text."""
    pieces = (body[start:end].strip("\n") for kind, start, end in spans if kind == "new")
    return "\n\n".join(piece for piece in pieces if piece.strip())


def new(body: str) -> str:
    return new_text(body, body_spans(body))


def test_an_interleaved_reply_has_many_spans() -> None:
    body = "On Fri, Joe wrote:\n> question?\n\nAnswer.\n\n> another?\n>> deep\n\nYes.\n-- \nAnn\n"
    assert kinds(body) == [
        ("quote", "On Fri, Joe wrote:\n> question?\n\n"),
        ("new", "Answer.\n\n"),
        ("quote", "> another?\n>> deep\n\n"),
        ("new", "Yes.\n"),
        ("signature", "-- \nAnn\n"),
    ]
    assert new(body) == "Answer.\n\nYes."


@pytest.mark.parametrize(
    "attribution",
    (
        "On Fri, Jul 14, 2023 at 2:56 AM Joe Smith <joe@example.com> wrote:",
        "On Fri, Jul 14, 2023 at 2:56 AM Joe Smith via GitGitGadget\n<joe@example.com> wrote:",
        "On Fri, Jul 14, 2023 at 2:56 AM Joe <joe@example.com>\nwrote:",
        "On Fri, Jul 14, 2023 at 2:56 AM\nJoe Smith\n<joe@example.com> wrote:\n",
        "Joe Smith <joe@example.com> writes:\n",
        "Am 14.07.23 um 09:57 schrieb Joe Smith:",
        "Le ven. 14 juil. 2023 à 09:57, Joe <joe@example.com> a écrit :",
        "El vie, 14 jul 2023 a las 9:57, Joe (<joe@example.com>) escribió:",
        "Il giorno ven 14 lug 2023 Joe <joe@example.com> ha scritto:",
        "Em sex., 14 de jul. de 2023 às 09:57, Joe <joe@example.com> escreveu:",
        "Op vr 14 jul. 2023 om 09:57 schreef Joe <joe@example.com>:",
        "Den fre 14 juli 2023 kl 09:57 skrev Joe <joe@example.com>:",
        "W dniu 14.07.2023 o 09:57, Joe pisze:",
        "пт, 14 июл. 2023 г. в 09:57, Joe <joe@example.com> написал(а):",
        "2023年7月14日(金) 9:57 Joe <joe@example.com>:",
        "Joe <joe@example.com> 于2023年7月14日周五 09:57写道：",
    ),
)
def test_the_line_that_announces_a_quote_belongs_to_it(attribution: str) -> None:
    assert new(f"Hello.\n\n{attribution}\n> quoted\n\nBye.\n") == "Hello.\n\nBye."


@pytest.mark.parametrize(
    ("body", "expected"),
    (
        ("See the example:\n> not announced by anyone\n", "See the example:"),
        ("It is as Joe wrote\n> in his words\n", "It is as Joe wrote"),
        ("Joe wrote:\n| with a bar\n| and more\n\nIndeed.\n| once more\n", "Indeed."),
        ("JS> with\nJS> initials\n\nIndeed.\n", "Indeed."),
        ("Joe writes:\n\nJoe> hm\n\nIndeed.\n", "Indeed."),
        (" > indented\n\nIndeed.\n", "Indeed."),
    ),
)
def test_quotes_in_other_styles(body: str, expected: str) -> None:
    assert new(body) == expected


@pytest.mark.parametrize(
    "body",
    (
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "mysql> select 1;\nSQL> select 2;",
        "| * commit\n|/\n* commit",
        "a --\nb -- c\n---\n file | 2 ++",
        "From: Joe <joe@example.com>\nDate: today\nSubject: the author of a patch\n\nText",
        "---------- Forwarded message ---------\nFrom: Joe\nDate: today\nTo: Ann\nSubject: x\n\nText",
        "He wrote:\n\nno quote follows",
        "Sent from my point of view, this is a sentence.\nOne\nTwo\nThree\nFour",
    ),
)
def test_what_only_looks_like_a_quote_or_a_signature_is_new(body: str) -> None:
    assert kinds(body) == [("new", body)]


@pytest.mark.parametrize(
    "below",
    (
        "-----Original Message-----\nFrom: Joe\nSent: today\nTo: Ann\n\nold",
        "-------- Ursprüngliche Nachricht --------\nVon: Joe\n\nold\n-- \nJoe",
        "________________________________\nFrom: Joe <joe@example.com>\nSent: today\nTo: Ann\nSubject: x\n\nold",
        "*From:* Joe\n*Sent:* today\n*To:* Ann\n*Subject:* x\n\nold",
        "Von: Joe\nGesendet: heute\nAn: Ann\nBetreff: x\n\nold",
        "De : Joe\nEnvoyé : hier\nÀ : Ann\nObjet : x\n\nold",
    ),
)
def test_all_below_an_original_message_is_quoted(below: str) -> None:
    assert new(f"Agreed.\n\n{below}\n") == "Agreed."


HEADERS = {
    "English": "From: Joe\nSent: Monday\nTo: Ann\nSubject: x",
    "German": "Von: Joe\nGesendet: Montag\nAn: Ann\nBetreff: x",
    "French": "De : Joe\nEnvoyé : lundi\nÀ : Ann\nObjet : x",
    "Spanish": "De: Joe\nEnviado el: lunes\nPara: Ann\nAsunto: x",
    "Italian": "Da: Joe\nInviato: lunedì\nA: Ann\nOggetto: x",
    "Portuguese": "De: Joe\nEnviado: segunda-feira\nPara: Ann\nAssunto: x",
    "Dutch": "Van: Joe\nVerzonden: maandag\nAan: Ann\nOnderwerp: x",
    "Swedish": "Från: Joe\nSkickat: den 2 mars\nTill: Ann\nÄmne: x",
    "Danish": "Fra: Joe\nSendt: 2. marts\nTil: Ann\nEmne: x",
    "Finnish": "Lähettäjä: Joe\nLähetetty: maanantai\nVastaanottaja: Ann\nAihe: x",
    "Polish": "Od: Joe\nWysłano: poniedziałek\nDo: Ann\nTemat: x",
    "Czech": "Od: Joe\nOdesláno: pondělí\nKomu: Ann\nPředmět: x",
    "Hungarian": "Feladó: Joe\nElküldve: hétfő\nCímzett: Ann\nTárgy: x",
    "Turkish": "Kimden: Joe\nGönderildi: Pazartesi\nKime: Ann\nKonu: x",
    "Greek": "Από: Joe\nΣτάλθηκε: Δευτέρα\nΠρος: Ann\nΘέμα: x",
    "Russian": "От: Joe\nОтправлено: понедельник\nКому: Ann\nТема: x",
    "Chinese": "发件人: Joe\n发送时间: 2026年3月2日\n收件人: Ann\n主题: x",
    "Traditional Chinese": "寄件者: Joe\n寄件日期: 2026年3月2日\n收件者: Ann\n主旨: x",
    "Japanese": "差出人: Joe\n送信日時: 2026年3月2日\n宛先: Ann\n件名: x",
    "Korean": "보낸 사람: Joe\n보낸 날짜: 2026년 3월 2일\n받는 사람: Ann\n제목: x",
}


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS.keys())
def test_the_headers_of_an_original_message_in_many_languages(headers: str) -> None:
    assert new(f"Agreed.\n\n{headers}\n\nold\n") == "Agreed."
    assert new(f"{headers}\n\n> old\n\nAgreed.\n") == "Agreed.", "an answer below what it answers"
    assert kinds(f"{headers}\n\nold\n") == [("quote", f"{headers}\n\nold\n")]


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS.keys())
@pytest.mark.parametrize("subject", ("FW: x", "Fwd: x", "WG: x", "[list] TR : x", "RV: x", "转发：x", "x (fwd)"))
def test_what_the_subject_calls_a_forward_is_new(headers: str, subject: str) -> None:
    body = f"FYI\n\n{headers}\n\nsent on\n"
    assert body_spans(body, subject) == (("new", 0, len(body)),)


@pytest.mark.parametrize("subject", ("Re: FW: x", "forward: x", "x", "AW: x"))
def test_an_answer_is_no_forward(subject: str) -> None:
    body = f"Agreed.\n\n{HEADERS['English']}\n\nold\n"
    assert new_text(body, body_spans(body, subject)) == "Agreed."


@pytest.mark.parametrize(
    "line",
    (
        "Begin forwarded message:",
        "Anfang der weitergeleiteten Nachricht:",
        "-------- Weitergeleitete Nachricht --------",
        "  ---------- Forwarded message ---------",
    ),
)
def test_what_a_line_calls_a_forward_is_new(line: str) -> None:
    assert kinds(f"{line}\n{HEADERS['English']}\n\nsent on\n") == [
        ("new", f"{line}\n{HEADERS['English']}\n\nsent on\n")
    ]


def test_what_is_forwarded_between_marks_is_new() -> None:
    body = "FYI\n\nBegin forwarded message:\n\n> From: Joe\n> Subject: x\n>\n> sent on\n"
    assert kinds(body) == [("new", body)]


@pytest.mark.parametrize(
    "end",
    (
        "-- \nAnn\nExample Ltd.\n",
        "--\nAnn\n",
        "-- \n2.41.0\n\n",
        "-- \n2.41.0\n-- \nTo unsubscribe from this list: send a line\n",
        "Sent from my iPhone\n",
        "Von meinem iPhone gesendet",
        "-- \nAnn\n\nSent from my phone\n",
        "Get NextStep for Android<https://example.com>\n",
        "_______________________________________________\nx mailing list\nx@example.com\nhttps://example.com/listinfo/x\n",
        "--\nTo unsubscribe from this list: send the line\n" + "more\n" * 9,
        "-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n",
    ),
)
def test_a_signature_ends_what_is_new(end: str) -> None:
    assert kinds(f"Thanks.\n{end}") == [("new", "Thanks.\n"), ("signature", end)]


def test_a_signature_above_a_full_quote_ends_at_the_quote() -> None:
    body = "Thanks.\n-- \nAnn\n\nJoe wrote:\n> old\n"
    assert [kind for kind, _ in kinds(body)] == ["new", "signature", "quote"]


def test_a_diff_is_new_whatever_its_lines_look_like() -> None:
    patch = "Fix.\n---\n a | 2 +-\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n"
    patch += "@@ -1,4 +1,3 @@\n > shell\n-- \n--\n+x\n y\n"
    assert kinds(patch + "-- \n2.41.0\n") == [("new", patch), ("signature", "-- \n2.41.0\n")]


def test_the_armour_of_a_signed_text_is_not_its_text() -> None:
    body = (
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nHello.\n- -- \nAnn\n"
        "-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n"
    )
    assert new(body) == "Hello."


pieces = st.sampled_from(
    [
        "> ",
        ">",
        "\n",
        "\n\n",
        " ",
        "-- \n",
        "--",
        "a wrote:",
        "On x",
        "| ",
        "JS> ",
        "From: x\nSent: y\nTo: z\n",
        "_" * 30,
        "\nmailing list\n",
        "@@ -1,3 +1 @@\n",
        "diff --git ",
        "-----Original Message-----\n",
        "Sent from my ",
        "\r",
        "\u2028",
        "-----BEGIN PGP MESSAGE-----\n",
        "text",
    ]
)


@given(st.lists(pieces, max_size=30).map("".join) | st.text())
def test_spans_cover_the_text_in_order_without_gaps(body: str) -> None:
    spans = body_spans(body)
    assert "".join(body[start:end] for _, start, end in spans) == body
    assert all(start < end for _, start, end in spans)
    assert all(one[2] == other[1] and one[0] != other[0] for one, other in pairwise(spans))
    assert {kind for kind, _, _ in spans} <= {"new", "quote", "signature"}
    assert new_text(body, spans).count("x") <= body.count("x")


def test_of_a_very_long_text_only_the_beginning_is_looked_at() -> None:
    body = "> quote\n" * 10 + "data\n" * 400_000
    spans = body_spans(body)
    assert spans[0] == ("quote", 0, 80)
    assert spans[-1][2] == len(body)
