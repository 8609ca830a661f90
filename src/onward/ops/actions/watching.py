"""Watching sources, pausing and resuming them, and watching them no longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onward.app import App
from onward.ops.actions.action import Action, ActionOutcome, ActionPlan, ActionProgress, Actor, say, worker_hint
from onward.ops.bad_input import BadInput
from onward.ops.submissions import check_takes_sources
from onward.ops.text.format import counted, display_name, interval, one_line, short_name, source_name
from onward.pipeline.documents import Source
from onward.retry import OnwardError


@dataclass(frozen=True, slots=True)
class WatchSource(Action):
    """Ingest a source now, and again at intervals."""

    source: str  # a canonical location
    every: float | None = None  # seconds; None: as it was
    options: dict[str, str] = field(default_factory=dict)
    on_vanished: str | None = None  # forget or keep; None: as it was

    def plan(self, app: App) -> ActionPlan:
        from onward.pipeline.source_settings import WrongOption, check_options, source_settings
        from onward.pipeline.watching import WrongInterval, checked_interval

        check_takes_sources(app)
        name = display_name(self.source)
        try:
            check_options(self.source, self.options)
            every = checked_interval(source_settings(app, self.source), self.every)
        except (WrongOption, WrongInterval) as error:
            raise BadInput(str(error)) from error
        return ActionPlan(
            f"Watch {one_line(name, 80)}?",
            1,
            say(f"{name} would be ingested now and every {interval(every)}.", *self._settings()),
            {"source": source_name(self.source)},
            undo="watch it no longer.",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        from onward.pipeline.source_settings import WrongOption
        from onward.pipeline.watching import WrongInterval, watch

        check_takes_sources(app)
        try:
            settings = watch(
                app, self.source, every=self.every, options=self.options, on_vanished=self.on_vanished
            )
        except (WrongOption, WrongInterval) as error:
            raise BadInput(str(error)) from error
        actor.log(app, "watch", {"source": self.source, "every": settings.every}, 1)
        assert settings.every is not None
        text = f"{display_name(self.source)} is ingested now and every {interval(settings.every)}."
        return ActionOutcome(1, say(text, *self._settings()), {"source": source_name(self.source)})

    def _settings(self) -> tuple[str, str]:
        """Return what the given settings do; "" where none is given."""
        options = ", ".join(f"{name}={one_line(value, 80)}" for name, value in self.options.items())
        vanished = {"keep": "What is no longer there is kept.", "forget": "What is no longer there is removed."}
        return vanished.get(self.on_vanished or "", ""), options and f"Its options: {options}."


@dataclass(frozen=True, slots=True)
class ChangeWatches(Action):
    """Pause or resume watched sources, or watch them no longer."""

    change: str  # pause, resume or remove
    sources: tuple[str, ...]  # canonical locations

    def plan(self, app: App) -> ActionPlan:
        from onward.pipeline.source_settings import source_settings

        settings = [source_settings(app, source) for source in self.sources]
        touched = [one for one in settings if _applies(self.change, one)]
        return ActionPlan(
            _TITLES[self.change].format(
                short_name(touched[0].location) if len(touched) == 1 else counted(len(touched), "source")
            ),
            len(touched),
            say(*(f"{display_name(one.location)} would be {_DONE[self.change]}." for one in touched))
            or say("Nothing would be changed."),
            {"sources": [source_name(one.location) for one in touched]},
            undo=_UNDO[self.change],
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        from onward.pipeline import watching

        change: Callable[[App, str], bool] = {
            "pause": watching.pause,
            "resume": watching.resume,
            "remove": watching.unwatch,
        }[self.change]
        changed = [source for source in self.sources if change(app, source)]
        for source in changed:
            actor.log(app, f"{self.change} source", {"source": source}, 1)
        same = [source for source in self.sources if source not in changed]
        sentences = say(*(f"{display_name(source)} is {_DONE[self.change]}." for source in changed))
        sentences += say(*(self._nothing_to_do(app, source) for source in same))
        if self.change == "resume" and changed:
            sentences += worker_hint(app)
        return ActionOutcome(len(changed), sentences, {"sources": [source_name(source) for source in changed]})

    def _nothing_to_do(self, app: App, source: str) -> str:
        from onward.pipeline.source_settings import source_settings

        why = "it is not watched"
        if source_settings(app, source).every is not None:
            why = "it is paused already" if self.change == "pause" else "it is not paused"
        return f"{display_name(source)}: nothing to {self.change}, {why}."


_TITLES = {"pause": "Pause {}?", "resume": "Resume {}?", "remove": "Watch {} no longer?"}
_DONE = {
    "pause": "paused",
    "resume": "resumed; its next run begins now",
    "remove": "watched no longer; its documents stay",
}
_UNDO = {"pause": "resume it.", "resume": "pause it.", "remove": "watch it again."}


def _applies(change: str, settings: Source) -> bool:
    if settings.every is None:
        return False
    return change == "remove" or settings.paused == (change == "resume")


def watched_source(app: App, location: str) -> str:
    """Return the canonical location of a source that is to be watched; it need not be known yet."""
    from onward.pipeline.sources import known_source

    try:
        return known_source(app, location)
    except OnwardError as error:
        raise BadInput(str(error)) from error
