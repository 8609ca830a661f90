"""What is wrong with a dependency, and its limits, in one sentence for command line, console and API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onward.ops.queries.services import Outage
from onward.ops.text.format import Instant, Sentence, TimeFormat, counted, local_time, number, sentence_text


def outage_sentence(outage: Outage) -> Sentence:
    """Return what is wrong, since when, the remedy, what waits, and when the dependency is asked again."""
    parts = [*_problem(outage), *_ending(outage)]
    remedy = outage.remedy.rstrip(".")
    if outage.by_hand:
        pass  # what an operator opened is closed by the command or the button beside this sentence
    elif outage.needs_person:
        parts.append((f". It needs a person: {remedy}" if remedy else ". It needs a person",))
    elif remedy:
        parts.append((f". {remedy}",))
    return tuple(part for sentence in parts for part in sentence)


def outage_text(outage: Outage, time_format: TimeFormat = local_time) -> str:
    return sentence_text(outage_sentence(outage), outage.read_at, time_format)


def _problem(outage: Outage) -> list[Sentence]:
    name = outage.dependency
    since: Sentence = () if outage.since is None else (" since ", Instant(outage.since))
    why = f": {outage.reason.rstrip('.')}" if outage.reason else ""
    if outage.by_hand:
        return [(f"{name} has been out of service by hand", *since, why)]
    if outage.state == "paused":
        until: Sentence = () if outage.paused_until is None else (" until ", Instant(outage.paused_until))
        return [(f"{name} has reached its rate limit and is paused", *until)]
    if outage.state == "unreached":
        return [(f"{name} has not been reached", *since, why)]
    if outage.openings > 1:
        works = "" if outage.state == "open" else ", and works at the moment"
        return [(f"{name} has failed on and off", *since, f" ({outage.openings} times){works}", why)]
    if outage.state == "open":
        return [(f"{name} has been down", *since, why)]
    return [(f"{name} works again, after it was down", why)]


def _ending(outage: Outage) -> list[Sentence]:
    parts: list[Sentence] = []
    if outage.waiting:
        wait = "waits" if outage.waiting == 1 else "wait"
        parts.append((f". {counted(outage.waiting, 'event')} {wait}",))
    if outage.by_hand:
        parts.append(("; bring it back when it works",))
    elif outage.state in ("open", "unreached") and outage.asked_again is not None:
        late = outage.asked_again <= outage.read_at
        parts.append(
            ("; it is asked again ", "as soon as a worker runs" if late else Instant(outage.asked_again, True))
        )
    return parts


def needed_by(facts: Mapping[str, Any]) -> str:
    """Return what needs a dependency: its services, or the sources of an account."""
    if facts["services"]:
        return ", ".join(facts["services"])
    from onward.pipeline.source_kinds.refused_logins import is_login  # imports what fetching needs

    return "the sources of this account" if is_login(facts["dependency"]) else "no service"


def limit_text(facts: Mapping[str, Any]) -> str:
    """Return the declared limits of a dependency, and what waits for them; empty if it has none."""
    parts = [f"{facts['rate']}"] if facts["rate"] else []
    if facts["concurrency"] is not None:
        parts.append(f"{number(facts['concurrency'])} at once ({number(facts['claimed'])} now)")
    if not parts:
        return ""
    waiting = facts["waiting_for_limit"]
    waits = (
        f"; {counted(waiting, 'event')} {'waits' if waiting == 1 else 'wait'} for that limit" if waiting else ""
    )
    return f"limited to {' and '.join(parts)}{waits}"
