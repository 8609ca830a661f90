"""The pipeline as an app: six services and their dependencies."""

from __future__ import annotations

from functools import partial

from onward import App, Settings
from onward.pipeline import events, folder_events, sources, vector_upgrade, watching
from onward.pipeline.documents import Archive, Chunk, Message, Thread, source_id
from onward.pipeline.stages import chunking, ingestion, model_calls, orchestration, parsing, thread_repair
from onward.pipeline.stages import vector_upgrade as upgrading

STAGES = ("ingestion", "parsing", "chunking", "embedding", "orchestration", "summarization")
CHUNKING_BATCH = 64


def build(settings: Settings | None = None, *, store: str | None = None) -> App:
    """Declare the pipeline's services on a new app."""
    app = App(settings=settings, store=store)

    # Not the methods themselves: a model is opened at its first use.
    app.dependency("embedder", health=lambda: app.embedder.healthy())  # noqa: PLW0108
    app.dependency(
        upgrading.DEPENDENCY, health=lambda: app.embedder_upgrade is None or app.embedder_upgrade.healthy()
    )
    app.dependency("summarizer", health=lambda: app.summarizer.healthy())  # noqa: PLW0108
    app.service(
        "ingestion",
        on=events.SourceSubmitted,
        finishes=Archive,
        rung="fetching",
        failed_queue="archive.ingestion.failed",
        notice="ArchiveIngestionFailed",
        time_limit=7200.0,
        requeue=ingestion.requeue,
    )(partial(ingestion.ingest, app))
    app.service(
        "parsing",
        on=events.ArchiveIngested,
        finishes=Archive,
        failed_queue="parsing.failed",
        time_limit=7200.0,
        requeue=parsing.requeue,
    )(partial(parsing.parse, app))
    app.service(
        "chunking",
        on=events.JSONParsed,
        finishes=Message,
        batch=CHUNKING_BATCH,
        concurrency=1,
        failed_queue="chunking.failed",
        requeue=chunking.requeue,
    )(partial(chunking.chunk, app))
    app.service(
        "embedding",
        on=events.ChunksPrepared,
        finishes=Chunk,
        needs="embedder",
        batch=lambda: app.embedder.batch_texts,
        concurrency=lambda: app.settings.concurrency if app.embedder.remote else 1,
        sets_aside=True,
        failed_queue="embedding.generation.failed",
        notice="EmbeddingGenerationFailed",
    )(partial(model_calls.embed, app))
    app.service("orchestration", on=events.EmbeddingsGenerated, failed_queue="orchestration.failed")(
        orchestration.orchestrate
    )
    app.service(
        "summarization",
        on=events.SummarizationRequested,
        finishes=Thread,
        needs="summarizer",
        concurrency=lambda: app.settings.concurrency if app.summarizer.remote else 1,
        failed_queue="summarization.failed",
        requeue=orchestration.requeue,
    )(partial(model_calls.summarize, app))
    app.service(
        upgrading.SERVICE,
        on=events.VectorUpgradeRequested,
        needs=upgrading.DEPENDENCY,
        background=True,
        concurrency=lambda: (
            app.settings.concurrency if app.embedder_upgrade and app.embedder_upgrade.remote else 1
        ),
    )(partial(upgrading.upgrade, app))
    app.periodic("vector upgrade", every=vector_upgrade.CHECK_SECONDS)(partial(vector_upgrade.check_upgrade, app))
    app.periodic("watched sources", every=watching.CHECK_SECONDS, due=partial(watching.next_run, app))(
        partial(watching.begin_due_runs, app)
    )
    app.background("folder events")(partial(folder_events.follow, app))
    app.periodic("collect blobs", every=sources.COLLECT_SECONDS)(partial(sources.collect_blobs, app))
    app.service("parsing.threads", on=events.ThreadsDiverged, key=lambda event: source_id(event.source))(
        partial(thread_repair.repair, app)
    )
    # A thread must not wait for a document that was given up.
    app.service("orchestration.archives", on=events.ParsingFailed)(orchestration.after_failed_archives)
    app.service("orchestration.messages", on=events.ChunkingFailed)(orchestration.after_failed_messages)
    app.service("orchestration.chunks", on=events.EmbeddingGenerationFailed)(orchestration.after_failed_chunks)
    return app


app = build()
