"""Documents: records that must reach a final state."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticSerializationError

from onward.retry import OnwardError
from onward.retry.policy import Backoff
from onward.retry.round_rules import RoundRules


class Status(StrEnum):
    """The status of a document; everything but `pending` is final."""

    PENDING = "pending"
    PROCESSED = "processed"
    FAILED = "failed"
    FAILED_MAX_RETRIES = "failed_max_retries"
    DISCARDED = "discarded"


FINAL = frozenset(Status) - {Status.PENDING}


DocumentKey = tuple[str, str]  # A document's collection and id


class UnserialisableDocument(OnwardError, TypeError):
    """A document holds something that cannot be written as JSON."""


class Document(BaseModel):
    """A record that must reach a final state; subclass it and give it fields.

    Documents live in a collection, by default the class name in lower case with an `s`:

        class Page(Document):              # collection "pages"
            url: str

        class Entry(Document, collection="entries"):
            text: str

    Fields named in `keys` are indexed, so that documents are found by them (`work.store.find`):

        class Order(Document, keys=("customer",)):
            customer: str

    Its rounds may have rules of their own: how many there are at most, the wait after each, and after how
    many seconds without any report a round counts as lost. What is not given is as for other collections:

        class Refund(Document, max_rounds=8, round_backoff=Exponential(60, cap=900), stuck_after=3600):
            amount: int

    The `id` is yours to choose and should be deterministic, so that making the same document twice
    makes it once; `Document.make_id("a", "b")` derives one from whatever identifies it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    collection: ClassVar[str] = ""
    keys: ClassVar[tuple[str, ...]] = ()
    round_rules: ClassVar[RoundRules] = RoundRules()

    id: str = Field(min_length=1, max_length=512)

    def __init_subclass__(
        cls,
        *,
        collection: str | None = None,
        keys: tuple[str, ...] | None = None,
        max_rounds: int | None = None,
        round_backoff: Backoff | None = None,
        stuck_after: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if keys is not None:
            cls.keys = keys
        try:
            cls.round_rules = RoundRules(max_rounds, round_backoff, stuck_after).or_else(cls.round_rules)
        except ValueError as error:
            raise ValueError(f"class {cls.__name__}: {error}") from error
        cls.collection = collection or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower() + "s"

    @model_validator(mode="after")
    def _id_is_clean(self) -> Self:
        # A NUL would be cut off by some databases, so that two ids became one.
        if "\x00" in self.id:
            raise ValueError("a document id must not contain NUL characters")
        return self

    @staticmethod
    def make_id(*parts: object) -> str:
        """Derive a deterministic id from whatever identifies a document.

        >>> Document.make_id("a", "bc") != Document.make_id("ab", "c")
        True
        """
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            text = str(part).encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(text))
            digest.update(text)
        return digest.hexdigest()

    def to_json(self) -> str:
        """Write the document as JSON text, or raise an error that names the document."""
        try:
            if not self.model_extra:
                return self.model_dump_json()
            # Fields of a newer version, which this class does not declare and pydantic would leave out.
            return json.dumps(self.model_dump(mode="json") | self.model_extra, separators=(",", ":"))
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
            raise UnserialisableDocument(
                f"document {self.collection}/{self.id} cannot be written as JSON: {error}. "
                "Give the offending field a type that pydantic can serialise"
            ) from error

    def key_values(self) -> list[tuple[str, str | float]]:
        """Return the fields by which this document is found, each with its value; a list has several."""
        pairs: list[tuple[str, str | float]] = []
        for name in self.keys:
            value = getattr(self, name)
            values = value if isinstance(value, list | tuple) else (value,)
            pairs += [(name, kept) for each in values if (kept := _findable(each)) is not None]
        return pairs

    @classmethod
    def from_json(cls, body: str) -> Self:
        """Read a stored document; fields of a newer version are kept, not refused."""
        return cls.model_validate_json(body, extra="allow")


def _findable(value: Any) -> str | float | None:
    """Return a value as every database stores it; None: it is not indexed."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd") or None
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, slots=True)
class DocumentState:
    """The state of a document: status, rounds, history. Its body is stored separately."""

    collection: str
    id: str
    status: str
    attempt_count: int = 0
    last_attempt_time: float | None = None
    created_at: float | None = None
    updated_at: float | None = None
    last_error: dict[str, Any] | None = None
    attempts: dict[str, Any] = field(default_factory=dict)
    retry_at: float | None = None
    priority: int = 0
    revision: int = 1
    round: int = 0
    row: int | None = None  # The ledger row that carries its current round, while that is not settled
    dead_letter: int | None = None
    source: str | None = None
    parent: str | None = None
    failed_batch: str | None = None  # The failed batch it was set aside into, to be retried with it
    expires: float | None = None  # The time after which no try of it begins; an operator's retry clears it

    @property
    def final(self) -> bool:
        return self.status in FINAL
