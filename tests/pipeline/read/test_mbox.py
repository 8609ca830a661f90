"""An archive is split where its messages begin, and nowhere else, however it is read."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.pipeline.read.mbox import RawMessage, looks_like_mbox, split_mbox

LINE = b"From joe@example.com Fri Jul 14 09:57:01 2023\n"


def split(data: bytes, **options: int) -> list[RawMessage]:
    return list(split_mbox(io.BytesIO(data), **options))


def written(*messages: bytes) -> bytes:
    """An archive as mboxrd has it: "From " lines are quoted, an empty line ends each message."""
    return b"".join(LINE + re.sub(rb"(?m)^(>*From )", rb">\1", message) + b"\n" for message in messages)


def test_messages_come_with_their_place_in_the_stream() -> None:
    data = written(b"Subject: 1\n\none\n", b"Subject: 2\n\ntwo\n")
    first, second = split(data)
    assert (first.raw, second.raw) == (b"Subject: 1\n\none\n", b"Subject: 2\n\ntwo\n")
    assert (first.offset, first.end, second.offset, second.end) == (
        0,
        data.index(b"From", 1),
        first.end,
        len(data),
    )


def test_quoted_from_lines_lose_one_mark() -> None:
    (message,) = split(LINE + b"A: b\n\n>From here\n>>From there\n> From nowhere\n")
    assert message.raw == b"A: b\n\nFrom here\n>From there\n> From nowhere\n"


@pytest.mark.parametrize(
    "sentence",
    (
        b"\nFrom what I know, it works.\n",
        b"\nFrom here on\n\nNote: nothing\n",
        b"text\n" + LINE,  # no empty line before it
        b"\nFrom: joe\n",
        b"\nFrom " + b"x" * 5000 + b"\nSubject: too long for a line that begins a message\n",
        b"\n From joe Fri Jul 14 09:57:01 2023\n",
    ),
)
def test_a_sentence_that_begins_with_from_begins_no_message(sentence: bytes) -> None:
    assert len(split(LINE + b"A: b\n\nbody\n" + sentence + b"end\n")) == 1


@pytest.mark.parametrize(
    "line",
    (
        b"From joe@example.com Fri Jul 14 09:57:01 2023",
        b"From - Fri Jul  4 09:57:01 2023",
        b"From MAILER-DAEMON Fri Jul 14 09:57 2023",
        b'From "joe smith"@example.com Fri Jul 14 09:57:01 +0200 2023',
        b"From joe Fri Jul 14 09:57:01 CEST 2023 remote",
        b"From joe@example.com Fri, 14 Jul 2023 09:57:01 +0000",
        b"From joe at example.com\nMessage-ID: <1@x>",
        b"From ???@???\r\nX-Mailer: old",
    ),
)
def test_many_writers_have_many_ways_to_begin_a_message(line: bytes) -> None:
    assert looks_like_mbox(line + b"\nA: b\n")
    assert len(split(LINE + b"A: b\n\nbody\n\n" + line + b"\nA: b\n\nbody\n")) == 2


@pytest.mark.parametrize("head", (b"", b"From ", b"From: a@b\n", b"From here on\nit is prose\n", b"%PDF-1.7"))
def test_other_files_do_not_look_like_an_archive(head: bytes) -> None:
    assert not looks_like_mbox(head)


def test_windows_line_ends_no_last_line_end_and_nul() -> None:
    data = written(b"A: 1\n\none\n", b"A: 2\n\nt\0wo\n").replace(b"\n", b"\r\n")
    assert [message.raw for message in split(data)] == [b"A: 1\r\n\r\none\r\n", b"A: 2\r\n\r\nt\0wo\r\n"]
    assert [message.raw for message in split(LINE + b"A: 1\n\none")] == [b"A: 1\n\none"]


def test_what_comes_before_the_first_message_is_kept_as_a_problem() -> None:
    junk, message = split(b"junk\n\n" + written(b"A: 1\n\n"))
    assert (junk.offset, junk.end, junk.raw) == (0, 6, b"junk\n\n")
    assert "From" in junk.problem
    assert message.problem == ""


def test_empty_lines_and_empty_archives_hold_no_message() -> None:
    assert split(b"") == []
    assert split(b"\n\n\n") == []
    assert [message.raw for message in split(b"\n\n" + written(b"A: 1\n"))] == [b"A: 1\n"]


def test_a_message_too_large_is_passed_over_without_being_held() -> None:
    class Counted(io.BytesIO):
        asked = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.asked = max(self.asked, size or 0)
            return super().read(size)

    data = written(b"A: 1\n\nsmall\n", b"A: 2\n\n" + b"x" * 300_000 + b"\n", b"A: 3\n\nsmall\n")
    stream = Counted(data)
    small, large, last = split_mbox(stream, max_bytes=10_000, block=4096)
    assert (small.raw, last.raw) == (b"A: 1\n\nsmall\n", b"A: 3\n\nsmall\n")
    assert (large.raw, large.problem) == (b"", "larger than 0.01 MB")
    assert data[large.offset : large.end].startswith(LINE + b"A: 2\n\nxxx")
    assert stream.asked == 4096


pieces = st.sampled_from(
    [
        b"From ",
        b">From ",
        b">>From me\n",
        b"\n",
        b"\n\n",
        b"\r\n",
        b"A: b\n",
        b"x",
        b"\0",
        b"\xff",
        LINE[5:],
        b"text\n",
    ]
)
bodies = st.lists(pieces, max_size=12).map(b"".join)
blocks = st.sampled_from([1, 7, 64, 2047, 2048, 2049, 5000, 1 << 20])


@given(st.lists(bodies, max_size=6), blocks)
def test_what_was_written_is_read_again(messages: list[bytes], block: int) -> None:
    # A writer ends each message with a line end; a lone "\r" before it would make it a Windows one.
    messages = [b"Subject: x\n\n" + message.replace(b"\r", b"") + b"\n" for message in messages]
    data = written(*messages)
    found = list(split_mbox(io.BytesIO(data), block=block))
    assert [message.raw for message in found] == messages


@given(bodies, blocks, st.sampled_from([50, 200, 10_000]))
def test_any_bytes_are_covered_and_reading_goes_on_from_any_message(data: bytes, block: int, limit: int) -> None:
    data = LINE + data + b"\n\n" + LINE + b"A: b\n\n" + data
    whole = split(data)
    assert whole[0].offset == 0
    assert whole[-1].end == len(data)
    assert all(one.end == other.offset for one, other in pairwise(whole))
    assert split(data, block=block) == whole
    bounded = split(data, block=block, max_bytes=limit)
    assert [(one.offset, one.end) for one in bounded] == [(one.offset, one.end) for one in whole]
    for index, message in enumerate(bounded):
        assert split(data, start=message.end, block=block, max_bytes=limit) == bounded[index + 1 :]
