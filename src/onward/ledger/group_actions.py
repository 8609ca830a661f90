"""What people do with failure groups: close and reopen them, notes, owners, and rules that merge and split them.

Rules are read in each transaction that stores failures, so they are in effect at once, for all workers. What is
stored already is moved page by page: each document and dead letter keeps its computed fingerprint, to which the
present rules are applied. So merging, splitting and undoing are the same work, and doing it twice changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from onward.ledger.failure_groups import (
    REGRESSIONS,
    CountedFailure,
    GroupedFailure,
    first_seen_versions,
    read_group,
    read_rules,
)
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import DocumentKey
from onward.model.failures import Failure, Outcome, outcomes, read_history
from onward.model.group_life import Closing, GroupLife, GroupNote
from onward.model.group_rules import GroupRule, GroupRules, RuleState, SplitBy, split_fingerprint

PAGE = 200  # Documents or dead letters that one transaction moves
UNFINISHED_SECONDS = 60.0  # A rule that is unfinished for longer was left so by a process that ended
_FAILURE_FIELDS = {field.name for field in fields(GroupedFailure)}
_DEAD_LETTER_PAGES = ("find_dead_letters_of_group", "find_archived_dead_letters")


class GroupActions(TransactionalStore):
    """Changes failure groups for an operator."""

    def first_seen_versions(self) -> dict[str, float]:
        """Return when each version of the workers was first seen."""
        return first_seen_versions(self.db)

    @transactional
    def close_group(self, unit: UnitOfWork, fingerprint: str, who: str, version: str = "") -> GroupLife | None:
        """Record that a group is fixed, in a version or without a release; None: there is no such group."""
        closing = Closing(unit.now, who, version)
        life = self._change_life(fingerprint, lambda life: replace(life, closing=closing, regressed_at=None))
        if life is not None:
            # The metric begins at 0 before it can grow: else an alert on its increase would miss the first.
            unit.db.send("count_total", REGRESSIONS, self._service_of(fingerprint), 0.0)
        return life

    def reopen_group(self, fingerprint: str) -> GroupLife | None:
        return self._change_life(fingerprint, lambda life: replace(life, closing=None, regressed_at=None))

    def note_group(self, fingerprint: str, who: str, text: str) -> GroupLife | None:
        note = GroupNote(self.now(), who, text)
        return self._change_life(fingerprint, lambda life: life.with_note(note))

    def assign_group(self, fingerprint: str, owner: str) -> GroupLife | None:
        """Give a group an owner; an empty name: nobody."""
        return self._change_life(fingerprint, lambda life: replace(life, owner=owner))

    @transactional
    def _change_life(
        self, unit: UnitOfWork, fingerprint: str, change: Callable[[GroupLife], GroupLife]
    ) -> GroupLife | None:
        unit.db.lock("failure groups", [fingerprint])
        stored = unit.db.read("group_life", fingerprint)
        if stored is None:
            return None
        life = change(GroupLife.from_dict(stored))
        unit.db.send("save_group_life", fingerprint, json.dumps(life.as_dict()))
        return life

    # -- rules

    def group_rules(self) -> list[GroupRule]:
        return read_rules(self.db)

    def merge_group(self, group: str, target: str, who: str) -> GroupRule:
        """Let the failures of a group count with another one; `apply_rule` moves the earlier ones."""
        return self._add_rule(group, target, None, "", who)

    def split_group(self, group: str, by: SplitBy, value: str, who: str) -> GroupRule:
        """Let failures that match be a group of their own; `apply_rule` moves the earlier ones."""
        return self._add_rule(group, split_fingerprint(group, by, value), by, value, who)

    @transactional
    def _add_rule(
        self, unit: UnitOfWork, group: str, target: str, by: SplitBy | None, value: str, who: str
    ) -> GroupRule:
        """Return the new rule, or the present one for the same failures."""
        unit.db.lock("group rules")

        def present() -> GroupRule | None:
            about = (group, by, value)
            return next((rule for rule in read_rules(unit.db) if (rule.group, rule.by, rule.value) == about), None)

        found = present()
        if found is None:
            state = str(RuleState.ADDING)
            unit.db.send("add_group_rule", group, target, str(by or ""), value, unit.now, who, state)
            found = present()
            assert found is not None, "it was just added"
        return found

    @transactional
    def end_rule(self, unit: UnitOfWork, id: int) -> GroupRule | None:
        """End the effect of a rule; `apply_rule` moves the failures back and deletes it."""
        unit.db.lock("group rules")
        found = next((rule for rule in read_rules(unit.db) if rule.id == id), None)
        if found is not None and found.state is not RuleState.REMOVING:
            unit.db.send("set_rule_state", id, str(RuleState.REMOVING), unit.now)
            found = replace(found, state=RuleState.REMOVING)
        return found

    def apply_rule(self, rule: GroupRule, report: Callable[[int], None] = lambda moved: None) -> int:
        """Move what is stored to where the rules want it, then mark the rule as done; return how much was moved.

        `report` gets the number after each page; what it raises ends this, and a second call goes on.
        """
        removing, moved = rule.state is RuleState.REMOVING, 0
        # What left by a rule may have gone further by others.
        groups = GroupRules(self.group_rules()).reachable(rule.target) if removing else [rule.group]
        for group in groups:
            for step in (self._regroup_documents, self._regroup_dead_letters):
                after: Any = None
                while True:
                    some, after = step(group, after)
                    moved += some
                    report(moved)
                    if after is None:
                        break
        self._finish_rule(rule)
        if moved:
            for group in {*groups, rule.group, rule.target}:
                self._describe(group)
        return moved

    @transactional
    def _describe(self, unit: UnitOfWork, group: str) -> None:
        """Describe a group by a failure that is still in it: its last one may have moved."""
        rows = unit.db.read(_DEAD_LETTER_PAGES[0], 0, None, None, None, None, 1, None, group)
        found = unit.db.read_unlocked("group_states", group, "", "", None, None, None, None, 1)
        texts = [text for _, text in unit.db.read("row_errors", rows)] if rows else []
        errors = [_error_of(values[7]) for values in found]
        for error in (*(one for text in texts for one in outcomes(read_history(text))[-1:]), *errors[:1]):
            about = (str(error.get(name, "")) for name in ("error_type", "message", "place", "traceback"))
            unit.db.send("describe_group", group, *about)
            return

    @transactional
    def _finish_rule(self, unit: UnitOfWork, rule: GroupRule) -> None:
        unit.db.lock("group rules")
        if rule.state is not RuleState.REMOVING:
            unit.db.send("set_rule_state", rule.id, str(RuleState.ACTIVE), rule.at)
            if rule.by is None:
                self._join(unit, rule.group, rule.target)
            return
        unit.db.send("drop_group_rule", rule.id)
        others = [one for one in read_rules(unit.db) if one.id != rule.id and one.target == rule.target]
        if rule.by is not None and not others:
            # Nothing new comes to a group that was split off. What has recovered counts with the rest again.
            self._join(unit, rule.target, rule.group)

    def finish_rules(self) -> None:
        """Finish rules that a process has left unfinished, and merges that a worker did not know yet."""
        rules = self.group_rules()
        late = [rule for rule in rules if rule.state is not RuleState.ACTIVE]
        late = [rule for rule in late if rule.at < self.now() - UNFINISHED_SECONDS]
        merges = {rule.group: rule for rule in rules if rule.by is None and rule.state is RuleState.ACTIVE}
        if merges:
            late += [merges[fingerprint] for fingerprint, *_ in self.db.read("group_counts", list(merges))]
        for rule in late:
            self.apply_rule(rule)

    @transactional
    def _regroup_documents(
        self, unit: UnitOfWork, group: str, after: DocumentKey | None
    ) -> tuple[int, DocumentKey | None]:
        """Move the documents of a page to their groups; return how many were moved, and where the page ends."""
        behind = after or ("", "")
        found = unit.db.read_unlocked("group_states", group, *behind, None, None, None, None, PAGE)
        keys = [(collection, values[0]) for collection, *values in found]
        unit.read_documents(keys)
        service, leaving, moved = self._service_of(group), list[Failure](), 0
        for key in keys:
            doc = unit.docs[key]
            if doc is None or doc.fingerprint != group:
                continue
            error = _error_of(doc.last_error)
            target = _group_of(unit.group_rules(), error, group)
            if target == group:
                continue
            history = read_history(doc.attempts)
            entries = [one for one in outcomes(history) if one.get("fingerprint") == group] or [error]
            for one in (*outcomes(history), error):
                _move(one, unit.group_rules())
            doc.fingerprint = target
            doc.last_error = json.dumps(error)
            if history is not None:
                doc.attempts = json.dumps(history)
            unit.change(key)
            moved += 1
            error.setdefault("fingerprint", target)
            leaving += _count_moved(unit, service, key[0], group, entries)
        self._uncount(unit, group, leaving, moved)
        return moved, keys[-1] if len(keys) == PAGE else None

    @transactional
    def _regroup_dead_letters(
        self, unit: UnitOfWork, group: str, after: tuple[int, int] | None
    ) -> tuple[int, tuple[int, int] | None]:
        """Move a page of dead letters, then of archived ones, to their groups, as for documents."""
        which, last = after or (0, 0)
        statement = _DEAD_LETTER_PAGES[which]
        rows = unit.db.read(statement, last, None, None, None, None, PAGE, None, group)
        unit.read_rows(rows)
        unit.read_errors(rows)
        leaving, moved, events = list[Failure](), 0, 0
        for id in rows:
            row = unit.rows[id]
            history = read_history(row.errors) if row is not None else None
            if row is None or row.fingerprint != group or not history:
                continue
            target = _group_of(unit.group_rules(), outcomes(history)[-1], group)
            if target == group:
                continue
            entries = [one for one in outcomes(history) if one.get("fingerprint") == group]
            for one in outcomes(history):
                _move(one, unit.group_rules())
            row.fingerprint, row.errors = target, json.dumps(history)
            unit.save(row)
            moved += 1
            if not row.ids:  # else its failures are counted with its documents
                leaving += _count_moved(unit, row.service, row.collection, group, entries)
                events += 1
        self._uncount(unit, group, leaving, events)
        if len(rows) == PAGE:
            return moved, (which, rows[-1])
        return moved, (which + 1, 0) if which + 1 < len(_DEAD_LETTER_PAGES) else None

    def _service_of(self, group: str) -> str:
        found = self.db.read("failure_group", group)
        return found[1] if found else ""

    def _uncount(self, unit: UnitOfWork, group: str, leaving: list[Failure], documents: int) -> None:
        if not leaving:
            return
        unit.db.lock("failure groups", [group])
        for _, *stored, _ in unit.db.read("group_counts", [group]):
            names = ("kind", "version", "dependency")
            maps = [
                json.dumps(_without(counts, Counter(getattr(one, name) for one in leaving)))
                for counts, name in zip(stored, names, strict=True)
            ]
            unit.db.send("uncount_failures", group, len(leaving), documents, *maps)

    def _join(self, unit: UnitOfWork, group: str, target: str) -> None:
        """Add what is left of a group's counts, its notes and its owner to another group, and delete it."""
        unit.write()
        unit.db.lock("failure groups", sorted((group, target)))
        stored, into = unit.db.read("failure_group", group), unit.db.read("failure_group", target)
        if stored is None:
            return
        one = read_group(stored, {})
        other = read_group(into, {}) if into is not None else None
        last = one if other is None or one.last_seen > other.last_seen else other
        maps = [
            json.dumps(dict(Counter(getattr(one, name)) + Counter(getattr(other, name) if other else {})))
            for name in ("kinds", "versions", "dependencies")
        ]
        about = (last.error_type, last.message, last.place, last.traceback)
        seen, counts = (one.first_seen, one.last_seen), (one.failures, one.documents)
        owner = (one.service, one.collection)
        more = [json.dumps(dict(item)) for item in (last.context, one.succeeded_before, one.succeeded_at_last)]
        values = (target, *owner, *about, *seen, *counts, *maps, *more, last.library)
        unit.db.bulk("count_failures", [values])
        life = (other.life if other else GroupLife()).joined_by(one.life)
        unit.db.send("save_group_life", target, json.dumps(life.as_dict()))
        unit.db.send("forget_group", group)


def _count_moved(
    unit: UnitOfWork, service: str, collection: str | None, group: str, entries: Iterable[Mapping[str, Any]]
) -> list[Failure]:
    """Count failures of a document or event with the groups that they have now; return those that have left."""
    leaving: list[Failure] = []
    targets: set[str] = set()
    for one in entries:
        known = {name: value for name, value in one.items() if name in _FAILURE_FIELDS}
        failure = GroupedFailure(**{"at": unit.now, "error_type": "", "message": "", **known})
        if failure.fingerprint != group:
            first = failure.fingerprint not in targets and one.get("outcome") != Outcome.GIVEN_BACK
            targets.update([failure.fingerprint] if first else ())
            leaving.append(failure)
            unit.outcomes.add_failure(CountedFailure(service, collection, failure, int(first), moved=True))
    return leaving


def _error_of(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:  # another program may have written it
        return {}
    return found if isinstance(found, dict) else {}


def _group_of(rules: GroupRules, error: Mapping[str, Any], group: str) -> str:
    """Return the group that a stored failure belongs to."""
    return rules.group_of(str(error.get("raw_fingerprint") or error.get("fingerprint") or group), error)


def _move(error: dict[str, Any], rules: GroupRules) -> None:
    """Give a stored failure the fingerprint of its group, and keep the computed one."""
    raw = error.get("raw_fingerprint") or error.get("fingerprint")
    if raw:
        error["fingerprint"] = rules.group_of(str(raw), error)
        error["raw_fingerprint"] = raw
        if error["fingerprint"] == raw:
            del error["raw_fingerprint"]


def _without(counts: Mapping[str, int], leaving: Mapping[Any, int]) -> dict[str, int]:
    left = {name: count - leaving.get(name, 0) for name, count in counts.items()}
    return {name: count for name, count in left.items() if count > 0}
