"""What is wrong with a dependency, in one sentence for command line, console and API."""

from __future__ import annotations

from onward.ops.queries.services import Outage
from onward.ops.text.format import Instant, Sentence, TimeFormat, counted, local_time, sentence_text


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
