"""Compressed files and archives: each member is taken, and none of them does harm."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.pipeline.fetch import FetchLimits, containers, fetch
from onward.pipeline.fetch.fetch_errors import (
    Broken,
    Encrypted,
    NothingToIngest,
    NotWhatItClaims,
    TooLarge,
    UnsafeMember,
    UnusableSource,
)
from tests.pipeline.fetch.mails import MAIL, MBOX
from tests.pipeline.fetch.packing import member, tar, zipped
from tests.pipeline.fetch.taking import take

NOISE = random.Random(0).randbytes(50_000).hex().encode()
COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_is_one_item(tmp_path: Path, scratch: Path, suffix: str) -> None:
    file = tmp_path / f"list.mbox.{suffix}"
    file.write_bytes(COMPRESS[suffix](MBOX))
    taken = take(file, scratch)
    assert taken.kinds == {"": "mbox"}
    assert taken.data == {"": MBOX}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_what_was_compressed_in_pieces_is_read_to_the_end(tmp_path: Path, scratch: Path, suffix: str) -> None:
    file = tmp_path / f"a.txt.{suffix}"
    padding = b"\0" * 4 if suffix == "xz" else b""
    file.write_bytes(COMPRESS[suffix](b"one ") + padding + COMPRESS[suffix](b"two") + padding)
    assert take(file, scratch).data == {"": b"one two"}


def test_an_xz_that_wants_gigabytes_of_memory_is_refused(tmp_path: Path, scratch: Path) -> None:
    greedy = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    packed = bytearray(lzma.compress(b"text", filters=greedy))
    # The size of the dictionary is one byte of the header, which a checksum covers.
    assert packed[16] == 16
    packed[16] = 40
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    (tmp_path / "a.txt.xz").write_bytes(packed)
    with pytest.raises(Broken, match="Memory usage limit"):
        take(tmp_path / "a.txt.xz", scratch)


@pytest.mark.parametrize(
    ("name", "packed"),
    (
        ("a.zip", zipped({"x/b.txt": b"b", "c.md": b"# C"})),
        ("a.tar", tar({"x/b.txt": b"b", "c.md": b"# C"})),
        ("a.tar.gz", gzip.compress(tar({"x/b.txt": b"b", "c.md": b"# C"}))),
        ("a.tgz", gzip.compress(tar({"x/b.txt": b"b", "./c.md": b"# C"}))),
        ("a.tbz2", bz2.compress(tar({"x/b.txt": b"b", "c.md": b"# C"}))),
        ("a.txz", lzma.compress(tar({"x/b.txt": b"b", "c.md": b"# C"}))),
        ("no-suffix", gzip.compress(tar({"x/b.txt": b"b", "c.md": b"# C"}))),
    ),
)
def test_of_an_archive_each_member_is_an_item(tmp_path: Path, scratch: Path, name: str, packed: bytes) -> None:
    (tmp_path / name).write_bytes(packed)
    taken = take(tmp_path / name, scratch)
    assert taken.data == {"x/b.txt": b"b", "c.md": b"# C"}
    assert taken.kinds == {"x/b.txt": "text", "c.md": "markdown"}


def test_members_are_skipped_as_in_a_folder(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a.zip").write_bytes(
        zipped(
            {"a.txt": b"a", ".git/config": b"x", "__MACOSX/._a.txt": b"x", "b.png": b"\0", "c.txt": b"", "d/": b""}
        )
    )
    assert take(tmp_path / "a.zip", scratch).paths == ["a.txt"]


@pytest.mark.parametrize("packed", (zipped({}), zipped({"a.png": b"\0"}), zipped({"d/": b""})))
def test_an_archive_with_nothing_in_it_is_an_error(tmp_path: Path, scratch: Path, packed: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(packed)
    with pytest.raises(NothingToIngest):
        take(tmp_path / "a.zip", scratch)


def test_containers_in_containers_are_opened(tmp_path: Path, scratch: Path) -> None:
    inner = zipped({"x.txt": b"x", "list.mbox.gz": gzip.compress(MBOX)})
    files = {"inner.zip": inner, "more.tgz": gzip.compress(tar({"one.eml": MAIL})), "y.txt": b"y"}
    for name, packed in (("outer.tar.gz", gzip.compress(tar(files))), ("outer.zip", zipped(files))):
        (tmp_path / name).write_bytes(packed)
        assert take(tmp_path / name, scratch).data == {
            "inner.zip/x.txt": b"x",
            "inner.zip/list.mbox.gz": MBOX,
            "more.tgz/one.eml": MAIL,
            "y.txt": b"y",
        }
    assert "outer.zip/inner.zip/list.mbox.gz" in take(tmp_path, scratch).paths


@pytest.mark.parametrize("pack", (lambda data: zipped({"n.zip": data}), gzip.compress))
def test_but_not_forever(tmp_path: Path, scratch: Path, pack: Callable[[bytes], bytes]) -> None:
    """A container that holds itself ends here too."""
    packed = zipped({"a.txt": b"deep"})
    for _ in range(4):
        packed = pack(packed)
    (tmp_path / "bottomless").write_bytes(packed)
    (tmp_path / "a.txt").write_bytes(b"a")
    taken = take(tmp_path, scratch)
    assert taken.data == {"a.txt": b"a"}
    ((path, problem),) = taken.problems.items()
    assert path.startswith("bottomless")
    with pytest.raises(TooLarge, match="within 3 others"):
        raise problem


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_stream_that_was_cut_off_is_broken(tmp_path: Path, scratch: Path, suffix: str) -> None:
    packed = COMPRESS[suffix](NOISE)
    (tmp_path / f"a.txt.{suffix}").write_bytes(packed[: len(packed) // 2])
    taken = take(tmp_path, scratch)
    with pytest.raises(Broken, match="damaged or cut off"):
        raise taken.problems[f"a.txt.{suffix}"]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_damaged_stream_is_broken(tmp_path: Path, scratch: Path, suffix: str) -> None:
    packed = bytearray(COMPRESS[suffix](NOISE))
    packed[20_000:20_010] = b"damaged..."
    (tmp_path / f"a.txt.{suffix}").write_bytes(packed)
    assert isinstance(take(tmp_path, scratch).problems[f"a.txt.{suffix}"], Broken)


def test_a_stream_of_which_only_the_beginning_is_right_is_broken(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8b\x08\0")
    with pytest.raises(Broken):
        take(tmp_path / "a.gz", scratch)


@pytest.mark.parametrize("keep", (900, 1536, 3000))
def test_of_an_archive_that_was_cut_off_the_beginning_is_taken(tmp_path: Path, scratch: Path, keep: int) -> None:
    packed = tar({"a.txt": b"a", "b.txt": b"b" * 5000})
    (tmp_path / "a.tar").write_bytes(packed[: 1024 + keep])
    taken = take(tmp_path / "a.tar", scratch)
    assert taken.data["a.txt"] == b"a"
    assert isinstance(taken.problems[""], Broken)


def test_damage_between_two_members_is_not_taken_for_the_end(tmp_path: Path, scratch: Path) -> None:
    packed = bytearray(tar({"a.txt": b"a", "b.txt": b"b"}))
    packed[1024:1034] = b"\xff" * 10
    (tmp_path / "a.tar").write_bytes(packed)
    taken = take(tmp_path / "a.tar", scratch)
    assert taken.data == {"a.txt": b"a"}
    assert isinstance(taken.problems[""], Broken)


def test_a_tar_that_claims_to_be_compressed_and_the_other_way_round(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(b"just text"))
    with pytest.raises(NotWhatItClaims, match="tar archive"):
        take(tmp_path / "a.tar.gz", scratch)
    (tmp_path / "b.tar").write_bytes(gzip.compress(tar({"a.txt": b"a"})))
    with pytest.raises(NotWhatItClaims, match="content is a gzip file"):
        take(tmp_path / "b.tar", scratch)


@pytest.mark.parametrize(
    "name",
    ("../out.txt", "a/../../out.txt", "/etc/passwd", "..\\out.txt", "C:\\out.txt", "C:out.txt", "\\\\host\\x.txt"),
)
@pytest.mark.parametrize("pack", (tar, zipped))
def test_a_member_that_leads_out_is_a_problem_and_the_others_are_taken(
    tmp_path: Path, scratch: Path, name: str, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    (tmp_path / "a").write_bytes(pack({"a.txt": b"a", name: b"x", "b.txt": b"b"}))
    taken = take(tmp_path / "a", scratch)
    assert taken.data == {"a.txt": b"a", "b.txt": b"b"}
    assert {path: type(problem) for path, problem in taken.problems.items()} == {name: UnsafeMember}
    assert repr(name) in str(taken.problems[name])


def test_a_member_without_a_name_is_a_problem(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a").write_bytes(tar({"": b"x", "a.txt": b"a"}))
    taken = take(tmp_path / "a", scratch)
    assert taken.data == {"a.txt": b"a"}
    assert isinstance(taken.problems["(no name)"], UnsafeMember)


def test_links_and_devices_in_a_tar_are_problems(tmp_path: Path, scratch: Path) -> None:
    extra = [
        member("sym", tarfile.SYMTYPE, "/etc/passwd"),
        member("hard", tarfile.LNKTYPE, "a.txt"),
        member("pipe", tarfile.FIFOTYPE),
        member("disk", tarfile.BLKTYPE),
        member("tty", tarfile.CHRTYPE),
        member("folder", tarfile.DIRTYPE),
    ]
    (tmp_path / "a.tar").write_bytes(tar({"a.txt": b"a"}, extra))
    taken = take(tmp_path / "a.tar", scratch)
    assert taken.data == {"a.txt": b"a"}
    assert set(taken.problems) == {"sym", "hard", "pipe", "disk", "tty"}
    assert "'/etc/passwd'" in str(taken.problems["sym"])


def test_a_link_in_a_zip_is_a_problem(tmp_path: Path, scratch: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("a.txt", "a")
    taken = take(tmp_path / "a.zip", scratch)
    assert taken.data == {"a.txt": b"a"}
    assert isinstance(taken.problems["link"], UnsafeMember)


def test_an_encrypted_member_says_what_to_do(tmp_path: Path, scratch: Path) -> None:
    packed = bytearray(zipped({"secret.txt": b"x", "open.txt": b"open"}))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.index(signature) + flags] |= 1
    (tmp_path / "a.zip").write_bytes(packed)
    taken = take(tmp_path / "a.zip", scratch)
    assert taken.data == {"open.txt": b"open"}
    with pytest.raises(Encrypted, match="needs a password; unpack it"):
        raise taken.problems["secret.txt"]


def test_a_member_packed_in_an_unknown_way_is_a_problem(tmp_path: Path, scratch: Path) -> None:
    packed = bytearray(zipped({"odd.txt": b"x", "a.txt": b"a"}))
    for signature, method in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        packed[packed.index(signature) + method] = 99
    (tmp_path / "a.zip").write_bytes(packed)
    taken = take(tmp_path / "a.zip", scratch)
    assert taken.data == {"a.txt": b"a"}
    assert isinstance(taken.problems["odd.txt"], Broken)


def test_a_damaged_member_of_a_zip_costs_only_itself(tmp_path: Path, scratch: Path) -> None:
    packed = bytearray(zipped({"a.txt": NOISE, "b.txt": b"b"}))
    packed[15_000] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(packed)
    taken = take(tmp_path / "a.zip", scratch)
    assert taken.data == {"b.txt": b"b"}
    assert isinstance(taken.problems["a.txt"], Broken)


@pytest.mark.parametrize("lost", (30, 14))  # bytes: the record at the end, and a part of it
def test_a_zip_without_its_table_of_contents_is_broken(tmp_path: Path, scratch: Path, lost: int) -> None:
    (tmp_path / "a.zip").write_bytes(zipped({"a.txt": b"a" * 1000})[:-lost])
    with pytest.raises(Broken, match="damaged"):
        take(tmp_path / "a.zip", scratch)


@pytest.mark.parametrize("pack", ("tar", "zip"))
def test_of_two_members_with_one_name_the_first_is_taken(tmp_path: Path, scratch: Path, pack: str) -> None:
    file = tmp_path / f"a.{pack}"
    if pack == "zip":
        with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            archive.writestr("a.txt", "first")
            archive.writestr("a.txt", "second")
    else:
        file.write_bytes(tar({"a.txt": b"first", "./a.txt": b"second"}))
    taken = take(file, scratch)
    assert taken.data == {"a.txt": b"first"}
    assert isinstance(taken.problems["a.txt"], UnsafeMember)


def test_names_that_are_no_utf_8_are_spelled_out(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({os.fsdecode(b"caf\xe9.txt"): b"x"}))
    assert take(tmp_path / "a.tar", scratch).data == {"caf\\xe9.txt": b"x"}


def test_a_zip_whose_members_share_their_bytes_is_a_bomb(tmp_path: Path, scratch: Path) -> None:
    """A kernel of data that many entries point into, as in the zip bombs that need no nesting."""
    packed = zipped({"a.txt": b"0" * 100_000, "b.txt": b"b"})
    end = packed.rindex(b"PK\x05\x06")
    start = struct.unpack_from("<L", packed, end + 16)[0]
    entries = packed[start:end]
    first = entries[: entries.index(b"PK\x01\x02", 4)]
    fakes = b"".join(first.replace(b"a.txt", b"%c.txt" % letter) for letter in b"xyz")
    contents = entries + fakes
    tail = bytearray(packed[end:])
    struct.pack_into("<HHL", tail, 8, 5, 5, len(contents))
    (tmp_path / "a.zip").write_bytes(packed[:start] + contents + tail)
    taken = take(tmp_path / "a.zip", scratch)
    assert taken.data == {"b.txt": b"b"}
    assert {path: type(problem) for path, problem in taken.problems.items()} == dict.fromkeys(
        ("a.txt", "x.txt", "y.txt", "z.txt"), UnsafeMember
    )


@pytest.mark.parametrize(("name", "packed"), (("a.tar", tar), ("a.zip", zipped)))
def test_too_many_members(
    tmp_path: Path, scratch: Path, name: str, packed: Callable[[dict[str, bytes]], bytes]
) -> None:
    (tmp_path / name).write_bytes(packed({f"{number}.txt": b"x" for number in range(5)}))
    taken = take(tmp_path / name, scratch, FetchLimits(max_members=3))
    assert list(taken.data) == ["0.txt", "1.txt", "2.txt"]
    with pytest.raises(TooLarge, match="more than 3 members"):
        raise taken.problems[""]


def test_a_huge_table_of_contents_is_not_read(tmp_path: Path, scratch: Path) -> None:
    packed = bytearray(zipped({"a.txt": b"a"}))
    struct.pack_into("<L", packed, packed.rindex(b"PK\x05\x06") + 12, 0xFFFFFFF0)
    (tmp_path / "a.zip").write_bytes(packed)
    with pytest.raises(TooLarge, match="table of contents"):
        take(tmp_path / "a.zip", scratch)


@pytest.mark.parametrize("kind", (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME))
def test_a_huge_extended_header_is_not_read(tmp_path: Path, scratch: Path, kind: bytes) -> None:
    info = member("long", kind)
    info.size = 1 << 33
    header = info.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "a.tar").write_bytes(tar({"a.txt": b"a"})[:1024] + header + b"x" * 10_240)
    taken = take(tmp_path / "a.tar", scratch)
    assert taken.data == {"a.txt": b"a"}
    with pytest.raises(Broken, match="extended header claims"):
        raise taken.problems[""]


def test_a_member_that_claims_an_absurd_size_is_not_believed(tmp_path: Path, scratch: Path) -> None:
    info = tarfile.TarInfo("a.mbox")
    info.size = 1 << 60
    (tmp_path / "a.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + MBOX.ljust(512, b"\n"))
    taken = take(tmp_path / "a.tar", scratch)
    assert taken.data == {}
    assert isinstance(taken.problems["a.mbox"], Broken)


@pytest.mark.parametrize(
    ("name", "packed"),
    (
        ("a.mbox.gz", gzip.compress(MBOX + b"\n" * 2_000_000)),
        ("a.tar.xz", lzma.compress(tar({"a.mbox": MBOX + b"\n" * 2_000_000, "b.txt": b"b"}))),
        ("a.zip", zipped({"a.mbox": MBOX + b"\n" * 2_000_000, "b.txt": b"b"})),
        ("a.zip", zipped({"a.zip": zipped({"a.mbox": MBOX + b"\n" * 2_000_000}), "b.txt": b"b"})),
        ("a.zip", zipped({"a.png": b"\0", "b.mbox": MBOX + b"\n" * 600_000, "c.mbox": MBOX + b"\n" * 600_000})),
    ),
)
def test_a_bomb_is_stopped_by_what_came_out(tmp_path: Path, scratch: Path, name: str, packed: bytes) -> None:
    (tmp_path / name).write_bytes(packed)
    (tmp_path / "z.txt").write_bytes(b"after the bomb")
    taken = take(tmp_path, scratch, FetchLimits(max_unpacked_bytes=1_000_000))
    assert taken.data["z.txt"] == b"after the bomb"
    assert "b.txt" not in taken.data
    assert {type(problem) for problem in taken.problems.values()} == {TooLarge}
    assert sum(map(len, taken.data.values())) <= 1_000_000


def test_a_bomb_is_stopped_by_its_ratio(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert containers.RATIO_FROM_BYTES == 100_000_000
    monkeypatch.setattr(containers, "RATIO_FROM_BYTES", 1_000_000)
    (tmp_path / "small.txt.gz").write_bytes(gzip.compress(b"0" * 900_000))
    (tmp_path / "large.txt.gz").write_bytes(gzip.compress(b"0" * 1_100_000))
    taken = take(tmp_path, scratch)
    assert list(taken.data) == ["small.txt.gz"]
    with pytest.raises(TooLarge, match="more than 200 times its size"):
        raise taken.problems["large.txt.gz"]


def test_a_compressed_text_is_stopped_at_the_size_of_a_file(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"0" * 5000))
    taken = take(tmp_path, scratch, FetchLimits(max_file_bytes=4999))
    with pytest.raises(TooLarge, match="more than 4,999 bytes"):
        raise taken.problems["a.txt.gz"]


def test_members_that_nobody_copies_are_passed_over(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(
        gzip.compress(tar({"a.txt": b"a" * 100_000, "b.zip": zipped({"c.txt": b"c"})}))
    )
    assert [item.path for item in fetch(str(tmp_path / "a.tgz"), FetchLimits(), scratch)] == [
        "a.txt",
        "b.zip/c.txt",
    ]


NAMES = st.text("abc", min_size=1, max_size=3).map(lambda name: name + ".txt")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TREES = st.dictionaries(
    PATHS, st.binary(min_size=1, max_size=50).map(lambda data: b"x" + data.hex().encode()), min_size=1
)


@settings(deadline=None, max_examples=40)
@given(TREES, st.sampled_from([tar, zipped, lambda files: gzip.compress(tar(files))]))
def test_what_goes_into_an_archive_comes_out_of_it(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    folder = tmp_path_factory.mktemp("packed")
    (folder / "packed").write_bytes(pack(files))
    scratch = folder / "scratch"
    scratch.mkdir()
    assert take(folder / "packed", scratch).data == files


@pytest.mark.parametrize("left", (4, 12, 15, 21))
def test_a_zip_that_is_cut_off_in_its_last_record_is_damaged(folder: Path, left: int) -> None:
    packed = zipped(FILES)
    (folder / "packed.zip").write_bytes(packed[: packed.rfind(b"PK\x05\x06") + left])
    scratch = folder / "scratch"
    scratch.mkdir()
    with pytest.raises(Broken):
        take(folder / "packed.zip", scratch)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_archive_never_breaks_us(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever is changed, an archive gives items and problems or one of our errors, and never something else."""
    packed = bytearray(data.draw(st.sampled_from(SAMPLES)))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "damaged").write_bytes(packed[: data.draw(st.integers(1, len(packed)))])
    scratch = folder / "scratch"
    scratch.mkdir()
    try:
        taken = take(folder / "damaged", scratch, FetchLimits(max_unpacked_bytes=1_000_000))
    except UnusableSource:
        return
    assert all(isinstance(problem, UnusableSource) for problem in taken.problems.values())


FILES = {"a.txt": b"some text", "b/c.md": b"# C\n" * 100, "d.zip": zipped({"e.txt": b"e"})}
SAMPLES = [tar(FILES), zipped(FILES), *(compress(tar(FILES)) for compress in COMPRESS.values())]
