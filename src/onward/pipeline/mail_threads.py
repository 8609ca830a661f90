"""The threads of a set of mails, by their references; by their subjects only where a reply has none.

Threads are a function of the mails alone, not of the order in which they came. Two mails belong together if a
chain of references leads from one to the other, over missing mails, too. Nothing is taken out of a reference list:
a link that would close a loop, or give a mail a second parent, joins all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from onward import Document
from onward.pipeline.subjects import compared_subject, is_reply

MAX_GAP_SECONDS = 14 * 86_400.0
"""A reply without references belongs to the last mail with its subject, if that is not older than this.

Most replies come within days. A subject that returns later ("Minutes", "Release 2.1") is another conversation.
"""


@lru_cache(maxsize=16_384)
def node_of(source: str, message_id: str) -> str:
    """Return the id of the thread whose first mail has this Message-ID; it stands for that mail, stored or not."""
    return Document.make_id("thread", source, message_id)


class ThreadMail(NamedTuple):
    """The fields that decide the thread of a mail. Mails are given as nodes, see `node_of`."""

    id: str  # of its message
    nodes: tuple[str, ...]  # the mails that it refers to, oldest first, and itself
    subject: str = ""  # a hash of its source and subject; empty if it has no date or no subject
    date: float = 0.0
    lone: bool = False  # a reply that refers to no mail

    @property
    def node(self) -> str:
        return self.nodes[-1]

    @property
    def heads(self) -> tuple[str, ...]:
        """Its first node: this mail does not say that it has a parent."""
        return () if self.lone else self.nodes[:1]

    @property
    def linked(self) -> tuple[str, ...]:
        """The nodes that have a parent, as this mail says."""
        return self.nodes if self.lone else self.nodes[1:]

    def key_values(self, placeholders: Sequence[str]) -> list[tuple[str, str | float]]:
        """Return the keys of its message: of its own node, of the nodes that it stands for, and of its subject.

        A number is found in order, see `ThreadIndex`: mails of a subject by date, replies backwards.
        """
        kept = {self.node, *placeholders}
        pairs: list[tuple[str, str | float]] = [("head", node) for node in self.heads if node in kept]
        pairs += [("linked", node) for node in self.linked if node in kept]
        if self.subject:
            pairs.append((f"subject {self.subject}", self.date))
        if self.lone:
            pairs += [("lone", self.subject), (f"lone {self.subject}", -self.date)]
        return pairs


def thread_mail(
    *,
    id: str,
    source: str,
    message_id: str,
    references: Sequence[str],
    subject: str,
    date: float | None,
    addresses: Iterable[str] = (),
) -> ThreadMail:
    """Return what decides the thread of a mail; `addresses` are those of its author and recipients.

    Some programs name a person in In-Reply-To: `<ada@harbour.example>`. That would join all replies to her.
    """
    people = {address.lower() for address in addresses}
    named = [one for one in references if one.lower() not in people]
    nodes = tuple(dict.fromkeys(node_of(source, one) for one in (*named, message_id or id)))
    own = node_of(source, message_id or id)
    nodes = (*(node for node in nodes if node != own), own)
    words = compared_subject(subject)
    if date is None or not words:
        return ThreadMail(id, nodes)
    key = Document.make_id("subject", source, words)
    return ThreadMail(id, nodes, key, date, lone=len(nodes) == 1 and is_reply(subject))


def predecessors(mails: Iterable[ThreadMail]) -> dict[str, ThreadMail]:
    """Return for each reply without references, by its id, the last mail before it with the same subject."""
    groups: defaultdict[str, list[ThreadMail]] = defaultdict(list)
    replies: set[str] = set()
    for mail in mails:
        if mail.subject:
            groups[mail.subject].append(mail)
            if mail.lone:
                replies.add(mail.subject)
    found: dict[str, ThreadMail] = {}
    for subject in replies:
        before: ThreadMail | None = None  # the first mail of the last time before that of `mail`
        latest: ThreadMail | None = None
        for mail in sorted(groups[subject], key=lambda one: (one.date, one.id)):
            if latest is None or mail.date > latest.date:
                before, latest = latest, mail
            if mail.lone and before is not None and mail.date - before.date <= MAX_GAP_SECONDS:
                found[mail.id] = before
    return found


def find_threads(mails: Iterable[ThreadMail]) -> dict[str, str]:
    """Return the thread of each mail, by its id.

    The id of a thread is the node of its first mail: the one that has no parent. Of several, and if all have one,
    it is the lowest node: an order that does not depend on what is known of them.
    """
    mails = list(mails)
    union = _Union()
    children: set[str] = set()  # nodes with a parent
    replies: set[str] = set()  # nodes of replies without references, whose parent is unknown
    for mail in mails:
        for node in mail.nodes:
            union.join(node, mail.node)
        children.update(mail.nodes[1:])
        if mail.lone:
            replies.add(mail.node)
    by_id = {mail.id: mail for mail in mails}
    for id, before in predecessors(mails).items():
        union.join(before.node, by_id[id].node)
        if before.node != by_id[id].node:
            children.add(by_id[id].node)
    first: dict[str, tuple[int, str]] = {}
    for node in union.parents:
        rank = (2 if node in children else 1 if node in replies else 0, node)
        top = union.find(node)
        first[top] = min(first.get(top, rank), rank)
    return {mail.id: first[union.find(mail.node)][1] for mail in mails}


class _Union:
    """Sets of nodes that are joined two at a time."""

    def __init__(self) -> None:
        self.parents: dict[str, str] = {}
        self._sizes: dict[str, int] = {}

    def find(self, node: str) -> str:
        parents = self.parents
        top = parents.setdefault(node, node)
        while (above := parents[top]) != top:
            parents[top] = parents[above]  # halves the path, so that the next call is short
            top = above
        return top

    def join(self, one: str, other: str) -> None:
        one, other = self.find(one), self.find(other)
        if one != other:
            sizes = self._sizes
            if sizes.get(one, 1) < sizes.get(other, 1):
                one, other = other, one
            self.parents[other] = one
            sizes[one] = sizes.get(one, 1) + sizes.get(other, 1)
