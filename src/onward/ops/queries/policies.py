"""The retry ladder in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onward.ops.text.format import duration
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.policy import OTHER_ROUNDS, Ladder, RetryPolicy

_SHOWN_WAITS = 8


@dataclass(frozen=True, slots=True)
class Rung:
    rung: int
    name: str
    when: str
    waits: tuple[tuple[float, float], ...]  # the shortest and longest of each of the first waits, in seconds
    endless: bool
    gives_up: str
    then: str

    def describe_waits(self) -> str:
        """Return the waits in words; a random one as its range."""
        return _describe_waits(self.waits, endless=self.endless)


@dataclass(frozen=True, slots=True)
class CollectionRounds:
    """The rules for the rounds of a collection that declares its own; times in seconds."""

    collection: str
    max_rounds: int
    waits: tuple[float, ...]  # after each of the first rounds
    stuck_after: float

    def describe(self) -> str:
        """Return the rules in words."""
        if not self.waits:
            return f"1 round; lost after {duration(self.stuck_after)} without a report"
        more = self.max_rounds - 1 > len(self.waits)
        waits = _describe_waits([(wait, wait) for wait in self.waits], endless=more)
        lost = f"lost after {duration(self.stuck_after)} without a report"
        return f"{self.max_rounds} rounds; waits {waits}; {lost}"


def _describe_waits(bounds: Sequence[tuple[float, float]], *, endless: bool) -> str:
    if not bounds:
        return "–"
    minutes = all(wait and wait % 60 == 0 for both in bounds for wait in both)
    unit, per = ("min", 60) if minutes else ("s", 1)
    pairs = [(f"{low / per:g}", f"{high / per:g}") for low, high in bounds]
    waits = [high if low == high else f"{low}–{high}" for low, high in pairs]
    if not endless:
        return f"{', '.join(waits)} {unit}"
    if waits[-1] != waits[-2]:
        return f"{', '.join(waits)}, … {unit}"
    until = waits.index(waits[-1]) + 1
    return f"{', '.join(waits[:until])} {unit}, then every {waits[-1]} {unit}"


def describe_rounds(rules: RetryJobRules) -> list[CollectionRounds]:
    """Return the effective rules of the collections that declare their own, by name."""
    return [
        CollectionRounds(
            name,
            most := rules.max_rounds(name),
            tuple(rules.backoff(name, rounds) for rounds in range(1, min(most - 1, _SHOWN_WAITS) + 1)),
            rules.stuck_after(name),
        )
        for name in sorted(rules.own)
    ]


def describe_ladder(ladder: Ladder) -> list[Rung]:
    pending = "dead letter; the document stays pending, for rung 4"
    persistent = f"from retry {ladder.failed_batch.persistent_from} on, shown to the operator as persistent"
    rounds = ", ".join(f"{name} {most}" for name, most in {**ladder.rounds, "others": OTHER_ROUNDS}.items())
    over = "the document is failed_max_retries"
    rungs = [
        (1, ladder.not_ready, "the event came before its document can be read", "dead letter"),
        (2, ladder.transient, "the handler raised something that may pass", pending),
        (2, ladder.fetching, "a source could not be fetched, which may pass", pending),
        (3, ladder.failed_batch, "part of a task failed", persistent),
        (4, ladder.retry_job, "a document is unfinished and its time has come", over),
    ]
    described = []
    for number, policy, when, then in rungs:
        waits, endless = policy.schedule(_SHOWN_WAITS), policy.max_tries is None
        gives_up = f"{rounds} rounds" if policy is ladder.retry_job else _limits(policy)
        described.append(Rung(number, policy.name, when, waits, endless, gives_up, then))
    then = "requeue, schedule, reset, export, archive, purge"
    return [*described, Rung(5, "operator", "someone decides", (), endless=False, gives_up="–", then=then)]


def describe_archive(ladder: Ladder) -> str:
    """Say how the rungs multiply."""
    rounds, tries = ladder.max_rounds("archives"), ladder.transient.max_tries
    return (
        f"So an archive gets up to {rounds} × {tries} tries before it is given up:\n"
        f"{rounds} rounds of the retry job, {tries} {'try' if tries == 1 else 'tries'} in each."
    )


def _limits(policy: RetryPolicy) -> str:
    if policy.max_elapsed == 0:
        return "after 1 try"
    tries = {None: "", 1: "1 try"}.get(policy.max_tries, f"{policy.max_tries} tries")
    time = f"{policy.max_elapsed / 60:g} min of being able to try" if policy.max_elapsed is not None else ""
    limits = " or ".join(filter(None, (tries, time)))
    return f"after {limits}" if limits else "never"
