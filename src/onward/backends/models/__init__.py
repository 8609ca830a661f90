"""Models, chosen by name or by the address of a server."""

from __future__ import annotations

from onward.ports.models import Embedder, Summarizer
from onward.retry import OnwardError, redact


class ModelUnknown(OnwardError):
    """A setting names no model that there is."""


def open_embedder(
    where: str = "static",
    *,
    model: str = "",
    key: str | None = None,
    batch: int = 64,
    max_tokens: int = 2048,
    concurrency: int = 4,
    timeout: float = 60.0,
) -> Embedder:
    """Open the built-in `static` embedder, or a model of the server with this address.

    All but the first are for servers: the name of the model and the key, how many texts a call carries and
    how long each may be, how many calls are made at a time, and how many seconds an answer may take.
    """
    if where == "static":
        from onward.backends.models.static import StaticEmbedder

        return StaticEmbedder()
    _check("embedder", where, model, "static", "nomic-embed-text")
    try:
        from onward.backends.models.http import HTTPEmbedder
    except ImportError as error:
        raise _missing("embedder", error) from error
    return HTTPEmbedder(
        where,
        model,
        key=key,
        batch=batch,
        max_tokens=max_tokens,
        concurrency=concurrency,
        read_timeout=timeout,
    )


def open_summarizer(
    where: str = "extractive",
    *,
    model: str = "",
    key: str | None = None,
    context_tokens: int = 8192,
    concurrency: int = 4,
    timeout: float = 300.0,
) -> Summarizer:
    """Open the built-in `extractive` summariser, or a model of the server with this address.

    All but the first are for servers; `context_tokens` is what the model can read and write in one call.
    """
    if where == "extractive":
        from onward.backends.models.extractive import ExtractiveSummarizer

        return ExtractiveSummarizer()
    _check("summarizer", where, model, "extractive", "llama3")
    try:
        from onward.backends.models.chat import HTTPSummarizer
    except ImportError as error:
        raise _missing("summarizer", error) from error
    return HTTPSummarizer(
        where, model, key=key, context_tokens=context_tokens, concurrency=concurrency, read_timeout=timeout
    )


def _check(role: str, where: str, model: str, builtin: str, example: str) -> None:
    setting = f"ONWARD_{role.upper()}"
    if not where.startswith(("http://", "https://")):
        raise ModelUnknown(
            f"{setting}={redact(where)!r} names no {role}; use {builtin!r}, or the address of a server that "
            "speaks the OpenAI protocol, such as http://localhost:11434/v1"
        )
    if not model:
        raise ModelUnknown(
            f"{setting} is the server {redact(where)}, but which of its models is not said; "
            f"set {setting}_MODEL, for example to {example!r}"
        )


def _missing(role: str, error: ImportError) -> OnwardError:
    return OnwardError(
        f'the {role} cannot be used: {error.name or error} is not installed; run: pip install "onward[pipeline]"'
    )
