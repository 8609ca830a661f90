"""Requests about what people decide on failure groups: closed, reopened, notes, owners, merged, split."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.responses import JSONResponse

from onward.app import App
from onward.console.api.openapi import changes, reads
from onward.console.api.schemas import ApiRequest, ApiResponse, DryRun, Pace
from onward.console.operations import carry_out
from onward.console.request_context import Onward, Running
from onward.model.group_life import MAX_NAME_CHARACTERS, MAX_NOTE_CHARACTERS
from onward.model.group_rules import MAX_VALUE_CHARACTERS, SplitBy
from onward.model.ledger_views import FailureGroup
from onward.ops.actions.group_life import (
    AssignFailureGroup,
    CloseFailureGroup,
    NoteFailureGroup,
    ReopenFailureGroup,
)
from onward.ops.actions.group_rules import MergeFailureGroups, SplitFailureGroup, UndoGroupRule
from onward.ops.bad_input import NotFound
from onward.ops.queries.failure_groups import group_with_fingerprint
from onward.ops.queries.group_life import rule_facts
from onward.ops.text.format import one_line

router = APIRouter(prefix="/v3")
decides = partial(changes, router, tag="Failures")


def known_group(app: App, fingerprint: str) -> FailureGroup:
    """Return the group with this fingerprint, or that it was merged into."""
    found = group_with_fingerprint(app, fingerprint) if "\0" not in fingerprint else None
    if found is None:
        raise NotFound(f"there is no failure group {one_line(fingerprint, 60)!r}; GET /v3/failures lists them")
    return found


class Fix(ApiRequest):
    version: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_NAME_CHARACTERS,
        description="The first version with the fix; it may be still to come. Left out: no release is needed.",
        examples=["2.4.1"],
    )
    dry_run: bool = False


class Note(ApiRequest):
    text: str = Field(min_length=1, max_length=MAX_NOTE_CHARACTERS, description="Plain text.")
    dry_run: bool = False


class Owner(ApiRequest):
    owner: str | None = Field(description="A name; null: nobody.", min_length=1, max_length=MAX_NAME_CHARACTERS)
    dry_run: bool = False


class Merge(ApiRequest):
    groups: list[str] = Field(min_length=1, max_length=50, description="The fingerprints of the others.")
    dry_run: bool = False


class Split(ApiRequest):
    by: Literal["message", "dependency", "version"] = Field(
        description="What is looked at: whether the message contains the value, or the other one is the value."
    )
    value: str = Field(min_length=1, max_length=MAX_VALUE_CHARACTERS)
    dry_run: bool = False


class GroupPace(Pace):
    growing: bool = Field(
        False,
        description="Put 1 back, then 5, then 50, then the rest, each step only if the one before went well.",
    )
    share: float = Field(1.0, gt=0, le=1, description="The share of a step that must be processed, if `growing`.")


class GroupRules(ApiResponse):
    rules: list[dict[str, Any]]


@decides("/failures/{fingerprint}/fixed", "Close a failure group")
def close_group(app: Onward, operations: Running, fingerprint: str, asked: Fix | None = None) -> JSONResponse:
    """Say that its cause is fixed. If it fails again in this version or a later one, it is a regression."""
    group = known_group(app, fingerprint).fingerprint
    return carry_out(app, operations, CloseFailureGroup(group, asked.version if asked else None), asked)


@decides("/failures/{fingerprint}/reopen", "Reopen a failure group")
def reopen_group(app: Onward, operations: Running, fingerprint: str, asked: DryRun | None = None) -> JSONResponse:
    """Reopen a group that was closed."""
    return carry_out(app, operations, ReopenFailureGroup(known_group(app, fingerprint).fingerprint), asked)


@decides("/failures/{fingerprint}/notes", "Add a note to a failure group")
def note_group(app: Onward, operations: Running, fingerprint: str, asked: Note) -> JSONResponse:
    """Add a note for everybody who looks at the group; the last 50 are kept."""
    return carry_out(
        app, operations, NoteFailureGroup(known_group(app, fingerprint).fingerprint, asked.text), asked
    )


@decides("/failures/{fingerprint}/owner", "Give a failure group an owner")
def assign_group(app: Onward, operations: Running, fingerprint: str, asked: Owner) -> JSONResponse:
    """Set who takes care of the group."""
    group = known_group(app, fingerprint).fingerprint
    return carry_out(app, operations, AssignFailureGroup(group, asked.owner), asked)


@decides("/failures/{fingerprint}/merge", "Merge failure groups into this one")
def merge_groups(app: Onward, operations: Running, fingerprint: str, asked: Merge) -> JSONResponse:
    """Let the failures of other groups count with this one: those so far, and those to come."""
    others = tuple(known_group(app, one).fingerprint for one in asked.groups)
    action = MergeFailureGroups(known_group(app, fingerprint).fingerprint, others)
    return carry_out(app, operations, action, asked)


@decides("/failures/{fingerprint}/split", "Split a failure group")
def split_group(app: Onward, operations: Running, fingerprint: str, asked: Split) -> JSONResponse:
    """Make the failures that match a group of their own: those so far, and those to come."""
    action = SplitFailureGroup(known_group(app, fingerprint).fingerprint, SplitBy(asked.by), asked.value)
    return carry_out(app, operations, action, asked)


@reads(router, "/failure-rules", "List the rules of failure groups", GroupRules, tag="Failures")
def list_rules(app: Onward) -> dict[str, Any]:
    """List the rules that merge and split failure groups."""
    return {"rules": [rule_facts(rule) for rule in app.store.group_rules()]}


@decides("/failure-rules/{id}/undo", "Undo a rule of failure groups")
def undo_rule(
    app: Onward,
    operations: Running,
    id: Annotated[int, Path(ge=1, lt=2**63)],
    asked: DryRun | None = None,
) -> JSONResponse:
    """Remove a rule; what is affected now goes back to its own group."""
    return carry_out(app, operations, UndoGroupRule(id), asked)
