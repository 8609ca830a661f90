"""Questions about a mailing list whose answers follow from the mails themselves.

Nobody has judged a list, but a mail knows its subject, its thread, the mail that it answers and its author. Each
task stands for something that people look for: a topic, a reply, a sentence they remember, a person, a name in
the code. No single task says whether search is good: finding a mail by a sentence rewards exact words, finding a
thread by its topic rewards meaning.
"""

from __future__ import annotations

import gzip
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.utils import parseaddr
from pathlib import Path

from bench.questions import Question, Task
from onward.pipeline.documents import Message

MOST_QUESTIONS = 100  # of a task
FEWEST_QUESTIONS = 4
SHARE_OF_WORDS = 0.4  # of a sentence that somebody half remembers
TITLE_GRADE, TEXT_GRADE = 2, 1

_PREFIX = re.compile(r"^((re|fwd?|aw)\s*:\s*|\[[^\]]*\]\s*)+", re.IGNORECASE)
_PATCH = re.compile(r"^(?:---|diff --git)", re.MULTILINE)
_TRAILER = re.compile(r"^\s*(?:[A-Z][\w-]+-by|Cc|From):", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_TYPED_WORD = re.compile(r"\w+(?:['’]\w+)*")  # as people type it: with its apostrophe
_FUNCTION = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_FILE = re.compile(r"\b[\w-]+(?:/[\w-]+)*\.(?:c|h|sh|txt|py|perl|md|toml|js|rs|go)\b")
_COMMIT = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{9,40}\b")
_COMMON = frozenset(
    """about after again all also and any are because been before being but can cannot could did does doing done
    each for from had has have here how into its just like make may more most much must not now off one only other
    our out over same should some such than that the their them then there these they this those through too under
    until use used using very was way well were what when where which while who why will with without would you
    your""".split()  # noqa: SIM905 - words are read best as words
)


def write_without_subjects(archive: Path, target: Path) -> None:
    """Copy a mailbox and leave the subjects of its mails out."""
    whole = gzip.decompress(archive.read_bytes()) if archive.suffix == ".gz" else archive.read_bytes()
    with target.open("wb") as file:
        in_header = in_subject = False
        for line in whole.splitlines(keepends=True):
            if line.startswith(b"From "):
                in_header = True
            elif not line.strip():
                in_header = False
            in_subject = in_header and (
                line[:8].lower() == b"subject:" or (in_subject and line[:1] in (b" ", b"\t"))
            )
            if not in_subject:
                file.write(line)


def mail_tasks(messages: Iterable[Message]) -> list[Task]:
    """Return the tasks for which these mails have enough questions; the same mails give the same questions."""
    # By Message-ID: the ids of documents depend on where the mailbox is.
    mails = {message.message_id: message for message in sorted(messages, key=lambda mail: mail.message_id)}
    return _MailTasks([mail for id, mail in mails.items() if id]).tasks()


class _MailTasks:
    def __init__(self, mails: Sequence[Message]) -> None:
        self.mails = mails
        self.random = random.Random(1)
        self.texts = {mail.message_id: f"{mail.subject}\n{mail.new_text()}" for mail in mails}
        self.sentences = {mail.message_id: _sentences(mail) for mail in mails}

    def tasks(self) -> list[Task]:
        made: Mapping[str, Callable[[], list[Question]]] = {
            "subject → mail": self.subjects,
            "subject → thread": self.topics,
            "sentence → its reply": self.replies,
            "sentence → mail": self.whole_sentences,
            "half a sentence → mail": self.half_sentences,
            "person → their mails": self.people,
            "function name": lambda: self.names(_FUNCTION, 2, 40),
            "file name": lambda: self.names(_FILE, 2, 40),
            "commit id": lambda: self.names(_COMMIT, 1, 5),
            "Message-ID": self.message_ids,
            "three neighbouring words": self.neighbours,
            "the same in quotes": lambda: self.neighbours('"{}"'),
            "one word": lambda: self.short(1),
            "two words": lambda: self.short(2),
        }
        found = []
        for name, questions in made.items():
            self.random.seed(name)
            chosen = questions()
            self.random.shuffle(chosen)
            if len(chosen) >= FEWEST_QUESTIONS:
                found.append(Task(name, chosen[:MOST_QUESTIONS], subjects=not name.startswith("subject")))
        return found

    def subjects(self) -> list[Question]:
        return [
            Question(subject, {mail.message_id: 1})
            for mail in self.mails
            if len((subject := _bare_subject(mail)).split()) >= 3 and len(mail.new_text()) > 100
        ]

    def topics(self) -> list[Question]:
        threads: defaultdict[str, list[Message]] = defaultdict(list)
        for mail in self.mails:
            threads[mail.thread_id].append(mail)
        first_mails = {id: min(some, key=lambda mail: mail.date or 0.0) for id, some in threads.items()}
        return [
            Question(subject, {mail.message_id: 1 for mail in threads[id]})
            for id, first in first_mails.items()
            if 3 <= len(threads[id]) <= 40 and len((subject := _bare_subject(first)).split()) >= 3
        ]

    def replies(self) -> list[Question]:
        """What a mail asks, or else says, finds the mails that answer it, which quote it or not."""
        answers: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for mail in self.mails:
            if mail.references:
                answers[mail.references[-1]][mail.message_id] = 1
        found = []
        for id, sentences in self.sentences.items():
            if id in answers and sentences:
                asking = [one for one in sentences if one.endswith("?")]
                found.append(Question(self.random.choice(asking or sentences), answers[id], besides=id))
        return found

    def whole_sentences(self) -> list[Question]:
        written: defaultdict[str, set[str]] = defaultdict(set)
        for id, sentences in self.sentences.items():
            for one in sentences:
                written[one].add(id)
        return [Question(one, dict.fromkeys(ids, 1)) for one, ids in written.items() if len(ids) == 1]

    def half_sentences(self) -> list[Question]:
        found = []
        for whole in self.whole_sentences():
            remembered = [word for word in whole.text.split() if self.random.random() < SHARE_OF_WORDS]
            if len(remembered) >= 3:
                found.append(Question(" ".join(remembered), whole.grades))
        return found

    def people(self) -> list[Question]:
        mails: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for mail in self.mails:
            name = parseaddr(mail.author)[0]
            if " " in name:
                mails[name][mail.message_id] = 1
        return [Question(name, some) for name, some in mails.items() if len(some) >= 3]

    def message_ids(self) -> list[Question]:
        return [Question(mail.message_id, {mail.message_id: 1}) for mail in self.mails]

    def names(self, pattern: re.Pattern[str], fewest: int, most: int) -> list[Question]:
        """Names of a form that some mails have; a mail with the name in its subject is better."""
        having: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for mail in self.mails:
            for name in pattern.findall(self.texts[mail.message_id]):
                having[name][mail.message_id] = TITLE_GRADE if name in mail.subject else TEXT_GRADE
        return [Question(name, some) for name, some in sorted(having.items()) if fewest <= len(some) <= most]

    def neighbours(self, form: str = "{}") -> list[Question]:
        """Three words that stand next to each other in some mails."""
        words = {id: _TYPED_WORD.findall(text.lower()) for id, text in self.texts.items()}
        having: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for id, some in words.items():
            for three in zip(some, some[1:], some[2:], strict=False):
                having[" ".join(three)][id] = 1
        written = sorted(
            {
                " ".join(three)
                for sentences in self.sentences.values()
                for one in sentences
                for three in _triples(_TYPED_WORD.findall(one.lower()))
            }
        )
        return [Question(form.format(one), having[one]) for one in written if 2 <= len(having[one]) <= 20]

    def short(self, count: int) -> list[Question]:
        """Words of a subject; mails that have all of them in the subject are better."""
        in_title, in_text = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for mail in self.mails:
            for word in _WORD.findall(mail.subject.lower()):
                in_title[word].add(mail.message_id)
            for word in _WORD.findall(self.texts[mail.message_id].lower()):
                in_text[word].add(mail.message_id)
        most = max(10, len(self.mails) // 10)
        found = {}
        for mail in self.mails:
            subject = _bare_subject(mail).lower()
            words = [word for word in dict.fromkeys(_WORD.findall(subject)) if word not in _COMMON]
            telling = [word for word in words if 3 <= len(in_text[word]) <= most]
            if len(telling) >= count:
                chosen = self.random.sample(telling, count)
                grades = dict.fromkeys(set.intersection(*(in_text[word] for word in chosen)), TEXT_GRADE)
                grades |= dict.fromkeys(set.intersection(*(in_title[word] for word in chosen)), TITLE_GRADE)
                found[frozenset(chosen)] = Question(" ".join(chosen), grades)
        return list(found.values())


def _bare_subject(mail: Message) -> str:
    return _PREFIX.sub("", mail.subject)


def _sentences(mail: Message) -> list[str]:
    """Return the sentences of 8 to 30 words that the author wrote, without patches and trailers."""
    found = []
    for paragraph in re.split(r"\n\s*\n", _PATCH.split(mail.new_text(), maxsplit=1)[0]):
        if not _TRAILER.search(paragraph):
            sentences = _SENTENCE_END.split(" ".join(paragraph.split()))
            found += [one for one in sentences if 8 <= len(one.split()) <= 30 and one[-1] in ".!?"]
    return found


def _triples(words: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    """Return neighbouring words, all of letters, of which at most one is common."""
    for three in zip(words, words[1:], words[2:], strict=False):
        if all(map(str.isalpha, three)) and sum(word in _COMMON or len(word) < 3 for word in three) <= 1:
            yield three
