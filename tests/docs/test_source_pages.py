"""The commands on the pages of kinds of sources name locations and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from onward.pipeline.fetch.location import canonical
from onward.pipeline.source_kinds import registry
from onward.pipeline.source_settings import check_options, read_options

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
PAGES = ("git-repositories.md", "mailing-lists.md", "object-stores.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_are_accepted(page: str) -> None:
    commands = re.findall(r"^onward ingest (.*)$", (HOW_TO / page).read_text(), re.MULTILINE)
    assert commands
    for command in commands:
        source, *options = [word for word in shlex.split(command) if word != "--option"]
        found = canonical(source)
        assert found == canonical(found)
        check_options(found, read_options(options))


def test_each_scheme_leads_to_a_kind_that_has_it() -> None:
    for scheme in registry.BUILT_IN:
        kind = registry.kind_of_scheme(scheme)
        assert kind is not None
        assert not scheme or scheme in kind.schemes  # a path has none
        for option in kind.options:
            option.parse(option.default)
