"""What a failure group looks like follows from its evidence, and the verdict says from which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from onward.model.recovery import FailureGroup
from onward.recovery.verdicts import Evidence, Opening, Suspicion, Verdict, Version, evidence_of, judge
from onward.testing import Simulation
from tests.runtime.cast import DAY, HOUR, MINUTE, Page, PagesFound, bring_apart, new_app

NOON = 1_800_000_000.0


def group(**more: Any) -> FailureGroup:
    """Ten documents, each of which failed twice with an error that says nothing."""
    usual: dict[str, Any] = {
        "fingerprint": "f00d",
        "service": "reading",
        "collection": "pages",
        "error_type": "ValueError",
        "message": "it broke",
        "place": "pages:read",
        "traceback": "",
        "first_seen": NOON,
        "last_seen": NOON + HOUR,
        "failures": 20,
        "documents": 10,
        "kinds": {"transient": 20},
        "versions": {"2.0": 20},
        "processed_before": 100,
        "processed_now": 100,
        "affected": 10,
    }
    usual |= more
    usual["kinds"] = more.get("kinds", {"transient": usual["failures"]})
    return FailureGroup(**usual)


def single(**more: Any) -> FailureGroup:
    """One document that failed three times, while 40 others were processed."""
    usual = {"documents": 1, "affected": 1, "failures": 3, "versions": {"2.0": 3}, "processed_now": 140}
    return group(**usual | more)


NEW, OLD = Version("2.0", NOON - 5 * MINUTE, NOON + DAY), Version("1.0", NOON - 30 * DAY, NOON - 5 * MINUTE)
OUTAGE = Opening("model", NOON + 1, NOON + 20 * MINUTE, "refused")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    evidence: Evidence
    kind: Suspicion
    says: str


CASES = (
    Case(
        "a bad upload long after a deploy, while many others go well",
        Evidence(
            group(documents=10, affected=10, processed_now=600),
            versions=(OLD, replace(NEW, first_seen=NOON - 6 * 3600.0)),
        ),
        Suspicion.UNCLEAR,
        "Look for what those that fail have in common.",
    ),
    Case(
        "an error of the program on one customer's documents, while many others go well",
        Evidence(
            group(documents=40, affected=40, error_type="KeyError", place="shop:total", processed_now=400),
            versions=(replace(OLD, last_seen=NOON + DAY),),
        ),
        Suspicion.UNCLEAR,
        "Look for what those that fail have in common.",
    ),
    Case(
        "a deploy that breaks some documents at once, while many others go well",
        Evidence(group(documents=10, affected=10, processed_now=600), versions=(OLD, NEW)),
        Suspicion.BUG,
        "never happened under version 1.0",
    ),
    Case(
        "a dependency that all failures name, and whose breaker opened",
        Evidence(
            group(kinds={"unavailable": 15, "timeout": 5}, dependencies={"model": 20}),
            openings=(OUTAGE,),
            versions=(OLD, NEW),
        ),
        Suspicion.DEPENDENCY,
        "The breaker of model opened in that time, for 20 min.",
    ),
    Case(
        "the only dependency of a service, without a breaker that opened",
        Evidence(group(kinds={"unavailable": 20}), needs=("model",)),
        Suspicion.DEPENDENCY,
        "It was not reached or could not answer in 20 of 20 failures.",
    ),
    Case(
        "timeouts of a dependency that is down",
        Evidence(
            group(kinds={"timeout": 20}, dependencies={"model": 20}), openings=(replace(OUTAGE, closed_at=None),)
        ),
        Suspicion.DEPENDENCY,
        "The breaker of model opened in that time, and is still open.",
    ),
    Case(
        "a single document during an outage",
        Evidence(
            single(kinds={"unavailable": 3}, dependencies={"model": 3}), openings=(OUTAGE,), outcomes=((3, 3),)
        ),
        Suspicion.DEPENDENCY,
        "All 3 failures point at model, on 1 document.",
    ),
    Case(
        "a dependency that fails for one document only",
        Evidence(single(kinds={"unavailable": 3}, dependencies={"model": 3}), outcomes=((3, 3),)),
        Suspicion.POISON,
        "Only 1 document fails so, and in every one of 3 tries.",
    ),
    Case(
        "an outage of something else at the same time",
        Evidence(
            single(kinds={"transient": 3}),
            openings=(replace(OUTAGE, dependency="other"),),
            needs=("model",),
            outcomes=((3, 3),),
        ),
        Suspicion.POISON,
        "Since it began, 40 others of the same service have been processed.",
    ),
    Case(
        "bad documents while a dependency happens to be down",
        Evidence(single(kinds={"permanent": 3}), openings=(OUTAGE,), needs=("model",), outcomes=((3, 3),)),
        Suspicion.POISON,
        "Only 1 document fails so",
    ),
    Case(
        "many documents that are refused for a while",
        Evidence(group(kinds={"rate_limited": 18, "unavailable": 2}, dependencies={"model": 20})),
        Suspicion.OVERLOAD,
        "It was refused for too many requests in 18 of 20 failures.",
    ),
    Case(
        "refusals are no outage, even while there is one",
        Evidence(group(kinds={"rate_limited": 20}, dependencies={"model": 20}), openings=(OUTAGE,)),
        Suspicion.OVERLOAD,
        "10 documents met this",
    ),
    Case(
        "many documents that take too long",
        Evidence(group(kinds={"timeout": 20}, processed_now=101)),
        Suspicion.OVERLOAD,
        "Since it began, 1 other of the same service has been processed.",
    ),
    Case(
        "one document that always takes too long",
        Evidence(single(kinds={"timeout": 3}), outcomes=((3, 3),)),
        Suspicion.POISON,
        "in every one of 3 tries",
    ),
    Case(
        "two poison documents with the same error",
        Evidence(single(documents=2, affected=2, failures=6), outcomes=((3, 3), (3, 3))),
        Suspicion.POISON,
        "Only 2 documents fail so, and in every one of 6 tries.",
    ),
    Case(
        "one document that was given up at once",
        Evidence(single(failures=1, kinds={"permanent": 1}, error_type="KeyError"), outcomes=((1, 1),)),
        Suspicion.POISON,
        "in the only try",
    ),
    Case(
        "one document that killed its workers",
        Evidence(single(failures=1, kinds={"crash": 1}, error_type="CrashLoop"), outcomes=((1, 1),)),
        Suspicion.POISON,
        "Only 1 document",
    ),
    Case(
        "an error that came with a new version",
        Evidence(group(), versions=(OLD, NEW)),
        Suspicion.BUG,
        "It began 5 min after version 2.0 came, and never happened under version 1.0. "
        "Before it began, 100 documents went well.",
    ),
    Case(
        "an error that came with the version before the last",
        Evidence(group(versions={"2.0": 10, "2.1": 10}), versions=(OLD, NEW, Version("2.1", NOON + 1, NOON + 2))),
        Suspicion.BUG,
        "after version 2.0 came",
    ),
    Case(
        "an error of the program, with only one version",
        Evidence(group(error_type="KeyError", kinds={"permanent": 20}), versions=(NEW,)),
        Suspicion.BUG,
        "KeyError is an error of the program, and all of them come from pages:read.",
    ),
    Case(
        "200 KeyErrors across two versions",
        Evidence(
            group(
                error_type="KeyError",
                documents=200,
                failures=200,
                kinds={"permanent": 200},
                versions={"1.0": 120, "2.0": 80},
            ),
            versions=(OLD, NEW),
        ),
        Suspicion.BUG,
        "It happens under versions 1.0 and 2.0: an older one would not help.",
    ),
    Case(
        "an old group whose version is gone",
        Evidence(group(versions={"0.9": 20}, affected=0), versions=(OLD, NEW)),
        Suspicion.UNCLEAR,
        "Version 0.9 is not known any more, so nothing can be compared with it.",
    ),
    Case(
        "a plain error across two versions",
        Evidence(group(versions={"1.0": 10, "2.0": 10}), versions=(OLD, NEW)),
        Suspicion.UNCLEAR,
        "It happens under versions 1.0 and 2.0, so it did not come with a newer one.",
    ),
    Case(
        "a plain error with only one version",
        Evidence(group(), versions=(NEW,)),
        Suspicion.UNCLEAR,
        "Only version 2.0 was ever at work: nothing can be compared with it.",
    ),
    Case(
        "an older version that never did anything",
        Evidence(group(processed_before=0, processed_now=0), versions=(OLD, NEW)),
        Suspicion.UNCLEAR,
        "20 failures of 10 documents: 20 transient.",
    ),
    Case(
        "one document, and no other to compare it with",
        Evidence(single(processed_now=100), outcomes=((3, 3),)),
        Suspicion.UNCLEAR,
        "Whether others are processed would show if it is the document or all: none was since.",
    ),
    Case(
        "one document that also fails in other ways",
        Evidence(single(), outcomes=((3, 5),)),
        Suspicion.UNCLEAR,
        "It did not fail in every try, so the document alone is not to blame.",
    ),
    Case(
        "one event of a service that finishes no documents",
        Evidence(single(collection=None, processed_before=0, processed_now=0, affected=0, dead_letters=1)),
        Suspicion.UNCLEAR,
        "the service reading finishes none",
    ),
    Case(
        "one document that has healed",
        Evidence(single(affected=0)),
        Suspicion.UNCLEAR,
        "None of them fails any more.",
    ),
    Case(
        "four documents",
        Evidence(group(documents=4, affected=4), versions=(OLD, NEW)),
        Suspicion.UNCLEAR,
        "4 documents are too many for chance and too few for a bug.",
    ),
    Case(
        "failures that point at two dependencies",
        Evidence(group(kinds={"unavailable": 20}, dependencies={"model": 10, "index": 10})),
        Suspicion.UNCLEAR,
        "They point at several dependencies: index, model.",
    ),
    Case(
        "a service that declares nothing it needs",
        Evidence(group(kinds={"unavailable": 20}), versions=(OLD, NEW)),
        Suspicion.UNCLEAR,
        "The service reading declares no dependency that they could point at.",
    ),
    Case(
        "a service that needs two things, and does not say which failed",
        Evidence(group(kinds={"unavailable": 20}), needs=("model", "index")),
        Suspicion.UNCLEAR,
        "The service needs model and index, and no failure says which one it was.",
    ),
    Case(
        "a group of which nothing is known",
        Evidence(group(kinds={}, versions={})),
        Suspicion.UNCLEAR,
        "of no known kind",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_from_its_evidence(case: Case) -> None:
    verdict = judge(case.evidence)
    assert verdict.kind is case.kind, verdict.sentences
    assert case.says in " ".join(verdict.sentences)


# -- the same, from a store in which it happened


def verdict_in(world: Simulation) -> Verdict:
    """The verdict on the largest group."""
    found = max(world.store.failure_groups(), key=lambda one: (one.documents, one.failures))
    return judge(evidence_of(world.store, found))


def test_a_poison_document_is_told_from_what_the_store_holds() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Any) -> None:
        if page.id == "bad":
            raise ValueError(f"cannot read {page.id!r}")

    with Simulation(app) as world:
        bring_apart(world, "bad", "a", "b", "c")
        world.run_for(MINUTE)
        assert verdict_in(world) == Verdict(
            Suspicion.POISON,
            (
                "Only 1 document fails so, and in every one of 3 tries.",
                "Since it began, 3 others of the same service have been processed.",
            ),
        )
        (found,) = world.store.failure_groups()
        assert found.place.endswith("read")
        assert (found.failures, found.kinds) == (3, {"transient": 3})


def test_an_outage_is_told_from_what_the_store_holds() -> None:
    app = new_app()
    app.dependency("model")

    @app.service("reading", on=PagesFound, finishes=Page, needs="model")
    def read(page: Page, work: Any) -> None:
        raise ConnectionRefusedError("no route to host")

    with Simulation(app) as world:
        bring_apart(world, *"abcdef")
        world.run_for(HOUR)
        verdict = verdict_in(world)
    assert verdict.kind is Suspicion.DEPENDENCY
    assert "The breaker of model opened in that time, and is still open." in " ".join(verdict.sentences)


def test_a_bug_is_told_from_what_the_store_holds() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Any) -> None:
        raise KeyError(page.id)

    with Simulation(app) as world:
        bring_apart(world, *"abcdefg")
        world.run_for(HOUR)
        verdict = verdict_in(world)
    assert verdict.kind is Suspicion.BUG
    assert "7 documents failed so, 7 times in all." in verdict.sentences
