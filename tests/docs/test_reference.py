"""The reference lists every command, option, document and event; what pages tell to type is accepted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from onward import Document, Event
from onward.cli import COMMANDS, main
from onward.pipeline import documents, events
from onward.pipeline.app import build

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = ROOT / "docs" / "reference"
PIPELINE = (REFERENCE / "documents-and-events.md").read_text()

DOCUMENTS = [
    one
    for one in vars(documents).values()
    if isinstance(one, type) and issubclass(one, Document) and one is not Document
]
EVENTS = [
    one
    for name, one in vars(events).items()
    if isinstance(one, type) and issubclass(one, Event) and one is not Event and not name.startswith("_")
]


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None, f"there is no command `onward {name}`"
    return found


def section(text: str, title: str) -> str:
    found = re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{title} is not described"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their heads."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if re.match(r"\| +`", line)]
    return [[cell.strip() for cell in line] for line in lines]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# -- commands


def test_every_command_is_described() -> None:
    described = re.findall(r"^## onward ([\w-]+)$", (REFERENCE / "commands.md").read_text(), re.MULTILINE)
    assert described == list(COMMANDS)


def subcommands(name: str) -> dict[str, click.Command]:
    """The commands of a group; none, if it is none."""
    group = command(name)
    if not isinstance(group, click.Group):
        return {}
    context = click.Context(group)
    found = {sub: group.get_command(context, sub) for sub in group.list_commands(context)}
    return {sub: one for sub, one in found.items() if one is not None}


def options(one: click.Command) -> dict[str, click.Option]:
    return {param.opts[0]: param for param in one.params if isinstance(param, click.Option)}


def described(name: str) -> list[list[str]]:
    return rows(section((REFERENCE / "commands.md").read_text(), f"onward {name}"))


def assert_described(listed: dict[str, str], one: click.Command) -> None:
    """Options are listed in their order, with the default that `--help` shows."""
    known = options(one)
    assert list(listed) == list(known)
    for option, param in known.items():
        if param.show_default:
            assert listed[option] == str(param.default), f"the default of {option}"


GROUPS = [name for name in COMMANDS if subcommands(name)]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in GROUPS])
def test_every_option_is_described_with_its_default(name: str) -> None:
    assert_described({words(row[0])[0]: row[1] for row in described(name)}, command(name))


@pytest.mark.parametrize("name", GROUPS)
def test_every_command_of_a_group_is_described_with_its_options(name: str) -> None:
    """A row of options says which commands of the group take it."""
    table = described(name)
    listed: dict[str, dict[str, str]] = {
        words(row[0])[0].split()[1]: {} for row in table if not words(row[0])[0].startswith("--")
    }
    for option, default, takers, _ in (row for row in table if words(row[0])[0].startswith("--")):
        for taker in words(takers):
            listed[taker][words(option)[0]] = default
    assert listed.keys() == subcommands(name).keys()
    for sub, one in subcommands(name).items():
        assert_described(listed[sub], one)
    if options(command(name)):
        assert list(options(command(name))) == list(listed["list"]), "the group by itself lists"


def typed(page: Path) -> Iterator[str]:
    """Every `onward …` of a page that somebody might type, in its blocks and in its sentences."""
    text = page.read_text()
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if found := re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*onward (.*)$", line):
                yield re.split(r" +(?:[|>#;]|&&)", found[1])[0]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for inline in re.findall(r"`onward ([^`]+)`", prose):
        if not re.search(r"…|\[|^--debug|^COMMAND", inline):
            yield inline


COMMAND_LINES = [(page, line) for page in PAGES for line in typed(page)]


@pytest.mark.parametrize(
    ("page", "line"), COMMAND_LINES, ids=[f"{page.stem}: {line}" for page, line in COMMAND_LINES]
)
def test_what_a_page_tells_to_type_would_be_accepted(page: Path, line: str) -> None:
    name, *args = shlex.split(line)
    if name == "--version":
        return
    one = command(name)
    if args and not args[0].startswith("-") and (known := subcommands(name)):
        name, *args = args
        assert name in known, f"{page}: onward {line}"
        one = known[name]
    if not args:
        return  # a command by itself, as a sentence may name it
    # It raises where an option or its value is wrong. The parent names --help, which click keeps.
    parent = click.Context(main, **main.context_settings)
    assert one.make_context(name, args, parent=parent).params, f"{page}: onward {line}"


def test_pages_tell_to_type_every_command() -> None:
    told = {tuple(line.split()[:2]) for _, line in COMMAND_LINES}
    assert {name for name, *_ in told} >= set(COMMANDS)
    assert told >= {(name, sub) for name in GROUPS for sub in subcommands(name)}


# -- totals


def test_every_total_is_described() -> None:
    source = "".join(file.read_text() for file in (ROOT / "src" / "onward").rglob("*.py"))
    kept = set(re.findall(r"(?:store\.count|store\.set_gauge|observe_total)\((?:db, )?\s*\"(\w+)\"", source))
    assert "retry_job_runs_total" in kept
    assert {words(row[0])[0] for row in rows((REFERENCE / "totals.md").read_text())} == kept


# -- documents and events


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_document_is_described(kind: type[Document]) -> None:
    listed = [name for row in rows(section(PIPELINE, kind.collection)) for name in words(row[0])]
    assert sorted(listed) == sorted(set(kind.model_fields) - {"id"})


def test_every_event_is_described() -> None:
    listed = {words(row[0])[0]: row for row in rows(section(PIPELINE, "Events"))}
    notices = {words(row[2])[0]: row for row in rows_of_services()}
    assert sorted([*listed, *notices]) == sorted(kind.event_type for kind in EVENTS)
    for kind in EVENTS:
        if kind.event_type in listed:
            row = listed[kind.event_type]
            assert words(row[1]) == [kind.routing_key]
            assert words(row[2]) == list(kind.model_fields)
        else:
            row = notices[kind.event_type]
            assert words(row[3]) == [kind.routing_key]
            assert set(words(row[4])) <= set(kind.model_fields)


def rows_of_services() -> list[list[str]]:
    found = section(PIPELINE, "When a round is given up")
    lines = [line.strip("|").split("|") for line in found.splitlines() if re.match(r"\| [a-z]+ \| `", line)]
    return [[cell.strip() for cell in line] for line in lines]


def test_every_failed_queue_is_described() -> None:
    services = build(store="sqlite://:memory:").registry.services
    listed = {row[0]: words(row[1])[0] for row in rows_of_services()}
    assert listed == {name: one.failed_queue for name, one in services.items() if "." not in name}
