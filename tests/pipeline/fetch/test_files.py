"""A file or a folder as a source: what is taken, what is not, and what is said about it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from onward import Permanent, classify
from onward.pipeline.fetch import FetchLimits, fetch
from onward.pipeline.fetch.fetch_errors import (
    NothingToIngest,
    NotWhatItClaims,
    SourceMissing,
    TooLarge,
    UnreadableSource,
    UnusableSource,
)
from tests.pipeline.fetch.mails import MAIL, MBOX
from tests.pipeline.fetch.taking import take

JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01"


def write(root: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    (
        ("list.mbox", MBOX, "mbox"),
        ("list", MBOX, "mbox"),
        ("list.txt", MBOX, "mbox"),
        ("one.eml", MAIL, "eml"),
        ("1577836800.M1P1.host:2,S", MAIL, "eml"),
        ("index.html", b"<p>Hello", "html"),
        ("page", b"\n<!-- saved --><!DOCTYPE HTML><p>Hello", "html"),
        ("notes.txt", b"Hello", "text"),
        ("notes", b"Subject to change: nothing", "text"),
        ("README.md", b"# Hello", "markdown"),
        ("README.rst", b"Hello\n=====", "rst"),
        ("paper.pdf", b"%PDF-1.4\n\0", "pdf"),
        ("main.py", b"print(1)", "code"),
        ("wide.txt", "\ufeffHello".encode("utf-16-le"), "text"),
    ),
)
def test_a_single_file_is_one_item(tmp_path: Path, scratch: Path, name: str, content: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(content)
    taken = take(tmp_path / name, scratch)
    assert taken.kinds == {"": kind}
    assert taken.data == {"": content}


@pytest.mark.parametrize(
    ("name", "language"),
    (("a.py", "python"), ("a.RS", "rust"), ("Makefile", "make"), ("b.tsx", "typescript"), ("run", "shell")),
)
def test_the_language_of_code_is_told_by_its_name_or_first_line(
    tmp_path: Path, scratch: Path, name: str, language: str
) -> None:
    (tmp_path / name).write_bytes(b"#!/usr/bin/env bash\n" if name == "run" else b"x")
    (item,) = take(tmp_path / name, scratch).items
    assert (item.kind, item.language) == ("code", language)


def test_a_folder_is_taken_in_order_with_paths_inside_of_it(tmp_path: Path, scratch: Path) -> None:
    write(tmp_path, {"b.md": "# B", "a/z.py": "z", "a/b/y.txt": "y", "c.html": "<p>c", "old/list.mbox": MBOX})
    taken = take(tmp_path, scratch)
    assert taken.paths == ["a/b/y.txt", "a/z.py", "b.md", "c.html", "old/list.mbox"]
    assert taken.kinds["old/list.mbox"] == "mbox"


def test_what_nobody_wrote_is_skipped(tmp_path: Path, scratch: Path) -> None:
    write(
        tmp_path,
        {
            "keep.txt": "kept",
            ".hidden": "x",
            ".git/config": "x",
            "node_modules/left-pad/index.js": "x",
            "src/__pycache__/a.txt": "x",
            "env/pyvenv.cfg": "home = /usr",
            "env/lib/a.py": "x",
            "target/CACHEDIR.TAG": "x",
            "target/a.txt": "x",
            "logo.png": b"\x89PNG\r\n\x1a\n\0\0",
            "empty.txt": "",
            "report.vsdx": b"PK\x03\x04",
        },
    )
    assert take(tmp_path, scratch).paths == ["keep.txt"]


def test_gitignore_is_respected_nested_and_negated(tmp_path: Path, scratch: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "# built\n*.log\n/build/\nnotes/*\n!notes/keep.txt\nsecret\n[z-a\n",
            "app.log": "x",
            "build/a.txt": "x",
            "deep/build/a.txt": "taken: the rule is about the top",
            "deep/.gitignore": "!important.log\n/local.txt\n",
            "deep/important.log": "taken back",
            "deep/other.log": "x",
            "deep/local.txt": "x",
            "deep/more/local.txt": "taken",
            "notes/a.txt": "x",
            "notes/keep.txt": "taken",
            "secret/a.txt": "x",
        },
    )
    assert take(tmp_path, scratch).paths == [
        "deep/build/a.txt",
        "deep/important.log",
        "deep/more/local.txt",
        "notes/keep.txt",
    ]


def test_a_gitignore_that_lists_what_to_keep(tmp_path: Path, scratch: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*\n!*/\n!*.py\n",
            "a.py": "x",
            "a.txt": "x",
            "src/b.py": "x",
            "src/b.txt": "x",
            "src/c/d.py": "x",
        },
    )
    assert take(tmp_path, scratch).paths == ["a.py", "src/b.py", "src/c/d.py"]


def test_our_gitignore_is_git_s(tmp_path: Path, scratch: Path) -> None:
    rules = "foo\n!foo/\na/**/z.txt\n**/q/\n*.t[mx]p\n/top.txt\nkeep/**\n!keep/this.txt\nspace\\ \n\\#hash.txt\n"
    names = [
        *("foo/a.txt", "bar/foo", "a/b/c/z.txt", "a/z.txt", "q/a.txt", "deep/q/b.txt", "x.tmp", "x.txp", "x.tap"),
        *("top.txt", "deep/top.txt", "keep/this.txt", "keep/that.txt", "keep/sub/this.txt", "#hash.txt", "ok.txt"),
    ]
    write(tmp_path, {".gitignore": rules, **dict.fromkeys(names, "x")})
    git = ["git", "-C", str(tmp_path), "-c", "core.quotePath=false", "-c", "core.excludesFile=/dev/null"]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-o", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert sorted(take(tmp_path, scratch).paths) == sorted(set(listed) - {".gitignore"})


def test_links_are_followed_only_within_the_folder_and_never_in_loops(tmp_path: Path, scratch: Path) -> None:
    outside = write(tmp_path / "outside", {"secret.txt": "secret"})
    root = write(tmp_path / "root", {"a.txt": "a", "sub/b.txt": "b"})
    (root / "inside.txt").symlink_to("sub/b.txt")
    (root / "out.txt").symlink_to(outside / "secret.txt")
    (root / "out").symlink_to(outside)
    (root / "sub" / "loop").symlink_to(root)
    (root / "self").symlink_to("self")
    (root / "gone.txt").symlink_to("nothing")
    assert take(root, scratch).data == {"a.txt": b"a", "inside.txt": b"b", "sub/b.txt": b"b"}


def test_special_files_are_skipped_without_opening_them(tmp_path: Path, scratch: Path) -> None:
    write(tmp_path, {"a.txt": "a"})
    os.mkfifo(tmp_path / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s.txt"))
        assert take(tmp_path, scratch).paths == ["a.txt"]
    with pytest.raises(UnusableSource, match="neither a file nor a folder"):
        take(tmp_path / "pipe.txt", scratch)


def test_a_name_that_is_no_utf_8_is_spelled_out(tmp_path: Path, scratch: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))).write_text("x")
    assert take(tmp_path, scratch).data == {"caf\\xe9.txt": b"x"}


@pytest.mark.parametrize("name", ("a.gz", "a.tgz", "a.bz2", "a.xz", "a.zip", "a.tar", "a.pdf", "a.mbox"))
@pytest.mark.parametrize("content", (b"<!doctype html><p>Please log in", JPEG, b"plain text"))
def test_a_file_that_only_claims_to_be_something_is_an_error(
    tmp_path: Path, scratch: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NotWhatItClaims, match=rf"'{name}' claims to be a .*, but its content is "):
        take(tmp_path / name, scratch)


def test_in_a_folder_such_a_file_is_a_problem_and_the_others_go_on(tmp_path: Path, scratch: Path) -> None:
    write(tmp_path, {"a.gz": "no gzip", "b.txt": "b", "mail.eml": JPEG})
    taken = take(tmp_path, scratch)
    assert taken.data == {"b.txt": b"b"}
    assert {path: type(problem) for path, problem in taken.problems.items()} == {
        "a.gz": NotWhatItClaims,
        "mail.eml": NotWhatItClaims,
    }


def test_a_large_file_is_a_problem_but_a_large_mailbox_is_not(tmp_path: Path, scratch: Path) -> None:
    write(tmp_path, {"a.txt": b"a" * 101, "b.txt": b"b" * 100, "c.mbox": MBOX})
    taken = take(tmp_path, scratch, FetchLimits(max_file_bytes=100))
    assert taken.kinds == {"b.txt": "text", "c.mbox": "mbox"}
    with pytest.raises(TooLarge, match=r"'a\.txt' has more than 100 bytes"):
        raise taken.problems["a.txt"]


def test_a_missing_path_is_an_error(tmp_path: Path, scratch: Path) -> None:
    with pytest.raises(SourceMissing, match=r"no file or folder.*gone"):
        take(tmp_path / "gone", scratch)
    (tmp_path / "file").write_text("x")
    with pytest.raises(SourceMissing):
        take(tmp_path / "file" / "below", scratch)


def test_nothing_to_ingest_says_what_was_skipped_and_why(tmp_path: Path, scratch: Path) -> None:
    with pytest.raises(NothingToIngest, match="it is empty"):
        take(tmp_path, scratch)
    write(tmp_path, {"a.png": JPEG, "b.png": JPEG, ".gitignore": "*.txt", "n.txt": "x", "e.md": ""})
    with pytest.raises(NothingToIngest) as caught:
        take(tmp_path, scratch)
    for said in (
        "2 pictures (a.png, b.png)",
        "1 hidden (.gitignore)",
        "1 by .gitignore (n.txt)",
        "1 empty (e.md)",
    ):
        assert said in str(caught.value)


@pytest.mark.parametrize(("name", "content", "why"), (("a.txt", b"", "empty"), ("a.png", JPEG, "picture")))
def test_an_empty_file_or_a_picture_is_nothing_to_ingest(
    tmp_path: Path, scratch: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NothingToIngest, match=why):
        take(tmp_path / name, scratch)


def run_humbly(program: str) -> list[str]:
    """Run a program as a user who may not read everything; return the lines that it prints."""
    # Nothing can be forbidden to root, unless it gives that right away.
    humble = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    done = subprocess.run([*humble, sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_a_folder_whose_names_only_can_be_read_is_a_problem_as_a_whole(tmp_path: Path) -> None:
    """A Maildir stays one, so that nothing of it is removed."""
    root = write(tmp_path, {"mail/cur/1.x:2,S": "x", "mail/new/2.x": "x", "mail/tmp/3": "x", "plain/a.txt": "x"})
    program = f"""
from pathlib import Path
from onward.pipeline.fetch.fetched_items import SkippedFiles
from onward.pipeline.fetch.files_and_folders import list_path
for found in list_path(Path({str(root)!r}), SkippedFiles()):
    print(found.path, "|", found.problem)
"""
    for name in ("mail", "plain"):
        (root / name).chmod(0o400)
    try:
        lines = run_humbly(program)
    finally:
        for name in ("mail", "plain"):
            (root / name).chmod(0o700)
    remedy = "may not be read: allow it for this user, or leave it out"
    assert lines == [f"{name} | the folder '{name}' {remedy}" for name in ("mail", "plain")]


def test_a_link_that_cannot_be_followed_now_is_a_problem_and_not_passed_over(tmp_path: Path) -> None:
    root = write(tmp_path, {"closed/a.txt": "x", "open/b.txt": "x"})
    (root / "link.txt").symlink_to("closed/a.txt")
    (root / "loop.txt").symlink_to("loop.txt")
    (root / "nowhere.txt").symlink_to("nothing/at/all.txt")
    program = f"""
from pathlib import Path
from onward.pipeline.fetch import FetchLimits, fetch
from onward.pipeline.fetch.fetched_items import SkippedFiles
skipped = SkippedFiles()
for item in fetch({str(root)!r}, FetchLimits(), Path({str(tmp_path)!r}), skipped=skipped):
    print(item.path, "|", type(item.problem).__name__)
print([item.path for item in skipped.listed])
"""
    (root / "closed").chmod(0)
    try:
        lines = run_humbly(program)
    finally:
        (root / "closed").chmod(0o700)
    problem = UnreadableSource.__name__
    found = [f"closed | {problem}", f"link.txt | {problem}", "open/b.txt | NoneType"]
    assert lines == [*found, "['loop.txt', 'nowhere.txt']"]


def test_what_may_not_be_read_is_a_problem_that_names_it(tmp_path: Path, scratch: Path) -> None:
    root = write(tmp_path, {"a.txt": "a", "closed.txt": "x", "closed/b.txt": "x", "open/c.txt": "x"})
    for path in (root / "closed.txt", root / "closed"):
        path.chmod(0)
    program = f"""
from pathlib import Path
from onward.pipeline.fetch import FetchLimits, fetch
scratch = Path({str(scratch)!r})
for item in fetch({str(root)!r}, FetchLimits(), scratch):
    print(item.path, "|", type(item.problem).__name__, "|", item.problem)
try:
    list(fetch({str(root / "closed")!r}, FetchLimits(), scratch))
except Exception as error:
    print(type(error).__name__, "|", error)
"""
    try:
        lines = run_humbly(program)
    finally:
        (root / "closed").chmod(0o700)
    error = f"{UnreadableSource.__name__} |"
    assert lines == [
        "a.txt | NoneType | None",
        f"closed | {error} the folder 'closed' may not be read: allow it for this user, or leave it out",
        f"closed.txt | {error} the file 'closed.txt' may not be read: allow it for this user, or leave it out",
        "open/c.txt | NoneType | None",
        f"{error} the folder '{root / 'closed'}' may not be read: allow it for this user, or leave it out",
    ]
    assert issubclass(UnreadableSource, Permanent)


def test_a_disk_that_fails_may_work_again(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.txt": "a", "bad/b.txt": "b"})
    scandir = os.scandir

    def failing(path: Path | int) -> object:
        if isinstance(path, Path) and path.name == "bad":
            raise OSError(5, "Input/output error", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    taken = take(tmp_path, scratch)
    assert taken.data == {"a.txt": b"a"}
    assert classify(taken.problems["bad"]).kind == "transient"


def test_closing_the_iterator_early_removes_temporary_files(tmp_path: Path, scratch: Path) -> None:
    write(tmp_path, {"a.txt": "a", "b.txt": "b"})
    items = fetch(str(tmp_path), FetchLimits(), scratch)
    assert next(items).path == "a.txt"
    assert list(scratch.iterdir()) != []
    items.close()  # type: ignore[attr-defined]  # a generator, promised as an iterator
    assert list(scratch.iterdir()) == []


def test_a_very_deep_folder_is_walked(tmp_path: Path, scratch: Path) -> None:
    deep = tmp_path
    for _ in range(300):
        deep /= "d"
    write(deep, {"a.txt": "deep"})
    assert list(take(tmp_path, scratch).data.values()) == [b"deep"]


def test_an_item_is_copied_once(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (item,) = take(tmp_path / "a.txt", scratch).items
    with (tmp_path / "copy").open("wb") as target, pytest.raises(RuntimeError, match="only once"):
        item.copy_to(target)
