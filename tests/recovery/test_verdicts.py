"""What a failure group looks like follows from its evidence, and the verdict says from which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from onward.model.ledger_views import FailureGroup
from onward.ops.text.diagnosis import diagnosis_sentences
from onward.recovery.diagnosis import (
    Cause,
    Diagnosis,
    Evidence,
    Finding,
    FindingKind,
    Opening,
    Version,
    diagnose,
    evidence_of,
)
from onward.testing import Simulation
from tests.support.page_app import DAY, HOUR, MINUTE, Page, PagesFound, bring_apart, new_app, statuses

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
    kind: Cause
    finding: Finding


CASES = (
    Case(
        "a bad upload long after a deploy, while many others go well",
        Evidence(
            group(documents=10, affected=10, processed_now=600),
            versions=(OLD, replace(NEW, first_seen=NOON - 6 * 3600.0)),
        ),
        Cause.UNCLEAR,
        Finding(FindingKind.LOOK_FOR_COMMON),
    ),
    Case(
        "an error of the program on one customer's documents, while many others go well",
        Evidence(
            group(documents=40, affected=40, error_type="KeyError", place="shop:total", processed_now=400),
            versions=(replace(OLD, last_seen=NOON + DAY),),
        ),
        Cause.UNCLEAR,
        Finding(FindingKind.LOOK_FOR_COMMON),
    ),
    Case(
        "a deploy that breaks some documents at once, while many others go well",
        Evidence(group(documents=10, affected=10, processed_now=600), versions=(OLD, NEW)),
        Cause.BUG,
        Finding(FindingKind.NEW_VERSION, names=("2.0", "1.0"), seconds=300.0),
    ),
    Case(
        "a dependency that all failures name, and whose breaker opened",
        Evidence(
            group(kinds={"unavailable": 15, "timeout": 5}, dependencies={"model": 20}),
            openings=(OUTAGE,),
            versions=(OLD, NEW),
        ),
        Cause.DEPENDENCY,
        Finding(FindingKind.BREAKER_OPENED, 1, names=("model",), seconds=1199.0),
    ),
    Case(
        "the only dependency of a service, without a breaker that opened",
        Evidence(group(kinds={"unavailable": 20}), needs=("model",)),
        Cause.DEPENDENCY,
        Finding(FindingKind.NOT_REACHED, 20, 20),
    ),
    Case(
        "timeouts of a dependency that is down",
        Evidence(
            group(kinds={"timeout": 20}, dependencies={"model": 20}), openings=(replace(OUTAGE, closed_at=None),)
        ),
        Cause.DEPENDENCY,
        Finding(FindingKind.BREAKER_OPENED, 1, names=("model",)),
    ),
    Case(
        "a single document during an outage",
        Evidence(
            single(kinds={"unavailable": 3}, dependencies={"model": 3}), openings=(OUTAGE,), outcomes=((3, 3),)
        ),
        Cause.DEPENDENCY,
        Finding(FindingKind.POINTS_AT, 3, 1, names=("model",)),
    ),
    Case(
        "a dependency that fails for one document only",
        Evidence(single(kinds={"unavailable": 3}, dependencies={"model": 3}), outcomes=((3, 3),)),
        Cause.POISON,
        Finding(FindingKind.ONLY_THESE, 1, 3),
    ),
    Case(
        "an outage of something else at the same time",
        Evidence(
            single(kinds={"transient": 3}),
            openings=(replace(OUTAGE, dependency="other"),),
            needs=("model",),
            outcomes=((3, 3),),
        ),
        Cause.POISON,
        Finding(FindingKind.OTHERS_PROCESSED, 40),
    ),
    Case(
        "bad documents while a dependency happens to be down",
        Evidence(single(kinds={"permanent": 3}), openings=(OUTAGE,), needs=("model",), outcomes=((3, 3),)),
        Cause.POISON,
        Finding(FindingKind.ONLY_THESE, 1, 3),
    ),
    Case(
        "many documents that are refused for a while",
        Evidence(group(kinds={"rate_limited": 18, "unavailable": 2}, dependencies={"model": 20})),
        Cause.OVERLOAD,
        Finding(FindingKind.RATE_LIMITED, 18, 20),
    ),
    Case(
        "refusals are no outage, even while there is one",
        Evidence(group(kinds={"rate_limited": 20}, dependencies={"model": 20}), openings=(OUTAGE,)),
        Cause.OVERLOAD,
        Finding(FindingKind.NOT_THE_DOCUMENTS, 10),
    ),
    Case(
        "many documents that take too long",
        Evidence(group(kinds={"timeout": 20}, processed_now=101)),
        Cause.OVERLOAD,
        Finding(FindingKind.OTHERS_PROCESSED, 1),
    ),
    Case(
        "one document that always takes too long",
        Evidence(single(kinds={"timeout": 3}), outcomes=((3, 3),)),
        Cause.POISON,
        Finding(FindingKind.ONLY_THESE, 1, 3),
    ),
    Case(
        "two poison documents with the same error",
        Evidence(single(documents=2, affected=2, failures=6), outcomes=((3, 3), (3, 3))),
        Cause.POISON,
        Finding(FindingKind.ONLY_THESE, 2, 6),
    ),
    Case(
        "one document that was given up at once",
        Evidence(single(failures=1, kinds={"permanent": 1}, error_type="KeyError"), outcomes=((1, 1),)),
        Cause.POISON,
        Finding(FindingKind.ONLY_THESE, 1, 1),
    ),
    Case(
        "one document that killed its workers",
        Evidence(single(failures=1, kinds={"crash": 1}, error_type="CrashLoop"), outcomes=((1, 1),)),
        Cause.POISON,
        Finding(FindingKind.ONLY_THESE, 1, 1),
    ),
    Case(
        "an error that came with a new version",
        Evidence(group(), versions=(OLD, NEW)),
        Cause.BUG,
        Finding(FindingKind.NEW_VERSION, names=("2.0", "1.0"), seconds=300.0),
    ),
    Case(
        "an error that came with the version before the last",
        Evidence(group(versions={"2.0": 10, "2.1": 10}), versions=(OLD, NEW, Version("2.1", NOON + 1, NOON + 2))),
        Cause.BUG,
        Finding(FindingKind.NEW_VERSION, names=("2.0", "1.0"), seconds=300.0),
    ),
    Case(
        "an error of the program, with only one version",
        Evidence(group(error_type="KeyError", kinds={"permanent": 20}), versions=(NEW,)),
        Cause.BUG,
        Finding(FindingKind.PROGRAMMING_ERROR, names=("KeyError", "pages:read")),
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
        Cause.BUG,
        Finding(FindingKind.OLDER_VERSIONS_TOO, names=("1.0", "2.0")),
    ),
    Case(
        "an old group whose version is gone",
        Evidence(group(versions={"0.9": 20}, affected=0), versions=(OLD, NEW)),
        Cause.UNCLEAR,
        Finding(FindingKind.VERSION_FORGOTTEN, names=("0.9",)),
    ),
    Case(
        "a plain error across two versions",
        Evidence(group(versions={"1.0": 10, "2.0": 10}), versions=(OLD, NEW)),
        Cause.UNCLEAR,
        Finding(FindingKind.NO_NEW_VERSION, names=("1.0", "2.0")),
    ),
    Case(
        "a plain error with only one version",
        Evidence(group(), versions=(NEW,)),
        Cause.UNCLEAR,
        Finding(FindingKind.ONLY_VERSION, names=("2.0",)),
    ),
    Case(
        "an older version that never did anything",
        Evidence(group(processed_before=0, processed_now=0), versions=(OLD, NEW)),
        Cause.UNCLEAR,
        Finding(FindingKind.FAILURE_KINDS, 20, 10, counts=(("transient", 20),)),
    ),
    Case(
        "one document, and no other to compare it with",
        Evidence(single(processed_now=100), outcomes=((3, 3),)),
        Cause.UNCLEAR,
        Finding(FindingKind.NO_OTHERS),
    ),
    Case(
        "one document that also fails in other ways",
        Evidence(single(), outcomes=((3, 5),)),
        Cause.UNCLEAR,
        Finding(FindingKind.NOT_EVERY_TRY),
    ),
    Case(
        "one event of a service that finishes no documents",
        Evidence(single(collection=None, processed_before=0, processed_now=0, affected=0, dead_letters=1)),
        Cause.UNCLEAR,
        Finding(FindingKind.NO_OTHERS, names=("reading",)),
    ),
    Case(
        "one document that has healed",
        Evidence(single(affected=0)),
        Cause.UNCLEAR,
        Finding(FindingKind.NONE_AFFECTED),
    ),
    Case(
        "four documents",
        Evidence(group(documents=4, affected=4), versions=(OLD, NEW)),
        Cause.UNCLEAR,
        Finding(FindingKind.BETWEEN, 4),
    ),
    Case(
        "failures that point at two dependencies",
        Evidence(group(kinds={"unavailable": 20}, dependencies={"model": 10, "index": 10})),
        Cause.UNCLEAR,
        Finding(FindingKind.SEVERAL_DEPENDENCIES, names=("index", "model")),
    ),
    Case(
        "a service that declares nothing it needs",
        Evidence(group(kinds={"unavailable": 20}), versions=(OLD, NEW)),
        Cause.UNCLEAR,
        Finding(FindingKind.NO_DEPENDENCY, names=("reading",)),
    ),
    Case(
        "a service that needs two things, and does not say which failed",
        Evidence(group(kinds={"unavailable": 20}), needs=("model", "index")),
        Cause.UNCLEAR,
        Finding(FindingKind.SERVICE_NEEDS_SEVERAL, names=("model", "index")),
    ),
    Case(
        "a group of which nothing is known",
        Evidence(group(kinds={}, versions={})),
        Cause.UNCLEAR,
        Finding(FindingKind.FAILURE_KINDS, 20, 10),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_from_its_evidence(case: Case) -> None:
    verdict = diagnose(case.evidence)
    assert verdict.kind is case.kind, verdict.findings
    assert case.finding in verdict.findings
    assert all(diagnosis_sentences(verdict))


# -- the same, from a store in which it happened


def verdict_in(world: Simulation) -> Diagnosis:
    """The verdict on the largest group."""
    found = max(world.store.failure_groups(), key=lambda one: (one.documents, one.failures))
    return diagnose(evidence_of(world.store, found))


def test_a_poison_document_is_told_from_what_the_store_holds() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Any) -> None:
        if page.id == "bad":
            raise ValueError(f"cannot read {page.id!r}")

    with Simulation(app) as world:
        bring_apart(world, "bad", "a", "b", "c")
        world.run_for(MINUTE)
        assert verdict_in(world) == Diagnosis(
            Cause.POISON,
            (Finding(FindingKind.ONLY_THESE, 1, 3), Finding(FindingKind.OTHERS_PROCESSED, 3)),
        )
        (found,) = world.store.failure_groups()
        assert found.place.endswith("read")
        assert (found.failures, found.kinds) == (3, {"transient": 3})
        world.run_for(DAY)
        assert statuses(world, "bad") == {"bad": "failed_max_retries"}
        assert verdict_in(world).kind is Cause.POISON, "that it was given up for good was no try"


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
    assert verdict.kind is Cause.DEPENDENCY
    opened = next(one for one in verdict.findings if one.kind is FindingKind.BREAKER_OPENED)
    assert (opened.names, opened.seconds) == (("model",), None), "it is still open"


def test_a_bug_is_told_from_what_the_store_holds() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Any) -> None:
        raise KeyError(page.id)

    with Simulation(app) as world:
        bring_apart(world, *"abcdefg")
        world.run_for(HOUR)
        verdict = verdict_in(world)
    assert verdict.kind is Cause.BUG
    assert Finding(FindingKind.DOCUMENTS_FAILED, 7, 7) in verdict.findings
