"""A failed batch says which files of its source failed."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from onward import Work
from onward.ops.queries.failure_groups import batch_facts
from onward.pipeline.documents import Chunk
from tests.support.pipeline_runs import Pipeline, mail, mbox


def _spoil(pipeline: Pipeline, spoil: Callable[[list[Chunk]], None]) -> None:
    """Let a check run before chunks are embedded."""
    real = pipeline.services["embedding"]

    def handle(chunks: list[Chunk], work: Work) -> None:
        spoil(chunks)
        real.handler(chunks, work)

    pipeline.services["embedding"] = replace(real, handler=handle)


def test_a_failed_batch_names_the_files_that_failed_sorted_by_their_paths_in_the_source(
    pipeline: Pipeline, folder: Path
) -> None:
    bad = "too many requests"

    def fail(chunks: list[Chunk]) -> None:
        if any(bad in one.text for one in chunks):
            raise RuntimeError("HTTP 429")

    (folder / "src").mkdir()
    (folder / "src" / "task_manager.rs").write_text(f"// {bad}")
    (folder / "src" / "models.rs").write_text("// this one is embedded")
    (folder / "README.md").write_text(f"We get {bad}.")
    (folder / "list.mbox").write_bytes(mbox(mail("1", f"Again {bad}."), mail("2", f"Still {bad}."), mail("3")))
    with zipfile.ZipFile(folder / "docs.zip", "w") as packed:
        packed.writestr("design/retries.md", f"What to do about {bad}?")
        packed.writestr("design/schema.md", "This one is embedded, too.")
    _spoil(pipeline, fail)
    pipeline.submit(folder)
    pipeline.run(within=300)
    (batch,) = pipeline.world.store.failed_batches()
    facts = batch_facts(pipeline.app, batch)
    assert facts["project_path"] == pipeline.source(folder)
    assert facts["failed_files"] == [
        "README.md",
        "docs.zip/design/retries.md",
        "list.mbox",
        "src/task_manager.rs",
    ]
    assert len(facts["items"]) == 5, "two of them are of one mailbox"


def test_the_file_of_a_source_that_is_one_file_is_the_source(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(mail("1")))
    _spoil(pipeline, _refuse)
    pipeline.submit(archive)
    pipeline.run(within=300)
    (batch,) = pipeline.world.store.failed_batches()
    assert batch_facts(pipeline.app, batch)["failed_files"] == [pipeline.source(archive)]


def _refuse(chunks: list[Chunk]) -> None:
    raise RuntimeError("no")
