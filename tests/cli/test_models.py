"""`onward models` shows models, their speed and their vectors; `onward reembed` computes what is missing."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from onward.ops.queries.models import MEASURED_REMOTELY, measure_embedder
from onward.pipeline.app import build
from onward.pipeline.documents import Chunk
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import mail, onward, write_mailbox
from tests.support.model_server import ModelServer
from tests.support.small_models import DIMENSIONS, write_onnx_model, write_table_model

STATIC = "static:wordllama-l2-256"
MISSING = {"ONWARD_EMBEDDER_UPGRADE": "local:nobody/has-it"}


@pytest.fixture
def filled(home: Path, tmp_path: Path) -> Path:
    """A mailbox of three mails."""
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    mails = [mail(number, f"Mail {number}", "Who has the key of the door?") for number in range(3)]
    submit(app, str(write_mailbox(tmp_path / "list.mbox", mails)))
    app.work_until_idle()
    app.close()
    return home


@pytest.fixture
def better(tmp_path: Path) -> dict[str, str]:
    return {"ONWARD_EMBEDDER_UPGRADE": f"local:{write_onnx_model(tmp_path / 'model')}"}


def facts(home: Path, *args: str, more: dict[str, str] | None = None, code: int = 0) -> dict[str, Any]:
    result = onward(home, *args, "--json", more=more)
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_models_are_listed_with_their_speed_before_anything_is_ingested(home: Path) -> None:
    found = facts(home, "models")
    embedder, summarizer = found["models"]
    assert (embedder["role"], embedder["model"], embedder["where"]) == ("embedder", STATIC, "built in")
    assert embedder["dimensions"] == 256
    assert embedder["chunks_per_second"] > 0
    assert (summarizer["model"], summarizer["chunks_per_second"]) == ("extractive", None)
    assert (found["chunks"], found["upgrade"]) == (0, None)
    assert not home.exists(), "a command that only looks makes no store"


def test_chunks_are_counted_by_the_model_of_their_vectors(filled: Path, better: dict[str, str]) -> None:
    found = facts(filled, "models", "--no-speed", more=better)
    assert [one["role"] for one in found["models"]] == ["embedder", "upgrade", "summarizer"]
    assert (found["chunks"], found["vectors"], found["without_vector"]) == (3, {STATIC: 3}, 0)
    assert (found["upgrade"]["vectors"], found["upgrade"]["missing"], found["upgrade"]["used"]) == (0, 3, False)
    assert found["search_uses"] == STATIC
    assert facts(filled, "status", more=better)["upgrade"]["missing"] == 3
    assert "Better vectors (local:bert-" in onward(filled, "status", more=better).stdout


def test_a_model_that_cannot_be_used_is_named_and_the_others_are_listed(filled: Path) -> None:
    found = facts(filled, "models", "--no-speed", code=1, more=MISSING)
    embedder, upgrade, summarizer = found["models"]
    assert (embedder["error"], summarizer["error"]) == ("", "")
    assert "ONWARD_EMBEDDER_UPGRADE='local:nobody/has-it'" in upgrade["error"]
    assert "ONWARD_EMBEDDER_DOWNLOAD" in upgrade["error"]
    assert facts(filled, "status", more=MISSING)["upgrade"] is None


@pytest.mark.prove
def test_reembed_also_computes_the_better_vectors_and_ingest_leaves_them_to_workers(
    filled: Path, better: dict[str, str], tmp_path: Path
) -> None:
    mails = [mail(7, "Mail 7", "The crane is repaired.")]
    added = write_mailbox(tmp_path / "more.mbox", mails)
    ingested = onward(filled, "ingest", str(added), "--processes", "1", more=better)
    assert ingested.exit_code == 0, ingested.output
    assert facts(filled, "models", "--no-speed", more=better)["upgrade"]["vectors"] == 0
    dry = facts(filled, "reembed", "--dry-run", more=better)
    assert (dry["chunks"], dry["left"]) == (0, 0)
    assert (dry["upgrade"]["chunks"], dry["upgrade"]["left"]) == (4, 4)
    done = facts(filled, "reembed", "--processes", "1", more=better)
    assert (done["upgrade"]["chunks"], done["upgrade"]["left"]) == (4, 0)
    found = facts(filled, "models", "--no-speed", more=better)
    assert found["search_uses"] == found["upgrade"]["model"]
    assert found["upgrade"]["used"]


@pytest.mark.prove  # what is paused is waited for
def test_a_pause_is_seen_by_everybody_and_reembed_says_what_is_left(filled: Path, better: dict[str, str]) -> None:
    facts(filled, "models", "pause", more=better)
    assert facts(filled, "models", "--no-speed", more=better)["upgrade"]["paused"]
    left = facts(filled, "reembed", "--processes", "1", code=3, more=better)
    assert left["upgrade"]["left"] == 3
    facts(filled, "models", "resume", more=better)
    done = facts(filled, "reembed", "--processes", "1", more=better)
    assert done["upgrade"]["left"] == 0


def test_vectors_of_models_that_are_not_set_are_removed(filled: Path, better: dict[str, str]) -> None:
    facts(filled, "reembed", "--processes", "1", more=better)
    found = facts(filled, "models", "--no-speed")
    (model,) = found["unused"]
    assert facts(filled, "models", "prune", "--dry-run") == {"dry_run": True, "vectors": 3, "models": {model: 3}}
    assert facts(filled, "models", "prune")["vectors"] == 3
    assert facts(filled, "models", "--no-speed")["vectors"] == {STATIC: 3}
    assert facts(filled, "models", "prune")["vectors"] == 0
    (logged,) = json.loads(onward(filled, "actions", "--json").stdout)
    assert (logged["action"], logged["about"], logged["touched"]) == ("models prune", {"models": [model]}, 3)


def test_which_vectors_are_unused_is_unknown_while_a_model_cannot_be_opened(filled: Path) -> None:
    refused = onward(filled, "models", "prune", more={"ONWARD_EMBEDDER": "local:nobody/has-it"})
    assert refused.exit_code == 2
    assert "cannot be opened" in refused.stderr


def test_chunks_without_a_vector_of_the_model_are_embedded_again(filled: Path) -> None:
    assert facts(filled, "reembed")["chunks"] == 0
    app = build(load_settings({"ONWARD_HOME": str(filled)}))
    app.store.db.run("delete_vectors", list(range(1000)))  # as a new model would
    app.close()
    dry = facts(filled, "reembed", "--dry-run")
    assert (dry["chunks"], dry["left"], dry["upgrade"]) == (3, 3, None)
    done = facts(filled, "reembed", "--processes", "1")
    assert (done["chunks"], done["left"]) == (3, 0)
    app = build(load_settings({"ONWARD_HOME": str(filled)}))
    assert app.store.ids_without_vector(Chunk, app.embedder.model) == []
    app.close()


def test_reembed_that_is_stopped_goes_on_where_it_stopped(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"ONWARD_EMBEDDER": f"local:{write_table_model(tmp_path / 'table')}"}

    def interrupt(app: object, title: str, **_: object) -> bool:
        return True  # Ctrl-C, before a worker has begun

    monkeypatch.setattr("onward.cli.pipeline_run.run", interrupt)
    result = onward(filled, "reembed", more=other)
    assert result.exit_code == 128 + signal.SIGINT
    assert "Stopped. Nothing is lost: `onward reembed` or `onward worker` goes on" in result.stdout
    monkeypatch.undo()
    done = facts(filled, "reembed", "--processes", "1", more=other)
    assert (done["chunks"], done["left"]) == (3, 0)


def test_a_server_gets_only_a_few_texts_to_be_measured() -> None:
    with ModelServer() as server:
        app = build(load_settings({"ONWARD_EMBEDDER": server.url, "ONWARD_EMBEDDER_MODEL": "small"}))
        times = iter((10.0, 12.0))
        dimensions, speed = measure_embedder(app.embedder, clock=lambda: next(times))
        assert (dimensions, speed) == (16, MEASURED_REMOTELY / 2.0)
        assert len(server.embedded) == MEASURED_REMOTELY + 1
        app.close()


def test_a_local_model_is_measured_for_a_second(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model")
    app = build(load_settings({"ONWARD_EMBEDDER": f"local:{folder}"}))
    times = iter((0.0, 0.6, 1.2))
    dimensions, speed = measure_embedder(app.embedder, clock=lambda: next(times))
    assert dimensions == DIMENSIONS
    assert speed == pytest.approx(64 / 1.2)
    app.close()
