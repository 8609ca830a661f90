"""The state, owner and notes of failure groups, and the rules that merge and split them, for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onward.app import App
from onward.model.group_life import GroupLife, GroupState
from onward.model.group_rules import GroupRule, RuleState
from onward.ops.bad_input import NotFound
from onward.ops.text.format import iso, one_line
from onward.ops.text.group_life import rule_sentence
from onward.recovery.evidence import Evidence
from onward.retry.redact import redact


def state_of(evidence: Evidence) -> GroupState:
    return evidence.group.life.state({version.name: version.first_seen for version in evidence.versions})


def life_facts(life: GroupLife, state: GroupState) -> dict[str, Any]:
    closing = life.closing
    return {
        "state": str(state),
        "closed": None
        if closing is None
        else {
            "at": iso(closing.at),
            "who": closing.who,
            "version": redact(closing.version) or None,
            "uncertain_failures": closing.uncertain,
        },
        "regression": None
        if state is not GroupState.REGRESSION
        else {"at": iso(life.regressed_at), "version": redact(life.regressed_in) or None},
        "regressions": life.regressions,
        "owner": redact(life.owner) or None,
        "notes": [{"at": iso(note.at), "who": note.who, "text": redact(note.text)} for note in life.notes],
    }


def find_rule(app: App, id: int) -> GroupRule:
    found = next((rule for rule in app.store.group_rules() if rule.id == id), None)
    if found is None:
        raise NotFound(f"there is no rule {id}; `onward failures rules` lists them")
    return found


def rules_about(app: App, fingerprint: str) -> list[GroupRule]:
    """Return the rules that take failures from a group, or give it some."""
    return [rule for rule in app.store.group_rules() if fingerprint in (rule.group, rule.target)]


def rule_facts(rule: GroupRule) -> Mapping[str, Any]:
    return {
        "id": rule.id,
        "kind": "merge" if rule.by is None else "split",
        "group": rule.group,
        "target": rule.target,
        "by": None if rule.by is None else str(rule.by),
        "value": redact(rule.value) or None,
        "at": iso(rule.at),
        "who": rule.who,
        "finished": rule.state is RuleState.ACTIVE,
        "text": one_line(rule_sentence(rule)),
    }
