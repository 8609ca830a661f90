"""A suspect event runs alone: not only without others of its service, but without any other."""

from __future__ import annotations

from pathlib import Path

from onward import App, Document, Event, Settings, Work, names


class Left(Document):
    pass


class Right(Document):
    pass


class LeftSeen(Event):
    left_id: str = names(Left)


class RightSeen(Event):
    right_id: str = names(Right)


def test_an_engine_for_suspects_runs_one_event_of_one_service_and_ends(tmp_path: Path) -> None:
    app = App(store=f"sqlite:///{tmp_path}/onward.db", settings=Settings())
    ran: list[str] = []

    @app.service("left", on=LeftSeen, finishes=Left)
    def left(document: Left, work: Work) -> None:
        ran.append(document.id)

    @app.service("right", on=RightSeen, finishes=Right)
    def right(document: Right, work: Work) -> None:
        ran.append(document.id)

    one, other = Left(id="one"), Right(id="other")
    app.publish(LeftSeen.of(one), RightSeen.of(other), documents=[one, other])
    for worker in ("first", "second"):
        running = [app.store.claim(worker, name, limit=1, lease=60.0)[0].row for name in ("left", "right")]
        app.store.record_crash(worker, running)
    app.engine(suspects=True).run()
    assert len(ran) == 1
    app.engine(suspects=True).run()
    assert sorted(ran) == ["one", "other"]
    app.close()
