"""It is in these documents: the program handles all others."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import tarfile
import zipfile
import zlib
from email.errors import MessageError
from xml.etree import ElementTree

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Upload
from tests.incidents.staging import DAY, Scene, incident


@incident("poison document")
def one_torn_zip(scene: Scene) -> None:
    """One upload was cut off in the middle: it is no ZIP file."""
    (poison,) = scene.causes

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.text == "torn":
            with poison:
                zipfile.ZipFile(io.BytesIO(b"PK\x03\x04 torn"))

    scene.mixed_traffic(scene.documents(40, Upload), scene.documents(1, Upload, text="torn", kind="zip"))


@incident("poison document")
def three_with_wrong_encoding(scene: Scene) -> None:
    """Three text files of one author are not UTF-8."""
    (poison,) = scene.causes

    @scene.service("reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        with poison:
            (b"caf\xe9" if upload.author == "e.dubois" else b"tea").decode("utf-8")

    scene.mixed_traffic(scene.documents(45, Upload), scene.documents(3, Upload, author="e.dubois", kind="txt"))


@incident("poison document")
def thirty_of_a_broken_exporter(scene: Scene) -> None:
    """The branch in Lyon exports invoices with a decimal comma in JSON: thirty fail, all others are fine."""
    (poison,) = scene.causes

    @scene.service("parsing", Invoice)
    def parse(invoice: Invoice, work: Work) -> None:
        with poison:
            json.loads('{"total": 12,50}' if invoice.author == "export-lyon" else '{"total": 12.5}')

    good = scene.documents(90)
    bad = scene.documents(
        30, author="export-lyon", path=lambda: f"/srv/inbox/lyon/{scene.random.randrange(10**6)}.json"
    )
    scene.mixed_traffic(good, bad)


@incident("poison document")
def protected_pdfs(scene: Scene) -> None:
    """Two PDFs have a password that nobody gave us."""
    (poison,) = scene.causes

    @scene.service("extracting", Upload)
    def extract(upload: Upload, work: Work) -> None:
        if upload.text == "secret":
            raise poison(lib.FileNotDecryptedError("File has not been decrypted"))

    scene.mixed_traffic(scene.documents(32, Upload), scene.documents(2, Upload, text="secret", kind="pdf"))


@incident("poison document")
def picture_that_is_none(scene: Scene) -> None:
    """Somebody renamed a text file to .png."""
    (poison,) = scene.causes

    @scene.service("thumbnailing", Upload, batch=8)
    def shrink(uploads: list[Upload], work: Work) -> None:
        for upload in uploads:
            if upload.text == "no picture":
                raise poison(lib.UnidentifiedImageError(f"cannot identify image file '{upload.path}'"), upload)

    good, bad = scene.documents(39, Upload), scene.documents(1, Upload, kind="png", text="no picture")
    scene.publish([*good[:20], *bad, *good[20:]], together=8)
    scene.run(10)


@incident("poison document")
def batch_that_names_its_culprit(scene: Scene) -> None:
    """The batch handler fails single documents by itself: two rows of a spreadsheet export have no date."""
    (poison,) = scene.causes

    @scene.service("importing", Invoice, batch=20)
    def load(invoices: list[Invoice], work: Work) -> None:
        for invoice in invoices:
            if invoice.text == "no date":
                try:
                    datetime.date.fromisoformat("")
                except ValueError as error:
                    work.fail(invoice, poison(error, invoice))

    good, bad = scene.documents(78), scene.documents(2, text="no date")
    scene.publish([*good[:30], bad[0], *good[30:66], bad[1], *good[66:]], together=20)
    scene.run(10)


@incident("poison document")
def kills_its_worker(scene: Scene) -> None:
    """A scanned map of 2 GB lets the image library crash the worker process, again and again."""
    (poison,) = scene.causes

    @scene.service("thumbnailing", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if upload.size > 2_000_000_000:
            poison.kills(upload, work)

    scene.traffic(15, Upload)
    scene.traffic(1, Upload, size=2_147_000_000, kind="tiff")
    scene.traffic(15, Upload)
    scene.run(30)


@incident("poison document")
def takes_for_ever(scene: Scene) -> None:
    """A spreadsheet with a million merged cells takes an hour; all others take a second."""
    (poison,) = scene.causes

    @scene.service("tabulating", Upload, time_limit=300)
    def tabulate(upload: Upload, work: Work) -> None:
        if upload.size > 90_000_000:
            poison.takes(301)

    scene.traffic(20, Upload)
    scene.traffic(1, Upload, size=96_400_512, kind="xlsx")
    scene.traffic(26, Upload)


@incident("poison document")
def too_deeply_nested(scene: Scene) -> None:
    """One JSON file is nested 100 000 levels deep, by a fuzzer of a customer."""
    (poison,) = scene.causes

    @scene.service("parsing", Upload)
    def parse(upload: Upload, work: Work) -> None:
        with poison:
            json.loads("[" * 100_000 if upload.author == "fuzzer" else "[]")

    scene.mixed_traffic(scene.documents(40, Upload), scene.documents(1, Upload, author="fuzzer", kind="json"))


@incident("poison document")
def memory_error_for_a_giant(scene: Scene) -> None:
    """One archive of 40 GB does not fit into memory; every other one does."""
    (poison,) = scene.causes

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.size > 10**10:
            raise poison(MemoryError())

    scene.traffic(26, Upload)
    scene.traffic(1, Upload, size=42_949_672_960, kind="tar")
    scene.traffic(20, Upload)


@incident("poison document")
def decompression_bomb(scene: Scene) -> None:
    """A picture with 4 000 million pixels: the library refuses it."""
    (poison,) = scene.causes

    @scene.service("thumbnailing", Upload)
    async def shrink(upload: Upload, work: Work) -> None:
        if upload.text == "bomb":
            raise poison(
                lib.DecompressionBombError(
                    "Image size (4019208000 pixels) exceeds limit of 178956970 pixels, "
                    "could be decompression bomb DOS attack."
                )
            )

    scene.mixed_traffic(scene.documents(30, Upload), scene.documents(2, Upload, text="bomb"))


@incident("poison document", groups=4)
def one_author_many_errors(scene: Scene) -> None:
    """A home-made mail program writes broken mails; each breaks in another way."""
    (poison,) = scene.causes

    @scene.service("parsing", Mail)
    def parse(mail: Mail, work: Work) -> None:
        if mail.author == "homebrew-1.2":
            way = mail.number % 4
            if way == 0:
                raise poison(UnicodeDecodeError("ascii", b"\xe4", 0, 1, "ordinal not in range(128)"))
            if way == 1:
                raise poison(MessageError("no boundary found in multipart"))
            if way == 2:
                raise poison(ValueError("invalid literal for int() with base 10: 'Tue'"))
            raise poison(LookupError("unknown encoding: x-homebrew"))

    scene.mixed_traffic(scene.documents(50, Mail), scene.documents(8, Mail, author="homebrew-1.2"))


@incident("poison document")
def empty_files(scene: Scene) -> None:
    """Five uploads are empty: the upload of a phone was interrupted."""
    (poison,) = scene.causes

    @scene.service("parsing", Upload)
    def parse(upload: Upload, work: Work) -> None:
        with poison:
            ElementTree.fromstring("" if upload.size == 0 else "<a/>")

    scene.mixed_traffic(scene.documents(40, Upload), scene.documents(5, Upload, size=0, kind="xml"))


@incident("poison document")
def old_word_files(scene: Scene) -> None:
    """A department still saves .doc files under the name .docx: 14 of them."""
    (poison,) = scene.causes

    @scene.service("reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.author == "dept-4":
            raise poison(lib.PackageNotFoundError(f"Package not found at '{upload.path}'"))

    scene.mixed_traffic(scene.documents(60, Upload), scene.documents(14, Upload, author="dept-4", kind="docx"))


@incident("poison document")
def given_up_long_ago(scene: Scene) -> None:
    """A damaged archive was given up two days ago; hundreds of others went through since."""
    (poison,) = scene.causes

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.text == "damaged":
            with poison:
                zlib.decompress(b"x\x9cdamaged")

    scene.traffic(20, Upload)
    scene.traffic(1, Upload, text="damaged")
    scene.traffic(65, Upload, every=DAY / 50)


@incident("poison document")
def put_back_by_hopeful_operator(scene: Scene) -> None:
    """The operator put the two damaged tar files back twice; they failed each time, and nothing else did."""
    (poison,) = scene.causes

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.text == "damaged":
            with poison:
                tarfile.open(fileobj=io.BytesIO(b"damaged")).close()

    scene.mixed_traffic(scene.documents(20, Upload), scene.documents(2, Upload, text="damaged", kind="tar"))
    for _ in range(2):
        scene.retry_all()
        scene.traffic(15, Upload)


@incident("poison document")
def poison_across_deploys(scene: Scene) -> None:
    """A CSV file with a field of 200 kB fails under three releases; all other files work under each."""
    (poison,) = scene.causes

    @scene.service("importing", Upload)
    def load(upload: Upload, work: Work) -> None:
        with poison:
            list(csv.reader(["a," + "x" * (200_000 if upload.text == "long" else 2)]))

    scene.traffic(20, Upload)
    scene.traffic(1, Upload, text="long")
    for version in ("4.18.0", "4.18.1", "4.19.0"):
        scene.deploy(version)
        scene.retry_all()
        scene.traffic(20, Upload)


@incident("poison document")
def poison_right_after_a_deploy(scene: Scene) -> None:
    """By chance the damaged file came ten minutes after a deploy that has nothing to do with it."""
    (poison,) = scene.causes

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.text == "damaged":
            with poison:
                gzip.decompress(b"damaged")

    scene.traffic(26, Upload)
    scene.deploy("4.18.0")
    scene.traffic(10, Upload)
    scene.traffic(1, Upload, text="damaged")
    scene.traffic(26, Upload)
