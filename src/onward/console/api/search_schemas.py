"""The response bodies of searching, asking and reading threads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from onward.console.api.schemas import ApiResponse, Time


class SearchReason(ApiResponse):
    word: str = Field(examples=["gauge"])
    score: float = Field(description="What the word adds to the score of the words, before it is scaled to 1.")


class SearchResult(ApiResponse):
    rank: int
    id: str
    thread_id: str
    subject: str
    author: str
    date: Time = None
    source: str
    path: str = Field(description="Inside its source; empty for the source itself.", examples=["docs/tide.md"])
    kind: str = Field(examples=["mbox"])
    language: str = Field(description="Of its text, or of code; empty if it is not known.", examples=["en"])
    attached_to: AttachedTo | None = Field(description="The mail, if the result is an attachment.")
    excerpt: str
    score: float = Field(description="From 0 to 1, what the results are ordered by.")
    text_score: float = Field(description="The score of the words, from 0 to 1; 0: found by meaning alone.")
    similarity: float = Field(description="How similar the meaning is, at most 1.")
    reasons: list[SearchReason] = Field(description="The words it was found by, with `explain`.")


class AttachedTo(ApiResponse):
    """The mail that a result is attached to."""

    message_id: str
    number: int = Field(description="The place in the attachments of the mail, from 1 on.")
    name: str = Field(description="Of the file.", examples=["report.pdf"])
    subject: str = Field(description="Of the mail.")


class Attachment(ApiResponse):
    number: int
    name: str
    content_type: str
    size: int
    state: Literal["searchable", "waiting", "not_read", "failed"]
    reason: str = Field(description="Why it is not read, or failed.")
    archive_id: str | None = Field(description="Its own archive, if it is read apart from its mail.")
    document_id: str | None = Field(description="The message that has its text.")


class Attachments(ApiResponse):
    id: str
    attachments: list[Attachment]


class FacetValue(ApiResponse):
    value: str = Field(examples=["2026"])
    count: int


class SearchResults(ApiResponse):
    query: str
    understood: str = Field(description="How the query was understood.", examples=["Messages with tide."])
    sort: Literal["relevance", "date"]
    total: int = Field(description="Messages that match well; by date, only these are listed.")
    every: int = Field(description="Messages that match at all; by relevance, these are listed.")
    page: int
    note: str = Field(description="What was odd, such as a model that is down; empty if nothing was.")
    did_you_mean: str = Field(description="The query with known words in place of unknown ones, or empty.")
    facets: dict[str, list[FacetValue]] = Field(
        description="With `facets`: how many of the messages have each source, author, year, kind and language.",
        examples=[{"year": [{"value": "2026", "count": 3}]}],
    )
    results: list[SearchResult]


class SimilarMessages(ApiResponse):
    id: str
    results: list[SearchResult]


class Suggestions(ApiResponse):
    query: str
    suggestions: list[str] = Field(examples=[["tide gauge", "tide gate"]])


class CitedMessage(ApiResponse):
    message_id: str
    thread_id: str
    subject: str
    author: str
    date: Time = None
    source: str
    path: str = Field(description="Inside its source; empty for the source itself.")
    command: str = Field(description="Shows the message.", examples=["onward show 4e682402"])


class AnswerPassage(CitedMessage):
    number: int = Field(description="By which `answer` cites it.")
    start: int = Field(description="Of the first character of the passage, in the body of the message.")
    end: int = Field(description="Behind its last character.")
    text: str = Field(description="The passage, on one line.")
    confidence: float = Field(description="How likely it is, from 0 to 1, that it answers.")


class Answer(ApiResponse):
    question: str
    answered: bool = Field(description="Whether a passage answers.")
    answer: str = Field(
        description="What the chat model wrote. `[1]` cites the first passage, `[no source]` marks a sentence "
        "that cites none. Empty without a chat model."
    )
    model: str = Field(description="Which wrote `answer`, or found that nothing answers.")
    note: str = Field(description="What was odd, such as a model that is down; empty if nothing was.")
    unknown_words: list[str] = Field(description="Words of the question that no message has.")
    passages: list[AnswerPassage]
    nearest: list[CitedMessage] = Field(description="If nothing answers: the messages that match best.")


class ThreadCitation(ApiResponse):
    number: int
    message_id: str
    sentence: str = Field(description="Word for word as in the message.")


class Thread(ApiResponse):
    id: str
    subject: str
    source: str
    messages: int
    latest_message: Time = None
    summary: str | None = Field(description="In Markdown, with numbers of citations; null if not written yet.")
    citations: list[ThreadCitation]
    model: str | None = Field(description="What wrote the summary.", examples=["extractive"])


class Threads(ApiResponse):
    threads: list[Thread]
    files_left_out: int = Field(description="Files and web pages that `files=true` lists, too.")
    next: str | None = None
