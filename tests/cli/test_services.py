"""`onward services` lists who consumes what, and retires a service that was removed; nothing is lost."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from onward.model.ledger import Subscription
from onward.settings import load_settings
from tests.cli import scenes
from tests.cli.scenes import READER
from tests.support.command_runs import onward
from tests.support.failed_pages import stage


@pytest.fixture(params=["sqlite", "postgres"])
def more(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of a store, on each backend."""
    if request.param == "sqlite":
        return {}
    return {"ONWARD_STORE": request.getfixturevalue("postgres_url")}


@pytest.fixture
def removed(home: Path, more: dict[str, str]) -> Path:
    scenes.service_without_worker(home, more)
    return home


def facts(home: Path, *args: str, more: dict[str, str], code: int = 0) -> Any:
    result = onward(home, *args, "--json", more=more)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def listed(home: Path, more: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {one["service"]: one for one in facts(home, "services", more=more)["services"]}


# -- listing


def test_each_service_is_listed_with_its_event_workers_and_rows(removed: Path, more: dict[str, str]) -> None:
    found = listed(removed, more)
    assert list(found) == ["drawing", "listening", "reading"]
    reading = found["reading"]
    assert (reading["event"], reading["finishes"], reading["state"]) == ("PagesFound", "pages", "unserved")
    assert (reading["workers"], reading["waiting"], reading["claimed"]) == (0, 2, 0)
    assert (reading["dead_letters"], reading["set_aside"]) == (1, 1)
    assert reading["last_served"] is not None
    assert (found["listening"]["state"], found["listening"]["workers"]) == ("served", 1)
    assert (found["drawing"]["state"], found["drawing"]["last_served"]) == ("idle", None)


def test_the_list_names_the_command_that_retires_a_service_without_worker(
    removed: Path, more: dict[str, str]
) -> None:
    for command in (("services",), ("services", "list")):
        shown = onward(removed, *command, more=more).stdout
        assert "onward services retire reading" in shown
        assert "retire listening" not in shown


def test_if_no_worker_is_alive_it_says_so_once(home: Path) -> None:
    with stage(home) as on:
        on.bring("a", "b")
        on.store.subscribe([Subscription("printing", "Noticed", failed_queue="printing.failed")])
        on.store.publish([on.noticed("one")])
    shown = onward(home, "services").stdout
    assert "3 events wait for 3 services, and no worker is alive." in shown
    assert (shown.count("onward worker"), shown.count("retire")) == (1, 1)


# -- shown as needing a person


def test_in_status_and_doctor_a_removed_service_needs_a_person(removed: Path, more: dict[str, str]) -> None:
    needs = facts(removed, "status", more=more)["needs"]
    (need,) = [one for one in needs if one["kind"] == "not_served"]
    assert need["command"] == "onward services"
    assert "start it, declare its new name with was='reading', or retire it" in json.dumps(need)
    checks = facts(removed, "doctor", more=more)["checks"]
    (check,) = [one for one in checks if one["name"] == "services"]
    assert (check["level"], check["remedy"]) == ("warning", "onward services")
    assert "reading" in check["text"]


def test_when_each_service_is_run_nothing_is_wrong(removed: Path, more: dict[str, str]) -> None:
    with stage(removed, more) as on:
        on.store.register_worker("box:18:beef", READER)
    kinds = {one["kind"] for one in facts(removed, "status", more=more)["needs"]}
    assert kinds.isdisjoint({"no_worker", "not_served"})
    (check,) = [one for one in facts(removed, "doctor", more=more)["checks"] if one["name"] == "services"]
    assert check["level"] == "ok"


# -- retiring


def test_retiring_is_previewed_and_confirmed(removed: Path, more: dict[str, str]) -> None:
    wanted = {"service": "reading", "events": 2, "set_aside": 1, "failed_queue": "reading.failed"}
    preview = facts(removed, "services", "retire", "reading", "--dry-run", more=more)
    assert preview == {"dry_run": True, **wanted}
    refused = onward(removed, "services", "retire", "reading", more=more)
    assert refused.exit_code == 2
    assert "--confirm" in refused.stderr
    assert listed(removed, more)["reading"]["waiting"] == 2
    assert facts(removed, "services", "retire", "reading", "--confirm", more=more) == {"dry_run": False, **wanted}


def test_a_retired_service_keeps_its_events_as_dead_letters(removed: Path, more: dict[str, str]) -> None:
    facts(removed, "services", "retire", "reading", "--confirm", more=more)
    reading = listed(removed, more)["reading"]
    assert (reading["state"], reading["event"]) == ("retired", None)
    assert (reading["waiting"], reading["dead_letters"]) == (0, 3)
    (action,) = facts(removed, "actions", more=more)
    assert (action["action"], action["about"], action["touched"]) == ("services retire", {"service": "reading"}, 2)
    needs = facts(removed, "status", more=more)["needs"]
    assert "onward services" not in [one["command"] for one in needs]
    with stage(removed, more, subscribe=False) as on:
        assert {id: on.state(id).status for id in ("a", "b", "c", "aside")} == dict.fromkeys(
            ("a", "b", "c", "aside"), "pending"
        )


def test_dead_letters_of_a_retired_service_are_refused_to_go_back(removed: Path, more: dict[str, str]) -> None:
    facts(removed, "services", "retire", "reading", "--confirm", more=more)
    found = facts(removed, "failed", "requeue", "reading", more=more, code=3)
    assert (found["requeued"], len(found["refused"])) == (0, 3)
    assert "was='reading'" in found["refused"][0]["reason"]


def test_a_service_that_a_worker_runs_is_not_retired(removed: Path, more: dict[str, str]) -> None:
    refused = onward(removed, "services", "retire", "listening", "--confirm", more=more)
    assert refused.exit_code == 2
    assert "box:17" in refused.stderr
    assert "listening" in listed(removed, more)


def test_a_service_that_does_not_exist_is_refused(removed: Path, more: dict[str, str]) -> None:
    refused = onward(removed, "services", "retire", "raeding", "--confirm", more=more)
    assert refused.exit_code == 2
    assert "'raeding'; there are: drawing, listening, reading" in refused.stderr


def test_a_retired_service_without_anything_is_gone(home: Path) -> None:
    with stage(home):
        pass
    facts(home, "services", "retire", "drawing", "--confirm", more={})
    assert list(listed(home, {})) == ["listening", "reading"]
    (action,) = facts(home, "actions", more={})
    assert action["action"] == "services retire"


def test_a_worker_that_died_on_this_machine_does_not_hold_up_retiring(home: Path) -> None:
    from onward.runtime.process_identity import describe_process

    with stage(home) as on:
        on.store.register_worker("here:1:dead", READER | describe_process() | {"pid": 2**22 + 1})
        assert on.store.now() - on.store.last_served()["reading"] < time.time()
    assert listed(home, {})["reading"]["workers"] == 0
    facts(home, "services", "retire", "reading", "--confirm", more={})
    assert "reading" not in listed(home, {})


def test_without_a_store_none_is_made(home: Path) -> None:
    result = onward(home, "services")
    assert (result.exit_code, home.exists()) == (2, False)
    assert load_settings({"ONWARD_HOME": str(home)}).home == home
