"""An app module that publishes when it is imported would publish in each process of a worker: that is logged."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.app import load_app

MODULE = """
import asyncio
from onward import App, Event, Settings

class Noticed(Event):
    what: str = ""

app = App(store="sqlite:///{path}", settings=Settings())

@app.task
def send(address: str) -> None: ...

{call}
"""


def load(folder: Path, name: str, call: str) -> int:
    """Import an app whose module ends with a call; return how many events it has stored."""
    (folder / f"{name}.py").write_text(MODULE.format(path=folder / f"{name}.db", call=call))
    app = load_app(f"{name}:app")
    stored = sum(count for states in app.store.counts().values() for count in states.values())
    app.close()
    return stored


@pytest.mark.parametrize(
    "call",
    (
        'send.delay("ada@example.org")',
        'send.options(unique_for=60).delay("ada@example.org")',
        'app.publish(Noticed(what="a"))',
        'app.publish_many([Noticed(what="a")])',
        'asyncio.run(app.apublish(Noticed(what="a")))',
        'app.publish(Noticed(what="a"))\napp.publish(Noticed(what="b"))',
    ),
    ids=("delay", "unique", "publish", "publish_many", "apublish", "twice"),
)
def test_publishing_while_a_command_imports_the_app_is_logged_once(
    call: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"publishes_{request.node.callspec.id}"
    assert load(tmp_path, name, call) == 1 + call.count("\n"), "it is published all the same"
    (record,) = [record for record in caplog.records if "is published by the import" in record.message]
    assert record.levelname == "WARNING"
    assert f"the import of {name}:app" in record.message
    assert 'if __name__ == "__main__"' in record.message
    if "async" not in call:
        assert f"line 13 of {tmp_path / name}.py" in record.message


def test_nothing_is_logged_for_calls_after_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    call = 'if __name__ == "__main__":\n    send.delay("ada@example.org")'
    assert load(tmp_path, "publishes_later", call) == 0
    app = load_app("publishes_later:app")
    import publishes_later  # type: ignore[import-not-found]

    publishes_later.send.delay("ada@example.org")
    app.close()
    assert not [record for record in caplog.records if "is published by the import" in record.message]
