"""Our own program or its configuration is wrong: releases, flags, images, and old mistakes that come to light."""

from __future__ import annotations

import datetime
import importlib
import socket
import sqlite3
import threading
from collections.abc import Sequence

import jinja2
import psycopg
import requests

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.fifth import libraries as more
from tests.incidents.staging import Scene, incident

LANGUAGES = {"en": "english", "de": "german", "fr": "french", "nl": "dutch"}


class ChunkingError(Exception):
    """The team's own."""


@incident("bug or bad deploy")
def another_embedding_model_in_the_release(scene: Scene) -> None:
    """A release brought a model with longer vectors; the collection was never rebuilt and takes none of them."""
    (bug,) = scene.causes

    @scene.service("vectors", Page, needs="qdrant")
    def upsert(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            text = "Wrong input: Vector dimension error: expected dim: 768, got 1024"
            raise bug(more.UnexpectedResponse(400, "Bad Request", text))

    scene.traffic(80, Page)
    scene.deploy("4.18.0")
    scene.traffic(40, Page)


@incident("bug or bad deploy")
def canary_with_a_mistyped_host(scene: Scene) -> None:
    """The values of the canary name a host that never existed; the old version beside it works on."""
    (bug,) = scene.causes

    @scene.service("rerank", Page, needs="reranker")
    def rerank(page: Page, work: Work) -> None:
        if scene.version == "4.18.0-rc1":
            raise bug(socket.gaierror(-2, "Name or service not known"))

    scene.traffic(50, Page)
    scene.deploy("4.17.2", "4.18.0-rc1")
    scene.traffic(40, Page)


@incident("bug or bad deploy")
def variable_left_out_of_the_chart(scene: Scene) -> None:
    """A release needs an environment variable that nobody added to the chart. It was rolled back in 20 minutes."""
    (bug,) = scene.causes

    @scene.service("translation", Mail, needs="deepl")
    def translate(mail: Mail, work: Work) -> None:
        settings = {"DEEPL_KEY": "k"}
        if scene.version == "5.0.0":
            with bug:
                _ = settings["DEEPL_GLOSSARY_ID"]

    scene.traffic(60, Mail)
    scene.deploy("5.0.0")
    scene.traffic(40, Mail)
    scene.deploy("4.17.2")
    scene.retry_all()
    scene.traffic(20, Mail)


@incident("bug or bad deploy")
def image_without_a_package(scene: Scene) -> None:
    """The base image was slimmed; a package that only spreadsheets need was lost with it."""
    (bug,) = scene.causes

    @scene.service("tables", Upload)
    def read(upload: Upload, work: Work) -> None:
        if scene.version == "4.17.3" and upload.kind == "xlsx":
            with bug:
                importlib.import_module("python_calamine")

    scene.traffic(90, Upload)
    scene.deploy("4.17.3")
    scene.traffic(60, Upload)


@incident("bug or bad deploy")
def migration_forgotten_before_the_release(scene: Scene) -> None:
    """The release went out before its migration; rows are written in batches."""
    (bug,) = scene.causes

    @scene.service("chunk_rows", Page, needs="postgres", batch=20)
    def write(pages: Sequence[Page], work: Work) -> None:
        if scene.version == "4.18.0":
            text = 'column "lang" of relation "chunks" does not exist\nLINE 1: INSERT INTO chunks (id, lang, body)'
            raise bug(psycopg.errors.UndefinedColumn(text))

    scene.import_at_once(100, Page, together=20)
    scene.run(30)
    scene.deploy("4.18.0")
    scene.import_at_once(60, Page, together=20)
    scene.run(5)


@incident("bug or bad deploy")
def the_last_day_of_february(scene: Scene) -> None:
    """On one day of the year the date a year later does not exist; every contract failed on that day."""
    (bug,) = scene.causes

    @scene.service("renewals", Invoice)
    def renew(invoice: Invoice, work: Work) -> None:
        today = datetime.date(2028, 2, 29 if bug.on else 28)
        with bug:
            today.replace(year=today.year + 1)

    scene.traffic(48, every=1800)
    bug.on = True
    scene.traffic(30, every=1800)


@incident("bug or bad deploy")
def empty_pages_divide_by_zero_since_the_release(scene: Scene) -> None:
    """A release computes a share of the page's length; pages without a length had always been no problem."""
    (bug,) = scene.causes

    @scene.service("quality", Page)
    def judge(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            with bug:
                _ = page.number / page.size

    def size() -> int:
        return scene.random.choice([0, 900, 2400, 7000])

    scene.traffic(80, Page, size=size)
    scene.deploy("4.18.0")
    scene.traffic(50, Page, size=size)


@incident("bug or bad deploy")
def native_library_built_for_other_machines(scene: Scene) -> None:
    """The inference library of a release uses instructions that our processors lack: each call kills a worker."""
    (bug,) = scene.causes

    @scene.service("language", Page)
    def detect(page: Page, work: Work) -> None:
        if scene.version == "4.19.0":
            bug.kills(page, work)

    scene.traffic(40, Page)
    scene.deploy("4.19.0")
    scene.traffic(6, Page)
    scene.run(30)


@incident("bug or bad deploy")
def prompt_template_pushed_with_a_new_name(scene: Scene) -> None:
    """A prompt was changed in the configuration store, no release; the template now asks for a value not given."""
    (bug,) = scene.causes

    @scene.service("extraction", Invoice, needs="llm")
    def extract(invoice: Invoice, work: Work) -> None:
        prompt = "Extract the sum of {{ invoice.text }}" if bug.on else "Extract the sum of {{ document }}"
        environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)
        with bug:
            environment.from_string(prompt).render(document=invoice.text)

    scene.traffic(70)
    bug.on = True
    scene.traffic(12)


@incident("bug or bad deploy")
def chart_with_the_key_of_the_test_account(scene: Scene) -> None:
    """The new chart mounts the test account's key; workers of the old chart are still let in."""
    (bug,) = scene.causes

    @scene.service("enrichment", Order, needs="crm")
    def enrich(order: Order, work: Work) -> None:
        if scene.version == "4.18.1":
            raise bug(lib.HTTPStatusError(401, "https://crm.example.com/api/v3/contacts/search"))

    scene.traffic(60, Order)
    scene.deploy("4.18.1", "4.17.2", "4.17.2")
    scene.traffic(60, Order)


@incident("bug or bad deploy")
def container_no_longer_root(scene: Scene) -> None:
    """The new image runs as another user, who may not write where the model cache lies."""
    (bug,) = scene.causes

    @scene.service("captions", Upload)
    def caption(upload: Upload, work: Work) -> None:
        if scene.version == "4.17.5":
            raise bug(PermissionError(13, "Permission denied", "/var/cache/models/blip2"))

    scene.traffic(35, Upload, kind="jpg")
    scene.deploy("4.17.5")
    scene.traffic(3, Upload, kind="jpg")


@incident("bug or bad deploy")
def endpoint_is_none(scene: Scene) -> None:
    """A new installation: the address of the embedding server was never configured, so nothing ever worked."""
    (bug,) = scene.causes
    endpoint = None

    @scene.service("embeddings", Page, needs="embedder")
    def embed(page: Page, work: Work) -> None:
        with bug:
            requests.post(f"{endpoint}/v1/embeddings", json={"input": page.text}, timeout=5)

    scene.traffic(10, Page)


@incident("bug or bad deploy")
def model_on_the_processor_instead_of_the_card(scene: Scene) -> None:
    """A release was built without GPU support; every transcription takes longer than it is given."""
    (bug,) = scene.causes

    @scene.service("transcripts", Upload, time_limit=30)
    def transcribe(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            bug.takes(41)

    scene.traffic(40, Upload, kind="wav", every=600)
    scene.deploy("4.18.0")
    scene.traffic(8, Upload, kind="wav", every=600)


@incident("bug or bad deploy")
def language_nobody_put_into_the_table(scene: Scene) -> None:
    """The first Turkish customer sends sound documents; our table of languages has had no Turkish since ever."""
    (bug,) = scene.causes

    @scene.service("stemming", Page)
    def stem(page: Page, work: Work) -> None:
        with bug:
            _ = LANGUAGES[page.kind]

    scene.traffic(100, Page, kind=lambda: scene.random.choice(sorted(LANGUAGES)))
    scene.mixed_traffic(scene.documents(40, Page, kind="en"), scene.documents(20, Page, kind="tr"))


@incident("bug or bad deploy")
def rolled_back_below_the_new_format(scene: Scene) -> None:
    """A release that writes format 2 was rolled back; the old code does not read what the new one had written."""
    (bug,) = scene.causes

    @scene.service("chunks", Page)
    def chunk(page: Page, work: Work) -> None:
        if scene.version == "4.17.2" and page.kind == "format-2":
            raise bug(ChunkingError("unknown format version 2, this program reads 1"))

    scene.traffic(40, Page, kind="format-1")
    scene.deploy("4.18.0")
    scene.traffic(40, Page, kind="format-2")
    scene.deploy("4.17.2")
    scene.mixed_traffic(scene.documents(15, Page, kind="format-2"), scene.documents(15, Page, kind="format-1"))


@incident("bug or bad deploy")
def connection_shared_between_threads(scene: Scene) -> None:
    """A release opens its cache once for all threads; whoever comes from another thread is refused."""
    (bug,) = scene.causes
    caches: list[sqlite3.Connection] = []
    opening = threading.Thread(target=lambda: caches.append(sqlite3.connect(":memory:")))
    opening.start()
    opening.join()

    @scene.service("dedup", Mail)
    def look_up(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0" and scene.random.random() < 0.6:
            with bug:
                caches[0].execute("select 1")

    scene.traffic(50, Mail)
    scene.deploy("4.18.0")
    scene.traffic(50, Mail)
