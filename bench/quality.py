"""Search quality: is a message found by its subject, when subjects themselves are not searched?"""

from __future__ import annotations

import random
import re

from onward import App
from onward.pipeline.documents import Message
from onward.pipeline.search import EmptyQuery, Query, rank

_PREFIX = re.compile(r"^((re|fwd?|aw)\s*:\s*|\[[^\]]*\]\s*)+", re.IGNORECASE)
QUERIES = 300


def messages_of(app: App) -> list[Message]:
    """All messages of a store."""
    found: list[Message] = []
    after = ""
    while states := app.store.states(Message, after=after, limit=500):
        after = states[-1].id
        found += app.store.get_many(Message, [state.id for state in states])
    return found


def mean_reciprocal_ranks(app: App, queries: int = QUERIES) -> dict[str, float]:
    """How high up messages are found by their subjects, by full text alone and by hybrid search."""
    asked = [
        (message, subject)
        for message in messages_of(app)
        if len((subject := _PREFIX.sub("", message.subject)).split()) >= 3 and len(message.new_text()) > 100
    ]
    random.Random(1).shuffle(asked)
    totals = {"full text": 0.0, "hybrid": 0.0}
    count = 0
    for message, subject in asked[:queries]:
        query = Query(subject)
        try:
            found = {name: rank(app, query, vectors=name == "hybrid", titles=False).ids for name in totals}
        except EmptyQuery:
            continue
        count += 1
        for name, ranked in found.items():
            position = next((n for n, hit in enumerate(ranked, start=1) if hit == message.id), None)
            totals[name] += 1 / position if position else 0.0
    return {name: total / max(count, 1) for name, total in totals.items()}
