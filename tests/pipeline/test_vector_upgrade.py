"""Chunks get vectors of a better model in the background; search uses them when most chunks have one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from onward import Permanent
from onward.models.protocol import Embedder
from onward.pipeline.documents import Chunk
from onward.pipeline.search import Query, search
from onward.pipeline.stages.vector_upgrade import DEPENDENCY, SERVICE
from onward.pipeline.vector_upgrade import UpgradeProgress, check_upgrade, read_upgrade
from tests.support.model_server import ModelServer, vector
from tests.support.pipeline_runs import Pipeline, mail, mbox

STATIC, BETTER = "static:wordllama-l2-256", "http:better"
MINUTE, HOUR = 60.0, 3600.0


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def pipeline(tmp_path: Path, server: ModelServer) -> Iterator[Pipeline]:
    settings = {"ONWARD_EMBEDDER_UPGRADE": server.url, "ONWARD_EMBEDDER_UPGRADE_MODEL": "better"}
    with Pipeline(tmp_path / "home", **settings).running() as running:
        yield running
        running.app._opened.pop("embedder_upgrade").close()


def ingest(pipeline: Pipeline, archive: Path, count: int) -> None:
    archive.write_bytes(mbox(*(mail(str(n), f"This is mail number {n} of the harbour.") for n in range(count))))
    pipeline.ingest(archive)


def upgrade(pipeline: Pipeline, within: float = 0.0) -> None:
    """Begin a round, and let everything come to rest."""
    check_upgrade(pipeline.app)
    pipeline.run(within=within)


def progress(pipeline: Pipeline) -> UpgradeProgress:
    found = read_upgrade(pipeline.app)
    assert found is not None
    return found


def counts(pipeline: Pipeline) -> dict[str, int]:
    return dict(pipeline.ask("SELECT model, count(*) FROM vectors GROUP BY model"))


def test_every_chunk_has_a_vector_at_once_and_a_better_one_later(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    ingest(pipeline, archive, 40)
    assert counts(pipeline) == {STATIC: 40}
    upgrade(pipeline)
    assert counts(pipeline) == {STATIC: 40, BETTER: 40}
    assert sorted(server.embedded) == sorted(chunk.titled_text(1).strip() for chunk in pipeline.all(Chunk)), "once"
    pipeline.check_at_rest()
    upgrade(pipeline)
    assert len(server.embedded) == 40, "there is nothing left to do"


def test_new_chunks_are_upgraded_in_the_next_round(pipeline: Pipeline, server: ModelServer, archive: Path) -> None:
    ingest(pipeline, archive, 10)
    upgrade(pipeline)
    ingest(pipeline, archive, 30)
    assert counts(pipeline) == {STATIC: 30, BETTER: 10}
    upgrade(pipeline)
    assert counts(pipeline) == {STATIC: 30, BETTER: 30}
    assert len(server.embedded) == 30


def test_search_uses_the_better_vectors_when_most_chunks_have_one_and_never_both(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    def similarities() -> set[float]:
        return {round(hit.similarity, 4) for hit in search(pipeline.app, Query("harbour number"), limit=100).hits}

    def expected(embedder: Embedder) -> set[float]:
        query = embedder.embed(["harbour number"])[0]
        rows = embedder.embed([chunk.titled_text(embedder.title_repeats) for chunk in chunks])
        return {round(max(0.0, float(query @ row)), 4) for row in rows}

    ingest(pipeline, archive, 40)
    chunks = pipeline.all(Chunk)
    static, better = pipeline.app.embedder, pipeline.app.embedder_upgrade
    assert better is not None
    assert similarities() == expected(static)
    check_upgrade(pipeline.app)
    while progress(pipeline).vectors < 38:
        assert similarities() == expected(static)
        pipeline.step(SERVICE)
    assert progress(pipeline).used, "38 of 40 are enough"
    pipeline.run()
    assert similarities() == expected(better)


def test_a_share_of_chunks_is_enough() -> None:
    assert not UpgradeProgress("m", 94, 100).used
    assert UpgradeProgress("m", 95, 100).used
    assert not UpgradeProgress("m", 0, 0).used, "an empty store has nothing to compare"


def test_while_the_better_model_is_down_the_usual_one_finds(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    ingest(pipeline, archive, 5)
    upgrade(pipeline)
    server.down()
    found = search(pipeline.app, Query("harbour"))
    assert found.note.startswith(f"found by words and {STATIC}: the better model cannot be used (")
    assert max(hit.similarity for hit in found.hits) > 0


@pytest.mark.prove
def test_an_outage_pauses_the_upgrade_and_nothing_else(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    server.down()
    ingest(pipeline, archive, 20)
    upgrade(pipeline, within=6 * HOUR)
    assert counts(pipeline) == {STATIC: 20}
    (breaker,) = pipeline.world.store.breakers()
    assert (breaker.dependency, breaker.open) == (DEPENDENCY, True)
    assert progress(pipeline).down
    assert not progress(pipeline).paused
    ingest(pipeline, archive, 25)
    assert counts(pipeline) == {STATIC: 25}
    server.up()
    pipeline.run(within=HOUR)
    upgrade(pipeline)
    assert counts(pipeline) == {STATIC: 25, BETTER: 25}
    assert pipeline.world.dead_letters() == []


def test_an_operator_pauses_it_for_the_whole_fleet(pipeline: Pipeline, server: ModelServer, archive: Path) -> None:
    ingest(pipeline, archive, 20)
    pipeline.app.store.open_breaker(DEPENDENCY, "paused", by_hand=True)
    upgrade(pipeline, within=HOUR)
    assert server.embedded == []
    assert progress(pipeline).paused
    pipeline.app.store.close_breaker(DEPENDENCY)
    pipeline.run(within=HOUR)
    assert counts(pipeline) == {STATIC: 20, BETTER: 20}


def test_a_crash_repeats_what_was_not_committed_and_nothing_is_left_out(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    ingest(pipeline, archive, 60)
    check_upgrade(pipeline.app)
    pipeline.step(SERVICE)
    store = pipeline.world.store
    held = store.claim("frail", SERVICE, limit=3, lease=60.0)
    pipeline.run()
    assert counts(pipeline)[BETTER] < 60, "the others went on without its lanes"
    store.record_crash("frail", [delivery.row for delivery in held])
    pipeline.run()
    assert counts(pipeline) == {STATIC: 60, BETTER: 60}
    assert len(server.embedded) == 60
    pipeline.check_at_rest()


def test_another_model_in_the_settings_ends_the_round_of_the_old_one(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    ingest(pipeline, archive, 20)
    check_upgrade(pipeline.app)
    pipeline.app._opened["embedder_upgrade"].model = "http:best"
    pipeline.run()
    assert counts(pipeline) == {STATIC: 20}
    upgrade(pipeline)
    assert counts(pipeline) == {STATIC: 20, "http:best": 20}


def test_a_source_that_is_forgotten_takes_its_better_vectors_along(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    ingest(pipeline, archive, 20)
    check_upgrade(pipeline.app)
    pipeline.step(SERVICE)
    pipeline.forget(archive)
    pipeline.run()
    assert counts(pipeline) == {}
    pipeline.check_at_rest()


def test_the_rate_is_measured_between_checks(pipeline: Pipeline, server: ModelServer, archive: Path) -> None:
    ingest(pipeline, archive, 60)
    check_upgrade(pipeline.app)
    assert progress(pipeline).seconds_left is None
    for _ in range(3):
        pipeline.step(SERVICE)
    done = progress(pipeline).vectors
    pipeline.world.clock.advance(MINUTE)
    check_upgrade(pipeline.app)
    found = progress(pipeline)
    assert found.per_second == pytest.approx(done / MINUTE)
    assert found.seconds_left == pytest.approx((60 - done) / found.per_second)


def test_a_process_that_cannot_open_the_model_leaves_the_upgrade_to_others(tmp_path: Path) -> None:
    with Pipeline(tmp_path / "home", ONWARD_EMBEDDER_UPGRADE="local:nobody/has-it").running() as pipeline:
        check_upgrade(pipeline.app)
        assert pipeline.app.store.counts() == {}


class PickyEmbedder(Embedder):
    """Refuses a batch with a poisoned text, with an error of a kind."""

    model, where, remote, holds_gil, batch_texts = "picky", "a test", False, False, 64

    def __init__(self, error: Exception, poison: str) -> None:
        self.error, self.poison = error, poison
        self.broken = False

    def embed(self, texts: Sequence[str], *, key: str = "", query: bool = False) -> NDArray[np.float32]:
        if self.broken or any(self.poison in text for text in texts):
            raise self.error
        rows = [vector(text) if text else [0.0] * 16 for text in texts]
        return np.array(rows, np.float32)


@pytest.mark.parametrize("error", (Permanent("not a text"), RuntimeError("it may pass, but never does")))
def test_a_text_that_is_refused_is_reported_and_holds_up_no_other(
    pipeline: Pipeline, archive: Path, error: Exception
) -> None:
    ingest(pipeline, archive, 30)
    pipeline.app.embedder_upgrade.close()  # type: ignore[union-attr]
    picky = PickyEmbedder(error, "number 7 ")
    pipeline.app._opened["embedder_upgrade"] = picky
    upgrade(pipeline, within=HOUR)
    assert counts(pipeline) == {STATIC: 30, "picky": 30}
    pipeline.app.stop_reporting()
    (group,) = [one for one in pipeline.app.store.failure_groups(service=SERVICE) if one.message == str(error)]
    assert group.service == SERVICE
    assert pipeline.world.dead_letters() == []
    zero = pipeline.ask("SELECT count(*) FROM vectors WHERE model = 'picky' AND vector = zeroblob(64)")
    assert zero == [(1,)]


def test_a_model_that_refuses_everything_marks_no_text_as_bad(pipeline: Pipeline, archive: Path) -> None:
    ingest(pipeline, archive, 10)
    pipeline.app.embedder_upgrade.close()  # type: ignore[union-attr]
    picky = PickyEmbedder(Permanent("wrong weights"), "nothing")
    pipeline.app._opened["embedder_upgrade"], picky.broken = picky, True
    upgrade(pipeline, within=HOUR)
    assert counts(pipeline) == {STATIC: 10}
    letters = pipeline.world.dead_letters(SERVICE)
    assert letters
    assert all(letter.errors[-1]["message"] == "wrong weights" for letter in letters)
    upgrade(pipeline)
    assert len(pipeline.world.dead_letters(SERVICE)) == len(letters), "no other round begins before a person acts"
