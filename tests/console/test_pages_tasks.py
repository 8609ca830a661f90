"""Tasks in the console: how each ingestion goes, beginning one, and forgetting a source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from onward.pipeline.documents import source_id
from onward.pipeline.events import ChunksPrepared
from onward.pipeline.sources import submit
from tests.console.shop import Shop, open_shop, words
from tests.support.command_runs import SAMPLE
from tests.support.console_client import HTML, Site


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        yield found


def send(site: Site, data: Mapping[str, str] | None = None, files: Any = None) -> httpx2.Response:
    """Send the form, as a browser does."""
    (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', site.page("/ingest")))
    given = {**(data or {}), "form_token": token}
    # Without a file it is a form of parts all the same.
    return site.client.post(
        "/ingest", data=given, files=files or {"file": ("", b"")}, headers=HTML, follow_redirects=True
    )


# -- the list and one of them


def test_a_task_is_listed_with_its_status(library: Site) -> None:
    page = library.page("/tasks")
    assert "harbour-list.mbox" in page
    assert "partly completed" in page
    assert "1 failed" in words(page)


def test_a_task_accounts_for_everything_in_its_source(library: Site) -> None:
    (task,) = library.app.store.states("tasks")
    text = words(library.page(f"/tasks/{task.id}"))
    assert "Items 1 (1 new, 0 failed)" in text
    assert "Messages 150 (149 parsed, 1 failed) Duplicates 1 left out" in text
    assert "367 of 367 documents finished" in text
    assert "UnreadableMail" in text


def test_the_id_of_its_source_leads_to_the_last_task(library: Site) -> None:
    assert "harbour-list.mbox" in library.page(f"/tasks/{source_id(str(SAMPLE))}")


def test_a_task_that_is_not_there_is_said_to_be_missing(library: Site, shop: Shop) -> None:
    assert "There is no task" in words(library.page("/tasks/nothing", 404))
    assert "There is no task" in shop.words("/tasks/nothing", 404)
    assert "There are no tasks" in shop.words("/tasks")


def test_a_later_task_takes_over(site: Site) -> None:
    first = submit(site.app, str(SAMPLE))
    submit(site.app, str(SAMPLE))
    assert "replaced by a later one" in words(site.page("/tasks"))
    assert "This source was submitted again" in site.page(f"/tasks/{first.id}")


def test_the_newest_comes_first_page_by_page(site: Site, tmp_path: Path) -> None:
    for number in range(53):
        file = tmp_path / f"note-{number:02}.txt"
        file.write_text(f"note {number}")
        submit(site.app, str(file))
    page = site.page("/tasks")
    names = re.findall(r">(note-\d\d\.txt)</a>", page)
    further = re.search(r'rel="next" href="([^"]+)"', page)
    assert further is not None
    names += re.findall(r">(note-\d\d\.txt)</a>", site.page(further[1]))
    assert names == [f"note-{number:02}.txt" for number in reversed(range(53))]


def test_a_task_tells_what_it_waits_for(site: Site) -> None:
    task = submit(site.app, str(SAMPLE))
    before = words(site.page(f"/tasks/{task.id}"))
    assert "1 archive is to be finished: events of ingestion and parsing wait or are under way" in before
    assert "No worker is alive" in before


def test_a_task_tells_which_dependency_it_waits_for(site: Site) -> None:
    task = submit(site.app, str(SAMPLE))
    site.app.work_until_idle()
    chunk = site.app.store.states("chunks", limit=1)[0].id
    site.app.store.reset("chunks", chunk)
    site.app.publish(ChunksPrepared(chunk_ids=[chunk]))
    site.app.store.open_breaker("embedder", "it answers 503")
    text = words(site.page(f"/tasks/{task.id}"))
    assert "1 chunk is to be finished. It waits for embedder, which is down: it answers 503" in text
    assert "running" in text


def test_a_task_tells_that_the_retry_job_is_next(site: Site) -> None:
    task = submit(site.app, str(SAMPLE))
    site.app.work_until_idle()
    site.app.store.reset("chunks", site.app.store.states("chunks", limit=1)[0].id)
    text = words(site.page(f"/tasks/{task.id}"))
    assert "1 chunk is to be finished; the retry job looks at the next one as soon as a worker runs it." in text
    assert "1970-" not in text


def test_a_task_is_shown_as_it_goes(site: Site) -> None:
    task = submit(site.app, str(SAMPLE))
    with site.client.stream("GET", f"/live/tasks/{task.id}") as stream:
        said = (line for line in stream.iter_lines() if line.startswith("data:"))
        assert "running" in next(said)
        site.app.work_until_idle()
        assert any("367 of 367 documents" in one for one in said)


# -- beginning one


def test_a_text_is_ingested_and_leads_to_its_task(site: Site) -> None:
    answer = send(site, {"text": "The lantern is lit at dusk.", "title": "Lantern.md"})
    assert answer.status_code == 200, answer.text
    assert "Lantern.md (uploaded) is taken" in words(answer.text)
    assert [(one.via, one.action) for one in site.app.store.actions()] == [("console", "ingest")]
    site.app.work_until_idle()
    assert "completed" in words(site.page(answer.url.path))


def test_a_file_is_ingested_and_its_name_is_only_a_name(site: Site) -> None:
    answer = send(site, files={"file": ("../../etc/harbour.mbox", SAMPLE.read_bytes())})
    assert "harbour.mbox (uploaded) is taken" in words(answer.text)
    assert "etc" not in words(answer.text)
    site.app.work_until_idle()
    assert "Messages 150 (149 parsed" in words(site.page(answer.url.path))


def test_the_same_twice_is_taken_once(site: Site) -> None:
    send(site, {"text": "once", "title": "one.txt"})
    again = send(site, {"text": "once", "title": "one.txt"})
    assert "was ingested before, and is left as it is" in words(again.text)
    assert len(site.app.store.states("tasks")) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    (
        ({"url": "/etc/passwd"}, "must begin with http:// or https://"),
        ({"url": "file:///etc/passwd"}, "must begin with http:// or https://"),
        ({"url": "https://"}, "names no host"),
        ({"url": " ", "text": ""}, "Nothing was given: give a URL, choose files, or paste a text"),
    ),
)
def test_what_cannot_be_ingested_is_refused_with_a_remedy(site: Site, given: dict[str, str], said: str) -> None:
    answer = send(site, given)
    assert answer.status_code == 422
    assert said in words(answer.text)
    assert site.app.store.sources() == []


def test_a_form_of_another_site_begins_nothing(site: Site) -> None:
    answer = site.client.post(
        "/ingest", data={"url": "https://example.org/", "form_token": "guessed"}, headers=HTML
    )
    assert answer.status_code == 403
    assert site.app.store.sources() == []


def test_another_app_takes_no_sources(shop: Shop) -> None:
    assert "Nothing is ingested here" in shop.words("/ingest")


# -- its end


def test_a_source_is_forgotten_with_all_that_came_from_it(site: Site) -> None:
    submit(site.app, str(SAMPLE))
    site.app.work_until_idle()
    key = source_id(str(SAMPLE))
    asked = words(site.page(f"/confirm/forget?source={key}"))
    assert "371 documents would be removed" in asked
    assert "This is final." in asked
    assert site.app.store.sources(), "a question changes nothing"
    assert "371 documents removed" in words(site.do("forget", {"source": key}))
    assert site.app.store.sources() == []
    assert [(one.action, one.touched) for one in site.app.store.actions()] == [("forget", 371)]
    assert "no source" in words(site.page(f"/confirm/forget?source={key}", 404))


def test_a_source_is_ingested_again(site: Site) -> None:
    task = submit(site.app, str(SAMPLE))
    site.app.work_until_idle()
    site.do("ingest-again", {"source": task.source_id})
    assert "submission 2" in words(site.page(f"/tasks/{task.source_id}"))


def test_a_task_lists_what_was_passed_over(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.txt").write_text("The lamp burns.")
    (folder / "<b>quay.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (folder / ".hidden").touch()
    task = submit(site.app, str(folder))
    site.app.work_until_idle()
    text = words(site.page(f"/tasks/{task.id}"))
    assert "Passed over 1 (1 picture)" in text
    assert "Ignored 1 (1 hidden)" in text
    assert "quay.png png file; text recognition is off" in text
    assert "<b>quay" not in site.page(f"/tasks/{task.id}")
    told = site.client.get(f"/v3/tasks/{task.id}").json()
    assert told["passed_over"] == {
        "total": 1,
        "kinds": {"picture": 1},
        "items": [
            {
                "path": "<b>quay.png",
                "kind": "picture",
                "reason": "png file; text recognition is off (ONWARD_OCR=off)",
            }
        ],
        "not_listed": 0,
    }
    assert told["ignored"] == {"total": 1, "kinds": {"hidden": 1}}
