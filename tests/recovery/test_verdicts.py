"""What a failure group looks like follows from its evidence, and the verdict says from which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from onward.model.ledger_views import FailureGroup
from onward.ops.text.diagnosis import diagnosis_sentences
from onward.recovery.diagnosis import Cause, Diagnosis, diagnose
from onward.recovery.evidence import Evidence, EvidenceReader, Opening, Trait, Version, evidence_of
from onward.recovery.findings import Finding, FindingKind
from onward.testing import Simulation
from tests.support.page_app import DAY, HOUR, MINUTE, Page, PagesFound, bring_apart, new_app, statuses

NOON = 1_800_000_000.0
NEW, OLD = Version("2.0", NOON - 5 * MINUTE, NOON + DAY), Version("1.0", NOON - 30 * DAY, NOON - 5 * MINUTE)
OUTAGE = Opening("model", NOON + 1, NOON + 20 * MINUTE, "refused")
FROM_ONE_SHOP = Trait("shop", "acme", 10, 10, 0, 60)
ONE_SHOP_CHANGED = Trait("shop", "acme", 10, 10, 8, 60, before=8)
FROM_ONE_COUNTRY = Trait("country", "tr", 10, 10, 0, 60)
LARGE = Trait("size", "more than 4000 bytes", 10, 10, 0, 60)


def evidence(
    documents: int = 10,
    kind: str = "transient",
    *,
    before: int | dict[str, int] = 100,
    during: int = 0,
    after: int = 0,
    tries: int = 2,
    recovered: int = 0,
    error_type: str = "ValueError",
    group: dict[str, Any] | None = None,
    **more: Any,
) -> Evidence:
    """Return evidence on documents that failed in each of their tries under version 2.0, after 100 successes."""
    first = {"2.0": before} if isinstance(before, int) else before
    last = first | {"2.0": first.get("2.0", 0) + during}
    usual: dict[str, Any] = {
        "fingerprint": "f00d",
        "service": "reading",
        "collection": "pages",
        "error_type": error_type,
        "message": "it broke",
        "place": "pages:read",
        "traceback": "",
        "first_seen": NOON,
        "last_seen": NOON + HOUR,
        "failures": documents * tries,
        "documents": documents,
        "kinds": {kind: documents * tries},
        "versions": {"2.0": documents * tries},
        "succeeded_before": first,
        "succeeded_at_last": last,
        "succeeded_now": last | {"2.0": last["2.0"] + after},
        "affected": documents - recovered,
    }
    more.setdefault("outcomes", ((tries, tries),) * (documents - recovered))
    return Evidence(FailureGroup(**usual | (group or {})), **more)


def deployed(
    documents: int = 10, kind: str = "transient", *, old: int = 100, good: int = 0, **more: Any
) -> Evidence:
    """Return evidence on documents that fail under a version of the last 5 minutes, after successes of 1.0."""
    more.setdefault("versions", (OLD, NEW))
    return evidence(documents, kind, before={"1.0": old}, during=good, **more)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    evidence: Evidence
    kind: Cause
    finding: Finding


F, K = Finding, FindingKind
CASES = (
    # -- the documents
    Case("one document, while others go well", evidence(1, during=40), Cause.POISON, F(K.ONLY_THESE, 1, 2)),
    Case(
        "thirty, while three times as many go well",
        evidence(30, during=90),
        Cause.POISON,
        F(K.OTHERS_PROCESSED, 90),
    ),
    Case("one, as the last of many", evidence(1, before=50), Cause.POISON, F(K.WORKED_BEFORE, 50)),
    Case(
        "from one shop",
        evidence(during=60, traits=(FROM_ONE_SHOP,)),
        Cause.POISON,
        F(K.SHARED_TRAIT, 10, 10, ("shop", "acme")),
    ),
    Case("a page that is not for us", evidence(1, "refused", during=30), Cause.POISON, F(K.ONLY_THESE, 1, 2)),
    Case(
        "a page that is always away",
        evidence(1, "unavailable", during=30, needs=("model",)),
        Cause.POISON,
        F(K.ONLY_THESE, 1, 2),
    ),
    Case("one that is always too slow", evidence(1, "timeout", during=30), Cause.POISON, F(K.ONLY_THESE, 1, 2)),
    Case(
        "large ones that are too slow",
        evidence(10, "timeout", during=60, traits=(LARGE,)),
        Cause.POISON,
        F(K.SHARED_TRAIT, 10, 10, ("size", LARGE.value)),
    ),
    Case(
        "one that needs too much memory",
        evidence(1, "capacity", during=30, error_type="MemoryError"),
        Cause.POISON,
        F(K.ONLY_THESE, 1, 2),
    ),
    Case("one that kills its process", evidence(1, "crash", before=0, tries=1), Cause.POISON, F(K.CRASHED, 1)),
    Case(
        "one shop's, of which some go well",
        evidence(during=12, traits=(FROM_ONE_SHOP,)),
        Cause.POISON,
        F(K.SOME_SUCCEED, 10, 12),
    ),
    # -- the program
    Case("all of a new version", deployed(), Cause.BUG, F(K.NEW_VERSION, names=("2.0", "1.0"), seconds=300.0)),
    Case("the first of a new version", deployed(1, "permanent"), Cause.BUG, F(K.VERSION_FAILS, 1, 0, ("2.0",))),
    Case("a tenth of a new version", deployed(10, good=90), Cause.BUG, F(K.OLDER_SUCCEEDED, 100, names=("1.0",))),
    Case(
        "a wrong host in a new version",
        deployed(5, "unreached", needs=("model",)),
        Cause.BUG,
        F(K.VERSION_FAILS, 5, 0, ("2.0",)),
    ),
    Case(
        "a server's errors for a new version only",
        deployed(5, "unavailable", group={"succeeded_now": {"1.0": 140}}),
        Cause.BUG,
        F(K.OLDER_SUCCEEDED, 140, names=("1.0",)),
    ),
    Case("memory of a new version", deployed(10, "capacity"), Cause.BUG, F(K.VERSION_FAILS, 10, 0, ("2.0",))),
    Case(
        "well again under another version",
        evidence(group={"succeeded_now": {"2.0": 100, "2.1": 9}}, versions=(NEW,)),
        Cause.BUG,
        F(K.RECOVERED_UNDER, names=("2.1",)),
    ),
    Case("all since a moment, without a dependency", evidence(), Cause.BUG, F(K.SAME_VERSION, names=("2.0",))),
    Case(
        "an error of the program from the first document on",
        evidence(1, "permanent", before=0, error_type="KeyError"),
        Cause.BUG,
        F(K.NONE_EVER, names=("reading",)),
    ),
    Case(
        "a third of all, by an error of the program",
        evidence(10, "permanent", during=20, error_type="KeyError"),
        Cause.BUG,
        F(K.PROGRAMMING_ERROR, names=("KeyError", "pages:read")),
    ),
    Case(
        "a value that the program does not know",
        evidence(
            10,
            "permanent",
            during=60,
            error_type="KeyError",
            group={"message": "'tr'"},
            traits=(FROM_ONE_COUNTRY,),
        ),
        Cause.BUG,
        F(K.SHARED_TRAIT, 10, 10, ("country", "tr")),
    ),
    Case(
        "what a newer version wrote",
        evidence(
            during=60,
            before={"1.0": 50, "2.0": 50},
            group={
                "versions": {"1.0": 20},
                "succeeded_at_last": {"1.0": 110, "2.0": 50},
                "succeeded_now": {"1.0": 110, "2.0": 50},
            },
            versions=(OLD, NEW),
            traits=(ONE_SHOP_CHANGED,),
        ),
        Cause.BUG,
        F(K.ROLLED_BACK, names=("2.0",)),
    ),
    Case(
        "machines that were left on an older version",
        evidence(
            before={"1.0": 50, "2.0": 5},
            during=40,
            recovered=9,
            group={"versions": {"1.0": 20}},
            versions=(OLD, NEW),
        ),
        Cause.BUG,
        F(K.NEWER_SUCCEEDED, 40, names=("2.0",)),
    ),
    Case(
        "files that a version did not close",
        evidence(
            10,
            "capacity",
            before={"1.0": 50, "2.0": 50},
            during=40,
            recovered=10,
            group={"succeeded_now": {"1.0": 50, "2.0": 90, "2.1": 30}},
            versions=(OLD, NEW),
            load=1.0,
        ),
        Cause.BUG,
        F(K.RECOVERED_UNDER, names=("2.1",)),
    ),
    Case(
        "a template, since a moment",
        evidence(needs=("model",), error_type="UndefinedError", group={"library": "jinja2"}),
        Cause.BUG,
        F(K.SAME_VERSION, names=("2.0",)),
    ),
    Case("many that kill their processes", evidence(4, "crash"), Cause.BUG, F(K.CRASHED, 4)),
    # -- a dependency
    Case(
        "all failures name it",
        evidence(10, "unavailable", group={"dependencies": {"model": 20}}, openings=(OUTAGE,)),
        Cause.DEPENDENCY,
        F(K.BREAKER_OPENED, 1, names=("model",), seconds=1199.0),
    ),
    Case(
        "the only one that is needed",
        evidence(10, "unreached", needs=("model",)),
        Cause.DEPENDENCY,
        F(K.POINTS_AT, 20, 10, ("model", "reading")),
    ),
    Case(
        "one of two",
        evidence(10, "unreached", needs=("db", "api")),
        Cause.DEPENDENCY,
        F(K.ONE_OF, names=("db", "api")),
    ),
    Case(
        "one of two, by its library",
        evidence(10, "unreached", needs=("redis", "api"), group={"library": "redis"}),
        Cause.DEPENDENCY,
        F(K.POINTS_AT, 20, 10, ("redis", "reading")),
    ),
    Case(
        "a part of it",
        evidence(10, "unavailable", during=60, needs=("model",)),
        Cause.DEPENDENCY,
        F(K.OTHERS_PROCESSED, 60),
    ),
    Case(
        "a lone document that does not reach it",
        evidence(1, "unreached", needs=("model",)),
        Cause.DEPENDENCY,
        F(K.NONE_SINCE),
    ),
    Case("a key that is refused", evidence(3, "refused", needs=("model",)), Cause.DEPENDENCY, F(K.REFUSED, 6, 6)),
    Case("all since a moment, with a dependency", evidence(needs=("model",)), Cause.DEPENDENCY, F(K.NONE_SINCE)),
    Case(
        "several errors at once, and nothing goes well",
        evidence(1, needs=("model",), failing_beside=40),
        Cause.DEPENDENCY,
        F(K.NONE_SINCE),
    ),
    Case(
        "timeouts, and nothing goes well",
        evidence(10, "timeout", needs=("model",)),
        Cause.DEPENDENCY,
        F(K.TIMED_OUT, 20, 20),
    ),
    Case(
        "a deploy long before",
        evidence(10, "unreached", before={"1.0": 50, "2.0": 50}, needs=("model",), versions=(OLD, NEW)),
        Cause.DEPENDENCY,
        F(K.NONE_SINCE),
    ),
    Case(
        "a server's errors soon after a deploy",
        deployed(10, "unavailable", needs=("model",)),
        Cause.DEPENDENCY,
        F(K.NOT_REACHED, 20, 20),
    ),
    Case(
        "well again under the same version",
        deployed(10, "unreached", recovered=10, after=10, needs=("model",)),
        Cause.DEPENDENCY,
        F(K.RECOVERED, 10, 10),
    ),
    Case(
        "one shop's, that worked before",
        evidence(during=60, error_type="ShopError", needs=("shops",), traits=(ONE_SHOP_CHANGED,)),
        Cause.DEPENDENCY,
        F(K.PART_CHANGED, 10, 10, ("shop", "acme")),
    ),
    Case(
        "now and then, and later it goes well",
        evidence(during=30, recovered=9, error_type="ShopError", needs=("shops",), load=1.0),
        Cause.DEPENDENCY,
        F(K.OTHERS_PROCESSED, 30),
    ),
    # -- overload
    Case(
        "now and then, since there is more to do",
        evidence(during=30, recovered=9, error_type="ShopError", needs=("shops",), load=20.0),
        Cause.OVERLOAD,
        F(K.LOAD_ROSE, 20),
    ),
    Case(
        "a server's errors, since there is more to do",
        evidence(10, "unavailable", during=30, recovered=9, needs=("shops",), load=20.0),
        Cause.OVERLOAD,
        F(K.LOAD_ROSE, 20),
    ),
    Case(
        "one refusal for too many requests",
        evidence(1, "rate_limited", tries=1, before=0),
        Cause.OVERLOAD,
        F(K.RATE_LIMITED, 1, 1),
    ),
    Case(
        "refusals while a breaker is open",
        evidence(10, "rate_limited", openings=(OUTAGE,)),
        Cause.OVERLOAD,
        F(K.RATE_LIMITED, 20, 20),
    ),
    Case(
        "timeouts while others go well",
        evidence(10, "timeout", during=60, recovered=8),
        Cause.OVERLOAD,
        F(K.OTHERS_PROCESSED, 60),
    ),
    Case("no more file handles", evidence(10, "capacity", during=5), Cause.OVERLOAD, F(K.RAN_OUT, 20, 20)),
    # -- unclear
    Case("one document, and nothing to compare it with", evidence(1, before=0), Cause.UNCLEAR, F(K.NO_OTHERS)),
    Case(
        "one that failed in other ways, too",
        evidence(1, during=40, outcomes=((3, 5),)),
        Cause.UNCLEAR,
        F(K.NOT_EVERY_TRY),
    ),
    Case(
        "one shop's, since a moment, and nothing is needed",
        evidence(during=60, traits=(ONE_SHOP_CHANGED,)),
        Cause.UNCLEAR,
        F(K.PART_CHANGED, 10, 10, ("shop", "acme")),
    ),
    Case(
        "an error of the program, where a dependency may have answered something else",
        evidence(10, "permanent", needs=("model",), error_type="KeyError"),
        Cause.UNCLEAR,
        F(K.NO_OTHERS),
    ),
    Case(
        "a dependency that does not know the address any more",
        evidence(10, "rejected", needs=("model",), group={"message": "404 Not Found"}),
        Cause.UNCLEAR,
        F(K.NO_OTHERS),
    ),
    Case(
        "files that are not there, since a moment",
        evidence(error_type="FileNotFoundError"),
        Cause.UNCLEAR,
        F(K.NO_OTHERS),
    ),
    Case(
        "a refusal that came with a version, while a breaker opened",
        deployed(5, "refused", needs=("model",), openings=(OUTAGE,)),
        Cause.UNCLEAR,
        F(K.REFUSED, 10, 10),
    ),
    Case(
        "half of all, by an error that says nothing",
        evidence(10, during=10),
        Cause.UNCLEAR,
        F(K.SOME_SUCCEED, 10, 10),
    ),
    Case(
        "nothing is known",
        evidence(3, before=0, needs=("model",), group={"kinds": {}, "versions": {}}),
        Cause.UNCLEAR,
        F(K.VERSION_NOT_RECORDED),
    ),
    Case(
        "healed, and nothing to compare it with",
        evidence(1, before=0, recovered=1, after=1),
        Cause.UNCLEAR,
        F(K.NONE_AFFECTED),
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


def test_the_evidence_on_several_groups_is_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Any) -> None:
        if page.id[0] in "uvwx":
            raise type(f"Error{page.id[0]}", (ValueError,), {})(page.id[0])

    with Simulation(app) as world:
        bring_apart(world, *(f"{letter}{number}" for letter in "abuvwx" for number in range(4)))
        world.run_for(MINUTE)
        store, groups = world.store, world.store.failure_groups()
        assert len(groups) == 4
        alone = [evidence_of(store, group, groups) for group in groups]
        statements: list[str] = []
        whole = store.db.read

        def counted(name: str, *parameters: Any) -> Any:
            statements.append(name)
            return whole(name, *parameters)

        monkeypatch.setattr(store.db, "read", counted)
        assert EvidenceReader(store).of_all(groups[:1], groups) == alone[:1]
        of_one, statements = statements, []
        assert EvidenceReader(store).of_all(groups, groups) == alone
        assert sorted(statements) == sorted(of_one), "as many statements as for one group"
