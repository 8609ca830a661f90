"""An archive on a website has a mailbox for each month, of which only the last ones are asked for again."""

from __future__ import annotations

import gzip
import io
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from onward import Permanent
from onward.pipeline.fetch.fetch_errors import HTTPAnswerError
from onward.pipeline.read.mail import read_mail
from onward.pipeline.read.mbox import split_mbox
from onward.pipeline.source_kinds import hyperkitty, pipermail
from onward.pipeline.source_kinds.polite_client import Pace
from tests.pipeline.source_kinds.kind_runs import KindRuns
from tests.support.crawls import Clock, pace
from tests.support.web_server import Handler, Site, serve

PIPERMAIL_PAGE = """<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2//EN">
<HTML><HEAD><title>The Talk Archives</title></HEAD><BODY BGCOLOR="#ffffff">
<h1>The Talk Archives </h1>
<p>You can get <a href="https://lists.example.org/mailman/listinfo/talk">more information about this list</a>
or you can <a href="/pipermail/talk.mbox/talk.mbox">download the full raw archive</a> ( 1 MB ).</p>
<table border=3><tr><td>Archive</td><td>View by:</td><td>Downloadable version</td></tr>
{rows}
</table></BODY></HTML>"""
PIPERMAIL_ROW = """<tr><td>{name}:</td><td>
<A href="{name}/thread.html">[ Thread ]</a> <A href="{name}/date.html">[ Date ]</a></td>
<td><A href="{file}">[ Gzip'd Text 1 KB ]</a></td></tr>"""
HYPERKITTY_PAGE = """<!DOCTYPE HTML><html><body>
<a href="/archives/list/talk@lists.example.org/latest">latest</a>
<div class="panel-collapse"><ul>{rows}</ul></div>
<a href="/archives/list/other@lists.example.org/2026/3/">another list</a>
<a href="/archives/list/talk@lists.example.org/thread/ABC/">a thread</a>
<a href="/archives/list/talk@lists.example.org/2026/3/15/">a day</a>
</body></html>"""
TALK = "/archives/list/talk@lists.example.org/"


class Lists:
    """A site with archives, and what it is asked for."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.files: dict[str, bytes] = {}

    def put(self, path: str, body: bytes) -> None:
        tag = f'"{hash(body):x}"'

        def answer(handler: Handler) -> None:
            if handler.headers.get("If-None-Match") == tag:
                handler.give(b"", 304, ETag=tag)
            else:
                handler.give(body, ETag=tag)

        self.site.answers[path] = answer

    def asked(self) -> list[str]:
        paths = [path for _, path, _ in self.site.requests]
        found = [path.rpartition("/")[2] for path in paths if path.endswith((".gz", ".txt"))]
        self.site.requests.clear()
        return found


@pytest.fixture
def lists() -> Iterator[Lists]:
    with serve() as site:
        yield Lists(site)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hosts(clock: Clock) -> Pace:
    return pace(clock)


def obfuscated(id: int) -> bytes:
    """A mail as pipermail writes it."""
    return (
        f"From ada at example.org  Mon Mar  2 10:{id:02}:00 2026\nFrom: ada at example.org (Ada Lovelace)\n"
        f"Date: Mon, 2 Mar 2026 10:{id:02}:00 +0000\nSubject: [Talk] Mail {id}\n"
        f"In-Reply-To: <{id - 1}@example.org>\nMessage-ID: <{id}@example.org>\n\nHello {id}.\n\n"
    ).encode()


# -- Pipermail


@pytest.fixture
def pipermail_source(lists: Lists, hosts: Pace, tmp_path: Path) -> KindRuns:
    return KindRuns(
        pipermail.PipermailArchives(hosts), f"pipermail+{lists.site.url('/pipermail/talk', '127.0.0.1')}", tmp_path
    )


def put_pipermail(lists: Lists, *files: str) -> None:
    rows = "\n".join(PIPERMAIL_ROW.format(name=file.partition(".")[0], file=file) for file in files)
    lists.site.page("/pipermail/talk/", PIPERMAIL_PAGE.format(rows=rows).encode(), Content_Type="text/html")
    for number, file in enumerate(files):
        body = obfuscated(number)
        lists.put(f"/pipermail/talk/{file}", gzip.compress(body, mtime=0) if file.endswith(".gz") else body)


MONTHS = (
    "2026-March.txt",
    "2026-February.txt.gz",
    "2026-January.txt.gz",
    "2025-December.txt.gz",
    "2025-May.txt.gz",
)


def test_only_the_last_months_are_asked_for_again(lists: Lists, pipermail_source: KindRuns) -> None:
    put_pipermail(lists, *MONTHS)
    assert pipermail_source.run() == ["2025-December", "2025-May", "2026-February", "2026-January", "2026-March"]
    assert len(lists.asked()) == 5
    assert pipermail_source.run() == []
    assert lists.asked() == ["2026-March.txt", "2026-February.txt.gz", "2026-January.txt.gz"]
    lists.put("/pipermail/talk/2026-March.txt", obfuscated(1) + obfuscated(2))
    assert pipermail_source.run() == ["2026-March"]
    assert pipermail_source.stored["2026-March"] == obfuscated(1) + obfuscated(2)
    lists.asked()
    assert pipermail_source.run(recheck="all") == []
    assert len(lists.asked()) == 5


def test_the_last_known_month_is_asked_for_again_after_a_long_pause(
    lists: Lists, pipermail_source: KindRuns
) -> None:
    put_pipermail(lists, *MONTHS[1:])
    pipermail_source.run()
    lists.asked()
    later = [f"2026-{month}.txt" for month in ("March", "April", "May", "June")]
    put_pipermail(lists, *reversed(later), *MONTHS[1:])
    february = obfuscated(7) + obfuscated(8)
    lists.put("/pipermail/talk/2026-February.txt.gz", gzip.compress(february, mtime=0))
    # The run is interrupted before it is complete: the months of the last run were asked for before newer ones.
    lists.site.answers["/pipermail/talk/2026-April.txt"] = lambda handler: handler.give(b"", 503)
    with pytest.raises(HTTPAnswerError):
        pipermail_source.run(recheck="1")
    assert gzip.decompress(pipermail_source.stored["2026-February"]) == february
    assert lists.asked()[0] == "2026-February.txt.gz"
    put_pipermail(lists, *reversed(later), *MONTHS[1:])
    pipermail_source.run(recheck="1")
    assert {file.partition(".")[0] for file in later} <= pipermail_source.stored.keys()


def test_a_month_that_is_compressed_when_it_is_over_stays_the_same_entry(
    lists: Lists, pipermail_source: KindRuns
) -> None:
    put_pipermail(lists, "2026-March.txt")
    pipermail_source.run()
    put_pipermail(lists, "2026-April.txt", "2026-March.txt", "2026-March.txt.gz")
    pipermail_source.run()
    assert sorted(pipermail_source.stored) == ["2026-April", "2026-March"]
    assert pipermail_source.stored["2026-March"].startswith(b"\x1f\x8b")


def test_a_server_that_names_no_versions_is_compared_by_content(lists: Lists, pipermail_source: KindRuns) -> None:
    put_pipermail(lists, "2026-March.txt.gz", "2026-April.txt")
    for file, body in (("2026-March.txt.gz", gzip.compress(obfuscated(1))), ("2026-April.txt", obfuscated(2))):
        lists.site.page(f"/pipermail/talk/{file}", body)
    assert len(pipermail_source.run()) == 2
    assert pipermail_source.run() == []
    lists.site.page("/pipermail/talk/2026-March.txt.gz", gzip.compress(obfuscated(1) + obfuscated(3)))
    assert pipermail_source.run() == ["2026-March"]


def test_a_host_gets_one_request_a_second(
    lists: Lists, pipermail_source: KindRuns, kitty: KindRuns, clock: Clock
) -> None:
    lists.site.page("/robots.txt", b"User-agent: *\nDisallow: /")  # for crawlers: archives are there for programs
    put_pipermail(lists, *MONTHS)
    pipermail_source.run()
    assert clock.slept == [1.0] * 5
    put_kitty(lists, "2026/3")
    assert kitty.run() == []
    assert kitty.continue_after is not None, "both lists are at one host, and take turns"
    clock.seconds += kitty.continue_after
    assert len(kitty.run()) == 1
    assert clock.slept == [1.0] * 6
    assert "/robots.txt" not in [path for _, path, _ in lists.site.requests]


def test_a_host_that_wants_to_be_let_alone_is_asked_later(
    lists: Lists, pipermail_source: KindRuns, hosts: Pace, clock: Clock
) -> None:
    put_pipermail(lists, *MONTHS)
    hosts.pause(urlsplit(pipermail_source.location).netloc, 300.0)
    assert pipermail_source.run() == []
    assert pipermail_source.continue_after == 300.0
    assert lists.asked() == []
    assert clock.slept == []
    clock.seconds += 300
    assert len(pipermail_source.run()) == 5
    assert pipermail_source.continue_after is None


def test_volumes_of_other_lengths_are_found(lists: Lists, pipermail_source: KindRuns) -> None:
    put_pipermail(lists, "2003q1.txt.gz", "2002.txt", "Week-of-Mon-20030106.txt.gz", "20030107.txt.gz")
    assert pipermail_source.run() == ["2002", "20030107", "2003q1", "Week-of-Mon-20030106"]


def test_its_mails_are_read_with_their_authors(lists: Lists, pipermail_source: KindRuns) -> None:
    put_pipermail(lists, "2026-March.txt")
    lists.put("/pipermail/talk/2026-March.txt", obfuscated(1) + obfuscated(2))
    pipermail_source.run()
    mails = [read_mail(one.raw) for one in split_mbox(io.BytesIO(pipermail_source.stored["2026-March"]))]
    assert [mail.subject for mail in mails] == ["[Talk] Mail 1", "[Talk] Mail 2"]
    assert {(mail.author, mail.author_email) for mail in mails} == {("Ada Lovelace", "ada@example.org")}
    assert mails[1].references == ("1@example.org",)


def test_a_month_that_is_missing_is_a_problem_of_its_own(lists: Lists, pipermail_source: KindRuns) -> None:
    put_pipermail(lists, "2026-March.txt", "2026-April.txt")
    pipermail_source.run()
    lists.site.page("/pipermail/talk/2026-April.txt", b"", 404)
    assert pipermail_source.run() == []
    assert isinstance(pipermail_source.problems["2026-April"], Permanent)
    assert len(pipermail_source.stored) == 2


def test_a_server_that_fails_for_a_while_ends_the_run(lists: Lists, pipermail_source: KindRuns) -> None:
    put_pipermail(lists, "2026-March.txt", "2026-April.txt")
    pipermail_source.run()
    lists.site.page("/pipermail/talk/2026-April.txt", b"", 503, Retry_After="60")
    with pytest.raises(HTTPAnswerError) as failed:
        pipermail_source.run()
    assert failed.value.headers == {"Retry-After": "60"}


def test_a_page_without_months_removes_nothing(lists: Lists, pipermail_source: KindRuns) -> None:
    put_pipermail(lists, "2026-March.txt")
    pipermail_source.run()
    lists.site.page("/pipermail/talk/", b"<html>No messages have been posted to this list yet</html>")
    with pytest.raises(Permanent, match="the page that lists the months"):
        pipermail_source.run()


@pytest.mark.parametrize("tag", (b"<a ", b"<a href ", b"<a href='", b"<a x=1 "))
def test_a_page_that_is_made_to_take_hours_is_read_at_once(
    lists: Lists, pipermail_source: KindRuns, tag: bytes
) -> None:
    rows = b'<a href="2026-March.txt">Text</a>' + tag * 300_000
    lists.site.page("/pipermail/talk/", rows, Content_Type="text/html")
    lists.put("/pipermail/talk/2026-March.txt", obfuscated(1))
    assert pipermail_source.run() == ["2026-March"]


# -- HyperKitty


@pytest.fixture
def kitty(lists: Lists, hosts: Pace, tmp_path: Path) -> KindRuns:
    kind = hyperkitty.HyperKittyArchives(hosts)
    return KindRuns(kind, f"hyperkitty+{lists.site.url(TALK, '127.0.0.1')}", tmp_path)


def put_kitty(lists: Lists, *months: str) -> None:
    rows = "\n".join(f'<li><a href="{TALK}{month}/" title="x">{month}</a></li>' for month in months)
    lists.site.page(TALK, HYPERKITTY_PAGE.format(rows=rows).encode(), Content_Type="text/html")
    for month in months:
        year, number = month.split("/")
        path = f"{TALK}export/talk@lists.example.org-{year}-{int(number):02}.mbox.gz"

        def answer(handler: Handler, number: int = int(number)) -> None:
            # Its separators have the time of the export, its boundaries are random.
            export = f"From nobody {time.asctime()} {time.perf_counter_ns()}\n".encode()
            mail = obfuscated(number).partition(b"\n")[2]
            boundary = f"--==============={time.perf_counter_ns()}==\n".encode()
            handler.give(gzip.compress(export + mail + boundary + b"part\n"), Content_Type="application/gzip")

        lists.site.answers[path] = answer


def test_months_that_no_calendar_has_are_not_asked_for(lists: Lists, kitty: KindRuns) -> None:
    put_kitty(lists, "9999/12", "0000/1", "2026/13", "2026/3")
    assert kitty.run() == ["2026-03"]


def test_months_are_exported_and_compared_by_content(lists: Lists, kitty: KindRuns) -> None:
    put_kitty(lists, "2026/3", "2026/2", "2026/1", "2025/12", "2025/11")
    assert kitty.run() == ["2025-11", "2025-12", "2026-01", "2026-02", "2026-03"]
    lists.asked()
    assert kitty.run() == []
    assert lists.asked() == [f"talk@lists.example.org-2026-0{month}.mbox.gz" for month in (3, 2, 1)]
    lists.site.page(
        f"{TALK}export/talk@lists.example.org-2026-03.mbox.gz", gzip.compress(obfuscated(3) + obfuscated(4))
    )
    assert kitty.run() == ["2026-03"]


def test_the_bounds_of_a_month_are_in_its_request(kitty: KindRuns, tmp_path: Path) -> None:
    assert kitty.kind.canonical("hyperkitty+https://X.example/archives/list/a%40b.example/latest") == (
        "hyperkitty+https://x.example/archives/list/a@b.example/"
    )
    url = "https://x.example/archives/list/a@b.example/"
    archive = hyperkitty._LIST.match("/archives/list/a@b.example/")
    assert archive is not None
    [(_, month)] = hyperkitty._months(url, archive, ["/archives/list/a@b.example/2025/12/", "2025/13/", "x"])
    assert month.url == f"{url}export/a@b.example-2025-12.mbox.gz?start=2025-12-01&end=2026-01-01"


@pytest.mark.parametrize(
    "location",
    (
        "pipermail+https://me:s3cret@lists.example/pipermail/talk/",
        "pipermail+ftp://lists.example/pipermail/talk/",
        "hyperkitty+https://me:s3cret@lists.example/archives/list/a@b.example/",
        "hyperkitty+https://lists.example/archives/",
        "hyperkitty+https://lists.example/archives/list/a@b.example/?page=2",
    ),
)
def test_other_locations_are_refused(location: str) -> None:
    kind = pipermail.PipermailArchives() if location.startswith("pipermail") else hyperkitty.HyperKittyArchives()
    with pytest.raises(Permanent) as refused:
        kind.canonical(location)
    assert "s3cret" not in str(refused.value)
