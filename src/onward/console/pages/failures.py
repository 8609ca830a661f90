"""Failures: what fails for the same reason, why that probably is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote, urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.action_forms import clean
from onward.console.charts import failure_timeline
from onward.console.page_templates import document_path, fragment, page, page_path, with_query
from onward.console.pages.documents import page_number
from onward.console.pages.saved_filters import saved_filters
from onward.console.problems import Problem
from onward.console.request_context import Onward
from onward.console.time_zone import viewer_zone
from onward.model.group_life import GroupState
from onward.model.group_rules import SplitBy
from onward.model.ledger_views import FailureGroup
from onward.ops.bad_input import BadInput
from onward.ops.queries.failure_groups import (
    FailureGroupPage,
    affected,
    context_text,
    error_text,
    find_group,
    list_groups,
    own_retries,
    select_groups,
    weight,
)
from onward.ops.queries.group_life import rules_about, state_of
from onward.ops.queries.titles import find_titles
from onward.ops.text.diagnosis import diagnosis_sentences, remedy_text
from onward.ops.text.format import zoned_time
from onward.ops.text.group_life import STATE_WORDS, life_sentences, rule_sentence, state_text
from onward.recovery.diagnosis import Cause, diagnose
from onward.recovery.evidence import Evidence, evidence_of
from onward.recovery.next_step import describe_error
from onward.recovery.remedies import Remedy, RemedyKind, remedies
from onward.retry.redact import redact

router = APIRouter(include_in_schema=False)

PAGE = 50
TONES = {
    Cause.DEPENDENCY: "warn",
    Cause.OVERLOAD: "warn",
    Cause.POISON: "bad",
    Cause.BUG: "bad",
    Cause.UNCLEAR: "",
}
STATE_TONES = {
    GroupState.OPEN: "warn",
    GroupState.CLOSED: "good",
    GroupState.FIX_EXPECTED: "busy",
    GroupState.REGRESSION: "bad",
}
MAX_PAGES = 1000
OPENINGS = 5


@dataclass(frozen=True, slots=True)
class GroupListFilter:
    number: int
    everything: bool
    service: str
    state: str = ""  # empty: what needs a person
    owner: str = ""

    @property
    def live(self) -> str:
        which = "all" if self.everything else self.state or "now"
        # Quoted twice: a name may have a slash.
        owner = quote(quote(self.owner, safe=""), safe="")
        return f"/live/failures/{self.number}/{which}/{owner}/{quote(self.service, safe='')}"

    def path(self, number: int) -> str:
        more = {"all": "yes" if self.everything else "", "page": number if number > 1 else ""}
        return with_query("/failures", service=self.service, state=self.state, owner=self.owner, **more)

    def groups(self, app: App, first: int) -> FailureGroupPage:
        return list_groups(
            app,
            service=self.service or None,
            everything=self.everything,
            state=GroupState(self.state) if self.state else None,
            owner=self.owner or None,
            limit=PAGE,
            offset=first,
        )

    def closed(self, app: App) -> FailureGroupPage:
        """Return the first of those that are closed; what they affect may still have to be put back."""
        return replace(self, everything=False, state=GroupState.CLOSED).groups(app, 0)


@router.get("/failures")
def show(request: Request, app: Onward) -> Response:
    """Show all failure groups; those that affect most documents come first."""
    given = request.query_params
    number, service = page_number(given.get("page", ""), MAX_PAGES), clean(given.get("service", ""))
    state = given.get("state", "")
    everything = given.get("all", "") == "yes" or state == "all"
    state = state if state in list(GroupState) and not everything else ""
    listing = GroupListFilter(number, everything, service, state, clean(given.get("owner", "")).strip())
    services = sorted(subscription.service for subscription in app.store.subscriptions())
    owners = sorted({one.life.owner for one in app.store.failure_groups() if one.life.owner} | {listing.owner})
    found = listing.groups(app, (number - 1) * PAGE)
    return page(
        request,
        "failures.html",
        listing=listing,
        total=found.total,
        saved=saved_filters(app, "failures", listing.path(1)),
        shown=len(found.page),
        bar=(("retry-groups", "Put back…", "main"), ("discard-groups", "Give up…", "danger")),
        services=services,
        states=[(str(state), STATE_WORDS[state]) for state in GroupState],
        owners=[owner for owner in owners if owner],
        part=_list(app, listing, found),
    )


@router.get("/ui")
def lead_to_reported_errors() -> Response:
    """Redirect the address of an error tracking service to the list with reported errors, which affect nothing."""
    return RedirectResponse("/failures?all=yes", 303)


def list_part(web: FastAPI, which: str) -> str:
    number, state, owner, service = which.split("/", 3)
    everything, state = state == "all", state if state in list(GroupState) else ""
    at = page_number(number, MAX_PAGES)
    listing = GroupListFilter(at, everything, clean(service), state, clean(unquote(owner)))
    app = web.state.onward
    return _list(app, listing, listing.groups(app, (at - 1) * PAGE))


def _list(app: App, listing: GroupListFilter, found: FailureGroupPage) -> str:
    first = (listing.number - 1) * PAGE
    entries = [_entry(one, found.short[one.group.fingerprint]) for one in found.page]
    closed = listing.closed(app).page if found.closed else ()
    return fragment(
        "failures_part.html",
        listing=listing,
        found=found,
        entries=entries,
        unfinished=[_entry(one, found.short[one.group.fingerprint]) for one in closed if weight(one.group)],
        heaviest=max((entry["weight"] for entry in entries), default=0),
        shown=f"{first + 1}–{first + len(entries)}",
        more=first + len(entries) < found.total,
    )


def _entry(evidence: Evidence, short: str) -> dict[str, Any]:
    group, cause = evidence.group, diagnose(evidence).kind
    return {
        "group": group,
        "short": short,
        "error": error_text(group, 200),
        "verdict": str(cause),
        "tone": TONES[cause],
        **_state(evidence),
        "weight": max(weight(group), evidence.waiting),
        "waiting": evidence.waiting,
        **_amount(group),
    }


def _state(evidence: Evidence) -> dict[str, Any]:
    life, state = evidence.group.life, state_of(evidence)
    return {
        "state": state_text(life, state),
        "state_tone": STATE_TONES[state],
        "is_open": state is GroupState.OPEN,
        "owner": redact(life.owner),
    }


def _amount(group: FailureGroup) -> dict[str, Any]:
    """Return how many documents a group affects now; for a service that finishes none, how many events."""
    if group.collection is None:
        return {"amount": group.dead_letters, "noun": "event"}
    return {"amount": group.affected, "noun": "document"}


@router.get("/failures/{fingerprint:path}")
def show_group(request: Request, app: Onward, fingerprint: str) -> Response:
    """Show a failure group; with `after`, more of its documents."""
    group = _group(app, fingerprint)
    path = page_path("failures", group.fingerprint)
    collection, _, id = clean(request.query_params.get("after", "")).partition("/")
    if collection:
        documents = _documents(app, group, (collection, id))
        return page(request, "failure_documents.html", group=group, path_back=path, **documents)
    live = path.replace("/failures/", "/live/failure/", 1)
    others = select_groups(app).groups[:PAGE]
    return page(
        request,
        "failure.html",
        group=group,
        live=live,
        part=_show(app, group),
        owner=redact(group.life.owner),
        versions=[version for version, *_ in reversed(app.store.versions())][:PAGE],
        others=[one for one in others if one.fingerprint != group.fingerprint],
        error_text=error_text,
        split_by=list(SplitBy),
    )


def group_part(web: FastAPI, which: str) -> str:
    return _show(web.state.onward, _group(web.state.onward, which))


def _group(app: App, fingerprint: str) -> FailureGroup:
    try:
        return find_group(app, clean(fingerprint))
    except BadInput:
        detail = f"There is no failure group {fingerprint[:80]!r}; /failures lists them."
        raise Problem(404, "Not found", detail) from None


def _show(app: App, group: FailureGroup) -> str:
    evidence = evidence_of(app.store, group)
    diagnosis = diagnose(evidence)
    documents = _documents(app, group, ("", ""))
    example = next((document_path(one.collection, one.id) for one, _ in documents["documents"]), "")
    if not example and (letters := app.store.find_dead_letters(fingerprint=group.fingerprint, limit=1)):
        example = page_path("letters", letters[0].row)
    found = remedies(evidence, diagnosis, example=bool(example), own=own_retries(app, group))
    # Documents are not given up for what is not their fault; the list of groups can do that all the same.
    if weight(group) and diagnosis.kind is Cause.UNCLEAR:
        found.append(Remedy(RemedyKind.DISCARD))
    return fragment(
        "failure_part.html",
        group=group,
        message=redact(group.message),
        traceback=redact(group.traceback).strip(),
        context=context_text(group),
        evidence=evidence,
        diagnosis=diagnosis,
        sentences=diagnosis_sentences(diagnosis, group.versions),
        tone=TONES[diagnosis.kind],
        past=diagnosis.kind is Cause.UNCLEAR and not weight(group) and not evidence.waiting,
        remedies=[_remedy(one, group.fingerprint, example, app.store.now()) for one in found],
        openings=[replace(opening, reason=redact(opening.reason)) for opening in evidence.openings[-OPENINGS:]],
        chart=failure_timeline(evidence, app.store.now()),
        **_state(evidence),
        decided=life_sentences(
            group.life, state_of(evidence), lambda at: zoned_time(at or 0.0, viewer_zone().name)
        ),
        notes=[replace(note, text=redact(note.text)) for note in group.life.notes],
        rules=[(rule, rule_sentence(rule)) for rule in rules_about(app, group.fingerprint)],
        **_amount(group),
        **documents,
    )


def _documents(app: App, group: FailureGroup, after: tuple[str, str]) -> dict[str, Any]:
    found = list(islice(affected(app.store, group.fingerprint, after, at_once=PAGE + 1), PAGE + 1))
    shown = found[:PAGE]
    following = ""
    if len(found) > PAGE:
        following = page_path("failures", group.fingerprint, after=f"{shown[-1].collection}/{shown[-1].id}")
    return {
        "documents": [(one, describe_error(one.last_error)) for one in shown],
        "titles": find_titles(app, [(one.collection, one.id) for one in shown]),
        "following": following,
    }


def _remedy(remedy: Remedy, fingerprint: str, example: str, now: float) -> dict[str, Any]:
    """Return what to do next, with the page where it is done."""
    path, button = "", ""
    match remedy.kind:
        case RemedyKind.NONE_NEEDED | RemedyKind.WAIT | RemedyKind.RETRIED_ANYWAY | RemedyKind.CHANGE_ACCESS:
            pass
        case RemedyKind.SHOW_EXAMPLE:
            path, button = example, "Open it"
        case RemedyKind.SHOW_BREAKERS:
            path, button = "/workers#breakers", "See the breakers"
        case RemedyKind.CLOSE:
            path, button = "#decide", "Close it…"
        case RemedyKind.DISCARD:
            path, button = f"/confirm/discard-group?{urlencode({'fingerprint': fingerprint})}", "Give it up…"
        case _:
            pace: dict[str, object] = {"growing": "yes"} if remedy.growing else {"canary": remedy.canary or ""}
            pace["rate"] = f"{remedy.rate:g}" if remedy.rate else ""
            path = f"/confirm/retry-group?{urlencode({'fingerprint': fingerprint, **pace})}"
            button = "Put it back…"
    # A step that is not due yet does not invite.
    main = remedy.kind.startswith("retry") and not (remedy.version and not remedy.ready)
    kind = str(remedy.kind)
    return {"why": remedy_text(remedy, now), "path": path, "button": button, "kind": kind, "main": main}
