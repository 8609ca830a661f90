"""Questions with judged answers, and the Cranfield collection as a mailbox with its questions.

Cranfield is 1 400 abstracts about aerodynamics with 225 questions, judged by people. It is not part of this
repository: give the folder with `cran.all`, `cran.qry` and `cran.rel`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

_RECORD = re.compile(r"^\.I \d+\n", re.MULTILINE)
_FIELD = re.compile(r"^\.([A-Z])\n", re.MULTILINE)
_WORST_GRADE = 4  # 1 is the best; what is below 1 or above 4 is not relevant
_FIRST_DAY = datetime(1965, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the grade of each relevant message by its Message-ID; a higher grade is better."""

    text: str
    grades: Mapping[str, int]
    besides: str = ""  # the message that the question was taken from, which does not count as a result


@dataclass(frozen=True, slots=True)
class Task:
    """Questions of one kind."""

    name: str
    questions: Sequence[Question]
    subjects: bool = True  # whether subjects can be searched; otherwise they would give the answer away


def read_cranfield(folder: Path) -> Task:
    """Return the questions of Cranfield. They are judged by their place in the file, not by their number."""
    grades: dict[int, dict[str, int]] = {}
    for line in (folder / "cran.rel").read_text().splitlines():
        place, document, grade = map(int, line.split()[:3])
        if 1 <= grade <= _WORST_GRADE:
            grades.setdefault(place, {})[_message_id(document)] = _WORST_GRADE + 1 - grade
    texts = [_one_line(fields["W"]) for fields in _records(folder / "cran.qry")]
    questions = [Question(text, grades[place]) for place, text in enumerate(texts, start=1) if place in grades]
    return Task("Cranfield", questions)


def write_cranfield_mailbox(folder: Path, target: Path) -> None:
    """Write the abstracts as mails: the title is the subject, the abstract is the body."""
    with target.open("w") as file:
        for number, fields in enumerate(_records(folder / "cran.all"), start=1):
            author = _one_line(fields.get("A", "")).replace('"', "") or "unknown"
            body = re.sub(r"^(>*From )", r">\1", fields["W"], flags=re.MULTILINE)
            headers = {
                "Message-ID": f"<{_message_id(number)}>",
                "From": f'"{author}" <author@cranfield.example>',
                "To": "list@cranfield.example",
                "Date": format_datetime(_FIRST_DAY + timedelta(days=number)),
                "Subject": _one_line(fields["T"]),
            }
            file.write("From author@cranfield.example Fri Jan  1 00:00:00 1965\n")
            file.writelines(f"{name}: {value}\n" for name, value in headers.items())
            file.write(f"\n{body}\n\n")


def _records(path: Path) -> Iterator[dict[str, str]]:
    for record in _RECORD.split(path.read_text())[1:]:
        parts = _FIELD.split(record)[1:]
        yield dict(zip(parts[::2], parts[1::2], strict=True))


def _message_id(number: int) -> str:
    return f"{number}@cranfield.example"


def _one_line(text: str) -> str:
    return " ".join(text.split())
