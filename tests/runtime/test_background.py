"""A background service gets events only while its process has nothing else to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward import App, Document, Event, Work, names
from onward.testing import Simulation


class Letter(Document):
    pass


class LetterCame(Event):
    letter_ids: list[str] = names(Letter)


class DustFell(Event):
    place: int


def office(order: list[str], store: str | None = None) -> App:
    app = App(store=store)

    # Declared first: the order of declarations does not matter.
    @app.service("cleaning", on=DustFell, background=True)
    def clean(event: DustFell, work: Work) -> None:
        order.append(f"clean {event.place}")
        if event.place == 0:  # a letter is under the dust
            work.emit(LetterCame.of(work.add(Letter(id="b"))))

    @app.service("answering", on=LetterCame, finishes=Letter)
    def answer(letter: Letter, work: Work) -> None:
        order.append(letter.id)
        if letter.id == "a":
            work.add(Letter(id="a2"))
            work.emit(LetterCame(letter_ids=["a2"]))

    return app


def test_it_waits_until_the_others_have_nothing_to_do() -> None:
    order: list[str] = []
    app = office(order)
    with Simulation(app) as world:
        app.publish(DustFell(place=1), DustFell(place=2))
        letters = [Letter(id=id) for id in "abc"]
        app.publish(LetterCame.of(letters), documents=letters)
        world.drain()
    assert order == ["a", "b", "c", "a2", "clean 1", "clean 2"]


def test_what_arrives_meanwhile_goes_first() -> None:
    order: list[str] = []
    app = office(order)
    with Simulation(app) as world:
        app.publish(*(DustFell(place=place) for place in range(3)))
        world.drain()
    assert order == ["clean 0", "b", "clean 1", "clean 2"]


@pytest.mark.parametrize("finishes_first", (True, False))
def test_threads_of_a_worker_keep_the_order_too(tmp_path: Path, finishes_first: bool) -> None:
    order: list[str] = []
    app = office(order, store=f"sqlite:///{tmp_path}/store.db")
    letters = [Letter(id=f"n{number}") for number in range(20)]
    if finishes_first:
        app.publish(LetterCame.of(letters), documents=letters)
    app.publish(*(DustFell(place=place) for place in range(1, 4)))
    if not finishes_first:
        app.publish(LetterCame.of(letters), documents=letters)
    app.work_until_idle()
    assert sorted(order[:20]) == sorted(letter.id for letter in letters)
    assert sorted(order[20:]) == ["clean 1", "clean 2", "clean 3"]
    app.close()


def test_it_is_claimed_while_a_dependency_of_the_others_is_down() -> None:
    cleaned: list[int] = []
    app = App()
    app.dependency("printer")

    @app.service("answering", on=LetterCame, finishes=Letter, needs="printer")
    def answer(letter: Letter, work: Work) -> None:
        pytest.fail("the printer is down")

    @app.service("cleaning", on=DustFell, background=True)
    def clean(event: DustFell, work: Work) -> None:
        cleaned.append(event.place)

    with Simulation(app) as world:
        app.store.open_breaker("printer", "maintenance", by_hand=True)
        letter = Letter(id="a")
        app.publish(LetterCame.of(letter), documents=[letter])
        app.publish(DustFell(place=1))
        world.drain()
    assert cleaned == [1]
