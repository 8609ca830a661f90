"""Failures: what fails for the same reason, why that probably is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.asking import Onward
from onward.console.changes_failures import group_path
from onward.console.fields import clean
from onward.console.letters import letter_path
from onward.console.problems import Problem
from onward.console.rendering import document_path, fragment, page
from onward.console.timelines import evidence_chart
from onward.facts.accounting import error_of
from onward.facts.diagnosis import Doing, Step, error_text, list_groups, steps, weight
from onward.facts.finding import Unusable, find_group
from onward.model.documents import DocumentState
from onward.model.recovery import FailureGroup
from onward.recovery.groups import affected
from onward.recovery.verdicts import Evidence, Suspicion, Verdict, evidence_of, judge
from onward.retry.redact import redact

router = APIRouter()

PAGE = 50
TONES = {
    Suspicion.DEPENDENCY: "warn",
    Suspicion.OVERLOAD: "warn",
    Suspicion.POISON: "bad",
    Suspicion.BUG: "bad",
    Suspicion.UNCLEAR: "",
}
MOST_PAGES = 1000
OPENINGS = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """Which failure groups somebody looks at."""

    number: int = 1
    everything: bool = False
    service: str = ""

    @property
    def live(self) -> str:
        which = "all" if self.everything else "now"
        return f"/live/failures/{self.number}/{which}/{quote(self.service, safe='')}"

    def path(self, number: int) -> str:
        given = {
            "service": self.service,
            "all": "yes" if self.everything else "",
            "page": number if number > 1 else "",
        }
        found = urlencode({name: value for name, value in given.items() if value})
        return f"/failures?{found}" if found else "/failures"


@router.get("/failures")
def show(request: Request, app: Onward) -> Response:
    """All failure groups, what affects most first."""
    given = request.query_params
    listing = _listing(given.get("page", "1"), given.get("all", "") == "yes", clean(given.get("service", "")))
    services = sorted(one.service for one in app.store.subscriptions())
    return page(request, "failures.html", listing=listing, services=services, part=_list(app, listing))


def list_part(web: FastAPI, which: str) -> str:
    """The same, for who watches it."""
    number, everything, service = which.split("/", 2)
    return _list(web.state.onward, _listing(number, everything == "all", clean(service)))


def _listing(number: str, everything: bool, service: str) -> Listing:
    wanted = int(number) if number.isascii() and number.isdecimal() and len(number) < 6 else 1
    return Listing(min(max(1, wanted), MOST_PAGES), everything, service)


def _list(app: App, listing: Listing) -> str:
    found = list_groups(
        app,
        service=listing.service or None,
        everything=listing.everything,
        limit=PAGE,
        offset=(listing.number - 1) * PAGE,
    )
    entries = [_entry(one, found.short[one.group.fingerprint]) for one in found.page]
    first = (listing.number - 1) * PAGE
    return fragment(
        "failures_part.html",
        listing=listing,
        found=found,
        entries=entries,
        heaviest=max((one["weight"] for one in entries), default=0),
        shown=f"{first + 1}–{first + len(entries)}",
        more=first + len(entries) < found.total,
    )


def _entry(evidence: Evidence, short: str) -> dict[str, Any]:
    group, verdict = evidence.group, judge(evidence)
    return {
        "path": group_path(group.fingerprint),
        "short": short,
        "service": group.service,
        "error": error_text(group, 200),
        "verdict": str(verdict.kind),
        "tone": TONES[verdict.kind],
        "weight": max(weight(group), evidence.waiting),
        "amount": _amount(group),
        "noun": "event" if group.collection is None else "document",
        "waiting": evidence.waiting,
        "ever": group.documents,
        "first_seen": group.first_seen,
        "last_seen": group.last_seen,
    }


def _amount(group: FailureGroup) -> int:
    """How many documents it affects now; of a service that finishes none, how many events."""
    return group.affected if group.collection is not None else group.dead_letters


# -- one of them


@router.get("/failures/{fingerprint:path}")
def show_group(request: Request, app: Onward, fingerprint: str) -> Response:
    """A failure group; with `after`, more of its documents."""
    group = _group(app, fingerprint)
    collection, _, id = clean(request.query_params.get("after", "")).partition("/")
    if collection:
        documents = _documents(app, group, (collection, id))
        return page(
            request, "failure_documents.html", group=group, path_back=group_path(group.fingerprint), **documents
        )
    return page(
        request,
        "failure.html",
        group=group,
        live=f"/live/failure/{quote(group.fingerprint, safe='')}",
        part=_show(app, group),
    )


def group_part(web: FastAPI, which: str) -> str:
    """A failure group, for who watches it."""
    return _show(web.state.onward, _group(web.state.onward, which))


def _group(app: App, fingerprint: str) -> FailureGroup:
    try:
        return find_group(app, clean(fingerprint))
    except Unusable:
        raise Problem(
            404, "Not found", f"There is no failure group {fingerprint[:80]!r}; /failures lists them."
        ) from None


def _show(app: App, group: FailureGroup) -> str:
    evidence = evidence_of(app.store, group)
    verdict = judge(evidence)
    documents = _documents(app, group, ("", ""))
    return fragment(
        "failure_part.html",
        group=group,
        message=redact(group.message),
        traceback=redact(group.traceback).strip(),
        evidence=evidence,
        verdict=verdict,
        tone=TONES[verdict.kind],
        amount=_amount(group),
        noun="event" if group.collection is None else "document",
        steps=_steps(app, evidence, verdict, documents["documents"]),
        openings=[replace(one, reason=redact(one.reason)) for one in evidence.openings[-OPENINGS:]],
        chart=evidence_chart(evidence, app.store.now()),
        **documents,
    )


def _documents(app: App, group: FailureGroup, after: tuple[str, str]) -> dict[str, Any]:
    """A page of what a group affects now."""
    found = list(islice(affected(app.store, group.fingerprint, after, at_once=PAGE + 1), PAGE + 1))
    shown = found[:PAGE]
    following = ""
    if len(found) > PAGE:
        behind = f"{shown[-1].collection}/{shown[-1].id}"
        following = f"{group_path(group.fingerprint)}?{urlencode({'after': behind})}"
    return {"documents": [_document(one) for one in shown], "following": following}


def _document(state: DocumentState) -> dict[str, Any]:
    return {
        "collection": state.collection,
        "id": state.id,
        "path": document_path(state.collection, state.id),
        "status": str(state.status),
        "error": redact(error_of(state)),
        "at": state.last_attempt_time,
    }


def _steps(
    app: App, evidence: Evidence, verdict: Verdict, documents: list[dict[str, Any]]
) -> list[dict[str, str]]:
    """What to do next, each with the page where it is done."""
    group = evidence.group
    example = documents[0]["path"] if documents else ""
    if not example and (letters := app.store.find_dead_letters(fingerprint=group.fingerprint, limit=1)):
        example = letter_path(letters[0].row)
    found = steps(evidence, verdict, example=bool(example))
    told = [_step(one, group.fingerprint, example) for one in found]
    if weight(group) and not any(one.doing is Doing.DISCARD for one in found):
        told.append(_step(Step("or give it up for good", Doing.DISCARD), group.fingerprint, example))
    return told


def _step(step: Step, fingerprint: str, example: str) -> dict[str, str]:
    match step.doing:
        case Doing.LOOK:
            path, button = example, "Open it"
        case Doing.BREAKERS:
            path, button = "/workers#breakers", "See the breakers"
        case Doing.RETRY:
            pace = {"canary": step.canary or "", "rate": f"{step.rate:g}" if step.rate else ""}
            path, button = (
                f"/confirm/retry-group?{urlencode({'fingerprint': fingerprint, **pace})}",
                "Put it back…",
            )
        case Doing.DISCARD:
            path, button = f"/confirm/discard-group?{urlencode({'fingerprint': fingerprint})}", "Give it up…"
        case _:
            path, button = "", ""
    return {"why": step.why[:1].upper() + step.why[1:], "path": path, "button": button, "doing": str(step.doing)}
