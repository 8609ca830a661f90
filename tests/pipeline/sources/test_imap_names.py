"""Locations of mailboxes and names of folders, as servers list them."""

from __future__ import annotations

import pytest

from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.source_kinds.imap import ImapMailbox
from onward.pipeline.source_kinds.imap_folders import chosen_folders, listed_folders

KIND = ImapMailbox()


@pytest.mark.parametrize(
    ("location", "canonical"),
    (
        ("imaps://ada@mail.example.org", "imaps://ada@mail.example.org/"),
        ("IMAPS://ada@Mail.Example.org:993/", "imaps://ada@mail.example.org/"),
        ("imap://ada@mail.example.org:143/inbox", "imap://ada@mail.example.org/INBOX"),
        ("imaps://ada@mail.example.org:9993/Lists/git/", "imaps://ada@mail.example.org:9993/Lists/git"),
        ("imaps://ada@example.org@mail.example.org/", "imaps://ada%40example.org@mail.example.org/"),
        ("imaps://ada%40example.org@mail.example.org/", "imaps://ada%40example.org@mail.example.org/"),
        ("imaps://ada@[::1]:993/R%C3%A9sum%C3%A9s", "imaps://ada@[::1]/R%C3%A9sum%C3%A9s"),
        ("imaps://ada@mail.example.org/what? now#1", "imaps://ada@mail.example.org/what%3F now%231"),
    ),
)
def test_a_location_has_one_form(location: str, canonical: str) -> None:
    assert KIND.canonical(location) == canonical
    assert KIND.canonical(canonical) == canonical


@pytest.mark.parametrize(
    ("location", "remedy"),
    (
        ("imaps://mail.example.org/", "names no user"),
        ("imaps://@mail.example.org/", "names no user"),
        ("imaps://ada@/", "no host"),
        ("imaps://ada@mail.example.org:99999/", "no host"),
        ("imaps://ada@mail example.org/", "no host"),
        ("imaps://a%0Ada@mail.example.org/", "control characters"),
        ("imaps://ada@mail.example.org/IN%00BOX", "control characters"),
    ),
)
def test_a_wrong_location_is_refused_with_the_remedy(location: str, remedy: str) -> None:
    with pytest.raises(UnusableSource, match=remedy):
        KIND.canonical(location)


@pytest.mark.parametrize("user", ("ada:hunter2", "ada%3Ahunter2", "ada@example.org:hunter2", "ada:hunter2@x"))
def test_a_password_in_a_location_is_refused_and_not_repeated(user: str) -> None:
    with pytest.raises(UnusableSource, match="ONWARD_IMAP_PASSWORD") as refused:
        KIND.canonical(f"imaps://{user}@mail.example.org/")
    assert "hunter2" not in str(refused.value)
    assert "imaps://ada" in str(refused.value)


def test_folders_have_their_names_in_any_server_s_way_of_writing() -> None:
    lines: list[bytes | tuple[bytes, bytes] | None] = [
        rb'(\HasNoChildren) "/" "R&AOk-sum&AOk-s/2026"',
        rb'(\HasNoChildren) "." Lists.git',
        rb'(\HasNoChildren) "\\" "a\\b"',
        (rb'(\HasNoChildren) "/" {9}', b'say "hi"\\'),
        b"",
        rb'(\Noselect) "/" Lists',
        rb"(\HasNoChildren) NIL inbox",
        rb'(\HasNoChildren) "/" "Q&A"',
        rb'(\HasNoChildren) "/" "Q&-A, 100%"',
        '(\\HasNoChildren) "/" "Übung"'.encode(),
        '(\\HasNoChildren) "/" "Übung 2"'.encode("latin-1"),
        None,
    ]
    names = {folder.raw: folder.name for folder in listed_folders(lines)}
    assert names == {
        b"inbox": "INBOX",
        b"R&AOk-sum&AOk-s/2026": "Résumés/2026",
        b"Lists.git": "Lists/git",
        b"a\\b": "a/b",
        b'say "hi"\\': 'say "hi"\\',
        b"Lists": "Lists",
        b"Q&A": "Q&A",
        b"Q&-A, 100%": "Q&A, 100%",
        "Übung".encode(): "Übung",
        "Übung 2".encode("latin-1"): "Übung 2",
    }


def test_different_folders_have_different_paths_and_none_is_like_the_path_of_a_mail() -> None:
    raw = [b"a/b", b"a.b", b"a&-b", b"a&b", b"7.eml", b"a.7.eml", b"..", b"", b"&AAA-", b"%2F", b"%25"]
    lines: list[bytes | tuple[bytes, bytes] | None] = [
        rb'() "." "%s"' % name.replace(b"\\", b"\\\\") for name in raw
    ]
    paths = [folder.path for folder in listed_folders(lines)]
    assert len(set(paths)) == len(raw)
    assert all(part not in ("", ".", "..") for path in paths for part in path.split("/"))
    assert not any(path.endswith("7.eml") for path in paths)


def chosen(names: dict[str, str], include: str = "", exclude: str = "trash,junk") -> set[str]:
    lines = [f'({flags}) "/" "{name}"'.encode() for name, flags in names.items()]
    return {folder.name for folder in chosen_folders(listed_folders([*lines]), split(include), split(exclude))}


def split(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


ACCOUNT = {"INBOX": "", "Lists": r"\Noselect", "Lists/git": "", "Bin": r"\Trash", "Spam": "", "Sent": r"\Sent"}


def test_trash_and_junk_are_left_out_by_what_the_server_marks_and_by_usual_names() -> None:
    assert chosen(ACCOUNT) == {"INBOX", "Lists/git", "Sent"}
    assert chosen(ACCOUNT, exclude="") == {"INBOX", "Lists/git", "Sent", "Bin", "Spam"}
    assert chosen(ACCOUNT, exclude="sent,lists/*") == {"INBOX", "Bin", "Spam"}
    assert chosen(ACCOUNT, include="INBOX,lists/*") == {"INBOX", "Lists/git"}


def test_a_folder_with_all_mails_stands_for_the_others() -> None:
    gmail = ACCOUNT | {"[Gmail]": r"\Noselect", "[Gmail]/All Mail": r"\All", "[Gmail]/Starred": r"\Flagged"}
    assert chosen(gmail) == {"[Gmail]/All Mail"}
    assert chosen(gmail, include="INBOX") == {"INBOX"}
    assert chosen(gmail, include="*") > {"INBOX", "[Gmail]/All Mail", "Lists/git"}


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    (("since", "yesterday", "2026-01-31"), ("plain", "maybe", "yes or no"), ("ca_file", "/nowhere.pem", "exist")),
)
def test_a_wrong_option_says_what_is_allowed(option: str, value: str, allowed: str) -> None:
    parse = next(one.parse for one in KIND.options if one.name == option)
    with pytest.raises(ValueError, match=allowed):
        parse(value)
