"""Folders that are uploaded file by file: each becomes one source, a tar archive with the paths of its files."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import BinaryIO, NamedTuple

from onward.app import App
from onward.blobs import Blob, BlobMissing
from onward.ops.bad_input import BadInput
from onward.ops.submissions import check_takes_sources
from onward.ops.text.format import counted, number, one_line
from onward.pipeline.fetch.containers import member_path
from onward.pipeline.fetch.fetch_errors import UnsafeMember
from onward.pipeline.uploads import Upload, clean_name

MAX_FOLDER_FILES = 10_000
MAX_PATH_CHARACTERS = 1_000
LISTED = 5  # of many wrong paths, this many are named


class FolderFile(NamedTuple):
    path: str  # relative to the folder
    digest: str  # of its bytes, which were uploaded before


class StoredFolder(NamedTuple):
    source: str
    write: Callable[[BinaryIO], None]  # writes its bytes once more, for `keep_upload`


def store_folder(app: App, name: str, files: Sequence[FolderFile]) -> StoredFolder:
    """Store a folder of files that were uploaded before; no event is published yet.

    The same files under the same paths are the same bytes, in whatever order they are given.
    """
    check_takes_sources(app)
    members = sorted(_checked(files))
    sizes = [(path, _found(app, path, digest)) for path, digest in members]
    total, most = sum(blob.size for _, blob in sizes), app.settings.unpack_max_bytes
    if total > most:
        remedy = "send parts of it, or raise ONWARD_UNPACK_MAX_BYTES"
        raise BadInput(
            f"the folder has {number(total)} bytes, more than the {number(most)} that are read: {remedy}"
        )
    write = partial(_write, app, sizes)
    try:
        digest = app.blobs.put(write).digest
    except BlobMissing as error:
        raise BadInput(f"a file of the folder was removed meanwhile: send the folder again ({error})") from None
    return StoredFolder(Upload(digest, clean_name(f"{clean_name(name)}.tar")).location, write)


def _checked(files: Sequence[FolderFile]) -> list[FolderFile]:
    if not 1 <= len(files) <= MAX_FOLDER_FILES:
        raise BadInput(
            f"the folder has {counted(len(files), 'file')}: give 1 to {number(MAX_FOLDER_FILES)}; send parts of "
            "a larger one, or ingest it on the machine of the store"
        )
    found: dict[str, str] = {}
    twice: list[str] = []
    for given in files:
        path = _checked_path(given.path)
        if path in found:
            twice.append(path)
        found[path] = given.digest
    if twice:
        names = ", ".join(repr(one_line(path, 100)) for path in twice[:LISTED])
        raise BadInput(f"{counted(len(twice), 'path')} given more than once: {names}: give each file once")
    return [FolderFile(path, digest) for path, digest in found.items()]


def _checked_path(given: str) -> str:
    shown = repr(one_line(given, 100))
    try:
        path = member_path(given)
    except UnsafeMember:
        raise BadInput(f"the path {shown} is not one inside the folder: give a relative path") from None
    if len(path) > MAX_PATH_CHARACTERS:
        raise BadInput(
            f"the path {shown} has {len(path)} characters, and may have {number(MAX_PATH_CHARACTERS)}: shorten it"
        )
    return path


def _found(app: App, path: str, digest: str) -> Blob:
    # Counted as stored now, so that it is not collected before the archive is written.
    blob = app.blobs.find(digest) if app.blobs.renew(digest) else None
    if blob is None:
        raise BadInput(
            f"the file {one_line(path, 100)!r} is not here: send it to POST /v3/uploads first; it is kept a day"
        )
    return blob


def _write(app: App, members: Sequence[tuple[str, Blob]], target: BinaryIO) -> None:
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path, blob in members:
            member = tarfile.TarInfo(path)  # without a time or an owner: only paths and contents count
            member.size = blob.size
            with closing(app.blobs.open(blob.digest)) as content:
                archive.addfile(member, content)
