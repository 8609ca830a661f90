"""Whatever a mail holds, a terminal that shows it obeys nothing of it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.cli.output import marked
from onward.cli.params import print_json
from onward.ops.text.format import harmless, made_visible, one_line
from onward.pipeline.app import build
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import mail, onward, write_mailbox

NASTY = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\x9b2J [red]markup[/] [/nothing] :smile: \u202egnp.exe"


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mail that would drive a terminal wherever it can."""
    home = tmp_path_factory.mktemp("poisoned")
    letter = mail(1, f"Lamp {NASTY}", f"The lamp burns.\r{NASTY}\n\n> quoted {NASTY}\n", author=f"Ada {NASTY}")
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    submit(app, str(write_mailbox(home / "li[red]st.mbox", [letter])))
    app.work_until_idle()
    app.close()
    return home


COMMANDS = (("search", "lamp"), ("documents",), ("summaries",), ("status",), ("documents", "--json", "--full"))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("format", ((), ("--json",)))
def test_no_command_lets_it_through(poisoned: Path, command: tuple[str, ...], format: tuple[str, ...]) -> None:
    result = onward(poisoned, *command, *format)
    assert result.exit_code == 0
    assert not set(result.output) & set("\x1b\x07\x9b\x7f\u202e\r")


def test_markup_is_shown_as_it_is_written(poisoned: Path) -> None:
    found = json.loads(onward(poisoned, "search", "lamp", "--json").stdout)["results"][0]
    for id in (found["id"], found["thread_id"]):
        shown = onward(poisoned, "show", id)
        assert shown.exit_code == 0
        assert not set(shown.output) & set("\x1b\x07\x9b\u202e")
        assert "[red]markup[/] [/nothing] :smile:" in shown.output


@given(text=st.text())
def test_text_keeps_its_letters_and_loses_what_drives_a_terminal(text: str) -> None:
    assert not [one for one in harmless(text) if one not in "\n\t" and (ord(one) < 32 or 127 <= ord(one) < 160)]
    assert "\n" not in one_line(text)
    assert harmless(harmless(text)) == harmless(text)


@given(text=st.text(st.characters(categories=("L", "N", "P", "Z", "S"))))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert harmless(text) == text


@given(text=st.text(st.characters(exclude_categories=())))
def test_json_says_the_same_and_can_always_be_printed(text: str) -> None:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("click.echo", out.write)
        print_json(text)
    assert out.getvalue().encode()
    assert json.loads(out.getvalue()) == text


def test_matching_words_are_marked_by_style_on_a_terminal_and_by_stars_elsewhere() -> None:
    excerpt = "the \x02tide\x03 [red]gauge"
    assert marked(excerpt, terminal=False).plain == "the *tide* [red]gauge"
    styled = marked(excerpt, terminal=True)
    assert styled.plain == "the tide [red]gauge"
    assert [(one.start, one.end) for one in styled.spans] == [(4, 8)]


def test_bytes_on_a_terminal_show_what_would_drive_it() -> None:
    shown = made_visible("Grüße\r\n\x1b[2J\r\x07\t".encode() + b"\xff\n").decode()
    assert shown == "Grüße\n\\x1b[2J\\x0d\\x07\t\\xff\n"
