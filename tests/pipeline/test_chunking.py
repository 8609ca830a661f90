"""Chunking makes all chunks of every message, also where it is interrupted or a message is beyond help."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from onward import Permanent, Work
from onward.pipeline.documents import Chunk
from onward.pipeline.stages import chunking
from tests.support.pipeline_runs import mail, mbox, scratch_pipeline

LONG = "\n\n".join(f"This is paragraph number {n} of a long mail that has many of them." for n in range(120))
MAILS = [mail(str(n), f"Mail {n}.\n\n{LONG}") for n in range(16)]


def test_a_message_that_fails_after_a_checkpoint_takes_no_chunks_from_the_others() -> None:
    with scratch_pipeline(ONWARD_CHUNK_TOKENS="32", ONWARD_CHUNK_OVERLAP="0") as (pipeline, place):
        (place / "list.mbox").write_bytes(mbox(*MAILS))
        pipeline.submit(place)
        pipeline.run("ingestion", "parsing")
        real = pipeline.services["chunking"]

        def handle(messages: list[Any], work: Work) -> None:
            real.handler(messages, work)
            if any(one.message_id == "15@example.org" for one in messages):
                raise Permanent("the last one is poison")

        pipeline.services["chunking"] = replace(real, handler=handle)
        pipeline.run("chunking")
        pipeline.check()
        counts = pipeline.counts(place)
        assert counts["messages"] == {"processed": 15, "failed": 1}
        made = Counter(chunk.message_id for chunk in pipeline.all(Chunk))
        whole = {name: made[message.id] for name, message in pipeline.messages().items() if name != "15"}
        assert len(set(whole.values())) == 1, f"all are equally long: {whole}"
        assert min(whole.values()) * 16 > chunking.CHECKPOINT_CHUNKS, "or there was no checkpoint"


def test_a_crash_after_a_checkpoint_loses_and_doubles_nothing() -> None:
    with scratch_pipeline(ONWARD_CHUNK_TOKENS="32", ONWARD_CHUNK_OVERLAP="0") as (pipeline, place):
        (place / "list.mbox").write_bytes(mbox(*MAILS))
        pipeline.submit(place)
        pipeline.run("ingestion", "parsing")
        with pipeline.crashing_after_checkpoint(1):
            pipeline.run("chunking")
        pipeline.run("chunking")
        pipeline.check()
        made = Counter(chunk.message_id for chunk in pipeline.all(Chunk))
        assert len(made) == 16
        assert len(set(made.values())) == 1
