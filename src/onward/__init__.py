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
  Document, Status            a record that must reach a final state, and where it stands
  Event, names                a fact that names documents by id
  Work                        what a handler says should be true once it returns
  NotReady, Unavailable,      what a handler raises, to say more than "it failed"
  Permanent
  RetryPolicy, Exponential,   when to try again, and when to give up
  Schedule, Ladder
  retrying                    the same policies around any call, outside of services
  classify, Classified, Kind  which failures may pass, and which are final
  DocumentState, DeadLetter   what is known of a document, and of an event given up
  Reader                      the store as a handler sees it: read-only
  Passage                     what a summarizer is given to read
  Settings                    what the environment and onward.toml say
  OnwardError                 the base of everything raised here

For readers of the event-retry design: `RetryConfig`, `handle_event_with_retry`, `DocumentNotFoundError`.
To test a service, see `onward.testing`.
"""

# No `__all__`: with one, help(onward) would unroll every class; `as` says that a name is meant for users.
from onward.app import App as App
from onward.model.documents import Document as Document
from onward.model.documents import DocumentState as DocumentState
from onward.model.documents import Status as Status
from onward.model.events import Event as Event
from onward.model.events import names as names
from onward.model.ledger import DeadLetter as DeadLetter
from onward.ports import Reader as Reader
from onward.ports.models import Passage as Passage
from onward.retry import Classified as Classified
from onward.retry import DocumentNotFoundError as DocumentNotFoundError
from onward.retry import Exponential as Exponential
from onward.retry import Kind as Kind
from onward.retry import Ladder as Ladder
from onward.retry import NotReady as NotReady
from onward.retry import OnwardError as OnwardError
from onward.retry import Permanent as Permanent
from onward.retry import RetryConfig as RetryConfig
from onward.retry import RetryPolicy as RetryPolicy
from onward.retry import Schedule as Schedule
from onward.retry import Unavailable as Unavailable
from onward.retry import classify as classify
from onward.retry import handle_event_with_retry as handle_event_with_retry
from onward.retry import retrying as retrying
from onward.runtime.work import Work as Work
from onward.settings import Settings as Settings
