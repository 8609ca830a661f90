"""A query is saved under a name, and the name stands for it in later queries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward import App
from onward.pipeline.app import build
from onward.pipeline.documents import SavedSearch
from onward.pipeline.query_language import QueryError
from onward.pipeline.saved_searches import expand, find_search, read_searches, remove_search, save_search
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob
from onward.settings import load_settings


@pytest.fixture
def app() -> Iterator[App]:
    app = build(load_settings({}), store="sqlite://:memory:")
    yield app
    app.close()


def names(app: App) -> list[str]:
    return [search.name for search in read_searches(app)]


def test_a_saved_search_is_found_by_its_name_in_any_case(app: App) -> None:
    save_search(app, "Storms", "storm after:30d")
    assert find_search(app, "storms").text == find_search(app, "@STORMS").text == "storm after:30d"


def test_saved_searches_are_listed_by_name(app: App) -> None:
    for name in ("tides", "Älgar", "boats", "año-2026", "潮位"):
        save_search(app, name, "storm")
    assert names(app) == ["año-2026", "boats", "tides", "Älgar", "潮位"]


def test_saving_again_replaces_the_query(app: App) -> None:
    save_search(app, "storms", "storm")
    save_search(app, "storms", "storm -rain")
    assert [search.text for search in read_searches(app)] == ["storm -rain"]


def test_a_removed_search_is_gone(app: App) -> None:
    save_search(app, "storms", "storm")
    save_search(app, "tides", "tide")
    assert remove_search(app, "@storms").text == "storm"
    assert names(app) == ["tides"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    (
        ("@storms", "storm after:30d"),
        ("  @Storms  from:davy -rain", "storm after:30d from:davy -rain"),
        ("＠storms tide", "storm after:30d tide"),
        ("tide @storms", "tide @storms"),
        ("davy@storms", "davy@storms"),
        ('"@storms"', '"@storms"'),
        ("@ storms", "@ storms"),
    ),
)
def test_a_name_at_the_beginning_stands_for_the_query(app: App, text: str, expanded: str) -> None:
    save_search(app, "storms", "storm after:30d")
    assert expand(app, text) == expanded


def test_a_search_may_be_saved_from_another_one(app: App) -> None:
    save_search(app, "storms", "storm")
    assert save_search(app, "davys", "@storms from:davy").text == "storm from:davy"


@pytest.mark.parametrize("name", ("", " ", "a b", "-a", "a-", "@a", "a/b", "a'b", "x" * 65, "a\n", "\x00"))
def test_a_name_that_nobody_can_type_is_refused(app: App, name: str) -> None:
    with pytest.raises(QueryError, match="a name has letters, digits, hyphens, dots and underscores"):
        save_search(app, name, "storm")
    assert read_searches(app) == []


@pytest.mark.parametrize(("text", "refused"), (("!!", "nothing to look for"), ("kind:x", "kind: cannot be 'x'")))
def test_a_query_that_cannot_be_read_is_not_saved(app: App, text: str, refused: str) -> None:
    with pytest.raises(QueryError, match=refused):
        save_search(app, "storms", text)
    assert read_searches(app) == []


def test_an_unknown_name_is_refused_with_those_that_are_known(app: App) -> None:
    with pytest.raises(QueryError, match="there is no saved search 'storms'; none is saved yet"):
        expand(app, "@storms")
    save_search(app, "tides", "tide")
    with pytest.raises(QueryError, match=r"'storms'; there are: @tides\. To search for the word itself, quote it"):
        expand(app, "@storms")
    with pytest.raises(QueryError, match=r"'storms'; there are: @tides$"):
        remove_search(app, "storms")


def test_nothing_waits_for_a_saved_search(app: App) -> None:
    """It is stored as a document, but no service, no source and no retry has to do with it."""
    search = save_search(app, "storms", "storm")
    state = app.state(SavedSearch, search.id)
    assert state is not None
    assert (state.status, state.source, state.row) == ("processed", None, None)
    assert app.store.sources() == []
    run = RetryJob(
        app.store, app.registry, RetryJobRules.of(app.settings, app.registry.subscriptions()), holder="test"
    ).run(full=True)
    assert run.led
    assert app.state(SavedSearch, search.id) == state
