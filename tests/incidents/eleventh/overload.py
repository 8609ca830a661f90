"""Things that work, but are asked for too much, and machines of ours that are."""

from __future__ import annotations

import smtplib
from collections import Counter

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.eleventh import libraries as own
from tests.incidents.staging import Scene, incident


class Rate:
    """So many calls are served in each span of minutes."""

    def __init__(self, scene: Scene, most: int, minutes: float = 1.0) -> None:
        self.scene, self.most, self.minutes = scene, most, minutes
        self.served = Counter[int]()

    def is_over(self) -> bool:
        span = int(self.scene.minute // self.minutes)
        if self.served[span] >= self.most:
            return True
        self.served[span] += 1
        return False


@incident("overload")
def backfill_of_old_cases_is_over_the_tokens_per_minute(scene: Scene) -> None:
    """A backfill of old cases asks for more embeddings in a minute than the plan allows."""
    (pressure,) = scene.causes
    rate = Rate(scene, 40)

    @scene.service("case_vectors", Page, needs="embeddings")
    def embed(page: Page, work: Work) -> None:
        if rate.is_over():
            text = "Rate limit reached for text-embedding-3-large on tokens per min (TPM): Limit 1000000"
            raise pressure(lib.RateLimitError(429, text, "tokens", "rate_limit_exceeded", {"retry-after": "12"}))

    scene.traffic(40, Page)
    scene.import_at_once(260, Page)
    scene.run(12)


@incident("overload")
def sale_weekend_takes_all_connections_of_the_shop_database(scene: Scene) -> None:
    """On the weekend of the sale ten times the orders came, and the database had no connection left for some."""
    (pressure,) = scene.causes
    rate = Rate(scene, 25)

    @scene.service("shop_orders", Order, needs="shop_db")
    def take(order: Order, work: Work) -> None:
        if rate.is_over():
            text = 'connection to server at "10.2.0.8", port 5432 failed: FATAL:  sorry, too many clients already'
            raise pressure(psycopg.OperationalError(text))

    scene.traffic(60, Order, every=20)
    scene.traffic(300, Order, every=1.5)
    scene.traffic(30, Order, every=20)
    scene.run(60)


@incident("overload")
def year_end_import_fills_the_scratch_disk_of_our_worker(scene: Scene) -> None:
    """The year-end import unpacks more at once than our scratch disk holds; what is done frees its room."""
    (pressure,) = scene.causes
    rate = Rate(scene, 35, 10)

    @scene.service("unpack_year", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if rate.is_over():
            raise pressure(OSError(28, "No space left on device", f"/var/scratch/{upload.number}.part"))

    scene.traffic(50, Upload, every=60)
    scene.import_at_once(120, Upload)
    scene.run(45)


@incident("overload")
def model_provider_overloaded_in_the_american_morning(scene: Scene) -> None:
    """When America wakes up, the provider has no room for four calls of ten, at the same rate of ours."""
    (busy,) = scene.causes

    @scene.service("mail_answers", Mail, needs="claude")
    def answer(mail: Mail, work: Work) -> None:
        if busy.on and scene.random.random() < 0.4:
            raise busy(own.OverloadedError())

    scene.traffic(50, Mail)
    busy.on = True
    scene.traffic(70, Mail)


@incident("overload")
def file_handles_run_out_during_the_import_of_a_mail_archive(scene: Scene) -> None:
    """An import of an archive opens more files at once than the worker's limit of handles."""
    (pressure,) = scene.causes
    rate = Rate(scene, 60, 2)

    @scene.service("attachments", Mail)
    def extract(mail: Mail, work: Work) -> None:
        if rate.is_over():
            raise pressure(OSError(24, "Too many open files", f"/var/spool/attachments/{mail.number}.bin"))

    scene.traffic(30, Mail)
    scene.import_at_once(220, Mail)
    scene.run(20)
    scene.traffic(20, Mail)


@incident("overload")
def table_throughput_exceeded_by_the_month_end_statements(scene: Scene) -> None:
    """At the end of the month the statements write more than the table's paid throughput."""
    (pressure,) = scene.causes
    rate = Rate(scene, 12)

    @scene.service("statement_lines", Invoice, needs="dynamodb", batch=10)
    def write(invoices: list[Invoice], work: Work) -> None:
        if rate.is_over():
            text = "The level of configured provisioned throughput for the table was exceeded."
            raise pressure(
                lib.BotoClientError("ProvisionedThroughputExceededException", text, "BatchWriteItem", 400)
            )

    scene.import_at_once(100, together=10)
    scene.run(10)
    scene.import_at_once(400, together=10)
    scene.run(4)


@incident("overload")
def orders_of_the_biggest_tenant_wait_for_one_row(scene: Scene) -> None:
    """Each order locks its tenant's balance; when the biggest tenant sends 140 at once, many wait too long."""
    (pressure,) = scene.causes
    rate = Rate(scene, 18)

    @scene.service("balances", Order, needs="balance_db")
    def add(order: Order, work: Work) -> None:
        if order.tenant == "acme" and rate.is_over():
            raise pressure(
                psycopg.errors.LockNotAvailable(
                    'canceling statement due to lock timeout\nCONTEXT:  while locking tuple (0,3) in "balance"'
                )
            )

    scene.traffic(80, Order)
    scene.publish([*scene.documents(140, Order, tenant="acme"), *scene.documents(20, Order, tenant="globex")])
    scene.run(10)


@incident("overload")
def code_host_answers_403_for_its_secondary_rate_limit(scene: Scene) -> None:
    """The code host says 403 when it is asked too fast; after a minute's pause it serves again."""
    (pressure,) = scene.causes
    rate = Rate(scene, 30)

    @scene.service("repositories", Page, needs="code_host")
    def fetch(page: Page, work: Work) -> None:
        if rate.is_over():
            body = '{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}'
            url = f"https://api.code.example/repos/{page.tenant}/{page.id}"
            raise pressure(
                lib.HTTPStatusError(403, url, body, {"retry-after": "60", "x-ratelimit-remaining": "0"})
            )

    scene.traffic(40, Page)
    scene.import_at_once(150, Page)
    scene.run(8)


@incident("overload")
def graphics_card_full_when_long_recordings_come_together(scene: Scene) -> None:
    """The card of our transcription machine is full whenever more than a few long recordings run together."""
    (pressure,) = scene.causes
    rate = Rate(scene, 6, 2)

    @scene.service("transcripts", Upload)
    def transcribe(upload: Upload, work: Work) -> None:
        if rate.is_over():
            raise pressure(
                lib.OutOfMemoryErrorOfCuda(
                    "CUDA out of memory. Tried to allocate 1.17 GiB. GPU 0 has a total capacity of 23.69 GiB "
                    "of which 402.94 MiB is free."
                )
            )

    scene.traffic(20, Upload, every=60)
    scene.import_at_once(30, Upload)
    scene.run(15)


@incident("overload")
def vector_store_answers_slowly_while_we_index_again(scene: Scene) -> None:
    """Our own indexing of everything again made the vector store slow: about a third of all calls timed out."""
    (pressure,) = scene.causes
    rate = Rate(scene, 45)

    @scene.service("vector_upserts", Page, needs="vectors")
    def upsert(page: Page, work: Work) -> None:
        if rate.is_over():
            raise pressure(lib.ReadTimeout("timed out"))

    scene.traffic(60, Page, every=10)
    scene.traffic(240, Page, every=0.9)
    scene.run(3)


@incident("overload")
def mail_host_defers_us_for_too_many_messages_this_hour(scene: Scene) -> None:
    """A newsletter sends more in an hour than the mail host accepts of one sender; an hour later it accepts."""
    (pressure,) = scene.causes
    rate = Rate(scene, 100, 60)

    @scene.service("newsletter", Mail, needs="mail_host")
    def send(mail: Mail, work: Work) -> None:
        if rate.is_over():
            raise pressure(smtplib.SMTPDataError(451, b"4.7.1 Message rate exceeded for sender, try again later"))

    scene.traffic(20, Mail, every=180)
    scene.import_at_once(180, Mail)
    scene.run(hours=3)


@incident("overload")
def chat_alerts_of_a_noisy_night_are_rate_limited(scene: Scene) -> None:
    """A noisy night makes more alerts, which are notices without documents, than the chat takes per minute."""
    (pressure,) = scene.causes
    rate = Rate(scene, 10)

    @scene.service("chat_alerts", None, needs="chat")
    def post(notice: Notice, work: Work) -> None:
        if rate.is_over():
            raise pressure(own.SlackApiError("ratelimited", 429, {"Retry-After": "30"}))

    scene.notices(20)
    scene.notices(90, every=1)
    scene.run(2)
