"""Files that LibreOffice writes are found by their sentences, and no damaged file of any format harms a worker."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from onward import Permanent
from onward.pipeline.fetch.fetch_errors import Broken
from onward.pipeline.fetch.file_kinds import is_picture
from onward.pipeline.fetch.outlook_message import outlook_mail
from onward.pipeline.read.child_process import limit_process
from onward.pipeline.read.file_readers import FileToRead
from onward.pipeline.read.limited_reader import ReaderLimits, close_processes, read_limited
from onward.pipeline.read.ocr import OCROptions
from onward.pipeline.read.page_text import PageText
from tests.conftest import need_server
from tests.pipeline.test_formats import KIND_OF
from tests.support.attached_files import grey_png, pdf
from tests.support.command_runs import onward_process
from tests.support.format_samples import SENTENCES, samples, zipped
from tests.support.office_files import convert, write_office_file
from tests.support.outlook_files import OutlookMessage, msg
from tests.support.servers.__main__ import missing_office, missing_programs

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

DAMAGED = 200  # files of each format
LIMITS = ReaderLimits(seconds=20.0, memory_bytes=200_000_000)
OUTLOOK_MESSAGE = OutlookMessage(
    {0x0037: "Tides", 0x1000: "The oystercatcher opens the shell.", 0x0C1A: "Ada Quill"},
    attachments=(
        {0x3707: "a.txt", 0x3701: b"x" * 5_000},
        OutlookMessage({0x0037: "Inner", 0x1000: "The dunlin."}),
    ),
)
BIRDS = {
    "odt": "avocet", "docx": "heron", "rtf": "bittern", "doc": "stork", "epub": "curlew", "pdf": "crane",
    "ods": "cormorant", "xlsx": "pelican", "xls": "grebe", "odp": "seal", "pptx": "otter", "ppt": "walrus",
}  # fmt: skip


def test_a_file_of_every_format_is_found_by_a_sentence_in_it(tmp_path: Path) -> None:
    need_server(next(iter(missing_office()), ""))
    folder = tmp_path / "folder"
    folder.mkdir()
    found = {name: text for name, text in SENTENCES.items() if Path(name).suffix[1:] not in BIRDS}
    for name in found:
        (folder / name).write_bytes(samples()[name])
    for suffix, bird in BIRDS.items():
        text = f"The {bird} was written by the office of the harbour."
        write_office_file(folder / f"written-{suffix}.{suffix}", [text], tmp_path)
        found[f"written-{suffix}.{suffix}"] = text
    assert {path.name for path in folder.iterdir()} == set(found)
    home = tmp_path / "home"
    ingested = onward_process(home, "ingest", str(folder), "--processes", "1", "--json")
    (report,) = json.loads(ingested.stdout)["sources"]
    assert (report["status"], report["failures"]) == ("completed", [])
    assert report["messages"]["parsed"] == len(found)
    for name, text in found.items():
        hits = json.loads(onward_process(home, "search", f'"{text.rstrip(".")}"', "--json").stdout)
        assert name in {hit["path"] for hit in hits["results"]}, name


@pytest.mark.parametrize("name", ("a.pdf", *sorted(set(SENTENCES) - {"a.json", "a.jsonl"})))
def test_no_damaged_file_harms_the_one_who_reads_it(name: str) -> None:
    outcomes = outcomes_of(FileToRead(KIND_OF.get(name, "pdf"), name), damaged_files(name, DAMAGED))
    assert outcomes.total() == DAMAGED


@pytest.mark.parametrize(("suffix", "kind"), (("doc", "word"), ("xls", "spreadsheet"), ("ppt", "slides")))
def test_no_damaged_file_of_an_old_office_harms_the_one_who_reads_it(
    suffix: str, kind: str, tmp_path: Path
) -> None:
    need_server(next(iter(missing_office()), ""))
    file = tmp_path / f"a.{suffix}"
    write_office_file(file, ["The plover counts the waves."], tmp_path)
    whole = file.read_bytes()
    outcomes = outcomes_of(FileToRead(kind, f"a.{suffix}"), damaged_bytes(whole, DAMAGED, Random(suffix)))
    assert outcomes.total() == DAMAGED
    assert outcomes["read"]
    assert outcomes["failed"]


def test_no_damaged_outlook_message_harms_the_one_who_reads_it() -> None:
    outcomes = {"read": 0, "failed": 0}
    whole = msg(OUTLOOK_MESSAGE)
    with limited_memory(200_000_000):
        for damaged in (*damaged_bytes(whole, DAMAGED, Random("a.msg")), *damaged_tables(whole, 10 * DAMAGED)):
            try:
                outlook_mail(damaged, "a.msg")
            except Broken as error:
                assert not isinstance(error.__cause__, MemoryError)  # noqa: PT017 - most of them are damaged
                outcomes["failed"] += 1
            else:
                outcomes["read"] += 1
    assert min(outcomes.values()) > 0
    assert sum(outcomes.values()) == 11 * DAMAGED


def test_no_damaged_picture_harms_the_one_who_reads_it() -> None:
    need_server(next(iter(missing_programs()), ""))
    whole = grey_png(120, 60, bytes(range(120)) * 60)
    file = FileToRead("picture", "a.png", ocr=OCROptions())
    outcomes = outcomes_of(file, damaged_bytes(whole, DAMAGED, Random("png")))
    assert outcomes.total() == DAMAGED


@pytest.mark.parametrize("suffix", ("jpg", "tif", "webp", "gif", "bmp"))
def test_no_damaged_picture_of_another_format_harms_the_one_who_reads_it(suffix: str, tmp_path: Path) -> None:
    need_server(next(iter((*missing_programs(), *missing_office())), ""))
    (tmp_path / "a.png").write_bytes(grey_png(120, 60, bytes(range(120)) * 60))
    convert(tmp_path / "a.png", suffix, tmp_path)
    whole = (tmp_path / f"a.{suffix}").read_bytes()
    assert is_picture(whole)
    file = FileToRead("picture", f"a.{suffix}", ocr=OCROptions())
    assert outcomes_of(file, damaged_bytes(whole, DAMAGED, Random(suffix))).total() == DAMAGED


def test_a_folder_of_damaged_files_is_accounted_for(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in (*samples(), "a.msg"):
        for number, damaged in enumerate(damaged_files(name, 12)):
            (folder / f"{number}-{name}").write_bytes(damaged)
    count = len(list(folder.iterdir()))
    home = tmp_path / "home"
    least = {"ONWARD_READ_MAX_MEMORY_BYTES": "200000000"}
    done = onward_process(home, "ingest", str(folder), "--processes", "1", "--json", **least)
    (report,) = json.loads(done.stdout)["sources"]
    items = report["items"]
    # A damaged office file may be a container: then each of its members is an item.
    assert items["items"] + report["passed_over"]["total"] >= count
    read = report["messages"]
    # Two damaged Outlook messages may be the same mail.
    assert read["parsed"] + read["failed"] + read["duplicates"] == items["items"] - items["failed"]
    assert report["failed"] == items["failed"] + read["failed"]
    assert 0 < sum(one["count"] for one in report["failures"]) <= report["failed"]
    assert not report["waiting"]


def outcomes_of(file: FileToRead, all_damaged: Iterable[bytes]) -> Counter[str]:
    """Read damaged copies of a file within limits; return how many were read and how many failed."""
    outcomes = Counter[str]()
    try:
        for damaged in all_damaged:
            try:
                page = read_limited(file, damaged, LIMITS)
            except Permanent:
                outcomes["failed"] += 1
            else:
                assert isinstance(page, PageText)
                outcomes["read"] += 1
    finally:
        close_processes()
    return outcomes


def damaged_files(name: str, count: int) -> Iterator[bytes]:
    """Yield files that are truncated, with flipped bits, with damaged or exchanged members, or that are bombs."""
    random = Random(name)
    made = {"a.pdf": lambda: pdf([SENTENCES["a.docx"], "", "Page three"]), "a.msg": lambda: msg(OUTLOOK_MESSAGE)}
    yield from damaged_bytes(made[name]() if name in made else samples()[name], count, random)


def damaged_bytes(whole: bytes, count: int, random: Random) -> Iterator[bytes]:
    is_zip = whole.startswith(b"PK")
    for number in range(count):
        damage = number % (5 if is_zip else 2)
        if damage == 0:
            yield whole[: random.randrange(1, len(whole))]
        elif damage == 1:
            file = bytearray(whole)
            for _ in range(random.choice((1, 3, 30))):
                file[random.randrange(len(file))] ^= 1 << random.randrange(8)
            yield bytes(file)
        elif damage == 2:
            yield _repacked(whole, random)
        elif damage == 3:
            yield _repacked(whole, random, bomb=number < 10)
        else:
            yield _with_damaged_member(whole, random)


def damaged_tables(whole: bytes, count: int) -> Iterator[bytes]:
    """Yield OLE files with loops in their last table of sectors, and with other sizes and other numbers."""
    random = Random(9)
    first_entry: int = 512 * (struct.unpack_from("<I", whole, 48)[0] + 1)
    entries = (len(whole) - first_entry) // 128
    for _ in range(count):
        file = bytearray(whole)
        for _ in range(random.choice((1, 3, 20))):
            sector, entry = random.randrange(128), random.randrange(entries)
            number = random.choice((0, 1, 2, 3, 0x60000000, 0x7FFFFFFF, 0xFFFFFFFE, random.randrange(60)))
            at, value = random.choice(
                [
                    (len(file) - 512 + 4 * sector, sector),
                    (first_entry + 128 * entry + 120, number),
                    (random.randrange(0, len(file), 4), number),
                ]
            )
            struct.pack_into("<I", file, at, value)
        yield bytes(file)


@contextmanager
def limited_memory(count: int) -> Iterator[None]:
    """Let this process take that many bytes more, and no others."""
    limit_process(None, count)
    try:
        yield
    finally:
        limit_process(None, None)


def _with_damaged_member(whole: bytes, random: Random) -> bytes:
    """Pack the members again, with one that is cut off or has flipped bits, in a zip that is whole."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice([name for name, data in members.items() if data and name != "mimetype"])
    data = bytearray(members[name])
    if random.random() < 0.5:
        del data[random.randrange(len(data)) :]
    else:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return zipped({**members, name: bytes(data)})


def _repacked(whole: bytes, random: Random, *, bomb: bool = False) -> bytes:
    """Pack the members again, with the contents of two swapped, or with one that unpacks to 100 MB."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = [name for name in members if name not in ("mimetype", "[Content_Types].xml")]
    one, other = random.sample(names, 2)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            if bomb and name == one:
                with archive.open(name, "w", force_zip64=True) as member:
                    member.write(data[: len(data) // 2] + b"<a>")
                    for _ in range(100):
                        member.write(b"<p>x</p>" * 125_000)
            else:
                archive.writestr(name, {one: members[other], other: members[one]}.get(name, data))
    return packed.getvalue()
