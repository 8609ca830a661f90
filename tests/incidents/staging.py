"""The stage of an incident: an app of its own on a simulated clock, and the true cause of each failure.

    @incident("dependency")
    def mail_relay_down(scene: Scene) -> None:
        \"\"\"The mail relay was stopped for maintenance and nobody said so.\"\"\"
        (outage,) = scene.causes

        @scene.service("mailing", Mail, needs="relay")
        def send(mail: Mail, work: Work) -> None:
            if outage.on:
                raise outage(ConnectionRefusedError(111, "Connection refused"))

        scene.traffic(30)
        outage.on = True
        scene.traffic(10)

The label of a cause is what an operator who knows the truth calls it: it is written before any verdict is read.
The verdicts are read when the function returns. The labels, by what a person has to do:

    dependency         something outside is down, broken or refuses us: mend it, or the access to it
    overload           it works, but is asked for too much, or our machine is: slow down, or add capacity
    poison document    these documents are wrong, the program handles all others: repair or discard them
    bug or bad deploy  our program or its configuration is wrong: fix it, deploy, put the documents back
    unclear            even an expert with all stored evidence could not say
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, TypeVar

from onward import App, DeadLetter, Settings, Work
from onward.ops.actions.action import ActionProgress, Actor
from onward.ops.actions.failure_groups import RetryFailureGroup
from onward.ops.queries.failure_groups import list_groups
from onward.ops.text.diagnosis import diagnosis_sentences
from onward.recovery.diagnosis import diagnose
from onward.runtime.handler_call import CURRENT, Call
from onward.runtime.outcomes import AnySignal, GaveUp, Retried, SetAside
from onward.testing import Simulation
from tests.incidents.documents import EVENTS, WORDS, Invoice, Item, Notice, new_document
from tests.support.killed_worker import Fragile, crashing

Label = Literal["dependency", "overload", "poison document", "bug or bad deploy", "unclear"]
E = TypeVar("E", bound=BaseException)
H = TypeVar("H", bound=Callable[..., Any])

SAME_MOMENT_SECONDS = 1e-3
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


class Stage(Simulation):
    """A simulation in which one event may bring hundreds of documents, as those of the retry job do."""

    def _count_repeats(self, call: Call) -> None:
        """Count nothing: calls are counted by event there, so that many documents look like many repeats."""


@dataclass(eq=False)
class Cause:
    """One true cause of failures, with the label that an operator gives it."""

    scene: Scene
    label: Label
    groups: int | None
    """The most failure groups that it may show as; None: any number."""
    on: bool = False
    """Whether the trouble goes on at this moment; incidents switch it."""
    fingerprints: set[str] = field(default_factory=set)
    killers: set[str] = field(default_factory=set)
    """Ids of documents whose handling killed the worker process: no call of a handler ends with their failure."""
    finds: Callable[[DeadLetter], bool] | None = None
    """Whether a dead letter has this cause, where no handler was called."""

    def __call__(self, error: E, *documents: Item) -> E:
        """Note that the running call fails for this cause, or only these documents of it; return the error."""
        call = CURRENT.get()
        assert call is not None, "a cause is named inside a handler"
        ids = tuple(one.id for one in documents) or tuple(call.ids)
        self.scene.marks[call.delivery.row].append(Mark(self.scene.world.clock.now(), ids, self))
        return error

    def __enter__(self) -> None:
        """What is raised inside has this cause."""

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self(error)

    def takes(self, seconds: float) -> None:
        """The running call takes this long: more than its time limit, for this cause."""
        self.scene.world.clock.advance(seconds)
        self(TimeoutError())

    def kills(self, document: Item, work: Work) -> None:
        """The running call kills its worker process, as the out-of-memory killer or a segmentation fault does."""
        self.killers.add(document.id)
        self.scene.fragile.crash_after(0)
        work.checkpoint("never written")


@dataclass(frozen=True, slots=True)
class Mark:
    """A call that failed, and why."""

    at: float
    ids: tuple[str, ...]
    cause: Cause


class Scene:
    """An app with its documents, traffic, deploys and troubles."""

    def __init__(self, seed: str, labels: Sequence[tuple[Label, int | None]]) -> None:
        self.app = App(settings=Settings(metrics_backend="noop"), version="4.17.2")
        self.app.observe(self._observe)
        self.causes = [Cause(self, label, groups) for label, groups in labels]
        self.random = random.Random(seed)
        self.marks: dict[int, list[Mark]] = defaultdict(list)  # by the row of the event
        self.fragile: Fragile
        self._versions = ["4.17.2"]
        self._made = 0
        self._world: Simulation | None = None

    # -- the app

    def service(self, name: str, kind: type[Item] | None = Invoice, **options: Any) -> Callable[[H], H]:
        """Declare a service that finishes this kind of document; without a kind, it is given notices."""
        on = Notice if kind is None else EVENTS[kind]
        declare: Callable[[H], H] = self.app.service(name, on=on, finishes=kind, **options)  # type: ignore[assignment]
        return declare

    def dependency(self, name: str, health: Callable[[], bool] | None = None) -> None:
        self.app.dependency(name, health=health)

    def deploy(self, *versions: str) -> None:
        """From now on this version works; several: machines with each of them, in turns."""
        self._versions = list(versions)
        self.app.version = versions[0]

    @property
    def version(self) -> str:
        """The version of the worker whose handler is running."""
        return self.app.version

    @property
    def world(self) -> Simulation:
        """The simulation; it begins when it is first used, when all services are declared."""
        if self._world is None:
            self._world = Stage(self.app, seed=self.random.randrange(1000)).__enter__()
            self.fragile = crashing(self._world)
            self._began = self._world.clock.now()
        return self._world

    @property
    def minute(self) -> float:
        """Minutes since the simulation began."""
        return (self.world.clock.now() - self._began) / MINUTE

    # -- documents and time

    def documents(self, count: int, kind: type[Item] = Invoice, /, **fields: Any) -> list[Item]:
        """Make documents with realistic ids and fields; a field given as a function is called for each."""
        made = []
        for _ in range(count):
            self._made += 1
            made.append(new_document(kind, self._made, self.random, fields))
        return made

    def publish(
        self, documents: Sequence[Item], *, together: int = 1, source: str | None = None, delay: float = 0.0
    ) -> None:
        """Publish documents, this many with one event."""
        _ = self.world
        for first in range(0, len(documents), together):
            some = documents[first : first + together]
            event = EVENTS[type(some[0])]
            self.app.publish(event.of(some), documents=some, source=source, delay=delay)

    def traffic(
        self, count: int, kind: type[Item] = Invoice, /, *, every: float = 30.0, **fields: Any
    ) -> list[Item]:
        """Publish documents one after the other, one each `every` seconds, and work on them."""
        made = self.documents(count, kind, **fields)
        self.arrive(made, every=every)
        return made

    def arrive(self, documents: Sequence[Item], *, every: float = 30.0) -> None:
        """These documents arrive one after the other."""
        if len(self._versions) > 1:
            for one in documents:
                self.publish([one])
                self.run(every / MINUTE)
            return
        _ = self.world
        with self.app.transaction():
            for number, one in enumerate(documents):
                self.publish([one], delay=number * every)
        self.run(len(documents) * every / MINUTE)

    def import_at_once(
        self,
        count: int,
        kind: type[Item] = Invoice,
        /,
        *,
        together: int = 1,
        source: str | None = None,
        **fields: Any,
    ) -> list[Item]:
        """Publish documents at the same moment, `together` in one event, and work on them."""
        made = self.documents(count, kind, **fields)
        self.publish(made, together=together, source=source)
        self.run(0)
        return made

    def mixed_traffic(self, *documents: Sequence[Item], every: float = 30.0) -> None:
        """These documents arrive in random order, one after the other."""
        shuffled = [one for some in documents for one in some]
        self.random.shuffle(shuffled)
        self.arrive(shuffled, every=every)

    def notices(self, count: int, *, every: float = 30.0, what: str = "") -> None:
        """Events arrive that name no document."""
        _ = self.world
        for number in range(count):
            self._made += 1
            notice = Notice(number=self._made, what=what or self.random.choice(WORDS))
            self.app.publish(notice, delay=number * every)
        self.run(count * every / MINUTE)

    def run(self, minutes: float = 0.0, *, hours: float = 0.0) -> None:
        """Let time pass; a worker that is killed is replaced."""
        self._versions.append(self._versions.pop(0))
        self.app.version = self._versions[-1]
        clock = self.world.clock
        ends = clock.now() + minutes * MINUTE + hours * HOUR
        while self.fragile.crashes(lambda: self.world.drain(within=max(0.0, ends - clock.now()))):
            pass
        clock.advance(max(0.0, ends - clock.now()))

    def retry_all(self) -> None:
        """An operator puts everything back that failed."""
        for evidence in list_groups(self.app, everything=True).page:
            RetryFailureGroup(evidence.group.fingerprint).run(self.app, ActionProgress(), Actor("ops", "cli"))
        self.run(0)

    # -- the truth

    def _observe(self, signal: AnySignal) -> None:
        if isinstance(signal, (Retried, GaveUp, SetAside)) and signal.failure is not None:
            at, failure = signal.failure.at, signal.failure
            fitting = [
                mark
                for mark in self.marks[signal.row]
                if abs(mark.at - at) < SAME_MOMENT_SECONDS
                and (not signal.ids or not mark.ids or set(mark.ids) & set(signal.ids))
            ]
            if fitting:
                # Parts of a batch fail at the same moment as the whole: the smallest part knows best.
                best = min(reversed(fitting), key=lambda mark: len(mark.ids))
                best.cause.fingerprints.add(failure.fingerprint)

    def settle_truth(self) -> None:
        """Find the fingerprints of dead letters for which no handler has failed."""
        for letter in self.world.dead_letters():
            ids = {id for _, id in letter.documents}
            for cause in self.causes:
                if (cause.killers & ids and letter.deaths) or (cause.finds is not None and cause.finds(letter)):
                    cause.fingerprints.add(letter.fingerprint)

    def close(self) -> None:
        if self._world is not None:
            self._world.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class Group:
    """A failure group as its reader sees it."""

    fingerprint: str
    verdict: str
    error: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CauseResult:
    """What became of one cause: the groups that hold its failures."""

    incident: Incident
    number: int
    label: Label
    most_groups: int | None
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        several = len(self.incident.labels) > 1
        return f"{self.incident.name}[{self.number}]" if several else self.incident.name

    @property
    def verdict(self) -> str:
        """The label if all groups have it, else another verdict, `unclear` last; `none` without a group."""
        verdicts = [group.verdict for group in self.groups]
        others = [one for one in verdicts if one != self.label]
        wrong = [one for one in others if one != "unclear"]
        return (wrong or others or verdicts or ["none"])[0]

    @property
    def is_split(self) -> bool:
        return self.most_groups is not None and len(self.groups) > self.most_groups


@dataclass(frozen=True, slots=True)
class IncidentResult:
    causes: tuple[CauseResult, ...]
    merged: tuple[Group, ...]
    """Groups that hold failures of several causes."""
    stray: tuple[Group, ...]
    """Groups that hold failures of no cause."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A staged incident, and the labels of its causes."""

    name: str
    theme: str
    story: str
    labels: tuple[tuple[Label, int | None], ...]
    stage: Callable[[Scene], None]

    @property
    def set(self) -> str:
        """The folder that it is in."""
        return self.theme.partition("/")[0]

    def play(self) -> IncidentResult:
        scene = Scene(self.name, self.labels)
        try:
            self.stage(scene)
            scene.settle_truth()
            groups = {group.fingerprint: group for group in _read_groups(scene.app)}
        finally:
            with suppress(Exception):  # what went wrong before is what matters
                scene.close()
        results = [
            CauseResult(self, number, cause.label, cause.groups, _known(groups, cause.fingerprints))
            for number, cause in enumerate(scene.causes)
        ]
        found = [fingerprint for cause in scene.causes for fingerprint in cause.fingerprints]
        merged = {one for one in found if found.count(one) > 1}
        return IncidentResult(tuple(results), _known(groups, merged), _known(groups, groups.keys() - set(found)))


def _read_groups(app: App) -> Iterable[Group]:
    """Read verdicts as users do."""
    for evidence in list_groups(app, everything=True).page:
        diagnosis, group = diagnose(evidence), evidence.group
        error = f"{group.service}: {group.error_type}: {group.message}"
        yield Group(group.fingerprint, str(diagnosis.kind.value), error, tuple(diagnosis_sentences(diagnosis)))


def _known(groups: dict[str, Group], fingerprints: Iterable[str]) -> tuple[Group, ...]:
    return tuple(groups[one] for one in sorted(fingerprints) if one in groups)


INCIDENTS: list[Incident] = []


def incident(
    *labels: Label, groups: int | Sequence[int | None] | None = 1
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Stage an incident whose causes have these labels, each in at most `groups` failure groups."""
    most = list(groups) if isinstance(groups, Sequence) else [groups] * len(labels)

    def add(stage: Callable[[Scene], None]) -> Callable[[Scene], None]:
        theme, story = "/".join(stage.__module__.split(".")[-2:]), (stage.__doc__ or "").strip()
        assert story, f"{stage.__name__} says what happened in its docstring"
        assert stage.__name__ not in {one.name for one in INCIDENTS}, f"{stage.__name__} is staged twice"
        INCIDENTS.append(Incident(stage.__name__, theme, story, tuple(zip(labels, most, strict=True)), stage))
        return stage

    return add
