"""What others than the command line ask of the facts: a page of a list, and their own name in the action log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import App
from onward.ops.actions.action import ActionProgress, Actor
from onward.ops.actions.failure_groups import DiscardFailedBatches, RetryFailedBatches
from onward.ops.actions.services import CloseBreaker, OpenBreaker
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.lookup import check_service
from onward.ops.queries.document_details import original_of
from onward.ops.queries.failure_groups import list_groups
from onward.settings import load_settings
from tests.support.failed_pages import fail, set_aside, stage

ADA = Actor("ada", "console")
GROUPS = ["aaaa1111", "bbbb2222", "cccc3333"]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """Three failure groups of three, two and one page, a failed batch, and a printer that services need."""
    with stage(tmp_path) as on:
        for size, fingerprint in zip((3, 2, 1), GROUPS, strict=True):
            fail(on, *(f"{fingerprint}-{number}" for number in range(size)), fingerprint=fingerprint)
        set_aside(on, "late")
    found = App(settings=load_settings({"ONWARD_HOME": str(tmp_path)}))
    try:
        yield found
    finally:
        found.close()


def test_failure_groups_come_page_by_page(app: App) -> None:
    first = list_groups(app, service="reading", limit=2)
    rest = list_groups(app, service="reading", limit=2, offset=2)
    assert [one.group.fingerprint for one in first.page] == GROUPS[:2]
    assert GROUPS[2] in [one.group.fingerprint for one in rest.page]
    assert first.total == rest.total == len(first.page) + len(rest.page)
    assert not {one.group.fingerprint for one in first.page} & {one.group.fingerprint for one in rest.page}
    whole = list_groups(app, service="reading")
    assert [one.group for one in whole.page] == [one.group for one in (*first.page, *rest.page)]
    assert set(GROUPS) <= first.short.keys(), "a name is the same on every page"


def test_whoever_changes_something_is_named_in_the_action_log(app: App) -> None:
    (batch,) = app.store.failed_batches()
    actions = (
        OpenBreaker("printer", "new toner"),
        CloseBreaker("printer"),
        RetryFailedBatches((batch.id,)),
        DiscardFailedBatches((batch.id,)),
    )
    assert [action.run(app, ActionProgress(), ADA).touched for action in actions] == [1, 1, 1, 1]
    logged = app.store.actions(limit=10)
    assert [one.action for one in logged] == [
        "batches discard",
        "batches retry",
        "breakers close",
        "breakers open",
    ]
    assert {(one.who, one.via) for one in logged} == {("ada", "console")}


def test_what_is_not_down_is_not_closed_and_not_logged(app: App) -> None:
    assert CloseBreaker("printer").plan(app).touches == 0
    assert CloseBreaker("printer").run(app, ActionProgress(), ADA).touched == 0
    assert app.store.actions(limit=1) == []


def test_a_name_that_nobody_knows_is_refused_with_those_that_are(app: App) -> None:
    with pytest.raises(BadInput, match=r"there is no service 'raeding'; there are: .*reading"):
        check_service(app, "raeding")
    with pytest.raises(BadInput, match="there is no dependency 'plotter'; known are: printer"):
        OpenBreaker("plotter", "it is old").plan(app)


def test_bytes_that_are_not_there_are_missed_before_the_first_is_asked_for(app: App) -> None:
    with pytest.raises(NotFound, match="pages/late has no bytes of its own"):
        original_of(app, "pages", "late")
