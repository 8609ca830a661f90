"""A handler is annotated with what it is given; type checkers refuse anything else, and so does the app."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import pytest

from onward import App, Document, Event, Work, names
from onward.runtime.service import RegistrationError
from tests.support.page_app import Noticed, Page, PagesFound, Word, new_app

if TYPE_CHECKING:
    from onward.ledger.store import Store as Unimported

T = TypeVar("T")
ROOT = Path(__file__).parents[2]


class Named(Protocol):
    id: str


class Catalogue:
    def read(self, page: Page, work: Work) -> None: ...

    def misread(self, page: Word, work: Work) -> None: ...

    def __call__(self, page: Word, work: Work) -> None: ...


def of_page(page: Page, work: Work) -> None: ...
def of_any_document(document: Document, work: Work) -> None: ...
def of_object(document: object, work: object) -> None: ...
def of_any(document: Any, work: Any) -> None: ...
def of_unannotated(document, work): ...  # type: ignore[no-untyped-def]
def of_either(page: Page | Word, work: Work) -> None: ...
def of_annotated(page: Annotated[Page, "the page"], work: Work) -> None: ...
def of_protocol(page: Named, work: Work) -> None: ...
def of_variable(page: T, work: Work) -> T: ...  # type: ignore[empty-body]
def of_unimported(page: Unimported, work: Work) -> None: ...
async def of_page_async(page: Page, work: Work) -> None: ...
def of_list(pages: list[Page], work: Work) -> None: ...
def of_sequence(pages: Sequence[Page], work: Work) -> None: ...
def of_documents(pages: Iterable[Document], work: Work) -> None: ...
def of_plain_list(pages: list, work: Work) -> None: ...  # type: ignore[type-arg]
def of_event(event: PagesFound, work: Work) -> None: ...
def of_word(word: Word, work: Work) -> None: ...
async def of_word_async(word: Word, work: Work) -> None: ...
def of_tuple(pages: tuple[Page, ...], work: Work) -> None: ...
def of_words(words: list[Word], work: Work) -> None: ...
def of_app(page: Page, work: App) -> None: ...


@pytest.fixture
def app() -> App:
    return new_app()


def declare(app: App, handler: Callable[..., Any], **options: Any) -> None:
    given: Callable[[object], object] = app.service("reading", on=PagesFound, **options)
    given(handler)


ONE = (
    of_page, of_any_document, of_object, of_any, of_unannotated, of_either, of_annotated, of_protocol, of_variable,
    of_unimported, of_page_async, Catalogue().read,
)  # fmt: skip
MANY = (of_list, of_sequence, of_documents, of_plain_list, of_object, of_any, of_unannotated)


@pytest.mark.parametrize("handler", ONE)
def test_a_handler_of_one_document_may_be_annotated_so(app: App, handler: Callable[..., Any]) -> None:
    declare(app, handler, finishes=Page)


@pytest.mark.parametrize("handler", MANY)
def test_a_handler_of_a_batch_may_be_annotated_so(app: App, handler: Callable[..., Any]) -> None:
    declare(app, handler, finishes=Page, batch=8)
    assert "reading" in app.registry.services


@pytest.mark.parametrize("handler", (of_event, of_object, of_unannotated))
def test_a_handler_of_an_event_may_be_annotated_so(app: App, handler: Callable[..., Any]) -> None:
    declare(app, handler)
    assert "reading" in app.registry.services


@pytest.mark.parametrize(
    ("handler", "options", "why"),
    (
        (of_word, {"finishes": Page}, "'word' is Word, but it is given Page; change the annotation, or finishes="),
        (of_word_async, {"finishes": Page}, "'word' is Word, but it is given Page"),
        (Catalogue().misread, {"finishes": Page}, "'page' is Word, but it is given Page"),
        (Catalogue(), {"finishes": Page}, "'page' is Word, but it is given Page"),
        (functools.partial(of_word), {"finishes": Page}, "'word' is Word, but it is given Page"),
        (of_list, {"finishes": Page}, "'pages' is list[tests.support.page_app.Page], but it is given Page"),
        (of_page, {"finishes": Page, "batch": 2}, "'page' is Page, but it is given list[Page]"),
        (of_words, {"finishes": Page, "batch": 2}, "but it is given list[Page]"),
        (of_tuple, {"finishes": Page, "batch": 2}, "but it is given list[Page]"),
        (of_page, {}, "'page' is Page, but it is given PagesFound; change the annotation, or on="),
        (of_app, {"finishes": Page}, "'work' is App, but it is given Work"),
    ),
)
def test_any_other_annotation_is_refused(
    app: App, handler: Callable[..., Any], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(RegistrationError, match=re.escape(why)) as refused:
        declare(app, handler, **options)
    assert "service 'reading' has a handler whose parameter" in str(refused.value)
    assert not app.registry.services


def test_an_event_of_another_service_is_refused(app: App) -> None:
    class Shouted(Event):
        page_id: str = names(Page)

    def hear(event: Noticed, work: Work) -> None: ...

    with pytest.raises(RegistrationError, match="'event' is Noticed, but it is given Shouted"):
        app.service("hearing", on=Shouted)(hear)  # type: ignore[arg-type]


# -- type checkers

RIGHT = """
from collections.abc import Callable, Sequence
from onward import App, Document, Event, Work, names

class Page(Document):
    text: str = ""

class Invoice(Document):
    total: int = 0

class PageFound(Event):
    page_id: str = names(Page)

app = App()

@app.service("one", on=PageFound, finishes=Page, needs="website", was=("zero",), time_limit=5)
async def one(page: Page, work: Work) -> None: ...

@app.service("two", on=PageFound, finishes=Page, batch=8)
def two(pages: Sequence[Page], work: Work) -> None: ...

@app.service("three", on=PageFound, finishes=Page, batch=lambda: 8)
async def three(pages: list[Page], work: Work) -> None: ...

@app.service("four", on=PageFound)
def four(event: PageFound, work: Work) -> None: ...

@app.service("five", on=PageFound, finishes=Page)
def five(page: Document, work: Work) -> None: ...

def choose(batch: int | None) -> None:
    @app.service("six", on=PageFound, finishes=Page, batch=batch)
    def six(pages: Page | Sequence[Page], work: Work) -> None: ...

app.service("seven", on=PageFound, finishes=Page)(lambda page, work: None)

async def call(page: Page, work: Work) -> None:
    await one(page, work)
    two([page], work)
"""
WRONG = {
    "another document": 'finishes=Page)\nasync def read(page: Invoice, work: Work) -> None: ...',
    "another document, def": 'finishes=Page)\ndef read(page: Invoice, work: Work) -> None: ...',
    "no list": 'finishes=Page, batch=8)\nasync def read(page: Page, work: Work) -> None: ...',
    "another list": 'finishes=Page, batch=8)\ndef read(pages: Sequence[Invoice], work: Work) -> None: ...',
    "a list of one": 'finishes=Page)\ndef read(pages: list[Page], work: Work) -> None: ...',
    "no event": ')\ndef read(page: Page, work: Work) -> None: ...',
    "no work": 'finishes=Page)\ndef read(page: Page, work: App) -> None: ...',
    "one parameter": 'finishes=Page)\ndef read(page: Page) -> None: ...',
    "a result": 'finishes=Page)\ndef read(page: Page, work: Work) -> int: return 1',
    "an awaited result": 'finishes=Page)\nasync def read(page: Page, work: Work) -> int: return 1',
    "an unknown option": 'finishes=Page, retries=3)\ndef read(page: Page, work: Work) -> None: ...',
    "a wrong option": 'finishes=Page, time_limit="long")\ndef read(page: Page, work: Work) -> None: ...',
}  # fmt: skip


def mypy(folder: Path) -> str:
    """What a strict mypy says of all files in a folder; they are checked by one process."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--no-error-summary"]
    environ = os.environ | {"MYPYPATH": str(ROOT / "src")}
    cache = ("--cache-dir", str(folder / "cache"), "--follow-imports", "silent")
    files = sorted(str(file) for file in folder.glob("*.py"))
    ran = subprocess.run([*command, *cache, *files], capture_output=True, text=True, env=environ, check=False)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


@pytest.mark.prove
def test_type_checkers_see_it(tmp_path: Path) -> None:
    header = RIGHT.partition("@app")[0]
    (tmp_path / "right.py").write_text(RIGHT)
    for number, wrong in enumerate(WRONG.values()):
        (tmp_path / f"wrong_{number}.py").write_text(f'{header}@app.service("reading", on=PageFound, {wrong}\n')
    found = mypy(tmp_path)
    assert "right.py" not in found
    passed = [name for number, name in enumerate(WRONG) if f"wrong_{number}.py" not in found]
    assert passed == [], found


@pytest.mark.prove
def test_the_examples_of_the_docs_have_right_types(tmp_path: Path) -> None:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
        if ".service(" in code and page.name != "tutorial.md":  # its programs are below examples/
            (tmp_path / f"{page.stem.replace('-', '_')}.py").write_text(code)
    about_handlers = re.compile(r"\[(arg-type|call-overload|untyped-decorator|type-var)\]$", re.MULTILINE)
    found = mypy(tmp_path)
    assert not about_handlers.search(found), found
