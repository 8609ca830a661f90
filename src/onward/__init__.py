"""Onward moves every document forward: retried on the right time scale, or set aside with its history.

Declare what your documents and events are, and what is done with them:

    from onward import App, Document, Event, Unavailable, names

    class Page(Document):
        url: str

    class Text(Document):
        text: str

    class PageFound(Event):
        page_id: str = names(Page)

    app = App()

    @app.service("reading", on=PageFound, finishes=Page, needs="website")
    async def read(page, work):
        text = await fetch(page.url)              # may raise: it is retried, or set aside
        work.add(Text(id=page.id, text=text))     # written when the handler returns, or not at all

    page = Page(id="home", url="https://example.org/")
    app.publish(PageFound.of(page), documents=[page])

and run it with `onward worker --app yourmodule:app`. Events, documents and retries live in one SQLite
file; nothing else needs to be set up. What that gives you:

  A crash loses nothing       a work is committed with the settlement of its event, or not at all
  A race resolves itself      a document that cannot be read yet is waited for (`NotReady`)
  An outage burns nothing     what `needs` a dependency waits while that is down (`Unavailable`)
  A failure is retried        soon, then on longer and longer scales; waiting holds no worker slot
  Nothing is stuck unseen     the retry job begins the next round; `onward status` says what needs a person
  A poison document is alone  it becomes a dead letter with its errors, the others go on

The names:

  App                         services, what they need, and the store they share
  Dependency                  something outside that services need, with its rate and concurrency
  Document, Status            a record that must reach a final state, and where it stands
  Event, names                a fact that names documents by id
  Joined                      how the documents of a `when_all` ended: a field of the event that it publishes
  Work                        what a handler says should be true once it returns
  NotReady, Unavailable,      what a handler raises, to say more than "it failed"
  Permanent
  RetryPolicy, Exponential,   when to try again, and when to give up
  Schedule, Ladder
  retrying                    the same policies around any call, outside of services
  classify, Classified, Kind  which failures may pass, and which are final
  DocumentState, DeadLetter   what is known of a document, and of an event given up
  TaskCall, CallFailed        one call of a plain task (`@app.task`), and what its result raises if it was given up
  Reader                      the store as a handler sees it: read-only
  Passage                     what a summarizer is given to read
  Settings                    what the environment and onward.toml say
  OnwardError                 the base of everything raised here

To test a service, see `onward.testing`; for the names of the designs that Onward follows, `onward.compat`.
"""

# The names are imported when they are first used, so that `import onward` and `onward --version` are fast. There
# is no `__dir__` on purpose: with one, help(onward) would print every class instead of this page.
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.app import App
    from onward.ledger.reader import Reader
    from onward.model.documents import Document, DocumentState, Status
    from onward.model.events import Event, names
    from onward.model.joins import Joined
    from onward.model.ledger import DeadLetter
    from onward.models.protocol import Passage
    from onward.retry.classify import classify
    from onward.retry.errors import Classified, Kind, NotReady, OnwardError, Permanent, Unavailable
    from onward.retry.policy import Exponential, Ladder, RetryPolicy, Schedule
    from onward.retry.retry_call import retrying
    from onward.runtime.dependency import Dependency
    from onward.runtime.task_call import CallFailed, TaskCall
    from onward.runtime.work import Work
    from onward.settings import Settings

__all__ = ["App", "CallFailed", "Classified", "DeadLetter", "Dependency", "Document", "DocumentState", "Event"]
__all__ += ["Exponential", "Joined", "Kind", "Ladder", "NotReady", "OnwardError", "Passage", "Permanent", "Reader"]
__all__ += ["RetryPolicy", "Schedule", "Settings", "Status", "TaskCall", "Unavailable", "Work"]
__all__ += ["classify", "names", "retrying"]

_MODULES = {
    "App": "onward.app",
    "CallFailed": "onward.runtime.task_call",
    "DeadLetter": "onward.model.ledger",
    "Dependency": "onward.runtime.dependency",
    "Document": "onward.model.documents",
    "DocumentState": "onward.model.documents",
    "Event": "onward.model.events",
    "Joined": "onward.model.joins",
    "Passage": "onward.models.protocol",
    "Reader": "onward.ledger.reader",
    "Settings": "onward.settings",
    "Status": "onward.model.documents",
    "TaskCall": "onward.runtime.task_call",
    "Work": "onward.runtime.work",
    "names": "onward.model.events",
}
"""The module of each public name that is not in `onward.retry`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'onward' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, "onward.retry")), name)
