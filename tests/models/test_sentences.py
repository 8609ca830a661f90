"""Where the sentences of a text are: the ends of sentences in several languages, and what is no prose."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.models.sentences import is_readable, one_line, sentence_spans


def split(text: str, *, readable: bool = False, quoted: bool = False) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, readable=readable, quoted=quoted)]


@pytest.mark.parametrize(
    "sentence",
    (
        # abbreviations
        "The cache, e.g. Redis, is slow.",
        "It fails on BSD, i.e. FreeBSD and its relatives.",
        "We compared it with Dr. Smith vs. Mr. Jones.",
        "Lists, sets, etc. Python has them all.",
        "Smith et al. Proved it in the nineties.",
        "Fig. 3 and Eq. 4 of No. 7, p. 12 show it.",
        "It was written by J. R. R. Tolkien.",
        "It was built in the U.S. Army in Jan. 1970.",
        "Bitte Nr. 5 prüfen, bzw. Herrn Dr. Müller fragen.",
        "Das gilt z.B. Montags, d.h. Ostern nicht.",
        "Das gilt z. B. Montags, d. h. Ostern nicht.",
        "Der Zug kommt am 3. Mai im 2. Gleis an.",
        "Der 1. Versuch gilt i. d. R. Montags.",
        "M. Dupont et Mme. Martin arrivent, p. ex. Lundi.",
        "El Sr. García vive en la pág. 3, p. ej. Madrid.",
        "Il sig. Rossi abita in via Verdi, n. 3.",
        # versions, files, links, ellipses
        "Version 2.40.1 reads v1.2 files of README.md twice.",
        "See https://example.org/a.html?b=c.d#e for it.",
        "He said ... Nothing at all … Nobody knows.",
        # quotations
        "「動きません。直してください。」と言われました。",
        "他说：“不行。不要这样。”",
    ),
)
def test_what_ends_no_sentence(sentence: str) -> None:
    assert split(sentence) == [sentence]


@pytest.mark.parametrize(
    "sentences",
    (
        ("It fails.", "Why?", "Nobody knows!", "(It is new.)", '"So be it."', "1 of 3 works."),
        ("I use lists, sets, etc.", "The others use arrays."),
        ("This is plan B.", "It works better than I.", "No.", "That is wrong."),
        ("It began in 2019.", "Now it is over."),
        ("Das war die 2.", "Die dritte folgt."),
        ("Es geht nicht.", "Über Ostern ist zu."),
        ("Cela marche.", "À demain.", "« Non. »", "Écoutez !"),
        ("No funciona.", "¿Por qué?", "¡Nadie lo sabe!"),
        ("Не работает.", "Почему?"),
        ("동작하지 않습니다.", "이유를 모릅니다."),
        ("停止します。", "なぜですか？", "分かりません！"),
        ("程序停了。", "为什么？", "没有人知道！", "“我同意。”", "他走了。"),
        ("「はい。」", "次に進みます。"),
    ),
)
def test_where_a_sentence_ends(sentences: tuple[str, ...]) -> None:
    assert split(" ".join(sentences)) == list(sentences)
    assert split("\n\n".join(sentences)) == list(sentences)


def test_a_sentence_goes_over_lines_but_not_over_paragraphs_items_or_abbreviations() -> None:
    text = (
        "This is wrapped, e.g. by a mail\nprogram. This is the second sentence here.\n\n"
        "- the first item of the list\n- the second item of the list, which is longer\n  than a line of it\n\n"
        "Is this the last paragraph of it? Yes, it is the last one.\n"
    )
    assert split(text, readable=True) == [
        "This is wrapped, e.g. by a mail\nprogram.",
        "This is the second sentence here.",
        "the second item of the list, which is longer\n  than a line of it",
        "Is this the last paragraph of it?",
        "Yes, it is the last one.",
    ]


def test_chinese_and_japanese_sentences_need_no_space_between() -> None:
    assert split("停止します。なぜですか？はい。") == ["停止します。", "なぜですか？", "はい。"]
    assert split("程序停了。为什么？因为内存不够。") == ["程序停了。", "为什么？", "因为内存不够。"]


@pytest.mark.parametrize(
    ("greeting", "farewell"),
    (
        ("Hi all,", "Best regards,\nAda Byron\nHead of the department of everything that is interesting here"),
        ("Dear Prof. Smith, dear colleagues,", "Yours sincerely,\nAda"),
        ("Hello everybody", "Thanks in advance!"),
        ("Hallo zusammen,", "Viele Grüße\nJörg"),
        ("Sehr geehrte Frau Dr. Müller,", "Mit freundlichen Grüßen\n\nJörg"),
        ("Bonjour à tous,", "Bien cordialement,\nÉlodie"),
        ("Hola a todos:", "Un saludo,\nMaría"),
        ("Buongiorno,", "Cordiali saluti\nGianni"),
        ("Beste allemaal,", "Met vriendelijke groet,\nJan"),
        ("Hej alla!", "Med vänliga hälsningar\nÅsa"),
        ("Здравствуйте,", "С уважением,\nИван"),
        ("田中様", "よろしくお願いいたします。\n佐藤"),
        ("皆さん、こんにちは。", "以上です。"),
        ("大家好，", "谢谢！"),
        ("안녕하세요,", "감사합니다."),
    ),
)
def test_greetings_and_farewells_are_no_prose(greeting: str, farewell: str) -> None:
    text = f"{greeting}\n\nThe importer reads the whole archive.\n\n{farewell}\n"
    assert split(text, readable=True) == ["The importer reads the whole archive."]


@pytest.mark.parametrize(
    ("text", "sentence"),
    (
        ("Hi Bob, the build fails since Monday.", "the build fails since Monday."),
        ("Hallo Jörg, die Anlage fällt seit Montag aus.", "die Anlage fällt seit Montag aus."),
        ("Hallo zusammen,\n\ndie Anlage fällt seit Montag aus.", "die Anlage fällt seit Montag aus."),
        ("Bonjour, la version de lundi ne marche plus.", "la version de lundi ne marche plus."),
        ("こんにちは、取り込み処理が停止します。", "取り込み処理が停止します。"),
        ("Thanks! I applied it to the main branch.", "I applied it to the main branch."),
        ("Thanks for the report, I fixed it in the importer.", "I fixed it in the importer."),
    ),
)
def test_a_sentence_begins_after_its_greeting(text: str, sentence: str) -> None:
    assert split(text, readable=True) == [sentence]


@pytest.mark.parametrize(
    "text",
    (
        "The nearest harbour has the\nbest tide gauge of all.",
        "The program prints a line that says\nhello to all of us.",
        "Wir nehmen den Weg, auf den wir\nliebe Gäste schicken.",
    ),
)
def test_in_the_middle_of_a_sentence_no_line_is_a_greeting(text: str) -> None:
    assert split(text) == [text]


@pytest.mark.parametrize(
    "noise",
    (
        *(
            "> quoted text of somebody else.",
            "    indented = code.",
            "# A heading of it",
            "Signed-off-by: Ada <a@b.c>",
        ),
        *(
            "On Monday, Ada Byron wrote:",
            "Am 3. Mai schrieb Jörg:",
            "Le 3 mai, Élodie a écrit :",
            "2024年5月，小王写道：",
        ),
        *(
            "https://example.org/measurements",
            "```python\nfor one in all: it.runs.\n\nIt. Runs.\n```",
            "-- \nAda of London.",
        ),
        *("~~~\nIt. Runs.\n~~~", "---\n a.py | 1 +\n 1 file changed\n\ndiff --git a/a.py b/a.py\n+It. Runs."),
        *("---", "| a | table |", "<p>It runs.</p>", "Sent from my phone. Really.", "Von meinem iPhone gesendet"),
    ),
)
def test_what_is_no_prose(noise: str) -> None:
    assert split(f"It runs for us all.\n\n{noise}\n") == ["It runs for us all."]


def test_a_rule_ends_no_text_unless_a_patch_follows() -> None:
    text = "---\ntitle: The importer\ntags:\n  - mail\n---\nIt runs.\n\n---\n\nIt stops.\n"
    assert split(text) == ["It runs.", "It stops."]


def test_quotes_are_read_if_asked_for() -> None:
    text = "On Monday, Ada wrote:\n> > The importer reads\n> > the whole archive. It is\n> killed.\n>\n> Why?\n"
    assert split(text) == []
    quoted = split(text, quoted=True)
    assert quoted == ["The importer reads\n> > the whole archive.", "It is\n> killed.", "Why?"]
    assert list(map(one_line, quoted)) == ["The importer reads the whole archive.", "It is killed.", "Why?"]


def test_lines_of_chinese_and_japanese_are_joined_without_a_space() -> None:
    assert one_line("原因は\nメモリ不足\nです。") == "原因はメモリ不足です。"
    assert one_line("原因は\nGit の\n設定です。") == "原因は Git の設定です。"


@pytest.mark.parametrize(
    ("sentence", "readable"),
    (
        ("The importer reads the whole archive.", True),
        ("取り込み処理が停止します。", True),
        ("我建议逐条读取。", True),
        ("Looks good.", False),
        ("because it does.", False),
        ("This is what it does:", False),
        ("if (a == b) { return c->d(e); }", False),
        ("はい。", False),
        ("Sent from the old terminal on the pier.", False),
        *(
            (courtesy, False)
            for courtesy in ("Thank you for all of your help.", "Vielen Dank für die schnelle Hilfe.")
        ),
        *(
            (courtesy, False)
            for courtesy in ("Merci beaucoup pour votre aide.", "Muchas gracias por la ayuda de ayer.")
        ),
        *(
            (courtesy, False)
            for courtesy in ("ご連絡ありがとうございます。", "よろしくお願いいたします。", "谢谢大家的帮助！")
        ),
    ),
)
def test_what_tells_something_alone(sentence: str, readable: bool) -> None:
    assert is_readable(sentence) is readable


@settings(deadline=None)
@given(
    st.text(st.sampled_from(" \n.?!-*>[]_`aBcdé:'\"0(。「」，あ好\t") | st.characters(), max_size=300),
    st.booleans(),
)
def test_spans_are_in_order_and_begin_and_end_with_text(text: str, quoted: bool) -> None:
    place = 0
    for start, end in sentence_spans(text, quoted=quoted):
        assert place <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        place = end
