"""The models on the page of settings, and the vector upgrade on the overview."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.pipeline.sources import submit
from onward.pipeline.stages.vector_upgrade import DEPENDENCY
from onward.pipeline.vector_upgrade import check_upgrade
from tests.console.shop import open_shop, words
from tests.support.command_runs import mail, write_mailbox
from tests.support.console_client import Site, pipeline, serving
from tests.support.small_models import write_table_model


@pytest.fixture
def upgrading(tmp_path: Path) -> Iterator[Site]:
    """A console of three chunks, whose settings name a better model that has not embedded any."""
    model = write_table_model(tmp_path / "model")
    app = pipeline(tmp_path / "home", ONWARD_EMBEDDER_UPGRADE=f"local:{model}")
    mails = [mail(number, f"Mail {number}", "Who has the key of the door?") for number in range(3)]
    submit(app, str(write_mailbox(tmp_path / "list.mbox", mails)))
    app.work_until_idle()
    with serving(app) as site:
        yield site
    app.close()


def test_the_page_of_settings_shows_the_models_and_their_vectors(library: Site) -> None:
    text = words(library.page("/settings"))
    assert "Embedder static:wordllama-l2-256, built in" in text
    assert "Summarizer extractive, built in" in text
    assert "Search uses static:wordllama-l2-256." in text
    assert "(100 %)" in text


def test_the_overview_shows_how_far_the_upgrade_is(upgrading: Site) -> None:
    assert "0 of 3 chunks (0 %), computed by workers in the background" in words(upgrading.page("/"))
    upgrading.app.store.open_breaker(DEPENDENCY, "paused", by_hand=True)
    assert "0 of 3 chunks (0 %), paused; to go on: onward models resume" in words(upgrading.page("/"))
    upgrading.app.store.close_breaker(DEPENDENCY)
    check_upgrade(upgrading.app)
    upgrading.app.work_until_idle()
    assert "of 3 chunks" not in words(upgrading.page("/")), "it is done"
    assert "3 of 3 chunks (100 %)" in words(upgrading.page("/settings"))


def test_the_api_has_the_same_facts(upgrading: Site) -> None:
    upgrade = upgrading.client.get("/v3/status").json()["upgrade"]
    assert (upgrade["vectors"], upgrade["chunks"], upgrade["used"]) == (0, 3, False)


def test_another_app_has_no_models(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        assert "built in" not in shop.words("/settings")
