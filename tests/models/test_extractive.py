"""The built-in summariser: it chooses sentences, cites each of them, and invents none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import Settings
from onward.backend_urls import ModelUnknown, open_summarizer
from onward.models.extractive_summarizer import ExtractiveSummarizer, author_and_date
from onward.models.protocol import Passage, Summarizer, WrittenSummary

DAY = 86_400.0
THREAD = [
    Passage(
        "m1",
        "Ada Byron <ada@example.org>",
        19_700 * DAY,
        "Hi all,\n\nThe importer reads the whole archive into memory before it writes\nanything. On an archive of "
        "two gigabytes it is killed by the system.\nI propose to read the archive message by message instead.\n\n"
        "    for message in archive:\n        store(message)\n\nWhat do you think?\n\nBest regards,\nAda\n-- \n"
        "Ada Byron, The Analytical Company, all mail is monitored by the company.\n",
    ),
    Passage(
        "m2",
        "Charles",
        19_701 * DAY,
        "On Monday, Ada Byron wrote:\n> The importer reads the whole archive into memory.\n\n"
        "Reading message by message makes the importer slower on small archives.\n"
        "Could we measure both on a real archive first?\n\nSigned-off-by: Charles <charles@example.org>\n",
    ),
    Passage(
        "m3",
        "Ada Byron <ada@example.org>",
        19_702 * DAY,
        "I measured it: the importer needs the same time on small archives, and 40 MB instead of 2 GB on large "
        "ones.\n\nhttps://example.org/measurements\n",
    ),
    Passage(
        "m4",
        "Grace",
        None,
        "Thanks!\n\nLet's read message by message then; I applied the change to the importer.\n\n"
        "diff --git a/importer.py b/importer.py\n--- a/importer.py\n+++ b/importer.py\n@@ -1 +1 @@\n-old\n+new\n",
    ),
]


def summarize(*passages: Passage, subject: str = "importer: memory on large archives") -> WrittenSummary:
    return ExtractiveSummarizer().summarize(subject, passages)


def mail(text: str, number: int = 1) -> Passage:
    return Passage(f"m{number}", "Someone", None, text)


def test_it_is_the_default_and_needs_nobody() -> None:
    summarizer: Summarizer = open_summarizer(Settings())
    assert summarizer.model == "extractive"
    assert not summarizer.remote
    assert summarizer.healthy()


def test_a_thread_is_told_by_what_was_asked_answered_and_decided() -> None:
    written = summarize(*THREAD)
    gist, decision, heading, *rest = [line for line in written.markdown.split("\n") if line]
    assert gist == "**I propose to read the archive message by message instead.** [1]"
    assert decision == (
        "**Decision** (Grace): Let's read message by message then; I applied the change to the importer. [2]"
    )
    assert heading == "### What was said"
    assert [line.partition(":**")[0] for line in rest if line.startswith("- ")] == [
        "- **Charles, 2023-12-10",
        "- **Ada Byron, 2023-12-11",
    ]
    assert [citation.message_id for citation in written.citations][:2] == ["m1", "m4"]
    assert written.prompt_tokens is None


def test_every_sentence_is_somebodys_own_word_for_word() -> None:
    written = summarize(*THREAD)
    texts = {passage.id: passage.text for passage in THREAD}
    assert len(written.citations) > 3
    for number, citation in enumerate(written.citations, start=1):
        assert citation.number == number
        assert citation.sentence in texts[citation.message_id]
        assert " ".join(citation.sentence.split()) in written.markdown
        assert f"[{number}]" in written.markdown


def test_the_sources_stand_at_the_end() -> None:
    written = summarize(*THREAD)
    lines = written.markdown.partition("### Sources")[2].split("\n")
    assert lines[2] == "1. Ada Byron, 2023-12-09 `m1`"
    assert len([line for line in lines if line]) == len(written.citations)


@pytest.mark.parametrize(
    "unwanted",
    (
        *("Hi all", "regards", "Analytical Company", "for message in archive", "wrote:", "Signed-off-by"),
        *("https://", "Thanks!", "diff --git", "+new", "> The importer"),
    ),
)
def test_what_is_no_prose_stays_out(unwanted: str) -> None:
    assert unwanted not in summarize(*THREAD).markdown


def test_a_short_message_gives_a_short_summary() -> None:
    written = summarize(mail("The build fails on Debian since Monday. It worked before."))
    assert written.markdown.startswith("**The build fails on Debian since Monday.** [1]\n")
    assert "What was said" not in written.markdown
    assert len(written.citations) == 1


def test_what_was_said_already_is_not_said_again() -> None:
    same = "The release is planned for the first week of October."
    written = summarize(*(mail(f"{same} Reply number {n} agrees with that plan.", n) for n in range(5)))
    assert written.markdown.count("planned for the first week") == 1


def test_a_long_thread_gives_a_summary_that_can_be_read() -> None:
    parts = ["parser", "lexer", "cache", "index", "client", "server", "ledger", "queue", "console", "schema"]
    pairs = [(one, other) for one in parts for other in parts if one != other]
    thread = [mail(f"The {a} should not wait for the {b}.", n) for n, (a, b) in enumerate(pairs)]
    written = summarize(*thread)
    assert 5 <= len(written.citations) <= 9


def test_a_thread_without_prose_says_so() -> None:
    for passages in ((), (mail(""),), (mail("diff --git a/x b/x\n+new"),), (mail("Thanks!\n"),)):
        written = summarize(*passages)
        assert "no prose" in written.markdown
        assert written.citations == ()


@pytest.mark.parametrize("words", ("Looks good.", "LGTM.", "Agreed!"))
def test_a_thread_of_a_few_words_is_summed_up_by_them(words: str) -> None:
    written = summarize(mail(f"> Is this fine?\n\nThanks!\n{words}\n\n-- \nAda"))
    assert written.markdown.startswith(f"**{words}** [1]\n")


@pytest.mark.parametrize(
    ("replies", "decision"),
    (
        (["Reading it in parts is slower.", "Will queue.", "Looks fine to me, too."], "Will queue."),
        (["Let's use a generator.", "I changed my mind; let's drop the importer."], "let's drop the importer."),
        (["Will queue.", "Have you queued it?"], "Will queue."),
        (["It should be applied to both branches.", "Has it been merged?"], None),
    ),
)
def test_the_last_decision_of_a_thread_is_in_its_summary(replies: list[str], decision: str | None) -> None:
    texts = ["The importer reads the whole archive into memory before it writes anything.", *replies]
    written = summarize(*(mail(text, number) for number, text in enumerate(texts)))
    shown = [line for line in written.markdown.splitlines() if line.startswith("**Decision** (Someone): ")]
    assert [line.removesuffix(" [2]").endswith(decision or "") for line in shown] == [True] * (
        decision is not None
    )


def test_the_message_of_a_patch_decides_nothing() -> None:
    patch = "Let's drop this function, which nobody calls.\n---\n a.c | 1 -\n\ndiff --git a/a.c b/a.c\n-int a;\n"
    written = summarize(mail("Nobody calls this function of the importer any more."), mail(patch, 2))
    assert "**Decision**" not in written.markdown
    assert "Let's drop this function" in written.markdown


def test_a_decision_is_shown_once() -> None:
    decided = "We decided to close the harbour in winter. The keys are in the office."
    for passages in ([mail(decided)], [mail(decided), mail("Where is the office of the harbour?", 2)]):
        written = summarize(*passages, subject="The harbour in winter")
        assert written.markdown.startswith("**We decided to close the harbour in winter.** [1]\n")
        assert "Decision" not in written.markdown


def test_a_decision_of_the_first_message_counts_if_no_reply_decides() -> None:
    first = mail("The harbour of the island freezes every winter. At the meeting we decided to move the ferry.")
    replies = [mail("Where does it go from the island?", 2), mail("To the harbour of the town.", 3)]
    written = summarize(first, *replies, subject="The harbour freezes every winter")
    assert "**Decision** (Someone): At the meeting we decided to move the ferry. [2]" in written.markdown


def test_a_single_message_has_no_decision() -> None:
    written = summarize(
        mail("The gauge of the harbour is slow. The decision is one function. It is called for each tide.")
    )
    assert "**Decision**" not in written.markdown


def test_quoted_text_counts_where_it_is_the_only_text() -> None:
    quoted = "On Monday, Ada wrote:\n> The importer reads\n> the whole archive into memory.\n>\n> It is killed.\n"
    written = summarize(mail(quoted), mail("I propose to read the archive in parts.\n", 2))
    assert written.markdown.startswith("**The importer reads the whole archive into memory.** [1]\n")
    assert [citation.sentence for citation in written.citations] == [
        "The importer reads\n> the whole archive into memory.",
        "I propose to read the archive in parts.",
    ]
    written = summarize(mail("I propose to read the archive in parts."), mail(quoted, 2))
    assert "- **Someone, quoting:** The importer reads the whole archive into memory. [2]" in written.markdown


def test_what_a_reply_only_quotes_is_not_said_again() -> None:
    text = "The importer reads the whole archive into memory. I propose to read it in parts."
    written = summarize(mail(text), mail("> The importer reads the whole archive into memory.\n", 2))
    assert written.markdown.count("The importer reads") <= 1
    assert "quoting" not in written.markdown


def test_the_same_thread_always_gives_the_same_summary() -> None:
    assert summarize(*THREAD).markdown == summarize(*THREAD).markdown


def test_markdown_in_a_mail_stays_text() -> None:
    text = "The first option [1] *breaks* all parsers of <mail> when _both_ are set in my_own_file."
    shown = r"\[1\] \*breaks\* all parsers of \<mail> when \_both\_ are set in my_own_file."
    assert shown in summarize(mail(text)).markdown
    linked = "The [first option](../options.md#first) breaks every parser of mail."
    assert "**The first option breaks every parser of mail.**" in summarize(mail(linked)).markdown


@pytest.mark.parametrize(
    ("author", "date", "shown"),
    (
        ("Ada <ada@example.org>", 0.0, "Ada, 1970-01-01"),
        ('"Byron, Ada" <ada@example.org>', None, "Byron, Ada"),
        ("<ada@example.org>", None, "ada@example.org"),
        ("", 1e20, "unknown"),
        ("*Ada*\n[admin]", None, "Ada admin"),
    ),
)
def test_a_message_is_named_by_who_wrote_it_and_when(author: str, date: float | None, shown: str) -> None:
    assert author_and_date(Passage("m1", author, date, "")) == shown


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from(" \n.?!-*>[]_`aBcdé:'\"0(") | st.characters(), max_size=300), max_size=6))
def test_whatever_is_in_a_thread_it_is_cited_word_for_word(texts: list[str]) -> None:
    passages = [mail(text, number) for number, text in enumerate(texts)]
    written = summarize(*passages)
    assert all(citation.sentence in texts[int(citation.message_id[1:])] for citation in written.citations)
    assert bool(re.search(r"\[1\]", written.markdown)) >= bool(written.citations)


def test_an_unknown_summariser_names_what_there_is() -> None:
    with pytest.raises(ModelUnknown, match=r"ONWARD_SUMMARIZER='gpt' names no summarizer; use 'extractive'"):
        open_summarizer(Settings(summarizer="gpt"))
