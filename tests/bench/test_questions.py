"""Questions of the search bench: the Cranfield files, and tasks made from mails."""

from __future__ import annotations

import mailbox
from contextlib import closing
from pathlib import Path

import pytest

from bench.mail_tasks import mail_tasks, write_without_subjects
from bench.questions import Question, Task, read_cranfield, write_cranfield_mailbox
from onward.pipeline.documents import Message


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    (tmp_path / "cran.all").write_text(
        ".I 1\n.T\nlift of a wing\nin a slipstream .\n.A\nbrown,m.\n.B\nj. 1958.\n.W\nlift of a wing .\n"
        "From here on it is text .\n.I 2\n.T\nheat\n.A\n.B\n.W\nheat flows .\n"
    )
    (tmp_path / "cran.qry").write_text(".I 007\n.W\nwhat is lift\nin theory .\n.I 009\n.W\nhow does heat flow .\n")
    (tmp_path / "cran.rel").write_text("1 1 2 \n1 2 -1\n2 2 4\n2 1 5\n")
    return tmp_path


def test_questions_are_judged_by_their_place_and_1_is_the_best_grade(collection: Path) -> None:
    assert read_cranfield(collection).questions == [
        Question("what is lift in theory .", {"1@cranfield.example": 3}),
        Question("how does heat flow .", {"2@cranfield.example": 1}),
    ]


def test_abstracts_become_mails(collection: Path) -> None:
    write_cranfield_mailbox(collection, collection / "out.mbox")
    with closing(mailbox.mbox(collection / "out.mbox")) as written:
        first, second = written
    assert first["subject"] == "lift of a wing in a slipstream ."
    assert (first["message-id"], second["message-id"]) == ("<1@cranfield.example>", "<2@cranfield.example>")
    assert first["from"] == '"brown,m." <author@cranfield.example>'
    assert first.get_payload() == "lift of a wing .\n>From here on it is text .\n\n"
    assert second["from"] == '"unknown" <author@cranfield.example>'


def test_subjects_are_left_out_with_their_continued_lines(tmp_path: Path) -> None:
    (tmp_path / "in.mbox").write_bytes(
        b"From a@b Fri Jan  1 00:00:00 1965\nSubject: a long\n subject\nFrom: a@b\n\nSubject: this is text\n\n"
        b"From a@b Fri Jan  1 00:00:00 1965\nFrom: c@d\nsubject: x\n\nmore\n"
    )
    write_without_subjects(tmp_path / "in.mbox", tmp_path / "out.mbox")
    assert (tmp_path / "out.mbox").read_bytes() == (
        b"From a@b Fri Jan  1 00:00:00 1965\nFrom: a@b\n\nSubject: this is text\n\n"
        b"From a@b Fri Jan  1 00:00:00 1965\nFrom: c@d\n\nmore\n"
    )


def mail(number: int, subject: str, body: str, **more: object) -> Message:
    fields = {"thread_id": "thread", "author": "Ada Stone <ada@b>", "date": float(number)} | more
    return Message.model_validate(
        {
            "id": f"doc{number}",
            "source": "s",
            "archive_id": "a",
            "origin": "o",
            "kind": "mbox",
            "message_id": f"{number}@b",
            "subject": subject,
            "body": body,
            **fields,
        }
    )


@pytest.fixture
def tasks() -> dict[str, Task]:
    """The tasks of a thread: four questions, each with an answer, and a mail that is not part of it."""
    mails = []
    for number in range(0, 8, 2):
        asked = f"Hello all together. Does anybody know why the pump number {number} stops at noon every day?"
        mails.append(mail(number, "pumps of the harbour", f"{asked} It was new in the spring of the last year."))
        mails.append(
            mail(number + 1, "Re: pumps of the harbour", "It rusts.", references=["gone@b", f"{number}@b"])
        )
    mails.append(mail(8, "harbour", "Nothing.", thread_id="other", author="Bo Reed <bo@b>"))
    return {task.name: task for task in mail_tasks(mails * 2)}


def test_a_name_is_found_in_the_mails_that_have_it_and_better_by_their_subject() -> None:
    mails = [
        mail(n, "call read_file" if n < 2 else "other", f"read_file {n} write_file_{'abcd'[n]}") for n in range(4)
    ]
    mails += [mail(n, "on", "main_loop open_all close_all list_all") for n in (4, 5)]
    (names,) = (task for task in mail_tasks(mails) if task.name == "function name")
    found = {question.text: question.grades for question in names.questions}
    assert found["read_file"] == {"0@b": 2, "1@b": 2, "2@b": 1, "3@b": 1}
    assert found["main_loop"] == {"4@b": 1, "5@b": 1}
    assert "write_file_a" not in found  # one mail only


def test_a_task_with_too_few_questions_is_left_out(tasks: dict[str, Task]) -> None:
    assert "person → their mails" not in tasks


def test_what_a_mail_asks_finds_its_reply_and_the_mail_itself_does_not_count(tasks: dict[str, Task]) -> None:
    replies = {question.besides: question for question in tasks["sentence → its reply"].questions}
    assert {asked: dict(question.grades) for asked, question in replies.items()} == {
        f"{number}@b": {f"{number + 1}@b": 1} for number in range(0, 8, 2)
    }
    assert replies["4@b"].text == "Does anybody know why the pump number 4 stops at noon every day?"


def test_a_sentence_that_two_mails_have_is_not_asked_for(tasks: dict[str, Task]) -> None:
    asked = [question.text for question in tasks["sentence → mail"].questions]
    assert len(asked) == 4
    assert all(text.startswith("Does anybody know") for text in asked)


def test_every_message_is_found_by_its_message_id(tasks: dict[str, Task]) -> None:
    questions = tasks["Message-ID"].questions
    assert sorted(question.text for question in questions) == [f"{n}@b" for n in range(9)]
    assert all(question.grades == {question.text: 1} for question in questions)


def test_subjects_are_hidden_where_they_are_the_question(tasks: dict[str, Task]) -> None:
    mails = [mail(n, f"the pumps of pier {n}", "It is long. " * 20) for n in range(4)]
    hidden = {task.name: task.subjects for task in (*mail_tasks(mails), *tasks.values())}
    assert [name for name, subjects in hidden.items() if not subjects] == ["subject → mail"]


def test_the_same_mails_give_the_same_questions_wherever_the_mailbox_is(tasks: dict[str, Task]) -> None:
    mails = [mail(n, "one two three", f"Number {n} of them.", author=f"A{n} B{n} <a@b>") for n in range(30)]
    moved = [one.model_copy(update={"id": f"x{one.id}"}) for one in reversed(mails)]
    assert mail_tasks(mails) == mail_tasks(moved)
