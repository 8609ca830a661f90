"""`onward ask` prints the passages that answer, with the message of each, or that nothing answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_runs import ESCAPE, SAMPLE, onward
from tests.support.model_server import ModelServer


def asked(library: Path, *args: str) -> dict[str, Any]:
    result = onward(library, "ask", *args, "--json")
    assert result.exit_code == 0, result.output
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


@pytest.mark.parametrize(
    ("question", "answer"),
    (
        ("Why did the tide gauge drift?", "blocked vent tube"),
        ("When is the open day?", "16 May"),
        ("How much does masonry paint cost?", "£1,180"),
        ("How many people can the lantern room take?", "six people"),
        ("How often is the fog signal sounded?", "once a year"),
        ("May we move a nesting bird?", "You may not move the nest."),
        ("When is the next meeting?", "8 April"),
    ),
)
def test_questions_about_the_sample_are_answered(library: Path, question: str, answer: str) -> None:
    facts = asked(library, question)
    assert facts["answered"]
    assert answer in facts["passages"][0]["text"]
    assert facts["nearest"] == []


@pytest.mark.parametrize(
    "question",
    ("Who wrote Hamlet?", "How tall is the lighthouse?", "What does a ferry ticket cost?", "Why is the sky blue?"),
)
def test_nothing_answers_other_questions(library: Path, question: str) -> None:
    facts = asked(library, question)
    assert not facts["answered"]
    assert (facts["passages"], facts["answer"]) == ([], "")
    shown = onward(library, "ask", question)
    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"Nothing answers {question!r}.")


def test_a_citation_leads_to_the_sentence(library: Path) -> None:
    best = asked(library, "why did the tide gauge drift")["passages"][0]
    shown = onward(library, *best["command"].split()[1:], "--json")
    body = json.loads(shown.stdout)["body"]["body"]
    assert " ".join(body[best["start"] : best["end"]].split()) == best["text"]
    assert best["author"].startswith("Jörg Petersen")
    assert best["date"] == "2026-03-09T14:20:00Z"


def test_the_passages_are_printed_with_their_messages(library: Path) -> None:
    result = onward(library, "ask", "why", "did", "the", "tide", "gauge", "drift")
    assert result.exit_code == 0
    assert re.match(r"  1  The cause of the \*drift\* was the blocked vent tube", result.stdout)
    assert "Jörg Petersen" in result.stdout
    assert ESCAPE not in result.stdout
    assert re.search(r"^To read one: onward show [0-9a-f]{8}$", result.stdout, re.MULTILINE)


def test_filters_and_the_limit(library: Path) -> None:
    options = ("--author", "priya", "--since", "2026-03", "--until", "2026-04", "--source", SAMPLE.name)
    facts = asked(library, "why does the tide gauge drift", *options, "--limit", "1")
    assert len(facts["passages"]) <= 1
    found = [*facts["passages"], *facts["nearest"]]
    assert {one["author"] for one in found} == {"Priya Raman <priya.raman@ocean.example.org>"}


def test_an_answer_that_a_model_writes_comes_first(library: Path) -> None:
    with ModelServer(reply="The vent tube was blocked. [1]") as server:
        more = {"ONWARD_SUMMARIZER": server.url, "ONWARD_SUMMARIZER_MODEL": "writer"}
        written = onward(library, "ask", "why did the tide gauge drift", more=more)
        alone = onward(library, "ask", "why did the tide gauge drift", "--passages", more=more)
        server.status = 500
        failed = onward(library, "ask", "why did the tide gauge drift", more=more)
    assert written.stdout.startswith("The vent tube was blocked. [1]\nWritten by http:writer from:\n")
    assert "http:writer" not in alone.stdout
    assert "Warning: not written by a model: the summarizer cannot be used" in failed.stderr
    assert failed.exit_code == 0
    assert failed.stdout == alone.stdout


def test_wrong_calls(library: Path, home: Path) -> None:
    assert onward(library, "ask").exit_code == 2
    assert onward(library, "ask", "why", "--limit", "99").exit_code == 2
    unknown = onward(library, "ask", "why", "--source", "nothing")
    assert unknown.exit_code == 2
    assert "'nothing'" in unknown.stderr
    empty = onward(library, "ask", "???")
    assert empty.exit_code == 2
    assert "'???'" in empty.stderr
    nowhere = onward(home, "ask", "why")
    assert nowhere.exit_code == 2
    assert "there is no store" in nowhere.stderr
