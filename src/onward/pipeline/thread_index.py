"""Threads of mails in the store: find the thread of a new mail, and detect stored threads that are wrong.

Each mail has keys by which others find its thread, with its node and those of missing mails that it was the first
to refer to: `linked` if the mail says that the node has a parent, `head` if it does not. So a node is found by a
key or two, however long its thread is. Keys that are numbers order the mails of a subject by date.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from onward import App
from onward.pipeline.documents import Message
from onward.pipeline.mail_threads import MAX_GAP_SECONDS, ThreadMail, find_threads, node_of, predecessors

PAGE = 500  # documents or values of one query


class Moved(NamedTuple):
    """What is to change in a message."""

    thread: str
    placeholders: list[str]


class Placed(NamedTuple):
    """A stored mail with its thread."""

    id: str
    thread: str
    date: float


@dataclass(slots=True)
class _Nodes:
    """Stored nodes, each with the threads of the mails that have it as a key."""

    threads: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    linked: set[str] = field(default_factory=set)  # those that have a parent

    def add(self, mail: ThreadMail, thread: str) -> list[str]:
        """Add the nodes of a mail; return those that were missing, or not known to have a parent."""
        linked = set(mail.linked)
        missing = [it for it in mail.nodes if not self.threads[it] or (it in linked and it not in self.linked)]
        for node in missing:
            self.threads[node].add(thread)
        self.linked |= linked
        return missing


@dataclass(slots=True)
class RepairPlan:
    """Threads that were compared, and what is to change so that they are right."""

    threads: set[str] = field(default_factory=set)  # as they are, and as they will be
    changes: dict[str, Moved] = field(default_factory=dict)  # by the id of the message
    roots: dict[str, str] = field(default_factory=dict)  # the Message-ID of the first mail of each thread


class ThreadIndex:
    """Reads the keys of mails."""

    def __init__(self, app: App) -> None:
        self._app = app

    def place(self, messages: Sequence[Message]) -> tuple[list[Message], dict[str, str]]:
        """Return new messages with their threads, by what is stored and by each other; and Message-IDs by node.

        Others may be stored at the same time. `diverged` looks at them after the commit.
        """
        mails = {message.id: mail for message, mail in _mails(messages)}
        nodes = self._nodes({node for mail in mails.values() for node in mail.nodes})
        together, near = find_threads(mails.values()), predecessors(mails.values())
        stored: defaultdict[str, set[str]] = defaultdict(set)
        for mail in mails.values():
            for node in mail.nodes:
                stored[together[mail.id]] |= nodes.threads[node]
            if mail.lone and mail.id not in near and (before := self._before(mail.subject, mail.date)) is not None:
                stored[together[mail.id]].add(before.thread)
        names: dict[str, str] = {}
        placed: list[Message] = []
        for message in messages:
            if (found := mails.get(message.id)) is None:
                placed.append(message)
                continue
            names |= _names(message)
            thread = min(stored[together[message.id]], default=together[message.id])
            placeholders = [node for node in nodes.add(found, thread) if node != found.node]
            placed.append(message.model_copy(update={"thread_id": thread, "placeholders": placeholders}))
        return placed, names

    def diverged(self, messages: Sequence[Message]) -> set[str]:
        """Return the threads that may not be right, as these messages of them show."""
        mails = _mails(messages)
        found: set[str] = set()
        nodes = self._nodes(
            {node for _, mail in mails for node in mail.nodes} | {message.thread_id for message, _ in mails}
        )
        for message, mail in mails:
            thread = message.thread_id
            linked = set(mail.linked)
            for node in mail.nodes:
                if nodes.threads[node] != {thread} or (node in linked and node not in nodes.linked):
                    found |= nodes.threads[node] | {thread}
            first = mail.nodes[0]
            # Its root has a parent; or there is another mail without a parent, which is the root by the order.
            has_parent = thread in nodes.linked and not (mail.lone and mail.node == thread)
            if has_parent or (first < thread and first not in nodes.linked):
                found.add(thread)
        for message, mail in self._with_replies(mails):
            for other in self._joined_by_subject(mail):
                if other.thread != message.thread_id:
                    found |= {other.thread, message.thread_id}
        return found

    def plan(self, threads: Iterable[str]) -> RepairPlan:
        """Compare these threads, and all that belong to them; return what is to change."""
        plan = RepairPlan()
        current: dict[str, tuple[ThreadMail, str, list[str]]] = {}  # with thread and placeholders
        nodes = _Nodes()
        names: dict[str, str] = {}
        waiting = set(threads)
        while waiting:
            plan.threads |= waiting
            loaded: list[tuple[Message, ThreadMail]] = []
            for page in self._messages(waiting):
                for message, mail in _mails(page):
                    current[mail.id] = (mail, message.thread_id, message.placeholders)
                    names |= _names(message)
                    loaded.append((message.model_copy(update={"body": ""}), mail))
            new = self._nodes({node for _, mail in loaded for node in mail.nodes})
            nodes.threads.update(new.threads)
            nodes.linked |= new.linked
            waiting = {thread for threads in new.threads.values() for thread in threads}
            for _, mail in self._with_replies(loaded):
                waiting |= {other.thread for other in self._joined_by_subject(mail)}
            waiting -= plan.threads
        right = find_threads(mail for mail, *_ in current.values())
        plan.threads.update(right.values())
        plan.roots = {thread: names[thread] for thread in right.values() if thread in names}
        for id in sorted(current):
            mail, thread, placeholders = current[id]
            missing = nodes.add(mail, right[id])  # keys that a removed mail has had
            if missing or thread != right[id]:
                kept = [*placeholders, *(node for node in missing if node != mail.node)]
                plan.changes[id] = Moved(right[id], list(dict.fromkeys(kept)))
        return plan

    # -- reading

    def _nodes(self, nodes: Collection[str]) -> _Nodes:
        found = _Nodes()
        for page in _pages(sorted(nodes)):
            for key in ("head", "linked"):
                for node, thread in self._app.store.related(Message, key, page, "thread_id"):
                    found.threads[str(node)].add(str(thread))
                    if key == "linked":
                        found.linked.add(str(node))
        return found

    def _messages(self, threads: Collection[str]) -> Iterator[list[Message]]:
        store = self._app.store
        for page in _pages(sorted(threads)):
            ids = [row.id for row in store.find(Message, "thread_id", page)]
            for some in _pages(ids):
                yield store.get_many(Message, some)

    def _with_replies(self, mails: Sequence[tuple[Message, ThreadMail]]) -> Iterator[tuple[Message, ThreadMail]]:
        """Yield the mails whose subject is that of a reply without references."""
        subjects = sorted({mail.subject for _, mail in mails if mail.subject})
        found: set[str] = set()
        for page in _pages(subjects):
            found |= {str(row.value) for row in self._app.store.find(Message, "lone", page)}
        return (pair for pair in mails if pair[1].subject in found)

    def _joined_by_subject(self, mail: ThreadMail) -> Iterator[Placed]:
        """Yield the mail that this one replies to by its subject, and the replies to it by theirs."""
        if mail.lone and (before := self._before(mail.subject, mail.date)) is not None:
            yield before
        for reply in self._next(f"lone {mail.subject}", -mail.date):
            if -reply.date - mail.date <= MAX_GAP_SECONDS:
                last = self._before(mail.subject, -reply.date)
                if last is not None and last.id == mail.id:
                    yield reply

    def _before(self, subject: str, date: float) -> Placed | None:
        """Return the mail that a reply of this date and subject belongs to."""
        found = min(self._next(f"subject {subject}", date), default=None)
        return found if found is not None and date - found.date <= MAX_GAP_SECONDS else None

    def _next(self, key: str, below: float) -> Iterator[Placed]:
        """Yield the mails with the highest value of a key that is below this one."""
        store = self._app.store
        for value in store.key_values_below(key, below, limit=1):
            ids = [row.id for row in store.find(Message, key, [value])]
            for id, thread in store.keys_of(Message, "thread_id", ids).items():
                yield Placed(id, str(thread), value)


def _mails(messages: Iterable[Message]) -> list[tuple[Message, ThreadMail]]:
    return [(message, mail) for message in messages if (mail := message.thread_mail()) is not None]


def _names(message: Message) -> dict[str, str]:
    """Return the Message-IDs that a mail has or names, by their nodes."""
    named = (*message.references, message.message_id or message.id)
    return {node_of(message.source, name): name for name in named}


def _pages(values: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(values)
    while page := list(islice(rest, PAGE)):
        yield page
