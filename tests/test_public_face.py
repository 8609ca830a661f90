"""The public face: about twenty names, each with a docstring, all on the page that `help(onward)` shows."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys

import pytest

import onward

NAMES = onward.__all__


def test_a_reader_can_learn_all_of_it() -> None:
    assert 18 <= len(NAMES) <= 27


def test_help_is_a_page_and_not_a_book() -> None:
    page = pydoc.plain(pydoc.render_doc(onward))
    assert str(onward.__doc__).splitlines()[0] in page
    assert len(page.splitlines()) < 120


@pytest.mark.parametrize("name", NAMES)
def test_every_name_says_what_it_is(name: str) -> None:
    text = inspect.getdoc(getattr(onward, name))
    assert text, f"{name} has no docstring"
    first = text.split("\n\n")[0]
    assert first.rstrip().endswith((".", ":")), f"{name} begins with a sentence, not: {first!r}"
    own = getattr(onward, name)
    if inspect.isclass(own) and own.__mro__[1] is not object:
        assert text != inspect.getdoc(own.__mro__[1]), f"{name} only repeats what it derives from"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_mentions_every_name(name: str) -> None:
    assert onward.__doc__ is not None
    assert re.search(rf"\b{name}\b", onward.__doc__), f"help(onward) does not mention {name}"


@pytest.mark.parametrize(
    "owner", (onward.Work, onward.Document, onward.RetryPolicy, onward.Ladder), ids=lambda one: one.__name__
)
def test_what_a_user_calls_is_explained(owner: type) -> None:
    methods = {
        name: value
        for name, value in vars(owner).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, classmethod | staticmethod))
    }
    assert methods
    unexplained = [name for name, value in methods.items() if not inspect.getdoc(value)]
    assert unexplained == []


def test_importing_it_brings_in_no_console_no_command_line_and_no_backend() -> None:
    """A library user pays only for what is used."""
    loaded = "import onward, sys; print(*(m for m in ('click', 'rich', 'sqlite3') if m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []


def test_the_layers_hold() -> None:
    """Dependencies point one way; the contracts are in pyproject.toml."""
    checked = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    assert "0 broken" in checked.stdout
