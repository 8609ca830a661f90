"""Failures: what fails for the same reason, why that probably is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.action_forms import group_path
from onward.console.charts import failure_timeline
from onward.console.dead_letter_pages import letter_path
from onward.console.form_fields import clean
from onward.console.page_templates import document_path, fragment, page
from onward.console.problems import Problem
from onward.console.request_context import Onward
from onward.model.documents import DocumentState
from onward.model.ledger_views import FailureGroup
from onward.ops.bad_input import BadInput
from onward.ops.lookup import find_group
from onward.ops.queries.failure_groups import affected, error_text, list_groups, weight
from onward.ops.text.diagnosis import Remedy, RemedyKind, diagnosis_sentences, remedies, remedy_sentence
from onward.recovery.diagnosis import Cause, Diagnosis, Evidence, diagnose, evidence_of
from onward.recovery.next_step import describe_error
from onward.retry.redact import redact

router = APIRouter()

PAGE = 50
TONES = {
    Cause.DEPENDENCY: "warn",
    Cause.OVERLOAD: "warn",
    Cause.POISON: "bad",
    Cause.BUG: "bad",
    Cause.UNCLEAR: "",
}
MAX_PAGES = 1000
OPENINGS = 5


@dataclass(frozen=True, slots=True)
class GroupListFilter:
    """The filters of the list of failure groups."""

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
    """Show all failure groups; those that affect most documents come first."""
    given = request.query_params
    listing = _listing(given.get("page", "1"), given.get("all", "") == "yes", clean(given.get("service", "")))
    services = sorted(subscription.service for subscription in app.store.subscriptions())
    return page(request, "failures.html", listing=listing, services=services, part=_list(app, listing))


def list_part(web: FastAPI, which: str) -> str:
    """Render the live part of the page."""
    number, everything, service = which.split("/", 2)
    return _list(web.state.onward, _listing(number, everything == "all", clean(service)))


def _listing(number: str, everything: bool, service: str) -> GroupListFilter:
    wanted = int(number) if number.isascii() and number.isdecimal() and len(number) < 6 else 1
    return GroupListFilter(min(max(1, wanted), MAX_PAGES), everything, service)


def _list(app: App, listing: GroupListFilter) -> str:
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
        heaviest=max((entry["weight"] for entry in entries), default=0),
        shown=f"{first + 1}–{first + len(entries)}",
        more=first + len(entries) < found.total,
    )


def _entry(evidence: Evidence, short: str) -> dict[str, Any]:
    group, diagnosis = evidence.group, diagnose(evidence)
    return {
        "path": group_path(group.fingerprint),
        "short": short,
        "service": group.service,
        "error": error_text(group, 200),
        "verdict": str(diagnosis.kind),
        "tone": TONES[diagnosis.kind],
        "weight": max(weight(group), evidence.waiting),
        "amount": _amount(group),
        "noun": "event" if group.collection is None else "document",
        "waiting": evidence.waiting,
        "ever": group.documents,
        "first_seen": group.first_seen,
        "last_seen": group.last_seen,
    }


def _amount(group: FailureGroup) -> int:
    """Return how many documents a group affects now; for a service that finishes none, how many events."""
    return group.affected if group.collection is not None else group.dead_letters


# -- one of them


@router.get("/failures/{fingerprint:path}")
def show_group(request: Request, app: Onward, fingerprint: str) -> Response:
    """Show a failure group; with `after`, more of its documents."""
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
    """Render the live part of the page of a failure group."""
    return _show(web.state.onward, _group(web.state.onward, which))


def _group(app: App, fingerprint: str) -> FailureGroup:
    try:
        return find_group(app, clean(fingerprint))
    except BadInput:
        raise Problem(
            404, "Not found", f"There is no failure group {fingerprint[:80]!r}; /failures lists them."
        ) from None


def _show(app: App, group: FailureGroup) -> str:
    evidence = evidence_of(app.store, group)
    diagnosis = diagnose(evidence)
    documents = _documents(app, group, ("", ""))
    return fragment(
        "failure_part.html",
        group=group,
        message=redact(group.message),
        traceback=redact(group.traceback).strip(),
        evidence=evidence,
        diagnosis=diagnosis,
        sentences=diagnosis_sentences(diagnosis),
        tone=TONES[diagnosis.kind],
        amount=_amount(group),
        noun="event" if group.collection is None else "document",
        remedies=_remedies(app, evidence, diagnosis, documents["documents"]),
        openings=[replace(opening, reason=redact(opening.reason)) for opening in evidence.openings[-OPENINGS:]],
        chart=failure_timeline(evidence, app.store.now()),
        **documents,
    )


def _documents(app: App, group: FailureGroup, after: tuple[str, str]) -> dict[str, Any]:
    """Return a page of the documents that a group affects now."""
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
        "error": describe_error(state.last_error),
        "at": state.last_attempt_time,
    }


def _remedies(
    app: App, evidence: Evidence, diagnosis: Diagnosis, documents: list[dict[str, Any]]
) -> list[dict[str, str]]:
    """Return what to do next, each with the page where it is done."""
    group = evidence.group
    example = documents[0]["path"] if documents else ""
    if not example and (letters := app.store.find_dead_letters(fingerprint=group.fingerprint, limit=1)):
        example = letter_path(letters[0].row)
    found = remedies(evidence, diagnosis, example=bool(example))
    if weight(group) and not any(remedy.kind is RemedyKind.DISCARD for remedy in found):
        found.append(Remedy(RemedyKind.DISCARD))
    return [_remedy(remedy, group.fingerprint, example) for remedy in found]


def _remedy(remedy: Remedy, fingerprint: str, example: str) -> dict[str, str]:
    path, button = "", ""
    match remedy.kind:
        case RemedyKind.NONE_NEEDED | RemedyKind.WAIT:
            pass
        case RemedyKind.SHOW_EXAMPLE:
            path, button = example, "Open it"
        case RemedyKind.SHOW_BREAKERS:
            path, button = "/workers#breakers", "See the breakers"
        case RemedyKind.DISCARD:
            path, button = f"/confirm/discard-group?{urlencode({'fingerprint': fingerprint})}", "Give it up…"
        case _:
            pace = {"canary": remedy.canary or "", "rate": f"{remedy.rate:g}" if remedy.rate else ""}
            path = f"/confirm/retry-group?{urlencode({'fingerprint': fingerprint, **pace})}"
            button = "Put it back…"
    return {"why": remedy_sentence(remedy), "path": path, "button": button, "kind": str(remedy.kind)}
