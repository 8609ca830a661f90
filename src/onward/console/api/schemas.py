"""The request and response bodies of the API; `/openapi.json` is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from onward.ops.submissions import MAX_URL_LENGTH

Time = Annotated[str | None, Field(description="A time in ISO 8601, in UTC.", examples=["2026-03-09T14:30:00Z"])]
Progress = Literal[
    "queued", "fetching", "extracting", "chunking", "embedding", "indexing", "processing", "done", "failed"
]
Counts = dict[str, dict[str, int]]  # of each collection, documents by their status in the store
Facts = dict[str, Any]
MAX_IN_BATCH = 100


def _whole(given: object) -> object:
    """To JSON, 3.0 is an integer."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


class ApiResponse(BaseModel):
    """A response body; later versions may add fields."""

    model_config = ConfigDict(extra="allow")


class ApiRequest(BaseModel):
    """A request body; an unknown field is refused."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class ProblemDetails(ApiResponse):
    """A problem (RFC 9457)."""

    type: str = "about:blank"
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(description="What was wrong, with which value, and what to do about it.")


# -- submitting


class SubmittedURL(ApiRequest):
    """A page or file on the web, to be fetched."""

    url: str = Field(
        min_length=1,
        max_length=MAX_URL_LENGTH,
        json_schema_extra={"pattern": "^[hH][tT][tT][pP][sS]?://"},
        examples=["https://example.org/list.mbox.gz"],
    )
    type: Literal["url"] = "url"


class SubmittedText(ApiRequest):
    """A text, as it is."""

    content: str = Field(min_length=1, examples=["The vent tube was blocked, so the gauge drifted."])
    type: Literal["text"] = "text"
    title: str = Field(
        "",
        max_length=200,
        description="What it is called; `.md` or `.py` at its end say what it is.",
        examples=["Notes.md"],
    )


class Accepted(ApiResponse):
    """A document that was submitted."""

    id: str = Field(description="For `GET /v3/documents/{id}`.")
    status: Progress
    source: str = Field(description="Its canonical location, without credentials.")
    duplicate: bool = Field(description="It was known already, and nothing was done.")


class BatchAnswer(ApiResponse):
    """The result of one item of a batch."""

    index: int = Field(description="Which of the list it was, from 0.")
    status_code: int = Field(description="What it would have been answered alone: 202, 200 or 422.")
    document: Accepted | None = None
    problem: ProblemDetails | None = None


class BatchAnswers(ApiResponse):
    accepted: int
    duplicates: int
    refused: int
    results: list[BatchAnswer]


# -- documents


class Metadata(ApiResponse):
    """Details beside the status."""

    error: str | None = Field(None, description="Why it failed last; also while it waits to be tried again.")
    failed_documents: int = Field(0, description="Of a source: how many of its documents were given up.")
    set_aside: int = Field(0, description="Of a source: how many of its documents wait in a failed batch.")


class DocumentStatus(ApiResponse):
    """The status of a document."""

    id: str
    collection: str
    status: Progress = Field(description="`failed` only at the end: until then `queued`, with `next_retry`.")
    tries: int = Field(description="How often it was tried, in all rounds.")
    rounds: int
    attemptsMade: int = Field(description="How often it was tried in the current round.")
    next_retry: Time = Field(None, description="When it is tried again, if it waits for that.")
    failedReason: str | None = Field(None, description="Why it failed last, as `processing_metadata.error`.")
    processing_metadata: Metadata


class LastError(ApiResponse):
    error_type: str = Field(examples=["TimeoutError"])
    message: str


class DocumentBrief(DocumentStatus):
    """A document in a list."""

    title: str | None = Field(None, description="Its subject, path or URL, or its place in its message.")
    source: str | None = None
    attemptCount: int = Field(description="Rounds that were begun.")
    lastAttemptTime: Time = Field(None, description="When its last round began, or its last try failed.")
    lastError: LastError | None = None
    createdAt: Time = None
    updatedAt: Time = None
    embedding_generated: bool | None = Field(
        None, description="Of a chunk: whether its vector is stored; null for others."
    )


class Next(ApiResponse):
    """The next step of a document, and its reason."""

    kind: str
    text: str
    command: str = ""
    at: Time = None


class Document(DocumentBrief):
    """A document, and all that came from it if it is a source."""

    documents: Counts = Field(
        default_factory=dict, description="Of a source: its documents by collection and status."
    )
    parent: str | None = None
    revision: int
    next: Next
    content: Facts = Field(description="What the store holds of it.")


class Documents(ApiResponse):
    documents: list[DocumentBrief]
    next: str | None = Field(None, description="Give it as `after` for the next page; null: this is the last.")


class RetryOptions(ApiRequest):
    """How to try it again."""

    reset: bool = Field(False, description="Count its rounds from the beginning.")


class Forgetting(ApiResponse):
    """The documents that are removed with a source."""

    id: str
    source: str
    documents: int
    dry_run: bool


# -- tasks


class Task(ApiResponse):
    """One ingestion of one source."""

    id: str
    document_id: str = Field(description="The document of its source.")
    source: str
    submission: int = Field(description="Of which submission of its source it is; the last one counts.")
    current: bool = Field(description="No later one has taken its place.")
    submitted_at: Time = None
    status: Literal["running", "completed", "partially_completed", "failed"]


class Tasks(ApiResponse):
    tasks: list[Task]
    next: str | None = None


class PassedOverItem(ApiResponse):
    path: str
    kind: str = Field(examples=["office"])
    reason: str = Field(examples=["docx file"])


class PassedOver(ApiResponse):
    """Items of a source that were not taken."""

    total: int
    kinds: dict[str, int] = Field(examples=[{"office": 5, "picture": 2}])
    items: list[PassedOverItem] = Field(description="The first of each kind.")
    not_listed: int = Field(description="How many more there are than `items` lists.")


class Ignored(ApiResponse):
    """Hidden entries, those that a .gitignore names, and those of tools; a folder counts as one."""

    total: int
    kinds: dict[str, int] = Field(examples=[{"gitignore": 3, "hidden": 2}])


class WithoutText(ApiResponse):
    """Messages that have no text, and so no chunk."""

    total: int
    ids: list[str] = Field(description="The first of them.")


class DamagedMessages(ApiResponse):
    """Messages that were read with defects: something is damaged, was cut or had to be guessed."""

    total: int
    ids: list[str] = Field(description="The first of them.")
    defects: dict[str, int] = Field(
        description="How often the first 200 of them have each defect.", examples=[{"damaged base64": 2}]
    )


class AttachmentCounts(ApiResponse):
    """Attachments of mails, in all and by state."""

    total: int
    searchable: int
    waiting: int
    failed: int
    not_read: int
    reasons: dict[str, int] = Field(
        description="Why those are not read, the most frequent reason first.", examples=[{"it is empty": 2}]
    )


class NoAttachments(BaseModel):
    """Nothing: no mail has an attachment that is counted."""

    model_config = ConfigDict(extra="forbid")


class TaskProgress(Task):
    documents: Counts
    pending: int
    failed: int
    set_aside: int
    done: int
    total: int
    items: dict[str, int] = Field(description="What became of the source's items.")
    messages: dict[str, int] = Field(
        description="How many messages it has, parsed or failed, and how many duplicates were left out."
    )
    attachments: AttachmentCounts | NoAttachments = Field(
        description="Attachments of mails, without those whose text is a part of their mail; empty if there are "
        "none."
    )
    without_text: WithoutText
    damaged: DamagedMessages
    passed_over: PassedOver
    ignored: Ignored
    failures: list[Facts]
    waiting: list[Facts]


# -- operating


class Operation(ApiResponse):
    """A run of an action, which may take a while."""

    id: str
    title: str
    status: str = Field(description="`running`, `interrupted`, `stopped`, `failed` or `done`.")
    running: bool
    can_continue: bool
    action: str
    about: dict[str, Any] = Field(description="What it was begun with.")
    who: str
    via: str
    done: int
    total: int
    text: str
    problem: str | None = None
    runs: int = Field(description="1, and 1 more each time it was continued.")
    began: Time = None
    ended: Time = None


class Changed(ApiResponse):
    """The result of a change, or its plan."""

    dry_run: bool = False
    touches: int = Field(description="How many documents, dead letters or other things it is about.")
    text: str
    final: bool = Field(description="It cannot be undone.")
    operation: str | None = Field(None, description="Where to see how it goes, if it takes a while.")


class Pace(ApiRequest):
    """How fast to put things back."""

    canary: Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(_whole)] | None = Field(
        None, description="Try this many first, and the rest only if they succeed."
    )
    rate: float | None = Field(None, ge=0.001, le=1_000_000, description="At most this many a second.")
    dry_run: bool = False


class RequeuePace(Pace):
    """Which dead letters to put back, and how fast."""

    group: str | None = Field(None, max_length=64, description="Only those of this failure group.")
    error_type: str | None = Field(None, max_length=200, description="Only those with this type of error.")


class DryRun(ApiRequest):
    dry_run: bool = False


class BreakerReason(ApiRequest):
    reason: str = Field(min_length=1, max_length=500, description="For whoever wonders.", examples=["maintenance"])


class FailureGroups(ApiResponse):
    failures: list[Facts]
    total: int
    hidden: int = Field(description="Groups that affect nothing any more.")
    closed: int = Field(description="Groups that are closed.")
    next: int | None = None


class Queues(ApiResponse):
    queues: list[Facts]


class DeadLetters(ApiResponse):
    queue: Facts
    dead_letters: list[Facts]
    next: int | None = None


class Batches(ApiResponse):
    batches: list[Facts]
    total: int
    next: int | None = None


class Breakers(ApiResponse):
    breakers: list[Facts]


class Services(ApiResponse):
    services: list[Facts]


class Workers(ApiResponse):
    workers: list[Facts]
    versions: dict[str, int]
    silent: list[Facts]
    not_served: list[Facts]
    start: str


# -- errors of others


class ErrorReport(BaseModel):
    """A failure somewhere else, as Onward's `http` reporter sends it."""

    model_config = ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True)

    id: str = Field("", max_length=100, description="So that one that is sent twice is counted once.")
    at: str = Field("", max_length=60, description="ISO 8601; without it, now.")
    service: str = Field("", max_length=200)
    error_type: str = Field(min_length=1, max_length=200)
    message: str = Field("", max_length=100_000)
    traceback: str = Field("", max_length=200_000)
    kind: str = Field("", max_length=50)
    fingerprint: str = Field("", max_length=64, pattern=r"^[0-9a-f]*$")
    place: str = Field("", max_length=500)
    worker: str = Field("", max_length=300)
    version: str = Field("", max_length=200)
    dependency: str | None = Field(None, max_length=200)
    collection: str | None = Field(None, max_length=200)
    documents: list[Annotated[str, Field(max_length=600)]] = Field(default_factory=list, max_length=100)
    document_count: Annotated[int, Field(ge=0, le=1_000_000_000), BeforeValidator(_whole)] = 0
    context: dict[str, Any] | None = Field(None, description="What was known of the circumstances: any data.")


class InvalidReport(NamedTuple):
    """A report that is refused, beside others that are taken."""

    id: str
    errors: list[Any]  # as pydantic lists them


def _or_invalid(given: Any, validate: ValidatorFunctionWrapHandler) -> ErrorReport | InvalidReport:
    try:
        report: ErrorReport = validate(given)
    except ValidationError as error:
        id = given.get("id", "") if isinstance(given, dict) else ""
        return InvalidReport(str(id)[:100], error.errors(include_url=False, include_context=False))
    return report


class ErrorReports(ApiRequest):
    """One error, a list of errors, or an object with the list."""

    errors: list[Annotated[ErrorReport, WrapValidator(_or_invalid)]] = Field(min_length=1, max_length=1_000)

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        if isinstance(given, dict) and "errors" not in given:
            given = [given]
        return {"errors": given} if isinstance(given, list) else given

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        reports = schema["properties"]["errors"]
        return {"anyOf": [{**schema}, {**reports}, reports["items"]]}


class RefusedReport(ApiResponse):
    index: int = Field(description="Its place in the list, from 0.")
    id: str
    problem: str


class ErrorsCounted(ApiResponse):
    taken: int
    known: int = Field(description="They were sent before, and not counted again.")
    refused: list[RefusedReport] = Field(description="They are invalid, and were not counted.")


class KeptErrors(ApiResponse):
    errors: list[ErrorReport]
    total: int = Field(description="How many are kept and match.")


class ErrorStats(ApiResponse):
    received: int = Field(description="Since this server was started.")
    kept: int
    most: int = Field(description="How many are kept; then the oldest go.")
    services: dict[str, int]
    error_types: dict[str, int]
    groups: dict[str, int] = Field(description="By fingerprint; `GET /v3/failures/{fingerprint}` tells more.")
    oldest: Time = None
    newest: Time = None


class Health(ApiResponse):
    status: Literal["ok", "not ok"]
    checks: dict[str, str]
