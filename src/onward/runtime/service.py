"""Services, as an app declares them."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from onward.ledger.reader import Reader
from onward.model.documents import Document, DocumentState
from onward.model.events import Event, read_event
from onward.model.ledger import Delivery, PerKey, Subscription
from onward.retry import Classified, OnwardError, RetryPolicy, classify
from onward.runtime.handler_types import Handler, Requeue, wrong_annotation

if TYPE_CHECKING:
    pass

MAX_BATCH = 500
MAX_KEY_BYTES = 200  # A longer key is stored as its digest


class RegistrationError(OnwardError, ValueError):
    """A service or dependency was declared in a way that cannot work."""


@dataclass(frozen=True, slots=True)
class Service:
    """A named consumer of one event type."""

    name: str
    handler: Handler
    on: type[Event]
    finishes: type[Document] | None = None
    needs: tuple[str, ...] = ()
    batch: int | Callable[[], int] | None = None
    """Documents of one call; asked for at each delivery, if it is a function."""
    time_limit: float | None = None
    concurrency: int | Callable[[], int] | None = None
    """Calls at once in a process; asked for when a worker starts, if it is a function."""
    background: bool = False
    """Its events are claimed only while the process has nothing else to do."""
    policy: RetryPolicy | None = None
    not_ready: RetryPolicy | None = None
    rung: Literal["transient", "fetching"] = "transient"
    """The rung of the ladder for transient failures, if the service has no policy of its own."""
    classify: Callable[[BaseException], Classified] = classify
    failed_queue: str = ""
    sets_aside: bool = False
    """Documents that failed after all tries join a failed batch instead of becoming dead letters."""
    notice: str = ""  # the type of the event that reports a round that was given up, such as `ParsingFailed`
    requeue: Requeue | None = None  # makes the events that put documents back, where `on.of(…)` cannot
    was: tuple[str, ...] = ()  # former names of the service, whose events it takes over
    key: Callable[..., str | int | None] | None = None
    """Of the document or event: calls with the same key run one at a time. None: no limit for this one."""
    ordered: bool = False  # and in the order of publication

    def __post_init__(self) -> None:
        refuse, on, finishes, batch, limit = self._refuse, self.on, self.finishes, self.batch, self.time_limit
        refuse(not re.fullmatch(r"[a-z][a-z0-9_.-]*", self.name), "needs a name like 'chunking'")
        refuse(not _is_kind(on, Event), f"is declared with on={on!r:.100}; give a subclass of onward.Event")
        refuse(not all(self.needs), f"needs {self.needs!r:.100}; name dependencies, such as needs='website'")
        if finishes is None:
            refuse(batch is not None, "has a batch, but finishes nothing")
            refuse(self.sets_aside, "sets documents aside, but finishes none")
        else:
            declared = f"is declared with finishes={finishes!r:.100}"
            refuse(not _is_kind(finishes, Document), f"{declared}; give a subclass of onward.Document")
            refuse(
                on.field_naming(finishes.collection) is None,
                f"finishes {finishes.__name__}, but {on.__name__} names none: mark the field that holds their ids "
                f"with names({finishes.__name__})",
            )
        refuse(
            isinstance(batch, int) and not 1 <= batch <= MAX_BATCH,
            f"has batch={batch}; 1 to {MAX_BATCH} is allowed",
        )
        self._check_key()
        refuse(limit is not None and limit <= 0, f"has time_limit={limit}; it is a number of seconds above 0")
        few = isinstance(self.concurrency, int) and self.concurrency < 1
        refuse(few, f"has concurrency={self.concurrency}; at least 1 is allowed")
        refuse(not all(self.was), f"was {self.was!r:.100}; give its former name, such as was='splitting'")
        again = self.name in self.was
        refuse(again, f"is declared with was={self.name!r}; give its former name, not this one")
        refuse(not _takes_two(self.handler), "needs a handler of two parameters, such as (document, work)")
        if why := wrong_annotation(self.handler, finishes or on, batch=batch is not None):
            option = "finishes=" if finishes else "on="
            refuse(why, f"{why}; change the annotation, or {option}")

    def _refuse(self, wrong: object, why: str) -> None:
        if wrong:
            raise RegistrationError(f"service {self.name!r} {why}")

    def _check_key(self) -> None:
        refuse, key = self._refuse, self.key
        refuse(self.ordered and key is None, "has ordered=True without a key; give key=, such as key=customer_of")
        if key is None:
            return
        refuse(not callable(key), f"has key={key!r:.100}; give a function that returns a str, an int or None")
        is_async = inspect.iscoroutinefunction(key)
        refuse(
            is_async,
            f"has key={key!r:.100}, which is `async def`; give a `def` that reads nothing but its argument",
        )
        what = "document" if self.finishes else "event"
        problem = _call_problem(key)
        refuse(problem, f"has key={key!r:.100}, which cannot be called with one {what}: {problem}")
        refuse(
            self.batch is not None,
            f"has a key and batch={self.batch!r:.100}; documents of a batch have different keys: leave one out",
        )

    def key_of(self, delivery: Delivery) -> str | None:
        """Return the key of a delivery that is being claimed, as it is stored; None: it needs none."""
        if self.key is None or delivery.version > self.on.version or delivery.event_type != self.on.event_type:
            return None  # the last two: its call is refused
        given: Document | Event
        if self.finishes is None:
            given = read_event(self.on, delivery.data)
        else:
            given = self.finishes.from_json(delivery.inputs[0].body or "")
        found = self.key(given)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, str | int):
            what = f"{found!r:.100} ({type(found).__name__})"
            raise TypeError(
                f"the key function of service {self.name!r} returned {what}; return a str, an int or None"
            )
        return stored_key(str(found))

    def slots(self) -> int | None:
        """The number of calls that may run at once in a process, if the service sets it."""
        return max(1, self.concurrency()) if callable(self.concurrency) else self.concurrency

    def batch_size(self) -> int:
        """The number of documents that one call of the handler gets at most."""
        return min(MAX_BATCH, max(1, self.batch())) if callable(self.batch) else self.batch or 1

    @property
    def makes_events(self) -> bool:
        """Whether it can make the event of a document from the document's state."""
        others = (info for name, info in self.on.model_fields.items() if name != self.ids_field)
        return self.requeue is not None or not any(info.is_required() for info in others)

    def put_back(self, states: Sequence[DocumentState], store: Reader) -> Iterable[Event]:
        """Make the events that begin another round of documents; those it leaves out are not to be, just now."""
        if self.requeue is not None:
            return self.requeue(states, store)
        assert self.ids_field is not None, "only a service that finishes documents puts them back"
        many = self.on.model_fields[self.ids_field].annotation is not str
        ids = [one.id for one in states]
        return [self.on(**{self.ids_field: one}) for one in ([ids] if many else ids)]

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)

    @property
    def ids_field(self) -> str | None:
        return self.on.field_naming(self.finishes.collection) if self.finishes else None

    def subscription(self) -> Subscription:
        return Subscription(
            service=self.name,
            event_type=self.on.event_type,
            finishes=self.finishes.collection if self.finishes else None,
            ids_field=self.ids_field,
            naming=tuple(self.on.naming),
            needs=self.needs,
            failed_queue=self.failed_queue or f"{self.name}.failed",
            version=self.on.version,
            was=self.was,
            round_rules=self.finishes.round_rules.to_json() if self.finishes else "",
            per_key="" if self.key is None else str(PerKey.ORDERED if self.ordered else PerKey.ONE),
        )

    def notice_type(self) -> str:
        words = re.split(r"[_.-]", self.name)
        return self.notice or "".join(word.capitalize() for word in words) + "Failed"


def stored_key(key: str) -> str:
    """Return a key as the ledger stores it: one that is long, or that a database cannot store, by its digest."""
    # Of 64-bit integers and ids it is the text itself, which commands show.
    encoded = key.encode(errors="surrogatepass")
    if len(encoded) <= MAX_KEY_BYTES and key.isprintable():
        return key
    return "blake2b:" + hashlib.blake2b(encoded, digest_size=16).hexdigest()


def _is_kind(given: object, kind: type) -> bool:
    return isinstance(given, type) and issubclass(given, kind) and given is not kind


def _call_problem(function: Callable[..., object]) -> str:
    """Return why a function cannot be called with one argument; empty if it can, or if that is not known."""
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        return str(error)
    except ValueError:
        return ""  # some built-in functions have no signature
    return ""


def _takes_two(handler: Handler) -> bool:
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [one.kind for one in parameters if one.default is one.empty]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in kinds for kind in required) == 2 and inspect.Parameter.KEYWORD_ONLY not in required
