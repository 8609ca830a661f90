"""How many documents there are is known without counting, and always right."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward.backend_urls import open_store
from onward.model.ledger import DeadLettered, InFailedBatch, InputStatus, Processed, SettlementPart
from tests.support.store_pages import Clock, Stage, failure, page, word

SOURCES = (None, "s", "t")


def _counted(stage: Stage, source: str | None = None) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for collection in ("pages", "words"):
        states = stage.store.states(collection, source=source, limit=10_000)
        if states:
            found[collection] = dict(Counter(str(one.status) for one in states))
    return found


def test_they_follow_every_step_of_a_document(stage: Stage) -> None:
    store = stage.store
    assert store.document_counts() == {}
    stage.bring("a", "b", source="s")
    assert store.document_counts("s") == {"pages": {"pending": 2}}
    stage.settle(
        stage.take(), Processed(["a"]), DeadLettered(["b"], failure=failure(), final=True), adds=[word("w")]
    )
    assert store.document_counts("s") == {"pages": {"processed": 1, "failed": 1}, "words": {"processed": 1}}
    store.reset("pages", "b")
    assert store.document_counts("s")["pages"] == {"processed": 1, "pending": 1}
    store.discard("pages", "b")
    assert store.document_counts("s")["pages"] == {"processed": 1, "discarded": 1}
    store.replace_document(page("a", "new"))
    assert store.document_counts("s")["pages"] == {"pending": 1, "discarded": 1}
    store.forget("s")
    assert store.document_counts() == store.document_counts("s") == {}


def test_each_source_has_its_own_and_together_they_are_all(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.bring("b", source="t")
    stage.bring("c")
    assert stage.store.document_counts("s") == stage.store.document_counts("t") == {"pages": {"pending": 1}}
    assert stage.store.document_counts() == {"pages": {"pending": 3}}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["bring", "settle", "replace", "reset", "discard", "forget", "requeue", "remove"]),
        st.sampled_from("abcd"),
        st.integers(0, 4),
    ),
    max_size=25,
)


@given(STEPS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_they_equal_a_count_after_any_steps(steps: list[tuple[str, str, int]]) -> None:
    store = open_store("sqlite://:memory:", Clock())
    stage = Stage(store, Clock())
    try:
        for step, id, number in steps:
            _take(stage, step, id, number)
            for source in SOURCES:
                assert store.document_counts(source) == _counted(stage, source)
    finally:
        store.close()


def _take(stage: Stage, step: str, id: str, number: int) -> None:
    store = stage.store
    match step:
        case "bring":
            stage.bring(id, source=SOURCES[number % 3])
        case "settle" | "remove":
            for delivery in stage.claim(limit=1):
                ready = [one.id for one in delivery.inputs if one.status is InputStatus.READY]
                fates: list[SettlementPart] = [
                    Processed(ready),
                    DeadLettered(ready, failure=failure()),
                    DeadLettered(ready, failure=failure(), final=True),
                    InFailedBatch(ready, failure()),
                ]
                parent = f"pages/{ready[0]}" if ready else None
                removes = [("pages", id)] if step == "remove" and id not in ready else []
                adds = [word(f"w{number}", parent=parent), page("abcd"[number % 4], failure=failure())]
                stage.settle(delivery, fates[number % 4], adds=adds, removes=removes)
        case "replace":
            store.replace_document(page(id, f"text {number}", source=SOURCES[number % 3]))
        case "reset":
            store.reset("pages", id)
        case "discard":
            store.discard("pages", id)
        case "forget":
            store.forget(SOURCES[1 + number % 2] or "")
        case "requeue":
            for letter in store.dead_letters()[:1]:
                store.requeue(letter.row)
