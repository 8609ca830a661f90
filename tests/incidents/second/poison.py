"""Documents that are wrong, while all others are handled: further formats and exporters."""

from __future__ import annotations

import io
import subprocess
import zipfile
from collections.abc import Sequence
from types import SimpleNamespace

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Item, Order, Page, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import Scene, incident


class TranscodeError(Exception):
    """What the program raises when ffmpeg fails."""


@incident("poison document")
def photos_cut_off_in_upload(scene: Scene) -> None:
    """Three of eighty photos were cut off when they were uploaded."""
    (bad,) = scene.causes

    @scene.service("photo-sizes", Upload, needs="image-bucket")
    def measure(upload: Upload, work: Work) -> None:
        if upload.text == "cut":
            raise bad(OSError(f"image file is truncated ({upload.size % 60} bytes not processed)"))

    scene.mixed_traffic(
        scene.documents(77, Upload, kind="jpg"), scene.documents(3, Upload, kind="jpg", text="cut")
    )
    scene.run(hours=2)


@incident("poison document")
def scanner_exports_without_pixels(scene: Scene) -> None:
    """One scanner exports thirty studies without their pictures; the studies of the others are read."""
    (bad,) = scene.causes

    @scene.service("study-reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.author == "scanner-7":
            study = SimpleNamespace(PatientID=upload.number)
            with bad:
                study.PixelData  # noqa: B018

    scene.traffic(60, Upload, kind="dcm")
    scene.mixed_traffic(
        scene.documents(90, Upload, kind="dcm"), scene.documents(30, Upload, kind="dcm", author="scanner-7")
    )


@incident("poison document")
def one_encrypted_deed(scene: Scene) -> None:
    """One of forty deeds is encrypted and nobody gave us its password; read after giving up."""
    (bad,) = scene.causes

    @scene.service("deed-text", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.text == "locked":
            raise bad(lib.FileNotDecryptedError("File has not been decrypted"))

    scene.traffic(20, Upload, kind="pdf")
    scene.traffic(1, Upload, kind="pdf", text="locked")
    scene.traffic(19, Upload, kind="pdf")
    scene.run(hours=60)


@incident("poison document")
def shop_feed_with_bare_ampersands(scene: Scene) -> None:
    """One shop sends product feeds with bare ampersands; an unrelated release went out the same hour."""
    (bad,) = scene.causes

    @scene.service("feed-parsing", Page, needs="shops")
    async def parse(page: Page, work: Work) -> None:
        if page.tenant == "globex" and page.text == "bare":
            line = 100 + page.size % 5000
            raise bad(more.XMLSyntaxError(f"xmlParseEntityRef: no name, line {line}, column {page.size % 90}"))

    scene.traffic(50, Page)
    scene.deploy("4.18.0")
    scene.mixed_traffic(scene.documents(80, Page), scene.documents(12, Page, tenant="globex", text="bare"))


@incident("poison document")
def recordings_without_index(scene: Scene) -> None:
    """Four recordings were never closed by the recorder: ffmpeg finds no index in them."""
    (bad,) = scene.causes

    @scene.service("transcoding", Upload)
    def transcode(upload: Upload, work: Work) -> None:
        if upload.text == "open":
            try:
                raise subprocess.CalledProcessError(1, ["ffmpeg", "-i", upload.path, "-ar", "16000", "out.wav"])
            except subprocess.CalledProcessError as error:
                raise bad(TranscodeError(f"{upload.path}: moov atom not found")) from error

    scene.mixed_traffic(
        scene.documents(66, Upload, kind="mp4"), scene.documents(4, Upload, kind="mp4", text="open")
    )
    scene.run(hours=8)


@incident("poison document")
def exporter_with_old_encoding(scene: Scene) -> None:
    """A branch office exports its lists in an old encoding: twenty files cannot be decoded."""
    (bad,) = scene.causes

    @scene.service("price-lists", Upload)
    def read(upload: Upload, work: Work) -> None:
        raw = (f"{'x' * (upload.size % 70)} Stra\xdfe" if upload.author == "branch-12" else "street").encode(
            "latin-1"
        )
        with bad:
            raw.decode("utf-8")

    scene.traffic(40, Upload, kind="csv")
    scene.mixed_traffic(
        scene.documents(60, Upload, kind="csv"), scene.documents(20, Upload, kind="csv", author="branch-12")
    )
    scene.run(hours=1)


@incident("poison document")
def negative_quantities(scene: Scene) -> None:
    """The program checks its input: five orders have a negative quantity, typed in by hand."""
    (bad,) = scene.causes

    @scene.service("order-check", Order)
    def check(order: Order, work: Work) -> None:
        if order.size < 0:
            raise bad(ValueError(f"quantity of line {order.number % 9 + 1} is negative: {order.size}"))

    scene.mixed_traffic(
        scene.documents(110, Order),
        scene.documents(5, Order, size=lambda: -scene.random.randrange(1, 20)),
        every=15,
    )


@incident("poison document")
def parcels_that_cross_themselves(scene: Scene) -> None:
    """Seven parcels were drawn so that their outline crosses itself."""
    (bad,) = scene.causes

    @scene.service("parcel-areas", Order, needs="parcels")
    def area(order: Order, work: Work) -> None:
        if order.text == "crossed":
            x, y = 10 + order.size % 1000 / 1000, 53 + order.size % 700 / 700
            raise bad(more.GEOSException(f"TopologyException: side location conflict at {x:.6f} {y:.6f}"))

    scene.mixed_traffic(scene.documents(93, Order), scene.documents(7, Order, text="crossed"))


@incident("poison document")
def archives_that_are_none(scene: Scene) -> None:
    """Of two hundred archives of a migration five are web pages with the name of an archive."""
    (bad,) = scene.causes

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.text == "html":
            with bad:
                zipfile.ZipFile(io.BytesIO(b"<html>please sign in</html>"))

    made = scene.documents(195, Upload, kind="zip") + scene.documents(5, Upload, kind="zip", text="html")
    scene.random.shuffle(made)
    scene.publish(made, together=25, source="migration")
    scene.run(hours=1)


@incident("poison document")
def tables_with_extra_fields(scene: Scene) -> None:
    """Two tables have unquoted commas in a free text column; hundreds of others were read before."""
    (bad,) = scene.causes

    @scene.service("claims-tables", Upload, batch=25)
    def read(uploads: Sequence[Item], work: Work) -> None:
        for one in uploads:
            if one.text == "commas":
                error = more.PandasParserError(
                    f"Error tokenizing data. C error: Expected 14 fields in line {one.size % 900}, saw 15\n"
                )
                work.fail(one, bad(error, one))

    for _ in range(3):
        scene.import_at_once(100, Upload, kind="csv", together=25)
        scene.run(10)
    made = scene.documents(48, Upload, kind="csv") + scene.documents(2, Upload, kind="csv", text="commas")
    scene.random.shuffle(made)
    scene.publish(made, together=25)
    scene.run(hours=3)


@incident("poison document")
def files_deleted_by_the_customer(scene: Scene) -> None:
    """Six documents name files that the customer deleted from the bucket before we came."""
    (bad,) = scene.causes

    @scene.service("archive-copy", Upload, needs="customer-bucket")
    def copy(upload: Upload, work: Work) -> None:
        if upload.text == "deleted":
            raise bad(lib.BotoClientError("NoSuchKey", "The specified key does not exist.", "GetObject", 404))

    scene.mixed_traffic(scene.documents(84, Upload), scene.documents(6, Upload, text="deleted"))
    scene.run(hours=10)


@incident("poison document")
def texts_refused_by_the_content_rules(scene: Scene) -> None:
    """The model refuses two statements for their content; it summarizes all others."""
    (bad,) = scene.causes

    @scene.service("statement-summaries", Upload, needs="language-model")
    async def summarize(upload: Upload, work: Work) -> None:
        if upload.text == "violent":
            raise bad(
                lib.BadRequestError(
                    400,
                    "The response was filtered due to the prompt triggering content management policy. "
                    "Please modify your prompt and retry.",
                    "invalid_request_error",
                    "content_filter",
                )
            )

    scene.mixed_traffic(scene.documents(40, Upload), scene.documents(2, Upload, text="violent"))


@incident("poison document")
def drawing_that_kills_the_renderer(scene: Scene) -> None:
    """One drawing makes the rendering library crash with a segmentation fault, each time."""
    (bad,) = scene.causes

    @scene.service("rendering", Upload)
    def render(upload: Upload, work: Work) -> None:
        if upload.text == "fatal":
            bad.kills(upload, work)

    scene.traffic(25, Upload, kind="dwg")
    scene.traffic(1, Upload, kind="dwg", text="fatal")
    scene.traffic(25, Upload, kind="dwg")
    scene.run(hours=12)


@incident("poison document")
def device_with_its_clock_at_zero(scene: Scene) -> None:
    """One device restarted without its clock: forty readings of 1970 violate a check of the database."""
    (bad,) = scene.causes

    @scene.service("climate-readings", Order, needs="readings")
    async def store(order: Order, work: Work) -> None:
        if order.author == "dev-0091":
            raise bad(
                more.with_fields(
                    more.CheckViolationError(
                        'new row for relation "readings" violates check constraint "readings_taken_at_check"'
                    ),
                    sqlstate="23514",
                )
            )

    scene.traffic(100, Order, every=6)
    scene.mixed_traffic(scene.documents(160, Order), scene.documents(40, Order, author="dev-0091"), every=6)


@incident("poison document")
def article_numbers_used_twice(scene: Scene) -> None:
    """Nine articles have a number that another article of the shop has already."""
    (bad,) = scene.causes

    @scene.service("articles", Page, needs="shop-database")
    def insert(page: Page, work: Work) -> None:
        if page.text == "twice":
            raise bad(
                more.MySQLIntegrityError(1062, f"Duplicate entry 'SKU-{page.size}' for key 'articles.uq_sku'")
            )

    scene.mixed_traffic(scene.documents(130, Page), scene.documents(9, Page, text="twice"), every=10)
    scene.run(hours=4)


@incident("poison document")
def plan_of_a_whole_city(scene: Scene) -> None:
    """One vector map of a whole city takes longer than the time limit, each time; the others take seconds."""
    (bad,) = scene.causes

    @scene.service("map-tiles", Upload, time_limit=120)
    def cut(upload: Upload, work: Work) -> None:
        if upload.text == "city":
            bad.takes(121)

    scene.traffic(40, Upload, kind="svg")
    scene.traffic(1, Upload, kind="svg", text="city")
    scene.traffic(40, Upload, kind="svg")
    scene.run(hours=24)
