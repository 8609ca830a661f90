"""Plain tasks: a function is called now, and run later by a worker."""

from __future__ import annotations

import asyncio
import enum
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field, PlainSerializer

from onward import (
    App,
    CallFailed,
    Exponential,
    OnwardError,
    Permanent,
    RetryPolicy,
    Settings,
    Status,
    Unavailable,
    Work,
)
from onward.runtime.service import RegistrationError
from onward.runtime.task_call import CallNotFound
from onward.runtime.task_parameters import ArgumentsRefused
from onward.testing import Simulation

DAY = 86_400.0


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Size:
    width: int
    height: int


class Person(BaseModel):
    name: str
    born: datetime


def declared() -> App:
    """Return an app on no store of its own: a simulation gives it one."""
    return App(store="sqlite://:memory:", settings=Settings())


def test_a_call_is_stored_and_run_by_a_worker(app: App) -> None:
    sent: list[str] = []

    @app.task
    def send_welcome(address: str) -> None:
        sent.append(address)

    call = send_welcome.delay("ada@example.org")
    assert (call.done(), call.state().status, sent) == (False, Status.PENDING, [])
    app.work_until_idle()
    assert sent == ["ada@example.org"]
    assert call.done()
    assert call.result(timeout=0) is None
    assert app.store.document_counts() == {"send_welcome_calls": {Status.PROCESSED: 1}}  # and no result


@pytest.mark.parametrize("ends", ("commit", "rollback"))
def test_a_call_is_part_of_the_callers_transaction(tmp_path: Path, ends: str) -> None:
    app, sent = App(store=f"sqlite:///{tmp_path / 'shop.db'}", settings=Settings()), list[str]()

    @app.task
    def send_welcome(address: str) -> None:
        sent.append(address)

    _ = app.store
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE users (address TEXT)")
        connection.execute("INSERT INTO users VALUES ('ada@example.org')")
        call = send_welcome.options(connection=connection).delay("ada@example.org")
        getattr(connection, ends)()
    if ends == "rollback":
        with pytest.raises(CallNotFound):
            call.state()
    else:
        assert call.state().status == Status.PENDING, "without a worker"
    app.work_until_idle()
    assert sent == (["ada@example.org"] if ends == "commit" else [])
    app.close()


def test_a_call_is_stored_with_await(app: App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    call = asyncio.run(double.adelay(4))
    app.work_until_idle()
    assert call.result(timeout=0) == 8


def test_called_directly_the_function_just_runs(app: App) -> None:
    @app.task
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert double(4) == 8
    assert (repr(double), double.__doc__) == ("<task 'double'>", "Double a number.")
    assert app.store.document_counts() == {}


def test_arguments_and_results_keep_their_types(app: App) -> None:
    got: list[Any] = []

    @app.task
    def draw(
        person: Person,
        size: Size,
        at: datetime,
        *colours: Colour,
        raw: bytes,
        ratio: float = 1.0,
        **more: set[int],
    ) -> Size:
        got.append((person, size, at, colours, raw, ratio, more))
        return Size(size.height, size.width)

    born = datetime(1815, 12, 10, tzinfo=UTC)
    given = (Person(name="Ada", born=born), Size(3, 4), born, Colour.RED, Colour.RED)
    call = draw.delay(*given, raw=b"\xff\x00", ratio=float("inf"), odd={1, 3})
    app.work_until_idle()
    assert got == [(*given[:3], (Colour.RED, Colour.RED), b"\xff\x00", float("inf"), {"odd": {1, 3}})]
    assert call.result(timeout=0) == Size(4, 3)


def test_a_default_is_that_of_the_function(app: App) -> None:
    got: list[tuple[int, int, int]] = []

    @app.task
    def add(first: int, /, second: int = 2, *, third: int = 3) -> None:
        got.append((first, second, third))

    add.delay(1)
    add.delay(1, third=5)
    app.work_until_idle()
    assert sorted(got) == [(1, 2, 3), (1, 2, 5)]


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    (
        ((), {}, "missing a required argument: 'count'"),
        ((1,), {"colour": "red"}, "got an unexpected keyword argument 'colour'"),
        (("many",), {}, "count='many': Input should be a valid integer"),
        ((0,), {}, "count=0: Input should be greater than 0"),
        ((1,), {"about": datetime(2026, 1, 1, tzinfo=UTC)}, "about=datetime.datetime"),
    ),
)
def test_wrong_arguments_raise_at_the_caller_and_nothing_is_stored(
    args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    app = declared()

    @app.task
    def repeat(count: Annotated[int, Field(gt=0)], about=None) -> None:  # type: ignore[no-untyped-def]
        raise AssertionError("never run")

    with pytest.raises(ArgumentsRefused) as refused:
        repeat.delay(*args, **kwargs)
    assert "task 'repeat'" in str(refused.value)
    assert said in str(refused.value)
    with pytest.raises(ArgumentsRefused):
        repeat.starmap([(1,), (1, 2, 3)])  # the first is right, and is not stored either
    assert app.store.document_counts() == {}


def test_an_argument_that_could_not_be_read_back_is_refused() -> None:
    app = declared()

    @app.task
    def count(number: Annotated[int, PlainSerializer(lambda number: f"no. {number}")]) -> None:
        pass

    with pytest.raises(ArgumentsRefused, match=r"would not be read back as it was given: number='no\. 7'"):
        count.delay(7)


class Circle(BaseModel):
    radius: float


class Ring(Circle):
    hole: float


class Ball(BaseModel):
    radius: float


@dataclass
class Plain:
    """A class that cannot be compared, and arrives as it was."""

    __hash__ = None  # type: ignore[assignment]
    __eq__ = object.__eq__
    name: str


@dataclass
class Span:
    begins: float
    ends: float


INF, NAN = float("inf"), float("nan")
CHANGED = (
    (Any, INF, "value=inf would be read back as 'Infinity'"),
    (Any, [1, NAN], r"value=\[1, nan\]"),
    (str | bytes, b"ab", "value=b'ab' would be read back as 'YWI='"),
    (float | str, INF, "value=inf"),
    (dict, {"raw": b"ab"}, "value="),
    (list, [{1, 2}], "value="),
    (dict[str, Any], {"day": date(2026, 1, 1)}, "value="),
    (object, Decimal("1.50"), "value="),
    (Circle, Ring(radius=2, hole=1), "value=Ring.* would be read back as Circle"),
    (list[Circle], [Ring(radius=2, hole=1)], "value=.*Ring"),
    (Ball | Circle, Circle(radius=2), "value=Circle.* would be read back as Ball"),
)
KEPT = (
    (Any, [1, {"a": (True, None)}], [1, {"a": [True, None]}]),
    (dict[str, Any], {"a": (1, [2])}, {"a": [1, [2]]}),
    (list[int], (1, 2), [1, 2]),
    (float, 3, 3.0),
    (set[int], {1, 3}, {1, 3}),
    (Colour, Colour.RED, Colour.RED),
    (Size, Size(3, 4), Size(3, 4)),
    (Circle | Ball, Circle(radius=2), Circle(radius=2)),
    (
        datetime,
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
    ),
    (float, NAN, None),
    (tuple[float, ...], (1.0, NAN, INF), None),
    (set[float], {1.0, NAN}, None),
    (dict[str, Span], {"a": Span(NAN, 1.0)}, None),
    (list[Plain], [Plain("a")], None),
)


def echo_of(app: App, hint: Any) -> Any:
    """Return a task that returns its argument; both have this type, or no annotation for Any."""

    def echo(value):  # type: ignore[no-untyped-def]
        return value

    if hint is not Any:
        echo.__annotations__ = {"value": hint, "return": hint}
    return app.task(echo)


@pytest.mark.parametrize(("hint", "value", "said"), CHANGED)
def test_an_argument_that_would_arrive_as_another_is_refused(hint: Any, value: Any, said: str) -> None:
    with pytest.raises(ArgumentsRefused, match=said) as refused:
        echo_of(declared(), hint).delay(value)
    assert "annotate" in str(refused.value)


@pytest.mark.parametrize(("hint", "value"), [case[:2] for case in CHANGED])
def test_a_result_that_would_be_read_as_another_fails_the_call(hint: Any, value: Any) -> None:
    app = declared()

    def make():  # type: ignore[no-untyped-def]
        return value

    if hint is not Any:
        make.__annotations__ = {"return": hint}
    task: Any = app.task(make)
    with Simulation(app) as world:
        call = task.delay()
        world.drain()
        with pytest.raises(CallFailed, match="read back as"):
            call.result(timeout=0)


@pytest.mark.parametrize(("hint", "value", "arrives"), KEPT)
def test_an_argument_and_a_result_arrive_as_they_were(hint: Any, value: Any, arrives: Any) -> None:
    app = declared()
    task = echo_of(app, hint)
    with Simulation(app) as world:
        call = task.delay(value)
        world.drain()
        returned = call.result(timeout=0)
        if arrives is not None:
            assert returned == arrives
        else:  # NaN equals nothing, and a set has no order
            assert sorted(repr(returned)) == sorted(repr(value))


def test_a_tuple_without_an_annotation_is_a_list() -> None:
    app = declared()

    @app.task
    def split(value, **more):  # type: ignore[no-untyped-def]
        return value, more

    with Simulation(app) as world:
        call = split.delay((1, (2,)), three=(3,))
        world.drain()
        assert call.result(timeout=0) == [[1, [2]], {"three": [3]}]


def test_a_list_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ArgumentsRefused):
        echo_of(declared(), Any).delay(endless)


def test_a_parameter_annotated_as_work_gets_the_work(app: App) -> None:
    @app.task
    def count(first: int, work: Work, second: int) -> list[int]:
        assert work.key
        return [first, second, work.try_number]

    call = count.delay(1, 2)  # type: ignore[call-arg]  # the work is given by the runtime
    app.work_until_idle()
    assert call.result(timeout=0) == [1, 2, 1]


def test_a_coroutine_runs_on_the_loop_and_a_caller_awaits_it(app: App) -> None:
    @app.task
    async def greet(name: str) -> str:
        await asyncio.sleep(0)
        return f"Hello, {name}!"

    async def ask() -> tuple[str, str]:
        call = await asyncio.to_thread(greet.delay, "Ada")
        waiting = asyncio.ensure_future(call.aresult())
        await asyncio.to_thread(app.work_until_idle)
        return await waiting, await call

    assert asyncio.run(ask()) == ("Hello, Ada!", "Hello, Ada!")
    assert asyncio.run(greet("Bob")) == "Hello, Bob!"


def test_a_failing_call_is_retried_like_a_document(store_url: str) -> None:
    app = declared()
    tries: list[int] = []

    @app.task(policy=RetryPolicy(Exponential(5), max_tries=5))
    def flaky(work: Work | None = None) -> int:
        assert work is not None
        tries.append(work.try_number)
        if len(tries) < 3:
            raise ConnectionError("not now")
        return len(tries)

    with Simulation(app, store=store_url) as world:
        call = flaky.delay()
        world.drain()
        with pytest.raises(
            TimeoutError, match=r"it is pending, in round 1, its last error: .*ConnectionError: not now"
        ):
            call.result(timeout=0)
        world.run_for(3_600)
        assert (tries, call.result(timeout=0)) == ([1, 2, 3], 3)


def test_a_call_that_is_given_up_says_why_and_where_to_look() -> None:
    app = declared()

    @app.task
    def refuse() -> None:
        raise Permanent("no such customer")

    with Simulation(app) as world:
        call = refuse.delay()
        world.drain()
        with pytest.raises(CallFailed) as failed:
            call.result()
        assert "Permanent: no such customer" in str(failed.value)
        assert f"onward show refuse_calls/{call.id}" in str(failed.value)
        assert failed.value.state is not None
        assert failed.value.state.status == Status.FAILED
        assert isinstance(failed.value, OnwardError)
        assert [letter.service_name for letter in world.dead_letters()] == ["refuse"]


def test_an_outage_of_what_a_task_needs_burns_no_tries() -> None:
    app = declared()

    @app.task(name="mail.send", needs="mail")
    def send(address: str) -> str:
        return address

    with Simulation(app) as world:
        world.fail("mail", for_seconds=3 * 3_600)
        calls = send.map(f"{number}@example.org" for number in range(5))
        world.run_for(4 * 3_600)
        assert [call.result(timeout=0) for call in calls] == [f"{number}@example.org" for number in range(5)]
        assert {call.state().attempt_count for call in calls} == {1}


def test_the_same_id_is_the_same_call(app: App) -> None:
    ran: list[int] = []

    @app.task
    def bill(order: int) -> int:
        ran.append(order)
        return order

    first = bill.options(id="order-7", source="shop", priority=3).delay(7)
    again = bill.options(id="order-7").delay(8)
    state = first.state()
    assert (again, state.priority, state.source, state.round) == (first, 3, "shop", 1)
    app.work_until_idle()
    bill.options(id="order-7").delay(7)
    assert app.store.counts()["bill"].get("waiting", 0) == 0
    app.work_until_idle()
    assert (ran, bill.call("order-7").result(timeout=0)) == ([7], 7)
    assert first.state().round == 1
    with pytest.raises(ArgumentsRefused, match="one id \\('order-7'\\) cannot name many calls"):
        bill.options(id="order-7").map([1, 2])


@pytest.mark.parametrize("delay", (60, timedelta(minutes=1)))
def test_a_delayed_call_waits(delay: float | timedelta) -> None:
    app = declared()
    ran: list[float] = []

    @app.task
    def remind(work: Work) -> None:
        ran.append(work.now)

    with Simulation(app) as world:
        began = world.clock.now()
        remind.options(delay=delay).delay()  # type: ignore[call-arg]
        world.run_for(59)
        assert ran == []
        world.run_for(2)
        assert ran == [pytest.approx(began + 60, abs=0.01)]


def test_many_calls_take_few_transactions(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task
    def square(number: int) -> int:
        return number**2

    sizes: list[int] = []
    publish = app.store.publish_with_documents

    def counted(documents: Any, envelopes: Any) -> Any:
        sizes.append(len(documents))
        return publish(documents, envelopes)

    monkeypatch.setattr(app.store, "publish_with_documents", counted)
    calls = square.map(range(1_500))
    assert (len({call.id for call in calls}), sizes) == (1_500, [1_000, 500])
    monkeypatch.undo()
    app.work_until_idle()
    assert [call.result(timeout=0) for call in calls[::300]] == [number**2 for number in range(0, 1_500, 300)]


def test_a_result_that_is_not_of_its_type_fails_the_call() -> None:
    app = declared()

    @app.task
    def count() -> int:
        return "many"  # type: ignore[return-value]

    with Simulation(app) as world:
        call = count.delay()
        world.drain()
        with pytest.raises(CallFailed, match="value='many': Input should be a valid integer"):
            call.result()


def test_a_call_that_is_reset_replaces_its_result(app: App) -> None:
    results: list[int | None] = [1, 2, None]

    @app.task
    def take() -> int | None:
        return results.pop(0)

    call = take.delay()
    app.work_until_idle()
    for expected in (1, 2, None):
        assert call.result(timeout=0) == expected
        if expected is not None:
            app.store.reset("take_calls", call.id)
            app.publish(take.event(call_id=call.id))  # type: ignore[call-arg]
            app.work_until_idle()
    assert app.store.document_counts() == {"take_calls": {Status.PROCESSED: 1}}


@pytest.mark.prove
def test_calls_that_are_done_are_removed_after_a_week(store_url: str) -> None:
    app = declared()

    @app.task
    def answer(right: bool) -> int:
        if not right:
            raise Permanent("no")
        return 42

    @app.task(keep=timedelta(hours=2))
    def brief() -> None:
        pass

    @app.task(keep=None)
    def keeper() -> None:
        pass

    with Simulation(app, store=store_url) as world:
        right, wrong, short, kept = answer.delay(True), answer.delay(False), brief.delay(), keeper.delay()
        waits = answer.options(delay=30 * DAY).delay(True)
        world.run_for(4 * 3_600)
        with pytest.raises(CallNotFound, match=r"kept 0.0833333 days"):
            short.state()
        world.run_for(6.7 * DAY)
        assert right.result(timeout=0) == 42
        world.run_for(0.3 * DAY)
        assert app.store.document_counts() == {
            "answer_calls": {Status.FAILED: 1, Status.PENDING: 1},  # what failed is kept until a person decides
            "keeper_calls": {Status.PROCESSED: 1},
        }
        assert (wrong.done(), waits.done(), kept.done()) == (True, False, True)


@pytest.mark.prove
def test_old_calls_are_removed_in_bounded_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    app = declared()

    @app.task(keep=0)
    def touch(number: int) -> int:
        return number

    with Simulation(app) as world:
        touch.map(range(1_000))
        world.drain()
        slices: list[int] = []
        remove = world.store.remove_documents

        def counted(keys: Any) -> int:
            slices.append(len(keys))
            return remove(keys)

        monkeypatch.setattr(world.store, "remove_documents", counted)
        world.clock.advance(1)
        assert touch.remove_old_calls(world.store) == 1_000
        assert slices == [400, 400, 200]
        assert world.store.document_counts() == {}


def test_a_call_that_an_operator_resets_meanwhile_is_not_removed() -> None:
    app = declared()

    @app.task(keep=0)
    def touch() -> None:
        pass

    with Simulation(app) as world:
        call = touch.delay()
        world.drain()
        world.clock.advance(1)
        listed = world.store.changed_documents({"touch_calls": [Status.PROCESSED]})
        assert listed
        world.store.reset("touch_calls", call.id)
        assert touch._remove(world.store, [key for _, key in listed]) == 0
        assert not call.done()


def test_an_argument_that_the_function_lost_fails_the_call() -> None:
    first, second = declared(), declared()

    @first.task(name="ship")
    def ship_before(order: int, express: bool) -> None:
        pass

    @second.task(name="ship")
    def ship(order: int) -> None:
        pass

    with Simulation(second) as world:
        before = ship_before.new_call((1, True), {}, "one")
        second.publish(ship.event(call_id="one"), documents=[before])  # type: ignore[call-arg]
        world.drain()
        with pytest.raises(CallFailed, match=r"arguments that task 'ship' does not take .* express"):
            ship.call("one").result()


class Unjsonable:
    pass


@pytest.mark.parametrize(
    ("store", "problem"),
    (
        (lambda task: task.map("ada"), r"'ada' \(str\) is not a list of values; .* map\(\[value, …\]\)"),
        (lambda task: task.map(3), r"3 \(int\) is not a list of values"),
        (lambda task: task.starmap(["ada"]), r"'ada' \(str\) is not a list with the arguments of one call"),
        (lambda task: task.starmap([{"word": "ada"}]), r"\{'word': 'ada'\} \(dict\) is not a list"),
    ),
)
def test_many_calls_are_not_made_of_the_letters_of_a_text(store: Any, problem: str) -> None:
    app = declared()

    @app.task
    def say(word: str) -> None: ...

    with pytest.raises(ArgumentsRefused, match=f"task 'say': {problem}"):
        store(say)
    assert app.store.document_counts() == {}


def test_a_declaration_that_cannot_work_is_refused() -> None:
    app = declared()

    @app.task
    def twice() -> None:
        pass

    with pytest.raises(RegistrationError, match="'twice' is declared twice; give one another name"):
        app.task(name="twice")(lambda: None)
    for keep in (-1, "a week"):
        with pytest.raises(RegistrationError, match=f"keep={keep!r}; give seconds"):
            app.task(keep=keep)(lambda: None)  # type: ignore[arg-type]

    def takes(thing: Unjsonable) -> None:
        pass

    with pytest.raises(RegistrationError, match=r"task 'takes' .* cannot be written as JSON"):
        app.task(takes)

    def names_nothing(thing: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    with pytest.raises(RegistrationError, match="name 'Missing' is not defined; import what it names"):
        app.task(names_nothing)


def test_unavailable_in_a_task_is_what_it_is_in_a_service() -> None:
    app = declared()
    tries: list[int] = []

    @app.task(needs="mail")
    def send() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise Unavailable("mail", "refused")

    with Simulation(app) as world:
        call = send.delay()
        world.run_for(3_600)
        assert (call.done(), len(tries), call.state().attempt_count) == (True, 2, 1)
