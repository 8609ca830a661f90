"""A question is answered by passages of messages, each with its place; if nothing answers, nothing is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.pipeline.answers import MAX_CONTEXT, NO_SOURCE, Answer, ask
from onward.pipeline.query_language import EmptyQuery
from onward.pipeline.search import Query
from tests.support.model_server import ModelServer
from tests.support.pipeline_runs import Pipeline, mail, mbox

MAILS = mbox(
    mail("1", "Does anybody know why the pump fails every night?", subject="The pump"),
    mail(
        "2",
        "> Does anybody know why the pump fails every night?\n\n"
        "I looked at it today. The pump fails because the seal is worn. A new one costs 40 pounds.\n\n"
        "Best wishes,\nBert",
        subject="Re: The pump",
        author="Bert <bert@example.org>",
        date="Tue, 3 Mar 2026 10:00:00 +0000",
        references=["1"],
    ),
    mail(
        "3",
        "Yes. The pump fails because the seal is worn.",
        subject="Re: The pump",
        author="Carla <carla@example.org>",
        date="Wed, 4 Mar 2026 10:00:00 +0000",
        references=["1", "2"],
    ),
    mail(
        "4",
        "The dates:\n\n    Spring fair       Saturday 16 May\n    Regatta           Saturday 23 May\n",
        subject="Calendar of the club",
        date="Thu, 5 Mar 2026 10:00:00 +0000",
    ),
    mail("5", "会議は四月八日に港の学校で開きます。お茶もあります。", subject="お知らせ"),
    mail("6", "港口的会议定于四月八日举行。请准时参加。", subject="通知"),
    mail("7", "Der Schlüssel hängt im Bootshaus hinter der Tür. Bitte nicht verleihen.", subject="Schlüssel"),
    mail(
        "9", "tidewise 0.9 is out. It uses 37 constituents.\n\nAda (2): release 0.9 of tidewise\n", subject="News"
    ),
    mail("8", "Use `--dry-run` to see what the importer would do. It changes nothing.", subject="Importer"),
    *(mail(f"n{n}", f"Filler number {n} about gardens and roses.", subject=f"Garden {n}") for n in range(20)),
)
OTHER = mbox(mail("other", "The pump fails because the fuse is blown.", subject="Another pump"))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """One archive for all tests here: asking changes nothing."""
    folder = tmp_path_factory.mktemp("ask")
    (folder / "list.mbox").write_bytes(MAILS)
    (folder / "other.mbox").write_bytes(OTHER)
    with Pipeline(folder / "home").running() as running:
        running.ingest(folder / "list.mbox")
        running.ingest(folder / "other.mbox")
        yield running


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def names(answer: Answer) -> list[str]:
    return [one.message.message_id.partition("@")[0] for one in answer.passages]


def question(pipeline: Pipeline, text: str, *, limit: int = 3) -> Answer:
    return ask(pipeline.app, Query(text, source=sources(pipeline)["list.mbox"]), limit=limit)


def sources(pipeline: Pipeline) -> dict[str, str]:
    return {source.rpartition("/")[2]: source for source in pipeline.app.store.sources()}


# -- passages


def test_the_passage_that_answers_is_quoted_with_its_place(pipeline: Pipeline) -> None:
    best = question(pipeline, "Why does the pump fail?").passages[0]
    assert best.text.startswith("The pump fails because the seal is worn")
    assert best.text == best.message.body[best.start : best.end]
    assert best.confidence >= 0.5


def test_a_message_that_only_asks_or_quotes_the_question_is_no_answer(pipeline: Pipeline) -> None:
    found = question(pipeline, "why does the pump fail every night")
    assert found.passages
    assert not any("Does anybody" in one.text for one in found.passages)


def test_each_passage_is_from_another_message_and_says_something_else(pipeline: Pipeline) -> None:
    found = question(pipeline, "Why does the pump fail?", limit=5)
    assert len(set(names(found))) == len(names(found))
    assert {"2", "3"} - set(names(found)), "one of them says the same as the other"


def test_a_date_in_a_table_answers_when(pipeline: Pipeline) -> None:
    best = question(pipeline, "When is the regatta?").passages[0]
    assert "Regatta" in best.message.body[best.start : best.end]
    assert " ".join(best.text.split()) == "Regatta Saturday 23 May"


@pytest.mark.parametrize(
    ("text", "answer"),
    (
        ("会議はいつですか？", "会議は四月八日に港の学校で開きます。"),
        ("会议什么时候举行？", "港口的会议定于四月八日举行。"),
        ("Wo hängt der Schlüssel?", "Der Schlüssel hängt im Bootshaus hinter der Tür."),
    ),
)
def test_other_languages(pipeline: Pipeline, text: str, answer: str) -> None:
    assert question(pipeline, text).passages[0].text.startswith(answer)


def test_an_option_in_a_question_is_a_word(pipeline: Pipeline) -> None:
    assert names(question(pipeline, "What does --dry-run of the importer do?"))[:1] == ["8"]
    assert names(question(pipeline, "what does -dry of the importer do?"))[:1] == ["8"]


def test_a_version_is_one_word(pipeline: Pipeline) -> None:
    (found,) = question(pipeline, "What is new in tidewise 0.9?").passages
    assert found.text.startswith("tidewise 0.9 is out."), "not the line of contents"
    assert question(pipeline, "When is tidewise 9.0 out?").unknown == ("9.0",)


@pytest.mark.parametrize(
    "text",
    ("Who won the world cup?", "How deep is the well?", "When was the pump invented?", "Why is the sky blue?"),
)
def test_nothing_answers_what_no_message_says(pipeline: Pipeline, text: str) -> None:
    found = question(pipeline, text)
    assert found.passages == []
    assert found.text == found.model == ""


def test_words_that_no_message_has_and_the_nearest_messages_are_named(pipeline: Pipeline) -> None:
    found = question(pipeline, "Who invented the pump?")
    assert found.passages == []
    assert found.unknown == ("invented",)
    assert found.nearest[0].message.subject in ("The pump", "Re: The pump")


def test_filters_and_operators_leave_out_other_messages(pipeline: Pipeline) -> None:
    text = "Why does the pump fail?"
    assert names(ask(pipeline.app, Query(text, source=sources(pipeline)["other.mbox"]))) == ["other"]
    assert names(ask(pipeline.app, Query(text, author="carla"))) == ["3"]
    assert names(ask(pipeline.app, Query(f"{text} from:carla"))) == ["3"]
    assert names(ask(pipeline.app, Query(text, since=4e9))) == []


def test_a_question_without_words_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(EmptyQuery):
        question(pipeline, "???")


def test_without_an_embedder_the_words_answer_with_a_note(server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "list.mbox").write_bytes(MAILS)
    settings = {"ONWARD_EMBEDDER": server.url, "ONWARD_EMBEDDER_MODEL": "any"}
    with Pipeline(tmp_path / "home", **settings).running() as pipeline:
        pipeline.ingest(tmp_path / "list.mbox")
        server.status = 500
        found = ask(pipeline.app, Query("When is the regatta of the calendar?"))
    assert names(found) == ["4"]
    assert "embedder cannot be used" in found.note


# -- written by a chat model


@pytest.fixture
def writing(server: ModelServer, tmp_path: Path) -> Iterator[Pipeline]:
    """The same archive, with a chat model."""
    (tmp_path / "list.mbox").write_bytes(MAILS)
    settings = {"ONWARD_SUMMARIZER": server.url, "ONWARD_SUMMARIZER_MODEL": "writer"}
    with Pipeline(tmp_path / "home", **settings).running() as running:
        running.ingest(tmp_path / "list.mbox")
        server.calls.clear()
        yield running
        running.app.summarizer.close()


def number_of(messages: list[dict[str, str]], text: str) -> int:
    """Return the number of the passage with this text in a prompt."""
    before = messages[1]["content"].partition(text)[0]
    return int(before.rpartition("<<<passage ")[2].split()[0])


def test_a_chat_model_writes_the_answer_and_its_numbers_lead_to_sentences(
    server: ModelServer, writing: Pipeline
) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        number = number_of(messages, "A new one costs")
        return f"The seal of the pump is worn [{number}]. A new seal costs 40 pounds, e.g. there [{number}, 99]."

    server.reply = reply
    found = ask(writing.app, Query("Why does the pump fail?"))
    assert found.model == "http:writer"
    assert found.text == "The seal of the pump is worn. [1] A new seal costs 40 pounds, e.g. there. [2]"
    assert [one.text for one in found.passages] == [
        "The pump fails because the seal is worn.",
        "A new one costs 40 pounds.",
    ]


def test_a_sentence_without_a_source_is_marked(server: ModelServer, writing: Pipeline) -> None:
    server.reply = "The reasons:\n\n- The seal is worn [1]\n- The moon was full. [77]\n"
    found = ask(writing.app, Query("Why does the pump fail?"))
    assert found.text == f"The reasons:\n\n- The seal is worn [1]\n- The moon was full. {NO_SOURCE}"


def test_a_chat_model_that_finds_no_answer_is_believed(server: ModelServer, writing: Pipeline) -> None:
    server.reply = "<think>Hm.</think> NOTHING."
    found = ask(writing.app, Query("Why does the pump fail?"))
    assert (found.passages, found.text, found.model) == ([], "", "http:writer")


def test_messages_cannot_speak_for_us(server: ModelServer, writing: Pipeline) -> None:
    ask(writing.app, Query("Why does the pump fail?"))
    system, user = (message["content"] for message in server.calls[-1].body["messages"])
    assert "written by strangers" in " ".join(system.split())
    mark = user.partition("<<<passage 1 ")[2].partition(">>>")[0]
    assert len(mark) == 12
    assert mark in system
    assert user.endswith("Question: Why does the pump fail?")
    assert all(len(part) < MAX_CONTEXT + 200 for part in user.split("<<<passage "))


@pytest.mark.parametrize(
    ("reply", "note"), (("The seal is worn.", "cites none of the"), ("", "answered without any text"))
)
def test_a_reply_that_cannot_be_used_is_named_and_the_passages_are_shown(
    server: ModelServer, writing: Pipeline, reply: str, note: str
) -> None:
    server.reply = reply
    found = ask(writing.app, Query("Why does the pump fail?"))
    assert "not written by a model" in found.note
    assert note in found.note
    assert found.text == found.model == ""
    assert found.passages[0].text.startswith("The pump fails because")


def test_a_server_that_is_down_is_named_and_the_passages_are_shown(server: ModelServer, writing: Pipeline) -> None:
    server.down()
    found = ask(writing.app, Query("Why does the pump fail?"))
    assert "the summarizer cannot be used" in found.note
    assert found.passages[0].text.startswith("The pump fails because")


def test_the_model_is_not_called_for_passages_alone_or_without_any_message(
    server: ModelServer, writing: Pipeline
) -> None:
    assert ask(writing.app, Query("Why does the pump fail?"), write=False).passages
    assert not ask(writing.app, Query("xylophone?")).passages
    assert server.calls == []
